/* What a process that forks does to its recording: every process has a file of its own. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "unit/nvtx_client.h"
#include "unit/recording.h"

extern int InitializeInjectionNvtx2(const void *(*tables)(uint32_t));

static struct tg__columns *read_child(pid_t pid) {
  char path[128];
  snprintf(path, sizeof path, "%s/run.%d.tacho", recording_dir, (int)pid);
  return recording_read(path);
}

static size_t files(void) {
  DIR *const d = opendir(recording_dir);
  size_t n = 0;
  for (const struct dirent *entry; (entry = readdir(d));) n += entry->d_name[0] != '.';
  closedir(d);
  return n;
}

/* Does every other thread of this process sleep? */
static bool others_sleep(void) {
  DIR *const d = opendir("/proc/self/task");
  bool sleep = d != NULL;
  for (const struct dirent *entry; d && (entry = readdir(d));) {
    char path[300], line[512] = "";
    const int task = atoi(entry->d_name);
    if (task <= 0 || task == gettid()) continue;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", task);
    FILE *const f = fopen(path, "r");
    if (f) line[fread(line, 1, sizeof line - 1, f)] = 0;
    if (f) fclose(f);
    const char *const state = strrchr(line, ')');
    sleep = sleep && state && state[1] && state[2] == 'S';
  }
  if (d) closedir(d);
  return sleep;
}

/* The address sanitizer of GCC 12 keeps the lock of its allocator over a fork: a thread that is just starting, and has
 * it, leaves it locked in the child for ever. */
static pid_t fork_at_rest(void) {
  for (int i = 0; i < 2000 && !others_sleep(); i++) sleep_us(1000);
  return fork();
}

static void be_child(_Atomic pid_t *grandchild) {
  recording_make("child", 1000);
  tg_range_begin("around the fork");
  const pid_t pid = fork_at_rest();
  if (pid == 0) {
    recording_make("grandchild", 2000);
    exit(0); /* through the handlers of the end: its file is closed */
  }
  *grandchild = pid;
  waitpid(pid, NULL, 0);
  tg_range_end();
  _exit(0); /* as worker processes do: nothing is closed */
}

static void test_fork(void **state) {
  _Atomic pid_t *const grandchild = shared_page();
  recording_start((struct tg_record_options){.rank = 1, .session = 77, .features = TG_RECORD_PROCESS});
  tg_range_begin("around the fork");
  recording_make("before", 500);
  const pid_t child = fork_at_rest();
  if (child == 0) be_child(grandchild);
  const pid_t silent = fork_at_rest();
  if (silent == 0) _exit(0);
  recording_make("after", 3000);
  tg_range_end();
  assert_exits_with_zero(child);
  assert_exits_with_zero(silent);
  assert_true(recording_close().records >= 3501); /* samples of the process may be among them */
  assert_int_equal(files(), 3);                   /* a process without records left no file */
  struct tg__columns *t = recording_read(recording_path);
  assert_int_equal(recording_count(t, "before", NULL), 500);
  assert_int_equal(recording_count(t, "after", NULL), 3000);
  assert_int_equal(recording_count(t, "around the fork", NULL), 1);
  assert_int_equal(recording_count(t, "child", NULL), 0);
  tg__trace_free(t);
  t = read_child(child);
  assert_int_equal(recording_count(t, "child", NULL), 1000);
  assert_int_equal(recording_count(t, "around the fork", NULL), 1);
  assert_int_equal(recording_slices(t), 1001);
  assert_int_equal(t->ranks[0].processes[0].parent, getpid());
  assert_int_equal(t->ranks[0].processes[0].session, 77);
  assert_int_equal(t->ranks[0].processes[0].stop_ns, 0);
  tg__trace_free(t);
  t = read_child(*grandchild);
  assert_int_equal(recording_slices(t), 2000);
  assert_int_equal(t->ranks[0].processes[0].parent, child);
  assert_true(t->ranks[0].processes[0].stop_ns > 0);
  tg__trace_free(t);
  munmap((void *)grandchild, 4096);
}

