/* ops: operators, their host and device time, memory and groupings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
/* cmocka needs the four above */
#include <cmocka.h>

#include "unit/mini_trace.h"

#include <math.h>

#define assert_near(a, b) assert_true(fabs((a) - (b)) < 1e-9)

/* One host call on `track` that belongs to `op` (or -1) and launched one device slice. */
static void launch(struct mini *m, uint32_t track, uint32_t stream, int op, const char *cat, int64_t call_at,
                   int64_t call_dur, int64_t at, int64_t dur) {
  const int call = mini_slice(m, track, "cuda_runtime", "cudaLaunchKernel", call_at, call_dur);
  if (op >= 0) mini_cause_by_id(m, call, op);
  mini_cause(m, mini_slice(m, stream, cat, "work", at, dur), call);
}

static void expect(const struct tg_table *ops, const char *name, int64_t calls, int64_t cpu, int64_t self_cpu,
                   int64_t device, int64_t self_device) {
  const size_t row = mini_row(ops, "name", name);
  assert_int_equal(mini_int(ops, row, "calls"), calls);
  assert_int_equal(mini_int(ops, row, "cpu_ns"), cpu);
  assert_int_equal(mini_int(ops, row, "self_cpu_ns"), self_cpu);
  assert_int_equal(mini_int(ops, row, "device_ns"), device);
  assert_int_equal(mini_int(ops, row, "self_device_ns"), self_device);
}

/* The inputs of the TensorBoard plugin's own tests, in ns instead of us, and the values they state. */

static void test_all_categories(void **state) {
  struct mini *m = mini_new();
  const uint32_t a = mini_thread(m, 13721, 123), b = mini_thread(m, 13721, 456), gpu = mini_stream(m, 0, 7);
  mini_slice(m, a, "user_annotation", "ProfilerStep#1", 50, 400);
  mini_slice(m, a, "cpu_op", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 100, 180);
  mini_slice(m, a, "cpu_op", "aten::to", 200, 60);
  const int nll = mini_slice(m, b, "cpu_op", "aten::nll_loss_backward", 340, 70);
  launch(m, b, gpu, nll, "gpu_memcpy", 360, 20, 405, 10);
  launch(m, b, gpu, nll, "gpu_memset", 390, 10, 420, 5);
  launch(m, b, gpu, nll, "kernel", 405, 5, 430, 15);
  struct tg_table *ops = mini_ask(mini_finish(m), "ops", NULL);
  assert_int_equal(ops->rows, 2); /* neither the step nor the data loader */
  expect(ops, "aten::to", 1, 60, 60, 0, 0);
  expect(ops, "aten::nll_loss_backward", 1, 70, 35, 30, 30);
  assert_int_equal(mini_row(ops, "name", "aten::nll_loss_backward"), 0); /* most device time first */
  tg__table_free(ops);
  mini_free(m);
}

static void test_calls_of_length_zero(void **state) {
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 1), gpu = mini_stream(m, 0, 7);
  const int outer = mini_slice(m, cpu, "cpu_op", "aten::mat_mul", 100, 100);
  const int inner = mini_slice(m, cpu, "cpu_op", "aten::mm", 120, 70);
  launch(m, cpu, gpu, inner, "kernel", 120, 0, 130, 5);
  launch(m, cpu, gpu, outer, "kernel", 120, 0, 130, 6);
  launch(m, cpu, gpu, inner, "kernel", 190, 0, 130, 7);
  launch(m, cpu, gpu, outer, "kernel", 190, 0, 130, 8);
  struct tg_table *ops = mini_ask(mini_finish(m), "ops", NULL);
  expect(ops, "aten::mat_mul", 1, 100, 30, 26, 14);
  expect(ops, "aten::mm", 1, 70, 70, 12, 12);
  tg__table_free(ops);
  mini_free(m);
}

