/* The findings about tensors that are copied, passed over again and again or kept, and about what compiles, sends
 * and computes in too many pieces: for every rule a program in which it fires, with figures added up by hand, and
 * one in which it must not. */
#include "unit/findings_scene.h"

/* ---- copies ---------------------------------------------------------------------------------- */

/* Four calls a step, of 500 us each. Turn k joins `first` rows that are there and 2 new ones of 8 columns. */
static struct scene joins(bool grows) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    for (int k = 0; k < 4; k++) {
      char dims[64];
      snprintf(dims, sizeof dims, "[[[%d, 8], [2, 8]], []]", grows ? 2 + 2 * k : 16);
      call(&s, "aten::cat", 1000 * k, 500, "train.py(7): push;train.py(30): train");
      inputs(&s, dims, NULL, "[\"\", \"0\"]");
    }
    call(&s, "aten::conv2d", 5000, 4000, "train.py(33): train");
  }
  return s;
}

/* Of each step the calls of 4 + 2, 6 + 2 and 8 + 2 rows are given what the one before made: nine in all, 18 of 24
 * rows were there; the first step's first makes 4 rows of 2, which no call made. Those of later steps are given 2
 * rows: no call made them either. */
static void test_growth(void **state) {
  struct scene s = joins(true);
  expect(&s, "quadratic-concat", 2000, 1500, "aten::cat at train.py(7): push", 7);
  s = joins(false); /* the same two tensors each time */
  expect_absent(&s, "quadratic-concat");
}

static struct scene layout(const char *inner, int times) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    for (int k = 0; k < times; k++) {
      const int copy = call(&s, "aten::contiguous", 1000 * k, 400, "train.py(9): forward;train.py(30): train");
      inputs(&s, "[[8, 32, 32, 24], []]", "[\"float\", \"Scalar\"]", NULL);
      mini_arg_raw(s.m, "Input Strides", "[[24576, 32, 1, 1024], []]");
      call(&s, inner, 1000 * k, 390, NULL);
      node(&s, "CloneBackward0", 5000 + 1000 * k, 100, copy);
    }
  }
  return s;
}

static void expect_evidence(struct scene *s, const char *cause, const char *evidence) {
  struct tg_table *t = ask(s);
  assert_string_equal(mini_cell(t, mini_row(t, "cause", cause), "evidence"), evidence);
  tg__table_free(t);
}

/* Lists of a file may go over several lines; and without training backward is not mentioned. */
static void test_layout_in_words(void **state) {
  struct scene s = layout("aten::clone", 2);
  expect_evidence(
      &s, "layout-conversion",
      "2 times a step a permuted view is copied into another order in memory: 1.00 ms with backward (10.0 %); "
      "here of inputs [[8, 32, 32, 24], []] with strides [[24576, 32, 1, 1024], []]");
  s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    for (int k = 0; k < 2; k++) {
      call(&s, "aten::contiguous", 1000 * k, 400, "train.py(9): forward;train.py(30): train");
      inputs(&s, "[\n  [\n    8,\n    32\n  ],\n  []\n]", NULL, NULL);
      call(&s, "aten::clone", 1000 * k, 390, NULL);
    }
  }
  expect_evidence(&s, "layout-conversion",
                  "2 times a step a permuted view is copied into another order in memory: 0.80 ms (8.0 %); "
                  "here of inputs [[8, 32], []]");
}

static void test_layout(void **state) {
  struct scene s = layout("aten::clone", 2);
  expect(&s, "layout-conversion", 1000, 1000, "aten::contiguous at train.py(9): forward", 9);
  s = layout("aten::view", 2); /* nothing was copied */
  expect_absent(&s, "layout-conversion");
  s = layout("aten::clone", 1); /* once a step */
  expect_absent(&s, "layout-conversion");
}

/* Parameters of 400 and 80 bytes; the second copy is of a storage, as deepcopy makes them. sent: the dimensions of what
 * a collective sends in each step; NULL: there is none. */
