/* The questions call_graph and call_stack: every event with what it ran in and the device work below it; and one event with all that
 * it ran in and all that ran in it. */
#include "analyze/hta_stack.h"

#include <stdlib.h>

/* The graph of the whole trace, or of one rank where nodes are HTA's rows. */
struct view {
  const struct tg_trace *t;
  struct tg__call_graph g;
  const struct tg__hta_rank *rows; /* NULL: nodes are slices */
  uint8_t *roles;                  /* by track */
};

static uint32_t slice_of(const struct view *v, uint32_t node) { return v->rows ? v->rows->rows[node].slice : node; }
static int64_t slice_or_null(const struct view *v, uint32_t node) { return node == TG_NONE ? TG_NULL_INT : slice_of(v, node); }

/* main, bwd, or what the thread did first, which tells threads apart that have no name. */
static void put_thread(const struct view *v, uint32_t track, struct tg_table *out) {
  const struct tg__track *k = &v->t->tracks[track];
  if (k->kind != TG__TRACK_CPU) tg__put_null(out);
  else if (v->roles[track] == TG__THREAD_OTHER) tg__put_trace_text(out, v->t, k->count ? v->t->slices.name[k->first] : TG_NONE);
  else tg__put_cstr(out, v->roles[track] == TG__THREAD_MAIN ? "main" : "bwd");
}

static void put_event(const struct view *v, uint32_t node, uint32_t track, struct tg_table *out) {
  const struct tg__slices *s = &v->t->slices;
  const uint32_t slice = slice_of(v, node);
  tg__put_int(out, slice);
  tg__put_rank(out, v->t, v->t->tracks[track].rank);
  tg__put_int(out, track);
  tg__put_trace_text(out, v->t, v->t->cats[s->cat[slice]].name);
  tg__put_trace_text(out, v->t, s->name[slice]);
  tg__put_int(out, s->start_ns[slice]);
  tg__put_int(out, s->dur_ns[slice]);
  tg__put_int(out, slice_or_null(v, v->g.parent[node]));
  tg__put_int(out, v->g.depth[node] < 0 ? TG_NULL_INT : v->g.depth[node]);
  tg__put_int(out, v->g.height[node] < 0 ? TG_NULL_INT : v->g.height[node]);
}

static void put_below(const struct view *v, uint32_t node, struct tg_table *out) {
  const struct tg__call_graph *g = &v->g;
  const bool any = g->kernels[node] > 0;
  tg__put_int(out, g->kernels[node]);
  tg__put_int(out, g->kernel_ns[node]);
  tg__put_int(out, any ? g->first_ns[node] : TG_NULL_INT);
  tg__put_int(out, any ? g->last_ns[node] : TG_NULL_INT);
  tg__put_int(out, any ? g->last_ns[node] - g->first_ns[node] : TG_NULL_INT);
}

static int64_t forward_of(const struct tg_trace *t, uint32_t slice) {
  const uint32_t cause = t->slices.cause[slice];
  const bool linked = cause != TG_NONE && tg__slice_class(t, slice) == TG__CLASS_OP && tg__slice_class(t, cause) == TG__CLASS_OP;
  return linked ? (int64_t)cause : TG_NULL_INT;
}

static void put_node(const struct view *v, uint32_t node, uint32_t track, struct tg_table *out) {
  put_event(v, node, track, out);
  put_below(v, node, out);
  put_thread(v, track, out);
  tg__put_int(out, forward_of(v->t, slice_of(v, node)));
}

/* ---- call_graph ------------------------------------------------------------------------------------------------------------------------ */

static void put_slices(const struct view *v, const struct tg__ask *a, struct tg_table *out) {
  for (uint32_t k = 0; k < v->t->track_count; k++) {
    if (!tg__ask_has_track(a, v->t, k)) continue;
    for (uint32_t i = v->t->tracks[k].first; i < v->t->tracks[k].first + v->t->tracks[k].count; i++)
      if (v->g.kind[i] != TG__NODE_ABSENT && tg__ask_has_slice(a, v->t, k, i)) put_node(v, i, k, out);
  }
}

