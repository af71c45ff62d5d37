/* The question critical_path: the longest way through the graph of critical.h, as rows. */
#include "analyze/critical/critical.h"
#include "analyze/overview/file_order.h"

#include <math.h>
#include <stdio.h>

enum by { BY_OP, BY_BOUND, BY_KIND, BY_EVENT, BY_EDGE, BY_RANK };
enum bound {
  BOUND_ORDER,
  BOUND_CPU,
  BOUND_LOADING,
  BOUND_COMPUTE,
  BOUND_COMMUNICATION,
  BOUND_COPY,
  BOUND_KERNEL,
  BOUND_LAUNCH,
  BOUND_COUNT
};
_Static_assert(BOUND_COUNT <= 8, "a bit each in groups.seen");
static const char *const bound_names[] = {"",
                                          "cpu_bound",
                                          "data_loading",
                                          "gpu_compute_bound",
                                          "gpu_communication_bound",
                                          "gpu_copy_bound",
                                          "gpu_kernel_kernel_overhead",
                                          "gpu_kernel_launch_overhead"};
static const char *const kind_names[] = {"operator", "dependency", "launch_delay", "kernel_delay", "sync_dependency"};

struct line {         /* one row of the table; TG_NULL_INT, TG_NONE and NULL stand for unknown */
  uint32_t row;       /* the event it is about */
  uint32_t name, cat; /* string ids, where there is no such event */
  uint32_t from, to;  /* nodes */
  int8_t critical;    /* -1 = unknown */
  const char *kind, *bound;
  int64_t weight, edges, events, nodes, graph_edges, graph_nodes;
  int64_t start_ns;
};
struct writer {
  const struct tg__crit *c;
  struct tg__names *names;
  struct tg_table *out;
  enum by by;
  bool all_edges;
  int64_t total;               /* weight of the path */
  uint32_t track;              /* of the slice looked at last */
  struct tg__file_order order; /* open: with rows that are single events or edges, where c->index is not known */
};

/* ---- what an edge is ------------------------------------------------------------------------- */

static enum bound bound_of_work(const struct writer *w, const struct tg__crit_row *r) {
  const struct tg__columns *t = w->c->t;
  bool (*const is_collective)(struct tg__str kernel) = w->c->rules->is_collective;
  if (is_collective) return is_collective(tg__name(t, t->slices.name[r->slice])) ? BOUND_COMMUNICATION : BOUND_COMPUTE;
  const char *type = tg__names_kernel_type(w->names, r->slice);
  return type[0] == 'M' ? BOUND_COPY : type[3] == 'M' ? BOUND_COMMUNICATION : BOUND_COMPUTE;
}

static enum bound bound_of(const struct writer *w, const struct tg__crit_edge *e) {
  if (e->kind == TG__CRIT_KERNEL) return BOUND_KERNEL;
  if (e->kind == TG__CRIT_LAUNCH) return BOUND_LAUNCH;
  if (e->kind != TG__CRIT_OPERATOR) return BOUND_ORDER;
  if (e->event == TG_NONE) return BOUND_CPU;
  const struct tg__crit_row *r = &w->c->rows[e->event];
  if (r->flags & TG__CRIT_DEVICE) return bound_of_work(w, r);
  return r->flags & TG__CRIT_LOADING ? BOUND_LOADING : BOUND_CPU;
}

static uint32_t track_of(struct writer *w, uint32_t slice) {
  const struct tg__columns *t = w->c->t;
  if (slice - t->tracks[w->track].first >= t->tracks[w->track].count) w->track = tg__slice_track(t, slice);
  return w->track;
}

static int64_t time_of_node(const struct writer *w, uint32_t node) {
  const uint32_t slice = w->c->rows[node >> 1].slice;
  return node & 1 ? tg__slice_end(w->c->t, slice) : w->c->t->slices.start_ns[slice];
}

/* ---- rows of the table ----------------------------------------------------------------------- */