static struct scene model(const char *second, const char *sent) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    node(&s, "torch::autograd::AccumulateGrad", 4000, 10, -1);
    inputs(&s, "[[10, 10]]", "[\"float\"]", NULL);
    node(&s, "torch::autograd::AccumulateGrad", 4100, 10, -1);
    inputs(&s, "[[20]]", "[\"float\"]", NULL);
    call(&s, "aten::clone", 5000, 500, "train.py(50): keep;train.py(31): train");
    inputs(&s, "[[10, 10], []]", "[\"float\", \"\"]", NULL);
    call(&s, "aten::copy_", 5600, 300, "copy.py(153): deepcopy;train.py(50): keep;train.py(31): train");
    inputs(&s, second, "[\"unsigned char\", \"unsigned char\", \"Scalar\"]", NULL);
    if (sent) call(&s, "c10d::allreduce_", 6000, 100, "train.py(49): keep;train.py(31): train");
    if (sent) inputs(&s, sent, NULL, NULL);
  }
  return s;
}

/* A model of 128 x 128 floats, of which `gradients` arrive each step, is given data of as many bytes, in another type
 * or another shape, or of its very own. */
static struct tg_table *data_like_the_weight(const char *dims, const char *types, int gradients) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    call(&s, "aten::to", 1000, 2000, "train.py(50): load;train.py(31): train");
    inputs(&s, dims, types, NULL);
    call(&s, "aten::linear", 3000, 5000, "train.py(32): train");
    for (int k = 0; k < gradients; k++) {
      node(&s, "torch::autograd::AccumulateGrad", 9000 + 100 * k, 10, -1);
      inputs(&s, "[[128, 128]]", "[\"float\"]", NULL);
      call(&s, "aten::clone", 9500 + 100 * k, 50, "train.py(50): load;train.py(31): train");
      inputs(&s, "[[128, 128]]", gradients > 1 ? "[\"float\"]" : "[\"long int\"]", NULL);
    }
  }
  return ask(&s);
}

static void test_data_of_the_bytes_of_the_weight(void **state) {
  struct tg_table *t = data_like_the_weight("[[64, 128], []]", "[\"double\", \"\"]", 1);
  assert_int_equal(count(t, "full-model-copy"), 0);
  assert_int_equal(mini_int(t, mini_row(t, "cause", "dtype-promotion"), "cost_ns"), 2000 * US);
  tg__table_free(t);
  t = data_like_the_weight("[[64, 256], []]", "[\"float\", \"\"]", 1); /* its type */
  assert_int_equal(count(t, "full-model-copy"), 0);
  tg__table_free(t);
  t = data_like_the_weight("[[128, 128], []]", "[\"float\", \"\"]", 1); /* and its shape: one of one is chance */
  assert_int_equal(count(t, "full-model-copy"), 0);
  tg__table_free(t);
  t = data_like_the_weight("[[128, 128], []]", "[\"float\", \"\"]", 2);
  assert_int_equal(count(t, "full-model-copy"), 1);
  tg__table_free(t);
}

static void test_model_copy(void **state) {
  struct scene s = model("[[80], [80], []]", NULL); /* and 100 us of Python between the two */
  expect(&s, "full-model-copy", 900, 900, "aten::clone at train.py(50): keep", 50);
  s = model("[[60], [60], []]", NULL); /* no parameter is of that size */
  expect_absent(&s, "full-model-copy");
  s = model("[[80], [80], []]", "[[[120]], []]"); /* gradients on their way to the other ranks */
  expect_absent(&s, "full-model-copy");
  s = model("[[80], [80], []]", "[[[1]], []]"); /* a loss that is averaged */
  expect(&s, "full-model-copy", 900, 900, "aten::clone at train.py(50): keep", 50);
}

static struct scene clones(const char *then) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    call(&s, "aten::clone", 0, 700, "train.py(5): keep;train.py(30): train");
    inputs(&s, "[[64, 64], []]", "[\"float\", \"\"]", NULL);
    call(&s, then, 1000, 100, "train.py(6): keep;train.py(30): train");
    inputs(&s, "[[64, 64], []]", "[\"float\", \"\"]", NULL);
  }
  return s;
}

