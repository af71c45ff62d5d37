/* step_ranks: where the graphs of several ranks meet, and one pass over all of them. */
#include "replay/step_ranks.h"
#include "analyze/ranks/comm_names.h"
#include "analyze/ranks/rank_set.h"

#include <stdio.h>

struct meeting {       /* of one rank in one collective */
  uint32_t rank, node; /* of its graph: the transfer; the delay is before it */
  int64_t in_ns,
      out_ns;       /* from its clock to the common one when it comes; from the last one's coming to the transfer */
  int64_t began_ns; /* on its own clock: the transfer */
  bool waits;       /* for the others */
};
struct meetings {
  struct tg__replay_job *j;
  struct tg__ranks ranks;
  uint32_t *rank_of; /* by summary: rank of the trace; TG_NONE */
  struct meeting *items;
  size_t count, cap;
  size_t *first; /* by collective: in items */
  size_t first_count, first_cap;
};

/* ---- which work is a collective -------------------------------------------------------------- */

/* The work of a stream that ends a collective; TG_NONE. */
static uint32_t work_of_collective(const struct tg__replay_graph *g, const struct tg__sum_collective *c) {
  for (uint32_t k = 0; k < g->stream_count; k++) {
    size_t low = 0;
    TG__PARTITION(low, g->work_count, i,
                  g->works[i].lane < k || (g->works[i].lane == k && g->works[i].start_ns < c->start_ns));
    if (low == g->work_count || g->works[low].lane != k) continue;
    const struct tg__replay_work *const w = &g->works[low];
    if (w->start_ns == c->start_ns && w->end_ns == c->end_ns && w->node < g->node_count) return (uint32_t)low;
  }
  return TG_NONE;
}

static bool list_ranks(struct meetings *m) {
  const struct tg__columns *const t = m->j->t;
  m->rank_of = tg__alloc(((size_t)m->ranks.s->count + 1) * sizeof *m->rank_of);
  if (!m->rank_of) return false;
  for (uint32_t i = 0; i < m->ranks.s->count; i++) m->rank_of[i] = TG_NONE;
  for (uint32_t r = 0; r < t->rank_count; r++) {
    const struct tg__summaries *list;
    const struct tg__rank_summary *const s = tg__rank_summary_of(t, r, &list);
    if (s && list == m->ranks.s) m->rank_of[s - list->ranks] = r;
  }
  return true;
}

/* A host library sends what it has to whom it is for, and goes on: the root of a broadcast does not wait. */
static bool waits_for_others(const struct meetings *m, const struct tg__match *match, const struct tg__part *part) {
  const bool on_device = m->ranks.s->ranks[part->rank].collectives[part->index].on_device;
  if (on_device || tg__comm_ends_together(tg__strings_get(m->ranks.s->strings, match->kind))) return true;
  return part->end_ns >= match->last_ns;
}

/* The parts of one collective. false: one of them is not in a model. */
static bool gather_parts(struct meetings *m, const struct tg__match *match) {
  int64_t least_ns = INT64_MAX;
  for (uint32_t i = 0; i < match->count; i++) {
    const struct tg__part *const part = &m->ranks.parts[match->first + i];
    const struct tg__sum_collective *const c = &m->ranks.s->ranks[part->rank].collectives[part->index];
    const uint32_t rank = m->rank_of[part->rank];
    const uint32_t work = rank == TG_NONE ? TG_NONE : work_of_collective(&m->j->graphs[rank], c);
    if (work == TG_NONE) return false;
    if (!tg__grow(&m->items, &m->cap, m->count + 1, sizeof *m->items)) {
      m->j->all.failed = true;
      return false;
    }
    m->items[m->count++] = (struct meeting){.rank = rank,
                                            .node = m->j->graphs[rank].works[work].node + 1,
                                            .in_ns = part->start_ns - c->start_ns,
                                            .waits = waits_for_others(m, match, part)};
    if (c->end_ns - c->start_ns < least_ns) least_ns = c->end_ns - c->start_ns;
  }
  for (size_t i = m->count - match->count; i < m->count; i++) {
    struct meeting *const x = &m->items[i];
    const struct tg__replay_node *const n = &m->j->graphs[x->rank].nodes[x->node];
    x->began_ns = n->start_ns + n->dur_ns - least_ns;
    x->out_ns = x->began_ns - match->last_ns;
  }
  return true;
}

