/* The question findings: for every rule a trace in which it fires, with figures added up by hand, and one in which
 * it must not. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "unit/mini_trace.h"

#define MS 1000000LL

struct scene {
  struct mini *m;
  uint32_t thread, stream;
};

/* n steps of step_ns each on one thread, on a machine with these devices. */
static struct scene begin_on(struct tg__device *devices, size_t count, int n, int64_t step_ns) {
  struct scene s = {.m = mini_new()};
  struct tg__rank *r = mini_rank(s.m, 0);
  r->devices = devices;
  r->device_count = count;
  s.thread = mini_thread(s.m, 1, 10);
  s.stream = mini_stream(s.m, 0, 7);
  for (int i = 0; i < n; i++) {
    char name[32];
    snprintf(name, sizeof name, "ProfilerStep#%d", i + 1);
    mini_slice(s.m, s.thread, "user_annotation", name, i * step_ns, step_ns);
  }
  return s;
}

static struct scene begin(int n, int64_t step_ns) { return begin_on(NULL, 0, n, step_ns); }

static int work(struct scene *s, int64_t call_at, int64_t call_dur, int64_t at, int64_t dur, const char *name) {
  const int call = mini_slice(s->m, s->thread, "cuda_runtime", "cudaLaunchKernel", call_at, call_dur);
  const int kernel = mini_slice(s->m, s->stream, "kernel", name, at, dur);
  mini_cause(s->m, kernel, call);
  return call;
}

static struct tg_table *ask(struct scene *s) {
  struct tg_table *t = mini_ask(mini_finish(s->m), "findings", NULL);
  mini_free(s->m);
  return t;
}

static bool has(const struct tg_table *t, const char *cause) {
  for (size_t i = 0; i < t->rows; i++)
    if (strcmp(mini_cell(t, i, "cause"), cause) == 0) return true;
  return false;
}

static bool says(const struct tg_table *t, const char *text) { /* in a note */
  for (size_t i = 0; i < t->note_count; i++)
    if (strstr(t->notes[i], text)) return true;
  return false;
}

static void expect_absent(struct scene *s, const char *cause) {
  struct tg_table *t = ask(s);
  assert_false(has(t, cause));
  tg__table_free(t);
}

static void expect_present(struct scene *s, const char *cause, double share_pct, int64_t cost_ns,
                           const char *severity) {
  struct tg_table *t = ask(s);
  const size_t row = mini_row(t, "cause", cause);
  const double limit = mini_real(t, row, "threshold_pct");
  assert_float_equal(mini_real(t, row, "share_pct"), share_pct, 1e-9);
  assert_true(isnan(limit) || share_pct > limit);
  assert_int_equal(mini_int(t, row, "cost_ns"), cost_ns);
  assert_string_equal(mini_cell(t, row, "severity"), severity);
  assert_non_null(mini_cell(t, row, "evidence"));
  assert_non_null(mini_cell(t, row, "advice"));
  tg__table_free(t);
}

/* ---- the loader ------------------------------------------------------------------------------ */

static struct scene loader_scene(const char *name, int64_t wait) {
  struct scene s = begin(4, 20 * MS);
  for (int i = 0; i < 4; i++) {
    mini_slice(s.m, s.thread, "python_function", "train.py(41): main", i * 20 * MS + 1, 19 * MS);
    mini_slice(s.m, s.thread, "user_annotation", name, i * 20 * MS + MS, wait);
    mini_slice(s.m, s.thread, "cpu_op", "aten::conv2d", i * 20 * MS + MS + wait, 18 * MS - wait);
  }
  return s;
}

