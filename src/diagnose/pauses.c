/* Finds the longest pauses between operators: the two lines between which most time passes while no operator runs on
 * any thread. */
#include "diagnose/sites.h"

/* Pauses below 1/200 of a step, or of 50 us, are how Python is, not a place; and 20 us lie between any two calls,
 * whatever the program does. */
enum { MOST_PAUSES = 256, LEAST_SHARE = 200, LEAST_NS = 50000, USUAL_NS = 20000 };
/* A profiler's own work where one step ends and the next begins: 20 us in ours while it records, more with cold
 * caches. */
enum { BOUNDARY_NS = 30000 };
enum { LONG_SHARE = 20 }; /* without a place, pauses from 1/20 of a step on are more than that */

/* Between two operators: a line may call many, and what comes by chance comes between other ones each time. */
struct pause {
  struct tg__str before, after;     /* frames of the program */
  uint32_t before_name, after_name; /* operators */
  uint32_t first[2];                /* the two of the first one */
  int64_t *ns;                      /* by step */
  size_t read_steps, last_step;     /* steps in which a file is opened to be read there; the last of them, and one */
  uint32_t read;                    /* such a call, TG_NONE */
  struct tg__spans *when;
};
struct search {
  struct tg__facts *f;
  uint32_t track, last; /* the slice that ended last, TG_NONE = none yet */
  int64_t end_ns, least_ns, long_ns;
  int64_t update_until_ns; /* end of the optimizer's step or zero_grad that began last: its Python is torch's */
  size_t step;             /* that is under way */
  /* when operators or collectives run on other threads, or a call waits that is marked: that is no Python */
  struct tg__spans *others;
  struct pause pauses[MOST_PAUSES]; /* one without frames: long pauses at an unknown line */
  size_t count;
  uint32_t *reads; /* files that the loop's thread opens to read, by time */
  size_t read_count, read_cap, next_read;
};

static bool is_at(const struct pause *a, const struct pause *b) {
  return a->before_name == b->before_name && a->after_name == b->after_name && tg__str_eq(a->before, b->before) &&
         tg__str_eq(a->after, b->after);
}

static struct pause *find_pause(struct search *s, const struct pause *at) {
  size_t i = 0;
  while (i < s->count && !is_at(&s->pauses[i], at)) i++;
  if (i == MOST_PAUSES) return NULL;
  if (i < s->count) return &s->pauses[i];
  s->pauses[i] = *at;
  s->pauses[i].when = tg__new_spans(s->f);
  s->pauses[i].ns = tg__alloc_scratch(s->f, s->f->steps.count, sizeof *s->pauses->ns);
  s->count += s->pauses[i].ns != NULL;
  return s->pauses[i].ns ? &s->pauses[i] : NULL;
}

/* Is a file opened between the operator before and the next one? What follows until then is reading and parsing. */
static void look_for_read(struct search *s, struct pause *p, uint32_t next) {
  const int64_t *start_ns = s->f->t->slices.start_ns;
  while (s->next_read < s->read_count && start_ns[s->reads[s->next_read]] < s->end_ns) s->next_read++;
  if (s->next_read == s->read_count || start_ns[s->reads[s->next_read]] >= start_ns[next] ||
      p->last_step == s->step + 1)
    return;
  p->read = s->reads[s->next_read];
  p->read_steps++;
  p->last_step = s->step + 1;
}

static void go_to_step(struct search *s, int64_t ns) {
  while (s->step + 1 < s->f->steps.count && ns >= s->f->steps.steps[s->step + 1].host_start_ns) s->step++;
}

/* Of a pause: what the profiler does in it where a step begins. */
static int64_t boundary_ns(struct search *s, int64_t from_ns, int64_t until_ns) {
  const struct tg__step_cost *const steps = s->f->steps.steps;
  go_to_step(s, from_ns);
  const bool crosses = s->step + 1 < s->f->steps.count && steps[s->step + 1].host_start_ns < until_ns;
  return crosses || (from_ns < steps[0].host_start_ns && steps[0].host_start_ns < until_ns) ? BOUNDARY_NS : 0;
}

static void add_pause(struct search *s, uint32_t next, int64_t from_ns, int64_t ns) {
  const uint32_t *names = s->f->t->slices.name;
  struct pause at = {.before = tg__user_frame(s->f->t, s->last),
                     .after = tg__user_frame(s->f->t, next),
                     .before_name = names[s->last],
                     .after_name = names[next],
                     .first = {s->last, next},
                     .read = TG_NONE};
  if (!at.before.len || !at.after.len) {
    if (ns < s->long_ns) return;
    at = (struct pause){.before_name = TG_NONE, .after_name = TG_NONE, .read = TG_NONE};
  }
  go_to_step(s, s->f->t->slices.start_ns[next]);
  struct pause *p = find_pause(s, &at);
  if (p) p->ns[s->step] += ns;
  if (p) tg__spans_add(p->when, from_ns, s->f->t->slices.start_ns[next]);
  if (p) look_for_read(s, p, next);
}

