/* step_proof: what shows that a graph may be used, private to this folder. */
#ifndef TG_STEP_PROOF_H
#define TG_STEP_PROOF_H

#include "replay/step_graph.h"

enum {
  TG__PROOF_LEAST_ALLOWED_PCT = 2, /* of error in steps that hardly differ */
  TG__PROOF_SHARE_POINTS = 3,      /* busy, waiting and idle shares may be off by this much */
  TG__PROOF_UNEXPLAINED_PCT = 15,  /* of the path */
  TG__PROOF_UNMATCHED_PCT = 10,    /* of the time of the even steps */
  TG__PROOF_USUAL_TIMES = 2,       /* the median: a longer step would outweigh all others */
  TG__PROOF_BROKEN_PCT = 1,        /* work without a launch, edges that lead back in time */
};
/* Where the time between the first and the last end goes, along what each node waited for last. They add up. */
struct tg__replay_path {
  int64_t host_ns, gap_ns, work_ns, launch_ns, unexplained_ns;
};
struct tg__replay_usage { /* of a lane in the even steps, recorded and predicted */
  int64_t busy_ns, wait_ns, replayed_busy_ns, replayed_wait_ns;
  int64_t path_ns; /* of the path */
};
struct tg__step_proof {
  size_t steps;
  int64_t *recorded_ns, *replayed_ns; /* by step */
  int64_t *predicted_ns;              /* by step; those at even places, from 0, with durations of their neighbours */
  struct tg__replay_usage *usage;     /* by lane */
  int64_t even_ns, even_predicted_ns; /* all even steps that are not far too long */
  struct tg__replay_path path;
  double recorded_median_ns, replayed_median_ns;
  uint32_t worst_lane; /* with the largest error of shares */
  double self_error_pct, half_error_pct, allowed_pct, half_allowed_pct, share_error_points, unexplained_pct,
      unmatched_pct;
  char why_not[200], help[200]; /* "" where it is proven */
};
/* self_ns, half_ns: by node, not before these, as recorded and in the predicted steps; NULL = nothing is held. p is to
 * be closed either way. TG_OK or TG_MEMORY. */
enum tg_err tg__prove_steps(struct tg__step_proof *p, const struct tg__replay_graph *g, const int64_t *self_ns,
                            const int64_t *half_ns);
void tg__step_proof_close(struct tg__step_proof *p);

/* A step that is long once in a while has calls that no other has, and more time than all others together. */
static inline bool tg__proof_is_usual(int64_t step_ns, double median_ns) {
  return (double)step_ns <= TG__PROOF_USUAL_TIMES * median_ns;
}
/* Does a thread beside that of the steps wait for another one there, as the one that feeds a queue of a loader? It does
 * so for as long as nothing comes, however the steps go. A sample does no work, either. */
bool tg__replay_is_idle(const struct tg__replay_graph *g, uint32_t node);
/* Whether the lane is a thread of another process than the one with the steps, or one that hands over to it. */
bool tg__replay_lane_is_elsewhere(const struct tg__replay_graph *g, uint32_t lane);

/* dur_ns, by node: each even step has those of the step behind it, or before it; false on no memory. unmatched_pct: of
 * the time of the even steps' calls and work, the share without a like in the neighbour. Pairs in which a step takes
 * over TG__PROOF_USUAL_TIMES as long as the median do not count. step_ns: of each step, as recorded. */
bool tg__replay_swap_halves(const struct tg__replay_graph *g, const int64_t *step_ns, double median_ns, int64_t *dur_ns,
                            double *unmatched_pct);

void tg__replay_sort(int64_t *values, size_t count);                      /* the least first */
bool tg__replay_median(const int64_t *values, size_t count, double *out); /* values stay; false on no memory */

/* step_range.c: the median of what each step saves, and where eight of ten draws of the steps have it; false on no
 * memory. */
bool tg__replay_draw(const int64_t *saved, size_t steps, struct tg__saving *out);

#endif
