/* critical_device: edges of device work: from the call that launched it, from the work before it on its stream, and
 * from what it or the host waited for. */
#include "analyze/critical/critical.h"

enum {
  LONGEST_DELAY_NS = 1500000
}; /* between two kernels of a stream: above it the first did not hold up the second */

struct pass {
  struct tg__crit *c;
  uint32_t *last;                  /* by stream: work that began last */
  uint32_t *seen, seen_count;      /* streams, in the order they were first used */
  struct tg__map source;           /* device work → work of another stream it has to wait for */
  uint32_t *by_stream, *by_thread; /* launches by (stream, time), by (thread, stream, time) */
};

void tg__crit_add_launch(struct tg__crit *c, struct tg__crit_launch launch) {
  if (tg__grow((void **)&c->launches, &c->launch_cap, c->launch_count + 1, sizeof *c->launches))
    c->launches[c->launch_count++] = launch;
  else
    c->failed = true;
}

void tg__crit_add_wait(struct tg__crit *c, struct tg__crit_wait wait) {
  if (tg__grow((void **)&c->waits, &c->wait_cap, c->wait_count + 1, sizeof *c->waits))
    c->waits[c->wait_count++] = wait;
  else
    c->failed = true;
}

static bool has_node(const struct tg__crit *c, uint32_t row) {
  return row != TG_NONE && c->rows[row].flags & TG__CRIT_NODE;
}

/* ---- which launch an event stands for -------------------------------------------------------- */

static bool by_stream_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__crit_launch *x = &((const struct tg__crit *)ctx)->launches[a],
                               *y = &((const struct tg__crit *)ctx)->launches[b];
  return x->stream != y->stream ? x->stream < y->stream : x->at < y->at;
}

static bool by_thread_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__crit_launch *x = &((const struct tg__crit *)ctx)->launches[a],
                               *y = &((const struct tg__crit *)ctx)->launches[b];
  if (x->thread != y->thread) return x->thread < y->thread;
  return x->stream != y->stream ? x->stream < y->stream : x->at < y->at;
}

static uint32_t *sorted_launches(struct tg__crit *c, tg__less *less) {
  uint32_t *const order = tg__order_new(c->launch_count, less, c);
  if (!order) c->failed = true;
  return order;
}

/* The work launched last on this stream up to a time, by any thread. */
static uint32_t launched_before(const struct pass *p, uint32_t stream, int64_t at) {
  const struct tg__crit *c = p->c;
  size_t low = 0;
  TG__PARTITION(low, c->launch_count, i,
                c->launches[p->by_stream[i]].stream < stream ||
                    (c->launches[p->by_stream[i]].stream == stream && c->launches[p->by_stream[i]].at <= at));
  if (low == 0 || c->launches[p->by_stream[low - 1]].stream != stream) return TG_NONE;
  return c->launches[p->by_stream[low - 1]].work;
}

/* The work launched next on this stream by the same thread. */
static uint32_t launched_after(const struct pass *p, uint32_t thread, uint32_t stream, int64_t at) {
  const struct tg__crit *c = p->c;
  size_t low = 0;
  TG__PARTITION(low, c->launch_count, i,
                c->launches[p->by_thread[i]].thread != thread   ? c->launches[p->by_thread[i]].thread < thread
                : c->launches[p->by_thread[i]].stream != stream ? c->launches[p->by_thread[i]].stream < stream
                                                                : c->launches[p->by_thread[i]].at <= at);
  if (low == c->launch_count) return TG_NONE;
  const struct tg__crit_launch *l = &c->launches[p->by_thread[low]];
  return l->thread == thread && l->stream == stream ? l->work : TG_NONE;
}

/* ---- waits ----------------------------------------------------------------------------------- */

static void wait_for(struct tg__crit *c, uint32_t work, uint32_t call) {
  if (!has_node(c, work) || !has_node(c, call)) return;
  tg__crit_add_edge(c, tg__crit_end(work), tg__crit_end(call), TG__CRIT_SYNC, TG_NONE, false);
}

static const struct tg__crit_wait *wait_of(const struct tg__crit *c, uint32_t row) {
  size_t low = 0;
  TG__PARTITION(low, c->wait_count, i, c->waits[i].row < row);
  return low < c->wait_count && c->waits[low].row == row ? &c->waits[low] : NULL;
}

static void take_wait(struct pass *p, uint32_t row) {
  struct tg__crit *c = p->c;
  const struct tg__crit_row *r = &c->rows[row];
  const struct tg__crit_wait *wait = wait_of(c, row);
  if (!wait || wait->kind == TG__CRIT_NO_WAIT) return;
  if (wait->kind == TG__CRIT_STREAM_SYNC) {
    wait_for(c, p->last[r->place], r->link);
  } else if (wait->kind == TG__CRIT_CONTEXT_SYNC) {
    for (uint32_t k = 0; k < p->seen_count; k++) wait_for(c, p->last[p->seen[k]], r->link);
  } else {
    if (wait->record == TG_NONE || wait->record_place == TG_NONE) return;
    const uint32_t source = launched_before(p, wait->record_place, c->rows[wait->record].start);
    if (source == TG_NONE) return;
    if (wait->kind == TG__CRIT_EVENT_SYNC) {
      wait_for(c, source, r->link);
      return;
    }
    if (r->link == TG_NONE) return;
    const struct tg__crit_row *call = &c->rows[r->link];
    const uint32_t work = launched_after(p, tg__slice_track(c->t, call->slice), r->place, call->start);
    if (work != TG_NONE && !tg__map_put(&p->source, work, source)) c->failed = true;
  }
}

/* ---- work ------------------------------------------------------------------------------------ */

