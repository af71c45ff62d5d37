/* step_queue: launches that wait because the queue of their stream is full.
 *
 * A driver takes about a thousand launches that have not begun. Behind that a launch returns when an older one begins:
 * the slow launches of a stream then have the same number of works before them, and that number is learned here. */
#include "replay/step_proof.h"

enum {
  LEAST_DEPTH = 256, /* shorter queues are of slow launches that wait for something else */
  LEAST_SLOW = 8,    /* launches that show the depth */
  SLOW_TIMES = 3,    /* the usual launch */
  NEAR_PCT = 98,     /* of the largest depth: full */
};

static bool is_launch_call(const struct tg__replay_graph *g, size_t i) {
  const uint32_t call = g->works[i].call;
  return call != TG_NONE && (i == 0 || g->works[i - 1].call != call);
}

static int64_t call_end_ns(const struct tg__replay_graph *g, size_t i) { return tg__slice_end(g->t, g->works[i].call); }

/* How many works up to this one have not begun when its launch returns. */
static size_t depth_at(const struct tg__replay_graph *g, size_t first, size_t i) {
  size_t low = first;
  const int64_t ns = call_end_ns(g, i);
  TG__PARTITION(low, i + 1, k, g->works[k].start_ns <= ns);
  return i + 1 - low;
}

/* What nine of ten launches of a stream take at least; 0: it has none. */
static int64_t usual_launch_ns(struct tg__replay_graph *g, size_t first, size_t past) {
  size_t count = 0;
  int64_t *const dur_ns = tg__alloc((past - first + 1) * sizeof *dur_ns), usual_ns = 0;
  if (!dur_ns) g->failed = true;
  for (size_t i = first; dur_ns && i < past; i++)
    if (is_launch_call(g, i)) dur_ns[count++] = g->t->slices.dur_ns[g->works[i].call];
  if (count) tg__replay_sort(dur_ns, count);
  if (count) usual_ns = dur_ns[count / 10];
  tg__free(dur_ns);
  return usual_ns;
}

static bool is_full(const struct tg__replay_graph *g, size_t i, size_t depth, size_t largest, int64_t usual_ns) {
  return depth * 100 >= largest * NEAR_PCT && g->t->slices.dur_ns[g->works[i].call] > SLOW_TIMES * usual_ns;
}

/* A launch that found the queue full waits for the begin of the work that is `depth` before it. */
static void add_queue_waits(struct tg__replay_graph *g, size_t first, size_t past, uint32_t *buffer) {
  size_t largest = 0, slow = 0;
  for (size_t i = first; i < past; i++) {
    buffer[i - first] = is_launch_call(g, i) ? (uint32_t)depth_at(g, first, i) : 0;
    if (buffer[i - first] > largest) largest = buffer[i - first];
  }
  if (largest < LEAST_DEPTH) return;
  const int64_t usual_ns = usual_launch_ns(g, first, past);
  for (size_t i = first; i < past; i++)
    slow += buffer[i - first] && is_full(g, i, buffer[i - first], largest, usual_ns);
  if (slow < LEAST_SLOW) return;
  for (size_t i = first; i < past && !g->failed; i++) {
    const size_t depth = buffer[i - first];
    if (!depth || !is_full(g, i, depth, largest, usual_ns) || i - first < depth) continue;
    if (tg__grow(&g->waits, &g->wait_cap, g->wait_count + 1, sizeof *g->waits))
      g->waits[g->wait_count++] =
          (struct tg__replay_wait){g->works[i].call, TG_NONE, (uint32_t)(i - depth), true, usual_ns};
    else
      g->failed = true;
  }
}

void tg__replay_find_full_queues(struct tg__replay_graph *g) {
  uint32_t *const buffer = tg__alloc((g->work_count + 1) * sizeof *buffer);
  if (!buffer) g->failed = true;
  for (size_t i = 0, past; !g->failed && i < g->work_count; i = past) {
    for (past = i; past < g->work_count && g->works[past].lane == g->works[i].lane;) past++;
    add_queue_waits(g, i, past, buffer);
  }
  tg__free(buffer);
}
