/* step_threads: each thread as a chain of nodes, cut wherever another slice is the innermost one. */
#include "replay/step_batches.h"
#include "replay/step_collectives.h"
#include "replay/step_handover.h"

struct point { /* where a step begins or ends */
  int64_t ns;
  uint32_t step;
  bool is_end;
};
struct walker {
  struct tg__replay_graph *g;
  uint32_t lane;
  int64_t at_ns;
  int64_t made_ns; /* of a worker of the loader: when it had made its batch before */
  uint32_t *stack; /* open slices, the innermost last */
  size_t depth;
  const struct point *points; /* NULL: not the lane of the steps */
  size_t point_count, next_point;
  struct tg__replay_awaiting awaiting;
  const struct tg__spans *sampled; /* of the lane of the steps: a sample says where its thread was; NULL: another */
};

/* ---- which threads are one chain ------------------------------------------------------------- */

/* The thread with the forward operators of most backward operators of thread k, by their links; TG_NONE when it has
 * none. While autograd's thread works the one that called backward() stands still: the two are one chain. */
static uint32_t forward_track(const struct tg__replay_graph *g, uint32_t k, uint32_t *votes) {
  const struct tg__columns *const t = g->t;
  const struct tg__rank *const r = &t->ranks[g->rank];
  uint32_t best = TG_NONE, at = r->first_track;
  memset(votes, 0, r->track_count * sizeof *votes);
  TG__EACH (i, tg__slices_of(&t->tracks[k])) {
    const uint32_t forward = tg__slice_class(t, i) == TG__CLASS_OP ? t->slices.cause[i] : TG_NONE;
    if (forward < g->slices.first || forward >= g->slices.past) continue;
    if (forward - t->tracks[at].first >= t->tracks[at].count) at = tg__slice_track(t, forward);
    if (at == k) continue;
    votes[at - r->first_track]++;
    if (best == TG_NONE || votes[at - r->first_track] > votes[best - r->first_track]) best = at;
  }
  return best;
}