static const struct line nothing = {.row = TG_NONE,
                                    .name = TG_NONE,
                                    .cat = TG_NONE,
                                    .weight = TG_NULL_INT,
                                    .edges = TG_NULL_INT,
                                    .events = TG_NULL_INT,
                                    .nodes = TG_NULL_INT,
                                    .graph_edges = TG_NULL_INT,
                                    .graph_nodes = TG_NULL_INT,
                                    .start_ns = TG_NULL_INT,
                                    .from = TG_NONE,
                                    .to = TG_NONE,
                                    .critical = -1};

static void put_node(struct writer *w, uint32_t node) {
  if (node == TG_NONE) {
    tg__put_null(w->out);
    tg__put_null(w->out);
  } else {
    tg__put_int(w->out, w->c->rows[node >> 1].slice);
    tg__put_bool(w->out, node & 1);
  }
}

/* Its position in traceEvents. */
static int64_t index_of(const struct writer *w, uint32_t row) {
  const struct tg__crit *c = w->c;
  if (c->index) return c->index[row];
  return w->order.bits ? tg__file_order_of(&w->order, c->t->slices.args[c->rows[row].slice]) : TG_NULL_INT;
}

static void put_index(struct writer *w, uint32_t node) {
  if (node == TG_NONE)
    tg__put_null(w->out);
  else
    tg__put_int(w->out, index_of(w, node >> 1));
}

static void put_place(struct writer *w, uint32_t row) {
  const struct tg__crit *c = w->c;
  if (row == TG_NONE) {
    for (int i = 0; i < 4; i++) tg__put_null(w->out);
    return;
  }
  const uint32_t slice = c->rows[row].slice, track = track_of(w, slice);
  tg__put_int(w->out, slice);
  tg__put_int(w->out, index_of(w, row));
  tg__put_int(w->out, track);
  tg__put_int(w->out, c->rows[row].flags & TG__CRIT_DEVICE ? c->t->tracks[track].stream : -1);
}

static int64_t weight_ns(const struct tg__crit *c, int64_t weight) {
  int64_t ns;
  if (weight == TG_NULL_INT) return weight;
  return __builtin_mul_overflow(weight, c->rules->unit_ns, &ns) ? INT64_MAX : ns;
}

static void put_critical_line(struct writer *w, const struct line *l) {
  const struct tg__crit *c = w->c;
  const struct tg__slices *s = &c->t->slices;
  const uint32_t slice = l->row == TG_NONE ? TG_NONE : c->rows[l->row].slice;
  struct tg_table *out = w->out;
  tg__put_rank(out, c->t, c->rank);
  tg__put_trace_text(out, c->t, slice == TG_NONE ? l->name : s->name[slice]);
  tg__put_trace_text(out, c->t, slice == TG_NONE ? l->cat : c->t->cats[s->cat[slice]].name);
  tg__put_cstr(out, l->kind);
  tg__put_cstr(out, l->bound);
  tg__put_int(out, weight_ns(c, l->weight));
  tg__put_real(out, l->weight == TG_NULL_INT || w->total <= 0 ? NAN : 100.0 * (double)l->weight / (double)w->total);
  tg__put_int(out, l->edges);
  tg__put_int(out, l->events);
  tg__put_int(out, l->nodes);
  tg__put_int(out, l->graph_edges);
  tg__put_int(out, l->graph_nodes);
  if (l->critical < 0)
    tg__put_null(out);
  else
    tg__put_bool(out, l->critical != 0);
  put_place(w, l->row);
  tg__put_int(out, l->start_ns);
  put_node(w, l->from);
  put_node(w, l->to);
  put_index(w, l->from);
  put_index(w, l->to);
}

static void put_edge(struct writer *w, const struct tg__crit_edge *e) {
  struct line l = nothing;
  l.row = e->event;
  l.kind = kind_names[e->kind];
  l.bound = bound_names[bound_of(w, e)];
  l.weight = tg__crit_weight(w->c, e);
  l.edges = e->is_critical;
  l.critical = e->is_critical;
  l.from = e->from;
  l.to = e->to;
  l.start_ns = time_of_node(w, e->from);
  put_critical_line(w, &l);
}

