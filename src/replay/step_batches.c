/* step_batches: which batch the loop takes in each call, which worker made it, and when it was asked for. */
#include "replay/step_batches.h"

/* AHEAD_PER_WORKER: torch's prefetch_factor, if a program sets none. most_cpu_us: of a batch, an hour. */
enum { AHEAD_PER_WORKER = 2 };
static const int64_t most_cpu_us = INT64_C(3600000000);

struct seen { /* a counter */
  uint32_t name, slice, track;
  int64_t number, ns;
  bool is_taken; /* in the process of the steps; else made */
};
struct search {
  struct tg__replay_graph *g;
  struct seen *seen; /* by worker, number, process, time */
  size_t count, cap;
  int64_t cpu_us, with_cpu; /* of batches with the time on a core: its sum, their number */
  int64_t ahead;            /* a batch is asked for with the one so many before it; 0: not known */
};

int64_t tg__replay_condition(const struct tg__replay_graph *g, const char *of, const char *name) {
  int64_t value;
  return tg__document_condition(g->t, g->rank, of, name, &value) && value > 0 && value < INT32_MAX ? value : 0;
}

uint32_t tg__replay_last_node(const struct tg__replay_graph *g, uint32_t slice, uint32_t first) {
  const int64_t end_ns = tg__slice_end(g->t, slice);
  const uint32_t past = g->lanes[g->nodes[first].lane].past;
  uint32_t last = first;
  while (last + 1 < past && g->nodes[last + 1].start_ns < end_ns) last++;
  return last;
}

/* ---- counters -------------------------------------------------------------------------------- */

/* The innermost slice around an instant of a track with one of these meanings; TG_NONE. */
static uint32_t slice_around(struct tg__replay_graph *g, uint32_t track, int64_t ns, unsigned meaning) {
  const struct tg__columns *const t = g->t;
  const struct tg__extent all = tg__slices_of(&t->tracks[track]);
  size_t low = all.first;
  TG__PARTITION(low, all.past, i, t->slices.start_ns[i] <= ns);
  uint32_t slice = low > all.first ? (uint32_t)low - 1 : TG_NONE;
  for (; slice != TG_NONE; slice = t->slices.parent[slice])
    if (tg__slice_end(t, slice) >= ns && tg__replay_name(g, t->slices.name[slice]) & meaning) return slice;
  return TG_NONE;
}

static void add_cpu(struct search *s, uint32_t mark) {
  const struct tg__columns *const t = s->g->t;
  const int64_t us = tg__arg_int(t, t->marks.args[mark], TG__K_VALUE, -1);
  if (!tg__str_eq(tg__name(t, t->marks.name[mark]), TG_STR("DataLoader batch CPU us"))) return;
  if (us < 0 || us > most_cpu_us || s->cpu_us > INT64_MAX / 2000) return;
  s->cpu_us += us;
  s->with_cpu++;
}

static void gather_counters(struct search *s, uint32_t main) {
  struct tg__replay_graph *const g = s->g;
  const struct tg__columns *const t = g->t;
  TG__EACH (i, tg__rank_marks(t, g->rank)) {
    const uint32_t track = t->marks.track[i], name = t->marks.name[i];
    if (t->marks.ph[i] != 'C' || t->marks.ts_ns[i] == TG_NULL_INT || name == TG_NONE) continue;
    const bool is_taken = t->tracks[track].pid == t->tracks[main].pid;
    if (!is_taken) add_cpu(s, i);
    if (!(tg__replay_name(g, name) & TG__REPLAY_NAME_BATCH)) continue;
    const uint32_t slice =
        slice_around(g, track, t->marks.ts_ns[i], is_taken ? TG__REPLAY_NAME_WORKERS : TG__REPLAY_NAME_BATCH);
    const int64_t number = tg__arg_int(t, t->marks.args[i], TG__K_VALUE, -1);
    if (slice == TG_NONE || number < 0) continue;
    if (!tg__grow(&s->seen, &s->cap, s->count + 1, sizeof *s->seen)) {
      g->failed = true;
      return;
    }
    s->seen[s->count++] = (struct seen){name, slice, track, number, t->marks.ts_ns[i], is_taken};
  }
}

static int compare_seen(const struct seen *x, const struct seen *y) {
  if (x->name != y->name) return x->name < y->name ? -1 : 1;
  if (x->number != y->number) return x->number < y->number ? -1 : 1;
  if (x->is_taken != y->is_taken) return x->is_taken ? 1 : -1;
  return (x->ns > y->ns) - (x->ns < y->ns);
}

static bool seen_is_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct seen *const seen = ctx;
  const int order = compare_seen(&seen[a], &seen[b]);
  return order ? order < 0 : a < b;
}

/* The last counter of this worker and number up to ns; NULL. */
static const struct seen *last_up_to(const struct search *s, struct seen key) {
  size_t low = 0;
  TG__PARTITION(low, s->count, i, compare_seen(&s->seen[i], &key) <= 0);
  const struct seen *const found = low ? &s->seen[low - 1] : NULL;
  const bool fits = found && found->name == key.name && found->number == key.number && found->is_taken == key.is_taken;
  return fits ? found : NULL;
}

static size_t count_workers(const struct search *s) {
  size_t workers = 0;
  for (size_t i = 0; i < s->count; i++) workers += i == 0 || s->seen[i].name != s->seen[i - 1].name;
  return workers;
}

/* ---- batches --------------------------------------------------------------------------------- */