/* By track of the rank: the track of its chain. NULL on no memory. */
static uint32_t *merge_tracks(struct tg__replay_graph *g) {
  const struct tg__rank *const r = &g->t->ranks[g->rank];
  uint32_t *const into = tg__alloc(((size_t)r->track_count + 1) * sizeof *into);
  uint32_t *const votes = tg__alloc(((size_t)r->track_count + 1) * sizeof *votes);
  bool *const is_root = tg__alloc((size_t)r->track_count + 1);
  if (!into || !votes || !is_root) g->failed = true;
  for (uint32_t k = 0; !g->failed && k < r->track_count; k++) into[k] = k;
  for (uint32_t k = 0; !g->failed && k < r->track_count; k++) {
    if (g->t->tracks[r->first_track + k].kind == TG__TRACK_DEVICE || is_root[k]) continue;
    const uint32_t forward = forward_track(g, r->first_track + k, votes) - r->first_track;
    if (forward >= r->track_count || into[forward] != forward) continue;
    into[k] = forward;
    is_root[forward] = true;
  }
  tg__free(votes);
  tg__free(is_root);
  return into;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Does the innermost slice say what this time goes to? A label groups what runs inside and is no work itself, but that
 * of a loader without workers, which fetches there, and that of a worker which makes a batch. */
static bool slice_explains(struct tg__replay_graph *g, uint32_t slice) {
  const struct tg__str name = tg__name(g->t, g->t->slices.name[slice]);
  return tg__slice_class(g->t, slice) != TG__CLASS_ANNOTATION || !tg__name_is_label(name) ||
         tg__name_is_dataloader(name) || tg__replay_name(g, g->t->slices.name[slice]) & TG__REPLAY_NAME_BATCH;
}

/* The thread of the steps is on a core for nine tenths of the step under way: between calls the interpreter
 * computes. */
static bool is_computing(const struct walker *w) {
  const uint32_t i = w->points ? tg__replay_step_at(w->g, w->at_ns) : TG_NONE;
  if (i == TG_NONE) return false;
  const struct tg__step_cost *const s = &w->g->steps.steps[i];
  return s->thread_cpu_ns != TG_NULL_INT && 10 * s->thread_cpu_ns >= 9 * (s->host_end_ns - s->host_start_ns);
}

/* Something recorded says what the time from w->at_ns goes to: a slice, the interpreter between two calls, or samples
 * of the thread over half of it. The workers of a loader go their own way, unless the batch is known that the loop
 * waits for. */
static bool explains(const struct walker *w, uint32_t slice, int64_t dur_ns) {
  struct tg__replay_graph *const g = w->g;
  if (slice != TG_NONE && tg__replay_name(g, g->t->slices.name[slice]) & TG__REPLAY_NAME_WORKERS)
    return tg__replay_batch_of(g, slice) != NULL;
  if (dur_ns <= TG__REPLAY_LONG_GAP_NS || (slice != TG_NONE && slice_explains(g, slice))) return true;
  if (is_computing(w)) return true;
  return w->sampled && 2 * tg__spans_inside(w->sampled, w->at_ns, w->at_ns + dur_ns) >= dur_ns;
}

static void add_plain_piece(struct walker *w, uint32_t slice, int64_t to_ns) {
  const int64_t dur_ns = to_ns - w->at_ns;
  if (dur_ns <= 0) return;
  tg__replay_add_node(
      w->g, (struct tg__replay_node){w->at_ns, dur_ns, slice, w->lane, tg__replay_step_at(w->g, w->at_ns),
                                     slice == TG_NONE ? TG__REPLAY_GAP : TG__REPLAY_HOST, explains(w, slice, dur_ns)});
  w->at_ns = to_ns;
}

static void add_wait_until(struct walker *w, uint32_t slice, int64_t until_ns) {
  const int64_t to_ns = until_ns > w->at_ns ? until_ns : w->at_ns;
  tg__replay_add_node(w->g, (struct tg__replay_node){w->at_ns, to_ns - w->at_ns, slice, w->lane,
                                                     tg__replay_step_at(w->g, w->at_ns), TG__REPLAY_WAIT, true});
  w->at_ns = to_ns;
}

/* Where no operator and no call of a device runs the thread may wait for a collective of a host library. */
static void add_host_piece(struct walker *w, int64_t to_ns) {
  struct tg__replay_graph *const g = w->g;
  const uint32_t slice = w->depth ? w->stack[w->depth - 1] : TG_NONE;
  struct tg__replay_gap gap = {.start_ns = w->at_ns, .is_main = w->points != NULL};
  if (to_ns > w->at_ns && (slice == TG_NONE || !tg__replay_is_call(g->t, slice)) &&
      tg__replay_awaits(&w->awaiting, g, to_ns, &gap)) {
    add_plain_piece(w, slice, gap.start_ns);
    add_wait_until(w, slice, gap.end_ns);
    if (!g->failed) tg__replay_bind_awaited(&w->awaiting, g, (uint32_t)g->node_count - 1);
  }
  add_plain_piece(w, slice, to_ns);
}

static void emit_to(struct walker *w, int64_t to_ns) {
  for (; w->next_point < w->point_count && w->points[w->next_point].ns <= to_ns; w->next_point++) {
    const struct point *const p = &w->points[w->next_point];
    add_host_piece(w, p->ns);
    if (p->is_end)
      w->g->step_end[p->step] = (uint32_t)w->g->node_count - 1;
    else
      w->g->step_begin[p->step] = (uint32_t)w->g->node_count;
  }
  add_host_piece(w, to_ns);
}

static int64_t end_in_window(const struct tg__replay_graph *g, uint32_t slice) {
  const int64_t end_ns = tg__slice_end(g->t, slice);
  return end_ns < g->end_ns ? end_ns : g->end_ns;
}

static void advance_to(struct walker *w, int64_t to_ns) {
  for (; w->depth; w->depth--) {
    const int64_t end_ns = end_in_window(w->g, w->stack[w->depth - 1]);
    if (end_ns > to_ns) break;
    emit_to(w, end_ns);
  }
  emit_to(w, to_ns);
}

/* A call that waits: its own part, then the wait up to the last end of what it waits for; the rest is its own, too. */
static void add_wait_nodes(struct walker *w, uint32_t call) {
  struct tg__replay_graph *const g = w->g;
  const struct tg__replay_wait *const waits = g->waits;
  size_t low = 0;
  int64_t until_ns = w->at_ns;
  TG__PARTITION(low, g->wait_count, i, waits[i].call == TG_NONE || waits[i].call < call);
  if (low == g->wait_count || waits[low].call != call) return;
  int64_t own_ns = 0;
  for (; low < g->wait_count && waits[low].call == call; low++) {
    if (waits[low].own_ns > own_ns) own_ns = waits[low].own_ns;
    const struct tg__replay_work *const source = &g->works[waits[low].source];
    const int64_t ns = waits[low].for_start ? source->start_ns : source->end_ns;
    if (ns > until_ns) until_ns = ns;
  }
  const int64_t end_ns = end_in_window(g, call);
  if (until_ns > end_ns) until_ns = end_ns;
  if (own_ns > until_ns - w->at_ns) own_ns = until_ns - w->at_ns;
  const uint32_t step = tg__replay_step_at(g, w->at_ns);
  tg__replay_add_node(g, (struct tg__replay_node){w->at_ns, own_ns, call, w->lane, step, TG__REPLAY_HOST, true});
  w->at_ns += own_ns;
  tg__replay_add_node(
      g, (struct tg__replay_node){w->at_ns, until_ns - w->at_ns, call, w->lane, step, TG__REPLAY_WAIT, true});
  w->at_ns = until_ns;
}

/* Between two batches a worker waits until it is asked for the next; then it takes its time to begin. */
static void wait_to_be_asked(struct walker *w, struct tg__replay_batch *batch) {
  struct tg__replay_graph *const g = w->g;
  const struct tg__replay_batch *const asked = batch->asked == TG_NONE ? NULL : &g->batches[batch->asked];
  const int64_t start_ns = g->t->slices.start_ns[batch->made];
  if (asked && asked->taken_ns >= g->start_ns && start_ns >= w->at_ns) {
    advance_to(w, w->made_ns > w->at_ns && w->made_ns < start_ns ? w->made_ns : w->at_ns);
    batch->wait = (uint32_t)g->node_count;
    add_wait_until(w, TG_NONE, asked->taken_ns < start_ns ? asked->taken_ns : start_ns);
    if (start_ns > w->at_ns)
      tg__replay_add_node(g, (struct tg__replay_node){w->at_ns, start_ns - w->at_ns, TG_NONE, w->lane,
                                                      tg__replay_step_at(g, w->at_ns), TG__REPLAY_GAP, true});
    w->at_ns = start_ns;
  }
  w->made_ns = tg__slice_end(g->t, batch->made);
}

/* The loop waits for its batch; what is left of the call is its own. */
static void wait_for_batch(struct walker *w, const struct tg__replay_batch *batch) {
  if (batch->made == TG_NONE) return;
  const int64_t made_ns = tg__slice_end(w->g->t, batch->made), end_ns = end_in_window(w->g, batch->fetch);
  add_wait_until(w, batch->fetch, made_ns < end_ns ? made_ns : end_ns);
}

static void enter(struct walker *w, uint32_t slice) {
  struct tg__replay_graph *const g = w->g;
  const int64_t start_ns = g->t->slices.start_ns[slice];
  struct tg__replay_batch *const batch = tg__replay_batch_of(g, slice);
  if (batch && batch->made == slice) wait_to_be_asked(w, batch);
  advance_to(w, start_ns > w->at_ns ? start_ns : w->at_ns);
  g->node_of[slice - g->slices.first] = (uint32_t)g->node_count;
  w->stack[w->depth++] = slice;
  if (tg__replay_is_call(g->t, slice)) w->awaiting.call = slice;
  if (batch && batch->fetch == slice) wait_for_batch(w, batch);
  struct tg__replay_handover *const handover = tg__replay_handover_of(g, slice);
  if (handover) {
    handover->node = (uint32_t)g->node_count;
    add_wait_until(w, slice, handover->ns);
  }
  if (tg__slice_class(g->t, slice) == TG__CLASS_RUNTIME && g->wait_count) add_wait_nodes(w, slice);
}

/* ---- lanes ----------------------------------------------------------------------------------- */

static bool counts(struct tg__replay_graph *g, uint32_t slice) {
  const struct tg__columns *const t = g->t;
  if (!tg__replay_is_host(tg__slice_class(t, slice)) || t->slices.flags[slice] & TG__F_ASYNC) return false;
  if (t->slices.start_ns[slice] >= g->end_ns || tg__slice_end(t, slice) <= g->start_ns) return false;
  return !(tg__replay_name(g, t->slices.name[slice]) & TG__REPLAY_NAME_STEP);
}

static bool slice_is_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__slices *const s = &((const struct tg__columns *)ctx)->slices;
  if (s->start_ns[a] != s->start_ns[b]) return s->start_ns[a] < s->start_ns[b];
  return s->dur_ns[a] != s->dur_ns[b] ? s->dur_ns[a] > s->dur_ns[b] : a < b;
}

