/* The question queue: how much work was launched on each stream and had not begun. */
#include "analyze/device/device_rows.h"
#include "analyze/table/describe.h"

#include <math.h>

/* A change is a pair, and whether its work began (1) or was launched (0): the number of the pair twice, plus that. */
struct work {
  struct tg_table *out;
  enum { SUMMARY, SERIES, FULL } by;
  int64_t limit;
  uint32_t *pairs, *launches, *changes; /* pairs by stream, then start; those of one stream by launch; its changes in order */
  int64_t *lengths;                     /* after each change of the stream */
  size_t count, cap;
};

static bool began(uint32_t change) { return change & 1; }
static struct tg__launch_pair pair_of(const struct tg__device_rows *d, uint32_t change) { return tg__device_pair(d, change / 2); }
static int64_t time_of(const struct tg__device_rows *d, uint32_t change) {
  const struct tg__launch_pair p = pair_of(d, change);
  return began(change) ? p.start_ns : p.call_start_ns;
}

static bool same_stream(const struct tg__launch_pair *a, const struct tg__launch_pair *b) {
  return a->device == b->device && a->stream == b->stream;
}

static bool begins_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__launch_pair x = tg__device_pair(ctx, a), y = tg__device_pair(ctx, b);
  if (x.device != y.device) return x.device < y.device;
  if (x.stream != y.stream) return x.stream < y.stream;
  return x.start_ns != y.start_ns ? x.start_ns < y.start_ns : x.order < y.order;
}

static bool launched_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__launch_pair x = tg__device_pair(ctx, a), y = tg__device_pair(ctx, b);
  return x.call_start_ns != y.call_start_ns ? x.call_start_ns < y.call_start_ns : x.call_order < y.call_order;
}

static void put_stream(struct work *w, const struct tg__device_rows *d) {
  const struct tg__launch_pair p = pair_of(d, w->changes[0]);
  tg__put_rank(w->out, d->t, d->rank);
  tg__put_int(w->out, p.device);
  tg__put_int(w->out, p.stream);
}

static void put_nulls(struct tg_table *out, unsigned count) {
  while (count-- > 0) tg__put_null(out);
}

/* The columns of questions.def that changes have. */
enum { RANK, DEVICE, STREAM, TS, LENGTH, EVENT, TRACK, WRITTEN };

static void put_same(int64_t value, size_t count, int64_t *cells) {
  for (size_t i = 0; i < count; i++) cells[i] = value;
}

static void put_events(const struct tg__device_rows *d, const uint32_t *changes, size_t count, int64_t *cells) {
  const bool is_exact = d->rules == TG__RULES_EXACT;
  for (size_t i = 0; i < count; i++) {
    const struct tg__launch_pair p = pair_of(d, changes[i]);
    if (is_exact)
      cells[i] = began(changes[i]) ? p.slice : p.call;
    else
      cells[i] = began(changes[i]) ? p.order : p.call_order;
  }
}

/* The work of a stream lies on few tracks, mostly on one. */
static void put_tracks(const struct tg__device_rows *d, const uint32_t *changes, size_t count, int64_t *cells) {
  const struct tg__track *track = NULL;
  for (size_t i = 0; i < count; i++) {
    const uint32_t slice = pair_of(d, changes[i]).slice;
    if (!track || slice - track->first >= track->count) track = &d->t->tracks[tg__slice_track(d->t, slice)];
    cells[i] = track - d->t->tracks;
  }
}

/* Of `count` changes from `first` on. */
static void put_cells(const struct work *w, const struct tg__device_rows *d, size_t first, size_t count, unsigned column, int64_t *cells) {
  const uint32_t *const changes = w->changes + first;
  const struct tg__launch_pair p = pair_of(d, *changes);
  switch (column) {
  case RANK:
    put_same(tg__rank_number(d->t, d->rank), count, cells);
    break;
  case DEVICE:
    put_same(p.device, count, cells);
    break;
  case STREAM:
    put_same(p.stream, count, cells);
    break;
  case TS:
    for (size_t i = 0; i < count; i++) cells[i] = time_of(d, changes[i]);
    break;
  case LENGTH:
    memcpy(cells, w->lengths + first, count * sizeof *cells);
    break;
  case EVENT:
    put_events(d, changes, count, cells);
    break;
  default:
    put_tracks(d, changes, count, cells);
  }
}

static void put_unknown(const struct tg__column *column, size_t first, size_t count) {
  for (size_t i = first; i < first + count; i++)
    if (column->type == TG_REAL)
      column->reals[i] = NAN;
    else
      column->ints[i] = TG_NULL_INT;
}

/* As many rows as there are changes: column by column, so many at a time that what they are made of stays in the cache meanwhile. */
static void put_series(const struct work *w, const struct tg__device_rows *d) {
  enum { AT_ONCE = 1024 };
  struct tg_table *const out = w->out;
  if (!tg__table_reserve(out, out->rows + w->count)) return;
  for (size_t done = 0; done < w->count; done += AT_ONCE) {
    const size_t count = w->count - done < AT_ONCE ? w->count - done : AT_ONCE;
    for (unsigned c = 0; c < out->column_count; c++) {
      const struct tg__column *const column = &out->columns[c];
      if (column->is_left_out) continue;
      if (c < WRITTEN)
        put_cells(w, d, done, count, c, column->ints + out->rows + done);
      else
        put_unknown(column, out->rows + done, count);
    }
  }
  tg__table_wrote_rows(out, w->count);
}