static void test_loader(void **state) {
  struct scene s = loader_scene("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 12 * MS);
  struct tg_table *t = ask(&s);
  assert_int_equal(t->rows, 1);
  assert_string_equal(mini_cell(t, 0, "cause"), "loader-in-main-process");
  assert_string_equal(mini_cell(t, 0, "severity"), "high");
  assert_float_equal(mini_real(t, 0, "share_pct"), 60, 1e-9);
  assert_int_equal(mini_int(t, 0, "cost_ns"), 12 * MS);
  assert_string_equal(mini_cell(t, 0, "where"),
                      "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__ at train.py(41): main");
  assert_string_equal(mini_cell(t, 0, "evidence"),
                      "the loop waits 12.00 ms of each 20.00 ms step for the next batch (60.0 %); 4 calls, the "
                      "longest 12.00 ms, all in the process that trains");
  assert_non_null(strstr(mini_cell(t, 0, "advice"), "num_workers"));
  tg__table_free(t);
  s = loader_scene("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 3 * MS);
  expect_present(&s, "loader-too-slow", 15, 3 * MS, "medium");
}

static void test_loader_fast_enough(void **state) {
  struct scene s =
      loader_scene("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", MS); /* 5 % exactly: not above */
  struct tg_table *t = ask(&s);
  assert_int_equal(t->rows, 0);
  bool said = false;
  for (size_t i = 0; i < t->note_count; i++) said |= strcmp(t->notes[i], "nothing found above 5 %") == 0;
  assert_true(said);
  tg__table_free(t);
  s = loader_scene("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", MS + MS / 1000); /* 5.005 % */
  expect_present(&s, "loader-in-main-process", 5.005, MS + MS / 1000, "low");
}

/* ---- several devices or processes ------------------------------------------------------------ */

static struct scene communication_scene(int64_t computing) {
  struct scene s = begin(2, 10 * MS);
  const uint32_t nccl = mini_stream(s.m, 0, 9);
  for (int i = 0; i < 2; i++) {
    work(&s, i * 10 * MS, 1000, i * 10 * MS + 2000, computing, "gemm");
    const int call = mini_slice(s.m, s.thread, "cuda_runtime", "cudaLaunchKernel", i * 10 * MS + 5000, 1000);
    mini_cause(s.m,
               mini_slice(s.m, nccl, "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", i * 10 * MS + 5 * MS, 4 * MS),
               call);
  }
  return s;
}

static void test_communication(void **state) {
  struct scene s = communication_scene(6 * MS - 2000); /* computes until 6 ms: 3 of the 4 ms are exposed */
  expect_present(&s, "communication-not-overlapped", 30, 3 * MS, "high");
  s = communication_scene(8 * MS - 2000); /* 1 ms exposed of 10: not above 10 % */
  expect_absent(&s, "communication-not-overlapped");
  s = communication_scene(8 * MS - 2000 - MS / 100); /* 10.1 % */
  expect_present(&s, "communication-not-overlapped", 10.1, MS + MS / 100, "medium");
}

static struct scene wrapper_scene(const char *name, int64_t major, int64_t minor, const char *second_kernel,
                                  int64_t second_device) {
  static struct tg__device device;
  device = (struct tg__device){.id = 0, .total_memory_bytes = -1, .compute_major = major, .compute_minor = minor};
  struct scene s = begin_on(&device, 1, 1, 10 * MS);
  mini_slice(s.m, s.thread, "cpu_op", name, 100, 5 * MS);
  work(&s, 200, 100, MS, 9 * MS, "gemm");
  const uint32_t second = mini_stream(s.m, second_device, 9);
  const int call = mini_slice(s.m, s.thread, "cuda_runtime", "cudaLaunchKernel", 400, 100);
  mini_cause(s.m, mini_slice(s.m, second, "kernel", second_kernel, MS, 9 * MS), call);
  return s;
}

static struct tg_table *ask_wrapper(struct scene *s) {
  struct tg__columns *trace = mini_finish(s->m);
  struct tg_table *t = mini_ask(trace, "findings", NULL);
  trace->ranks[0].devices = NULL; /* the scene's own */
  trace->ranks[0].device_count = 0;
  mini_free(s->m);
  return t;
}

static void expect_wrapper(struct scene s, const char *cause, bool present) {
  struct tg_table *t = ask_wrapper(&s);
  assert_int_equal(has(t, cause), present);
  tg__table_free(t);
}

static void test_wrappers(void **state) {
  expect_wrapper(wrapper_scene("DataParallel.forward", 8, 0, "gemm", 1), "data-parallel-threads", true);
  expect_wrapper(wrapper_scene("DataParallel.forward", 8, 0, "gemm", 0), "data-parallel-threads", false);
  const char *ddp = "DistributedDataParallel.forward", *cause = "slow-collective-backend";
  expect_wrapper(wrapper_scene(ddp, 10, 0, "gemm", 0), cause, true);
  expect_wrapper(wrapper_scene(ddp, 3, 0, "gemm", 0), cause, false);
  expect_wrapper(wrapper_scene(ddp, 3, 4, "gemm", 0), cause, false);
  expect_wrapper(wrapper_scene(ddp, 3, 5, "gemm", 0), cause, true);
  expect_wrapper(wrapper_scene(ddp, 8, 0, "ncclKernel_AllReduce", 0), cause, false);
}

/* ---- a device that waits --------------------------------------------------------------------- */

/* One kernel of `busy` at the start of each step of 10 ms; the thread does `what` before each launch but the first. */
static struct scene waiting_scene(int64_t busy, const char *cat, const char *what) {
  struct scene s = begin(3, 10 * MS);
  for (int i = 0; i < 3; i++) {
    const int64_t at = i * 10 * MS;
    work(&s, at, 1000, at + 1000, busy, "gemm");
    if (what) mini_slice(s.m, s.thread, cat, what, at + busy + 2000, 10 * MS - busy - 3000);
  }
  return s;
}

static void test_idle_device(void **state) {
  struct scene s = waiting_scene(4 * MS, "cpu_op", "aten::sort");
  expect_present(&s, "idle-device", 60, 6 * MS, "medium"); /* half of the gaps of 4 ms a step is to be won */
  s = waiting_scene(4 * MS, "cpu_op", "aten::sort");
  struct tg_table *t = ask(&s);
  const char *evidence = mini_cell(t, mini_row(t, "cause", "idle-device"), "evidence");
  assert_string_equal(evidence, "kernels run 40.0 % of the time: 4.00 of 10.00 ms a step (mostly idle); between its "
                                "work it stands still for 4.00 ms a "
                                "step, 100 % of that while the host is in operators");
  tg__table_free(t);
  s = waiting_scene(8 * MS, "cpu_op", "aten::sort"); /* 20 % idle exactly */
  expect_absent(&s, "idle-device");
  s = waiting_scene(8 * MS - MS / 100, "cpu_op", "aten::sort");
  expect_present(&s, "idle-device", 20.1, 2 * MS + MS / 100, "low");
}

/* One kernel of 0.1 ms in each step of 10 ms says nothing of how the device is used; in three steps there are 3. */
static void test_little_device_work(void **state) {
  (void)state;
  struct scene s = waiting_scene(MS / 10, "cpu_op", "aten::sort");
  struct tg_table *t = ask(&s);
  assert_false(has(t, "idle-device"));
  assert_true(says(t, "idle-device (3 pieces of device work in 1.0 % of the time: too few"));
  tg__table_free(t);
}

/* Ten steps in which the device works all the time but for one of 200 ms: the usual step is fine. */
static void test_one_outlier(void **state) {
  (void)state;
  struct scene s = {.m = mini_new()};
  mini_rank(s.m, 0);
  s.thread = mini_thread(s.m, 1, 10);
  s.stream = mini_stream(s.m, 0, 7);
  int64_t at = 0;
  for (int i = 0; i < 10; i++) {
    const int64_t dur = i == 5 ? 200 * MS : 4 * MS;
    char name[32];
    snprintf(name, sizeof name, "ProfilerStep#%d", i + 1);
    mini_slice(s.m, s.thread, "user_annotation", name, at, dur);
    work(&s, at, 1000, at + 1000, 4 * MS - 2000, "gemm");
    if (i == 5) mini_slice(s.m, s.thread, "cuda_runtime", "cudaStreamSynchronize", at + 4 * MS, dur - 4 * MS - 1000);
    at += dur;
  }
  struct tg_table *t = ask(&s);
  assert_false(has(t, "host-synchronisation"));
  assert_false(has(t, "idle-device"));
  tg__table_free(t);
}

static void test_synchronisation(void **state) {
  struct scene s = waiting_scene(7 * MS, "cuda_runtime", "cudaStreamSynchronize");
  /* two gaps of 3 ms in 30 ms */
  expect_present(&s, "host-synchronisation", 20, 2 * MS, "medium");
  s = waiting_scene(7 * MS, "cpu_op", "aten::sort");
  expect_absent(&s, "host-synchronisation");
}

static void test_blocking_copy(void **state) {
  struct scene s = waiting_scene(7 * MS, "cuda_runtime", "cudaMemcpyAsync");
  expect_present(&s, "blocking-copy", 20, 2 * MS, "medium");
  s = waiting_scene(9500000, "cuda_runtime", "cudaMemcpyAsync"); /* two gaps of 0.5 ms: 3.3 % */
  expect_absent(&s, "blocking-copy");
}

/* 20 ms without steps: kernels of 1 ms, and copies of `copy_ns` each between them. */
static struct tg_table *copies_without_steps(int copies, int64_t copy_ns) {
  struct scene s = begin(0, 0);
  for (int i = 0; i <= copies; i++) {
    const int64_t at = i * (MS + copy_ns);
    mini_slice(s.m, s.thread, "cpu_op", "aten::mm", at, 1000);
    work(&s, at, 1000, at + 1000, MS - 2000, "gemm");
    if (i < copies) mini_slice(s.m, s.thread, "cuda_runtime", "cudaMemcpyAsync", at + MS, copy_ns - 1000);
  }
  return ask(&s);
}

static void test_once_in_a_recording(void **state) {
  struct tg_table *t = copies_without_steps(1, 18 * MS); /* it may not come again */
  assert_false(has(t, "blocking-copy"));
  assert_true(says(t, "the device stands still once for 18.00 ms during cudaMemcpyAsync"));
  tg__table_free(t);
  t = copies_without_steps(3, 5 * MS);
  assert_true(mini_int(t, mini_row(t, "cause", "blocking-copy"), "saving_ns") != TG_NULL_INT);
  tg__table_free(t);
}

/* Every 100 us one kernel of `dur`, launched by an operator that fills the pause. */
static struct scene crumbs(int kernels, int64_t dur) {
  struct scene s = begin(1, kernels * 100000LL);
  for (int i = 0; i < kernels; i++) {
    const int64_t at = i * 100000LL;
    mini_slice(s.m, s.thread, "cpu_op", "aten::add", at, 99000);
    work(&s, at + 80000, 5000, at + 90000, dur, "add");
  }
  return s;
}

static void test_small_kernels(void **state) {
  struct scene s = crumbs(200, 5000);
  /* 199 gaps of 95 us in a step that starts with the thread and ends with it: 20 ms */
  expect_present(&s, "many-small-ops", 100.0 * 199 * 95000 / 20000000, 199 * 95000, "high");
  s = crumbs(99, 5000);
  expect_absent(&s, "many-small-ops");
  s = crumbs(200, 10000);
  expect_absent(&s, "many-small-ops");
}

static struct scene host_ops(int ops, int64_t dur) {
  struct scene s = begin(1, 10 * MS);
  mini_slice(s.m, s.thread, "cpu_op", "aten::lstm", 0, 10 * MS); /* holds them all: not itself a small one */
  for (int i = 0; i < ops; i++) mini_slice(s.m, s.thread, "cpu_op", "aten::mul", i * 8000, dur);
  return s;
}

static void test_small_ops_on_the_host(void **state) {
  struct scene s = host_ops(1100, 4000);
  expect_present(&s, "many-small-ops", 44, 1100 * 4000, "medium"); /* without an estimate nothing is high */
  s = host_ops(1100, 6000);
  expect_absent(&s, "many-small-ops");
  s = host_ops(999, 4000);
  expect_absent(&s, "many-small-ops");
}

/* ---- the host -------------------------------------------------------------------------------- */

static struct scene reads(int count, int64_t dur, bool inside_update) {
  struct scene s = begin(1, 10 * MS);
  if (inside_update) mini_slice(s.m, s.thread, "user_annotation", "Optimizer.step#Adam.step", 0, 10 * MS);
  for (int i = 0; i < count; i++) mini_slice(s.m, s.thread, "cpu_op", "aten::item", i * 100000, dur);
  return s;
}

static void test_scalar_reads(void **state) {
  struct scene s = reads(50, 20000, false);
  expect_present(&s, "per-element-item", 10, MS, "medium");
  s = reads(19, 90000, false);
  expect_absent(&s, "per-element-item");
  s = reads(50, 20000, true); /* the optimizer reads its own step counts */
  expect_absent(&s, "per-element-item");
}

static struct scene update(int ops, const char *op) {
  struct scene s = begin(2, 10 * MS);
  for (int i = 0; i < 2; i++) {
    mini_slice(s.m, s.thread, "user_annotation", "Optimizer.step#SGD.step", i * 10 * MS, 2 * MS);
    for (int k = 0; k < ops; k++) mini_slice(s.m, s.thread, "cpu_op", op, i * 10 * MS + k * 20000, 15000);
    mini_slice(s.m, s.thread, "cpu_op", "aten::conv2d", i * 10 * MS + 3 * MS, 6 * MS);
  }
  return s;
}

/* step(closure), 10 ms: forward 3 ms, backward 4 ms, here or (autograd) on a thread of its own, then 1 ms until the
 * update of 60 operators. */
static struct scene update_with_closure(int ops, bool elsewhere) {
  struct scene s = begin(1, 12 * MS);
  const uint32_t engine = elsewhere ? mini_thread(s.m, 1, 11) : s.thread;
  mini_slice(s.m, s.thread, "user_annotation", "Optimizer.step#SGD.step", 0, 10 * MS);
  for (int i = 0; i < 40; i++) {
    mini_slice(s.m, s.thread, "cpu_op", "aten::linear", i * 75000, 75000);
    mini_arg_int(s.m, "Sequence number", i);
    mini_slice(s.m, s.thread, "cpu_op", "aten::_foreach_add", i * 75000 + 10000, 20000);
  }
  mini_slice(s.m, engine, "cpu_op", "autograd::engine::evaluate_function: AddBackward0", 3 * MS, 3 * MS);
  mini_slice(s.m, engine, "cpu_op", "aten::mm", 4 * MS, MS);
  mini_slice(s.m, engine, "cpu_op", "torch::autograd::AccumulateGrad", 6 * MS, MS);
  for (int i = 0; i < ops; i++) mini_slice(s.m, s.thread, "cpu_op", "aten::add_", 8 * MS + i * 30000, 30000);
  return s;
}

static void test_optimizer_with_closure(void **state) {
  struct scene s = update_with_closure(60, false);
  expect_present(&s, "single-tensor-optimizer", 100.0 * 2 / 12, 2 * MS, "medium");
  s = update_with_closure(60, true);
  expect_present(&s, "single-tensor-optimizer", 100.0 * 2 / 12, 2 * MS, "medium");
  s = update_with_closure(29, false); /* the operators of the closure do not belong to the update */
  expect_absent(&s, "single-tensor-optimizer");
}

static void test_optimizer(void **state) {
  struct scene s = update(60, "aten::add_");
  expect_present(&s, "single-tensor-optimizer", 20, 2 * MS, "medium");
  s = update(29, "aten::add_");
  expect_absent(&s, "single-tensor-optimizer");
  s = update(60, "aten::_foreach_add_");
  expect_absent(&s, "single-tensor-optimizer");
}

/* Ten steps of 10 ms, of which steps `first` and `second` take long_step: an evaluation, a stop, or the same work
 * for longer. */
enum why { EVALUATES, STOPS, IS_SLOW };
static struct scene stalls(int64_t long_step, int first, int second, enum why why) {
  struct scene s = {.m = mini_new()};
  s.thread = mini_thread(s.m, 1, 10);
  int64_t at = 0;
  for (int i = 0; i < 10; i++) {
    const int64_t dur = i == first || i == second ? long_step : 10 * MS;
    char name[32];
    snprintf(name, sizeof name, "ProfilerStep#%d", i + 1);
    mini_slice(s.m, s.thread, "user_annotation", name, at, dur);
    mini_slice(s.m, s.thread, "cpu_op", "aten::conv2d", at, why == IS_SLOW ? dur - MS : 9 * MS);
    if (why == EVALUATES && dur > 10 * MS) {
      mini_slice(s.m, s.thread, "cpu_op", "aten::linear", at + 9 * MS, dur - 10 * MS);
      mini_arg_str(s.m, "Call stack", "train.py(8): validate;train.py(20): fit");
    }
    mini_slice(s.m, s.thread, "cpu_op", "aten::relu", at + dur - MS, MS);
    at += dur;
  }
  return s;
}

static void test_stalls(void **state) {
  struct scene s = stalls(60 * MS, 4, 9, EVALUATES); /* 100 ms too many in 200 */
  struct tg_table *t = ask(&s);
  const size_t row = mini_row(t, "cause", "periodic-stall");
  assert_int_equal(mini_int(t, row, "cost_ns"), 10 * MS);
  assert_int_equal(mini_int(t, row, "saving_ns"), 9 * MS);
  assert_string_equal(mini_cell(t, row, "where"), "aten::linear at train.py(8): validate");
  tg__table_free(t);
  s = stalls(60 * MS, 4, 9, STOPS); /* both before the same call */
  expect_present(&s, "periodic-stall", 50, 10 * MS, "high");
  s = stalls(60 * MS, 4, 9, IS_SLOW); /* the same calls take longer: the machine was busy */
  expect_absent(&s, "periodic-stall");
  s = stalls(60 * MS, 4, 4, EVALUATES); /* once is chance */
  expect_absent(&s, "periodic-stall");
  s = stalls(60 * MS, 0, 4, IS_SLOW); /* the first is warming up */
  expect_absent(&s, "periodic-stall");
  s = stalls(20 * MS, 4, 9, EVALUATES); /* twice the median is not more than twice */
  expect_absent(&s, "periodic-stall");
}

/* A stretch of Python in every step is the program's, one in a single step of four is chance. */
static struct scene pauses(int steps_with) {
  struct scene s = begin(4, 10 * MS);
  for (int i = 0; i < 4; i++) {
    const int64_t pause = i < steps_with ? 3 * MS : 0;
    mini_slice(s.m, s.thread, "cpu_op", "aten::conv2d", i * 10 * MS, 5 * MS);
    mini_arg_str(s.m, "Call stack", "train.py(9): fit");
    mini_slice(s.m, s.thread, "cpu_op", "aten::relu", i * 10 * MS + 5 * MS + pause, 5 * MS - pause);
    mini_arg_str(s.m, "Call stack", "train.py(12): fit");
  }
  return s;
}

/* The same pauses, and NCCL at work: a device that was not recorded may be what is waited for. */
static void test_unseen_device(void **state) {
  (void)state;
  struct scene s = pauses(4);
  mini_slice(s.m, s.thread, "user_annotation", "nccl:all_to_all", 9 * MS, MS / 10);
  struct tg_table *t = ask(&s);
  assert_false(has(t, "slow-python-transform"));
  assert_true(says(t, "slow-python-transform (a device is used and was not recorded"));
  tg__table_free(t);
}

static void test_chance(void **state) {
  struct scene s = pauses(4); /* 3 ms but for the 20 us between any two calls */
  expect_present(&s, "slow-python-transform", 29.8, 2980000, "medium");
  s = pauses(2); /* 15 % of the time, in half of the steps */
  expect_absent(&s, "slow-python-transform");
}

/* 3 ms before the optimizer's only operator: inside of its step(), or just before that. */
static struct scene updates(int64_t from) {
  struct scene s = begin(4, 10 * MS);
  for (int i = 0; i < 4; i++) {
    mini_slice(s.m, s.thread, "cpu_op", "aten::conv2d", i * 10 * MS, 5 * MS);
    mini_arg_str(s.m, "Call stack", "train.py(9): fit");
    mini_slice(s.m, s.thread, "user_annotation", "Optimizer.step#Adam.step", i * 10 * MS + from, 9 * MS - from);
    mini_arg_str(s.m, "Call stack", "train.py(12): fit");
    mini_slice(s.m, s.thread, "cpu_op", "aten::_fused_adam_", i * 10 * MS + 8 * MS, MS);
    mini_arg_str(s.m, "Call stack", "torch/optim/adam.py(870): step;train.py(12): fit");
    mini_slice(s.m, s.thread, "cpu_op", "aten::relu", i * 10 * MS + 9 * MS, MS);
    mini_arg_str(s.m, "Call stack", "train.py(9): fit");
  }
  return s;
}

static void test_python_of_the_optimizer(void **state) {
  struct scene s = updates(5 * MS);
  expect_absent(&s, "slow-python-transform");
  s = updates(8 * MS);
  expect_present(&s, "slow-python-transform", 29.8, 2980000, "medium");
}

/* 40 pauses a step at one line, a quarter of it in all: of 49 us each they are how Python is, of 50 us they are
 * counted but for 20 us each. */
static struct scene short_pauses(int64_t us) {
  struct scene s = begin(4, 40 * us * 4000);
  for (int i = 0; i < 160; i++) {
    mini_slice(s.m, s.thread, "cpu_op", "aten::mul", i * us * 4000, us * 3000);
    mini_arg_str(s.m, "Call stack", "train.py(9): fit");
  }
  return s;
}

static void test_short_pauses(void **state) {
  struct scene s = short_pauses(49);
  expect_absent(&s, "slow-python-transform");
  s = short_pauses(
      50); /* one of the 40 is across the end of a step, and counts for the next; the first step lacks it */
  expect_present(&s, "slow-python-transform", 15, 1200000, "medium");
}

/* 3 of 10 ms a step only in Python, under a frame of the program. */
static struct scene python(const char *frame, int64_t dur) {
  struct scene s = begin(2, 10 * MS);
  for (int i = 0; i < 2; i++) {
    mini_slice(s.m, s.thread, "python_function", "train.py(12): augment", i * 10 * MS + 100, 10 * MS - 200);
    mini_slice(s.m, s.thread, "python_function", frame, i * 10 * MS + 200, dur);
    mini_slice(s.m, s.thread, "cpu_op", "aten::conv2d", i * 10 * MS, 100);
    mini_slice(s.m, s.thread, "cpu_op", "aten::conv2d", i * 10 * MS + 200 + dur, 10 * MS - dur - 300);
  }
  return s;
}

static void test_python(void **state) {
  struct scene s = python("torch/utils/data.py(3): walk", 3 * MS);
  struct tg_table *t = ask(&s);
  const size_t row = mini_row(t, "cause", "slow-python-transform");
  assert_int_equal(mini_int(t, row, "cost_ns"), 3 * MS); /* of the function; 200 ns more are quiet elsewhere */
  assert_int_equal(mini_int(t, row, "saving_ns"), 2700000);
  assert_string_equal(mini_cell(t, row, "where"), "torch/utils/data.py(3): walk at train.py(12): augment");
  tg__table_free(t);
  s = python("torch/utils/data.py(3): walk", MS - 200);
  expect_absent(&s, "slow-python-transform");
  s = python("<built-in function fsync>", 3 * MS);
  expect_present(&s, "sync-logging", 30, 3 * MS, "medium"); /* nine tenths of it to be won */
  s = python("<built-in method collect of gc>", 3 * MS);
  t = ask(&s);
  assert_true(has(t, "slow-python-transform")); /* not gc.collect's name */
  tg__table_free(t);
  s = python("<built-in function collect>", 3 * MS);
  expect_present(&s, "gc-pressure", 30, 3 * MS, "medium");
}

static struct scene overhead(const char *kind, int64_t dur) {
  struct scene s = begin(2, 10 * MS);
  mini_slice(s.m, mini_thread(s.m, -1, 0), "overhead", kind, 5 * MS, dur);
  return s;
}

static void test_overhead(void **state) {
  struct scene s = overhead("Activity Buffer Request", 3 * MS);
  expect_present(&s, "profiler-overhead", 15, 3 * MS / 2, "medium");
  s = overhead("Activity Buffer Request", MS);
  expect_absent(&s, "profiler-overhead");
  s = overhead("Command Buffer Full", 3 * MS); /* the host is ahead of the device, recorded or not */
  expect_absent(&s, "profiler-overhead");
  s = overhead("Lazy Function Loading", 3 * MS);
  expect_absent(&s, "profiler-overhead");
}

/* ---- hardware -------------------------------------------------------------------------------- */

static struct tg_table *precision(int64_t major, const char *kernel, const char *op_name) {
  static struct tg__device devices[2];
  devices[0] =
      (struct tg__device){.id = 1, .compute_major = 9, .total_memory_bytes = -1}; /* another device than the one used */
  devices[1] = (struct tg__device){.id = 0, .compute_major = major, .total_memory_bytes = -1};
  struct scene s = begin_on(devices, 2, 1, 10 * MS);
  const int op = mini_slice(s.m, s.thread, "cpu_op", op_name, 100, 2 * MS);
  mini_cause(s.m, work(&s, 200, 100, MS, 6 * MS, kernel), op);
  work(&s, 3 * MS, 100, 7 * MS, 2 * MS, "elementwise");
  return ask_wrapper(&s);
}

static void test_precision(void **state) {
  const char *cause = "mixed-precision-unused";
  struct tg_table *t = precision(8, "ampere_sgemm_128x64_nn", "aten::addmm");
  assert_float_equal(mini_real(t, mini_row(t, "cause", cause), "share_pct"), 60, 1e-9);
  tg__table_free(t);
  t = precision(7, "volta_sgemm_128x64_nn", "aten::addmm"); /* the first with them */
  assert_true(has(t, cause));
  tg__table_free(t);
  const struct {
    int64_t major;
    const char *kernel, *op;
  } silent[] = {
      {6, "volta_sgemm_128x64_nn", "aten::addmm"},                     /* the last without tensor cores */
      {6, "maxwell_sgemm_128x64_nn", "aten::addmm"},                   /* no tensor cores */
      {9, "nvjet_tst_192x192_64x4_1x2_h_bz_coopB_TNT", "aten::addmm"}, /* Hopper's own */
      {9, "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", "aten::mm"}, /* tensor cores */
      {8, "void cutlass::Kernel<cutlass_80_tensorop_s16816gemm>", "aten::mm"},        /* tensor cores */
      {8, "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits>", "aten::matmul"},   /* tensor cores */
      {9, "Cijk_Ailk_Bljk_HHS_MT128x128x16", "aten::addmm"},                          /* unknown */
      {9, "triton_mm_12", "aten::mm"},                                                /* unknown */
      {8, "ampere_sgemm_128x64_nn", "aten::sort"},                                    /* not a matrix operator */
  };
  for (size_t i = 0; i < sizeof silent / sizeof *silent; i++) {
    t = precision(silent[i].major, silent[i].kernel, silent[i].op);
    assert_false(has(t, cause));
    tg__table_free(t);
  }
}

static struct tg_table *memory(int64_t type, int64_t device, int64_t allocated) {
  static struct tg__device devices[2];
  devices[0] = (struct tg__device){.id = 0, .compute_major = 9, .total_memory_bytes = 1000};
  devices[1] = (struct tg__device){.id = 1, .compute_major = 9, .total_memory_bytes = 2000};
  struct scene s = begin_on(devices, 2, 1, 10 * MS);
  mini_mark(s.m, s.thread, "cpu_instant_event", "[memory]", 'i', 100);
  mini_arg_int(s.m, "Device Type", type);
  mini_arg_int(s.m, "Device Id", device);
  mini_arg_int(s.m, "Total Allocated", allocated);
  return ask_wrapper(&s);
}

static void test_device_memory(void **state) {
  const char *cause = "device-memory-nearly-full";
  struct tg_table *t = memory(1, 0, 950);
  const size_t row = mini_row(t, "cause", cause);
  assert_float_equal(mini_real(t, row, "share_pct"), 95, 1e-9);
  assert_string_equal(mini_cell(t, row, "where"), "device 0");
  tg__table_free(t);
  t = memory(6, 0, 901); /* HIP, as traces of AMD have it */
  assert_true(has(t, cause));
  tg__table_free(t);
  t = memory(1, 1, 950); /* the second device is larger */
  assert_false(has(t, cause));
  tg__table_free(t);
  t = memory(1, 0, 900); /* 90 % exactly */
  assert_false(has(t, cause));
  tg__table_free(t);
  t = memory(0, -1, 5000); /* the CPU's allocations are no device's */
  assert_false(has(t, cause));
  tg__table_free(t);
}

/* One step of 10 ms in which this kernel runs for `dur`, with this occupancy, and another one fills the rest. */
static struct tg_table *occupancy(const char *kernel, int64_t dur, int64_t pct, int64_t warps) {
  struct scene s = begin(1, 10 * MS);
  work(&s, 100, 100, MS, dur, kernel);
  mini_arg_int(s.m, "est. achieved occupancy %", pct);
  mini_arg_int(s.m, "warps per SM", warps);
  mini_arg_raw(s.m, "grid", "[8, 1, 1]");
  mini_arg_raw(s.m, "block", "[32, 1, 1]");
  work(&s, 300, 100, MS + dur, 9 * MS - dur, "full");
  mini_arg_int(s.m, "est. achieved occupancy %", 90);
  return ask_wrapper(&s);
}

static void test_occupancy(void **state) {
  const char *cause = "low-occupancy";
  struct tg_table *t = occupancy("index_kernel", 2 * MS, 20, 12);
  const size_t row = mini_row(t, "cause", cause);
  assert_float_equal(mini_real(t, row, "share_pct"), 20, 1e-9);
  assert_float_equal(mini_real(t, row, "threshold_pct"), 10, 0);
  assert_string_equal(mini_cell(t, row, "where"), "index_kernel");
  assert_non_null(strstr(mini_cell(t, row, "evidence"), "the longest: 20 %, grid [8, 1, 1], block [32, 1, 1]"));
  tg__table_free(t);
  t = occupancy("index_kernel", 2 * MS, 0, 0); /* a grid of a few warps: rounded to 0 */
  assert_true(has(t, cause));
  tg__table_free(t);
  const struct {
    const char *kernel;
    int64_t dur, pct;
  } silent[] = {
      {"index_kernel", 2 * MS, 0},                            /* 0 with 12 warps: not estimated */
      {"deep_ep::intranode::dispatch<8>", 2 * MS, 3},         /* sends, and lives with few threads */
      {"index_kernel", MS, 20},                               /* 10 % of the step exactly */
      {"index_kernel", 2 * MS, 30},                           /* 30 % exactly */
      {"nvjet_tst_128x64", 2 * MS, 13},                       /* few large blocks by design */
      {"ampere_sgemm_128x64_nn", 2 * MS, 13},                 /* the same */
      {"ncclDevKernel_AllReduce_Sum_f32_RING_LL", 2 * MS, 1}, /* a collective needs no more */
  };
  for (size_t i = 0; i < sizeof silent / sizeof *silent; i++) {
    t = occupancy(silent[i].kernel, silent[i].dur, silent[i].pct, 12);
    assert_false(has(t, cause));
    tg__table_free(t);
  }
}

/* Two steps of 10 ms, in each a label from 1 to 2 ms, a launch at `call_at`, and its kernel from 2 ms for `dur`. */
static struct scene labelled(const char *label, int64_t call_at, int64_t dur, bool is_timed) {
  struct scene s = begin(2, 10 * MS);
  const char *const clock = "<built-in function perf_counter>";
  for (int i = 0; i < 2; i++) {
    if (is_timed) mini_slice(s.m, s.thread, "python_function", clock, i * 10 * MS + MS - 5000, 1000);
    if (is_timed) mini_slice(s.m, s.thread, "python_function", clock, i * 10 * MS + 2 * MS + 5000, 1000);
    mini_slice(s.m, s.thread, "user_annotation", label, i * 10 * MS + MS, MS);
    work(&s, i * 10 * MS + call_at, MS / 10, i * 10 * MS + 2 * MS, dur, "gemm");
  }
  return s;
}

static void test_labels(void **state) {
  (void)state;
  const char *cause = "host-timed-label";
  struct scene s = labelled("forward", MS + MS / 5, 3 * MS,
                            true); /* 1 ms for the host, 4 ms until the kernel ends: 3 of 4 are not seen */
  struct tg_table *t = ask(&s);
  const size_t row = mini_row(t, "cause", cause);
  assert_float_equal(mini_real(t, row, "share_pct"), 75, 1e-9);
  assert_int_equal(mini_int(t, row, "cost_ns"), 3 * MS);
  assert_int_equal(mini_int(t, row, "saving_ns"), 0);
  assert_string_equal(mini_cell(t, row, "severity"), "low");
  assert_string_equal(mini_cell(t, row, "where"), "forward");
  assert_non_null(
      strstr(mini_cell(t, row, "evidence"),
             "a clock is read at both ends of it: 1.00 ms on the host; the work launched in it ends 3.00 ms later"));
  tg__table_free(t);
  s = labelled("forward", MS + MS / 5, 3 * MS, false); /* no clock is read: that is how work is launched */
  expect_absent(&s, cause);
  s = labelled("forward", MS + MS / 5, MS, true); /* half of it exactly */
  expect_absent(&s, cause);
  s = labelled("forward", 3 * MS, 3 * MS, true); /* launched after it */
  expect_absent(&s, cause);
  s = labelled("Optimizer.step#SGD.step", MS + MS / 5, 3 * MS, true); /* torch's own label, which does not time */
  expect_absent(&s, cause);
}

/* Each allocation fails in turn: there is no answer then, and nothing is left behind. */
static void test_short_of_memory(void **state) {
  struct scene scenes[] = {communication_scene(0), crumbs(200, 5000), reads(30, 30000, false), update(40, "aten::add_"),
                           pauses(3)};
  for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
    assert_true(mini_starve(mini_finish(scenes[i].m), "findings", NULL, 0) > 50);
    mini_free(scenes[i].m);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_short_of_memory),
      cmocka_unit_test(test_loader),
      cmocka_unit_test(test_loader_fast_enough),
      cmocka_unit_test(test_communication),
      cmocka_unit_test(test_wrappers),
      cmocka_unit_test(test_idle_device),
      cmocka_unit_test(test_little_device_work),
      cmocka_unit_test(test_one_outlier),
      cmocka_unit_test(test_synchronisation),
      cmocka_unit_test(test_blocking_copy),
      cmocka_unit_test(test_once_in_a_recording),
      cmocka_unit_test(test_small_kernels),
      cmocka_unit_test(test_small_ops_on_the_host),
      cmocka_unit_test(test_scalar_reads),
      cmocka_unit_test(test_optimizer),
      cmocka_unit_test(test_optimizer_with_closure),
      cmocka_unit_test(test_stalls),
      cmocka_unit_test(test_python),
      cmocka_unit_test(test_unseen_device),
      cmocka_unit_test(test_chance),
      cmocka_unit_test(test_python_of_the_optimizer),
      cmocka_unit_test(test_short_pauses),
      cmocka_unit_test(test_overhead),
      cmocka_unit_test(test_precision),
      cmocka_unit_test(test_device_memory),
      cmocka_unit_test(test_occupancy),
      cmocka_unit_test(test_labels),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
