/* Findings from all steps that a run timed, of which the recording holds a few. Figures added up by hand: a usual step
 * takes 10 ms. */
#include "unit/findings_scene.h"

enum { RECORDED = 15, FIRST_RECORDED = 20, TIMED = 200 };
#define MS (1000 * US)

struct steps {
  int64_t ns[TIMED], cpu_ns[TIMED];
  int count;
};

static bool is_recorded(int i) { return i >= FIRST_RECORDED && i < FIRST_RECORDED + RECORDED; }

/* One in five that was not recorded has some noise, never twice a usual step. */
static struct steps usual(void) {
  struct steps s = {.count = TIMED};
  for (int i = 0; i < TIMED; i++) s.ns[i] = s.cpu_ns[i] = 10 * MS + (i * 37 % 5 == 0 && !is_recorded(i) ? MS : 0);
  return s;
}

static bool has_note(const struct tg_table *t, const char *words) {
  for (size_t i = 0; i < t->note_count; i++)
    if (strstr(t->notes[i], words)) return true;
  return false;
}

/* Steps 20 to 34 were recorded; every one of them is usual. */
static struct tg_table *judge(const struct steps *steps, const char *long_steps, bool is_busy) {
  static char run[TIMED * 50 + 4096];
  struct scene s = begin_of(RECORDED);
  for (int i = 0; i < RECORDED; i++) {
    s.at = i * STEP;
    call(&s, "aten::conv2d", 0, 9800, "train.py(33): train");
  }
  int n = snprintf(run, sizeof run, "{\"timed\":[");
  for (int i = 0; i < steps->count; i++)
    n += snprintf(run + n, sizeof run - (size_t)n, "%s%lld,%lld,%d", i ? "," : "", (long long)steps->ns[i],
                  (long long)steps->cpu_ns[i], is_recorded(i));
  snprintf(run + n, sizeof run - (size_t)n, "],\"long_steps\":[%s]}", long_steps);
  struct tg__columns *t = mini_finish(s.m);
  assert_true(tg__trace_add_meta(t, "run", run));
  if (is_busy)
    assert_true(tg__trace_add_meta(t, "conditions", "{\"cpu_cores\":2,\"core_wait_pct\":20,\"others_pct\":150}"));
  struct tg_table *table = mini_ask(t, "findings", NULL);
  mini_free(s.m);
  return table;
}

static void expect_stalls(const struct steps *s, bool is_busy, size_t wanted) {
  struct tg_table *t = judge(s, "", is_busy);
  assert_int_equal(count(t, "periodic-stall"), wanted);
  tg__table_free(t);
}

static void test_every_25th_outside_the_window(void **state) {
  struct steps s = usual();
  int64_t all = 0;
  for (int i = 4; i < TIMED; i += 25) s.ns[i] = 210 * MS, s.cpu_ns[i] = 120 * MS; /* 4, 29 is recorded, 54, … */
  s.ns[71] = 350 * MS;                                                            /* chance */
  for (int i = 0; i < TIMED; i++) all += s.ns[i];
  struct tg_table *t = judge(&s,
                             "29,\"torch/nn/a.py(1): f;train.py(40): evaluate;train.py(60): main\","
                             "54,\"train.py(40): evaluate;train.py(60): main\",71,\"train.py(9): other\"",
                             false);
  const size_t row = mini_row(t, "cause", "periodic-stall");
  assert_int_equal(mini_int(t, row, "cost_ns"), 8 * MS); /* 8 of 200 are 200 ms too long */
  assert_true(fabs(mini_real(t, row, "share_pct") - 100 * 1600.0 * (double)MS / (double)all) < 1e-9);
  assert_int_equal(mini_int(t, row, "saving_ns"), 8 * MS - 8 * MS / 10);
  assert_string_equal(mini_cell(t, row, "where"), "train.py(40): evaluate");
  assert_int_equal(mini_int(t, row, "line"), 40);
  assert_string_equal(mini_cell(t, row, "severity"), "high");
  assert_non_null(strstr(mini_cell(t, row, "evidence"),
                         "every 25th is long, as step 4: 8 of 8 seen, the longest 210.00 "
                         "ms (120.00 ms on a core) against a usual 10.00 ms"));
  tg__table_free(t);
}

