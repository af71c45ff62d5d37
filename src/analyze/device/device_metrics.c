/* The question device_metrics: how busy each device was, as one figure over the steps and as a curve. */
#include "analyze/device/gpu.h"
#include "analyze/device/tensor_cores.h"
#include "analyze/host/op_tree.h"

#include <math.h>
#include <stdlib.h>

enum { AUTO_BUCKETS = 100, MOST_BUCKETS = 1000000 };

struct bucket {
  int64_t kernels, busy_ns;
  long double sm_area, occupancy_area, occupancy_ns, tensor_ns, kernel_ns;
};
struct work {
  const struct tg__columns *t;
  const struct tg__ask *ask;
  struct tg_table *out;
  struct tg__tensor_names tensor;
  int64_t bucket_ns; /* 0 = chosen for each rank */
  /* by=time, one device at a time */
  struct bucket *buckets;
  size_t count;
  int64_t begin_ns, end_ns, width_ns;
  struct tg__spans busy;
  struct tg__sm_load load;
};

static void put_share(struct tg_table *out, double share, bool known) {
  if (known && !isnan(share))
    tg__put_real(out, 100 * share);
  else
    tg__put_null(out);
}

static void put_device(const struct work *w, const struct tg__gpu *g) {
  const struct tg__rank *r = &w->t->ranks[g->rank];
  uint32_t name = TG_NONE;
  for (size_t i = 0; i < r->device_count; i++)
    if (r->devices[i].id == g->device) name = r->devices[i].name;
  tg__put_rank(w->out, w->t, g->rank);
  tg__put_int(w->out, g->device);
  tg__put_trace_text(w->out, w->t, name);
}

/* ---- one row a device ------------------------------------------------------------------------ */

/* Of the whole recording; by some rules only of what operators launched. */
static double tensor_share(struct work *w, const struct tg__gpu *g) {
  const struct tg__rank *r = &w->t->ranks[g->rank];
  long double all = 0, tensor = 0;
  TG__EACH (k, tg__tracks_of(r)) {
    const struct tg__track *track = &w->t->tracks[k];
    for (uint32_t i = track->first; track->device == g->device && i < track->first + track->count; i++) {
      if (tg__slice_class(w->t, i) != TG__CLASS_KERNEL) continue;
      if (w->tensor.rules->launched_alone && tg__launching_op(w->t, i) == TG_NONE) continue;
      all += (long double)w->t->slices.dur_ns[i];
      if (tg__tensor_unit(&w->tensor, w->t->slices.name[i]) == TG__UNIT_TENSOR_CORE)
        tensor += (long double)w->t->slices.dur_ns[i];
    }
  }
  return all > 0 ? (double)(tensor / all) : NAN;
}

static void put_metric_summary(struct work *w, const struct tg__gpu *g) {
  put_device(w, g);
  tg__put_int(w->out, g->window.start_ns);
  tg__put_int(w->out, g->window.end_ns - g->window.start_ns);
  tg__put_int(w->out, g->kernels);
  tg__put_int(w->out, g->busy_ns);
  put_share(w->out, g->utilization, true);
  put_share(w->out, g->sm_efficiency, true);
  put_share(w->out, g->occupancy_pct / 100, true);
  put_share(w->out, tensor_share(w, g), true);
}

/* ---- the curve ------------------------------------------------------------------------------- */

static struct bucket *bucket_at(const struct work *w, int64_t ns) {
  const uint64_t k = (uint64_t)(ns - w->begin_ns) / (uint64_t)w->width_ns;
  return &w->buckets[k < w->count ? k : w->count - 1];
}

/* The last row reaches to the end of the recording: what is left of a division belongs to it. */
static int64_t bucket_end(const struct work *w, size_t k) {
  return k + 1 < w->count ? w->begin_ns + (int64_t)(k + 1) * w->width_ns : w->end_ns;
}

