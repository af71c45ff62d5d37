/* step_handover: which place of which thread ends the waits of another one. */
#include "replay/step_handover.h"
#include "replay/step_collectives.h"

/* ONE_OF: so many may differ. most_tried: comparisons, half a second of them; beyond it nothing more is known. */
enum { ONE_OF = 10, LEAST_WAITS = TG__REPLAY_LEAST_STEPS };
static const uint64_t most_tried = 200000000;

struct stop { /* between two calls */
  int64_t start_ns, end_ns;
  uint32_t place, index; /* index: among those of the place, from 0 */
};
struct waiting {
  uint32_t slice, place, index; /* of the stop that it is in */
  bool is_bound;
};
struct thread {
  uint32_t root;
  struct stop *stops; /* by time */
  size_t count, cap;
  struct tg__map places; /* names of both calls → number of the place */
  struct waiting *waits; /* by time */
  size_t wait_count, wait_cap;
};
struct tg__replay_places {
  struct thread *threads;
  size_t count, cap;
  uint64_t tried;
};
struct tried {   /* a place of the other thread, against the waits of one place */
  uint32_t seen; /* times so far */
  int64_t last_ns, last_end_ns;
  int64_t lead; /* so many times more than the waiting thread came to its own place */
  size_t differs;
  double far_ns; /* from there to the ends of the waits, in all */
};
struct found {
  size_t thread;
  uint32_t place;
  int64_t lead;
  double far_ns;
};

/* ---- gathering --------------------------------------------------------------------------------- */

static void add_stop(struct tg__replay_graph *g, struct thread *k, uint32_t before, uint32_t slice, int64_t from_ns) {
  const struct tg__columns *const t = g->t;
  const uint64_t names = (uint64_t)t->slices.name[before] << 32 | t->slices.name[slice];
  const uint32_t fresh = (uint32_t)k->places.count, *const place = tg__map_slot(&k->places, names, fresh);
  if (!place || !tg__grow(&k->stops, &k->cap, k->count + 1, sizeof *k->stops)) {
    g->failed = true;
    return;
  }
  k->stops[k->count++] = (struct stop){from_ns, t->slices.start_ns[slice], *place, 0};
}

/* A wait of its own, not one inside another or in a loader that takes a batch from its processes. */
static bool is_wait(struct tg__replay_graph *g, uint32_t slice) {
  const struct tg__columns *const t = g->t;
  if (!(tg__replay_name(g, t->slices.name[slice]) & TG__REPLAY_NAME_HANDED)) return false;
  for (uint32_t up = t->slices.parent[slice]; up != TG_NONE; up = t->slices.parent[up])
    if (tg__replay_name(g, t->slices.name[up]) & (TG__REPLAY_NAME_IDLE | TG__REPLAY_NAME_WORKERS)) return false;
  return true;
}

static void add_waiting(struct tg__replay_graph *g, struct thread *k, uint32_t slice) {
  if (tg__grow(&k->waits, &k->wait_cap, k->wait_count + 1, sizeof *k->waits))
    k->waits[k->wait_count++] = (struct waiting){slice, TG_NONE, 0, false};
  else
    g->failed = true;
}

/* Numbers the stops of each place, and finds those of the waits. */
static void number_stops(struct tg__replay_graph *g, struct thread *k) {
  const struct tg__columns *const t = g->t;
  uint32_t *const seen = tg__alloc((k->places.count + 1) * sizeof *seen);
  size_t next = 0;
  if (!seen) {
    g->failed = true;
    return;
  }
  for (size_t i = 0; i < k->count; i++) {
    struct stop *const s = &k->stops[i];
    s->index = seen[s->place]++;
    while (next < k->wait_count && t->slices.start_ns[k->waits[next].slice] < s->start_ns) next++;
    for (; next < k->wait_count && tg__slice_end(t, k->waits[next].slice) <= s->end_ns; next++) {
      k->waits[next].place = s->place;
      k->waits[next].index = s->index;
    }
  }
  tg__free(seen);
}

void tg__replay_add_places(struct tg__replay_graph *g, const uint32_t *slices, size_t count, uint32_t root) {
  const struct tg__columns *const t = g->t;
  int64_t busy_ns = INT64_MIN;
  uint32_t before = TG_NONE;
  if (!g->places) g->places = tg__alloc(sizeof *g->places);
  struct tg__replay_places *const p = g->places;
  if (!p || !tg__grow(&p->threads, &p->cap, p->count + 1, sizeof *p->threads)) {
    g->failed = true;
    return;
  }
  struct thread *const k = &p->threads[p->count++];
  *k = (struct thread){.root = root};
  for (size_t i = 0; i < count && !g->failed; i++) {
    const uint32_t slice = slices[i];
    if (is_wait(g, slice)) add_waiting(g, k, slice);
    if (!tg__replay_is_call(t, slice) || t->slices.start_ns[slice] < busy_ns) continue;
    if (before != TG_NONE && t->slices.start_ns[slice] > busy_ns) add_stop(g, k, before, slice, busy_ns);
    before = slice;
    busy_ns = tg__slice_end(t, slice);
  }
  if (!g->failed) number_stops(g, k);
}