static void nested_pair(int64_t inner_start) {
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 1);
  mini_slice(m, cpu, "cpu_op", "aten::mat_mul", 100, 100);
  mini_slice(m, cpu, "cpu_op", "aten::mm", inner_start, 70);
  struct tg_table *ops = mini_ask(mini_finish(m), "ops", NULL);
  expect(ops, "aten::mat_mul", 1, 100, 30, 0, 0);
  expect(ops, "aten::mm", 1, 70, 70, 0, 0);
  tg__table_free(ops);
  mini_free(m);
}

static void test_edges_shared_with_the_parent(void **state) {
  nested_pair(100); /* same start */
  nested_pair(130); /* same end */
}

static void test_repeated_call_is_one(void **state) {
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 1), gpu = mini_stream(m, 0, 7);
  const int first = mini_slice(m, cpu, "cpu_op", "aten::mm", 100, 100);
  mini_slice(m, cpu, "cpu_op", "aten::mm", 110, 80);
  const int third = mini_slice(m, cpu, "cpu_op", "aten::mm", 120, 60);
  mini_slice(m, cpu, "cpu_op", "aten::empty", 160, 5);
  mini_slice(m, cpu, "cpu_op", "aten::empty", 170, 5);
  launch(m, cpu, gpu, third, "kernel", 130, 20, 220, 8);
  launch(m, cpu, gpu, first, "kernel", 101, 2, 230, 4); /* the outer one's launches stay, too */
  struct tg_table *ops = mini_ask(mini_finish(m), "ops", NULL);
  expect(ops, "aten::mm", 1, 100, 100 - 20 - 2 - 10, 12, 12);
  expect(ops, "aten::empty", 2, 10, 10, 0, 0);
  tg__table_free(ops);
  mini_free(m);
}

static void test_call_outside_any_operator(void **state) {
  struct mini *m = mini_new();
  const uint32_t a = mini_thread(m, 1, 123), b = mini_thread(m, 1, 456), gpu = mini_stream(m, 0, 7);
  mini_slice(m, a, "cpu_op", "aten::mm", 100, 100);
  launch(m, b, gpu, -1, "kernel", 130, 20, 220, 8);
  struct tg__columns *t = mini_finish(m);
  struct tg_table *ops = mini_ask(t, "ops", NULL), *kernels = mini_ask(t, "kernels", NULL);
  expect(ops, "aten::mm", 1, 100, 100, 0, 0);
  assert_int_equal(kernels->rows, 1);
  tg__table_free(ops);
  tg__table_free(kernels);
  mini_free(m);
}

static void test_self_time(void **state) {
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 1), gpu = mini_stream(m, 0, 7);
  const int outer = mini_slice(m, cpu, "cpu_op", "aten::mat_mul", 100, 100);
  const int inner = mini_slice(m, cpu, "cpu_op", "aten::mm", 120, 40);
  launch(m, cpu, gpu, inner, "kernel", 150, 10, 155, 20);
  launch(m, cpu, gpu, outer, "kernel", 170, 25, 210, 16);
  struct tg_table *ops = mini_ask(mini_finish(m), "ops", NULL);
  expect(ops, "aten::mat_mul", 1, 100, 35, 36, 16);
  expect(ops, "aten::mm", 1, 40, 30, 20, 20);
  const size_t row = mini_row(ops, "name", "aten::mm");
  assert_near(mini_real(ops, row, "self_cpu_pct"), 100.0 * 30 / 65);
  assert_near(mini_real(ops, row, "self_device_pct"), 100.0 * 20 / 36);
  tg__table_free(ops);
  mini_free(m);
}

