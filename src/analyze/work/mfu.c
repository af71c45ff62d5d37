/* The question mfu: how much of the device's peak the model's operations use. Counted are matrix products,
 * convolutions and attention, as is the custom; each precision against its own peak. */
#include "analyze/work/device_peaks.h"
#include "analyze/host/op_group.h"
#include "analyze/work/flops.h"
#include "analyze/work/roof.h"
#include "analyze/overview/steps.h"

#include <stdio.h>

struct sums {
  double flops[TG__PRECISION_COUNT],
      again[TG__PRECISION_COUNT]; /* again: of those, by a forward pass that is done again */
  int64_t counted_ns, all_ns;     /* of operators with a figure, of all */
  int64_t silent_ns;              /* of products and convolutions without one */
};

static bool is_model_work(const struct tg__work *w) {
  return w->kind == TG__WORK_MATMUL || w->kind == TG__WORK_CONVOLUTION || w->kind == TG__WORK_ATTENTION;
}

/* ---- forward passes that are done again ------------------------------------------------------ */

static bool is_autograd(const struct tg__roof *r, const struct tg__op_node *n) {
  return n->is_op &&
         (r->t->slices.cause[n->slice] != TG_NONE ||
          tg__str_has_prefix(tg__name(r->t, r->t->slices.name[n->slice]), "autograd::engine::evaluate_function: "));
}

/* Operators that programs call and that no gradient is made of, with gradients on (only then do they have a sequence
 * number). */
static bool is_called_by_a_program(const struct tg__roof *r, uint32_t slice) {
  static const char *const names[] = {"aten::linear",           "aten::matmul",
                                      "aten::einsum",           "aten::conv1d",
                                      "aten::conv2d",           "aten::conv3d",
                                      "aten::conv_transpose1d", "aten::conv_transpose2d",
                                      "aten::conv_transpose3d", "aten::scaled_dot_product_attention"};
  const struct tg__str name = tg__name(r->t, r->t->slices.name[slice]);
  bool found = false;
  for (size_t i = 0; i < sizeof names / sizeof *names && !found; i++)
    found = tg__str_eq(name, (struct tg__str){names[i], (uint32_t)strlen(names[i])});
  return found && tg__arg_int(r->t, r->t->slices.args[slice], TG__K_SEQUENCE_NUMBER, -1) >= 0;
}

/* Checkpointing runs forward passes inside the backward pass: modules, or operators as a program calls them, below a
 * node of autograd. */
static bool is_done_again(const struct tg__roof *r, uint32_t node) {
  bool forward = false;
  for (uint32_t at = node; at != TG_NONE;) {
    const struct tg__op_node *n = &r->tree.nodes[at];
    if (is_autograd(r, n)) return forward;
    forward |= tg__slice_class(r->t, n->slice) == TG__CLASS_PYTHON || (n->is_op && is_called_by_a_program(r, n->slice));
    at = n->absorbed_by != TG_NONE ? n->absorbed_by : n->parent;
  }
  return false;
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* Into sums[0..steps) by the step of the host's call. */
static void sum_up(const struct tg__roof *r, uint32_t rank, const struct tg__breakdown *b, struct sums *sums) {
  for (uint32_t k = r->t->ranks[rank].first_track; k < r->t->ranks[rank].first_track + r->t->ranks[rank].track_count;
       k++)
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
      s->all_ns += c.time_ns;
      if (!c.work) {
        s->silent_ns += r->work.silent[i] ? c.time_ns : 0;
        continue;
      }
      s->counted_ns += c.time_ns;
      if (!is_model_work(c.work)) continue;
      s->flops[c.precision] += (double)c.work->flops;
      if (is_done_again(r, i)) s->again[c.precision] += (double)c.work->flops;
    }
}

/* Time that the operations would take at the peak; below zero when that is not known. */
static double ideal_s(const double *flops, const double *less, const struct tg__peaks *p) {
  double seconds = 0;
  for (unsigned k = 0; k < TG__PRECISION_COUNT; k++) {
    const double n = flops[k] - (less ? less[k] : 0);
    if (n <= 0) continue;
    if (p->flops[k] <= 0) return -1;
    seconds += n / p->flops[k];
  }
  return seconds;
}

