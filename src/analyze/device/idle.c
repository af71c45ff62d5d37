/* The question idle: time between the device work of a stream, and what it waited for. */
#include "analyze/device/device_rows.h"
#include "analyze/table/describe.h"

#include <math.h>

enum cause { HOST_WAIT, KERNEL_WAIT, OTHER, CAUSES };
static const char *const cause_names[CAUSES] = {"host_wait", "kernel_wait", "other"};

struct gaps {
  int64_t *items;
  size_t count, cap;
  int64_t sum;
  bool seen;
};
struct stream { /* a run of work.order */
  size_t first, count;
  int64_t order; /* of its first row in the file, where that matters */
};
struct work {
  struct tg_table *out;
  enum { BY_STREAM, BY_CAUSE, BY_INTERVAL } by;
  int64_t delay_ns;
  struct gaps gaps[CAUSES];
  const uint32_t *order; /* rows by stream, then start */
  size_t count;
  uint32_t *own_order; /* those of them that are work */
  size_t order_cap;
  struct stream *streams;
  size_t stream_count, stream_cap;
};

/* ---- one gap --------------------------------------------------------------------------------- */

static enum cause cause_of(const struct work *w, const struct tg__device_row *row, int64_t before, int64_t gap) {
  if (row->launch_ns != TG_NULL_INT && row->launch_ns > before) return HOST_WAIT;
  return gap < w->delay_ns ? KERNEL_WAIT : OTHER;
}

static void put_interval(struct work *w, const struct tg__device_rows *d, const struct tg__device_row *before,
                         const struct tg__device_row *after, int64_t end, int64_t gap, enum cause cause) {
  tg__put_rank(w->out, d->t, d->rank);
  tg__put_int(w->out, after->device);
  tg__put_int(w->out, after->stream);
  tg__put_cstr(w->out, cause_names[cause]);
  tg__put_int(w->out, end);
  tg__put_int(w->out, gap);
  tg__put_null(w->out);
  for (unsigned k = 0; k < 8; k++) tg__put_null(w->out);
  tg__put_trace_text(w->out, d->t, d->t->slices.name[before->slice]);
  tg__put_trace_text(w->out, d->t, d->t->slices.name[after->slice]);
}

static void add_gap(struct gaps *g, int64_t gap) {
  g->items[g->count++] = gap;
  g->sum += gap;
  g->seen = true;
}

/* ---- one stream ------------------------------------------------------------------------------ */

static void put_causes(struct work *w, const struct tg__device_rows *d, const struct tg__device_row *stream) {
  const int64_t total = w->gaps[HOST_WAIT].sum + w->gaps[KERNEL_WAIT].sum + w->gaps[OTHER].sum;
  for (unsigned c = 0; c < CAUSES; c++) {
    struct gaps *g = &w->gaps[c];
    if (g->seen) {
      const struct tg__spread spread = tg__spread_ints(g->items, g->count);
      tg__put_rank(w->out, d->t, d->rank);
      tg__put_int(w->out, stream ? stream->device : TG_NULL_INT);
      tg__put_int(w->out, stream ? stream->stream : TG_NULL_INT);
      tg__put_cstr(w->out, cause_names[c]);
      tg__put_null(w->out);
      tg__put_int(w->out, g->sum);
      tg__put_real(w->out, total ? 100.0 * (double)g->sum / (double)total : NAN);
      tg__put_spread(w->out, &spread);
      tg__put_null(w->out);
      tg__put_null(w->out);
    }
    g->count = 0;
    g->sum = 0;
    g->seen = false;
  }
}

static bool look_at_stream(struct work *w, const struct tg__device_rows *d, const uint32_t *order, size_t count) {
  int64_t end = d->rows[order[0]].end_ns;
  const struct tg__device_row *last = &d->rows[order[0]]; /* what ended then */
  for (unsigned c = 0; c < CAUSES; c++)
    if (!tg__grow((void **)&w->gaps[c].items, &w->gaps[c].cap, w->gaps[c].count + count, sizeof *w->gaps[c].items))
      return false;
  w->gaps[OTHER].seen = true; /* the first row has no gap; it is counted here with none */
  for (size_t i = 1; i < count; i++) {
    const struct tg__device_row *row = &d->rows[order[i]];
    int64_t gap = row->start_ns - end;
    if (!d->rules->counts_overlap && gap < 0) gap = 0;
    const enum cause cause = cause_of(w, row, end, gap);
    add_gap(&w->gaps[cause], gap);
    if (w->by == BY_INTERVAL && gap) put_interval(w, d, last, row, end, gap, cause);
    if (!d->rules->counts_overlap && row->end_ns <= end) continue;
    end = row->end_ns;
    last = row;
  }
  return true;
}