/* Slices of all tracks of a chain, by start. buffer: room for all slices of the rank. */
static size_t gather_slices(struct tg__replay_graph *g, const uint32_t *into, uint32_t root, uint32_t *buffer) {
  const struct tg__rank *const r = &g->t->ranks[g->rank];
  size_t count = 0, tracks = 0;
  for (uint32_t k = 0; k < r->track_count; k++) {
    const struct tg__track *const track = &g->t->tracks[r->first_track + k];
    if (into[k] != root || track->kind == TG__TRACK_DEVICE) continue;
    const size_t before = count;
    TG__EACH (i, tg__slices_of(track))
      if (counts(g, i)) buffer[count++] = i;
    tracks += count > before;
  }
  if (tracks > 1 && !tg__sort_index(buffer, count, slice_is_before, g->t)) g->failed = true;
  return count;
}

static bool point_is_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct point *x = &((const struct point *)ctx)[a], *y = &((const struct point *)ctx)[b];
  if (x->ns != y->ns) return x->ns < y->ns;
  return x->is_end != y->is_end ? x->is_end : a < b;
}

/* Begins and ends of the steps, by time. NULL on no memory. */
static struct point *step_points(struct tg__replay_graph *g) {
  const size_t count = g->steps.count;
  struct point *points = tg__alloc((2 * count + 1) * sizeof *points);
  for (uint32_t i = 0; points && i < count; i++) {
    points[2 * i] = (struct point){g->steps.steps[i].host_start_ns, i, false};
    points[2 * i + 1] = (struct point){g->steps.steps[i].host_end_ns, i, true};
  }
  if (points && !tg__sort_items((void **)&points, 2 * count, sizeof *points, point_is_before, points)) {
    tg__free(points);
    points = NULL;
  }
  if (!points) g->failed = true;
  return points;
}

