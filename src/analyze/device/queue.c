/* The question queue: how much work was launched on each stream and had not begun. */
#include "analyze/device/device_rows.h"
#include "analyze/table/describe.h"

#include <math.h>

struct change {
  int64_t ns, order, device, stream;
  uint32_t slice, work; /* what happened, and the device work it is about */
  int8_t by;            /* +1 launched, -1 begun */
};
struct work {
  struct tg_table *out;
  enum { SUMMARY, SERIES, FULL } by;
  int64_t limit;
  struct change *changes;
  size_t count, cap;
  int64_t *lengths;
  size_t length_cap;
};

static bool same_stream(const struct change *a, const struct change *b) { return a->device == b->device && a->stream == b->stream; }

/* At one instant launches come first: what begins had been launched. */
static bool change_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct change *x = &((const struct change *)ctx)[a], *y = &((const struct change *)ctx)[b];
  if (x->device != y->device) return x->device < y->device;
  if (x->stream != y->stream) return x->stream < y->stream;
  if (x->ns != y->ns) return x->ns < y->ns;
  return x->by != y->by ? x->by > y->by : x->order < y->order;
}

static void put_stream(struct work *w, const struct tg__device_rows *d, const struct change *c) {
  tg__put_rank(w->out, d->t, d->rank);
  tg__put_int(w->out, c->device);
  tg__put_int(w->out, c->stream);
}

static void put_nulls(struct tg_table *out, unsigned count) {
  while (count-- > 0) tg__put_null(out);
}

/* The columns of questions.def that changes have. */
enum { RANK, DEVICE, STREAM, TS, LENGTH, EVENT, TRACK, WRITTEN };

static void put_changes(const struct work *w, const struct tg__device_rows *d, const uint32_t *order, size_t count, unsigned column,
                        int64_t *cells) {
  const struct change *const all = w->changes;
  const bool is_exact = d->rules == TG__RULES_EXACT;
  const int64_t rank = tg__rank_number(d->t, d->rank);
  for (size_t i = 0; i < count; i++) {
    const struct change *const c = &all[order[i]];
    switch (column) {
    case RANK:
      cells[i] = rank;
      break;
    case DEVICE:
      cells[i] = c->device;
      break;
    case STREAM:
      cells[i] = c->stream;
      break;
    case TS:
      cells[i] = c->ns;
      break;
    case LENGTH:
      cells[i] = w->lengths[i];
      break;
    default:
      cells[i] = is_exact ? (int64_t)c->slice : c->order;
    }
  }
}

/* The work of a stream lies on few tracks, mostly on one. */
static void put_tracks(const struct work *w, const struct tg__device_rows *d, const uint32_t *order, size_t count, int64_t *cells) {
  const struct tg__track *track = NULL;
  for (size_t i = 0; i < count; i++) {
    const uint32_t slice = w->changes[order[i]].work;
    if (!track || slice - track->first >= track->count) track = &d->t->tracks[tg__slice_track(d->t, slice)];
    cells[i] = track - d->t->tracks;
  }
}

static void put_unknown(const struct tg__column *column, size_t first, size_t count) {
  for (size_t i = first; i < first + count; i++)
    if (column->type == TG_REAL)
      column->reals[i] = NAN;
    else
      column->ints[i] = TG_NULL_INT;
}

/* As many rows as there are changes: written column by column. */
static void put_series(const struct work *w, const struct tg__device_rows *d, const uint32_t *order, size_t count) {
  struct tg_table *const out = w->out;
  if (!tg__table_reserve(out, out->rows + count)) return;
  for (unsigned c = 0; c < out->column_count; c++) {
    const struct tg__column *const column = &out->columns[c];
    if (column->is_left_out) continue;
    if (c == TRACK)
      put_tracks(w, d, order, count, column->ints + out->rows);
    else if (c < WRITTEN)
      put_changes(w, d, order, count, c, column->ints + out->rows);
    else
      put_unknown(column, out->rows, count);
  }
  tg__table_wrote_rows(out, count);
}

