/* A program's own events come back from the file as they were: names, nesting, times, threads, counters, losses. */
#include <pthread.h>
#include <time.h>

#include "unit/recording.h"

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void test_nesting_and_times(void **state) {
  int64_t at[6];
  const struct timespec ms = {.tv_nsec = 1000000};
  recording_start((struct tg_record_options){.rank = -1});
  at[0] = now_ns();
  tg_step_begin("ProfilerStep#3");
  at[1] = now_ns();
  nanosleep(&ms, NULL);
  at[2] = now_ns();
  tg_range_begin("inner");
  nanosleep(&ms, NULL);
  tg_range_end();
  at[3] = now_ns();
  nanosleep(&ms, NULL);
  at[4] = now_ns();
  tg_step_end();
  at[5] = now_ns();
  assert_int_equal(recording_close().records, 2);
  struct tg__columns *const t = recording_read(recording_path);
  const uint32_t step = recording_find(t, "ProfilerStep#3"), inner = recording_find(t, "inner");
  const int64_t base = t->ranks[0].base_ns, step_start = t->slices.start_ns[step] + base,
                inner_start = t->slices.start_ns[inner] + base;
  const int64_t slack = 20000; /* two clocks read one after the other, and the line between two clock pairs */
  assert_int_equal(recording_slices(t), 2);
  assert_int_equal(t->slices.parent[inner], step);
  assert_true(step_start >= at[0] - slack && step_start <= at[1] + slack);
  assert_true(step_start + t->slices.dur_ns[step] >= at[4] - slack &&
              step_start + t->slices.dur_ns[step] <= at[5] + slack);
  assert_true(inner_start >= at[2] - slack && inner_start + t->slices.dur_ns[inner] <= at[3] + slack);
  assert_true(t->slices.dur_ns[inner] >= 1000000 - slack);
  tg__trace_free(t);
}

enum { THREADS = 8, EACH = 5000 };

static void *many_ranges(void *number) {
  char name[16];
  snprintf(name, sizeof name, "thread %d", *(int *)number);
  tg_thread_name(name);
  for (int i = 0; i < EACH; i++) {
    tg_range_begin(name);
    tg_range_end();
  }
  return NULL;
}

