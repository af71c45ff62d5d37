/* series: what changes or happens without a duration: counters, the memory of each device, instants of each track.
 *
 * A point is a mark. Points of one series stand together, in order of time; each 64 of a counter have their least and
 * most value, so that a tile looks at every point of no more than the columns that hold few. */
#include <math.h>

#include "view/tile.h"

enum { BLOCK = 64 };
struct series_range {
  float least, most;
};
struct tg__series_set {
  const struct tg__view *v;
  struct tg__series *series;
  uint32_t count;
  uint32_t *marks;             /* of all points, series by series */
  float *values;               /* of counters; of marks: unused */
  struct series_range *blocks; /* block b of all points: [64 b, 64 b + 64) */
};

/* ---- building ---------------------------------------------------------------------------------------- */

struct point {
  uint32_t series, mark;
  double value;
};
struct collecting {
  const struct tg__columns *t;
  struct tg__series *series;
  size_t count, cap;
  struct point *points;
  size_t point_count, point_cap;
  struct tg__map by_name;   /* track and name → first series of the counter; the next ones are chained */
  struct tg__map by_track;  /* → series of its instants */
  struct tg__map by_device; /* rank, type and number → three series from this one on */
  uint32_t *next;           /* of each series: the next of the same counter */
  size_t next_cap;
};

static bool add_series(struct collecting *c, struct tg__series series) {
  if (!tg__grow(&c->series, &c->cap, c->count + 1, sizeof *c->series) ||
      !tg__grow(&c->next, &c->next_cap, c->count + 1, sizeof *c->next))
    return false;
  series.least = INFINITY;
  series.most = -INFINITY;
  c->next[c->count] = TG_NONE;
  c->series[c->count++] = series;
  return true;
}

static bool add_point(struct collecting *c, uint32_t series, uint32_t mark, double value) {
  if (!tg__grow(&c->points, &c->point_cap, c->point_count + 1, sizeof *c->points)) return false;
  c->points[c->point_count++] = (struct point){series, mark, value};
  struct tg__series *const s = &c->series[series];
  s->count++;
  s->least = fmin(s->least, value);
  s->most = fmax(s->most, value);
  return true;
}

static bool same_process(const struct tg__columns *t, uint32_t a, uint32_t b) {
  const struct tg__track *const x = &t->tracks[a], *const y = &t->tracks[b];
  return x->rank == y->rank && x->pid == y->pid && x->pid_is_text == y->pid_is_text;
}

/* The first series of the counter: those of one name and process are one, whichever thread says it. */
static uint32_t first_of_counter(const struct collecting *c, uint32_t track, uint32_t name) {
  for (uint32_t i = 0; i < c->count; i++)
    if (c->series[i].what == TG__SERIES_COUNTER && c->series[i].name == name &&
        same_process(c->t, c->series[i].track, track))
      return i;
  return TG_NONE;
}

static bool add_counter(struct collecting *c, uint32_t mark, uint32_t track) {
  const struct tg__columns *const t = c->t;
  const uint32_t name = t->marks.name[mark];
  uint32_t *const slot = tg__map_slot(&c->by_name, (uint64_t)track << 32 | name, TG_NONE);
  if (!slot) return false;
  uint32_t first = *slot == TG_NONE ? first_of_counter(c, track, name) : *slot;
  struct tg__args_iter it;
  for (tg__args_begin(t, t->marks.args[mark], &it); tg__args_next(&it);) {
    if (it.field->top || (it.val.kind != TG__KIND_INT && it.val.kind != TG__KIND_DEC)) continue;
    uint32_t at = first, last = TG_NONE;
    for (; at != TG_NONE && c->series[at].key != it.field->key; at = c->next[at]) last = at;
    if (at == TG_NONE) {
      at = (uint32_t)c->count;
      const struct tg__series s = {.what = TG__SERIES_COUNTER, .track = track, .name = name, .key = it.field->key};
      if (!add_series(c, s)) return false;
      if (last != TG_NONE) c->next[last] = at;
      if (first == TG_NONE) first = at;
    }
    const double value = (double)it.val.i * pow(10, -(double)it.val.decimals);
    if (!add_point(c, at, mark, value)) return false;
  }
  *slot = first;
  return true;
}