static void put_full(struct work *w, const struct tg__device_rows *d, const uint32_t *order, size_t count) {
  int64_t points = 0, full = 0;
  for (size_t i = 0; i < count; i++) {
    if (w->lengths[i] < w->limit) continue;
    points++;
    if (i + 1 < count) full += w->changes[order[i + 1]].ns - w->changes[order[i]].ns;
  }
  put_stream(w, d, &w->changes[order[0]]);
  put_nulls(w->out, 4);
  tg__put_int(w->out, points);
  put_nulls(w->out, 9);
  tg__put_int(w->out, full);
  tg__put_real(w->out, d->reach_ns ? 100.0 * (double)full / (double)d->reach_ns : NAN);
}

static void put_summary(struct work *w, const struct tg__device_rows *d, const uint32_t *order, size_t count) {
  const int64_t reach = w->changes[order[count - 1]].ns - w->changes[order[0]].ns;
  int64_t negative = 0;
  __int128 area = 0;
  for (size_t i = 0; i < count; i++) {
    negative += w->lengths[i] < 0;
    if (i + 1 < count) area += (__int128)w->lengths[i] * (w->changes[order[i + 1]].ns - w->changes[order[i]].ns);
  }
  put_stream(w, d, &w->changes[order[0]]);
  put_nulls(w->out, 4);
  const struct tg__spread spread = tg__spread_ints(w->lengths, count);
  tg__put_spread(w->out, &spread);
  tg__put_int(w->out, negative);
  tg__put_real(w->out, reach ? (double)((long double)area / (long double)reach) : NAN);
  put_nulls(w->out, 2);
}

static bool look_at_stream(struct work *w, const struct tg__device_rows *d, const uint32_t *order, size_t count) {
  if (!tg__grow((void **)&w->lengths, &w->length_cap, count, sizeof *w->lengths)) return false;
  int64_t length = 0;
  for (size_t i = 0; i < count; i++) w->lengths[i] = length += w->changes[order[i]].by;
  if (w->by == SERIES)
    put_series(w, d, order, count);
  else if (w->by == FULL)
    put_full(w, d, order, count);
  else
    put_summary(w, d, order, count);
  return true;
}

static struct tg__stream_key stream_of(const void *ctx, size_t i) {
  const struct change *c = &((const struct change *)ctx)[i];
  return (struct tg__stream_key){c->device, c->stream};
}

/* The launches of all pairs, then their beginnings: of each stream two lists that are nearly in order. */
static uint32_t *changes_in_order(struct work *w, const struct tg__device_rows *d) {
  const size_t n = d->pair_count;
  w->count = 2 * n;
  uint32_t *order = tg__alloc((w->count + 1) * sizeof *order);
  bool ok = order && tg__grow((void **)&w->changes, &w->cap, w->count + 1, sizeof *w->changes);
  for (size_t i = 0; ok && i < n; i++) {
    const struct tg__launch_pair *p = &d->pairs[i];
    w->changes[i] = (struct change){p->call_start_ns, p->call_order, p->device, p->stream, p->call, p->slice, 1};
    w->changes[n + i] = (struct change){p->start_ns, p->order, p->device, p->stream, p->slice, p->slice, -1};
  }
  ok = ok && tg__device_by_stream(order, w->count, stream_of, w->changes) && tg__sort_index(order, w->count, change_before, w->changes);
  if (ok) return order;
  tg__free(order);
  return NULL;
}

static bool queue_of_rank(struct tg__device_rows *d, void *ctx) {
  struct work *w = ctx;
  if (!tg__device_pairs(d, TG__PAIRS_QUEUE)) return false;
  uint32_t *order = changes_in_order(w, d);
  bool ok = order != NULL;
  for (size_t first = 0, past; ok && first < w->count; first = past) {
    for (past = first + 1; past < w->count && same_stream(&w->changes[order[first]], &w->changes[order[past]]); past++) continue;
    ok = look_at_stream(w, d, order + first, past - first);
  }
  tg__free(order);
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
  tg__free(w.changes);
  tg__free(w.lengths);
  return err;
}
