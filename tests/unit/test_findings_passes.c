/* Forward and backward passes: nodes that run again, passes that nothing is trained by, one of the two out of
 * proportion. Steps of 10 ms; figures added up by hand. */
#include "unit/findings_scene.h"

enum { MANY = 12, NODES = 4 };

/* Each step has a forward of 2 ms and NODES nodes of 500 us; `old` of these have the numbers of the first step's.
 * Mixed: the gradient of the first half of the nodes is put in place, and that of the others is added to earlier ones.
 */
static struct scene graph(int old, bool is_mixed) {
  struct scene s = begin_of(MANY);
  for (int i = 0; i < MANY; i++) {
    s.at = i * STEP;
    const int forward = call(&s, "aten::linear", 0, 2000, "train.py(5): train");
    for (int k = 0; k < NODES; k++) {
      node(&s, "AddmmBackward0", 2500 + 500 * k, is_mixed ? 450 : 500, forward);
      mini_arg_int(s.m, "Sequence number", k < old ? k : 100 * i + k);
      mini_arg_int(s.m, "Fwd thread id", 1);
      if (is_mixed && k % 2) gradient(&s, 2980 + 500 * k, 10, k > 1);
    }
    call(&s, "aten::sgd", 5000, 4900, "train.py(9): train");
  }
  return s;
}

static void test_nodes_of_earlier_steps(void **state) {
  struct scene s = graph(2, false); /* 11 of 12 steps run 1 ms of them again */
  struct tg_table *t = ask(&s);
  const size_t row = mini_row(t, "cause", "graph-retention");
  assert_int_equal(mini_int(t, row, "cost_ns"), 11 * 1000 * US / 12);
  assert_non_null(strstr(mini_cell(t, row, "evidence"),
                         "of 4 nodes of backward a step 1 have run in an earlier step")); /* 22 / 12 */
  assert_int_equal(mini_int(t, row, "line"), 5);
  tg__table_free(t);
  s = graph(0, false);
  expect_absent(&s, "graph-retention");
}

/* What runs behind the last gradient that is cleared is unneeded; where nodes of earlier steps run again, that says it.
 */
static void test_gradients_of_nodes_of_earlier_steps(void **state) {
  for (int old = 0; old <= 2; old += 2) {
    struct scene s = graph(old, true);
    struct tg_table *const t = ask(&s);
    assert_int_equal(count(t, "unneeded-gradient"), old == 0);
    assert_int_equal(count(t, "graph-retention"), old > 0);
    tg__table_free(t);
  }
}

/* A node of autograd with its number, and the line that called backward. */
static void run_node(struct scene *s, int64_t us, int number, int forward, const char *stack) {
  const int slice = call(s, "autograd::engine::evaluate_function: GruBackward0", us, 200, stack);
  mini_arg_int(s->m, "Sequence number", number);
  mini_arg_int(s->m, "Fwd thread id", 1);
  if (forward >= 0) mini_cause(s->m, slice, forward);
}

/* What a layer of the model puts out is given to it again in the next step with its graph; the loss is not. Backward
 * comes 4 ms behind forward, be it in the next step, and runs the nodes of the loss and of the layer in all steps. */
static void expect_kept(int64_t forward_us, const char *backward, const char *where, int64_t line) {
  struct scene s = begin_of(MANY);
  for (int i = 0; i < MANY; i++) {
    s.at = i * STEP + forward_us * US;
    const int layer = call(&s, "aten::gru", 0, 300, "net.py(3): forward;train.py(20): step;train.py(30): train");
    const int loss = call(&s, "aten::mean", 400, 50, "train.py(21): step;train.py(30): train");
    run_node(&s, 4000, 1000 + i, loss, backward);
    for (int k = 0; k <= i; k++) run_node(&s, 4200 + 200 * k, i - k, k ? -1 : layer, backward);
  }
  struct tg_table *const t = ask(&s);
  const size_t row = mini_row(t, "cause", "graph-retention");
  assert_string_equal(mini_cell(t, row, "where"), where);
  assert_int_equal(mini_int(t, row, "line"), line);
  tg__table_free(t);
}