static double total(const double *flops) {
  double sum = 0;
  for (unsigned k = 0; k < TG__PRECISION_COUNT; k++) sum += flops[k];
  return sum;
}

/* Where more of the time than this goes to products that do not say how large they are, what the others do says
 * nothing of the model. */
enum { MOST_SILENT_PCT = 5 };
static bool says_enough(const struct sums *s) { return s->silent_ns <= s->all_ns / 100 * MOST_SILENT_PCT; }

static void put_mfu_row(const struct tg__columns *t, uint32_t rank, const char *step, int64_t time_ns,
                        const struct sums *s, const struct tg__peaks *p, struct tg_table *out) {
  const double flops = total(s->flops), again = total(s->again), seconds = (double)time_ns / 1e9;
  const bool known = says_enough(s), rate = known && flops > 0 && time_ns > 0;
  const double model_s = ideal_s(s->flops, s->again, p), done_s = ideal_s(s->flops, NULL, p);
  enum tg__precision most = TG__PRECISION_UNKNOWN;
  for (unsigned k = 0; k < TG__PRECISION_COUNT; k++)
    if (s->flops[k] > s->flops[most]) most = (enum tg__precision)k;
  tg__put_rank(out, t, rank);
  tg__put_cstr(out, step);
  tg__put_int(out, time_ns);
  tg__put_int(out, known && flops < 9e18 ? (int64_t)(flops + 0.5) : TG_NULL_INT);
  tg__put_int(out, known && again < 9e18 ? (int64_t)(again + 0.5) : TG_NULL_INT);
  tg__put_real_if(out, known && time_ns > 0, flops / seconds);
  tg__put_real_if(out, s->all_ns > 0, 100.0 * (double)s->counted_ns / (double)s->all_ns);
  tg__put_cstr(out, tg__precision_names[most]);
  tg__put_real_if(out, p->flops[most] > 0, p->flops[most]);
  tg__put_real_if(out, rate && model_s >= 0, 100 * model_s / seconds);
  tg__put_real_if(out, rate && done_s >= 0, 100 * done_s / seconds);
}

static enum tg_err put_mfu_of_rank(const struct tg__roof *r, const struct tg__ask *a, uint32_t rank, bool by_step,
                                   struct tg_table *out, struct tg_error *e) {
  struct tg__breakdown b = {0};
  struct tg__peaks peaks = {0};
  enum tg_err err = tg__steps_breakdown(r->t, rank, TG__STEPS_DETECTED, &b);
  struct sums *sums = err ? NULL : tg__alloc((b.count + 1) * sizeof *sums);
  if (!sums) {
    err = tg__no_memory(e, "summing up steps");
    goto done;
  }
  err = tg__peaks_of(r->t, a, rank, r->on_device[rank], &peaks, e);
  if (err) goto done;
  tg__roof_try_peaks(r, rank, &peaks);
  sum_up(r, rank, &b, sums);
  struct sums all = {0};
  for (size_t i = 0; i < b.count; i++) {
    char number[24] = "all";
    if (b.steps[i].step != TG_NONE)
      snprintf(number, sizeof number, "%lld", (long long)r->t->steps[b.steps[i].step].number);
    if (by_step) put_mfu_row(r->t, rank, number, b.steps[i].end_ns - b.steps[i].start_ns, &sums[i], &peaks, out);
    for (unsigned k = 0; k < TG__PRECISION_COUNT; k++) {
      all.flops[k] += sums[i].flops[k];
      all.again[k] += sums[i].again[k];
    }
    all.silent_ns += sums[i].silent_ns;
    all.counted_ns += sums[i].counted_ns;
    all.all_ns += sums[i].all_ns;
  }
  if (!by_step && b.count) put_mfu_row(r->t, rank, "", b.window.end_ns - b.window.start_ns, &all, &peaks, out);
  if (!says_enough(&all))
    tg__table_note(out,
                   "products and convolutions take %.1f %% of the time that do not say what they were given, so what "
                   "the model does is not "
                   "known: record "
                   "with record_shapes=True and torch 2.1 or newer",
                   100.0 * (double)all.silent_ns / (double)all.all_ns);
  tg__note_peaks(
      &peaks, "mfu_pct",
      "the peak of the device is not known: with the argument peak_tflops each row has its share of it; that "
      "of a CPU tachograph doctor measures where it runs",
      out);
done:
  tg__breakdown_free(&b);
  tg__free(sums);
  return err;
}