static void put_rows(const struct view *v, const struct tg__ask *a, struct tg_table *out) {
  for (uint32_t i = 0; i < v->g.count; i++) {
    const uint32_t track = tg__slice_track(v->t, slice_of(v, i));
    if (tg__ask_has_slice(a, v->t, track, slice_of(v, i))) put_node(v, i, track, out);
  }
}

static bool answer_hta(struct view *v, const struct tg__ask *a, struct tg_table *out,
                       void (*put)(const struct view *v, const struct tg__ask *a, struct tg_table *out)) {
  struct tg__hta h;
  bool ok = tg__hta_open(&h, v->t, a->rank, tg__hta_filter_of(a)) == TG_OK;
  for (uint32_t r = 0; ok && r < v->t->rank_count; r++) {
    if (!tg__ask_has_rank(a, r)) continue;
    v->rows = &h.ranks[r];
    ok = tg__hta_call_graph(&h, r, &v->g, v->roles);
    if (ok) put(v, a, out);
    tg__call_graph_free(&v->g);
  }
  tg__hta_close(&h);
  return ok;
}

static enum tg_err answer(const struct tg_trace *t, const struct tg__ask *a, struct tg_table *out, struct tg_error *e,
                          void (*put_exact)(const struct view *v, const struct tg__ask *a, struct tg_table *out),
                          void (*put_hta)(const struct view *v, const struct tg__ask *a, struct tg_table *out)) {
  static const char *const rules[] = {"exact", "hta", "hta-last"};
  size_t hta;
  const enum tg_err err = tg__ask_choice(a, "rules", rules, 3, &hta, e);
  if (err) return err;
  struct view v = {.t = t, .roles = tg__alloc((size_t)t->track_count + 1)};
  bool ok = v.roles != NULL;
  if (ok && hta) ok = answer_hta(&v, a, out, put_hta);
  else if (ok) ok = tg__call_graph_build(t, &v.g, v.roles);
  if (ok && !hta) put_exact(&v, a, out);
  tg__call_graph_free(&v.g);
  tg__free(v.roles);
  return ok ? TG_OK : tg__fail(e, TG_MEMORY, -1, "out of memory while building the call graph");
}

enum tg_err tg__answer_call_graph(const struct tg_trace *t, const struct tg__ask *a, struct tg_table *out, struct tg_error *e) {
  return answer(t, a, out, e, put_slices, put_rows);
}

/* ---- call_stack ------------------------------------------------------------------------------------------------------------------------- */

/* The event asked for; without one the longest device work, or the longest operator where there is none. TG_NONE. */
static uint32_t event_of(const struct tg_trace *t, const struct tg__ask *a) {
  const char *text = tg__ask_arg(a, "event");
  if (text && *text) return (uint32_t)strtoul(text, NULL, 10);
  uint32_t best = TG_NONE;
  bool device = false;
  for (uint32_t k = 0; k < t->track_count; k++) {
    if (!tg__ask_has_rank(a, t->tracks[k].rank)) continue;
    for (uint32_t i = t->tracks[k].first; i < t->tracks[k].first + t->tracks[k].count; i++) {
      const enum tg__class cls = tg__slice_class(t, i);
      const bool is_device = tg__class_is_device_work(cls);
      if ((!is_device && cls != TG__CLASS_OP) || (device && !is_device)) continue;
      if (best == TG_NONE || (is_device && !device) || t->slices.dur_ns[i] > t->slices.dur_ns[best]) best = i;
      device |= is_device;
    }
  }
  return best;
}

