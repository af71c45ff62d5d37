/* step_collectives: which operator asked for a collective of a host library, and which gap of a thread waits for it. */
#include "replay/step_collectives.h"
#include "analyze/ranks/comm_names.h"

enum { KINDS = 16 };

struct asked {
  uint32_t slice;
  int64_t ns;
  struct tg__str kind;
};
struct list {
  struct asked *items; /* by time */
  size_t count, cap;
};
struct queue { /* of one kind: the library takes the requests in order */
  struct tg__str kind;
  size_t next; /* request */
};
struct gathering {
  struct tg__replay_graph *g;
  struct list requests, spans;
  struct queue queues[KINDS];
  size_t queue_count;
  int64_t *lane_end_ns; /* by lane: the end of its last span */
  uint32_t first_lane;
};

/* ---- requests and what the library does ---------------------------------------------------------- */

static void add_to(struct gathering *c, struct list *l, uint32_t slice) {
  const struct tg__columns *const t = c->g->t;
  char peers[24];
  if (!tg__grow(&l->items, &l->cap, l->count + 1, sizeof *l->items)) {
    c->g->failed = true;
    return;
  }
  l->items[l->count++] =
      (struct asked){slice, t->slices.start_ns[slice], tg__comm_kind(tg__name(t, t->slices.name[slice]), peers)};
}

static bool has_meaning(struct tg__replay_graph *g, uint32_t slice, unsigned meaning) {
  return tg__replay_name(g, g->t->slices.name[slice]) & meaning;
}

/* A thread of the library has nothing but its collectives. */
static bool is_of_library(struct tg__replay_graph *g, const struct tg__track *track) {
  TG__EACH (i, tg__slices_of(track))
    if (!has_meaning(g, i, TG__REPLAY_NAME_HOST_COLLECTIVE)) return false;
  return track->count > 0 && track->kind != TG__TRACK_DEVICE;
}

/* The outermost operator that asks, unless another library takes the order inside. */
static bool asks(struct tg__replay_graph *g, const struct tg__track *track, uint32_t slice) {
  const struct tg__slices *const s = &g->t->slices;
  if (!has_meaning(g, slice, TG__REPLAY_NAME_REQUEST)) return false;
  for (uint32_t up = s->parent[slice]; up != TG_NONE; up = s->parent[up])
    if (has_meaning(g, up, TG__REPLAY_NAME_REQUEST)) return false;
  for (uint32_t i = slice + 1; i < track->first + track->count && s->start_ns[i] < tg__slice_end(g->t, slice); i++)
    if (tg__name_is_collective_call(tg__name(g->t, s->name[i]))) return false;
  return true;
}

static void gather_track(struct gathering *c, uint32_t track) {
  struct tg__replay_graph *const g = c->g;
  const struct tg__track *const k = &g->t->tracks[track];
  const bool is_library = is_of_library(g, k);
  if (k->kind == TG__TRACK_DEVICE) return;
  TG__EACH (i, tg__slices_of(k))
    if (is_library ? g->t->slices.parent[i] == TG_NONE : asks(g, k, i))
      add_to(c, is_library ? &c->spans : &c->requests, i);
}

static bool asked_is_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct asked *const x = (const struct asked *)ctx + a, *const y = (const struct asked *)ctx + b;
  return x->ns != y->ns ? x->ns < y->ns : x->slice < y->slice;
}

static bool sort_list(struct list *l) {
  return !l->count || tg__sort_items((void **)&l->items, l->count, sizeof *l->items, asked_is_before, l->items);
}

/* The operator that asked for it: the first of its kind that no collective before it was for; TG_NONE. */
static uint32_t request_of(struct gathering *c, const struct asked *span) {
  size_t i = 0;
  while (i < c->queue_count && !tg__str_eq(c->queues[i].kind, span->kind)) i++;
  if (i == KINDS) return TG_NONE;
  struct queue *const q = &c->queues[i];
  if (i == c->queue_count) c->queues[c->queue_count++] = (struct queue){span->kind, 0};
  while (q->next < c->requests.count && !tg__str_eq(c->requests.items[q->next].kind, span->kind)) q->next++;
  if (q->next == c->requests.count || c->requests.items[q->next].ns > span->ns + TG__REPLAY_CLOCK_NS) return TG_NONE;
  return c->requests.items[q->next++].slice;
}

