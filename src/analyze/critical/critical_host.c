/* critical_host: edges along the threads of the host, and between threads that wait for the same lock. */
#include "analyze/critical/critical.h"

void tg__crit_add_edge(struct tg__crit *c, uint32_t from, uint32_t to, enum tg__crit_kind kind, uint32_t event,
                       bool is_free) {
  if (c->failed || (c->edge_count == c->edge_cap &&
                    !tg__grow((void **)&c->edges, &c->edge_cap, c->edge_count + 1, sizeof *c->edges))) {
    c->failed = true;
    return;
  }
  c->edges[c->edge_count++] =
      (struct tg__crit_edge){.from = from, .to = to, .event = event, .kind = (uint8_t)kind, .is_free = is_free};
}

/* ---- the runtime's lock ---------------------------------------------------------------------- */

/* Of calls that overlap, the one that returns first had the lock first. So every call waits for the end of those
 * that return before it: from each start there is a way to the first end behind it, and from end to end. */

static bool node_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__crit *c = ctx;
  const int64_t x = tg__crit_time(c, a), y = tg__crit_time(c, b);
  return x != y ? x < y : a < b;
}

/* Nodes of the calls that take the lock, by time. NULL on no memory. */
static uint32_t *lock_nodes(struct tg__crit *c, size_t *count) {
  const uint8_t wanted = TG__CRIT_LOCK | TG__CRIT_NODE;
  size_t n = 0;
  for (uint32_t i = 0; i < c->count; i++) n += (c->rows[i].flags & wanted) == wanted;
  uint32_t *nodes = tg__alloc((2 * n + 1) * sizeof *nodes);
  *count = 0;
  for (uint32_t i = 0; nodes && i < c->count; i++) {
    if ((c->rows[i].flags & wanted) != wanted) continue;
    nodes[(*count)++] = tg__crit_start(i);
    nodes[(*count)++] = tg__crit_end(i);
  }
  if (nodes && tg__sort_index(nodes, *count, node_before, c)) return nodes;
  tg__free(nodes);
  return NULL;
}

static bool is_between_threads(const struct tg__crit *c, uint32_t from, uint32_t to) {
  return c->rules->locks_thread || c->rows[from >> 1].place != c->rows[to >> 1].place;
}

static void end_lock(struct tg__crit *c, uint32_t *open, size_t *open_count, uint32_t last, uint32_t node) {
  const uint32_t row = node >> 1;
  const bool waits = c->rules->locks_weigh && c->rows[row].flags & TG__CRIT_BLOCKING;
  while (*open_count) {
    const uint32_t start = open[--*open_count];
    if (start >> 1 == row)
      tg__crit_add_edge(c, start, node, TG__CRIT_OPERATOR, row, waits);
    else if (is_between_threads(c, start, node))
      tg__crit_add_edge(c, start, node, TG__CRIT_DEPENDENCY, TG_NONE, false);
  }
  if (last == TG_NONE || !(last & 1) || !is_between_threads(c, last, node)) return;
  if (c->rules->locks_weigh) /* the rest of the call is its own once the other has released the lock */
    tg__crit_add_edge(c, last, node, TG__CRIT_OPERATOR, row, waits);
  else
    tg__crit_add_edge(c, last, node, TG__CRIT_DEPENDENCY, TG_NONE, false);
}

void tg__crit_add_locks(struct tg__crit *c) {
  size_t count, open_count = 0;
  uint32_t *nodes = lock_nodes(c, &count);
  uint32_t *open = nodes ? tg__alloc((count + 1) * sizeof *open) : NULL;
  uint32_t last = TG_NONE;
  if (!open) c->failed = true;
  for (size_t i = 0; open && i < count; i++) {
    if (nodes[i] & 1)
      end_lock(c, open, &open_count, last, nodes[i]);
    else
      open[open_count++] = nodes[i];
    last = nodes[i];
  }
  tg__free(nodes);
  tg__free(open);
}

/* ---- call stacks ----------------------------------------------------------------------------- */

struct walker {
  struct tg__crit *c;
  uint32_t *stack; /* open rows, outermost first */
  size_t depth;
  uint32_t *ends; /* the same as a heap, what ends first on top */
  size_t end_count;
  uint32_t last;        /* node passed last, TG_NONE */
  uint32_t last_parent; /* row around it, TG_NONE */
  uint32_t node_depth;  /* open rows that have nodes */
};

/* Of two that end together the inner one ends first: it lies behind. */
static bool host_ends_before(const struct walker *w, uint32_t a, uint32_t b) {
  const int64_t x = w->c->rows[a].end, y = w->c->rows[b].end;
  return x != y ? x < y : a > b;
}

static void heap_push(struct walker *w, uint32_t row) {
  size_t at = w->end_count++;
  for (; at > 0 && host_ends_before(w, row, w->ends[(at - 1) / 2]); at = (at - 1) / 2)
    w->ends[at] = w->ends[(at - 1) / 2];
  w->ends[at] = row;
}

