/* nvtx_names: what NVTX names once and uses for as long as the process lives, also between recordings. One table of
 * texts of a fixed size, which takes no memory before it is used and no lock: a fork leaves nothing half done. Domains
 * and registered strings are numbers in it, so that a handle that was never given out is found out. */
#include "capture/nvtx.h"

enum {
  TEXTS = TG_NVTX_TEXTS, /* a power of two; a handle is a place in this table */
  TEXT_BYTES = 2 << 20,
  TRIES = 32, /* places looked at for one text */
  NAMED = 1 << 12,
  THREADS = 0xffffff /* stands for a domain in the key of a thread's name */
};

static _Atomic(const char *) texts[TEXTS];
static char bytes[TEXT_BYTES];
static _Atomic uint32_t bytes_used;

static struct {
  _Atomic uint64_t key; /* 0 = empty */
  _Atomic uint32_t text;
} named[NAMED];
static _Atomic bool has_threads;

/* ---- texts ----------------------------------------------------------------------------------- */

static uint64_t hash_of(const char *text, size_t len) {
  uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
  for (size_t i = 0; i < len; i++) h = (h ^ (uint8_t)text[i]) * 0x100000001b3u;
  return h ^ h >> 32;
}

size_t tg__nvtx_cut(const char *text, size_t most) {
  size_t len = strnlen(text, most);
  if (len < most) return len;
  while (len && ((uint8_t)text[len] & 0xc0) == 0x80) len--;
  return len ? len : most;
}

/* A copy for good; NULL when there is no room. */
static const char *keep_text(const char *text, size_t len) {
  uint32_t at = atomic_load(&bytes_used);
  do {
    if (len + 1 > TEXT_BYTES - at) return NULL;
  } while (!atomic_compare_exchange_weak(&bytes_used, &at, at + (uint32_t)len + 1));
  memcpy(bytes + at, text, len);
  return bytes + at;
}

static bool is_text(const char *kept, const char *text, size_t len) {
  return strncmp(kept, text, len) == 0 && kept[len] == 0;
}

static uint32_t text_number(const char *text, size_t len) {
  const uint64_t hash = hash_of(text, len);
  const char *copy = NULL;
  for (uint32_t i = 0; i < TRIES; i++) {
    const uint32_t at = (uint32_t)(hash + i) & (TEXTS - 1);
    if (at <= TG_NVTX_OTHER) continue;
    const char *there = atomic_load_explicit(&texts[at], memory_order_acquire);
    if (!there && !copy) copy = keep_text(text, len);
    if (!there && !copy) return TG_NVTX_OTHER;
    if (!there && atomic_compare_exchange_strong(&texts[at], &there, copy)) return at;
    if (is_text(there, text, len)) return at;
  }
  return TG_NVTX_OTHER;
}

uint32_t tg__nvtx_text_narrow(const char *text) {
  return text ? text_number(text, tg__nvtx_cut(text, TG_NVTX_TEXT_MOST)) : 0;
}

uint32_t tg__nvtx_text_wide(const wchar_t *text) {
  char utf8[TG_NVTX_TEXT_MOST];
  return text ? text_number(utf8, tg__nvtx_from_wide(text, utf8, sizeof utf8)) : 0;
}

const char *tg__nvtx_text(uint32_t number) {
  if (number == TG_NVTX_OTHER) return "(no room for the name)";
  return number < TEXTS ? atomic_load_explicit(&texts[number], memory_order_acquire) : NULL;
}

uint32_t tg__nvtx_number(const void *handle) {
  const uintptr_t number = (uintptr_t)handle;
  return number < TEXTS && tg__nvtx_text((uint32_t)number) ? (uint32_t)number : 0;
}

size_t tg__nvtx_from_wide(const wchar_t *text, char *out, size_t room) {
  size_t len = 0;
  for (; *text && len + 5 <= room; text++) {
    uint32_t c = (uint32_t)*text;
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) c = 0xfffd; /* no character */
    const unsigned more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const uint8_t first[] = {0, 0xc0, 0xe0, 0xf0};
    out[len++] = (char)(first[more] | c >> 6 * more);
    for (unsigned i = more; i-- > 0;) out[len++] = (char)(0x80 | (c >> 6 * i & 0x3f));
  }
  out[len] = 0;
  return len;
}

/* ---- names of numbers ------------------------------------------------------------------------ */

static uint64_t key_of(uint32_t domain, uint32_t number) { return UINT64_C(1) << 63 | (uint64_t)domain << 32 | number; }

/* Its place, or with `may_add` a new one; TG_NONE: none. */
static uint32_t find_place(uint64_t key, bool may_add) {
  const uint64_t hash = key * 0x9e3779b97f4a7c15u >> 40;
  for (uint32_t i = 0; i < TRIES; i++) {
    const uint32_t at = (uint32_t)(hash + i) & (NAMED - 1);
    uint64_t there = atomic_load_explicit(&named[at].key, memory_order_acquire);
    if (!there && !may_add) return TG_NONE;
    if (there == key || (!there && (atomic_compare_exchange_strong(&named[at].key, &there, key) || there == key)))
      return at;
  }
  return TG_NONE;
}

static void set_name(uint64_t key, uint32_t text) {
  const uint32_t at = find_place(key, true);
  if (at != TG_NONE) atomic_store_explicit(&named[at].text, text, memory_order_release);
}

static const char *name_of(uint64_t key) {
  const uint32_t at = find_place(key, false),
                 text = at == TG_NONE ? 0 : atomic_load_explicit(&named[at].text, memory_order_acquire);
  return text ? tg__nvtx_text(text) : NULL;
}

void tg__nvtx_name_category(uint32_t domain, uint32_t category, uint32_t text) {
  set_name(key_of(domain, category), text);
}

const char *tg__nvtx_category_name(uint32_t domain, uint32_t category) { return name_of(key_of(domain, category)); }

void tg__nvtx_name_thread(uint32_t os_thread, uint32_t text) {
  set_name(key_of(THREADS, os_thread), text);
  atomic_store(&has_threads, true);
}

const char *tg__nvtx_thread_name(uint32_t os_thread) {
  return atomic_load_explicit(&has_threads, memory_order_relaxed) ? name_of(key_of(THREADS, os_thread)) : NULL;
}