static void test_what_is_kept_with_its_graph(void **state) {
  for (int64_t forward_us = 0; forward_us <= 7000; forward_us += 7000) {
    expect_kept(forward_us, "train.py(40): train", "aten::gru at train.py(30): train", 30);
    expect_kept(forward_us, "train.py(22): step;train.py(30): train", "aten::gru at train.py(20): step", 20);
    expect_kept(forward_us, "other.py(7): run", "aten::gru at net.py(3): forward", 3); /* no function calls both */
    expect_kept(forward_us, NULL, "aten::gru at train.py(20): step", 20); /* as on the thread of a device */
  }
}

/* ---- passes without a backward pass -------------------------------------------------------------- */

/* A module runs in line 5 and has a backward pass; it, or another of its kind, runs for again_us in line 8. Between
 * them an operator may run, or one inside another, on tensors of these shapes. */
static struct scene passes_between(const char *module, const char *dims, int64_t again_us, bool is_trained,
                                   const char *between, const char *of) {
  struct scene s = begin_of(MANY);
  for (int i = 0; i < MANY; i++) {
    s.at = i * STEP;
    mini_slice(s.m, s.thread, "python_function", "nn.Module: Linear_0", s.at, 2000 * US);
    const int first = call(&s, "aten::linear", 0, 1900, "net.py(3): forward;train.py(5): train");
    inputs(&s, "[[64,32]]", "[\"float\"]", NULL);
    if (between) call(&s, "aten::randn", 2010, 80, "train.py(7): train");
    if (between) mini_slice(s.m, s.thread, "cpu_op", between, s.at + 2020 * US, 60 * US);
    if (between) inputs(&s, of, "[\"float\"]", NULL);
    mini_slice(s.m, s.thread, "python_function", module, s.at + 2100 * US, again_us * US);
    const int second = call(&s, "aten::linear", 2100, again_us - 50, "net.py(3): forward;train.py(8): train");
    inputs(&s, dims, "[\"float\"]", NULL);
    node(&s, "AddmmBackward0", 5500, 4000, first);
    if (is_trained) node(&s, "AddmmBackward0", 9500, 400, second);
  }
  return s;
}

static struct scene passes(const char *module, const char *dims, int64_t again_us, bool is_trained) {
  return passes_between(module, dims, again_us, is_trained, NULL, NULL);
}

