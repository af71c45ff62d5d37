/* The report: one screen for a training loop with a slow loader, figure by figure; and that it fits whatever the trace.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "show/parts.h"
#include "unit/mini_trace.h"

#define MS 1000000LL

/* Four steps of 20 ms: 12 for the loader, 7 in a convolution. */
static struct mini *slow_loader(void) {
  struct mini *m = mini_new();
  const uint32_t thread = mini_thread(m, 1, 10);
  for (int i = 0; i < 4; i++) {
    char name[32];
    snprintf(name, sizeof name, "ProfilerStep#%d", i + 3);
    mini_slice(m, thread, "user_annotation", name, i * 20 * MS, 20 * MS);
    mini_slice(m, thread, "user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
               i * 20 * MS + MS, 12 * MS);
    mini_slice(m, thread, "cpu_op", "aten::conv2d", i * 20 * MS + 13 * MS, 7 * MS);
  }
  return m;
}

static char *print(struct tg__columns *t, unsigned width, bool json) {
  struct tg__out out = {0};
  const struct tg__show_options o = {.width = width};
  struct tg_error e;
  assert_int_equal((json ? tg__json_report : tg__text_report)(&(struct tg_trace){.columns = t}, &o, &out, &e), TG_OK);
  tg__out_char(&out, 0);
  assert_int_equal(out.err, TG_OK);
  return out.buf;
}

static void test_slow_loader(void **state) {
  struct mini *m = slow_loader();
  char *text = print(mini_finish(m), 80, false);
  assert_string_equal(
      text, "mini.json\n"
            "trace     80.0 ms, 12 events, CPU only\n"
            "health    no data lost \u00b7 invariants hold\n"
            "\n"
            "step      20.0 ms median, 20.0 ms to 20.0 ms   4 ProfilerSteps, 3 to 6\n"
            "          data loader    "
            "\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588"
            "\u2588\u2588\u2588\u2588"
            "\u258b                 12.0 ms   60.0 %\n"
            "          CPU operators  \u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u258b   "
            "                    "
            "   7.00 ms   35.0 %\n"
            "          no operator    \u2588\u258a                                     1.00 ms    5.0 %\n"
            "\n"
            "kind      input 60.0 %, host 40.0 %: data loader 60.0 %, waits for files, queues\n"
            "          and other processes 0.0 %\n"
            "asked     do operators run? no, 35.0 % \u00b7 do steps wait for their input? yes,\n"
            "          60.0 % \u00b7 is communication exposed? no, 0.0 % \u00b7 does computing bound\n"
            "          the operators, and not memory? unknown \u00b7 is memory nearly full?\n"
            "          unknown \u00b7 does the host read values out of tensors? no, 0.0 %\n"
            "\n"
            "operators, own time on the host                        calls       time\n"
            "aten::conv2d                                               4    28.0 ms  100.0 %\n"
            "\n"
            "findings\n"
            "high      loader-in-main-process  costs 60.0 %, 12.0 ms a step\n"
            "          enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__\n"
            "          the loop waits 12.00 ms of each 20.00 ms step for the next batch (60.0\n"
            "          %); 4 calls, the longest 12.00 ms, all in the process that trains\n"
            "          \u2192 Let worker processes load ahead: DataLoader(..., num_workers=2 or\n"
            "            more, persistent_workers=True).\n"
            "            saves up to 12.0 ms a step: two workers load while the rest of the\n"
            "            step runs\n"
            "\n"
            "measured  data loader 60.0 %, exposed communication 0.0 %, in operators 35.0 %;\n"
            "          shares are of 4 steps, median 20.00 ms, mean 20.00 ms\n"
            "\n"
            "unknown   single-tensor-optimizer (no Optimizer.step in the trace);\n"
            "          periodic-stall (fewer than 5 steps)\n"
            "\n"
            "next      how much of each step the loader takes\n"
            "          tachograph ask mini.json steps\n");
  tg__free(text);
  mini_free(m);
}

static void test_json(void **state) {
  struct mini *m = slow_loader();
  char *text = print(mini_finish(m), 0, true);
  assert_true(tg__json_is_valid((struct tg__str){text, (uint32_t)strlen(text)}));
  assert_non_null(strstr(text, "\"step_summary\":{\"question\":\"steps\""));
  assert_non_null(strstr(text, "\"loader-in-main-process\",\"high\""));
  assert_non_null(strstr(text, "\"top_kernels\":null"));
  assert_non_null(strstr(text, "\"next\":\"tachograph ask mini.json steps\""));
  tg__free(text);
  mini_free(m);
}

