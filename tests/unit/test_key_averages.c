/* key_averages: the rows of torch's own tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
/* cmocka needs the four above */
#include <cmocka.h>

#include "unit/mini_trace.h"

static void expect(const struct tg_table *t, const char *name, int64_t calls, int64_t cpu, int64_t self_cpu,
                   int64_t device, int64_t self_device) {
  const size_t row = mini_row(t, "name", name);
  assert_int_equal(mini_int(t, row, "calls"), calls);
  assert_int_equal(mini_int(t, row, "cpu_ns"), cpu);
  assert_int_equal(mini_int(t, row, "self_cpu_ns"), self_cpu);
  assert_int_equal(mini_int(t, row, "device_ns"), device);
  assert_int_equal(mini_int(t, row, "self_device_ns"), self_device);
}

static void test_everything_on_the_host_is_a_child(void **state) {
  (void)state;
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 10), gpu = mini_stream(m, 0, 7);
  mini_slice(m, cpu, "user_annotation", "ProfilerStep#4", 0, 100);
  mini_slice(m, cpu, "python_function", "f.py(1): f", 10, 80);
  const int op = mini_slice(m, cpu, "cpu_op", "aten::mm", 20, 50);
  const int call = mini_slice(m, cpu, "cuda_runtime", "cudaLaunchKernel", 30, 5);
  mini_cause_by_id(m, call, op);
  mini_cause(m, mini_slice(m, gpu, "kernel", "gemm", 60, 300), call);
  mini_slice(m, gpu, "gpu_user_annotation", "ProfilerStep#4", 60, 300);
  mini_slice(m, cpu, "user_annotation", "ProfilerStep#5", 100, 40);
  struct tg__columns *trace = mini_finish(m);
  struct tg_table *t = mini_ask(trace, "key_averages", "python", "1", NULL);
  assert_int_equal(t->rows, 6);
  expect(t, "f.py(1): f", 1, 80, 30, 300, 0);
  expect(t, "aten::mm", 1, 50, 45, 300, 300);
  expect(t, "cudaLaunchKernel", 1, 5, 5, 0, 0);
  expect(t, "gemm", 1, 0, 0, 300, 300);
  assert_string_equal(mini_cell(t, 0, "name"), "ProfilerStep*"); /* by first start */
  assert_int_equal(mini_int(t, 0, "calls"), 2);
  assert_int_equal(mini_int(t, 0, "self_cpu_ns"), 20 + 40);
  assert_int_equal(mini_int(t, 0, "scope"), 7);
  tg__table_free(t);
  t = mini_ask(trace, "key_averages", NULL);
  assert_int_equal(t->rows, 5); /* no Python row, and what it took is no operator's */
  assert_int_equal(mini_int(t, mini_row(t, "name", "aten::mm"), "self_cpu_ns"), 45);
  tg__table_free(t);
  mini_free(m);
}

static void test_overloads_and_doubles(void **state) {
  (void)state;
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 10);
  mini_slice(m, cpu, "cpu_op", "aten::add.out", 0, 10);
  mini_slice(m, cpu, "cpu_op", "aten::add.Tensor", 1, 8); /* the only child, of the same name */
  mini_slice(m, cpu, "cpu_op", "aten::add.Tensor", 20, 3);
  mini_slice(m, cpu, "cpu_op", "not::an.overload now", 30, 1);
  mini_slice(m, cpu, "cpu_op", "aten::is_leaf", 40, 1);
  struct tg_table *t = mini_ask(mini_finish(m), "key_averages", "by", "overload", NULL);
  assert_int_equal(t->rows, 3);
  assert_string_equal(mini_cell(t, 0, "name"), "aten::add");
  assert_string_equal(mini_cell(t, 0, "overload"), "out");
  assert_int_equal(mini_int(t, 0, "self_cpu_ns"), 10);
  assert_string_equal(mini_cell(t, 1, "overload"), "Tensor");
  assert_string_equal(mini_cell(t, 2, "name"), "not::an.overload now");
  tg__table_free(t);
  mini_free(m);
}

static void expect_shape(const char *dims, const char *shown) {
  struct mini *m = mini_new();
  mini_slice(m, mini_thread(m, 1, 10), "cpu_op", "aten::cat", 0, 10);
  mini_arg_raw(m, "Input Dims", dims);
  struct tg_table *t = mini_ask(mini_finish(m), "key_averages", "by", "shape", NULL);
  assert_string_equal(mini_cell(t, 0, "shapes"), shown);
  tg__table_free(t);
  mini_free(m);
}

static void test_shapes(void **state) {
  (void)state;
  expect_shape("[[2, 3], [], [4]]", "[[2, 3], [], [4]]");
  expect_shape("[[[2, 3], [4]], [5], [[6]]]", "[[], [5], []]");
  expect_shape("[]", "[]");
  expect_shape("[[[[1]]]]", "[[]]");
  expect_shape("]]]][", "]]]]["); /* not shapes at all: nothing is read past its end */
}