static void test_one_call_launches_several(void **state) {
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 1), gpu = mini_stream(m, 0, 7);
  const int op = mini_slice(m, cpu, "cpu_op", "Broadcast", 100, 300);
  const int call = mini_slice(m, cpu, "cuda_runtime", "cudaLaunchKernel", 130, 20);
  mini_cause(m, call, op);
  mini_cause(m, mini_slice(m, gpu, "kernel", "ncclBroadcastRingLLKernel", 160, 120318), call);
  mini_cause(m, mini_slice(m, gpu, "kernel", "ncclBroadcastRingLLKernel", 170, 132800), call);
  struct tg__columns *t = mini_finish(m);
  struct tg_table *ops = mini_ask(t, "ops", NULL), *kernels = mini_ask(t, "kernels", "by", "op", NULL);
  expect(ops, "Broadcast", 1, 300, 280, 253118, 253118);
  assert_int_equal(kernels->rows, 1);
  assert_int_equal(mini_int(kernels, 0, "calls"), 2);
  assert_string_equal(mini_cell(kernels, 0, "group"), "Broadcast");
  tg__table_free(ops);
  tg__table_free(kernels);
  mini_free(m);
}

static void test_wrappers_have_no_row(void **state) {
  static const char *const names[] = {"DataParallel.forward",
                                      "DistributedDataParallel.forward",
                                      "Optimizer.step#SGD.step",
                                      "Optimizer.zero_grad#SGD.zero_grad",
                                      "enumerate(DataPipe)#ShufflerIterDataPipe",
                                      "ProfilerStep#3"};
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 1);
  for (int i = 0; i < 6; i++) {
    mini_slice(m, cpu, "cpu_op", names[i], 100 * i, 50);
    mini_slice(m, cpu, "cpu_op", "aten::add", 100 * i + 10, 20);
  }
  mini_slice(m, cpu, "python_function", "train.py(3): step", 0, 1000);
  mini_slice(m, cpu, "user_annotation", "my block", 0, 1000);
  struct tg_table *ops = mini_ask(mini_finish(m), "ops", NULL);
  assert_int_equal(ops->rows, 1);
  expect(ops, "aten::add", 6, 120, 120, 0, 0);
  tg__table_free(ops);
  mini_free(m);
}

/* The second begins inside the first and outlives it: neither contains the other, and what lies in both is the
 * second's. */
static void test_partial_overlap_makes_siblings(void **state) {
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 1);
  mini_slice(m, cpu, "cpu_op", "aten::a", 0, 100);
  mini_slice(m, cpu, "cpu_op", "aten::b", 50, 100);
  mini_slice(m, cpu, "cpu_op", "aten::c", 60, 10);
  struct tg_table *ops = mini_ask(mini_finish(m), "ops", NULL);
  expect(ops, "aten::a", 1, 100, 100, 0, 0);
  expect(ops, "aten::b", 1, 100, 90, 0, 0);
  expect(ops, "aten::c", 1, 10, 10, 0, 0);
  tg__table_free(ops);
  mini_free(m);
}

/* An annotation that is no node passes its operators through; a module frame takes them from the operator around it. */
static void test_only_some_slices_are_nodes(void **state) {
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 1);
  mini_slice(m, cpu, "cpu_op", "aten::outer", 0, 100);
  mini_slice(m, cpu, "user_annotation", "block", 10, 80);
  mini_slice(m, cpu, "cpu_op", "aten::inner", 20, 30);
  mini_slice(m, cpu, "python_function", "nn.Module: Linear_0", 60, 20);
  mini_arg_int(m, "Python module id", 4);
  mini_slice(m, cpu, "cpu_op", "aten::inner", 65, 10);
  struct tg_table *ops = mini_ask(mini_finish(m), "ops", NULL);
  expect(ops, "aten::outer", 1, 100, 100 - 30 - 20, 0, 0);
  expect(ops, "aten::inner", 2, 40, 40, 0, 0);
  tg__table_free(ops);
  mini_free(m);
}

/* ---- groupings ------------------------------------------------------------------------------- */

