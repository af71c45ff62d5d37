/* helper_thread: does what threads of the program should not have to: seals full chunks, maps the next ones, lets
 * the sources sample, keeps counters and clock pairs in the file. */
#include "capture/session.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TICK_NS = 100000000, STACK_BYTES = 256 << 10, CLOCK_FAST = 60 };

static struct {
  pthread_t thread;
  _Atomic bool runs;
  _Atomic uint32_t bell; /* changes when there is something to do; a futex */
  _Atomic bool stops;
} helper;
static pthread_mutex_t ticks_lock = PTHREAD_MUTEX_INITIALIZER;

void tg__ticks_hold(void) { pthread_mutex_lock(&ticks_lock); }
void tg__ticks_release(void) { pthread_mutex_unlock(&ticks_lock); }

/* A wake-up is a system call, about 1 us, twice per chunk of a thread. */
void tg__helper_wake(void) {
  const int error = errno;
  atomic_fetch_add(&helper.bell, 1);
  syscall(SYS_futex, &helper.bell, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
  errno = error;
}

static uint64_t now_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void wait(uint32_t seen, uint64_t until_ns) {
  const uint64_t now = now_ns(CLOCK_MONOTONIC);
  if (now >= until_ns) return;
  const struct timespec left = {.tv_sec = (time_t)((until_ns - now) / 1000000000u),
                                .tv_nsec = (long)((until_ns - now) % 1000000000u)};
  syscall(SYS_futex, &helper.bell, FUTEX_WAIT_PRIVATE, seen, &left, NULL, 0);
}

static void serve_threads(uint32_t generation) {
  for (struct tg__thread *t = tg__threads_first(); t; t = t->more->next) {
    if (atomic_load(&t->more->file_generation) != generation) continue;
    tg__chunk_prepare(t); /* first what a thread may be about to wait for */
    tg__chunk_seal_full(t);
  }
}

static void serve_sources(void) {
  if (pthread_mutex_trylock(&ticks_lock)) return; /* sources are being started or stopped */
  if (atomic_load(&tg__running)) tg__sources_serve();
  pthread_mutex_unlock(&ticks_lock);
}

/* Ten times a second. Clock pairs once a second for a minute, later every ten seconds: they are for slow drift. */
static void tick(uint64_t n, uint64_t used_before_ns) {
  const uint64_t second = n / 10;
  if (pthread_mutex_trylock(&ticks_lock) == 0) { /* taken: sources are being started or stopped */
    if (atomic_load(&tg__running)) tg__sources_tick();
    pthread_mutex_unlock(&ticks_lock);
  }
  atomic_fetch_add(&tg__session.room, 1); /* a thread that had no room may ask again */
  if (n % 10 == 0 && (second <= CLOCK_FAST || second % 10 == 0)) tg__recording_clock();
  tg__session_count(TG_RAW_C_SELF_NS, now_ns(CLOCK_THREAD_CPUTIME_ID) - used_before_ns);
  tg__recording_counts();
}

static void *run(void *unused) {
  const uint32_t generation = tg__generation_now() | 1; /* of the session being opened, or opened just now */
  uint64_t n = 0, next_tick = now_ns(CLOCK_MONOTONIC) + TICK_NS, used_ns = 0;
  prctl(PR_SET_NAME, "tachograph");
  while (!atomic_load(&helper.stops)) {
    const uint32_t seen = atomic_load(&helper.bell);
    serve_threads(generation);
    serve_sources();
    if (now_ns(CLOCK_MONOTONIC) >= next_tick) {
      tick(++n, used_ns);
      used_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
      next_tick += TICK_NS;
      if (next_tick < now_ns(CLOCK_MONOTONIC))
        next_tick = now_ns(CLOCK_MONOTONIC) + TICK_NS; /* it was asleep for long */
    }
    if (!atomic_load(&helper.stops)) wait(seen, next_tick);
  }
  return NULL;
}

bool tg__helper_is_off(void) { return !atomic_load(&helper.runs); }

bool tg__thread_start(pthread_t *thread, void *(*work)(void *)) {
  pthread_attr_t attributes;
  sigset_t all, before;
  if (pthread_attr_init(&attributes)) return false;
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  sigfillset(&all); /* a signal is for the program's own threads */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(thread, &attributes, work, NULL);
  if (error == EINVAL)
    error = pthread_create(thread, NULL, work, NULL); /* libraries with much thread-local data need a larger stack */
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return error == 0;
}

bool tg__helper_start(void) {
  atomic_store(&helper.stops, false);
  helper.runs = tg__thread_start(&helper.thread, run);
  return helper.runs;
}

void tg__helper_stop(void) {
  if (!helper.runs) return;
  atomic_store(&helper.stops, true);
  tg__helper_wake();
  pthread_join(helper.thread, NULL);
  helper.runs = false;
}

void tg__helper_forked(void) {
  atomic_store(&helper.runs, false); /* only the thread that forked came along */
  pthread_mutex_init(&ticks_lock, NULL);
}
