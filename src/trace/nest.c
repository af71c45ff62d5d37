/* nest: parent, depth and lane of the slices of one track, from their order.
 *
 * One stack of open slices. A slice that begins when the top has ended pops it; one that ends after the top pops it
 * too (they overlap in part: the newcomer becomes its sibling, and later slices look for a parent in the newcomer).
 * Exception: a slice without length at the very time of another without length lies inside it. */
#include "trace/import.h"

struct stack {
  uint32_t *open;
  size_t count, cap;
};

enum { MOST_LANES = 255 };

static bool push(struct stack *s, uint32_t slice) {
  if (s->count == s->cap && !tg__grow((void **)&s->open, &s->cap, s->count + 1, sizeof *s->open)) return false;
  s->open[s->count++] = slice;
  return true;
}

static void pop_ended(const struct tg__columns *t, struct stack *s, uint32_t slice) {
  const int64_t start = t->slices.start_ns[slice], dur = t->slices.dur_ns[slice];
  while (s->count) {
    const uint32_t top = s->open[s->count - 1];
    const bool ended = start >= tg__slice_end(t, top);
    if (!ended || (dur == 0 && start == t->slices.start_ns[top])) break;
    s->count--;
  }
}

/* The first lane in which the slice nests with all that is open there. Each lane has its own stack of open slices. */
static uint8_t find_lane(struct tg__columns *t, struct stack *lanes, uint16_t *lane_count, uint32_t slice, bool *ok) {
  const int64_t end = tg__slice_end(t, slice);
  for (unsigned lane = 0; lane < MOST_LANES; lane++) {
    struct stack *s = &lanes[lane];
    pop_ended(t, s, slice);
    if (s->count && tg__slice_end(t, s->open[s->count - 1]) < end) continue;
    *ok &= push(s, slice);
    if (lane + 1 > *lane_count) *lane_count = (uint16_t)(lane + 1);
    return (uint8_t)lane;
  }
  *lane_count = MOST_LANES + 1;
  return MOST_LANES; /* 255: no lane of its own any more */
}

static enum tg_err spread_over_lanes(struct tg__columns *t, struct tg__track *track) {
  struct stack *lanes = tg__alloc(MOST_LANES * sizeof *lanes);
  if (!lanes) return TG_MEMORY;
  bool ok = true;
  for (uint32_t i = track->first; i < track->first + track->count && ok; i++)
    t->slices.lane[i] = find_lane(t, lanes, &track->lanes, i, &ok);
  for (unsigned lane = 0; lane < MOST_LANES; lane++) tg__free(lanes[lane].open);
  tg__free(lanes);
  return ok ? TG_OK : TG_MEMORY;
}

enum tg_err tg__nest_track(struct tg__columns *t, struct tg__track *track) {
  struct stack s = {0};
  struct tg__slices *sl = &t->slices;
  bool overlaps = false, ok = true;
  for (uint32_t i = track->first; i < track->first + track->count && ok; i++) {
    pop_ended(t, &s, i);
    const int64_t end = tg__slice_end(t, i);
    while (s.count && end > tg__slice_end(t, s.open[s.count - 1])) s.count--, overlaps = true;
    sl->parent[i] = s.count ? s.open[s.count - 1] : TG_NONE;
    sl->depth[i] = s.count < UINT16_MAX ? (uint16_t)s.count : UINT16_MAX;
    sl->lane[i] = 0;
    sl->cause[i] = TG_NONE;
    ok = push(&s, i);
  }
  tg__free(s.open);
  track->lanes = 1;
  if (!ok) return TG_MEMORY;
  return overlaps ? spread_over_lanes(t, track) : TG_OK;
}
