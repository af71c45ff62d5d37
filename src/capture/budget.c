/* budget: the memory that capture uses in the recorded program. All of it is requested here and counted. */
#include "capture/session.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic uint64_t budget = (uint64_t)64 << 20;
static _Atomic uint64_t pages, chunks; /* bytes of anonymous memory, and of chunks mapped from the file */
static _Atomic uint64_t peak;

void tg__budget_set(uint64_t bytes) {
  atomic_store(&budget, bytes);
  atomic_store(&peak, atomic_load(&pages) + atomic_load(&chunks));
}

static void note_peak(void) {
  const uint64_t now = atomic_load(&pages) + atomic_load(&chunks);
  uint64_t before = atomic_load(&peak);
  while (now > before && !atomic_compare_exchange_weak(&peak, &before, now)) {}
}

/* Add to one of the two when both together stay below the limit. Two threads may each see room for one of them and
 * both take it: so add first, look then, and take back. */
static bool take_from_budget(_Atomic uint64_t *which, uint64_t bytes, uint64_t limit) {
  atomic_fetch_add(which, bytes);
  if (atomic_load(&pages) + atomic_load(&chunks) > limit) {
    atomic_fetch_sub(which, bytes);
    return false;
  }
  note_peak();
  return true;
}

bool tg__budget_take(uint64_t bytes, unsigned parts) {
  return take_from_budget(&chunks, bytes, atomic_load(&budget) / 4 * parts);
}
void tg__budget_release(uint64_t bytes) { atomic_fetch_sub(&chunks, bytes); }
bool tg__budget_is_short(void) { return atomic_load(&pages) + atomic_load(&chunks) > atomic_load(&budget) / 2; }
void tg__budget_forked(void) { atomic_store(&chunks, 0); }

void tg__budget_state(uint64_t *now, uint64_t *most) {
  *now = atomic_load(&pages) + atomic_load(&chunks);
  *most = atomic_load(&peak);
}

static size_t round_to_pages(size_t bytes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  return (bytes + page - 1) / page * page;
}

static void *pages_below(size_t bytes, uint64_t limit) {
  const size_t whole = round_to_pages(bytes);
  if (whole < bytes || whole == 0 || !take_from_budget(&pages, whole, limit)) return NULL;
  void *const p = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p != MAP_FAILED) return p;
  atomic_fetch_sub(&pages, whole);
  return NULL;
}

void *tg__capture_pages(size_t bytes) { return pages_below(bytes, atomic_load(&budget)); }
void *tg__capture_pages_spare(size_t bytes) { return pages_below(bytes, atomic_load(&budget) / 4 * 3); }

void tg__capture_pages_drop(void *p, size_t bytes) {
  if (!p) return;
  munmap(p, round_to_pages(bytes));
  atomic_fetch_sub(&pages, round_to_pages(bytes));
}

/* ---- is it readable? ------------------------------------------------------------------------- */

/* The kernel copies the set of signals before it looks at a `how` that does not exist: EFAULT or EINVAL, and nothing
 * changes. */
static bool sigmask_can_read(const void *p) {
  return syscall(SYS_rt_sigprocmask, ~0, p, NULL, 8) == -1 && errno != EFAULT;
}

static bool pipe_can_read(const void *p, size_t len) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK)) return false;
  const bool can = write(ends[1], p, len) == (ssize_t)len;
  close(ends[0]);
  close(ends[1]);
  return can;
}

/* 8 bytes at an address that is a multiple of 8. An emulated kernel may look at `how` first: then a pipe must do. */
static bool can_read_word(const void *p) {
  static _Atomic int way; /* 0 = not known, 1 = signal mask, 2 = pipe */
  int w = atomic_load_explicit(&way, memory_order_relaxed);
  if (w == 0) {
    w = sigmask_can_read((const void *)(uintptr_t)8) ? 2 : 1; /* nothing is ever mapped there */
    atomic_store_explicit(&way, w, memory_order_relaxed);
  }
  return w == 1 ? sigmask_can_read(p) : pipe_can_read(p, 8);
}

bool tg__capture_can_read(const void *p, size_t len) {
  const int error = errno;
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t at = (uintptr_t)p & ~(uintptr_t)7;
  const uintptr_t end = (uintptr_t)p + len;
  bool can = end >= (uintptr_t)p;
  while (can && at < end) {
    can = can_read_word((const void *)at);
    at = (at / page + 1) * page; /* one word speaks for its page */
    if (at < page) break;        /* past the last page there is */
  }
  errno = error;
  return can;
}
