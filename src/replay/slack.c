/* slack: the question slack. Calls and work of one name, or what one line calls, are a row. */
#include "replay/step_proof.h"
#include "replay/step_slack.h"

enum { MOST_VISITS = 400000000 }; /* of nodes, by all tries together: some seconds */
enum by { BY_OP, BY_LINE };

struct call {
  uint32_t group, node, step; /* step: TG_NONE between steps */
  int64_t slack_ns;
};
struct group {                /* a row */
  uint32_t slice, track;      /* the first; TG_NONE: several */
  size_t first, calls, steps; /* first: of its calls */
  int64_t dur_ns, slack_ns, alone_ns;
  bool is_bound; /* slack_ns is less than it may be */
};
struct rows {
  struct tg__replay_graph g;
  struct tg__replay_slack s;
  enum by by;
  struct tg__map group_of; /* name and category, or the hash of a line */
  struct call *calls;      /* by group, then step, then slack */
  size_t call_count, call_cap;
  struct group *groups;
  size_t group_count, group_cap;
  size_t bounds; /* of them with a bound */
  bool failed;   /* out of memory */
};

/* ---- which calls ----------------------------------------------------------------------------- */

/* The same as an expression of what_if can select. */
static bool can_be_late(const struct rows *r, uint32_t slice) {
  const struct tg__columns *const t = r->g.t;
  const enum tg__class cls = tg__slice_class(t, slice);
  if (r->by == BY_LINE) return cls == TG__CLASS_OP;
  return (tg__class_is_host(cls) || tg__class_is_device_work(cls)) &&
         !tg__name_is_profiler_step(tg__name(t, t->slices.name[slice]), NULL);
}

static uint64_t name_key(const struct tg__columns *t, uint32_t slice) {
  return (uint64_t)t->slices.name[slice] << 16 | t->slices.cat[slice];
}

/* Inside another one that counts: by line an operator, else one of the same name. */
static bool is_inner(const struct rows *r, uint32_t slice) {
  const struct tg__columns *const t = r->g.t;
  for (uint32_t s = t->slices.parent[slice]; s != TG_NONE; s = t->slices.parent[s])
    if (r->by == BY_LINE ? tg__slice_class(t, s) == TG__CLASS_OP : name_key(t, s) == name_key(t, slice)) return true;
  return false;
}

/* false: it has no line. */
static bool find_key(struct rows *r, uint32_t slice, uint64_t *key) {
  struct tg__out line = {0};
  if (r->by == BY_OP) {
    *key = name_key(r->g.t, slice);
    return true;
  }
  tg__user_line(r->g.t, slice, &line);
  if (line.err) r->failed = true;
  const bool has_line = line.len > 0;
  if (has_line) *key = tg__hash(line.buf, line.len);
  tg__out_free(&line);
  return has_line;
}

static void list_call(struct rows *r, uint32_t slice, uint32_t node, uint32_t track) {
  uint64_t key;
  if (is_inner(r, slice) || !find_key(r, slice, &key)) return;
  const uint32_t fresh = (uint32_t)r->group_count;
  const uint32_t *const place = tg__map_slot(&r->group_of, key, fresh);
  if (!place || !tg__grow(&r->calls, &r->call_cap, r->call_count + 1, sizeof *r->calls) ||
      !tg__grow(&r->groups, &r->group_cap, r->group_count + 1, sizeof *r->groups)) {
    r->failed = true;
    return;
  }
  if (*place == fresh) r->groups[r->group_count++] = (struct group){.slice = slice, .track = track};
  struct group *const group = &r->groups[*place];
  if (group->track != track) group->track = TG_NONE;
  group->calls++;
  group->dur_ns += r->g.t->slices.dur_ns[slice];
  r->calls[r->call_count++] = (struct call){*place, node, r->g.nodes[node].step, tg__slack_alone(&r->s, node)};
}

