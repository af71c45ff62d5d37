/* step_events: when each event of the steps happens with a change in them.
 *
 * A slice of a thread begins with its first node and ends where its last one does. Events that are not nodes keep their
 * place on their thread. A thread that the model ties to nothing keeps its place beside the thread of the steps.
 * Work of devices has nodes of its own; spans on streams hold the work that they held. */
#include "replay/step_change.h"

struct placing {
  const struct tg__changed_steps *c;
  const struct tg__replay_graph *g;
  const struct tg__columns *t;
  struct tg__placed *out;
  bool *is_tied; /* by lane: it waits for another, or another for it */
};

/* ---- times ----------------------------------------------------------------------------------- */

/* The last node of a lane that began before ns; TG_NONE. */
static uint32_t node_before(const struct tg__replay_graph *g, uint32_t lane, int64_t ns) {
  uint32_t low = g->lanes[lane].first;
  const uint32_t first = low, past = g->lanes[lane].past;
  TG__PARTITION(low, past, i, g->nodes[i].start_ns < ns);
  return low > first ? low - 1 : TG_NONE;
}

/* Where the instant ns of a lane is with the change: in proportion inside a node, and behind the last node as far from
 * its end as recorded. */
static int64_t moved_ns(const struct placing *p, uint32_t lane, int64_t ns) {
  const struct tg__replay_graph *const g = p->g;
  const uint32_t node = node_before(g, lane, ns);
  if (node == TG_NONE) return g->start_ns;
  const struct tg__replay_node *const n = &g->nodes[node];
  const int64_t begin_ns = p->c->times->begin_ns[node], end_ns = p->c->times->end_ns[node], in_ns = ns - n->start_ns;
  if (in_ns >= n->dur_ns) return end_ns + (in_ns - n->dur_ns);
  return begin_ns + (int64_t)((__int128)in_ns * (end_ns - begin_ns) / n->dur_ns);
}

/* The lane that says where the events of a track are. */
static uint32_t lane_of_track(const struct placing *p, uint32_t track) {
  const uint32_t lane = p->g->lane_of[track - p->t->ranks[p->g->rank].first_track];
  return lane != TG_NONE && p->is_tied[lane] ? lane : p->g->main_lane;
}

static void find_ties(struct placing *p) {
  const struct tg__replay_graph *const g = p->g;
  p->is_tied[g->main_lane] = true;
  for (size_t i = 0; i < g->edge_count; i++) {
    p->is_tied[g->nodes[g->edges[i].from].lane] = true;
    p->is_tied[g->nodes[g->edges[i].to].lane] = true;
  }
  for (size_t i = 0; i < g->node_count; i++) /* what it does itself has changed */
    if (g->nodes[i].kind == TG__REPLAY_HOST && p->c->dur_ns[i] != g->nodes[i].dur_ns)
      p->is_tied[g->nodes[i].lane] = true;
}

/* ---- slices ---------------------------------------------------------------------------------- */

static void keep_slice(const struct placing *p, uint32_t slice, int64_t start_ns, int64_t end_ns) {
  const uint32_t i = slice - p->g->slices.first;
  p->out->state[i] = TG__PLACED_KEPT;
  p->out->start_ns[i] = start_ns;
  p->out->end_ns[i] = end_ns;
  if (p->out->end_ns[i] < p->out->start_ns[i]) p->out->end_ns[i] = p->out->start_ns[i];
}

static int64_t begin_of_slice(const struct placing *p, uint32_t slice, uint32_t lane) {
  const struct tg__replay_graph *const g = p->g;
  const int64_t own_ns = p->t->slices.start_ns[slice], start_ns = own_ns > g->start_ns ? own_ns : g->start_ns;
  const uint32_t node = g->node_of[slice - g->slices.first];
  const bool has_node = node < g->node_count && g->nodes[node].lane == lane && g->nodes[node].start_ns == start_ns &&
                        p->t->slices.dur_ns[slice] > 0;
  return has_node ? p->c->times->begin_ns[node] : moved_ns(p, lane, start_ns);
}

/* A slice around the steps is cut to them. */
static void place_host(const struct placing *p, uint32_t slice, uint32_t lane) {
  const struct tg__replay_graph *const g = p->g;
  const int64_t end_ns = tg__slice_end(p->t, slice);
  if (p->out->state[slice - g->slices.first] != TG__PLACED_OUTSIDE) return; /* it is a work */
  if (p->t->slices.start_ns[slice] >= g->end_ns || end_ns <= g->start_ns) return;
  if (p->c->is_removed[slice - g->slices.first])
    p->out->state[slice - g->slices.first] = TG__PLACED_REMOVED;
  else
    keep_slice(p, slice, begin_of_slice(p, slice, lane), moved_ns(p, lane, end_ns < g->end_ns ? end_ns : g->end_ns));
}