static uint32_t heap_pop(struct walker *w) {
  const uint32_t top = w->ends[0], row = w->ends[--w->end_count];
  size_t at = 0;
  for (;;) {
    size_t child = 2 * at + 1;
    if (child >= w->end_count) break;
    if (child + 1 < w->end_count && host_ends_before(w, w->ends[child + 1], w->ends[child])) child++;
    if (!host_ends_before(w, w->ends[child], row)) break;
    w->ends[at] = w->ends[child];
    at = child;
  }
  w->ends[at] = row;
  return top;
}

static uint32_t innermost(const struct walker *w) { return w->depth ? w->stack[w->depth - 1] : TG_NONE; }

/* Has the pass over locks tied these two already? */
static bool is_locked(const struct walker *w, uint32_t from, uint32_t to) {
  if (!w->c->rules->locks_thread) return from >> 1 == to >> 1 && w->c->rows[to >> 1].flags & TG__CRIT_LOCK;
  const bool both = w->c->rows[from >> 1].flags & w->c->rows[to >> 1].flags & TG__CRIT_LOCK;
  return both && (!(from & 1) || to & 1);
}

static void pass(struct walker *w, uint32_t node, enum tg__crit_kind kind, bool is_free) {
  if (w->last == TG_NONE || is_locked(w, w->last, node)) return;
  const bool from_end = w->last & 1, to_end = node & 1;
  uint32_t event = TG_NONE;
  if (kind == TG__CRIT_OPERATOR) event = !from_end ? w->last >> 1 : to_end ? node >> 1 : w->last_parent;
  tg__crit_add_edge(w->c, w->last, node, kind, event, is_free);
}

static void enter_row(struct walker *w, uint32_t row) {
  const uint32_t parent = innermost(w);
  w->stack[w->depth++] = row;
  heap_push(w, row);
  if (!(w->c->rows[row].flags & TG__CRIT_NODE)) return;
  pass(w, tg__crit_start(row), w->node_depth ? TG__CRIT_OPERATOR : TG__CRIT_DEPENDENCY, false);
  w->last = tg__crit_start(row);
  w->last_parent = parent;
  w->node_depth++;
}

/* What ends next is taken off. */
static void leave(struct walker *w) {
  const uint32_t ended = heap_pop(w);
  const uint32_t row = w->c->rules->ends_innermost ? innermost(w) : ended;
  w->c->rows[row].flags |= TG__CRIT_CLOSED;
  while (w->depth && w->c->rows[innermost(w)].flags & TG__CRIT_CLOSED) w->depth--;
  if (!(w->c->rows[row].flags & TG__CRIT_NODE)) return;
  pass(w, tg__crit_end(row), TG__CRIT_OPERATOR, (w->c->rows[row].flags & TG__CRIT_BLOCKING) != 0);
  w->last = tg__crit_end(row);
  w->last_parent = innermost(w);
  w->node_depth--;
}

static void walk_thread(struct walker *w, const uint32_t *rows, size_t count) {
  w->last = w->last_parent = TG_NONE;
  for (size_t i = 0; i < count; i++) {
    while (w->end_count && w->c->rows[w->ends[0]].end <= w->c->rows[rows[i]].start) leave(w);
    enter_row(w, rows[i]);
  }
  while (w->end_count) leave(w);
}

static bool stacked_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__crit_row *x = &((const struct tg__crit *)ctx)->rows[a],
                            *y = &((const struct tg__crit *)ctx)->rows[b];
  if (x->place != y->place) return x->place < y->place;
  if (x->start != y->start) return x->start < y->start;
  return x->end != y->end ? x->end > y->end : a < b;
}

static uint32_t *host_rows(struct tg__crit *c, size_t *count) {
  size_t n = 0;
  for (uint32_t i = 0; i < c->count; i++) n += (c->rows[i].flags & TG__CRIT_HOST) != 0;
  uint32_t *rows = tg__alloc((n + 1) * sizeof *rows);
  *count = 0;
  for (uint32_t i = 0; rows && i < c->count; i++)
    if (c->rows[i].flags & TG__CRIT_HOST) rows[(*count)++] = i;
  if (rows && tg__sort_index(rows, *count, stacked_before, c)) return rows;
  tg__free(rows);
  return NULL;
}

void tg__crit_add_stacks(struct tg__crit *c) {
  struct walker w = {.c = c};
  size_t count;
  uint32_t *rows = host_rows(c, &count);
  if (rows) {
    w.stack = tg__alloc((count + 1) * sizeof *w.stack);
    w.ends = tg__alloc((count + 1) * sizeof *w.ends);
  }
  if (!w.stack || !w.ends) c->failed = true;
  for (size_t i = 0, next; !c->failed && i < count; i = next) {
    const uint32_t thread = c->rows[rows[i]].place;
    for (next = i; next < count && c->rows[rows[next]].place == thread;) next++;
    if (!c->is_skipped_thread || !c->is_skipped_thread[thread]) walk_thread(&w, rows + i, next - i);
  }
  tg__free(rows);
  tg__free(w.stack);
  tg__free(w.ends);
}