static void test_without_a_stack_the_step_is_the_place(void **state) {
  struct steps s = usual();
  for (int i = 49; i < TIMED; i += 50) s.ns[i] = 310 * MS;
  struct tg_table *t = judge(&s, "", false);
  assert_string_equal(mini_cell(t, mini_row(t, "cause", "periodic-stall"), "where"), "every 50th step, as step 49");
  tg__table_free(t);
}

static void test_long_steps_that_come_at_no_distance(void **state) {
  static const int chance[] = {41, 58, 93, 99, 130, 171};
  struct steps s = usual();
  for (size_t i = 0; i < sizeof chance / sizeof *chance; i++) s.ns[chance[i]] = 210 * MS;
  expect_stalls(&s, false, 0);
  expect_stalls(&s, true, 0);
  s = usual(); /* one, and two */
  s.ns[100] = 900 * MS;
  expect_stalls(&s, false, 0);
  s.ns[150] = 900 * MS;
  expect_stalls(&s, false, 0);
  s = usual(); /* twice a usual step is not more than twice */
  for (int i = 9; i < TIMED; i += 10) s.ns[i] = 20 * MS;
  expect_stalls(&s, false, 0);
  s = usual(); /* together worth less than 5 % */
  for (int i = 39; i < TIMED; i += 40) s.ns[i] = 22 * MS;
  expect_stalls(&s, false, 0);
}

/* Three at equal distances among few steps may be chance where others keep the machine busy. */
static void test_three_on_a_busy_machine(void **state) {
  struct steps s = usual();
  s.count = 66;
  for (int i = 5; i < s.count; i += 30) s.ns[i] = 210 * MS;
  expect_stalls(&s, false, 1);
  expect_stalls(&s, true, 0);
  s.count = TIMED;
  for (int i = 5; i < s.count; i += 30) s.ns[i] = 210 * MS;
  expect_stalls(&s, true, 1);
}

static void expect_note(const struct steps *s, const char *words, bool wanted) {
  struct tg_table *t = judge(s, "", false);
  assert_int_equal(has_note(t, words), wanted);
  tg__table_free(t);
}

static void test_warm_up(void **state) {
  struct steps s = usual();
  s.ns[0] = 1234 * MS, s.ns[1] = 986 * MS;
  expect_note(&s, "warm-up: the first 2 of 200 timed steps take 1110.00 ms each, the usual one 10.00 ms", true);
  expect_stalls(&s, false, 0);
  s.ns[0] = 20 * MS, s.ns[1] = 10 * MS;
  expect_note(&s, "warm-up", false);
}

static void test_steps_that_grow(void **state) {
  struct steps s = usual();
  for (int i = 0; i < TIMED; i++)
    s.ns[i] = s.cpu_ns[i] = 10 * MS + i * MS / 20; /* the 19th, the 182nd of those not recorded */
  expect_note(&s, "steps become longer: 10.90 ms in the first fifth of the timed ones, 19.05 ms in the last", true);
  expect_note(&s, "two kinds", false);
  for (int i = 0; i < TIMED; i++) s.ns[i] = 10 * MS + i * MS / 100; /* to 12 ms */
  expect_note(&s, "steps become longer", false);
  for (int i = 0; i < TIMED; i++) s.ns[i] = i < 100 ? 10 * MS : i < 150 ? 20 * MS : 13 * MS; /* and back */
  expect_note(&s, "steps become longer", false);
}

static void test_two_kinds_of_steps(void **state) {
  struct steps s = usual();
  for (int i = 0; i < TIMED; i++)
    if (i * 7919 % 13 < 4) s.ns[i] = 18 * MS;
  expect_note(&s, "steps of two kinds: ", true);
  for (int i = 0; i < TIMED; i++) s.ns[i] = 10 * MS + (i * 7919 % 200) * MS / 20; /* evenly from 10 to 20 ms */
  expect_note(&s, "steps of two kinds: ", false);
}

