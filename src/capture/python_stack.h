/* Shared by the files about Python's stack: the chain of a thread's frames with their numbers, and the calls of
 * modules among them. */
#ifndef TG_PYTHON_STACK_H
#define TG_PYTHON_STACK_H

#include "capture/python_api.h"
#include "capture/python_frames.h"

/* ---- the chain of a thread (python_stack.c) -------------------------------------------------- */

/* One frame as it was at the last look, outermost first. */
struct tg__link {
  const struct tg__frame *frame, *previous;
  const void *mark; /* instruction; code object when only modules are recorded */
  const void *self; /* of a module's call: the module; else NULL */
  uint32_t node;    /* STACK entry up to here */
  uint32_t call;    /* innermost call of a module at or around it, as tg__module_call numbers them; 0 = none */
};

/* A node of the prefix tree: below which entry, which key, its number. */
struct tg__node {
  uint64_t key; /* 0 = free place */
  uint32_t above, id, call;
};

struct tg__chain {
  struct tg__link *links;
  const struct tg__frame **fresh; /* scratch: frames not in `links` yet, innermost first; as many places */
  uint32_t room, depth;
  uint32_t looks;              /* how often it was brought up to date */
  const PyThreadState *thread; /* the thread of the last walk */
  uint64_t spans;              /* of modules, that began on this thread */
  struct tg__node *nodes;      /* open addressing; nodes_room is a power of two */
  uint32_t nodes_room, nodes_used;
};

/* The calling thread's chain for this session; NULL when there is no room. */
struct tg__chain *tg__chain_slow(struct tg__thread *t);
static inline struct tg__chain *tg__chain(struct tg__thread *t) {
  struct tg__chain *const c = t->own[TG_SLOT_STACK];
  return TG_LIKELY(c && t->own_generation[TG_SLOT_STACK] == t->generation) ? c : tg__chain_slow(t);
}
/* Bring the chain up to date with the calling thread's frames and return its innermost link; NULL when there are
 * none. */
const struct tg__link *tg__chain_now(struct tg__thread *t, struct tg__chain *c);
/* The same as operators look, with only lines or modules. */
const struct tg__link *tg__chain_look(struct tg__thread *t, struct tg__chain *c);
/* Room for `want` links; false when that is more than is followed, or no memory. */
bool tg__chain_room(struct tg__chain *c, uint32_t want);

enum tg_err tg__stack_prepare(struct tg_error *e); /* can frames be read? */
/* TG_RECORD_STACKS or TG_RECORD_MODULES: tg__stack_of follows. false: the interpreter has ended. */
bool tg__stack_switch(uint32_t features, bool on);
/* Take the GIL; false when the interpreter is shutting down. The Python extension calls the session without it, so
 * that a source that waits for it here cannot be waited for. */
bool tg__gil_take(void);
void tg__gil_release(void);

/* ---- links and their numbers ----------------------------------------------------------------- */

extern const PyCodeObject *_Atomic tg__module_code; /* of nn.Module.__call__, while modules are recorded; else NULL */

/* A function that is shown: not a mark, not a frame that Python hides, and none of Tachograph's own. Those have no
 * STACK entry, as have frames that there is no room for. */
static inline bool tg__link_is_shown(const struct tg__chain *c, const struct tg__link *l) {
  return l->node != (l > c->links ? l[-1].node : 0);
}

static inline void tg__link_read(struct tg__link *l, const struct tg__frame *f, bool lines) {
  const PyCodeObject *const module_code = atomic_load_explicit(&tg__module_code, memory_order_relaxed),
                            *const code = tg__frame_code(f);
  l->frame = f;
  l->previous = tg__frame_previous(f);
  l->mark = lines ? tg__frame_instr(f) : (const void *)code;
  l->self = module_code && code == module_code && !tg__frame_is_mark(f) ? tg__frame_local(f, 0) : NULL;
}

static inline uint64_t tg__module_key(const void *self) { return ~((uint64_t)(uintptr_t)self << 8); }

/* The place of a node, or where it would be put. */
static inline struct tg__node *tg__node_find(const struct tg__chain *c, uint32_t above, uint64_t key) {
  const size_t mask = c->nodes_room - 1;
  size_t at = (size_t)((key ^ (uint64_t)above << 40) * 0x9e3779b97f4a7c15u >> 32) & mask;
  while (c->nodes[at].key && (c->nodes[at].key != key || c->nodes[at].above != above)) at = (at + 1) & mask;
  return &c->nodes[at];
}
void tg__link_number_new(struct tg__thread *t, struct tg__chain *c, struct tg__link *link, uint32_t above,
                         uint32_t call, uint64_t key);

/* Number the link at place i, from its own fields and those of the one around it. */
static inline void tg__link_number(struct tg__thread *t, struct tg__chain *c, uint32_t i, bool lines) {
  struct tg__link *const link = &c->links[i];
  const uint32_t above = i ? link[-1].node : 0, call = i ? link[-1].call : 0;
  link->node = above;
  link->call = call;
  if (!link->self && (!lines || tg__frame_is_mark(link->frame))) return;
  const uint64_t key = link->self ? tg__module_key(link->self) : (uint64_t)(uintptr_t)link->mark;
  const struct tg__node *const known = tg__node_find(c, above, key);
  if (TG_UNLIKELY(!known->key)) {
    tg__link_number_new(t, c, link, above, call, key);
    return;
  }
  link->node = known->id;
  link->call = known->call;
}

