/* Processes that are killed, that exit without a word, that change the recording while threads record. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "unit/recording.h"

/* ---- killed ---------------------------------------------------------------------------------- */

enum { KILLED_THREADS = 3, TEXT_EVERY = 2000 };
static const char *const killed_names[KILLED_THREADS] = {"one", "two", "three"};
static _Atomic uint64_t *ended; /* per thread: ranges whose end has returned; survives the process */

static void *until_killed(void *number) {
  const int i = *(const int *)number;
  for (uint64_t n = 0;; n++) {
    char text[40];
    tg_range_begin(killed_names[i]);
    if (n % TEXT_EVERY == 0) { /* texts must be there before what uses them */
      snprintf(text, sizeof text, "text %d %llu", i, (unsigned long long)n);
      recording_make(text, 1);
    }
    tg_range_end();
    atomic_store_explicit(&ended[i], n + 1, memory_order_release);
  }
  return NULL;
}

static void be_killed(uint64_t disk_bytes) {
  static const int numbers[KILLED_THREADS] = {0, 1, 2};
  pthread_t threads[KILLED_THREADS];
  struct tg_error e;
  const struct tg_record_options options = {.path = recording_path,
                                            .rank = -1,
                                            .disk_bytes = disk_bytes,
                                            .keep = TG_KEEP_LAST,
                                            .features = TG_RECORD_PROCESS};
  if (tg_record_open(&options, &e) || tg_record_resume(&e)) _exit(1);
  for (int i = 0; i < KILLED_THREADS; i++) pthread_create(&threads[i], NULL, until_killed, (void *)&numbers[i]);
  pthread_join(threads[0], NULL);
}

/* One program killed at a random moment; what it left. */
static struct tg__columns *kill_one(uint64_t disk_bytes, unsigned *seed) {
  for (int i = 0; i < KILLED_THREADS; i++) atomic_store(&ended[i], 0);
  const pid_t child = fork();
  if (child == 0) be_killed(disk_bytes);
  while (!atomic_load(&ended[0])) sleep_us(100);
  sleep_us(rand_r(seed) % 60000);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  struct tg__columns *const t = recording_read(recording_path);
  assert_int_equal(t->ranks[0].loss[TG__LOSS_cut_chunks], 0);
  /* A killer that comes late finds the room for texts used up: what has no name then has the number 0, never that of a
   * text that is not in the file. */
  assert_int_equal(t->ranks[0].loss[TG__LOSS_bent_no_dictionary], recording_count(t, "name#0", NULL));
  assert_int_equal(t->ranks[0].processes[0].stop_ns, 0);
  return t;
}

static void test_killed(void **state) {
  const int rounds = getenv("TG_SLOW") ? 200 : 10;
  unsigned seed = (unsigned)getpid();
  ended = shared_page();
  for (int round = 0; round < rounds; round++) {
    struct tg__columns *const t = kill_one(0, &seed);
    for (int i = 0; i < KILLED_THREADS; i++) {
      const uint64_t made = atomic_load(&ended[i]), found = recording_count(t, killed_names[i], NULL);
      if (found < made || found > made + 1)
        fail_msg("round %d: %llu ended, %llu in the file", round, (unsigned long long)made, (unsigned long long)found);
    }
    tg__trace_free(t);
  }
  munmap((void *)ended, 4096);
}

/* While old chunks are being overwritten: none of them is ever half a chunk, and the file stays full. */
static void test_killed_while_overwriting(void **state) {
  enum { DISK = 2 << 20 };
  const int rounds = getenv("TG_SLOW") ? 200 : 10;
  unsigned seed = (unsigned)getpid();
  ended = shared_page();
  for (int round = 0; round < rounds; round++) {
    struct tg__columns *const t = kill_one(DISK, &seed);
    uint64_t all_made = 0, all_found = 0;
    for (int i = 0; i < KILLED_THREADS; i++) {
      const uint64_t made = atomic_load(&ended[i]), found = recording_count(t, killed_names[i], NULL);
      assert_true(found <= made + 1);
      all_made += made;
      all_found += found;
    }
    if (all_made > DISK / 32)
      assert_true(all_found > DISK / 32 / 2); /* less chunks being emptied, and room kept for texts */
    tg__trace_free(t);
  }
  munmap((void *)ended, 4096);
}

/* ---- exiting and changing -------------------------------------------------------------------- */

static void *forever(void *recorded_once) {
  for (;;) {
    recording_make("thread", 1);
    atomic_store((_Atomic bool *)recorded_once, true);
  }
  return NULL;
}