static bool call_is_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct call *x = &((const struct call *)ctx)[a], *y = &((const struct call *)ctx)[b];
  if (x->group != y->group) return x->group < y->group;
  if (x->step != y->step) return x->step < y->step;
  return x->slack_ns != y->slack_ns ? x->slack_ns < y->slack_ns : a < b;
}

static void gather_calls(struct rows *r) {
  const struct tg__replay_graph *const g = &r->g;
  const struct tg__columns *const t = g->t;
  TG__EACH (k, tg__tracks_of(&t->ranks[g->rank])) {
    if (t->tracks[k].kind == TG__TRACK_DEVICE) continue;
    TG__EACH (i, tg__slices_of(&t->tracks[k])) {
      const uint32_t node = g->node_of[i - g->slices.first];
      if (node >= g->node_count || t->slices.start_ns[i] < g->start_ns) continue;
      if (!r->failed && can_be_late(r, i)) list_call(r, i, node, k);
    }
  }
  for (size_t i = 0; i < g->work_count && r->by == BY_OP; i++)
    if (!r->failed) list_call(r, g->works[i].slice, g->works[i].node + 1, g->lanes[g->works[i].lane].track);
  if (!r->failed && r->call_count &&
      !tg__sort_items((void **)&r->calls, r->call_count, sizeof *r->calls, call_is_before, r->calls))
    r->failed = true;
}

/* ---- slack ----------------------------------------------------------------------------------- */

/* The least of each step, median of the steps. buffer: room for all steps. */
static int64_t usual_alone(struct group *group, const struct call *calls, int64_t *buffer) {
  size_t count = 0;
  for (size_t i = 0; i < group->calls; i++)
    if (calls[i].step != TG_NONE && (i == 0 || calls[i].step != calls[i - 1].step)) buffer[count++] = calls[i].slack_ns;
  group->steps = count;
  if (!count) return TG__SLACK_WITHOUT_END;
  tg__replay_sort(buffer, count);
  return buffer[(count - 1) / 2];
}

static bool takes_more(uint32_t a, uint32_t b, const void *ctx) {
  const struct group *x = &((const struct group *)ctx)[a], *y = &((const struct group *)ctx)[b];
  return x->dur_ns != y->dur_ns ? x->dur_ns > y->dur_ns : a < b;
}

/* nodes: room for all calls. Behind the last pass that there is time for, what its calls bear however they follow each
 * other: a path has each of them once at most. */
static void find_together(struct rows *r, struct group *group, uint32_t *nodes) {
  const struct call *const calls = &r->calls[group->first];
  int64_t least_ns = TG__SLACK_WITHOUT_END;
  for (size_t i = 0; i < group->calls; i++) {
    nodes[i] = calls[i].node;
    if (calls[i].slack_ns < least_ns) least_ns = calls[i].slack_ns;
  }
  const bool is_late = r->s.tries > MOST_VISITS / (r->g.node_count + 1);
  group->is_bound = is_late && least_ns > 0 && least_ns != TG__SLACK_WITHOUT_END && group->calls > 1;
  group->slack_ns =
      group->is_bound ? least_ns / (int64_t)group->calls : tg__slack_together(&r->s, nodes, group->calls, least_ns);
}

static void find_slack(struct rows *r) {
  uint32_t *const nodes = tg__alloc((r->call_count + 1) * sizeof *nodes);
  int64_t *const buffer = tg__alloc((r->g.steps.count + 1) * sizeof *buffer);
  size_t first = 0;
  for (size_t k = 0; k < r->group_count; k++) {
    r->groups[k].first = first;
    first += r->groups[k].calls;
  }
  uint32_t *const order = tg__order_new(r->group_count, takes_more, r->groups);
  if (!nodes || !buffer || !order) r->failed = true;
  for (size_t k = 0; k < r->group_count && !r->failed; k++) {
    struct group *const group = &r->groups[order[k]];
    find_together(r, group, nodes);
    group->alone_ns = usual_alone(group, &r->calls[group->first], buffer);
    r->bounds += group->is_bound;
  }
  tg__free(nodes);
  tg__free(buffer);
  tg__free(order);
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* The least slack first, and of these what takes most. */
static bool group_is_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct group *x = &((const struct group *)ctx)[a], *y = &((const struct group *)ctx)[b];
  if (x->slack_ns != y->slack_ns) return x->slack_ns < y->slack_ns;
  return x->dur_ns != y->dur_ns ? x->dur_ns > y->dur_ns : a < b;
}

