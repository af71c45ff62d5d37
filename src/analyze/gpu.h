/* gpu.h: how busy a device was, by three measures. */
#ifndef TG_GPU_H
#define TG_GPU_H

#include "analyze/analyze.h"

struct tg__gpu {
  uint32_t rank;
  int64_t device;
  int64_t kernels;      /* in the whole recording */
  double utilization;   /* share of the window in which a kernel runs, 0..1; NaN for an empty window */
  double sm_efficiency; /* mean over the window of min(1, blocks per SM of what runs), 0..1; NaN when no kernel states it */
  double occupancy_pct; /* estimated achieved occupancy, mean weighted by the time inside the window; NaN when no kernel states it */
  struct tg__window window;
};

/* One entry for each device of the rank that has kernels, by device number; the window goes from the first step to the last, or
 * from the first operator to the last where there are no steps. TG_OK or TG_MEMORY; free *out either way with tg__free.
 * Needs TG__COL_CORE, TG__COL_ARGS and TG__COL_CAUSE. */
enum tg_err tg__gpu_measure(const struct tg_trace *t, uint32_t rank, struct tg__gpu **out, size_t *count);

#endif
