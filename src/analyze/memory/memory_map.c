/* The question memory_map: blocks as bands over the events of their device. Only as many as can be seen are returned;
 * each column has the total in use. */
#include "analyze/memory/memory_history.h"

struct band {
  uint32_t taken;      /* event */
  int64_t from, until; /* numbers of events on the device; until INT64_MAX = not given back */
  int64_t until_ns;
  double area; /* in the range: bytes × events */
};
struct column {
  int64_t event, until, ts_ns, bytes;
};
struct memory_map {
  const struct tg__alloc_history *h;
  int64_t from, to;  /* range of the device at hand */
  struct band *best; /* a heap, the smallest first */
  size_t count, most;
  struct column *columns;
  size_t column_count;
};
struct range {
  int64_t from, to, blocks, columns;
  bool is_level;
};
enum { MAP_MOST = 100000 };

/* ---- the largest bands ------------------------------------------------------------------------ */

static bool is_smaller(const struct band *a, const struct band *b) {
  return a->area != b->area ? a->area < b->area : a->taken > b->taken;
}

static void sink(struct memory_map *m) {
  for (size_t i = 0, k; (k = 2 * i + 1) < m->count; i = k) {
    if (k + 1 < m->count && is_smaller(&m->best[k + 1], &m->best[k])) k++;
    if (!is_smaller(&m->best[k], &m->best[i])) return;
    const struct band kept = m->best[i];
    m->best[i] = m->best[k];
    m->best[k] = kept;
  }
}

static void keep_band(struct memory_map *m, const struct band *b) {
  if (m->count == m->most) {
    if (!m->most || !is_smaller(&m->best[0], b)) return;
    m->best[0] = *b;
    sink(m);
    return;
  }
  size_t i = m->count++;
  for (; i && is_smaller(b, &m->best[(i - 1) / 2]); i = (i - 1) / 2) m->best[i] = m->best[(i - 1) / 2];
  m->best[i] = *b;
}

static void end_band(struct memory_map *m, uint32_t taken, int64_t until, int64_t until_ns) {
  const struct tg__alloc_event *const x = &m->h->events[taken];
  const int64_t first = x->number > m->from ? x->number : m->from, past = until < m->to ? until : m->to;
  if (past <= first) return;
  const struct band b = {taken, x->number, until, until_ns, (double)x->bytes * (double)(past - first)};
  keep_band(m, &b);
}

/* ---- one device ------------------------------------------------------------------------------- */

static void note_column(struct memory_map *m, const struct tg__alloc_event *x, int64_t bytes) {
  if (x->number < m->from || x->number >= m->to || !m->column_count) return;
  const size_t k = (size_t)((__int128)(x->number - m->from) * (int64_t)m->column_count / (m->to - m->from));
  struct column *const c = &m->columns[k];
  if (c->until && c->bytes >= bytes) {
    c->until = x->number + 1;
    return;
  }
  *c = (struct column){x->number, x->number + 1, x->ts_ns, bytes};
}

/* Sizes in a file may be anything. */
static int64_t level_after(int64_t bytes, int64_t change) {
  int64_t sum;
  return __builtin_add_overflow(bytes, change, &sum) ? (change < 0 ? INT64_MIN : INT64_MAX) : sum;
}

static bool follow_device(struct memory_map *m, uint32_t device) {
  const struct tg__alloc_history *const h = m->h;
  struct tg__alloc_blocks b = {0};
  int64_t bytes = 0, last_ns = 0;
  bool ok = true;
  for (size_t i = 0; i < h->count && ok; i++) {
    const struct tg__alloc_event *const x = &h->events[i];
    uint32_t gone;
    if (x->device != device) continue;
    ok = tg__alloc_blocks_follow(&b, h, i, &gone);
    if (ok && gone != TG_NONE) {
      bytes = level_after(bytes, -h->events[gone].bytes);
      end_band(m, gone, x->number, x->ts_ns);
    }
    if (x->is_memory && x->addr != TG_NULL_INT && x->bytes > 0) bytes = level_after(bytes, x->bytes);
    note_column(m, x, bytes);
    last_ns = x->ts_ns;
  }
  for (size_t i = 0; i < b.of_addr.cap && ok; i++)
    if (b.of_addr.used[i] && b.of_addr.values[i]) end_band(m, b.of_addr.values[i] - 1, INT64_MAX, last_ns);
  tg__map_free(&b.of_addr);
  return ok;
}

/* ---- the answer ------------------------------------------------------------------------------- */

static bool was_taken_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct band *const bands = ctx;
  return bands[a].taken < bands[b].taken;
}

static void put_map_step(const struct tg__columns *t, uint32_t rank, int64_t ts_ns, struct tg_table *out) {
  for (uint32_t i = 0; i < t->step_count; i++)
    if (t->steps[i].rank == rank && t->steps[i].start_ns <= ts_ns && ts_ns < t->steps[i].end_ns) {
      tg__put_int(out, t->steps[i].number);
      return;
    }
  tg__put_null(out);
}

