/* critical_search: the longest path through the graph of critical.h.
 *
 * Nodes are taken in topological order, first come first served, and each hands its distance on. Among paths of
 * equal length the edge found first wins, and among ends the one that comes first: what networkx does with the same
 * edges, and the same on every run. */
#include "analyze/critical/critical.h"

struct node {
  int64_t distance;
  uint32_t best;    /* edge it was reached by, TG_NONE */
  uint32_t waiting; /* edges into it that have not been followed yet */
};
struct search {
  struct tg__crit *c;
  struct node *nodes;
  uint32_t *first; /* by node: its run of `out`; one more at the end */
  uint32_t *out;   /* edges by source, in the order they were found */
  uint32_t *order; /* nodes as they become ready */
  uint32_t ready;
};

int64_t tg__crit_time(const struct tg__crit *c, uint32_t node) {
  return node & 1 ? c->rows[node >> 1].end : c->rows[node >> 1].start;
}

int64_t tg__crit_weight(const struct tg__crit *c, const struct tg__crit_edge *e) {
  if (e->is_free || e->kind == TG__CRIT_DEPENDENCY || e->kind == TG__CRIT_SYNC) return 0;
  const int64_t weight = tg__crit_span(tg__crit_time(c, e->from), tg__crit_time(c, e->to));
  return weight < 0 && !c->rules->goes_below_zero ? 0 : weight;
}

static bool search_open(struct search *s, struct tg__crit *c) {
  const size_t nodes = (size_t)c->count * 2;
  *s = (struct search){.c = c};
  s->nodes = tg__alloc((nodes + 1) * sizeof *s->nodes);
  s->first = tg__alloc((nodes + 2) * sizeof *s->first);
  s->out = tg__alloc((c->edge_count + 1) * sizeof *s->out);
  s->order = tg__alloc((nodes + 1) * sizeof *s->order);
  return s->nodes && s->first && s->out && s->order;
}

static void search_close(struct search *s) {
  tg__free(s->nodes);
  tg__free(s->first);
  tg__free(s->out);
  tg__free(s->order);
}

static void group_by_source(struct search *s) {
  const struct tg__crit *c = s->c;
  const size_t nodes = (size_t)c->count * 2;
  for (size_t i = 0; i < c->edge_count; i++) s->first[c->edges[i].from + 2]++;
  for (size_t k = 2; k <= nodes; k++) s->first[k] += s->first[k - 1];
  for (size_t i = 0; i < c->edge_count; i++) s->out[s->first[c->edges[i].from + 1]++] = (uint32_t)i;
}

/* A later edge between the same nodes replaces the earlier one in its place; the earlier owner of the time stays when
 * the later edge names none. */
static void replace_duplicate_edges(struct search *s) {
  const struct tg__crit *c = s->c;
  for (uint32_t k = 0; k < c->count * 2; k++)
    s->nodes[k].best = TG_NONE; /* for now: the last edge seen into the node */
  for (uint32_t k = 0; k < c->count * 2; k++)
    for (uint32_t i = s->first[k]; i < s->first[k + 1]; i++) {
      struct tg__crit_edge *e = &c->edges[s->out[i]];
      struct node *to = &s->nodes[e->to];
      struct tg__crit_edge *duplicate = to->best == TG_NONE ? NULL : &c->edges[to->best];
      if (!duplicate || duplicate->from != k) {
        to->best = s->out[i];
        to->waiting++;
        continue;
      }
      duplicate->kind = e->kind;
      duplicate->is_free = e->is_free;
      if (e->event != TG_NONE) duplicate->event = e->event;
      e->is_gone = true;
    }
}

static void meet(struct search *s, uint32_t node) {
  struct node *n = &s->nodes[node];
  if (n->distance == 0) return;
  n->distance = 0;
  s->c->node_count++;
  if (n->waiting == 0) s->order[s->ready++] = node;
}

/* Nodes without an edge into them, in the order in which edges first name them. */
static void find_roots(struct search *s) {
  const struct tg__crit *c = s->c;
  for (uint32_t k = 0; k < c->count * 2; k++) {
    s->nodes[k].best = TG_NONE;
    s->nodes[k].distance = -1; /* not met yet */
  }
  s->c->node_count = 0;
  for (size_t i = 0; i < c->edge_count; i++) {
    meet(s, c->edges[i].from);
    meet(s, c->edges[i].to);
  }
}

