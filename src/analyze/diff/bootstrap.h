/* bootstrap: how far a figure over steps may be off by chance, found by drawing the steps again.
 *
 * Circular block bootstrap: a draw takes blocks of about cube-root-of-n consecutive steps, so that slow phases of a
 * machine count as one accident and not as many. Seeds are fixed: the same two traces have the same interval
 * everywhere. */
#ifndef TG_BOOTSTRAP_H
#define TG_BOOTSTRAP_H

#include "analyze/analyze.h"

enum {
  TG__DRAWS = 2000,
  TG__DRAW_LEAST = 3,   /* steps below which no interval is given */
  TG__DRAW_MOST = 8192, /* steps; more are not drawn from: 64 MB of weights */
};
struct tg__draws {
  float *weights; /* how often each draw took each step: [step][draw] */
  size_t steps;
  /* percentiles of a bootstrap are too narrow for few steps by this much (Student against normal, n against n − 1) */
  double widen;
};
/* false on no memory; steps from TG__DRAW_LEAST to TG__DRAW_MOST. */
bool tg__draws_make(struct tg__draws *d, size_t steps, uint64_t seed);
void tg__draws_free(struct tg__draws *d);
/* The mean over all steps in every draw: value[i] at step[i], zero at the others. */
void tg__draws_mean(const struct tg__draws *d, const uint32_t *step, const int64_t *value, size_t count,
                    double out[TG__DRAWS]);
/* The q-quantile of the values, one a step, in every draw; false on no memory. */
bool tg__draws_quantile(const struct tg__draws *d, const int64_t *value, double q, double out[TG__DRAWS]);

/* What two sets of draws say about b − a, both figures known exactly. */
struct tg__change {
  double low, high; /* 95 % */
  double p;         /* chance of so large a difference where there is none; two-sided */
};
struct tg__change tg__draws_change(const struct tg__draws *a, double figure_a, const double of_a[TG__DRAWS],
                                   const struct tg__draws *b, double figure_b, const double of_b[TG__DRAWS]);

double tg__student_tail(double t, double freedom); /* P(|T| > t) */
double tg__student_point(double freedom);          /* the t with P(|T| > t) = 5 % */

#endif
