/* dictionary: texts become numbers. Each thread has tables of its own, so no thread waits for another; an entry is in
 * the file before its number is given out. */
#include "capture/session.h"

#include <errno.h>
#include <unistd.h>

enum { BLOCK_MOST = 64 << 10, ENTRY_HEAD_BYTES = 12 };
enum { PAYLOAD_HEADS = TG_RAW_DICTIONARY_HEAD_BYTES + ENTRY_HEAD_BYTES };

/* ---- in the file ----------------------------------------------------------------------------- */

/* One chunk with one entry, built in `bytes` and written at once. */
static bool write_entry(uint8_t *bytes, uint32_t part, uint32_t kind, struct tg__raw_entry entry) {
  const size_t payload = PAYLOAD_HEADS + (size_t)((entry.text.len + 3) & ~3u), span = (size_t)tg__chunk_span(payload);
  uint8_t *const p = bytes + TG_CHUNK_HEAD_BYTES;
  uint64_t offset;
  if (!tg__recording_reserve(span, 8, tg__session.disk_bytes, &offset)) return false;
  memset(p, 0, span - TG_CHUNK_HEAD_BYTES);
  tg__set32(p, kind);
  tg__set32(p + 8, entry.id);
  tg__set32(p + 12, entry.parent);
  tg__set32(p + 16, entry.text.len);
  memcpy(p + PAYLOAD_HEADS, entry.text.ptr, entry.text.len);
  tg__chunk_head_write(bytes, TG_CHUNK_RAW_DICTIONARY, part, 0, payload, tg__checksum(p, payload));
  const ssize_t n = pwrite(tg__session.fd, bytes, span, (off_t)offset);
  if (n == (ssize_t)span) return true;
  atomic_store(&tg__session.disk_error, n < 0 ? errno : ENOSPC); /* a part was written: the next byte had no room */
  return false;
}

static bool write_any(uint32_t part, uint32_t kind, struct tg__raw_entry entry) {
  uint8_t small[1024];
  const size_t need = TG_CHUNK_HEAD_BYTES + PAYLOAD_HEADS + (size_t)entry.text.len + 16;
  if (need <= sizeof small) return write_entry(small, part, kind, entry);
  uint8_t *const large = tg__capture_pages(need);
  const bool written = large && write_entry(large, part, kind, entry);
  tg__capture_pages_drop(large, need);
  return written;
}

bool tg__dictionary_write(uint32_t part, enum tg__raw_dictionary kind, uint32_t id, uint32_t parent, const void *bytes,
                          size_t len) {
  struct tg__session *const s = &tg__session;
  const int error = errno;
  bool written = false;
  atomic_fetch_add(&s->dictionary_writers,
                   1); /* as in tg__busy_enter: closing waits for us, or we see that it is closed */
  const uint32_t generation = tg__generation_now();
  const struct tg__thread *const t = tg__thread_here;
  const bool is_ours = part == TG_RAW_EVERY_THREAD || (t && t->generation == generation);
  if ((generation & 1) && is_ours && atomic_load(&s->state) == TG_SESSION_OPEN && len < UINT32_MAX / 2) {
    written = write_any(part, kind, (struct tg__raw_entry){id, parent, {bytes, (uint32_t)len}});
    if (!written) tg__session_count(TG_RAW_C_NO_DICTIONARY, 1);
  }
  atomic_fetch_sub(&s->dictionary_writers, 1);
  errno = error;
  return written;
}

/* ---- in memory ------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t a, uint64_t b) {
  const unsigned __int128 m = (unsigned __int128)(a ^ 0x9e3779b97f4a7c15u) * (b ^ 0xd6e8feb86659fd93u);
  return (uint64_t)m ^ (uint64_t)(m >> 64);
}

static uint64_t hash_of(const uint8_t *p, size_t len, uint32_t kind, uint32_t parent) {
  uint64_t h = mix(len, (uint64_t)parent << 8 | kind), word;
  for (; len >= 8; p += 8, len -= 8) {
    memcpy(&word, p, 8);
    h = mix(h, word);
  }
  word = 0;
  if (len) memcpy(&word, p, len);
  return mix(h, word);
}

/* Where the word is, or the empty place where it would be. */
static struct tg__dictionary_entry *find_word(const struct tg__dictionaries *w, uint64_t hash, uint32_t kind,
                                              uint32_t parent, const void *bytes, size_t len) {
  for (uint32_t i = (uint32_t)hash & (w->cap - 1);; i = (i + 1) & (w->cap - 1)) {
    struct tg__dictionary_entry *const word = &w->table[i];
    if (!word->text) return word;
    if (word->hash == hash && word->len == len && word->kind == kind && word->parent == parent &&
        memcmp(word->text, bytes, len) == 0)
      return word;
  }
}

