/* The question cupti: counters that CUPTI's profiler measured per kernel, and the operators behind them.
 *
 * A range has no correlation: while counters are measured kernels run one by one, so the n-th range is that of the
 * n-th launch. */
#include "analyze/analyze.h"

#include <math.h>

enum by { BY_RANGE, BY_COUNTER, BY_OP, BY_TOTAL };
enum { DEEPEST = 256 }; /* operators around a launch that are shown */

struct range {
  uint32_t event, launch; /* launch TG_NONE: not known */
};
struct sum {
  uint32_t op, counter; /* string ids */
  double value;
  int64_t flops, ranges;
};
struct work {
  const struct tg__columns *t;
  struct tg_table *out;
  enum by by;
  uint32_t rank;
  uint32_t *events, *launches;
  size_t event_count, launch_count;
  struct sum *sums;
  size_t sum_count, sum_cap;
  struct tg__map sum_of; /* operator and counter → sums */
};

/* ---- ranges and launches --------------------------------------------------------------------- */

static bool is_launch(const struct tg__columns *t, uint32_t slice) {
  if (tg__slice_class(t, slice) != TG__CLASS_RUNTIME) return false;
  const struct tg__str name = tg__name(t, t->slices.name[slice]);
  return tg__str_has_prefix(name, "cudaLaunchKernel") || tg__str_has_prefix(name, "cuLaunchKernel") ||
         tg__str_has_prefix(name, "cudaLaunchCooperativeKernel");
}

static bool counter_starts_before(uint32_t a, uint32_t b, const void *ctx) {
  const int64_t *start = ctx;
  return start[a] < start[b];
}

static bool collect(struct work *w) {
  const struct tg__columns *t = w->t;
  const struct tg__rank *rank = &t->ranks[w->rank];
  size_t event_cap = 0, launch_cap = 0;
  TG__EACH (k, tg__tracks_of(rank))
    TG__EACH (i, tg__slices_of(&t->tracks[k])) {
      if (tg__slice_class(t, i) == TG__CLASS_COUNTER_RANGE) {
        if (!tg__grow((void **)&w->events, &event_cap, w->event_count + 1, sizeof *w->events)) return false;
        w->events[w->event_count++] = i;
      } else if (is_launch(t, i)) {
        if (!tg__grow((void **)&w->launches, &launch_cap, w->launch_count + 1, sizeof *w->launches)) return false;
        w->launches[w->launch_count++] = i;
      }
    }
  return tg__sort_index(w->events, w->event_count, counter_starts_before, t->slices.start_ns) &&
         tg__sort_index(w->launches, w->launch_count, counter_starts_before, t->slices.start_ns);
}

/* Operators around a launch by containment, innermost first; the operator linked by id where none is around it. */
static size_t ops_around(const struct tg__columns *t, uint32_t launch, uint32_t ops[DEEPEST]) {
  size_t n = 0;
  if (launch == TG_NONE) return 0;
  for (uint32_t i = t->slices.parent[launch]; i != TG_NONE && n < DEEPEST; i = t->slices.parent[i])
    if (tg__slice_class(t, i) == TG__CLASS_OP) ops[n++] = i;
  if (n == 0 && t->slices.cause[launch] != TG_NONE) ops[n++] = t->slices.cause[launch];
  return n;
}

/* ---- counters -------------------------------------------------------------------------------- */

/* Operations that one count stands for; 0 = the counter does not count floating-point operations. */
static int64_t flop_weight(struct tg__str counter) {
  static const char *const kinds[] = {"ffma", "hfma", "dfma", "fmul", "fadd", "hmul", "hadd", "dmul", "dadd"};
  const struct tg__str head = TG_STR("smsp__sass_thread_inst_executed_op_"), tail = TG_STR("_pred_on.sum");
  if (counter.len != head.len + 4 + tail.len || memcmp(counter.ptr, head.ptr, head.len) != 0 ||
      !tg__str_has_suffix(counter, tail.ptr))
    return 0;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    if (memcmp(counter.ptr + head.len, kinds[k], 4) == 0) return k < 3 ? 2 : 1;
  return 0;
}