static void put_slack(struct tg_table *out, int64_t ns) {
  tg__put_int(out, ns == TG__SLACK_WITHOUT_END ? TG_NULL_INT : ns);
}

static void put_slack_row(struct rows *r, const struct group *group, struct tg_table *out) {
  const struct tg__columns *const t = r->g.t;
  tg__put_rank(out, t, r->g.rank);
  if (r->by == BY_LINE) {
    struct tg__out line = {0};
    tg__user_line(t, group->slice, &line);
    if (!tg__put_out(out, &line)) r->failed = true;
    tg__put_null(out);
  } else {
    tg__put_trace_text(out, t, t->slices.name[group->slice]);
    tg__put_trace_text(out, t, t->cats[t->slices.cat[group->slice]].name);
  }
  tg__put_int(out, group->track == TG_NONE ? TG_NULL_INT : group->track);
  tg__put_int(out, (int64_t)group->calls);
  tg__put_int(out, (int64_t)group->steps);
  tg__put_int(out, group->dur_ns);
  put_slack(out, group->slack_ns);
  put_slack(out, group->alone_ns);
}

static void put_slack_rows(struct rows *r, struct tg_table *out) {
  uint32_t *const order = tg__order_new(r->group_count, group_is_before, r->groups);
  if (!order) r->failed = true;
  for (size_t i = 0; i < r->group_count && !r->failed; i++) put_slack_row(r, &r->groups[order[i]], out);
  tg__free(order);
}

/* why: the first reason for which a rank has no model, "" so far. */
static enum tg_err answer_slack(const struct tg__columns *t, uint32_t rank, enum by by, struct tg_table *out,
                                struct tg_error *why) {
  struct rows r = {.by = by};
  struct tg__step_proof p = {0};
  enum tg_err err = tg__replay_open(&r.g, t, rank);
  if (!err) err = tg__prove_steps(&p, &r.g, NULL, NULL);
  if (!err && *p.why_not) {
    if (!*why->text) tg__fail(why, TG_NO_DATA, -1, "no model of the steps: %s; %s", p.why_not, p.help);
    tg__table_note(out, "No model of %s: %s. To get one, %s.", t->rank_count > 1 ? "a rank" : "the steps", p.why_not,
                   p.help);
  } else if (!err) {
    err = tg__slack_open(&r.s, &r.g);
    if (!err) gather_calls(&r);
    if (!err && !r.failed) find_slack(&r);
    if (!err && !r.failed) put_slack_rows(&r, out);
    if (!err && r.bounds)
      tg__table_note(out,
                     "slack_ns of %zu rows, which take least, is a lower bound: there are too many names to replay "
                     "the steps for each.",
                     r.bounds);
    if (r.failed) err = TG_MEMORY;
  }
  tg__slack_close(&r.s);
  tg__map_free(&r.group_of);
  tg__free(r.calls);
  tg__free(r.groups);
  tg__step_proof_close(&p);
  tg__replay_close(&r.g);
  return err;
}

enum tg_err tg__answer_slack(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                             struct tg_error *e) {
  static const char *const bys[] = {"op", "line"};
  struct tg_error why = {0};
  size_t by;
  enum tg_err err = tg__ask_choice(a, "by", bys, sizeof bys / sizeof *bys, &by, e);
  for (uint32_t r = 0; !err && r < t->rank_count; r++) {
    if (!tg__ask_has_rank(a, r)) continue;
    err = answer_slack(t, r, (enum by)by, out, &why);
    if (err) return tg__no_memory(e, "looking for what may take longer");
  }
  if (!err && !out->rows && *why.text) return tg__fail(e, TG_NO_DATA, -1, "%s", why.text);
  return err;
}
