/* The findings that follow calls to their lines: for every rule a program in which it fires, with figures added up
 * by hand, and one in which it must not. Steps of 10 ms; times inside a step are in microseconds. */
#include "unit/findings_scene.h"

/* ---- loops ----------------------------------------------------------------------------------- */

/* 20 turns a step of a call of 90 us with its shortest of `shortest`, and 10 us of Python behind each; one call
 * outside the loop. */
struct turn {
  const char *name, *stack, *dims, *values, *module;
  bool varies; /* shapes differ from turn to turn */
};

static struct scene loop(const struct turn *x, int turns, int64_t shortest) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    call(&s, "aten::unbind", 0, 20, "train.py(11): pool;train.py(30): train");
    inputs(&s, "[[20, 5, 8], []]", NULL, "[\"\", \"0\"]");
    for (int k = 0; k < turns; k++) {
      const int64_t at = 100 + 100 * k;
      if (x->module) mini_slice(s.m, s.thread, "python_function", x->module, s.at + at * US, 95 * US);
      call(&s, x->name, at, k ? 90 : shortest, x->stack);
      char dims[64];
      snprintf(dims, sizeof dims, "[[%d, 8], []]", k + 1);
      inputs(&s, x->varies ? dims : x->dims, NULL, x->values);
    }
    call(&s, "aten::conv2d", 5000, 4000, "train.py(33): train");
  }
  return s;
}

/* Of 20 × 90 − 80 = 1720 us of calls a step 19/20 are beyond the first: 1634. The shortest takes 10 us, of which 10
 * ns are the work on 5 × 8 elements: 0.999 of them are price, 1632.366. Taking the tensor apart, 20 us, is a part of
 * the loop. Python between them: 18 gaps of 10 us, and one of 90 behind the shortest, of which 50 count: 230; of
 * them one of 20 parts stays. */
static void test_loop_over_samples(void **state) {
  const struct turn mv = {"aten::mv", "train.py(12): pool;train.py(30): train", "[[5, 8], [8]]", NULL, NULL, false};
  struct scene s = loop(&mv, 20, 10);
  expect(&s, "per-sample-loop", 1720 + 20 + 230, 1632.366 + 20 + 218.5, "aten::mv at train.py(12): pool", 12);
  s = loop(&mv, 15, 10); /* fewer turns than sixteen */
  expect_absent(&s, "per-sample-loop");
  s = loop(&mv, 20, 80); /* no call of 80 us or more is short */
  expect_absent(&s, "per-sample-loop");
  const struct turn nowhere = {"aten::mv", NULL, "[[5, 8], [8]]", NULL, NULL, false}; /* calls from anywhere */
  s = loop(&nowhere, 20, 10);
  expect_absent(&s, "many-small-ops");
}

/* The same loop in a worker process of the loader, which goes on beside the steps. */
static void test_loop_of_a_worker(void **state) {
  struct scene s = begin();
  const uint32_t worker = mini_thread(s.m, 2, 20);
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    call(&s, "aten::conv2d", 5000, 4000, "train.py(33): train");
    for (int k = 0; k < 20; k++) {
      mini_slice(s.m, worker, "cpu_op", "aten::mv", s.at + 100 * k * US, (k ? 90 : 10) * US);
      mini_arg_str(s.m, "Call stack", "train.py(12): pool;train.py(30): load");
    }
  }
  expect_absent(&s, "many-small-ops");
}

static void test_loop_over_indexes(void **state) {
  const struct turn row = {
      "aten::select", "train.py(12): pool;train.py(30): train", "[[64, 20], [], []]", "[\"\", \"1\", \"3\"]", NULL,
      false};
  struct scene s = loop(&row, 20, 10);
  expect(&s, "tensor-index-loop", 1970, 1872.5, "aten::select at train.py(12): pool", 12);
}

static void test_loop_over_elements(void **state) {
  const struct turn item = {"aten::item", "train.py(12): pool;train.py(30): train", "[[]]", NULL, NULL, false};
  struct scene s = loop(&item, 20, 10);
  struct tg_table *t = ask(&s);
  assert_int_equal(count(t, "per-element-item"), 1); /* the loop, not the reads once more */
  tg__table_free(t);
}

static void test_loop_over_parameters(void **state) {
  const struct turn norm = {
      "aten::linalg_vector_norm", "train.py(12): clip;train.py(30): train", NULL, NULL, NULL, true};
  struct scene s = loop(&norm, 20, 10);
  /* In the function of the tensor that is taken apart is another loop. The longest call, the second one, has 2 * 8
   * elements. */
  expect(&s, "per-parameter-loop", 1950, 1634 * (10 - 0.004) / 10 + 218.5,
         "aten::linalg_vector_norm at train.py(12): clip", 12);
}

/* A model called for each two rows: the loop is where the model is called. Layers, each a module of its own, are no
 * loop. */