static void test_clones(void **state) {
  struct scene s = clones("aten::add");
  expect(&s, "redundant-copy", 700, 700, "aten::clone at train.py(5): keep", 5);
  s = clones("aten::add_"); /* the copy, or what it was made of, is changed */
  expect_absent(&s, "redundant-copy");
}

/* The one call that took longest, of 10 elements and 800 us, does not speak for the others, which are of 4096 and 700
 * us in each step. */
static void test_one_long_call_of_a_site(void **state) {
  struct scene s = clones("aten::add");
  call(&s, "aten::clone", 2000, 800, "train.py(5): keep;train.py(30): train");
  inputs(&s, "[[10], []]", "[\"float\", \"\"]", NULL);
  struct tg_table *t = ask(&s);
  assert_int_equal(count(t, "redundant-copy"), 1);
  tg__table_free(t);
}

static void take_memory(struct scene *s, int64_t us, int64_t bytes, int addr) {
  mini_mark(s->m, s->thread, "cpu_instant_event", "[memory]", 'i', s->at + us * US);
  mini_arg_int(s->m, "Device Type", 0);
  mini_arg_int(s->m, "Device Id", -1);
  mini_arg_int(s->m, "Bytes", bytes);
  mini_arg_int(s->m, "Addr", addr);
}

/* In each of six steps line 5 clones a tensor and line 6 makes another one. One of the two is kept, and the other freed
 * at the end of the step. */
static struct scene copies_and_others(bool keeps_copy) {
  struct scene s = begin_of(6);
  for (int i = 0; i < 6; i++) {
    s.at = i * STEP;
    call(&s, "aten::clone", 0, 700, "train.py(5): keep;train.py(30): train");
    inputs(&s, "[[64, 64], []]", "[\"float\", \"\"]", NULL);
    call(&s, "aten::empty_strided", 100, 50, NULL);
    take_memory(&s, 120, 16384, 2 * i + 1);
    call(&s, "aten::mul", 1000, 100, "train.py(6): keep;train.py(30): train");
    call(&s, "aten::empty_strided", 1010, 50, NULL);
    take_memory(&s, 1020, 16384, 2 * i + 2);
    take_memory(&s, 9000, -16384, 2 * i + (keeps_copy ? 2 : 1));
  }
  return s;
}

static void test_copies_that_are_kept(void **state) {
  for (int keeps_copy = 0; keeps_copy < 2; keeps_copy++) {
    struct scene s = copies_and_others(keeps_copy);
    struct tg_table *const t = ask(&s);
    assert_int_equal(mini_int(t, mini_row(t, "cause", "memory-leak"), "line"), keeps_copy ? 5 : 6);
    assert_int_equal(count(t, "redundant-copy"), !keeps_copy);
    tg__table_free(t);
  }
}

/* ---- passes ---------------------------------------------------------------------------------- */

static struct scene chain(const char *third) {
  static const char *const names[] = {"aten::pow", "aten::mul", NULL, "aten::tanh", "aten::mul"};
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    int calls[5];
    for (int k = 0; k < 5; k++) {
      calls[k] =
          call(&s, names[k] ? names[k] : third, 500 * k, k == 3 ? 500 : 300, "train.py(6): act;train.py(30): train");
      inputs(&s, "[[256, 256], []]", "[\"float\", \"Scalar\"]", NULL);
    }
    node(&s, "TanhBackward0", 5000, 400, calls[3]);
    node(&s, "PowBackward0", 5400, 200, calls[0]);
  }
  return s;
}

/* 1700 forward, 600 backward; the longest of each, 500 and 400, stay; a power is never it. */
static void test_chain(void **state) {
  struct scene s = chain("aten::add");
  expect(&s, "unfused-elementwise", 2300, 1400, "aten::tanh at train.py(6): act", 6);
  s = chain("aten::mm"); /* two and two */
  expect_absent(&s, "unfused-elementwise");
}

