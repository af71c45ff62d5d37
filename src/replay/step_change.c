/* step_change: the graph run with a change in it, and how much shorter the steps are. */
#include "replay/step_change.h"
#include "replay/step_cores.h"
#include "replay/step_handover.h"
#include "replay/step_loader.h"
#include "replay/step_ranks.h"

#include <math.h>
#include <stdio.h>

enum { MILLION = 1000000 };
enum mark { UNMARKED, MARKED, KEPT }; /* KEPT: the one of a batch that stays */

struct changed {
  struct tg__replay_graph *g;
  struct tg__replay_loader loader;       /* its workers make the batches; or none */
  uint8_t *marks;                        /* by slice of the rank */
  int64_t *dur_ns;                       /* by node */
  bool *is_gone;                         /* by node */
  bool *is_removed;                      /* by slice of the rank */
  int64_t *late_ns;                      /* by node */
  int64_t moved_ns;                      /* what other threads do */
  int64_t *before_ns, *after_ns, *saved; /* by step */
};

/* ---- which nodes change ---------------------------------------------------------------------- */

static bool starts_in_steps(const struct tg__replay_graph *g, uint32_t slice) {
  const int64_t ns = g->t->slices.start_ns[slice];
  return ns >= g->start_ns && ns < g->end_ns;
}

/* Marks the calls on one thread; what runs inside has the mark of what it runs in. Returns how many were selected. */
static size_t mark_calls(struct changed *c, const struct tg__replay_change *change, uint32_t track, bool *has_first) {
  const struct tg__replay_graph *const g = c->g;
  const struct tg__columns *const t = g->t;
  size_t selected = 0;
  TG__EACH (i, tg__slices_of(&t->tracks[track])) {
    uint8_t *const mark = &c->marks[i - g->slices.first];
    const uint32_t parent = t->slices.parent[i];
    *mark = parent == TG_NONE ? UNMARKED : c->marks[parent - g->slices.first];
    if (*mark != UNMARKED || !starts_in_steps(g, i) || !change->selects(change->ctx, i)) continue;
    const uint32_t step = tg__replay_step_at(g, t->slices.start_ns[i]);
    const bool stays = change->kind == TG__CHANGE_BATCH && (step == TG_NONE || !has_first[step]);
    *mark = stays ? KEPT : MARKED;
    if (change->kind == TG__CHANGE_ADD && g->node_of[i - g->slices.first] < g->node_count)
      c->late_ns[g->node_of[i - g->slices.first]] += change->ns;
    if (step != TG_NONE) has_first[step] = true;
    selected++;
  }
  return selected;
}

/* Work is selected itself, or by the call that launched it. */
static size_t mark_works(const struct changed *c, const struct tg__replay_change *change) {
  const struct tg__replay_graph *const g = c->g;
  size_t selected = 0;
  for (size_t i = 0; i < g->work_count; i++) {
    const struct tg__replay_work *const w = &g->works[i];
    const bool is_own = change->selects(change->ctx, w->slice);
    const bool is_launched = w->call != TG_NONE && c->marks[w->call - g->slices.first] == MARKED;
    c->marks[w->slice - g->slices.first] = is_own || is_launched ? MARKED : UNMARKED;
    if (is_own && change->kind == TG__CHANGE_ADD) c->late_ns[w->node + 1] += change->ns;
    selected += is_own;
  }
  return selected;
}

static int64_t scaled_ns(int64_t ns, int64_t millionths) { return (int64_t)((__int128)ns * millionths / MILLION); }

static void change_node(struct changed *c, const struct tg__replay_change *change, uint32_t node) {
  const enum tg__replay_kind kind = (enum tg__replay_kind)c->g->nodes[node].kind;
  switch (change->kind) {
  case TG__CHANGE_SCALE:
    if (kind == TG__REPLAY_HOST || kind == TG__REPLAY_WORK)
      c->dur_ns[node] = scaled_ns(c->dur_ns[node], change->millionths);
    break;
  case TG__CHANGE_MOVE_OFF:
    if (kind != TG__REPLAY_HOST) break;
    c->moved_ns += c->dur_ns[node];
    c->dur_ns[node] = 0;
    break;
  case TG__CHANGE_ADD: /* the first node has the whole delay */
    break;
  case TG__CHANGE_OVERLAP:
    if (kind == TG__REPLAY_WAIT) c->is_gone[node] = true;
    break;
  default:
    c->is_gone[node] = true;
  }
}