void tg__replay_free_places(struct tg__replay_graph *g) {
  for (size_t i = 0; g->places && i < g->places->count; i++) {
    tg__free(g->places->threads[i].stops);
    tg__free(g->places->threads[i].waits);
    tg__map_free(&g->places->threads[i].places);
  }
  if (g->places) tg__free(g->places->threads);
  tg__free(g->places);
  g->places = NULL;
}

/* ---- proof ------------------------------------------------------------------------------------- */

/* A wait that something ended: longer than what a call of it takes. */
static bool is_long(const struct tg__columns *t, const struct waiting *w) {
  return t->slices.dur_ns[w->slice] > TG__REPLAY_LONG_GAP_NS;
}

static void try_wait(const struct tg__columns *t, struct tried *tried, size_t places, const struct waiting *w,
                     bool is_first) {
  const int64_t start_ns = t->slices.start_ns[w->slice], end_ns = tg__slice_end(t, w->slice);
  for (size_t q = 0; q < places; q++) {
    struct tried *const x = &tried[q];
    const int64_t lead = (int64_t)x->seen - 1 - (int64_t)w->index;
    if (is_first) x->lead = lead;
    x->differs += !x->seen || lead != x->lead || x->last_end_ns < start_ns;
    if (x->seen) x->far_ns += (double)(end_ns - x->last_ns);
  }
}

/* The place of `other` that it always came to as often as the waits of `place` say, the last one before they end. */
static bool find_place(struct tg__replay_graph *g, const struct thread *k, uint32_t place, const struct thread *other,
                       struct found *out) {
  const size_t places = other->places.count;
  struct tried *const tried = tg__alloc((places + 1) * sizeof *tried);
  const int64_t last_ns = other->count ? other->stops[other->count - 1].end_ns : INT64_MIN;
  size_t at = 0, waits = 0;
  bool is_found = false;
  if (!tried) g->failed = true;
  for (size_t i = 0; tried && i < k->wait_count; i++) {
    const struct waiting *const w = &k->waits[i];
    if (w->place != place || !is_long(g->t, w) || tg__slice_end(g->t, w->slice) > last_ns) continue;
    for (; at < other->count && other->stops[at].start_ns <= tg__slice_end(g->t, w->slice); at++) {
      tried[other->stops[at].place].seen++;
      tried[other->stops[at].place].last_ns = other->stops[at].start_ns;
      tried[other->stops[at].place].last_end_ns = other->stops[at].end_ns;
    }
    try_wait(g->t, tried, places, w, waits++ == 0);
  }
  for (uint32_t q = 0; tried && waits >= LEAST_WAITS && q < places; q++) {
    if (tried[q].differs * ONE_OF > waits || (is_found && tried[q].far_ns >= out->far_ns)) continue;
    is_found = true;
    out->place = q;
    out->lead = tried[q].lead;
    out->far_ns = tried[q].far_ns;
  }
  tg__free(tried);
  return is_found;
}

static void bind_wait(struct tg__replay_graph *g, struct waiting *w, const struct thread *other, int64_t ns) {
  if (!tg__grow(&g->handovers, &g->handover_cap, g->handover_count + 1, sizeof *g->handovers)) {
    g->failed = true;
    return;
  }
  g->handovers[g->handover_count++] = (struct tg__replay_handover){w->slice, other->root, TG_NONE, ns};
  w->is_bound = true;
}

/* The n-th wait of a place is for the n-th time that the other thread came to its own, but for the lead. */
static void bind_waits(struct tg__replay_graph *g, struct thread *k, uint32_t place, const struct found *f) {
  const struct thread *const other = &g->places->threads[f->thread];
  size_t at = 0;
  for (size_t i = 0; i < k->wait_count && !g->failed; i++) {
    struct waiting *const w = &k->waits[i];
    if (w->place != place) continue;
    while (at < other->count &&
           (other->stops[at].place != f->place || (int64_t)other->stops[at].index < (int64_t)w->index + f->lead))
      at++;
    if (at < other->count && other->stops[at].index == (int64_t)w->index + f->lead &&
        other->stops[at].start_ns <= tg__slice_end(g->t, w->slice))
      bind_wait(g, w, other, other->stops[at].start_ns);
  }
}

/* waits: of this place. */
static void try_place(struct tg__replay_graph *g, size_t thread, uint32_t place, uint32_t waits) {
  struct tg__replay_places *const p = g->places;
  struct thread *const k = &p->threads[thread];
  struct found best = {0}, other;
  size_t found = 0;
  for (size_t i = 0; i < p->count && !g->failed; i++) {
    const struct thread *const o = &p->threads[i];
    if (i == thread) continue;
    p->tried += k->wait_count + o->count + ((uint64_t)waits + 1) * o->places.count;
    if (p->tried > most_tried) return;
    if (!find_place(g, k, place, o, &other)) continue;
    best = other;
    best.thread = i;
    found++;
  }
  if (found == 1 && !g->failed) bind_waits(g, k, place, &best);
}

