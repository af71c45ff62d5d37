/* Findings about Python: loops told apart by what they go over, stretches of Python by what lies in them, and a
 * machine that others keep busy. Figures are added up by hand; steps of 10 ms. */
#include "unit/findings_scene.h"

/* ---- loops ----------------------------------------------------------------------------------- */

/* A tensor of 40 rows is taken apart; each turn adds 20 us to one of them; the loss is of so many rows. */
static struct scene over_rows(const char *loss_dims) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    call(&s, "aten::unbind", 0, 60, "train.py(11): scan;train.py(30): train");
    inputs(&s, "[[40, 8, 4], []]", NULL, "[\"\", \"0\"]");
    for (int k = 0; k < 40; k++) {
      call(&s, "aten::add", 100 + 30 * k, 20, "train.py(12): scan;train.py(30): train");
      inputs(&s, "[[8, 4], [8, 4]]", NULL, NULL);
    }
    call(&s, "aten::mse_loss", 5000, 100, "train.py(31): train");
    inputs(&s, loss_dims, NULL, NULL);
  }
  return s;
}

/* 40 × 20 us of calls, of which 39 are beyond the first and 8 ns of each 20 us work, for 32 elements; 39 pauses of
 * 10 us, one of 40 parts stays. */
static void test_rows_of_a_batch(void **state) {
  const double calls = 780 * (20 - 0.008) / 20;
  struct scene s = over_rows("[[40, 4], [40, 4]]");
  expect(&s, "per-sample-loop", 800 + 60 + 390, calls + 60 + 390 - 390 / 40.0, "aten::add at train.py(12): scan", 12);
  s = over_rows("[[80, 4], [80, 4]]"); /* two tokens a sample */
  expect(&s, "per-sample-loop", 800 + 60 + 390, calls + 60 + 390 - 390 / 40.0, "aten::add at train.py(12): scan", 12);
  s = over_rows("[[8, 4], [8, 4]]"); /* a sequence of 40 for a batch of 8: a fused layer has its turns, too */
  expect(&s, "many-small-ops", 800 + 60 + 390, (calls + 60) / 2 + 390 - 390 / 40.0, "aten::add at train.py(12): scan",
         12);
}

/* A model called on one row at a time, and what picks an action from its answer beside it: three quarters of the time.
 */
static void test_tiny_batches_with_what_follows(void **state) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    for (int k = 0; k < 20; k++) {
      mini_slice(s.m, s.thread, "python_function", "nn.Module: Linear_0", s.at + 200 * k * US, 45 * US);
      call(&s, "aten::linear", 200 * k, 40, "train.py(5): forward;train.py(17): act;train.py(31): train");
      inputs(&s, "[[1, 8], [4, 8]]", NULL, NULL);
      call(&s, "aten::softmax", 200 * k + 50, 30, "train.py(17): act;train.py(31): train");
      inputs(&s, "[[1, 4], [], []]", NULL, NULL);
      call(&s, "aten::multinomial", 200 * k + 90, 30, "train.py(17): act;train.py(31): train");
      inputs(&s, "[[1, 4], [], [], []]", NULL, NULL);
      call(&s, "aten::log", 200 * k + 130, 30, "train.py(17): act;train.py(31): train");
      inputs(&s, "[[1, 4]]", NULL, NULL);
    }
    call(&s, "aten::conv2d", 5000, 4000, "train.py(33): train");
  }
  struct tg_table *t = ask(&s);
  assert_int_equal(count(t, "tiny-batches"), 1);
  assert_int_equal(count(t, "many-small-ops"), 0);
  tg__table_free(t);
}

/* ---- stretches of Python --------------------------------------------------------------------- */

/* Each step 3 ms of Python between two lines; in the first `opened` steps a file is opened there. */
static struct scene stretch(int opened) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    call(&s, "aten::conv2d", 0, 5000, "train.py(9): fit");
    if (i < opened) {
      mini_slice(s.m, s.thread, "user_annotation", "builtins.open", s.at + 5100 * US, 50 * US);
      mini_arg_str(s.m, "Call stack", "pathlib.py(1044): open;train.py(4): load;train.py(9): fit");
    }
    call(&s, "aten::relu", 8000, 2000, "train.py(12): fit");
  }
  return s;
}