/* A rank that is named by its absence: the lowest number of the job that is not here, or has no model. */
static void find_missing(struct tg__replay_job *j) {
  const int64_t size = j->count ? j->t->ranks[0].world_size : 0;
  j->missing = -1;
  for (int64_t number = 0; number < size && j->missing < 0; number++) {
    bool is_here = false;
    for (uint32_t r = 0; r < j->count; r++)
      is_here |= tg__rank_number(j->t, r) == number && j->graphs[r].node_count > 0;
    if (!is_here) j->missing = number;
  }
}

static bool has_all_members(const struct meetings *m, const struct tg__match *match) {
  const struct tg__part *const part = &m->ranks.parts[match->first];
  return match->count >= m->ranks.s->ranks[part->rank].collectives[part->index].group_size;
}

static void gather(struct meetings *m) {
  struct tg__replay_job *const j = m->j;
  for (size_t i = 0; i < m->ranks.match_count && !j->all.failed; i++) {
    const struct tg__match *const match = &m->ranks.matches[i];
    const size_t before = m->count;
    if (!tg__match_is_shared(match)) continue;
    if (!has_all_members(m, match) || !gather_parts(m, match)) {
      m->count = before;
      j->kept++;
      continue;
    }
    if (!tg__grow(&m->first, &m->first_cap, m->first_count + 1, sizeof *m->first)) {
      j->all.failed = true;
      return;
    }
    m->first[m->first_count++] = before;
  }
  j->met = m->first_count;
}

/* ---- the graph of all ------------------------------------------------------------------------ */

/* Of the recorded work of a collective only the transfer is left, at its end. */
static void shorten_works(const struct meetings *m) {
  for (size_t i = 0; i < m->count; i++) {
    struct tg__replay_node *const n = &m->j->graphs[m->items[i].rank].nodes[m->items[i].node];
    if (!m->items[i].waits) continue;
    n->dur_ns -= m->items[i].began_ns - n->start_ns;
    n->start_ns = m->items[i].began_ns;
  }
}

static void take_graph(struct tg__replay_job *j, uint32_t rank) {
  const struct tg__replay_graph *const g = &j->graphs[rank];
  struct tg__replay_graph *const all = &j->all;
  const uint32_t first = (uint32_t)all->node_count, lane = (uint32_t)all->lane_count;
  j->first[rank] = first;
  for (size_t i = 0; i < g->lane_count && !all->failed; i++) {
    const uint32_t made = tg__replay_add_lane(all, g->lanes[i].track, g->lanes[i].is_device);
    if (all->failed) return;
    all->lanes[made] = g->lanes[i];
    all->lanes[made].first += first;
    all->lanes[made].past += first;
  }
  for (size_t i = 0; i < g->node_count && !all->failed; i++) {
    struct tg__replay_node n = g->nodes[i];
    n.lane += lane;
    tg__replay_add_node(all, n);
  }
  for (size_t i = 0; i < g->edge_count && !all->failed; i++) {
    struct tg__replay_edge edge = g->edges[i];
    edge.from += first;
    edge.to += first;
    tg__replay_add_edge(all, edge);
  }
}

