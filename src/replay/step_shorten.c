/* step_shorten: a graph in which one stretch of time after the other gets shorter, and what each takes off a step. */
#include "replay/step_change.h"
#include "replay/step_loader.h"

#include <math.h>
#include <stdio.h>

struct tg__replay_model {
  struct tg__replay_graph g;
  struct tg__replay_loader loader; /* its workers make the batches from a change on; or none */
  char why_not[200];
  int64_t *dur_ns, *tried_ns; /* by node: with the changes so far; the same, where gaps shrink with what is before */
  bool *is_gone;              /* by node */
  int64_t *step_ns[2], *saved_ns; /* by step, with the changes so far: gaps stay, gaps shrink */
  int64_t *after_ns;              /* by step */
  struct tg__replay_times times;
};

void tg__replay_model_close(struct tg__replay_model *m) {
  if (!m) return;
  tg__replay_times_close(&m->times);
  tg__replay_loader_close(&m->loader);
  tg__free(m->dur_ns);
  tg__free(m->tried_ns);
  tg__free(m->is_gone);
  tg__free(m->step_ns[0]);
  tg__free(m->step_ns[1]);
  tg__free(m->saved_ns);
  tg__free(m->after_ns);
  tg__replay_close(&m->g);
  tg__free(m);
}

const char *tg__replay_model_fault(const struct tg__replay_model *m) { return m->why_not; }

/* What the model knows of each node, where the graph has more nodes than before: those are as recorded. */
static bool hold_nodes(struct tg__replay_model *m, size_t known) {
  const size_t nodes = m->g.node_count + 1;
  int64_t *const dur_ns = tg__realloc(m->dur_ns, nodes * sizeof *dur_ns);
  if (dur_ns) m->dur_ns = dur_ns;
  int64_t *const tried_ns = tg__realloc(m->tried_ns, nodes * sizeof *tried_ns);
  if (tried_ns) m->tried_ns = tried_ns;
  bool *const is_gone = tg__realloc(m->is_gone, nodes * sizeof *is_gone);
  if (is_gone) m->is_gone = is_gone;
  tg__replay_times_close(&m->times);
  if (!dur_ns || !tried_ns || !is_gone || !tg__replay_times_open(&m->times, m->g.node_count, false)) return false;
  for (size_t i = known; i < m->g.node_count; i++) {
    dur_ns[i] = m->g.nodes[i].dur_ns;
    is_gone[i] = false;
  }
  return true;
}

static bool open_runs(struct tg__replay_model *m) {
  const size_t steps = m->g.steps.count + 1;
  m->step_ns[0] = tg__alloc(steps * sizeof *m->step_ns[0]);
  m->step_ns[1] = tg__alloc(steps * sizeof *m->step_ns[1]);
  m->saved_ns = tg__alloc(steps * sizeof *m->saved_ns);
  m->after_ns = tg__alloc(steps * sizeof *m->after_ns);
  if (!m->step_ns[0] || !m->step_ns[1] || !m->saved_ns || !m->after_ns || !hold_nodes(m, 0)) return false;
  tg__replay_run(&m->g, NULL, NULL, &m->times);
  tg__replay_step_times(&m->g, &m->times, m->step_ns[0]);
  memcpy(m->step_ns[1], m->step_ns[0], m->g.steps.count * sizeof *m->step_ns[1]);
  return true;
}

enum tg_err tg__replay_model_open(const struct tg__columns *t, uint32_t rank, struct tg__replay_model **out) {
  struct tg__step_proof p = {0};
  struct tg__replay_model *const m = *out = tg__alloc(sizeof *m);
  if (!m) return TG_MEMORY;
  enum tg_err err = tg__replay_open(&m->g, t, rank);
  if (!err) err = tg__prove_steps(&p, &m->g, NULL, NULL);
  snprintf(m->why_not, sizeof m->why_not, "%s", p.why_not);
  tg__step_proof_close(&p);
  if (!err && !*m->why_not && !open_runs(m)) err = TG_MEMORY;
  return err;
}

/* ---- what changes ----------------------------------------------------------------------------- */

static bool is_cut(enum tg__replay_cut cut, const struct tg__replay_node *n) {
  switch (cut) {
  case TG__CUT_HOST:
    return n->kind == TG__REPLAY_HOST || n->kind == TG__REPLAY_GAP || n->kind == TG__REPLAY_BATCH;
  case TG__CUT_DEVICE:
    return n->kind == TG__REPLAY_WORK;
  default:
    return n->kind == TG__REPLAY_WAIT;
  }
}