static void test_file_that_is_read_again(void **state) {
  struct scene s = stretch(3); /* 3 ms but for 20 us; nine tenths to be won */
  expect(&s, "repeated-file-load", 2980, 2682, "builtins.open at train.py(4): load", 4);
  s = stretch(1); /* once is no habit */
  struct tg_table *t = ask(&s);
  assert_int_equal(count(t, "repeated-file-load"), 0);
  assert_int_equal(count(t, "slow-python-transform"), 1);
  tg__table_free(t);
}

/* 4 ms of Python between two lines, without a label; with labels around all of it and around each part, it is the same
 * finding. */
static struct scene labelled(bool has_labels) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    if (has_labels) mini_slice(s.m, s.thread, "user_annotation", "train one batch", s.at, STEP);
    if (has_labels) mini_slice(s.m, s.thread, "user_annotation", "forward", s.at, 9000 * US);
    call(&s, "aten::conv2d", 0, 5000, "train.py(9): fit");
    call(&s, "aten::relu", 9000, 1000, "train.py(12): fit");
  }
  return s;
}

static void test_labels_are_no_work(void **state) {
  for (int has_labels = 0; has_labels < 2; has_labels++) {
    struct scene s = labelled(has_labels);
    expect(&s, "slow-python-transform", 3980, 3582, "between train.py(9) and (12): fit", 9);
  }
}

/* The same where functions are recorded: what passes in the label is the function's own time. */
static void test_function_with_a_label_in_it(void **state) {
  for (int has_label = 0; has_label < 2; has_label++) {
    struct scene s = begin();
    for (int i = 0; i < STEPS; i++) {
      s.at = i * STEP;
      call(&s, "aten::conv2d", 0, 5000, "train.py(9): fit");
      mini_slice(s.m, s.thread, "python_function", "train.py(20): count", s.at + 5000 * US, 4500 * US);
      if (has_label) mini_slice(s.m, s.thread, "user_annotation", "metrics", s.at + 5500 * US, 4000 * US);
      call(&s, "aten::add", 6000, 500, "train.py(21): count;train.py(9): fit");
    }
    expect(&s, "slow-python-transform", 4000, 3600, "train.py(20): count", 20); /* 4.5 ms less the operator */
  }
}

/* Compiled code runs without operators of its own: a region of it is work. */
static void test_compiled_region_is_no_label(void **state) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    call(&s, "aten::conv2d", 0, 2000, "train.py(9): fit");
    mini_slice(s.m, s.thread, "user_annotation", "Torch-Compiled Region: 0/0", s.at + 2000 * US, 7000 * US);
    call(&s, "aten::relu", 9000, 1000, "train.py(12): fit");
  }
  expect_absent(&s, "slow-python-transform");
}

/* 2 ms behind line 9 and 1 ms behind line 12, where the next begins, are one stretch; 1 ms that begins and ends
 * elsewhere is another. */
static void test_stretch_that_calls_an_operator_now_and_then(void **state) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    call(&s, "aten::conv2d", 0, 3000, "train.py(9): fit");
    call(&s, "aten::empty", 5000, 10, "train.py(12): fit");
    call(&s, "aten::relu", 6010, 990, "train.py(14): fit");
    call(&s, "aten::add", 7000, 1000, "train.py(20): fit");
    call(&s, "aten::mul", 9000, 1000, "train.py(21): fit");
  }
  expect(&s, "slow-python-transform", 1980 + 980, 2664, "between train.py(9) and (12): fit", 9);
}

/* ---- the place of a stretch -------------------------------------------------------------------- */

/* Each step 4 ms between two operators with these stacks: in one call of a model, each in a call of its own, or in
 * none.
 */
static void expect_gap(const char *before, const char *after, int models, const char *where, int64_t line) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    if (models) mini_slice(s.m, s.thread, "python_function", "nn.Module: Net_0", s.at, (models > 1 ? 5000 : STEP) * US);
    if (models > 1) mini_slice(s.m, s.thread, "python_function", "nn.Module: Net_0", s.at + 9000 * US, 1000 * US);
    call(&s, "aten::conv2d", 0, 5000, before);
    call(&s, "aten::relu", 9000, 1000, after);
  }
  struct tg_table *const t = ask(&s);
  const size_t row = mini_row(t, "cause", "slow-python-transform");
  assert_string_equal(mini_cell(t, row, "where"), where);
  assert_int_equal(mini_int(t, row, "line"), line);
  tg__table_free(t);
}