static void test_threads(void **state) {
  pthread_t threads[THREADS];
  int numbers[THREADS];
  recording_start((struct tg_record_options){.rank = 2});
  for (int i = 0; i < THREADS; i++) {
    numbers[i] = i;
    pthread_create(&threads[i], NULL, many_ranges, &numbers[i]);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  const struct tg_record_stats stats = recording_close();
  assert_int_equal(stats.records, THREADS * EACH);
  assert_int_equal(stats.lost, 0);
  struct tg__columns *const t = recording_read(recording_path);
  assert_int_equal(recording_slices(t), THREADS * EACH);
  for (int i = 0; i < THREADS; i++) {
    char name[16];
    uint32_t first;
    snprintf(name, sizeof name, "thread %d", i);
    assert_int_equal(recording_count(t, name, &first), EACH);
    const struct tg__track *const track = &t->tracks[tg__slice_track(t, first)];
    assert_int_equal(track->count, EACH); /* no other thread's among them */
    assert_true(tg__str_contains(tg__name(t, track->name), name));
  }
  tg__trace_free(t);
}

/* All bytes but the zero that ends a name, and texts that are too long or empty. */
static void test_names(void **state) {
  char name[2];
  static char bytes[256], endless[200000];
  recording_start((struct tg_record_options){.rank = -1});
  for (int i = 0; i < 255; i++) bytes[i] = (char)(i + 1);
  memset(endless, 'x', sizeof endless - 1);
  for (int i = 1; i < 256; i++) {
    snprintf(name, sizeof name, "%c", i);
    tg_range_begin(name);
    tg_range_end();
  }
  const char *const others[] = {bytes, endless, "", NULL};
  for (int i = 0; i < 4; i++) {
    tg_range_begin(others[i]);
    tg_range_end();
  }
  assert_int_equal(recording_close().records, 259);
  struct tg__columns *const t = recording_read(recording_path);
  for (int i = 1; i < 256; i++) {
    snprintf(name, sizeof name, "%c", i);
    assert_int_equal(recording_count(t, name, NULL), 1);
  }
  assert_int_equal(recording_count(t, bytes, NULL), 1);
  assert_int_equal(recording_count(t, "", NULL), 2);
  endless[65536] = 0; /* what is kept of it */
  assert_int_equal(recording_count(t, endless, NULL), 1);
  tg__trace_free(t);
}

/* The same address may hold another text the next time; equal texts at two addresses are one name. */
static void test_names_in_reused_memory(void **state) {
  char name[16];
  recording_start((struct tg_record_options){.rank = -1});
  for (int i = 0; i < 1000; i++) {
    snprintf(name, sizeof name, "name %d", i % 10);
    tg_range_begin(name);
    tg_range_end();
  }
  recording_close();
  struct tg__columns *const t = recording_read(recording_path);
  for (int i = 0; i < 10; i++) {
    snprintf(name, sizeof name, "name %d", i);
    assert_int_equal(recording_count(t, name, NULL), 100);
  }
  tg__trace_free(t);
}

static void test_unbalanced(void **state) {
  recording_start((struct tg_record_options){.rank = -1});
  tg_range_begin("before"); /* so that the thread is known when the first end comes */
  tg_range_end();
  tg_range_end();
  tg_step_end();
  tg_step_begin("step");
  tg_range_begin("never ended");
  tg_step_end();
  tg_range_begin("open");
  tg_range_begin("open too");
  const struct tg_record_stats stats = recording_close();
  assert_int_equal(stats.records, 4);
  struct tg__columns *const t = recording_read(recording_path);
  assert_int_equal(recording_slices(t), 4);
  assert_int_equal(recording_count(t, "never ended", NULL), 0);
  assert_int_equal(t->slices.parent[recording_find(t, "open too")],
                   recording_find(t, "open")); /* both cut at the stop */
  tg__trace_free(t);
}

static void test_deep(void **state) {
  enum { DEPTH = 600, KEPT = 512 };
  recording_start((struct tg_record_options){.rank = -1});
  for (int i = 0; i < DEPTH; i++) tg_range_begin("deep");
  for (int i = 0; i < DEPTH; i++) tg_range_end();
  tg_range_begin("after");
  tg_range_end();
  const struct tg_record_stats stats = recording_close();
  assert_int_equal(stats.records, KEPT + 1);
  assert_int_equal(stats.lost, DEPTH - KEPT);
  struct tg__columns *const t = recording_read(recording_path);
  assert_int_equal(recording_count(t, "deep", NULL), KEPT);
  assert_int_equal(t->slices.parent[recording_find(t, "after")], TG_NONE);
  tg__trace_free(t);
}

static void test_pause(void **state) {
  struct tg_error e;
  recording_start((struct tg_record_options){.rank = -1});
  tg_range_begin("across");
  assert_int_equal(tg_record_pause(&e), TG_OK);
  tg_range_begin("paused"); /* its end must not be taken for the end of the one around it */
  tg_range_end();
  tg_mark("paused mark");
  assert_int_equal(tg_record_resume(&e), TG_OK);
  tg_range_begin("inside");
  tg_range_end();
  tg_range_end();
  assert_int_equal(recording_close().records, 2);
  struct tg__columns *const t = recording_read(recording_path);
  assert_int_equal(recording_slices(t), 2);
  assert_int_equal(t->slices.parent[recording_find(t, "inside")], recording_find(t, "across"));
  tg__trace_free(t);
}

static void test_moments(void **state) {
  recording_start((struct tg_record_options){.rank = -1});
  tg_range_begin("range");
  tg_mark("here");
  tg_counter("items", -5);
  tg_counter("items", INT64_MAX);
  tg_range_end();
  assert_int_equal(recording_close().records, 4);
  struct tg__columns *const t = recording_read(recording_path);
  size_t counters = 0, marks = 0;
  for (uint32_t i = 0; i < t->marks.count; i++) {
    if (t->marks.ph[i] == 'C') counters++;
    if (recording_name_is(t, t->marks.name[i], "here")) marks++;
  }
  assert_int_equal(counters, 2);
  assert_int_equal(marks, 1);
  tg__trace_free(t);
}

/* What blocks hold can be told before the first event and behind the last, too; a name that is too long is cut
 * between characters. */
static void test_tensors(void **state) {
  struct tg_error e;
  char name[2048];
  for (size_t i = 0; i + 2 < sizeof name; i += 2) memcpy(name + i, "\xc3\xa4", 2); /* ä */
  name[sizeof name - 2] = 0;
  assert_int_equal(
      tg_record_open(&(struct tg_record_options){.path = recording_path, .features = TG_RECORD_OPS, .rank = -1}, &e),
      TG_OK);
  tg_tensor("parameter", "layers.0.weight", (const void *)(uintptr_t)0x7f0000001000, 4096, 0, 0);
  assert_int_equal(tg_record_resume(&e), TG_OK);
  tg_range_begin("work");
  tg_range_end();
  tg_tensor("gradient", name, (const void *)(uintptr_t)64, INT64_C(1) << 40, 1, 3);
  tg_tensor("gradient", "nowhere", NULL, 8, 0, 0);
  tg_tensor(NULL, "nothing", &e, 8, 0, 0);
  assert_int_equal(recording_close().records, 3);
  tg_tensor("parameter", "too late", &e, 8, 0, 0);
  struct tg__columns *const t = recording_read(recording_path);
  size_t seen = 0;
  for (uint32_t i = 0; i < t->marks.count; i++) {
    if (t->marks.name[i] != TG__K_TENSOR) continue;
    const uint32_t args = t->marks.args[i], tensor = tg__arg_str(t, args, TG__K_TENSOR_NAME);
    const bool first = seen++ == 0;
    assert_true(recording_name_is(t, tg__arg_str(t, args, TG__K_TENSOR_KIND), first ? "parameter" : "gradient"));
    assert_int_equal(tg__arg_int(t, args, TG__K_ADDR, 0), first ? 0x7f0000001000 : 64);
    assert_int_equal(tg__arg_int(t, args, TG__K_BYTES_MEMORY, 0), first ? 4096 : INT64_C(1) << 40);
    assert_int_equal(tg__arg_int(t, args, TG__K_DEVICE_TYPE, -1), first ? 0 : 1);
    assert_int_equal(tg__arg_int(t, args, TG__K_DEVICE_ID, -2), first ? -1 : 3);
    if (first) assert_true(recording_name_is(t, tensor, "layers.0.weight"));
    if (!first) assert_int_equal(tg__name(t, tensor).len, (1024 - strlen("gradient") - 1) / 2 * 2);
  }
  assert_int_equal(seen, 2);
  tg__trace_free(t);
}

/* Other threads than the one that opened it may close it; those that were recording go on without harm. */
static void *close_it(void *unused) {
  struct tg_error e;
  return tg_record_close(NULL, &e) == TG_OK ? NULL : "failed";
}

static void test_close_from_another_thread(void **state) {
  pthread_t thread;
  void *result;
  recording_start((struct tg_record_options){.rank = -1});
  tg_range_begin("open here");
  pthread_create(&thread, NULL, close_it, NULL);
  pthread_join(thread, &result);
  assert_null(result);
  tg_range_end();
  recording_start((struct tg_record_options){.rank = -1});
  tg_range_end(); /* began in the recording before */
  tg_range_begin("new");
  tg_range_end();
  assert_int_equal(recording_close().records, 1);
}

static void *lives_shortly(void *unused) {
  tg_range_begin("done");
  tg_range_end();
  tg_range_begin("dies inside");
  return NULL;
}

/* 2,000 threads one after the other: their chunks share the room that each did not use. */
static void test_thread_dies_inside_a_range(void **state) {
  enum { SHORT = 2000 };
  recording_start((struct tg_record_options){.rank = -1});
  for (int i = 0; i < SHORT; i++) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, lives_shortly, NULL), 0);
    pthread_join(thread, NULL);
  }
  const struct tg_record_stats stats = recording_close();
  assert_int_equal(stats.records, SHORT);
  assert_true(stats.disk_bytes < SHORT * 5000);
  struct tg__columns *const t = recording_read(recording_path);
  assert_int_equal(recording_count(t, "done", NULL), SHORT);
  assert_int_equal(recording_slices(t), SHORT);
  tg__trace_free(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_nesting_and_times, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_threads, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_names, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_names_in_reused_memory, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_unbalanced, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_deep, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_pause, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_tensors, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_moments, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_close_from_another_thread, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_thread_dies_inside_a_range, recording_setup, recording_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
