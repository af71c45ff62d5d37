/* step_change: the steps run with a change in them, private to this folder. */
#ifndef TG_STEP_CHANGE_H
#define TG_STEP_CHANGE_H

#include "replay/step_proof.h"

struct tg__changed_steps {
  const struct tg__replay_graph *g;
  const struct tg__replay_times *times; /* by node */
  const int64_t *dur_ns;                /* by node, as changed */
  const bool *is_removed;               /* by slice of the rank: the event is gone */
  const int64_t *before_ns, *after_ns;  /* by step: as replayed without the change, and with it */
  size_t selected;                      /* calls and pieces of work */
};
/* Takes the steps while they are there; false on no memory. */
typedef bool tg__see_changed_fn(void *ctx, const struct tg__changed_steps *c);

/* The change of the step's length, paired step by step. A saving may be below 0. see is called once where the model
 * holds, NULL = never. TG_OK or TG_MEMORY. Needs TG__COL_ALL. */
enum tg_err tg__replay_change(const struct tg__columns *t, uint32_t rank, const struct tg__replay_change *changes,
                              size_t count, struct tg__saving *out, tg__see_changed_fn *see, void *ctx);

/* The same for all ranks, which wait for each other in their collectives: a change applies to `only`,
 * or to each of them (TG_NONE). out: by rank. notes gets what of other ranks is in it. */
enum tg_err tg__replay_change_ranks(const struct tg__columns *t, const struct tg__replay_change *changes, size_t count,
                                    uint32_t only, struct tg__saving *out, tg__see_changed_fn *see, void *ctx,
                                    struct tg_table *notes);

/* What nothing explains may belong to the node before it: then it changes in proportion. By node: dur_ns as changed
 * otherwise, and changed here. */
void tg__replay_scale_unexplained(const struct tg__replay_graph *g, const bool *is_gone, int64_t *dur_ns);

/* step_events.c: when each event of the steps happens with the change. */
enum tg__placed_state { TG__PLACED_OUTSIDE, TG__PLACED_REMOVED, TG__PLACED_KEPT }; /* OUTSIDE: of no modelled step */
struct tg__placed {
  uint8_t *state;             /* by slice of the rank: enum tg__placed_state */
  int64_t *start_ns, *end_ns; /* by slice of the rank, of those kept */
  int64_t *mark_ns;           /* by mark of the rank; TG_NULL_INT: outside, removed, or a part of a slice */
  int64_t *step_ns;           /* by step: its begin on the host, then its end; */
};
bool tg__place_events(const struct tg__changed_steps *c, struct tg__placed *out); /* false on no memory */
void tg__placed_free(struct tg__placed *p);

#endif
