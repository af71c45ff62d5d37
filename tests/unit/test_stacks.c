/* stacks: time by line, function, file, module and whole stack. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the four above */
#include <cmocka.h>

#include "unit/mini_trace.h"

static void expect(const struct tg_table *t, const char *name, int64_t calls, int64_t cpu, int64_t self, int64_t device,
                   int64_t self_device) {
  const size_t row = mini_row(t, "name", name);
  assert_int_equal(mini_int(t, row, "calls"), calls);
  assert_int_equal(mini_int(t, row, "cpu_ns"), cpu);
  assert_int_equal(mini_int(t, row, "self_cpu_ns"), self);
  assert_int_equal(mini_int(t, row, "device_ns"), device);
  assert_int_equal(mini_int(t, row, "self_device_ns"), self_device);
}

/* main calls walk, which calls itself, and run, where a module's operator launches a kernel of 70. */
static struct tg__columns *frames_trace(struct mini *m) {
  const uint32_t cpu = mini_thread(m, 1, 1), gpu = mini_stream(m, 0, 7);
  mini_slice(m, cpu, "python_function", "app.py(1): main", 0, 1000);
  mini_slice(m, cpu, "python_function", "app.py(9): walk", 100, 300);
  mini_slice(m, cpu, "python_function", "app.py(9): walk", 150, 200);
  mini_slice(m, cpu, "python_function", "<built-in method sum>", 200, 50);
  mini_slice(m, cpu, "python_function", "lib/run.py(4): run", 500, 400);
  mini_slice(m, cpu, "python_function", "nn.Module: Linear_3", 550, 300);
  mini_arg_int(m, "Python module id", 3);
  const int op = mini_slice(m, cpu, "cpu_op", "aten::linear", 600, 100);
  const int call = mini_slice(m, cpu, "cuda_runtime", "cudaLaunchKernel", 620, 10);
  mini_cause(m, call, op);
  mini_cause(m, mini_slice(m, gpu, "kernel", "gemm", 700, 70), call);
  const int early = mini_slice(m, cpu, "cuda_runtime", "cudaMemcpyAsync", 120, 10);
  mini_cause(m, mini_slice(m, gpu, "gpu_memcpy", "copy", 130, 5), early);
  return mini_finish(m);
}

static void test_by_line(void **state) {
  struct mini *m = mini_new();
  struct tg_table *t = mini_ask(frames_trace(m), "stacks", NULL);
  assert_int_equal(t->rows, 5);
  expect(t, "app.py(1): main", 1, 1000, 1000 - 300 - 400, 75, 0);
  expect(t, "app.py(9): walk", 2, 300, 100 + 150, 5, 5); /* recursion counts once */
  expect(t, "<built-in method sum>", 1, 50, 50, 0, 0);
  expect(t, "lib/run.py(4): run", 1, 400, 100, 70, 0);
  expect(t, "nn.Module: Linear_3", 1, 300, 300, 70, 70);
  tg__table_free(t);
  mini_free(m);
}

static void test_by_file(void **state) {
  struct mini *m = mini_new();
  struct tg_table *t = mini_ask(frames_trace(m), "stacks", "by", "file", NULL);
  assert_int_equal(t->rows, 4);
  expect(t, "app.py", 3, 1000, 300 + 100 + 150, 75, 5);
  expect(t, "lib/run.py", 1, 400, 100, 70, 0);
  expect(t, "<built-in>", 1, 50, 50, 0, 0);
  tg__table_free(t);
  mini_free(m);
}

static void test_by_module(void **state) {
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 1);
  mini_slice(m, cpu, "python_function", "nn.Module: Net_0", 0, 100);
  mini_arg_int(m, "Python module id", 0);
  mini_slice(m, cpu, "python_function", "net.py(3): forward", 5, 90);
  mini_slice(m, cpu, "python_function", "nn.Module: ReLU_1", 10, 20);
  mini_arg_int(m, "Python module id", 1);
  mini_slice(m, cpu, "python_function", "nn.Module: ReLU_1", 40, 30);
  mini_arg_int(m, "Python module id", 1);
  struct tg_table *t = mini_ask(mini_finish(m), "stacks", "by", "module", NULL);
  assert_int_equal(t->rows, 2);
  expect(t, "Net_0", 1, 100, 50, 0, 0);
  expect(t, "Net_0 / ReLU_1", 2, 50, 50, 0, 0);
  tg__table_free(t);
  mini_free(m);
}

