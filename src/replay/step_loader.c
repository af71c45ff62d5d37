/* step_loader: worker processes that make batches ahead of the loop, as lanes of the graph. */
#include "replay/step_loader.h"
#include "replay/step_batches.h"
#include "replay/step_cores.h"
#include "replay/step_proof.h"

/* AHEAD_PER_WORKER: torch's prefetch_factor, if a program sets none. MOST_ROUNDS: of the recorded steps in a turn of
 * all workers; in more than that workers that are too slow show in their sum. */
enum { AHEAD_PER_WORKER = 2, MOST_ROUNDS = 16, MOST_AHEAD = 1024 };

void tg__replay_loader_close(struct tg__replay_loader *l) {
  tg__free(l->fetches);
  *l = (struct tg__replay_loader){0};
}

/* ---- building -------------------------------------------------------------------------------- */

/* The nodes of a call on its thread. A call that begins and ends at one instant has none of its own. */
static void add_fetch(struct tg__replay_graph *g, struct tg__replay_loader *l, uint32_t slice) {
  const uint32_t first = g->node_of[slice - g->slices.first];
  if (first >= g->node_count || g->nodes[first].start_ns >= tg__slice_end(g->t, slice)) return;
  struct tg__replay_fetch f = {first, tg__replay_last_node(g, slice, first), TG_NONE, TG_NONE, TG_NONE, -1, false};
  const struct tg__replay_batch *const batch = tg__replay_batch_of(g, slice);
  const uint32_t made = batch && batch->made != TG_NONE ? g->node_of[batch->made - g->slices.first] : TG_NONE;
  f.has_worker = tg__replay_name(g, g->t->slices.name[slice]) & TG__REPLAY_NAME_WORKERS;
  if (batch && batch->made != TG_NONE) f.made_ns = g->t->slices.dur_ns[batch->made];
  if (made < g->node_count && g->t->slices.start_ns[batch->made] >= g->start_ns) {
    f.made_first = made;
    f.made_last = tg__replay_last_node(g, batch->made, made);
  }
  if (tg__grow(&l->fetches, &l->cap, l->count + 1, sizeof *l->fetches))
    l->fetches[l->count++] = f;
  else
    g->failed = true;
}

static int64_t own_sum_ns(const struct tg__replay_graph *g, uint32_t first, uint32_t last) {
  int64_t ns = 0;
  for (uint32_t k = first; k <= last; k++)
    if (g->nodes[k].kind != TG__REPLAY_WAIT) ns += g->nodes[k].dur_ns;
  return ns;
}

/* What workers take for a batch, and the loop to receive it: for those batches of which the recording has one side
 * only, as the first of the steps. */
static void find_usual(struct tg__replay_graph *g, struct tg__replay_loader *l) {
  int64_t *const made_ns = tg__alloc((l->count + 1) * sizeof *made_ns), *const own_ns =
                                                                            tg__alloc((l->count + 1) * sizeof *own_ns);
  size_t known = 0, with_worker = 0;
  for (size_t i = 0; made_ns && own_ns && i < l->count; i++) {
    const struct tg__replay_fetch *const f = &l->fetches[i];
    with_worker += f->has_worker;
    if (f->made_ns < 0) continue;
    made_ns[known] = f->made_ns;
    own_ns[known++] = own_sum_ns(g, f->first, f->last);
  }
  g->failed |= !made_ns || !own_ns;
  if (known && 2 * known >= with_worker) {
    tg__replay_sort(made_ns, known);
    tg__replay_sort(own_ns, known);
    l->usual_made_ns = made_ns[known / 2];
    l->usual_own_ns = own_ns[known / 2];
  } else if (with_worker) {
    l->count = 0;
    l->is_unknown = true;
  }
  tg__free(made_ns);
  tg__free(own_ns);
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

/* Does the fetch begin with the wait for a worker that the recording has? */
static bool waits_for_worker(const struct tg__replay_graph *g, const struct tg__replay_fetch *f) {
  return f->has_worker && g->nodes[f->first].kind == TG__REPLAY_WAIT;
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

/* The CPU time of the steps' thread, and of workers that there are already, over the cores of the machine: no number of
 * workers makes steps shorter. */
static int64_t least_of_steps(const struct tg__replay_graph *g, const struct tg__replay_loader *l) {
  const int64_t cores = tg__replay_condition(g, NULL, "cpu_cores");
  int64_t sum_ns = tg__replay_loop_cpu_ns(g);
  if (!cores || !g->steps.count || sum_ns < 0) return 0;
  for (size_t i = 0; i < l->count; i++) sum_ns += l->fetches[i].has_worker ? g->batch_cpu_ns : 0;
  return sum_ns / cores / (int64_t)g->steps.count;
}

void tg__replay_add_loader(struct tg__replay_graph *g, const struct tg__replay_change *change,
                           struct tg__replay_loader *l) {
  const size_t workers = (size_t)change->workers;
  const int64_t ahead = tg__replay_condition(g, "loader", "prefetch_factor");
  *l = (struct tg__replay_loader){.workers = workers,
                                  .ahead = (ahead && ahead < MOST_AHEAD ? (size_t)ahead : AHEAD_PER_WORKER) * workers};
  if (g->end_ns - g->start_ns > INT64_MAX / (4 * MOST_ROUNDS)) return; /* sums over the passes would not fit */
  find_fetches(g, change, l);
  find_usual(g, l);
  l->least_ns = least_of_steps(g, l);
  for (size_t k = 0; k < workers && k < l->count && !g->failed; k++) add_worker(g, l, k);
  for (size_t i = 0; i < l->count && !g->failed; i++) {
    const struct tg__replay_fetch *const f = &l->fetches[i];
    const uint32_t to = waits_for_worker(g, f) ? f->first + 1 : f->last, lane = g->nodes[f->first].lane;
    if (to < g->lanes[lane].past) tg__replay_add_edge(g, (struct tg__replay_edge){0, f->batch, to, false});
    if (i >= l->ahead)
      tg__replay_add_edge(g, (struct tg__replay_edge){0, l->fetches[i - l->ahead].last, f->batch, false});
  }
  if (!g->failed) tg__replay_order(g);
}

void tg__replay_hand_over(const struct tg__replay_graph *g, const struct tg__replay_loader *l, int64_t *dur_ns,
                          bool *is_gone) {
  for (size_t i = 0; i < l->count; i++) {
    const struct tg__replay_fetch *const f = &l->fetches[i];
    const bool is_made = f->made_first != TG_NONE;
    int64_t sum_ns = 0;
    for (uint32_t k = is_made ? f->made_first : f->first; k <= (is_made ? f->made_last : f->last); k++)
      if (!is_gone[k]) sum_ns += dur_ns[k];
    dur_ns[f->batch] = !f->has_worker || is_made ? sum_ns : f->made_ns >= 0 ? f->made_ns : l->usual_made_ns;
    if (waits_for_worker(g, f)) is_gone[f->first] = true;
    if (f->made_ns >= 0) continue;
    for (uint32_t k = f->first; k <= f->last; k++)
      if (g->nodes[k].kind != TG__REPLAY_WAIT) dur_ns[k] = k == f->last && f->has_worker ? l->usual_own_ns : 0;
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