/* Four steps: backward walks 2, 4, 6 and 8 nodes of 500 us each. */
static struct scene graph(int more) {
  struct scene s = {.m = mini_new()};
  s.thread = mini_thread(s.m, 1, 10);
  for (int i = 0; i < 4; i++) {
    char name[32];
    snprintf(name, sizeof name, "ProfilerStep#%d", i);
    mini_slice(s.m, s.thread, "user_annotation", name, i * STEP, STEP);
    s.at = i * STEP;
    const int forward = call(&s, "aten::linear", 0, 500, "train.py(5): train");
    for (int k = 0; k < 2 + more * i; k++) node(&s, "AddmmBackward0", 1000 + 500 * k, 500, k < 2 ? forward : -1);
  }
  return s;
}

/* Of 2, 4, 6 and 8 nodes 0, 2, 4 and 6 are old: 12 x 500 us in four steps. */
static void test_graph(void **state) {
  struct scene s = graph(2);
  expect(&s, "graph-retention", 1500, 1500, "aten::linear at train.py(5): train", 5);
  s = graph(0);
  expect_absent(&s, "graph-retention");
}

/* ---- in pieces ------------------------------------------------------------------------------- */

static struct scene compiling(int steps) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    if (i < steps) {
      call(&s, "_compile.compile_inner (dynamo_timed)", 0, 2000, "train.py(8): loss;train.py(30): train");
      call(&s, "entire_frame_compile", 100, 1800, NULL);
    }
    call(&s, "aten::conv2d", 5000, 4000, "train.py(33): train");
  }
  return s;
}

static void test_compiling(void **state) {
  struct scene s = compiling(3);
  struct tg_table *t = ask(&s);
  const size_t row = mini_row(t, "cause", "recompilation");
  assert_int_equal(mini_int(t, row, "cost_ns"), 2000 * US);
  assert_int_equal(mini_int(t, row, "saving_ns"), 2000 * US);
  assert_int_equal(mini_int(t, row, "line"), 8);
  tg__table_free(t);
  s = compiling(1); /* warming up */
  expect_absent(&s, "recompilation");
}

/* Calls of a compiled function with two graphs of 2 and 3 ms; 1.5 ms from the end of one to the begin of the other.
 * nested: the second is in a range inside the first; item: an operator runs between them. */
static struct scene compiled(bool nested, const char *item, const char *from) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    call(&s, "Torch-Compiled Region: 0/0", 0, nested ? 8000 : 3000, "train.py(30): train");
    call(&s, "CompiledFunction", 500, 2000, "train.py(10): forward;train.py(30): train");
    call(&s, "## Call CompiledFxGraph fabc ##", 600, 1000, NULL);
    if (item) call(&s, "aten::item", 2600, 100, item);
    call(&s, "Torch-Compiled Region: 1/0", 3500, 4000, from);
    call(&s, "CompiledFunction", 4000, 3000, NULL);
  }
  return s;
}

static void test_breaks(void **state) {
  struct scene s =
      compiled(true, "train.py(7): helper;train.py(12): forward", "train.py(12): forward;train.py(30): train");
  expect(&s, "graph-break", 1500, 1500, "train.py(7): helper", 7);
  s = compiled(true, NULL, "train.py(14): torch_dynamo_resume_in_forward_at_12;train.py(12): forward");
  expect(&s, "graph-break", 1500, 1500, "train.py(14): forward", 14);
  s = compiled(false, "train.py(31): train", "train.py(32): train");
  expect_absent(&s, "graph-break");
}

static struct scene collectives(int each, const char *dims) {
  struct scene s = begin();
  const uint32_t gloo = mini_thread(s.m, 1, 11);
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    call(&s, "aten::conv2d", 0, 5000, "train.py(33): train");
    for (int k = 0; k < each; k++) {
      call(&s, "c10d::allreduce_", 5000 + 200 * k, 10, "train.py(40): sync;train.py(34): train");
      inputs(&s, dims, "[\"TensorList\"]", NULL);
      mini_slice(s.m, gloo, "user_annotation", "gloo:all_reduce", s.at + (5000 + 200 * k + 10) * US, 100 * US);
    }
  }
  return s;
}

