/* The loop waits for threads of its own process that make its input. Do they work at the same time, or one at a
 * time, as a lock makes them that is held during the work? */
#include "diagnose/pipeline.h"

#include "diagnose/samples.h"

enum { RUN_LENGTH = 3, OVERLAP_PCT = 1, LEAST_WORK_PCT = 5, LEAST_LOOKS = 6, IN_TURN_PCT = 80 };

struct pipeline {
  struct tg__facts *f;
  uint32_t loop, *ops; /* loop: track of the steps; ops: outermost operators on other threads of its process */
  size_t count, cap;
  int64_t until_ns;
  uint32_t until_track;
};

static void visit_pipeline_slice(struct pipeline *p, uint32_t slice, enum tg__class cls) {
  const struct tg__columns *t = p->f->t;
  if (cls != TG__CLASS_OP) return;
  const uint32_t track = tg__slice_track(t, slice);
  if (track == p->loop || t->tracks[track].pid != t->tracks[p->loop].pid) return;
  if (track == p->until_track && t->slices.start_ns[slice] < p->until_ns) return;
  p->until_track = track;
  p->until_ns = tg__slice_end(t, slice);
  TG__PUSH(p->f, p->ops, p->count, p->cap, slice);
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
    tg__keep_longest(t, &out->longest, p->ops[i]);
  }
  out->turns = (int64_t)turns;
  return !p->f->failed && out->several && RUN_LENGTH * turns <= p->count && 100 * overlap <= OVERLAP_PCT * sum &&
         100 * sum > LEAST_WORK_PCT * p->f->total_ns;
}

static bool work_in_turn(struct tg__facts *f, uint32_t loop, struct tg__turns *out) {
  struct pipeline p = {.f = f, .loop = loop, .until_track = TG_NONE};
  TG__EACH_IN_STEPS (w, f) visit_pipeline_slice(&p, w.slice, w.cls);
  const bool yes = p.count > 0 && takes_turns(&p, out);
  tg__free(p.ops);
  return yes;
}

/* ---- threads without operators --------------------------------------------------------------- */

struct looks {
  const struct tg__facts *f;
  const struct tg__spans *when;
  struct tg__turns *out;
  int64_t at_ns, first; /* of the look at hand; first: a thread that was seen at work */
  size_t working, waiting;
  struct tg__lines lines; /* a look at one thread counts 1 */
};

static void end_look(struct looks *l) {
  l->out->looks += l->working || l->waiting;
  l->out->in_turn += l->waiting && l->working <= 1;
  l->working = l->waiting = 0;
}

/* A thread that waits for a lock in a function of the program waits for its turn; inside a queue or an event it has
 * nothing to do. One that could go on and has no core, as it was just woken, does not work. */
static void see_other(void *ctx, uint32_t slice, const struct tg__sample *s) {
  struct looks *const l = ctx;
  const int64_t at_ns = l->f->t->slices.start_ns[slice];
  if (!s->thread || !s->frame.len || !tg__spans_inside(l->when, at_ns - 1, at_ns)) return;
  if (at_ns != l->at_ns) end_look(l);
  l->at_ns = at_ns;
  const bool is_locked = s->doing == TG__DOING_LOCK && s->is_there;
  if (s->doing == TG__DOING_GIL || is_locked) {
    l->waiting++;
    l->out->several |= is_locked; /* it may never have its turn, as the one that lets go takes the lock again */
    tg__lines_add(&l->lines, s->frame, 1);
  } else if (s->doing != TG__DOING_LOCK && s->doing != TG__DOING_READY) {
    l->working++;
    if (!l->first) l->first = s->thread;
    l->out->several |= s->thread != l->first;
  }
}

/* Where too few looks fall into these times, all do in which the loop is in no operator: threads that take turns do so
 * whether it waits or not. */
static bool are_seen_in_turn(struct tg__facts *f, const struct tg__spans *when, struct tg__turns *out) {
  struct looks l = {.f = f, .when = when, .out = out};
  tg__each_sample(f, see_other, &l);
  end_look(&l);
  if (out->looks && out->looks < LEAST_LOOKS) {
    *out = (struct tg__turns){.longest = TG_NONE, .when = "while the loop is in no operator"};
    l = (struct looks){.f = f, .when = tg__bare_spans(f), .out = out};
    tg__each_sample(f, see_other, &l);
    end_look(&l);
  }
  int64_t in_function;
  out->line = tg__lines_most(&l.lines, &in_function);
  return out->several && out->looks >= LEAST_LOOKS && 100 * out->in_turn >= IN_TURN_PCT * out->looks;
}

bool tg__takes_turns(struct tg__facts *f, uint32_t loop, const struct tg__spans *when, struct tg__turns *out) {
  *out = (struct tg__turns){.longest = TG_NONE};
  if (loop == TG_NONE) return false;
  if (work_in_turn(f, loop, out)) return true;
  *out = (struct tg__turns){.longest = TG_NONE, .when = "meanwhile"};
  return are_seen_in_turn(f, when, out);
}