static void test_place_of_a_stretch(void **state) {
  static const char first[] =
      "net.py(22): forward;torch/nn/modules/module.py(9): _call_impl;nn.Module: Net_0;m.py(44): fit",
                    second[] =
                        "net.py(25): forward;torch/nn/modules/module.py(9): _call_impl;nn.Module: Net_0;m.py(47): fit";
  expect_gap("m.py(9): fit", "m.py(12): fit", 0, "between m.py(9) and (12): fit", 9);
  expect_gap("m.py(37): fit", "m.py(34): fit", 0, "before m.py(34): fit, behind (37): fit",
             34); /* the loop begins again */
  expect_gap("m.py(37): fit", "m.py(26): next;m.py(34): fit", 0, "before m.py(26): next, behind (37): fit", 26);
  expect_gap("m.py(37): fit", "a.py(26): next;m.py(34): fit", 0, "before a.py(26): next, behind m.py(37): fit", 26);
  expect_gap("m.py(27): pick;m.py(46): fit", "m.py(47): fit", 0, "between m.py(27): pick and (47): fit", 27);
  expect_gap("m.py(3): load;m.py(5): fit", "a.py(9): keep;m.py(6): fit", 0, "between m.py(3): load and a.py(9): keep",
             3);
  expect_gap(first, second, 1, "between net.py(22) and (25): forward", 22);
  expect_gap(first, second, 2, "between m.py(44) and (47): fit", 44);
  expect_gap(first, "m.py(47): fit", 0, "between m.py(44) and (47): fit", 44);
  expect_gap("m.py(37): fit", first, 0, "between m.py(37) and (44): fit", 37);
  expect_gap("m.py(9): fit", "m.py(9): fit", 0, "at m.py(9): fit", 9);
}

/* ---- stretches that were sampled --------------------------------------------------------------- */

struct seen {
  const char *doing, *stack;
  int64_t from_us, us, cpu_us;
};

/* Each step 4 ms between lines 9 and 12, in which the recorder saw the thread. */
static struct scene sampled(const struct seen *seen, size_t count) {
  struct scene s = begin();
  const uint32_t watch = mini_thread(s.m, 1, 99);
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    call(&s, "aten::conv2d", 0, 5000, "train.py(9): fit");
    call(&s, "aten::relu", 9000, 1000, "train.py(12): fit");
    for (size_t k = 0; k < count; k++) {
      mini_slice(s.m, watch, "python_sample", seen[k].doing, s.at + seen[k].from_us * US, seen[k].us * US);
      mini_arg_str(s.m, "Call stack", seen[k].stack);
      mini_arg_int(s.m, "Thread CPU us", seen[k].cpu_us);
    }
  }
  return s;
}

