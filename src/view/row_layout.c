/* row_layout: which rows a track has, and their index.
 *
 * Where all slices of a track nest, a row is a depth. Where some overlap, each has a lane, and inside its lane it
 * nests; how deep there is found again with one stack of open slices a lane. Slices of the lane 255, for which there
 * was none left, and those deeper than a depth can say, go to the row that was free first. */
#include "view/row_index.h"

#include <assert.h>

enum { LAST_LANE = 255 };

/* ---- tracks with more than one lane ------------------------------------------------------------- */

struct lane {
  uint32_t *open; /* slices that have begun and not ended, the innermost last */
  size_t count, cap;
  uint32_t *rows; /* number of the row of each depth, counted within the track as they appear */
  size_t row_count, row_cap;
};
struct spread { /* over the lanes of one track */
  const struct tg__columns *t;
  struct lane lanes[LAST_LANE + 1];
  struct tg__row *rows; /* as they appear */
  size_t row_count, row_cap;
  uint32_t *row_of; /* of each slice of the track */
};

static bool add_row(struct spread *s, uint32_t lane) {
  struct lane *const l = &s->lanes[lane];
  if (!tg__grow(&s->rows, &s->row_cap, s->row_count + 1, sizeof *s->rows)) return false;
  if (!tg__grow(&l->rows, &l->row_cap, l->row_count + 1, sizeof *l->rows)) return false;
  s->rows[s->row_count] = (struct tg__row){.lane = lane, .depth = (uint32_t)l->row_count, .end_ns = INT64_MIN};
  l->rows[l->row_count++] = (uint32_t)s->row_count++;
  return true;
}

/* In a lane: the depth is how many are open around the slice. One without length at the very time of another lies
 * inside it. */
static bool find_depth(struct spread *s, struct lane *l, uint32_t slice, uint32_t *depth) {
  const int64_t start = s->t->slices.start_ns[slice], dur = s->t->slices.dur_ns[slice];
  while (l->count) {
    const uint32_t top = l->open[l->count - 1];
    if (start < tg__slice_end(s->t, top) || (dur == 0 && start == s->t->slices.start_ns[top])) break;
    l->count--;
  }
  if (!tg__grow(&l->open, &l->cap, l->count + 1, sizeof *l->open)) return false;
  *depth = (uint32_t)l->count;
  l->open[l->count++] = slice;
  return true;
}

static bool layout_ends_before(const struct spread *s, const struct lane *l, size_t a, size_t b) {
  return s->rows[l->rows[l->open[a]]].end_ns < s->rows[l->rows[l->open[b]]].end_ns;
}

static void sift_down(const struct spread *s, struct lane *l) {
  for (size_t i = 0;;) {
    size_t least = i;
    for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < l->count; child++)
      if (layout_ends_before(s, l, child, least)) least = child;
    if (least == i) return;
    const uint32_t other = l->open[i];
    l->open[i] = l->open[least];
    l->open[least] = other;
    i = least;
  }
}

/* In the last lane: the row that was free first, from a heap of rows by their end, which `open` is here. */
static bool find_free(struct spread *s, struct lane *l, uint32_t slice, uint32_t *depth) {
  if (l->count && s->rows[l->rows[l->open[0]]].end_ns <= s->t->slices.start_ns[slice]) {
    *depth = l->open[0];
    s->rows[l->rows[*depth]].end_ns = tg__slice_end(s->t, slice);
    sift_down(s, l);
    return true;
  }
  if (!tg__grow(&l->open, &l->cap, l->count + 1, sizeof *l->open) || !add_row(s, LAST_LANE)) return false;
  *depth = (uint32_t)l->row_count - 1;
  s->rows[l->rows[*depth]].end_ns = tg__slice_end(s->t, slice);
  size_t i = l->count++;
  l->open[i] = *depth;
  while (i && layout_ends_before(s, l, i, (i - 1) / 2)) {
    const uint32_t other = l->open[i];
    l->open[i] = l->open[(i - 1) / 2];
    l->open[(i - 1) / 2] = other;
    i = (i - 1) / 2;
  }
  return true;
}

