/* Findings beside other programs: what a thread waited for a core is the machine's doing. Figures added up by hand;
 * steps of 10 ms, long ones of 30. */
#include "unit/findings_scene.h"

enum { MANY = 12, LONG_EVERY = 4 };

/* Every fourth step takes 30 ms and does more calls of one operator there. wait_us: of the 20 ms more, how much the
 * thread waited for a core; negative: not recorded. */
static struct tg_table *long_steps(int64_t wait_us) {
  struct mini *m = mini_new();
  mini_rank(m, 0);
  const uint32_t thread = mini_thread(m, 1, 10);
  int64_t at = 0;
  for (int i = 0; i < MANY; i++) {
    char name[32];
    const bool is_long = i % LONG_EVERY == 2;
    const int64_t us = is_long ? 30000 : 10000, waited = is_long ? wait_us : 0;
    snprintf(name, sizeof name, "ProfilerStep#%d", i + 1);
    mini_slice(m, thread, "user_annotation", name, at, us * US);
    if (wait_us >= 0) {
      mini_arg_int(m, "Thread CPU us", us - waited);
      mini_arg_int(m, "Core wait us", waited);
      mini_arg_int(m, "Preemptions", 0);
    }
    mini_slice(m, thread, "cpu_op", "aten::conv2d", at, 9000 * US);
    mini_arg_str(m, "Call stack", "train.py(9): fit");
    if (is_long) {
      mini_slice(m, thread, "cpu_op", "aten::copy_", at + 9500 * US, 20000 * US);
      mini_arg_str(m, "Call stack", "train.py(15): save");
    }
    at += us * US;
  }
  struct tg_table *t = mini_ask(mini_finish(m), "findings", NULL);
  mini_free(m);
  return t;
}

static void expect_stall(int64_t wait_us, size_t count_wanted) {
  struct tg_table *t = long_steps(wait_us);
  assert_int_equal(count(t, "periodic-stall"), count_wanted);
  tg__table_free(t);
}

static void test_long_steps(void **state) {
  expect_stall(-1, 1);    /* nothing is known of the machine */
  expect_stall(0, 1);     /* all of it on a core */
  expect_stall(19000, 0); /* without the wait they are as long as the others */
}

/* Of 10 ms each step waits 6 for a core, and nothing of it is the program's. */
static void test_wait_is_a_column(void **state) {
  struct scene s = begin();
  mini_arg_int(s.m, "Thread CPU us", 4000);
  mini_arg_int(s.m, "Core wait us", 6000);
  mini_arg_int(s.m, "Preemptions", 7);
  s.at = 0;
  call(&s, "aten::conv2d", 0, 9000, NULL);
  struct tg_table *t = mini_ask(mini_finish(s.m), "steps", NULL);
  mini_free(s.m);
  assert_int_equal(mini_int(t, 2, "thread_cpu_ns"), 4000 * US);
  assert_int_equal(mini_int(t, 2, "core_wait_ns"), 6000 * US);
  assert_int_equal(mini_int(t, 2, "preemptions"), 7);
  assert_true(mini_int(t, 0, "core_wait_ns") == TG_NULL_INT);
  tg__table_free(t);
}

/* Of 10 ms a step cannot wait 50: it was on a core for 4, so it waited 6 at most, and the rest was before it. */
static void test_no_step_waits_longer_than_it_is(void **state) {
  const int64_t cpu_us[] = {4000, 12000, 9000}, told_us[] = {50000, 11000, 10000}, wanted_us[] = {6000, 0, 10000};
  for (size_t i = 0; i < 3; i++) {
    struct scene s = begin();
    mini_arg_int(s.m, "Thread CPU us", cpu_us[i]);
    mini_arg_int(s.m, "Core wait us", told_us[i]);
    s.at = 0;
    call(&s, "aten::conv2d", 0, 9000, NULL);
    struct tg_table *t = mini_ask(mini_finish(s.m), "steps", NULL);
    mini_free(s.m);
    assert_int_equal(mini_int(t, 2, "core_wait_ns"), wanted_us[i] * US);
    tg__table_free(t);
  }
}