/* Inside the one around it, which comes first. */
static void fit_into_parent(const struct placing *p, uint32_t slice) {
  const struct tg__placed *const o = p->out;
  const uint32_t first = p->g->slices.first, parent = p->t->slices.parent[slice];
  if (parent == TG_NONE || o->state[slice - first] != TG__PLACED_KEPT || o->state[parent - first] != TG__PLACED_KEPT)
    return;
  int64_t *const start = &o->start_ns[slice - first], *const end = &o->end_ns[slice - first];
  const int64_t from_ns = o->start_ns[parent - first], to_ns = o->end_ns[parent - first];
  *start = *start < from_ns ? from_ns : *start > to_ns ? to_ns : *start;
  *end = *end < *start ? *start : *end > to_ns ? to_ns : *end;
}

static void place_works(const struct placing *p) {
  const struct tg__replay_graph *const g = p->g;
  for (size_t i = 0; i < g->work_count; i++) {
    const struct tg__replay_work *const w = &g->works[i];
    const uint32_t call = p->t->slices.cause[w->slice];
    const bool is_older = w->call == TG_NONE && call >= g->slices.first && call < g->slices.past &&
                          p->t->slices.start_ns[call] < g->start_ns; /* of a step before the first */
    if (p->c->is_removed[w->slice - g->slices.first])
      p->out->state[w->slice - g->slices.first] = TG__PLACED_REMOVED;
    else if (!is_older)
      keep_slice(p, w->slice, p->c->times->begin_ns[w->node + 1], p->c->times->end_ns[w->node + 1]);
  }
}

static void widen(const struct tg__placed *o, uint32_t at, uint32_t by) {
  if (o->state[by] > o->state[at]) o->state[at] = o->state[by];
  if (o->state[by] != TG__PLACED_KEPT) return;
  if (o->start_ns[by] < o->start_ns[at]) o->start_ns[at] = o->start_ns[by];
  if (o->end_ns[by] > o->end_ns[at]) o->end_ns[at] = o->end_ns[by];
}

/* A span, as the label of work, goes from the first to the last of what it holds, which comes behind it; one that holds
 * nothing is where the thread of the steps was. */
static void place_spans(const struct placing *p, const struct tg__track *track) {
  const struct tg__placed *const o = p->out;
  const uint32_t first = p->g->slices.first;
  TG__EACH (i, tg__slices_of(track)) {
    if (tg__class_is_device_work(tg__slice_class(p->t, i))) continue;
    o->start_ns[i - first] = INT64_MAX;
    o->end_ns[i - first] = INT64_MIN;
  }
  for (uint32_t i = track->first + track->count; i-- > track->first;) {
    const uint32_t parent = p->t->slices.parent[i];
    const bool is_work = tg__class_is_device_work(tg__slice_class(p->t, i));
    const bool holds_work = is_work || o->state[i - first] != TG__PLACED_OUTSIDE;
    if (!holds_work) place_host(p, i, p->g->main_lane);
    if (holds_work && parent != TG_NONE && !tg__class_is_device_work(tg__slice_class(p->t, parent)))
      widen(o, parent - first, i - first);
  }
}

static void place_track(const struct placing *p, uint32_t track) {
  const struct tg__track *const k = &p->t->tracks[track];
  if (k->kind == TG__TRACK_DEVICE) {
    place_spans(p, k);
    return;
  }
  const uint32_t lane = lane_of_track(p, track);
  TG__EACH (i, tg__slices_of(k)) {
    const bool is_inside = p->t->slices.start_ns[i] >= p->g->start_ns && tg__slice_end(p->t, i) <= p->g->end_ns;
    if (k->kind != TG__TRACK_ASYNC || is_inside) place_host(p, i, lane);
  }
}

static void place_steps(const struct placing *p) {
  const struct tg__replay_graph *const g = p->g;
  for (size_t i = 0; i < g->steps.count; i++) {
    const uint32_t slice = p->t->steps[g->steps.steps[i].step].slice;
    p->out->step_ns[2 * i] = tg__replay_step_begin(g, p->c->times, i);
    p->out->step_ns[2 * i + 1] = p->c->times->end_ns[g->step_end[i]];
    if (slice == TG_NONE) continue;
    p->out->state[slice - g->slices.first] = TG__PLACED_KEPT;
    p->out->start_ns[slice - g->slices.first] = p->out->step_ns[2 * i];
    p->out->end_ns[slice - g->slices.first] = p->out->step_ns[2 * i + 1];
  }
}

/* ---- marks ----------------------------------------------------------------------------------- */

/* The innermost slice of a track at ns, those that begin there before those that end there; TG_NONE. */
static uint32_t slice_at(const struct tg__columns *t, const struct tg__track *track, int64_t ns) {
  uint32_t at = tg__first_slice_from(t, tg__slices_of(track), ns + 1);
  at = at > track->first ? at - 1 : TG_NONE;
  while (at != TG_NONE && tg__slice_end(t, at) < ns) at = t->slices.parent[at];
  return at;
}

static bool is_end_of_slice(uint8_t ph) { return ph == 'E' || ph == 'e' || ph == 'F'; }

