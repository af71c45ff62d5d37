/* Folders of recordings: which process belongs to which rank, one clock, packed files beside raw ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "trace/store.h"
#include "unit/raw_file.h"

static char folder[64];
static struct raw_file file;

static const char *path_of(const char *name) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static void write_file(const char *name) {
  FILE *const f = fopen(path_of(name), "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(file.bytes, 1, file.len, f), file.len);
  assert_int_equal(fclose(f), 0);
}

static void empty_folder(const char *const *names, size_t count) {
  for (size_t i = 0; i < count; i++) unlink(path_of(names[i]));
}

enum { BASE = 7889238 }; /* seconds: a quarter of a year, what base times are multiples of */

/* One operator of `dur` ns at `at` ns after the base time, in a process of a session. */
static void one_op(const char *name, uint64_t session, uint32_t pid, uint32_t parent, int32_t rank, int64_t at,
                   uint32_t dur) {
  const int64_t base = (int64_t)BASE * 1000000000;
  const uint64_t clock[4] = {1000, (uint64_t)base, 2000, (uint64_t)base + 1000};
  const struct tg__raw_process p = {
      .session = session, .process = pid, .parent = parent, .rank = rank, .start_ns = base + 10, .stop_ns = base + 900};
  const struct tg__raw_entry names[] = {{1, 0, {name, (uint32_t)strlen(name)}}};
  const struct tg__raw_record r = {
      .start_ticks = 1000 + (uint64_t)at, .dur_ticks = dur, .name = 1, .flags = TG_RAW_F_VALID};
  raw_begin(&file);
  raw_process(&file, &p);
  raw_clock(&file, clock, 2);
  raw_dictionary(&file, 0, TG_RAW_D_NAME, names, 1);
  file.pid = pid;
  raw_records(&file, 0, 2, &r, 1, true);
}

static struct tg__columns *open_folder(void) {
  struct tg_error e;
  struct tg__columns *t = NULL;
  if (tg__trace_open(folder, NULL, &t, &e)) fail_msg("%s", e.text);
  assert_int_equal(tg__trace_load(t, TG__COL_ALL, &e), TG_OK);
  if (!tg__trace_is_valid(t, &e)) fail_msg("%s", e.text);
  return t;
}

/* Names of the operators of a rank, in the order of their tracks. */
static void assert_ops(const struct tg__columns *t, uint32_t rank, const char *want) {
  char text[256] = "";
  for (uint32_t i = 0; i < t->slices.count; i++) {
    const struct tg__str s = tg__name(t, t->slices.name[i]);
    if (t->tracks[tg__slice_track(t, i)].rank != rank || tg__slice_class(t, i) != TG__CLASS_OP) continue;
    snprintf(text + strlen(text), sizeof text - strlen(text), "%.*s ", (int)s.len, s.ptr);
  }
  assert_string_equal(text, want);
}

/* Ranks 0 and 1, a worker of rank 1, a worker of that worker, an agent above all of them, and another run. */
static void test_processes_join_the_rank_above_them(void **state) {
  const char *const names[] = {"agent.tacho", "main.3.tacho", "main.4.tacho",
                               "other.tacho", "rank0.tacho",  "rank1.tacho"};
  one_op("agent", 7, 1, 0, -1, 100, 5);
  write_file("agent.tacho");
  one_op("zero", 7, 10, 1, 0, 200, 5);
  write_file("rank0.tacho");
  one_op("one", 7, 20, 1, 1, 300, 5);
  write_file("rank1.tacho");
  one_op("worker", 7, 21, 20, -1, 400, 5);
  write_file("main.3.tacho");
  one_op("helper", 7, 22, 21, -1, 500, 5);
  write_file("main.4.tacho");
  one_op("other", 8, 20, 1, -1, 600, 5);
  write_file("other.tacho");
  struct tg__columns *const t = open_folder();
  assert_int_equal(t->rank_count, 3);
  assert_int_equal(t->ranks[0].number, 0);
  assert_ops(t, 0, "zero agent ");
  assert_int_equal(t->ranks[1].number, 1);
  assert_ops(t, 1, "one worker helper ");
  assert_string_equal(tg__name(t, t->ranks[1].path).ptr + strlen(folder), "/rank1.tacho");
  assert_int_equal(t->ranks[2].number, 2); /* its own did not say */
  assert_ops(t, 2, "other ");
  assert_int_equal(t->ranks[1].process_count, 3);
  tg__trace_free(t);
  empty_folder(names, 6);
}