/* Each turn a short operator on one parameter and a long one on a number; gradients arrive for so many parameters. */
static size_t over_parameters(int gradients, const char *cause) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    call(&s, "aten::unbind", 0, 20, "train.py(11): pool;train.py(30): train");
    for (int k = 0; k < 20; k++) {
      char dims[64];
      snprintf(dims, sizeof dims, "[[%d, 8], []]", k + 1);
      call(&s, "aten::pow", 100 + 100 * k, 10, "train.py(12): norms;train.py(30): train");
      inputs(&s, dims, NULL, NULL);
      call(&s, "aten::add", 110 + 100 * k, 40, "train.py(12): norms;train.py(30): train");
      inputs(&s, "[[], []]", NULL, NULL);
    }
    for (int k = 0; k < gradients; k++) gradient(&s, 5000 + 20 * k, 10, false);
  }
  return count_of(&s, cause);
}

static void test_loop_once_for_each_parameter(void **state) {
  assert_int_equal(over_parameters(20, "per-parameter-loop"), 1);
  assert_int_equal(over_parameters(18, "per-parameter-loop"), 0);
  assert_int_equal(over_parameters(18, "many-small-ops"), 1);
}

/* Modules that were worked out of stacks have the ends of their operators, and stand behind them. */
static void test_loop_over_pieces_of_derived_modules(void **state) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    call(&s, "aten::unbind", 0, 20, "train.py(31): train");
    for (int k = 0; k < 20; k++) {
      call(&s, "aten::linear", 100 + 100 * k, k ? 90 : 10, "train.py(5): forward;train.py(31): train");
      inputs(&s, "[[2, 8], [8, 8]]", NULL, NULL);
      mini_slice(s.m, s.thread, "python_function", "nn.Module: Linear_0", s.at + (100 + 100 * k) * US,
                 (k ? 90 : 10) * US);
    }
  }
  expect(&s, "tiny-batches", 1950, 1852.5, "aten::linear at train.py(31): train", 31);
}

/* A comprehension is a function of its own: what it goes over is taken apart at the line that calls it. */
static struct scene comprehension(const char *unbind_at) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    call(&s, "aten::unbind", 0, 20, unbind_at);
    inputs(&s, "[[20, 5, 8], []]", NULL, "[\"\", \"0\"]");
    for (int k = 0; k < 20; k++) {
      call(&s, "aten::mv", 100 + 100 * k, k ? 90 : 10, "train.py(31): <listcomp>;train.py(31): train");
      inputs(&s, "[[5, 8], [8]]", NULL, NULL);
    }
    call(&s, "aten::conv2d", 5000, 4000, "train.py(33): train");
  }
  return s;
}

static void test_loop_in_a_comprehension(void **state) {
  struct scene s = comprehension("train.py(31): train");
  expect(&s, "per-sample-loop", 1720 + 20 + 230, 1632.366 + 20 + 218.5, "aten::mv at train.py(31): <listcomp>", 31);
  s = comprehension("train.py(29): train");
  expect_absent(&s, "per-sample-loop");
}

/* A turn takes a row and works on it; the row counted from the end is the same place in each turn. */
static struct scene takes_row(const char *row) {
  struct scene s = begin();
  char values[64];
  snprintf(values, sizeof values, "[\"\", \"0\", \"%s\", \"\", \"1\"]", row);
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    for (int k = 0; k < 20; k++) {
      call(&s, "aten::slice", 100 + 100 * k, k ? 9 : 1, "train.py(12): pool;train.py(30): train");
      inputs(&s, "[[20, 5, 8], [], [], [], []]", NULL, values);
      call(&s, "aten::mv", 110 + 100 * k, k ? 80 : 10, "train.py(12): pool;train.py(30): train");
      inputs(&s, "[[5, 8], [8]]", NULL, NULL);
    }
    call(&s, "aten::conv2d", 5000, 4000, "train.py(33): train");
  }
  return s;
}

static void test_the_same_row_in_each_turn(void **state) {
  struct scene s = takes_row("3");
  assert_int_equal(count_of(&s, "per-sample-loop"), 1);
  s = takes_row("-1");
  struct tg_table *t = ask(&s);
  assert_int_equal(count(t, "per-sample-loop"), 0);
  assert_int_equal(count(t, "many-small-ops"), 1);
  tg__table_free(t);
}

/* A turn selects a column in 5 us and adds in 5; one call of add loses its core for 4 ms. By the sums selecting is a
 * fiftieth of the loop, and by what each call takes at least half of it. */
