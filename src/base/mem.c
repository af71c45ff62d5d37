/* Memory: the malloc family with failure injection, big blocks on warm pages, the bump arena. */
#include "base/base.h"

#include <stdatomic.h>
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

/* Calls left until allocations start to fail; below zero: they never do. */
static atomic_long calls_left = -1;

void tg__alloc_fail_after(long calls) { atomic_store(&calls_left, calls); }

bool tg__alloc_must_fail(void) {
  long left = atomic_load_explicit(&calls_left, memory_order_relaxed);
  if (TG_LIKELY(left < 0)) return false;
  while (left > 1) {
    if (atomic_compare_exchange_weak(&calls_left, &left, left - 1)) return false;
  }
  return true;
}

/* ---- big blocks ------------------------------------------------------------------------------ */

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
static const size_t BIG = SIZE_MAX; /* none: it watches only the ends of malloc's blocks */
#else
static const size_t BIG = 256 << 10;
#endif

/* Big blocks are whole pages, which pages.c keeps warm for reuse. How large each is stands
 * in this table, by address; it is searched only for addresses at which a page begins. Open addressing: no block lies
 * farther from its place than `farthest`. There is no lock, so that a child forked at any moment can use it. malloc
 * serves what has no room in the table. */
enum { PAGE = 4096, PLACE_BITS = 13, PLACES = 1 << PLACE_BITS, MOST_BIG = PLACES / 2 };

struct big {
  _Atomic uintptr_t at; /* where its pages begin; 0: the place is free */
  size_t bytes;         /* written and read by whoever owns the block */
};
static struct big table[PLACES];
static atomic_size_t farthest, reserved; /* reserved: places that are or will be used */

static struct big *place_of(uintptr_t at, size_t step) {
  const size_t first = (size_t)((uint64_t)(at / PAGE) * 0x9e3779b97f4a7c15u >> (64 - PLACE_BITS));
  return &table[(first + step) % PLACES];
}

/* NULL: the block is malloc's. */
static struct big *find_big(const void *p) {
  const uintptr_t at = (uintptr_t)p;
  if (BIG == SIZE_MAX || !p || at % PAGE) return NULL;
  const size_t last = atomic_load_explicit(&farthest, memory_order_relaxed);
  for (size_t step = 0; step <= last; step++) {
    struct big *const b = place_of(at, step);
    if (atomic_load_explicit(&b->at, memory_order_relaxed) == at) return b;
  }
  return NULL;
}

static bool reserve_place(void) {
  if (atomic_fetch_add(&reserved, 1) < MOST_BIG) return true;
  atomic_fetch_sub(&reserved, 1);
  return false;
}

/* A place is reserved, so one is free. */
static void put_big(void *p, size_t bytes) {
  const uintptr_t at = (uintptr_t)p;
  for (size_t step = 0;; step = (step + 1) % PLACES) {
    struct big *const b = place_of(at, step);
    uintptr_t none = 0;
    if (!atomic_compare_exchange_strong_explicit(&b->at, &none, at, memory_order_acquire, memory_order_relaxed))
      continue;
    b->bytes = bytes;
    size_t known = atomic_load_explicit(&farthest, memory_order_relaxed);
    while (known < step && !atomic_compare_exchange_weak(&farthest, &known, step)) {}
    return;
  }
}

/* How large it was. Before its pages go: another thread may be given the same ones at once. */
static size_t take_big(struct big *b) {
  const size_t bytes = b->bytes;
  atomic_store_explicit(&b->at, 0, memory_order_release);
  return bytes;
}

/* NULL: no memory. */
static void *new_big(size_t bytes, bool zeroed) {
  void *const p = tg__pages_block(bytes, zeroed);
  if (p)
    put_big(p, bytes);
  else
    atomic_fetch_sub(&reserved, 1);
  return p;
}

static void *realloc_big(void *p, struct big *b, size_t bytes) {
  size_t room = take_big(b);
  void *const moved = tg__pages_block_resize(p, &room, bytes ? bytes : 1);
  put_big(moved ? moved : p, room);
  return moved;
}

static void free_big(void *p, struct big *b) {
  tg__pages_drop(p, take_big(b));
  atomic_fetch_sub(&reserved, 1);
}

void *tg__alloc(size_t bytes) {
  if (bytes >= BIG && reserve_place()) return new_big(bytes, true);
  return tg__alloc_must_fail() ? NULL : calloc(1, bytes ? bytes : 1);
}

void *tg__realloc(void *p, size_t bytes) {
  struct big *const b = find_big(p);
  if (b) return realloc_big(p, b, bytes);
  if (!p && bytes >= BIG && reserve_place()) return new_big(bytes, false);
  return tg__alloc_must_fail() ? NULL : realloc(p, bytes ? bytes : 1);
}

void tg__free(void *p) {
  struct big *const b = find_big(p);
  if (b)
    free_big(p, b);
  else
    free(p);
}

void tg__memory_return(void) {
  tg__pages_return();
#ifdef __GLIBC__
  (void)malloc_trim(0);
#endif
}

bool tg__grow(void *items, size_t *cap, size_t want, size_t item_bytes) {
  if (want <= *cap) return true;
  size_t target = *cap + *cap / 2 + 16;
  if (target < want) target = want;
  if (item_bytes && target > SIZE_MAX / 2 / item_bytes) return false;
  void *const old = tg__pointer_at(items);
  const bool moves = target * item_bytes >= BIG && !find_big(old);
  void *const bigger = tg__realloc(moves ? NULL : old, target * item_bytes);
  if (!bigger) return false;
  if (moves && old) {
    memcpy(bigger, old, *cap * item_bytes);
    tg__free(old);
  }
  memcpy(items, &bigger, sizeof bigger);
  *cap = target;
  return true;
}

/* ---- arena ----------------------------------------------------------------------------------- */

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
  const bool is_big = bytes > cap / 2;
  struct tg__arena_block *b = new_block(is_big ? bytes : cap);
  if (!b) return NULL;
  b->used = bytes;
  if (is_big && a->head) {
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