/* The ranks of one collective meet in a node on a lane of its own, on the common clock. */
static void add_meeting(const struct meetings *m, size_t first, size_t past) {
  struct tg__replay_graph *const all = &m->j->all;
  const uint32_t lane = tg__replay_add_lane(all, 0, true);
  if (all->failed) return;
  const uint32_t node =
      tg__replay_add_node(all, (struct tg__replay_node){0, 0, TG_NONE, lane, TG_NONE, TG__REPLAY_WAIT, true});
  all->lanes[lane].first = node;
  all->lanes[lane].past = node + 1;
  for (size_t i = first; i < past && !all->failed; i++) {
    const struct meeting *const x = &m->items[i];
    const uint32_t transfer = (uint32_t)m->j->first[x->rank] + x->node;
    tg__replay_add_edge(all, (struct tg__replay_edge){x->in_ns, transfer - 1, node, false});
    if (x->waits) tg__replay_add_edge(all, (struct tg__replay_edge){x->out_ns, node, transfer, false});
  }
}

static void put_together(const struct meetings *m) {
  struct tg__replay_job *const j = m->j;
  j->all.t = j->t;
  for (uint32_t r = 0; r < j->count && !j->all.failed; r++) take_graph(j, r);
  j->first[j->count] = j->all.node_count;
  for (size_t i = 0; i < m->first_count && !j->all.failed; i++)
    add_meeting(m, m->first[i], i + 1 < m->first_count ? m->first[i + 1] : m->count);
  if (!j->all.failed) tg__replay_order(&j->all);
}

/* ---- running --------------------------------------------------------------------------------- */

void tg__replay_job_run(const struct tg__replay_job *j, const int64_t *dur_ns, const bool *is_gone,
                        struct tg__replay_times *x) {
  x->held_ns = j->held_ns;
  tg__replay_run(&j->all, dur_ns, is_gone, x);
  x->held_ns = NULL;
}

struct tg__replay_times tg__replay_job_times(const struct tg__replay_job *j, uint32_t rank,
                                             const struct tg__replay_times *all) {
  const size_t first = j->first[rank];
  return (struct tg__replay_times){.begin_ns = all->begin_ns + first, .end_ns = all->end_ns + first};
}

/* Each rank's durations with those of every second step in its neighbour. */
static bool swap_halves(const struct tg__replay_job *j, int64_t *dur_ns) {
  for (uint32_t r = 0; r < j->count; r++) {
    const struct tg__replay_graph *const g = &j->graphs[r];
    struct tg__replay_times x;
    double median_ns, unmatched_pct;
    int64_t *const step_ns = tg__alloc((g->steps.count + 1) * sizeof *step_ns);
    bool ok = step_ns && tg__replay_times_open(&x, g->node_count, false);
    if (ok && g->node_count) {
      tg__replay_recorded(g, &x);
      tg__replay_step_times(g, &x, step_ns);
      ok = tg__replay_median(step_ns, g->steps.count, &median_ns) &&
           tg__replay_swap_halves(g, step_ns, median_ns, dur_ns + j->first[r], &unmatched_pct);
    }
    if (step_ns) tg__replay_times_close(&x);
    tg__free(step_ns);
    if (!ok) return false;
  }
  return true;
}

/* By node: what the pass allows of a transfer, and of all others what begins a rank's steps. */
static void hold_transfers(const struct meetings *m, const struct tg__replay_times *x, int64_t *out) {
  const struct tg__replay_job *const j = m->j;
  memcpy(out, j->held_ns, j->all.node_count * sizeof *out);
  for (size_t i = 0; i < m->count; i++) {
    const size_t node = j->first[m->items[i].rank] + m->items[i].node;
    out[node] = x->begin_ns[node];
  }
}

