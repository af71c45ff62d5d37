/* step_halves: the durations of a step put into its neighbour, node by node. Steps count from 0: those at even places
 * take the durations of those at uneven ones. */
#include "replay/step_batches.h"
#include "replay/step_proof.h"

/* The nodes of one step, by lane and time. */
struct nodes {
  const uint32_t *list;
  size_t count;
};
struct swap {
  const struct tg__replay_graph *g;
  int64_t *dur_ns;
  bool counts;                  /* does the step under way count for these? */
  int64_t own_ns, unmatched_ns; /* of the calls and work of the steps that are matched; without a like */
  bool failed;
};

static uint32_t node_name(const struct tg__replay_graph *g, uint32_t node) {
  const uint32_t slice = g->nodes[node].slice;
  return slice == TG_NONE ? TG_NONE : g->t->slices.name[slice];
}

static bool are_alike(const struct tg__replay_graph *g, uint32_t a, uint32_t b) {
  return g->nodes[a].kind == g->nodes[b].kind && node_name(g, a) == node_name(g, b);
}

/* Calls and work count. The length of a wait follows from the rest, and a gap is no call. */
static int64_t own_ns(const struct swap *s, uint32_t node) {
  const struct tg__replay_node *const n = &s->g->nodes[node];
  const bool is_own = (n->kind == TG__REPLAY_HOST || n->kind == TG__REPLAY_WORK) && !tg__replay_is_idle(s->g, node);
  return s->counts && is_own ? n->dur_ns : 0;
}

/* The next place among its likes, counted from 0: likes have one kind and one name. */
static uint64_t like_key(struct swap *s, struct tg__map *seen, uint32_t node) {
  const uint64_t like = (uint64_t)node_name(s->g, node) << 8 | s->g->nodes[node].kind;
  uint32_t *const times = tg__map_slot(seen, like, 0);
  if (!times) {
    s->failed = true;
    return 0;
  }
  const uint64_t key[2] = {like, (*times)++};
  return tg__hash(key, sizeof key);
}

/* Lanes with other nodes here than there: the k-th of its likes takes from the k-th. */
static void match_by_likes(struct swap *s, struct nodes to, struct nodes from) {
  const struct tg__replay_graph *const g = s->g;
  struct tg__map seen = {0}, seen_from = {0}, places = {0};
  for (size_t i = 0; i < from.count && !s->failed; i++)
    if (!tg__map_put(&places, like_key(s, &seen_from, from.list[i]), from.list[i])) s->failed = true;
  for (size_t i = 0; i < to.count && !s->failed; i++) {
    const uint32_t other = tg__map_get(&places, like_key(s, &seen, to.list[i]));
    if (other == TG_NONE)
      s->unmatched_ns += own_ns(s, to.list[i]);
    else
      s->dur_ns[to.list[i]] = g->nodes[other].dur_ns;
  }
  tg__map_free(&seen);
  tg__map_free(&seen_from);
  tg__map_free(&places);
}

static void match_lane(struct swap *s, struct nodes to, struct nodes from) {
  const struct tg__replay_graph *const g = s->g;
  bool same = to.count == from.count;
  for (size_t i = 0; same && i < to.count; i++) same = are_alike(g, to.list[i], from.list[i]);
  for (size_t i = 0; i < to.count; i++) s->own_ns += own_ns(s, to.list[i]);
  if (!same) match_by_likes(s, to, from);
  for (size_t i = 0; same && i < to.count; i++) s->dur_ns[to.list[i]] = g->nodes[from.list[i]].dur_ns;
}

/* The nodes at the front of a step that are on the lane, which come off it. */
static struct nodes take_lane(const struct tg__replay_graph *g, struct nodes *step, uint32_t lane) {
  struct nodes taken = {step->list, 0};
  while (taken.count < step->count && g->nodes[taken.list[taken.count]].lane == lane) taken.count++;
  step->list += taken.count;
  step->count -= taken.count;
  return taken;
}

bool tg__replay_is_idle(const struct tg__replay_graph *g, uint32_t node) {
  const struct tg__replay_node *const n = &g->nodes[node];
  if (n->slice == TG_NONE || n->lane == g->main_lane) return false;
  return tg__slice_class(g->t, n->slice) == TG__CLASS_SAMPLE ||
         g->names[g->t->slices.name[n->slice]] & TG__REPLAY_NAME_IDLE; /* known since the nodes were made */
}

/* A worker process makes batches of later steps, and so does a thread that hands over to that of the steps. Its work
 * during a step does not belong to that step. */
bool tg__replay_lane_is_elsewhere(const struct tg__replay_graph *g, uint32_t lane) {
  const struct tg__replay_lane *const l = &g->lanes[lane], *const main = &g->lanes[g->main_lane];
  return !l->is_device && l != main && (l->is_tied || g->t->tracks[l->track].pid != g->t->tracks[main->track].pid);
}

static void match_step(struct swap *s, struct nodes to, struct nodes from) {
  for (uint32_t lane = 0; lane < s->g->lane_count && !s->failed; lane++) {
    const struct nodes mine = take_lane(s->g, &to, lane), other = take_lane(s->g, &from, lane);
    if (mine.count && !tg__replay_lane_is_elsewhere(s->g, lane)) match_lane(s, mine, other);
  }
}

/* Of a batch that was begun before the steps the loop's call has the wait in it, of others not: each keeps its own. */
static bool is_fetch(const struct tg__replay_graph *g, size_t node) {
  const uint32_t slice = g->nodes[node].slice;
  return slice != TG_NONE && tg__replay_batch_of(g, slice) && g->nodes[node].lane == g->main_lane;
}

bool tg__replay_swap_halves(const struct tg__replay_graph *g, const int64_t *step_ns, double median_ns, int64_t *dur_ns,
                            double *unmatched_pct) {
  struct swap s = {.g = g, .dur_ns = dur_ns};
  const size_t steps = g->steps.count;
  uint32_t *const first = tg__alloc((steps + 2) * sizeof *first);
  uint32_t *const list = tg__alloc((g->node_count + 1) * sizeof *list);
  if (!first || !list) s.failed = true;
  for (size_t i = 0; !s.failed && i < g->node_count; i++) {
    dur_ns[i] = g->nodes[i].dur_ns;
    if (g->nodes[i].step != TG_NONE) first[g->nodes[i].step + 2]++;
  }
  for (size_t k = 2; !s.failed && k < steps + 2; k++) first[k] += first[k - 1];
  for (uint32_t i = 0; !s.failed && i < g->node_count; i++)
    if (g->nodes[i].step != TG_NONE) list[first[g->nodes[i].step + 1]++] = i;
  for (size_t k = 0; !s.failed && k < steps; k += 2) {
    const size_t other = k + 1 < steps ? k + 1 : k - 1;
    s.counts = tg__proof_is_usual(step_ns[k], median_ns) && tg__proof_is_usual(step_ns[other], median_ns);
    match_step(&s, (struct nodes){list + first[k], first[k + 1] - first[k]},
               (struct nodes){list + first[other], first[other + 1] - first[other]});
  }
  for (size_t i = 0; !s.failed && i < g->node_count; i++)
    if (is_fetch(g, i)) dur_ns[i] = g->nodes[i].dur_ns;
  *unmatched_pct = s.own_ns > 0 ? 100.0 * (double)s.unmatched_ns / (double)s.own_ns : 0;
  tg__free(first);
  tg__free(list);
  return !s.failed;
}