/* The track of the steps; where they are no slices, that with most slices in the window. */
static uint32_t main_track(struct tg__replay_graph *g) {
  const struct tg__columns *const t = g->t;
  const struct tg__rank *const r = &t->ranks[g->rank];
  const uint32_t slice = t->steps[g->steps.steps[0].step].slice;
  uint32_t best = 0, most = 0;
  if (slice != TG_NONE) return tg__slice_track(t, slice) - r->first_track;
  for (uint32_t k = 0; k < r->track_count; k++) {
    uint32_t count = 0;
    if (t->tracks[r->first_track + k].kind == TG__TRACK_DEVICE) continue;
    TG__EACH (i, tg__slices_of(&t->tracks[r->first_track + k])) count += counts(g, i);
    if (count > most) best = k;
    if (count > most) most = count;
  }
  return best;
}

static void walk(struct walker *w, const uint32_t *slices, size_t count) {
  struct tg__replay_graph *const g = w->g;
  w->at_ns = g->start_ns;
  g->lanes[w->lane].first = (uint32_t)g->node_count;
  for (size_t i = 0; i < count && !g->failed; i++) enter(w, slices[i]);
  int64_t past_ns = g->start_ns;
  for (size_t i = 0; i < count; i++)
    if (end_in_window(g, slices[i]) > past_ns) past_ns = end_in_window(g, slices[i]);
  advance_to(w, w->points ? g->end_ns : past_ns);
  if (w->points && g->lanes[w->lane].first == g->node_count) /* steps of no length */
    tg__replay_add_node(g, (struct tg__replay_node){g->start_ns, 0, TG_NONE, w->lane, 0, TG__REPLAY_GAP, true});
  g->lanes[w->lane].past = (uint32_t)g->node_count;
}

