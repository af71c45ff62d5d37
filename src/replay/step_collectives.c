/* step_collectives: which operator asked for a collective of a host library, and which gap of a thread waits for it. */
#include "replay/step_collectives.h"
#include "analyze/ranks/comm_names.h"

/* LEAST_DECIDED: gaps behind calls of one name, before a rule is made of them. */
enum { KINDS = 16, LEAST_DECIDED = 2 };

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

/* ---- looks at the thread of the steps ---------------------------------------------------------- */

static bool look_is_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__replay_look *const looks = ctx;
  return looks[a].end_ns != looks[b].end_ns ? looks[a].end_ns < looks[b].end_ns : a < b;
}

void tg__replay_gather_looks(struct tg__replay_graph *g, uint32_t main) {
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
      g->looks[g->look_count++] = (struct tg__replay_look){
          t->slices.start_ns[i], tg__slice_end(t, i),
          tg__str_eq(doing, TG_STR("lock")) || tg__str_eq(doing, TG_STR("wait")), tg__str_eq(doing, TG_STR("gil"))};
    }
  }
  if (g->look_count && !tg__sort_items((void **)&g->looks, g->look_count, sizeof *g->looks, look_is_before, g->looks))
    g->failed = true;
}

enum seen { NOT_SEEN, SEEN_WORKING, SEEN_WAITING };

/* At the last look in these times; since_ns: how long it was seen waiting before that. */
static enum seen see(const struct tg__replay_graph *g, int64_t at_ns, int64_t end_ns, int64_t *since_ns) {
  size_t low = 0;
  *since_ns = at_ns;
  TG__PARTITION(low, g->look_count, i, g->looks[i].end_ns <= end_ns);
  if (!low || g->looks[low - 1].end_ns <= at_ns) return NOT_SEEN;
  if (!g->looks[low - 1].waits) return SEEN_WORKING;
  while (low > 1 && g->looks[low - 2].waits && g->looks[low - 2].end_ns > at_ns) low--;
  if (g->looks[low - 1].start_ns > at_ns) *since_ns = g->looks[low - 1].start_ns;
  return SEEN_WAITING;
}

/* ---- what ends when ------------------------------------------------------------------------------ */

static bool end_is_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__replay_graph *const g = ctx;
  const struct tg__replay_work *const x = &g->works[g->ended[a].work], *const y = &g->works[g->ended[b].work];
  return x->end_ns != y->end_ns ? x->end_ns < y->end_ns : a < b;
}

void tg__replay_find_ends(struct tg__replay_graph *g, const uint32_t *into) {
  const uint32_t first_track = g->t->ranks[g->rank].first_track;
  size_t first = 0;
  TG__PARTITION(first, g->work_count, i, g->works[i].lane < g->device_lanes);
  if (first == g->work_count) return;
  g->ended = tg__alloc((g->work_count - first) * sizeof *g->ended);
  if (!g->ended) {
    g->failed = true;
    return;
  }
  for (size_t i = first; i < g->work_count; i++) {
    const uint32_t call = g->works[i].call, track = call == TG_NONE ? TG_NONE : tg__slice_track(g->t, call);
    g->ended[g->ended_count++] =
        (struct tg__replay_ended){(uint32_t)i, track == TG_NONE ? TG_NONE : into[track - first_track]};
  }
  g->failed |= !tg__sort_items((void **)&g->ended, g->ended_count, sizeof *g->ended, end_is_before, g);
}

/* ---- places where a thread waits ------------------------------------------------------------------ */

static const struct tg__replay_work *ended_work(const struct tg__replay_graph *g, size_t i) {
  return &g->works[g->ended[i].work];
}

static bool has_asked(const struct tg__replay_graph *g, size_t i, uint32_t root, int64_t ns) {
  return g->ended[i].root == root && ended_work(g, i)->launched_ns < ns;
}

/* What gaps behind calls of one name say. */
struct place {
  uint32_t name, waits, decided;
};
struct places {
  struct tg__map of_name;
  struct place *items;
  size_t count, cap;
};

static struct place *place_named(struct tg__replay_graph *g, struct places *p, uint32_t name) {
  uint32_t *const at = tg__map_slot(&p->of_name, name, TG_NONE);
  if (at && *at != TG_NONE) return &p->items[*at];
  if (!at || !tg__grow(&p->items, &p->cap, p->count + 1, sizeof *p->items)) {
    g->failed = true;
    return NULL;
  }
  *at = (uint32_t)p->count;
  p->items[p->count] = (struct place){name, 0, 0};
  return &p->items[p->count++];
}

