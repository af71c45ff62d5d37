/* ops, kernels, launches, memory, stacks, roofline with an allocation failing at every point: an error each time,
 * nothing lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the four above */
#include <cmocka.h>

#include "unit/mini_trace.h"

#include <stdio.h>

static struct tg__columns *everything(struct mini *m, bool frames) {
  const uint32_t cpu = mini_thread(m, 1, 1), gpu = mini_stream(m, 0, 7);
  mini_slice(m, cpu, "user_annotation", "ProfilerStep#1", 0, 10000);
  for (int i = 0; i < 30; i++) { /* enough for every array to grow once */
    const int64_t at = 10 + 100 * i;
    char name[32], frame[32];
    snprintf(name, sizeof name, "aten::op%d", i);
    snprintf(frame, sizeof frame, "a.py(%d): f", i);
    if (frames) {
      mini_slice(m, cpu, "python_function", i % 2 ? frame : "<built-in method at 0x12ab>", at, 90);
      if (i % 3 == 0) mini_arg_int(m, "Python module id", i);
    }
    const int op = mini_slice(m, cpu, "cpu_op", i % 2 ? name : "aten::mm", at + 1, 80);
    mini_arg_raw(m, "Input Dims", i % 3 ? "[[2, 3], [3, 4]]" : "[[5, 3], [3, 4]]");
    if (!frames) mini_arg_str(m, "Call stack", i % 2 ? "x.py(1): a;y.py(2): b" : "x.py(3): c;y.py(2): b");
    const int call = mini_slice(m, cpu, "cuda_runtime", "cudaLaunchKernel", at + 5, 4);
    mini_cause(m, call, op);
    mini_cause(m, mini_slice(m, gpu, "kernel", name, at + 20, 10), call);
    mini_arg_int(m, "registers per thread", i);
    mini_mark(m, cpu, "cpu_instant_event", "[memory]", 'i', at + 30);
    mini_arg_int(m, "Device Type", i % 2);
    mini_arg_int(m, "Device Id", 0);
    mini_arg_int(m, "Bytes", 64 + i);
    mini_arg_int(m, "Addr", 1000 + i);
  }
  return mini_finish(m);
}

static long starve(struct tg__columns *t, const char *question, const char *by) {
  const struct tg_arg arg = {"by", by};
  return mini_starve(t, question, &arg, 1);
}

static void test_every_allocation_may_fail(void **state) {
  static const struct {
    const char *question, *by;
  } cases[] = {{"ops", "name"},       {"ops", "shape+stack:2+module+step"},
               {"kernels", "name"},   {"kernels", "config"},
               {"kernels", "stream"}, {"launches", "rank"},
               {"launches", "call"},  {"launches", "event"},
               {"memory", "device"},  {"memory", "time"},
               {"memory", "peak"},    {"memory", "op"},
               {"stacks", "line"},    {"stacks", "function"},
               {"stacks", "file"},    {"stacks", "stack"},
               {"roofline", "name"},  {"roofline", "kernel"}};
  for (int frames = 0; frames < 2; frames++) {
    struct mini *m = mini_new();
    struct tg__columns *t = everything(m, frames);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
      assert_true(starve(t, cases[i].question, cases[i].by) > 5);
    if (frames) assert_true(starve(t, "stacks", "module") > 5);
    mini_free(m);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation_may_fail)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
