/* Findings are of the usual step: what one step of many holds says nothing of the others. Thirty steps of 10 ms, of
 * which step 15 takes 200 ms more; figures added up by hand. */
#include "diagnose/findings.h"
#include "unit/findings_scene.h"

enum { MANY = 30, ODD = 15, MORE_US = 200000 };

/* The rest of each step, so that no part of it is without an operator. */
static void compute(struct scene *s, int64_t from_us, const char *stack) {
  call(s, "aten::conv2d", from_us, 9900 - from_us % MORE_US, stack);
}

/* What each step does: `often` microseconds of it in all of them, and MORE_US more in step ODD. */
typedef void write_step(struct scene *s, int64_t us);

static struct scene thirty_steps(write_step *write, int64_t often_us, bool is_odd) {
  struct scene s = {.m = mini_new()};
  mini_rank(s.m, 0);
  s.thread = mini_thread(s.m, 1, 10);
  for (int i = 0; i < MANY; i++) {
    char name[32];
    const int64_t more = is_odd && i == ODD ? MORE_US : 0;
    snprintf(name, sizeof name, "ProfilerStep#%d", i + 1);
    mini_slice(s.m, s.thread, "user_annotation", name, s.at, STEP + more * US);
    write(&s, often_us + more);
    s.at += STEP + more * US;
  }
  return s;
}

/* Nothing where only one step has it; where all have it, the cost is that of the others. */
static void expect_usual(write_step *write, const char *cause, int64_t often_us, int64_t few_us) {
  struct scene s = thirty_steps(write, few_us, true);
  struct tg_table *t = ask(&s);
  if (t->rows) print_error("%s: %s\n", mini_cell(t, 0, "cause"), mini_cell(t, 0, "evidence"));
  assert_int_equal(t->rows, 0);
  tg__table_free(t);
  s = thirty_steps(write, often_us, true);
  t = ask(&s);
  const int64_t odd = mini_int(t, mini_row(t, "cause", cause), "cost_ns");
  tg__table_free(t);
  s = thirty_steps(write, often_us, false);
  t = ask(&s);
  assert_int_equal(odd, mini_int(t, mini_row(t, "cause", cause), "cost_ns"));
  tg__table_free(t);
}

/* ---- the input ------------------------------------------------------------------------------- */

static void fetch(struct scene *s, int64_t us) {
  mini_slice(s->m, s->thread, "user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", s->at,
             us * US);
  compute(s, us, NULL);
}

static void test_a_fetch(void **state) { expect_usual(fetch, "loader-in-main-process", 4000, 100); }

/* 4 of 10 ms, whatever the odd step takes. */
static void test_the_share_is_of_the_usual_step(void **state) {
  struct scene s = thirty_steps(fetch, 4000, true);
  struct tg_table *t = ask(&s);
  const size_t row = mini_row(t, "cause", "loader-in-main-process");
  assert_true(fabs(mini_real(t, row, "share_pct") - 40) < 1e-9);
  assert_int_equal(mini_int(t, row, "cost_ns"), 4000 * US);
  tg__table_free(t);
}

static void wait_for_workers(struct scene *s, int64_t us) {
  mini_slice(s->m, s->thread, "user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", s->at,
             us * US);
  compute(s, us, NULL);
}

static void test_a_wait_for_workers(void **state) { expect_usual(wait_for_workers, "loader-too-slow", 4000, 100); }

/* Two workers whose batches come two at a time: every second step waits for 8 ms, and no step is usual. */
static void test_workers_in_pairs(void **state) {
  struct scene s = begin_of(MANY);
  for (int i = 0; i < MANY; i++) {
    s.at = i * STEP;
    const int64_t us = i % 2 ? 100 : 8000;
    mini_slice(s.m, s.thread, "user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", s.at,
               us * US);
    call(&s, "aten::conv2d", us, 1800, NULL);
  }
  struct tg_table *t = ask(&s);
  assert_int_equal(mini_int(t, mini_row(t, "cause", "loader-too-slow"), "cost_ns"), 4050 * US);
  tg__table_free(t);
}

