/* device_peaks: what a device can do at most, from device_peaks.def, from a measurement in the trace (CPUs), or
 * as the user says. */
#ifndef TG_DEVICE_PEAKS_H
#define TG_DEVICE_PEAKS_H

#include "analyze/analyze.h"
#include "analyze/work/work.h"

struct tg__peaks {
  double flops[TG__PRECISION_COUNT]; /* FLOP/s by precision; 0 = not known */
  double bytes;                      /* of memory, bytes/s; 0 = not known */
  char source[160];                  /* "NVIDIA H100 80GB HBM3 (data sheet of 2022)"; empty when nothing is known */
  bool is_measured;                  /* of a CPU: it may have been too low */
  char withheld[240];                /* why a measured peak is not taken; empty where all are */
};
/* Of the device of a rank's kernels, or of its CPU when it has none. The arguments peak_tflops and peak_gbs of `a`
 * overrule what is known. TG_USAGE when they are no numbers above zero. */
enum tg_err tg__peaks_of(const struct tg__columns *t, const struct tg__ask *a, uint32_t rank, bool on_device,
                         struct tg__peaks *out, struct tg_error *e);
void tg__peaks_known(const struct tg__columns *t, uint32_t rank, bool on_device, struct tg__peaks *out);
/* A program that computes faster than the peak that was measured: the measurement was too low, and is not taken. */
void tg__peaks_withhold(struct tg__peaks *p, struct tg__str faster, double flop_per_s, double peak);
/* Notes of an answer: where the peaks are from, which were not taken and why, `unknown` where there are none; and that
 * nothing is faster than its peak where rows of an answer have a share of it, in this column, above 100 %. */
void tg__note_peaks(const struct tg__peaks *p, const char *column, const char *unknown, struct tg_table *out);
bool tg__peaks_of_device(struct tg__str name, struct tg__peaks *out); /* only by the list */

#endif