/* 20 x 100 us are exposed; of them one part of 20 stays, and the sending of 20 x 4000 bytes at 1 GB/s, 80 us. */
static void test_buckets(void **state) {
  struct scene s = collectives(20, "[[[1000]]]");
  expect(&s, "unbucketed-communication", 2000, (2000 - 80) * 0.95, "c10d::allreduce_ at train.py(40): sync", 40);
  s = collectives(15, "[[[1000]]]"); /* few */
  expect_absent(&s, "unbucketed-communication");
  s = collectives(20, "[[[300000]]]"); /* large */
  expect_absent(&s, "unbucketed-communication");
}

static size_t underuse_under(const char *conditions, struct scene *s) {
  struct tg_table *table = findings_under(conditions, s);
  const size_t n = count(table, "thread-underuse");
  tg__table_free(table);
  return n;
}

static struct tg_table *threads(const char *conditions) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    call(&s, "aten::conv2d", 0, 4000, "train.py(33): train");
    call(&s, "aten::relu", 5000, 100, "train.py(34): train"); /* short: of one thread */
  }
  return findings_under(conditions, &s);
}

static void test_threads(void **state) {
  struct tg_table *t = threads("{\"cpu_cores\": 4, \"threads\": 16}"); /* as if 12 of 16 were idle */
  size_t row = mini_row(t, "cause", "thread-oversubscription");
  assert_int_equal(mini_int(t, row, "cost_ns"), 4000 * US);
  assert_int_equal(mini_int(t, row, "saving_ns"), 3000 * US);
  assert_string_equal(mini_cell(t, row, "where"), "torch's number of threads");
  assert_null(mini_cell(t, row, "file"));
  assert_non_null(strstr(mini_cell(t, row, "evidence"), "(40.0 %), most of it aten::conv2d at train.py(33): train"));
  tg__table_free(t);
  t = threads("{\"cpu_cores\": 4, \"threads\": 16, \"threads_from\": \"train.py(3): <module>\"}");
  row = mini_row(t, "cause", "thread-oversubscription");
  assert_string_equal(mini_cell(t, row, "where"), "torch.set_num_threads at train.py(3): <module>");
  assert_int_equal(mini_int(t, row, "line"), 3);
  tg__table_free(t);
  t = threads("{\"cpu_cores\":8,\"threads\":1,\"threads_from\":\"OMP_NUM_THREADS\"}");
  row = mini_row(t, "cause", "thread-underuse");
  assert_string_equal(mini_cell(t, row, "where"), "OMP_NUM_THREADS in the environment");
  assert_null(mini_cell(t, row, "file"));
  tg__table_free(t);
  t = threads("{\"cpu_cores\":8,\"physical_cores\":8,\"threads\":2}"); /* 0.7 x 3/4 of 4 ms */
  row = mini_row(t, "cause", "thread-underuse");
  assert_int_equal(mini_int(t, row, "saving_ns"), 2100 * US);
  tg__table_free(t);
  t = threads("{\"cpu_cores\":8,\"threads\":2}"); /* the cores may be halves of four: 0.7 x 1/2 of 4 ms */
  row = mini_row(t, "cause", "thread-underuse");
  assert_int_equal(mini_int(t, row, "saving_ns"), 1400 * US);
  tg__table_free(t);
  t = threads("{\"cpu_cores\":8,\"threads\":2,\"core_wait_pct\":9}"); /* which program has the cores is not known */
  assert_int_equal(count(t, "thread-underuse"), 0);
  tg__table_free(t);
  t = threads("{\"cpu_cores\":8,\"threads\":2,\"core_wait_pct\":9,\"others_pct\":90}");
  assert_int_equal(count(t, "thread-underuse"), 0);
  assert_string_equal(t->notes[t->note_count - 1],
                      "nothing found above 5 %; withheld: thread-underuse, 40.0 % (the cores are in use: more threads "
                      "would wait for them); slow-python-transform, 59.0 % (other programs kept the machine "
                      "busy)");
  tg__table_free(t);
  static const char *const fine[] = {"{\"cpu_cores\": 4, \"threads\": 4}",
                                     "{\"cpu_cores\": 4, \"threads\": 2}", /* what torch takes by itself */
                                     "{\"cpu_cores\": 4, \"physical_cores\": 2, \"threads\": 3}"};
  for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
    t = threads(fine[i]);
    assert_int_equal(count(t, "thread-underuse") + count(t, "thread-oversubscription"), 0);
    tg__table_free(t);
  }
}

