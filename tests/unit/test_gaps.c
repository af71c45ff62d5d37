/* The question gaps, on traces written by hand: which intervals, what caused them, and that they add up to the idle
 * time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "analyze/device/gaps.h"
#include "unit/mini_trace.h"

struct scene {
  struct mini *m;
  uint32_t thread, other, stream, second;
};

static struct scene begin(void) {
  struct scene s = {.m = mini_new()};
  s.thread = mini_thread(s.m, 1, 10);
  s.other = mini_thread(s.m, 1, 11);
  s.stream = mini_stream(s.m, 0, 7);
  s.second = mini_stream(s.m, 0, 8);
  return s;
}

static int work(struct scene *s, uint32_t thread, uint32_t stream, int64_t call_at, int64_t call_dur, int64_t at,
                int64_t dur, const char *name) {
  const int call = mini_slice(s->m, thread, "cuda_runtime", "cudaLaunchKernel", call_at, call_dur);
  const int kernel = mini_slice(s->m, stream, "kernel", name, at, dur);
  mini_cause(s->m, kernel, call);
  return call;
}

/* The device is idle from 100 to 200; what came after was launched at 195. What the thread did is the test's. */
static struct tg_table *ask_and_free(struct scene *s, struct tg_table *(*look)(struct tg__columns *)) {
  struct tg_table *t = look(mini_finish(s->m));
  mini_free(s->m);
  return t;
}
static struct tg_table *ask_gaps(struct tg__columns *t) { return mini_ask(t, "gaps", NULL); }

static void expect_one_gap(struct scene *s, const char *cause, const char *during) {
  work(s, s->thread, s->stream, 0, 5, 10, 90, "first");
  const int call = work(s, s->thread, s->stream, 195, 2, 200, 50, "second");
  const int op = mini_slice(s->m, s->thread, "cpu_op", "aten::mm", 194, 4);
  mini_cause(s->m, call, op);
  struct tg_table *t = ask_and_free(s, ask_gaps);
  assert_int_equal(t->rows, 1);
  assert_int_equal(mini_int(t, 0, "start_ns"), 100);
  assert_int_equal(mini_int(t, 0, "dur_ns"), 100);
  assert_int_equal(mini_int(t, 0, "device"), 0);
  assert_string_equal(mini_cell(t, 0, "cause"), cause);
  if (during)
    assert_string_equal(mini_cell(t, 0, "during"), during);
  else
    assert_null(mini_cell(t, 0, "during"));
  assert_string_equal(mini_cell(t, 0, "before"), "first");
  assert_string_equal(mini_cell(t, 0, "after"), "second");
  assert_string_equal(mini_cell(t, 0, "op"), "aten::mm");
  tg__table_free(t);
}

static void test_python(void **state) {
  struct scene s = begin();
  mini_slice(s.m, s.thread, "python_function", "train.py(3): f", 0, 300);
  mini_slice(s.m, s.thread, "python_function", "train.py(9): g", 105, 60);
  expect_one_gap(&s, "python", "train.py(9): g");
}

static void test_host(void **state) {
  struct scene s = begin();
  mini_slice(s.m, s.thread, "python_function", "train.py(3): f", 0, 300);
  mini_slice(s.m, s.thread, "cpu_op", "aten::sort", 110, 70);
  expect_one_gap(&s, "host", "aten::sort");
}

static void test_sync(void **state) {
  struct scene s = begin();
  mini_slice(s.m, s.thread, "cpu_op", "aten::item", 90, 100);
  mini_slice(s.m, s.thread, "cuda_runtime", "cudaMemcpyAsync", 95, 60); /* part of reading the value */
  mini_slice(s.m, s.thread, "cuda_runtime", "cudaStreamSynchronize", 156, 30);
  expect_one_gap(&s, "sync", "cudaMemcpyAsync");
}

