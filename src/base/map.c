/* uint64 → uint32 hash map: open addressing, linear probing, at most three quarters full. */
#include "base/base.h"

static size_t home(const struct tg__map *m, uint64_t key) {
  key ^= key >> 32;
  key *= UINT64_C(0x9e3779b97f4a7c15); /* 2^64 / golden ratio: spreads runs of neighbouring keys */
  return (size_t)(key ^ key >> 32) & (m->cap - 1);
}

/* Where the key is, or the free place it would take. The map has a free place. */
static size_t locate(const struct tg__map *m, uint64_t key) {
  size_t i = home(m, key);
  while (m->used[i] && m->keys[i] != key) i = (i + 1) & (m->cap - 1);
  return i;
}

static bool enlarge(struct tg__map *m) {
  struct tg__map bigger = {.cap = m->cap ? m->cap * 2 : 16, .count = m->count};
  if (bigger.cap > SIZE_MAX / sizeof *bigger.keys) return false;
  bigger.keys = tg__realloc(NULL, bigger.cap * sizeof *bigger.keys);
  bigger.values = tg__realloc(NULL, bigger.cap * sizeof *bigger.values);
  bigger.used = tg__alloc(bigger.cap);
  if (!bigger.keys || !bigger.values || !bigger.used) {
    tg__map_free(&bigger);
    return false;
  }
  for (size_t k = 0; k < m->cap; k++) {
    if (!m->used[k]) continue;
    const size_t i = locate(&bigger, m->keys[k]);
    bigger.used[i] = 1;
    bigger.keys[i] = m->keys[k];
    bigger.values[i] = m->values[k];
  }
  tg__map_free(m);
  *m = bigger;
  return true;
}

uint32_t *tg__map_slot(struct tg__map *m, uint64_t key, uint32_t fresh) {
  if (m->cap) {
    const size_t i = locate(m, key);
    if (m->used[i]) return &m->values[i];
  }
  if (m->count >= m->cap / 4 * 3 && !enlarge(m)) return NULL;
  const size_t i = locate(m, key);
  m->used[i] = 1;
  m->keys[i] = key;
  m->values[i] = fresh;
  m->count++;
  return &m->values[i];
}

bool tg__map_put(struct tg__map *m, uint64_t key, uint32_t value) {
  uint32_t *slot = tg__map_slot(m, key, value);
  if (slot) *slot = value;
  return slot != NULL;
}

uint32_t tg__map_get(const struct tg__map *m, uint64_t key) {
  if (!m->cap) return TG_NONE;
  const size_t i = locate(m, key);
  return m->used[i] ? m->values[i] : TG_NONE;
}

void tg__map_free(struct tg__map *m) {
  tg__free(m->keys);
  tg__free(m->values);
  tg__free(m->used);
  *m = (struct tg__map){0};
}
