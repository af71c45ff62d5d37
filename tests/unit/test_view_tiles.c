/* Tests of rows, their index and tiles: each against all slices one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "unit/mini_trace.h"
#include "unit/random_trace.h"
#include "view/row_index.h"
#include "view/view.h"

static struct tg__view *open_view(const struct tg__columns *t) {
  struct tg__view *v;
  struct tg_error e;
  assert_int_equal(tg__view_open(t, 2, &v, &e), TG_OK);
  return v;
}

/* ---- rows ------------------------------------------------------------------------------------------ */

static void check_rows(const struct tg__columns *t, const struct tg__view *v) {
  uint8_t *const seen = calloc(t->slices.count + 1, 1);
  uint32_t all = 0;
  for (uint32_t r = 0; r < v->row_count; r++) {
    const struct tg__row *const row = &v->rows[r];
    int64_t end = INT64_MIN;
    uint32_t last = TG_NONE;
    assert_true(row->count > 0);
    for (uint32_t p = 0; p < row->count; p++) {
      const uint32_t s = tg__view_slice(v, r, p);
      assert_true(s < t->slices.count && !seen[s] && (last == TG_NONE || s > last));
      assert_int_equal(tg__slice_track(t, s), row->track);
      assert_true(t->slices.start_ns[s] >= end); /* disjoint and in order */
      if (p % 97 == 0) assert_int_equal(tg__view_row_of(v, s), r);
      if (t->tracks[row->track].lanes == 1) assert_int_equal(t->slices.depth[s], row->depth);
      assert_int_equal(t->slices.lane[s], row->lane);
      end = tg__slice_end(t, s);
      seen[s] = 1;
      last = s;
      all++;
    }
    assert_int_equal(end, row->end_ns);
  }
  assert_int_equal(all, t->slices.count);
  free(seen);
}

/* ---- the invariants of the index, each broken once ------------------------------------------------- */

static void index_refused(const struct tg__view *v, uint32_t row, const char *words) {
  struct tg_error e = {0};
  assert_false(tg__row_index_is_valid(v->trace, &v->tracks[v->rows[row].track], &v->rows[row], &e));
  if (!strstr(e.text, words)) fail_msg("'%s' does not say '%s'", e.text, words);
}
#define BROKEN(field, value, words)                                                                                    \
  do {                                                                                                                 \
    const __typeof__(field) before = (field);                                                                          \
    (field) = (value);                                                                                                 \
    index_refused(v, longest, words);                                                                                  \
    (field) = before;                                                                                                  \
  } while (0)

static void the_index_of_a_row(void **state) {
  (void)state;
  struct tg__columns *t = random_trace(6, 12000, 3000000);
  struct tg__view *v = open_view(t);
  uint32_t longest = 0;
  struct tg_error e;
  for (uint32_t r = 0; r < v->row_count; r++) {
    if (!tg__row_index_is_valid(t, &v->tracks[v->rows[r].track], &v->rows[r], &e)) fail_msg("row %u: %s", r, e.text);
    if (v->rows[r].count > v->rows[longest].count) longest = r;
  }
  struct tg__row *const row = &v->rows[longest];
  struct tg__track_index *const ix = &v->tracks[row->track];
  const struct tg__node_levels levels = tg__node_levels_of(row);
  const uint32_t block = row->first_block + 1, node = levels.first[levels.count - 1];
  assert_true(levels.count > 0);
  BROKEN(row->first_block, ix->block_count, "a block outside its array");
  BROKEN(ix->busy_ns[block], ix->busy_ns[block] + 1, "busy time of a block");
  BROKEN(ix->most_ns[block], ix->most_ns[block] ^ 1, "longest time of a block");
  BROKEN(ix->form[block], (uint8_t)(ix->form[block] ^ 1), "longer slice in a block");
  BROKEN(ix->first[block], ix->first[block - 1], "");
  BROKEN(ix->distances_at[block], UINT32_MAX, "distances outside");
  BROKEN(ix->busy_ns[ix->block_count + node], ix->busy_ns[ix->block_count + node] - 1, "busy time of a node");
  BROKEN(ix->longest[node], ix->longest[node] ^ 1, "longer slice in a node");
  BROKEN(ix->node_count, 0, "a node outside");
  tg__view_close(v);
  tg__trace_free(t);
}