static void test_memory(void **state) {
  (void)state;
  struct mini *m = mini_new();
  const uint32_t one = mini_thread(m, 1, 10), two = mini_thread(m, 1, 11);
  mini_slice(m, one, "cpu_op", "aten::outer", 0, 100);
  mini_slice(m, one, "cpu_op", "aten::inner", 10, 20);
  const struct {
    uint32_t track;
    int64_t ns, bytes, device;
  } events[] = {{one, 15, 64, 0}, {two, 16, 4096, 0}, {one, 50, -16, 0}, {one, 60, 512, 1}, {one, 100, 8, 0}};
  for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
    mini_mark(m, events[i].track, "cpu_instant_event", "[memory]", 'i', events[i].ns);
    mini_arg_int(m, "Device Type", events[i].device);
    mini_arg_int(m, "Bytes", events[i].bytes);
  }
  mini_mark(m, one, "cpu_instant_event", "[OutOfMemory]", 'i', 70);
  struct tg_table *t = mini_ask(mini_finish(m), "key_averages", NULL);
  const size_t outer = mini_row(t, "name", "aten::outer"), inner = mini_row(t, "name", "aten::inner"),
               left = mini_row(t, "name", "[memory]");
  assert_int_equal(mini_int(t, outer, "cpu_memory_bytes"), 48);
  assert_int_equal(mini_int(t, outer, "self_cpu_memory_bytes"), -16);
  assert_int_equal(mini_int(t, outer, "self_device_memory_bytes"), 512);
  assert_int_equal(mini_int(t, inner, "cpu_memory_bytes"), 64);
  assert_int_equal(mini_int(t, left, "calls"), 2); /* the other thread's, and the one at the end of the operator */
  assert_int_equal(mini_int(t, left, "self_cpu_memory_bytes"), 4104);
  assert_int_equal(mini_int(t, mini_row(t, "name", "[OutOfMemory]"), "calls"), 1);
  tg__table_free(t);
  mini_free(m);
}

static void test_one_row_an_event(void **state) {
  (void)state;
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 10);
  const int outer = mini_slice(m, cpu, "cpu_op", "aten::outer", 0, 100);
  mini_slice(m, cpu, "cpu_op", "aten::inner", 10, 20);
  mini_slice(m, cpu, "cpu_op", "aten::inner", 40, 20);
  struct tg_table *t = mini_ask(mini_finish(m), "key_averages", "by", "event", NULL);
  assert_int_equal(t->rows, 3);
  assert_int_equal(mini_int(t, 0, "parent"), TG_NULL_INT);
  for (size_t row = 1; row < 3; row++) assert_int_equal(mini_int(t, row, "parent"), mini_id(m, outer));
  assert_int_equal(mini_int(t, 2, "start_ns"), 40);
  tg__table_free(t);
  mini_free(m);
}

/* One operator inside one frame: the frame as the operator's row shows it. */
static void check_line(const char *frame, const char *from, const char *want) {
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 10);
  mini_slice(m, cpu, "python_function", frame, 0, 100);
  mini_slice(m, cpu, "cpu_op", "aten::mm", 20, 10);
  mini_arg_str(m, "CallFrom", from);
  struct tg_table *t = mini_ask(mini_finish(m), "key_averages", "by", "stack", NULL);
  assert_string_equal(mini_cell(t, mini_row(t, "name", "aten::mm"), "stack"), want);
  tg__table_free(t);
  mini_free(m);
}

static void test_lines_of_frames(void **state) {
  (void)state;
  check_line("net.py(7): forward", "net.py:12", "net.py(12): forward");
  check_line("(7): typed", ":12", "(12): typed"); /* source without a file */
  check_line("C:\\net.py(7): f", "C:\\net.py:12", "C:\\net.py(12): f");
  static const struct {
    const char *frame, *from;
  } others[] = {{"net.py(7): forward", "set.py:12"},
                {"net.py(7): forward", "net.pyx:12"},
                {"net.pyx(7): forward", "net.py:12"},
                {"net.py", "net.py:12"},
                {"net", "net.py:12"},
                {"net.py(7: forward", "net.py:12"},
                {"(7): typed", "12"},
                {"(7): typed", "net.py"}};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    check_line(others[i].frame, others[i].from, others[i].frame);
}

static void test_no_memory(void **state) {
  (void)state;
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 10);
  mini_slice(m, cpu, "cpu_op", "aten::mm", 0, 100);
  mini_arg_raw(m, "Input Dims", "[[2, 3], [3, 4]]");
  mini_mark(m, cpu, "cpu_instant_event", "[memory]", 'i', 10);
  mini_arg_int(m, "Bytes", 64);
  struct tg__columns *t = mini_finish(m);
  const struct tg_arg args[] = {{"by", "shape+stack+overload"}};
  assert_true(mini_starve(t, "key_averages", args, 1) > 0);
  mini_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_everything_on_the_host_is_a_child),
      cmocka_unit_test(test_overloads_and_doubles),
      cmocka_unit_test(test_shapes),
      cmocka_unit_test(test_memory),
      cmocka_unit_test(test_one_row_an_event),
      cmocka_unit_test(test_lines_of_frames),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
