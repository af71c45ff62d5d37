/* How fast the machine went: two recordings of one program on one machine differ by its clock, its temperature and what
 * else shares its cores, and then everything in them differs alike. */
#include "analyze/diff/diff.h"

#include <math.h>

enum { LEAST_OPERATORS = 5 }; /* of fewer a change of the program may be the most */
static const double LEAST_SHARE = 0.002, SAME_CALLS = 0.001, EXPLAINED = 1.0 / 3;
static const double LEAST_OF_STEP = 0.2; /* a step that sleeps goes on at the same pace whatever the machine does */
static const double LEFT = 1.5;          /* by so much what goes at one pace was never seen to differ */

static double time_of(const struct tg__shape_cost *c, bool of_device) { return of_device ? c->device_ns : c->self_ns; }

/* The ratio of an operator's time a call, NaN where the two are not the same work, or too short to say anything. */
static double ratio_of(const struct tg__shape_row *r, const double steps[TG__SIDES], bool of_device, double least_ns) {
  const double a = time_of(&r->of[0], of_device), b = time_of(&r->of[1], of_device);
  const double calls_a = r->of[0].calls / steps[0], calls_b = r->of[1].calls / steps[1];
  if (!(a > least_ns && b > 0) || fabs(calls_a - calls_b) > SAME_CALLS * calls_a) return NAN;
  return b / r->of[1].calls / (a / r->of[0].calls);
}

static bool is_lower(uint32_t a, uint32_t b, const void *ctx) {
  const double *const x = ctx;
  return x[a] < x[b];
}

static bool find_median(double *x, size_t n, double *median) {
  uint32_t *const order = tg__order_new(n, is_lower, x);
  if (!order) return false;
  *median = n % 2 ? x[order[n / 2]] : (x[order[n / 2 - 1]] + x[order[n / 2]]) / 2;
  tg__free(order);
  return true;
}

bool tg__diff_pace_find(const struct tg__diff_side *const sides[TG__SIDES], struct tg__diff_pace *out) {
  const double steps[TG__SIDES] = {(double)sides[0]->count, (double)sides[1]->count};
  struct tg__diff_shapes both = {0};
  double total_ns = 0, device_ns = 0;
  *out = (struct tg__diff_pace){.factor = NAN};
  bool ok = true;
  for (int side = 0; ok && side < TG__SIDES; side++) ok = tg__diff_shapes_add(&both, side, &sides[side]->shapes);
  for (size_t i = 0; i < both.count; i++) device_ns += both.rows[i].of[0].device_ns;
  out->of_device = device_ns > 0;
  for (size_t i = 0; i < both.count; i++) total_ns += time_of(&both.rows[i].of[0], out->of_device);
  out->step_ns = total_ns / steps[0];
  double *const ratios = tg__alloc((both.count + 1) * sizeof *ratios);
  ok = ok && ratios;
  for (size_t i = 0; ok && i < both.count; i++) {
    const double x = ratio_of(&both.rows[i], steps, out->of_device, LEAST_SHARE * total_ns);
    if (!isnan(x)) ratios[out->operators++] = x;
  }
  if (ok && out->operators >= LEAST_OPERATORS) ok = find_median(ratios, out->operators, &out->factor);
  tg__free(ratios);
  tg__diff_shapes_free(&both);
  return ok;
}

bool tg__diff_pace_explains(const struct tg__diff_pace *p, double a, double b) {
  if (!(p->factor > 0 && a > 0 && b > 0 && a != b) || p->step_ns < LEAST_OF_STEP * a) return false;
  return log(p->factor) / log(b / a) >= EXPLAINED && fabs(log(b / a / p->factor)) < log(LEFT);
}