static size_t apply(struct changed *c, const struct tg__replay_change *change, bool *has_first) {
  const struct tg__replay_graph *const g = c->g;
  size_t selected = 0;
  if (change->kind == TG__CHANGE_WORKERS) {
    tg__replay_hand_over(g, &c->loader, c->dur_ns, c->is_gone);
    return c->loader.count;
  }
  memset(has_first, 0, g->steps.count);
  TG__EACH (k, tg__tracks_of(&g->t->ranks[g->rank]))
    if (g->t->tracks[k].kind != TG__TRACK_DEVICE) selected += mark_calls(c, change, k, has_first);
  selected += mark_works(c, change);
  for (uint32_t i = 0; i < g->node_count; i++) {
    const uint32_t slice = g->nodes[i].slice;
    if (slice != TG_NONE && c->marks[slice - g->slices.first] == MARKED) change_node(c, change, i);
  }
  const bool removes = change->kind == TG__CHANGE_REMOVE || change->kind == TG__CHANGE_BATCH;
  for (size_t i = 0; removes && i < g->slices.past - g->slices.first; i++)
    c->is_removed[i] = c->is_removed[i] || c->marks[i] == MARKED;
  return selected;
}

void tg__replay_scale_unexplained(const struct tg__replay_graph *g, const bool *is_gone, int64_t *dur_ns) {
  for (size_t i = 1; i < g->node_count; i++) {
    const struct tg__replay_node *const n = &g->nodes[i], *const before = n - 1;
    const bool is_unexplained = n->kind == TG__REPLAY_DELAY || (n->kind == TG__REPLAY_GAP && !n->is_explained);
    if (!is_unexplained || before->lane != n->lane || before->dur_ns <= 0) continue;
    dur_ns[i] = (int64_t)((__int128)dur_ns[i] * (is_gone[i - 1] ? 0 : dur_ns[i - 1]) / before->dur_ns);
  }
}

/* Does a call or a piece of work stay that takes time? */
static bool leaves_something(const struct changed *c) {
  for (size_t i = 0; i < c->g->node_count; i++) {
    const enum tg__replay_kind kind = (enum tg__replay_kind)c->g->nodes[i].kind;
    if ((kind == TG__REPLAY_HOST || kind == TG__REPLAY_WORK) && !c->is_gone[i]) return true;
  }
  return false;
}

/* ---- the saving ------------------------------------------------------------------------------- */

static void work_out_saved(const struct changed *c) {
  for (size_t i = 0; i < c->g->steps.count; i++) c->saved[i] = c->before_ns[i] - c->after_ns[i];
}

/* Of the threads of the program, what the change takes away; what others do instead of them stays. */
static int64_t gone_ns(const struct changed *c) {
  int64_t sum_ns = -c->moved_ns;
  for (size_t i = 0; i < c->g->node_count; i++) {
    const struct tg__replay_node *const n = &c->g->nodes[i];
    if (n->kind == TG__REPLAY_HOST || n->kind == TG__REPLAY_GAP)
      sum_ns += n->dur_ns - (c->is_gone[i] ? 0 : c->dur_ns[i]);
  }
  return sum_ns;
}

static bool run_changed(const struct changed *c, struct tg__replay_times *x) {
  if (!tg__replay_run_steps(c->g, &c->loader, c->dur_ns, c->is_gone, x, c->after_ns)) return false;
  if (!c->loader.count) tg__replay_hold_to_cores(c->g, gone_ns(c), c->before_ns, c->after_ns);
  work_out_saved(c);
  return true;
}

/* Hands on the steps as they are after the first run; out has their median. */
static bool see_changed(const struct changed *c, const struct tg__replay_times *x, struct tg__saving *out,
                        tg__see_changed_fn *see, void *ctx) {
  if (*out->why_not) return true;
  if (!tg__replay_median(c->after_ns, c->g->steps.count, &out->predicted_ns)) return false;
  const struct tg__changed_steps seen = {c->g, x, c->dur_ns, c->is_removed, c->before_ns, c->after_ns, out->slices};
  return !see || see(ctx, &seen);
}