static struct scene many_steps(int64_t cpu_us, int64_t core_wait_us) {
  struct scene s = {.m = mini_new()};
  mini_rank(s.m, 0);
  s.thread = mini_thread(s.m, 1, 10);
  for (int i = 0; i < MANY; i++) {
    mark_step(&s, i);
    mini_arg_int(s.m, "Thread CPU us", cpu_us);
    mini_arg_int(s.m, "Core wait us", core_wait_us);
    mini_arg_int(s.m, "Preemptions", 0);
  }
  return s;
}

static void counter(struct scene *s, uint32_t track, const char *name, int64_t at, int64_t value) {
  mini_mark(s->m, track, "", name, 'C', at);
  mini_arg_int(s->m, "value", value);
}

/* Ten times a second, what a process used, what its children did and what all others did, in hundredths of a core;
 * negative: not recorded. */
static void counters(struct scene *s, uint32_t track, int64_t own, int64_t children, int64_t others) {
  for (int i = 0; i < MANY; i++) {
    counter(s, track, "process CPU %", i * STEP, own);
    if (children >= 0) counter(s, track, "child processes CPU %", i * STEP, children);
    if (others >= 0) counter(s, track, "other processes CPU %", i * STEP, others);
  }
}

/* Steps of 10 ms that begin with a wait for the loader, but for the first few. On a busy machine the thread
 * has no core for 1 ms of each. */
static struct tg_table *loader_waits(bool is_busy, int without, const char *next, int64_t us) {
  struct scene s = many_steps(5000, is_busy ? 1000 : 0);
  if (is_busy) counters(&s, s.thread, 30, -1, 90);
  for (int i = 0; i < MANY; i++) {
    s.at = i * STEP;
    if (i >= without) mini_slice(s.m, s.thread, "user_annotation", next, s.at, us * US);
    call(&s, "aten::conv2d", 4500, 5000, NULL);
  }
  return ask(&s);
}

static bool has_note(const struct tg_table *t, const char *words) {
  for (size_t i = 0; i < t->note_count; i++)
    if (strstr(t->notes[i], words)) return true;
  return false;
}

/* 4 of 10 ms are 40 %. What two of twelve steps do without is not certain on a busy machine. */
static void test_waiting_for_the_loader(void **state) {
  static const char next[] = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
  struct tg_table *t = loader_waits(false, 0, next, 4000);
  assert_string_equal(mini_cell(t, mini_row(t, "cause", "loader-in-main-process"), "severity"), "high");
  tg__table_free(t);
  t = loader_waits(true, 0, next, 4000);
  assert_string_equal(mini_cell(t, mini_row(t, "cause", "loader-in-main-process"), "severity"), "medium");
  assert_true(has_note(t, "nothing is graded high"));
  tg__table_free(t);
  t = loader_waits(false, 2, next, 4000);
  assert_int_equal(count(t, "loader-in-main-process"), 1);
  tg__table_free(t);
  t = loader_waits(true, 2, next, 4000);
  assert_int_equal(count(t, "loader-in-main-process"), 0);
  assert_true(has_note(t, "other programs kept the machine busy"));
  tg__table_free(t);
}

