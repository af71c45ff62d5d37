/* cache: what later folders derived from a trace and leave with it for the next question. */
#include "trace/trace.h"

struct entry {
  struct entry *next;
  const struct tg__cached *kind;
  void *item;
};
struct tg__cache {
  struct entry *first;
};

struct tg__cache *tg__cache_new(void) { return tg__alloc(sizeof(struct tg__cache)); }

static void drop_all(struct tg__cache *c) {
  for (struct entry *one = c->first, *next; one; one = next) {
    next = one->next;
    one->kind->free(one->item);
    tg__free(one);
  }
  c->first = NULL;
}

void tg__cache_free(struct tg__cache *c) {
  if (c) drop_all(c);
  tg__free(c);
}

void tg__cache_drop(const struct tg__columns *t) { drop_all(t->cache); }

void *tg__cache_find(const struct tg__columns *t, const struct tg__cached *kind) {
  for (const struct entry *one = t->cache->first; one; one = one->next)
    if (one->kind == kind) return one->item;
  return NULL;
}

bool tg__cache_put(const struct tg__columns *t, const struct tg__cached *kind, void *item) {
  struct entry *const one = tg__alloc(sizeof *one);
  if (!one) return false;
  *one = (struct entry){.next = t->cache->first, .kind = kind, .item = item};
  t->cache->first = one;
  return true;
}

void *tg__cache_get(const struct tg__columns *t, const struct tg__cached *kind, size_t bytes) {
  void *item = tg__cache_find(t, kind);
  if (item) return item;
  item = tg__alloc(bytes);
  if (item && tg__cache_put(t, kind, item)) return item;
  tg__free(item);
  return NULL;
}
