/* step_loader: worker processes that make batches ahead of the loop, as lanes of the graph. */
#include "replay/step_loader.h"

/* AHEAD_PER_WORKER: torch's prefetch_factor, if a program sets none. MOST_ROUNDS: of the recorded steps in a turn of
 * all workers; in more than that workers that are too slow show in their sum. */
enum { AHEAD_PER_WORKER = 2, MOST_ROUNDS = 16 };

void tg__replay_loader_close(struct tg__replay_loader *l) {
  tg__free(l->fetches);
  *l = (struct tg__replay_loader){0};
}

/* ---- building -------------------------------------------------------------------------------- */

/* The nodes of a call on its thread. A call that begins and ends at one instant has none of its own. */
static void add_fetch(struct tg__replay_graph *g, struct tg__replay_loader *l, uint32_t slice) {
  const uint32_t first = g->node_of[slice - g->slices.first];
  const int64_t end_ns = tg__slice_end(g->t, slice);
  if (first >= g->node_count || g->nodes[first].start_ns >= end_ns) return;
  const uint32_t past = g->lanes[g->nodes[first].lane].past;
  uint32_t last = first;
  while (last + 1 < past && g->nodes[last + 1].start_ns < end_ns) last++;
  if (tg__grow(&l->fetches, &l->cap, l->count + 1, sizeof *l->fetches))
    l->fetches[l->count++] = (struct tg__replay_fetch){first, last, TG_NONE};
  else
    g->failed = true;
}

static void find_fetches(struct tg__replay_graph *g, const struct tg__replay_change *change,
                         struct tg__replay_loader *l) {
  const struct tg__columns *const t = g->t;
  TG__EACH (k, tg__tracks_of(&t->ranks[g->rank])) {
    int64_t past_ns = g->start_ns;
    if (t->tracks[k].kind == TG__TRACK_DEVICE) continue;
    TG__EACH (i, tg__slices_of(&t->tracks[k])) {
      const int64_t start_ns = t->slices.start_ns[i];
      if (start_ns < past_ns || start_ns >= g->end_ns || !change->selects(change->ctx, i)) continue;
      add_fetch(g, l, i);
      past_ns = tg__slice_end(t, i);
    }
  }
}

/* Worker k makes the batches k, k + workers, k + 2 workers. */
static void add_worker(struct tg__replay_graph *g, struct tg__replay_loader *l, size_t worker) {
  const uint32_t lane = tg__replay_add_lane(g, g->lanes[g->nodes[l->fetches[worker].first].lane].track, false);
  if (g->failed) return;
  g->lanes[lane].first = (uint32_t)g->node_count;
  for (size_t i = worker; i < l->count && !g->failed; i += l->workers) {
    struct tg__replay_fetch *const f = &l->fetches[i];
    const struct tg__replay_node *const first = &g->nodes[f->first], *const last = &g->nodes[f->last];
    f->batch = tg__replay_add_node(
        g, (struct tg__replay_node){first->start_ns, last->start_ns + last->dur_ns - first->start_ns, first->slice,
                                    lane, first->step, TG__REPLAY_BATCH, true});
  }
  g->lanes[lane].past = (uint32_t)g->node_count;
}

/* The CPU time of the steps' thread over the cores of the machine: no number of workers makes steps shorter. */
static int64_t least_of_steps(const struct tg__replay_graph *g) {
  const struct tg__str conditions = tg__document_member(g->t, g->rank, "conditions");
  int64_t cores, sum_ns = 0;
  if (!tg__str_to_int(tg__json_member(conditions, "cpu_cores"), &cores) || cores < 1) return 0;
  if (!g->steps.count) return 0;
  for (size_t i = 0; i < g->steps.count; i++) {
    const struct tg__step_cost *const s = &g->steps.steps[i];
    const int64_t own_ns = s->host_end_ns - s->host_start_ns;
    if (s->thread_cpu_ns == TG_NULL_INT) return 0;
    sum_ns += s->thread_cpu_ns < own_ns ? s->thread_cpu_ns : own_ns;
  }
  return sum_ns / cores / (int64_t)g->steps.count;
}

