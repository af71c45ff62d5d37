/* parse_portable: the event parser in plain C, eight bytes at a time. Also the scanning helpers that need no speed. */
#include "trace/import.h"

#define ONES 0x0101010101010101u
#define HIGH 0x8080808080808080u

/* High bit of every byte of v that equals c; exact up to and including the first such byte, which is all we use. */
static inline uint64_t bytes_equal(uint64_t v, unsigned char c) {
  const uint64_t x = v ^ (ONES * c);
  return (x - ONES) & ~x & HIGH;
}
static inline uint64_t bytes_below_space(uint64_t v) { return (v - ONES * 0x20) & ~v & HIGH; }

static inline const char *scan_string(const char *p, bool *ascii) {
  for (;; p += 8) {
    uint64_t v;
    memcpy(&v, p, 8);
    const uint64_t hit = bytes_equal(v, '"') | bytes_equal(v, '\\') | bytes_below_space(v);
    if (hit) {
      const unsigned n = (unsigned)__builtin_ctzll(hit) >> 3;
      if (n && (v << (64 - 8 * n)) & HIGH) *ascii = false;
      return p + n;
    }
    if (v & HIGH) *ascii = false;
  }
}

static const char *skip_string(const char *p,
                               const char *end) { /* p behind the opening quote; behind the closing one, or NULL */
  bool ascii;
  for (;;) {
    p = scan_string(p, &ascii);
    if (p >= end) return NULL;
    if (*p == '"') return p + 1;
    p += *p == '\\' ? 2 : 1;
  }
}

static const char *scan_nested(const char *p, const char *end) {
  size_t depth = 0;
  while (p < end) {
    switch (*p++) {
    case '"':
      p = skip_string(p, end);
      if (!p) return NULL;
      break;
    case '[':
    case '{':
      depth++;
      break;
    case ']':
    case '}':
      if (--depth == 0) return p < end ? p : NULL;
      break;
    default:
      break;
    }
  }
  return NULL;
}

#define SCAN tg__scan_events_portable
#include "trace/parse_event.h"

const char *tg__skip_value(const char *p, const char *end) {
  if (p >= end) return NULL;
  if (*p == '"') return skip_string(p + 1, end);
  if (*p == '[' || *p == '{') return scan_nested(p, end);
  const char *q = p;
  while (q < end && !ends_value(*q)) q++;
  return q < end ? q : NULL;
}

static bool is_event_key(const char *p) {
  static const char *const keys[] = {"ph\"",  "cat\"",  "name\"", "pid\"", "tid\"", "ts\"",
                                     "dur\"", "args\"", "id\"",   "bp\"",  "s\""};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (memcmp(p, keys[i], strlen(keys[i])) == 0) return true;
  return false;
}

static bool follows_separator(const char *p, const char *first) {
  do {
    if (p == first) return false;
    p--;
  } while ((unsigned char)*p <= ' ');
  return *p == ',' || *p == '[';
}

bool tg__looks_like_event(const char *p, const char *first, const char *end) {
  if (*p != '{' || end - p < 16 || (first && !follows_separator(p, first))) return false;
  const char *key = skip_blank(p + 1);
  return *key == '"' && end - key > 8 && is_event_key(key + 1);
}

const char *tg__find_event(const char *p, const char *first, const char *end) {
  while (p < end && (p = memchr(p, '{', (size_t)(end - p))) != NULL) {
    if (tg__looks_like_event(p, first, end)) return p;
    p++;
  }
  return NULL;
}

const char *tg__find_complete_event(const char *p, const char *first, const char *end) {
  enum { HEAD = 4096 };
  for (p = tg__find_event(p, first, end); p; p = tg__find_event(p + 1, first, end)) {
    const size_t near = (size_t)(end - p) < HEAD ? (size_t)(end - p) : HEAD;
    if (memmem(p, near, "\"ph\"", 4)) return p;
  }
  return NULL;
}

/* Do brackets pair up with their kind, and strings end on their line? Looks 64 levels deep. */
static bool is_well_nested(const char *p, const char *end) {
  uint64_t braces = 0;
  unsigned depth = 0;
  for (; p < end; p++) {
    if (*p == '"') {
      for (p++; p < end && *p != '"'; p++) {
        if (*p == '\n') return false;
        if (*p == '\\') p++;
      }
    } else if (*p == '{' || *p == '[') {
      if (++depth > 64) return true;
      braces = braces << 1 | (*p == '{');
    } else if (*p == '}' || *p == ']') {
      if (depth-- == 0 || (braces & 1) != (*p == '}')) return false;
      braces >>= 1;
    }
  }
  return true;
}

bool tg__swallows_events(const char *p, const char *end) {
  return tg__find_complete_event(p + 1, p, end) && !is_well_nested(p, end);
}

tg__scan_events_fn *tg__scan_events_best(const char **name) {
#if defined(__x86_64__)
  if ((~tg__cpu_features() & (TG__CPU_AVX2 | TG__CPU_BMI)) == 0) {
    if (name) *name = "avx2";
    return tg__scan_events_avx2;
  }
#endif
  if (name) *name = "portable";
  return tg__scan_events_portable;
}