/* Calls `add` with the part of [start, end) in each row. */
static void divide(struct work *w, int64_t start, int64_t end, void (*add)(struct bucket *b, int64_t ns, long double x),
                   long double x) {
  if (start < w->begin_ns) start = w->begin_ns;
  if (end > w->end_ns) end = w->end_ns;
  while (start < end) {
    struct bucket *b = bucket_at(w, start);
    const int64_t stop = bucket_end(w, (size_t)(b - w->buckets)), here = stop < end ? stop : end;
    add(b, here - start, x);
    start = here;
  }
}

static void add_busy(struct bucket *b, int64_t ns, long double x) {
  (void)x;
  b->busy_ns += ns;
}
static void add_sm(struct bucket *b, int64_t ns, long double share) { b->sm_area += share * (long double)ns; }
static void add_kernel_time(struct bucket *b, int64_t ns, long double uses_tensor_cores) {
  b->kernel_ns += (long double)ns;
  b->tensor_ns += uses_tensor_cores * (long double)ns;
}
static void add_occupancy(struct bucket *b, int64_t ns, long double pct) {
  b->occupancy_area += pct * (long double)ns;
  b->occupancy_ns += (long double)ns;
}
static void see_load(void *ctx, int64_t start, int64_t end, long double share) {
  divide(ctx, start, end, add_sm, share);
}

static void add_metric_kernel(struct work *w, uint32_t slice) {
  const int64_t start = w->t->slices.start_ns[slice], end = tg__slice_end(w->t, slice);
  if (start < w->begin_ns || start > w->end_ns) return;
  const uint32_t args = w->t->slices.args[slice];
  const double occupancy = tg__kernel_occupancy(w->t, args);
  bucket_at(w, start)->kernels++;
  tg__spans_add(&w->busy, start, end);
  tg__sm_load_add(&w->load, start, end, tg__arg_real(w->t, args, TG__K_BLOCKS_PER_SM, 0));
  divide(w, start, end, add_kernel_time, tg__tensor_unit(&w->tensor, w->t->slices.name[slice]) == TG__UNIT_TENSOR_CORE);
  if (!isnan(occupancy)) divide(w, start, end, add_occupancy, occupancy);
}

static void put_curve(struct work *w, const struct tg__gpu *g) {
  for (size_t k = 0; k < w->count; k++) {
    const struct bucket *b = &w->buckets[k];
    const int64_t start = w->begin_ns + (int64_t)k * w->width_ns, length = bucket_end(w, k) - start;
    put_device(w, g);
    tg__put_int(w->out, start);
    tg__put_int(w->out, length);
    tg__put_int(w->out, b->kernels);
    tg__put_int(w->out, b->busy_ns);
    put_share(w->out, (double)b->busy_ns / (double)length, length > 0);
    put_share(w->out, (double)(b->sm_area / (long double)length), length > 0 && w->load.count > 0);
    put_share(w->out, (double)(b->occupancy_area / b->occupancy_ns) / 100, b->occupancy_ns > 0);
    put_share(w->out, (double)(b->tensor_ns / b->kernel_ns), b->kernel_ns > 0);
  }
}

static enum tg_err answer_curve(struct work *w, const struct tg__gpu *g) {
  const struct tg__rank *r = &w->t->ranks[g->rank];
  memset(w->buckets, 0, w->count * sizeof *w->buckets);
  w->busy.count = w->load.count = 0;
  TG__EACH (k, tg__tracks_of(r)) {
    const struct tg__track *track = &w->t->tracks[k];
    for (uint32_t i = track->first; track->device == g->device && i < track->first + track->count; i++)
      if (tg__slice_class(w->t, i) == TG__CLASS_KERNEL) add_metric_kernel(w, i);
  }
  tg__spans_union(&w->busy);
  for (size_t i = 0; i < w->busy.count; i++) divide(w, w->busy.items[i].start, w->busy.items[i].end, add_busy, 0);
  tg__sm_load_sweep(&w->load, see_load, w);
  if (w->busy.failed || w->load.failed) return TG_MEMORY;
  put_curve(w, g);
  return TG_OK;
}

