/* Pages for big columns. Returned pages are kept for the next request, up to a share of what is in use: the
 * system clears every page it hands out and takes a fault for each, which costs several times what filling it does. */
#include "base/base.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

static size_t round_up(size_t bytes) {
  const size_t page = page_size();
  return bytes > SIZE_MAX - page ? 0 : (bytes + page - 1) / page * page;
}

/* ---- spare pages ----------------------------------------------------------------------------- */

enum { RUNS = 64, SPARE_FROM = 64 << 10, SPARE_MOST = 44 << 20, SPARE_BEYOND = 24 << 20, SPARE_LEAST = 4 << 20 };

struct run {
  char *at;
  size_t size;
};
/* Shared by all threads. If the lock is taken, the caller uses mmap: no thread waits, nor does a child that was forked
 * while the lock was held. */
static struct {
  atomic_flag busy;
  struct run runs[RUNS]; /* whole pages, no two adjacent */
  size_t count, bytes;
} spare = {.busy = ATOMIC_FLAG_INIT};

static atomic_int frugal;    /* how many asked for nothing to be kept */
static atomic_size_t in_use; /* bytes handed out and not given back, sparse ones apart */

static bool enter_pages(void) { return !atomic_flag_test_and_set_explicit(&spare.busy, memory_order_acquire); }
static void leave(void) { atomic_flag_clear_explicit(&spare.busy, memory_order_release); }

/* From the smallest run that has room. NULL: there is none. */
static void *take_spare(size_t size) {
  size_t best = RUNS;
  if (size < SPARE_FROM || !enter_pages()) return NULL;
  for (size_t i = 0; i < spare.count; i++)
    if (spare.runs[i].size >= size && (best == RUNS || spare.runs[i].size < spare.runs[best].size)) best = i;
  char *p = NULL;
  if (best != RUNS) {
    struct run *const r = &spare.runs[best];
    p = r->at;
    *r = (struct run){r->at + size, r->size - size};
    if (!r->size) *r = spare.runs[--spare.count];
    spare.bytes -= size;
  }
  leave();
  return p;
}

/* The run `r` and those it touches become one. */
static struct run joined(struct run r) {
  for (size_t i = 0; i < spare.count;) {
    const struct run other = spare.runs[i];
    const bool before = other.at + other.size == r.at, behind = r.at + r.size == other.at;
    if (before || behind) {
      r = (struct run){before ? other.at : r.at, r.size + other.size};
      spare.runs[i] = spare.runs[--spare.count];
    } else {
      i++;
    }
  }
  return r;
}

/* So many bytes of the smallest run, or all it has, go back to the system. */
static void cut_smallest(size_t bytes) {
  struct run *least = spare.runs;
  for (size_t i = 1; i < spare.count; i++)
    if (spare.runs[i].size < least->size) least = &spare.runs[i];
  if (bytes > least->size) bytes = least->size;
  (void)munmap(least->at, bytes);
  *least = (struct run){least->at + bytes, least->size - bytes};
  if (!least->size) *least = spare.runs[--spare.count];
  spare.bytes -= bytes;
}

/* In all: a quarter of what is in use up to 4 MiB, which do not show in the memory of any trace; else half of what
 * is beyond 24 MiB. */
static size_t may_keep(void) {
  const size_t used = atomic_load_explicit(&in_use, memory_order_relaxed);
  const size_t least = used / 4 < SPARE_LEAST ? used / 4 : SPARE_LEAST;
  const size_t share = used > SPARE_BEYOND ? (used - SPARE_BEYOND) / 2 : 0;
  const size_t kept = share > least ? share : least;
  return (kept < SPARE_MOST ? kept : SPARE_MOST) / page_size() * page_size();
}

/* How many of the first bytes were kept. The newest stay: they are warm. Among the others the longest stay, for large
 * requests. */
static size_t keep_spare(char *p, size_t size) {
  atomic_fetch_sub(&in_use, size);
  if (size < SPARE_FROM || atomic_load_explicit(&frugal, memory_order_relaxed) || !enter_pages()) return 0;
  const size_t most = may_keep(), kept = size < most ? size : most;
  while (spare.bytes + kept > most) cut_smallest(spare.bytes + kept - most);
  if (spare.count == RUNS) cut_smallest(SPARE_MOST);
  if (!kept) {
    leave();
    return 0;
  }
  const struct run r = joined((struct run){p, kept});
  spare.runs[spare.count++] = r;
  spare.bytes += kept;
  leave();
  return kept;
}