/* What the allocator reported; where it did not, the sum of what was taken and given back since the first event. */
static bool add_memory(struct collecting *c, uint32_t mark, uint32_t track) {
  const struct tg__columns *const t = c->t;
  const uint32_t args = t->marks.args[mark];
  const struct tg__memory_device device = tg__memory_device_read(t, args);
  const uint64_t key = (uint64_t)t->tracks[track].rank << 32 | (uint16_t)device.type << 16 | (uint16_t)device.id;
  uint32_t *const first = tg__map_slot(&c->by_device, key, (uint32_t)c->count);
  if (!first) return false;
  if (*first == c->count)
    for (int what = TG__SERIES_ALLOCATED; what <= TG__SERIES_NET; what++)
      if (!add_series(c, (struct tg__series){.what = (enum tg__series_what)what, .track = track, .device = device}))
        return false;
  const int64_t allocated = tg__arg_int(t, args, TG__K_TOTAL_ALLOCATED, -1),
                reserved = tg__arg_int(t, args, TG__K_TOTAL_RESERVED, -1);
  c->series[*first + 2].sum += (double)tg__arg_int(t, args, TG__K_BYTES_MEMORY, 0);
  if (allocated > 0 || c->series[*first].count)
    return add_point(c, *first, mark, (double)allocated) &&
           (reserved <= 0 || add_point(c, *first + 1, mark, (double)reserved));
  return add_point(c, *first + 2, mark, c->series[*first + 2].sum);
}

static bool add_instant(struct collecting *c, uint32_t mark, uint32_t track) {
  uint32_t *const series = tg__map_slot(&c->by_track, track, (uint32_t)c->count);
  if (!series) return false;
  if (*series == c->count && !add_series(c, (struct tg__series){.what = TG__SERIES_INSTANTS, .track = track}))
    return false;
  return add_point(c, *series, mark, 0);
}

static bool add_mark(struct collecting *c, uint32_t mark) {
  const struct tg__columns *const t = c->t;
  const uint32_t track = t->marks.track[mark];
  const uint8_t ph = t->marks.ph[mark];
  if (track >= t->track_count || t->marks.ts_ns[mark] == TG_NULL_INT) return true;
  if (ph == 'C') return add_counter(c, mark, track);
  if (ph != 'i' && ph != 'I' && ph != 'R') return true;
  return t->marks.name[mark] == TG__K_MEMORY ? add_memory(c, mark, track) : add_instant(c, mark, track);
}

/* Series by series; those without points are left out. */
static bool arrange(struct collecting *c, struct tg__series_set *s) {
  uint32_t *const place = tg__alloc((c->count + 1) * sizeof *place);
  s->series = tg__alloc((c->count + 1) * sizeof *s->series);
  s->marks = tg__alloc((c->point_count + 1) * sizeof *s->marks);
  s->values = tg__alloc((c->point_count + 1) * sizeof *s->values);
  s->blocks = tg__alloc((c->point_count / BLOCK + 1) * sizeof *s->blocks);
  const bool ok = place && s->series && s->marks && s->values && s->blocks;
  uint32_t first = 0;
  for (size_t i = 0; ok && i < c->count; i++) {
    place[i] = first;
    c->series[i].first = first;
    first += c->series[i].count;
    if (c->series[i].count) s->series[s->count++] = c->series[i];
  }
  for (size_t i = 0; ok && i < c->point_count; i++) {
    const uint32_t at = place[c->points[i].series]++;
    s->marks[at] = c->points[i].mark;
    s->values[at] = (float)c->points[i].value;
  }
  for (size_t i = 0; ok && i < c->point_count; i++) {
    struct series_range *const b = &s->blocks[i / BLOCK];
    if (i % BLOCK == 0) *b = (struct series_range){s->values[i], s->values[i]};
    b->least = fminf(b->least, s->values[i]);
    b->most = fmaxf(b->most, s->values[i]);
  }
  tg__free(place);
  return ok;
}

enum tg_err tg__series_open(const struct tg__view *v, struct tg__series_set **out, struct tg_error *e) {
  struct collecting c = {.t = v->trace};
  struct tg__series_set *const s = *out = tg__alloc(sizeof *s);
  bool ok = s != NULL;
  if (ok) s->v = v;
  for (uint32_t i = 0; i < v->trace->marks.count && ok; i++) ok = add_mark(&c, i);
  ok = ok && c.point_count < TG_NONE && arrange(&c, s);
  tg__map_free(&c.by_name);
  tg__map_free(&c.by_track);
  tg__map_free(&c.by_device);
  tg__free(c.series);
  tg__free(c.points);
  tg__free(c.next);
  if (ok) return TG_OK;
  tg__series_close(s);
  *out = NULL;
  return tg__no_memory(e, "collecting counters and instants");
}

void tg__series_close(struct tg__series_set *s) {
  if (!s) return;
  tg__free(s->series);
  tg__free(s->marks);
  tg__free(s->values);
  tg__free(s->blocks);
  tg__free(s);
}

