/* Memory: the malloc family with failure injection, pages for big columns, the bump arena. */
#include "base/base.h"

#include <stdatomic.h>
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <sys/mman.h>
#include <unistd.h>

/* Calls left until allocations start to fail; below zero: they never do. */
static atomic_long calls_left = -1;

void tg__alloc_fail_after(long calls) { atomic_store(&calls_left, calls); }

static bool must_fail(void) {
  long left = atomic_load_explicit(&calls_left, memory_order_relaxed);
  if (TG_LIKELY(left < 0)) return false;
  while (left > 1) {
    if (atomic_compare_exchange_weak(&calls_left, &left, left - 1)) return false;
  }
  return true;
}

void *tg__alloc(size_t bytes) { return must_fail() ? NULL : calloc(1, bytes ? bytes : 1); }
void *tg__realloc(void *p, size_t bytes) { return must_fail() ? NULL : realloc(p, bytes ? bytes : 1); }
void tg__free(void *p) { free(p); }

void tg__memory_return(void) {
#ifdef __GLIBC__
  (void)malloc_trim(0);
#endif
}

void tg__memory_large_apart(void) {
#ifdef __GLIBC__
  (void)mallopt(M_MMAP_THRESHOLD, 1 << 20); /* left alone, it grows to 32 MB */
#endif
}

/* The caller's pointer has a type of its own: it is read and written as the bytes it is, or the compiler might assume that a store
 * through void ** leaves it as it was. */
static void *pointer_at(const void *place) {
  void *p;
  memcpy(&p, place, sizeof p);
  return p;
}

bool tg__grow(void *items, size_t *cap, size_t want, size_t item_bytes) {
  if (want <= *cap) return true;
  size_t target = *cap + *cap / 2 + 16;
  if (target < want) target = want;
  if (item_bytes && target > SIZE_MAX / 2 / item_bytes) return false;
  void *bigger = tg__realloc(pointer_at(items), target * item_bytes);
  if (!bigger) return false;
  memcpy(items, &bigger, sizeof bigger);
  *cap = target;
  return true;
}

/* ---- pages ------------------------------------------------------------------------------------------------------------ */

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

static size_t round_up(size_t bytes) {
  const size_t page = page_size();
  return bytes > SIZE_MAX - page ? 0 : (bytes + page - 1) / page * page;
}

void *tg__pages_sparse(size_t bytes) {
  const size_t size = round_up(bytes ? bytes : 1);
  if (!size || must_fail()) return NULL;
  void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

/* A fault per 4 KiB page costs as much as filling it; from 4 MiB on the half-used huge page at the end no longer matters. */
static void prefer_huge(void *p, size_t size) {
#ifdef MADV_HUGEPAGE
  if (size >= (size_t)4 << 20) (void)madvise(p, size, MADV_HUGEPAGE);
#else
  (void)p, (void)size;
#endif
}

void *tg__pages_get(size_t bytes) {
  void *p = tg__pages_sparse(bytes);
  if (p) prefer_huge(p, round_up(bytes));
  return p;
}

void tg__pages_drop(void *p, size_t bytes) {
  if (p) (void)munmap(p, round_up(bytes ? bytes : 1));
}

bool tg__pages_grow(void *place, size_t *cap, size_t want) {
  if (want <= *cap) return true;
  void *const p = pointer_at(place);
  size_t bytes = round_up(*cap + *cap / 2 > want ? *cap + *cap / 2 : want);
  if (!bytes || must_fail()) return false;
  void *bigger = p ? mremap(p, round_up(*cap), bytes, MREMAP_MAYMOVE) : tg__pages_get(bytes);
  if (!bigger || bigger == MAP_FAILED) return false;
  if (p) prefer_huge(bigger, bytes);
  memcpy(place, &bigger, sizeof bigger);
  *cap = bytes;
  return true;
}

void tg__pages_release(void *p, size_t from_byte, size_t to_byte) {
  const size_t page = page_size();
  const size_t from = round_up(from_byte), to = to_byte / page * page;
  if (p && to > from) (void)madvise((char *)p + from, to - from, MADV_DONTNEED);
}

/* ---- arena ------------------------------------------------------------------------------------------------------------ */

struct tg__arena_block {
  struct tg__arena_block *next;
  size_t used, cap;
  _Alignas(8) char bytes[];
};

enum { ARENA_FIRST = 4 << 10, ARENA_LARGEST = 1 << 20 };

static struct tg__arena_block *new_block(size_t cap) {
  if (cap > SIZE_MAX - sizeof(struct tg__arena_block)) return NULL;
  struct tg__arena_block *b = tg__realloc(NULL, sizeof *b + cap);
  if (!b) return NULL;
  b->next = NULL;
  b->used = 0;
  b->cap = cap;
  return b;
}

/* A request too big for half a block gets one of its own behind the head, so that the head's free rest is not lost. */
static void *get_slow(struct tg__arena *a, size_t bytes) {
  size_t cap = a->head ? a->head->cap * 2 : ARENA_FIRST;
  if (cap > ARENA_LARGEST) cap = ARENA_LARGEST;
  const bool alone = bytes > cap / 2;
  struct tg__arena_block *b = new_block(alone ? bytes : cap);
  if (!b) return NULL;
  b->used = bytes;
  if (alone && a->head) {
    b->next = a->head->next;
    a->head->next = b;
  } else {
    b->next = a->head;
    a->head = b;
  }
  return b->bytes;
}

void *tg__arena_get(struct tg__arena *a, size_t bytes) {
  if (bytes > SIZE_MAX - 8) return NULL;
  bytes = (bytes + 7) & ~(size_t)7;
  struct tg__arena_block *b = a->head;
  if (TG_UNLIKELY(!b || b->cap - b->used < bytes)) return get_slow(a, bytes);
  void *p = b->bytes + b->used;
  b->used += bytes;
  return p;
}

char *tg__arena_copy(struct tg__arena *a, const char *text, size_t len) {
  if (len == SIZE_MAX) return NULL;
  char *p = tg__arena_get(a, len + 1);
  if (!p) return NULL;
  if (len) memcpy(p, text, len);
  p[len] = 0;
  return p;
}

void tg__arena_free(struct tg__arena *a) {
  struct tg__arena_block *b = a->head;
  while (b) {
    struct tg__arena_block *next = b->next;
    tg__free(b);
    b = next;
  }
  a->head = NULL;
}
