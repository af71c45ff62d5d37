/* clock: which counter ticks, and how its ticks relate to the wall clock. */
#include "capture/session.h"

#include <fcntl.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

bool tg__clock_is_counter;

#if defined(__x86_64__)
/* Does the kernel still list the counter? It drops one that it found to run differently on different cores. */
static bool is_listed(void) {
  char text[128];
  const int fd = open("/sys/devices/system/clocksource/clocksource0/available_clocksource", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return true; /* hidden from us: the processor's word must do */
  const ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return true;
  text[n] = 0;
  return strstr(text, "tsc") != NULL;
}
#endif

void tg__clock_decide(void) {
#if defined(__x86_64__)
  unsigned a, b, c, d;
  const bool is_invariant =
      __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1 << 8); /* runs at one rate in every state of the core */
  tg__clock_is_counter = is_invariant && is_listed();
#elif defined(__aarch64__)
  tg__clock_is_counter = true; /* the architecture promises it */
#endif
}

void tg__clock_pair(uint64_t *ticks, int64_t *wall_ns) {
  uint64_t best = UINT64_MAX;
  for (int i = 0; i < 5; i++) { /* the try that was interrupted least */
    struct timespec t;
    const uint64_t before = tg__ticks();
    clock_gettime(CLOCK_REALTIME, &t);
    const uint64_t after = tg__ticks();
    if (after - before >= best) continue;
    best = after - before;
    *ticks = before + (after - before) / 2;
    *wall_ns = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
  }
}