static void test_copy_and_data(void **state) {
  struct scene s = begin();
  mini_slice(s.m, s.thread, "cpu_op", "aten::copy_", 90, 100);
  mini_slice(s.m, s.thread, "cuda_runtime", "cudaMemcpyAsync", 95, 90);
  expect_one_gap(&s, "copy", "cudaMemcpyAsync");
  s = begin();
  mini_slice(s.m, s.thread, "user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 60, 130);
  mini_slice(s.m, s.thread, "cpu_op", "aten::stack", 90, 40);
  expect_one_gap(&s, "data", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
}

static void test_launch(void **state) {
  struct scene s = begin();
  mini_slice(s.m, s.thread, "cuda_runtime", "cudaGraphLaunch", 102, 80);
  expect_one_gap(&s, "launch", "cudaGraphLaunch");
  s = begin(); /* an annotation of the program that has the name of a call of the runtime comes before that call */
  mini_slice(s.m, s.thread, "user_annotation", "cudaMemcpyAsync", 101, 10);
  mini_slice(s.m, s.thread, "cuda_runtime", "cudaMemcpyAsync", 112, 80);
  expect_one_gap(&s, "copy", "cudaMemcpyAsync");
}

/* Launched before the gap began: the device's own doing. Without a call: unknown. */
static void test_queued_and_none(void **state) {
  struct scene s = begin();
  work(&s, s.thread, s.stream, 0, 5, 10, 10, "a");
  work(&s, s.thread, s.stream, 6, 5, 22, 10, "b");
  mini_slice(s.m, s.stream, "kernel", "c", 40, 10);
  struct tg_table *t = ask_and_free(&s, ask_gaps);
  assert_int_equal(t->rows, 2);
  assert_string_equal(mini_cell(t, 0, "cause"), "queued");
  assert_int_equal(mini_int(t, 0, "dur_ns"), 2);
  assert_string_equal(mini_cell(t, 1, "cause"), "none");
  assert_null(mini_cell(t, 1, "op"));
  tg__table_free(t);
}

/* Work of an accelerator without calls: what the main thread does in the gap is what it waits for. The work of a host
 * that shows nothing for 3 ms is not known, with operators elsewhere or a step around it or without. A function of
 * Python, or a sample of the stack, does say it. */
static void test_gaps_without_launches(void **state) {
  struct scene s = begin();
  mini_slice(s.m, s.thread, "cpu_op", "aten::bucketize", 100, 300);
  mini_slice(s.m, s.stream, "kernel", "a", 50, 50);
  mini_slice(s.m, s.stream, "kernel", "b", 400, 50);
  struct tg_table *t = ask_and_free(&s, ask_gaps);
  assert_string_equal(mini_cell(t, 0, "cause"), "host");
  assert_string_equal(mini_cell(t, 0, "during"), "aten::bucketize");
  tg__table_free(t);
  static const struct {
    const char *category, *name, *cause;
  } around[] = {{NULL, NULL, "none"},
                {"user_annotation", "ProfilerStep#3", "none"},
                {"user_annotation", "evaluate", "python"},
                {"python_function", "train.py(9): g", "python"}};
  for (size_t i = 0; i < 2 * sizeof around / sizeof *around; i++) {
    s = begin();
    if (around[i / 2].name) mini_slice(s.m, s.thread, around[i / 2].category, around[i / 2].name, 0, 3001000);
    work(&s, s.thread, s.stream, 0, 5, 10, 90, "a");
    work(&s, s.thread, s.stream, 3000100, 5, 3000200, 90, "b");
    if (i % 2) mini_slice(s.m, s.other, "cpu_op", "aten::mm", 0, 5);
    t = ask_and_free(&s, ask_gaps);
    assert_string_equal(mini_cell(t, 0, "cause"), around[i / 2].cause);
    tg__table_free(t);
  }
}

/* The backward thread had nothing to do because the main one was still reading a value. */
static void test_silent_thread_defers_to_main(void **state) {
  struct scene s = begin();
  mini_slice(s.m, s.thread, "user_annotation", "ProfilerStep#1", 0, 1000);
  mini_slice(s.m, s.thread, "cuda_runtime", "cudaDeviceSynchronize", 95, 110);
  work(&s, s.thread, s.stream, 1, 5, 10, 90, "a");
  work(&s, s.other, s.stream, 200, 5, 200, 50, "b");
  struct tg_table *t = ask_and_free(&s, ask_gaps);
  assert_string_equal(mini_cell(t, 0, "cause"), "sync");
  tg__table_free(t);
}

/* Two streams of one device: idle only where both are. Two devices: each on its own. */
static void test_union_over_streams(void **state) {
  struct scene s = begin();
  const uint32_t gpu1 = mini_stream(s.m, 1, 7);
  work(&s, s.thread, s.stream, 0, 1, 10, 90, "a");
  work(&s, s.thread, s.second, 1, 1, 50, 100, "b");
  work(&s, s.thread, s.stream, 160, 1, 170, 10, "c");
  work(&s, s.thread, gpu1, 2, 1, 20, 5, "d");
  work(&s, s.thread, gpu1, 3, 1, 45, 5, "e");
  struct tg__columns *trace = mini_finish(s.m);
  struct tg_table *t = mini_ask(trace, "gaps", NULL);
  assert_int_equal(t->rows, 2);
  assert_int_equal(mini_int(t, 0, "start_ns"), 150);
  assert_int_equal(mini_int(t, 0, "dur_ns"), 20);
  assert_string_equal(mini_cell(t, 0, "before"), "b");
  assert_int_equal(mini_int(t, 1, "device"), 1);
  assert_int_equal(mini_int(t, 1, "start_ns"), 25);
  tg__table_free(t);
  t = mini_ask(trace, "gaps", "min_us", "0.021", NULL);
  assert_int_equal(t->rows, 0);
  tg__table_free(t);
  struct tg__gaps g;
  assert_int_equal(tg__gaps_find(trace, 0, &g), TG_OK);
  assert_int_equal(g.span_ns, 170 + 30); /* 10 to 180, 20 to 50 */
  assert_int_equal(g.busy_ns, 150 + 10);
  tg__gaps_free(&g);
  mini_free(s.m);
}

/* Whatever the trace: gaps add up to span minus busy time, by interval and by cause. */
static void test_gaps_add_up(void **state) {
  uint64_t random = 88172645463325252u;
  for (int round = 0; round < 40; round++) {
    struct scene s = begin();
    for (int i = 0; i < 60; i++) {
      random ^= random << 13, random ^= random >> 7, random ^= random << 17;
      const int64_t at = (int64_t)(random >> 40) % 5000, dur = (int64_t)(random >> 20) % 60;
      work(&s, random & 1 ? s.thread : s.other, random & 2 ? s.stream : s.second, at - (int64_t)(random >> 52) % 100, 3,
           at, dur, "k");
    }
    struct tg__columns *trace = mini_finish(s.m);
    bool busy[6000] = {false};
    int64_t first = INT64_MAX, last = 0, idle = 0, sum = 0;
    for (uint32_t i = 0; i < trace->slices.count; i++) {
      if (tg__slice_class(trace, i) != TG__CLASS_KERNEL) continue;
      for (int64_t ns = trace->slices.start_ns[i]; ns < tg__slice_end(trace, i); ns++) busy[ns] = true;
      if (trace->slices.start_ns[i] < first) first = trace->slices.start_ns[i];
      if (tg__slice_end(trace, i) > last) last = tg__slice_end(trace, i);
    }
    for (int64_t ns = first; ns < last; ns++) idle += !busy[ns];
    struct tg_table *t = mini_ask(trace, "gaps", NULL);
    for (size_t r = 0; r < t->rows; r++) sum += mini_int(t, r, "dur_ns");
    assert_int_equal(sum, idle);
    tg__table_free(t);
    t = mini_ask(trace, "gaps", "by", "cause", NULL);
    for (size_t r = 0; r < t->rows; r++) sum -= mini_int(t, r, "dur_ns");
    assert_int_equal(sum, 0);
    tg__table_free(t);
    mini_free(s.m);
  }
}

static void test_inside_steps(void **state) {
  struct scene s = begin();
  mini_slice(s.m, s.thread, "user_annotation", "ProfilerStep#1", 0, 130);
  mini_slice(s.m, s.thread, "user_annotation", "ProfilerStep#2", 130, 130);
  work(&s, s.thread, s.stream, 1, 5, 10, 90, "a");
  work(&s, s.thread, s.stream, 195, 5, 200, 50, "b");
  struct tg__columns *trace = mini_finish(s.m);
  struct tg_table *t = mini_ask(trace, "gaps", "step", "2", NULL);
  assert_int_equal(t->rows, 1);
  assert_int_equal(mini_int(t, 0, "start_ns"), 130);
  assert_int_equal(mini_int(t, 0, "dur_ns"), 70);
  tg__table_free(t);
  t = mini_ask(trace, "gaps", "step", "1:2", "by", "cause", NULL);
  assert_int_equal(mini_int(t, 0, "dur_ns"), 100);
  assert_int_equal(mini_int(t, 0, "count"), 2);
  tg__table_free(t);
  mini_free(s.m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_python),
      cmocka_unit_test(test_host),
      cmocka_unit_test(test_sync),
      cmocka_unit_test(test_copy_and_data),
      cmocka_unit_test(test_launch),
      cmocka_unit_test(test_queued_and_none),
      cmocka_unit_test(test_gaps_without_launches),
      cmocka_unit_test(test_silent_thread_defers_to_main),
      cmocka_unit_test(test_union_over_streams),
      cmocka_unit_test(test_gaps_add_up),
      cmocka_unit_test(test_inside_steps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