/* ---- lanes ------------------------------------------------------------------------------------- */

/* The library's threads take turns: which of them it was does not matter, only how many work at once. */
static uint32_t free_lane(struct gathering *c, uint32_t track, const struct asked *span) {
  struct tg__replay_graph *const g = c->g;
  uint32_t lane = c->first_lane;
  while (lane < g->lane_count && c->lane_end_ns[lane - c->first_lane] > span->ns) lane++;
  if (lane == g->lane_count) lane = tg__replay_add_lane(g, track, true);
  if (!g->failed) c->lane_end_ns[lane - c->first_lane] = tg__slice_end(g->t, span->slice);
  return lane;
}

static void put_collectives(struct gathering *c) {
  struct tg__replay_graph *const g = c->g;
  for (size_t i = 0; i < c->spans.count && !g->failed; i++) {
    const struct asked *const span = &c->spans.items[i];
    const uint32_t call = request_of(c, span), track = tg__slice_track(g->t, span->slice);
    if (call == TG_NONE) continue;
    const uint32_t lane = free_lane(c, track, span);
    g->lane_of[track - g->t->ranks[g->rank].first_track] = lane;
    g->has_collectives = true;
    tg__replay_add_work(g, span->slice, call, lane);
  }
}

void tg__replay_gather_collectives(struct tg__replay_graph *g) {
  struct gathering c = {.g = g, .first_lane = (uint32_t)g->lane_count};
  TG__EACH (k, tg__tracks_of(&g->t->ranks[g->rank]))
    if (!g->failed) gather_track(&c, k);
  c.lane_end_ns = tg__alloc((c.spans.count + 1) * sizeof *c.lane_end_ns);
  g->failed |= !c.lane_end_ns || !sort_list(&c.requests) || !sort_list(&c.spans);
  if (!g->failed) put_collectives(&c);
  tg__free(c.requests.items);
  tg__free(c.spans.items);
  tg__free(c.lane_end_ns);
}

/* ---- waits of threads --------------------------------------------------------------------------------- */

static bool end_is_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__replay_graph *const g = ctx;
  const struct tg__replay_work *const x = &g->works[g->ended[a]], *const y = &g->works[g->ended[b]];
  return x->end_ns != y->end_ns ? x->end_ns < y->end_ns : a < b;
}

static bool look_is_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__replay_look *const looks = ctx;
  return looks[a].end_ns != looks[b].end_ns ? looks[a].end_ns < looks[b].end_ns : a < b;
}

static void gather_looks(struct tg__replay_graph *g, uint32_t main) {
  const struct tg__columns *const t = g->t;
  size_t cap = 0;
  TG__EACH (k, tg__tracks_of(&t->ranks[g->rank])) {
    if (!tg__track_has_samples(t, &t->tracks[k]) || t->tracks[k].pid != t->tracks[main].pid) continue;
    TG__EACH (i, tg__slices_of(&t->tracks[k])) {
      const struct tg__str doing = tg__name(t, t->slices.name[i]);
      if (tg__slice_class(t, i) != TG__CLASS_SAMPLE || !t->slices.dur_ns[i] ||
          tg__arg_int(t, t->slices.args[i], TG__K_SAMPLED_THREAD, 0))
        continue;
      if (!tg__grow(&g->looks, &cap, g->look_count + 1, sizeof *g->looks)) {
        g->failed = true;
        return;
      }
      g->looks[g->look_count++] =
          (struct tg__replay_look){t->slices.start_ns[i], tg__slice_end(t, i),
                                   tg__str_eq(doing, TG_STR("lock")) || tg__str_eq(doing, TG_STR("wait"))};
    }
  }
  if (g->look_count && !tg__sort_items((void **)&g->looks, g->look_count, sizeof *g->looks, look_is_before, g->looks))
    g->failed = true;
}