static bool counter_value_of(const struct tg__val *v, double *out) {
  if (v->kind == TG__KIND_INT)
    *out = (double)v->i;
  else if (v->kind == TG__KIND_DEC)
    *out = (double)v->i / pow(10, v->decimals);
  return v->kind == TG__KIND_INT || v->kind == TG__KIND_DEC;
}

/* Adds to *sum, which is TG_NULL_INT before the first; beyond 64 bits it stays there. */
static void add_flops(int64_t *sum, int64_t weight, double value) {
  const double total = (*sum == TG_NULL_INT ? 0 : (double)*sum) + (double)weight * value;
  if (weight == 0 || !(fabs(total) < 9.2e18)) return;
  *sum = (*sum == TG_NULL_INT ? 0 : *sum) + weight * (int64_t)value;
}

/* ---- the table ------------------------------------------------------------------------------- */

static void put_op_stack(struct work *w, const uint32_t *ops, size_t count) {
  struct tg__out text = {0};
  for (size_t i = count; i > 0; i--) {
    const struct tg__str name = tg__name(w->t, w->t->slices.name[ops[i - 1]]);
    tg__out_bytes(&text, name.ptr, name.len);
    if (i > 1) tg__out_text(&text, " > ");
  }
  if (count)
    tg__put_text(w->out, (struct tg__str){text.buf, (uint32_t)text.len});
  else
    tg__put_null(w->out);
  w->out->failed |= text.err != TG_OK;
  tg__out_free(&text);
}

static void put_counter_name(struct work *w, uint32_t slice) {
  tg__put_trace_text(w->out, w->t, slice == TG_NONE ? TG_NONE : w->t->slices.name[slice]);
}

static void put_range(struct work *w, const struct range *r, uint32_t counter, double value, int64_t flops) {
  struct tg_table *out = w->out;
  uint32_t ops[DEEPEST];
  const size_t count = ops_around(w->t, r->launch, ops);
  tg__put_rank(out, w->t, w->rank);
  put_counter_name(w, r->event);
  put_counter_name(w, count ? ops[0] : TG_NONE);
  put_counter_name(w, count ? ops[count - 1] : TG_NONE);
  put_op_stack(w, ops, count);
  tg__put_trace_text(out, w->t, counter);
  tg__put_real(out, value);
  tg__put_int(out, flops);
  tg__put_int(out, 1);
  tg__put_int(out, r->event);
  tg__put_int(out, r->launch == TG_NONE ? TG_NULL_INT : (int64_t)r->launch);
  tg__put_int(out, w->t->slices.start_ns[r->event]);
}

static void put_sum(struct work *w, const struct sum *s) {
  struct tg_table *out = w->out;
  tg__put_rank(out, w->t, w->rank);
  tg__put_null(out);
  tg__put_trace_text(out, w->t, s->op);
  tg__put_null(out);
  tg__put_null(out);
  tg__put_trace_text(out, w->t, s->counter);
  tg__put_real(out, s->value);
  tg__put_int(out, s->flops);
  tg__put_int(out, s->ranges);
  for (int i = 0; i < 3; i++) tg__put_null(out);
}