static void put_row(const struct tg__columns *t, const struct tg__alloc_device *d, const struct column *c,
                    struct tg_table *out) {
  char buf[TG__DEVICE_NAME];
  tg__put_rank(out, t, d->rank);
  tg__put_cstr(out, tg__memory_device_name(d->type, d->id, buf));
  tg__put_int(out, c->event);
  tg__put_int(out, c->until == INT64_MAX ? TG_NULL_INT : c->until);
  tg__put_int(out, c->ts_ns);
  tg__put_int(out, c->bytes);
}

static bool put_bands(const struct tg__columns *t, const struct memory_map *m, const struct tg__alloc_device *d,
                      struct tg_table *out) {
  uint32_t *const order = tg__order_new(m->count, was_taken_before, m->best);
  for (size_t i = 0; order && i < m->count; i++) {
    const struct band *const b = &m->best[order[i]];
    const struct tg__alloc_event *const x = &m->h->events[b->taken];
    put_row(t, d, &(struct column){b->from, b->until, x->ts_ns, x->bytes}, out);
    tg__put_int(out, b->until_ns - x->ts_ns);
    put_map_step(t, d->rank, x->ts_ns, out);
    tg__put_address(out, x->addr);
    tg__put_trace_text(out, t, x->stack);
  }
  const bool ok = order != NULL;
  tg__free(order);
  return ok;
}

static void put_levels(const struct tg__columns *t, const struct memory_map *m, const struct tg__alloc_device *d,
                       struct tg_table *out) {
  for (size_t k = 0; k < m->column_count; k++) {
    if (!m->columns[k].until) continue;
    put_row(t, d, &m->columns[k], out);
    tg__put_null(out);
    put_map_step(t, d->rank, m->columns[k].ts_ns, out);
    tg__put_null(out);
    tg__put_null(out);
  }
}

static bool put_map_of(const struct tg__columns *t, const struct tg__alloc_history *h, uint32_t device,
                       const struct range *r, struct tg_table *out) {
  const struct tg__alloc_device *const d = &h->devices[device];
  struct memory_map m = {.h = h, .from = r->from, .to = r->to < d->events ? r->to : d->events};
  const int64_t events = m.to > m.from ? m.to - m.from : 0;
  if (!events) return true;
  m.most = r->is_level ? 0 : (size_t)r->blocks;
  m.column_count = !r->is_level ? 0 : (size_t)(r->columns < events ? r->columns : events);
  m.best = tg__alloc((m.most + 1) * sizeof *m.best);
  m.columns = tg__alloc((m.column_count + 1) * sizeof *m.columns);
  bool ok = m.best && m.columns && follow_device(&m, device);
  if (ok && r->is_level)
    put_levels(t, &m, d, out);
  else if (ok)
    ok = put_bands(t, &m, d, out);
  char buf[TG__DEVICE_NAME];
  if (ok)
    tg__table_note(out, "%s: events %lld to %lld of %lld", tg__memory_device_name(d->type, d->id, buf),
                   (long long)m.from, (long long)m.to, (long long)d->events);
  tg__free(m.best);
  tg__free(m.columns);
  return ok;
}

static enum tg_err read_range(const struct tg__ask *a, struct range *r, struct tg_error *e) {
  const char *const by = tg__ask_arg(a, "by");
  *r = (struct range){.to = INT64_MAX, .is_level = strcmp(by, "level") == 0};
  if (!r->is_level && strcmp(by, "block") != 0)
    return tg__fail(e, TG_USAGE, -1, "by=%.60s: block or level is wanted", by);
  enum tg_err err = tg__ask_integer(a, "first", &r->from, e);
  if (!err && strcmp(tg__ask_arg(a, "past"), "end") != 0) err = tg__ask_integer(a, "past", &r->to, e);
  if (!err) err = tg__ask_integer(a, "blocks", &r->blocks, e);
  if (!err) err = tg__ask_integer(a, "parts", &r->columns, e);
  if (err || (r->from >= 0 && r->blocks > 0 && r->blocks <= MAP_MOST && r->columns > 0 && r->columns <= MAP_MOST))
    return err;
  return tg__fail(e, TG_USAGE, -1, "first is 0 or more, blocks and parts 1 to %d", MAP_MOST);
}

enum tg_err tg__answer_memory_map(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                  struct tg_error *e) {
  struct tg__alloc_history h = {0};
  struct range r;
  enum tg_err err = read_range(a, &r, e);
  if (!err) err = tg__alloc_blocks_read(t, a, &h, e);
  for (uint32_t d = 0; d < h.device_count && !err; d++)
    if (!put_map_of(t, &h, d, &r, out)) err = tg__no_memory(e, "following blocks");
  tg__alloc_history_free(&h);
  return err;
}