static void test_whole_stacks(void **state) {
  struct mini *m = mini_new();
  struct tg_table *t = mini_ask(frames_trace(m), "stacks", "by", "stack", NULL);
  assert_int_equal(t->rows, 6);
  expect(t, "app.py(1): main;app.py(9): walk", 1, 300, 100, 5, 5);
  expect(t, "app.py(1): main;app.py(9): walk;app.py(9): walk", 1, 200, 150, 0, 0);
  expect(t, "app.py(1): main;lib/run.py(4): run;nn.Module: Linear_3", 1, 300, 300, 70, 70);
  tg__table_free(t);
  mini_free(m);
}

/* Early traces: operators carry their call stack as text, innermost frame first, each with the line being run. */
static struct tg__columns *text_trace(struct mini *m) {
  const uint32_t cpu = mini_thread(m, 1, 1), gpu = mini_stream(m, 0, 7);
  mini_slice(m, cpu, "cpu_op", "aten::conv2d", 0, 100);
  mini_arg_str(m, "Call stack", "conv.py(7): forward;net.py(3): forward;app.py(1): main");
  mini_slice(m, cpu, "cpu_op", "aten::convolution", 10, 80);
  mini_arg_str(m, "Call stack", "conv.py(7): forward;net.py(3): forward;app.py(1): main");
  const int op = mini_slice(m, cpu, "cpu_op", "aten::empty", 20, 10);
  mini_slice(m, cpu, "cpu_op", "aten::relu", 200, 40);
  mini_arg_str(m, "Call stack", "net.py(5): forward;net.py(3): forward;app.py(1): main");
  mini_slice(m, cpu, "cpu_op", "aten::add", 300, 9);
  mini_arg_str(m, "Call stack", "");
  const int call = mini_slice(m, cpu, "cuda_runtime", "cudaLaunchKernel", 22, 1);
  mini_cause(m, call, op);
  mini_cause(m, mini_slice(m, gpu, "kernel", "fill", 50, 6), call);
  return mini_finish(m);
}

static void test_stacks_given_as_text(void **state) {
  struct mini *m = mini_new();
  struct tg__columns *trace = text_trace(m);
  struct tg_table *lines = mini_ask(trace, "stacks", NULL),
                  *functions = mini_ask(trace, "stacks", "by", "function", NULL);
  struct tg_table *whole = mini_ask(trace, "stacks", "by", "stack", NULL);
  assert_int_equal(lines->rows, 4);
  expect(lines, "app.py(1): main", 3, 140, 0, 6, 0);
  expect(lines, "net.py(3): forward", 3, 140, 0, 6, 0);
  expect(lines, "conv.py(7): forward", 2, 100, 100, 6, 6);
  expect(lines, "net.py(5): forward", 1, 40, 40, 0, 0);
  assert_int_equal(functions->rows, 3);
  expect(functions, "net.py: forward", 3, 140, 40, 6, 0);
  assert_int_equal(whole->rows, 2);
  expect(whole, "app.py(1): main;net.py(3): forward;conv.py(7): forward", 2, 100, 100, 6, 6);
  tg__table_free(lines);
  tg__table_free(functions);
  tg__table_free(whole);
  mini_free(m);
}

static void test_only_inside_a_step(void **state) {
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 1);
  mini_step(m, 5, "ProfilerStep#5", 100, 200);
  mini_slice(m, cpu, "python_function", "a.py(1): f", 50, 300);
  mini_slice(m, cpu, "python_function", "a.py(1): f", 120, 60);
  mini_slice(m, cpu, "python_function", "a.py(1): f", 130, 20);
  struct tg_table *t = mini_ask(mini_finish(m), "stacks", "step", "5", NULL);
  assert_int_equal(t->rows, 1);
  expect(t, "a.py(1): f", 2, 60, 60, 0, 0); /* the outer one began before the step: it hides nothing */
  tg__table_free(t);
  mini_free(m);
}

static void called_from(struct mini *m, uint32_t track, const char *cat, const char *name, int64_t at, int64_t dur,
                        const char *from) {
  mini_slice(m, track, cat, name, at, dur);
  if (from) mini_arg_str(m, "CallFrom", from);
}