static void every_slice_stands_on_one_row(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 6; seed++) {
    struct tg__columns *t = random_trace(seed, seed == 6 ? 12000 : 900, 3000000);
    assert_non_null(t);
    struct tg__view *v = open_view(t);
    check_rows(t, v);
    tg__view_close(v);
    tg__trace_free(t);
  }
}

static struct tg__columns *close_text(struct tg__out *o) {
  struct tg__columns *t;
  struct tg_error e;
  tg__out_char(o, ']');
  assert_int_equal(tg__trace_open_bytes(o->buf, o->len, 1, 0, false, &t, &e), TG_OK);
  tg__out_free(o);
  return t;
}

/* 300 at once: lanes 0 to 254, and 45 slices that share the last one and get a row each. */
static void more_slices_at_once_than_lanes(void **state) {
  (void)state;
  struct tg__out o = {0};
  tg__out_char(&o, '[');
  for (int i = 0; i < 600; i++) random_slice(&o, "kernel", 1, 100, (i < 300 ? 1000 : 3000) + i, 1000);
  struct tg__columns *t = close_text(&o);
  struct tg__view *v = open_view(t);
  assert_int_equal(v->row_count, 300);
  check_rows(t, v);
  tg__view_close(v);
  tg__trace_free(t);
}

static void nesting_deeper_than_a_depth_can_say(void **state) {
  (void)state;
  enum { DEEP = 65540 };
  struct tg__out o = {0};
  tg__out_char(&o, '[');
  for (int64_t i = 0; i < DEEP; i++) random_slice(&o, "cpu_op", 1, 1, 1000 + i, 1000000 - 2 * i);
  struct tg__columns *t = close_text(&o);
  struct tg__view *v = open_view(t);
  assert_int_equal(v->row_count, DEEP);
  for (uint32_t r = 0; r < DEEP; r += 1000) assert_int_equal(tg__view_slice(v, r, 0), r);
  assert_int_equal(tg__view_row_of(v, DEEP - 1), DEEP - 1);
  tg__view_close(v);
  tg__trace_free(t);
}

/* By hand: 10 ns a slice each 100 ns; hits beside them reach as far as the call states. */
static void a_hit_is_the_slice_there_or_the_nearest(void **state) {
  (void)state;
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 1);
  for (int i = 0; i < 100; i++) mini_slice(m, cpu, "cpu_op", "f", 1000 + 100 * i, 10);
  struct tg__columns *t = mini_finish(m);
  struct tg__view *v = open_view(t);
  assert_int_equal(v->origin_ns, 1000);
  assert_int_equal(v->end_ns, 9910);
  assert_int_equal(tg__view_hit(v, 0, 0, 0), 0);
  assert_int_equal(tg__view_hit(v, 0, 505, 0), 5);
  assert_int_equal(tg__view_hit(v, 0, 510, 0), 5); /* it has just ended: 0 ns away */
  assert_int_equal(tg__view_hit(v, 0, 511, 0), TG_NONE);
  assert_int_equal(tg__view_hit(v, 0, 550, 30), TG_NONE);
  assert_int_equal(tg__view_hit(v, 0, 550, 40), 5);
  assert_int_equal(tg__view_hit(v, 0, 556, 60), 6);
  assert_int_equal(tg__view_hit(v, 0, -5, 5), 0);
  assert_int_equal(tg__view_hit(v, 0, 20000, 5), TG_NONE);
  tg__view_close(v);
  mini_free(m);
}

/* ---- tiles ----------------------------------------------------------------------------------------- */

struct pixel {
  uint32_t slice;
  int64_t busy_ns;
  unsigned touching;
};

