/* The question buckets: what a step sends, in the order in which it asks for it, beside its backward pass. A bucket of
 * DistributedDataParallel is the all_reduce of one backward pass that is asked for at the same place in each step; the
 * gathers and scatters of sharded models come the same way. */
#include "analyze/ranks/buckets.h"
#include "analyze/host/op_tree.h"
#include "analyze/overview/steps.h"
#include "analyze/ranks/comm_calls.h"
#include "analyze/ranks/rank_set.h"

#include <math.h>

static const char *const phase_words[] = {"forward", "backward", "after backward", "no backward"}; /* tg__send_phase */

/* Of one step; begin_ns is TG_NULL_INT where it has no backward pass. */
struct backward {
  int64_t begin_ns, end_ns; /* of its nodes on the host */
  int64_t device_end_ns;    /* of the kernels that they launched, without collectives; TG_NULL_INT: none */
};
struct gathering {
  const struct tg__columns *t;
  uint32_t rank;
  const struct tg__rank_summary *r;
  struct tg__breakdown b;
  struct backward *passes;             /* one a step */
  struct tg__spans on_device, on_host; /* when something is computed there */
  uint8_t *roles;                      /* for tg__comm_is_layer */
  struct tg__bucket *buckets;
  size_t count, cap;
  struct tg__map known; /* phases, kind and place → bucket */
  struct tg__map seen;  /* step, phases and kind → how many of them the step has had */
  bool failed;
};

/* ---- the backward pass of each step ------------------------------------------------------------- */

static struct backward *pass_at(const struct gathering *g, int64_t ns) {
  size_t low = 0;
  TG__PARTITION(low, g->r->step_count, i, g->b.steps[i].host_start_ns <= ns);
  return low > 0 && ns < g->b.steps[low - 1].host_end_ns ? &g->passes[low - 1] : NULL;
}

static bool is_node(const struct gathering *g, uint32_t slice) {
  return tg__slice_class(g->t, slice) == TG__CLASS_OP &&
         tg__name_is_autograd_node(tg__name(g->t, g->t->slices.name[slice]));
}

static void see_node(struct gathering *g, uint32_t slice) {
  const int64_t start = g->t->slices.start_ns[slice], end = tg__slice_end(g->t, slice);
  struct backward *const p = pass_at(g, start);
  if (!p) return;
  if (p->begin_ns == TG_NULL_INT || start < p->begin_ns) p->begin_ns = start;
  if (p->end_ns == TG_NULL_INT || end > p->end_ns) p->end_ns = end;
}

static void see_kernel(struct gathering *g, uint32_t slice) {
  const int64_t end = tg__slice_end(g->t, slice);
  if (tg__name_is_collective_kernel(tg__name(g->t, g->t->slices.name[slice]))) return;
  tg__spans_add(&g->on_device, g->t->slices.start_ns[slice], end);
  uint32_t up = tg__launching_op(g->t, slice);
  while (up != TG_NONE && !is_node(g, up)) up = g->t->slices.parent[up];
  struct backward *const p = up == TG_NONE ? NULL : pass_at(g, g->t->slices.start_ns[up]);
  if (p && (p->device_end_ns == TG_NULL_INT || end > p->device_end_ns)) p->device_end_ns = end;
}

static void gather_work(struct gathering *g) {
  const struct tg__rank *const rank = &g->t->ranks[g->rank];
  for (uint32_t i = 0; i < g->r->step_count; i++)
    g->passes[i] = (struct backward){TG_NULL_INT, TG_NULL_INT, TG_NULL_INT};
  TG__EACH (k, tg__tracks_of(rank)) {
    TG__EACH (i, tg__slices_of(&g->t->tracks[k])) {
      const enum tg__class cls = tg__slice_class(g->t, i);
      if (cls == TG__CLASS_KERNEL) see_kernel(g, i);
      if (cls != TG__CLASS_OP || tg__comm_is_layer(g->t, g->roles, i)) continue;
      tg__spans_add(&g->on_host, g->t->slices.start_ns[i], tg__slice_end(g->t, i));
      if (is_node(g, i)) see_node(g, i);
    }
  }
  tg__spans_union(&g->on_device);
  tg__spans_union(&g->on_host);
  g->failed |= g->on_device.failed || g->on_host.failed;
}

/* ---- buckets ------------------------------------------------------------------------------------ */

