/* Tests of op_kernels, sequences, kernel_annotations, call_graph, call_stack and forward_backward on a trace written
 * by hand: what the random ones of tests/python/test_ops.py do not hold, such as one call that launches several
 * kernels, and memory that runs out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "ranks/ranks.h"
#include "analyze/names/short_name.h"
#include "unit/mini_trace.h"

/* Times in µs. A step with forward and, on a thread of autograd's, backward; a graph launch; two annotations of the
 * device. */
struct scene {
  struct mini *m;
  struct tg__columns *t;
  int step, range, linear, addmm, graph, node, late, kernels[4], marks[2];
};

static int slice_us(struct mini *m, uint32_t track, const char *cat, const char *name, int64_t start, int64_t dur) {
  return mini_slice(m, track, cat, name, start * 1000, dur * 1000);
}

static int kernel_us(struct mini *m, uint32_t track, const char *name, int64_t start, int64_t dur, int call,
                     int64_t correlation) {
  const int k = slice_us(m, track, "kernel", name, start, dur);
  mini_arg_int(m, "stream", 7);
  mini_arg_int(m, "correlation", correlation);
  mini_cause(m, k, call);
  return k;
}

static struct scene make(void) {
  struct scene s = {.m = mini_new()};
  struct mini *m = s.m;
  const uint32_t cpu = mini_thread(m, 1, 10), autograd = mini_thread(m, 1, 11), gpu = mini_stream(m, 3, 7);
  s.step = slice_us(m, cpu, "user_annotation", "ProfilerStep#1", 0, 200);
  s.linear = slice_us(m, cpu, "cpu_op", "aten::linear", 10, 40);
  s.addmm = slice_us(m, cpu, "cpu_op", "aten::addmm", 12, 30);
  s.graph = slice_us(m, cpu, "cuda_runtime", "cudaGraphLaunch", 20, 5);
  mini_arg_int(m, "correlation", 1);
  mini_cause(m, s.graph, s.addmm);
  s.range = slice_us(m, cpu, "user_annotation", "## backward ##", 60, 100);
  s.node = slice_us(m, autograd, "cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 70, 50);
  mini_cause(m, s.node, s.addmm);
  const int inner = slice_us(m, autograd, "cpu_op", "AddmmBackward0", 72, 40);
  mini_cause(m, inner, s.addmm);
  const int launch = slice_us(m, autograd, "cuda_runtime", "cudaLaunchKernel", 80, 5);
  mini_arg_int(m, "correlation", 2);
  mini_cause(m, launch, inner);
  s.late = slice_us(m, autograd, "cpu_op", "aten::add_", 170, 10);
  s.kernels[0] = kernel_us(m, gpu, "gemm", 30, 20, s.graph, 1);
  s.kernels[1] = kernel_us(m, gpu, "bias<float>(int)", 52, 8, s.graph, 1);
  s.kernels[2] = kernel_us(m, gpu, "gemm", 90, 30, launch, 2);
  s.kernels[3] = slice_us(m, gpu, "kernel", "launched before", 5, 4);
  s.marks[0] = slice_us(m, gpu, "gpu_user_annotation", "whole", 0, 200);
  s.marks[1] = slice_us(m, gpu, "gpu_user_annotation", "part", 59, 40);
  s.t = mini_finish(m);
  return s;
}

static void op_kernels(void **state) {
  (void)state;
  struct scene s = make();
  struct tg_table *t = mini_ask(s.t, "op_kernels", NULL);
  assert_int_equal(t->rows, 2);
  const size_t r = mini_row(t, "op", "aten::addmm");
  assert_string_equal(mini_cell(t, r, "sequence"), "gemm -> bias<float>(int)"); /* one launch, two kernels */
  assert_int_equal(mini_int(t, r, "kernels"), 2);
  assert_int_equal(mini_int(t, r, "device_ns"), 28000);
  assert_int_equal(mini_int(t, r, "op_ns"), 30000);
  assert_true(mini_real(t, r, "launch_delay_ns") == 8000 && mini_real(t, r, "runtime_delay_ns") == 10000);
  assert_int_equal(mini_int(t, r, "event"), mini_id(s.m, s.addmm));
  assert_int_equal(t->note_count, 1);
  assert_string_equal(t->notes[0], "in no row: device work without a host call: 1");
  tg__table_free(t);
  t = mini_ask(s.t, "op_kernels", "rules", "hta", NULL); /* knows no cudaGraphLaunch, and AddmmBackward0 is no aten:: */
  assert_int_equal(t->rows, 0);
  tg__table_free(t);
  mini_free(s.m);
}

static void sequences(void **state) {
  (void)state;
  struct scene s = make();
  struct tg_table *t = mini_ask(s.t, "sequences", "min_length", "2", NULL);
  assert_int_equal(t->rows, 1); /* aten::addmm lies inside aten::linear */
  assert_string_equal(mini_cell(t, 0, "pattern"), "aten::linear|gemm|bias<float>(int)");
  assert_int_equal(mini_int(t, 0, "op_ns"), 40000);
  tg__table_free(t);
  t = mini_ask(s.t, "sequences", "op", "Addmm", "min_length", "1", "by", "event", NULL);
  assert_int_equal(t->rows, 4); /* the engine's call, the node, the launch, the kernel */
  for (size_t i = 0; i < 4; i++) assert_int_equal(mini_int(t, i, "place"), 1);
  tg__table_free(t);
  t = mini_ask(s.t, "sequences", "op", "mm", "min_length", "1", "rules", "hta",
               NULL); /* all three at depth 2: the main thread's … */
  assert_int_equal(t->rows, 2);
  assert_string_equal(mini_cell(t, 0, "pattern"), "aten::addmm|gemm|bias<float>(int)");
  assert_string_equal(mini_cell(t, 1, "op"),
                      "autograd::engine::evaluate_function: AddmmBackward0"); /* … and that below the annotation */
  tg__table_free(t);
  t = mini_ask(s.t, "sequences", "op", "nothing like it", NULL);
  assert_string_equal(t->notes[0], "no operator has 'nothing like it' in its name");
  tg__table_free(t);
  mini_free(s.m);
}

static void kernel_annotations(void **state) {
  (void)state;
  struct scene s = make();
  struct tg_table *t = mini_ask(s.t, "kernel_annotations", "sort", "start_ns asc", NULL);
  static const char *const want[] = {"whole", "whole", "part",
                                     "part"}; /* bias ends a µs into part, the last gemm begins in it */
  assert_int_equal(t->rows, 4);
  for (size_t i = 0; i < 4; i++) assert_string_equal(mini_cell(t, i, "annotation"), want[i]);
  assert_string_equal(mini_cell(t, 2, "short_kernel"), "bias");
  assert_int_equal(mini_int(t, 2, "annotation_event"), mini_id(s.m, s.marks[1]));
  assert_int_equal(mini_int(t, 2, "device"), 3);
  tg__table_free(t);
  t = mini_ask(s.t, "kernel_annotations", "side", "cpu", "by", "annotation", NULL);
  assert_int_equal(t->rows,
                   2); /* nothing waits on the thread of the backward pass; work launched before has no wait either */
  assert_null(mini_cell(t, 0, "annotation"));
  assert_int_equal(mini_int(t, 0, "device_ns"), 34000);
  assert_string_equal(mini_cell(t, 1, "annotation"), "ProfilerStep#1");
  assert_int_equal(mini_int(t, 1, "kernels"), 2);
  tg__table_free(t);
  mini_free(s.m);
}

static void call_graph(void **state) {
  (void)state;
  struct scene s = make();
  static const char *const rules[] = {"exact", "hta"};
  for (size_t i = 0; i < 2; i++) {
    struct tg_table *t = mini_ask(s.t, "call_graph", "rules", rules[i], NULL);
    const size_t step = mini_row(t, "name", "ProfilerStep#1"), late = mini_row(t, "name", "aten::add_");
    const size_t node = mini_row(t, "name", "autograd::engine::evaluate_function: AddmmBackward0");
    assert_int_equal(mini_int(t, node, "parent"), mini_id(s.m, s.range));
    assert_int_equal(mini_int(t, node, "depth"), 2);
    assert_int_equal(mini_int(t, node, "height"), 3); /* the node, the launch, the kernel */
    assert_string_equal(mini_cell(t, node, "thread"), "bwd");
    assert_int_equal(mini_int(t, node, "forward"), mini_id(s.m, s.addmm));
    assert_int_equal(mini_int(t, step, "kernels"), 3);
    assert_int_equal(mini_int(t, step, "kernel_ns"), 58000);
    assert_int_equal(mini_int(t, step, "first_ns"), 30000);
    assert_int_equal(mini_int(t, step, "kernel_span_ns"), 90000);
    assert_int_equal(mini_int(t, step, "height"), 5);
    /* outside the backward annotation but inside the step: HTA looks for one kind of range only */
    assert_true(mini_int(t, late, "parent") == (i ? TG_NULL_INT : (int64_t)mini_id(s.m, s.step)));
    tg__table_free(t);
  }
  mini_free(s.m);
}

static void call_stack(void **state) {
  (void)state;
  struct scene s = make();
  struct tg_table *t = mini_ask(s.t, "call_stack", NULL); /* the longest device work */
  static const char *const want[] = {
      "ProfilerStep#1", "## backward ##",   "autograd::engine::evaluate_function: AddmmBackward0",
      "AddmmBackward0", "cudaLaunchKernel", "gemm"};
  assert_int_equal(t->rows, 6);
  for (size_t i = 0; i < 6; i++) assert_string_equal(mini_cell(t, i, "name"), want[i]);
  assert_string_equal(mini_cell(t, 5, "relation"), "itself");
  tg__table_free(t);
  struct tg_error e = {0};
  static const struct tg_arg wrong[][1] = {{{"event", "99"}}, {{"event", "first"}}, {{"event", "-1"}}};
  static const enum tg_err errors[] = {TG_NO_DATA, TG_USAGE, TG_USAGE};
  for (size_t i = 0; i < 3; i++) {
    t = NULL;
    assert_int_equal(tg__ask_trace(&(struct tg_trace){.columns = s.t}, "call_stack", wrong[i], 1, &t, &e), errors[i]);
    assert_null(t);
  }
  mini_free(s.m);
}

static void forward_backward(void **state) {
  (void)state;
  struct scene s = make();
  struct tg_table *t = mini_ask(s.t, "forward_backward", NULL);
  assert_int_equal(t->rows, 1); /* the node inside the engine's call is the same pair */
  assert_string_equal(mini_cell(t, 0, "forward"), "aten::addmm");
  assert_int_equal(mini_int(t, 0, "backward_ns"), 50000);
  assert_int_equal(mini_int(t, 0, "forward_device_ns"), 28000);
  assert_int_equal(mini_int(t, 0, "backward_device_ns"), 30000);
  assert_true(mini_real(t, 0, "ratio") == 30.0 / 28.0);
  assert_string_equal(t->notes[0], "device time of all pairs: 0.028 ms forward, 0.030 ms backward, 1.07 times as much");
  tg__table_free(t);
  mini_free(s.m);
}

static void short_names(void **state) {
  (void)state;
  static const char *const pairs[][2] = {
      {"void at::native::f<int, g<4> >(float*, int)", "at::native::f"},
      {"Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)"},
      {"hipMemset (x)", "hipMemset (x)"},
      {"plain name of three words", "plain name of three words"},
      {"a->b(int)", "ab"},
      {"f) g(", "g("}, /* what closes nothing takes all before it */
      {">>)", ">>)"},  /* nothing opens */
      {"x<>>)", ""},
      {"", ""},
  };
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    char buf[64];
    const struct tg__str got = tg__short_name((struct tg__str){pairs[i][0], (uint32_t)strlen(pairs[i][0])}, buf);
    assert_int_equal(got.len, strlen(pairs[i][1]));
    assert_memory_equal(got.ptr, pairs[i][1], got.len);
  }
}

