/* The questions breakdown, overlap and kernel_types: how the time of a rank's devices divides by type of work. */
#include "analyze/device/device_rows.h"
#include "analyze/device/gaps.h"
#include "analyze/overview/steps.h"

#include <math.h>

enum { COMPUTE = 1 << TG__TYPE_COMPUTATION, COMMUNICATE = 1 << TG__TYPE_COMMUNICATION, MOVE = 1 << TG__TYPE_MEMORY };

static double percent(int64_t part, int64_t whole) { return whole ? 100.0 * (double)part / (double)whole : NAN; }

static int64_t span_of(const struct tg__spans *s) {
  return s->count ? s->items[s->count - 1].end - s->items[0].start : 0;
}

/* ---- breakdown ------------------------------------------------------------------------------- */

struct breakdown {
  struct tg_table *out;
  bool by_device, by_steps;
  struct tg__spans steps; /* of the rank, with by_steps */
  struct tg__spans all, compute, other;
};

/* The steps of a rank, joined; its recording where it has none. False on no memory. */
static bool read_steps(const struct tg__columns *t, uint32_t rank, struct tg__spans *out, struct tg_table *notes) {
  struct tg__breakdown b;
  bool ok = !tg__steps_breakdown(t, rank, TG__STEPS_DETECTED, &b);
  if (ok && !b.count && !notes) { /* of findings, which judge only a device */
    tg__breakdown_free(&b);
    ok = !tg__steps_breakdown(t, rank, TG__STEPS_CALLS, &b);
  }
  out->count = 0;
  if (ok) tg__steps_leave_out_first(&b);
  for (size_t i = 0; ok && i < b.count; i++) tg__spans_add(out, b.steps[i].start_ns, b.steps[i].end_ns);
  tg__spans_union(out);
  const long long number = (long long)t->ranks[rank].number;
  const double ms = (double)tg__spans_length(out) / 1e6;
  if (ok && notes && b.source == TG__STEPS_RECORDING)
    tg__table_note(notes, "rank %lld: shares are of the %.2f ms from the first operator to the end of the last", number,
                   ms);
  else if (ok && notes)
    tg__table_note(notes, "rank %lld: shares are of %zu step%s, %.2f ms", number, b.count, b.count == 1 ? "" : "s", ms);
  if (ok) tg__breakdown_free(&b);
  return ok && !out->failed;
}

/* What of these spans is inside the steps. */
static bool cut(struct breakdown *b, struct tg__spans *s) {
  struct tg__spans inside = {0};
  if (!b->by_steps) return true;
  tg__spans_intersect(s, &b->steps, &inside);
  tg__spans_free(s);
  *s = inside;
  return !inside.failed;
}

static bool read_spans(struct breakdown *b, const struct tg__device_rows *d, int types, int64_t device,
                       struct tg__spans *out) {
  return tg__device_spans(d, types, device, out) && cut(b, out);
}

static int64_t summed_ns(const struct breakdown *b, const struct tg__device_rows *d, int64_t device) {
  int64_t sum = 0;
  for (size_t i = 0; i < d->count; i++) {
    const struct tg__device_row *const r = &d->rows[i];
    if (device != TG_NULL_INT && r->device != device) continue;
    sum += b->by_steps ? tg__spans_inside(&b->steps, r->start_ns, r->end_ns) : r->end_ns - r->start_ns;
  }
  return sum;
}

static bool put_breakdown(struct breakdown *b, const struct tg__device_rows *d, int64_t device) {
  if (!read_spans(b, d, TG__EVERY_TYPE, device, &b->all) || !read_spans(b, d, COMPUTE, device, &b->compute))
    return false;
  const int64_t span = b->by_steps ? tg__spans_length(&b->steps) : span_of(&b->all), busy = tg__device_length(&b->all),
                compute = tg__device_length(&b->compute);
  tg__put_rank(b->out, d->t, d->rank);
  tg__put_int(b->out, device);
  tg__put_int(b->out, span);
  tg__put_int(b->out, busy);
  tg__put_int(b->out, compute);
  tg__put_int(b->out, busy - compute);
  tg__put_int(b->out, span - busy);
  if (!read_spans(b, d, COMMUNICATE, device, &b->other)) return false;
  tg__put_int(b->out, tg__device_length(&b->other));
  if (!read_spans(b, d, MOVE, device, &b->other)) return false;
  tg__put_int(b->out, tg__device_length(&b->other));
  tg__put_int(b->out, summed_ns(b, d, device));
  tg__put_real(b->out, percent(busy, span));
  tg__put_real(b->out, percent(compute, span));
  tg__put_real(b->out, percent(busy - compute, span));
  tg__put_real(b->out, percent(span - busy, span));
  return true;
}