static void test_a_lost_core_is_no_other_loop(void **state) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    for (int k = 0; k < 20; k++) {
      const int64_t at = 100 + 30 * k;
      call(&s, "aten::select", at, 5, "train.py(12): pool;train.py(30): train");
      inputs(&s, "[[20, 5], [], []]", NULL, "[\"\", \"1\", \"3\"]");
      call(&s, "aten::add", at + 10, k == 19 ? 4000 : 5, "train.py(12): pool;train.py(30): train");
      inputs(&s, "[[20], [20], []]", NULL, NULL);
    }
    call(&s, "aten::conv2d", 5000, 4000, "train.py(33): train");
  }
  assert_int_equal(count_of(&s, "tensor-index-loop"), 1);
}

/* A turn selects a column in 3 us and adds in 20; one call of add, on an empty tensor, takes 1. As each of them it
 * would be a loop over columns: 3 of 4 us. Selecting is 3 of 23. */
static void test_one_call_that_does_less(void **state) {
  for (int has_short = 0; has_short < 2; has_short++) {
    struct scene s = begin();
    for (int i = 0; i < STEPS; i++) {
      s.at = i * STEP;
      for (int k = 0; k < 40; k++) {
        const int64_t at = 100 + 50 * k;
        call(&s, "aten::select", at, 3, "train.py(12): pool;train.py(30): train");
        inputs(&s, "[[20, 5], [], []]", NULL, "[\"\", \"1\", \"3\"]");
        call(&s, "aten::add", at + 10, has_short && k == 7 ? 1 : 20, "train.py(12): pool;train.py(30): train");
        inputs(&s, "[[20], [20], []]", NULL, NULL);
      }
      call(&s, "aten::conv2d", 5000, 4000, "train.py(33): train");
    }
    struct tg_table *t = ask(&s);
    assert_int_equal(count(t, "tensor-index-loop"), 0);
    assert_int_equal(count(t, "many-small-ops"), 1);
    tg__table_free(t);
  }
}

/* The same calls inside a module that is entered once a step: a cell that goes along a sequence. */
static void test_loop_of_a_cell(void **state) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    mini_slice(s.m, s.thread, "python_function", "nn.Module: Recurrent_0", s.at + 50 * US, 3000 * US);
    for (int k = 0; k < 20; k++) {
      mini_slice(s.m, s.thread, "python_function", "nn.Module: Linear_0", s.at + (100 + 100 * k) * US, 95 * US);
      call(&s, "aten::linear", 100 + 100 * k, k ? 90 : 10, "train.py(5): forward;train.py(31): train");
      inputs(&s, "[[2, 8], [8, 8]]", NULL, NULL);
    }
    call(&s, "aten::conv2d", 5000, 4000, "train.py(33): train");
  }
  struct tg_table *t = ask(&s);
  assert_int_equal(count(t, "tiny-batches"), 0);
  assert_int_equal(count(t, "many-small-ops"), 1);
  tg__table_free(t);
}

static void test_loop_over_pieces(void **state) {
  const struct turn layer = {"aten::linear",        "train.py(5): forward;train.py(31): train",
                             "[[2, 8], [8, 8]]",    NULL,
                             "nn.Module: Linear_0", false};
  struct scene s = loop(&layer, 20, 10);
  expect(&s, "tiny-batches", 1970, 1872.5, "aten::linear at train.py(31): train", 31);
  s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    for (int k = 0; k < 20; k++) {
      char module[32];
      snprintf(module, sizeof module, "nn.Module: Linear_%d", k);
      mini_slice(s.m, s.thread, "python_function", module, s.at + 100 * k * US, 95 * US);
      call(&s, "aten::linear", 100 * k, 10, "train.py(5): forward;train.py(31): train");
    }
  }
  struct tg_table *t = ask(&s);
  assert_int_equal(count(t, "tiny-batches") + count(t, "many-small-ops") + count(t, "per-sample-loop"), 0);
  tg__table_free(t);
}

/* ---- operators ------------------------------------------------------------------------------- */

static struct scene attention(const char *scores, const char *second) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    const int product = call(&s, "aten::matmul", 0, 1000, "train.py(20): forward");
    inputs(&s, "[[2, 4, 64, 16], [2, 4, 16, 64]]", NULL, NULL);
    call(&s, "aten::div", 1000, 200, "train.py(20): forward");
    inputs(&s, "[[2, 4, 64, 64], []]", NULL, NULL);
    const int softmax = call(&s, "aten::softmax", 1200, 600, "train.py(21): forward");
    inputs(&s, scores, NULL, NULL);
    call(&s, "aten::matmul", 1800, 1000, "train.py(22): forward");
    inputs(&s, second, NULL, NULL);
    call(&s, "aten::linear", 2800, 3000, "train.py(23): forward");
    inputs(&s, "[[2, 64, 64], [64, 64]]", NULL, NULL);
    node(&s, "SoftmaxBackward0", 6000, 700, softmax);
    node(&s, "BmmBackward0", 6700, 1500, product);
  }
  return s;
}