/* Workers get fewer cores on a busy machine: a wait of 20 % may be that, one of 40 % is not all of it. */
static void test_waiting_for_workers(void **state) {
  static const char next[] = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";
  static const struct {
    bool is_busy;
    int64_t us;
    size_t count;
  } cases[] = {{false, 2000, 1}, {true, 2000, 0}, {true, 4000, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct tg_table *t = loader_waits(cases[i].is_busy, 0, next, cases[i].us);
    assert_int_equal(count(t, "loader-too-slow"), cases[i].count);
    tg__table_free(t);
  }
}

/* 2 of 10 ms in the loader's next, while the thread is on a core for all but 0.4 ms, or 1.5, of each step. */
static void test_time_on_a_core_is_no_wait(void **state) {
  for (int waits = 0; waits < 2; waits++) {
    struct scene s = many_steps(waits ? 8500 : 9600, 0);
    for (int i = 0; i < MANY; i++) {
      s.at = i * STEP;
      mini_slice(s.m, s.thread, "user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
                 s.at, 2000 * US);
      call(&s, "aten::conv2d", 4500, 5000, NULL);
    }
    struct tg_table *t = ask(&s);
    assert_int_equal(count(t, "loader-too-slow"), waits);
    if (waits) assert_int_equal(mini_int(t, mini_row(t, "cause", "loader-too-slow"), "cost_ns"), 2000 * US);
    if (waits) assert_int_equal(mini_int(t, mini_row(t, "cause", "loader-too-slow"), "saving_ns"), 1500 * US);
    tg__table_free(t);
  }
}

/* A function of Python takes 0.9 ms on a core in each step of 10 ms, and stands still in it for 5 ms more in every
 * other one; 20 us of a pause between operators do not count. Steps that have no core for 8 ms have 2 ms left, of which
 * 0.88 ms are 44 %; steps that have none for 1 ms have 9 left, of which they are 9.8 %. */
static void test_python_without_waits_for_a_core(void **state) {
  for (int is_little = 0; is_little < 2; is_little++) {
    struct scene s = many_steps(is_little ? 9000 : 2000, is_little ? 1000 : 8000);
    counters(&s, s.thread, 30, -1, 90);
    for (int i = 0; i < MANY; i++) {
      s.at = i * STEP;
      const int64_t us = i % 2 ? 5900 : 900;
      mini_slice(s.m, s.thread, "python_function", "train.py(9): prepare", s.at, us * US);
      call(&s, "aten::conv2d", us, 10000 - us, NULL);
    }
    struct tg_table *t = ask(&s);
    assert_int_equal(count(t, "slow-python-transform"), !is_little);
    assert_int_equal(has_note(t, "slow-python-transform"), is_little);
    const size_t row = is_little ? 0 : mini_row(t, "cause", "slow-python-transform");
    if (!is_little) assert_int_equal(mini_int(t, row, "cost_ns"), 880 * US);
    if (!is_little) assert_int_equal((int64_t)mini_real(t, row, "share_pct"), 44);
    tg__table_free(t);
  }
}

/* ---- processes of the job itself ------------------------------------------------------------- */

/* Two workers use 0.7 of two cores each, and the loop has none for a tenth of its time. Beside them another program may
 * use 0.4, and in the second case the workers belong to another program. */
static void expect_workers(int recorded, int64_t children, int64_t others, size_t count_wanted) {
  static const char next[] = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";
  struct scene s = many_steps(3000, 1000);
  counters(&s, s.thread, 30, children, others);
  for (int i = 0; i < MANY; i++) {
    s.at = i * STEP;
    mini_slice(s.m, s.thread, "user_annotation", next, s.at, 2500 * US);
    call(&s, "aten::conv2d", 2500, 7400, NULL);
  }
  for (int i = 0; i < recorded; i++) {
    const uint32_t worker = mini_thread(s.m, 20 + i, 20 + i);
    counters(&s, worker, 70, children < 0 ? -1 : 0, 100);
    for (int k = 0; k < 4 * MANY; k++) { /* rests before it is closed: no part of what the steps had to share */
      mini_mark(s.m, worker, "", "process CPU %", 'C', 1000 * STEP + k * STEP);
      mini_arg_int(s.m, "value", 0);
    }
  }
  struct tg__columns *const trace = mini_finish(s.m);
  assert_true(tg__trace_add_meta(trace, "conditions", "{\"cpu_cores\": 2}"));
  struct tg_table *t = mini_ask(trace, "findings", NULL);
  mini_free(s.m);
  assert_int_equal(count(t, "loader-too-slow"), count_wanted);
  assert_int_equal(has_note(t, "other programs kept the machine busy"), !count_wanted);
  assert_int_equal(has_note(t, "nothing found above 5 %; withheld: loader-too-slow, 25.0 % (other programs"),
                   !count_wanted);
  tg__table_free(t);
}

static void test_workers_are_no_other_programs(void **state) {
  expect_workers(2, -1, 140, 1);
  expect_workers(2, -1, 180, 0);
  expect_workers(0, -1, 140, 0);
}

/* The same where children are counted apart, recorded or not: they are no others, and are not taken off twice. Four
 * workers of which two live at a time use 1.4 cores together, and not 2.8. */
static void test_children_are_no_other_programs(void **state) {
  expect_workers(0, 140, 0, 1);
  expect_workers(0, 140, 20, 1);
  expect_workers(0, 140, 40, 0);
  expect_workers(2, 140, 0, 1);
  expect_workers(2, 140, 40, 0);
  expect_workers(4, 140, 40, 0);
}

/* Three samples, of 100, 1 and 1 ms: on average others use 0.14 cores, or 0.49. */
static void test_samples_count_by_their_time(void **state) {
  static const int64_t values[2][3] = {{10, 200, 200}, {50, 0, 0}};
  for (int is_busy = 0; is_busy < 2; is_busy++) {
    struct scene s = many_steps(5000, 1000);
    for (int i = 0; i < 3; i++) {
      counter(&s, s.thread, "process CPU %", (100 + i) * 1000 * US, 30);
      counter(&s, s.thread, "other processes CPU %", (100 + i) * 1000 * US, values[is_busy][i]);
    }
    struct tg_table *t = ask(&s);
    assert_int_equal(has_note(t, "other programs kept the machine busy"), is_busy);
    tg__table_free(t);
  }
}

/* Where no figure says which program had the cores, the machine is not called busy: nothing is withheld, and nothing is
 * high. */
static void test_who_had_the_core_is_not_known(void **state) {
  static const char next[] = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
  struct scene s = many_steps(5000, 1000);
  for (int i = 0; i < MANY; i++) {
    s.at = i * STEP;
    mini_slice(s.m, s.thread, "user_annotation", next, s.at, 4000 * US);
    call(&s, "aten::conv2d", 4500, 5000, NULL);
  }
  struct tg_table *t = ask(&s);
  assert_string_equal(mini_cell(t, mini_row(t, "cause", "loader-in-main-process"), "severity"), "medium");
  assert_false(has_note(t, "other programs kept the machine busy"));
  assert_true(
      has_note(t, "the loop had no core for 10 % of its time, and which program had it is not known, so nothing is "
                  "graded high"));
  tg__table_free(t);
}

/* What a recording without counters states of all of it: the same rules. */
static void test_use_in_the_conditions(void **state) {
  static const struct {
    const char *conditions;
    size_t count;
  } cases[] = {{"{\"cpu_cores\": 2}", 1},
               {"{\"cpu_cores\": 2, \"core_wait_pct\": 9}", 1},
               {"{\"cpu_cores\": 2, \"core_wait_pct\": 9, \"others_pct\": 90}", 0},
               {"{\"cpu_cores\": 2, \"core_wait_pct\": 9, \"process_pct\": 190, \"others_pct\": 10}", 1},
               {"{\"cpu_cores\": 2, \"core_wait_pct\": 2, \"process_pct\": 90, \"others_pct\": 90}", 0},
               {"{\"cpu_cores\": 8, \"core_wait_pct\": 2, \"process_pct\": 90, \"others_pct\": 90}", 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct scene s = begin_of(MANY);
    for (int k = 0; k < MANY; k++) {
      s.at = k * STEP;
      mini_slice(s.m, s.thread, "user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
                 s.at, 2500 * US);
      call(&s, "aten::conv2d", 2500, 7400, NULL);
    }
    struct tg__columns *const trace = mini_finish(s.m);
    assert_true(tg__trace_add_meta(trace, "conditions", cases[i].conditions));
    struct tg_table *t = mini_ask(trace, "findings", NULL);
    mini_free(s.m);
    assert_int_equal(count(t, "loader-too-slow"), cases[i].count);
    assert_int_equal(has_note(t, "other programs kept the machine busy"), !cases[i].count);
    tg__table_free(t);
  }
}

/* A checkpoint of 6.4 ms, 5.3 % of all, in one step of twelve: whether it comes again is not known. In two: it does. */
static void expect_saves(int first, int second, size_t count_wanted) {
  struct scene s = begin_of(MANY);
  for (int i = 0; i < MANY; i++) {
    const bool saves = i == first || i == second;
    s.at = i * STEP;
    call(&s, "aten::conv2d", 0, saves ? 3400 : 9900, NULL);
    if (saves) mini_slice(s.m, s.thread, "user_annotation", "torch.save", s.at + 3500 * US, 6400 * US);
  }
  struct tg_table *t = ask(&s);
  assert_int_equal(count(t, "sync-checkpoint"), count_wanted);
  assert_int_equal(has_note(t, "sync-checkpoint, 5.3 % (in one of 12 steps, 6.40 ms"), !count_wanted);
  tg__table_free(t);
}

static void test_one_checkpoint(void **state) {
  expect_saves(7, 7, 0);
  expect_saves(3, 7, 1);
}

static const char busy[] = "{\"core_wait_pct\":40,\"others_pct\":90}";

/* Rank 1 works 8 of each 10 ms in one operator, and rank 0 waits for it from quick_us on. */
static struct tg_table *two_ranks(int64_t quick_us, const char *dims_of_slow, const char *conditions) {
  struct scene s = begin_of(MANY);
  for (int r = 0; r < 2; r++) {
    const int64_t us = r ? 8000 : quick_us;
    if (r) {
      mini_rank(s.m, 1);
      s.thread = mini_thread(s.m, 2, 20);
    }
    for (int i = 0; i < MANY; i++) {
      if (r) mark_step(&s, i);
      s.at = i * STEP;
      call(&s, "aten::conv2d", 0, us, "train.py(9): fit");
      if (dims_of_slow) mini_arg_raw(s.m, "Input Dims", r ? dims_of_slow : "[[300,3]]");
      mini_slice(s.m, s.thread, "user_annotation", "gloo:all_reduce", s.at + us * US, STEP - us * US);
    }
  }
  struct tg__columns *const trace = mini_finish(s.m);
  if (conditions) assert_true(tg__trace_add_meta(trace, "conditions", conditions));
  struct tg_table *t = mini_ask(trace, "findings", NULL);
  mini_free(s.m);
  return t;
}

/* 20 % of a step: slower cores may be all of that. */
static void expect_straggler(const char *conditions, size_t count_wanted) {
  struct tg_table *t = two_ranks(6000, NULL, conditions);
  assert_int_equal(count(t, "rank-straggler"), count_wanted);
  assert_int_equal(has_note(t, "withheld: rank-straggler, 20.0 % (other programs"), !count_wanted);
  tg__table_free(t);
}

static void test_a_rank_on_slower_cores(void **state) {
  expect_straggler(NULL, 1);
  expect_straggler(busy, 0);
}

/* 40 % of a step, which only cores explain where the shapes are the same. The advice is then about what the rank runs
 * on. */
static void expect_shapes_to_tell(const char *conditions, const char *dims_of_slow, size_t count_wanted,
                                  bool is_about_machine) {
  struct tg_table *t = two_ranks(4000, dims_of_slow, conditions);
  assert_int_equal(count(t, "rank-straggler"), count_wanted);
  if (count_wanted)
    assert_int_equal(strstr(mini_cell(t, 0, "advice"), "look at what it runs on") != NULL, is_about_machine);
  tg__table_free(t);
}

static void test_equal_work_on_slower_cores(void **state) {
  expect_shapes_to_tell(NULL, "[[1500,3]]", 1, false);
  expect_shapes_to_tell(NULL, "[[300,3]]", 1, true);
  expect_shapes_to_tell(busy, "[[1500,3]]", 1, false);
  expect_shapes_to_tell(busy, "[[300,3]]", 0, false);
  struct tg_table *t = two_ranks(6500, "[[300,3]]", NULL); /* 15 % of a step: cores of one machine differ by that */
  assert_int_equal(count(t, "rank-straggler"), 0);
  tg__table_free(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_long_steps),
      cmocka_unit_test(test_wait_is_a_column),
      cmocka_unit_test(test_no_step_waits_longer_than_it_is),
      cmocka_unit_test(test_waiting_for_the_loader),
      cmocka_unit_test(test_waiting_for_workers),
      cmocka_unit_test(test_python_without_waits_for_a_core),
      cmocka_unit_test(test_time_on_a_core_is_no_wait),
      cmocka_unit_test(test_one_checkpoint),
      cmocka_unit_test(test_workers_are_no_other_programs),
      cmocka_unit_test(test_children_are_no_other_programs),
      cmocka_unit_test(test_samples_count_by_their_time),
      cmocka_unit_test(test_who_had_the_core_is_not_known),
      cmocka_unit_test(test_use_in_the_conditions),
      cmocka_unit_test(test_a_rank_on_slower_cores),
      cmocka_unit_test(test_equal_work_on_slower_cores),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