static bool add_to_sum(struct work *w, const struct range *r, uint32_t counter, double value) {
  uint32_t ops[DEEPEST];
  const size_t count = w->by == BY_OP ? ops_around(w->t, r->launch, ops) : 0;
  const uint32_t op = count ? w->t->slices.name[ops[0]] : TG_NONE;
  uint32_t *slot = tg__map_slot(&w->sum_of, (uint64_t)op << 32 | counter, TG_NONE);
  if (!slot) return false;
  if (*slot == TG_NONE) {
    if (!tg__grow((void **)&w->sums, &w->sum_cap, w->sum_count + 1, sizeof *w->sums)) return false;
    *slot = (uint32_t)w->sum_count;
    w->sums[w->sum_count++] = (struct sum){.op = op, .counter = counter, .flops = TG_NULL_INT};
  }
  struct sum *s = &w->sums[*slot];
  s->value += value;
  s->ranges++;
  add_flops(&s->flops, flop_weight(tg__name(w->t, counter)), value);
  return true;
}

static bool take_range(struct work *w, const struct range *r) {
  struct tg__args_iter it;
  int64_t flops = TG_NULL_INT;
  for (tg__args_begin(w->t, w->t->slices.args[r->event], &it); tg__args_next(&it);) {
    double value;
    if (it.field->top || !counter_value_of(&it.val, &value)) continue;
    const int64_t weight = flop_weight(tg__name(w->t, it.field->key));
    add_flops(&flops, weight, value);
    if (w->by == BY_COUNTER) {
      int64_t own = TG_NULL_INT;
      add_flops(&own, weight, value);
      put_range(w, r, it.field->key, value, own);
    } else if (w->by != BY_RANGE && !add_to_sum(w, r, it.field->key, value)) {
      return false;
    }
  }
  if (w->by == BY_RANGE) put_range(w, r, TG_NONE, NAN, flops);
  return true;
}

static bool more_flops(uint32_t a, uint32_t b, const void *ctx) {
  const struct sum *x = &((const struct sum *)ctx)[a], *y = &((const struct sum *)ctx)[b];
  return x->flops > y->flops; /* unknown is the least there is */
}

static bool put_counter_sums(struct work *w) {
  uint32_t *order = tg__order_new(w->sum_count, more_flops, w->sums);
  const bool ok = order != NULL;
  for (size_t i = 0; ok && i < w->sum_count; i++) put_sum(w, &w->sums[order[i]]);
  tg__free(order);
  return ok;
}

static bool answer_counter_of_rank(struct work *w) {
  bool ok = collect(w);
  const bool paired = w->event_count == w->launch_count;
  for (size_t i = 0; ok && i < w->event_count; i++) {
    const struct range r = {w->events[i], paired ? w->launches[i] : TG_NONE};
    ok = take_range(w, &r);
  }
  if (ok) ok = put_counter_sums(w);
  if (ok && w->event_count && !paired)
    tg__table_note(w->out,
                   "rank %lld: %zu counter ranges and %zu kernel launches: which belongs to which is not known, so "
                   "neither are the operators",
                   (long long)w->t->ranks[w->rank].number, w->event_count, w->launch_count);
  return ok;
}

enum tg_err tg__answer_cupti(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                             struct tg_error *e) {
  static const char *const choices[] = {"range", "counter", "op", "total"};
  size_t by, ranges = 0;
  const enum tg_err wrong = tg__ask_choice(a, "by", choices, sizeof choices / sizeof *choices, &by, e);
  if (wrong) return wrong;
  for (uint32_t r = 0; r < t->rank_count; r++) {
    if (!tg__ask_has_rank(a, r)) continue;
    struct work w = {.t = t, .out = out, .by = (enum by)by, .rank = r};
    const bool ok = answer_counter_of_rank(&w);
    ranges += w.event_count;
    tg__free(w.events);
    tg__free(w.launches);
    tg__free(w.sums);
    tg__map_free(&w.sum_of);
    if (!ok) return tg__no_memory(e, "reading counters");
  }
  if (ranges) return TG_OK;
  return tg__fail(
      e, TG_NO_DATA, -1,
      "the trace holds no counters of CUPTI's profiler (category cuda_profiler_range), which cupti is about; record "
      "with "
      "experimental_config=torch.profiler._ExperimentalConfig(profiler_metrics=[…], profiler_measure_per_kernel=True)");
}
