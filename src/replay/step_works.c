/* step_works: the work of streams as lanes, and how long a launch and a change of kernels take at least. */
#include "replay/step_collectives.h"

enum { LOW_QUANTILE = 10, MOST_LAG_NS = 10000 };

struct sample {
  uint32_t name;
  int64_t ns;
};

/* ---- which work there is --------------------------------------------------------------------- */

static uint32_t call_of(const struct tg__replay_graph *g, uint32_t slice) {
  const uint32_t call = g->t->slices.cause[slice];
  if (call < g->slices.first || call >= g->slices.past) return TG_NONE;
  return tg__slice_class(g->t, call) == TG__CLASS_RUNTIME ? call : TG_NONE;
}

void tg__replay_add_work(struct tg__replay_graph *g, uint32_t slice, uint32_t call, uint32_t lane) {
  const struct tg__columns *t = g->t;
  struct tg__replay_work w = {.start_ns = t->slices.start_ns[slice],
                              .end_ns = tg__slice_end(t, slice),
                              .slice = slice,
                              .call = call,
                              .lane = lane,
                              .node = TG_NONE};
  w.launched_ns = call == TG_NONE ? w.start_ns : t->slices.start_ns[call];
  if (w.launched_ns >= g->end_ns || w.end_ns <= g->start_ns) return;
  if (w.launched_ns < g->start_ns) { /* it is still under way when the window begins */
    w.call = TG_NONE;
    w.launched_ns = g->start_ns;
    if (w.start_ns < g->start_ns) w.start_ns = g->start_ns;
  } else if (call == TG_NONE) {
    g->loose_works++;
  }
  w.step = tg__replay_step_at(g, w.launched_ns);
  g->has_collectives |= (tg__replay_name(g, t->slices.name[slice]) & TG__REPLAY_NAME_COLLECTIVE) != 0;
  if (tg__grow(&g->works, &g->work_cap, g->work_count + 1, sizeof *g->works))
    g->works[g->work_count++] = w;
  else
    g->failed = true;
}

/* Work of a stream that overlaps has lanes of its own: a graph's kernels run side by side. */
static uint32_t lane_of(struct tg__replay_graph *g, struct tg__map *lanes, uint32_t track, uint8_t sub_lane) {
  const int64_t key[3] = {g->t->tracks[track].device, g->t->tracks[track].stream, sub_lane};
  uint32_t *const slot = tg__map_slot(lanes, tg__hash(key, sizeof key), TG_NONE);
  if (slot && *slot == TG_NONE) *slot = tg__replay_add_lane(g, track, true);
  if (!slot) g->failed = true;
  return slot ? *slot : 0;
}

static bool work_is_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__replay_work *x = &((const struct tg__replay_work *)ctx)[a],
                               *y = &((const struct tg__replay_work *)ctx)[b];
  if (x->lane != y->lane) return x->lane < y->lane;
  if (x->start_ns != y->start_ns) return x->start_ns < y->start_ns;
  return x->end_ns != y->end_ns ? x->end_ns < y->end_ns : a < b;
}

void tg__replay_gather_works(struct tg__replay_graph *g) {
  const struct tg__columns *t = g->t;
  struct tg__map lanes = {0};
  TG__EACH (k, tg__tracks_of(&t->ranks[g->rank])) {
    uint32_t lane = TG_NONE;
    int sub_lane = -1;
    TG__EACH (i, tg__slices_of(&t->tracks[k])) {
      if (!tg__class_is_device_work(tg__slice_class(t, i)) || g->failed) continue;
      if (sub_lane != t->slices.lane[i]) lane = lane_of(g, &lanes, k, t->slices.lane[i]);
      sub_lane = t->slices.lane[i];
      tg__replay_add_work(g, i, call_of(g, i), lane);
    }
  }
  g->device_lanes = (uint32_t)g->lane_count;
  if (!g->failed) tg__replay_gather_collectives(g);
  g->stream_count = (uint32_t)g->lane_count;
  if (g->work_count && !tg__sort_items((void **)&g->works, g->work_count, sizeof *g->works, work_is_before, g->works))
    g->failed = true;
  g->work_cap = g->work_count + 1;
  for (uint32_t i = 0; !g->failed && i < g->work_count; i++)
    if (g->works[i].call != TG_NONE) g->work_of[g->works[i].call - g->slices.first] = i;
  tg__map_free(&lanes);
}

/* ---- delays that every launch and every change has -------------------------------------------- */

static bool sample_is_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct sample *x = &((const struct sample *)ctx)[a], *y = &((const struct sample *)ctx)[b];
  return x->name != y->name ? x->name < y->name : x->ns < y->ns;
}

static const struct tg__replay_work *work_before(const struct tg__replay_graph *g, size_t i) {
  return i && g->works[i - 1].lane == g->works[i].lane ? &g->works[i - 1] : NULL;
}

/* The low quantile of each name's samples, which come in order, into a map; returns the least of them. */
static int64_t take_quantiles(struct tg__replay_graph *g, const struct sample *samples, size_t count,
                              struct tg__map *lag) {
  int64_t least = INT64_MAX;
  for (size_t i = 0, past; i < count; i = past) {
    for (past = i; past < count && samples[past].name == samples[i].name;) past++;
    const int64_t ns = samples[i + (past - i) / LOW_QUANTILE].ns;
    if (ns < least) least = ns;
    if (!tg__map_put(lag, samples[i].name, ns > UINT32_MAX - 1 ? UINT32_MAX - 1 : (uint32_t)ns)) g->failed = true;
  }
  return least;
}