static void test_by_shape(void **state) {
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 1);
  mini_slice(m, cpu, "cpu_op", "aten::addmm", 0, 10);
  mini_arg_raw(m, "Input Dims", "[[8], [4, 16], [16, 8], [], []]");
  mini_slice(m, cpu, "cpu_op", "aten::addmm", 20, 30);
  mini_arg_raw(m, "Input Dims", "[[8], [4, 16], [16, 8], [], []]");
  mini_slice(m, cpu, "cpu_op", "aten::addmm", 60, 5);
  mini_arg_raw(m, "Input Dims", "[\n [2],\n [3,5],[5,2] , [], []]"); /* laid out as some writers do */
  mini_slice(m, cpu, "cpu_op", "aten::relu", 80, 5);
  struct tg_table *ops = mini_ask(mini_finish(m), "ops", "by", "shape", NULL);
  assert_int_equal(ops->rows, 3);
  const size_t row = mini_row(ops, "group", "[[8], [4, 16], [16, 8], [], []]");
  assert_int_equal(mini_int(ops, row, "calls"), 2);
  assert_int_equal(mini_int(ops, row, "cpu_ns"), 40);
  assert_int_equal(mini_int(ops, row, "flops"), 2 * (2 * 4 * 16 * 8));
  assert_int_equal(mini_int(ops, mini_row(ops, "group", "[[2], [3, 5], [5, 2], [], []]"), "flops"), 2 * 3 * 5 * 2);
  assert_int_equal(mini_int(ops, mini_row(ops, "name", "aten::relu"), "flops"), 0);
  assert_int_equal(ops->note_count, 0);
  tg__table_free(ops);
  mini_free(m);
}

static void test_missing_data_is_said(void **state) {
  static const struct {
    const char *by, *cure;
  } cases[] = {{"shape", "record_shapes=True"},
               {"stack", "with_stack=True"},
               {"module", "with_stack=True"},
               {"overload", "capture_overload_names"},
               {"step", "prof.step()"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct mini *m = mini_new();
    mini_slice(m, mini_thread(m, 1, 1), "cpu_op", "aten::mm", 0, 10);
    struct tg_table *ops = mini_ask(mini_finish(m), "ops", "by", cases[i].by, NULL);
    assert_int_equal(ops->rows, 1);
    assert_int_equal(ops->note_count, 1);
    assert_non_null(strstr(ops->notes[0], cases[i].cure));
    assert_int_equal(mini_int(ops, 0, "flops"), TG_NULL_INT);
    assert_int_equal(mini_int(ops, 0, "cpu_memory_bytes"), TG_NULL_INT);
    tg__table_free(ops);
    mini_free(m);
  }
}

static void test_by_stack_of_frames(void **state) {
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 1), other = mini_thread(m, 1, 2);
  mini_slice(m, cpu, "python_function", "train.py(1): main", 0, 1000);
  mini_slice(m, cpu, "python_function", "train.py(9): step", 10, 400);
  mini_slice(m, cpu, "python_function", "net.py(3): forward", 20, 300);
  const int forward = mini_slice(m, cpu, "cpu_op", "aten::mm", 30, 40);
  mini_slice(m, cpu, "python_function", "net.py(3): forward", 500, 100);
  mini_slice(m, cpu, "cpu_op", "aten::mm", 510, 50);
  const int backward = mini_slice(m, other, "cpu_op", "MmBackward0", 700, 80);
  mini_cause(m, backward, forward);
  mini_slice(m, other, "cpu_op", "aten::mm", 710, 60);
  struct tg__columns *t = mini_finish(m);
  struct tg_table *one = mini_ask(t, "ops", "by", "stack:1", NULL),
                  *two = mini_ask(t, "ops", "by", "name+stack:2", NULL);
  assert_int_equal(one->rows, 2); /* backward work carries the stack of its forward operator */
  assert_int_equal(mini_int(one, mini_row(one, "name", "aten::mm"), "calls"), 3);
  assert_string_equal(mini_cell(one, 0, "group"), "net.py(3): forward");
  assert_int_equal(two->rows, 3);
  assert_int_equal(mini_int(two, mini_row(two, "group", "net.py(3): forward;train.py(1): main"), "cpu_ns"), 50);
  assert_int_equal(mini_int(two, mini_row(two, "name", "MmBackward0"), "cpu_ns"), 80);
  assert_string_equal(mini_cell(two, mini_row(two, "name", "MmBackward0"), "group"),
                      "net.py(3): forward;train.py(9): step");
  tg__table_free(one);
  tg__table_free(two);
  mini_free(m);
}