/* Whichever allocation fails, the answer is an error or whole. */
static void no_memory(void **state) {
  (void)state;
  struct scene s = make();
  static const struct {
    const char *question;
    struct tg_arg arg;
  } asks[] = {{"op_kernels", {"by", "op"}},
              {"op_kernels", {"rules", "hta"}},
              {"sequences", {"min_length", "1"}},
              {"sequences", {"rules", "hta"}},
              {"sequences", {"by", "event"}},
              {"kernel_annotations", {"side", "cpu"}},
              {"kernel_annotations", {"by", "annotation"}},
              {"kernel_annotations", {"rules", "hta"}},
              {"call_graph", {"rules", "exact"}},
              {"call_graph", {"rules", "hta"}},
              {"call_stack", {"rules", "hta"}},
              {"forward_backward", {"by", "call"}},
              {"annotations", {"rules", "hta"}}};
  for (size_t q = 0; q < sizeof asks / sizeof *asks; q++)
    assert_true(mini_starve(s.t, asks[q].question, &asks[q].arg, 1) > 0);
  mini_free(s.m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(op_kernels),  cmocka_unit_test(sequences),  cmocka_unit_test(kernel_annotations),
      cmocka_unit_test(call_graph),  cmocka_unit_test(call_stack), cmocka_unit_test(forward_backward),
      cmocka_unit_test(short_names), cmocka_unit_test(no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