static void test_what_a_sampled_stretch_is(void **state) {
  const struct {
    struct seen seen;
    const char *cause, *where, *words;
    int64_t line;
  } cases[] = {
      {{"running", "train.py(7): parse;train.py(10): fit", 5500, 3000, 2700},
       "slow-python-transform",
       "train.py(7): parse",
       "it computes in Python for 100 % of it, and is on a core for 90 %",
       7},
      {{"running", "json/decoder.py(353): raw_decode;train.py(20): parse;train.py(10): fit", 5500, 3000, 3000},
       "slow-python-transform",
       "train.py(20): parse",
       "on a core for 100 %",
       20},
      {{"sleep", "train.py(7): pause;train.py(10): fit", 5500, 3000, 0},
       "host-waits",
       "train.py(7): pause",
       "it sleeps for 100 % of it, and is on a core for 0 %",
       7},
      {{"lock", "threading.py(327): wait;queue.py(171): get;train.py(8): next;train.py(10): fit", 5500, 3000, 0},
       "host-waits",
       "train.py(8): next",
       "it waits for a lock or a queue",
       8},
      {{"poll", "socket.py(706): readinto;http/client.py(283): begin;train.py(30): fetch;train.py(10): fit", 5500, 3000,
        0},
       "host-waits",
       "train.py(30): fetch",
       "it waits for a socket",
       30},
      {{"poll", "selectors.py(415): select;subprocess.py(2108): _communicate;train.py(31): child;train.py(10): fit",
        5500, 3000, 0},
       "host-waits",
       "train.py(31): child",
       "it waits for a program that it started",
       31},
      {{"disk", "train.py(33): load;train.py(10): fit", 5500, 3000, 0},
       "host-waits",
       "train.py(33): load",
       "it waits for a file",
       33},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct scene s = sampled(&cases[i].seen, 1);
    struct tg_table *t = ask(&s);
    const size_t row = mini_row(t, "cause", cases[i].cause);
    assert_string_equal(mini_cell(t, row, "where"), cases[i].where);
    assert_int_equal(mini_int(t, row, "line"), cases[i].line);
    assert_int_equal(mini_int(t, row, "cost_ns"), 3980 * US); /* 4 ms but for 20 us */
    assert_non_null(strstr(mini_cell(t, row, "evidence"), cases[i].words));
    assert_int_equal(t->rows, 1);
    tg__table_free(t);
  }
}

/* A thread that was woken and waits for a core looks like one that computes: on a busy machine a core for less than a
 * tenth of the time says nothing. */
static void test_what_seems_to_compute_without_a_core(void **state) {
  for (int64_t cpu_us = 290; cpu_us <= 310; cpu_us += 20) {
    const struct seen seen = {"running", "train.py(7): pause;train.py(10): fit", 5500, 3000, cpu_us};
    struct scene s = sampled(&seen, 1);
    struct tg_table *const t = findings_under("{\"core_wait_pct\":20,\"others_pct\":190}", &s);
    assert_int_equal(count(t, "slow-python-transform"), cpu_us == 310);
    tg__table_free(t);
  }
}

/* 1 ms on line 7 and 1 on line 8 of one function are more than 1.9 ms on line 40 of another: 2 of 3.9, 51 %. */
static void test_function_with_most_samples(void **state) {
  const struct seen seen[] = {{"running", "train.py(7): parse;train.py(10): fit", 5000, 1000, 1000},
                              {"running", "train.py(8): parse;train.py(10): fit", 6000, 1000, 1000},
                              {"running", "train.py(40): pack;train.py(11): fit", 7000, 1900, 1900}};
  struct scene s = sampled(seen, 3);
  struct tg_table *t = ask(&s);
  const size_t row = mini_row(t, "cause", "slow-python-transform");
  assert_string_equal(mini_cell(t, row, "where"), "train.py(7): parse");
  assert_non_null(strstr(mini_cell(t, row, "evidence"), "9 samples of the stack, 51 % of their time"));
  tg__table_free(t);
}

/* Beside the stretch: no word on it. */
static void test_samples_elsewhere(void **state) {
  const struct seen seen = {"sleep", "train.py(7): pause;train.py(10): fit", 1000, 3000, 0};
  struct scene s = sampled(&seen, 1);
  expect(&s, "slow-python-transform", 3980, 3582, "between train.py(9) and (12): fit", 9);
}

/* A single one of 0.3 of 12 ms says a line in it, and nothing of what the stretch is. */
static void test_one_sample_of_a_stretch(void **state) {
  struct scene s = sampled(NULL, 0);
  mini_slice(s.m, mini_thread(s.m, 1, 98), "python_sample", "sleep", s.at + 6000 * US, 300 * US);
  mini_arg_str(s.m, "Call stack", "train.py(7): parse;train.py(10): fit");
  expect(&s, "slow-python-transform", 3980, 3582, "train.py(7): parse", 7);
}

/* ---- a machine that others keep busy --------------------------------------------------------- */

enum { MANY = 20 };

