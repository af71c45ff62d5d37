/* Where a program lets its operators wait: the two lines between which most time passes with no operator running on any thread. */
#include "diagnose/sites.h"

/* Pauses below 1/200 of a step, or of 50 us, are how Python is, not a place; and 20 us lie between any two calls, whatever the program does. */
enum { PLACES = 256, LEAST_SHARE = 200, LEAST_NS = 50000, USUAL_NS = 20000 };
enum { LONG_SHARE = 20 };                /* without a place, pauses from 1/20 of a step on are more than that */

/* Between two operators: a line may call many, and what comes by chance comes between other ones each time. */
struct place {
  struct tg__str before, after;    /* frames of the program */
  uint32_t before_name, after_name; /* operators */
  int64_t *ns;                      /* by step */
};
struct search {
  struct tg__facts *f;
  uint32_t track, last; /* the slice that ended last, TG_NONE = none yet */
  int64_t end_ns, least_ns, long_ns;
  int64_t update_until_ns; /* end of the optimizer's step or zero_grad that began last: its Python is torch's */
  size_t step;             /* that is under way */
  struct tg__spans others; /* when operators or collectives run on other threads: waiting for one is no Python */
  struct place places[PLACES]; /* one without frames: long pauses whose place is not known */
  size_t count;
};

static bool is_at(const struct place *a, const struct place *b) {
  return a->before_name == b->before_name && a->after_name == b->after_name && tg__str_eq(a->before, b->before) && tg__str_eq(a->after, b->after);
}

static struct place *place_of(struct search *s, const struct place *at) {
  size_t i = 0;
  while (i < s->count && !is_at(&s->places[i], at)) i++;
  if (i == PLACES) return NULL;
  if (i < s->count) return &s->places[i];
  s->places[i] = *at;
  s->places[i].ns = tg__alloc(s->f->steps.count * sizeof *s->places->ns);
  s->count += s->places[i].ns != NULL;
  s->f->failed |= !s->places[i].ns;
  return s->places[i].ns ? &s->places[i] : NULL;
}

static void add_pause(struct search *s, uint32_t next, int64_t ns) {
  const struct tg__step_cost *steps = s->f->steps.steps;
  const uint32_t *names = s->f->t->slices.name;
  struct place at = {tg__user_frame(s->f->t, s->last), tg__user_frame(s->f->t, next), names[s->last], names[next], NULL};
  if (!at.before.len || !at.after.len) {
    if (ns < s->long_ns) return;
    at = (struct place){{"", 0}, {"", 0}, TG_NONE, TG_NONE, NULL};
  }
  while (s->step + 1 < s->f->steps.count && s->f->t->slices.start_ns[next] >= steps[s->step + 1].host_start_ns) s->step++;
  struct place *p = place_of(s, &at);
  if (p) p->ns[s->step] += ns;
}

static bool is_less(uint32_t a, uint32_t b, const void *ctx) { return ((const int64_t *)ctx)[a] < ((const int64_t *)ctx)[b]; }

/* What a usual step spends there, times the steps: what comes by chance, as when the machine is busy with something else, is not meant. */
static int64_t usual_ns(struct search *s, const int64_t *ns) {
  const size_t n = s->f->steps.count;
  uint32_t *order = tg__alloc(n * sizeof *order);
  for (size_t i = 0; order && i < n; i++) order[i] = (uint32_t)i;
  const bool ok = order && tg__sort_index(order, n, is_less, ns);
  const int64_t median = ok ? ns[order[(n - 1) / 2]] : 0;
  s->f->failed |= !ok;
  tg__free(order);
  return median * (int64_t)n;
}

static bool is_of_optimizer(const struct search *s, uint32_t slice) {
  return tg__meaning(s->f, slice) & TG__NAME_OPTIMIZER_STEP || tg__is_zero_grad(tg__name(s->f->t, s->f->t->slices.name[slice]));
}

