/* Exports of a whole trace: what running out of memory or disk does to them, and folded stacks and Chrome JSON word
 * for word. That every event comes back is tested from outside, in tests/python/test_exports.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "show/parts.h"
#include "show/buffer.h"
#include "unit/mini_trace.h"
#include "unit/sweep.h"

static struct mini *scene(void) {
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 10), gpu = mini_stream(m, 0, 7);
  const int op = mini_slice(m, cpu, "cpu_op", "aten::mm", 1000, 5000);
  mini_arg_raw(m, "Input Dims", "[[2, 3], []]");
  const int call = mini_slice(m, cpu, "cuda_runtime", "cudaLaunchKernel", 2000, 500);
  mini_arg_int(m, "correlation", 5);
  const int first = mini_slice(m, gpu, "kernel", "gemm", 3000, 4000);
  mini_arg_dec(m, "occupancy", 5, 2);
  const int second = mini_slice(m, gpu, "kernel", "ge\"mm;2", 5001, 3000);
  mini_arg_str(m, "note", "a\nb");
  mini_cause(m, first, call), mini_cause(m, second, call), mini_cause(m, call, op);
  mini_mark(m, cpu, "counter", "queue", 'C', 4000);
  mini_arg_int(m, "depth", -3);
  mini_mark(m, cpu, "x", "seen", 'i', 4500);
  return m;
}

static void expect(struct tg__columns *t, const char *format, const struct tg_arg *args, size_t arg_count,
                   const char *want) {
  struct tg__out out = {0};
  struct tg_error e = {0};
  const struct tg__show_options o = {.args = args, .arg_count = arg_count};
  if (tg__format_find(format)->trace(t, &o, &out, &e)) fail_msg("%s", e.text);
  tg__out_bytes(&out, "", 1);
  assert_string_equal(out.buf, want);
  tg__out_free(&out);
}

static void chrome_word_for_word(void **state) {
  struct mini *m = scene();
  struct tg__columns *t = mini_finish(m);
  static const struct tg_arg keep = {"lanes", "keep"};
  static const char head[] = "{\n\"traceEvents\":[\n"
                             "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":1,\"tid\":10,\"ts\":1.000,"
                             "\"dur\":5.000,\"args\":{\"Input Dims\":[[2, 3], []]}},\n"
                             "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":"
                             "10,\"ts\":2.000,\"dur\":0.500,\"args\":{\"correlation\":5}},\n"
                             "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",\"pid\":0,\"tid\":7,\"ts\":3.000,"
                             "\"dur\":4.000,\"args\":{\"occupancy\":0.05}},\n"
                             "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ge\\\"mm;2\",\"pid\":0,";
  static const char tail[] = ",\"ts\":5.001,\"dur\":3.000,\"args\":{\"note\":\"a\\nb\"}},\n"
                             "{\"ph\":\"C\",\"cat\":\"counter\",\"name\":\"queue\",\"pid\":1,\"tid\":10,\"ts\":4.000,"
                             "\"args\":{\"depth\":-3}},\n"
                             "{\"ph\":\"i\",\"cat\":\"x\",\"name\":\"seen\",\"pid\":1,\"tid\":10,\"ts\":4.500}";
  char want[2048];
  snprintf(want, sizeof want, "%s\"tid\":7%s\n]\n}\n", head, tail);
  expect(t, "chrome", &keep, 1, want);
  snprintf(want, sizeof want,
           "%s\"tid\":1000007%s,\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":1000007,\"args\":{\"name\":"
           "\"stream (overlap 1)\"}}\n]\n}\n",
           head, tail);
  expect(t, "chrome", NULL, 0, want);
  mini_free(m);
}

static void folded_word_for_word(void **state) {
  struct mini *m = scene();
  struct tg__columns *t = mini_finish(m);
  static const struct tg_arg device = {"metric", "device"};
  expect(t, "folded", NULL, 0, "aten::mm 4500\naten::mm;cudaLaunchKernel 500\n");
  expect(t, "folded", &device, 1, "aten::mm;cudaLaunchKernel;gemm 4000\naten::mm;cudaLaunchKernel;ge\"mm,2 3000\n");
  mini_free(m);
}

/* Whatever allocation fails: an error, no crash, and (the leak checker watches) nothing left behind. */
static void no_memory_is_an_error(void **state) {
  struct mini *m = scene();
  struct tg__columns *t = mini_finish(m);
  for (size_t f = 0; f < tg__format_count(); f++) {
    if (!tg__formats[f].trace) continue;
    long calls = 0;
    for (enum tg_err err = TG_MEMORY; err; calls += (long)sweep_step()) {
      struct tg__out out = {0};
      struct tg_error e = {0};
      tg__alloc_fail_after(calls);
      err = tg__formats[f].trace(t, &(struct tg__show_options){0}, &out, &e);
      tg__alloc_fail_after(-1);
      tg__out_free(&out);
      if (err && (err != TG_MEMORY || !e.text[0]))
        fail_msg("%s after %ld: %d %s", tg__formats[f].name, calls, err, e.text);
      assert_true(calls < 100000);
    }
    assert_true(calls > 1);
  }
  mini_free(m);
}

