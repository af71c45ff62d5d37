/* process_sampler: what the process as a whole uses, ten times a second. */
#include "capture/capture.h"
#include "capture/process_family.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static int statm = -1, machine = -1;
static uint64_t cpu_before_ns, wall_before_ns;

/* Of the whole machine: /proc/stat takes up to a millisecond where there are many cores, the children some 10 us for
 * each process of the machine. So once a second, or as rarely as takes a hundredth of the time. The system counts in
 * hundredths of a second: what is shorter than SHORT_NS says nothing. */
enum { MACHINE_NS = 1000000000, MACHINE_TIMES = 100, SHORT_NS = 50000000 };
static struct {
  uint64_t busy_ns, own_ns, family_ns, wall_ns, period_ns;
  bool is_known;
} machine_before;
static struct tg__family family;

static uint64_t now_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* "cpu  user nice system idle iowait irq softirq steal ...", in ticks of the system; time that another virtual machine
 * takes (steal) is not ours either. 0: not known. */
static uint64_t machine_busy_ns(void) {
  char text[256];
  const ssize_t n = machine < 0 ? 0 : pread(machine, text, sizeof text - 1, 0);
  if (n <= 4) return 0;
  text[n] = 0;
  char *at = text + 3;
  uint64_t busy = 0;
  for (int i = 0; i < 8; i++) {
    const uint64_t ticks = strtoull(at, &at, 10);
    if (i != 3 && i != 4) busy += ticks;
  }
  return busy * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
}

static void read_machine(uint64_t period_ns) {
  const uint64_t began_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
  machine_before.is_known = tg__family_look(&family);
  machine_before.family_ns = family.used_ns;
  machine_before.busy_ns = machine_busy_ns();
  machine_before.own_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID);
  machine_before.wall_ns = now_ns(CLOCK_MONOTONIC);
  const uint64_t rare_ns = MACHINE_TIMES * (now_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns);
  machine_before.period_ns = rare_ns > period_ns ? rare_ns : period_ns;
}

/* What children and all others used since the last time: `child processes CPU %` says that children are no others. */
static void sample_machine(void) {
  const uint64_t busy_ns = machine_before.busy_ns, own_ns = machine_before.own_ns, wall_ns = machine_before.wall_ns,
                 family_ns = machine_before.family_ns;
  const bool was_known = machine_before.is_known;
  read_machine(MACHINE_NS);
  const uint64_t busy = machine_before.busy_ns - busy_ns, wall = machine_before.wall_ns - wall_ns,
                 children = machine_before.family_ns - family_ns, own = machine_before.own_ns - own_ns + children;
  if (!wall || !busy_ns || machine_before.busy_ns < busy_ns || !was_known || !machine_before.is_known) return;
  tg_counter("child processes CPU %", (int64_t)(children * 100 / wall));
  tg_counter("other processes CPU %", busy > own ? (int64_t)((busy - own) * 100 / wall) : 0);
}

static enum tg_err start_sampler(uint32_t features, struct tg_error *e) {
  statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  cpu_before_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID);
  wall_before_ns = now_ns(CLOCK_MONOTONIC);
  machine = open("/proc/stat", O_RDONLY | O_CLOEXEC);
  family.count = 0;
  family.reaped_ns = 0;   /* of a child that was forked it begins again */
  read_machine(SHORT_NS); /* the first sample comes with the first tick: a recording may be short */
  return statm >= 0 ? TG_OK
                    : tg__fail(e, TG_IO, -1, "memory of the process: /proc/self/statm cannot be read; mount /proc");
}

static void stop_sampler(void) {
  if (statm >= 0) close(statm);
  if (machine >= 0) close(machine);
  statm = machine = -1;
}

/* The second number of the line is resident pages. */
static int64_t resident_bytes(void) {
  char text[128];
  const ssize_t n = pread(statm, text, sizeof text - 1, 0);
  if (n <= 0) return 0;
  text[n] = 0;
  const char *const space = strchr(text, ' ');
  return space ? strtoll(space, NULL, 10) * sysconf(_SC_PAGESIZE) : 0;
}

static void tick(void) {
  const uint64_t cpu_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID), wall_ns = now_ns(CLOCK_MONOTONIC);
  if (wall_ns <= wall_before_ns) return;
  tg_counter("process CPU %", (int64_t)((cpu_ns - cpu_before_ns) * 100 / (wall_ns - wall_before_ns)));
  tg_counter("process RSS bytes", resident_bytes());
  if (machine >= 0 && wall_ns - machine_before.wall_ns >= machine_before.period_ns) sample_machine();
  cpu_before_ns = cpu_ns;
  wall_before_ns = wall_ns;
}

/* The rest of the time since the last sample: it is all that is known of a short recording. */
static void last(void) {
  if (now_ns(CLOCK_MONOTONIC) - wall_before_ns >= SHORT_NS) tick();
  if (machine >= 0 && now_ns(CLOCK_MONOTONIC) - machine_before.wall_ns >= SHORT_NS) sample_machine();
}

/* The child's /proc/self is another one than what is open here. */
static void fork_child(void) {
  struct tg_error ignored;
  if (statm < 0) return;
  stop_sampler();
  start_sampler(0, &ignored);
}

const struct tg__source tg__source_process = {.name = "process",
                                              .features = TG_RECORD_PROCESS,
                                              .start = start_sampler,
                                              .stop = stop_sampler,
                                              .tick = tick,
                                              .last = last,
                                              .fork_child = fork_child};