static void *pages_for(bool stacks, size_t bytes) {
  return stacks ? tg__capture_pages_spare(bytes) : tg__capture_pages(bytes);
}

static bool grow_table(struct tg__dictionaries *w, bool stacks) {
  const uint32_t cap = w->cap * 2;
  struct tg__dictionary_entry *const table = pages_for(stacks, cap * sizeof *table);
  if (!table) return false;
  for (uint32_t i = 0; i < w->cap; i++) {
    if (!w->table[i].text) continue;
    uint32_t to = (uint32_t)w->table[i].hash & (cap - 1);
    while (table[to].text) to = (to + 1) & (cap - 1);
    table[to] = w->table[i];
  }
  if (w->table != w->first_table) tg__capture_pages_drop(w->table, w->cap * sizeof *table);
  w->table = table;
  w->cap = cap;
  return true;
}

/* The newest of some blocks has room for so many bytes more, if need be a new one; NULL = no memory. */
static struct tg__dictionary_block *block_for(struct tg__dictionary_block *newest, bool stacks, size_t bytes) {
  if (newest && newest->cap - newest->used >= bytes) return newest;
  size_t cap = newest ? (size_t)newest->cap * 2 : BLOCK_MOST;
  if (cap > BLOCK_MOST) cap = BLOCK_MOST;
  while (cap < sizeof *newest + bytes) cap *= 2;
  struct tg__dictionary_block *const b = pages_for(stacks, cap);
  if (b) *b = (struct tg__dictionary_block){.before = newest, .used = sizeof *b, .cap = (uint32_t)cap};
  return b;
}

static char *text_copy(struct tg__dictionaries *w, bool stacks, const void *bytes, size_t len) {
  struct tg__dictionary_block **const newest = stacks ? &w->stacks : &w->text;
  struct tg__dictionary_block *const b = block_for(*newest, stacks, len + 1);
  if (!b) return NULL;
  *newest = b;
  char *const copy = (char *)b + b->used;
  memcpy(copy, bytes, len);
  copy[len] = 0;
  b->used += (uint32_t)len + 1;
  return copy;
}

static void drop_blocks(struct tg__dictionary_block *newest, const struct tg__dictionary_block *last) {
  while (newest != last) {
    struct tg__dictionary_block *const b = newest;
    newest = b->before;
    tg__capture_pages_drop(b, b->cap);
  }
}

/* Memory is short: forget the stacks that were seen. The file has those that have a number; one that comes again
 * gets another. */
static bool forget_stacks(struct tg__dictionaries *w) {
  enum { FEW = 4096 }; /* not worth it */
  uint32_t others = 0, cap = TG_FIRST_WORDS;
  for (uint32_t i = 0; i < w->cap; i++) others += w->table[i].text && w->table[i].kind != TG_RAW_D_STACK;
  if (w->count - others < FEW) return false;
  while (others >= cap / 4 * 3) cap *= 2;
  struct tg__dictionary_entry *const before = w->table, *const table = tg__capture_pages(cap * sizeof *table);
  const uint32_t before_cap = w->cap;
  if (!table) return false;
  w->table = table;
  w->cap = cap;
  w->count = others;
  for (uint32_t i = 0; i < before_cap; i++) {
    const struct tg__dictionary_entry word = before[i];
    if (word.text && word.kind != TG_RAW_D_STACK)
      *find_word(w, word.hash, word.kind, word.parent, word.text, word.len) = word;
  }
  if (before != w->first_table) tg__capture_pages_drop(before, before_cap * sizeof *before);
  drop_blocks(w->stacks, NULL);
  w->stacks = NULL;
  return true;
}