static void see(void *ctx, uint32_t slice, enum tg__class cls) {
  struct search *const s = ctx;
  const struct tg_trace *const t = s->f->t;
  const bool is_loader = cls == TG__CLASS_ANNOTATION && (tg__meaning(s->f, slice) & TG__NAME_DATALOADER);
  const bool is_optimizer = (cls == TG__CLASS_ANNOTATION || cls == TG__CLASS_OP) && is_of_optimizer(s, slice);
  if ((cls != TG__CLASS_OP && !is_loader && !is_optimizer) || tg__slice_track(t, slice) != s->track) return;
  const int64_t start = t->slices.start_ns[slice], end = tg__slice_end(t, slice);
  const bool in_update = start < s->update_until_ns && !tg__is_of_closure(t, slice);
  const int64_t from = s->update_until_ns > s->end_ns && s->update_until_ns <= start ? s->update_until_ns : s->end_ns, pause_ns = start - from;
  if (s->last != TG_NONE && pause_ns >= s->least_ns && !in_update)
    add_pause(s, slice, pause_ns - USUAL_NS - tg__spans_inside(&s->others, from, start));
  if (is_optimizer && !in_update) s->update_until_ns = end;
  if (s->last != TG_NONE && (is_optimizer ? start : end) <= s->end_ns) return;
  s->last = slice;
  s->end_ns = is_optimizer ? start : end;
}

static void see_other(void *ctx, uint32_t slice, enum tg__class cls) {
  struct search *const s = ctx;
  const struct tg_trace *const t = s->f->t;
  const bool works = cls == TG__CLASS_OP || (cls == TG__CLASS_ANNOTATION && tg__meaning(s->f, slice) & TG__NAME_COLLECTIVE_CALL);
  const uint32_t track = works ? tg__slice_track(t, slice) : s->track;
  if (track != s->track && t->tracks[track].pid == t->tracks[s->track].pid)
    tg__spans_add(&s->others, t->slices.start_ns[slice], tg__slice_end(t, slice));
}

/* What two places have in common is said once: "between train.py(9): load and (12): train", "between train.py(9) and (12): train". */
static void say_place(const struct place *p, char *where, size_t size) {
  struct tg__frame_parts a, b;
  const bool both = tg__frame_split(p->before, &a) && tg__frame_split(p->after, &b) && tg__str_eq(a.file, b.file);
  if (tg__str_eq(p->before, p->after)) {
    tg__say(where, size, "at %.*s", (int)p->after.len, p->after.ptr);
  } else if (both) {
    const struct tg__str first = tg__str_eq(a.function, b.function) ? TG_STR("") : a.function;
    tg__say(where, size, "between %.*s(%.*s)%s%.*s and (%.*s): %.*s", (int)a.file.len, a.file.ptr, (int)a.line.len, a.line.ptr,
            first.len ? ": " : "", (int)first.len, first.ptr, (int)b.line.len, b.line.ptr, (int)b.function.len, b.function.ptr);
  } else {
    tg__say(where, size, "between %.*s and %.*s", (int)p->before.len, p->before.ptr, (int)p->after.len, p->after.ptr);
  }
}

/* Of all pairs of operators between these two lines. */
static int64_t between_lines(const struct search *s, const int64_t *usual, const struct place *p) {
  int64_t sum = 0;
  for (size_t i = 0; i < s->count; i++)
    if (tg__str_eq(s->places[i].before, p->before) && tg__str_eq(s->places[i].after, p->after)) sum += usual[i];
  return sum;
}

/* Without places, those that are long. */
int64_t tg__quietest_place(struct tg__facts *f, char *where, size_t size) {
  struct search s = {.f = f, .last = TG_NONE, .update_until_ns = INT64_MIN};
  const uint32_t step = f->steps.count ? f->t->steps[f->steps.steps[0].step].slice : TG_NONE;
  if (step == TG_NONE) return 0;
  s.track = tg__slice_track(f->t, step);
  s.least_ns = tg__per_step(f, f->total_ns) / LEAST_SHARE + 1;
  if (s.least_ns < LEAST_NS) s.least_ns = LEAST_NS;
  s.long_ns = tg__per_step(f, f->total_ns) / LONG_SHARE;
  tg__visit(f, see_other, &s);
  tg__spans_union(&s.others);
  tg__visit(f, see, &s);
  int64_t usual[PLACES], most = 0, nowhere = 0;
  const struct place *best = NULL;
  for (size_t i = 0; i < s.count; i++) {
    usual[i] = usual_ns(&s, s.places[i].ns);
    if (!s.places[i].before.len) nowhere = usual[i], usual[i] = 0;
  }
  for (size_t i = 0; i < s.count; i++) {
    const int64_t ns = between_lines(&s, usual, &s.places[i]);
    if (ns > most) most = ns, best = &s.places[i];
  }
  if (best) say_place(best, where, size);
  else tg__say(where, size, "Python, between operators; record with with_stack=True to see where");
  for (size_t i = 0; i < s.count; i++) tg__free(s.places[i].ns);
  f->failed |= s.others.failed;
  tg__spans_free(&s.others);
  return best ? most : nowhere;
}
