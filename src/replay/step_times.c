/* step_times: one pass over the graph works out the times of all nodes, and from these those of the steps. */
#include "replay/step_graph.h"

bool tg__replay_times_open(struct tg__replay_times *x, size_t nodes, bool with_by) {
  *x = (struct tg__replay_times){tg__alloc((nodes + 1) * sizeof *x->begin_ns),
                                 tg__alloc((nodes + 1) * sizeof *x->end_ns),
                                 with_by ? tg__alloc((nodes + 1) * sizeof *x->by) : NULL, NULL, NULL};
  if (x->begin_ns && x->end_ns && (!with_by || x->by)) return true;
  tg__replay_times_close(x);
  return false;
}

void tg__replay_times_close(struct tg__replay_times *x) {
  tg__free(x->begin_ns);
  tg__free(x->end_ns);
  tg__free(x->by);
  *x = (struct tg__replay_times){0};
}

static void run_node(const struct tg__replay_graph *g, uint32_t node, const int64_t *dur_ns, bool is_gone,
                     struct tg__replay_times *x) {
  const struct tg__replay_node *const n = &g->nodes[node];
  const struct tg__replay_lane *const lane = &g->lanes[n->lane];
  const bool is_first = node == lane->first;
  const int64_t first_ns = x->held_ns ? x->held_ns[node] : g->start_ns;
  const int64_t before_ns = is_first ? first_ns : x->end_ns[node - 1];
  uint32_t by = TG_NONE;
  x->begin_ns[node] = x->end_ns[node] = before_ns;
  if (x->by) x->by[node] = TG_NONE;
  if (is_gone) return;
  int64_t let_go_ns = before_ns + (n->kind == TG__REPLAY_DELAY && !is_first ? lane->gap_ns : 0);
  for (uint32_t k = g->first_edge[node]; k < g->first_edge[node + 1]; k++) {
    const struct tg__replay_edge *const edge = &g->edges[k];
    const int64_t ns = (edge->from_start ? x->begin_ns : x->end_ns)[edge->from] + edge->lag_ns;
    if (ns <= let_go_ns) continue;
    let_go_ns = ns;
    by = k;
  }
  if (x->by) x->by[node] = by;
  if (x->late_ns) let_go_ns += x->late_ns[node];
  if (x->held_ns && let_go_ns < x->held_ns[node]) let_go_ns = x->held_ns[node];
  if (n->kind == TG__REPLAY_WAIT) { /* it begins when the thread comes to it */
    x->end_ns[node] = let_go_ns;
    return;
  }
  x->begin_ns[node] = let_go_ns;
  x->end_ns[node] = let_go_ns + (dur_ns ? dur_ns[node] : n->dur_ns);
}

void tg__replay_run(const struct tg__replay_graph *g, const int64_t *dur_ns, const bool *is_gone,
                    struct tg__replay_times *x) {
  for (size_t i = 0; i < g->node_count; i++) {
    const uint32_t node = g->order[i];
    run_node(g, node, dur_ns, is_gone && is_gone[node], x);
  }
}

void tg__replay_recorded(const struct tg__replay_graph *g, struct tg__replay_times *x) {
  for (size_t i = 0; i < g->node_count; i++) {
    x->begin_ns[i] = g->nodes[i].start_ns;
    x->end_ns[i] = g->nodes[i].start_ns + g->nodes[i].dur_ns;
  }
}

/* When its thread comes to a step: what its first node waits for is inside of it. */
int64_t tg__replay_step_begin(const struct tg__replay_graph *g, const struct tg__replay_times *x, size_t step) {
  const uint32_t node = g->step_begin[step];
  return node == g->lanes[g->main_lane].first ? g->start_ns : x->end_ns[node - 1];
}

void tg__replay_step_ends(const struct tg__replay_graph *g, const struct tg__replay_times *x, int64_t *end_ns) {
  for (size_t i = 0; i < g->steps.count; i++) end_ns[i] = x->end_ns[g->step_end[i]];
  for (size_t i = 0; i < g->work_count; i++) {
    const struct tg__replay_work *const w = &g->works[i];
    if (w->step != TG_NONE && x->end_ns[w->node + 1] > end_ns[w->step]) end_ns[w->step] = x->end_ns[w->node + 1];
  }
  for (size_t i = 1; i < g->steps.count; i++)
    if (end_ns[i] < end_ns[i - 1]) end_ns[i] = end_ns[i - 1];
}

void tg__replay_step_times(const struct tg__replay_graph *g, const struct tg__replay_times *x, int64_t *step_ns) {
  tg__replay_step_ends(g, x, step_ns);
  int64_t before_ns = tg__replay_step_begin(g, x, 0);
  for (size_t i = 0; i < g->steps.count; i++) {
    int64_t begin_ns = tg__replay_step_begin(g, x, i);
    const int64_t end_ns = step_ns[i] > before_ns ? step_ns[i] : before_ns;
    if (before_ns > begin_ns) begin_ns = before_ns;
    step_ns[i] = end_ns > begin_ns ? end_ns - begin_ns : 0;
    before_ns = end_ns;
  }
}
