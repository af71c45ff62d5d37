/* The questions call_graph and call_stack: every event with what it ran in and the device work below it; and one
 * event with all that it ran in and all that ran in it. */
#include "analyze/launch/call_graph_view.h"

#include <stdlib.h>

/* The columns of both questions, in order. */
enum column {
  ID,
  RANK,
  TRACK,
  CATEGORY,
  NAME,
  START,
  DUR,
  PARENT,
  DEPTH,
  HEIGHT,
  KERNELS,
  KERNEL_NS,
  FIRST_NS,
  LAST_NS,
  KERNEL_SPAN_NS,
  THREAD,
  FORWARD,
  COLUMNS
};

struct batch { /* nodes of one track */
  const uint32_t *nodes;
  size_t count;
  uint32_t track;
};

static uint32_t slice_of(const struct tg__graph_view *v, uint32_t node) { return v->slices ? v->slices[node] : node; }
static int64_t slice_or_null(const struct tg__graph_view *v, uint32_t node) {
  return node == TG_NONE ? TG_NULL_INT : slice_of(v, node);
}

static int64_t forward_of(const struct tg__columns *t, uint32_t slice) {
  const uint32_t cause = t->slices.cause[slice];
  const bool linked =
      cause != TG_NONE && tg__slice_class(t, slice) == TG__CLASS_OP && tg__slice_class(t, cause) == TG__CLASS_OP;
  return linked ? (int64_t)cause : TG_NULL_INT;
}

static int64_t event_cell(const struct tg__graph_view *v, enum column c, uint32_t track, uint32_t node) {
  const struct tg__slices *s = &v->t->slices;
  switch (c) {
  case ID:
    return slice_of(v, node);
  case RANK:
    return tg__rank_number(v->t, v->t->tracks[track].rank);
  case TRACK:
    return track;
  case START:
    return s->start_ns[slice_of(v, node)];
  case DUR:
    return s->dur_ns[slice_of(v, node)];
  case PARENT:
    return slice_or_null(v, v->g->parent[node]);
  case DEPTH:
    return v->g->depth[node] < 0 ? TG_NULL_INT : v->g->depth[node];
  case HEIGHT:
    return v->g->height[node] < 0 ? TG_NULL_INT : v->g->height[node];
  default:
    return forward_of(v->t, slice_of(v, node));
  }
}

static int64_t below_cell(const struct tg__call_graph *g, enum column c, uint32_t node) {
  if (c == KERNELS) return g->kernels[node];
  if (c == KERNEL_NS) return g->kernel_ns[node];
  if (!g->kernels[node]) return TG_NULL_INT;
  return c == FIRST_NS ? g->first_ns[node] : c == LAST_NS ? g->last_ns[node] : g->last_ns[node] - g->first_ns[node];
}

/* main, bwd, or what the thread did first, for threads without a name. */
static uint32_t thread_text(const struct tg__graph_view *v, uint32_t track, struct tg_table *out) {
  const struct tg__track *k = &v->t->tracks[track];
  if (k->kind != TG__TRACK_CPU) return TG_NONE;
  if (v->roles[track] == TG__THREAD_OTHER)
    return k->count ? tg__table_text(out, v->t, v->t->slices.name[k->first]) : TG_NONE;
  const char *role = v->roles[track] == TG__THREAD_MAIN ? "main" : "bwd";
  const uint32_t id = tg__strings_add(out->strings, role, strlen(role));
  out->failed |= id == TG_NONE;
  return id;
}

static void put_call_graph_texts(const struct tg__graph_view *v, const struct batch *b, enum column c, uint32_t *cells,
                                 struct tg_table *out) {
  const struct tg__slices *s = &v->t->slices;
  const uint32_t thread = c == THREAD ? thread_text(v, b->track, out) : TG_NONE;
  for (size_t i = 0; i < b->count; i++) {
    const uint32_t slice = slice_of(v, b->nodes[i]);
    cells[i] =
        c == THREAD ? thread : tg__table_text(out, v->t, c == NAME ? s->name[slice] : v->t->cats[s->cat[slice]].name);
  }
}

/* A row a node; column by column, as there may be as many as events. `first`: columns of the row that are there
 * already. */
