/* The question layers: in each step the work of a stream that repeats itself, without a look at the host. A stretch
 * counts where it is within one known step, and where the repeated work is most of what the stream does in it, products
 * of matrices among it. */
#include <stdlib.h>

#include "analyze/device/kernel_class.h"
#include "analyze/device/layer_runs.h"
#include "analyze/names/by_class.h"

enum { OTHER_PCT = 20, LEAST_SPREADS = 4 };

struct step { /* on the device where it has annotations, else on the host */
  int64_t start_ns, end_ns, number;
};
struct work {
  const struct tg__columns *t;
  const struct tg__ask *a;
  struct tg_table *out;
  uint32_t rank, track;
  bool on_device;
  struct step *steps; /* by start */
  size_t step_count, step_cap;
  uint32_t *slices, *names; /* of the sequence */
  size_t count, cap, name_cap;
  size_t found; /* steps of streams with layers */
};

/* ---- steps ------------------------------------------------------------------------------------- */

static bool add_layer_step(struct work *w, struct step x) {
  if (!tg__grow((void **)&w->steps, &w->step_cap, w->step_count + 1, sizeof *w->steps)) return false;
  w->steps[w->step_count++] = x;
  return true;
}

static int step_order(const void *a, const void *b) {
  const struct step *const x = a, *const y = b;
  return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static bool find_steps(struct work *w) {
  const struct tg__columns *const t = w->t;
  struct tg__names_listed marked;
  bool ok = tg__names_listed(t, TG__LIST_GPU_ANNOTATIONS, w->rank, &marked);
  for (size_t i = 0; ok && i < marked.count; i++) {
    const uint32_t slice = marked.slices[i];
    int64_t number;
    if (tg__name_is_profiler_step(tg__name(t, t->slices.name[slice]), &number))
      ok = add_layer_step(w, (struct step){t->slices.start_ns[slice], tg__slice_end(t, slice), number});
  }
  w->on_device = w->step_count > 0;
  for (uint32_t i = 0; ok && !w->on_device && i < t->step_count; i++)
    if (t->steps[i].rank == w->rank)
      ok = add_layer_step(w, (struct step){t->steps[i].start_ns, t->steps[i].end_ns, t->steps[i].number});
  if (w->step_count) qsort(w->steps, w->step_count, sizeof *w->steps, step_order);
  return ok;
}

/* Its number in w->steps; TG_NONE. */
static uint32_t step_of(const struct work *w, uint32_t slice) {
  const uint32_t call = w->t->slices.cause[slice];
  const int64_t at = w->t->slices.start_ns[w->on_device || call == TG_NONE ? slice : call];
  size_t past = 0;
  TG__PARTITION(past, w->step_count, i, w->steps[i].start_ns <= at);
  return past && at < w->steps[past - 1].end_ns ? (uint32_t)past - 1 : TG_NONE;
}

/* ---- what is put ------------------------------------------------------------------------------- */

static int64_t time_of(const struct work *w, uint32_t first, uint32_t count) {
  int64_t sum = 0;
  for (uint32_t i = 0; i < count; i++) sum += w->t->slices.dur_ns[w->slices[first + i]];
  return sum;
}

static enum tg__kernel_class class_at(const struct work *w, uint32_t i) {
  return tg__kernel_class(tg__name(w->t, w->names[i]));
}

static bool is_product(enum tg__kernel_class c) { return c == TG__KERNEL_PRODUCT || c == TG__KERNEL_DOUBLE; }

/* With products of matrices and something that normalises, and nothing of what a program does once a batch: else what
 * repeats is the experts of a layer, or batches. */
static bool is_layer(const void *ctx, const struct tg__layer_run *x) {
  const struct work *const w = ctx;
  bool has_product = false, has_norm = false;
  for (uint32_t i = x->first; i < x->first + x->period; i++) {
    const struct tg__str name = tg__name(w->t, w->names[i]);
    const enum tg__kernel_class c = class_at(w, i);
    if (c == TG__KERNEL_OPTIMIZER || c == TG__KERNEL_FOREACH || c == TG__KERNEL_LOG_SOFTMAX) return false;
    if (tg__str_has_prefix(name, "Memcpy HtoD") || tg__str_has_prefix(name, "Memcpy DtoH")) return false;
    has_product |= is_product(c);
    has_norm |= c == TG__KERNEL_REDUCTION || c == TG__KERNEL_COMPILED || tg__str_contains(name, "norm");
  }
  return has_product && has_norm;
}

/* A layer ends by adding what came in to what it made, or by normalising that. */
static bool may_end_layer(const struct work *w, uint32_t i) {
  const struct tg__str name = tg__name(w->t, w->names[i]);
  const enum tg__kernel_class c = class_at(w, i);
  return !is_product(c) && (c == TG__KERNEL_REDUCTION || tg__str_contains(name, "norm") ||
                            tg__str_contains(name, "add") || tg__str_contains(name, "Add"));
}

/* Where what stands in front of the layers ends like one of them, or what stands behind begins like one, several
 * places fit: the first behind something that ends a layer. */
static struct tg__layer_run with_phase(const struct work *w, struct tg__layer_run x) {
  for (uint32_t k = 0; k <= x.more; k++) {
    if (!may_end_layer(w, x.first + k + x.period - 1)) continue;
    x.first += k;
    return x;
  }
  return x;
}

static int by_length(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

static int64_t median_of(int64_t *values, size_t n) {
  qsort(values, n, sizeof *values, by_length);
  return n % 2 ? values[n / 2] : values[n / 2 - 1] + (values[n / 2] - values[n / 2 - 1]) / 2;
}

/* The place in the layer at which this one is furthest from the others together. */
static uint32_t other_kernel(const struct work *w, const struct tg__layer_run *x, uint32_t layer) {
  uint32_t worst = 0;
  int64_t most = -1;
  const uint32_t others = x->count > 1 ? x->count - 1 : 1;
  for (uint32_t k = 0; k < x->period; k++) {
    int64_t sum = 0;
    for (uint32_t i = 0; i < x->count; i++) sum += w->t->slices.dur_ns[w->slices[x->first + i * x->period + k]];
    const int64_t own = w->t->slices.dur_ns[w->slices[x->first + layer * x->period + k]];
    const int64_t off = llabs(own - (sum - own) / others);
    if (off > most) most = off, worst = k;
  }
  return w->names[x->first + worst];
}

struct usual {
  int64_t ns, spread_ns;
};

static void put_layer(const struct work *w, const struct tg__layer_run *x, uint32_t run, uint32_t layer, int64_t number,
                      struct usual usual) {
  const struct tg__slices *const s = &w->t->slices;
  const uint32_t first = x->first + layer * x->period;
  const int64_t ns = time_of(w, first, x->period), off = llabs(ns - usual.ns), start_ns = s->start_ns[w->slices[first]];
  const bool is_other = (double)off * 100 > (double)usual.ns * OTHER_PCT && off / LEAST_SPREADS > usual.spread_ns;
  tg__put_rank(w->out, w->t, w->rank);
  tg__put_int(w->out, w->t->tracks[w->track].device);
  tg__put_int(w->out, w->t->tracks[w->track].stream);
  tg__put_int(w->out, number);
  tg__put_int(w->out, run);
  tg__put_int(w->out, layer);
  tg__put_int(w->out, x->period);
  tg__put_int(w->out, start_ns);
  tg__put_int(w->out, tg__slice_end(w->t, w->slices[first + x->period - 1]) - start_ns);
  tg__put_int(w->out, ns);
  tg__put_real_if(w->out, usual.ns > 0, (double)ns / (double)usual.ns);
  tg__put_bool(w->out, is_other);
  tg__put_trace_text(w->out, w->t, is_other ? other_kernel(w, x, layer) : TG_NONE);
}

static bool put_run(const struct work *w, const struct tg__layer_run *x, uint32_t run, int64_t number) {
  int64_t *const ns = tg__alloc(x->count * sizeof *ns);
  if (!ns) return false;
  for (uint32_t i = 0; i < x->count; i++) ns[i] = time_of(w, x->first + i * x->period, x->period);
  struct usual usual = {.ns = median_of(ns, x->count)};
  for (uint32_t i = 0; i < x->count; i++) ns[i] = llabs(ns[i] - usual.ns);
  usual.spread_ns = median_of(ns, x->count);
  tg__free(ns);
  for (uint32_t i = 0; i < x->count; i++) put_layer(w, x, run, i, number, usual);
  return true;
}

/* ---- sequences --------------------------------------------------------------------------------- */

static bool end_sequence(struct work *w, uint32_t step) {
  struct tg__layer_runs runs;
  bool ok = tg__layer_runs_find(w->names, (uint32_t)w->count, is_layer, w, &runs);
  const int64_t all_ns = time_of(w, 0, (uint32_t)w->count);
  int64_t layers_ns = 0;
  for (size_t i = 0; i < runs.count; i++) {
    runs.items[i] = with_phase(w, runs.items[i]);
    layers_ns += time_of(w, runs.items[i].first, runs.items[i].period * runs.items[i].count);
  }
  const bool is_most = runs.count && all_ns > 0 && layers_ns >= all_ns / 2;
  w->found += is_most;
  for (size_t i = 0; ok && is_most && i < runs.count; i++)
    ok = put_run(w, &runs.items[i], (uint32_t)i + 1, w->steps[step].number);
  tg__layer_runs_free(&runs);
  w->count = 0;
  return ok;
}

static bool add_layer_work(struct work *w, uint32_t slice) {
  if (!tg__grow((void **)&w->slices, &w->cap, w->count + 1, sizeof *w->slices) ||
      !tg__grow((void **)&w->names, &w->name_cap, w->count + 1, sizeof *w->names))
    return false;
  w->slices[w->count] = slice;
  w->names[w->count++] = w->t->slices.name[slice];
  return true;
}

static bool look_at_stream(struct work *w) {
  uint32_t current = TG_NONE;
  bool ok = true;
  TG__EACH (i, tg__slices_of(&w->t->tracks[w->track])) {
    if (!ok) break;
    if (!tg__class_is_device_work(tg__slice_class(w->t, i)) || !tg__ask_has_slice(w->a, w->t, w->track, i)) continue;
    const uint32_t step = step_of(w, i);
    if (step == TG_NONE) continue;
    if (step != current && current != TG_NONE) ok = end_sequence(w, current);
    current = step;
    ok = ok && add_layer_work(w, i);
  }
  return ok && (current == TG_NONE || end_sequence(w, current));
}

static bool answer_of_rank(const struct tg__columns *t, const struct tg__ask *a, uint32_t rank, struct tg_table *out) {
  struct work w = {.t = t, .a = a, .out = out, .rank = rank};
  bool ok = find_steps(&w);
  TG__EACH (k, tg__tracks_of(&t->ranks[rank])) {
    w.track = k;
    if (ok && w.step_count && t->tracks[k].kind == TG__TRACK_DEVICE) ok = look_at_stream(&w);
  }
  if (ok && !w.step_count)
    tg__table_note(out,
                   "rank %lld: no steps are known, so steps that repeat cannot be distinguished from layers that do",
                   (long long)t->ranks[rank].number);
  else if (ok && !w.found)
    tg__table_note(out, "rank %lld: in no step does the work of a stream repeat itself over half of its time",
                   (long long)t->ranks[rank].number);
  tg__free(w.steps);
  tg__free(w.slices);
  tg__free(w.names);
  return ok;
}

enum tg_err tg__answer_layers(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                              struct tg_error *e) {
  for (uint32_t r = 0; r < t->rank_count; r++)
    if (tg__ask_has_rank(a, r) && !answer_of_rank(t, a, r, out)) return tg__no_memory(e, "looking for layers");
  return TG_OK;
}
