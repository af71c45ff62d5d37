/* What works at once in a window of a selection: device beside host, streams and threads beside each other. */
#include "view/view.h"

/* Work of one kind: when some track has it, and when two have it. */
struct busy {
  struct tg__spans some, two;
  bool failed;
};

/* Device work, or operators that are in no other operator. */
static bool counts(const struct tg__columns *t, uint32_t slice, bool of_device) {
  const enum tg__class cls = tg__slice_class(t, slice);
  if (of_device) return tg__class_is_device_work(cls);
  const uint32_t parent = t->slices.parent[slice];
  return cls == TG__CLASS_OP && (parent == TG_NONE || tg__slice_class(t, parent) != TG__CLASS_OP);
}

/* On the clock of the view, cut to the window. */
static void find_on_track(const struct tg__view *v, const struct tg__selection *s, uint32_t k, bool of_device,
                          struct tg__spans *on) {
  const struct tg__columns *const t = v->trace;
  const int64_t shift = tg__view_shift(v, t->tracks[k].rank);
  TG__EACH (i, tg__slices_of(&t->tracks[k])) {
    const int64_t start = t->slices.start_ns[i] + shift, end = tg__slice_end(t, i) + shift;
    if (start >= s->end_ns) break;
    if (end <= s->start_ns || !counts(t, i, of_device)) continue;
    tg__spans_add(on, start < s->start_ns ? s->start_ns : start, end > s->end_ns ? s->end_ns : end);
  }
  tg__spans_union(on);
}

static void add_spans(struct tg__spans *to, const struct tg__spans *more) {
  for (size_t i = 0; i < more->count; i++) tg__spans_add(to, more->items[i].start, more->items[i].end);
  tg__spans_union(to);
}

static struct busy find_busy(const struct tg__view *v, const struct tg__selection *s, bool of_device) {
  struct busy b = {0};
  for (uint32_t k = 0; k < v->trace->track_count && !b.failed; k++) {
    struct tg__spans on = {0}, again = {0};
    if (s->tracks && !s->tracks[k]) continue;
    find_on_track(v, s, k, of_device, &on);
    if (on.count) {
      tg__spans_intersect(&b.some, &on, &again);
      add_spans(&b.two, &again);
      add_spans(&b.some, &on);
    }
    b.failed = on.failed || again.failed || b.some.failed || b.two.failed;
    tg__spans_free(&on);
    tg__spans_free(&again);
  }
  return b;
}

static void free_busy(struct busy *b) {
  tg__spans_free(&b->some);
  tg__spans_free(&b->two);
}

bool tg__view_note_at_once(const struct tg__view *v, const struct tg__selection *s, struct tg_table *out) {
  struct busy device = find_busy(v, s, true), host = find_busy(v, s, false);
  struct tg__spans both = {0};
  tg__spans_intersect(&device.some, &host.some, &both);
  const bool done = !device.failed && !host.failed && !both.failed;
  const double window = (double)(s->end_ns - s->start_ns) / 100;
  if (done && device.some.count)
    tg__table_note(
        out, "a device works for %.1f %% of it: beside operators of the host %.1f %%, two streams at once %.1f %%",
        (double)tg__spans_length(&device.some) / window, (double)tg__spans_length(&both) / window,
        (double)tg__spans_length(&device.two) / window);
  else if (done && host.some.count)
    tg__table_note(out, "operators run for %.1f %% of it: on two threads at once %.1f %%",
                   (double)tg__spans_length(&host.some) / window, (double)tg__spans_length(&host.two) / window);
  free_busy(&device);
  free_busy(&host);
  tg__spans_free(&both);
  return done;
}
