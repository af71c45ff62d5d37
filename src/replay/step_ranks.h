/* step_ranks: the graphs of all ranks of a job as one, private to this folder.
 *
 * In a collective each rank waits for the last one. Then all transfer, for as long as the rank takes that has the
 * shortest collective. In the graph of a rank its work is the transfer only, at the end of the recorded collective; in
 * the graph of all it begins when the delays before it have ended on every rank. */
#ifndef TG_STEP_RANKS_H
#define TG_STEP_RANKS_H

#include "replay/step_proof.h"

struct tg__replay_job {
  const struct tg__columns *t;
  uint32_t count;                  /* ranks */
  struct tg__replay_graph *graphs; /* by rank */
  struct tg__replay_graph all;     /* their nodes, rank by rank, then those in which they meet */
  size_t *first;                   /* by rank: its first node of all; and one more */
  int64_t *held_ns;                /* by node of all: not before; the begin of its rank's steps */
  /* The same, and a transfer not before the others come: as recorded; with the durations of each second step in its
   * neighbour. */
  int64_t *self_ns, *half_ns;
  size_t met, kept; /* collectives that ranks share: in the model; as recorded, as a rank is missing */
  int64_t missing;  /* number of the first such rank, or a rank without a model; -1 */
};

/* TG_OK or TG_MEMORY; to be closed either way. Needs TG__COL_ALL of all ranks. */
enum tg_err tg__replay_job_open(struct tg__replay_job *j, const struct tg__columns *t);
void tg__replay_job_close(struct tg__replay_job *j);
/* One pass over all ranks; arrays by node of all, as those of tg__replay_run. */
void tg__replay_job_run(const struct tg__replay_job *j, const int64_t *dur_ns, const bool *is_gone,
                        struct tg__replay_times *x);
/* What the pass found for one rank, for functions that take its graph. */
struct tg__replay_times tg__replay_job_times(const struct tg__replay_job *j, uint32_t rank,
                                             const struct tg__replay_times *all);
enum tg_err tg__replay_job_prove(struct tg__step_proof *p, const struct tg__replay_job *j, uint32_t rank);
void tg__replay_job_note(const struct tg__replay_job *j, struct tg_table *out); /* says what of other ranks is in it */

#endif