/* A member of the document may be the first thing that a child has to say. */
static void test_meta_of_a_child(void **state) {
  recording_start((struct tg_record_options){.rank = -1});
  recording_make("parent", 1);
  const pid_t child = fork_at_rest();
  if (child == 0) {
    struct tg_error e;
    const enum tg_err err = tg_record_meta("who", "\"a child\"", &e);
    recording_make("child", 1);
    _exit(err);
  }
  assert_exits_with_zero(child);
  recording_close();
  struct tg__columns *const t = read_child(child);
  const struct tg__str who = tg__document_member(t, 0, "who");
  assert_int_equal(who.len, strlen("\"a child\""));
  assert_memory_equal(who.ptr, "\"a child\"", who.len);
  assert_int_equal(recording_count(t, "child", NULL), 1);
  tg__trace_free(t);
}

static _Atomic bool stop;
static void *until_stopped(void *made) {
  uint64_t n = 0;
  for (; !atomic_load_explicit(&stop, memory_order_relaxed); n++) recording_make("busy", 1);
  *(uint64_t *)made = n;
  return NULL;
}

/* Children forked while other threads write at full speed: neither side may find the other's records in its file. */
static void test_fork_while_threads_record(void **state) {
  enum { FORKS = 20, THREADS = 3 };
  pthread_t threads[THREADS];
  uint64_t made[THREADS], sum = 0;
  pid_t children[FORKS];
  atomic_store(&stop, false);
  recording_start((struct tg_record_options){.rank = -1});
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, until_stopped, &made[i]);
  for (int i = 0; i < FORKS; i++) {
    sleep_us(1000);
    children[i] = fork();
    if (children[i] == 0) {
      recording_make("in the child", 100);
      _exit(0);
    }
  }
  for (int i = 0; i < FORKS; i++) assert_exits_with_zero(children[i]);
  atomic_store(&stop, true);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; i++) sum += made[i];
  const struct tg_record_stats stats = recording_close();
  assert_int_equal(stats.records + stats.lost, sum);
  struct tg__columns *t = recording_read(recording_path);
  assert_int_equal(recording_slices(t), stats.records);
  assert_int_equal(recording_count(t, "in the child", NULL), 0);
  tg__trace_free(t);
  for (int i = 0; i < FORKS; i++) {
    t = read_child(children[i]);
    assert_int_equal(recording_slices(t), 100);
    assert_int_equal(recording_count(t, "in the child", NULL), 100);
    tg__trace_free(t);
  }
}

/* A child may close what it inherited and record on its own. */
static void test_session_in_a_child(void **state) {
  recording_start((struct tg_record_options){.rank = -1});
  recording_make("parent", 10);
  const pid_t child = fork_at_rest();
  if (child == 0) {
    struct tg_error e;
    char path[128];
    snprintf(path, sizeof path, "%s/own.tacho", recording_dir);
    const struct tg_record_options options = {.path = path, .rank = -1};
    if (tg_record_close(NULL, &e) || tg_record_open(&options, &e) || tg_record_resume(&e)) _exit(1);
    recording_make("own", 20);
    _exit(tg_record_close(NULL, &e) ? 2 : 0);
  }
  assert_exits_with_zero(child);
  recording_make("parent", 10);
  assert_int_equal(recording_close().records, 20);
  char path[128];
  snprintf(path, sizeof path, "%s/own.tacho", recording_dir);
  struct tg__columns *const t = recording_read(path);
  assert_int_equal(recording_count(t, "own", NULL), 20);
  tg__trace_free(t);
  assert_int_equal(files(), 2);
}

/* Without memory of its own: the thread that makes recordings may have had the lock of the allocator. */
static int kept_files(void) {
  char name[32], target[256];
  int kept = 0;
  for (int fd = 3; fd < 256; fd++) {
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(name, target, sizeof target - 1);
    target[n > 0 ? n : 0] = 0;
    kept += strstr(target, "/tg_capture_") != NULL;
  }
  return kept;
}