/* In 15 of 20 steps the thread stands still for 3 ms at one place; the recording says how long it waited for a core. */
static size_t standing_still(const char *core_wait_pct, int steps_with) {
  struct mini *m = mini_new();
  mini_rank(m, 0);
  const uint32_t thread = mini_thread(m, 1, 10);
  for (int i = 0; i < MANY; i++) {
    char name[32];
    const int64_t at = i * STEP, pause = i < steps_with ? 3000 * US : 0;
    snprintf(name, sizeof name, "ProfilerStep#%d", i + 1);
    mini_slice(m, thread, "user_annotation", name, at, STEP);
    mini_slice(m, thread, "cpu_op", "aten::conv2d", at, 5000 * US);
    mini_arg_str(m, "Call stack", "train.py(9): fit");
    mini_slice(m, thread, "cpu_op", "aten::relu", at + 5000 * US + pause, 5000 * US - pause);
    mini_arg_str(m, "Call stack", "train.py(12): fit");
  }
  struct tg__columns *const trace = mini_finish(m);
  if (core_wait_pct) assert_true(tg__trace_add_meta(trace, "core_wait_pct", core_wait_pct));
  assert_true(tg__trace_add_meta(trace, "conditions", "{\"others_pct\":90}"));
  struct tg_table *t = mini_ask(trace, "findings", NULL);
  mini_free(m);
  const size_t n = count(t, "slow-python-transform");
  bool says_why = false;
  for (size_t i = 0; i < t->note_count; i++)
    says_why |= strstr(t->notes[i], "slow-python-transform, 22.5 % (other programs kept the machine busy)") != NULL;
  assert_int_equal(says_why, !n);
  tg__table_free(t);
  return n;
}

static void test_thread_without_a_core(void **state) {
  assert_int_equal(standing_still(NULL, 15), 1);
  assert_int_equal(standing_still("5", 15), 1);
  assert_int_equal(standing_still("40", 15), 0); /* five of 20 steps do without */
  assert_int_equal(standing_still("40", 20), 1); /* all of them: the program's own */
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

static void saves(struct scene *s, const char *forced_by) {
  for (int i = 0; i < STEPS; i++) {
    s->at = i * STEP;
    call(s, "aten::conv2d", 0, 5000, "train.py(9): fit");
    mini_slice(s->m, s->thread, "user_annotation", "pickle.dump", s->at + 5000 * US, 1000 * US);
    mini_arg_str(s->m, "Call stack", "train.py(20): save;train.py(9): fit");
    mini_slice(s->m, s->thread, "user_annotation", "os.fsync", s->at + 6000 * US, 2000 * US);
    mini_arg_str(s->m, "Call stack", forced_by);
    call(s, "aten::relu", 8000, 2000, "train.py(9): fit");
  }
}

static void test_checkpoint_that_is_forced_to_disk(void **state) {
  struct scene s = begin();
  saves(&s, "train.py(21): save;train.py(9): fit"); /* of 3 ms nine tenths */
  expect(&s, "sync-checkpoint", 3000, 2700, "pickle.dump at train.py(20): save", 20);
  s = begin();
  saves(&s, "train.py(31): log;train.py(9): fit");
  expect(&s, "sync-checkpoint", 1000, 900, "pickle.dump at train.py(20): save", 20);
  s = begin();
  saves(&s, "train.py(31): log;train.py(9): fit");
  expect(&s, "sync-logging", 2000, 2000, "os.fsync at train.py(31): log", 31);
}

/* Steps of 300 us with 70 us of Python, in the middle of a step or where one ends and the next begins: there 30 us are
 * the profiler's, and what is left is less than a place takes. */
static struct scene short_steps(int64_t pause_at_us) {
  struct scene s = {.m = mini_new()};
  mini_rank(s.m, 0);
  s.thread = mini_thread(s.m, 1, 10);
  for (int i = 0; i < 4; i++) {
    char name[32];
    snprintf(name, sizeof name, "ProfilerStep#%d", i + 1);
    s.at = i * 300 * US;
    mini_slice(s.m, s.thread, "user_annotation", name, s.at, 300 * US);
    call(&s, "aten::conv2d", pause_at_us + 70, 230, "train.py(9): serve");
  }
  return s;
}

static void test_profiler_between_steps(void **state) {
  struct scene s = short_steps(-30);
  expect_absent(&s, "slow-python-transform");
  s = short_steps(100);
  struct tg_table *t = ask(&s);
  assert_int_equal(count(t, "slow-python-transform"), 1);
  tg__table_free(t);
}

/* A function of another thread sleeps all the time; the loop's own takes 2 of 10 ms. */
static void test_a_function_of_another_thread(void **state) {
  struct scene s = begin();
  const uint32_t other = mini_thread(s.m, 1, 11);
  mini_slice(s.m, other, "python_function", "<built-in function sleep>", 0, STEPS * STEP);
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    mini_slice(s.m, s.thread, "python_function", "train.py(5): prepare", s.at, 2000 * US);
    call(&s, "aten::conv2d", 2000, 7900, "train.py(9): fit");
  }
  struct tg_table *t = ask(&s);
  assert_int_equal(t->rows, 1);
  assert_int_equal(mini_int(t, mini_row(t, "cause", "slow-python-transform"), "cost_ns"), 2000 * US);
  tg__table_free(t);
}

