/* device_figures: means of the counters that devices have of themselves. */
#ifndef TG_DEVICE_FIGURES_H
#define TG_DEVICE_FIGURES_H

#include "analyze/analyze.h"

/* device_figures.c: utilisation, power, clocks and the like as NVIDIA's library states them while a recording runs;
 * texts are those of the trace. Returns how many there are. Needs TG__COL_ALL of marks. */
enum { TG__DEVICE_FIGURES = 64 };
struct tg__device_figure {
  struct tg__str device, name; /* "0", "power" */
  char unit[16];
  double mean; /* over the recording */
};
size_t tg__device_figures(const struct tg__columns *t, uint32_t rank, struct tg__device_figure out[TG__DEVICE_FIGURES]);

#endif
