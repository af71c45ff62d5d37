/* tile: 1024 columns of a row as runs of columns that look alike.
 *
 * Each column takes from the index as large a piece as lies inside it, so its cost is a few dozen looks however many
 * slices it holds, and a slice that fills many columns costs one. */
#include "view/row_index.h"
#include "view/tile.h"

struct runs {
  uint32_t slice[TG__TILE_COLUMNS], name[TG__TILE_COLUMNS];
  uint16_t column[TG__TILE_COLUMNS], length[TG__TILE_COLUMNS];
  uint8_t density[TG__TILE_COLUMNS], look[TG__TILE_COLUMNS], shade[TG__TILE_COLUMNS], flags[TG__TILE_COLUMNS];
  uint16_t count;
};
struct sweep { /* over the columns of one tile, and the positions of the row with them */
  struct tg__row_reader row;
  struct tg__node_levels levels;
  uint32_t position;
  struct tg__slice_classes *classes;
  struct runs *runs;
  unsigned level;
};
struct column {       /* what lies inside it */
  int64_t begin, end; /* ns */
  int64_t busy_ns, most_ns;
  uint32_t dominant;
  bool has_any, has_more;
};

static int64_t start_of(struct sweep *s, uint32_t position) {
  return s->row.trace->slices.start_ns[tg__row_at(&s->row, position)];
}

static void count_in(struct column *c, uint32_t slice, int64_t busy_ns, int64_t most_ns, bool is_one) {
  c->has_more |= c->has_any || !is_one;
  c->has_any = true;
  c->busy_ns += busy_ns;
  if (most_ns <= c->most_ns) return;
  c->most_ns = most_ns;
  c->dominant = slice;
}

/* The first position from the sweep's on where a slice begins at ns or later: in steps that double, so that what is
 * near costs little. */
static uint32_t position_from(struct sweep *s, int64_t ns) {
  const int64_t *const start = s->row.trace->slices.start_ns;
  const uint32_t blocks = tg__blocks_of(s->row.row->count);
  uint32_t low = (s->position >> TG__FAN_BITS) + 1, high = low; /* blocks before `low` begin before ns */
  for (uint32_t step = 1; high < blocks && start[tg__row_block_first(&s->row, high)] < ns; step *= 2) {
    low = high + 1;
    high = blocks - high > step ? high + step : blocks;
  }
  TG__PARTITION(low, high, i, start[tg__row_block_first(&s->row, i)] < ns);
  uint32_t p = (low - 1) << TG__FAN_BITS;
  if (p < s->position) p = s->position;
  while (p < s->row.row->count && p < low << TG__FAN_BITS && start_of(s, p) < ns) p++;
  return p;
}

/* The block at the position, or the largest node that begins with it and ends before `past`. */
static void take_group(struct sweep *s, struct column *c, uint32_t past) {
  const struct tg__track_index *const ix = s->row.index;
  const struct tg__row *const row = s->row.row;
  uint32_t level = 0, at = s->position >> TG__FAN_BITS, size = TG__FAN;
  while (level < s->levels.count && !(at & (TG__FAN - 1)) && past - s->position >= (uint64_t)size << TG__FAN_BITS) {
    at >>= TG__FAN_BITS;
    size <<= TG__FAN_BITS;
    level++;
  }
  const uint32_t node = level ? s->levels.first[level - 1] + at : row->first_block + at;
  const int64_t busy = ix->busy_ns[level ? ix->block_count + node : node];
  const bool is_shorter = !level && ix->most_ns[node] != UINT32_MAX && ix->most_ns[node] <= c->most_ns;
  const uint32_t longest = is_shorter ? c->dominant
                           : level    ? ix->longest[node]
                                      : tg__row_at(&s->row, s->position + (ix->form[node] & (TG__FAN - 1)));
  count_in(c, longest, busy, is_shorter ? c->most_ns : s->row.trace->slices.dur_ns[longest], false);
  s->position += size;
}

/* The part of the slice at the position that lies inside the column; false: it goes on behind it. */
static bool take_part(struct sweep *s, struct column *c) {
  const struct tg__slices *const sl = &s->row.trace->slices;
  const uint32_t slice = tg__row_at(&s->row, s->position);
  const int64_t start = sl->start_ns[slice], end = start + sl->dur_ns[slice];
  const int64_t from = start > c->begin ? start : c->begin, to = end < c->end ? end : c->end;
  count_in(c, slice, to - from, to - from, true);
  if (end > c->end) return false;
  s->position++;
  return true;
}

/* Everything of the row inside the column; the position stays at a slice that goes on behind it. Slices are disjoint
 * and in order: of those that begin before its end all but the first and the last lie in it whole. */
static void fill_column(struct sweep *s, struct column *c) {
  const struct tg__slices *const sl = &s->row.trace->slices;
  const uint32_t past = position_from(s, c->end);
  if (s->position == past || !take_part(s, c)) return;
  while (s->position + 1 < past) {
    if (!(s->position & (TG__FAN - 1)) && past - 1 - s->position >= TG__FAN) {
      take_group(s, c, past - 1);
      continue;
    }
    const int64_t dur = sl->dur_ns[tg__row_at(&s->row, s->position)];
    count_in(c, tg__row_at(&s->row, s->position), dur, dur, true);
    s->position++;
  }
  if (s->position < past) take_part(s, c);
}