static void test_exit_without_close(void **state) {
  const pid_t child = fork();
  if (child == 0) {
    static _Atomic bool recorded_once;
    pthread_t thread;
    recording_start((struct tg_record_options){.rank = -1});
    pthread_create(&thread, NULL, forever, &recorded_once);
    recording_make("main", 1000);
    while (!atomic_load(&recorded_once)) sleep_us(1000);
    exit(0); /* the other thread goes on recording until the very end */
  }
  assert_exits_with_zero(child);
  struct tg__columns *const t = recording_read(recording_path);
  assert_int_equal(recording_count(t, "main", NULL), 1000);
  assert_true(recording_count(t, "thread", NULL) > 0);
  assert_true(t->ranks[0].processes[0].stop_ns > 0);
  tg__trace_free(t);
}

static _Atomic bool stop;
static void *until_stopped(void *made) {
  uint64_t n = 0;
  for (; !atomic_load_explicit(&stop, memory_order_relaxed); n++) recording_make("busy", 1);
  *(uint64_t *)made = n;
  return NULL;
}

/* Open, pause, resume, close at any moment of threads that record: no thread is hurt and every file is whole. */
static void test_changes_while_threads_record(void **state) {
  enum { ROUNDS = 100, THREADS = 4 };
  pthread_t threads[THREADS];
  uint64_t made[THREADS];
  struct tg_error e;
  atomic_store(&stop, false);
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, until_stopped, &made[i]);
  for (int round = 0; round < ROUNDS; round++) {
    recording_start((struct tg_record_options){
        .rank = -1, .features = TG_RECORD_PROCESS, .disk_bytes = round % 2 ? 1 << 20 : 0, .keep = TG_KEEP_LAST});
    sleep_us(500);
    if (round % 3 == 0) assert_int_equal(tg_record_pause(&e), TG_OK);
    if (round % 6 == 0) assert_int_equal(tg_record_resume(&e), TG_OK);
    const struct tg_record_stats stats = recording_close();
    struct tg__columns *t;
    if (stats.records == 0) continue; /* no thread had its turn */
    if (round % 10 == 0) {
      t = recording_read(recording_path);
      assert_int_equal(recording_slices(t), stats.records);
      tg__trace_free(t);
    }
  }
  atomic_store(&stop, true);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

static void *change(void *number) {
  struct tg_error e;
  char path[128];
  const struct tg_record_options options = {.path = path, .rank = -1};
  snprintf(path, sizeof path, "%s/%d.tacho", recording_dir, *(int *)number);
  for (int i = 0; i < 100; i++) {
    struct tg_record_stats stats;
    tg_record_open(&options, &e);
    tg_record_resume(&e);
    recording_make("work", 10);
    tg_record_meta("a", "1", &e);
    tg_record_state(&stats);
    tg_record_close(NULL, &e);
  }
  return NULL;
}

/* Several threads that all want to decide: they take turns, and each call does something or says why not. */
static void test_changes_from_all_threads(void **state) {
  enum { THREADS = 4 };
  pthread_t threads[THREADS];
  int numbers[THREADS];
  for (int i = 0; i < THREADS; i++) {
    numbers[i] = i;
    pthread_create(&threads[i], NULL, change, &numbers[i]);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  struct tg_record_stats stats;
  tg_record_state(&stats);
  if (stats.open) recording_close();
}

static pthread_key_t later;
static void record_late(void *unused) { recording_make("late", 3); }
static void *end_with_a_record(void *unused) {
  pthread_setspecific(later, &later);
  recording_make("early", 5);
  return NULL;
}
static void *make_seven(void *unused) {
  recording_make("next", 7);
  return NULL;
}

/* Destructors of others on a thread that was left are not recorded, and do not disturb a thread that takes over its
 * place. */
static void test_records_of_a_thread_that_ends(void **state) {
  pthread_t thread;
  recording_start((struct tg_record_options){
      .rank = -1}); /* first: the recorder's own key comes before the other, and its end, too */
  assert_int_equal(pthread_key_create(&later, record_late), 0);
  for (int i = 0; i < 3; i++) {
    pthread_create(&thread, NULL, end_with_a_record, NULL);
    pthread_join(thread, NULL);
    pthread_create(&thread, NULL, make_seven, NULL);
    pthread_join(thread, NULL);
  }
  pthread_key_delete(later);
  const struct tg_record_stats stats = recording_close();
  assert_int_equal(stats.records, 3 * (5 + 7));
  assert_true(stats.lost >= 3 * 3);
  struct tg__columns *const t = recording_read(recording_path);
  assert_int_equal(recording_count(t, "early", NULL), 3 * 5);
  assert_int_equal(recording_count(t, "next", NULL), 3 * 7);
  assert_int_equal(recording_count(t, "late", NULL), 0);
  tg__trace_free(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_killed, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_killed_while_overwriting, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_exit_without_close, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_records_of_a_thread_that_ends, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_changes_while_threads_record, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_changes_from_all_threads, recording_setup, recording_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