/* Applies the changes to the recorded durations. false on no memory. */
static bool apply_all(struct changed *c, const struct tg__replay_change *changes, size_t count,
                      struct tg__saving *out) {
  bool *const has_first = tg__alloc(c->g->steps.count + 1);
  if (!has_first) return false;
  for (size_t i = 0; i < c->g->node_count; i++) c->dur_ns[i] = c->g->nodes[i].dur_ns;
  for (size_t i = 0; i < count; i++) out->slices += apply(c, &changes[i], has_first);
  if (!leaves_something(c) && !*out->why_not) {
    snprintf(out->why_not, sizeof out->why_not, "the change removes all that the steps consist of");
    snprintf(out->help, sizeof out->help, "select less");
  }
  tg__free(has_first);
  return true;
}

/* The range holds both. */
static bool widen(const struct changed *c, struct tg__saving *out) {
  struct tg__saving other;
  if (!tg__replay_draw(c->saved, c->g->steps.count, &other)) return false;
  out->low_ns = fmin(out->low_ns, other.low_ns);
  out->high_ns = fmax(out->high_ns, other.high_ns);
  return true;
}

/* Threads that the loop waits for, and of which nothing says more, may go at their own pace: such a wait then ends when
 * it ended, and not before. */
static bool widen_by_pace(const struct changed *c, struct tg__replay_times *x, struct tg__saving *out) {
  const struct tg__replay_graph *const g = c->g;
  int64_t *const held_ns = tg__alloc((g->node_count + 1) * sizeof *held_ns);
  bool ok = held_ns != NULL, any = false;
  for (uint32_t i = 0; ok && i < g->node_count; i++) {
    held_ns[i] = g->start_ns;
    if (c->is_gone[i] || c->dur_ns[i] != g->nodes[i].dur_ns || !tg__replay_is_unbound_wait(g, i)) continue;
    held_ns[i] = g->nodes[i].start_ns + g->nodes[i].dur_ns;
    c->dur_ns[i] = 0;
    any = true;
  }
  x->held_ns = held_ns;
  if (any) ok = ok && run_changed(c, x) && widen(c, out);
  x->held_ns = NULL;
  tg__free(held_ns);
  return ok;
}

static bool work_out_saving(struct changed *c, const struct tg__replay_change *changes, size_t count,
                            struct tg__saving *out, tg__see_changed_fn *see, void *ctx) {
  const struct tg__replay_graph *const g = c->g;
  struct tg__replay_times x;
  if (!apply_all(c, changes, count, out) || !tg__replay_times_open(&x, g->node_count, false)) return false;
  x.late_ns = c->late_ns;
  bool ok = run_changed(c, &x) && tg__replay_draw(c->saved, g->steps.count, out) && see_changed(c, &x, out, see, ctx);
  tg__replay_scale_unexplained(c->g, c->is_gone, c->dur_ns);
  ok = ok && run_changed(c, &x) && widen(c, out);
  if (ok && !c->loader.count) ok = widen_by_pace(c, &x, out);
  tg__replay_times_close(&x);
  return ok;
}

/* The steps without a change; then the graph gets the nodes of the changed ones. */
static bool run_unchanged(struct changed *c, const struct tg__replay_change *changes, size_t count) {
  struct tg__replay_times x;
  if (!tg__replay_times_open(&x, c->g->node_count, false)) return false;
  tg__replay_run(c->g, NULL, NULL, &x);
  tg__replay_step_times(c->g, &x, c->before_ns);
  tg__replay_times_close(&x);
  for (size_t i = 0; i < count; i++)
    if (changes[i].kind == TG__CHANGE_WORKERS) tg__replay_add_loader(c->g, &changes[i], &c->loader);
  return !c->g->failed && tg__replay_mean_steps(c->g, &c->loader, c->before_ns);
}