static bool run_both(const struct meetings *m) {
  struct tg__replay_job *const j = m->j;
  const size_t nodes = j->all.node_count + 1;
  struct tg__replay_times x = {0};
  int64_t *const dur_ns = tg__alloc(nodes * sizeof *dur_ns);
  j->held_ns = tg__alloc(nodes * sizeof *j->held_ns);
  j->self_ns = tg__alloc(nodes * sizeof *j->self_ns);
  j->half_ns = tg__alloc(nodes * sizeof *j->half_ns);
  bool ok = dur_ns && j->held_ns && j->self_ns && j->half_ns && tg__replay_times_open(&x, nodes, false);
  for (size_t i = j->first[j->count]; ok && i < j->all.node_count; i++) j->held_ns[i] = INT64_MIN / 2;
  for (uint32_t r = 0; ok && r < j->count; r++)
    for (size_t i = j->first[r]; i < j->first[r + 1]; i++) j->held_ns[i] = j->graphs[r].start_ns;
  if (ok) {
    tg__replay_job_run(j, NULL, NULL, &x);
    hold_transfers(m, &x, j->self_ns);
    ok = swap_halves(j, dur_ns);
  }
  if (ok) {
    tg__replay_job_run(j, dur_ns, NULL, &x);
    hold_transfers(m, &x, j->half_ns);
  }
  tg__replay_times_close(&x);
  tg__free(dur_ns);
  return ok;
}

/* ---- opening --------------------------------------------------------------------------------- */

static enum tg_err join_ranks(struct meetings *m) {
  struct tg__replay_job *const j = m->j;
  const struct tg__ask of_all = {.rank = TG_NONE};
  struct tg_error ignored = {0};
  if (tg__ranks_open(&m->ranks, j->t, &of_all, true, &ignored) || !list_ranks(m)) return TG_MEMORY;
  gather(m);
  find_missing(j);
  if (j->all.failed) return TG_MEMORY;
  shorten_works(m);
  put_together(m);
  return !j->all.failed && run_both(m) ? TG_OK : TG_MEMORY;
}

enum tg_err tg__replay_job_open(struct tg__replay_job *j, const struct tg__columns *t) {
  *j = (struct tg__replay_job){.t = t,
                               .count = t->rank_count,
                               .graphs = tg__alloc(((size_t)t->rank_count + 1) * sizeof *j->graphs),
                               .first = tg__alloc(((size_t)t->rank_count + 1) * sizeof *j->first)};
  struct meetings m = {.j = j};
  enum tg_err err = j->graphs && j->first ? TG_OK : TG_MEMORY;
  for (uint32_t r = 0; !err && r < j->count; r++) err = tg__replay_open(&j->graphs[r], t, r);
  if (!err) err = join_ranks(&m);
  tg__ranks_close(&m.ranks);
  tg__free(m.rank_of);
  tg__free(m.items);
  tg__free(m.first);
  return err;
}

void tg__replay_job_close(struct tg__replay_job *j) {
  for (uint32_t r = 0; j->graphs && r < j->count; r++) tg__replay_close(&j->graphs[r]);
  tg__free(j->graphs);
  tg__replay_close(&j->all);
  tg__free(j->first);
  tg__free(j->held_ns);
  tg__free(j->self_ns);
  tg__free(j->half_ns);
  *j = (struct tg__replay_job){0};
}

enum tg_err tg__replay_job_prove(struct tg__step_proof *p, const struct tg__replay_job *j, uint32_t rank) {
  if (j->all.has_cycle) {
    *p = (struct tg__step_proof){.steps = j->graphs[rank].steps.count};
    snprintf(p->why_not, sizeof p->why_not, "the ranks come to their collectives in orders that contradict each other");
    snprintf(p->help, sizeof p->help, "record all ranks of one run, each with all its process groups");
    return TG_OK;
  }
  return tg__prove_steps(p, &j->graphs[rank], j->self_ns + j->first[rank], j->half_ns + j->first[rank]);
}

void tg__replay_job_note(const struct tg__replay_job *j, struct tg_table *out) {
  if (j->met) tg__table_note(out, "Collectives in which the ranks wait for the last one in the model: %zu.", j->met);
  if (j->kept && j->missing >= 0)
    tg__table_note(out, "Collectives that keep their recorded length, as rank %lld has no model: %zu.",
                   (long long)j->missing, j->kept);
  else if (j->kept)
    tg__table_note(out,
                   "Collectives that keep their recorded length, as they run outside of steady steps or nothing "
                   "recorded asks for them: "
                   "%zu.",
                   j->kept);
}
