/* Answers the question "gaps": intervals of an idle device as rows, or summed by cause. */
#include "analyze/device/gaps.h"

struct filter {
  const struct tg__columns *t;
  const struct tg__ask *a;
  uint32_t rank;
  int64_t shortest_ns;
  struct tg_table *out; /* NULL when summing */
  struct {
    int64_t dur_ns, count;
  } sum[TG__GAP_CAUSE_COUNT];
};

static void put_gap_name(struct tg_table *out, const struct tg__columns *t, uint32_t slice) {
  tg__put_trace_text(out, t, slice == TG_NONE ? TG_NONE : t->slices.name[slice]);
}

/* The operator that launched this device work. */
static uint32_t launching_op(const struct tg__columns *t, uint32_t work) {
  const uint32_t call = t->slices.cause[work];
  const uint32_t op = call == TG_NONE ? TG_NONE : t->slices.cause[call];
  return op != TG_NONE && tg__slice_class(t, op) == TG__CLASS_OP ? op : TG_NONE;
}

static void put_interval(struct filter *f, const struct tg__gap *g, int64_t start, int64_t end) {
  if (end - start < f->shortest_ns || end <= start) return;
  f->sum[g->cause].dur_ns += end - start;
  f->sum[g->cause].count++;
  struct tg_table *out = f->out;
  if (!out) return;
  tg__put_rank(out, f->t, f->rank);
  tg__put_int(out, g->device);
  tg__put_int(out, start);
  tg__put_int(out, end - start);
  tg__put_int(out, 1);
  tg__put_cstr(out, tg__gap_cause_names[g->cause]);
  put_gap_name(out, f->t, g->during);
  put_gap_name(out, f->t, g->before);
  put_gap_name(out, f->t, g->after);
  put_gap_name(out, f->t, launching_op(f->t, g->after));
}

/* With step= only the part inside the steps counts; what is left of a gap keeps its cause. */
static void put_gap(struct filter *f, const struct tg__gap *g) {
  if (!f->a->has_steps) {
    put_interval(f, g, g->start_ns, g->end_ns);
    return;
  }
  for (size_t i = 0; i < f->a->window_count; i++) {
    const struct tg__window *w = &f->a->windows[i];
    if (w->rank != f->rank) continue;
    put_interval(f, g, w->start_ns > g->start_ns ? w->start_ns : g->start_ns,
                 w->end_ns < g->end_ns ? w->end_ns : g->end_ns);
  }
}

static void put_gap_sums(struct filter *f, int64_t device, struct tg_table *out) {
  for (unsigned c = 0; c < TG__GAP_CAUSE_COUNT; c++) {
    if (!f->sum[c].count) continue;
    tg__put_rank(out, f->t, f->rank);
    tg__put_int(out, device);
    tg__put_null(out);
    tg__put_int(out, f->sum[c].dur_ns);
    tg__put_int(out, f->sum[c].count);
    tg__put_cstr(out, tg__gap_cause_names[c]);
    for (unsigned i = 0; i < 4; i++) tg__put_null(out);
  }
  memset(f->sum, 0, sizeof f->sum);
}

static enum tg_err answer_gap_of_rank(const struct tg__columns *t, const struct tg__ask *a, uint32_t rank,
                                      bool by_cause, int64_t shortest_ns, struct tg_table *out) {
  struct tg__gaps gaps;
  const enum tg_err err = tg__gaps_find(t, rank, &gaps);
  struct filter f = {.t = t, .a = a, .rank = rank, .shortest_ns = shortest_ns, .out = by_cause ? NULL : out};
  for (size_t i = 0; !err && i < gaps.count; i++) {
    put_gap(&f, &gaps.items[i]);
    if (by_cause && (i + 1 == gaps.count || gaps.items[i + 1].device != gaps.items[i].device))
      put_gap_sums(&f, gaps.items[i].device, out);
  }
  if (!err && !gaps.device_count)
    tg__table_note(out,
                   "rank %lld: no device work in the trace (recorded without a GPU, or with ProfilerActivity.CPU only)",
                   (long long)t->ranks[rank].number);
  tg__gaps_free(&gaps);
  return err;
}

enum tg_err tg__answer_gaps(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                            struct tg_error *e) {
  static const char *const choices[] = {"gap", "cause"};
  size_t by_cause;
  int64_t shortest_ns;
  enum tg_err wrong = tg__ask_choice(a, "by", choices, 2, &by_cause, e);
  if (!wrong) wrong = tg__ask_us(a, "min_us", &shortest_ns, e);
  if (wrong) return wrong;
  for (uint32_t r = 0; r < t->rank_count; r++) {
    if (!tg__ask_has_rank(a, r)) continue;
    const enum tg_err err = answer_gap_of_rank(t, a, r, by_cause != 0, shortest_ns, out);
    if (err) return tg__no_memory(e, "looking for gaps");
  }
  return TG_OK;
}
