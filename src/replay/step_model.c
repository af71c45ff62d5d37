/* step_model: the question step_model. */
#include "replay/step_ranks.h"

#include <math.h>

enum by { BY_RANK, BY_STEP, BY_RESOURCE };

struct row { /* TG_NULL_INT and NaN: unknown */
  int64_t step, track, steps, recorded_ns, replayed_ns, predicted_ns, nodes, edges;
  const char *resource, *verdict, *reason, *remedy;
  double self_error_pct, half_error_pct, allowed_pct, half_allowed_pct;
  double unexplained_pct, path_pct, busy_pct, wait_pct, share_error_points;
};

static void put_figure(struct tg_table *out, double v) { tg__put_real_if(out, !isnan(v), v); }

static void put_step_row(struct tg_table *out, const struct tg__replay_graph *g, const struct row *r) {
  tg__put_rank(out, g->t, g->rank);
  tg__put_int(out, r->step);
  tg__put_cstr(out, r->resource);
  tg__put_int(out, r->track);
  tg__put_cstr(out, r->verdict);
  tg__put_cstr(out, r->reason && *r->reason ? r->reason : NULL);
  tg__put_cstr(out, r->remedy && *r->remedy ? r->remedy : NULL);
  tg__put_int(out, r->steps);
  tg__put_int(out, r->recorded_ns);
  tg__put_int(out, r->replayed_ns);
  tg__put_int(out, r->predicted_ns);
  put_figure(out, r->self_error_pct);
  put_figure(out, r->half_error_pct);
  put_figure(out, r->allowed_pct);
  put_figure(out, r->half_allowed_pct);
  put_figure(out, r->unexplained_pct);
  put_figure(out, r->path_pct);
  put_figure(out, r->busy_pct);
  put_figure(out, r->wait_pct);
  put_figure(out, 100 - r->busy_pct - r->wait_pct);
  put_figure(out, r->share_error_points);
  tg__put_int(out, r->nodes);
  tg__put_int(out, r->edges);
}

static struct row empty_row(const struct tg__step_proof *p) {
  return (struct row){.step = TG_NULL_INT,
                      .track = TG_NULL_INT,
                      .steps = TG_NULL_INT,
                      .recorded_ns = TG_NULL_INT,
                      .replayed_ns = TG_NULL_INT,
                      .predicted_ns = TG_NULL_INT,
                      .nodes = TG_NULL_INT,
                      .edges = TG_NULL_INT,
                      .verdict = *p->why_not ? "refused" : "proven",
                      .reason = p->why_not,
                      .remedy = p->help,
                      .self_error_pct = NAN,
                      .half_error_pct = NAN,
                      .allowed_pct = NAN,
                      .half_allowed_pct = NAN,
                      .unexplained_pct = NAN,
                      .path_pct = NAN,
                      .busy_pct = NAN,
                      .wait_pct = NAN,
                      .share_error_points = NAN};
}

static double part_pct(int64_t part, int64_t whole) { return whole > 0 ? 100 * (double)part / (double)whole : NAN; }

static void put_rank_row(struct tg_table *out, const struct tg__replay_graph *g, const struct tg__step_proof *p) {
  struct row r = empty_row(p);
  r.steps = (int64_t)p->steps;
  if (p->usage) { /* it was run */
    r.recorded_ns = (int64_t)llround(p->recorded_median_ns);
    r.replayed_ns = (int64_t)llround(p->replayed_median_ns);
    r.self_error_pct = p->self_error_pct;
    r.half_error_pct = p->half_error_pct;
    r.allowed_pct = p->allowed_pct;
    r.half_allowed_pct = p->half_allowed_pct;
    r.unexplained_pct = p->unexplained_pct;
    r.share_error_points = p->share_error_points;
  }
  if (g->node_count) {
    r.nodes = (int64_t)g->node_count;
    r.edges = (int64_t)g->edge_count;
  }
  put_step_row(out, g, &r);
}

