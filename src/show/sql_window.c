/* Conditions on slices become windows of rows: slices lie sorted by track and start, so a track, a span of time, an
 * id or a parent is a range found by binary search, and only a name needs a look at every row. */
#include "show/sql.h"

struct tg__sql_bounds tg__sql_everything(void) {
  return (struct tg__sql_bounds){
      .id_high = INT64_MAX, .track_high = INT64_MAX, .start_low = INT64_MIN, .start_high = INT64_MAX};
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
void tg__sql_bound_parent(struct tg__sql_bounds *b, const struct tg__columns *t, int64_t parent) {
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

static void enter_track(struct tg__sql_window *w, const struct tg__track *track) {
  const struct tg__sql_bounds *b = &w->b;
  uint64_t low = track->first, high = (uint64_t)track->first + track->count;
  if (b->id_low > (int64_t)low) low = (uint64_t)b->id_low;
  if (b->id_high < (int64_t)high - 1) high = b->id_high < 0 ? 0 : (uint64_t)b->id_high + 1;
  if (low < high && b->start_low != INT64_MIN)
    low = tg__first_slice_from(w->t, (struct tg__extent){(uint32_t)low, (uint32_t)high}, b->start_low);
  if (low < high && b->start_high != INT64_MAX)
    high = tg__first_slice_from(w->t, (struct tg__extent){(uint32_t)low, (uint32_t)high}, b->start_high + 1);
  w->row = low;
  w->end = high;
}

/* Move to the next row that is inside, or behind the last track. */
static void seek_next(struct tg__sql_window *w) {
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

/* ---- by name --------------------------------------------------------------------------------- */

struct names {
  const struct tg__columns *t;
  uint32_t *ids;   /* the names slices have, each once */
  uint32_t *where; /* by string id: how many slices have it, then where the next one goes */
};

static bool name_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct names *n = ctx;
  return tg__str_cmp(tg__name(n->t, n->ids[a]), tg__name(n->t, n->ids[b])) < 0;
}

/* Names are few, so only they are compared; the slices are then counted into place. SQLite's own sorter would
 * compare the name of every slice, which takes ten times as long as all the rest of a GROUP BY. */
static bool sort_names(struct names *n, uint32_t count) {
  uint32_t *const order = tg__order_new(count, name_before, n);
  if (!order) return false;
  for (uint32_t i = 0, sum = 0; i < count; i++) {
    uint32_t *const where = &n->where[n->ids[order[i]]];
    const uint32_t slices = *where;
    *where = sum;
    sum += slices;
  }
  tg__free(order);
  return true;
}

static bool sort_by_name(struct tg__sql_data *d) {
  const struct tg__slices *s = &d->t->slices;
  const size_t names = tg__strings_count(d->t->strings);
  struct names n = {d->t, tg__alloc((names + 1) * sizeof *n.ids), tg__alloc((names + 1) * sizeof *n.where)};
  uint32_t *const by_name = tg__alloc(((size_t)s->count + 1) * sizeof *by_name);
  uint32_t count = 0;
  bool ok = n.ids && n.where && by_name;
  for (uint32_t i = 0; ok && i < s->count; i++) {
    if (!n.where[s->name[i]]++) n.ids[count++] = s->name[i];
  }
  ok = ok && sort_names(&n, count);
  for (uint32_t i = 0; ok && i < s->count; i++) by_name[n.where[s->name[i]]++] = i;
  tg__free(n.ids);
  tg__free(n.where);
  if (ok) {
    d->by_name = by_name;
  } else {
    tg__free(by_name);
  }
  return ok;
}

static bool is_inside(const struct tg__sql_window *w, uint32_t i) {
  const struct tg__sql_bounds *b = &w->b;
  const int64_t start = w->t->slices.start_ns[i];
  return i >= b->id_low && i <= b->id_high && start >= b->start_low && start <= b->start_high &&
         (!b->has_name || w->t->slices.name[i] == b->name);
}

static void seek_next_by_name(struct tg__sql_window *w) {
  const uint32_t count = w->t->slices.count;
  while (w->at < count && !is_inside(w, w->order[w->at])) w->at++;
  w->row = w->at < count ? w->order[w->at] : 0;
  w->end = w->at < count ? w->row + 1 : 0;
}

bool tg__sql_seek_by_name(struct tg__sql_window *w, struct tg__sql_data *d, struct tg__sql_bounds b) {
  if (!d->by_name && !sort_by_name(d)) return false;
  tg__sql_seek(w, d->t, b); /* for the bounds it works out */
  if (w->row >= w->end) return true;
  const struct tg__track *first = &d->t->tracks[w->b.track_low], *last = &d->t->tracks[w->b.track_high];
  raise(&w->b.id_low, first->first);
  lower(&w->b.id_high, (int64_t)last->first + last->count - 1);
  w->order = d->by_name;
  seek_next_by_name(w);
  return true;
}

void tg__sql_next(struct tg__sql_window *w) {
  if (w->order) {
    w->at++;
    seek_next_by_name(w);
  } else {
    w->row++;
    seek_next(w);
  }
}

void tg__sql_seek(struct tg__sql_window *w, const struct tg__columns *t, struct tg__sql_bounds b) {
  *w = (struct tg__sql_window){.t = t, .b = b};
  const int64_t slices = t->slices.count;
  if (b.none || b.id_low > b.id_high || b.id_low >= slices || b.id_high < 0 || b.track_high < 0) return;
  raise(&w->b.track_low, tg__slice_track(t, (uint32_t)w->b.id_low));
  lower(&w->b.id_high, slices - 1);
  lower(&w->b.track_high, tg__slice_track(t, (uint32_t)w->b.id_high));
  if (w->b.track_low > w->b.track_high) return;
  w->track = (uint32_t)w->b.track_low;
  w->track_end = (uint32_t)w->b.track_high + 1;
  seek_next(w);
}
