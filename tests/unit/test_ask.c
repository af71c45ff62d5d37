/* Tests of ask.c, answering.c and questions.c: arguments, steps, losses and notes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "unit/mini_trace.h"

/* Two ranks. Rank 3: a thread (track 0) with steps 4 [100,200), 5 [200,300), 6 [300,400), a launch in each, and a
 * stream (track 1) where the work of step 4 runs during step 5; one kernel has no launch. Rank 1: one thread (track
 * 2), step 5. */
struct fixture {
  struct mini *m;
  struct tg__columns *t;
  int launch[3], kernel[4];
};

static struct fixture make(void) {
  struct fixture f = {.m = mini_new()};
  mini_rank(f.m, 3);
  const uint32_t cpu = mini_thread(f.m, 10, 11), gpu = mini_stream(f.m, 0, 7);
  for (int k = 0; k < 3; k++) {
    char name[24];
    snprintf(name, sizeof name, "ProfilerStep#%d", 4 + k);
    mini_slice(f.m, cpu, "user_annotation", name, 100 * (k + 1), 100);
    f.launch[k] = mini_slice(f.m, cpu, "cuda_runtime", "cudaLaunchKernel", 100 * (k + 1) + 50, 10);
    f.kernel[k] = mini_slice(f.m, gpu, "kernel", "gemm", 100 * (k + 1) + 150, 60);
    mini_cause(f.m, f.kernel[k], f.launch[k]);
  }
  f.kernel[3] = mini_slice(f.m, gpu, "kernel", "orphan", 150, 20);
  mini_loss(f.m, TG__LOSS_skipped_syntax, 2, 77);
  mini_rank(f.m, 1);
  mini_slice(f.m, mini_thread(f.m, 20, 21), "user_annotation", "ProfilerStep#5", 1000, 100);
  mini_loss(f.m, TG__LOSS_skipped_syntax, 3, 5);
  mini_loss(f.m, TG__LOSS_bent_no_time, 1, 9);
  f.t = mini_finish(f.m);
  return f;
}

/* The message for one call that must fail with `err`. */
static const char *refusal(struct tg__columns *t, enum tg_err want, const char *question, const char *name,
                           const char *value) {
  static struct tg_error e;
  const struct tg_arg arg = {name, value};
  struct tg_table *table;
  const enum tg_err err = tg__ask_trace(&(struct tg_trace){.columns = t}, question, &arg, name != NULL, &table, &e);
  if (err != want) fail_msg("%s %s=%s: error %d, not %d", question, name, value, err, want);
  assert_null(table);
  return e.text;
}

static void wrong_arguments(void **state) {
  (void)state;
  struct fixture f = make();
  struct tg__columns *t = f.t;
  assert_string_equal(refusal(t, TG_USAGE, "event", NULL, NULL),
                      "there is no question 'event'; did you mean events? (`tachograph questions` lists them all)");
  assert_string_equal(refusal(t, TG_USAGE, "kernles", NULL, NULL),
                      "there is no question 'kernles'; did you mean kernels? (`tachograph questions` lists them all)");
  assert_string_equal(refusal(t, TG_USAGE, "qqqqqqqqqq", NULL, NULL),
                      "there is no question 'qqqqqqqqqq' (`tachograph questions` lists them all)");
  assert_string_equal(
      refusal(t, TG_USAGE, "tracks", "rnak", "1"),
      "the question tracks takes no argument 'rnak'; did you mean rank? (it takes rank, columns, where, sort, limit)");
  assert_string_equal(refusal(t, TG_USAGE, "events", "by", "slices"),
                      "by=slices is not known to the question events; did you mean slice? (it may be slice, mark)");
  assert_string_equal(refusal(t, TG_USAGE, "events", "limit", "-3"),
                      "limit=-3 is not a number of rows: use a whole number, or all");
  assert_string_equal(refusal(t, TG_USAGE, "events", "rank", "x"),
                      "rank=x is not a rank: use a whole number such as 0, or all");
  assert_string_equal(refusal(t, TG_NO_DATA, "events", "rank", "2"),
                      "rank 2 is not in the trace, which holds 2 ranks from 1 to 3");
  assert_string_equal(refusal(t, TG_USAGE, "events", "track", "-1"),
                      "track=-1 is not a track: use a number as listed by the question tracks, or all");
  assert_string_equal(refusal(t, TG_NO_DATA, "events", "track", "3"),
                      "track 3 is not in the trace, which has 3; the question tracks lists them");
  assert_string_equal(refusal(t, TG_NO_DATA, "events", "step", "9"),
                      "step 9 is not in rank 3, which has 3 steps numbered 4 to 6");
  assert_string_equal(refusal(t, TG_USAGE, "events", "step", "6:4"),
                      "step=6:4 runs backwards: the smaller number comes first");
  assert_non_null(strstr(refusal(t, TG_USAGE, "events", "step", "last"), "step=last is not understood"));
  assert_non_null(strstr(refusal(t, TG_USAGE, "events", "step", "4,"), "step= is not understood"));
  assert_non_null(strstr(refusal(t, TG_USAGE, "events", "step", "99999999999999999999"), "is not understood"));
  assert_non_null(strstr(refusal(t, TG_USAGE, "events", "where", "dur > 5"), "did you mean dur_ns?"));
  assert_non_null(strstr(refusal(t, TG_USAGE, "events", "sort", "durns"), "did you mean dur_ns?"));
  const struct tg_arg twice[] = {{"rank", "1"}, {"rank", "3"}};
  struct tg_table *table;
  struct tg_error e;
  assert_int_equal(tg__ask_trace(&(struct tg_trace){.columns = t}, "tracks", twice, 2, &table, &e), TG_USAGE);
  assert_string_equal(e.text, "the argument rank is given twice");
  mini_free(f.m);
}

