/* What the files about Python's stack share: the chain of a thread's frames with their numbers, and the calls of modules among them. */
#ifndef TG_PYTHON_STACK_H
#define TG_PYTHON_STACK_H

#include "capture/python_door.h"
#include "capture/python_frames.h"

/* ---- the chain of a thread (python_stack.c) ------------------------------------------------------------------------------------ */

/* One frame as it was at the last look, outermost first. */
struct tg__link {
  const struct tg__frame *frame, *previous;
  const void *mark; /* instruction; code object when only modules are recorded */
  const void *self; /* of a module's call: the module; else NULL */
  uint32_t node;    /* STACK entry up to here */
  uint32_t call;    /* innermost call of a module at or around it, as tg__module_call numbers them; 0 = none */
};

/* Not a function that Python would show. */
static inline bool tg__link_is_hidden(const struct tg__link *l) {
  return tg__frame_is_mark(l->frame) || tg__frame_is_hidden(l->frame, tg__frame_code(l->frame));
}

/* A node of the prefix tree: below which entry, which key, its number. */
struct tg__node {
  uint64_t key; /* 0 = free place */
  uint32_t above, id, call;
};

struct tg__chain {
  struct tg__link *links;
  const struct tg__frame **fresh; /* scratch: frames not in `links` yet, innermost first; as many places */
  uint32_t room, depth;
  struct tg__node *nodes; /* open addressing; nodes_room is a power of two */
  uint32_t nodes_room, nodes_used;
};

/* The calling thread's chain for this session; NULL when there is no room. */
struct tg__chain *tg__chain_slow(struct tg__thread *t);
static inline struct tg__chain *tg__chain(struct tg__thread *t) {
  struct tg__chain *const c = t->own[TG_SLOT_STACK];
  return TG_LIKELY(c && t->own_generation[TG_SLOT_STACK] == t->generation) ? c : tg__chain_slow(t);
}
/* Bring the chain up to date with the calling thread's frames and return its innermost link; NULL when there are none. */
const struct tg__link *tg__chain_now(struct tg__thread *t, struct tg__chain *c);
/* The same for who sees every call of the thread, in much less time: a frame is entered; the frame that runs calls C. */
const struct tg__link *tg__chain_enter(struct tg__thread *t, struct tg__chain *c, const struct tg__frame *f);
const struct tg__link *tg__chain_caller(struct tg__thread *t, struct tg__chain *c, const struct tg__frame *f);

enum tg_err tg__stack_prepare(struct tg_error *e); /* can frames be read? */
/* TG_RECORD_STACKS or TG_RECORD_MODULES: tg__stack_of follows. false: the interpreter has ended. */
bool tg__stack_switch(uint32_t features, bool on);
extern const PyCodeObject *_Atomic tg__module_code; /* of nn.Module.__call__, while modules are recorded; else NULL */

/* The GIL, when the interpreter is there to give it; false at its end. The door calls the session without it, so
 * that a source that waits for it here cannot be waited for. */
bool tg__gil_take(void);
void tg__gil_give(void);

/* ---- modules (python_modules.c) ---------------------------------------------------------------------------------------------------- */

/* Without the GIL, at first sight. Number of a module object in this session, from 1; 0 = no room. */
uint32_t tg__module_number(const void *self);
/* A STACK entry is the call of a module, inside the call `above` (0 = none): number of this call, from 1. Its MODULE entry follows when
 * Python runs next. */
uint32_t tg__module_call(const struct tg__thread *t, uint32_t stack, uint32_t module, uint32_t above);
/* Write the MODULE entries that are owed, those that are certain or (last) all. With the GIL. */
void tg__modules_settle(bool last);

#endif