/* Of a mark that happens in a slice with it; TG_NULL_INT: not at all. The end of a slice is written with it. */
static int64_t place_mark(const struct placing *p, uint32_t mark) {
  const struct tg__replay_graph *const g = p->g;
  const int64_t ns = p->t->marks.ts_ns[mark];
  const uint32_t track = p->t->marks.track[mark];
  const bool is_device = p->t->tracks[track].kind == TG__TRACK_DEVICE;
  if (ns == TG_NULL_INT || ns == INT64_MAX || ns < g->start_ns || (ns > g->end_ns && !is_device)) return TG_NULL_INT;
  if (is_end_of_slice(p->t->marks.ph[mark])) return TG_NULL_INT;
  const uint32_t lane = is_device ? g->main_lane : lane_of_track(p, track);
  const uint32_t slice = slice_at(p->t, &p->t->tracks[track], ns);
  if (slice == TG_NONE) return ns > g->end_ns ? TG_NULL_INT : moved_ns(p, lane, ns);
  if (p->out->state[slice - g->slices.first] != TG__PLACED_KEPT) return TG_NULL_INT;
  const int64_t from_ns = p->out->start_ns[slice - g->slices.first], to_ns = p->out->end_ns[slice - g->slices.first];
  const int64_t in_ns = ns - p->t->slices.start_ns[slice];
  if (in_ns == 0) return from_ns;
  const int64_t at_ns = is_device ? from_ns + in_ns : moved_ns(p, lane, ns);
  return at_ns < from_ns ? from_ns : at_ns > to_ns ? to_ns : at_ns;
}

static bool is_flow(uint8_t ph) { return ph == 's' || ph == 't' || ph == 'f'; }

/* A flow that has lost an end is not written. Marks come by time: what a flow leaves is before what it reaches. */
static bool drop_broken_flows(const struct placing *p, struct tg__extent marks) {
  struct tg__map begun = {0}; /* id and category → mark */
  int64_t *const ns = p->out->mark_ns;
  bool ok = true;
  for (uint32_t i = 0; i < marks.past - marks.first && ok; i++) {
    const uint32_t mark = marks.first + i;
    struct tg__val id;
    if (!is_flow(p->t->marks.ph[mark]) || !tg__arg(p->t, p->t->marks.args[mark], TG__K_ID, true, &id)) continue;
    const int64_t names[3] = {id.kind, id.kind == TG__KIND_INT ? id.i : id.str, p->t->marks.cat[mark]};
    const uint64_t key = tg__hash(names, sizeof names);
    const uint32_t from = p->t->marks.ph[mark] == 's' ? TG_NONE : tg__map_get(&begun, key);
    if (from != TG_NONE && (ns[from] == TG_NULL_INT || ns[i] == TG_NULL_INT)) ns[from] = ns[i] = TG_NULL_INT;
    if (p->t->marks.ph[mark] != 'f') ok = tg__map_put(&begun, key, i);
  }
  tg__map_free(&begun);
  return ok;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static bool place_all(struct placing *p) {
  const struct tg__replay_graph *const g = p->g;
  const struct tg__extent marks = tg__rank_marks(p->t, g->rank);
  find_ties(p);
  place_works(p);
  TG__EACH (k, tg__tracks_of(&p->t->ranks[g->rank])) place_track(p, k);
  place_steps(p);
  TG__EACH (k, tg__tracks_of(&p->t->ranks[g->rank]))
    TG__EACH (i, tg__slices_of(&p->t->tracks[k]))
      if (p->t->tracks[k].kind != TG__TRACK_DEVICE) fit_into_parent(p, i);
  TG__EACH (i, marks) p->out->mark_ns[i - marks.first] = place_mark(p, i);
  return drop_broken_flows(p, marks);
}

bool tg__place_events(const struct tg__changed_steps *c, struct tg__placed *out) {
  const struct tg__replay_graph *const g = c->g;
  const struct tg__extent marks = tg__rank_marks(g->t, g->rank);
  const size_t slices = (size_t)(g->slices.past - g->slices.first) + 1;
  *out = (struct tg__placed){tg__alloc(slices * sizeof *out->state), tg__alloc(slices * sizeof *out->start_ns),
                             tg__alloc(slices * sizeof *out->end_ns),
                             tg__alloc(((size_t)(marks.past - marks.first) + 1) * sizeof *out->mark_ns),
                             tg__alloc((2 * g->steps.count + 1) * sizeof *out->step_ns)};
  struct placing p = {.c = c, .g = g, .t = g->t, .out = out, .is_tied = tg__alloc(g->lane_count * sizeof *p.is_tied)};
  const bool ok =
      out->state && out->start_ns && out->end_ns && out->mark_ns && out->step_ns && p.is_tied && place_all(&p);
  tg__free(p.is_tied);
  if (!ok) tg__placed_free(out);
  return ok;
}

void tg__placed_free(struct tg__placed *p) {
  tg__free(p->state);
  tg__free(p->start_ns);
  tg__free(p->end_ns);
  tg__free(p->mark_ns);
  tg__free(p->step_ns);
  *p = (struct tg__placed){0};
}
