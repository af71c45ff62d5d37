/* step_slack: the latest begin of each node, worked out from the ends of the steps back, and how much later several
 * nodes may begin at once.
 *
 * The end of a step is the longest of many paths. When each of some nodes begins `late` later, a path that has k of
 * them becomes k x late longer. From the least slack down, the path that is too long says how much less it must be;
 * each time a path with fewer of them is left, so this ends, mostly at the first or second try. */
#include "replay/step_slack.h"

/* ---- a single node -------------------------------------------------------------------------- */

static void take_least(int64_t *to, int64_t ns) {
  if (ns < *to) *to = ns;
}

/* What this node waits for has to be there at latest_ns[node]. */
static void bound_causes(struct tg__replay_slack *s, uint32_t node, int64_t *latest_end_ns) {
  const struct tg__replay_graph *const g = s->g;
  const struct tg__replay_node *const n = &g->nodes[node];
  const struct tg__replay_lane *const lane = &g->lanes[n->lane];
  const int64_t begin_ns = s->latest_ns[node];
  if (begin_ns == TG__SLACK_WITHOUT_END) return;
  if (node != lane->first)
    take_least(&latest_end_ns[node - 1], begin_ns - (n->kind == TG__REPLAY_DELAY ? lane->gap_ns : 0));
  for (uint32_t k = g->first_edge[node]; k < g->first_edge[node + 1]; k++) {
    const struct tg__replay_edge *const edge = &g->edges[k];
    take_least(&(edge->from_start ? s->latest_ns : latest_end_ns)[edge->from], begin_ns - edge->lag_ns);
  }
}

static bool find_latest(struct tg__replay_slack *s) {
  const struct tg__replay_graph *const g = s->g;
  int64_t *const latest_end_ns = tg__alloc((g->node_count + 1) * sizeof *latest_end_ns);
  if (!latest_end_ns) return false;
  for (size_t i = 0; i < g->node_count; i++) latest_end_ns[i] = s->latest_ns[i] = TG__SLACK_WITHOUT_END;
  for (size_t i = 0; i < g->steps.count; i++) take_least(&latest_end_ns[g->step_end[i]], s->end_ns[i]);
  for (size_t i = 0; i < g->work_count; i++)
    if (g->works[i].step != TG_NONE) take_least(&latest_end_ns[g->works[i].node + 1], s->end_ns[g->works[i].step]);
  for (size_t i = g->node_count; i-- > 0;) {
    const uint32_t node = g->order[i];
    const int64_t dur_ns = g->nodes[node].kind == TG__REPLAY_WAIT ? 0 : g->nodes[node].dur_ns;
    if (latest_end_ns[node] != TG__SLACK_WITHOUT_END) take_least(&s->latest_ns[node], latest_end_ns[node] - dur_ns);
    bound_causes(s, node, latest_end_ns);
  }
  tg__free(latest_end_ns);
  return true;
}

enum tg_err tg__slack_open(struct tg__replay_slack *s, const struct tg__replay_graph *g) {
  *s = (struct tg__replay_slack){.g = g};
  s->end_ns = tg__alloc((g->steps.count + 1) * sizeof *s->end_ns);
  s->tried_end_ns = tg__alloc((g->steps.count + 1) * sizeof *s->tried_end_ns);
  s->latest_ns = tg__alloc((g->node_count + 1) * sizeof *s->latest_ns);
  s->late_ns = tg__alloc((g->node_count + 1) * sizeof *s->late_ns);
  if (!s->end_ns || !s->tried_end_ns || !s->latest_ns || !s->late_ns ||
      !tg__replay_times_open(&s->x, g->node_count, false) || !tg__replay_times_open(&s->tried, g->node_count, true))
    return TG_MEMORY;
  tg__replay_run(g, NULL, NULL, &s->x);
  tg__replay_step_ends(g, &s->x, s->end_ns);
  return find_latest(s) ? TG_OK : TG_MEMORY;
}

void tg__slack_close(struct tg__replay_slack *s) {
  tg__replay_times_close(&s->x);
  tg__replay_times_close(&s->tried);
  tg__free(s->end_ns);
  tg__free(s->tried_end_ns);
  tg__free(s->latest_ns);
  tg__free(s->late_ns);
  *s = (struct tg__replay_slack){0};
}

int64_t tg__slack_alone(const struct tg__replay_slack *s, uint32_t node) {
  const int64_t latest_ns = s->latest_ns[node];
  return latest_ns == TG__SLACK_WITHOUT_END ? latest_ns : latest_ns - s->x.begin_ns[node];
}

/* ---- together -------------------------------------------------------------------------------- */

/* The step that ends latest, compared with when it ended before; its growth. */
static int64_t most_growth(const struct tg__replay_slack *s, size_t *step) {
  int64_t most_ns = 0;
  for (size_t i = 0; i < s->g->steps.count; i++) {
    if (s->tried_end_ns[i] - s->end_ns[i] <= most_ns) continue;
    most_ns = s->tried_end_ns[i] - s->end_ns[i];
    *step = i;
  }
  return most_ns;
}

/* A node that ends when this step does; an earlier step may have the last one. */
static uint32_t last_of_step(const struct tg__replay_slack *s, size_t step) {
  const struct tg__replay_graph *const g = s->g;
  for (size_t i = 0; i <= step; i++)
    if (s->tried.end_ns[g->step_end[i]] == s->tried_end_ns[step]) return g->step_end[i];
  for (size_t i = 0; i < g->work_count; i++) {
    const struct tg__replay_work *const w = &g->works[i];
    if (w->step <= step && s->tried.end_ns[w->node + 1] == s->tried_end_ns[step]) return w->node + 1;
  }
  return g->step_end[step];
}

/* How often what begins later is on the path that ends with this node. */
static int64_t times_on_path(const struct tg__replay_slack *s, uint32_t node, int64_t late_ns) {
  const struct tg__replay_graph *const g = s->g;
  int64_t times = 0;
  bool at_end = true; /* of the node; else where it begins */
  for (;;) {
    const struct tg__replay_node *const n = &g->nodes[node];
    const uint32_t by = s->tried.by[node];
    if (n->kind != TG__REPLAY_WAIT) times += s->late_ns[node] / late_ns;
    if (by != TG_NONE && (at_end || n->kind != TG__REPLAY_WAIT)) {
      at_end = !g->edges[by].from_start;
      node = g->edges[by].from;
      continue;
    }
    if (node == g->lanes[n->lane].first) return times;
    node--;
    at_end = true;
  }
}

int64_t tg__slack_together(struct tg__replay_slack *s, const uint32_t *nodes, size_t count, int64_t least_ns) {
  int64_t late_ns = least_ns;
  if (count == 1) return least_ns;
  s->tried.late_ns = s->late_ns;
  while (late_ns > 0 && late_ns != TG__SLACK_WITHOUT_END) {
    size_t step = 0;
    for (size_t i = 0; i < count; i++) s->late_ns[nodes[i]] += late_ns;
    s->tries++;
    tg__replay_run(s->g, NULL, NULL, &s->tried);
    tg__replay_step_ends(s->g, &s->tried, s->tried_end_ns);
    const int64_t growth_ns = most_growth(s, &step);
    const int64_t times = growth_ns > 0 ? times_on_path(s, last_of_step(s, step), late_ns) : 1;
    for (size_t i = 0; i < count; i++) s->late_ns[nodes[i]] = 0;
    if (growth_ns <= 0) break;
    late_ns = times > 0 ? late_ns - (growth_ns + times - 1) / times : 0;
  }
  return late_ns > 0 ? late_ns : 0;
}