static void *record_again_and_again(void *failed) {
  const struct tg_record_options options = {.path = recording_path, .rank = -1};
  while (!atomic_load(&stop)) *(bool *)failed |= tg_record_open(&options, NULL) || tg_record_close(NULL, NULL);
  return NULL;
}

/* The file is opened or closed at the moment of the fork: the child keeps none. */
static void test_fork_while_a_file_opens_and_closes(void **state) {
  const int forks = getenv("TG_SLOW") ? 3000 : 300;
  pthread_t thread;
  bool failed = false;
  atomic_store(&stop, false);
  assert_int_equal(pthread_create(&thread, NULL, record_again_and_again, &failed), 0);
  int kept = 0;
  for (int i = 0; i < forks; i++) {
    int status = -1;
    const pid_t child = fork();
    if (child == 0) _exit(kept_files());
    assert_int_equal(waitpid(child, &status, 0), child);
    kept += !WIFEXITED(status) || WEXITSTATUS(status);
  }
  atomic_store(&stop, true);
  pthread_join(thread, NULL);
  assert_false(failed);
  assert_int_equal(kept, 0);
}

/* A recording that cannot be made leaves no number behind: a child would close the program's file of that number. */
static void be_without_memory(void) {
  const struct tg_record_options options = {.path = recording_path, .rank = -1};
  struct tg_error e = {0};
  struct rlimit limit, none;
  if (tg_record_open(&options, &e) || tg_record_close(NULL, &e)) _exit(1); /* what is made once is there */
  if (getrlimit(RLIMIT_AS, &limit)) _exit(2);
  none = (struct rlimit){0, limit.rlim_max};
  if (setrlimit(RLIMIT_AS, &none) || !tg_record_open(&options, &e) || setrlimit(RLIMIT_AS, &limit)) _exit(3);
  if (!strstr(e.text, "could not be written")) _exit(4);
  const int own = open("/dev/null", O_RDONLY);
  const pid_t child = fork();
  if (child == 0) _exit(own < 0 || fcntl(own, F_GETFD) < 0);
  int status = -1;
  _exit(waitpid(child, &status, 0) != child || status ? 5 : 0);
}

static void test_fork_after_a_file_that_could_not_be_made(void **state) {
  const pid_t child = fork_at_rest();
  if (child == 0) be_without_memory();
  assert_exits_with_zero(child);
}

static void test_ranges_of_nvtx(void **state) {
  char path[128];
  assert_int_equal(nvtx_attach(InitializeInjectionNvtx2), 1);
  recording_start((struct tg_record_options){.rank = -1, .features = TG_RECORD_NVTX});
  nvtx_push_a("around the fork");
  const uint64_t range = nvtx_start_a("span over the fork");
  const pid_t child = fork_at_rest();
  if (child == 0) {
    nvtx_end(range); /* the parent's */
    nvtx_pop();
    nvtx_push_a("in the child");
    nvtx_pop();
    struct tg_error e;
    _exit(tg_record_close(NULL, &e) ? 1 : 0);
  }
  assert_exits_with_zero(child);
  nvtx_end(range);
  nvtx_pop();
  assert_int_equal(recording_close().records, 2);
  snprintf(path, sizeof path, "%s/run.%d.tacho", recording_dir, (int)child);
  struct tg__columns *const t = recording_read(path);
  recording_find(t, "in the child");
  assert_int_equal(recording_slices(t), 1);
  tg__trace_free(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_fork, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_meta_of_a_child, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_fork_while_threads_record, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_session_in_a_child, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_fork_while_a_file_opens_and_closes, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_fork_after_a_file_that_could_not_be_made, recording_setup,
                                      recording_teardown),
      cmocka_unit_test_setup_teardown(test_ranges_of_nvtx, recording_setup, recording_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
