/* process_sampler: what the process as a whole uses, ten times a second. */
#include "capture/capture.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static int statm = -1;
static uint64_t cpu_before_ns, wall_before_ns;

static uint64_t now_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static enum tg_err start_sampler(uint32_t features, struct tg_error *e) {
  statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  cpu_before_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID);
  wall_before_ns = now_ns(CLOCK_MONOTONIC);
  return statm >= 0 ? TG_OK
                    : tg__fail(e, TG_IO, -1, "memory of the process: /proc/self/statm cannot be read; mount /proc");
}

static void stop_sampler(void) {
  if (statm >= 0) close(statm);
  statm = -1;
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
