/* Strings: views, the hash, UTF-8, and the interner. */
#include "base/base.h"

#include <stdatomic.h>
#include <stdlib.h>

bool tg__str_eq(struct tg__str a, struct tg__str b) {
  return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

int tg__str_cmp(struct tg__str a, struct tg__str b) {
  const uint32_t shorter = a.len < b.len ? a.len : b.len;
  const int order = shorter ? memcmp(a.ptr, b.ptr, shorter) : 0;
  return order ? order : (a.len > b.len) - (a.len < b.len);
}

bool tg__str_has_prefix(struct tg__str s, const char *prefix) {
  const size_t n = strlen(prefix);
  return n == 0 || (n <= s.len && memcmp(s.ptr, prefix, n) == 0);
}

bool tg__str_has_suffix(struct tg__str s, const char *suffix) {
  const size_t n = strlen(suffix);
  return n == 0 || (n <= s.len && memcmp(s.ptr + s.len - n, suffix, n) == 0);
}

bool tg__str_contains(struct tg__str s, const char *needle) {
  const size_t n = strlen(needle);
  return n == 0 || (n <= s.len && memmem(s.ptr, s.len, needle, n) != NULL);
}

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }

bool tg__str_eq_nocase(struct tg__str s, const char *other) {
  for (uint32_t i = 0; i < s.len; i++) {
    if (!other[i] || lower(s.ptr[i]) != lower(other[i])) return false;
  }
  return other[s.len] == 0;
}

bool tg__str_to_int(struct tg__str s, int64_t *out) {
  uint32_t i = s.len && (s.ptr[0] == '-' || s.ptr[0] == '+');
  if (i == s.len) return false;
  uint64_t v = 0;
  for (; i < s.len; i++) {
    const unsigned digit = (unsigned)(s.ptr[i] - '0');
    if (digit > 9 || v > ((uint64_t)INT64_MAX - digit) / 10) return false;
    v = v * 10 + digit;
  }
  *out = s.ptr[0] == '-' ? -(int64_t)v : (int64_t)v;
  return true;
}

/* strtod takes text that ends; 64 bytes hold any number worth reading. */
bool tg__str_to_real(struct tg__str s, double *out) {
  char text[64], *end;
  if (s.len == 0 || s.len >= sizeof text) return false;
  memcpy(text, s.ptr, s.len);
  text[s.len] = 0;
  const double v = strtod(text, &end);
  if (end != text + s.len) return false;
  *out = v;
  return true;
}

/* ---- hash ------------------------------------------------------------------------------------ */