/* What samples of the thread of the steps cover, not those of other threads beside it, nor of other processes. */
static void gather_samples(struct tg__replay_graph *g, uint32_t main, struct tg__spans *out) {
  const struct tg__columns *const t = g->t;
  const uint32_t first = t->ranks[g->rank].first_track;
  TG__EACH (k, tg__tracks_of(&t->ranks[g->rank])) {
    const struct tg__track *const track = &t->tracks[k];
    if (!tg__track_has_samples(t, track) || track->pid != t->tracks[first + main].pid) continue;
    TG__EACH (i, tg__slices_of(track))
      if (!tg__arg_int(t, t->slices.args[i], TG__K_SAMPLED_THREAD, 0))
        tg__spans_add(out, t->slices.start_ns[i], tg__slice_end(t, i));
  }
  tg__spans_union(out);
  g->failed |= out->failed;
}

/* What the threads of the process hand over to each other, where that of the steps waits. */
static void find_handovers(struct tg__replay_graph *g, const uint32_t *into, uint32_t main, uint32_t *buffer) {
  const struct tg__rank *const r = &g->t->ranks[g->rank];
  const struct tg__track *const tracks = g->t->tracks + r->first_track;
  size_t count = gather_slices(g, into, main, buffer);
  if (!g->has_queues) return;
  tg__replay_add_places(g, buffer, count, main);
  for (uint32_t k = 0; !g->failed && k < r->track_count; k++) {
    if (into[k] != k || k == main || g->lane_of[k] != TG_NONE || tracks[k].pid != tracks[main].pid) continue;
    count = gather_slices(g, into, k, buffer);
    if (count && !g->failed) tg__replay_add_places(g, buffer, count, k);
  }
  if (!g->failed) tg__replay_find_handovers(g);
  tg__replay_free_places(g);
}

void tg__replay_add_threads(struct tg__replay_graph *g) {
  const struct tg__rank *const r = &g->t->ranks[g->rank];
  const size_t slices = g->slices.past - g->slices.first;
  uint32_t *const into = merge_tracks(g), *const buffer = tg__alloc((slices + 1) * sizeof *buffer),
                  *const stack = tg__alloc((slices + 1) * sizeof *stack);
  struct point *const points = step_points(g);
  struct tg__spans sampled = {0};
  if (!buffer || !stack) g->failed = true;
  const uint32_t main = g->failed ? 0 : into[main_track(g)];
  if (!g->failed) gather_samples(g, main, &sampled);
  if (!g->failed) tg__replay_find_batches(g, r->first_track + main);
  if (!g->failed) tg__replay_gather_looks(g, r->first_track + main);
  if (!g->failed) tg__replay_find_ends(g, into);
  if (!g->failed) find_handovers(g, into, main, buffer);
  for (uint32_t k = 0; !g->failed && k < r->track_count; k++) {
    if (into[k] != k || g->lane_of[k] != TG_NONE) continue; /* its collectives are works */
    const size_t count = gather_slices(g, into, k, buffer);
    if (!count && k != main) continue;
    struct walker w = {.g = g, .lane = tg__replay_add_lane(g, r->first_track + k, false), .stack = stack};
    w.awaiting = (struct tg__replay_awaiting){.call = TG_NONE, .root = k};
    if (!g->failed) tg__replay_find_places(g, buffer, count, k, k == main);
    g->lane_of[k] = w.lane;
    if (k == main) {
      w.points = points;
      w.point_count = 2 * g->steps.count;
      w.sampled = &sampled;
      g->main_lane = w.lane;
    }
    if (!g->failed) walk(&w, buffer, count);
  }
  for (uint32_t k = 0; !g->failed && k < r->track_count; k++) g->lane_of[k] = g->lane_of[into[k]];
  tg__free(into);
  tg__free(buffer);
  tg__free(stack);
  tg__free(points);
  tg__spans_free(&sampled);
}