/* ---- for sources that see every call of the thread: no look at all frames ---------------------------- */

/* The link of a frame that is known to run, its line as it is now; NULL when the chain does not have it as it is.
 * Links around it hold without a look: each was brought up to date when it made its call, and waits since. */
static inline struct tg__link *tg__chain_touch(struct tg__thread *t, struct tg__chain *c, const struct tg__frame *f) {
  uint32_t n = c->depth;
  /* what is passed over has returned, and was put there by a call as well */
  while (n && c->links[n - 1].frame != f) n--;
  if (!n || c->links[n - 1].previous != tg__frame_previous(f)) return NULL;
  struct tg__link *const l = &c->links[n - 1];
  c->depth = n;
  if (l->mark != tg__frame_instr(f)) {
    tg__link_read(l, f, true);
    tg__link_number(t, c, n - 1, true);
  }
  return l;
}
/* Frame f calls C. */
static inline const struct tg__link *tg__chain_caller(struct tg__thread *t, struct tg__chain *c,
                                                      const struct tg__frame *f) {
  const struct tg__link *const l = tg__chain_touch(t, c, f);
  return TG_LIKELY(l != NULL) ? l : tg__chain_now(t, c);
}
/* Frame f is entered. */
static inline const struct tg__link *tg__chain_enter(struct tg__thread *t, struct tg__chain *c,
                                                     const struct tg__frame *f) {
  const struct tg__frame *const around = tg__frame_previous(f);
  const bool marked = around && tg__frame_is_mark(around);
  const struct tg__frame *const caller = marked ? tg__frame_previous(around) : around;
  if (TG_UNLIKELY(!caller || !tg__chain_touch(t, c, caller) ||
                  (c->depth + 2 > c->room && !tg__chain_room(c, c->depth + 2))))
    return tg__chain_now(t, c);
  if (marked) {
    tg__link_read(&c->links[c->depth], around, true);
    tg__link_number(t, c, c->depth++, true);
  }
  tg__link_read(&c->links[c->depth], f, true);
  tg__link_number(t, c, c->depth++, true);
  return &c->links[c->depth - 1];
}

/* Of the last look, the call of module `self` that has just returned to the thread's innermost frame; NULL when it
 * is not there. Only for a caller that knows that the look was in that call: the thread's state still stands. Around
 * the call lies its caller, and on 3.12 and newer a mark between them, as C makes the call. */
static inline const struct tg__link *tg__module_link(const struct tg__chain *c, const void *self) {
  const struct tg__frame *const caller = tg__frame_innermost(c->thread);
  for (uint32_t i = c->depth; i-- > 0;) {
    const struct tg__link *const l = &c->links[i];
    if (l->self != self) continue;
    if (l->previous == caller || (i && l[-1].frame == l->previous && l[-1].previous == caller)) return l;
  }
  return NULL;
}
/* STACK entry of the call of module `self` that the calling thread's innermost frame makes, as operators in it have
 * it; 0 = none to be had. */
uint32_t tg__module_node(struct tg__thread *t, struct tg__chain *c, const void *self);
/* For a caller that numbers frames from the outside in, in a chain of its own: *above becomes the STACK entry of the
 * place below it; key: what the place is known by there. A place that was not seen before needs the GIL, and a code
 * object that is alive. */
bool tg__place_known(const struct tg__chain *c, uint32_t *above, uint64_t key);
void tg__place_new(struct tg__thread *t, struct tg__chain *c, uint32_t *above, const PyCodeObject *code, int line,
                   uint64_t key);

/* Below *above, inside the call of a module *call, a frame that is not in any chain; module: its number, 0 = no call of
 * one. Both become its own. Without the GIL; the code object is kept. */
void tg__frame_put(struct tg__thread *t, uint32_t *above, uint32_t *call, const PyCodeObject *code, int line,
                   uint32_t module);

/* ---- modules (python_modules.c) -------------------------------------------------------------- */

/* Without the GIL. Number of a module object in this session, from 1; 0 = no room, or NULL. */
uint32_t tg__module_number(const void *self);
uint32_t tg__module_number_of(const void *self, const void *type); /* of an object that may be gone; its type is not */
/* A STACK entry is the call of a module, inside the call `above` (0 = none): number of this call, from 1. Its MODULE
 * entry follows when Python runs next. */
uint32_t tg__module_call(const struct tg__thread *t, uint32_t stack, uint32_t module, uint32_t above);
/* The function that every call of a module goes through, a new reference; NULL when torch.nn is not loaded. With the
 * GIL. */
PyObject *tg__module_function(void);
extern const struct tg__source tg__source_module_spans; /* python_module_spans.c */
/* Write the MODULE entries that are owed, those that are certain or (last) all. With the GIL. */
void tg__modules_write_paths(bool last);

#endif