/* The device after this one; false: there is none. */
static bool next_device(const struct tg__device_rows *d, int64_t *device) {
  int64_t next = INT64_MAX;
  bool more = false;
  for (size_t i = 0; i < d->count; i++)
    if (d->rows[i].device > *device && d->rows[i].device <= next) next = d->rows[i].device, more = true;
  *device = next;
  return more;
}

static bool breakdown_of_rank(struct tg__device_rows *d, void *ctx) {
  struct breakdown *b = ctx;
  if (d->count == 0) return true;
  if (b->by_steps && !read_steps(d->t, d->rank, &b->steps, b->out)) return false;
  if (!b->by_device) return put_breakdown(b, d, TG_NULL_INT);
  for (int64_t device = INT64_MIN; next_device(d, &device);) /* equals TG_NULL_INT: no device has this number */
    if (!put_breakdown(b, d, device)) return false;
  return true;
}

enum tg_err tg__answer_breakdown(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                 struct tg_error *e) {
  static const char *const choices[] = {"rank", "device"}, *const windows[] = {"work", "steps"};
  struct breakdown b = {.out = out};
  size_t by, window;
  enum tg_err err = tg__ask_choice(a, "by", choices, 2, &by, e);
  if (!err) err = tg__ask_choice(a, "window", windows, 2, &window, e);
  if (err) return err;
  b.by_device = by != 0;
  b.by_steps = window != 0;
  err = tg__device_each_rank(t, a, breakdown_of_rank, &b, e);
  tg__spans_free(&b.steps);
  tg__spans_free(&b.all);
  tg__spans_free(&b.compute);
  tg__spans_free(&b.other);
  return err;
}

struct busy {
  struct tg__spans steps, all, inside;
  int64_t ns, devices;
};

static bool busy_of_rank(struct tg__device_rows *d, void *ctx) {
  struct busy *const b = ctx;
  if (!read_steps(d->t, d->rank, &b->steps, NULL)) return false;
  for (int64_t device = INT64_MIN; next_device(d, &device);) {
    if (!tg__device_spans(d, TG__EVERY_TYPE, device, &b->all)) return false;
    tg__spans_intersect(&b->all, &b->steps, &b->inside);
    b->ns += tg__spans_length(&b->inside);
    b->devices++;
  }
  return !b->inside.failed;
}

bool tg__devices_busy(const struct tg__columns *t, uint32_t rank, double *pct, size_t *devices) {
  const struct tg__ask a = {.rank = rank};
  struct busy b = {0};
  const bool ok = !tg__device_each_rank(t, &a, busy_of_rank, &b, NULL);
  *pct = percent(b.ns, tg__spans_length(&b.steps) * b.devices);
  *devices = (size_t)b.devices;
  tg__spans_free(&b.steps);
  tg__spans_free(&b.all);
  tg__spans_free(&b.inside);
  return ok;
}

/* ---- overlap --------------------------------------------------------------------------------- */

struct overlap {
  struct tg_table *out;
  bool by_step;
  struct tg__spans all, compute, communicate, both;
};

static void put_overlap(struct tg_table *out, int64_t communication, int64_t computation, int64_t both, int64_t total) {
  tg__put_int(out, communication);
  tg__put_int(out, computation);
  tg__put_int(out, both);
  tg__put_int(out, communication - both);
  tg__put_real(out, percent(both, communication));
  tg__put_int(out, total);
  tg__put_real(out, percent(communication, total));
}

static bool is_asked_step(const struct tg__ask *a, uint32_t step) {
  if (!a->has_steps) return true;
  for (size_t i = 0; i < a->window_count; i++)
    if (a->windows[i].step == step) return true;
  return false;
}

static void put_breakdown_step(struct overlap *o, const struct tg__device_rows *d, const struct tg__step_cost *s) {
  char number[24] = "";
  struct tg__out text = {.buf = number, .cap = sizeof number};
  if (!is_asked_step(d->a, s->step)) return;
  if (s->step != TG_NONE) tg__out_int(&text, d->t->steps[s->step].number);
  tg__put_rank(o->out, d->t, d->rank);
  tg__put_text(o->out, (struct tg__str){number, (uint32_t)text.len});
  put_overlap(o->out, tg__spans_inside(&o->communicate, s->start_ns, s->end_ns),
              tg__spans_inside(&o->compute, s->start_ns, s->end_ns), tg__spans_inside(&o->both, s->start_ns, s->end_ns),
              s->end_ns - s->start_ns);
}