static enum tg__send_phase phase_of(const struct backward *p, int64_t asked_ns) {
  if (p->begin_ns == TG_NULL_INT) return TG__SEND_NO_BACKWARD;
  return asked_ns < p->begin_ns ? TG__SEND_FORWARD : asked_ns < p->end_ns ? TG__SEND_BACKWARD : TG__SEND_AFTER;
}

/* A thread without a core asks for a bucket behind the pass in one step and inside it in the others: it has one row. */
static enum tg__send_phase counted_with(enum tg__send_phase phase) {
  return phase == TG__SEND_AFTER ? TG__SEND_BACKWARD : phase;
}

/* The row of the `place`-th collective of this kind in these phases. */
static struct tg__bucket *bucket_at(struct gathering *g, const struct tg__bucket *like) {
  const int64_t key[3] = {counted_with(like->phase), like->kind, like->place};
  uint32_t *const at = tg__map_slot(&g->known, tg__hash(key, sizeof key), TG_NONE);
  if (!at) return NULL;
  if (*at == TG_NONE) {
    if (!tg__grow((void **)&g->buckets, &g->cap, g->count + 1, sizeof *g->buckets)) return NULL;
    *at = (uint32_t)g->count;
    g->buckets[g->count++] = *like;
  }
  return &g->buckets[*at];
}

static void add_collective(struct gathering *g, const struct tg__sum_collective *c) {
  const struct backward *const p = &g->passes[c->step];
  const int64_t asked = c->call_ns == TG_NULL_INT ? c->start_ns : c->call_ns, dur = c->end_ns - c->start_ns;
  const int64_t end = c->on_device && p->device_end_ns != TG_NULL_INT ? p->device_end_ns : p->end_ns;
  struct tg__bucket like = {.phase = phase_of(p, asked), .kind = c->kind};
  const int64_t key[3] = {c->step, counted_with(like.phase), like.kind};
  uint32_t *const nth = tg__map_slot(&g->seen, tg__hash(key, sizeof key), 0);
  like.place = nth ? ++*nth : 0;
  struct tg__bucket *const b = nth ? bucket_at(g, &like) : NULL;
  g->failed |= !b;
  if (!b) return;
  b->steps++;
  b->steps_after += like.phase == TG__SEND_AFTER;
  b->dur_ns += dur;
  b->exposed_ns += dur - tg__spans_inside(c->on_device ? &g->on_device : &g->on_host, c->start_ns, c->end_ns);
  if (c->bytes >= 0 && !__builtin_add_overflow(b->bytes, c->bytes, &b->bytes)) b->sized++;
  if (like.phase == TG__SEND_NO_BACKWARD) return;
  b->asked_ns += asked - p->begin_ns;
  b->start_ns += c->start_ns - p->begin_ns;
  b->to_end_ns += end - c->start_ns;
}

/* By the order of a step: phase, then when it is asked for. */
static bool is_asked_earlier(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__bucket *const x = (const struct tg__bucket *)ctx + a, *const y = (const struct tg__bucket *)ctx + b;
  const double asked = (double)x->asked_ns / (double)x->steps, other = (double)y->asked_ns / (double)y->steps;
  return x->phase != y->phase ? x->phase < y->phase : asked != other ? asked < other : a < b;
}

static void gather_buckets(struct gathering *g) {
  g->failed = tg__steps_breakdown(g->t, g->rank, TG__STEPS_DETECTED, &g->b) != TG_OK;
  g->passes = tg__alloc(((size_t)g->r->step_count + 1) * sizeof *g->passes);
  g->roles = tg__alloc((size_t)tg__strings_count(g->t->strings) + 1);
  g->failed |= !g->passes || !g->roles;
  if (!g->failed) gather_work(g);
  for (uint32_t i = 0; i < g->r->collective_count && !g->failed; i++)
    if (g->r->collectives[i].step != TG_NONE) add_collective(g, &g->r->collectives[i]);
  for (size_t i = 0; i < g->count; i++)
    if (counted_with(g->buckets[i].phase) == TG__SEND_BACKWARD)
      g->buckets[i].phase = 2 * g->buckets[i].steps_after > g->buckets[i].steps ? TG__SEND_AFTER : TG__SEND_BACKWARD;
  g->failed |= !tg__sort_items((void **)&g->buckets, g->count, sizeof *g->buckets, is_asked_earlier, g->buckets);
  tg__breakdown_free(&g->b);
  tg__spans_free(&g->on_device);
  tg__spans_free(&g->on_host);
  tg__map_free(&g->known);
  tg__map_free(&g->seen);
  tg__free(g->passes);
  tg__free(g->roles);
}

