/* The loop waits for threads of its own process that make its input. Do they work at the same time, or one at a
 * time, as a lock makes them that is held during the work? */
#include "diagnose/pipeline.h"

enum { RUN_LENGTH = 3, OVERLAP_PCT = 1, LEAST_WORK_PCT = 5 };

struct pipeline {
  struct tg__facts *f;
  uint32_t loop, *ops; /* loop: track of the steps; ops: outermost operators on other threads of its process */
  size_t count, cap;
  int64_t until_ns;
  uint32_t until_track;
};

static void visit_pipeline_slice(void *ctx, uint32_t slice, enum tg__class cls) {
  struct pipeline *p = ctx;
  const struct tg__columns *t = p->f->t;
  if (cls != TG__CLASS_OP) return;
  const uint32_t track = tg__slice_track(t, slice);
  if (track == p->loop || t->tracks[track].pid != t->tracks[p->loop].pid) return;
  if (track == p->until_track && t->slices.start_ns[slice] < p->until_ns) return;
  p->until_track = track;
  p->until_ns = tg__slice_end(t, slice);
  if (tg__grow((void **)&p->ops, &p->cap, p->count + 1, sizeof *p->ops))
    p->ops[p->count++] = slice;
  else
    p->f->failed = true;
}

static bool pipeline_slice_starts_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__columns *t = ctx;
  return t->slices.start_ns[a] < t->slices.start_ns[b];
}

/* One after the other, and each thread several operators before the next has its turn. */
static bool takes_turns(struct pipeline *p, struct tg__turns *out) {
  const struct tg__columns *t = p->f->t;
  int64_t sum = 0, overlap = 0, end = INT64_MIN;
  size_t turns = 0;
  uint32_t last = TG_NONE, first = TG_NONE;
  if (!tg__sort_index(p->ops, p->count, pipeline_slice_starts_before, t)) p->f->failed = true;
  for (size_t i = 0; i < p->count; i++) {
    const int64_t start = t->slices.start_ns[p->ops[i]], stop = tg__slice_end(t, p->ops[i]);
    const uint32_t track = tg__slice_track(t, p->ops[i]);
    if (first == TG_NONE) first = track;
    if (track != first) out->several = true;
    turns += track != last;
    last = track;
    sum += stop - start;
    if (start < end) overlap += (stop < end ? stop : end) - start;
    if (stop > end) end = stop;
    if (out->longest == TG_NONE || stop - start > t->slices.dur_ns[out->longest]) out->longest = p->ops[i];
  }
  out->turns = (int64_t)turns;
  return !p->f->failed && out->several && RUN_LENGTH * turns <= p->count && 100 * overlap <= OVERLAP_PCT * sum &&
         100 * sum > LEAST_WORK_PCT * p->f->total_ns;
}

bool tg__takes_turns(struct tg__facts *f, uint32_t loop, struct tg__turns *out) {
  struct pipeline p = {.f = f, .loop = loop, .until_track = TG_NONE};
  *out = (struct tg__turns){.longest = TG_NONE};
  if (loop == TG_NONE) return false;
  tg__visit(f, visit_pipeline_slice, &p);
  const bool yes = p.count > 0 && takes_turns(&p, out);
  tg__free(p.ops);
  return yes;
}