/* ---- marked waits ---------------------------------------------------------------------------- */

static void read_file(struct scene *s, int64_t us) {
  mini_slice(s->m, s->thread, "user_annotation", "numpy.load", s->at, us * US);
  compute(s, us, NULL);
}

static void test_a_file(void **state) { expect_usual(read_file, "repeated-file-load", 4000, 100); }

/* ---- operators ------------------------------------------------------------------------------- */

static void copy(struct scene *s, int64_t us) {
  call(s, "aten::clone", 0, us, "train.py(9): train");
  inputs(s, "[[1000,1000],[]]", "[\"float\",\"\"]", NULL);
  compute(s, us, "train.py(10): train");
}

static void test_a_copy(void **state) { expect_usual(copy, "redundant-copy", 4000, 100); }

static void read_values(struct scene *s, int64_t us) {
  for (int i = 0; i < 20; i++) call(s, "aten::item", i * (us / 20), us / 20, NULL);
  compute(s, us, NULL);
}

static void test_values_read(void **state) { expect_usual(read_values, "per-element-item", 4000, 100); }

static void update(struct scene *s, int64_t us) {
  mini_slice(s->m, s->thread, "user_annotation", "Optimizer.step#SGD.step", s->at, us * US);
  for (int i = 0; i < 40; i++) call(s, "aten::add_", i * (us / 40), us / 40, "train.py(12): train");
  compute(s, us, NULL);
}

static void test_an_update(void **state) { expect_usual(update, "single-tensor-optimizer", 4000, 100); }

/* ---- Python ---------------------------------------------------------------------------------- */

static void python(struct scene *s, int64_t us) {
  mini_slice(s->m, s->thread, "python_function", "train.py(20): prepare", s->at, us * US);
  compute(s, us, NULL);
}

static void test_a_function(void **state) { expect_usual(python, "slow-python-transform", 4000, 100); }

/* ---- devices --------------------------------------------------------------------------------- */

static uint32_t stream;

static struct scene on_a_device(const char *name, int64_t often_us, int64_t odd_us) {
  struct scene s = {.m = mini_new()};
  struct tg__rank *const r = mini_rank(s.m, 0);
  static struct tg__device device;
  device = (struct tg__device){.id = 0, .compute_major = 8, .total_memory_bytes = -1};
  r->devices = &device;
  r->device_count = 1;
  s.thread = mini_thread(s.m, 1, 10);
  stream = mini_stream(s.m, 0, 7);
  for (int i = 0; i < MANY; i++) {
    char step[32];
    const int64_t us = i == ODD ? odd_us : often_us, more = i == ODD ? MORE_US : 0;
    snprintf(step, sizeof step, "ProfilerStep#%d", i + 1);
    mini_slice(s.m, s.thread, "user_annotation", step, s.at, STEP + more * US);
    const int op = mini_slice(s.m, s.thread, "cpu_op", "aten::mm", s.at, 50 * US);
    const int launch = mini_slice(s.m, s.thread, "cuda_runtime", "cudaLaunchKernel", s.at + 10 * US, 5 * US);
    const int kernel = mini_slice(s.m, stream, "kernel", name, s.at + 20 * US, us * US);
    const int other = mini_slice(s.m, s.thread, "cuda_runtime", "cudaLaunchKernel", s.at + 60 * US, 5 * US);
    const int rest = mini_slice(s.m, stream, "kernel", "vectorized_elementwise_kernel", s.at + (30 + us) * US,
                                STEP + (more - us - 40) * US);
    mini_cause(s.m, launch, op);
    mini_cause(s.m, kernel, launch);
    mini_cause(s.m, rest, other);
    s.at += STEP + more * US;
  }
  return s;
}