static void test_no_steps_and_nothing_found(void **state) {
  struct mini *m = mini_new();
  mini_slice(m, mini_thread(m, 1, 10), "cpu_op", "aten::mm", 0, 5 * MS);
  char *text = print(mini_finish(m), 100, false);
  assert_non_null(strstr(text, "step      5.00 ms, first operator to last; it marks no steps"));
  assert_non_null(strstr(text, "findings  nothing found above 5 %; without steps, loops, copies, waits, threads and "
                               "Python between\n          operators of the host are not judged\n"));
  tg__free(text);
  mini_free(m);
  m = mini_new();
  mini_mark(m, mini_thread(m, 1, 10), "", "mark", 'i', 5);
  text = print(mini_finish(m), 100, false);
  assert_non_null(strstr(text, "step      the trace has neither steps nor operators\n"));
  tg__free(text);
  mini_free(m);
}

/* Every part, side and finding at once, with names that are far too long and would steer the terminal. */
static struct mini *everything(void) {
  static char name[300];
  for (size_t i = 0; i + 1 < sizeof name; i++) name[i] = "aten::long_name<float, \033[31m>"[i % 28];
  struct mini *m = mini_new();
  const uint32_t thread = mini_thread(m, 1, 10), gpu = mini_stream(m, 0, 7);
  static const char *const works[] = {"kernel", "gpu_memcpy", "gpu_memset", "kernel"};
  int64_t at = 0;
  for (int step = 0; step < 12; step++) {
    char text[32];
    snprintf(text, sizeof text, "ProfilerStep#%d", step);
    const int64_t dur = step == 6 ? 90 * MS : 10 * MS;
    mini_slice(m, thread, "user_annotation", text, at, dur);
    mini_slice(m, thread, "user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at, 2 * MS);
    for (int i = 0; i < 4; i++) {
      mini_slice(m, thread, "cpu_op", i < 2 ? name : name + i, at + 2 * MS + i * MS, MS / 2);
      const int call = mini_slice(m, thread, "cuda_runtime", "cudaMemcpyAsync", at + 2 * MS + i * MS, MS / 4);
      const int work = mini_slice(m, gpu, works[i], i == 3 ? "ncclDevKernel_AllReduce" : name + 7 * i,
                                  at + 2 * MS + i * MS + MS / 2, MS / 2);
      mini_cause(m, work, call);
    }
    at += dur;
  }
  return m;
}

static void test_fits_the_terminal(void **state) {
  struct mini *m = everything();
  struct tg__columns *t = mini_finish(m);
  for (unsigned width = 80; width <= 130; width += 10) {
    char *text = print(t, width, false);
    unsigned lines = 0;
    assert_null(strchr(text, '\033'));
    for (const char *p = text; *p; lines++) {
      const char *end = strchr(p, '\n');
      assert_non_null(end);
      const bool is_command = strncmp(p, "          tachograph ", 21) == 0; /* to be copied, so never cut */
      if (!is_command && tg__text_width((struct tg__str){p, (uint32_t)(end - p)}) > width)
        fail_msg("too wide: %.*s", (int)(end - p), p);
      p = end + 1;
    }
    assert_in_range(lines, 30, width < 100 ? 56 : 52);
    tg__free(text);
  }
  mini_free(m);
}

static void test_out_of_memory(void **state) {
  struct mini *m = everything();
  struct tg__columns *t = mini_finish(m);
  const struct tg__show_options o = {.width = 80};
  for (long n = 0; n < 4000; n += n < 100 ? 1 : 37) {
    struct tg__out out = {0};
    struct tg_error e;
    tg__alloc_fail_after(n);
    const enum tg_err err = tg__text_report(&(struct tg_trace){.columns = t}, &o, &out, &e);
    tg__alloc_fail_after(-1);
    tg__out_free(&out);
    assert_true(err == TG_OK || err == TG_MEMORY);
    if (n == 0) assert_int_equal(err, TG_MEMORY);
  }
  mini_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_slow_loader),
      cmocka_unit_test(test_json),
      cmocka_unit_test(test_no_steps_and_nothing_found),
      cmocka_unit_test(test_fits_the_terminal),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