static void put_step_rows(struct tg_table *out, const struct tg__replay_graph *g, const struct tg__step_proof *p) {
  for (size_t i = 0; p->usage && i < p->steps; i++) {
    struct row r = empty_row(p);
    r.step = g->t->steps[g->steps.steps[i].step].number;
    r.recorded_ns = p->recorded_ns[i];
    r.replayed_ns = p->replayed_ns[i];
    r.self_error_pct = part_pct(p->replayed_ns[i] - p->recorded_ns[i], p->recorded_ns[i]);
    r.allowed_pct = p->allowed_pct;
    r.half_allowed_pct = p->half_allowed_pct;
    if (i % 2 == 0) {
      r.predicted_ns = p->predicted_ns[i];
      r.half_error_pct = part_pct(p->predicted_ns[i] - p->recorded_ns[i], p->recorded_ns[i]);
    }
    put_step_row(out, g, &r);
  }
}

static int64_t path_ns(const struct tg__replay_path *p) {
  return p->host_ns + p->gap_ns + p->work_ns + p->launch_ns + p->unexplained_ns;
}

static void put_resource_rows(struct tg_table *out, const struct tg__replay_graph *g, const struct tg__step_proof *p) {
  for (size_t k = 0; p->usage && k < g->lane_count; k++) {
    const struct tg__replay_lane *const lane = &g->lanes[k];
    const struct tg__replay_usage *const u = &p->usage[k];
    struct row r = empty_row(p);
    char name[TG__REPLAY_LANE_NAME];
    tg__replay_lane_name(g, (uint32_t)k, name);
    r.resource = name;
    r.track = lane->track;
    r.path_pct = part_pct(u->path_ns, path_ns(&p->path));
    r.busy_pct = part_pct(u->busy_ns, p->even_ns);
    r.wait_pct = part_pct(u->wait_ns, p->even_ns);
    const double busy = part_pct(u->replayed_busy_ns, p->even_predicted_ns) - r.busy_pct;
    const double wait = part_pct(u->replayed_wait_ns, p->even_predicted_ns) - r.wait_pct;
    r.share_error_points = fmax(fmax(fabs(busy), fabs(wait)), fabs(busy + wait));
    put_step_row(out, g, &r);
  }
}

static void put_rows(struct tg_table *out, const struct tg__replay_graph *g, const struct tg__step_proof *p,
                     enum by by) {
  if (by == BY_RANK) put_rank_row(out, g, p);
  if (by == BY_STEP) put_step_rows(out, g, p);
  if (by == BY_RESOURCE) put_resource_rows(out, g, p);
  if (by != BY_RANK && !p->usage)
    tg__table_note(out, "No model of %s: %s. To get one, %s.", g->t->rank_count > 1 ? "a rank" : "the steps",
                   p->why_not, p->help);
}

static enum tg_err answer_step_model(const struct tg__columns *t, uint32_t rank, enum by by, struct tg_table *out) {
  struct tg__replay_graph g;
  struct tg__step_proof p = {0};
  enum tg_err err = tg__replay_open(&g, t, rank);
  if (!err) err = tg__prove_steps(&p, &g, NULL, NULL);
  if (!err) put_rows(out, &g, &p, by);
  if (!err && g.has_collectives && t->ranks[rank].world_size > 1)
    tg__table_note(out, "Collectives keep their recorded length: the model takes the other ranks as they were.");
  tg__step_proof_close(&p);
  tg__replay_close(&g);
  return err;
}

static enum tg_err answer_all_ranks(const struct tg__columns *t, enum by by, struct tg_table *out) {
  struct tg__replay_job j;
  enum tg_err err = tg__replay_job_open(&j, t);
  for (uint32_t r = 0; !err && r < t->rank_count; r++) {
    struct tg__step_proof p = {0};
    err = tg__replay_job_prove(&p, &j, r);
    if (!err) put_rows(out, &j.graphs[r], &p, by);
    tg__step_proof_close(&p);
  }
  if (!err) tg__replay_job_note(&j, out);
  tg__replay_job_close(&j);
  return err;
}

enum tg_err tg__answer_step_model(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                  struct tg_error *e) {
  static const char *const bys[] = {"rank", "step", "resource"};
  size_t by;
  enum tg_err err = tg__ask_choice(a, "by", bys, sizeof bys / sizeof *bys, &by, e);
  if (err) return err;
  if (a->rank == TG_NONE && t->rank_count > 1)
    err = answer_all_ranks(t, (enum by)by, out);
  else
    for (uint32_t r = 0; !err && r < t->rank_count; r++)
      if (tg__ask_has_rank(a, r)) err = answer_step_model(t, r, (enum by)by, out);
  return err ? tg__no_memory(e, "building the model of the steps") : TG_OK;
}