void tg__pages_return(void) {
  if (!enter_pages()) return;
  for (size_t i = 0; i < spare.count; i++) (void)munmap(spare.runs[i].at, spare.runs[i].size);
  spare.count = spare.bytes = 0;
  leave();
}

void tg__pages_keep_none(bool begins) {
  atomic_fetch_add(&frugal, begins ? 1 : -1);
  if (begins) tg__pages_return();
}

/* ---- from the system ------------------------------------------------------------------------- */

static void *map_pages(size_t size) {
  void *const p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

/* A fault per 4 KiB page costs as much as filling it; from 4 MiB on the half-used huge page at the end no longer
 * matters. */
static void prefer_huge(void *p, size_t size) {
#ifdef MADV_HUGEPAGE
  if (size >= (size_t)4 << 20) (void)madvise(p, size, MADV_HUGEPAGE);
#else
  (void)p, (void)size;
#endif
}

/* ---- the pages ------------------------------------------------------------------------------- */

void *tg__pages_sparse(size_t bytes) {
  const size_t size = round_up(bytes ? bytes : 1);
  return size && !tg__alloc_must_fail() ? map_pages(size) : NULL;
}

static void *pages(size_t bytes, bool zeroed, bool huge) {
  const size_t size = round_up(bytes ? bytes : 1);
  if (!size || tg__alloc_must_fail()) return NULL;
  void *p = take_spare(size);
  if (p && zeroed) memset(p, 0, size);
  if (!p) {
    p = map_pages(size);
    if (p && huge) prefer_huge(p, size);
  }
  if (p) atomic_fetch_add(&in_use, size);
  return p;
}

void *tg__pages_used(size_t bytes) { return pages(bytes, false, true); }
void *tg__pages_get(size_t bytes) { return pages(bytes, true, true); }
void *tg__pages_block(size_t bytes, bool zeroed) { return pages(bytes, zeroed, false); }

void tg__pages_drop(void *p, size_t bytes) {
  if (!p) return;
  const size_t size = round_up(bytes ? bytes : 1), kept = keep_spare(p, size);
  if (kept < size) (void)munmap((char *)p + kept, size - kept);
}

static void *copied_to(void *to, void *p, size_t size) {
  if (!to) return NULL;
  memcpy(to, p, size);
  tg__pages_drop(p, size);
  return to;
}

/* Copied where warm pages are at hand, which costs less than faults do; else moved, if they lie in one mapping:
 * joined ones may not. */
static void *bigger_pages(void *p, size_t size, size_t bigger, bool huge) {
  char *const warm = take_spare(bigger);
  if (warm) {
    memset(warm + size, 0, bigger - size);
    atomic_fetch_add(&in_use, bigger);
    return copied_to(warm, p, size);
  }
  void *const moved = mremap(p, size, bigger, MREMAP_MAYMOVE);
  if (moved == MAP_FAILED) return copied_to(pages(bigger, true, huge), p, size);
  if (huge) prefer_huge(moved, bigger);
  atomic_fetch_add(&in_use, bigger - size);
  return moved;
}

void tg__pages_drop_sparse(void *p, size_t bytes) {
  if (p) (void)munmap(p, round_up(bytes ? bytes : 1));
}

void *tg__pages_block_resize(void *p, size_t *cap, size_t want) {
  const size_t size = round_up(*cap), fresh = round_up(want);
  if (!fresh || tg__alloc_must_fail()) return NULL;
  void *const moved = fresh > size ? bigger_pages(p, size, fresh, false) : p;
  if (fresh < size) tg__pages_drop((char *)p + fresh, size - fresh);
  if (moved) *cap = fresh;
  return moved;
}

bool tg__pages_grow(void *place, size_t *cap, size_t want) {
  if (want <= *cap) return true;
  const size_t bytes = round_up(*cap + *cap / 2 > want ? *cap + *cap / 2 : want);
  if (!bytes) return false;
  void *p = tg__pointer_at(place);
  if (!p)
    p = tg__pages_get(bytes);
  else
    p = tg__alloc_must_fail() ? NULL : bigger_pages(p, round_up(*cap), bytes, true);
  if (!p) return false;
  memcpy(place, &p, sizeof p);
  *cap = bytes;
  return true;
}

void tg__pages_release(void *p, size_t from_byte, size_t to_byte) {
  const size_t page = page_size();
  const size_t from = round_up(from_byte), to = to_byte / page * page;
  if (p && to > from) (void)madvise((char *)p + from, to - from, MADV_DONTNEED);
}
