/* process_sampler: what the process as a whole uses, ten times a second. */
#include "capture/capture.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static int statm = -1, machine = -1;
static uint64_t cpu_before_ns, wall_before_ns;

/* Of the whole machine: /proc/stat, which costs up to a millisecond where there are many cores, so once a second. */
enum { MACHINE_TICKS = 10 };
static struct {
  uint64_t busy_ns, own_ns, wall_ns, ticks;
} machine_before;

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

static void read_machine(void) {
  machine_before.busy_ns = machine_busy_ns();
  machine_before.own_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID);
  machine_before.wall_ns = now_ns(CLOCK_MONOTONIC);
}

/* What the others used meanwhile. The first time after one tick: a recording may be short. */
static void sample_machine(void) {
  if (machine < 0 || machine_before.ticks++ % MACHINE_TICKS) return;
  const uint64_t busy_ns = machine_before.busy_ns, own_ns = machine_before.own_ns, wall_ns = machine_before.wall_ns;
  read_machine();
  const uint64_t busy = machine_before.busy_ns - busy_ns, own = machine_before.own_ns - own_ns,
                 wall = machine_before.wall_ns - wall_ns;
  if (wall && machine_before.busy_ns >= busy_ns)
    tg_counter("other processes CPU %", busy > own ? (int64_t)((busy - own) * 100 / wall) : 0);
}

static enum tg_err start_sampler(uint32_t features, struct tg_error *e) {
  statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  cpu_before_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID);
  wall_before_ns = now_ns(CLOCK_MONOTONIC);
  machine = open("/proc/stat", O_RDONLY | O_CLOEXEC);
  machine_before.ticks = 0;
  read_machine();
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
  sample_machine();
  cpu_before_ns = cpu_ns;
  wall_before_ns = wall_ns;
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
                                              .fork_child = fork_child};