/* 1000 + 200 + 600 + 1000 forward, 700 + 1500 backward: 5000. Saved: 200 + 1300 and half of 2500 + 1000. */
static void test_attention(void **state) {
  struct scene s = attention("[[2, 4, 64, 64], [], []]", "[[2, 4, 64, 64], [2, 4, 64, 16]]");
  expect(&s, "handwritten-attention", 5000, 1500 + 1750, "aten::softmax at train.py(21): forward", 21);
  s = attention("[[2, 4, 64, 64], [], []]", "[[2, 4, 16, 64], [2, 4, 64, 16]]"); /* the scores go nowhere */
  expect_absent(&s, "handwritten-attention");
  s = attention("[[512, 64], [], []]", "[[512, 64], [64, 16]]"); /* a classifier's softmax */
  expect_absent(&s, "handwritten-attention");
}

static struct scene types(const char *wide, const char *parameter) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    call(&s, "aten::mul", 0, 1000, "train.py(8): features");
    char both[80];
    snprintf(both, sizeof both, "[\"float\", \"%s\"]", wide);
    inputs(&s, "[[64, 100], [100]]", both, NULL);
    call(&s, "aten::square", 1000, 600, "train.py(9): features");
    char one[80];
    snprintf(one, sizeof one, "[\"%s\"]", wide);
    inputs(&s, "[[64, 100]]", one, NULL);
    call(&s, "aten::to", 1600, 400, "train.py(9): features");
    inputs(&s, "[[64, 100]]", one, NULL);
    call(&s, "aten::div", 2000, 900, "train.py(10): features"); /* a number is no tensor */
    inputs(&s, "[[64, 100], []]", "[\"float\", \"double\"]", NULL);
    node(&s, "torch::autograd::AccumulateGrad", 9000, 10, -1);
    snprintf(one, sizeof one, "[\"%s\"]", parameter);
    inputs(&s, "[[100]]", one, NULL);
  }
  return s;
}

static void test_types(void **state) {
  struct scene s = types("double", "float"); /* half of 1000 and 600, and all of the cast */
  expect(&s, "dtype-promotion", 2000, 500 + 300 + 400, "aten::mul at train.py(8): features", 8);
  s = types("double", "double"); /* a model that is meant to be */
  expect_absent(&s, "dtype-promotion");
  s = types("float", "float");
  expect_absent(&s, "dtype-promotion");
  s = begin(); /* one line multiplies by a number, which is a double, and by a tensor, which is not a double */
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    call(&s, "aten::mul", 0, 1000, "train.py(8): act");
    inputs(&s, "[[64, 100], []]", "[\"float\", \"double\"]", NULL);
    call(&s, "aten::mul", 1000, 2000, "train.py(8): act");
    inputs(&s, "[[64, 100], [64, 100]]", "[\"float\", \"float\"]", NULL);
    node(&s, "torch::autograd::AccumulateGrad", 9000, 10, -1);
    inputs(&s, "[[100]]", "[\"float\"]", NULL);
  }
  expect_absent(&s, "dtype-promotion");
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* Head and backbone are called in lines 31 and 30 of train; `passes` backward passes a step. */
static struct scene two_parts(bool head_added, bool backbone_added, int passes) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    for (int p = 0; p < passes; p++) {
      s.at = i * STEP + p * (STEP / passes);
      const int backbone = call(&s, "aten::conv2d", 0, 100, "net.py(4): forward;train.py(30): train");
      const int head = call(&s, "aten::linear", 100, 100, "net.py(9): forward;train.py(31): train");
      node(&s, "AddmmBackward0", 300, 200, head);
      gradient(&s, 500, 100, head_added);
      node(&s, "ConvolutionBackward0", 600, 1400, backbone);
      gradient(&s, 2000, 100, backbone_added);
      call(&s, "aten::_foreach_add_", 2200, 10, "train.py(41): train");
    }
  }
  return s;
}

/* A judge learns from what a maker makes in line 50, with a gradient of the maker where it reaches it; then the maker
 * learns. An update follows the first pass and another one the second, or both follow the second. */
static struct scene judge_and_maker(bool reaches_maker, bool updates_at_end) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    for (int turn = 0; turn < 2; turn++) {
      s.at = i * STEP + turn * (STEP / 2);
      const int made = call(&s, "aten::linear", 0, 100, turn ? "train.py(60): train" : "train.py(50): train");
      const int judged = call(&s, "aten::linear", 100, 100, turn ? "train.py(61): train" : "train.py(51): train");
      node(&s, "AddmmBackward0", 300, 200, judged);
      gradient(&s, 500, 100, turn == 1);
      if (turn || reaches_maker) {
        node(&s, "AddmmBackward0", 600, 1400, made);
        gradient(&s, 2000, 100, turn == 0);
        gradient(&s, 2100, 100, turn == 0);
      }
      for (int k = 0; k < (updates_at_end ? 2 * turn : 1); k++) {
        const int64_t at = 2300 + 100 * k;
        mini_slice(s.m, s.thread, "user_annotation", "Optimizer.step#Adam.step", s.at + at * US, 90 * US);
        call(&s, "aten::_fused_adam_", at, 80, turn ? "train.py(63): train" : "train.py(53): train");
      }
    }
  }
  return s;
}