/* The end of what this work waits for on another stream, TG_NONE: of nothing. */
static uint32_t source_end(struct pass *p, uint32_t row) {
  struct tg__crit *c = p->c;
  const uint32_t source = tg__map_get(&p->source, row);
  if (!has_node(c, source) || source == row) return TG_NONE;
  const bool same = c->rows[source].place == c->rows[row].place;
  if (same && !c->rules->refuses_cycles) return TG_NONE; /* a stream keeps its order anyway */
  if (same) c->refusal = "it finds two kernels of one stream that wait for each other here";
  tg__crit_add_edge(c, tg__crit_end(source), tg__crit_start(row), TG__CRIT_SYNC, TG_NONE, false);
  return tg__crit_end(source);
}

/* Had the stream nothing left to do when this was launched? */
static bool is_launch_bound(const struct tg__crit *c, uint32_t row, uint32_t previous, uint32_t source) {
  const struct tg__crit_row *r = &c->rows[row];
  if (r->link == TG_NONE) return false;
  if (c->queue && (c->queue[r->link] != 1 || c->queue[row] != 0)) return false;
  const int64_t launched = c->rows[r->link].start;
  return (previous == TG_NONE || c->rows[previous].end < launched) &&
         (source == TG_NONE || tg__crit_time(c, source) < launched);
}

static void take_work(struct pass *p, uint32_t row) {
  struct tg__crit *c = p->c;
  const struct tg__crit_row *r = &c->rows[row];
  const uint32_t start = tg__crit_start(row), previous = p->last[r->place];
  tg__crit_add_edge(c, start, tg__crit_end(row), TG__CRIT_OPERATOR, row, false);
  const uint32_t source = source_end(p, row);
  const bool is_first = is_launch_bound(c, row, previous, source);
  if (is_first) {
    if (has_node(c, r->link))
      tg__crit_add_edge(c, tg__crit_start(r->link), start, TG__CRIT_LAUNCH, TG_NONE, false);
    else if (c->rules->refuses_cycles)
      c->refusal = "it finds no node for the call that launched a kernel here";
  } else if (previous != TG_NONE) {
    const bool is_near = tg__crit_span(c->rows[previous].end, r->start) < LONGEST_DELAY_NS / c->rules->unit_ns;
    const bool is_later = source == TG_NONE || tg__crit_time(c, source) < c->rows[previous].end;
    if (is_near && is_later) tg__crit_add_edge(c, tg__crit_end(previous), start, TG__CRIT_KERNEL, previous, false);
  }
  if (c->launch_edges && !is_first && has_node(c, r->link))
    tg__crit_add_edge(c, tg__crit_start(r->link), start, TG__CRIT_LAUNCH, TG_NONE, true);
  if (previous == TG_NONE) p->seen[p->seen_count++] = r->place;
  p->last[r->place] = row;
}

/* ---- all of them by time --------------------------------------------------------------------- */

/* Work that begins under a wait is waited for, too. */
int64_t tg__crit_device_time(const struct tg__crit_row *r) { return r->flags & TG__CRIT_WAIT ? r->end : r->start; }

static bool device_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__crit *c = ctx;
  const struct tg__crit_row *x = &c->rows[a], *y = &c->rows[b];
  const int64_t at = tg__crit_device_time(x), other = tg__crit_device_time(y);
  if (at != other) return at < other;
  const bool x_waits = x->flags & TG__CRIT_WAIT, y_waits = y->flags & TG__CRIT_WAIT;
  return x_waits == y_waits ? a < b : x_waits; /* what begins as a wait ends was not waited for */
}

bool tg__crit_sort_device(const struct tg__crit *c, uint32_t *rows, size_t count) {
  return tg__sort_index(rows, count, device_before, c);
}

static uint32_t *device_rows(struct tg__crit *c, size_t *count) {
  size_t n = 0;
  for (uint32_t i = 0; i < c->count; i++) n += (c->rows[i].flags & TG__CRIT_DEVICE) != 0;
  uint32_t *rows = tg__alloc((n + 1) * sizeof *rows);
  *count = 0;
  for (uint32_t i = 0; rows && i < c->count; i++)
    if (c->rows[i].flags & TG__CRIT_DEVICE) rows[(*count)++] = i;
  if (rows && c->rules->sort(c, rows, *count)) return rows;
  tg__free(rows);
  return NULL;
}

static void add_inferred(struct tg__crit *c) {
  for (uint32_t i = 0; c->inferred.count && i < c->count; i++)
    if (c->rows[i].flags & TG__CRIT_BLOCKING) wait_for(c, tg__map_get(&c->inferred, i), i);
}

void tg__crit_add_device(struct tg__crit *c) {
  struct pass p = {.c = c};
  size_t count = 0;
  uint32_t *rows = device_rows(c, &count);
  p.last = tg__alloc(((size_t)c->stream_count + 1) * sizeof *p.last);
  if (c->launch_count) {
    p.by_stream = sorted_launches(c, by_stream_before);
    p.by_thread = sorted_launches(c, by_thread_before);
  }
  p.seen = tg__alloc(((size_t)c->stream_count + 1) * sizeof *p.seen);
  if (!rows || !p.last || !p.seen) c->failed = true;
  for (uint32_t k = 0; !c->failed && k < c->stream_count; k++) p.last[k] = TG_NONE;
  for (size_t i = 0; !c->failed && i < count; i++) {
    if (c->rows[rows[i]].flags & TG__CRIT_WAIT)
      take_wait(&p, rows[i]);
    else
      take_work(&p, rows[i]);
  }
  if (!c->failed) add_inferred(c);
  tg__free(rows);
  tg__free(p.last);
  tg__free(p.seen);
  tg__free(p.by_stream);
  tg__free(p.by_thread);
  tg__map_free(&p.source);
}
