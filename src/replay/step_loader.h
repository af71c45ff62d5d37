/* step_loader: a data loader with worker processes in the graph, private to this folder.
 *
 * A batch is a node of the worker that makes it. Workers take turns; each makes one batch after the other. A batch is
 * asked for when the loop takes the one that is `ahead` before it, and the loop takes the batches in order. */
#ifndef TG_STEP_LOADER_H
#define TG_STEP_LOADER_H

#include "replay/step_graph.h"

struct tg__replay_fetch { /* nodes */
  uint32_t first, last;   /* in which the loop fetches; it has the batch at the end of the last */
  uint32_t batch;         /* of the worker */
  /* Of a loader that has workers already: what its worker did for the batch, nodes; TG_NONE: not in the steps. */
  uint32_t made_first, made_last;
  int64_t made_ns; /* where these are not in the steps, and it is known; else -1 */
  bool has_worker;
};
struct tg__replay_loader {
  size_t workers, ahead; /* ahead: batches of all workers that are asked for, and not taken */
  struct tg__replay_fetch *fetches;
  size_t count, cap;     /* 0: no loader */
  bool is_unknown;       /* for most batches that workers made the recording does not have how long they took */
  int64_t usual_made_ns; /* what a worker took for a batch, median; 0: no batch of a worker is known */
  int64_t usual_own_ns;  /* what the loop took to receive it */
  int64_t least_ns;      /* of a step, on average: what its thread computes, spread over all cores; 0: not known */
};

/* Lets workers make what the loop fetches in these calls: the outermost that the change selects. Where other workers
 * made it, these take their place, and as long for each batch. The graph gets new nodes; l->count is 0 where nothing is
 * selected, and where it is not known what workers take. Out of memory sets g->failed. */
void tg__replay_add_loader(struct tg__replay_graph *g, const struct tg__replay_change *change,
                           struct tg__replay_loader *l);
void tg__replay_loader_close(struct tg__replay_loader *l);
/* By node: batches take what the loop's fetches take, and these nothing any more; or what the workers before took, for
 * which the loop no longer waits. */
void tg__replay_hand_over(const struct tg__replay_graph *g, const struct tg__replay_loader *l, int64_t *dur_ns,
                          bool *is_gone);

/* How long each step takes. With a loader the steps are repeated until its queue is as it stays. Its workers
 * hand over their batches several at a time: a step then takes the mean of as many as all workers serve in one turn,
 * from it on. false on no memory. */
bool tg__replay_run_steps(const struct tg__replay_graph *g, const struct tg__replay_loader *l, const int64_t *dur_ns,
                          const bool *is_gone, struct tg__replay_times *x, int64_t *step_ns);
/* The same mean of steps without the loader, to be compared with these. false on no memory. */
bool tg__replay_mean_steps(const struct tg__replay_graph *g, const struct tg__replay_loader *l, int64_t *step_ns);

#endif
