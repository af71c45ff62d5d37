/* Drawing steps again, and Student's distribution to judge by. */
#include "analyze/diff/bootstrap.h"

#include <math.h>

/* ---- Student's distribution ------------------------------------------------------------------ */

/* The continued fraction of the incomplete beta function, by Lentz's method. */
static double beta_fraction(double a, double b, double x) {
  enum { MOST = 300 };
  const double tiny = 1e-300;
  double c = 1, d = 1 - (a + b) * x / (a + 1);
  d = 1 / (fabs(d) < tiny ? tiny : d);
  double h = d;
  for (int m = 1; m < MOST; m++) {
    const double second_term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double first_term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double step = 1;
    for (int k = 0; k < 2; k++) {
      const double term = k ? first_term : second_term;
      d = 1 + term * d;
      d = 1 / (fabs(d) < tiny ? tiny : d);
      c = 1 + term / c;
      if (fabs(c) < tiny) c = tiny;
      step = c * d;
      h *= step;
    }
    if (fabs(step - 1) < 1e-14) break;
  }
  return h;
}

static double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(1 - x));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double tg__student_tail(double t, double freedom) {
  return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t));
}

double tg__student_point(double freedom) {
  double low = 1, high = 64; /* 1.96 for many steps, 12.7 for two */
  for (int i = 0; i < 60; i++) {
    const double middle = (low + high) / 2;
    if (tg__student_tail(middle, freedom) > 0.05)
      low = middle;
    else
      high = middle;
  }
  return low;
}

/* ---- drawing --------------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *state) { /* splitmix64 */
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

static size_t below(uint64_t *state, size_t n) { return (size_t)((unsigned __int128)next_random(state) * n >> 64); }

static size_t block_length(size_t steps) { /* the cube root, rounded; in integers, so that no two machines differ */
  size_t n = 1;
  while ((2 * n + 1) * (2 * n + 1) * (2 * n + 1) <= 8 * steps) n++;
  return n;
}

bool tg__draws_make(struct tg__draws *d, size_t steps, uint64_t seed) {
  const double normal = 1.959963984540054;
  const double n = (double)steps;
  *d = (struct tg__draws){.steps = steps, .widen = tg__student_point(n - 1) / normal * sqrt(n / (n - 1))};
  d->weights = tg__alloc(steps * TG__DRAWS * sizeof *d->weights);
  if (!d->weights) return false;
  const size_t length = block_length(steps);
  uint64_t state = seed;
  for (size_t draw = 0; draw < TG__DRAWS; draw++) {
    for (size_t taken = 0; taken < steps;) {
      size_t at = below(&state, steps);
      for (size_t k = 0; k < length && taken < steps; k++, taken++, at = at + 1 == steps ? 0 : at + 1)
        d->weights[at * TG__DRAWS + draw] += 1;
    }
  }
  return true;
}

void tg__draws_free(struct tg__draws *d) {
  tg__free(d->weights);
  d->weights = NULL;
}

void tg__draws_mean(const struct tg__draws *d, const uint32_t *step, const int64_t *value, size_t count,
                    double out[TG__DRAWS]) {
  float sum[TG__DRAWS] = {0}; /* seven digits: an interval has no more */
  for (size_t i = 0; i < count; i++) {
    const float v = (float)value[i];
    const float *w = &d->weights[(size_t)step[i] * TG__DRAWS];
    for (size_t r = 0; r < TG__DRAWS; r++) sum[r] += v * w[r];
  }
  for (size_t r = 0; r < TG__DRAWS; r++) out[r] = (double)sum[r] / (double)d->steps;
}

static bool less_value(uint32_t a, uint32_t b, const void *ctx) {
  return ((const int64_t *)ctx)[a] < ((const int64_t *)ctx)[b];
}

/* The value at place `k` of one draw, its steps in the order of their values. *i, *seen: where the walk stands. */
static double walk_to(const struct tg__draws *d, const int64_t *value, const uint32_t *order, size_t draw, size_t k,
                      size_t *i, size_t *seen) {
  while (*i + 1 < d->steps && *seen + (size_t)d->weights[order[*i] * TG__DRAWS + draw] <= k)
    *seen += (size_t)d->weights[order[(*i)++] * TG__DRAWS + draw];
  return (double)value[order[*i]];
}

bool tg__draws_quantile(const struct tg__draws *d, const int64_t *value, double q, double out[TG__DRAWS]) {
  uint32_t *order = tg__order_new(d->steps, less_value, value);
  if (!order) return false;
  const double place = q * (double)(d->steps - 1);
  const size_t below_place = (size_t)place;
  for (size_t draw = 0; draw < TG__DRAWS; draw++) {
    size_t i = 0, seen = 0;
    const double low = walk_to(d, value, order, draw, below_place, &i, &seen);
    const double high = below_place + 1 < d->steps ? walk_to(d, value, order, draw, below_place + 1, &i, &seen) : low;
    out[draw] = low + (high - low) * (place - (double)below_place);
  }
  tg__free(order);
  return true;
}

/* ---- judging --------------------------------------------------------------------------------- */

enum {
  TAIL = TG__DRAWS / 40 + 1
}; /* draws at either end that the 2.5th percentile needs: a full sort costs ten times as much */

/* The smallest values seen, in order. */
struct tail {
  double kept[TAIL];
  size_t count;
};

static void see(struct tail *t, double v) {
  if (t->count == TAIL && v >= t->kept[TAIL - 1]) return;
  size_t i = t->count < TAIL ? t->count++ : TAIL - 1;
  for (; i > 0 && t->kept[i - 1] > v; i--) t->kept[i] = t->kept[i - 1];
  t->kept[i] = v;
}

static double percentile(const struct tail *t) {
  const double place = 0.025 * (TG__DRAWS - 1);
  const size_t i = (size_t)place;
  return t->kept[i] + (t->kept[i + 1] - t->kept[i]) * (place - (double)i);
}

struct tg__change tg__draws_change(const struct tg__draws *a, double figure_a, const double of_a[TG__DRAWS],
                                   const struct tg__draws *b, double figure_b, const double of_b[TG__DRAWS]) {
  const double delta = figure_b - figure_a;
  struct tail lowest = {.count = 0}, highest = {.count = 0};
  double squares = 0;
  for (size_t r = 0; r < TG__DRAWS; r++) {
    const double off = b->widen * (of_b[r] - figure_b) - a->widen * (of_a[r] - figure_a);
    squares += off * off;
    see(&lowest, delta + off);
    see(&highest, -delta - off);
  }
  struct tg__change c = {0 + percentile(&lowest), 0 - percentile(&highest), 1}; /* adding makes -0 into 0 */
  /* Widening made the spread fit the 5 % point; the tail itself is Student's with the freedom of the shorter side. */
  const double freedom = (double)(a->steps < b->steps ? a->steps : b->steps) - 1;
  const double spread = sqrt(squares / TG__DRAWS) * 1.959963984540054 / tg__student_point(freedom);
  if (spread > 0)
    c.p = tg__student_tail(fabs(delta) / spread, freedom);
  else if (delta != 0)
    c.p = 0;
  return c;
}