/* Each step computes for 4 ms with one thread of two cores; another thread runs an operator of 4 ms, from `us` on. */
static size_t underused_beside(int us) {
  struct scene s = begin();
  const uint32_t other = mini_thread(s.m, 1, 11);
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    call(&s, "aten::conv2d", 0, 4000, "train.py(33): train");
    mini_slice(s.m, other, "cpu_op", "aten::conv2d", s.at + us * US, 4000 * US);
  }
  return underuse_under("{\"cpu_cores\":2,\"physical_cores\":2,\"threads\":1}", &s);
}

static void test_threads_of_the_program_use_the_cores(void **state) {
  assert_int_equal(underused_beside(0), 0);
  assert_int_equal(underused_beside(1000), 0); /* for 3 of 4 ms both cores have work */
  assert_int_equal(underused_beside(2000), 1);
  assert_int_equal(underused_beside(5000), 1);
}

/* A layer that goes along a sequence of `length` in one operator of 4 ms, or calls `inner` products of its 4 ms. */
static size_t underused(int64_t length, int inner) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    char dims[64];
    s.at = i * STEP;
    call(&s, inner ? "aten::lstm" : "aten::mkldnn_rnn_layer", 0, 4000, "train.py(33): train");
    snprintf(dims, sizeof dims, "[[%lld, 16, 64]]", (long long)length);
    inputs(&s, dims, NULL, NULL);
    for (int k = 0; k < inner; k++) call(&s, "aten::mm", 4000 / inner * k, 4000 / inner, NULL);
  }
  return underuse_under("{\"cpu_cores\":8,\"physical_cores\":8,\"threads\":2}", &s);
}

static void test_threads_in_pieces(void **state) {
  assert_int_equal(underused(20, 0), 1); /* pieces of 200 us */
  assert_int_equal(underused(21, 0), 0);
  assert_int_equal(underused(20, 20), 1); /* products of 200 us */
  assert_int_equal(underused(20, 25), 0); /* of 160 us: and the layer has no time of its own */
}

/* The loop waits 4 ms of 10; meanwhile two threads run four operators of 400 us each: one after the other, by turns,
 * or both at once. */
static struct scene producers(const char *order) {
  struct scene s = begin();
  const uint32_t threads[2] = {mini_thread(s.m, 1, 11), mini_thread(s.m, 1, 12)};
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    mini_slice(s.m, s.thread, "user_annotation", "queue.Queue.get", s.at, 4000 * US);
    mini_arg_str(s.m, "Call stack", "train.py(30): train");
    call(&s, "aten::conv2d", 4000, 6000, "train.py(31): train");
    for (int k = 0; k < 8; k++) {
      mini_slice(s.m, threads[order[k] - '1'], "cpu_op", "aten::mul", s.at + 450 * k * US, (k == 1 ? 440 : 400) * US);
      mini_arg_str(s.m, "Call stack", "train.py(12): make;train.py(18): run");
    }
  }
  return s;
}

static void test_pipeline(void **state) {
  struct scene s = producers("11112222"); /* nine tenths of 4 ms */
  expect(&s, "pipeline-lock-contention", 4000, 3600, "aten::mul at train.py(12): make", 12);
  s = producers("12121212"); /* both are at it, though no two operators meet */
  expect(&s, "loader-too-slow", 4000, 3600, "queue.Queue.get at train.py(30): train", 30);
}

/* A thread of a pool that waits for requests: 9 ms of 10. No steps, or steps that are the requests, each with a wait
 * behind it. */