/* The recording's own span where it has one, else from the first event to the end of the last. */
static void find_range(struct work *w, uint32_t rank) {
  const struct tg__rank *r = &w->t->ranks[rank];
  bool any = false;
  w->begin_ns = w->end_ns = 0;
  TG__EACH (k, tg__tracks_of(r)) {
    const struct tg__track *track = &w->t->tracks[k];
    TG__EACH (i, tg__slices_of(track)) {
      const int64_t start = w->t->slices.start_ns[i], end = tg__slice_end(w->t, i);
      if (tg__slice_class(w->t, i) == TG__CLASS_SPAN &&
          tg__str_eq(tg__name(w->t, w->t->slices.name[i]), TG_STR("PyTorch Profiler (0)"))) {
        w->begin_ns = start;
        w->end_ns = end;
        return;
      }
      if (!any || start < w->begin_ns) w->begin_ns = start;
      if (!any || end > w->end_ns) w->end_ns = end;
      any = true;
    }
  }
}

static enum tg_err make_buckets(struct work *w, uint32_t rank, struct tg_error *e) {
  find_range(w, rank);
  const uint64_t range = (uint64_t)w->end_ns - (uint64_t)w->begin_ns;
  w->width_ns = w->bucket_ns ? w->bucket_ns : 1000;
  while (!w->bucket_ns && range / (uint64_t)w->width_ns > AUTO_BUCKETS - (range % (uint64_t)w->width_ns != 0))
    w->width_ns *= 10;
  const uint64_t count = range / (uint64_t)w->width_ns;
  if (count > MOST_BUCKETS)
    return tg__fail(e, TG_USAGE, -1, "bucket_us=%s cuts the recording into %llu rows; at most %d are given",
                    tg__ask_arg(w->ask, "bucket_us"), (unsigned long long)count, MOST_BUCKETS);
  w->count = count ? (size_t)count : 1;
  tg__free(w->buckets);
  w->buckets = tg__alloc(w->count * sizeof *w->buckets);
  return w->buckets ? TG_OK : TG_MEMORY;
}

/* ---- answering ------------------------------------------------------------------------------- */

static enum tg_err answer_metric_of_rank(struct work *w, uint32_t rank, bool by_time, struct tg_error *e) {
  struct tg__gpu *devices;
  size_t count;
  enum tg_err err = tg__gpu_measure(w->t, rank, &devices, &count);
  if (!err && by_time && count) err = make_buckets(w, rank, e);
  for (size_t i = 0; !err && i < count; i++) {
    if (by_time)
      err = answer_curve(w, &devices[i]);
    else
      put_metric_summary(w, &devices[i]);
  }
  tg__free(devices);
  return err;
}

static enum tg_err parse_bucket(struct work *w, struct tg_error *e) {
  const char *text = tg__ask_arg(w->ask, "bucket_us");
  if (strcmp(text, "auto") == 0) return TG_OK;
  char *end;
  const double us = strtod(text, &end);
  if (*end || end == text || !(us >= 0.001) || us > 1e15)
    return tg__fail(e, TG_USAGE, -1,
                    "bucket_us=%.60s is not a width in microseconds, from 0.001 on: use a number, or auto", text);
  w->bucket_ns = llround(us * 1000);
  return TG_OK;
}

enum tg_err tg__answer_device_metrics(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                      struct tg_error *e) {
  static const char *const choices[] = {"device", "time"};
  struct work w = {.t = t, .ask = a, .out = out};
  size_t by;
  enum tg_err err = tg__ask_choice(a, "by", choices, sizeof choices / sizeof *choices, &by, e);
  if (!err) err = parse_bucket(&w, e);
  if (err) return err;
  if (!tg__tensor_names_open(&w.tensor, t, tg__tensor_rules_of(a))) err = TG_MEMORY;
  for (uint32_t r = 0; r < t->rank_count && !err; r++)
    if (tg__ask_has_rank(a, r)) err = answer_metric_of_rank(&w, r, by == 1, e);
  if (!err && !out->rows)
    err = tg__fail(e, TG_NO_DATA, -1,
                   "the trace holds no kernels, or neither steps nor operators that would say over what time to "
                   "measure; record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] together");
  tg__tensor_names_close(&w.tensor);
  tg__spans_free(&w.busy);
  tg__sm_load_free(&w.load);
  tg__free(w.buckets);
  return err;
}