static void expect_usual_kernel(const char *name, const char *cause) {
  struct scene s = on_a_device(name, 100, 100 + MORE_US);
  expect_absent(&s, cause);
  s = on_a_device(name, 4000, 4000 + MORE_US);
  struct tg_table *t = ask(&s);
  assert_int_equal(mini_int(t, mini_row(t, "cause", cause), "cost_ns"), 4000 * US);
  tg__table_free(t);
}

static void test_a_product(void **state) { expect_usual_kernel("ampere_sgemm_128x64_nn", "mixed-precision-unused"); }
static void test_an_all_reduce(void **state) {
  expect_usual_kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "communication-not-overlapped");
}

/* ---- ranks ----------------------------------------------------------------------------------- */

/* Rank 1 works `us` longer than rank 0 in every step, or 200 ms longer in one of them. */
static struct tg_table *two_ranks(int64_t us, bool is_odd) {
  struct scene s = {.m = mini_new()};
  for (int r = 0; r < 2; r++) {
    mini_rank(s.m, r);
    s.thread = mini_thread(s.m, r + 1, 10 * (r + 1));
    s.at = 0;
    for (int i = 0; i < MANY; i++) {
      char name[32];
      const int64_t more = is_odd && i == ODD ? MORE_US : 0, work = 5000 + (r ? us + more : 0);
      snprintf(name, sizeof name, "ProfilerStep#%d", i + 1);
      mini_slice(s.m, s.thread, "user_annotation", name, s.at, STEP + more * US);
      call(&s, "aten::conv2d", 0, work, "train.py(9): fit");
      mini_slice(s.m, s.thread, "user_annotation", "gloo:all_reduce", s.at + work * US, STEP + (more - work) * US);
      s.at += STEP + more * US;
    }
  }
  return ask(&s);
}

static void test_a_rank(void **state) {
  struct tg_table *t = two_ranks(100, true);
  assert_int_equal(count(t, "rank-straggler"), 0);
  tg__table_free(t);
  t = two_ranks(3000, true);
  assert_int_equal(mini_int(t, mini_row(t, "cause", "rank-straggler"), "cost_ns"), 3000 * US);
  tg__table_free(t);
}

/* Each rank works 2 to 7 of 10 ms, by turns that follow no order, and waits for the other. Rank 1 works `us` longer. */
static size_t stragglers_in_jitter(int64_t us) {
  static const int64_t work_us[2][10] = {{2000, 7000, 6000, 2000, 5000, 7000, 3000, 6000, 2000, 4000},
                                         {6000, 2000, 7000, 7000, 3000, 2000, 6000, 7000, 5000, 6000}};
  struct scene s = {.m = mini_new()};
  for (int r = 0; r < 2; r++) {
    mini_rank(s.m, r);
    s.thread = mini_thread(s.m, r + 1, 10 * (r + 1));
    for (int i = 0; i < 10; i++) {
      const int64_t work = work_us[r][i] + (r ? us : 0);
      s.at = i * STEP;
      mark_step(&s, i);
      call(&s, "aten::conv2d", 0, work, "train.py(9): fit");
      mini_slice(s.m, s.thread, "user_annotation", "gloo:all_reduce", s.at + work * US, STEP - work * US);
    }
  }
  return count_of(&s, "rank-straggler");
}

/* The means are 4.4 and 5.1 ms, the standard errors 0.63 and 0.6: 1.7 ms are within three of them, 3.7 are not. */
static void test_jitter(void **state) {
  assert_int_equal(stragglers_in_jitter(1000), 0);
  assert_int_equal(stragglers_in_jitter(3000), 1);
}

/* Other programs use 0.9 cores meanwhile. */
static struct tg_table *beside_others(struct scene *s) {
  struct tg__columns *const trace = mini_finish(s->m);
  assert_true(tg__trace_add_meta(trace, "conditions", "{\"others_pct\":90}"));
  struct tg_table *t = mini_ask(trace, "findings", NULL);
  mini_free(s->m);
  return t;
}