static void test_by_stack_text_and_overload(void **state) {
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 1);
  for (int i = 0; i < 3; i++) {
    mini_slice(m, cpu, "cpu_op", "aten::add", 10 * i, 5);
    mini_arg_str(m, "Call stack", i == 2 ? "a.py(7): f;b.py(1): g;c.py(2): h" : "a.py(4): f;b.py(1): g;c.py(2): h");
    mini_arg_str(m, "Overload name", i == 0 ? "out" : "Tensor");
  }
  struct tg__columns *t = mini_finish(m);
  struct tg_table *ops = mini_ask(t, "ops", "by", "stack:2", NULL),
                  *both = mini_ask(t, "ops", "by", "overload+stack:1", NULL);
  assert_int_equal(ops->rows, 2);
  assert_int_equal(mini_int(ops, mini_row(ops, "group", "a.py(4): f;b.py(1): g"), "calls"), 2);
  assert_int_equal(both->rows, 3);
  assert_int_equal(mini_int(both, mini_row(both, "group", "Tensor | a.py(7): f"), "calls"), 1);
  tg__table_free(ops);
  tg__table_free(both);
  mini_free(m);
}

static void test_by_module_and_step(void **state) {
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 1);
  for (int i = 0; i < 2; i++) {
    const int64_t at = 1000 * i;
    mini_slice(m, cpu, "user_annotation", i ? "ProfilerStep#8" : "ProfilerStep#7", at, 900);
    mini_slice(m, cpu, "python_function", "nn.Module: Net_0", at + 10, 800);
    mini_arg_int(m, "Python module id", 0);
    mini_slice(m, cpu, "python_function", "net.py(5): forward", at + 20, 700);
    mini_slice(m, cpu, "python_function", "nn.Module: Linear_0", at + 30, 100 + i);
    mini_arg_int(m, "Python module id", 1);
    mini_slice(m, cpu, "cpu_op", "aten::linear", at + 40, 50 + i);
    mini_slice(m, cpu, "cpu_op", "aten::linear", at + 300, 7);
  }
  struct tg__columns *t = mini_finish(m);
  struct tg_table *modules = mini_ask(t, "ops", "by", "module", NULL), *steps = mini_ask(t, "ops", "by", "step", NULL);
  struct tg_table *one = mini_ask(t, "ops", "step", "8", NULL);
  assert_int_equal(modules->rows, 2);
  assert_int_equal(mini_int(modules, mini_row(modules, "group", "Net_0 / Linear_0"), "cpu_ns"), 101);
  assert_int_equal(mini_int(modules, mini_row(modules, "group", "Net_0"), "cpu_ns"), 14);
  assert_int_equal(mini_int(steps, mini_row(steps, "group", "ProfilerStep#7"), "cpu_ns"), 57);
  assert_int_equal(mini_int(steps, mini_row(steps, "group", "ProfilerStep#8"), "cpu_ns"), 58);
  assert_int_equal(mini_int(one, 0, "calls"), 2);
  assert_int_equal(mini_int(one, 0, "cpu_ns"), 58);
  tg__table_free(modules);
  tg__table_free(steps);
  tg__table_free(one);
  mini_free(m);
}

static void test_unknown_grouping(void **state) {
  static const char *const wrong[] = {"shapes",  "stack:",   "stack:0", "stack:x",
                                      "stack:/", "stack:1:", "+",       "shape++step"};
  static const char *const right[] = {"name+", "stack:9", "stack:10",
                                      "stack:4294967296"}; /* a trailing + asks for nothing more */
  struct mini *m = mini_new();
  mini_slice(m, mini_thread(m, 1, 1), "cpu_op", "aten::mm", 0, 10);
  struct tg__columns *t = mini_finish(m);
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    const struct tg_arg by = {"by", wrong[i]};
    struct tg_table *table;
    struct tg_error e = {0};
    assert_int_equal(tg__ask_trace(&(struct tg_trace){.columns = t}, "ops", &by, 1, &table, &e), TG_USAGE);
    assert_non_null(strstr(e.text, "overload"));
  }
  for (size_t i = 0; i < sizeof right / sizeof *right; i++) tg__table_free(mini_ask(t, "ops", "by", right[i], NULL));
  mini_free(m);
}

