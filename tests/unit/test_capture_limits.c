/* Budgets and faults: what does not fit is counted to the last record, and nothing grows. */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "capture/session.h"
#include "unit/held.h"
#include "unit/recording.h"

/* The losses that the trace states, by their names. */
static int64_t lost_in(const struct tg__columns *t, enum tg__loss what) {
  int64_t n = 0;
  for (uint32_t r = 0; r < t->rank_count; r++) n += t->ranks[r].loss[what];
  return n;
}

static int64_t file_bytes(const char *path) {
  struct stat st;
  return stat(path, &st) ? -1 : (int64_t)st.st_size;
}

static void test_keep_first(void **state) {
  enum { MADE = 200000, DISK = 1 << 20 };
  recording_start((struct tg_record_options){.rank = -1, .disk_bytes = DISK});
  recording_make("first", 10);
  recording_make("later", MADE - 10);
  const struct tg_record_stats stats = recording_close();
  assert_int_equal(stats.records + stats.lost, MADE);
  assert_true(stats.records > DISK / 32 / 2 && stats.records < DISK / 32);
  assert_true(file_bytes(recording_path) <= DISK);
  struct tg__columns *const t = recording_read(recording_path);
  assert_int_equal(recording_slices(t), stats.records);
  assert_int_equal(recording_count(t, "first", NULL), 10);
  assert_int_equal(lost_in(t, TG__LOSS_skipped_no_room), stats.lost);
  tg__trace_free(t);
}

/* Until the helper thread has sealed what is full: without a core it leaves the oldest chunks as they are. */
static void wait_for_helper(uint64_t made) {
  const uint64_t open = 3 * TG_CHUNK_MOST / 32;
  struct tg_record_stats stats;
  for (int i = 0; i < 30000; i++) {
    tg_record_state(&stats);
    if (stats.records + stats.lost + open >= made) return;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
}

static void test_keep_last(void **state) {
  enum { MADE = 200000, DISK = 1 << 20, PIECE = 1000 };
  recording_start((struct tg_record_options){.rank = -1, .disk_bytes = DISK, .keep = TG_KEEP_LAST});
  recording_make("first", 10);
  for (uint64_t made = 10; made < MADE - 10; made += PIECE) {
    recording_make("later", made + PIECE < MADE - 10 ? PIECE : (int)(MADE - 10 - made));
    wait_for_helper(made);
  }
  recording_make("last", 10);
  const struct tg_record_stats stats = recording_close();
  assert_int_equal(stats.records + stats.lost, MADE);
  assert_true(stats.records > DISK / 32 / 2 && stats.records < DISK / 32);
  assert_true(file_bytes(recording_path) <= DISK);
  struct tg__columns *const t = recording_read(recording_path);
  assert_int_equal(recording_slices(t), stats.records);
  assert_int_equal(recording_count(t, "first", NULL), 0);
  assert_int_equal(recording_count(t, "last", NULL), 10);
  assert_int_equal(lost_in(t, TG__LOSS_skipped_overwritten) + lost_in(t, TG__LOSS_skipped_no_room), stats.lost);
  tg__trace_free(t);
}

/* Every text new: when their room is used up the records say so and go on. */
static void test_texts_without_end(void **state) {
  enum { MADE = 50000, DISK = 1 << 20 };
  char name[64];
  recording_start((struct tg_record_options){.rank = -1, .disk_bytes = DISK});
  for (int i = 0; i < MADE; i++) {
    snprintf(name, sizeof name, "a name that is never seen again, %d", i);
    recording_make(name, 1);
  }
  const struct tg_record_stats stats = recording_close();
  assert_int_equal(stats.records + stats.lost, MADE);
  assert_true(file_bytes(recording_path) <= DISK);
  struct tg__columns *const t = recording_read(recording_path);
  assert_int_equal(recording_slices(t), stats.records);
  assert_int_equal(recording_count(t, "a name that is never seen again, 0", NULL), 1);
  tg__trace_free(t);
}

static pthread_barrier_t barrier;
enum { THREADS = 200 };
static int each;

static void *work(void *unused) {
  pthread_barrier_wait(&barrier);
  recording_make("work", each);
  pthread_barrier_wait(&barrier); /* all have recorded … */
  pthread_barrier_wait(&barrier); /* … and end from here on */
  return NULL;
}

static void test_200_threads(void **state) {
  pthread_t threads[THREADS];
  const uint64_t budget = (uint64_t)64 << 20;
  each = 20000; /* ten chunks of the smallest size for each: more than the budget holds */
  recording_start((struct tg_record_options){.rank = -1});
  pthread_barrier_init(&barrier, NULL, THREADS + 1);
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, work, NULL), 0);
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  struct tg_record_stats during;
  tg_record_state(&during);
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&barrier);
  const struct tg_record_stats stats = recording_close();
  assert_in_range(during.memory_bytes, THREADS * (64 << 10) + 1, budget);
  assert_true(stats.peak_memory_bytes <= budget);
  assert_int_equal(stats.records, THREADS * each);
  assert_int_equal(stats.lost, 0);
  struct tg__columns *const t = recording_read(recording_path);
  assert_int_equal(recording_count(t, "work", NULL), THREADS * each);
  tg__trace_free(t);
}