/* Rank 1 takes 2 of 10 ms longer than rank 0, on a busy machine: each waits 1 ms for a core. */
static size_t stragglers_in_noise(int64_t cpu_of_slow_us) {
  struct scene s = {.m = mini_new()};
  for (int r = 0; r < 2; r++) {
    const int64_t work = r ? 7000 : 5000;
    mini_rank(s.m, r);
    s.thread = mini_thread(s.m, r + 1, 10 * (r + 1));
    for (int i = 0; i < MANY; i++) {
      s.at = i * STEP;
      mark_step(&s, i);
      mini_arg_int(s.m, "Thread CPU us", r ? cpu_of_slow_us : 4000);
      mini_arg_int(s.m, "Core wait us", 1000);
      mini_arg_int(s.m, "Preemptions", 0);
      call(&s, "aten::conv2d", 0, 4000, "train.py(9): fit");
      call(&s, "aten::relu", work - 100, 100, "train.py(11): fit");
      mini_slice(s.m, s.thread, "user_annotation", "gloo:all_reduce", s.at + work * US, STEP - work * US);
    }
  }
  struct tg_table *t = beside_others(&s);
  const size_t n = count(t, "rank-straggler");
  tg__table_free(t);
  return n;
}

/* On a machine with far too little room both ranks wait for a core for most of the step, in collectives too; rank 1
 * computes for 3 of 10 ms and rank 0 for 1. It is withheld, with its share, and so is what the ranks say. */
static void test_ranks_that_wait_for_cores(void **state) {
  struct scene s = {.m = mini_new()};
  for (int r = 0; r < 2; r++) {
    mini_rank(s.m, r);
    s.thread = mini_thread(s.m, r + 1, 10 * (r + 1));
    for (int i = 0; i < MANY; i++) {
      const int64_t work = r ? 7000 : 2000;
      s.at = i * STEP;
      mark_step(&s, i);
      mini_arg_int(s.m, "Thread CPU us", r ? 3000 : 1000);
      mini_arg_int(s.m, "Core wait us", r ? 7000 : 4000);
      mini_arg_int(s.m, "Preemptions", 0);
      call(&s, "aten::conv2d", 0, work, "train.py(9): fit");
      mini_slice(s.m, s.thread, "user_annotation", "gloo:all_reduce", s.at + work * US, STEP - work * US);
    }
  }
  struct tg_table *t = beside_others(&s);
  assert_int_equal(t->rows, 0);
  bool is_withheld = false;
  for (size_t i = 0; i < t->note_count; i++)
    is_withheld |= strcmp(t->notes[i], "withheld: rank-straggler, 20.0 % (other programs kept the machine busy)") == 0;
  assert_true(is_withheld);
  assert_non_null(strstr(t->notes[t->note_count - 1],
                         "nothing found above 5 %; withheld: rank-straggler, 20.0 % (other programs kept the machine "
                         "busy); communication-not-overlapped, "));
  tg__table_free(t);
}

static void test_a_rank_that_sleeps_in_noise(void **state) {
  assert_int_equal(stragglers_in_noise(4000), 1); /* on no core, and ready for none */
  assert_int_equal(stragglers_in_noise(6000), 0); /* slower cores may be all of it */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_fetch),
      cmocka_unit_test(test_the_share_is_of_the_usual_step),
      cmocka_unit_test(test_a_wait_for_workers),
      cmocka_unit_test(test_workers_in_pairs),
      cmocka_unit_test(test_a_file),
      cmocka_unit_test(test_a_copy),
      cmocka_unit_test(test_values_read),
      cmocka_unit_test(test_an_update),
      cmocka_unit_test(test_a_function),
      cmocka_unit_test(test_a_product),
      cmocka_unit_test(test_an_all_reduce),
      cmocka_unit_test(test_a_rank),
      cmocka_unit_test(test_jitter),
      cmocka_unit_test(test_a_rank_that_sleeps_in_noise),
      cmocka_unit_test(test_ranks_that_wait_for_cores),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