static bool spread_slice(struct spread *s, uint32_t slice, uint32_t number) {
  const uint32_t lane = s->t->slices.lane[slice];
  struct lane *const l = &s->lanes[lane];
  uint32_t depth;
  if (!(lane == LAST_LANE ? find_free(s, l, slice, &depth) : find_depth(s, l, slice, &depth))) return false;
  if (depth == l->row_count && !add_row(s, lane)) return false;
  const uint32_t row = l->rows[depth];
  s->rows[row].count++;
  s->row_of[number] = row;
  return true;
}

static void spread_close(struct spread *s) {
  for (unsigned i = 0; i <= LAST_LANE; i++) {
    tg__free(s->lanes[i].open);
    tg__free(s->lanes[i].rows);
  }
  tg__free(s->rows);
  tg__free(s->row_of);
  tg__free(s);
}

static struct spread *spread_track(const struct tg__columns *t, const struct tg__track *track) {
  struct spread *const s = tg__alloc(sizeof *s);
  if (!s) return NULL;
  s->t = t;
  s->row_of = tg__alloc(track->count * sizeof *s->row_of);
  bool ok = s->row_of != NULL;
  for (uint32_t i = 0; i < track->count && ok; i++) ok = spread_slice(s, track->first + i, i);
  if (ok) return s;
  spread_close(s);
  return NULL;
}

/* ---- one track ----------------------------------------------------------------------------------- */

struct layout { /* of a track, before its place among all rows is known */
  struct tg__row *rows;
  uint32_t row_count;
  struct spread *spread;   /* NULL: a row is a depth */
  uint32_t *row_of_spread; /* where its rows went */
  bool failed;
};
struct making {
  struct tg__view *v;
  struct layout *layouts;
};

enum { FEW = 256 };
/* Slices at each depth, most of which are few: then in four tables, so that neighbours of one depth need not wait for
 * each other. NULL on no memory. */
static uint32_t *count_depths(const uint16_t *depth, uint32_t count) {
  uint32_t few[4][FEW] = {{0}}, i = 0;
  uint64_t any = 0, four;
  for (; i + 4 <= count; i += 4) {
    memcpy(&four, depth + i, sizeof four);
    any |= four;
    few[0][four % FEW]++;
    few[1][(four >> 16) % FEW]++;
    few[2][(four >> 32) % FEW]++;
    few[3][(four >> 48) % FEW]++;
  }
  any |= any >> 32;
  any = (any | any >> 16) & UINT16_MAX;
  for (; i < count; i++) {
    any |= depth[i];
    few[0][depth[i] % FEW]++;
  }
  uint32_t *const counts = tg__alloc(((size_t)UINT16_MAX + 1) * sizeof *counts);
  if (!counts) return NULL;
  if (any < FEW)
    for (uint32_t d = 0; d < FEW; d++) counts[d] = few[0][d] + few[1][d] + few[2][d] + few[3][d];
  else
    for (i = 0; i < count; i++) counts[depth[i]]++;
  return counts;
}

/* false: some are deeper than a depth can say. */
static bool lay_out_depths(const struct tg__columns *t, const struct tg__track *track, struct layout *l) {
  uint32_t *const counts = count_depths(t->slices.depth + track->first, track->count);
  l->failed = !counts;
  if (!counts) return true;
  const bool fits = !counts[UINT16_MAX];
  uint32_t rows = 0;
  for (uint32_t counted = 0; fits && counted < track->count; rows++) counted += counts[rows];
  l->rows = fits ? tg__alloc(rows * sizeof *l->rows) : NULL;
  l->failed = fits && !l->rows;
  for (uint32_t d = 0; l->rows && d < rows; d++) l->rows[d] = (struct tg__row){.depth = d, .count = counts[d]};
  l->row_count = l->rows ? rows : 0;
  tg__free(counts);
  return fits;
}

