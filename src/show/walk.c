/* Slices and marks lie in two tables sorted by track and by time. A reference into the packed args grows with the
 * position in the file, so sorting both by it restores the order in which the events were written. */
#include "show/parts.h"

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, PASSES = 3 };

struct entry {
  uint32_t at; /* args reference */
  struct tg__event event;
};

/* Stable radix sort on 33 bits; three passes, so the result ends in `other`. */
static void sort_entries(struct entry *entries, struct entry *other, uint32_t count) {
  for (unsigned pass = 0; pass < PASSES; pass++) {
    uint32_t starts[DIGITS] = {0};
    const unsigned shift = pass * DIGIT_BITS;
    for (uint32_t i = 0; i < count; i++) starts[entries[i].at >> shift & (DIGITS - 1)]++;
    for (uint32_t d = 0, sum = 0; d < DIGITS; d++) {
      const uint32_t n = starts[d];
      starts[d] = sum;
      sum += n;
    }
    for (uint32_t i = 0; i < count; i++) other[starts[entries[i].at >> shift & (DIGITS - 1)]++] = entries[i];
    struct entry *const swap = entries;
    entries = other;
    other = swap;
  }
}

static uint32_t collect_events(const struct tg__columns *t, const struct tg__ask *selection, struct entry *out) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < t->track_count; k++) {
    const struct tg__track *track = &t->tracks[k];
    if (!tg__ask_has_track(selection, t, k)) continue;
    TG__EACH (i, tg__slices_of(track)) {
      if (!selection->has_steps || tg__ask_has_slice(selection, t, k, i))
        out[n++] = (struct entry){t->slices.args[i], {false, i}};
    }
  }
  for (uint32_t i = 0; i < t->marks.count; i++) {
    if (tg__show_has_mark(selection, t, i)) out[n++] = (struct entry){t->marks.args[i], {true, i}};
  }
  return n;
}

struct tg__event *tg__walk_new(const struct tg__columns *t, const struct tg__ask *selection, uint32_t *count) {
  const size_t most = (size_t)t->slices.count + t->marks.count + 1;
  struct entry *const entries = tg__alloc(most * sizeof *entries);
  struct entry *const sorted = tg__alloc(most * sizeof *sorted);
  struct tg__event *events = NULL;
  if (entries && sorted) {
    const uint32_t n = collect_events(t, selection, entries);
    sort_entries(entries, sorted, n);
    events = tg__alloc(((size_t)n + 1) * sizeof *events);
    for (uint32_t i = 0; events && i < n; i++) events[i] = sorted[i].event;
    *count = n;
  }
  tg__free(entries);
  tg__free(sorted);
  return events;
}
