/* What was measured, whether it is well or not: so that a short list of findings is not mistaken for few checks. */
#include "diagnose/findings.h"

#include "analyze/work/flops.h"

#include <stdio.h>

enum { BUSY_PCT = 80, FAIR_PCT = 20, SLICES_MOST = 1 << 21 }; /* counting the operations of more takes seconds */

static void add_check(char *text, size_t size, const char *what, double pct) {
  const size_t len = strlen(text);
  tg__say(text + len, size - len, "%s%s %.1f %%", len ? ", " : "", what, pct);
}

static double device_busy_pct(const struct tg__facts *f) {
  const bool has_no_steps = f->steps.source == TG__STEPS_RECORDING; /* then from the device's first work to its last */
  const int64_t span_ns = f->gaps.span_ns - tg__spans_length(&f->apart);
  return has_no_steps && span_ns >= f->gaps.busy_ns ? tg__pct(f->gaps.busy_ns, span_ns)
                                                    : tg__pct(f->device_busy_ns, f->window_ns);
}

static void check_device(const struct tg__facts *f, char *text, size_t size) {
  const int64_t window = f->window_ns * (int64_t)f->gaps.device_count;
  const double busy = device_busy_pct(f);
  if (tg__has_little_work(f)) return;
  tg__say(text, size, "device busy %.1f %% (%s; idle for synchronisation %.1f %%, copies %.1f %%, launches %.1f %%)",
          busy, tg__utilisation_class(busy), tg__pct(f->gap_ns[TG__GAP_SYNC], window),
          tg__pct(f->gap_ns[TG__GAP_COPY], window), tg__pct(f->gap_ns[TG__GAP_LAUNCH], window));
}

/* Labels are no work, nor are calls that `tachograph run` marks because they wait. */
static void check_host(struct tg__facts *f, char *text, size_t size) {
  const int64_t labels = f->bare_ns - f->part_ns[TG__PART_OTHER], waits = tg__marked_waits(f),
                inside = f->part_ns[TG__PART_CPU_EXEC] - labels - waits;
  add_check(text, size, "in operators", tg__pct(inside > 0 ? inside : 0, f->sum_ns));
  if (waits) add_check(text, size, "in calls that wait", tg__pct(waits, f->sum_ns));
}

/* Where nothing is to be found the question is what the machine could do. Bound by computing: the device, or the host's
 * operators, are at it for most of the time, and at a fair part of the peak; else memory or waiting holds them up. */
static void say_peak(const struct tg__facts *f, char *text, size_t size) {
  const int64_t labels = f->bare_ns - f->part_ns[TG__PART_OTHER];
  const double busy =
      f->has_device_work ? device_busy_pct(f) : tg__pct(f->part_ns[TG__PART_CPU_EXEC] - labels, f->sum_ns);
  const size_t len = strlen(text);
  double pct;
  char of[240];
  if (f->found_count || f->t->slices.count > SLICES_MOST) return;
  if (!tg__mfu_of(f->t, f->rank, &pct, of, sizeof of)) {
    if (*of) tg__say(text + len, size - len, "; %s", of);
    return;
  }
  tg__say(text + len, size - len, "; %s%.1f %% of the peak of %s",
          busy >= BUSY_PCT && pct >= FAIR_PCT ? "compute-bound, at " : "at ", pct, of);
}

/* Two numbers of steps say whether they are alike: the median, and the mean that one long step moves. */
void tg__note_checks(struct tg__facts *f, struct tg_table *out) {
  char text[900] = "";
  const int64_t mean = tg__per_step(f, f->sum_ns);
  if (f->sum_ns <= 0) return;
  if (f->has_device_work) check_device(f, text, sizeof text);
  add_check(text, sizeof text, "data loader", tg__pct(f->part_ns[TG__PART_DATALOADER], f->sum_ns));
  add_check(text, sizeof text, "exposed communication", tg__pct(f->part_ns[TG__PART_COMMUNICATION], f->sum_ns));
  if (!f->has_device_work) check_host(f, text, sizeof text);
  const size_t len = strlen(text);
  if (f->steps.source != TG__STEPS_RECORDING && f->steps.count > 1)
    tg__say(text + len, sizeof text - len, "; %zu steps, median %.2f ms, mean %.2f ms", f->steps.count,
            tg__ms(f->median_ns), tg__ms(mean));
  say_peak(f, text, sizeof text);
  tg__table_note(out, "checked: %s", text);
}