/* The nodes of a lane lie one behind the other, as these times do. */
static size_t cut_lane(struct tg__replay_model *m, enum tg__replay_cut cut, const struct tg__replay_lane *lane,
                       const struct tg__spans *when, double part) {
  size_t at = 0, changed = 0;
  for (uint32_t i = lane->first; i < lane->past; i++) {
    const struct tg__replay_node *const n = &m->g.nodes[i];
    if (!is_cut(cut, n)) continue;
    const int64_t end_ns = n->start_ns + n->dur_ns;
    const int64_t from_ns = cut == TG__CUT_WAITS ? end_ns - TG__REPLAY_CLOCK_NS : n->start_ns,
                  to_ns = cut == TG__CUT_WAITS ? end_ns + TG__REPLAY_CLOCK_NS : end_ns;
    int64_t inside_ns = 0;
    while (at < when->count && when->items[at].end <= from_ns) at++;
    for (size_t k = at; k < when->count && when->items[k].start < to_ns; k++) {
      const struct tg__span *const s = &when->items[k];
      inside_ns += (s->end < to_ns ? s->end : to_ns) - (s->start > from_ns ? s->start : from_ns);
    }
    if (inside_ns <= 0) continue;
    changed++;
    if (cut == TG__CUT_WAITS)
      m->is_gone[i] = true;
    else
      m->dur_ns[i] -= (int64_t)(part * (double)inside_ns / (double)n->dur_ns * (double)m->dur_ns[i]);
  }
  return changed;
}

/* What the steps are shorter by than before, with the range of that. */
static bool run_once(struct tg__replay_model *m, const int64_t *dur_ns, int64_t *step_ns, struct tg__saving *out) {
  if (!tg__replay_run_steps(&m->g, &m->loader, dur_ns, m->is_gone, &m->times, m->after_ns)) return false;
  for (size_t i = 0; i < m->g.steps.count; i++) {
    m->saved_ns[i] = step_ns[i] - m->after_ns[i];
    step_ns[i] = m->after_ns[i];
  }
  return tg__replay_draw(m->saved_ns, m->g.steps.count, out);
}

/* Runs the model twice: gaps that nothing explains stay as they are, or shrink. */
static enum tg_err run_both(struct tg__replay_model *m, struct tg__saving *out) {
  struct tg__saving other;
  bool ok = run_once(m, m->dur_ns, m->step_ns[0], out);
  memcpy(m->tried_ns, m->dur_ns, m->g.node_count * sizeof *m->tried_ns);
  tg__replay_scale_unexplained(&m->g, m->is_gone, m->tried_ns);
  ok = ok && run_once(m, m->tried_ns, m->step_ns[1], &other);
  if (!ok) return TG_MEMORY;
  out->low_ns = fmin(out->low_ns, other.low_ns);
  out->high_ns = fmax(out->high_ns, other.high_ns);
  return TG_OK;
}

enum tg_err tg__replay_cut(struct tg__replay_model *m, enum tg__replay_cut cut, const struct tg__spans *when,
                           double part, struct tg__saving *out) {
  *out = (struct tg__saving){.steps = m->g.steps.count};
  for (size_t k = 0; k < m->g.lane_count; k++)
    if (m->g.lanes[k].is_device == (cut == TG__CUT_DEVICE))
      out->slices += cut_lane(m, cut, &m->g.lanes[k], when, part < 0 ? 0 : part < 1 ? part : 1);
  return run_both(m, out);
}

enum tg_err tg__replay_load_ahead(struct tg__replay_model *m, const struct tg__replay_change *workers,
                                  struct tg__saving *out) {
  const size_t known = m->g.node_count;
  *out = (struct tg__saving){.steps = m->g.steps.count};
  if (m->loader.count) return TG_OK;
  tg__replay_add_loader(&m->g, workers, &m->loader);
  if (m->g.failed || !hold_nodes(m, known)) return TG_MEMORY;
  tg__replay_hand_over(&m->g, &m->loader, m->dur_ns, m->is_gone);
  for (int k = 0; k < 2; k++)
    if (!tg__replay_mean_steps(&m->g, &m->loader, m->step_ns[k])) return TG_MEMORY;
  out->slices = m->loader.count;
  return run_both(m, out);
}