bool tg__buckets_of(const struct tg__columns *t, uint32_t rank, struct tg__buckets *out) {
  struct gathering g = {.t = t, .rank = rank};
  const struct tg__summaries *s = NULL;
  g.r = tg__rank_summary_of(t, rank, &s);
  if (g.r) gather_buckets(&g);
  *out = (struct tg__buckets){g.buckets, g.count, s ? s->strings : NULL};
  return g.r && !g.failed;
}

void tg__buckets_free(struct tg__buckets *b) {
  tg__free(b->items);
  *b = (struct tg__buckets){0};
}

bool tg__bucket_is_all_reduce(const struct tg__buckets *b, size_t i, enum tg__send_phase phase) {
  return b->items[i].phase == phase && b->items[i].sized &&
         tg__str_eq(tg__strings_get(b->strings, b->items[i].kind), TG_STR("all_reduce"));
}

/* ---- the question ------------------------------------------------------------------------------- */

static void put_buckets(const struct tg__columns *t, uint32_t rank, const struct tg__buckets *all,
                        struct tg_table *out) {
  for (size_t i = 0; i < all->count; i++) {
    const struct tg__bucket *const b = &all->items[i];
    const double steps = (double)b->steps;
    tg__put_rank(out, t, rank);
    tg__put_cstr(out, phase_words[b->phase]);
    tg__put_text(out, tg__strings_get(all->strings, b->kind));
    tg__put_int(out, b->place);
    tg__put_int(out, b->steps);
    tg__put_real_if(out, b->sized > 0, b->sized ? (double)b->bytes / (double)b->sized : 0);
    tg__put_real_if(out, b->phase != TG__SEND_NO_BACKWARD, (double)b->asked_ns / steps);
    tg__put_real_if(out, b->phase != TG__SEND_NO_BACKWARD, (double)b->to_end_ns / steps);
    tg__put_real(out, (double)b->dur_ns / steps);
    tg__put_real(out, (double)b->exposed_ns / steps);
  }
}

/* How many buckets there were, how large, and how early the last one starts. */
static void note_buckets(const struct tg__columns *t, uint32_t rank, const struct tg__buckets *all,
                         struct tg_table *out) {
  const struct tg__bucket *last = NULL;
  double least = 0, most = 0;
  size_t count = 0;
  for (size_t i = 0; i < all->count; i++) {
    if (!tg__bucket_is_all_reduce(all, i, TG__SEND_BACKWARD)) continue;
    last = &all->items[i];
    const double bytes = (double)last->bytes / (double)last->sized;
    least = count == 0 || bytes < least ? bytes : least;
    most = bytes > most ? bytes : most;
    count++;
  }
  if (!count) return;
  const bool is_known = !isnan(tg__reducer_of(t, rank).cap_mb);
  const double ms = (double)last->to_end_ns / (double)last->steps / 1e6;
  tg__table_note(out,
                 "rank %lld: %zu all_reduce in a backward pass, of %.2f to %.2f MB%s; the last starts %.2f ms %s the "
                 "pass ends",
                 (long long)t->ranks[rank].number, count, least / 1e6, most / 1e6,
                 is_known ? ""
                          : " (DistributedDataParallel's bucket_cap_mb is 25, and 1 for the first bucket, where a "
                            "program does not set it)",
                 ms < 0 ? -ms : ms, ms < 0 ? "after" : "before");
}

enum tg_err tg__answer_buckets(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                               struct tg_error *e) {
  bool done = true;
  for (uint32_t r = 0; done && r < t->rank_count; r++) {
    struct tg__buckets all;
    if (!tg__ask_has_rank(a, r)) continue;
    done = tg__buckets_of(t, r, &all);
    if (done) put_buckets(t, r, &all, out);
    if (done) note_buckets(t, r, &all, out);
    if (done && all.count) tg__note_wrappers(t, r, out);
    tg__buckets_free(&all);
  }
  if (!done) return tg__no_memory(e, "the collectives of a step");
  if (out->rows > 0 || a->has_steps) return TG_OK;
  return tg__fail(e, TG_NO_DATA, -1,
                  "no collective is in a step: record a job of several ranks with its steps marked (prof.step())");
}