static void lay_out_lanes(const struct tg__columns *t, const struct tg__track *track, struct layout *l) {
  struct spread *const s = l->spread = spread_track(t, track);
  l->rows = s ? tg__alloc(s->row_count * sizeof *l->rows) : NULL;
  l->row_of_spread = s ? tg__alloc(s->row_count * sizeof *l->row_of_spread) : NULL;
  l->failed = !l->rows || !l->row_of_spread;
  if (l->failed) return;
  for (unsigned lane = 0; lane <= LAST_LANE; lane++)
    for (size_t depth = 0; depth < s->lanes[lane].row_count; depth++) {
      l->row_of_spread[s->lanes[lane].rows[depth]] = l->row_count;
      l->rows[l->row_count++] = s->rows[s->lanes[lane].rows[depth]];
    }
}

static void lay_out_track(void *ctx, size_t i) {
  struct making *const m = ctx;
  const struct tg__columns *const t = m->v->trace;
  const struct tg__track *const track = &t->tracks[i];
  if (!track->count) return;
  if (track->lanes > 1 || !lay_out_depths(t, track, &m->layouts[i])) lay_out_lanes(t, track, &m->layouts[i]);
}

/* Place the rows' blocks and nodes in the track's arrays. */
static bool place_rows(struct tg__track_index *ix, uint32_t track, struct layout *l) {
  uint64_t blocks = 0, nodes = 0;
  for (uint32_t r = 0; r < l->row_count; r++) {
    l->rows[r].track = track;
    l->rows[r].first_block = (uint32_t)blocks;
    l->rows[r].first_node = (uint32_t)nodes;
    blocks += tg__blocks_of(l->rows[r].count);
    const struct tg__node_levels levels = tg__node_levels_of(&l->rows[r]);
    for (uint32_t k = 0; k < levels.count; k++) nodes += levels.nodes[k];
  }
  return tg__track_index_open(ix, (uint32_t)blocks, (uint32_t)nodes);
}

/* The next slice of a row. next: where its number goes. */
static inline bool put_slice(struct tg__track_index *ix, struct tg__row_writer *w, uint32_t **next,
                             const int64_t *dur_ns, uint32_t slice) {
  *(*next)++ = slice;
  if (*next != w->ids + TG__ROW_GATHERED) return true;
  *next = w->ids;
  return tg__row_write(ix, w, dur_ns, TG__ROW_GATHERED);
}

static bool fill_rows(struct tg__track_index *ix, const struct tg__columns *t, const struct tg__track *track,
                      const struct layout *l, struct tg__row_writer *writers, uint32_t **next) {
  const int64_t *const dur = t->slices.dur_ns;
  const uint16_t *const depth = t->slices.depth;
  const uint32_t past = track->first + track->count;
  for (uint32_t r = 0; r < l->row_count; r++) {
    tg__row_begin(&writers[r], &l->rows[r]);
    next[r] = writers[r].ids;
  }
  bool ok = true;
  if (l->spread)
    for (uint32_t i = track->first; i < past && ok; i++) {
      const uint32_t r = l->row_of_spread[l->spread->row_of[i - track->first]];
      ok = put_slice(ix, &writers[r], &next[r], dur, i);
    }
  else
    for (uint32_t i = track->first; i < past && ok; i++)
      ok = put_slice(ix, &writers[depth[i]], &next[depth[i]], dur, i);
  for (uint32_t r = 0; r < l->row_count && ok; r++) {
    struct tg__row_writer *const w = &writers[r];
    const uint32_t left = (uint32_t)(next[r] - w->ids);
    ok = !left || tg__row_write(ix, w, dur, left);
    tg__row_end(ix, w);
    /* a row may be empty: depths of a file are not checked */
    l->rows[r].end_ns = w->written ? tg__slice_end(t, w->ids[(w->written - 1) % TG__ROW_GATHERED]) : INT64_MIN;
    assert(!ok || tg__row_index_is_valid(t, ix, &l->rows[r], NULL));
  }
  return ok;
}