/* What the columns of a tile hold, from every slice of the row. */
static void look_at_all(const struct tg__columns *t, const struct tg__view *v, uint32_t row, unsigned level,
                        int32_t tile, struct pixel *pixels) {
  const int64_t width = (int64_t)1 << level, shift = tg__view_shift(v, t->tracks[v->rows[row].track].rank);
  int64_t most[TG__TILE_COLUMNS];
  for (int c = 0; c < TG__TILE_COLUMNS; c++) {
    pixels[c] = (struct pixel){.slice = TG_NONE};
    most[c] = -1;
  }
  for (uint32_t p = 0; p < v->rows[row].count; p++) {
    const uint32_t s = tg__view_slice(v, row, p);
    const int64_t start = t->slices.start_ns[s] + shift - (int64_t)tile * width * TG__TILE_COLUMNS,
                  end = start + t->slices.dur_ns[s];
    int64_t c = start < 0 ? 0 : start / width;
    for (; c < TG__TILE_COLUMNS && (c * width < end || (start == end && start >= 0 && c == start / width)); c++) {
      const int64_t from = start > c * width ? start : c * width, to = end < (c + 1) * width ? end : (c + 1) * width;
      if (to < from || (to == from && start != end)) continue;
      pixels[c].busy_ns += to - from;
      pixels[c].touching++;
      if (to - from <= most[c]) continue;
      most[c] = to - from;
      pixels[c].slice = s;
    }
  }
}

struct tile { /* as it was sent */
  uint32_t row;
  int32_t tile;
  uint16_t kind, n;
  uint32_t slice[TG__TILE_COLUMNS], name[TG__TILE_COLUMNS];
  uint16_t column[TG__TILE_COLUMNS], length[TG__TILE_COLUMNS];
  uint8_t density[TG__TILE_COLUMNS], look[TG__TILE_COLUMNS], shade[TG__TILE_COLUMNS], flags[TG__TILE_COLUMNS];
};

static struct tile read_tile(const struct tg__out *o) {
  struct tile t;
  const char *p = o->buf;
  assert_true(o->len >= TG__TILE_HEAD);
  memcpy(&t.row, p, 4);
  memcpy(&t.tile, p + 4, 4);
  memcpy(&t.kind, p + 8, 2);
  memcpy(&t.n, p + 10, 2);
  p += TG__TILE_HEAD;
  assert_int_equal(o->len, TG__TILE_HEAD + 16 * (size_t)t.n);
#define TAKE(field)                                                                                                    \
  memcpy(t.field, p, t.n * sizeof *t.field);                                                                           \
  p += t.n * sizeof *t.field
  TAKE(slice);
  TAKE(name);
  TAKE(column);
  TAKE(length);
  TAKE(density);
  TAKE(look);
  TAKE(shade);
  TAKE(flags);
#undef TAKE
  return t;
}

static void check_tile(const struct tg__columns *t, const struct tg__view *v, struct tg__slice_classes *classes,
                       uint32_t row, unsigned level, int32_t tile) {
  struct pixel want[TG__TILE_COLUMNS];
  struct tg__out o = {0};
  look_at_all(t, v, row, level, tile, want);
  tg__view_tile(v, classes, row, level, tile, &o);
  const struct tile got = read_tile(&o);
  assert_int_equal(got.row, row);
  assert_int_equal(got.tile, tile);
  assert_int_equal(got.kind, 0);
  unsigned c = 0;
  for (unsigned i = 0; i < got.n; i++) {
    assert_true(got.column[i] >= c && got.length[i] >= 1 && got.column[i] + got.length[i] <= TG__TILE_COLUMNS);
    for (; c < got.column[i]; c++) assert_int_equal(want[c].slice, TG_NONE);
    for (; c < (unsigned)got.column[i] + got.length[i]; c++) {
      const int64_t width = (int64_t)1 << level;
      assert_int_equal(got.slice[i], want[c].slice);
      assert_int_equal(got.density[i], 1 + want[c].busy_ns * 254 / width);
      assert_int_equal((got.flags[i] & TG__TILE_MORE) != 0, want[c].touching > 1);
      if (got.length[i] > 1) assert_int_equal(want[c].busy_ns, width);
    }
    assert_int_equal(got.name[i], t->slices.name[got.slice[i]]);
  }
  for (; c < TG__TILE_COLUMNS; c++) assert_int_equal(want[c].slice, TG_NONE);
  tg__out_free(&o);
}