static void put_edges(struct writer *w) {
  const struct tg__crit *c = w->c;
  for (size_t i = 0; i < c->path_count; i++) put_edge(w, &c->edges[c->path[i]]);
  for (size_t i = 0; w->all_edges && i < c->edge_count; i++)
    if (!c->edges[i].is_gone && !c->edges[i].is_critical) put_edge(w, &c->edges[i]);
}

static void put_kinds(struct writer *w) {
  const struct tg__crit *c = w->c;
  struct line lines[TG__CRIT_KINDS];
  for (unsigned k = 0; k < TG__CRIT_KINDS; k++) {
    lines[k] = nothing;
    lines[k].kind = kind_names[k];
    lines[k].weight = lines[k].edges = lines[k].graph_edges = 0;
  }
  for (size_t i = 0; i < c->edge_count; i++) {
    const struct tg__crit_edge *e = &c->edges[i];
    if (e->is_gone) continue;
    lines[e->kind].graph_edges++;
    if (!e->is_critical) continue;
    lines[e->kind].edges++;
    lines[e->kind].weight = tg__crit_sum(lines[e->kind].weight, tg__crit_weight(c, e));
  }
  for (unsigned k = 0; k < TG__CRIT_KINDS; k++)
    if (lines[k].graph_edges) put_critical_line(w, &lines[k]);
}

/* By what it is bound, largest first. */
static void sum_bounds(const struct writer *w, struct line lines[BOUND_COUNT], uint32_t order[BOUND_COUNT]) {
  const struct tg__crit *c = w->c;
  for (uint32_t k = 0; k < BOUND_COUNT; k++) {
    lines[k] = nothing;
    lines[k].bound = bound_names[k];
    lines[k].weight = lines[k].edges = 0;
  }
  for (size_t i = 0; i < c->path_count; i++) {
    struct line *l = &lines[bound_of(w, &c->edges[c->path[i]])];
    l->weight = tg__crit_sum(l->weight, tg__crit_weight(c, &c->edges[c->path[i]]));
    l->edges++;
  }
  for (uint32_t k = 0; k < BOUND_COUNT; k++) {
    uint32_t at = k;
    for (; at > 0 && lines[order[at - 1]].weight < lines[k].weight; at--) order[at] = order[at - 1];
    order[at] = k;
  }
}

static void put_bounds(struct writer *w) {
  struct line lines[BOUND_COUNT];
  uint32_t order[BOUND_COUNT];
  sum_bounds(w, lines, order);
  for (uint32_t k = 0; k < BOUND_COUNT; k++)
    if (lines[order[k]].edges) put_critical_line(w, &lines[order[k]]);
}

/* ---- grouped --------------------------------------------------------------------------------- */

struct groups {
  struct line *lines;
  size_t count, cap;
  struct tg__map place;
  uint8_t *seen; /* by row: one bit for each bound it was counted for (by=op) */
};

static struct line *critical_group_of(struct groups *g, uint64_t key) {
  uint32_t *slot = tg__map_slot(&g->place, key, TG_NONE);
  if (!slot) return NULL;
  if (*slot == TG_NONE) {
    if (!tg__grow((void **)&g->lines, &g->cap, g->count + 1, sizeof *g->lines)) return NULL;
    *slot = (uint32_t)g->count;
    g->lines[g->count] = nothing;
    g->lines[g->count].weight = g->lines[g->count].edges = g->lines[g->count].events = 0;
    g->count++;
  }
  return &g->lines[*slot];
}

static bool add_to_op(struct writer *w, struct groups *g, const struct tg__crit_edge *e) {
  const struct tg__crit *c = w->c;
  const enum bound bound = bound_of(w, e);
  if (bound == BOUND_ORDER) return true;
  const uint32_t slice = e->event == TG_NONE ? TG_NONE : c->rows[e->event].slice;
  const uint64_t name = slice == TG_NONE ? TG_NONE : c->t->slices.name[slice];
  const uint64_t cat = slice == TG_NONE ? 0 : c->t->slices.cat[slice];
  struct line *l = critical_group_of(g, name << 24 | cat << 8 | bound);
  if (!l) return false;
  if (slice != TG_NONE) {
    l->name = c->t->slices.name[slice];
    l->cat = c->t->cats[cat].name;
    l->events += !(g->seen[e->event] >> bound & 1);
    g->seen[e->event] |= (uint8_t)(1u << bound);
  }
  l->bound = bound_names[bound];
  l->weight = tg__crit_sum(l->weight, tg__crit_weight(c, e));
  l->edges++;
  return true;
}