/* The worker's range of a batch. An epoch begins its numbers again: none from before the number was taken last. */
static uint32_t made_by(const struct search *s, const struct seen *taken) {
  const int64_t until_ns = taken->ns + TG__REPLAY_CLOCK_NS;
  const struct seen *const made = last_up_to(
                               s, (struct seen){.name = taken->name, .number = taken->number, .ns = until_ns}),
                           *const before = last_up_to(s, (struct seen){.name = taken->name,
                                                                       .number = taken->number,
                                                                       .ns = taken->ns - 1,
                                                                       .is_taken = true});
  if (!made || (before && before->ns > made->ns)) return TG_NONE;
  return tg__slice_end(s->g->t, made->slice) <= until_ns ? made->slice : TG_NONE;
}

static bool batch_is_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__replay_batch *const batches = ctx;
  return batches[a].taken_ns != batches[b].taken_ns ? batches[a].taken_ns < batches[b].taken_ns : a < b;
}

static void put_batch(struct search *s, const struct seen *taken) {
  struct tg__replay_graph *const g = s->g;
  const struct tg__replay_batch batch = {taken->slice, made_by(s, taken), TG_NONE, taken->ns, TG_NONE};
  if (tg__grow(&g->batches, &g->batch_cap, g->batch_count + 1, sizeof *g->batches))
    g->batches[g->batch_count++] = batch;
  else
    g->failed = true;
}

static void map_batches(struct tg__replay_graph *g) {
  for (uint32_t i = 0; i < g->batch_count && !g->failed; i++) {
    const struct tg__replay_batch *const b = &g->batches[i];
    g->failed |= !tg__map_put(&g->batch_of, b->fetch, i);
    g->failed |= b->made != TG_NONE && !tg__map_put(&g->batch_of, b->made, i);
  }
}

struct tg__replay_batch *tg__replay_batch_of(const struct tg__replay_graph *g, uint32_t slice) {
  const uint32_t i = g->batch_count ? tg__map_get(&g->batch_of, slice) : TG_NONE;
  return i == TG_NONE ? NULL : &g->batches[i];
}

/* A batch is asked for when the loop takes the one that is `ahead` before it, which is of the same worker. */
static void find_asked(const struct search *s) {
  struct tg__replay_graph *const g = s->g;
  for (size_t i = 0; i < s->count; i++) {
    const struct seen *const made = &s->seen[i];
    struct tg__replay_batch *const batch = made->is_taken ? NULL : tg__replay_batch_of(g, made->slice);
    if (!batch) continue;
    const struct seen *const taken = last_up_to(s, (struct seen){.name = made->name,
                                                                 .number = made->number - s->ahead,
                                                                 .ns = g->t->slices.start_ns[made->slice],
                                                                 .is_taken = true});
    if (taken) batch->asked = tg__map_get(&g->batch_of, taken->slice);
  }
}

void tg__replay_find_batches(struct tg__replay_graph *g, uint32_t main) {
  struct search s = {.g = g};
  gather_counters(&s, main);
  if (!s.count || g->failed) {
    tg__free(s.seen);
    return;
  }
  g->failed |= !tg__sort_items((void **)&s.seen, s.count, sizeof *s.seen, seen_is_before, s.seen);
  for (size_t i = 0; i < s.count && !g->failed; i++)
    if (s.seen[i].is_taken) put_batch(&s, &s.seen[i]);
  if (!g->failed && g->batch_count)
    g->failed |= !tg__sort_items((void **)&g->batches, g->batch_count, sizeof *g->batches, batch_is_before, g->batches);
  if (!g->failed) {
    const int64_t each = tg__replay_condition(g, "loader", "prefetch_factor"),
                  workers = tg__replay_condition(g, "loader", "num_workers");
    s.ahead = (each ? each : AHEAD_PER_WORKER) * (workers ? workers : (int64_t)count_workers(&s));
    map_batches(g);
  }
  if (!g->failed) find_asked(&s);
  if (s.with_cpu) g->batch_cpu_ns = 1000 * (s.cpu_us / s.with_cpu);
  tg__free(s.seen);
}

/* ---- edges ----------------------------------------------------------------------------------- */

static uint32_t first_node(const struct tg__replay_graph *g, uint32_t slice) {
  const uint32_t node = slice == TG_NONE ? TG_NONE : g->node_of[slice - g->slices.first];
  return node < g->node_count && g->nodes[node].start_ns < tg__slice_end(g->t, slice) ? node : TG_NONE;
}

/* The loop waits for the end of a batch, and its worker until it is asked for. */
void tg__replay_add_batch_edges(struct tg__replay_graph *g) {
  for (size_t i = 0; i < g->batch_count; i++) {
    const struct tg__replay_batch *const b = &g->batches[i];
    const uint32_t fetch = g->node_of[b->fetch - g->slices.first], made = first_node(g, b->made);
    if (made != TG_NONE && fetch < g->node_count && g->nodes[fetch].kind == TG__REPLAY_WAIT)
      tg__replay_add_edge(g, (struct tg__replay_edge){0, tg__replay_last_node(g, b->made, made), fetch, false});
    const struct tg__replay_batch *const asked = b->asked == TG_NONE ? NULL : &g->batches[b->asked];
    const uint32_t from = asked ? first_node(g, asked->fetch) : TG_NONE;
    if (from == TG_NONE || b->wait == TG_NONE) continue;
    const uint32_t last = tg__replay_last_node(g, asked->fetch, from);
    const int64_t end_ns = g->nodes[last].start_ns + g->nodes[last].dur_ns;
    tg__replay_add_edge(g, (struct tg__replay_edge){asked->taken_ns - end_ns, last, b->wait, false});
  }
}