void tg__replay_find_ends(struct tg__replay_graph *g, uint32_t main) {
  for (uint32_t i = 0; i < g->work_count; i++) g->ended_count += g->works[i].lane >= g->device_lanes;
  if (!g->ended_count) return;
  g->ended = tg__alloc(g->ended_count * sizeof *g->ended);
  if (!g->ended) {
    g->failed = true;
    return;
  }
  for (uint32_t i = 0; i < g->ended_count; i++) g->ended[i] = (uint32_t)(g->work_count - g->ended_count) + i;
  uint32_t *const order = tg__order_new(g->ended_count, end_is_before, g);
  for (uint32_t i = 0; order && i < g->ended_count; i++) order[i] += (uint32_t)(g->work_count - g->ended_count);
  tg__free(g->ended);
  g->ended = order;
  if (order)
    gather_looks(g, main);
  else
    g->failed = true;
}

/* Did this thread ask for it, before ns? */
static bool has_asked(const struct tg__replay_graph *g, const struct tg__replay_work *w, uint32_t lane, int64_t ns) {
  const uint32_t node = w->call == TG_NONE ? TG_NONE : g->node_of[w->call - g->slices.first];
  return node < g->node_count && g->nodes[node].lane == lane && w->launched_ns < ns;
}

/* Looks at the thread of the steps from at_ns to end_ns: is it waiting at the last, and since when? false: it works;
 * *is_seen false: no look. */
static bool is_waiting(const struct tg__replay_graph *g, int64_t at_ns, int64_t end_ns, int64_t *since_ns,
                       bool *is_seen) {
  size_t low = 0;
  TG__PARTITION(low, g->look_count, i, g->looks[i].end_ns <= end_ns);
  *is_seen = low && g->looks[low - 1].end_ns > at_ns;
  if (!*is_seen || !g->looks[low - 1].waits) return false;
  while (low > 1 && g->looks[low - 2].waits && g->looks[low - 2].end_ns > at_ns) low--;
  *since_ns = g->looks[low - 1].start_ns > at_ns ? g->looks[low - 1].start_ns : at_ns;
  return true;
}

bool tg__replay_awaits(struct tg__replay_awaiting *a, const struct tg__replay_graph *g, uint32_t lane, int64_t at_ns,
                       int64_t to_ns, struct tg__replay_stretch *out) {
  size_t past;
  while (a->next < g->ended_count && g->works[g->ended[a->next]].end_ns <= at_ns) a->next++;
  for (past = a->next; past < g->ended_count && g->works[g->ended[past]].end_ns <= to_ns;) past++;
  for (size_t i = past; i-- > a->next;) {
    const struct tg__replay_work *const w = &g->works[g->ended[i]];
    bool is_seen = false;
    if (!has_asked(g, w, lane, at_ns)) continue;
    *out = (struct tg__replay_stretch){at_ns, w->end_ns, i};
    if (lane == g->main_lane && is_waiting(g, at_ns, w->end_ns, &out->from_ns, &is_seen)) return true;
    if (!is_seen && to_ns - w->end_ns <= TG__REPLAY_LONG_GAP_NS) return true;
  }
  return false;
}

void tg__replay_bind_awaited(struct tg__replay_awaiting *a, struct tg__replay_graph *g, uint32_t node,
                             const struct tg__replay_stretch *s) {
  const struct tg__replay_node *const n = &g->nodes[node];
  for (; a->unbound <= s->last && !g->failed; a->unbound++) {
    if (!has_asked(g, &g->works[g->ended[a->unbound]], n->lane, n->start_ns + n->dur_ns)) continue;
    if (tg__grow(&g->awaits, &g->await_cap, g->await_count + 1, sizeof *g->awaits))
      g->awaits[g->await_count++] = (struct tg__replay_await){node, g->ended[a->unbound]};
    else
      g->failed = true;
  }
}