static struct line *event_line(struct writer *w, struct groups *g, uint32_t row) {
  struct line *l = critical_group_of(g, row);
  if (!l) return NULL;
  l->row = row;
  l->events = TG_NULL_INT;
  l->start_ns = w->c->t->slices.start_ns[w->c->rows[row].slice];
  if (l->critical < 0) l->critical = 0;
  return l;
}

/* Both events of an edge are on the path; the one its time is booked on may only stand around it. */
static bool add_to_events(struct writer *w, struct groups *g, const struct tg__crit_edge *e) {
  struct line *l = event_line(w, g, e->from >> 1);
  if (l) l->critical = 1;
  if (l && e->event != TG_NONE) l = event_line(w, g, e->event);
  if (l && e->event != TG_NONE) {
    l->weight = tg__crit_sum(l->weight, tg__crit_weight(w->c, e));
    l->edges++;
  }
  if (l) l = event_line(w, g, e->to >> 1);
  if (l) l->critical = 1;
  return l != NULL;
}

static bool heavier(uint32_t a, uint32_t b, const void *ctx) {
  return ((const struct line *)ctx)[a].weight > ((const struct line *)ctx)[b].weight;
}

static enum tg_err put_critical_groups(struct writer *w) {
  const struct tg__crit *c = w->c;
  struct groups g = {.seen = tg__alloc((size_t)c->count + 1)};
  bool ok = g.seen != NULL;
  for (size_t i = 0; ok && i < c->path_count; i++) {
    const struct tg__crit_edge *e = &c->edges[c->path[i]];
    ok = w->by == BY_OP ? add_to_op(w, &g, e) : add_to_events(w, &g, e);
  }
  uint32_t *order = tg__alloc((g.count + 1) * sizeof *order);
  for (size_t i = 0; order && i < g.count; i++) order[i] = (uint32_t)i;
  ok = ok && order && (w->by != BY_OP || tg__sort_index(order, g.count, heavier, g.lines));
  for (size_t i = 0; ok && i < g.count; i++) put_critical_line(w, &g.lines[order[i]]);
  tg__free(order);
  tg__free(g.lines);
  tg__map_free(&g.place);
  tg__free(g.seen);
  return ok ? TG_OK : TG_MEMORY;
}

static bool put_rank_row(struct writer *w) {
  const struct tg__crit *c = w->c;
  struct line l = nothing;
  uint8_t *seen = tg__alloc((size_t)c->count + 1);
  if (!seen) return false;
  l.weight = w->total;
  l.edges = (int64_t)c->path_count;
  l.nodes = l.edges + 1;
  l.graph_nodes = c->node_count;
  l.graph_edges = 0;
  for (size_t i = 0; i < c->edge_count; i++) l.graph_edges += !c->edges[i].is_gone;
  l.events = 0;
  for (size_t i = 0; i < c->path_count; i++) {
    const struct tg__crit_edge *e = &c->edges[c->path[i]];
    l.events += !seen[e->from >> 1];
    seen[e->from >> 1] = 1;
    l.events += !seen[e->to >> 1];
    seen[e->to >> 1] = 1;
  }
  l.start_ns = time_of_node(w, c->edges[c->path[0]].from);
  put_critical_line(w, &l);
  tg__free(seen);
  return true;
}

/* ---- what the table says beside its rows ----------------------------------------------------- */