static bool is_of_optimizer(const struct search *s, uint32_t slice) {
  return tg__slice_meaning(s->f, slice) & TG__NAME_OPTIMIZER_STEP || tg__is_zero_grad(tg__slice_name(s->f->t, slice));
}

static void visit_slice(struct search *s, uint32_t slice, enum tg__class cls) {
  const struct tg__columns *const t = s->f->t;
  const bool is_loader = cls == TG__CLASS_ANNOTATION && (tg__slice_meaning(s->f, slice) & TG__NAME_DATALOADER);
  const bool is_optimizer = tg__class_is_range(cls) && is_of_optimizer(s, slice);
  const bool works =
      cls == TG__CLASS_OP || (cls == TG__CLASS_ANNOTATION && !tg__name_is_label(tg__slice_name(t, slice)));
  if ((!works && !is_loader && !is_optimizer) || tg__slice_track(t, slice) != s->track) return;
  const int64_t start = t->slices.start_ns[slice], end = tg__slice_end(t, slice);
  const bool in_update = start < s->update_until_ns && !tg__is_of_closure(t, slice);
  const int64_t from = s->update_until_ns > s->end_ns && s->update_until_ns <= start ? s->update_until_ns : s->end_ns,
                pause_ns = start - from - boundary_ns(s, from, start);
  if (s->last != TG_NONE && pause_ns >= s->least_ns && !in_update)
    add_pause(s, slice, from, pause_ns - USUAL_NS - tg__spans_inside(s->others, from, start));
  if (is_optimizer && !in_update) s->update_until_ns = end;
  if (s->last != TG_NONE && (is_optimizer ? start : end) <= s->end_ns) return;
  s->last = slice;
  s->end_ns = is_optimizer ? start : end;
}

static void visit_other_thread(struct search *s, uint32_t slice, enum tg__class cls) {
  const struct tg__columns *const t = s->f->t;
  const bool reads = cls == TG__CLASS_ANNOTATION && tg__str_eq(tg__slice_name(t, slice), TG_STR("builtins.open"));
  if (reads && tg__slice_track(t, slice) == s->track) { TG__PUSH(s->f, s->reads, s->read_count, s->read_cap, slice); }
  const bool waits = cls == TG__CLASS_ANNOTATION && tg__is_marked_wait(tg__slice_name(t, slice)),
             works = cls == TG__CLASS_OP ||
                     (cls == TG__CLASS_ANNOTATION && tg__slice_meaning(s->f, slice) & TG__NAME_COLLECTIVE_CALL);
  const uint32_t track = works || waits ? tg__slice_track(t, slice) : s->track;
  if (waits ? track == s->track : track != s->track && t->tracks[track].pid == t->tracks[s->track].pid)
    tg__spans_add_slice(s->others, t, slice);
}

/* ---- naming one ------------------------------------------------------------------------------ */

struct end { /* of a pause */
  struct tg__str frame;
  size_t depth; /* functions of the program around it, where a stack says so */
};

/* The outermost call of a module around a slice; TG_NONE. */
static uint32_t model_call(const struct tg__columns *t, uint32_t slice) {
  uint32_t model = TG_NONE;
  for (uint32_t s = slice; s != TG_NONE; s = t->slices.parent[s])
    if (tg__slice_class(t, s) == TG__CLASS_PYTHON && tg__str_has_prefix(tg__slice_name(t, s), "nn.Module: ")) model = s;
  return model;
}

/* Where an operator is called, or where the model is that calls it. */
static struct end end_of(const struct tg__columns *t, uint32_t slice, bool outside_model) {
  struct tg__str rest = {"", 0};
  struct end end = {.depth = 0};
  for (uint32_t s = slice; s != TG_NONE && !rest.len; s = t->slices.parent[s]) {
    const uint32_t stack = tg__arg_str(t, t->slices.args[s], TG__K_CALL_STACK);
    if (stack != TG_NONE) rest = tg__name(t, stack);
  }
  static const char module[] = "nn.Module: ";
  const char *const past = rest.ptr + rest.len;
  for (const char *p = rest.ptr; outside_model && (p = memmem(p, (size_t)(past - p), module, sizeof module - 1)); p++)
    rest = (struct tg__str){p, (uint32_t)(past - p)};
  end.frame = rest = tg__user_frame_of_stack(rest);
  for (; rest.len; end.depth++)
    rest = tg__user_frame_of_stack((struct tg__str){rest.ptr + rest.len, (uint32_t)(past - rest.ptr - rest.len)});
  if (!end.frame.len) end.frame = tg__user_frame(t, slice);
  return end;
}

/* A model is operators: Python between two of its calls is its caller's. The end in the function that was called
 * comes first: it is what a function does behind its last operator, or before its first one. So does the beginning of
 * a loop: its head has more to do than its end. The part that two places have in common stands there once: "between
 * train.py(9): load and (12): train", "before train.py(9): load, behind (12): train". */