/* What belongs to the rank, beside the arrays by node. false on no memory; free_rank either way. */
static bool alloc_rank(struct changed *c, struct tg__replay_graph *g) {
  const size_t steps = g->steps.count + 1, slices = (size_t)(g->slices.past - g->slices.first) + 1;
  *c = (struct changed){.g = g,
                        .marks = tg__alloc(slices),
                        .is_removed = tg__alloc(slices * sizeof *c->is_removed),
                        .before_ns = tg__alloc(steps * sizeof *c->before_ns),
                        .after_ns = tg__alloc(steps * sizeof *c->after_ns),
                        .saved = tg__alloc(steps * sizeof *c->saved)};
  return c->marks && c->is_removed && c->before_ns && c->after_ns && c->saved;
}

static void free_rank(struct changed *c) {
  tg__free(c->marks);
  tg__free(c->is_removed);
  tg__free(c->before_ns);
  tg__free(c->after_ns);
  tg__free(c->saved);
}

static enum tg_err save_with(struct tg__replay_graph *g, const struct tg__replay_change *changes, size_t count,
                             struct tg__saving *out, tg__see_changed_fn *see, void *ctx) {
  struct changed c;
  bool ok = alloc_rank(&c, g) && run_unchanged(&c, changes, count);
  if (c.loader.is_unknown) {
    snprintf(out->why_not, sizeof out->why_not,
             "for most batches of the steps the recording does not have how long a worker took");
    snprintf(out->help, sizeof out->help, "record the program from its start, with tachograph run, and more steps");
  }
  c.dur_ns = tg__alloc((g->node_count + 1) * sizeof *c.dur_ns);
  c.is_gone = tg__alloc((g->node_count + 1) * sizeof *c.is_gone);
  c.late_ns = tg__alloc((g->node_count + 1) * sizeof *c.late_ns);
  ok = ok && c.dur_ns && c.is_gone && c.late_ns && work_out_saving(&c, changes, count, out, see, ctx);
  tg__replay_loader_close(&c.loader);
  tg__free(c.dur_ns);
  tg__free(c.is_gone);
  tg__free(c.late_ns);
  free_rank(&c);
  return ok ? TG_OK : TG_MEMORY;
}

enum tg_err tg__replay_change(const struct tg__columns *t, uint32_t rank, const struct tg__replay_change *changes,
                              size_t count, struct tg__saving *out, tg__see_changed_fn *see, void *ctx) {
  struct tg__replay_graph g;
  struct tg__step_proof p = {0};
  *out = (struct tg__saving){0};
  enum tg_err err = tg__replay_open(&g, t, rank);
  if (!err) err = tg__prove_steps(&p, &g, NULL, NULL);
  out->steps = p.steps;
  out->step_ns = p.recorded_median_ns;
  snprintf(out->why_not, sizeof out->why_not, "%s", p.why_not);
  snprintf(out->help, sizeof out->help, "%s", p.help);
  if (!err && !*p.why_not) err = save_with(&g, changes, count, out, see, ctx);
  tg__step_proof_close(&p);
  tg__replay_close(&g);
  return err;
}

/* ---- all ranks ------------------------------------------------------------------------------- */

struct changed_job {
  struct tg__replay_job j;
  struct changed *ranks;
  int64_t *dur_ns, *late_ns; /* by node of all ranks */
  bool *is_gone;
  struct tg__replay_times x;
};

static bool open_changed(struct changed_job *q) {
  const size_t nodes = q->j.all.node_count + 1;
  q->ranks = tg__alloc(((size_t)q->j.count + 1) * sizeof *q->ranks);
  q->dur_ns = tg__alloc(nodes * sizeof *q->dur_ns);
  q->late_ns = tg__alloc(nodes * sizeof *q->late_ns);
  q->is_gone = tg__alloc(nodes * sizeof *q->is_gone);
  if (!q->ranks || !q->dur_ns || !q->late_ns || !q->is_gone || !tg__replay_times_open(&q->x, nodes, false))
    return false;
  for (uint32_t r = 0; r < q->j.count; r++) {
    if (!alloc_rank(&q->ranks[r], &q->j.graphs[r])) return false;
    q->ranks[r].dur_ns = q->dur_ns + q->j.first[r];
    q->ranks[r].late_ns = q->late_ns + q->j.first[r];
    q->ranks[r].is_gone = q->is_gone + q->j.first[r];
  }
  return true;
}