static void put_notes(struct writer *w) {
  const struct tg__crit *c = w->c;
  struct line lines[BOUND_COUNT];
  uint32_t order[BOUND_COUNT];
  char text[240] = "";
  size_t len = 0;
  sum_bounds(w, lines, order);
  for (uint32_t k = 0; k < BOUND_COUNT && len < sizeof text; k++) {
    const struct line *l = &lines[order[k]];
    if (l->weight <= 0 || w->total <= 0) continue;
    const char *separator = len ? ", " : "";
    len += (size_t)snprintf(text + len, sizeof text - len, "%s%s %.1f %%", separator, l->bound,
                            100.0 * (double)l->weight / (double)w->total);
  }
  const double ms = (double)w->total * (double)c->rules->unit_ns / 1e6;
  tg__table_note(w->out, "rank %lld: the critical path is %.3f ms long: %s", (long long)c->t->ranks[c->rank].number, ms,
                 len ? text : "nothing but order");
  if (!c->wait_count && c->inferred.count)
    tg__table_note(
        w->out,
        "the trace has no synchronisation events: %zu wait%s of the host %s derived from the device work that ended "
        "meanwhile "
        "(torch: _ExperimentalConfig(enable_cuda_sync_events=True) records them)",
        c->inferred.count, c->inferred.count == 1 ? "" : "s", c->inferred.count == 1 ? "was" : "were");
}

static enum tg_err put_answer(struct writer *w) {
  const struct tg__crit *c = w->c;
  enum tg_err err = TG_OK;
  for (size_t i = 0; i < c->path_count; i++)
    w->total = tg__crit_sum(w->total, tg__crit_weight(c, &c->edges[c->path[i]]));
  if (w->by == BY_OP || w->by == BY_EVENT) err = put_critical_groups(w);
  if (w->by == BY_BOUND) put_bounds(w);
  if (w->by == BY_KIND) put_kinds(w);
  if (w->by == BY_EDGE) put_edges(w);
  if (w->by == BY_RANK && !put_rank_row(w)) err = TG_MEMORY;
  if (!err) put_notes(w);
  return err;
}

/* ---- one rank -------------------------------------------------------------------------------- */

struct wish { /* the arguments */
  enum by by;
  const struct tg__crit_rules *rules;
  bool all_edges, launch_edges;
  struct tg__crit_range range;
  const char *annotation, *loading;
};

static enum tg_err refuse(const struct tg__crit *c, struct tg_error *e) {
  const long long rank = c->t->ranks[c->rank].number;
  const char *where = c->window_start == INT64_MIN ? "in the trace" : "in this window";
  if (c->refusal)
    return tg__fail(e, TG_NO_DATA, -1, "critical_path: %s has none for rank %lld: %s; rules=exact (the default) does",
                    c->rules->tool, rank, c->refusal);
  if (c->edge_count)
    return tg__fail(e, TG_NO_DATA, -1, "critical_path: nothing of rank %lld %s takes time: there are only waits", rank,
                    where);
  return tg__fail(e, TG_NO_DATA, -1,
                  "critical_path: rank %lld has no operators, host calls or device work %s; record with "
                  "activities=[ProfilerActivity.CPU, "
                  "ProfilerActivity.CUDA]",
                  rank, where);
}

static enum tg_err answer_critical_of_rank(const struct tg__columns *t, const struct tg__ask *a,
                                           const struct wish *wish, uint32_t rank, struct tg_table *out,
                                           struct tg_error *e) {
  struct tg__crit c = {
      .t = t, .rank = rank, .rules = wish->rules, .launch_edges = wish->launch_edges, .loading = wish->loading};
  struct tg__crit_names words;
  struct tg__names names = {0};
  enum tg_err err = TG_MEMORY;
  if (!tg__crit_names_open(&words, &c, wish->annotation) || !tg__names_open(&names, t)) goto done;
  err = c.rules->rows(&c, &words, a, wish->range, e);
  if (err) goto done;
  if (c.rules->infers_waits) tg__crit_infer_waits(&c);
  tg__crit_add_locks(&c);
  tg__crit_add_stacks(&c);
  tg__crit_add_device(&c);
  if (!c.refusal) tg__crit_search(&c);
  if (c.failed) {
    err = TG_MEMORY;
  } else if (c.path_count == 0 || c.refusal) {
    err = refuse(&c, e);
  } else {
    struct writer w = {.c = &c, .names = &names, .out = out, .by = wish->by, .all_edges = wish->all_edges};
    if (!c.index && (w.by == BY_EDGE || w.by == BY_EVENT) && !tg__file_order_open(&w.order, t, rank))
      tg__file_order_close(&w.order);
    err = put_answer(&w);
    tg__file_order_close(&w.order);
  }
done:
  tg__crit_names_close(&words);
  tg__names_close(&names);
  tg__crit_close(&c);
  return err;
}