static void put_nodes(const struct tg__graph_view *v, const struct batch *b, size_t first, struct tg_table *out) {
  if (!tg__table_reserve(out, out->rows + b->count)) return;
  for (unsigned c = 0; c < COLUMNS; c++) {
    struct tg__column *column = &out->columns[first + c];
    if (column->is_left_out) continue;
    if (column->type == TG_TEXT) {
      put_call_graph_texts(v, b, c, column->texts + out->rows, out);
      continue;
    }
    int64_t *cells = column->ints + out->rows;
    if (c >= KERNELS && c <= KERNEL_SPAN_NS)
      for (size_t i = 0; i < b->count; i++) cells[i] = below_cell(v->g, c, b->nodes[i]);
    else
      for (size_t i = 0; i < b->count; i++) cells[i] = event_cell(v, c, b->track, b->nodes[i]);
  }
  if (first)
    tg__table_wrote(out, COLUMNS);
  else
    tg__table_wrote_rows(out, b->count);
}

/* ---- call_graph ------------------------------------------------------------------------------ */

static size_t room_of(const struct tg__ask *a, const struct tg_table *out) { return a->most_rows - out->rows; }

static bool put_slices(const struct tg__graph_view *v, const struct tg__ask *a, struct tg_table *out) {
  uint32_t most = 0;
  size_t all = 0;
  for (uint32_t k = 0; k < v->t->track_count; k++) {
    if (!tg__ask_has_track(a, v->t, k)) continue;
    all += v->t->tracks[k].count;
    if (v->t->tracks[k].count > most) most = v->t->tracks[k].count;
  }
  uint32_t *nodes = tg__alloc(((size_t)most + 1) * sizeof *nodes);
  if (!nodes || !tg__table_reserve(out, a->has_steps ? 0 : all < a->most_rows ? all : a->most_rows)) goto done;
  for (uint32_t k = 0; k < v->t->track_count && room_of(a, out); k++) {
    struct batch b = {.nodes = nodes, .track = k};
    if (!tg__ask_has_track(a, v->t, k)) continue;
    const uint32_t end = v->t->tracks[k].first + v->t->tracks[k].count;
    for (uint32_t i = v->t->tracks[k].first; i < end && b.count < room_of(a, out); i++)
      if (v->g->kind[i] != TG__NODE_ABSENT && tg__ask_has_slice(a, v->t, k, i)) nodes[b.count++] = i;
    put_nodes(v, &b, 0, out);
  }
done:
  tg__free(nodes);
  return nodes != NULL;
}

bool tg__put_call_graph(const struct tg__graph_view *v, const struct tg__ask *a, struct tg_table *out) {
  for (uint32_t i = 0; i < v->g->count && room_of(a, out); i++) {
    const uint32_t track = tg__slice_track(v->t, slice_of(v, i));
    if (tg__ask_has_slice(a, v->t, track, slice_of(v, i))) put_nodes(v, &(struct batch){&i, 1, track}, 0, out);
  }
  return true;
}

static enum tg_err answer_call_graph(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                     struct tg_error *e, tg__put_graph *put) {
  struct tg__graph_view v = {.t = t};
  v.g = tg__call_graph_of(t, &v.roles);
  return v.g && put(&v, a, out) ? TG_OK : tg__no_memory(e, "building the call graph");
}

enum tg_err tg__answer_call_graph(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                  struct tg_error *e) {
  return answer_call_graph(t, a, out, e, put_slices);
}

/* ---- call_stack ------------------------------------------------------------------------------ */

/* The event asked for; without one the longest device work, or the longest operator where there is none. TG_NONE. */
static uint32_t event_of(const struct tg__columns *t, const struct tg__ask *a) {
  const char *text = tg__ask_arg(a, "event");
  if (text && *text) return (uint32_t)strtoul(text, NULL, 10);
  uint32_t best = TG_NONE;
  bool device = false;
  for (uint32_t k = 0; k < t->track_count; k++) {
    if (!tg__ask_has_rank(a, t->tracks[k].rank)) continue;
    TG__EACH (i, tg__slices_of(&t->tracks[k])) {
      const enum tg__class cls = tg__slice_class(t, i);
      const bool is_device = tg__class_is_device_work(cls);
      if ((!is_device && cls != TG__CLASS_OP) || (device && !is_device)) continue;
      if (best == TG_NONE || (is_device && !device) || t->slices.dur_ns[i] > t->slices.dur_ns[best]) best = i;
      device |= is_device;
    }
  }
  return best;
}