uint32_t tg__series_count(const struct tg__series_set *s) { return s ? s->count : 0; }
const struct tg__series *tg__series_at(const struct tg__series_set *s, uint32_t i) { return &s->series[i]; }

/* ---- tiles ------------------------------------------------------------------------------------------- */

/* The first point of [from, past) that is not before ns. */
static uint32_t point_from(const struct tg__series_set *s, uint32_t from, uint32_t past, int64_t ns) {
  TG__PARTITION(from, past, i, s->v->trace->marks.ts_ns[s->marks[i]] < ns);
  return from;
}

static struct series_range range_of(const struct tg__series_set *s, uint32_t from, uint32_t past) {
  struct series_range r = {s->values[from], s->values[from]};
  for (uint32_t i = from; i < past;) {
    const bool whole = i % BLOCK == 0 && past - i >= BLOCK;
    const struct series_range next = whole ? s->blocks[i / BLOCK] : (struct series_range){s->values[i], s->values[i]};
    r.least = fminf(r.least, next.least);
    r.most = fmaxf(r.most, next.most);
    i += whole ? BLOCK : 1;
  }
  return r;
}

struct points { /* of the columns of a tile that have some */
  float least[TG__TILE_COLUMNS], most[TG__TILE_COLUMNS], last[TG__TILE_COLUMNS];
  uint32_t mark[TG__TILE_COLUMNS], name[TG__TILE_COLUMNS];
  uint16_t column[TG__TILE_COLUMNS], points[TG__TILE_COLUMNS];
  uint16_t count;
};

static void put_points(const struct tg__series_set *s, struct points *p, uint16_t column, uint32_t from, uint32_t past,
                       uint32_t points) {
  const uint16_t n = p->count++;
  const struct series_range r = range_of(s, from, past);
  p->least[n] = r.least;
  p->most[n] = r.most;
  p->last[n] = s->values[past - 1];
  p->mark[n] = s->marks[from];
  p->name[n] = s->v->trace->marks.name[s->marks[from]];
  p->column[n] = column;
  p->points[n] = (uint16_t)(points < UINT16_MAX ? points : UINT16_MAX);
}

/* ns is not before begin; their distance may exceed an int64. */
static uint64_t column_of(int64_t ns, int64_t begin, unsigned level) {
  return ((uint64_t)ns - (uint64_t)begin) >> level;
}

static void fill_points(const struct tg__series_set *s, const struct tg__series *series, unsigned level, int64_t begin,
                        struct points *p) {
  const int64_t *const ts = s->v->trace->marks.ts_ns;
  const uint32_t first = series->first, past = first + series->count;
  uint32_t at = point_from(s, first, past, begin);
  const bool is_counter = series->what != TG__SERIES_INSTANTS;
  if (is_counter && at > first && (at == past || column_of(ts[s->marks[at]], begin, level) > 0))
    put_points(s, p, 0, at - 1, at, 0); /* the value before the tile */
  while (at < past) {
    const uint64_t column = column_of(ts[s->marks[at]], begin, level);
    if (column >= TG__TILE_COLUMNS) return;
    const uint32_t next = point_from(s, at, past, begin + (int64_t)((column + 1) << level));
    put_points(s, p, (uint16_t)column, at, next > at ? next : at + 1, next - at);
    at = next > at ? next : at + 1; /* a file may say that its marks are in order, and lie */
  }
}

void tg__series_tile(const struct tg__series_set *s, uint32_t row, unsigned level, int32_t tile, struct tg__out *out) {
  const struct tg__series *const series = &s->series[row - s->v->row_count];
  struct points p;
  int64_t begin;
  p.count = 0;
  if (tg__tile_begin(tg__view_shift(s->v, s->v->trace->tracks[series->track].rank), level, tile, &begin))
    fill_points(s, series, level, begin, &p);
  const bool is_counter = series->what != TG__SERIES_INSTANTS;
  tg__tile_head(out, row, tile, is_counter ? 1 : 2, p.count);
  if (is_counter) {
    tg__out_bytes(out, p.least, p.count * sizeof *p.least);
    tg__out_bytes(out, p.most, p.count * sizeof *p.most);
    tg__out_bytes(out, p.last, p.count * sizeof *p.last);
  } else {
    tg__out_bytes(out, p.mark, p.count * sizeof *p.mark);
    tg__out_bytes(out, p.name, p.count * sizeof *p.name);
  }
  tg__out_bytes(out, p.column, p.count * sizeof *p.column);
  tg__out_bytes(out, p.points, p.count * sizeof *p.points);
}