/* Of kernels, or without a device of operators: is the work of half of their time known? */
static bool knows_half(const struct tg__roof *r, uint32_t rank, const struct tg__breakdown *b, const struct sums *all) {
  int64_t kernels_ns = 0;
  if (!r->on_device[rank]) return true;
  TG__EACH (i, tg__rank_slices(r->t, rank)) {
    const int64_t at = r->t->slices.start_ns[i];
    const bool is_inside = at >= b->window.start_ns && at < b->window.end_ns;
    if (is_inside && tg__slice_class(r->t, i) == TG__CLASS_KERNEL) kernels_ns += r->t->slices.dur_ns[i];
  }
  return 2 * all->counted_ns >= kernels_ns;
}

static bool share_of_peak(const struct tg__roof *r, uint32_t rank, double *pct, struct tg__peaks *peaks) {
  struct tg__breakdown b = {0};
  struct sums *const sums =
      tg__steps_breakdown(r->t, rank, TG__STEPS_DETECTED, &b) || !b.count ? NULL : tg__alloc(b.count * sizeof *sums);
  struct sums all = {0};
  int64_t steps_ns = 0;
  if (sums) sum_up(r, rank, &b, sums);
  for (size_t i = 0; sums && i < b.count; i++) {
    steps_ns += b.steps[i].end_ns - b.steps[i].start_ns;
    all.counted_ns += sums[i].counted_ns;
    for (unsigned k = 0; k < TG__PRECISION_COUNT; k++) {
      all.flops[k] += sums[i].flops[k];
      all.again[k] += sums[i].again[k];
    }
    all.silent_ns += sums[i].silent_ns;
    all.all_ns += sums[i].all_ns;
  }
  tg__peaks_known(r->t, rank, r->on_device[rank], peaks);
  tg__roof_try_peaks(r, rank, peaks);
  const double model_s = ideal_s(all.flops, all.again, peaks),
               seconds = (double)steps_ns / 1e9; /* the window of how busy the device is */
  *pct = seconds > 0 ? 100 * model_s / seconds : 0;
  const bool is_known =
      sums && says_enough(&all) && total(all.flops) > 0 && model_s >= 0 && *pct <= 100 && knows_half(r, rank, &b, &all);
  tg__breakdown_free(&b);
  tg__free(sums);
  return is_known;
}

bool tg__mfu_of(const struct tg__columns *t, uint32_t rank, double *pct, char *of, size_t size) {
  const struct tg__ask a = {.rank = rank};
  struct tg__roof roof;
  struct tg__peaks peaks = {0};
  const bool is_known = !tg__roof_open(t, &a, &roof, NULL) && share_of_peak(&roof, rank, pct, &peaks);
  snprintf(of, size, "%s", is_known ? peaks.source : peaks.withheld);
  tg__roof_close(&roof);
  return is_known;
}

enum tg_err tg__answer_mfu(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                           struct tg_error *e) {
  static const char *const choices[] = {"step", "rank"};
  size_t by;
  enum tg_err err = tg__ask_choice(a, "by", choices, 2, &by, e);
  if (err) return err;
  struct tg__roof roof;
  err = tg__roof_open(t, a, &roof, e);
  for (uint32_t rank = 0; rank < t->rank_count && !err; rank++)
    if (tg__ask_has_rank(a, rank)) err = put_mfu_of_rank(&roof, a, rank, by == 0, out, e);
  tg__roof_close(&roof);
  return err;
}