static void tiles_hold_what_all_slices_say(void **state) {
  (void)state;
  for (uint64_t seed = 11; seed <= 14; seed++) {
    const int64_t length = seed == 14 ? 40000000 : 3000000;
    struct tg__columns *t = random_trace(seed, seed == 14 ? 40000 : 3000, length);
    assert_non_null(t);
    struct tg__view *v = open_view(t);
    struct tg__slice_classes classes;
    assert_true(tg__slice_classes_open(&classes, t));
    uint64_t dice = seed;
    for (uint32_t row = 0; row < v->row_count; row += v->row_count > 40 ? 7 : 1)
      for (unsigned level = 0; level < 18; level++) {
        const int32_t tiles = (int32_t)(length >> (level + 10)) + 1;
        for (int k = 0; k < 3; k++)
          check_tile(t, v, &classes, row, level, (int32_t)random_below(&dice, (uint32_t)tiles));
      }
    check_tile(t, v, &classes, 0, 12, -1);
    check_tile(t, v, &classes, 0, TG__LEVEL_MOST, 0);
    check_tile(t, v, &classes, 0, 3, 2000000);
    tg__slice_classes_close(&classes);
    tg__view_close(v);
    tg__trace_free(t);
  }
}

/* By hand: columns of 16 ns; a fills columns 0 to 3 and half of 4, b (4 ns) and c (2 ns) stand in column 5, d has no
 * length. */
static void a_tile_by_hand(void **state) {
  (void)state;
  struct mini *m = mini_new();
  const uint32_t gpu = mini_stream(m, 0, 7), cpu = mini_thread(m, 1, 1);
  const int launch = mini_slice(m, cpu, "cuda_runtime", "cudaLaunchKernel", 0, 1);
  const int a = mini_slice(m, gpu, "kernel", "ncclKernel_AllReduce(x)", 0, 72),
            b = mini_slice(m, gpu, "kernel", "gemm<4>", 80, 4);
  mini_slice(m, gpu, "gpu_memcpy", "Memcpy HtoD", 86, 2);
  const int d = mini_slice(m, gpu, "gpu_memset", "Memset", 16 * 1023, 0);
  mini_cause(m, a, launch);
  struct tg__columns *t = mini_finish(m);
  struct tg__view *v = open_view(t);
  struct tg__slice_classes classes;
  assert_true(tg__slice_classes_open(&classes, t));
  struct tg__out o = {0};
  const uint32_t row = tg__view_row_of(v, mini_id(m, a));
  tg__view_tile(v, &classes, row, 4, 0, &o);
  const struct tile got = read_tile(&o);
  assert_int_equal(got.n, 4);
  assert_int_equal(got.slice[0], mini_id(m, a));
  assert_int_equal(got.column[0], 0);
  assert_int_equal(got.length[0], 4);
  assert_int_equal(got.density[0], 255);
  assert_int_equal(got.look[0], TG__SLICE_CLASS_COMMUNICATION);
  assert_int_equal(got.flags[0], TG__TILE_CAUSED);
  assert_int_equal(got.slice[1], mini_id(m, a));
  assert_int_equal(got.column[1], 4);
  assert_int_equal(got.density[1], 128); /* 1 + 8 × 254 / 16 */
  assert_int_equal(got.slice[2], mini_id(m, b));
  assert_int_equal(got.column[2], 5);
  assert_int_equal(got.density[2], 96); /* 1 + 6 × 254 / 16 = 96.25 */
  assert_int_equal(got.look[2], TG__SLICE_CLASS_COMPUTE);
  assert_int_equal(got.flags[2], TG__TILE_MORE);
  assert_int_equal(got.slice[3], mini_id(m, d));
  assert_int_equal(got.column[3], 1023);
  assert_int_equal(got.density[3], 1);
  assert_int_equal(got.look[3], TG__SLICE_CLASS_MEMSET);
  assert_int_equal(tg__shade_of(&classes, mini_text(m, "gemm<4>")), 1 + 2247918371u % 255); /* FNV-1a of "gemm" */
  tg__out_free(&o);
  tg__slice_classes_close(&classes);
  tg__view_close(v);
  mini_free(m);
}

