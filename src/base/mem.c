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

/* They lie on pages, which pages.c keeps warm for reuse, behind a head with their count.
 */
struct head {
  uintptr_t mark; /* of this address, or it is no head */
  size_t bytes;   /* with the head */
};
enum { PAGE = 4096, HEAD = 64 };

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
static const size_t BIG = SIZE_MAX; /* none: it watches the ends of malloc's blocks alone */
#else
static const size_t BIG = 256 << 10;
#endif

/* What is read from a file may stand anywhere in memory, and must not pass for a head. */
static uintptr_t mark_of(const struct head *h) { return (uintptr_t)h ^ (uintptr_t)tg__pages_secret(); }

/* NULL: the block is malloc's. What stands before a pointer into a page, on the same page, can be read whoever owns
 * it, and writes it. */
__attribute__((no_sanitize("thread"))) static struct head *head_of(void *p) {
  if (BIG == SIZE_MAX || !p || (uintptr_t)p % PAGE != HEAD) return NULL;
  struct head *const h = (struct head *)((char *)p - HEAD);
  return h->mark == mark_of(h) ? h : NULL;
}

static void *begin_big(void *pages, size_t bytes) {
  if (!pages) return NULL;
  struct head *const h = pages;
  *h = (struct head){mark_of(h), bytes};
  return (char *)pages + HEAD;
}

static void free_big(struct head *h) {
  h->mark = 0;
  tg__pages_drop(h, h->bytes);
}

static void *realloc_big(struct head *h, size_t bytes) {
  size_t room = h->bytes;
  void *const pages = bytes <= SIZE_MAX - HEAD ? tg__pages_block_resize(h, &room, bytes + HEAD) : NULL;
  return begin_big(pages, room);
}

static void *new_big(size_t bytes, bool zeroed) {
  return bytes <= SIZE_MAX - HEAD ? begin_big(tg__pages_block(bytes + HEAD, zeroed), bytes + HEAD) : NULL;
}

void *tg__alloc(size_t bytes) {
  if (bytes >= BIG) return new_big(bytes, true);
  return tg__alloc_must_fail() ? NULL : calloc(1, bytes ? bytes : 1);
}

void *tg__realloc(void *p, size_t bytes) {
  struct head *const h = head_of(p);
  if (h) return realloc_big(h, bytes);
  if (!p && bytes >= BIG) return new_big(bytes, false);
  return tg__alloc_must_fail() ? NULL : realloc(p, bytes ? bytes : 1);
}

void tg__free(void *p) {
  struct head *const h = head_of(p);
  if (h)
    free_big(h);
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
  const bool moves = target * item_bytes >= BIG && !head_of(old);
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
