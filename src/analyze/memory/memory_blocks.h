/* memory_blocks: every block of memory in a trace: allocated when, by which operator, freed when, and
 * what it held.
 *
 *   memory_places.c    what surrounds each slice (operator, backward node, module, optimizer), and when backward
 *                      passes ran
 *   memory_follow.c    allocations and frees become blocks; the program's notes on its tensors are laid over them
 *   memory_category.c  what each block was for; memory_stack_category.c: those of memory snapshots
 *
 * Everything is linear in the events, but for sorting. */
#ifndef TG_MEMORY_BLOCKS_H
#define TG_MEMORY_BLOCKS_H

#include "analyze/host/frames.h"
#include "analyze/host/op_tree.h"

/* ---- places (memory_places.c) ---------------------------------------------------------------- */

enum { /* flags of a place */
       TG__PLACE_LOADER = 1,
       TG__PLACE_COLLECTIVE = 2,
       TG__PLACE_RECOMPUTED = 4, /* a module runs inside a backward node: its forward is being repeated */
};
/* What is around a slice, itself included; slices, TG_NONE = nothing of the kind. */
struct tg__place {
  uint32_t op, top;   /* innermost operator; outermost one */
  uint32_t backward;  /* outermost backward node */
  uint32_t link;      /* innermost backward node with a known forward operator */
  uint32_t module;    /* innermost call of a module */
  uint32_t optimizer; /* the optimizer's step */
  uint8_t flags;
};
struct tg__pass { /* a backward pass: nodes with no other outermost operator between them */
  int64_t start_ns, end_ns;
};
struct tg__process_passes {
  struct tg__pass *items; /* by start */
  size_t count, cap;
};
struct tg__places {
  const struct tg__columns *t;
  struct tg__place *around;          /* by slice */
  uint32_t *process_of;              /* by track: processes of the same rank and pid are one */
  struct tg__process_passes *passes; /* by process */
  size_t process_count;
  uint32_t *next; /* by track: first slice that has not begun at the time asked for last */
};
bool tg__places_open(struct tg__places *p, const struct tg__columns *t); /* false on no memory; close it either way */
void tg__places_close(struct tg__places *p);
/* What the thread was doing; for times that rise on each track. */
struct tg__place tg__place_at(struct tg__places *p, uint32_t track, int64_t ns);
/* Passes of the process the track belongs to: the first that begins after ns, and the one that is going on at ns;
 * NULL. */
const struct tg__pass *tg__pass_after(const struct tg__places *p, uint32_t track, int64_t ns);
const struct tg__pass *tg__pass_during(const struct tg__places *p, uint32_t track, int64_t ns);

/* Sums of bytes: a trace may say any number, and the sum stays a number. */
static inline int64_t tg__sum_bytes(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? (a < 0 ? INT64_MIN + 1 : INT64_MAX) : sum;
}

static inline int64_t tg__time_between(int64_t from_ns, int64_t to_ns) {
  int64_t span;
  return __builtin_sub_overflow(to_ns, from_ns, &span) ? INT64_MAX : span;
}

/* ---- blocks (memory_follow.c) ---------------------------------------------------------------- */

enum tg__held { /* the categories, in the order of tables */
#define HELD(name, text, meaning) TG__HELD_##name,
#include "analyze/memory/memory_held.def"
#undef HELD
                TG__HELD_COUNT
};
extern const char *const tg__held_names[TG__HELD_COUNT];
enum tg__basis {
  TG__BASIS_NONE,
  TG__BASIS_REGISTERED,
  TG__BASIS_LIFETIME,
  TG__BASIS_PLACE
}; /* how the category is known */
extern const char *const tg__basis_names[];