/* 20 slices of 10 ns, then one without length where the second column begins: it belongs there. */
static void the_last_slice_stands_where_a_column_begins(void **state) {
  (void)state;
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 1);
  for (int i = 0; i < 20; i++) mini_slice(m, cpu, "cpu_op", "f", 10 * i, 10);
  mini_slice(m, cpu, "cpu_op", "f", 256, 0);
  struct tg__columns *t = mini_finish(m);
  struct tg__view *v = open_view(t);
  struct tg__slice_classes classes;
  assert_true(tg__slice_classes_open(&classes, t));
  check_tile(t, v, &classes, 0, 8, 0);
  tg__slice_classes_close(&classes);
  tg__view_close(v);
  mini_free(m);
}

/* Every allocation fails in turn: refused, and nothing leaks. */
static void a_view_without_memory(void **state) {
  (void)state;
  struct tg__columns *t = random_trace(3, 400, 300000);
  struct tg__view *v = NULL;
  struct tg_error e;
  enum tg_err err = TG_MEMORY;
  long n = 0;
  while (err == TG_MEMORY) {
    tg__alloc_fail_after(n++);
    err = tg__view_open(t, 1, &v, &e);
    tg__alloc_fail_after(-1);
    assert_true(err == TG_OK || (err == TG_MEMORY && !v));
  }
  assert_true(n > 20);
  tg__view_close(v);
  tg__trace_free(t);
}

/* ---- counters and instants --------------------------------------------------------------------------- */

enum { POINTS = 900 };
struct drawn { /* a column of a tile, from all points one by one */
  float least, most, last;
  unsigned points;
};

/* Points of the counter "load" of key "a", at any times; some fall on one another. */
static struct tg__columns *trace_of_points(uint64_t seed, int64_t *ts, double *values) {
  struct tg__out o = {0};
  int64_t at = 1000000;
  tg__out_text(&o, "[");
  random_slice(&o, "cpu_op", 1, 1, 1000000, 50);
  for (int i = 0; i < POINTS; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    at += (int64_t)(seed >> 40) % (i % 50 == 0 ? 900000 : 700);
    ts[i] = at;
    values[i] = (double)((int64_t)(seed >> 20) % 2000 - 1000) / 4;
    tg__out_format(
        &o,
        ",{\"ph\":\"C\",\"pid\":1,\"tid\":%d,\"name\":\"load\",\"ts\":%lld.%03d,\"args\":{\"a\":%.2f,\"b\":%d}}"
        ",{\"ph\":\"i\",\"pid\":1,\"tid\":1,\"name\":\"now\",\"ts\":%lld.%03d,\"s\":\"t\"}",
        i % 2, (long long)(at / 1000), (int)(at % 1000), values[i], i, (long long)(at / 1000), (int)(at % 1000));
  }
  return close_text(&o);
}

static void read_array(const char **p, void *to, size_t bytes) {
  memcpy(to, *p, bytes);
  *p += bytes;
}