static bool full(void *ctx, const char *bytes, size_t len) { return false; }

static void a_full_disk_is_an_error(void **state) {
  struct mini *m = scene();
  struct tg__columns *t = mini_finish(m);
  for (size_t f = 0; f < tg__format_count(); f++) {
    if (!tg__formats[f].trace) continue;
    struct tg__out out = {.write = full};
    struct tg_error e = {0};
    assert_int_equal(tg__formats[f].trace(t, NULL, &out, &e), TG_IO);
    assert_true(e.text[0]);
    tg__out_free(&out);
  }
  mini_free(m);
}

static void an_empty_trace_can_be_written(void **state) {
  struct mini *m = mini_new();
  struct tg__columns *t = mini_finish(m);
  expect(t, "chrome", NULL, 0, "{\n\"traceEvents\":[\n]\n}\n");
  expect(t, "folded", NULL, 0, "");
  for (size_t f = 0; f < tg__format_count(); f++) {
    if (!tg__formats[f].trace) continue;
    struct tg__out out = {0};
    assert_int_equal(tg__formats[f].trace(t, NULL, &out, NULL), TG_OK);
    tg__out_free(&out);
  }
  mini_free(m);
}

static void formats_are_found_by_name(void **state) {
  for (size_t f = 0; f < tg__format_count(); f++)
    assert_ptr_equal(tg__format_find(tg__formats[f].name), &tg__formats[f]);
  assert_null(tg__format_find("html5"));
}

static void microseconds_are_exact(void **state) {
  (void)state;
  static const struct {
    int64_t ns;
    const char *text, *fixed;
  } cases[] = {{0, "0", "0.000"},
               {1, "0.001", "0.001"},
               {10, "0.01", "0.010"},
               {100, "0.1", "0.100"},
               {1000, "1", "1.000"},
               {-500, "-0.5", "-0.500"},
               {1690000000000000123, "1690000000000000.123", "1690000000000000.123"},
               {123450, "123.45", "123.450"},
               {INT64_MAX, "9223372036854775.807", "9223372036854775.807"},
               {INT64_MIN, "-9223372036854775.808", "-9223372036854775.808"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[32];
    *tg__buffer_us(text, cases[i].ns) = 0;
    assert_string_equal(text, cases[i].text);
    *tg__buffer_us_fixed(text, cases[i].ns) = 0;
    assert_string_equal(text, cases[i].fixed);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(microseconds_are_exact),    cmocka_unit_test(chrome_word_for_word),
      cmocka_unit_test(folded_word_for_word),      cmocka_unit_test(no_memory_is_an_error),
      cmocka_unit_test(a_full_disk_is_an_error),   cmocka_unit_test(an_empty_trace_can_be_written),
      cmocka_unit_test(formats_are_found_by_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