/* Multiply two words to 128 bits and fold the halves: one multiplication mixes 16 bytes. */
static inline uint64_t fold_case(uint64_t a, uint64_t b) {
  const unsigned __int128 product = (unsigned __int128)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t load8(const unsigned char *p) {
  uint64_t v;
  memcpy(&v, p, 8);
  return v;
}

static inline uint64_t load4(const unsigned char *p) {
  uint32_t v;
  memcpy(&v, p, 4);
  return v;
}

/* Constants with the lowest and about half of all bits set: the fractional parts of √2, √3 and √5. */
#define HASH_A UINT64_C(0x6a09e667f3bcc909)
#define HASH_B UINT64_C(0xbb67ae8584caa73b)
#define HASH_C UINT64_C(0x3c6ef372fe94f82b)

uint64_t tg__hash(const void *bytes, size_t len) {
  const unsigned char *p = bytes;
  uint64_t state = HASH_A, first, last;
  if (TG_LIKELY(len <= 16)) {
    if (len >= 8) {
      first = load8(p);
      last = load8(p + len - 8);
    } else if (len >= 4) {
      first = load4(p);
      last = load4(p + len - 4);
    } else if (len) {
      first = (uint64_t)p[0] << 16 | (uint64_t)p[len >> 1] << 8 | p[len - 1];
      last = 0;
    } else {
      first = last = 0;
    }
  } else {
    const unsigned char *tail = p + len - 16;
    for (; p < tail; p += 16) state = fold_case(load8(p) ^ HASH_B, load8(p + 8) ^ state);
    first = load8(tail);
    last = load8(tail + 8);
  }
  return fold_case(HASH_C ^ len, fold_case(first ^ HASH_B, last ^ state));
}

/* ---- UTF-8 ----------------------------------------------------------------------------------- */

unsigned tg__utf8_length(const unsigned char *p, size_t left) {
  if (!left) return 0;
  const unsigned c = p[0];
  if (c < 0x80) return 1;
  if (c < 0xC2 || c > 0xF4) return 0;
  const unsigned n = c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
  if (left < n) return 0;
  /* The second byte excludes overlong forms, surrogate halves and what lies beyond U+10FFFF. */
  const unsigned low = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;
  const unsigned high = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
  if (p[1] < low || p[1] > high) return 0;
  for (unsigned i = 2; i < n; i++) {
    if ((p[i] & 0xC0) != 0x80) return 0;
  }
  return n;
}

bool tg__utf8_is_unsafe(const unsigned char *p, unsigned n) {
  if (n == 1) return p[0] < 0x20 || p[0] == 0x7F;
  if (n == 2) return (p[0] == 0xC2 && p[1] < 0xA0) || (p[0] == 0xD8 && p[1] == 0x9C); /* U+0080 to 009F, U+061C */
  if (n != 3) return false;
  if (p[0] == 0xEF) return p[1] == 0xBB && p[2] == 0xBF; /* U+FEFF */
  if (p[0] != 0xE2) return false;
  if (p[1] == 0x81) return p[2] >= 0xA0 && p[2] <= 0xAF; /* U+2060 to 206F */
  return p[1] == 0x80 && (p[2] == 0x8B || p[2] == 0x8E || p[2] == 0x8F ||
                          (p[2] >= 0xA8 && p[2] <= 0xAE)); /* U+200B, 200E, 200F, 2028 to 202E */
}

/* ---- interner -------------------------------------------------------------------------------- */

/* Texts are spread over shards by the top bits of their hash; a shard has its own lock, table and text arena, so
 * threads seldom meet. The directory id → text is shared: blocks that never move, each twice as long as the one
 * before, published once, read without a lock. */
enum { SHARD_BITS = 5, SHARDS = 1 << SHARD_BITS, FIRST_BITS = 6, BLOCKS = 33 - FIRST_BITS, TABLE_FIRST = 64 };

struct slot {
  uint32_t tag; /* low half of the hash */
  uint32_t id;  /* TG_NONE = free */
};
struct shard {
  struct tg__lock *lock;
  struct slot *slots;
  uint32_t cap, count; /* cap is a power of two */
  struct tg__arena text;
};
struct tg__strings {
  _Atomic(struct tg__str *) blocks[BLOCKS];
  atomic_uint count;
  struct shard shards[SHARDS];
};

struct tg__strings *tg__strings_new(void) {
  struct tg__strings *s = tg__alloc(sizeof *s);
  if (!s) return NULL;
  for (int i = 0; i < SHARDS; i++) {
    s->shards[i].lock = tg__lock_new();
    if (s->shards[i].lock) continue;
    tg__strings_free(s);
    return NULL;
  }
  return s;
}

void tg__strings_free(struct tg__strings *s) {
  if (!s) return;
  for (int i = 0; i < SHARDS; i++) {
    tg__lock_free(s->shards[i].lock);
    tg__free(s->shards[i].slots);
    tg__arena_free(&s->shards[i].text);
  }
  for (int i = 0; i < BLOCKS; i++) {
    struct tg__str *block = atomic_load_explicit(&s->blocks[i], memory_order_relaxed);
    if (!block) break; /* blocks are taken in order */
    tg__free(block);
  }
  tg__free(s);
}

struct place {
  unsigned block;
  size_t in_block, block_length;
};
static inline struct place probe_place_of(uint32_t id) {
  const uint64_t from_first = (uint64_t)id + (1u << FIRST_BITS);
  const unsigned top = 63 - (unsigned)__builtin_clzll(from_first); /* the block's length is this power of two */
  return (struct place){top - FIRST_BITS, (size_t)(from_first - (UINT64_C(1) << top)), (size_t)(UINT64_C(1) << top)};
}

struct tg__str tg__strings_get(const struct tg__strings *s, uint32_t id) {
  const struct place at = probe_place_of(id);
  const struct tg__str *block = atomic_load_explicit(&s->blocks[at.block], memory_order_acquire);
  const struct tg__str known = block ? block[at.in_block] : (struct tg__str){"", 0};
  return known.ptr ? known : (struct tg__str){"", 0}; /* an id not given out yet */
}

uint32_t tg__strings_count(const struct tg__strings *s) {
  return atomic_load_explicit(&s->count, memory_order_acquire);
}

/* The slot that holds the text, or the free one where it belongs. The shard is locked and has a free slot. */
static struct slot *find_slot(const struct tg__strings *s, const struct shard *h, const char *ptr, size_t len,
                              uint64_t hash) {
  const uint32_t mask = h->cap - 1;
  for (uint32_t i = (uint32_t)hash & mask;; i = (i + 1) & mask) {
    struct slot *slot = &h->slots[i];
    if (slot->id == TG_NONE) return slot;
    if (slot->tag != (uint32_t)hash) continue;
    const struct tg__str known = tg__strings_get(s, slot->id);
    if (known.len == len && (len == 0 || memcmp(known.ptr, ptr, len) == 0)) return slot;
  }
}

static bool grow_shard(struct shard *h) {
  const uint32_t cap = h->cap ? h->cap * 2 : TABLE_FIRST;
  struct slot *slots = cap ? tg__realloc(NULL, cap * sizeof *slots) : NULL;
  if (!slots) return false;
  memset(slots, 0xff, cap * sizeof *slots); /* every id TG_NONE */
  for (uint32_t k = 0; k < h->cap; k++) {
    if (h->slots[k].id == TG_NONE) continue;
    uint32_t i = h->slots[k].tag & (cap - 1);
    while (slots[i].id != TG_NONE) i = (i + 1) & (cap - 1);
    slots[i] = h->slots[k];
  }
  tg__free(h->slots);
  h->slots = slots;
  h->cap = cap;
  return true;
}

static struct tg__str *block_of(struct tg__strings *s, struct place at) {
  struct tg__str *block = atomic_load_explicit(&s->blocks[at.block], memory_order_acquire);
  if (block) return block;
  struct tg__str *fresh = tg__alloc(at.block_length * sizeof *fresh);
  if (!fresh) return NULL;
  if (atomic_compare_exchange_strong(&s->blocks[at.block], &block, fresh)) return fresh;
  tg__free(fresh); /* another thread was first */
  return block;
}

/* Take the next id. The block is made before the count moves, so running out of memory leaves no hole. */
static uint32_t publish(struct tg__strings *s, struct tg__str text) {
  uint32_t id = atomic_load_explicit(&s->count, memory_order_relaxed);
  struct tg__str *block;
  do {
    if (id == TG_NONE) return TG_NONE;
    block = block_of(s, probe_place_of(id));
    if (!block) return TG_NONE;
  } while (!atomic_compare_exchange_weak(&s->count, &id, id + 1));
  block[probe_place_of(id).in_block] = text;
  return id;
}

uint32_t tg__strings_add_hashed(struct tg__strings *s, const char *ptr, size_t len, uint64_t hash) {
  if (len >= UINT32_MAX) return TG_NONE;
  struct shard *h = &s->shards[hash >> (64 - SHARD_BITS)];
  uint32_t id = TG_NONE;
  tg__lock_take(h->lock);
  if (h->count >= h->cap / 4 * 3 && !grow_shard(h)) goto done;
  struct slot *slot = find_slot(s, h, ptr, len, hash);
  if (slot->id != TG_NONE) {
    id = slot->id;
    goto done;
  }
  const char *copy = tg__arena_copy(&h->text, ptr, len);
  if (!copy) goto done;
  id = publish(s, (struct tg__str){copy, (uint32_t)len});
  if (id == TG_NONE) goto done;
  *slot = (struct slot){(uint32_t)hash, id};
  h->count++;
done:
  tg__lock_drop(h->lock);
  return id;
}

uint32_t tg__strings_add(struct tg__strings *s, const char *ptr, size_t len) {
  return len < UINT32_MAX ? tg__strings_add_hashed(s, ptr, len, tg__hash(ptr, len)) : TG_NONE;
}

uint32_t tg__strings_find(const struct tg__strings *s, const char *ptr, size_t len) {
  const uint64_t hash = tg__hash(ptr, len);
  const struct shard *h = &s->shards[hash >> (64 - SHARD_BITS)];
  tg__lock_take(h->lock);
  const uint32_t id = h->cap ? find_slot(s, h, ptr, len, hash)->id : TG_NONE;
  tg__lock_drop(h->lock);
  return id;
}

bool tg__strings_is_valid(const struct tg__strings *s, struct tg_error *e) {
  const uint32_t count = tg__strings_count(s);
  uint64_t in_shards = 0;
  for (int i = 0; i < SHARDS; i++) {
    const struct shard *const h = &s->shards[i];
    TG__CHECK(!(h->cap & (h->cap - 1)) && h->count <= h->cap / 4 * 3, "strings: shard %d is too full", i);
    in_shards += h->count;
  }
  TG__CHECK(in_shards == count, "strings: %u ids, but %llu texts in the tables", count, (unsigned long long)in_shards);
  for (uint32_t id = 0; id < count; id++) {
    const struct place at = probe_place_of(id);
    const struct tg__str *const block = atomic_load_explicit(&s->blocks[at.block], memory_order_acquire);
    TG__CHECK(block && block[at.in_block].ptr, "strings: id %u has no text", id);
    const struct tg__str text = block[at.in_block];
    TG__CHECK(text.ptr[text.len] == 0, "strings: no zero behind text %u", id);
    const uint32_t found = tg__strings_find(s, text.ptr, text.len);
    TG__CHECK(found == id, "strings: text %u is found as %u", id, found);
  }
  return true;
}