static void index_track(void *ctx, size_t i) {
  struct making *const m = ctx;
  const struct tg__columns *const t = m->v->trace;
  struct layout *const l = &m->layouts[i];
  struct tg__track_index *const ix = &m->v->tracks[i];
  if (!l->row_count || l->failed) return;
  struct tg__row_writer *const writers = tg__alloc(l->row_count * sizeof *writers);
  uint32_t **const next = tg__alloc(l->row_count * sizeof *next);
  l->failed =
      !writers || !next || !place_rows(ix, (uint32_t)i, l) || !fill_rows(ix, t, &t->tracks[i], l, writers, next);
  tg__free(writers);
  tg__free(next);
  if (l->failed) return;
  void *const less = tg__realloc(ix->distances, ix->distances_len ? ix->distances_len : 1);
  if (less) {
    ix->distances = less;
    ix->distances_cap = ix->distances_len;
  }
}

/* ---- the whole ------------------------------------------------------------------------------------ */

static void find_marks(const struct tg__columns *t, int64_t *first, int64_t *last) {
  for (uint32_t i = 0; i < t->marks.count; i++) {
    const uint32_t track = t->marks.track[i];
    if (track >= t->track_count || t->marks.ts_ns[i] == TG_NULL_INT) continue;
    const int64_t at = t->marks.ts_ns[i] + t->ranks[t->tracks[track].rank].clock_offset_ns;
    if (at < *first) *first = at;
    if (at > *last) *last = at;
  }
}

bool tg__view_ends_with_marks(const struct tg__columns *t) {
  return !t->slices.count || tg__strings_find(t->strings, "memory_snapshot", 15) != TG_NONE;
}

static void find_origin(struct tg__view *v) {
  const struct tg__columns *const t = v->trace;
  int64_t first = INT64_MAX, last = INT64_MIN;
  for (uint32_t k = 0; k < t->track_count; k++) {
    if (!t->tracks[k].count) continue;
    const int64_t start = t->slices.start_ns[t->tracks[k].first] + t->ranks[t->tracks[k].rank].clock_offset_ns;
    if (start < first) first = start;
  }
  for (uint32_t r = 0; r < v->row_count; r++) {
    if (!v->rows[r].count) continue;
    const int64_t end = v->rows[r].end_ns + t->ranks[t->tracks[v->rows[r].track].rank].clock_offset_ns;
    if (end > last) last = end;
  }
  if (tg__view_ends_with_marks(t) && t->loaded & TG__COL_MARKS) find_marks(t, &first, &last);
  v->origin_ns = first == INT64_MAX ? 0 : first;
  v->end_ns = last == INT64_MIN ? 0 : last - v->origin_ns;
}

static bool gather_rows(struct tg__view *v, const struct layout *layouts) {
  const uint32_t tracks = v->trace->track_count;
  uint64_t count = 0;
  for (uint32_t k = 0; k < tracks; k++) count += layouts[k].row_count;
  if (count >= TG_NONE) return false;
  v->rows = tg__alloc(count * sizeof *v->rows);
  if (!v->rows && count) return false;
  for (uint32_t k = 0; k < tracks; k++) {
    v->first_row[k] = v->row_count;
    if (layouts[k].row_count) memcpy(v->rows + v->row_count, layouts[k].rows, layouts[k].row_count * sizeof *v->rows);
    v->row_count += layouts[k].row_count;
  }
  v->first_row[tracks] = v->row_count;
  return true;
}

static void layouts_free(struct layout *layouts, uint32_t count) {
  for (uint32_t k = 0; layouts && k < count; k++) {
    tg__free(layouts[k].rows);
    tg__free(layouts[k].row_of_spread);
    if (layouts[k].spread) spread_close(layouts[k].spread);
  }
  tg__free(layouts);
}

enum tg_err tg__view_open(const struct tg__columns *t, unsigned threads, struct tg__view **out, struct tg_error *e) {
  const uint32_t tracks = t->track_count;
  struct tg__view *const v = *out = tg__alloc(sizeof *v);
  struct layout *const layouts = tg__alloc((tracks + 1) * sizeof *layouts);
  bool ok = v && layouts;
  if (ok) {
    v->trace = t;
    v->tracks = tg__alloc((tracks + 1) * sizeof *v->tracks);
    v->first_row = tg__alloc(((size_t)tracks + 1) * sizeof *v->first_row);
    ok = v->tracks && v->first_row;
  }
  if (ok) {
    struct making m = {v, layouts};
    tg__threads_run(threads, tracks, lay_out_track, &m);
    tg__threads_run(threads, tracks, index_track, &m);
    for (uint32_t k = 0; k < tracks; k++) ok &= !layouts[k].failed;
    ok = ok && gather_rows(v, layouts);
  }
  layouts_free(layouts, tracks);
  if (ok) {
    find_origin(v);
    return TG_OK;
  }
  tg__view_close(v);
  *out = NULL;
  return tg__no_memory(e, "laying out %u tracks", tracks);
}