static void put_run(struct sweep *s, unsigned column, unsigned length, const struct column *c) {
  const struct tg__columns *const t = s->row.trace;
  struct runs *const r = s->runs;
  const unsigned i = r->count++;
  const int64_t width = (int64_t)1 << s->level, busy = c->busy_ns < width ? c->busy_ns : width;
  r->slice[i] = c->dominant;
  r->name[i] = t->slices.name[c->dominant];
  r->column[i] = (uint16_t)column;
  r->length[i] = (uint16_t)length;
  r->density[i] = (uint8_t)(1 + (busy * 254 >> s->level));
  r->look[i] = (uint8_t)tg__slice_class_of(s->classes, c->dominant);
  r->shade[i] = tg__shade_of(s->classes, r->name[i]);
  r->flags[i] =
      (uint8_t)((t->slices.flags[c->dominant] & TG__F_UNCLOSED ? TG__TILE_OPEN : 0) |
                (t->slices.cause[c->dominant] != TG_NONE ? TG__TILE_CAUSED : 0) | (c->has_more ? TG__TILE_MORE : 0));
}

/* Columns that the slice at the position fills from this one on. */
static unsigned count_filled(struct sweep *s, int64_t begin, unsigned column) {
  if (s->position >= s->row.row->count) return 0;
  const uint32_t slice = tg__row_at(&s->row, s->position);
  if (s->row.trace->slices.start_ns[slice] > begin) return 0;
  const int64_t columns = (tg__slice_end(s->row.trace, slice) - begin) >> s->level;
  return columns <= 0 ? 0 : columns > TG__TILE_COLUMNS - column ? TG__TILE_COLUMNS - column : (unsigned)columns;
}

static void fill_runs(struct sweep *s, int64_t begin) {
  const int64_t width = (int64_t)1 << s->level;
  for (unsigned k = 0; k < TG__TILE_COLUMNS && s->position < s->row.row->count;) {
    const int64_t at = begin + k * width, ahead = (start_of(s, s->position) - at) >> s->level;
    if (ahead > 0) { /* nothing before it */
      if (ahead >= TG__TILE_COLUMNS - k) return;
      k += (unsigned)ahead;
      continue;
    }
    const unsigned filled = count_filled(s, at, k);
    struct column c = {.begin = at, .end = at + (filled ? filled : 1) * width, .most_ns = -1};
    if (filled) {
      const uint32_t slice = tg__row_at(&s->row, s->position);
      count_in(&c, slice, width, width, true);
      if (tg__slice_end(s->row.trace, slice) <= c.end) s->position++;
    } else
      fill_column(s, &c);
    if (c.has_any) put_run(s, k, filled ? filled : 1, &c);
    k += filled ? filled : 1;
  }
}

bool tg__tile_begin(int64_t shift, unsigned level, int32_t tile, int64_t *begin) {
  const __int128 at = (__int128)tile * ((__int128)1 << (level + 10)) - shift;
  *begin = (int64_t)at;
  return at > INT64_MIN && at + ((__int128)1 << (level + 10)) < INT64_MAX;
}

void tg__tile_head(struct tg__out *out, uint32_t row, int32_t tile, uint16_t kind, uint16_t count) {
  tg__out_bytes(out, &row, sizeof row);
  tg__out_bytes(out, &tile, sizeof tile);
  tg__out_bytes(out, &kind, sizeof kind);
  tg__out_bytes(out, &count, sizeof count);
}

void tg__view_tile(const struct tg__view *v, struct tg__slice_classes *classes, uint32_t row, unsigned level,
                   int32_t tile, struct tg__out *out) {
  struct runs runs;
  runs.count = 0;
  struct sweep s = {.row = tg__row_read(v, row), .classes = classes, .runs = &runs, .level = level};
  int64_t begin;
  const int64_t shift = tg__view_shift(v, v->trace->tracks[s.row.row->track].rank);
  if (s.row.row->count && tg__tile_begin(shift, level, tile, &begin)) {
    s.levels = tg__node_levels_of(s.row.row);
    s.position = tg__row_position(&s.row, begin);
    if (s.position && tg__slice_end(v->trace, tg__row_at(&s.row, s.position - 1)) > begin) s.position--;
    fill_runs(&s, begin);
  }
  tg__tile_head(out, row, tile, 0, runs.count);
  tg__out_bytes(out, runs.slice, runs.count * sizeof *runs.slice);
  tg__out_bytes(out, runs.name, runs.count * sizeof *runs.name);
  tg__out_bytes(out, runs.column, runs.count * sizeof *runs.column);
  tg__out_bytes(out, runs.length, runs.count * sizeof *runs.length);
  tg__out_bytes(out, runs.density, runs.count);
  tg__out_bytes(out, runs.look, runs.count);
  tg__out_bytes(out, runs.shade, runs.count);
  tg__out_bytes(out, runs.flags, runs.count);
}