/* A budget that is too small for all of them: some find no room, and that is counted too. */
static void test_too_little_memory(void **state) {
  pthread_t threads[THREADS];
  each = 5000;
  recording_start((struct tg_record_options){.rank = -1, .memory_bytes = 16 << 20});
  pthread_barrier_init(&barrier, NULL, THREADS + 1);
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, work, NULL), 0);
  for (int i = 0; i < 3; i++) pthread_barrier_wait(&barrier);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&barrier);
  const struct tg_record_stats stats = recording_close();
  assert_int_equal(stats.records + stats.lost, THREADS * each);
  assert_true(stats.records > 0 && stats.lost > 0);
  struct tg__columns *const t = recording_read(recording_path);
  assert_int_equal(recording_count(t, "work", NULL), stats.records);
  assert_int_equal(lost_in(t, TG__LOSS_skipped_no_room), stats.lost);
  tg__trace_free(t);
}

/* Stacks without end: the first of them are forgotten, and names, old or new, are there to the last. */
static void test_stacks_without_end(void **state) {
  enum { STACKS = 100000, BUDGET = 4 << 20 };
  char text[64];
  recording_start((struct tg_record_options){.rank = -1, .memory_bytes = BUDGET});
  struct tg__thread *const thread = tg__thread();
  const uint32_t known = tg__dictionary_intern(thread, TG_RAW_D_NAME, 0, "known", 5);
  for (uint32_t i = 0, above = 0; i < STACKS; i++) {
    snprintf(text, sizeof text, "some/where/module.py(%u): function", i);
    const uint32_t id = tg__dictionary_intern(thread, TG_RAW_D_STACK, above, text, strlen(text));
    assert_int_equal(id, i + 1);
    above = i % 50 ? id : 0;
  }
  assert_int_equal(tg__dictionary_intern(thread, TG_RAW_D_NAME, 0, "known", 5), known);
  for (uint32_t i = 1; i <= 2000; i++) {
    snprintf(text, sizeof text, "late %u", i);
    assert_int_equal(tg__dictionary_intern(thread, TG_RAW_D_NAME, 0, text, strlen(text)), known + i);
  }
  assert_int_equal(tg__dictionary_intern(thread, TG_RAW_D_STACK, 0, "some/where/module.py(0): function", 33),
                   STACKS + 1); /* forgotten */
  assert_int_equal(tg__dictionary_intern(thread, TG_RAW_D_STACK, 0, "some/where/module.py(0): function", 33),
                   STACKS + 1);
  recording_make("late 7", 3);
  const struct tg_record_stats stats = recording_close();
  assert_true(stats.peak_memory_bytes <= BUDGET);
  struct tg__columns *const t = recording_read(recording_path);
  assert_int_equal(recording_count(t, "late 7", NULL), 3);
  assert_int_equal(lost_in(t, TG__LOSS_bent_no_dictionary), 0);
  tg__trace_free(t);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static int64_t entries(const char *dir) {
  DIR *const d = opendir(dir);
  int64_t n = 0;
  while (readdir(d)) n++;
  closedir(d);
  return n;
}

static int64_t maps(void) {
  FILE *const f = fopen("/proc/self/maps", "r");
  int64_t n = 0;
  for (int c; (c = getc(f)) != EOF;) n += c == '\n';
  fclose(f);
  return n;
}

/* A thread that was joined may still be listed for a moment: the kernel wakes the joiner before it takes the entry
 * away. */
static int64_t threads_once_ended(int64_t expected) {
  int64_t n = entries("/proc/self/task");
  for (int i = 0; n != expected && i < 5000; i++) {
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    n = entries("/proc/self/task");
  }
  return n;
}

static void one_session(void) {
  recording_start((struct tg_record_options){.rank = -1, .features = TG_RECORD_PROCESS});
  recording_make("work", 100);
  assert_true(recording_close().records >= 100); /* samples of the process may be among them */
}

static void test_1000_sessions(void **state) {
  for (int i = 0; i < 50; i++) one_session();
  const int64_t fds = entries("/proc/self/fd"), mapped = maps(), held = held_bytes(), threads = threads_once_ended(1);
  for (int i = 0; i < 950; i++) one_session();
  assert_int_equal(entries("/proc/self/fd"), fds);
  assert_true(maps() <= mapped + 2);
  assert_int_equal(threads_once_ended(threads), threads);
  if (!getenv("TG_ANY_RESIDENT"))
    assert_true(held_bytes() <= held + (256 << 10)); /* a sanitizer keeps what was freed */
}

static enum tg_err open_and_close(const struct tg_record_options *o) {
  struct tg_error e;
  const enum tg_err err = tg_record_open(o, &e);
  if (!err) recording_close();
  return err;
}

/* The least and the most that is taken, and one beyond. */
static void test_bounds_of_options(void **state) {
  enum { PATH_MOST = 4096 - 32 };
  char path[PATH_MOST + 2];
  struct tg_record_options o = {.path = recording_path, .rank = -1, .memory_bytes = 1 << 20};
  assert_int_equal(open_and_close(&o), TG_OK);
  o.memory_bytes--;
  assert_int_equal(open_and_close(&o), TG_USAGE);
  o = (struct tg_record_options){.path = recording_path, .rank = -1, .disk_bytes = 256 << 10};
  assert_int_equal(open_and_close(&o), TG_OK);
  o.disk_bytes--;
  assert_int_equal(open_and_close(&o), TG_USAGE);
  o = (struct tg_record_options){.path = recording_path, .rank = -1, .features = 2 * TG_RECORD_CUDA_MEMORY - 1};
  assert_int_equal(open_and_close(&o), TG_OK); /* what is not to be had here is missing */
  o.features++;
  assert_int_equal(open_and_close(&o), TG_USAGE);
  o = (struct tg_record_options){.path = recording_path, .rank = -1, .required = 2 * TG_RECORD_CUDA_MEMORY};
  assert_int_equal(open_and_close(&o), TG_USAGE);
  o = (struct tg_record_options){.path = recording_path, .rank = -1, .keep = TG_KEEP_LAST};
  assert_int_equal(open_and_close(&o), TG_OK);
  o.keep = (enum tg_record_keep)(TG_KEEP_FIRST + TG_KEEP_LAST + 7);
  assert_int_equal(open_and_close(&o), TG_USAGE);
  o = (struct tg_record_options){.path = "", .rank = -1};
  assert_int_equal(open_and_close(&o), TG_USAGE);
  /* the same directory by a path of exactly the most, and by one a byte longer */
  for (size_t len = PATH_MOST; len <= PATH_MOST + 1; len++) {
    memset(path, '/', len);
    memcpy(path, recording_dir, strlen(recording_dir));
    memcpy(path + len - 3, "run", 4);
    o = (struct tg_record_options){.path = path, .rank = -1};
    assert_int_equal(open_and_close(&o), len == PATH_MOST ? TG_OK : TG_USAGE);
  }
}

static void test_errors(void **state) {
  struct tg_error e;
  const struct tg_record_options nowhere = {.path = "/nonexistent/directory/run.tacho", .rank = -1},
                                 device = {.path = "/dev/full", .rank = -1}, directory = {.path = "/tmp", .rank = -1},
                                 denied = {.path = "/proc/self/run.tacho", .rank = -1},
                                 tiny_disk = {.path = recording_path, .disk_bytes = 1000},
                                 tiny_memory = {.path = recording_path, .memory_bytes = 1000},
                                 unknown = {.path = recording_path, .features = 1u << 30}, none = {.path = NULL},
                                 good = {.path = recording_path, .rank = -1};
  assert_int_equal(tg_record_open(&nowhere, &e), TG_NOT_FOUND);
  assert_non_null(strstr(e.text, "make the directory first"));
  assert_int_equal(tg_record_open(&device, &e), TG_IO);
  assert_int_equal(tg_record_open(&directory, &e), TG_IO);
  assert_int_not_equal(tg_record_open(&denied, &e), TG_OK);
  assert_int_equal(tg_record_open(&tiny_disk, &e), TG_USAGE);
  assert_int_equal(tg_record_open(&tiny_memory, &e), TG_USAGE);
  assert_int_equal(tg_record_open(&unknown, &e), TG_USAGE);
  assert_int_equal(tg_record_open(&none, &e), TG_USAGE);
  assert_int_equal(tg_record_open(NULL, &e), TG_USAGE);
  assert_int_equal(tg_record_resume(&e), TG_NOT_RECORDING);
  assert_int_equal(tg_record_pause(&e), TG_NOT_RECORDING);
  assert_int_equal(tg_record_close(NULL, &e), TG_NOT_RECORDING);
  assert_int_equal(tg_record_meta("a", "1", &e), TG_NOT_RECORDING);
  assert_int_equal(tg_record_open(&good, &e), TG_OK);
  assert_int_equal(tg_record_open(&good, &e), TG_BUSY);
  assert_non_null(strstr(e.text, recording_path));
  assert_int_equal(tg_record_close(NULL, NULL), TG_OK);
  assert_int_equal(tg_record_close(NULL, NULL), TG_NOT_RECORDING);
}

/* A missing source is reported, and fails only when it is required. */
static void test_missing_source(void **state) {
  struct tg_error e;
  struct tg_record_stats stats;
  const struct tg_record_options required = {.path = recording_path, .required = TG_RECORD_MEMORY, .rank = -1};
  assert_int_equal(tg_record_open(&required, &e), TG_UNSUPPORTED);
  assert_non_null(strstr(e.text, "torch"));
  assert_int_equal(file_bytes(recording_path), -1);
  recording_start((struct tg_record_options){.features = TG_RECORD_MEMORY | TG_RECORD_PROCESS, .rank = -1});
  tg_record_state(&stats);
  assert_true(stats.open && stats.running);
  assert_int_equal(stats.features, TG_RECORD_PROCESS);
  assert_int_equal(stats.missing, TG_RECORD_MEMORY);
  assert_non_null(strstr(stats.why, "torch"));
  assert_int_equal(tg_record_toggle(TG_RECORD_PROCESS, false, &e), TG_OK);
  tg_record_state(&stats);
  assert_int_equal(stats.features, 0);
  assert_int_equal(tg_record_toggle(TG_RECORD_PROCESS, true, &e), TG_OK);
  tg_record_state(&stats);
  assert_int_equal(stats.features, TG_RECORD_PROCESS);
  recording_close();
}

/* A file that may not grow further: for a mapped file that would be a fatal signal, and for a written one too. */
static void test_file_size_limit(void **state) {
  enum { MADE = 100000, LIMIT = 1 << 20 };
  const pid_t child = fork();
  if (child == 0) {
    const struct rlimit limit = {LIMIT, LIMIT};
    setrlimit(RLIMIT_FSIZE, &limit);
    recording_start((struct tg_record_options){.rank = -1});
    recording_make("work", MADE);
    const struct tg_record_stats stats = recording_close();
    _exit(stats.records + stats.lost == MADE && stats.records > 10000 && stats.lost > 10000 &&
                  strstr(stats.why, "File too large")
              ? 0
              : 1);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  assert_true(file_bytes(recording_path) <= LIMIT);
  tg__trace_free(recording_read(recording_path));
}

/* A file that is there is replaced, not cut: a reader that has it open keeps the old one. */
static void test_replaces(void **state) {
  char text[8] = "";
  FILE *f = fopen(recording_path, "w");
  fputs("before", f);
  fclose(f);
  f = fopen(recording_path, "r");
  recording_start((struct tg_record_options){.rank = -1});
  recording_make("work", 1);
  recording_close();
  assert_int_equal(fread(text, 1, sizeof text, f), 6);
  assert_string_equal(text, "before");
  fclose(f);
  tg__trace_free(recording_read(recording_path));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_keep_first, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_keep_last, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_texts_without_end, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_stacks_without_end, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_1000_sessions, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_200_threads, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_too_little_memory, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_bounds_of_options, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_errors, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_missing_source, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_file_size_limit, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_replaces, recording_setup, recording_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
