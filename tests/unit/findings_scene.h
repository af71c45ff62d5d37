/* findings_scene.h: programs written by hand, of which the tests of findings ask what is wrong. Three steps of 10 ms
 * on one thread; times inside a step are in microseconds. */
#ifndef TG_FINDINGS_SCENE_H
#define TG_FINDINGS_SCENE_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "unit/mini_trace.h"

#define US 1000LL
#define STEP (10000 * US)
enum { STEPS = 3 };

struct scene {
  struct mini *m;
  uint32_t thread;
  int64_t at; /* of the step being written */
};

/* Step i of a thread, from 0 on. */
static inline void mark_step(struct scene *s, int i) {
  char name[32];
  snprintf(name, sizeof name, "ProfilerStep#%d", i + 1);
  mini_slice(s->m, s->thread, "user_annotation", name, i * STEP, STEP);
}

static inline struct scene begin_of(int steps) {
  struct scene s = {.m = mini_new()};
  mini_rank(s.m, 0);
  s.thread = mini_thread(s.m, 1, 10);
  for (int i = 0; i < steps; i++) mark_step(&s, i);
  return s;
}

static inline struct scene begin(void) { return begin_of(STEPS); }

static inline int call(struct scene *s, const char *name, int64_t us, int64_t dur_us, const char *stack) {
  const int slice = mini_slice(s->m, s->thread, "cpu_op", name, s->at + us * US, dur_us * US);
  if (stack) mini_arg_str(s->m, "Call stack", stack);
  return slice;
}

static inline void inputs(struct scene *s, const char *dims, const char *types, const char *values) {
  mini_arg_raw(s->m, "Input Dims", dims);
  if (types) mini_arg_raw(s->m, "Input type", types);
  if (values) mini_arg_raw(s->m, "Concrete Inputs", values);
}

/* A node of autograd and, for gradients of leaves, how the gradient arrives. */
static inline int node(struct scene *s, const char *what, int64_t us, int64_t dur_us, int forward) {
  char name[100];
  snprintf(name, sizeof name, "autograd::engine::evaluate_function: %s", what);
  const int slice = call(s, name, us, dur_us, "train.py(40): train");
  if (forward >= 0) mini_cause(s->m, slice, forward);
  return slice;
}

static inline void gradient(struct scene *s, int64_t us, int64_t dur_us, bool added) {
  node(s, "torch::autograd::AccumulateGrad", us, dur_us, -1);
  call(s, added ? "aten::add_" : "aten::detach", us, dur_us, NULL);
}

static inline struct tg_table *ask(struct scene *s) {
  struct tg_table *t = mini_ask(mini_finish(s->m), "findings", NULL);
  mini_free(s->m);
  return t;
}

/* As after a recording under these conditions. Ends the scene. */
static inline struct tg_table *findings_under(const char *conditions, struct scene *s) {
  struct tg__columns *t = mini_finish(s->m);
  assert_true(tg__trace_add_meta(t, "conditions", conditions));
  struct tg_table *table = mini_ask(t, "findings", NULL);
  mini_free(s->m);
  return table;
}

static inline size_t count(const struct tg_table *t, const char *cause) {
  size_t n = 0;
  for (size_t i = 0; i < t->rows; i++) n += strcmp(mini_cell(t, i, "cause"), cause) == 0;
  return n;
}

/* How many findings of the scene name this cause. */
static inline size_t count_of(struct scene *s, const char *cause) {
  struct tg_table *t = ask(s);
  const size_t n = count(t, cause);
  tg__table_free(t);
  return n;
}

static inline void expect(struct scene *s, const char *cause, int64_t cost_us, double saving_us, const char *where,
                          int64_t line) {
  struct tg_table *t = ask(s);
  const size_t row = mini_row(t, "cause", cause);
  assert_int_equal(mini_int(t, row, "cost_ns"), cost_us * US);
  assert_int_equal(mini_int(t, row, "saving_ns"), (int64_t)(saving_us * (double)US));
  assert_string_equal(mini_cell(t, row, "where"), where);
  assert_string_equal(mini_cell(t, row, "file"), "train.py");
  assert_int_equal(mini_int(t, row, "line"), line);
  assert_non_null(mini_cell(t, row, "method"));
  assert_true(mini_real(t, row, "confidence") > 0 && mini_real(t, row, "confidence") < 1);
  tg__table_free(t);
}

static inline void expect_absent(struct scene *s, const char *cause) { assert_int_equal(count_of(s, cause), 0); }

#endif