/* From a call to its work where the stream had nothing to do, by the call's name. */
static int64_t find_launch_lags(struct tg__replay_graph *g, struct sample *samples, struct tg__map *lag) {
  size_t count = 0;
  int64_t least = MOST_LAG_NS;
  for (size_t i = 0; i < g->work_count; i++) {
    const struct tg__replay_work *w = &g->works[i], *before = work_before(g, i);
    const int64_t ns = w->start_ns - w->launched_ns;
    if (w->call == TG_NONE || ns < 0) continue;
    if (ns < least) least = ns;
    if (!before || before->end_ns <= w->launched_ns) samples[count++] = (struct sample){g->t->slices.name[w->call], ns};
  }
  uint32_t *const order = tg__order_new(count, sample_is_before, samples);
  struct sample *const sorted = order ? tg__alloc((count + 1) * sizeof *sorted) : NULL;
  if (!sorted) g->failed = true;
  for (size_t i = 0; sorted && i < count; i++) sorted[i] = samples[order[i]];
  if (sorted && count) least = take_quantiles(g, sorted, count, lag);
  tg__free(sorted);
  tg__free(order);
  return least;
}

static int64_t lag_of(const struct tg__replay_graph *g, const struct tg__map *lag, int64_t least,
                      const struct tg__replay_work *w) {
  const uint32_t known = tg__map_get(lag, g->t->slices.name[w->call]);
  const int64_t usual = known == TG_NONE ? least : known, own = w->start_ns - w->launched_ns;
  return own < 0 ? own : usual; /* by the clocks it began before its launch */
}

/* Between two works of a stream, the second of which had been launched before. */
static void find_gaps(struct tg__replay_graph *g, struct sample *samples, const struct tg__map *lag, int64_t least) {
  size_t count = 0;
  struct tg__map gap = {0};
  for (size_t i = 0; i < g->work_count; i++) {
    const struct tg__replay_work *w = &g->works[i], *before = work_before(g, i);
    if (!before || w->call == TG_NONE || w->start_ns < before->end_ns) continue;
    if (w->launched_ns + lag_of(g, lag, least, w) <= before->end_ns)
      samples[count++] = (struct sample){w->lane, w->start_ns - before->end_ns};
  }
  uint32_t *const order = tg__order_new(count, sample_is_before, samples);
  struct sample *const sorted = order ? tg__alloc((count + 1) * sizeof *sorted) : NULL;
  if (!sorted) g->failed = true;
  for (size_t i = 0; sorted && i < count; i++) sorted[i] = samples[order[i]];
  if (sorted) take_quantiles(g, sorted, count, &gap);
  for (uint32_t k = 0; k < g->stream_count; k++) {
    const uint32_t ns = tg__map_get(&gap, k);
    g->lanes[k].gap_ns = ns == TG_NONE ? 0 : ns;
  }
  tg__free(sorted);
  tg__free(order);
  tg__map_free(&gap);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* The latest end of what a work waits for by events. The waits of works come first, by target. */
static int64_t source_end_ns(const struct tg__replay_graph *g, uint32_t work, size_t *next) {
  int64_t end_ns = INT64_MIN;
  for (; *next < g->wait_count && g->waits[*next].call == TG_NONE && g->waits[*next].target <= work; ++*next) {
    if (g->waits[*next].target != work) continue;
    const int64_t ns = g->works[g->waits[*next].source].end_ns;
    if (ns > end_ns) end_ns = ns;
  }
  return end_ns;
}

void tg__replay_add_streams(struct tg__replay_graph *g) {
  struct sample *const samples = tg__alloc((g->work_count + 1) * sizeof *samples);
  struct tg__map lag = {0};
  if (!samples) g->failed = true;
  const int64_t least = g->failed ? 0 : find_launch_lags(g, samples, &lag);
  if (!g->failed) find_gaps(g, samples, &lag, least);
  size_t next_wait = 0;
  for (uint32_t i = 0; !g->failed && i < g->work_count; i++) {
    struct tg__replay_work *const w = &g->works[i];
    const struct tg__replay_work *const before = work_before(g, i);
    struct tg__replay_lane *const lane = &g->lanes[w->lane];
    const int64_t waited_ns = source_end_ns(g, i, &next_wait);
    int64_t from_ns = before ? before->end_ns + lane->gap_ns : g->start_ns;
    w->lag_ns = w->call == TG_NONE ? 0 : lag_of(g, &lag, least, w);
    if (w->call != TG_NONE && w->launched_ns + w->lag_ns > from_ns) from_ns = w->launched_ns + w->lag_ns;
    if (waited_ns > from_ns) from_ns = waited_ns;
    const int64_t delay_ns = w->start_ns > from_ns ? w->start_ns - from_ns : 0;
    if (!before) lane->first = (uint32_t)g->node_count;
    w->node = tg__replay_add_node(g, (struct tg__replay_node){w->start_ns - delay_ns, delay_ns, w->slice, w->lane,
                                                              w->step, TG__REPLAY_DELAY, false});
    tg__replay_add_node(g, (struct tg__replay_node){w->start_ns, w->end_ns - w->start_ns, w->slice, w->lane, w->step,
                                                    TG__REPLAY_WORK, true});
    lane->past = (uint32_t)g->node_count;
  }
  tg__map_free(&lag);
  tg__free(samples);
}