static void test_pool_without_work(void **state) {
  for (int has_steps = 0; has_steps < 2; has_steps++) {
    struct mini *m = mini_new();
    mini_rank(m, 0);
    const uint32_t thread = mini_thread(m, 1, 10);
    for (int i = 0; i < STEPS; i++) {
      char name[32];
      snprintf(name, sizeof name, "ProfilerStep#%d", i + 1);
      if (has_steps) mini_slice(m, thread, "user_annotation", name, i * STEP, 1000 * US);
      mini_slice(m, thread, "cpu_op", "aten::conv2d", i * STEP, 1000 * US);
      mini_slice(m, thread, "user_annotation", "queue.Queue.get", i * STEP + 1000 * US, 9000 * US);
    }
    struct tg_table *t = mini_ask(mini_finish(m), "findings", NULL);
    mini_free(m);
    assert_int_equal(count(t, "loader-too-slow"), 0);
    tg__table_free(t);
  }
}

/* ---- with a device --------------------------------------------------------------------------- */

static void launch(struct scene *s, uint32_t gpu, const char *op, int64_t us, int64_t host_us, int64_t from_us,
                   int64_t kernel_us, const char *stack) {
  const int call_at = call(s, op, us, host_us, stack);
  inputs(s, "[[64, 64], []]", "[\"float\", \"\"]", NULL);
  const int run = mini_slice(s->m, s->thread, "cuda_runtime", "cudaLaunchKernel", s->at + us * US, 5 * US);
  const int kernel = mini_slice(s->m, gpu, "kernel", "copy", s->at + from_us * US, kernel_us * US);
  mini_cause(s->m, run, call_at);
  mini_cause(s->m, kernel, run);
}

/* A step of 10 ms clones and convolves: on the host for so long each, on the device for so long each, one after the
 * other up to its end. */
static struct scene on_device(int64_t clone_us, int64_t conv_us, int64_t clone_kernel_us, int64_t conv_kernel_us) {
  struct scene s = begin();
  const uint32_t gpu = mini_stream(s.m, 0, 7);
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    const int64_t first = 10000 - conv_kernel_us - clone_kernel_us;
    launch(&s, gpu, "aten::clone", 0, clone_us, first, clone_kernel_us, "train.py(5): keep;train.py(30): train");
    launch(&s, gpu, "aten::conv2d", clone_us, conv_us, first + clone_kernel_us, conv_kernel_us,
           "train.py(6): keep;train.py(30): train");
  }
  return s;
}

/* Where the device is the slower side its time counts: 3 ms. Where the host is, its 4 ms do. In the third the host
 * is the slower side with 9.5 ms, but the 9 ms of the device stay whatever the host does: a step of 10 ms gets
 * shorter by 1 ms at most. */
static void test_device(void **state) {
  struct scene s = on_device(100, 100, 3000, 6000);
  expect(&s, "redundant-copy", 3000, 3000, "aten::clone at train.py(5): keep", 5);
  s = on_device(4000, 5000, 100, 100);
  expect(&s, "redundant-copy", 4000, 4000, "aten::clone at train.py(5): keep", 5);
  s = on_device(4000, 5500, 100, 8900);
  expect(&s, "redundant-copy", 4000, 1000, "aten::clone at train.py(5): keep", 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_growth),
      cmocka_unit_test(test_layout),
      cmocka_unit_test(test_layout_in_words),
      cmocka_unit_test(test_model_copy),
      cmocka_unit_test(test_data_of_the_bytes_of_the_weight),
      cmocka_unit_test(test_clones),
      cmocka_unit_test(test_one_long_call_of_a_site),
      cmocka_unit_test(test_copies_that_are_kept),
      cmocka_unit_test(test_chain),
      cmocka_unit_test(test_graph),
      cmocka_unit_test(test_compiling),
      cmocka_unit_test(test_breaks),
      cmocka_unit_test(test_buckets),
      cmocka_unit_test(test_threads),
      cmocka_unit_test(test_threads_of_the_program_use_the_cores),
      cmocka_unit_test(test_threads_in_pieces),
      cmocka_unit_test(test_pipeline),
      cmocka_unit_test(test_pool_without_work),
      cmocka_unit_test(test_device),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
