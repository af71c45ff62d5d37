/* Conditions on slices become windows of rows: slices lie sorted by track and start, so a track, a span of time, an id or a parent
 * is a range found by binary search, and only a name needs a look at every row. */
#include "show/sql.h"

struct tg__sql_bounds tg__sql_everything(void) {
  return (struct tg__sql_bounds){.id_high = INT64_MAX, .track_high = INT64_MAX, .start_low = INT64_MIN, .start_high = INT64_MAX};
}

static void raise(int64_t *low, int64_t v) {
  if (v > *low) *low = v;
}

static void lower(int64_t *high, int64_t v) {
  if (v < *high) *high = v;
}

void tg__sql_bound_low(struct tg__sql_bounds *b, enum tg__sql_role role, int64_t v) {
  if (role == TG__SQL_ID) raise(&b->id_low, v);
  if (role == TG__SQL_TRACK) raise(&b->track_low, v);
  if (role == TG__SQL_START) raise(&b->start_low, v);
}

void tg__sql_bound_high(struct tg__sql_bounds *b, enum tg__sql_role role, int64_t v) {
  if (role == TG__SQL_ID) lower(&b->id_high, v);
  if (role == TG__SQL_TRACK) lower(&b->track_high, v);
  if (role == TG__SQL_START) lower(&b->start_high, v);
}

/* Children stand behind their parent on its track and start before it ends. */
void tg__sql_bound_parent(struct tg__sql_bounds *b, const struct tg_trace *t, int64_t parent) {
  if (parent < 0 || parent >= t->slices.count) {
    b->none = true;
    return;
  }
  const int64_t track = tg__slice_track(t, (uint32_t)parent);
  raise(&b->id_low, parent + 1);
  raise(&b->track_low, track);
  lower(&b->track_high, track);
  lower(&b->start_high, tg__slice_end(t, (uint32_t)parent));
}

/* First slice in [low, high) that starts at ns or later. */
static uint64_t first_from(const struct tg_trace *t, uint64_t low, uint64_t high, int64_t ns) {
  while (low < high) {
    const uint64_t mid = low + (high - low) / 2;
    if (t->slices.start_ns[mid] < ns) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  return low;
}

static void enter_track(struct tg__sql_window *w, const struct tg__track *track) {
  const struct tg__sql_bounds *b = &w->b;
  uint64_t low = track->first, high = (uint64_t)track->first + track->count;
  if (b->id_low > (int64_t)low) low = (uint64_t)b->id_low;
  if (b->id_high < (int64_t)high - 1) high = b->id_high < 0 ? 0 : (uint64_t)b->id_high + 1;
  if (low < high && b->start_low != INT64_MIN) low = first_from(w->t, low, high, b->start_low);
  if (low < high && b->start_high != INT64_MAX) high = first_from(w->t, low, high, b->start_high + 1);
  w->row = low;
  w->end = high;
}

/* Come to rest on a row that is inside, or behind the last track. */
static void settle(struct tg__sql_window *w) {
  for (;;) {
    while (w->row < w->end && w->b.has_name && w->t->slices.name[w->row] != w->b.name) w->row++;
    if (w->row < w->end) return;
    if (w->track >= w->track_end) {
      w->row = w->end = 0;
      return;
    }
    enter_track(w, &w->t->tracks[w->track++]);
  }
}

void tg__sql_next(struct tg__sql_window *w) {
  w->row++;
  settle(w);
}

void tg__sql_seek(struct tg__sql_window *w, const struct tg_trace *t, struct tg__sql_bounds b) {
  *w = (struct tg__sql_window){.t = t, .b = b};
  const int64_t slices = t->slices.count;
  if (b.none || b.id_low > b.id_high || b.id_low >= slices || b.id_high < 0 || b.track_high < 0) return;
  raise(&w->b.track_low, tg__slice_track(t, (uint32_t)w->b.id_low));
  lower(&w->b.id_high, slices - 1);
  lower(&w->b.track_high, tg__slice_track(t, (uint32_t)w->b.id_high));
  if (w->b.track_low > w->b.track_high) return;
  w->track = (uint32_t)w->b.track_low;
  w->track_end = (uint32_t)w->b.track_high + 1;
  settle(w);
}