void tg__view_close(struct tg__view *v) {
  if (!v) return;
  for (uint32_t k = 0; v->tracks && k < v->trace->track_count; k++) tg__track_index_close(&v->tracks[k]);
  tg__free(v->tracks);
  tg__free(v->first_row);
  tg__free(v->rows);
  tg__free(v);
}

size_t tg__view_bytes(const struct tg__view *v) {
  size_t bytes = sizeof *v + v->row_count * sizeof *v->rows +
                 (v->trace->track_count + 1) * (sizeof *v->first_row + sizeof *v->tracks);
  for (uint32_t k = 0; k < v->trace->track_count; k++) {
    const struct tg__track_index *const ix = &v->tracks[k];
    bytes += ix->block_count * (sizeof *ix->busy_ns + sizeof *ix->first + sizeof *ix->distances_at +
                                sizeof *ix->most_ns + sizeof *ix->form) +
             ix->node_count * (sizeof *ix->busy_ns + sizeof *ix->longest) + ix->distances_cap;
  }
  return bytes;
}

/* ---- looking up ------------------------------------------------------------------------------------ */

uint32_t tg__view_slice(const struct tg__view *v, uint32_t row, uint32_t position) {
  struct tg__row_reader r = tg__row_read(v, row);
  return tg__row_at(&r, position);
}

uint32_t tg__view_position(const struct tg__view *v, uint32_t row, int64_t ns) {
  struct tg__row_reader r = tg__row_read(v, row);
  return tg__row_position(&r, ns);
}

/* Does the slice stand on this row? Those that begin with it have length 0 and lie before or at it. */
static bool row_has(const struct tg__view *v, uint32_t row, uint32_t slice) {
  struct tg__row_reader r = tg__row_read(v, row);
  const int64_t start = v->trace->slices.start_ns[slice];
  for (uint32_t p = tg__row_position(&r, start); p < r.row->count; p++) {
    const uint32_t other = tg__row_at(&r, p);
    if (other >= slice) return other == slice;
  }
  return false;
}

uint32_t tg__view_row_of(const struct tg__view *v, uint32_t slice) {
  const struct tg__columns *const t = v->trace;
  const uint32_t track = tg__slice_track(t, slice), first = v->first_row[track], past = v->first_row[track + 1];
  if (t->tracks[track].lanes <= 1 && t->slices.depth[slice] < UINT16_MAX) return first + t->slices.depth[slice];
  for (uint32_t row = first; row < past; row++)
    if (v->rows[row].lane == t->slices.lane[slice] && row_has(v, row, slice)) return row;
  return TG_NONE;
}

uint32_t tg__view_hit(const struct tg__view *v, uint32_t row, int64_t at_ns, int64_t tolerance_ns) {
  struct tg__row_reader r = tg__row_read(v, row);
  const struct tg__columns *const t = v->trace;
  const int64_t at = at_ns - tg__view_shift(v, t->tracks[r.row->track].rank);
  const uint32_t p = tg__row_position(&r, at + 1); /* the last that begins at or before it is p − 1 */
  const uint32_t before = p ? tg__row_at(&r, p - 1) : TG_NONE, after = p < r.row->count ? tg__row_at(&r, p) : TG_NONE;
  const int64_t past = before == TG_NONE ? INT64_MAX : at - tg__slice_end(t, before);
  const int64_t ahead = after == TG_NONE ? INT64_MAX : t->slices.start_ns[after] - at;
  if (past < 0 || (past <= tolerance_ns && past <= ahead)) return before;
  return ahead <= tolerance_ns ? after : TG_NONE;
}