void tg__say_gap(const struct tg__columns *t, uint32_t before, uint32_t after, char *where, size_t size) {
  const uint32_t model = model_call(t, before);
  const bool outside = model == TG_NONE || model != model_call(t, after);
  const struct end b = end_of(t, before, outside), a = end_of(t, after, outside);
  struct tg__frame_parts x, y;
  int64_t from = 0, to = 0;
  const bool both = tg__frame_split(b.frame, &x) && tg__frame_split(a.frame, &y) && tg__str_eq(x.file, y.file),
             is_one = both && tg__str_eq(x.function, y.function);
  const bool is_turned =
      a.depth > b.depth || (is_one && tg__str_to_int(x.line, &from) && tg__str_to_int(y.line, &to) && to < from);
  struct tg__str first = is_turned ? a.frame : b.frame, second = is_turned ? b.frame : a.frame;
  if (tg__str_eq(first, second)) {
    tg__text_format(where, size, "at %.*s", (int)first.len, first.ptr);
    return;
  }
  if (both) second.ptr += x.file.len, second.len -= x.file.len;
  if (is_one && !is_turned) first.len = (uint32_t)(x.line.ptr + x.line.len + 1 - first.ptr);
  tg__text_format(where, size, is_turned ? "before %.*s, behind %.*s" : "between %.*s and %.*s", (int)first.len,
                  first.ptr, (int)second.len, second.ptr);
}

static bool is_between(const struct pause *a, const struct pause *b) {
  return tg__str_eq(a->before, b->before) && tg__str_eq(a->after, b->after);
}

/* Of all pairs of operators between these two lines. */
static int64_t between_lines(const struct search *s, const int64_t *usual, const struct pause *p) {
  int64_t sum = 0;
  for (size_t i = 0; i < s->count; i++)
    if (is_between(&s->pauses[i], p)) sum += usual[i];
  return sum;
}

/* The pause that ends where this one begins, or the other way round, at the same line: a stretch of Python that
 * calls an operator now and then. Their sum, times the steps. */
static int64_t beside(const struct search *s, const int64_t *usual, const struct pause *best) {
  int64_t sum = 0;
  for (size_t i = 0; i < s->count; i++) {
    const struct pause *p = &s->pauses[i];
    if (!is_between(p, best) && (tg__str_eq(p->after, best->before) || tg__str_eq(p->before, best->after)))
      sum += usual[i];
  }
  return sum;
}

static void fill_pause(const struct search *s, const struct pause *best, struct tg__pause *out) {
  tg__say_gap(s->f->t, best->first[0], best->first[1], out->where, sizeof out->where);
  for (size_t i = 0; i < s->count; i++) {
    const struct pause *p = &s->pauses[i];
    if (!is_between(p, best)) continue;
    if (2 * p->read_steps >= s->f->steps.count) out->read = p->read;
    for (size_t k = 0; k < s->f->steps.count; k++) out->all_ns += p->ns[k];
    tg__spans_add_all(out->when, p->when);
  }
}

static void choose_longest_pause(struct search *s, struct tg__pause *out) {
  int64_t usual[MOST_PAUSES], nowhere = 0;
  const struct pause *best = NULL;
  for (size_t i = 0; i < s->count; i++) {
    usual[i] = tg__usual_place(s->f, s->pauses[i].ns);
    if (!s->pauses[i].before.len) nowhere = usual[i], usual[i] = 0;
  }
  for (size_t i = 0; i < s->count; i++) {
    const int64_t ns = between_lines(s, usual, &s->pauses[i]);
    if (ns > out->usual_ns) out->usual_ns = ns, best = &s->pauses[i];
  }
  if (best) {
    fill_pause(s, best, out);
    out->usual_ns += beside(s, usual, best);
  } else { /* those that are long */
    out->usual_ns = out->all_ns = nowhere;
    for (size_t i = 0; i < s->count; i++) tg__spans_add_all(out->when, s->pauses[i].when);
    TG_FORMAT(out->where, "Python, between operators; record with with_stack=True to see where");
  }
}

void tg__find_longest_pause(struct tg__facts *f, struct tg__pause *out) {
  *out = (struct tg__pause){.read = TG_NONE, .when = tg__new_spans(f)};
  struct search s = {.f = f, .others = tg__new_spans(f), .last = TG_NONE, .update_until_ns = INT64_MIN};
  const uint32_t step = f->steps.count ? f->t->steps[f->steps.steps[0].step].slice : TG_NONE;
  if (step == TG_NONE) return;
  s.track = tg__slice_track(f->t, step);
  s.least_ns = tg__per_step(f, f->total_ns) / LEAST_SHARE + 1;
  if (s.least_ns < LEAST_NS) s.least_ns = LEAST_NS;
  s.long_ns = tg__per_step(f, f->total_ns) / LONG_SHARE;
  TG__EACH_IN_STEPS (w, f) visit_other_thread(&s, w.slice, w.cls);
  tg__spans_union(s.others);
  TG__EACH_IN_STEPS (w, f) visit_slice(&s, w.slice, w.cls);
  choose_longest_pause(&s, out);
  out->when = tg__rest_of(f, out->when, s.others);
  tg__free(s.reads);
}
