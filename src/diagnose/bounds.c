/* What a step cannot be shorter than: the work of the device, or that of the host, whichever is longer. A cure that
 * shortens one of them is worth no more than the step's distance to what is left. */
#include "diagnose/findings.h"

enum { LAUNCH_NS = 50000, KEEPS_UP_PCT = 10 };

/* A launch takes some ten microseconds: one that takes longer waits for room in the queue, a copy for the device. So
 * does releasing memory: it may still be in use. */
static bool waits_for_device(const struct tg__columns *t, uint32_t slice) {
  const struct tg__str call = tg__slice_name(t, slice);
  if (tg__str_contains(call, "Synchronize")) return true;
  return t->slices.dur_ns[slice] > LAUNCH_NS &&
         (tg__str_contains(call, "Launch") || tg__str_contains(call, "Memcpy") || tg__call_frees(call));
}

/* Does the device seldom stand still for the host? Then the host has time to spare, and only its operators and calls
 * count. Else half of the time between them counts as well: it may be Python, or the pace of the device. */
static bool host_keeps_up(const struct tg__facts *f) {
  int64_t held_up = 0;
  for (enum tg__gap_cause c = TG__GAP_PYTHON; c < TG__GAP_CAUSE_COUNT; c++) held_up += f->gap_ns[c];
  return 100 * (held_up / (int64_t)f->gaps.device_count) <= KEEPS_UP_PCT * f->window_ns;
}

static int64_t inside(const struct tg__facts *f, const struct tg__spans *s) {
  return tg__spans_inside(s, f->steps.window.start_ns, f->steps.window.end_ns);
}

/* Joined, and without what comes once. */
static int64_t usual_part(struct tg__facts *f, struct tg__spans *s) {
  return inside(f, tg__rest_of(f, s, &f->one_off));
}

void tg__find_bounds(struct tg__facts *f) {
  struct tg__spans *const device = tg__new_spans(f), *const host = tg__new_spans(f), *const waits = tg__new_spans(f);
  f->window_ns = f->steps.window.end_ns - f->steps.window.start_ns - inside(f, &f->one_off);
  f->host_busy_ns = f->window_ns;
  if (!f->has_device_work) return;
  TG__EACH_IN_STEPS (w, f) {
    const bool calls = w.cls == TG__CLASS_RUNTIME, works = tg__class_is_device_work(w.cls);
    if (works || calls || w.cls == TG__CLASS_OP) tg__spans_add_slice(works ? device : host, f->t, w.slice);
    if (calls && waits_for_device(f->t, w.slice)) tg__spans_add_slice(waits, f->t, w.slice);
  }
  f->device_busy_ns = usual_part(f, device);
  const int64_t recorded = usual_part(f, host), waits_ns = usual_part(f, waits);
  f->host_busy_ns = (host_keeps_up(f) ? recorded : recorded + (f->window_ns - recorded) / 2) - waits_ns;
  f->device_bound = f->device_busy_ns > f->host_busy_ns;
}

int64_t tg__steps_shortened(const struct tg__facts *f, int64_t host_ns, int64_t device_ns, int64_t wait_ns) {
  if (!f->has_device_work) return host_ns + wait_ns;
  const int64_t host = f->host_busy_ns - host_ns, device = f->device_busy_ns - device_ns,
                left = host > device ? host : device;
  const int64_t room = f->window_ns - (left > 0 ? left : 0), gone = host_ns + device_ns + wait_ns;
  return gone < room ? gone : room > 0 ? room : 0;
}