static void try_thread(struct tg__replay_graph *g, size_t thread) {
  const struct thread *const k = &g->places->threads[thread];
  uint32_t *const waits = k->wait_count ? tg__alloc((k->places.count + 1) * sizeof *waits) : NULL;
  g->failed |= k->wait_count && !waits;
  for (size_t i = 0; waits && i < k->wait_count; i++)
    if (k->waits[i].place != TG_NONE) waits[k->waits[i].place] += is_long(g->t, &k->waits[i]);
  for (uint32_t place = 0; waits && place < k->places.count && !g->failed; place++)
    if (waits[place] >= LEAST_WAITS) try_place(g, thread, place, waits[place]);
  tg__free(waits);
}

/* ---- all of them ---------------------------------------------------------------------------------- */

static bool handover_is_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__replay_handover *const h = ctx;
  return h[a].wait < h[b].wait;
}

/* A thread that waits for something unknown may wait for the one that waits for it: then neither is known. */
static bool has_unbound_waits(const struct tg__replay_graph *g, const struct thread *k) {
  int64_t unbound_ns = 0;
  for (size_t w = 0; w < k->wait_count; w++)
    if (!k->waits[w].is_bound) unbound_ns += g->t->slices.dur_ns[k->waits[w].slice];
  return unbound_ns > (g->end_ns - g->start_ns) / ONE_OF;
}

static void drop_handovers_of(struct tg__replay_graph *g, uint32_t root) {
  size_t kept = 0;
  for (size_t i = 0; i < g->handover_count; i++)
    if (g->handovers[i].root != root) g->handovers[kept++] = g->handovers[i];
  g->handover_count = kept;
}

static void drop_unsure(struct tg__replay_graph *g) {
  for (size_t i = 0; i < g->places->count; i++)
    if (has_unbound_waits(g, &g->places->threads[i])) drop_handovers_of(g, g->places->threads[i].root);
}

void tg__replay_find_handovers(struct tg__replay_graph *g) {
  struct tg__replay_places *const p = g->places;
  for (size_t i = 0; p && i < p->count && !g->failed; i++) try_thread(g, i);
  if (!g->failed && g->handover_count) drop_unsure(g);
  g->failed |= g->handover_count && !tg__sort_items((void **)&g->handovers, g->handover_count, sizeof *g->handovers,
                                                    handover_is_before, g->handovers);
}

struct tg__replay_handover *tg__replay_handover_of(const struct tg__replay_graph *g, uint32_t slice) {
  size_t low = 0;
  TG__PARTITION(low, g->handover_count, i, g->handovers[i].wait < slice);
  return low < g->handover_count && g->handovers[low].wait == slice ? &g->handovers[low] : NULL;
}

void tg__replay_add_handover_edges(struct tg__replay_graph *g) {
  for (size_t i = 0; i < g->handover_count; i++) {
    const struct tg__replay_handover *const h = &g->handovers[i];
    const uint32_t lane = g->lane_of[h->root];
    if (h->node == TG_NONE || lane == TG_NONE) continue;
    uint32_t low = g->lanes[lane].first;
    TG__PARTITION(low, g->lanes[lane].past, k, g->nodes[k].start_ns < h->ns);
    if (low == g->lanes[lane].first) continue;
    tg__replay_add_edge(g, (struct tg__replay_edge){0, low - 1, h->node, false});
    g->lanes[lane].is_tied = g->lanes[g->nodes[h->node].lane].is_tied = true;
  }
}

/* ---- waits that nothing proves ---------------------------------------------------------------------- */

static int64_t seen_waiting_ns(const struct tg__replay_graph *g, int64_t start_ns, int64_t end_ns) {
  int64_t sum_ns = 0;
  size_t low = 0;
  TG__PARTITION(low, g->look_count, i, g->looks[i].end_ns <= start_ns);
  for (; low < g->look_count && g->looks[low].start_ns < end_ns; low++) {
    const struct tg__replay_look *const l = &g->looks[low];
    const int64_t from_ns = l->start_ns > start_ns ? l->start_ns : start_ns;
    if (l->waits || l->needs_gil) sum_ns += (l->end_ns < end_ns ? l->end_ns : end_ns) - from_ns;
  }
  return sum_ns;
}

bool tg__replay_is_unbound_wait(const struct tg__replay_graph *g, uint32_t node) {
  const struct tg__replay_node *const n = &g->nodes[node];
  const bool is_call = n->slice != TG_NONE && tg__replay_is_call(g->t, n->slice);
  if (n->lane != g->main_lane || n->dur_ns <= TG__REPLAY_LONG_GAP_NS || is_call) return false;
  if (n->kind != TG__REPLAY_HOST && n->kind != TG__REPLAY_GAP) return false;
  for (uint32_t up = n->slice; up != TG_NONE; up = g->t->slices.parent[up])
    if (tg__replay_handover_of(g, up)) return false;
  if (n->slice != TG_NONE && g->names[g->t->slices.name[n->slice]] & TG__REPLAY_NAME_IDLE) return true;
  return 2 * seen_waiting_ns(g, n->start_ns, n->start_ns + n->dur_ns) > n->dur_ns;
}