static void close_changed(struct changed_job *q) {
  for (uint32_t r = 0; q->ranks && r < q->j.count; r++) free_rank(&q->ranks[r]);
  tg__free(q->ranks);
  tg__free(q->dur_ns);
  tg__free(q->late_ns);
  tg__free(q->is_gone);
  tg__replay_times_close(&q->x);
  tg__replay_job_close(&q->j);
}

/* One pass over all ranks; of each that has a model, what it saves. Without a change nothing is compared. */
static void run_job(struct changed_job *q, bool is_changed) {
  q->x.late_ns = q->late_ns;
  tg__replay_job_run(&q->j, q->dur_ns, q->is_gone, &q->x);
  for (uint32_t r = 0; r < q->j.count; r++) {
    const struct changed *const c = &q->ranks[r];
    if (!c->g->node_count) continue;
    const struct tg__replay_times own = tg__replay_job_times(&q->j, r, &q->x);
    tg__replay_step_times(c->g, &own, c->after_ns);
    if (is_changed) tg__replay_hold_to_cores(c->g, gone_ns(c), c->before_ns, c->after_ns);
    work_out_saved(c);
  }
}

static void run_job_unchanged(struct changed_job *q) {
  for (size_t i = 0; i < q->j.all.node_count; i++) q->dur_ns[i] = q->j.all.nodes[i].dur_ns;
  run_job(q, false);
  for (uint32_t r = 0; r < q->j.count; r++)
    memcpy(q->ranks[r].before_ns, q->ranks[r].after_ns, q->ranks[r].g->steps.count * sizeof *q->ranks[r].before_ns);
}

static bool save_job(struct changed_job *q, const struct tg__replay_change *changes, size_t count, uint32_t only,
                     struct tg__saving *out, tg__see_changed_fn *see, void *ctx) {
  bool ok = open_changed(q);
  if (ok) run_job_unchanged(q);
  for (uint32_t r = 0; ok && r < q->j.count; r++)
    ok = !q->ranks[r].g->node_count ||
         apply_all(&q->ranks[r], changes, only == TG_NONE || only == r ? count : 0, &out[r]);
  if (ok) run_job(q, true);
  for (uint32_t r = 0; ok && r < q->j.count; r++) {
    struct changed *const c = &q->ranks[r];
    if (!c->g->node_count) continue;
    const struct tg__replay_times own = tg__replay_job_times(&q->j, r, &q->x);
    ok = tg__replay_draw(c->saved, c->g->steps.count, &out[r]) && see_changed(c, &own, &out[r], see, ctx);
    tg__replay_scale_unexplained(c->g, c->is_gone, c->dur_ns);
  }
  if (ok) run_job(q, true);
  for (uint32_t r = 0; ok && r < q->j.count; r++) ok = !q->ranks[r].g->node_count || widen(&q->ranks[r], &out[r]);
  return ok;
}

enum tg_err tg__replay_change_ranks(const struct tg__columns *t, const struct tg__replay_change *changes, size_t count,
                                    uint32_t only, struct tg__saving *out, tg__see_changed_fn *see, void *ctx,
                                    struct tg_table *notes) {
  struct changed_job q = {0};
  enum tg_err err = tg__replay_job_open(&q.j, t);
  for (uint32_t r = 0; !err && r < t->rank_count; r++) {
    struct tg__step_proof p = {0};
    err = tg__replay_job_prove(&p, &q.j, r);
    out[r] = (struct tg__saving){.steps = p.steps, .step_ns = p.recorded_median_ns};
    snprintf(out[r].why_not, sizeof out[r].why_not, "%s", p.why_not);
    snprintf(out[r].help, sizeof out[r].help, "%s", p.help);
    tg__step_proof_close(&p);
  }
  if (!err && !save_job(&q, changes, count, only, out, see, ctx)) err = TG_MEMORY;
  if (!err) tg__replay_job_note(&q.j, notes);
  close_changed(&q);
  return err;
}
