/* The question compiles: one row for each time that torch.compile compiled something, or for all times of a
 * function. */
#include "analyze/host/compiled_runs.h"
#include "analyze/host/compiles.h"

#include <stdio.h>

static const char *const outcomes[] = {"compiled", "left out", "limit"};

struct sum { /* of the rows of one function */
  struct tg__compile x;
  struct tg__compiled_run run;
  int64_t times;
};
struct work {
  const struct tg__columns *t;
  uint32_t rank;
  int64_t steps;
  struct tg__compiles compiles;
  struct tg__compiled_runs runs;
};

static void put_code_place(struct tg_table *out, struct tg__str file, int64_t line) {
  char buf[256];
  if (file.len && line >= 0)
    tg__put_cstr(out, tg__compile_place(file, line, buf, sizeof buf));
  else
    tg__put_null(out);
}

static void put_text_if(struct tg_table *out, struct tg__str s) {
  if (s.len)
    tg__put_text(out, s);
  else
    tg__put_null(out);
}

static int64_t steps_of(const struct tg__columns *t, uint32_t rank) {
  int64_t n = 0;
  for (uint32_t i = 0; i < t->step_count; i++) n += t->steps[i].rank == rank;
  return n;
}

/* Steps until compiling is won back, if without it each step spent twice the time in this code. */
static void put_steps_to_win(struct tg_table *out, const struct work *w, const struct sum *s) {
  const int64_t run_ns = s->run.run_ns > s->run.device_ns ? s->run.run_ns : s->run.device_ns;
  tg__put_real_if(out, w->steps > 0 && run_ns > 0, (double)s->x.dur_ns * (double)w->steps / (double)run_ns);
}

static void put_compile(struct tg_table *out, const struct work *w, const struct sum *s) {
  const struct tg__compile *const x = &s->x;
  tg__put_rank(out, w->t, w->rank);
  put_text_if(out, s->times > 1 ? TG_STR("") : x->id);
  put_text_if(out, x->function);
  put_code_place(out, x->file, x->line);
  tg__put_cstr(out, x->is_backward ? "backward" : x->is_again ? "again" : "first");
  tg__put_cstr(out, outcomes[x->outcome]);
  tg__put_int(out, s->times);
  tg__put_int(out, x->start_ns);
  tg__put_int(out, x->dur_ns);
  tg__put_int(out, x->dynamo_ns);
  tg__put_int(out, x->backend_ns);
  tg__put_int(out, x->inductor_ns);
  tg__put_int(out, x->codegen_ns);
  tg__put_int(out, x->operators);
  tg__put_int(out, x->hits);
  tg__put_int(out, x->misses);
  tg__put_int(out, s->run.calls);
  tg__put_int(out, s->run.run_ns);
  tg__put_int(out, s->run.device_ns);
  put_steps_to_win(out, w, s);
  put_text_if(out, x->guard);
  put_code_place(out, x->broken_in, x->broken_at);
  put_text_if(out, x->reason);
}

static struct sum sum_of_one(const struct work *w, const struct tg__compile *x) {
  const struct tg__compiled_run *const run = tg__compiled_run_of(&w->runs, x->id, x->is_backward);
  struct sum s = {.x = *x, .times = 1};
  if (run) s.run = *run;
  return s;
}

static int64_t added(int64_t a, int64_t b) { return a == TG_NULL_INT ? b : b == TG_NULL_INT ? a : a + b; }

/* The last guard and the worst end are the ones to know. */
static void add_to(struct sum *s, const struct sum *one) {
  const struct tg__compile *const x = &one->x;
  s->times++;
  s->run.calls += one->run.calls;
  s->run.run_ns += one->run.run_ns;
  s->run.device_ns += one->run.device_ns;
  s->x.dur_ns += x->dur_ns;
  s->x.dynamo_ns += x->dynamo_ns;
  s->x.backend_ns += x->backend_ns;
  s->x.inductor_ns += x->inductor_ns;
  s->x.codegen_ns += x->codegen_ns;
  s->x.hits = added(s->x.hits, x->hits);
  s->x.misses = added(s->x.misses, x->misses);
  s->x.is_again |= x->is_again;
  if (x->guard.len) s->x.guard = x->guard;
  if (x->outcome >= s->x.outcome && x->reason.len) {
    s->x.reason = x->reason;
    s->x.broken_in = x->broken_in;
    s->x.broken_at = x->broken_at;
  }
  if (x->outcome > s->x.outcome) s->x.outcome = x->outcome;
}

static bool is_same_function(const struct tg__compile *a, const struct tg__compile *b) {
  return a->line == b->line && a->is_backward == b->is_backward && tg__str_eq(a->function, b->function) &&
         tg__str_eq(a->file, b->file);
}

static bool put_functions(struct tg_table *out, const struct work *w) {
  const struct tg__compiles *const c = &w->compiles;
  struct sum *const sums = tg__alloc((c->count + 1) * sizeof *sums);
  size_t count = 0;
  for (size_t i = 0; sums && i < c->count; i++) {
    const struct sum one = sum_of_one(w, &c->items[i]);
    size_t k = 0;
    while (k < count && !is_same_function(&sums[k].x, &one.x)) k++;
    if (k < count)
      add_to(&sums[k], &one);
    else
      sums[count++] = one;
  }
  for (size_t k = 0; k < count; k++) put_compile(out, w, &sums[k]);
  tg__free(sums);
  return sums != NULL;
}

static void put_each(struct tg_table *out, const struct work *w) {
  for (size_t i = 0; i < w->compiles.count; i++) {
    const struct sum one = sum_of_one(w, &w->compiles.items[i]);
    put_compile(out, w, &one);
  }
}

static enum tg_err put_compiles_of_rank(const struct tg__columns *t, uint32_t rank, bool by_function,
                                        struct tg_table *out) {
  struct work w = {.t = t, .rank = rank, .steps = steps_of(t, rank)};
  tg__compiles_open(t, rank, &w.compiles);
  if (w.compiles.count) tg__compiled_runs_open(t, rank, &w.runs);
  bool ok = !w.compiles.failed && !w.runs.failed;
  if (ok && by_function)
    ok = put_functions(out, &w);
  else if (ok)
    put_each(out, &w);
  if (w.compiles.lost)
    tg__table_note(out, "%lld more compilations, %.3f s together: dynamo kept no more of them",
                   (long long)w.compiles.lost, (double)w.compiles.lost_ns / 1e9);
  tg__compiles_close(&w.compiles);
  tg__compiled_runs_close(&w.runs);
  return ok ? TG_OK : TG_MEMORY;
}

enum tg_err tg__answer_compiles(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                struct tg_error *e) {
  static const char *const choices[] = {"compile", "function"};
  size_t by;
  enum tg_err err = tg__ask_choice(a, "by", choices, 2, &by, e);
  for (uint32_t r = 0; !err && r < t->rank_count; r++) {
    if (tg__ask_has_rank(a, r)) err = put_compiles_of_rank(t, r, by == 1, out);
    if (err) return tg__no_memory(e, "reading what was compiled");
  }
  return err;
}