static void put_full(struct work *w, const struct tg__device_rows *d) {
  int64_t points = 0, full = 0;
  for (size_t i = 0; i < w->count; i++) {
    if (w->lengths[i] < w->limit) continue;
    points++;
    if (i + 1 < w->count) full += time_of(d, w->changes[i + 1]) - time_of(d, w->changes[i]);
  }
  put_stream(w, d);
  put_nulls(w->out, 4);
  tg__put_int(w->out, points);
  put_nulls(w->out, 9);
  tg__put_int(w->out, full);
  tg__put_real(w->out, d->reach_ns ? 100.0 * (double)full / (double)d->reach_ns : NAN);
}

static void put_summary(struct work *w, const struct tg__device_rows *d) {
  const int64_t first = time_of(d, w->changes[0]);
  int64_t negative = 0, before = first;
  __int128 area = 0;
  for (size_t i = 0; i < w->count; i++) {
    const int64_t ns = time_of(d, w->changes[i]);
    negative += w->lengths[i] < 0;
    if (i > 0) area += (__int128)w->lengths[i - 1] * (ns - before);
    before = ns;
  }
  put_stream(w, d);
  put_nulls(w->out, 4);
  const struct tg__spread spread = tg__spread_ints(w->lengths, w->count);
  tg__put_spread(w->out, &spread);
  tg__put_int(w->out, negative);
  tg__put_real(w->out, before != first ? (double)((long double)area / (long double)(before - first)) : NAN);
  put_nulls(w->out, 2);
}

/* At one instant launches come first: what begins had been launched. */
static void merge_changes(struct work *w, const struct tg__device_rows *d, const uint32_t *begins, size_t count) {
  int64_t length = 0;
  size_t launched = 0, begun = 0;
  w->count = 2 * count;
  for (size_t i = 0; i < w->count; i++) {
    const bool is_launch = launched < count && tg__device_pair(d, w->launches[launched]).call_start_ns <= tg__device_pair(d, begins[begun]).start_ns;
    w->changes[i] = is_launch ? 2 * w->launches[launched++] : 2 * begins[begun++] + 1;
    w->lengths[i] = length += is_launch ? 1 : -1;
    if (begun == count) break;
  }
  for (size_t i = launched + begun; i < w->count; i++) {
    w->changes[i] = 2 * w->launches[launched++];
    w->lengths[i] = ++length;
  }
}

static bool look_at_stream(struct work *w, const struct tg__device_rows *d, const uint32_t *begins, size_t count) {
  memcpy(w->launches, begins, count * sizeof *begins);
  if (!tg__sort_index(w->launches, count, launched_before, d)) return false;
  merge_changes(w, d, begins, count);
  if (w->by == SERIES)
    put_series(w, d);
  else if (w->by == FULL)
    put_full(w, d);
  else
    put_summary(w, d);
  return true;
}

static struct tg__stream_key stream_of(const void *ctx, size_t i) {
  const struct tg__launch_pair p = tg__device_pair(ctx, i);
  return (struct tg__stream_key){p.device, p.stream};
}

static void drop(struct work *w) {
  tg__free(w->pairs);
  tg__free(w->launches);
  tg__free(w->changes);
  tg__free(w->lengths);
  w->pairs = w->launches = w->changes = NULL;
  w->lengths = NULL;
}

/* Pairs by stream, then start. */
static bool order_pairs(struct work *w, struct tg__device_rows *d, size_t *count) {
  const size_t n = d->pair_count;
  *count = n;
  if (d->rules != TG__RULES_EXACT) return tg__device_by_stream(w->pairs, n, stream_of, d) && tg__sort_index(w->pairs, n, begins_before, d);
  if (!tg__device_order(d)) return false;
  *count = 0;
  for (size_t i = 0; i < n; i++)
    if (tg__device_is_pair(d, d->by_stream[i])) w->pairs[(*count)++] = d->by_stream[i];
  return true;
}

/* Room for a stream that has all pairs of the rank. */
static bool make_room(struct work *w, size_t pairs) {
  if (pairs > INT32_MAX) return false; /* changes are numbered in 32 bits */
  drop(w);
  w->pairs = tg__realloc(NULL, (pairs + 1) * sizeof *w->pairs);
  w->launches = tg__realloc(NULL, (pairs + 1) * sizeof *w->launches);
  w->changes = tg__realloc(NULL, (2 * pairs + 1) * sizeof *w->changes);
  w->lengths = tg__realloc(NULL, (2 * pairs + 1) * sizeof *w->lengths);
  return w->pairs && w->launches && w->changes && w->lengths;
}

static bool queue_of_rank(struct tg__device_rows *d, void *ctx) {
  struct work *w = ctx;
  size_t count = 0;
  bool ok = tg__device_pairs(d, TG__PAIRS_QUEUE) && make_room(w, d->pair_count) && order_pairs(w, d, &count);
  for (size_t first = 0, past; ok && first < count; first = past) {
    const struct tg__launch_pair p = tg__device_pair(d, w->pairs[first]);
    for (past = first + 1; past < count; past++) {
      const struct tg__launch_pair other = tg__device_pair(d, w->pairs[past]);
      if (!same_stream(&p, &other)) break;
    }
    ok = look_at_stream(w, d, w->pairs + first, past - first);
  }
  return ok;
}

enum tg_err tg__answer_queue(const struct tg_trace *t, const struct tg__ask *a, struct tg_table *out, struct tg_error *e) {
  static const char *const choices[] = {[SUMMARY] = "summary", [SERIES] = "series", [FULL] = "full"};
  struct work w = {.out = out};
  enum tg__rules rules;
  size_t by;
  enum tg_err err = tg__ask_choice(a, "by", choices, sizeof choices / sizeof *choices, &by, e);
  if (!err) err = tg__ask_rules(a, &rules, e);
  if (!err) err = tg__ask_whole(a, "max_length", &w.limit, e);
  if (err) return err;
  w.by = by;
  err = tg__device_each_rank(t, a, rules, queue_of_rank, &w, e);
  drop(&w);
  return err;
}