/* What the second pass is given is made between the two: it is no repetition of the first. */
static void test_a_second_forward_of_another_input(void **state) {
  static const struct {
    const char *name, *dims;
    int found;
  } cases[] = {{"aten::normal_", "[[64,32],[],[],[]]", 0},
               {"aten::normal_", "[[64,10],[],[],[]]", 1}, /* the noise of something else */
               {"aten::index", "[[5000,32],[]]", 0},
               {"aten::slice", "[[5000,16],[],[],[],[]]", 1},
               {"aten::mul", "[[64,32],[]]", 1},
               {"aten::copy_", "[[64,32],[64,32],[]]", 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct scene s = passes_between("nn.Module: Linear_0", "[[64,32]]", 3050, false, cases[i].name, cases[i].dims);
    assert_int_equal(count_of(&s, "repeated-forward"), cases[i].found);
  }
}

/* Both passes are given a part of the data: the same one, or the one behind it. */
static void test_a_second_forward_of_a_part(void **state) {
  for (int next = 0; next < 2; next++) {
    struct scene s = begin_of(MANY);
    for (int i = 0; i < MANY; i++) {
      char values[64];
      s.at = i * STEP;
      int first = 0;
      for (int k = 0; k < 2; k++) {
        snprintf(values, sizeof values, "[\"\",\"0\",\"%d\",\"%d\",\"1\"]", 64 * (i + k * next),
                 64 * (i + k * next + 1));
        call(&s, "aten::slice", 2500 * k, 20, k ? "train.py(8): train" : "train.py(5): train");
        inputs(&s, "[[5000,32],[],[],[],[]]", "[\"float\"]", values);
        mini_slice(s.m, s.thread, "python_function", "nn.Module: Linear_0", s.at + (2500 * k + 30) * US, 2400 * US);
        const int linear = call(&s, "aten::linear", 2500 * k + 40, 2300,
                                k ? "net.py(3): forward;train.py(8): train" : "net.py(3): forward;train.py(5): train");
        inputs(&s, "[[64,32]]", "[\"float\"]", NULL);
        if (!k) first = linear;
      }
      node(&s, "AddmmBackward0", 5500, 4000, first);
    }
    assert_int_equal(count_of(&s, "repeated-forward"), !next);
  }
}

static void test_a_second_forward(void **state) {
  struct scene s = passes("nn.Module: Linear_0", "[[64,32]]", 3050, false);
  struct tg_table *t = ask(&s);
  const size_t row = mini_row(t, "cause", "repeated-forward");
  assert_int_equal(mini_int(t, row, "cost_ns"), 3000 * US);
  assert_int_equal(mini_int(t, row, "line"), 8);
  assert_string_not_equal(mini_cell(t, row, "severity"), "high");
  tg__table_free(t);
  s = passes("nn.Module: Linear_0", "[[64,32]]", 3050, true); /* both are trained by */
  expect_absent(&s, "repeated-forward");
  s = passes("nn.Module: Linear_1", "[[64,32]]", 3050, false); /* a teacher */
  expect_absent(&s, "repeated-forward");
  s = passes("nn.Module: Linear_0", "[[1,32]]", 3050, false); /* a single sample, to act by */
  expect_absent(&s, "repeated-forward");
  s = passes("nn.Module: Linear_0", "[[64,32]]", 950, false); /* 9 % */
  expect_absent(&s, "repeated-forward");
}

/* ---- proportion -------------------------------------------------------------------------------- */

static void expect_note_of(int64_t forward_us, int64_t backward_us, bool has_module, const char *conditions,
                           const char *words, bool wanted) {
  struct scene s = begin_of(MANY);
  bool has = false;
  for (int i = 0; i < MANY; i++) {
    s.at = i * STEP;
    if (has_module) mini_slice(s.m, s.thread, "python_function", "nn.Module: Linear_0", s.at, forward_us * US);
    const int forward = call(&s, "aten::linear", 0, forward_us, "train.py(5): train");
    if (backward_us) node(&s, "AddmmBackward0", forward_us, backward_us, forward);
  }
  struct tg__columns *const trace = mini_finish(s.m);
  assert_true(tg__trace_add_meta(trace, "conditions", conditions));
  struct tg_table *const t = mini_ask(trace, "findings", NULL);
  for (size_t i = 0; i < t->note_count; i++) has |= strstr(t->notes[i], words) != NULL;
  assert_int_equal(has, wanted);
  tg__table_free(t);
  mini_free(s.m);
}

static void expect_note(int64_t forward_us, int64_t backward_us, bool has_module, const char *words, bool wanted) {
  expect_note_of(forward_us, backward_us, has_module, "{}", words, wanted);
}

static void test_proportion(void **state) {
  expect_note(3000, 6000, true, "operators of forward take", false);
  expect_note(6000, 2000, true, "operators of forward take 6.00 ms a step and those of backward 2.00 ms, 0.3 times",
              true);
  expect_note(2000, 7000, true, "operators of forward take 2.00 ms a step and those of backward 7.00 ms, 3.5 times",
              true);
  expect_note(8000, 0, true, "forward only: no backward pass in 12 steps", true);
  expect_note(8000, 0, false, "forward only", false); /* no model */
  expect_note(3000, 6000, true, "forward only", false);
  static const char busy[] =
      "{\"cpu_cores\":2,\"core_wait_pct\":20,\"others_pct\":90}"; /* twice as much has to be out of proportion */
  expect_note_of(6000, 2000, true, busy, "operators of forward take", false);
  expect_note_of(7000, 1500, true, busy, "operators of forward take 7.00 ms a step and those of backward 1.50 ms",
                 true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_nodes_of_earlier_steps),
      cmocka_unit_test(test_gradients_of_nodes_of_earlier_steps),
      cmocka_unit_test(test_what_is_kept_with_its_graph),
      cmocka_unit_test(test_a_second_forward),
      cmocka_unit_test(test_a_second_forward_of_another_input),
      cmocka_unit_test(test_a_second_forward_of_a_part),
      cmocka_unit_test(test_proportion),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