/* A gradient of two sides, made by the last product of a node that has another one for the layer before. */
static void product_and_gradient(struct scene *s, int64_t us, int forward, const char *dims, bool added) {
  node(s, "AddmmBackward0", us, 1000, forward);
  call(s, "aten::mm", us + 10, 400, NULL);
  inputs(s, "[[64, 30], [30, 20]]", NULL, NULL); /* 64 rows of 20 for the layer before */
  call(s, "aten::mm", us + 450, 500, NULL);
  inputs(s, "[[30, 64], [64, 20]]", NULL, NULL);
  node(s, "torch::autograd::AccumulateGrad", us + 1000, 100, -1);
  inputs(s, dims, NULL, NULL);
  call(s, added ? "aten::add_" : "aten::detach", us + 1000, 90, NULL);
}

/* A wide layer and an adapter beside it, twice; backward comes to them in turn. The program does not clear the
 * gradients of the wide ones. */
static struct scene adapters(const char *dims, bool added) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    const int wide = call(&s, "aten::linear", 0, 100, "net.py(4): forward;train.py(30): train");
    const int small = call(&s, "aten::linear", 100, 100, "net.py(5): forward;train.py(30): train");
    for (int k = 0; k < 2; k++) {
      product_and_gradient(&s, 1000 + 3000 * k, wide, dims, added);
      product_and_gradient(&s, 2500 + 3000 * k, small, "[[20, 30]]", false);
    }
    call(&s, "aten::_foreach_add_", 9000, 10, "train.py(41): train");
  }
  return s;
}

static void test_gradients_between_those_that_are_used(void **state) {
  struct scene s = adapters("[[20, 30]]", true); /* 2 x (500 + 100): each product and its addition */
  struct tg_table *const t = ask(&s);
  const size_t row = mini_row(t, "cause", "unneeded-gradient");
  assert_int_equal(mini_int(t, row, "cost_ns"), 1200 * US);
  assert_string_equal(mini_cell(t, row, "where"), "aten::linear at net.py(4): forward");
  tg__table_free(t);
  s = adapters("[[20, 30]]", false); /* the optimizer has all of them */
  expect_absent(&s, "unneeded-gradient");
  s = adapters("[[20, 31]]", true); /* which product made it is not known */
  expect_absent(&s, "unneeded-gradient");
}

static void test_gradient_of_the_other_network(void **state) {
  struct scene s = judge_and_maker(true, false); /* 1400 + 2 x 100 */
  expect(&s, "unneeded-gradient", 1600, 1600, "aten::linear at train.py(50): train", 50);
  s = judge_and_maker(false, false); /* made without a graph: no gradient is added to in the first pass */
  expect_absent(&s, "unneeded-gradient");
  s = judge_and_maker(true, true); /* both passes come before the updates, which use the sum */
  expect_absent(&s, "unneeded-gradient");
}

static void test_unneeded_gradient(void **state) {
  struct scene s = two_parts(false, true, 1);
  expect(&s, "unneeded-gradient", 1500, 1500, "aten::conv2d at train.py(30): train", 30);
  s = two_parts(false, false, 1); /* all of them are cleared */
  expect_absent(&s, "unneeded-gradient");
  s = two_parts(true, true, 1); /* none is: it may be meant */
  expect_absent(&s, "unneeded-gradient");
  s = two_parts(false, true, 2); /* accumulation over two batches */
  expect_absent(&s, "unneeded-gradient");
}

static void test_zero_fill(void **state) {
  struct scene s = two_parts(true, true, 1);
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    mini_slice(s.m, s.thread, "user_annotation", "Optimizer.zero_grad#SGD.zero_grad", s.at + 3000 * US, 800 * US);
    call(&s, "aten::zero_", 3000, 600, "torch/optim/optimizer.py(9): zero_grad;train.py(42): train");
  }
  expect(&s, "gradient-zero-fill", 800, 800, "aten::zero_ at train.py(42): train",
         42); /* 600, and two gradients of 100 added */
  s = two_parts(true, true, 1);
  expect_absent(&s, "gradient-zero-fill");
  for (int tensors = 2; tensors <= 5;
       tensors += 3) { /* by hand, as many as gradients are added to; or more, for something else */
    s = two_parts(true, true, 1);
    for (int i = 0; i < STEPS; i++) {
      s.at = i * STEP;
      for (int k = 0; k < tensors; k++)
        call(&s, "aten::zero_", 3000 + 200 * k, 200, "train.py(21): clear;train.py(42): train");
    }
    if (tensors == 2)
      expect(&s, "gradient-zero-fill", 600, 600, "aten::zero_ at train.py(21): clear", 21); /* 400, and 2 x 100 added */
    else
      expect_absent(&s, "gradient-zero-fill");
  }
}