void tg__dictionaries_clear(struct tg__dictionaries *w) {
  if (w->table != w->first_table) tg__capture_pages_drop(w->table, w->cap * sizeof *w->table);
  if (w->text) drop_blocks(w->text, &w->first.block);
  drop_blocks(w->stacks, NULL);
  memset(w, 0, offsetof(struct tg__dictionaries, first));
  w->table = w->first_table;
  w->cap = TG_FIRST_WORDS;
  w->text = &w->first.block;
  *w->text = (struct tg__dictionary_block){.used = sizeof *w->text, .cap = TG_FIRST_TEXT};
}

/* A table that cannot grow takes names until it is nearly full. */
static bool has_place(struct tg__dictionaries *w, bool stacks) {
  return w->count < w->cap / 4 * 3 || grow_table(w, stacks) || (!stacks && w->count < w->cap / 16 * 15);
}

/* Keep a word. Stacks, of which there are more the longer a program's imports take, leave room for names: without
 * its name a record is nothing. */
static bool keep(struct tg__dictionaries *w, struct tg__dictionary_entry *word, const void *bytes) {
  const bool stacks = word->kind == TG_RAW_D_STACK;
  for (bool again = false;; again = true) {
    word->text = has_place(w, stacks) ? text_copy(w, stacks, bytes, word->len) : NULL;
    if (word->text || again || !forget_stacks(w)) return word->text != NULL;
  }
}

/* A word seen for the first time: into the file, then into the table. 0 = no room. */
static uint32_t add_word(struct tg__thread *t, struct tg__dictionary_entry word, const void *bytes) {
  struct tg__dictionaries *const w = &t->more->words;
  uint64_t *const no_room = &w->no_room[word.kind == TG_RAW_D_STACK];
  const uint64_t room = atomic_load_explicit(&tg__session.room, memory_order_relaxed);
  if (*no_room == room) { /* asked a moment ago */
    tg__thread_count(t, TG_RAW_C_NO_DICTIONARY, 1);
    return 0;
  }
  word.id = w->next_id[word.kind] + 1;
  const bool is_kept = keep(w, &word, bytes);
  if (!is_kept) tg__thread_count(t, TG_RAW_C_NO_DICTIONARY, 1); /* a write that fails counts itself */
  if (!is_kept || !tg__dictionary_write(t->number, word.kind, word.id, word.parent, word.text, word.len)) {
    *no_room = room;
    return 0;
  }
  *find_word(w, word.hash, word.kind, word.parent, bytes, word.len) = word;
  w->next_id[word.kind] = word.id;
  w->count++;
  return word.id;
}

uint32_t tg__dictionary_intern(struct tg__thread *t, enum tg__raw_dictionary kind, uint32_t parent, const void *bytes,
                               size_t len) {
  struct tg__dictionaries *const w = &t->more->words;
  if (len > TG_TEXT_MOST) len = TG_TEXT_MOST;
  const uint64_t hash = hash_of(bytes, len, kind, parent);
  const struct tg__dictionary_entry *const word = find_word(w, hash, kind, parent, bytes, len);
  if (word->text) return word->id;
  return add_word(
      t, (struct tg__dictionary_entry){.hash = hash, .len = (uint32_t)len, .parent = parent, .kind = (uint8_t)kind},
      bytes);
}

/* ---- names by pointer ------------------------------------------------------------------------ */

uint32_t tg__name_intern(struct tg__thread *t, const char *name) {
  struct tg__name_cached *const c = &t->more->cache[((uintptr_t)name ^ (uintptr_t)name >> 6) % TG_NAME_CACHE];
  if (c->pointer == name && strcmp(c->text, name) == 0) return c->id;
  const size_t len = strlen(name), kept = len < TG_TEXT_MOST ? len : TG_TEXT_MOST;
  const uint32_t id = tg__dictionary_intern(t, TG_RAW_D_NAME, 0, name, kept);
  const struct tg__dictionaries *const w = &t->more->words;
  if (id && kept == len) {
    const char *const text =
        find_word(w, hash_of((const uint8_t *)name, len, TG_RAW_D_NAME, 0), TG_RAW_D_NAME, 0, name, len)->text;
    *c = (struct tg__name_cached){name, text, id};
  }
  return id;
}