/* A gap in which a collective ends that the thread asked for before: does the thread wait for it? */
static void judge_gap(struct tg__replay_graph *g, struct places *p, const struct tg__replay_gap *gap, size_t *next) {
  size_t last = SIZE_MAX;
  int64_t since_ns;
  for (; *next < g->ended_count && ended_work(g, *next)->end_ns <= gap->end_ns; ++*next)
    if (ended_work(g, *next)->end_ns > gap->start_ns && has_asked(g, *next, gap->root, gap->start_ns)) last = *next;
  if (last == SIZE_MAX || gap->name == TG_NONE) return;
  const int64_t ended_ns = ended_work(g, last)->end_ns;
  const enum seen seen = gap->is_main ? see(g, gap->start_ns, ended_ns, &since_ns) : NOT_SEEN;
  const bool goes_on = gap->end_ns - ended_ns <= TG__REPLAY_LONG_GAP_NS;
  struct place *const place = seen == NOT_SEEN && !goes_on ? NULL : place_named(g, p, gap->name);
  if (!place) return;
  place->decided++;
  place->waits += seen != SEEN_WORKING;
}

void tg__replay_find_places(struct tg__replay_graph *g, const uint32_t *slices, size_t count, uint32_t root,
                            bool is_main) {
  struct places p = {0};
  struct tg__replay_gap gap = {g->start_ns, g->start_ns, TG_NONE, root, is_main};
  size_t next = 0;
  if (!g->ended_count) return;
  for (size_t i = 0; i < count && !g->failed; i++) {
    if (!tg__replay_is_call(g->t, slices[i])) continue;
    gap.end_ns = g->t->slices.start_ns[slices[i]];
    if (gap.end_ns > gap.start_ns) judge_gap(g, &p, &gap, &next);
    gap.name = g->t->slices.name[slices[i]];
    if (tg__slice_end(g->t, slices[i]) > gap.start_ns) gap.start_ns = tg__slice_end(g->t, slices[i]);
  }
  for (size_t i = 0; i < p.count; i++)
    if (p.items[i].decided >= LEAST_DECIDED && 2 * p.items[i].waits > p.items[i].decided)
      g->names[p.items[i].name] |= TG__REPLAY_NAME_AWAITS;
  tg__map_free(&p.of_name);
  tg__free(p.items);
}

/* ---- waits -------------------------------------------------------------------------------------- */

bool tg__replay_awaits(struct tg__replay_awaiting *a, const struct tg__replay_graph *g, int64_t to_ns,
                       struct tg__replay_gap *gap) {
  size_t last = SIZE_MAX;
  if (a->call == TG_NONE || !(g->names[g->t->slices.name[a->call]] & TG__REPLAY_NAME_AWAITS)) return false;
  for (; a->next < g->ended_count && ended_work(g, a->next)->end_ns <= to_ns; a->next++) {
    const struct tg__replay_work *const w = ended_work(g, a->next);
    if (!has_asked(g, a->next, a->root, gap->start_ns)) continue;
    if (w->end_ns > gap->start_ns || w->call == a->call) last = a->next;
  }
  if (last == SIZE_MAX) return false;
  a->last = last;
  gap->end_ns = ended_work(g, last)->end_ns;
  if (gap->end_ns < gap->start_ns) gap->end_ns = gap->start_ns;
  if (gap->is_main && see(g, gap->start_ns, gap->end_ns, &gap->start_ns) == SEEN_WORKING) return false;
  return true;
}

void tg__replay_bind_awaited(struct tg__replay_awaiting *a, struct tg__replay_graph *g, uint32_t node) {
  const int64_t end_ns = g->nodes[node].start_ns + g->nodes[node].dur_ns;
  for (; a->unbound <= a->last && !g->failed; a->unbound++) {
    if (!has_asked(g, a->unbound, a->root, end_ns)) continue;
    if (tg__grow(&g->awaits, &g->await_cap, g->await_count + 1, sizeof *g->awaits))
      g->awaits[g->await_count++] = (struct tg__replay_await){node, g->ended[a->unbound].work};
    else
      g->failed = true;
  }
}