void tg__replay_add_loader(struct tg__replay_graph *g, const struct tg__replay_change *change,
                           struct tg__replay_loader *l) {
  const size_t workers = (size_t)change->workers;
  *l = (struct tg__replay_loader){.workers = workers, .ahead = AHEAD_PER_WORKER * workers};
  if (g->end_ns - g->start_ns > INT64_MAX / (4 * MOST_ROUNDS)) return; /* sums over the passes would not fit */
  l->least_ns = least_of_steps(g);
  find_fetches(g, change, l);
  for (size_t k = 0; k < workers && k < l->count && !g->failed; k++) add_worker(g, l, k);
  for (size_t i = 0; i < l->count && !g->failed; i++) {
    const struct tg__replay_fetch *const f = &l->fetches[i];
    tg__replay_add_edge(g, (struct tg__replay_edge){0, f->batch, f->last, false});
    if (i >= l->ahead)
      tg__replay_add_edge(g, (struct tg__replay_edge){0, l->fetches[i - l->ahead].last, f->batch, false});
  }
  if (!g->failed) tg__replay_order(g);
}

void tg__replay_hand_over(const struct tg__replay_graph *g, const struct tg__replay_loader *l, int64_t *dur_ns,
                          const bool *is_gone) {
  for (size_t i = 0; i < l->count; i++) {
    const struct tg__replay_fetch *const f = &l->fetches[i];
    int64_t sum_ns = 0;
    for (uint32_t k = f->first; k <= f->last; k++) {
      if (!is_gone[k]) sum_ns += dur_ns[k];
      if (g->nodes[k].kind != TG__REPLAY_WAIT) dur_ns[k] = 0;
    }
    dur_ns[f->batch] = sum_ns;
  }
}

/* ---- running --------------------------------------------------------------------------------- */

struct passes { /* over the steps, one behind the other; times count from the begin of the first */
  const struct tg__replay_graph *g;
  const struct tg__replay_loader *l;
  int64_t *made_ns, *taken_ns; /* by batch of all passes */
  int64_t *step_ns, *end_ns;   /* by step of all passes; of one */
  int64_t *held_ns;            /* by node: what passes before it allow */
  int64_t begin_ns;            /* of the pass */
};

/* The steps in which each worker serves once, at least one. */
static size_t steps_of_turn(const struct tg__replay_graph *g, const struct tg__replay_loader *l) {
  const size_t turn = (l->workers * g->steps.count + l->count - 1) / l->count, most = MOST_ROUNDS * g->steps.count;
  const size_t steps = turn < most ? turn : most;
  return steps ? steps : 1;
}

static size_t passes_needed(const struct tg__replay_graph *g, const struct tg__replay_loader *l) {
  const size_t steps = g->steps.count;
  return 2 + (2 * steps_of_turn(g, l) + steps - 1) / steps;
}

/* A worker makes one batch at a time, and nothing is asked for too far ahead: across the border of passes, too. */
static void hold_batches(const struct passes *p, size_t pass) {
  const struct tg__replay_loader *const l = p->l;
  for (size_t i = 0; i < l->count; i++) {
    const size_t batch = pass * l->count + i;
    int64_t ns = 0; /* workers may be at it before the pass begins */
    if (batch >= l->workers && i < l->workers) ns = p->made_ns[batch - l->workers];
    if (batch >= l->ahead && i < l->ahead && p->taken_ns[batch - l->ahead] > ns) ns = p->taken_ns[batch - l->ahead];
    p->held_ns[l->fetches[i].batch] = p->g->start_ns + ns - p->begin_ns;
  }
}

static void run_pass(struct passes *p, size_t pass, const int64_t *dur_ns, const bool *is_gone,
                     struct tg__replay_times *x) {
  const struct tg__replay_graph *const g = p->g;
  const struct tg__replay_loader *const l = p->l;
  hold_batches(p, pass);
  tg__replay_run(g, dur_ns, is_gone, x);
  tg__replay_step_times(g, x, p->step_ns + pass * g->steps.count);
  tg__replay_step_ends(g, x, p->end_ns);
  for (size_t i = 0; i < l->count; i++) {
    p->made_ns[pass * l->count + i] = p->begin_ns + x->end_ns[l->fetches[i].batch] - g->start_ns;
    p->taken_ns[pass * l->count + i] = p->begin_ns + x->end_ns[l->fetches[i].last] - g->start_ns;
  }
  p->begin_ns += p->end_ns[g->steps.count - 1] - g->start_ns;
}