/* ---- parent = self + children + host calls (F037) -------------------------------------------- */

static uint64_t seed;
static int64_t pick(int64_t below) {
  seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return below > 0 ? (int64_t)((seed >> 33) % (uint64_t)below) : 0;
}

/* Fills [start, end) with operators that do not touch, each of its own name so that no two are merged, and host
 * calls. Adds up what it makes: *self of all operators, *device of what they launched. */
static void grow(struct mini *m, uint32_t cpu, uint32_t gpu, int owner, int64_t start, int64_t end, int depth,
                 int *serial, int64_t *self, int64_t *device) {
  for (int64_t at = start + 1 + pick(5); at + 4 < end;) {
    const int64_t dur = 1 + pick(end - at - 1);
    if (owner >= 0 && pick(3) == 0) {
      const int call = mini_slice(m, cpu, "cuda_runtime", "cudaLaunchKernel", at, dur);
      mini_cause(m, call, owner);
      const int64_t work = pick(100);
      mini_cause(m, mini_slice(m, gpu, "kernel", "k", at, work), call);
      *self -= dur;
      *device += work;
    } else {
      char name[32];
      snprintf(name, sizeof name, "op%d", (*serial)++);
      const int op = mini_slice(m, cpu, "cpu_op", name, at, dur);
      *self += owner < 0 ? dur : 0; /* nested time is in its parent already */
      if (depth < 6) grow(m, cpu, gpu, op, at, at + dur, depth + 1, serial, self, device);
    }
    at += dur + 1 + pick(20);
  }
}

static void test_totals_are_made_of_selfs(void **state) {
  for (seed = 1; seed < 40; seed += 3) {
    struct mini *m = mini_new();
    const uint32_t cpu = mini_thread(m, 1, 1), gpu = mini_stream(m, 0, 7);
    int serial = 0;
    int64_t self = 0, device = 0;
    const uint64_t keep = seed;
    grow(m, cpu, gpu, -1, 0, 3000, 0, &serial, &self, &device);
    seed = keep;
    struct tg_table *ops = mini_ask(mini_finish(m), "ops", NULL);
    assert_int_equal(ops->rows, serial);
    int64_t self_sum = 0, device_sum = 0;
    double pct = 0;
    for (size_t r = 0; r < ops->rows; r++) {
      self_sum += mini_int(ops, r, "self_cpu_ns");
      device_sum += mini_int(ops, r, "self_device_ns");
      pct += mini_real(ops, r, "self_cpu_pct");
    }
    assert_int_equal(self_sum, self);
    assert_int_equal(device_sum, device);
    if (self) assert_near(pct, 100);
    tg__table_free(ops);
    mini_free(m);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all_categories),
      cmocka_unit_test(test_calls_of_length_zero),
      cmocka_unit_test(test_edges_shared_with_the_parent),
      cmocka_unit_test(test_repeated_call_is_one),
      cmocka_unit_test(test_call_outside_any_operator),
      cmocka_unit_test(test_self_time),
      cmocka_unit_test(test_one_call_launches_several),
      cmocka_unit_test(test_wrappers_have_no_row),
      cmocka_unit_test(test_partial_overlap_makes_siblings),
      cmocka_unit_test(test_only_some_slices_are_nodes),
      cmocka_unit_test(test_by_shape),
      cmocka_unit_test(test_missing_data_is_said),
      cmocka_unit_test(test_by_stack_of_frames),
      cmocka_unit_test(test_by_stack_text_and_overload),
      cmocka_unit_test(test_by_module_and_step),
      cmocka_unit_test(test_unknown_grouping),
      cmocka_unit_test(test_totals_are_made_of_selfs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
