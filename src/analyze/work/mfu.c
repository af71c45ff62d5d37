/* The question mfu: how much of the device's peak the model's operations use. Counted are matrix products, convolutions and attention, as is the
 * custom; each precision against its own peak. */
#include "analyze/work/device_peaks.h"
#include "analyze/host/op_group.h"
#include "analyze/work/roof.h"
#include "analyze/whole/steps.h"

#include <stdio.h>

struct sums {
  double flops[TG__PRECISION_COUNT];
  int64_t counted_ns, whole_ns; /* of operators with a figure, of all */
};

static bool is_model_work(const struct tg__work *w) {
  return w->kind == TG__WORK_MATMUL || w->kind == TG__WORK_CONVOLUTION || w->kind == TG__WORK_ATTENTION;
}

/* Into sums[0..steps) by the step of the host's call. */
static void sum_up(const struct tg__roof *r, uint32_t rank, const struct tg__breakdown *b, struct sums *sums) {
  for (uint32_t k = r->t->ranks[rank].first_track; k < r->t->ranks[rank].first_track + r->t->ranks[rank].track_count; k++)
    for (uint32_t i = r->tree.first[k]; i < r->tree.first[k + 1]; i++) {
      struct tg__counted c;
      if (!tg__roof_count(r, k, i, &c)) continue;
      const int64_t at = r->t->slices.start_ns[r->tree.nodes[i].slice];
      size_t low = 0, high = b->count; /* the last step that begins at or before it */
      while (low < high) {
        const size_t middle = (low + high) / 2;
        if (b->steps[middle].host_start_ns <= at)
          low = middle + 1;
        else
          high = middle;
      }
      if (low == 0 || at >= b->steps[low - 1].host_end_ns) continue;
      struct sums *const s = &sums[low - 1];
      s->whole_ns += c.time_ns;
      if (!c.work) continue;
      s->counted_ns += c.time_ns;
      if (is_model_work(c.work)) s->flops[c.precision] += (double)c.work->flops;
    }
}

static void put_row(const struct tg_trace *t, uint32_t rank, const char *step, int64_t time_ns, const struct sums *s,
                    const struct tg__peaks *p, struct tg_table *out) {
  double flops = 0, ideal_s = 0;
  bool known = true;
  enum tg__precision most = TG__PRECISION_UNKNOWN;
  for (unsigned k = 0; k < TG__PRECISION_COUNT; k++) {
    flops += s->flops[k];
    if (s->flops[k] > s->flops[most]) most = (enum tg__precision)k;
    if (s->flops[k] <= 0) continue;
    if (p->flops[k] > 0)
      ideal_s += s->flops[k] / p->flops[k];
    else
      known = false;
  }
  const double seconds = (double)time_ns / 1e9;
  tg__put_rank(out, t, rank);
  tg__put_cstr(out, step);
  tg__put_int(out, time_ns);
  tg__put_int(out, flops < 9e18 ? (int64_t)(flops + 0.5) : TG_NULL_INT);
  tg__put_real_if(out, time_ns > 0, flops / seconds);
  tg__put_real_if(out, s->whole_ns > 0, 100.0 * (double)s->counted_ns / (double)s->whole_ns);
  tg__put_cstr(out, tg__precision_names[most]);
  tg__put_real_if(out, p->flops[most] > 0, p->flops[most]);
  tg__put_real_if(out, known && flops > 0 && time_ns > 0, 100 * ideal_s / seconds);
}

static enum tg_err put_rank(const struct tg__roof *r, const struct tg__ask *a, uint32_t rank, bool by_step, struct tg_table *out,
                            struct tg_error *e) {
  struct tg__breakdown b = {0};
  struct tg__peaks peaks = {0};
  enum tg_err err = tg__steps_breakdown(r->t, rank, TG__STEPS_DETECTED, &b);
  struct sums *sums = err ? NULL : tg__alloc((b.count + 1) * sizeof *sums);
  if (!sums) {
    err = tg__fail(e, TG_MEMORY, -1, "out of memory while summing up steps");
    goto done;
  }
  err = tg__peaks_of(r->t, a, rank, r->on_device[rank], &peaks, e);
  if (err) goto done;
  sum_up(r, rank, &b, sums);
  struct sums all = {0};
  for (size_t i = 0; i < b.count; i++) {
    char number[24] = "all";
    if (b.steps[i].step != TG_NONE) snprintf(number, sizeof number, "%lld", (long long)r->t->steps[b.steps[i].step].number);
    if (by_step) put_row(r->t, rank, number, b.steps[i].end_ns - b.steps[i].start_ns, &sums[i], &peaks, out);
    for (unsigned k = 0; k < TG__PRECISION_COUNT; k++) all.flops[k] += sums[i].flops[k];
    all.counted_ns += sums[i].counted_ns;
    all.whole_ns += sums[i].whole_ns;
  }
  if (!by_step && b.count) put_row(r->t, rank, "", b.window.end_ns - b.window.start_ns, &all, &peaks, out);
  if (*peaks.source)
    tg__table_note(out, "peaks: %s", peaks.source);
  else
    tg__table_note(out, "the peak of the device is not known: with the argument peak_tflops each row has its share of it");
done:
  tg__breakdown_free(&b);
  tg__free(sums);
  return err;
}

enum tg_err tg__answer_mfu(const struct tg_trace *t, const struct tg__ask *a, struct tg_table *out, struct tg_error *e) {
  static const char *const choices[] = {"step", "rank"};
  size_t by;
  enum tg_err err = tg__ask_choice(a, "by", choices, 2, &by, e);
  if (err) return err;
  struct tg__roof roof;
  err = tg__roof_open(t, &roof, e);
  for (uint32_t rank = 0; rank < t->rank_count && !err; rank++)
    if (tg__ask_has_rank(a, rank)) err = put_rank(&roof, a, rank, by == 0, out, e);
  tg__roof_close(&roof);
  return err;
}