/* Without any rank all processes of a folder are one trace; times count from the quarter of the year. */
static void test_one_rank_of_many_processes(void **state) {
  const char *const names[] = {"main.tacho", "main.31.tacho"};
  one_op("main", 9, 30, 1, -1, 100, 50);
  write_file("main.tacho");
  one_op("child", 9, 31, 30, -1, 120, 60);
  write_file("main.31.tacho");
  struct tg__columns *const t = open_folder();
  assert_int_equal(t->rank_count, 1);
  assert_int_equal(t->ranks[0].base_ns, (int64_t)BASE * 1000000000);
  assert_ops(t, 0, "main child ");
  assert_string_equal(tg__name(t, t->ranks[0].path).ptr + strlen(folder), "/main.tacho");
  for (uint32_t i = 0; i < t->slices.count; i++) {
    const bool child = tg__str_eq(tg__name(t, t->slices.name[i]), TG_STR("child"));
    if (tg__slice_class(t, i) == TG__CLASS_OP) assert_int_equal(t->slices.start_ns[i], child ? 120 : 100);
    if (tg__slice_class(t, i) == TG__CLASS_SPAN) { /* from the first start to the last stop */
      assert_int_equal(t->slices.start_ns[i], 10);
      assert_int_equal(t->slices.dur_ns[i], 890);
    }
  }
  tg__trace_free(t);
  empty_folder(names, 2);
}

/* A folder whose ranks are packed holds the same events as the raw one. */
static void test_packed_files_are_ranks(void **state) {
  const char *const names[] = {"rank0.tacho", "rank1.tacho"};
  struct tg_error e;
  one_op("zero", 7, 10, 1, 0, 200, 5);
  write_file("rank0.tacho");
  struct tg__columns *t = NULL;
  assert_int_equal(tg__trace_open(path_of("rank0.tacho"), NULL, &t, &e), TG_OK);
  assert_int_equal(tg__trace_load(t, TG__COL_ALL, &e), TG_OK);
  assert_int_equal(tg__trace_save(t, path_of("rank0.tacho"), &e), TG_OK);
  const uint32_t slices = t->slices.count, marks = t->marks.count;
  tg__trace_free(t);
  one_op("one", 7, 20, 1, 1, 300, 5);
  write_file("rank1.tacho");
  t = open_folder();
  assert_int_equal(t->rank_count, 2);
  assert_int_equal(t->slices.count, 2 * slices);
  assert_int_equal(t->marks.count, 2 * marks);
  assert_ops(t, 0, "zero ");
  assert_ops(t, 1, "one ");
  assert_int_equal(t->ranks[0].number, 0);
  assert_int_equal(t->ranks[1].number, 1);
  assert_true(t->ranks[0].is_recording);
  tg__trace_free(t);
  empty_folder(names, 2);
}

static void test_no_memory(void **state) {
  const char *const names[] = {"rank0.tacho", "rank1.tacho"};
  struct tg_error e;
  one_op("zero", 7, 10, 1, 0, 200, 5);
  write_file("rank0.tacho");
  struct tg__columns *t = NULL;
  assert_int_equal(tg__trace_open(path_of("rank0.tacho"), NULL, &t, &e), TG_OK);
  assert_int_equal(tg__trace_load(t, TG__COL_ALL, &e), TG_OK);
  assert_int_equal(tg__trace_save(t, path_of("rank0.tacho"), &e), TG_OK);
  tg__trace_free(t);
  t = NULL;
  one_op("one", 7, 20, 1, 1, 300, 5);
  write_file("rank1.tacho");
  for (long calls = 1; !t; calls++) {
    tg__alloc_fail_after(calls);
    const enum tg_err err = tg__trace_open(folder, NULL, &t, &e);
    tg__alloc_fail_after(-1);
    if (err == TG_OK && t->rank_count < 2) { /* a file that could not even be looked at was passed over, and counted */
      assert_int_equal(t->ranks[0].loss[TG__LOSS_skipped_file], 1);
      tg__trace_free(t);
      t = NULL;
    }
    assert_true(err == TG_OK || err == TG_MEMORY);
    assert_true(calls < 4000);
  }
  tg__trace_free(t);
  empty_folder(names, 2);
}

int main(void) {
  snprintf(folder, sizeof folder, "/tmp/test_import_raw_run.%d", (int)getpid());
  mkdir(folder, 0700);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_processes_join_the_rank_above_them),
      cmocka_unit_test(test_one_rank_of_many_processes),
      cmocka_unit_test(test_packed_files_are_ranks),
      cmocka_unit_test(test_no_memory),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  rmdir(folder);
  return failed;
}