struct tg__block {
  int64_t bytes;
  int64_t made_ns, freed_ns; /* TG_NULL_INT: before the trace; not in the trace */
  uint64_t addr;
  uint32_t device; /* of tg__blocks.devices */
  uint32_t track;  /* where it was made, else where it was freed or registered */
  uint32_t mark;   /* of its allocation, TG_NONE */
  struct tg__place made, freed;
  uint32_t tensor; /* string id: name of the tensor in it */
  uint32_t module; /* text of tg__blocks.texts: path of the module it was made for; TG_NONE = outside of any */
  uint8_t held, basis;
};
struct tg__block_change { /* of the alive set, in the order it happened */
  int64_t ts_ns;
  uint32_t block;
  bool made; /* else freed */
};
struct tg__block_device {
  int64_t rank, type, id; /* host memory is one device: type 0, id -1 */
  bool wanted;            /* by the question that is being answered */
  int64_t before;         /* bytes of blocks from before the trace */
  int64_t peak, peak_ns;  /* most bytes alive at once; peak_ns TG_NULL_INT: it is never above what was there before */
  size_t peak_change;     /* the change that reached it; SIZE_MAX likewise */
};
struct tg__blocks_seen {
  int64_t events;       /* allocations and frees */
  int64_t without_addr; /* of them: say no address, so they cannot be followed */
  int64_t registered;   /* tensors that the program reported */
  int64_t blocks;
};
struct tg__blocks {
  const struct tg__columns *t;
  struct tg__block *items;
  size_t count, cap;
  struct tg__block_change *changes;
  size_t change_count, change_cap;
  struct tg__block_device *devices; /* by rank, type, id */
  size_t device_count, device_cap;
  struct tg__strings *texts;       /* module paths */
  struct tg__map path_of, line_of; /* module slice → text; slice or stack → text */
  struct tg__blocks_seen *of_rank; /* by rank */
  struct tg__blocks_seen seen;     /* of the ranks the question is about */
};
/* All blocks of the trace, which keeps them: several questions are about them. The ranks and devices asked for
 * (arguments rank, device) are `wanted`. TG_NO_DATA when the trace has no memory events. */
enum tg_err tg__blocks_read(const struct tg__columns *t, const struct tg__ask *a, struct tg__blocks **out,
                            struct tg_error *e);
/* Two cells: rank, device. */
void tg__put_block_device(struct tg_table *out, const struct tg__blocks *b, uint32_t device);
/* text: id in b->texts, TG_NONE = unknown. */
void tg__put_block_text(struct tg_table *out, const struct tg__blocks *b, uint32_t text);
/* The notes that say how far these answers can be trusted. */
void tg__blocks_notes(const struct tg__blocks *b, struct tg_table *out);
static inline bool tg__block_is_counted(const struct tg__blocks *b, const struct tg__block *x) {
  return b->devices[x->device].wanted;
}
/* By block: was it alive when its device had most in use? NULL on no memory; freed with tg__free. */
bool *tg__blocks_at_peak(const struct tg__blocks *b);
/* Where in the program it was made, "train.py(12): forward", as a text of `texts`; TG_NONE when the trace has no
 * stacks. */
uint32_t tg__block_line(struct tg__blocks *b, const struct tg__block *x);

/* The rows of the question memory with by=peak and by=category (memory_peak.c). */
enum tg_err tg__memory_put_peak(const struct tg__columns *t, const struct tg__ask *a, bool by_category,
                                struct tg_table *out, struct tg_error *e);

/* ---- what it was for (memory_category.c) ----------------------------------------------------- */

/* Sets held, basis and module of all blocks. false on no memory. */
bool tg__blocks_judge(struct tg__blocks *b, const struct tg__places *p);
bool tg__blocks_judge_by_stacks(struct tg__blocks *b); /* of those around which there is no operator */
/* Text of its path; TG_NONE for none, or on no memory. */
uint32_t tg__block_module(struct tg__blocks *b, const struct tg__places *p, uint32_t module_slice);
/* The layer of a module path: up to its first number ("encoder.layers.3.linear" is of encoder.layers.3), else its
 * first part, or of names of classes (Net_0.Block_1.Linear_2) the first two. */
struct tg__str tg__layer_of(struct tg__str path);
/* The forward operator a block was made for: the one around it, or that of the backward node; a slice, TG_NONE. */
uint32_t tg__block_forward_op(const struct tg__blocks *b, const struct tg__block *x);

#endif
