/* keep: what folders after this one worked out of a trace and leave with it for the next question. */
#include "trace/trace.h"

struct keepsake {
  struct keepsake *next;
  tg__keep_free *kind;
  void *item;
};
struct tg__keepsakes {
  struct keepsake *first;
};

struct tg__keepsakes *tg__keepsakes_new(void) { return tg__alloc(sizeof(struct tg__keepsakes)); }

static void drop_all(struct tg__keepsakes *k) {
  for (struct keepsake *one = k->first, *next; one; one = next) {
    next = one->next;
    one->kind(one->item);
    tg__free(one);
  }
  k->first = NULL;
}

void tg__keepsakes_free(struct tg__keepsakes *k) {
  if (k) drop_all(k);
  tg__free(k);
}

void tg__forget(const struct tg__columns *t) { drop_all(t->kept); }

void *tg__kept(const struct tg__columns *t, tg__keep_free *kind) {
  for (const struct keepsake *k = t->kept->first; k; k = k->next)
    if (k->kind == kind) return k->item;
  return NULL;
}

bool tg__keep(const struct tg__columns *t, void *item, tg__keep_free *kind) {
  struct keepsake *const k = tg__alloc(sizeof *k);
  if (!k) return false;
  *k = (struct keepsake){.next = t->kept->first, .kind = kind, .item = item};
  t->kept->first = k;
  return true;
}

void *tg__kept_room(const struct tg__columns *t, size_t bytes, tg__keep_free *kind) {
  void *item = tg__kept(t, kind);
  if (item) return item;
  item = tg__alloc(bytes);
  if (item && tg__keep(t, item, kind)) return item;
  tg__free(item);
  return NULL;
}