static bool overlap_of_rank(struct tg__device_rows *d, void *ctx) {
  struct overlap *o = ctx;
  if (d->count == 0) return true;
  if (!tg__device_spans(d, TG__EVERY_TYPE, TG_NULL_INT, &o->all) ||
      !tg__device_spans(d, COMPUTE, TG_NULL_INT, &o->compute) ||
      !tg__device_spans(d, COMMUNICATE, TG_NULL_INT, &o->communicate))
    return false;
  tg__spans_intersect(&o->compute, &o->communicate, &o->both);
  if (o->both.failed) return false;
  if (!o->by_step) {
    tg__put_rank(o->out, d->t, d->rank);
    tg__put_null(o->out);
    put_overlap(o->out, tg__device_length(&o->communicate), tg__device_length(&o->compute), tg__device_length(&o->both),
                span_of(&o->all));
    return true;
  }
  struct tg__breakdown b;
  const enum tg_err err = tg__steps_breakdown(d->t, d->rank, TG__STEPS_DETECTED, &b);
  for (size_t i = 0; i < b.count && !err; i++) put_breakdown_step(o, d, &b.steps[i]);
  tg__breakdown_free(&b);
  return !err;
}

enum tg_err tg__answer_overlap(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                               struct tg_error *e) {
  static const char *const choices[] = {"rank", "step"};
  struct overlap o = {.out = out};
  size_t by;
  enum tg_err err = tg__ask_choice(a, "by", choices, 2, &by, e);
  if (err) return err;
  o.by_step = by != 0;
  err = tg__device_each_rank(t, a, overlap_of_rank, &o, e);
  tg__spans_free(&o.all);
  tg__spans_free(&o.compute);
  tg__spans_free(&o.communicate);
  tg__spans_free(&o.both);
  return err;
}

/* ---- kernel_types ---------------------------------------------------------------------------- */

enum { TYPES = 3, SETS = 1 << TYPES }; /* bit k of a set: enum tg__work_type k + 1 */

struct types {
  struct tg_table *out;
  bool by_rank;
  unsigned count; /* of types that are looked at: the last is MEMORY */
  struct tg__spans spans[TYPES];
  int64_t sums[SETS];
};

static void put_types(struct types *w, const struct tg__device_rows *d) {
  int64_t total = 0;
  uint32_t order[SETS], sets = 0;
  for (uint32_t set = 1; set < SETS; set++) {
    if (!w->sums[set]) continue;
    total += w->sums[set];
    uint32_t k = sets++;
    for (; k > 0 && w->sums[order[k - 1]] < w->sums[set]; k--) order[k] = order[k - 1];
    order[k] = set;
  }
  for (uint32_t i = 0; i < sets; i++) {
    char name[80] = "";
    for (unsigned k = 0; k < TYPES; k++) {
      if (!(order[i] >> k & 1)) continue;
      if (*name) strcat(name, " overlapping ");
      strcat(name, tg__work_type_names[k + 1]);
    }
    if (d)
      tg__put_rank(w->out, d->t, d->rank);
    else
      tg__put_null(w->out);
    tg__put_cstr(w->out, name);
    tg__put_int(w->out, w->sums[order[i]]);
    tg__put_real(w->out, percent(w->sums[order[i]], total));
  }
  memset(w->sums, 0, sizeof w->sums);
}

/* Walks the three lists of spans together; in each the current span is the first that has not ended. */
static void sum_sets(struct types *w) {
  size_t at[TYPES] = {0};
  int64_t now = INT64_MIN;
  for (;;) {
    unsigned on = 0;
    int64_t next = INT64_MAX;
    for (unsigned k = 0; k < w->count; k++) {
      const struct tg__spans *s = &w->spans[k];
      while (at[k] < s->count && s->items[at[k]].end <= now) at[k]++;
      if (at[k] == s->count) continue;
      const struct tg__span span = s->items[at[k]];
      const int64_t edge = span.start <= now ? span.end : span.start;
      on |= (unsigned)(span.start <= now) << k;
      if (edge < next) next = edge;
    }
    if (next == INT64_MAX) return;
    if (on) w->sums[on] += next - now;
    now = next;
  }
}

static bool types_of_rank(struct tg__device_rows *d, void *ctx) {
  struct types *w = ctx;
  for (unsigned k = 0; k < w->count; k++)
    if (!tg__device_spans(d, 1 << (k + 1), TG_NULL_INT, &w->spans[k])) return false;
  sum_sets(w);
  if (w->by_rank) put_types(w, d);
  return true;
}

enum tg_err tg__answer_kernel_types(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                    struct tg_error *e) {
  static const char *const choices[] = {"rank", "all"};
  struct types w = {.out = out};
  size_t by;
  int64_t memory;
  enum tg_err err = tg__ask_choice(a, "by", choices, 2, &by, e);
  if (!err) err = tg__ask_integer(a, "memory", &memory, e);
  if (err) return err;
  w.by_rank = by == 0;
  w.count = memory ? TYPES : TYPES - 1;
  err = tg__device_each_rank(t, a, types_of_rank, &w, e);
  if (!err && !w.by_rank) put_types(&w, NULL);
  for (unsigned k = 0; k < TYPES; k++) tg__spans_free(&w.spans[k]);
  return err;
}