static void missing_data(void **state) {
  (void)state;
  struct mini *m = mini_new();
  mini_slice(m, mini_thread(m, 1, 1), "cpu_op", "aten::mm", 0, 5);
  struct tg__columns *t = mini_finish(m);
  static const char *const device[] = {"kernels", "launches", "gaps"};
  for (size_t i = 0; i < 3; i++)
    assert_non_null(strstr(refusal(t, TG_NO_DATA, device[i], NULL, NULL), "ProfilerActivity.CUDA"));
  assert_non_null(strstr(refusal(t, TG_NO_DATA, "memory", NULL, NULL), "profile_memory=True"));
  assert_non_null(strstr(refusal(t, TG_NO_DATA, "events", "step", "1"), "prof.step()"));
  mini_free(m);
}

/* Ids of the slices an events call returns, as text "0 3 5". */
static const char *ids(struct tg__columns *t, const char *name, const char *value, const char *name2,
                       const char *value2) {
  static char text[128];
  struct tg_table *table = mini_ask(t, "events", name, value, name2, value2, NULL);
  size_t len = 0;
  text[0] = 0;
  for (size_t i = 0; i < table->rows; i++)
    len += (size_t)snprintf(text + len, sizeof text - len, "%s%d", i ? " " : "", (int)mini_int(table, i, "id"));
  tg__table_free(table);
  return text;
}

static void selecting(void **state) {
  (void)state;
  struct fixture f =
      make(); /* slices 0..5: step, launch, step, launch, step, launch; 6..9: orphan and kernels; 10: step of rank 1 */
  assert_string_equal(ids(f.t, NULL, NULL, NULL, NULL), "0 1 2 3 4 5 6 7 8 9 10");
  assert_string_equal(ids(f.t, "rank", "1", NULL, NULL), "10");
  assert_string_equal(ids(f.t, "track", "1", NULL, NULL), "6 7 8 9");
  assert_string_equal(ids(f.t, "track", "1", "rank", "1"), "");
  assert_string_equal(ids(f.t, "step", "5", NULL, NULL), "2 3 7 10"); /* events: what starts inside */
  assert_string_equal(ids(f.t, "step", "5", "rank", "3"), "2 3 7");
  assert_string_equal(ids(f.t, "step", "4:5", "rank", "3"), "0 1 2 3 6 7");
  assert_string_equal(ids(f.t, "step", "4,6", "rank", "3"), "0 1 4 5 6 8");
  assert_string_equal(ids(f.t, "step", "4,5:6", "track", "0"), "0 1 2 3 4 5");
  assert_string_equal(ids(f.t, "limit", "2", NULL, NULL), "0 1");
  assert_string_equal(ids(f.t, "limit", "0", NULL, NULL), "");
  assert_string_equal(ids(f.t, "sort", "dur_ns asc", "limit", "3"), "1 3 5");
  assert_string_equal(ids(f.t, "limit", "2", "sort", "-start_ns"), "10 9");
  assert_string_equal(ids(f.t, "limit", "1", "where", "name = 'orphan'"), "6");
  mini_free(f.m);
}

static void device_work_belongs_to_its_launch(void **state) {
  (void)state;
  struct fixture f = make();
  struct tg__window windows[] = {{.start_ns = 100, .end_ns = 200, .rank = 0, .step = 0, .latest_end_ns = 200}};
  const struct tg__ask a = {
      .rank = TG_NONE, .track = TG_NONE, .has_steps = true, .windows = windows, .window_count = 1};
  assert_true(tg__ask_has_slice(&a, f.t, 1, mini_id(f.m, f.kernel[0]))); /* runs later than its step */
  assert_false(tg__ask_has_slice(&a, f.t, 1, mini_id(f.m, f.kernel[1])));
  assert_false(tg__ask_has_slice(&a, f.t, 1, mini_id(f.m, f.kernel[3]))); /* inside by time, but of unknown launch */
  assert_true(tg__ask_has_slice(&a, f.t, 0, mini_id(f.m, f.launch[0])));
  struct tg_table *t = mini_ask(f.t, "kernels", "step", "4", NULL);
  assert_true(t->note_count > 1);
  assert_string_equal(t->notes[t->note_count - 2],
                      "1 device events have no known launch, so they belong to no step and are left out here");
  assert_non_null(strstr(t->notes[t->note_count - 1], "1 of 2 ranks is left out"));
  tg__table_free(t);
  t = mini_ask(f.t, "events", "step", "4", NULL); /* goes by time */
  assert_int_equal(t->note_count, 1);             /* of the rank without step 4, and of nothing else */
  tg__table_free(t);
  mini_free(f.m);
}