static struct scene table(const char *dims) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    const int lookup = call(&s, "aten::embedding", 0, 100, "train.py(7): forward");
    inputs(&s, dims, NULL, NULL);
    node(&s, "EmbeddingBackward0", 1000, 1500, lookup);
    node(&s, "torch::autograd::AccumulateGrad", 2500, 500, -1);
    inputs(&s, "[[100000, 32]]", "[\"float\"]", NULL);
    mini_slice(s.m, s.thread, "user_annotation", "Optimizer.step#SGD.step", s.at + 4000 * US, 2000 * US);
    call(&s, "aten::_fused_sgd_", 4000, 2000, "train.py(43): train");
  }
  return s;
}

/* Backward 1500 + 500, and the whole update of 2000, as the table is all there is; a tenth of it stays. */
static void test_dense_table(void **state) {
  struct scene s = table("[[100000, 32], [64, 10]]");
  expect(&s, "dense-embedding-gradient", 4000, 3600, "aten::embedding at train.py(7): forward", 7);
  s = table("[[100000, 32], [64, 1000]]"); /* most rows are used */
  expect_absent(&s, "dense-embedding-gradient");
}

/* ---- the same again -------------------------------------------------------------------------- */

/* A mask made of constants in a model (800 us), and a function whose results have no gradient (2000 us). */
static struct scene invariant(const char *source, const char *second) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    mini_slice(s.m, s.thread, "python_function", "nn.Module: Net_0", s.at, 6000 * US);
    call(&s, source, 0, 500, "train.py(14): forward;train.py(30): train");
    inputs(&s, "[[], []]", NULL, NULL);
    call(&s, "aten::tril", 500, 300, "train.py(14): forward;train.py(30): train");
    inputs(&s, "[[64, 64], []]", NULL, NULL);
    const int linear = call(&s, "aten::linear", 1000, 500, "train.py(15): forward;train.py(30): train");
    inputs(&s, "[[16, 12], [32, 12]]", NULL, NULL);
    call(&s, "aten::cdist", 2000, 1500, "train.py(9): graph;train.py(16): forward;train.py(30): train");
    inputs(&s, second, NULL, NULL);
    call(&s, "aten::exp", 3500, 500, "train.py(9): graph;train.py(16): forward;train.py(30): train");
    inputs(&s, "[[50, 50]]", NULL, NULL);
    node(&s, "AddmmBackward0", 7000, 500, linear);
    gradient(&s, 7500, 10, false);
  }
  return s;
}

/* What a step is for: a layer, its node of autograd and a gradient. */
static void train(struct scene *s) {
  const int linear = call(s, "aten::linear", 2500, 500, "train.py(15): forward;train.py(30): train");
  inputs(s, "[[16, 12], [32, 12]]", NULL, NULL);
  node(s, "AddmmBackward0", 7000, 500, linear);
  gradient(s, 7500, 10, false);
}

static size_t invariants(struct scene *s) { return count_of(s, "loop-invariant-recompute"); }

/* A function of the model whose results have no gradient: on a buffer by itself, or through a layer. It takes row
 * `row` of what it has. */
static size_t constant_function(const char *layer, const char *module, int moving) {
  struct scene s = begin();
  char stack[200];
  snprintf(stack, sizeof stack, "%strain.py(9): graph;torch/nn/modules/module.py(1789): _call_impl;train.py(30): train",
           layer);
  for (int i = 0; i < STEPS; i++) {
    char values[32];
    s.at = i * STEP;
    mini_slice(s.m, s.thread, "python_function", "nn.Module: Net_0", s.at, 6000 * US);
    call(&s, "aten::cdist", 0, 1500, stack);
    inputs(&s, "[[50, 2], [50, 2]]", NULL, NULL);
    call(&s, "aten::select", 1500, 100, stack);
    snprintf(values, sizeof values, "[\"\", \"0\", \"%d\"]", moving * i);
    inputs(&s, "[[50, 50], [], []]", NULL, values);
    if (module) mini_slice(s.m, s.thread, "python_function", module, s.at + 1600 * US, 500 * US);
    call(&s, "aten::exp", 1600, 400, stack);
    inputs(&s, "[[50, 50]]", NULL, NULL);
    train(&s);
  }
  return invariants(&s);
}

static void test_frozen_is_not_constant(void **state) {
  assert_int_equal(constant_function("", NULL, 0), 1);
  assert_int_equal(constant_function("", NULL, 1), 0); /* another row in each step */
  assert_int_equal(constant_function("", "nn.Module: Conv2d_0", 0), 0);
  assert_int_equal(constant_function("torch/nn/modules/conv.py(460): forward;", NULL, 0), 0);
}