/* out, by step: the mean of `turn` steps from it on. */
static void take_means(const int64_t *step_ns, size_t steps, size_t turn, int64_t *out) {
  for (size_t i = 0; i < steps; i++) {
    int64_t sum_ns = 0;
    for (size_t k = 0; k < turn; k++) sum_ns += step_ns[i + k];
    out[i] = sum_ns / (int64_t)turn;
  }
}

/* Steps that are shorter on average than cores and workers allow become longer, all by as much. */
static void hold_to_least(const struct tg__replay_graph *g, const struct tg__replay_loader *l, const int64_t *dur_ns,
                          int64_t *step_ns) {
  const size_t steps = g->steps.count;
  int64_t made_ns = 0, sum_ns = 0; /* made_ns: by all workers side by side, where they are too many for a whole turn */
  for (size_t i = 0; i < l->count && steps_of_turn(g, l) == MOST_ROUNDS * steps; i++)
    made_ns += dur_ns[l->fetches[i].batch];
  made_ns /= (int64_t)(l->workers * steps);
  for (size_t i = 0; i < steps; i++) sum_ns += step_ns[i];
  const int64_t least_ns = l->least_ns > made_ns ? l->least_ns : made_ns, mean_ns = sum_ns / (int64_t)steps;
  for (size_t i = 0; i < steps && mean_ns < least_ns; i++) step_ns[i] += least_ns - mean_ns;
}

static bool run_ahead(const struct tg__replay_graph *g, const struct tg__replay_loader *l, const int64_t *dur_ns,
                      const bool *is_gone, struct tg__replay_times *x, int64_t *step_ns) {
  const size_t steps = g->steps.count, turn = steps_of_turn(g, l), passes = passes_needed(g, l);
  struct passes p = {.g = g,
                     .l = l,
                     .made_ns = tg__alloc(passes * l->count * sizeof *p.made_ns),
                     .taken_ns = tg__alloc(passes * l->count * sizeof *p.taken_ns),
                     .step_ns = tg__alloc(passes * steps * sizeof *p.step_ns),
                     .end_ns = tg__alloc(steps * sizeof *p.end_ns),
                     .held_ns = tg__alloc((g->node_count + 1) * sizeof *p.held_ns)};
  const bool ok = p.made_ns && p.taken_ns && p.step_ns && p.end_ns && p.held_ns;
  if (ok) {
    for (size_t i = 0; i < g->node_count; i++) p.held_ns[i] = g->start_ns;
    x->held_ns = p.held_ns;
    for (size_t k = 0; k < passes; k++) run_pass(&p, k, dur_ns, is_gone, x);
    x->held_ns = NULL;
    const size_t from = (passes * steps - steps - turn) / steps * steps; /* a pass of which all means are known */
    take_means(p.step_ns + from, steps, turn, step_ns);
    hold_to_least(g, l, dur_ns, step_ns);
  }
  tg__free(p.made_ns);
  tg__free(p.taken_ns);
  tg__free(p.step_ns);
  tg__free(p.end_ns);
  tg__free(p.held_ns);
  return ok;
}

bool tg__replay_run_steps(const struct tg__replay_graph *g, const struct tg__replay_loader *l, const int64_t *dur_ns,
                          const bool *is_gone, struct tg__replay_times *x, int64_t *step_ns) {
  if (l->count) return run_ahead(g, l, dur_ns, is_gone, x, step_ns);
  tg__replay_run(g, dur_ns, is_gone, x);
  tg__replay_step_times(g, x, step_ns);
  return true;
}

bool tg__replay_mean_steps(const struct tg__replay_graph *g, const struct tg__replay_loader *l, int64_t *step_ns) {
  if (!l->count) return true;
  const size_t steps = g->steps.count, turn = steps_of_turn(g, l);
  int64_t *const all = tg__alloc((steps + turn) * sizeof *all);
  if (!all) return false;
  for (size_t i = 0; i < steps + turn; i++) all[i] = step_ns[i % steps];
  take_means(all, steps, turn, step_ns);
  tg__free(all);
  return true;
}
