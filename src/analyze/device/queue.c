/* The question queue: how much work was launched on each stream and had not begun. */
#include "analyze/device/queue_changes.h"
#include "analyze/table/describe.h"

#include <math.h>

struct work {
  struct tg_table *out;
  enum { SUMMARY, SERIES, FULL } by;
  int64_t limit;
  struct tg__queue_changes own;
};

static void put_stream(struct work *w, const struct tg__device_rows *d, const struct tg__queue_stream *s) {
  tg__put_rank(w->out, d->t, d->rank);
  tg__put_int(w->out, s->device);
  tg__put_int(w->out, s->stream);
}

static void put_queue_nulls(struct tg_table *out, unsigned count) {
  while (count-- > 0) tg__put_null(out);
}

/* The columns of questions.def that changes have. */
enum { RANK, DEVICE, STREAM, TS, LENGTH, EVENT, TRACK, WRITTEN };

static void put_same(int64_t value, size_t count, int64_t *cells) {
  for (size_t i = 0; i < count; i++) cells[i] = value;
}

static void put_numbers(const uint32_t *numbers, size_t count, int64_t *cells) {
  for (size_t i = 0; i < count; i++) cells[i] = numbers[i];
}

static void put_lengths(const int32_t *lengths, size_t count, int64_t *cells) {
  for (size_t i = 0; i < count; i++) cells[i] = lengths[i];
}

/* Of all changes of a stream. */
static void put_cells(const struct tg__device_rows *d, const struct tg__queue_changes *q,
                      const struct tg__queue_stream *s, unsigned column, int64_t *cells) {
  switch (column) {
  case RANK:
    put_same(tg__rank_number(d->t, d->rank), s->count, cells);
    break;
  case DEVICE:
    put_same(s->device, s->count, cells);
    break;
  case STREAM:
    put_same(s->stream, s->count, cells);
    break;
  case TS:
    for (size_t i = 0; i < s->count; i++) cells[i] = tg__queue_ns(q, d->t, s->first + i);
    break;
  case LENGTH:
    put_lengths(q->length + s->first, s->count, cells);
    break;
  case EVENT:
    put_numbers(q->event + s->first, s->count, cells);
    break;
  default:
    put_numbers(q->track + s->first, s->count, cells);
  }
}

static void put_unknown(const struct tg__column *column, size_t first, size_t count) {
  for (size_t i = first; i < first + count; i++)
    if (column->type == TG_REAL)
      column->reals[i] = NAN;
    else
      column->ints[i] = TG_NULL_INT;
}

/* As many rows as there are changes, column by column. */
static void put_series(const struct work *w, const struct tg__device_rows *d, const struct tg__queue_changes *q) {
  struct tg_table *const out = w->out;
  if (!tg__table_reserve(out, out->rows + q->count)) return;
  for (unsigned c = 0; c < out->column_count; c++) {
    const struct tg__column *const column = &out->columns[c];
    if (column->is_left_out) continue;
    for (size_t k = 0; k < q->stream_count && c < WRITTEN; k++)
      put_cells(d, q, &q->streams[k], c, column->ints + out->rows + q->streams[k].first);
    if (c >= WRITTEN) put_unknown(column, out->rows, q->count);
  }
  tg__table_wrote_rows(out, q->count);
}

static void put_full(struct work *w, const struct tg__device_rows *d, const struct tg__queue_changes *q,
                     const struct tg__queue_stream *s) {
  const size_t past = s->first + s->count;
  int64_t points = 0, full = 0;
  for (size_t i = s->first; i < past; i++) {
    if (q->length[i] < w->limit) continue;
    points++;
    if (i + 1 < past) full += tg__queue_ns(q, d->t, i + 1) - tg__queue_ns(q, d->t, i);
  }
  put_stream(w, d, s);
  put_queue_nulls(w->out, 4);
  tg__put_int(w->out, points);
  put_queue_nulls(w->out, 9);
  tg__put_int(w->out, full);
  tg__put_real(w->out, d->extent_ns ? 100.0 * (double)full / (double)d->extent_ns : NAN);
}

/* The lengths, each as often as the time is long for which the queue had it. */
static double mean_over_time(const struct tg__device_rows *d, const struct tg__queue_changes *q,
                             const struct tg__queue_stream *s) {
  const int64_t first = tg__queue_ns(q, d->t, s->first);
  int64_t before = first;
  __int128 area = 0;
  for (size_t i = s->first + 1; i < s->first + s->count; i++) {
    const int64_t ns = tg__queue_ns(q, d->t, i);
    area += (__int128)q->length[i - 1] * (ns - before);
    before = ns;
  }
  return before != first ? (double)((long double)area / (long double)(before - first)) : NAN;
}

static bool put_queue_summary(struct work *w, const struct tg__device_rows *d, const struct tg__queue_changes *q,
                              const struct tg__queue_stream *s) {
  struct tg__spread spread;
  int64_t negative = 0;
  if (!tg__spread_small(q->length + s->first, s->count, &spread)) return false;
  for (size_t i = s->first; i < s->first + s->count; i++) negative += q->length[i] < 0;
  put_stream(w, d, s);
  put_queue_nulls(w->out, 4);
  tg__put_spread(w->out, &spread);
  tg__put_int(w->out, negative);
  tg__put_real(w->out, mean_over_time(d, q, s));
  put_queue_nulls(w->out, 2);
  return true;
}

static bool queue_of_rank(struct tg__device_rows *d, void *ctx) {
  struct work *w = ctx;
  const struct tg__queue_changes *const q = tg__queue_changes(d, &w->own);
  bool ok = q != NULL;
  if (ok && w->by == SERIES) put_series(w, d, q);
  for (size_t k = 0; ok && k < q->stream_count; k++) {
    if (w->by == FULL) put_full(w, d, q, &q->streams[k]);
    if (w->by == SUMMARY) ok = put_queue_summary(w, d, q, &q->streams[k]);
  }
  return ok;
}

enum tg_err tg__answer_queue(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                             struct tg_error *e) {
  static const char *const choices[] = {[SUMMARY] = "summary", [SERIES] = "series", [FULL] = "full"};
  struct work w = {.out = out};
  size_t by;
  enum tg_err err = tg__ask_choice(a, "by", choices, sizeof choices / sizeof *choices, &by, e);
  if (!err) err = tg__ask_integer(a, "max_length", &w.limit, e);
  if (err) return err;
  w.by = by;
  err = tg__device_each_rank(t, a, queue_of_rank, &w, e);
  tg__queue_changes_free(&w.own);
  return err;
}
