/* HTA's newer call stacks: per thread a stack that grows at every start and shrinks at every end, whoever ends. So
 * rows that overlap in part get another parent than they have by time. Events at one instant: ends of longer events,
 * then starts, longest first, then empty events, each inside the one before; only empty events with an end come before
 * it. */
#include "analyze/compat/hta/hta_stack.h"

struct thread {
  bool is_device; /* by HTA's test: left out */
  bool device_rows_only;
  uint8_t role; /* enum tg__thread_role */
};
struct builder {
  const struct tg__hta *h;
  const struct tg__hta_rank *rank;
  struct tg__call_graph *g;
  struct tg__thread_names names;
  struct thread *threads; /* by track, from the first of the rank on */
  uint32_t first_track, track_count;
  uint32_t *track_of;          /* by row */
  uint32_t *by_start, *by_end; /* rows of the host, thread after thread */
  size_t count;
  uint32_t *open;
};

static int64_t start_ns(const struct builder *b, uint32_t row) {
  return (b->rank->rows[row].ts_us + b->h->min_ts_us) * 1000;
}
static int64_t dur_ns(const struct builder *b, uint32_t row) {
  const int64_t ns = tg__hta_dur_ns(b->h, b->rank, &b->rank->rows[row]);
  return ns > 0 ? ns : 0;
}
static int64_t end_ns(const struct builder *b, uint32_t row) { return start_ns(b, row) + dur_ns(b, row); }
static const struct tg__track *track_at(const struct builder *b, uint32_t track) {
  return &b->h->t->tracks[b->first_track + track];
}

/* ---- threads --------------------------------------------------------------------------------- */

/* pid or tid 0, or only device work. The main thread has steps, the backward one something of autograd. */
static void look_at_threads(struct builder *b) {
  for (uint32_t k = 0; k < b->track_count; k++) b->threads[k].device_rows_only = true;
  for (uint32_t i = 0; i < b->rank->count; i++) {
    const struct tg__hta_row *row = &b->rank->rows[i];
    b->track_of[i] = tg__slice_track(b->h->t, row->slice) - b->first_track;
    struct thread *thread = &b->threads[b->track_of[i]];
    const unsigned name = tg__thread_name(&b->names, b->h->t->slices.name[row->slice]);
    if (name & TG__NAME_STEP)
      thread->role = TG__THREAD_MAIN;
    else if (name & TG__NAME_AUTOGRAD && thread->role == TG__THREAD_OTHER)
      thread->role = TG__THREAD_BACKWARD;
    thread->device_rows_only &= row->stream > 0;
  }
  for (uint32_t k = 0; k < b->track_count; k++) {
    const struct tg__track *track = track_at(b, k);
    const bool zero = (!track->pid_is_text && track->pid == 0) || (!track->tid_is_text && track->tid == 0);
    b->threads[k].is_device = b->threads[k].device_rows_only || zero;
  }
}

/* ---- stacks of one thread -------------------------------------------------------------------- */

static bool hta_starts_before(uint32_t x, uint32_t y, const void *ctx) {
  const struct builder *b = ctx;
  if (b->track_of[x] != b->track_of[y]) return b->track_of[x] < b->track_of[y];
  if (start_ns(b, x) != start_ns(b, y)) return start_ns(b, x) < start_ns(b, y);
  if (dur_ns(b, x) != dur_ns(b, y)) return dur_ns(b, x) > dur_ns(b, y);
  return b->rank->rows[x].index < b->rank->rows[y].index;
}

static bool hta_ends_before(uint32_t x, uint32_t y, const void *ctx) {
  const struct builder *b = ctx;
  if (b->track_of[x] != b->track_of[y]) return b->track_of[x] < b->track_of[y];
  return end_ns(b, x) < end_ns(b, y);
}

static bool sort_hta_rows(struct builder *b) {
  for (uint32_t i = 0; i < b->rank->count; i++)
    if (b->rank->rows[i].stream == -1 && !b->threads[b->track_of[i]].is_device) b->by_start[b->count++] = i;
  if (!tg__sort_index(b->by_start, b->count, hta_starts_before, b)) return false;
  memcpy(b->by_end, b->by_start, b->count * sizeof *b->by_end);
  return tg__sort_index(b->by_end, b->count, hta_ends_before, b);
}

static size_t push(struct builder *b, size_t depth, uint32_t row) {
  tg__call_graph_host(b->g, row, depth ? b->open[depth - 1] : TG_NONE);
  b->open[depth] = row;
  return depth + 1;
}

/* Rows [from, to) of by_start and by_end are those of one thread. */
static void stack_thread(struct builder *b, size_t from, size_t to) {
  size_t depth = 0, end = from;
  for (size_t i = from; i < to;) {
    const int64_t now = start_ns(b, b->by_start[i]);
    const bool longer = dur_ns(b, b->by_start[i]) > 0; /* at least one of those that start now is not empty */
    for (; end < to && end_ns(b, b->by_end[end]) <= now; end++) {
      const uint32_t row = b->by_end[end];
      if (dur_ns(b, row) == 0) continue; /* taken off below */
      if (!longer && end_ns(b, row) == now) break;
      if (depth) depth--;
    }
    size_t empty = 0;
    for (; i < to && start_ns(b, b->by_start[i]) == now; i++) {
      depth = push(b, depth, b->by_start[i]);
      empty += dur_ns(b, b->by_start[i]) == 0;
    }
    depth -= empty;
  }
}