/* Row 1 is the first key of the counter. The first column of a tile says what was before. */
static void check_counter_tile(const struct tg__series_set *set, uint32_t row, unsigned level, int32_t tile,
                               const int64_t *ts, const double *values) {
  struct tg__out o = {0};
  struct drawn want[TG__TILE_COLUMNS] = {{0}};
  float least[TG__TILE_COLUMNS], most[TG__TILE_COLUMNS], last[TG__TILE_COLUMNS];
  uint16_t column[TG__TILE_COLUMNS], points[TG__TILE_COLUMNS], n, kind;
  int before = -1;
  for (int i = 0; i < POINTS; i++) {
    const int64_t at = ts[i] - 1000000 - ((int64_t)tile << (level + 10));
    if (at < 0) before = i;
    if (at < 0 || at >> level >= TG__TILE_COLUMNS) continue;
    struct drawn *const d = &want[at >> level];
    const float v = (float)values[i];
    d->least = d->points && d->least < v ? d->least : v;
    d->most = d->points && d->most > v ? d->most : v;
    d->last = v;
    d->points++;
  }
  tg__series_tile(set, row, level, tile, &o);
  const char *p = o.buf + 8;
  read_array(&p, &kind, 2);
  read_array(&p, &n, 2);
  assert_int_equal(kind, 1);
  read_array(&p, least, n * sizeof *least);
  read_array(&p, most, n * sizeof *most);
  read_array(&p, last, n * sizeof *last);
  read_array(&p, column, n * sizeof *column);
  read_array(&p, points, n * sizeof *points);
  assert_int_equal(p - o.buf, o.len);
  uint16_t at = 0;
  if (!want[0].points && before >= 0) {
    assert_true(n > 0 && column[0] == 0 && points[0] == 0 && last[0] == (float)values[before]);
    at = 1;
  }
  for (unsigned c = 0; c < TG__TILE_COLUMNS; c++) {
    if (!want[c].points) continue;
    assert_true(at < n && column[at] == c && points[at] == want[c].points);
    assert_true(least[at] == want[c].least && most[at] == want[c].most && last[at] == want[c].last);
    at++;
  }
  assert_int_equal(at, n);
  tg__out_free(&o);
}

static void tiles_of_counters_equal_those_from_all_points(void **state) {
  (void)state;
  int64_t ts[POINTS];
  double values[POINTS];
  struct tg__columns *t = trace_of_points(7, ts, values);
  struct tg__view *v = open_view(t);
  struct tg__series_set *set;
  struct tg_error e;
  assert_int_equal(tg__series_open(v, &set, &e), TG_OK);
  assert_int_equal(tg__series_count(set), 3); /* a, b and the instants; two threads say one counter */
  assert_int_equal(tg__series_at(set, 0)->count, POINTS);
  assert_int_equal(tg__series_at(set, 2)->what, TG__SERIES_INSTANTS);
  for (unsigned level = 0; level <= 20; level += 2)
    for (int32_t tile = 0; tile < 40 && ((int64_t)tile << (level + 10)) < ts[POINTS - 1]; tile++)
      check_counter_tile(set, v->row_count, level, tile, ts, values);
  struct tg__out o = {0};
  tg__series_tile(set, v->row_count + 2, TG__LEVEL_MOST, 0, &o);
  uint16_t head[2], count;
  memcpy(head, o.buf + 8, sizeof head);
  memcpy(&count, o.buf + o.len - 2, sizeof count);
  assert_int_equal(head[0], 2);
  assert_int_equal(head[1], 1); /* one column has them all */
  assert_int_equal(count, POINTS);
  tg__out_free(&o);
  tg__series_close(set);
  tg__view_close(v);
  tg__trace_free(t);
}

static void series_without_memory(void **state) {
  (void)state;
  int64_t ts[POINTS];
  double values[POINTS];
  struct tg__columns *t = trace_of_points(9, ts, values);
  struct tg__view *v = open_view(t);
  struct tg__series_set *set = NULL;
  struct tg_error e;
  enum tg_err err = TG_MEMORY;
  long n = 0;
  while (err == TG_MEMORY) {
    tg__alloc_fail_after(n++);
    err = tg__series_open(v, &set, &e);
    tg__alloc_fail_after(-1);
    assert_true(err == TG_OK || (err == TG_MEMORY && !set));
  }
  assert_true(n > 10);
  tg__series_close(set);
  tg__view_close(v);
  tg__trace_free(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_slice_stands_on_one_row),
      cmocka_unit_test(the_index_of_a_row),
      cmocka_unit_test(more_slices_at_once_than_lanes),
      cmocka_unit_test(nesting_deeper_than_a_depth_can_say),
      cmocka_unit_test(a_hit_is_the_slice_there_or_the_nearest),
      cmocka_unit_test(tiles_hold_what_all_slices_say),
      cmocka_unit_test(a_tile_by_hand),
      cmocka_unit_test(the_last_slice_stands_where_a_column_begins),
      cmocka_unit_test(tiles_of_counters_equal_those_from_all_points),
      cmocka_unit_test(series_without_memory),
      cmocka_unit_test(a_view_without_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