/* Steps of two threads may overlap: a moment counts when any of the windows holds it. */
static void overlapping_windows(void **state) {
  (void)state;
  struct tg__window windows[] = {{.start_ns = 0, .end_ns = 100, .latest_end_ns = 100},
                                 {.start_ns = 10, .end_ns = 20, .latest_end_ns = 100},
                                 {.start_ns = 30, .end_ns = 40, .latest_end_ns = 100},
                                 {.start_ns = 200, .end_ns = 210, .latest_end_ns = 210},
                                 {.start_ns = 5, .end_ns = 6, .rank = 2, .latest_end_ns = 6}};
  const struct tg__ask a = {
      .rank = TG_NONE, .track = TG_NONE, .has_steps = true, .windows = windows, .window_count = 5};
  static const struct {
    uint32_t rank;
    int64_t ns;
    bool in;
  } cases[] = {{0, -1, false}, {0, 0, true},    {0, 25, true}, {0, 99, true}, {0, 100, false},
               {0, 205, true}, {0, 210, false}, {1, 5, false}, {2, 5, true},  {2, 6, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_int_equal(tg__ask_has_time(&a, cases[i].rank, cases[i].ns), cases[i].in);
}

static void losses_beside_the_rows(void **state) {
  (void)state;
  struct fixture f = make();
  struct tg_table *t = mini_ask(f.t, "tracks", NULL);
  assert_int_equal(t->loss_count, 2);
  assert_string_equal(t->losses[0].name, "skipped_syntax");
  assert_int_equal(t->losses[0].count, 5); /* of both ranks; the offset is the first rank's */
  assert_int_equal(t->losses[0].offset, 77);
  assert_string_equal(t->losses[1].name, "bent_no_time");
  tg__table_free(t);
  t = mini_ask(f.t, "tracks", "rank", "1", NULL);
  assert_int_equal(t->losses[0].count, 3);
  assert_int_equal(t->losses[0].offset, 5);
  tg__table_free(t);
  mini_free(f.m);
}

static void list_of_questions(void **state) {
  (void)state;
  for (size_t k = 0; k < tg__catalog.count; k++)
    assert_ptr_equal(tg__catalog_find(&tg__catalog, tg__catalog.questions[k].name), &tg__catalog.questions[k]);
  assert_null(tg__catalog_find(&tg__catalog, "nothing"));
  const struct tg__question *q = tg__catalog_find(&tg__catalog, "gaps"),
                            *last = tg__catalog_find(&tg__catalog, "findings"),
                            *few = tg__catalog_find(&tg__catalog, "losses");
  assert_string_equal(tg__question_argument(q, 0)->name, "rank");
  assert_string_equal(tg__question_argument(q, 3)->name, "min_us");
  assert_string_equal(tg__question_argument(q, 3)->fallback, "0");
  assert_string_equal(tg__question_argument(q, 4)->name, "where");
  assert_string_equal(tg__question_argument(q, 6)->name, "limit");
  assert_null(tg__question_argument(q, 7));
  assert_string_equal(tg__question_argument(few, 1)->name, "where");
  assert_string_equal(tg__question_column(q, 0)->name, "rank");
  assert_string_equal(tg__question_column(q, 9)->name, "op");
  assert_null(tg__question_column(q, 10));
  assert_string_equal(tg__question_column(last, 13)->name, "method");
  assert_string_equal(tg__question_column(last, 14)->name, "saving_bytes");
  assert_string_equal(tg__question_column(last, 16)->name, "saving_high_ns");
  assert_string_equal(tg__question_column(last, 18)->name, "model_ns");
  assert_null(tg__question_column(last, 19));
  assert_string_equal(tg__question_argument(last, 0)->name, "rank");
  assert_null(tg__question_argument(last, 4));
}

/* Whichever allocation fails, the answer is an error or whole. */
static void no_memory(void **state) {
  (void)state;
  struct fixture f = make();
  static const char *const questions[] = {"tracks", "events", "losses", "annotations", "overview"};
  for (size_t q = 0; q < sizeof questions / sizeof *questions; q++) {
    const struct tg_arg args[] = {{"where", "rank = 3"}, {"sort", "rank"}};
    assert_true(mini_starve(f.t, questions[q], args, 2) > 0);
  }
  mini_free(f.m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wrong_arguments),     cmocka_unit_test(missing_data),
      cmocka_unit_test(selecting),           cmocka_unit_test(device_work_belongs_to_its_launch),
      cmocka_unit_test(overlapping_windows), cmocka_unit_test(losses_beside_the_rows),
      cmocka_unit_test(list_of_questions),   cmocka_unit_test(no_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