static enum tg_err check_event(const struct tg_trace *t, const struct tg__ask *a, struct tg_error *e) {
  const char *text = tg__ask_arg(a, "event");
  char *end;
  if (!text || !*text) return TG_OK;
  const long long n = strtoll(text, &end, 10);
  if (*end || end == text || n < 0)
    return tg__fail(e, TG_USAGE, -1, "event=%.60s is not an event: give a number from a column id or event of another question", text);
  if (n >= t->slices.count) return tg__fail(e, TG_NO_DATA, -1, "event %lld is not in the trace, which has %u slices", n, t->slices.count);
  return TG_OK;
}

static uint32_t node_of(const struct view *v, uint32_t slice) {
  if (!v->rows) return slice < v->g.count && v->g.kind[slice] != TG__NODE_ABSENT ? slice : TG_NONE;
  for (uint32_t i = 0; i < v->g.count; i++)
    if (v->rows->rows[i].slice == slice) return i;
  return TG_NONE;
}

static bool sooner(uint32_t x, uint32_t y, const void *ctx) {
  const struct view *v = ctx;
  const int64_t a = v->t->slices.start_ns[slice_of(v, x)], b = v->t->slices.start_ns[slice_of(v, y)];
  return a != b ? a < b : v->g.depth[x] < v->g.depth[y];
}

/* What a node is to the event asked for. */
enum relation { UNRELATED, ANCESTOR, ITSELF, DESCENDANT };

static size_t relate(const struct view *v, uint32_t node, bool ancestors, uint8_t *relation, uint32_t *found) {
  size_t count = 0;
  relation[node] = ITSELF;
  for (uint32_t at = v->g.order_count; at-- > 0;) { /* parents first */
    const uint32_t i = v->g.order[at], up = v->g.parent[i];
    if (up != TG_NONE && relation[up] >= ITSELF) relation[i] = DESCENDANT;
    if (relation[i]) found[count++] = i;
  }
  if (count == 0) found[count++] = node; /* not in the order: part of a circle */
  for (uint32_t up = v->g.parent[node]; ancestors && up != TG_NONE && relation[up] == UNRELATED; up = v->g.parent[up]) {
    relation[up] = ANCESTOR;
    found[count++] = up;
  }
  return count;
}

static void put_stack(const struct view *v, const struct tg__ask *a, struct tg_table *out) {
  static const char *const words[] = {[ANCESTOR] = "ancestor", [ITSELF] = "itself", [DESCENDANT] = "descendant"};
  const char *with = tg__ask_arg(a, "ancestors");
  const uint32_t slice = event_of(v->t, a), node = slice == TG_NONE ? TG_NONE : node_of(v, slice);
  if (node == TG_NONE) return;
  uint8_t *relation = tg__alloc((size_t)v->g.count + 1);
  uint32_t *found = tg__alloc(((size_t)v->g.count + 1) * sizeof *found);
  const bool ok = relation && found;
  const size_t count = ok ? relate(v, node, strcmp(with, "0") != 0, relation, found) : 0;
  if (!ok || !tg__sort_index(found, count, sooner, v)) out->failed = true;
  for (size_t i = 0; i < count && !out->failed; i++) {
    tg__put_cstr(out, words[relation[found[i]]]);
    put_node(v, found[i], tg__slice_track(v->t, slice_of(v, found[i])), out);
  }
  tg__free(relation);
  tg__free(found);
}

enum tg_err tg__answer_call_stack(const struct tg_trace *t, const struct tg__ask *a, struct tg_table *out, struct tg_error *e) {
  static const char *const yes_no[] = {"0", "1"};
  size_t ancestors;
  enum tg_err err = check_event(t, a, e);
  if (!err) err = tg__ask_choice(a, "ancestors", yes_no, 2, &ancestors, e);
  if (!err) err = answer(t, a, out, e, put_stack, put_stack);
  const char *event = tg__ask_arg(a, "event");
  if (!err && out->rows == 0 && (!event || !*event))
    return tg__fail(e, TG_NO_DATA, -1, "the trace holds no operators or device work, of which call_stack takes the longest; record with "
                    "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], or give event=");
  if (!err && out->rows == 0) tg__table_note(out, "this event is in no call stack");
  return err;
}