static void stack_all(struct builder *b) {
  for (size_t from = 0, to; from < b->count; from = to) {
    for (to = from; to < b->count && b->track_of[b->by_start[to]] == b->track_of[b->by_start[from]]; to++) {}
    stack_thread(b, from, to);
  }
}

/* Device work on stream 0 is left out, and that of host calls on threads left out. */
static void hang_device_work(struct builder *b) {
  for (uint32_t i = 0; i < b->rank->count; i++) {
    const struct tg__hta_row *row = &b->rank->rows[i];
    if (row->stream <= 0 || row->index_correlation <= 0 || row->link == TG_NONE) continue;
    if (b->g->kind[row->link] == TG__NODE_HOST)
      tg__call_graph_device(b->g, i, row->link, start_ns(b, i), tg__hta_dur_ns(b->h, b->rank, row));
  }
}

/* ---- the backward thread --------------------------------------------------------------------- */

/* Exactly two threads with a role: the first hangs below the second. So do two main threads: by pid, then tid. */
static bool find_pair(const struct builder *b, uint32_t pair[2]) {
  uint32_t found = 0;
  for (uint32_t k = 0; k < b->track_count; k++) {
    if (b->threads[k].is_device || b->threads[k].role == TG__THREAD_OTHER) continue;
    if (found < 2) pair[found] = k;
    found++;
  }
  if (found != 2) return false;
  const struct tg__track *x = track_at(b, pair[0]), *y = track_at(b, pair[1]);
  const uint8_t role_x = b->threads[pair[0]].role, role_y = b->threads[pair[1]].role;
  bool swap = role_x == TG__THREAD_MAIN && role_y == TG__THREAD_BACKWARD;
  if (role_x == role_y) swap = x->pid > y->pid || (x->pid == y->pid && x->tid > y->tid);
  if (swap) {
    const uint32_t other = pair[0];
    pair[0] = pair[1];
    pair[1] = other;
  }
  return true;
}

/* The first position in top[0..count), by start, that is not taken; taken ones point past themselves. */
static size_t next_free(uint32_t *next, size_t at) {
  size_t root = at;
  while (next[root] != root) root = next[root];
  while (next[at] != root) {
    const size_t up = next[at];
    next[at] = (uint32_t)root;
    at = up;
  }
  return root;
}

static size_t first_from(const struct builder *b, const uint32_t *top, size_t count, int64_t ns) {
  size_t low = 0;
  TG__PARTITION(low, count, i, start_ns(b, top[i]) < ns);
  return low;
}

/* What is at the top of the backward thread goes below the first range, in the order of rows, that holds it. */
static bool hang_below(struct builder *b, uint32_t backward, uint32_t main, unsigned range) {
  size_t count = 0;
  bool any = false;
  uint32_t *top = b->open, *next = b->by_end; /* both are done with */
  for (size_t i = 0; i < b->count; i++)
    if (b->track_of[b->by_start[i]] == backward && b->g->parent[b->by_start[i]] == TG_NONE)
      top[count++] = b->by_start[i];
  for (size_t i = 0; i <= count; i++) next[i] = (uint32_t)i;
  for (uint32_t i = 0; i < b->rank->count; i++) {
    if (b->track_of[i] != main || !(tg__thread_name(&b->names, b->h->t->slices.name[b->rank->rows[i].slice]) & range))
      continue;
    any = true;
    const int64_t end = end_ns(b, i);
    for (size_t k = next_free(next, first_from(b, top, count, start_ns(b, i))); k < count && start_ns(b, top[k]) <= end;
         k = next_free(next, k + 1)) {
      if (end_ns(b, top[k]) > end || top[k] == i) continue;
      b->g->parent[top[k]] = i;
      next[k] = (uint32_t)(k + 1);
    }
  }
  return any;
}

static void connect_backward(struct builder *b) {
  uint32_t pair[2];
  if (!find_pair(b, pair)) return;
  if (!hang_below(b, pair[0], pair[1], TG__NAME_BACKWARD_RANGE)) hang_below(b, pair[0], pair[1], TG__NAME_STEP);
}

bool tg__hta_call_graph(const struct tg__hta *h, uint32_t rank, struct tg__call_graph *g, uint8_t *roles) {
  const struct tg__rank *r = &h->t->ranks[rank];
  struct builder b = {
      .h = h, .rank = &h->ranks[rank], .g = g, .first_track = r->first_track, .track_count = r->track_count};
  const size_t rows = b.rank->count + 2;
  b.threads = tg__alloc(((size_t)r->track_count + 1) * sizeof *b.threads);
  b.track_of = tg__alloc(rows * sizeof *b.track_of);
  b.by_start = tg__alloc(rows * sizeof *b.by_start);
  b.by_end = tg__alloc(rows * sizeof *b.by_end);
  b.open = tg__alloc(rows * sizeof *b.open);
  bool ok = tg__call_graph_new(g, (uint32_t)b.rank->count) && tg__thread_names_open(&b.names, h->t) && b.threads &&
            b.track_of && b.by_start && b.by_end && b.open;
  if (ok) look_at_threads(&b);
  ok = ok && sort_hta_rows(&b);
  if (ok) {
    stack_all(&b);
    hang_device_work(&b);
    connect_backward(&b);
    for (uint32_t k = 0; roles && k < b.track_count; k++)
      roles[b.first_track + k] = b.threads[k].is_device ? TG__THREAD_OTHER : b.threads[k].role;
    ok = tg__call_graph_sum(g);
  }
  tg__thread_names_close(&b.names);
  tg__free(b.threads);
  tg__free(b.track_of);
  tg__free(b.by_start);
  tg__free(b.by_end);
  tg__free(b.open);
  return ok;
}