/* Two calls of a line work on two shapes, in this order in each step or in another one. */
static size_t two_shapes(bool turned) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    mini_slice(s.m, s.thread, "python_function", "nn.Module: Net_0", s.at, 6000 * US);
    call(&s, "aten::eye", 0, 10, "train.py(9): graph;train.py(30): train");
    for (int k = 0; k < 2; k++) {
      call(&s, "aten::mul", 10 + 1000 * k, 1000, "train.py(9): graph;train.py(30): train");
      inputs(&s, (turned && i == 1) == k ? "[[600, 1], [600, 600]]" : "[[600, 600], [1, 600]]", NULL, NULL);
    }
    train(&s);
  }
  return invariants(&s);
}

static void test_invariant_of_two_shapes(void **state) {
  assert_int_equal(two_shapes(false), 1);
  assert_int_equal(two_shapes(true), 0);
}

static void test_invariant(void **state) {
  struct scene s = invariant("aten::ones", "[[50, 2], [50, 2]]");
  struct tg_table *t = ask(&s);
  assert_int_equal(count(t, "loop-invariant-recompute"), 2);
  for (size_t i = 0; i < t->rows; i++) {
    if (strcmp(mini_cell(t, i, "cause"), "loop-invariant-recompute") != 0) continue;
    const bool mask = strcmp(mini_cell(t, i, "where"), "aten::ones at train.py(14): forward") == 0;
    assert_int_equal(mini_int(t, i, "saving_ns"), mask ? 800 * US : 2000 * US);
    if (!mask) assert_string_equal(mini_cell(t, i, "where"), "aten::cdist at train.py(9): graph");
  }
  tg__table_free(t);
  s = invariant("aten::rand", "[[16, 12], [16, 12]]"); /* chance, and the batch */
  expect_absent(&s, "loop-invariant-recompute");
}

/* ---- waits, and ranks that wait -------------------------------------------------------------- */

static struct scene waits(const char *name, int64_t dur_us) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    call(&s, "aten::linear", 0, 100, "train.py(30): train");
    for (int k = 0; k < 2; k++) {
      mini_slice(s.m, s.thread, "user_annotation", name, s.at + (1000 + 4000 * k) * US, dur_us * US);
      mini_arg_str(s.m, "Call stack", "train.py(50): log;train.py(31): train");
    }
  }
  return s;
}

static void test_waits(void **state) {
  struct scene s = waits("os.fsync", 3000);
  expect(&s, "sync-logging", 6000, 6000, "os.fsync at train.py(50): log", 50);
  s = waits("torch.save", 3000);
  expect(&s, "sync-checkpoint", 6000, 5400, "torch.save at train.py(50): log", 50);
  s = waits("numpy.load", 3000);
  expect(&s, "repeated-file-load", 6000, 6000, "numpy.load at train.py(50): log", 50);
  s = waits("os.fsync", 250); /* 5 % of a step: not above */
  expect_absent(&s, "sync-logging");
}

/* 4.5 ms without an operator, in which the thread was seen. */
static void sleep_in_step(struct scene *s, uint32_t watch) {
  call(s, "aten::relu", 5500, 10, "train.py(40): train");
  mini_slice(s->m, watch, "python_sample", "sleep", s->at + 1100 * US, 4300 * US);
  mini_arg_str(s->m, "Call stack", "train.py(25): pause;train.py(39): train");
}

/* Two ranks, steps of 10 ms, of which each waits so long in a collective. The second may sleep in between. */
static struct tg_table *two_ranks(int64_t first_wait_us, int64_t second_wait_us, bool sleeps) {
  struct scene s = begin();
  const int64_t wait[2] = {first_wait_us, second_wait_us};
  uint32_t watch = 0;
  for (int r = 0; r < 2; r++) {
    if (r) {
      mini_rank(s.m, 1);
      s.thread = mini_thread(s.m, 2, 20);
      watch = sleeps ? mini_thread(s.m, 2, 21) : 0;
    }
    for (int i = 0; i < STEPS; i++) {
      s.at = i * STEP;
      if (r) mark_step(&s, i);
      call(&s, "aten::pad", 0, 1000, "train.py(20): load;train.py(30): train");
      inputs(&s, i ? "[[24, 90]]" : "[[24, 40]]", NULL, NULL);
      if (r && sleeps) sleep_in_step(&s, watch);
      mini_slice(s.m, s.thread, "user_annotation", "gloo:all_reduce", s.at + STEP - wait[r] * US, wait[r] * US);
    }
  }
  return ask(&s);
}

