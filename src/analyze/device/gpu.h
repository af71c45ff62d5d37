/* gpu.h: how busy a device was, by three measures. */
#ifndef TG_GPU_H
#define TG_GPU_H

#include "analyze/analyze.h"

struct tg__gpu {
  uint32_t rank;
  int64_t device;
  int64_t kernels;    /* in the whole recording */
  int64_t busy_ns;    /* a kernel runs: inside the window */
  double utilization; /* share of the window in which a kernel runs, 0..1; NaN for an empty window */
  /* mean over the window of min(1, blocks per SM of what runs), 0..1; NaN when no kernel states it */
  double sm_efficiency;
  /* estimated achieved occupancy, mean weighted by the time inside the window; NaN when no kernel states it */
  double occupancy_pct;
  struct tg__window window;
};

/* One entry for each device of the rank that has kernels, by device number; the window goes from the first step to
 * the last, or from the first operator to the last where there are no steps. TG_OK or TG_MEMORY; free *out either
 * way with tg__free. Measured once and kept with the trace. Needs TG__COL_CORE, TG__COL_ARGS and TG__COL_CAUSE. */
enum tg_err tg__gpu_measure(const struct tg__columns *t, uint32_t rank, struct tg__gpu **out, size_t *count);

/* What kernels ask of the SMs over time: blocks per SM of all that run at once, capped at 1. Zero-initialised it is
 * empty. */
struct tg__sm_point {
  int64_t ns, blocks; /* what begins (above 0) or ends there, in a fixed-point unit */
};
struct tg__sm_load {
  struct tg__sm_point *items;
  size_t count, cap;
  bool failed; /* out of memory */
};
typedef void tg__sm_visitor(void *ctx, int64_t start_ns, int64_t end_ns, long double share);
void tg__sm_load_add(struct tg__sm_load *p, int64_t start_ns, int64_t end_ns, double blocks_per_sm);
/* Stretches of one share above 0, by time. */
void tg__sm_load_sweep(struct tg__sm_load *p, tg__sm_visitor *visit, void *ctx);
void tg__sm_load_free(struct tg__sm_load *p);

#endif
