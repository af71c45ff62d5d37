/* bottleneck and six_questions on steps that were written by hand: three of 10 ms. Shares are worked out by hand. */
#include "unit/findings_scene.h"

static bool is_set(const struct tg_table *t, size_t row, const char *column) {
  return t->columns[tg__table_column_index(t, column)].bools[row] == 1;
}

static void at_step(struct scene *s, int i) { s->at = i * STEP; }

/* A launch, and the kernel. */
static int kernel(struct scene *s, uint32_t stream, const char *cat, const char *name, int64_t us, int64_t dur_us) {
  const int launch = mini_slice(s->m, s->thread, "cuda_runtime", "cudaLaunchKernel", s->at + us * US, 10 * US);
  const int work = mini_slice(s->m, stream, cat, name, s->at + (us + 10) * US, dur_us * US);
  mini_cause(s->m, work, launch);
  return work;
}

static void expect_first(struct scene *s, const char *kind, double share_pct) {
  struct tg_table *const t = mini_ask(mini_finish(s->m), "bottleneck", NULL);
  double sum = 0;
  assert_string_equal(mini_cell(t, 0, "kind"), kind);
  assert_true(is_set(t, 0, "is_bottleneck"));
  assert_float_equal(mini_real(t, 0, "share_pct"), share_pct, 0.05);
  for (size_t i = 0; i < t->rows; i++) sum += mini_real(t, i, "share_pct");
  assert_float_equal(sum, 100, 1e-6);
  for (size_t i = 1; i < t->rows; i++) assert_false(is_set(t, i, "is_bottleneck"));
  tg__table_free(t);
  mini_free(s->m);
}

/* 6 ms of the loader, 1 ms of operators. */
static void test_input(void **state) {
  (void)state;
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    at_step(&s, i);
    mini_slice(s.m, s.thread, "user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
               s.at + 100 * US, 6000 * US);
    call(&s, "aten::mm", 6500, 1000, NULL);
  }
  expect_first(&s, "input", 60);
}

/* No device: 7 ms of operators, and 3 ms between them, are the host's. */
static void test_host(void **state) {
  (void)state;
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    at_step(&s, i);
    call(&s, "aten::mm", 0, 7000, NULL);
  }
  expect_first(&s, "host", 100);
}

/* Kernels of 8 ms, a collective of 2.5 ms of which 1.5 are under a kernel: 80 % device, 10 % communication. */
static void test_device(void **state) {
  (void)state;
  struct scene s = begin();
  const uint32_t stream = mini_stream(s.m, 0, 7), other = mini_stream(s.m, 0, 20);
  for (int i = 0; i < STEPS; i++) {
    at_step(&s, i);
    kernel(&s, stream, "kernel", "sgemm", 490, 8000);
    kernel(&s, other, "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 6990, 2500);
  }
  expect_first(&s, "device", 80);
}

/* Kernels of 2 ms and a collective of 6 ms beside nothing. */
static void test_communication(void **state) {
  (void)state;
  struct scene s = begin();
  const uint32_t stream = mini_stream(s.m, 0, 7);
  for (int i = 0; i < STEPS; i++) {
    at_step(&s, i);
    kernel(&s, stream, "kernel", "sgemm", 490, 2000);
    kernel(&s, stream, "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 2990, 6000);
  }
  expect_first(&s, "communication", 60);
}

/* Copies of 5 ms, kernels of 2 ms. */
static void test_memory(void **state) {
  (void)state;
  struct scene s = begin();
  const uint32_t stream = mini_stream(s.m, 0, 7);
  for (int i = 0; i < STEPS; i++) {
    at_step(&s, i);
    kernel(&s, stream, "gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 490, 5000);
    kernel(&s, stream, "kernel", "sgemm", 6490, 2000);
  }
  expect_first(&s, "memory", 50);
}

/* A server without requests: no steps, two short operators in 30 ms, and nothing is a bottleneck. */
static void test_idle(void **state) {
  (void)state;
  struct scene s = {.m = mini_new()};
  mini_rank(s.m, 0);
  s.thread = mini_thread(s.m, 1, 10);
  call(&s, "aten::mm", 0, 50, NULL);
  call(&s, "aten::mm", 29950, 50, NULL);
  struct tg_table *const t = mini_ask(mini_finish(s.m), "bottleneck", NULL);
  assert_string_equal(mini_cell(t, 0, "kind"), "idle");
  for (size_t i = 0; i < t->rows; i++) assert_false(is_set(t, i, "is_bottleneck"));
  tg__table_free(t);
  mini_free(s.m);
}

static void expect_answer(const struct tg_table *t, const char *about, const char *answer, double value) {
  const size_t row = mini_row(t, "about", about);
  assert_string_equal(mini_cell(t, row, "answer"), answer);
  if (isnan(value)) return;
  assert_false(is_set(t, row, "is_well"));
  assert_float_equal(mini_real(t, row, "value"), value, 0.05);
}

/* 2 ms of loader, kernels of 5 ms, an exposed collective of 1 ms. */
static void test_six_questions(void **state) {
  (void)state;
  struct scene s = begin();
  const uint32_t stream = mini_stream(s.m, 0, 7);
  for (int i = 0; i < STEPS; i++) {
    at_step(&s, i);
    mini_slice(s.m, s.thread, "user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", s.at,
               2000 * US);
    kernel(&s, stream, "kernel", "sgemm", 2490, 5000);
    kernel(&s, stream, "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 8490, 1000);
  }
  struct tg_table *const t = mini_ask(mini_finish(s.m), "six_questions", NULL);
  assert_int_equal(t->rows, 6);
  expect_answer(t, "utilisation", "no", 60);
  expect_answer(t, "loader", "yes", 20);
  expect_answer(t, "communication", "yes", 10);
  expect_answer(t, "intensity", "unknown", NAN);
  expect_answer(t, "memory", "unknown", NAN);
  tg__table_free(t);
  mini_free(s.m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_input),         cmocka_unit_test(test_host),   cmocka_unit_test(test_device),
      cmocka_unit_test(test_communication), cmocka_unit_test(test_memory), cmocka_unit_test(test_idle),
      cmocka_unit_test(test_six_questions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