/* Rank 1 works 9 ms and rank 0 only 5, so both could be done in 7. */
/* A step of 4 ms of backward and 3 ms of a collective that is called behind it, or by a node of it. */
static struct scene reduces(bool by_node) {
  struct scene s = begin();
  const uint32_t gloo = mini_thread(s.m, 1, 11);
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    const int linear = call(&s, "aten::linear", 0, 1000, "train.py(15): forward;train.py(30): train");
    node(&s, "AddmmBackward0", 1000, 4000, linear);
    call(&s, "c10d::allreduce_", by_node ? 4000 : 5500, 100,
         "torch/distributed.py(3): all_reduce;train.py(20): average;train.py(30): train");
    mini_slice(s.m, gloo, "user_annotation", "gloo:all_reduce", s.at + 5600 * US, 3000 * US);
  }
  return s;
}

static void test_communication_of_the_host(void **state) {
  struct scene s = reduces(false); /* half of 3 ms */
  expect(&s, "communication-not-overlapped", 3000, 1500, "c10d::allreduce_ at train.py(20): average", 20);
  s = reduces(true);
  struct tg_table *t = ask(&s);
  assert_true(mini_int(t, mini_row(t, "cause", "communication-not-overlapped"), "saving_ns") == TG_NULL_INT);
  tg__table_free(t);
}

static void test_straggler(void **state) {
  struct tg_table *t = two_ranks(5000, 1000, false);
  const size_t row = mini_row(t, "cause", "rank-straggler");
  assert_int_equal(mini_int(t, row, "rank"), 1);
  assert_int_equal(mini_int(t, row, "cost_ns"), 4000 * US);
  assert_int_equal(mini_int(t, row, "saving_ns"), 2000 * US);
  assert_string_equal(mini_cell(t, row, "where"), "aten::pad at train.py(20): load");
  assert_int_equal(count(t, "communication-not-overlapped"), 0); /* rank 0 waits for rank 1 */
  tg__table_free(t);
  t = two_ranks(4000, 3500, false);
  assert_int_equal(count(t, "rank-straggler"), 0);
  assert_int_equal(count(t, "communication-not-overlapped"), 1); /* one cause at one place, on both */
  assert_non_null(strstr(mini_cell(t, mini_row(t, "cause", "communication-not-overlapped"), "evidence"),
                         "; the same on 1 more rank"));
  tg__table_free(t);
}

/* The cause's line, in the rank that is late. */
static void test_straggler_that_sleeps(void **state) {
  struct tg_table *t = two_ranks(5000, 1000, true);
  const size_t row = mini_row(t, "cause", "rank-straggler");
  assert_int_equal(mini_int(t, row, "rank"), 1);
  assert_string_equal(mini_cell(t, row, "where"), "train.py(25): pause");
  assert_int_equal(mini_int(t, row, "line"), 25);
  tg__table_free(t);
}

/* Each allocation fails in turn: there is no answer then, and nothing is left behind. */
static void test_short_of_memory(void **state) {
  const struct turn mv = {"aten::mv", "train.py(12): pool;train.py(30): train", "[[5, 8], [8]]", NULL, NULL, false};
  struct scene s = loop(&mv, 20, 10);
  assert_true(mini_starve(mini_finish(s.m), "findings", NULL, 0) > 100);
  mini_free(s.m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_short_of_memory),
      cmocka_unit_test(test_straggler_that_sleeps),
      cmocka_unit_test(test_loop_over_samples),
      cmocka_unit_test(test_loop_over_indexes),
      cmocka_unit_test(test_loop_of_a_worker),
      cmocka_unit_test(test_loop_over_elements),
      cmocka_unit_test(test_loop_over_parameters),
      cmocka_unit_test(test_loop_over_pieces),
      cmocka_unit_test(test_loop_of_a_cell),
      cmocka_unit_test(test_a_lost_core_is_no_other_loop),
      cmocka_unit_test(test_one_call_that_does_less),
      cmocka_unit_test(test_loop_in_a_comprehension),
      cmocka_unit_test(test_the_same_row_in_each_turn),
      cmocka_unit_test(test_loop_once_for_each_parameter),
      cmocka_unit_test(test_loop_over_pieces_of_derived_modules),
      cmocka_unit_test(test_attention),
      cmocka_unit_test(test_types),
      cmocka_unit_test(test_unneeded_gradient),
      cmocka_unit_test(test_gradient_of_the_other_network),
      cmocka_unit_test(test_gradients_between_those_that_are_used),
      cmocka_unit_test(test_zero_fill),
      cmocka_unit_test(test_dense_table),
      cmocka_unit_test(test_invariant),
      cmocka_unit_test(test_invariant_of_two_shapes),
      cmocka_unit_test(test_frozen_is_not_constant),
      cmocka_unit_test(test_waits),
      cmocka_unit_test(test_straggler),
      cmocka_unit_test(test_communication_of_the_host),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
