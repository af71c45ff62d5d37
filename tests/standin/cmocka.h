/* A stand-in for cmocka where that library is not to be had (cross builds): the part of its interface our unit tests
 * use. Each test runs under setjmp; a failed assertion prints where and jumps back. Include once per program. */
#ifndef TG_STANDIN_CMOCKA_H
#define TG_STANDIN_CMOCKA_H

#include <math.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*CMFixtureFunction)(void **state);
struct CMUnitTest {
  const char *name;
  void (*test_func)(void **state);
  CMFixtureFunction setup_func, teardown_func;
  void *initial_state;
};

static jmp_buf standin_jump;
enum { STANDIN_FAILED = 1, STANDIN_SKIPPED = 2 };

__attribute__((noreturn, unused)) static void standin_fail(const char *file, int line, const char *what) {
  fprintf(stderr, "%s:%d: %s\n", file, line, what);
  longjmp(standin_jump, STANDIN_FAILED);
}
#define STANDIN_CHECK(condition, what) ((condition) ? (void)0 : standin_fail(__FILE__, __LINE__, what))

#define cmocka_unit_test(f) {#f, f, NULL, NULL, NULL}
#define cmocka_unit_test_setup(f, setup) {#f, f, setup, NULL, NULL}
#define cmocka_unit_test_teardown(f, teardown) {#f, f, NULL, teardown, NULL}
#define cmocka_unit_test_setup_teardown(f, setup, teardown) {#f, f, setup, teardown, NULL}
#define cmocka_unit_test_prestate(f, state) {#f, f, NULL, NULL, state}

#define assert_true(c) STANDIN_CHECK(c, "not true: " #c)
#define assert_false(c) STANDIN_CHECK(!(c), "not false: " #c)
#define assert_null(p) STANDIN_CHECK((p) == NULL, "not NULL: " #p)
#define assert_non_null(p) STANDIN_CHECK((p) != NULL, "NULL: " #p)
#define assert_ptr_equal(a, b) STANDIN_CHECK((const void *)(a) == (const void *)(b), #a " != " #b)
#define assert_ptr_not_equal(a, b) STANDIN_CHECK((const void *)(a) != (const void *)(b), #a " == " #b)
#define assert_int_equal(a, b) STANDIN_CHECK((intmax_t)(a) == (intmax_t)(b), #a " != " #b)
#define assert_int_not_equal(a, b) STANDIN_CHECK((intmax_t)(a) != (intmax_t)(b), #a " == " #b)
#define assert_in_range(v, low, high)                                                                                  \
  STANDIN_CHECK((uintmax_t)(v) >= (uintmax_t)(low) && (uintmax_t)(v) <= (uintmax_t)(high), #v " out of range")
#define assert_string_equal(a, b) STANDIN_CHECK(strcmp(a, b) == 0, #a " != " #b)
#define assert_string_not_equal(a, b) STANDIN_CHECK(strcmp(a, b) != 0, #a " == " #b)
#define assert_memory_equal(a, b, n) STANDIN_CHECK(memcmp(a, b, n) == 0, #a " != " #b)
#define assert_memory_not_equal(a, b, n) STANDIN_CHECK(memcmp(a, b, n) != 0, #a " == " #b)
#define assert_float_equal(a, b, tolerance)                                                                            \
  STANDIN_CHECK(fabs((double)(a) - (double)(b)) <= (double)(tolerance), #a " != " #b)
#define assert_double_equal assert_float_equal
#define fail() standin_fail(__FILE__, __LINE__, "failed")
#define fail_msg(...) (fprintf(stderr, __VA_ARGS__), standin_fail(__FILE__, __LINE__, ""))
#define skip() longjmp(standin_jump, STANDIN_SKIPPED)
#define print_message(...) fprintf(stderr, __VA_ARGS__)
#define print_error(...) fprintf(stderr, __VA_ARGS__)

static int standin_run_one(const struct CMUnitTest *test, void *shared) {
  void *state = test->initial_state ? test->initial_state : shared;
  int verdict = setjmp(standin_jump);
  if (verdict == 0) {
    if (test->setup_func && test->setup_func(&state) != 0) return STANDIN_FAILED;
    test->test_func(&state);
    if (test->teardown_func && test->teardown_func(&state) != 0) return STANDIN_FAILED;
  }
  fprintf(stderr, "[%s] %s\n", verdict == 0 ? "OK" : verdict == STANDIN_SKIPPED ? "SKIPPED" : "FAILED", test->name);
  return verdict;
}

static int standin_run(const struct CMUnitTest *tests, size_t count, CMFixtureFunction setup,
                       CMFixtureFunction teardown) {
  void *shared = NULL;
  int failed = 0;
  if (setup && setup(&shared) != 0) return 1;
  for (size_t i = 0; i < count; i++) failed += standin_run_one(&tests[i], shared) == STANDIN_FAILED;
  if (teardown && teardown(&shared) != 0) failed++;
  fprintf(stderr, "%zu tests, %d failed\n", count, failed);
  return failed;
}
#define cmocka_run_group_tests(tests, setup, teardown)                                                                 \
  standin_run(tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)
#define cmocka_run_group_tests_name(name, tests, setup, teardown) cmocka_run_group_tests(tests, setup, teardown)

#endif