/* Each step 4 ms between lines 9 and 12, without samples, as where the recorder was attached; its thread is on a core
 * for so long, and waits for one for so long. */
static struct tg_table *attached(int64_t cpu_us, int64_t core_wait_us, bool with_calls) {
  struct scene s = {.m = mini_new()};
  mini_rank(s.m, 0);
  s.thread = mini_thread(s.m, 1, 10);
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    mark_step(&s, i);
    mini_arg_int(s.m, "Thread CPU us", cpu_us);
    mini_arg_int(s.m, "Core wait us", core_wait_us);
    mini_arg_int(s.m, "Preemptions", 0);
    call(&s, "aten::conv2d", 0, 5000, "train.py(9): fit");
    if (with_calls) mini_slice(s.m, s.thread, "python_function", "train.py(10): fetch", s.at + 5000 * US, 3980 * US);
    call(&s, "aten::relu", 9000, 1000, "train.py(12): fit");
  }
  return ask(&s);
}

/* Of 4 ms at least half is spent on no core: it waits. A wait for a core does not count. */
static void test_the_clock_of_the_thread(void **state) {
  static const struct {
    int64_t cpu_us, core_wait_us;
    const char *cause, *advice;
  } cases[] = {{6000, 0, "host-waits", "Let what it waits for go on beside the loop"},
               {7900, 0, "host-waits", "Let what it waits for go on beside the loop"},
               {8100, 0, "slow-python-transform", "Replace the Python loop"},
               {7800, 300, "slow-python-transform", "Replace the Python loop"},
               {9900, 0, "slow-python-transform", "Replace the Python loop"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int with_calls = 0; with_calls < 2; with_calls++) {
      struct tg_table *t = attached(cases[i].cpu_us, cases[i].core_wait_us, with_calls);
      const size_t row = mini_row(t, "cause", cases[i].cause);
      assert_non_null(strstr(mini_cell(t, row, "advice"), cases[i].advice));
      assert_int_equal(strstr(mini_cell(t, row, "evidence"), "the thread is on no core") != NULL, i < 2);
      tg__table_free(t);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_profiler_between_steps),
      cmocka_unit_test(test_rows_of_a_batch),
      cmocka_unit_test(test_tiny_batches_with_what_follows),
      cmocka_unit_test(test_file_that_is_read_again),
      cmocka_unit_test(test_labels_are_no_work),
      cmocka_unit_test(test_function_with_a_label_in_it),
      cmocka_unit_test(test_compiled_region_is_no_label),
      cmocka_unit_test(test_stretch_that_calls_an_operator_now_and_then),
      cmocka_unit_test(test_place_of_a_stretch),
      cmocka_unit_test(test_what_a_sampled_stretch_is),
      cmocka_unit_test(test_what_seems_to_compute_without_a_core),
      cmocka_unit_test(test_function_with_most_samples),
      cmocka_unit_test(test_samples_elsewhere),
      cmocka_unit_test(test_one_sample_of_a_stretch),
      cmocka_unit_test(test_thread_without_a_core),
      cmocka_unit_test(test_the_clock_of_the_thread),
      cmocka_unit_test(test_a_function_of_another_thread),
      cmocka_unit_test(test_checkpoint_that_is_forced_to_disk),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