static void follow_edges(struct search *s, uint32_t node) {
  const struct tg__crit *c = s->c;
  for (uint32_t i = s->first[node]; i < s->first[node + 1]; i++) {
    const struct tg__crit_edge *e = &c->edges[s->out[i]];
    if (e->is_gone) continue;
    struct node *to = &s->nodes[e->to];
    const int64_t weight = tg__crit_weight(c, e);
    const int64_t distance = tg__crit_sum(s->nodes[node].distance, weight > 0 ? weight : 0);
    if (to->best == TG_NONE || distance > to->distance || (distance == to->distance && s->out[i] < to->best)) {
      to->distance = distance;
      to->best = s->out[i];
    }
    if (--to->waiting == 0) s->order[s->ready++] = e->to;
  }
}

static bool trace_back(struct search *s) {
  struct tg__crit *c = s->c;
  uint32_t last = s->order[0];
  for (uint32_t i = 1; i < s->ready; i++)
    if (s->nodes[s->order[i]].distance > s->nodes[last].distance) last = s->order[i];
  c->path_count = 0;
  for (uint32_t node = last; s->nodes[node].best != TG_NONE; node = c->edges[s->nodes[node].best].from) c->path_count++;
  c->path = tg__alloc((c->path_count + 1) * sizeof *c->path);
  if (!c->path) return false;
  size_t at = c->path_count;
  for (uint32_t node = last; s->nodes[node].best != TG_NONE; node = c->edges[s->nodes[node].best].from) {
    c->path[--at] = s->nodes[node].best;
    c->edges[s->nodes[node].best].is_critical = true;
  }
  return true;
}

/* False when there is a circle. */
static bool search_once(struct tg__crit *c) {
  struct search s;
  bool is_complete = true;
  if (!search_open(&s, c)) {
    c->failed = true;
    goto done;
  }
  group_by_source(&s);
  replace_duplicate_edges(&s);
  find_roots(&s);
  for (uint32_t i = 0; i < s.ready; i++) follow_edges(&s, s.order[i]);
  is_complete = s.ready == c->node_count;
  if (is_complete && s.ready && !trace_back(&s)) c->failed = true;
done:
  search_close(&s);
  return is_complete;
}

static bool is_tie(const struct tg__crit *c, const struct tg__crit_edge *e) {
  const struct tg__crit_row *from = &c->rows[e->from >> 1], *to = &c->rows[e->to >> 1];
  return (from->flags ^ to->flags) & TG__CRIT_DEVICE || from->place != to->place;
}

/* Clocks of host and device that disagree can close a circle. Edges between threads and streams then count only where
 * they lead forward in time; along one thread and one stream the order is given, so no circle is left. */
static void drop_backward(struct tg__crit *c) {
  size_t kept = 0;
  for (size_t i = 0; i < c->edge_count; i++) {
    struct tg__crit_edge e = c->edges[i];
    if (is_tie(c, &e) && tg__crit_time(c, e.from) >= tg__crit_time(c, e.to)) continue;
    e.is_gone = false;
    c->edges[kept++] = e;
  }
  c->edge_count = kept;
}

void tg__crit_search(struct tg__crit *c) {
  if (c->failed || c->edge_count == 0) return;
  if (c->edge_count >= TG_NONE || c->count >= TG_NONE / 2) {
    c->failed = true;
    return;
  }
  if (search_once(c) || c->failed) return;
  if (c->rules->refuses_cycles) {
    c->refusal = "its graph has a circle here";
    return;
  }
  drop_backward(c);
  search_once(c);
}

void tg__crit_close(struct tg__crit *c) {
  tg__free(c->rows);
  tg__free(c->is_skipped_thread);
  tg__free(c->index);
  tg__free(c->waits);
  tg__free(c->launches);
  tg__free(c->queue);
  tg__map_free(&c->inferred);
  tg__free(c->edges);
  tg__free(c->path);
  *c = (struct tg__crit){0};
}