static enum tg_err check_event(const struct tg__columns *t, const struct tg__ask *a, struct tg_error *e) {
  const char *text = tg__ask_arg(a, "event");
  char *end;
  if (!text || !*text) return TG_OK;
  const long long n = strtoll(text, &end, 10);
  if (*end || end == text || n < 0)
    return tg__fail(e, TG_USAGE, -1,
                    "event=%.60s is not an event: use a number from a column id or event of another question", text);
  if (n >= t->slices.count)
    return tg__fail(e, TG_NO_DATA, -1, "event %lld is not in the trace, which has %u slices", n, t->slices.count);
  return TG_OK;
}

static uint32_t node_of(const struct tg__graph_view *v, uint32_t slice) {
  if (!v->slices) return slice < v->g->count && v->g->kind[slice] != TG__NODE_ABSENT ? slice : TG_NONE;
  for (uint32_t i = 0; i < v->g->count; i++)
    if (v->slices[i] == slice) return i;
  return TG_NONE;
}

static bool sooner(uint32_t x, uint32_t y, const void *ctx) {
  const struct tg__graph_view *v = ctx;
  const int64_t a = v->t->slices.start_ns[slice_of(v, x)], b = v->t->slices.start_ns[slice_of(v, y)];
  return a != b ? a < b : v->g->depth[x] < v->g->depth[y];
}

/* What a node is to the event asked for. */
enum relation { UNRELATED, ANCESTOR, ITSELF, DESCENDANT };

static size_t relate(const struct tg__graph_view *v, uint32_t node, bool ancestors, uint8_t *relation,
                     uint32_t *found) {
  size_t count = 0;
  relation[node] = ITSELF;
  for (uint32_t at = v->g->order_count; at-- > 0;) { /* parents first */
    const uint32_t i = v->g->order[at], up = v->g->parent[i];
    if (up != TG_NONE && relation[up] >= ITSELF) relation[i] = DESCENDANT;
    if (relation[i]) found[count++] = i;
  }
  if (count == 0) found[count++] = node; /* not in the order: part of a circle */
  for (uint32_t up = v->g->parent[node]; ancestors && up != TG_NONE && relation[up] == UNRELATED;
       up = v->g->parent[up]) {
    relation[up] = ANCESTOR;
    found[count++] = up;
  }
  return count;
}

static bool put_stack(const struct tg__graph_view *v, const struct tg__ask *a, struct tg_table *out) {
  static const char *const words[] = {[ANCESTOR] = "ancestor", [ITSELF] = "itself", [DESCENDANT] = "descendant"};
  const char *with = tg__ask_arg(a, "ancestors");
  const uint32_t slice = event_of(v->t, a), node = slice == TG_NONE ? TG_NONE : node_of(v, slice);
  if (node == TG_NONE) return true;
  uint8_t *relation = tg__alloc((size_t)v->g->count + 1);
  uint32_t *found = tg__alloc(((size_t)v->g->count + 1) * sizeof *found);
  const bool ok = relation && found;
  const size_t count = ok ? relate(v, node, strcmp(with, "0") != 0, relation, found) : 0;
  const bool sorted = ok && tg__sort_index(found, count, sooner, v);
  for (size_t i = 0; sorted && i < count && !out->failed; i++) {
    tg__put_cstr(out, words[relation[found[i]]]);
    put_nodes(v, &(struct batch){&found[i], 1, tg__slice_track(v->t, slice_of(v, found[i]))}, 1, out);
  }
  tg__free(relation);
  tg__free(found);
  return sorted;
}

enum tg_err tg__call_stack(const struct tg__columns *t, const struct tg__ask *a, tg__answer_graph *answer_graph,
                           struct tg_table *out, struct tg_error *e) {
  static const char *const yes_no[] = {"0", "1"};
  size_t ancestors;
  enum tg_err err = check_event(t, a, e);
  if (!err) err = tg__ask_choice(a, "ancestors", yes_no, 2, &ancestors, e);
  if (!err) err = answer_graph(t, a, out, e, put_stack);
  const char *event = tg__ask_arg(a, "event");
  if (!err && out->rows == 0 && (!event || !*event))
    return tg__fail(e, TG_NO_DATA, -1,
                    "the trace holds no operators or device work, of which call_stack takes the longest; record with "
                    "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], or use event=");
  if (!err && out->rows == 0) tg__table_note(out, "this event is in no call stack");
  return err;
}

enum tg_err tg__answer_call_stack(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                  struct tg_error *e) {
  return tg__call_stack(t, a, answer_call_graph, out, e);
}
