/* The CPU time of a process's children: sums worked out by hand, and real children that end unseen. */
#include "capture/process_family.h"
#include "unit/recording.h"

enum { MS = 1000000 };

/* One child of 70 ms that is seen twice and ends; what it used counts once, however it is seen. */
static void test_a_child_counts_once(void **state) {
  static struct tg__family f;
  struct tg__relative child = {.pid = 10, .start = 5, .cpu_ns = 20 * MS};
  f = (struct tg__family){0};
  tg__family_add(&f, &child, 1, 0);
  assert_int_equal(f.used_ns, 20 * MS);
  child.cpu_ns = 50 * MS;
  tg__family_add(&f, &child, 1, 0);
  assert_int_equal(f.used_ns, 50 * MS);
  tg__family_add(&f, NULL, 0, 70 * MS); /* it ended after 20 more, and was waited for */
  assert_int_equal(f.used_ns, 70 * MS);
  tg__family_add(&f, NULL, 0, 70 * MS);
  assert_int_equal(f.used_ns, 70 * MS);
  tg__family_add(&f, NULL, 0, 95 * MS); /* another one that was never seen alive: 25 */
  assert_int_equal(f.used_ns, 95 * MS);
}

/* A child of 30 ms has a child of 40 that ends: the first has waited for it, then ends as well. 30 + 40 are 70. */
static void test_the_child_of_a_child(void **state) {
  static struct tg__family f;
  const struct tg__relative both[] = {{.pid = 10, .start = 5, .cpu_ns = 10 * MS},
                                      {.pid = 11, .start = 6, .cpu_ns = 30 * MS}};
  const struct tg__relative one = {.pid = 10, .start = 5, .cpu_ns = 20 * MS, .reaped_ns = 40 * MS};
  f = (struct tg__family){0};
  tg__family_add(&f, both, 2, 0);
  assert_int_equal(f.used_ns, 40 * MS);
  tg__family_add(&f, &one, 1, 0);
  assert_int_equal(f.used_ns, 60 * MS);
  tg__family_add(&f, NULL, 0, 70 * MS);
  assert_int_equal(f.used_ns, 70 * MS);
}

/* One that is never waited for: 20 ms were seen of it. A number that is used again is another process. */
static void test_what_is_lost_takes_nothing_off(void **state) {
  static struct tg__family f;
  struct tg__relative x = {.pid = 10, .start = 5, .cpu_ns = 20 * MS};
  f = (struct tg__family){0};
  tg__family_add(&f, &x, 1, 0);
  tg__family_add(&f, NULL, 0, 0);
  assert_int_equal(f.used_ns, 20 * MS);
  x.start = 9;
  x.cpu_ns = 3 * MS;
  tg__family_add(&f, &x, 1, 0);
  assert_int_equal(f.used_ns, 23 * MS);
}

/* 7 and 5 ticks of its own, 3 and 1 of its children, of 10 ms each. */
static void test_a_line_of_the_system(void **state) {
  static const char line[] =
      "4321 (a (b) c) S 17 4321 4321 0 -1 4194560 1 2 3 4 7 5 3 1 20 0 1 0 99123 1000 200 18446744073709551615\n";
  struct tg__relative x;
  int64_t parent;
  assert_true(tg__relative_parse(line, 100, &x, &parent));
  assert_int_equal(x.pid, 4321);
  assert_int_equal(parent, 17);
  assert_int_equal(x.start, 99123);
  assert_int_equal(x.cpu_ns, 120 * MS);
  assert_int_equal(x.reaped_ns, 40 * MS);
  const size_t start = (size_t)(strstr(line, "99123") - line);
  for (size_t len = 0; len <= start; len++) { /* cut before the start of the process */
    char cut[sizeof line];
    memcpy(cut, line, len);
    cut[len] = 0;
    assert_false(tg__relative_parse(cut, 100, &x, &parent));
  }
  assert_false(tg__relative_parse("", 100, &x, &parent));
  assert_false(tg__relative_parse(line, 0, &x, &parent));
}

static uint64_t cpu_ns(clockid_t clock) {
  struct timespec t;
  assert_int_equal(clock_gettime(clock, &t), 0);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void spin(uint64_t ns) {
  while (cpu_ns(CLOCK_PROCESS_CPUTIME_ID) < ns) {}
}

/* A child that spins for 60 ms of CPU time and has one that spins for 40, both ended before anybody looks; and one that
 * still lives. */
static void test_children_that_nobody_saw(void **state) {
  static struct tg__family f;
  f = (struct tg__family){0};
  assert_true(tg__family_look(&f));
  const uint64_t before_ns = f.used_ns;
  const pid_t pid = fork();
  if (pid == 0) {
    spin(60 * MS);
    const pid_t inner = fork();
    if (inner == 0) {
      spin(40 * MS);
      _exit(0);
    }
    waitpid(inner, NULL, 0);
    _exit(0);
  }
  waitpid(pid, NULL, 0);
  assert_true(tg__family_look(&f));
  assert_in_range(f.used_ns - before_ns, 100 * MS, 180 * MS);
}

static void test_a_child_that_lives(void **state) {
  static struct tg__family f;
  int ready[2];
  f = (struct tg__family){0};
  assert_int_equal(pipe(ready), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    spin(50 * MS);
    if (write(ready[1], "x", 1) != 1) _exit(1);
    pause();
  }
  char c;
  assert_int_equal(read(ready[0], &c, 1), 1);
  assert_true(tg__family_look(&f));
  assert_int_equal(f.count, 1);
  assert_int_equal(f.known[0].pid, pid);
  const uint64_t alive_ns = f.known[0].cpu_ns;
  assert_in_range(alive_ns, 50 * MS, 120 * MS);
  const uint64_t used_ns = f.used_ns;
  kill(pid, SIGKILL);
  siginfo_t info;
  assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
  assert_true(tg__family_look(&f)); /* not waited for yet */
  assert_int_equal(f.count, 1);
  assert_in_range(f.used_ns - used_ns, 0, 20 * MS);
  waitpid(pid, NULL, 0);
  assert_true(tg__family_look(&f));
  assert_int_equal(f.count, 0);
  assert_in_range(f.used_ns - used_ns, 0, 20 * MS);
  close(ready[0]);
  close(ready[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_child_counts_once),
      cmocka_unit_test(test_the_child_of_a_child),
      cmocka_unit_test(test_what_is_lost_takes_nothing_off),
      cmocka_unit_test(test_a_line_of_the_system),
      cmocka_unit_test(test_children_that_nobody_saw),
      cmocka_unit_test(test_a_child_that_lives),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