/* ---- one rank -------------------------------------------------------------------------------- */

static bool same_stream(const struct tg__device_row *a, const struct tg__device_row *b) {
  return a->device == b->device && a->stream == b->stream;
}

/* Where the stream of the row at `first` ends: in ever longer steps, then halved, as rows are few words of many. */
static size_t stream_end(const struct work *w, const struct tg__device_rows *d, size_t first) {
  const struct tg__device_row *const row = &d->rows[w->order[first]];
  size_t step = 1, low = first;
  while (low + step < w->count && same_stream(row, &d->rows[w->order[low + step]])) {
    low += step;
    step *= 2;
  }
  for (; step; step /= 2)
    if (low + step < w->count && same_stream(row, &d->rows[w->order[low + step]])) low += step;
  return low + 1;
}

static int64_t first_in_file(const struct work *w, const struct tg__device_rows *d, size_t first, size_t past) {
  int64_t least = INT64_MAX;
  for (size_t i = first; i < past; i++)
    if (d->rows[w->order[i]].order < least) least = d->rows[w->order[i]].order;
  return least;
}

static bool find_streams(struct work *w, const struct tg__device_rows *d) {
  w->stream_count = 0;
  for (size_t first = 0, past; first < w->count; first = past) {
    past = stream_end(w, d, first);
    if (!tg__grow((void **)&w->streams, &w->stream_cap, w->stream_count + 1, sizeof *w->streams)) return false;
    w->streams[w->stream_count++] =
        (struct stream){first, past - first, d->rules->by_file ? first_in_file(w, d, first, past) : 0};
  }
  return true;
}

static bool stream_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct stream *s = ctx;
  return s[a].order < s[b].order;
}

/* By number, or as they first come up in the file. */
static bool look_at_streams(struct work *w, const struct tg__device_rows *d) {
  uint32_t *turn = tg__alloc((w->stream_count + 1) * sizeof *turn);
  bool ok = turn != NULL;
  for (size_t i = 0; ok && i < w->stream_count; i++) turn[i] = (uint32_t)i;
  if (ok && d->rules->by_file) ok = tg__sort_index(turn, w->stream_count, stream_before, w->streams);
  for (size_t i = 0; ok && i < w->stream_count; i++) {
    const struct stream *s = &w->streams[turn[i]];
    ok = look_at_stream(w, d, w->order + s->first, s->count);
    if (ok && w->by == BY_STREAM) put_causes(w, d, &d->rows[w->order[s->first]]);
  }
  tg__free(turn);
  return ok;
}

/* Of the rows by stream those that are work: mostly all are. */
static bool order_rows(struct work *w, struct tg__device_rows *d) {
  size_t others = 0;
  if (!tg__device_order(d)) return false;
  w->order = d->by_stream;
  w->count = d->count;
  for (size_t i = 0; i < d->count; i++) others += !d->rows[i].is_work;
  if (!others) return true;
  if (!tg__grow((void **)&w->own_order, &w->order_cap, d->count + 1, sizeof *w->own_order)) return false;
  w->count = 0;
  for (size_t i = 0; i < d->count; i++)
    if (d->rows[d->by_stream[i]].is_work) w->own_order[w->count++] = d->by_stream[i];
  w->order = w->own_order;
  return true;
}

static bool idle_of_rank(struct tg__device_rows *d, void *ctx) {
  struct work *w = ctx;
  if (!order_rows(w, d) || !find_streams(w, d) || !look_at_streams(w, d)) return false;
  if (w->by == BY_CAUSE) put_causes(w, d, NULL);
  for (unsigned c = 0; c < CAUSES; c++) w->gaps[c].count = 0;
  return true;
}

enum tg_err tg__answer_idle(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                            struct tg_error *e) {
  static const char *const choices[] = {[BY_STREAM] = "stream", [BY_CAUSE] = "cause", [BY_INTERVAL] = "interval"};
  struct work w = {.out = out};
  size_t by;
  enum tg_err err = tg__ask_choice(a, "by", choices, sizeof choices / sizeof *choices, &by, e);
  if (!err) err = tg__ask_us(a, "delay_us", &w.delay_ns, e);
  if (err) return err;
  w.by = by;
  err = tg__device_each_rank(t, a, idle_of_rank, &w, e);
  for (unsigned c = 0; c < CAUSES; c++) tg__free(w.gaps[c].items);
  tg__free(w.own_order);
  tg__free(w.streams);
  return err;
}
