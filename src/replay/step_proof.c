/* step_proof: a graph is run as it was recorded, and with the durations of each second step in its neighbour; what
 * comes out is held against the recording. */
#include "replay/step_proof.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- figures --------------------------------------------------------------------------------- */

static int compare_ns(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

void tg__replay_sort(int64_t *values, size_t count) { qsort(values, count, sizeof *values, compare_ns); }

/* Sorts the values. */
static double median_ns(int64_t *values, size_t count) {
  tg__replay_sort(values, count);
  return tg__quantile(values, count, 0.5);
}

bool tg__replay_median(const int64_t *values, size_t count, double *out) {
  int64_t *const sorted = tg__alloc((count + 1) * sizeof *sorted);
  if (!sorted) return false;
  memcpy(sorted, values, count * sizeof *sorted);
  *out = median_ns(sorted, count);
  tg__free(sorted);
  return true;
}

static double share_pct(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

/* Two standard errors of the difference of the medians of two halves of n values, from the distance of their quartiles:
 * that of a normal median is 1.2533 sigma / sqrt(n / 2), and the quartiles are 1.349 sigma apart. */
static double halves_differ_by(double quartiles_ns, size_t n) {
  return 2 * sqrt(2) * 1.2533 * quartiles_ns / 1.349 / sqrt((double)n / 2);
}

/* The median over steps of how far each is off, and what the spread of the steps allows. */
static bool compare_steps(struct tg__step_proof *p) {
  const size_t n = p->steps;
  int64_t *const sorted = tg__alloc((n + 1) * sizeof *sorted);
  size_t even = 0;
  if (!sorted) return false;
  for (size_t i = 0; i < n; i++) /* in millionths of the step */
    sorted[i] = p->recorded_ns[i] > 0
                    ? (int64_t)(1e6 * fabs((double)(p->replayed_ns[i] - p->recorded_ns[i])) / (double)p->recorded_ns[i])
                    : 0;
  p->self_error_pct = median_ns(sorted, n) / 1e4;
  for (size_t i = 0; i < n; i++) sorted[i] = p->replayed_ns[i];
  p->replayed_median_ns = median_ns(sorted, n);
  for (size_t i = 0; i < n; i++) sorted[i] = p->recorded_ns[i];
  tg__replay_sort(sorted, n);
  const double spread = tg__quantile(sorted, n, 0.75) - tg__quantile(sorted, n, 0.25);
  p->allowed_pct = fmax(TG__PROOF_LEAST_ALLOWED_PCT, share_pct(spread / 2, p->recorded_median_ns));
  p->half_allowed_pct = fmax(p->allowed_pct, share_pct(halves_differ_by(spread, n), p->recorded_median_ns));
  for (size_t i = 0; i < n; i += 2) sorted[even++] = p->recorded_ns[i];
  const double recorded_ns = median_ns(sorted, even);
  even = 0;
  for (size_t i = 0; i < n; i += 2) sorted[even++] = p->predicted_ns[i];
  p->half_error_pct = share_pct(median_ns(sorted, even) - recorded_ns, recorded_ns);
  tg__free(sorted);
  return true;
}

/* ---- the path -------------------------------------------------------------------------------- */

/* The node that ends last of what the last step waits for. */
static uint32_t last_node(const struct tg__replay_graph *g, const struct tg__replay_times *x) {
  const size_t last = g->steps.count - 1;
  uint32_t node = g->step_end[last];
  for (size_t i = 0; i < g->work_count; i++)
    if (g->works[i].step == last && x->end_ns[g->works[i].node + 1] > x->end_ns[node]) node = g->works[i].node + 1;
  return node;
}

static void book(struct tg__step_proof *p, const struct tg__replay_graph *g, uint32_t node, int64_t ns) {
  const struct tg__replay_node *const n = &g->nodes[node];
  p->usage[n->lane].path_ns += ns;
  if (n->kind == TG__REPLAY_DELAY || !n->is_explained)
    p->path.unexplained_ns += ns;
  else if (n->kind == TG__REPLAY_WORK)
    p->path.work_ns += ns;
  else if (n->kind == TG__REPLAY_GAP)
    p->path.gap_ns += ns;
  else
    p->path.host_ns += ns;
}

static void follow_path(struct tg__step_proof *p, const struct tg__replay_graph *g, const struct tg__replay_times *x) {
  uint32_t node = last_node(g, x);
  bool at_end = true; /* of the node; else where it begins */
  for (;;) {
    const struct tg__replay_node *const n = &g->nodes[node];
    const uint32_t by = x->by[node];
    if (at_end && n->kind != TG__REPLAY_WAIT) book(p, g, node, x->end_ns[node] - x->begin_ns[node]);
    if (by != TG_NONE && (at_end || n->kind != TG__REPLAY_WAIT)) {
      p->path.launch_ns += g->edges[by].lag_ns;
      at_end = !g->edges[by].from_start;
      node = g->edges[by].from;
      continue;
    }
    if (node == g->lanes[n->lane].first) return;
    if (n->kind == TG__REPLAY_DELAY) p->path.launch_ns += g->lanes[n->lane].gap_ns;
    node--;
    at_end = true;
  }
}

/* ---- shares ---------------------------------------------------------------------------------- */

/* Even steps count, but for a step that is over twice as long as usual, as it was or as its neighbour foretells it: it
 * would outweigh all others. */
static bool counts_for_usage(const struct tg__step_proof *p, size_t step) {
  return step % 2 == 0 && tg__proof_is_usual(p->recorded_ns[step], p->recorded_median_ns) &&
         tg__proof_is_usual(p->predicted_ns[step], p->recorded_median_ns);
}

static void add_usage(struct tg__step_proof *p, const struct tg__replay_graph *g, const struct tg__replay_times *x) {
  for (size_t i = 0; i < g->node_count; i++) {
    const struct tg__replay_node *const n = &g->nodes[i];
    struct tg__replay_usage *const u = &p->usage[n->lane];
    if (n->step == TG_NONE || !counts_for_usage(p, n->step) || tg__replay_is_idle(g, (uint32_t)i)) continue;
    const int64_t ns = x->end_ns[i] - x->begin_ns[i];
    if (n->kind == TG__REPLAY_HOST || n->kind == TG__REPLAY_WORK) {
      u->busy_ns += n->dur_ns;
      u->replayed_busy_ns += ns;
    } else if (n->kind == TG__REPLAY_WAIT) {
      u->wait_ns += n->dur_ns;
      u->replayed_wait_ns += ns;
    }
  }
  for (size_t i = 0; i < p->steps; i++) {
    if (!counts_for_usage(p, i)) continue;
    p->even_ns += p->recorded_ns[i];
    p->even_predicted_ns += p->predicted_ns[i];
  }
  for (size_t k = 0; k < g->lane_count; k++) {
    const struct tg__replay_usage *const u = &p->usage[k];
    if (tg__replay_lane_is_elsewhere(g, (uint32_t)k)) continue;
    const double busy = share_pct((double)u->replayed_busy_ns, (double)p->even_predicted_ns) -
                        share_pct((double)u->busy_ns, (double)p->even_ns);
    const double wait = share_pct((double)u->replayed_wait_ns, (double)p->even_predicted_ns) -
                        share_pct((double)u->wait_ns, (double)p->even_ns);
    const double worst = fmax(fmax(fabs(busy), fabs(wait)), fabs(busy + wait)); /* the last: idle */
    if (worst <= p->share_error_points) continue;
    p->share_error_points = worst;
    p->worst_lane = (uint32_t)k;
  }
}

/* ---- verdict --------------------------------------------------------------------------------- */

static const char *const with_stacks = "record with stacks (with_stack=True), or with tachograph run, which samples "
                                       "the stack between operators";

static bool refuse_by_parts(struct tg__step_proof *p, const struct tg__replay_graph *g) {
  const double loose = share_pct((double)g->loose_works, (double)g->work_count);
  const double backward = share_pct((double)g->backward_edges, (double)(g->edge_count + g->backward_edges));
  const char *help = "";
  if (loose > TG__PROOF_BROKEN_PCT) {
    snprintf(p->why_not, sizeof p->why_not, "%zu of %zu kernels and copies have no recorded launch", g->loose_works,
             g->work_count);
    help = "record the CPU beside the device: activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]";
  } else if (backward > TG__PROOF_BROKEN_PCT) {
    snprintf(p->why_not, sizeof p->why_not, "%zu of %zu effects begin before their cause: two clocks disagree",
             g->backward_edges, g->edge_count + g->backward_edges);
    help = "record again; where it stays so, the profiler converts device times wrongly";
  } else if (g->has_cycle) {
    snprintf(p->why_not, sizeof p->why_not, "some of its events wait for each other in a circle");
    help = "record again with synchronisation events (_ExperimentalConfig(enable_cuda_sync_events=True))";
  }
  snprintf(p->help, sizeof p->help, "%s", help);
  return *p->why_not;
}

static void refuse_by_figures(struct tg__step_proof *p, const struct tg__replay_graph *g) {
  const char *help = "record more steps of the same kind, on a machine that does nothing else";
  if (p->unmatched_pct > TG__PROOF_UNMATCHED_PCT) {
    snprintf(p->why_not, sizeof p->why_not,
             "%.1f %% of the time of the steps is in calls that the next step does not have", p->unmatched_pct);
  } else if (p->self_error_pct > p->allowed_pct) {
    snprintf(p->why_not, sizeof p->why_not, "the replayed steps are off by %.1f %%, more than %.1f %%",
             p->self_error_pct, p->allowed_pct);
    help = "record synchronisation events (_ExperimentalConfig(enable_cuda_sync_events=True))";
  } else if (fabs(p->half_error_pct) > p->half_allowed_pct) {
    snprintf(p->why_not, sizeof p->why_not,
             "half of the steps foretells the other half %.1f %% wrong, more than %.1f %%", fabs(p->half_error_pct),
             p->half_allowed_pct);
  } else if (p->share_error_points > TG__PROOF_SHARE_POINTS) {
    char resource[TG__REPLAY_LANE_NAME];
    tg__replay_lane_name(g, p->worst_lane, resource);
    snprintf(
        p->why_not, sizeof p->why_not,
        "replayed and recorded shares of busy, waiting and idle time of the %s differ by %.1f points, more than %d",
        resource, p->share_error_points, TG__PROOF_SHARE_POINTS);
    if (g->has_collectives && g->t->ranks[g->rank].world_size > 1)
      help = "record all ranks: a collective's length is mostly the wait for the others";
  } else if (p->unexplained_pct > TG__PROOF_UNEXPLAINED_PCT) {
    snprintf(p->why_not, sizeof p->why_not, "nothing recorded explains %.1f %% of the path, more than %d %%",
             p->unexplained_pct, TG__PROOF_UNEXPLAINED_PCT);
    help = g->has_loader ? "record the workers of the loader, too: tachograph run does" : with_stacks;
  } else {
    help = "";
  }
  snprintf(p->help, sizeof p->help, "%s", help);
}

static bool refuse_by_steps(struct tg__step_proof *p, const struct tg__replay_graph *g) {
  if (p->steps >= TG__REPLAY_LEAST_STEPS) return false;
  if (g->steps.source == TG__STEPS_RECORDING)
    snprintf(p->why_not, sizeof p->why_not, "the trace has no steps");
  else if (g->steps.left_out)
    snprintf(p->why_not, sizeof p->why_not,
             "whole steps without warm-up: %zu, fewer than %d; the end of the recording cuts %zu", p->steps,
             TG__REPLAY_LEAST_STEPS, g->steps.left_out);
  else
    snprintf(p->why_not, sizeof p->why_not, "%zu step%s without warm-up %s fewer than %d", p->steps,
             p->steps == 1 ? "" : "s", p->steps == 1 ? "is" : "are", TG__REPLAY_LEAST_STEPS);
  snprintf(p->help, sizeof p->help, "record more steps, at least %d, each marked by prof.step() or tachograph.step()",
           TG__REPLAY_LEAST_STEPS + 3);
  return true;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static enum tg_err run_twice(struct tg__step_proof *p, const struct tg__replay_graph *g, const int64_t *self_ns,
                             const int64_t *half_ns) {
  struct tg__replay_times x = {0};
  int64_t *const dur_ns = tg__alloc((g->node_count + 1) * sizeof *dur_ns);
  enum tg_err err = TG_MEMORY;
  if (!dur_ns || !tg__replay_times_open(&x, g->node_count, true)) goto done;
  tg__replay_recorded(g, &x);
  tg__replay_step_times(g, &x, p->recorded_ns);
  x.held_ns = self_ns;
  tg__replay_run(g, NULL, NULL, &x);
  tg__replay_step_times(g, &x, p->replayed_ns);
  follow_path(p, g, &x);
  if (!tg__replay_median(p->recorded_ns, p->steps, &p->recorded_median_ns) ||
      !tg__replay_swap_halves(g, p->recorded_ns, p->recorded_median_ns, dur_ns, &p->unmatched_pct))
    goto done;
  x.held_ns = half_ns;
  tg__replay_run(g, dur_ns, NULL, &x);
  tg__replay_step_times(g, &x, p->predicted_ns);
  if (!compare_steps(p)) goto done;
  add_usage(p, g, &x);
  const struct tg__replay_path *const path = &p->path;
  p->unexplained_pct = share_pct((double)path->unexplained_ns, (double)(path->host_ns + path->gap_ns + path->work_ns +
                                                                        path->launch_ns + path->unexplained_ns));
  err = TG_OK;
done:
  tg__free(dur_ns);
  tg__replay_times_close(&x);
  return err;
}

enum tg_err tg__prove_steps(struct tg__step_proof *p, const struct tg__replay_graph *g, const int64_t *self_ns,
                            const int64_t *half_ns) {
  const size_t n = g->steps.count;
  *p = (struct tg__step_proof){.steps = n};
  if (refuse_by_steps(p, g) || refuse_by_parts(p, g)) return TG_OK;
  p->recorded_ns = tg__alloc((n + 1) * sizeof *p->recorded_ns);
  p->replayed_ns = tg__alloc((n + 1) * sizeof *p->replayed_ns);
  p->predicted_ns = tg__alloc((n + 1) * sizeof *p->predicted_ns);
  p->usage = tg__alloc((g->lane_count + 1) * sizeof *p->usage);
  if (!p->recorded_ns || !p->replayed_ns || !p->predicted_ns || !p->usage) return TG_MEMORY;
  const enum tg_err err = run_twice(p, g, self_ns, half_ns);
  if (!err) refuse_by_figures(p, g);
  return err;
}

void tg__step_proof_close(struct tg__step_proof *p) {
  tg__free(p->recorded_ns);
  tg__free(p->replayed_ns);
  tg__free(p->predicted_ns);
  tg__free(p->usage);
  *p = (struct tg__step_proof){0};
}
