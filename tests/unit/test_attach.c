/* What attaching goes by: symbols of files, and the entries of a process in /proc. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "attach/attach.h"

int probe_one(int x);
int probe_two(int x);
__attribute__((noinline)) int probe_one(int x) { return x + 1; }
__attribute__((noinline)) int probe_two(int x) { return x + 2; }

/* The distance of two functions in the file is the one in memory. */
static void test_symbols_of_this_program(void **state) {
  static const char *const names[] = {"probe_one", "probe_two", "no_such_function"};
  struct tg__elf_file found;
  struct tg__file *f;
  assert_int_equal(tg__file_open("/proc/self/exe", &f, NULL), TG_OK);
  assert_true(tg__elf_file_read(f, names, 3, &found));
  assert_int_equal(found.values[1] - found.values[0], (uintptr_t)probe_two - (uintptr_t)probe_one);
  assert_int_equal(found.values[2], 0);
  tg__file_close(f);
}

static void test_what_is_no_program(void **state) {
  static const char *const names[] = {"mmap"};
  struct tg__elf_file found;
  struct tg__file *f;
  assert_int_equal(tg__file_open("/proc/self/status", &f, NULL), TG_OK);
  assert_false(tg__elf_file_read(f, names, 1, &found));
  tg__file_close(f);
}

static void refused(int pid, const char *said) {
  struct tg__target t;
  struct tg_error e = {0};
  assert_int_not_equal(tg__target_read(pid, &t, &e), TG_OK);
  if (!strstr(e.text, said)) fail_msg("'%s' does not say '%s'", e.text, said);
}

static void wait_for_program(int pid, const char *name) {
  char path[64], comm[64] = "";
  snprintf(path, sizeof path, "/proc/%d/comm", pid);
  for (int i = 0; i < 1000 && strncmp(comm, name, strlen(name)) != 0; i++) {
    FILE *const f = fopen(path, "r");
    if (!f || !fgets(comm, sizeof comm, f)) comm[0] = 0;
    if (f) fclose(f);
    usleep(10000);
  }
}

static void test_processes_that_are_refused(void **state) {
  char said[64];
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  refused(child, "is no Python, or one without symbols");
  const pid_t program = fork();
  if (program == 0) execl("/bin/sleep", "sleep", "777", (char *)NULL), _exit(1);
  wait_for_program(program, "sleep");
  refused(program, "(sleep) is no Python"); /* and not 777, its first word */
  kill(program, SIGKILL);
  waitpid(program, NULL, 0);
  kill(child, SIGSTOP);
  int status;
  waitpid(child, &status, WUNTRACED);
  snprintf(said, sizeof said, "kill -CONT %d", (int)child);
  refused(child, said);
  kill(child, SIGKILL);
  siginfo_t info;
  waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT);
  refused(child, "has ended");
  const struct tg__target ended = {.pid = child}, ours = {.pid = getpid()};
  assert_false(tg__target_lives(&ended));
  assert_true(tg__target_lives(&ours));
  waitpid(child, &status, 0);
  refused(child, "there is no process");
}

/* ---- a call in another process ---------------------------------------------------------------- */

static volatile double *shared; /* [0]: rounds of the child, [1]: what its sums came to */

static int add_to_shared(int a, int b) {
  shared[2] = a + b;
  return a * b;
}

/* A loop of sums whose result any register that was not put back would change. */
static void compute(void) {
  for (;;) {
    double sum = 0;
    for (int i = 1; i <= 1000; i++) sum += 1.0 / i;
    if (shared[0] == 0) shared[1] = sum;
    if (sum != shared[1]) shared[3] += 1;
    shared[0] += 1;
    if ((int)shared[0] % 64 == 0) usleep(100);
  }
}

static void test_calls_leave_no_trace(void **state) {
  enum { ROUNDS = 200 };
  struct tg_error e = {0};
  struct tg__stopped *s;
#if defined(__aarch64__)
  const uint32_t trap = 0xd4200000; /* brk */
#else
  const uint8_t trap = 0xcc; /* int3 */
#endif
  shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  void *const code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(code, &trap, sizeof trap);
  const pid_t child = fork();
  if (child == 0) compute();
  while (shared[0] < 10) usleep(100);
  const struct tg__target t = {.pid = child, .trap = (uintptr_t)code};
  for (int i = 0; i < ROUNDS; i++) {
    const uint64_t args[6] = {(uint64_t)i, 3};
    const double rounds = shared[0];
    uint64_t result = 0;
    const enum tg_err err = tg__stopped_take(&t, &s, &e);
    if (err == TG_UNSUPPORTED) { /* the system forbids it */
      kill(child, SIGKILL);
      waitpid(child, NULL, 0);
      skip();
    }
    assert_int_equal(err, TG_OK);
    assert_int_equal(tg__stopped_call(s, (uintptr_t)add_to_shared, args, &result, &e), TG_OK);
    tg__stopped_release(s);
    assert_int_equal((int)result, i * 3);
    assert_int_equal((int)shared[2], i + 3);
    while (shared[0] < rounds + 2) usleep(50);
  }
  assert_true(shared[3] == 0); /* no sum came out otherwise */
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_symbols_of_this_program),
      cmocka_unit_test(test_what_is_no_program),
      cmocka_unit_test(test_processes_that_are_refused),
      cmocka_unit_test(test_calls_leave_no_trace),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