const struct tg__crit_rules tg__crit_exact = {.unit_ns = 1,
                                              .rows = tg__crit_rows_exact,
                                              .name = tg__crit_name_exact,
                                              .sort = tg__crit_sort_device,
                                              .launch_edges = true,
                                              .infers_waits = true,
                                              .takes_steps = true,
                                              .locks_weigh = true};

/* ---- arguments ------------------------------------------------------------------------------- */

static const char *read_count(const char *p, int64_t *out) {
  const char *first = p;
  for (*out = 0; *p >= '0' && *p <= '9' && p - first < 9; p++) *out = *out * 10 + (*p - '0');
  return p == first ? NULL : p;
}

static bool parse_instance(const char *text, struct tg__crit_range *out) {
  const char *p = read_count(text, &out->first);
  out->last = out->first;
  if (p && *p == ':') p = read_count(p + 1, &out->last);
  return p && !*p && out->last >= out->first;
}

static enum tg_err parse_wish(const struct tg__ask *a, struct wish *wish, struct tg_error *e) {
  static const char *const bys[] = {"op", "bound", "kind", "event", "edge", "rank"}, *const edges[] = {"path", "all"};
  static const char *const switches[] = {"0", "1", "auto"};
  const struct tg__crit_rules *const rules = a->policy ? a->policy : &tg__crit_exact;
  size_t by, all, launch;
  enum tg_err err = tg__ask_choice(a, "by", bys, sizeof bys / sizeof *bys, &by, e);
  if (!err) err = tg__ask_choice(a, "edges", edges, 2, &all, e);
  if (!err) err = tg__ask_choice(a, "launch_edges", switches, 3, &launch, e);
  if (err) return err;
  const char *loading = tg__ask_arg(a, "data_load_events"), *instance = tg__ask_arg(a, "instance");
  *wish = (struct wish){.by = (enum by)by,
                        .rules = rules,
                        .all_edges = all,
                        .launch_edges = launch == 2 ? rules->launch_edges : launch == 1};
  wish->annotation = tg__ask_arg(a, "annotation");
  wish->loading = *loading ? loading : NULL;
  if (!parse_instance(instance, &wish->range))
    return tg__fail(e, TG_USAGE, -1,
                    "critical_path: instance=%.60s is not understood: use one, counted from 0 (2), or a range with "
                    "both ends (0:2)",
                    instance);
  if (wish->all_edges && wish->by != BY_EDGE)
    return tg__fail(e, TG_USAGE, -1, "critical_path: edges=all is only for by=edge");
  if (a->has_steps && (!rules->takes_steps || *wish->annotation))
    return tg__fail(e, TG_USAGE, -1,
                    "critical_path: step= is for rules=exact without an annotation; with rules=hta say "
                    "annotation=ProfilerStep instance=0");
  return TG_OK;
}

/* Of several ranks those without a path are named beside the table; it takes one with a path to make an answer. */
enum tg_err tg__answer_critical_path(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                     struct tg_error *e) {
  struct wish wish;
  struct tg_error why = {0};
  size_t answered = 0;
  enum tg_err err = parse_wish(a, &wish, e);
  if (err) return err;
  for (uint32_t r = 0; r < t->rank_count; r++) {
    if (!tg__ask_has_rank(a, r)) continue;
    const enum tg_err one = answer_critical_of_rank(t, a, &wish, r, out, &why);
    if (one == TG_MEMORY) return tg__no_memory(e, "looking for the critical path");
    answered += one == TG_OK;
    if (one != TG_OK) err = one;
    if (one != TG_OK && t->rank_count > 1 && a->rank == TG_NONE) tg__table_note(out, "%s", why.text);
  }
  return answered ? TG_OK : tg__fail(e, err, -1, "%s", why.text);
}
