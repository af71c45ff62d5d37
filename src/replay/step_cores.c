/* step_cores: no change makes steps shorter than the time that their threads are on a core, by the number of cores. */
#include "replay/step_cores.h"
#include "replay/step_batches.h"

/* Samples of what a process uses come ten a second: over so many of them a mean is one of the steps. */
static const int64_t least_sampled_ns = 1000000000;
static const double most_cores = 4096;

int64_t tg__replay_loop_cpu_ns(const struct tg__replay_graph *g) {
  int64_t sum_ns = 0;
  for (size_t i = 0; i < g->steps.count; i++) {
    const struct tg__step_cost *const s = &g->steps.steps[i];
    const int64_t own_ns = s->host_end_ns - s->host_start_ns;
    if (s->thread_cpu_ns == TG_NULL_INT) return -1;
    sum_ns += s->thread_cpu_ns < own_ns ? s->thread_cpu_ns : own_ns;
  }
  return sum_ns;
}

static int64_t workers_cpu_ns(const struct tg__replay_graph *g) {
  int64_t batches = 0;
  for (size_t i = 0; i < g->batch_count; i++)
    batches += g->batches[i].taken_ns >= g->start_ns && g->batches[i].taken_ns < g->end_ns;
  return batches * g->batch_cpu_ns;
}

/* Only of a thread that hands over is it known that its work belongs to the steps, however long they are. */
static bool has_tied_thread(const struct tg__replay_graph *g) {
  for (size_t k = 0; k < g->lane_count; k++)
    if (g->lanes[k].is_tied && k != g->main_lane) return true;
  return false;
}

int64_t tg__replay_cpu_ns(const struct tg__replay_graph *g) {
  const int64_t loop_ns = tg__replay_loop_cpu_ns(g), window_ns = g->end_ns - g->start_ns;
  const int64_t known_ns = loop_ns < 0 ? 0 : loop_ns + workers_cpu_ns(g);
  const bool is_sampled = window_ns >= least_sampled_ns && tg__replay_condition(g, NULL, "threads") == 1;
  if (!is_sampled || !has_tied_thread(g)) return known_ns;
  const double own_cores = tg__noise_of(g->t, g->rank, &g->steps).own_cores;
  const bool is_likely = own_cores > 0 && own_cores < most_cores && window_ns < INT64_MAX / (int64_t)most_cores;
  const int64_t used_ns = is_likely ? (int64_t)(own_cores * (double)window_ns) : 0;
  return used_ns > known_ns ? used_ns : known_ns;
}

void tg__replay_hold_to_cores(const struct tg__replay_graph *g, int64_t gone_ns, const int64_t *before_ns,
                              int64_t *after_ns) {
  const int64_t cores = tg__replay_condition(g, NULL, "cpu_cores"), steps = (int64_t)g->steps.count;
  const int64_t left_ns = tg__replay_cpu_ns(g) - (gone_ns > 0 ? gone_ns : 0);
  int64_t before_sum_ns = 0, after_sum_ns = 0;
  if (!cores || !steps || left_ns <= 0) return;
  for (int64_t i = 0; i < steps; i++) {
    before_sum_ns += before_ns[i];
    after_sum_ns += after_ns[i];
  }
  const int64_t saved_ns = before_sum_ns - after_sum_ns, most_ns = before_sum_ns - left_ns / cores;
  if (saved_ns <= 0 || saved_ns <= most_ns) return;
  for (int64_t i = 0; i < steps; i++) {
    const __int128 step_ns = (__int128)(before_ns[i] - after_ns[i]) * (most_ns > 0 ? most_ns : 0) / saved_ns;
    after_ns[i] = before_ns[i] - (int64_t)step_ns;
  }
}
