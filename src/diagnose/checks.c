/* What was measured, whether it is well or not: so that a short list of findings is not mistaken for few checks. */
#include "diagnose/findings.h"

#include "analyze/device/device_figures.h"
#include "analyze/work/flops.h"

#include <stdio.h>

enum { BUSY_PCT = 80, FAIR_PCT = 20, SLICES_MOST = 1 << 21 }; /* counting the operations of more takes seconds */

static void add_check(char *text, size_t size, const char *what, double pct) {
  tg__text_add(text, size, "%s%s %.1f %%", *text ? ", " : "", what, pct);
}

/* Of time that a finding is about as well, the share that it states: of usual steps, where pct is the mean of all. */
static double as_found(const struct tg__facts *f, enum tg__cause cause, double pct) {
  const struct tg__finding *const x = tg__finding_of(f, cause);
  return x ? x->share_pct : pct;
}

/* Without steps a device may have work in a part of the recording only, which says nothing of how it is used. */
static void check_device(const struct tg__facts *f, double busy, size_t devices, char *text, size_t size) {
  if (tg__has_little_work(f)) return;
  add_check(text, size, devices > 1 ? "devices busy, on average," : "device busy", busy);
  if (tg__has_steps(f)) tg__text_add(text, size, " (%s)", tg__utilisation_class(busy));
  const double idle = as_found(f, TG__CAUSE_IDLE_DEVICE, 0);
  if (idle > 0) add_check(text, size, "without a kernel", idle);
}

/* Where nothing is to be found the question is what the machine could do. Bound by computing: the device, or the host's
 * operators, are at it for most of the time, and at a fair part of the peak; else memory or waiting holds them up. */
static void say_peak(const struct tg__facts *f, double busy, char *text, size_t size) {
  double pct;
  char of[240];
  if (f->found_count || f->t->slices.count > SLICES_MOST) return;
  if (!tg__mfu_of(f->t, f->rank, &pct, of, sizeof of)) {
    if (*of) tg__text_add(text, size, "; %s", of);
    return;
  }
  tg__text_add(text, size, "; %s%.1f %% of the peak of %s",
               busy >= BUSY_PCT && pct >= FAIR_PCT ? "compute-bound, at " : "at ", pct, of);
}

static void say_steps(const struct tg__facts *f, char *text, size_t size) {
  const size_t n = f->steps.count;
  if (!tg__has_steps(f))
    tg__text_add(text, size, "; shares are of the recording");
  else if (n == 1)
    tg__text_add(text, size, "; shares are of the one step");
  else
    tg__text_add(text, size, "; shares are of %zu steps, median %.2f ms, mean %.2f ms", n, tg__ms(f->median_ns),
                 tg__ms(f->all_ns / (int64_t)n));
}

static void say_sampled(const struct tg__facts *f, char *text, size_t size) {
  struct tg__device_figure figures[TG__DEVICE_FIGURES];
  const size_t count = tg__device_figures(f->t, f->rank, figures);
  const char *before = "; sampled:";
  for (size_t k = 0; k < count; k++) {
    const struct tg__device_figure *const x = &figures[k];
    if (strcmp(x->unit, "bytes") == 0) continue;
    tg__text_add(text, size, "%s device %.*s %.*s %.0f %s", before, (int)x->device.len, x->device.ptr, (int)x->name.len,
                 x->name.ptr, x->mean, x->unit);
    before = ",";
  }
}

/* Each share is one that a question has (steps by=summary, breakdown window=steps, mfu), or that of a finding about the
 * same time. Two numbers of steps say whether they are alike: the median, and the mean that one long step moves. */
void tg__note_checks(struct tg__facts *f, struct tg_table *out) {
  char text[900] = "";
  const int64_t all_ns = f->all_ns, *const part_ns = f->part_ns;
  size_t devices = 0;
  if (all_ns <= 0) return;
  double busy = tg__pct(part_ns[TG__PART_CPU_EXEC] - f->label_ns, all_ns);
  const double in_operators = busy;
  if (f->has_device_work) f->failed |= !tg__devices_busy(f->t, f->rank, &busy, &devices);
  if (f->has_device_work) check_device(f, busy, devices, text, sizeof text);
  const double loader = as_found(f, TG__CAUSE_LOADER_TOO_SLOW, tg__pct(part_ns[TG__PART_DATALOADER], all_ns));
  add_check(text, sizeof text, "data loader", as_found(f, TG__CAUSE_LOADER_IN_MAIN_PROCESS, loader));
  add_check(text, sizeof text, "exposed communication",
            as_found(f, TG__CAUSE_COMMUNICATION_NOT_OVERLAPPED, tg__pct(part_ns[TG__PART_COMMUNICATION], all_ns)));
  if (!f->has_device_work) add_check(text, sizeof text, "in operators", in_operators);
  say_steps(f, text, sizeof text);
  say_peak(f, busy, text, sizeof text);
  say_sampled(f, text, sizeof text);
  tg__table_note(out, "measured: %s", text);
}