/* f calls an operator of 20 in line 3, C for 5 in line 4, and in line 5 g, which takes 40 and calls an operator of 20
 * in line 9: 100 - 20 - 5 - 40 are its own. The operator inside another is part of that one. */
static void test_lines_that_call(void **state) {
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 1), gpu = mini_stream(m, 0, 7);
  called_from(m, cpu, "python_function", "a.py(1): f", 0, 100, NULL);
  called_from(m, cpu, "cpu_op", "aten::add", 10, 20, "a.py:3");
  called_from(m, cpu, "cpu_op", "aten::add_", 12, 10, "a.py:3");
  const int call = mini_slice(m, cpu, "cuda_runtime", "cudaLaunchKernel", 14, 2);
  mini_cause(m, mini_slice(m, gpu, "kernel", "gemm", 200, 70), call);
  called_from(m, cpu, "python_function", "<built-in len>", 40, 5, "a.py:4");
  called_from(m, cpu, "python_function", "a.py(8): g", 50, 40, "a.py:5");
  called_from(m, cpu, "cpu_op", "aten::mul", 60, 20, "a.py:9");
  struct tg__columns *trace = mini_finish(m);
  struct tg_table *t = mini_ask(trace, "stacks", NULL);
  assert_int_equal(t->rows, 6);
  expect(t, "a.py(1): f", 1, 100, 35, 70, 0);
  expect(t, "a.py(3): f", 1, 20, 20, 70, 70);
  expect(t, "a.py(4): f", 1, 5, 5, 0, 0);
  expect(t, "a.py(5): f", 1, 40, 0, 0, 0);
  expect(t, "a.py(8): g", 1, 40, 20, 0, 0);
  expect(t, "a.py(9): g", 1, 20, 20, 0, 0);
  tg__table_free(t);
  t = mini_ask(trace, "stacks", "by", "function", NULL);
  assert_int_equal(t->rows, 3);
  expect(t, "a.py(1): f", 1, 100, 100 - 5 - 40, 70, 70);
  tg__table_free(t);
  mini_free(m);
}

/* The address of the object makes no difference for a reader. */
static void test_addresses_are_left_out(void **state) {
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 1);
  mini_slice(m, cpu, "python_function", "<built-in method add of Tensor object at 0x7cbd8414bd40>", 0, 10);
  mini_slice(m, cpu, "cpu_op", "aten::add", 1, 8);
  mini_slice(m, cpu, "python_function", "<built-in method add of Tensor object at 0x7f>", 20, 30);
  mini_slice(m, cpu, "cpu_op", "aten::add", 21, 20);
  struct tg__columns *trace = mini_finish(m);
  struct tg_table *t = mini_ask(trace, "stacks", NULL), *ops = mini_ask(trace, "ops", "by", "stack", NULL);
  assert_int_equal(t->rows, 1);
  expect(t, "<built-in method add of Tensor object>", 2, 40, 40, 0, 0);
  assert_int_equal(ops->rows, 1);
  assert_string_equal(mini_cell(ops, 0, "group"), "<built-in method add of Tensor object>");
  tg__table_free(t);
  tg__table_free(ops);
  mini_free(m);
}

static void test_no_stacks(void **state) {
  struct mini *m = mini_new();
  mini_slice(m, mini_thread(m, 1, 1), "cpu_op", "aten::mm", 0, 10);
  struct tg__columns *t = mini_finish(m);
  struct tg_table *table;
  struct tg_error e = {0};
  assert_int_equal(tg__ask_trace(&(struct tg_trace){.columns = t}, "stacks", NULL, 0, &table, &e), TG_NO_DATA);
  assert_non_null(strstr(e.text, "with_stack=True"));
  mini_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_by_line),
      cmocka_unit_test(test_by_file),
      cmocka_unit_test(test_lines_that_call),
      cmocka_unit_test(test_by_module),
      cmocka_unit_test(test_whole_stacks),
      cmocka_unit_test(test_stacks_given_as_text),
      cmocka_unit_test(test_only_inside_a_step),
      cmocka_unit_test(test_addresses_are_left_out),
      cmocka_unit_test(test_no_stacks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
