/* thread_cost: what a thread has used and waited for so far. Read only at the edges of steps: 1 us, of system calls. */
#include "capture/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* A step that begins so soon after the one before goes on from its reading: some 20 us of the processor's counter. */
enum { SOON_TICKS = 1 << 16 };

/* "time on a core, time ready without one, turns", in ns. The kernel brings the first up to date only when asked by a
 * clock, so of this file the second is used. */
static uint64_t read_wait(struct tg__thread_private *p) {
  char text[96];
  if (!p->cost_file) p->cost_file = 1 + open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  const ssize_t n = p->cost_file > 0 ? pread(p->cost_file - 1, text, sizeof text - 1, 0) : 0;
  if (n <= 0) {
    if (!p->cost_file) p->cost_file = -1; /* once is enough */
    return TG_COST_UNKNOWN;
  }
  text[n] = 0;
  char *end;
  strtoull(text, &end, 10);
  return *end == ' ' ? strtoull(end, NULL, 10) : TG_COST_UNKNOWN;
}

static bool read_cost(struct tg__thread *t, struct tg__thread_cost *out) {
  const int error = errno;
  struct timespec cpu;
  struct rusage usage;
  if (!tg__busy_enter(t)) return false;
  const bool ok = clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu) == 0 && getrusage(RUSAGE_THREAD, &usage) == 0;
  if (ok)
    *out = (struct tg__thread_cost){.cpu_ns = (uint64_t)cpu.tv_sec * 1000000000u + (uint64_t)cpu.tv_nsec,
                                    .wait_ns = read_wait(t->more),
                                    .preemptions = (uint64_t)usage.ru_nivcsw,
                                    .is_known = true};
  tg__busy_leave(t);
  errno = error;
  return ok;
}

void tg__cost_begin(struct tg__thread *t) {
  struct tg__thread_private *const p = t->more;
  if (p->cost.is_known && tg__ticks() - p->cost_ticks < SOON_TICKS) return;
  if (!read_cost(t, &p->cost)) p->cost.is_known = false;
}

static uint32_t us(uint64_t from_ns, uint64_t to_ns) {
  const uint64_t n = to_ns > from_ns ? (to_ns - from_ns) / 1000 : 0;
  return n < UINT32_MAX - 1 ? (uint32_t)n : UINT32_MAX - 1;
}

void tg__cost_end(struct tg__thread *t, struct tg__open *step) {
  struct tg__thread_private *const p = t->more;
  const struct tg__thread_cost before = p->cost;
  p->cost.is_known = false;
  if (!before.is_known || !read_cost(t, &p->cost)) return;
  const bool waits = before.wait_ns != TG_COST_UNKNOWN && p->cost.wait_ns != TG_COST_UNKNOWN;
  step->shape = us(before.cpu_ns, p->cost.cpu_ns);
  step->stack = waits ? us(before.wait_ns, p->cost.wait_ns) : UINT32_MAX;
  step->seq = (uint32_t)(p->cost.preemptions - before.preemptions) + 1;
  p->cost_ticks = tg__ticks();
}

void tg__cost_close(struct tg__thread *t) {
  struct tg__thread_private *const p = t->more;
  if (p->cost_file > 0) close(p->cost_file - 1);
  p->cost_file = 0;
  p->cost.is_known = false;
}