static void expect_silence(const char *run) {
  struct scene s = begin_of(RECORDED);
  call(&s, "aten::conv2d", 0, 9800, NULL);
  struct tg__columns *t = mini_finish(s.m);
  assert_true(tg__trace_add_meta(t, "run", run));
  struct tg_table *table = mini_ask(t, "findings", NULL);
  assert_int_equal(count(table, "periodic-stall"), 0);
  assert_false(has_note(table, "timed steps"));
  tg__table_free(table);
  mini_free(s.m);
}

static void test_numbers_that_are_none(void **state) {
  expect_silence("{\"timed\":[1,2,0,3,4,0,5,6,0,7,8,0,9,10,0,-1,2,0,3,4,0,5,6,0,7,8,0]}");
  expect_silence("{\"timed\":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}");
  expect_silence("{\"timed\":[1,1,0,9223372036854775807,1,0,1,1,0,1,1,0,1,1,0,1,1,0,1,1,0,1,1,0]}");
  expect_silence("{\"timed\":{\"a\":[1]},\"long_steps\":7}");
  expect_silence("{\"timed\":[1,2");
}

/* ---- warm-up in the window ------------------------------------------------------------------- */

/* 12 steps of 10 ms, the first ones of so many more. */
static struct tg_table *ask_of_first(const int64_t first_ms[3], const char *question) {
  struct mini *m = mini_new();
  mini_rank(m, 0);
  const uint32_t thread = mini_thread(m, 1, 10);
  int64_t at = 0;
  for (int i = 0; i < 12; i++) {
    char name[32];
    const int64_t ns = i < 3 ? first_ms[i] * MS : 10 * MS;
    snprintf(name, sizeof name, "ProfilerStep#%d", i);
    mini_slice(m, thread, "user_annotation", name, at, ns);
    mini_slice(m, thread, "cpu_op", "aten::conv2d", at, ns - 100 * US);
    at += ns;
  }
  struct tg_table *t = strcmp(question, "steps") == 0 ? mini_ask(mini_finish(m), question, "by", "summary", NULL)
                                                      : mini_ask(mini_finish(m), question, NULL);
  mini_free(m);
  return t;
}

static void test_warm_up_in_the_window(void **state) {
  static const int64_t series[] = {1234, 987, 11}, one[] = {21, 10, 10}, twice[] = {20, 10, 10}, late[] = {10, 500, 10};
  struct tg_table *t = ask_of_first(series, "findings");
  assert_true(
      has_note(t, "window includes warm-up: the first 2 of 12 steps, 1110.50 ms each against a usual 10.00 ms"));
  assert_true(has_note(t, "shares are of 10 steps, median 10.00 ms, mean 10.10 ms"));
  tg__table_free(t);
  t = ask_of_first(series, "steps");
  assert_true(has_note(t, "warm-up is left out: the first 2 steps take 1110.50 ms each, the usual one 10.00 ms"));
  assert_int_equal(mini_int(t, mini_row(t, "step", "mean"), "total_ns"), 10100 * US);
  tg__table_free(t);
  t = ask_of_first(one, "findings");
  assert_true(
      has_note(t, "the first 1 of 12 steps, 21.00 ms against a usual 10.00 ms; means and shares are without it"));
  tg__table_free(t);
  t = ask_of_first(twice, "findings"); /* not more than twice */
  assert_false(has_note(t, "warm-up"));
  tg__table_free(t);
  t = ask_of_first(late, "findings"); /* long, and not at the start */
  assert_false(has_note(t, "warm-up"));
  tg__table_free(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_25th_outside_the_window),
      cmocka_unit_test(test_without_a_stack_the_step_is_the_place),
      cmocka_unit_test(test_long_steps_that_come_at_no_distance),
      cmocka_unit_test(test_three_on_a_busy_machine),
      cmocka_unit_test(test_warm_up),
      cmocka_unit_test(test_steps_that_grow),
      cmocka_unit_test(test_two_kinds_of_steps),
      cmocka_unit_test(test_numbers_that_are_none),
      cmocka_unit_test(test_warm_up_in_the_window),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
