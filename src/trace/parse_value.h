/* parse_value: one value of an event: texts, numbers, times. The lower half of the template parse_event.h, which says
 * what the including file defines. */

#include "trace/import.h"

enum outcome { PARSED, BAD, SHORT }; /* SHORT: the text ended first */

static inline uint64_t load8(const char *p) {
  uint64_t v;
  memcpy(&v, p, 8);
  return v;
}

/* First byte above ' '. Eight at a time: a byte ≤ 0x20 plus 0x5f stays below 0x80. */
static inline const char *skip_blank(const char *p) {
  if (TG_LIKELY((unsigned char)*p > ' ')) return p;
  if ((unsigned char)p[1] > ' ') return p + 1;
  for (;;) {
    const uint64_t v = load8(p);
    const uint64_t solid = (((v & 0x7f7f7f7f7f7f7f7fu) + 0x5f5f5f5f5f5f5f5fu) | v) & 0x8080808080808080u;
    if (solid) return p + (__builtin_ctzll(solid) >> 3);
    p += 8;
  }
}

static inline uint32_t intern(struct tg__parser *P, const char *text, size_t len) {
  const uint64_t h = tg__hash(text, len);
  const size_t slot = (h >> 17) % TG__STRING_CACHE;
  if (TG_LIKELY(P->strings[slot].hash == h && P->strings[slot].len == len &&
                memcmp(P->strings[slot].ptr, text, len) == 0))
    return P->strings[slot].id;
  return tg__intern_string(P, text, len, h);
}

/* p: behind the opening quote. Leaves *pp behind the closing one. */
static inline enum outcome parse_string(struct tg__parser *P, const char **pp, const char *end, uint32_t *id) {
  const char *p = *pp;
  bool ascii = true;
  const char *q = scan_string(p, &ascii);
  if (TG_LIKELY(*q == '"' && ascii)) {
    *id = intern(P, p, (size_t)(q - p));
    *pp = q + 1;
    return q < end ? PARSED : SHORT;
  }
  for (; *q != '"'; q = scan_string(q, &ascii)) { /* an escape or a raw control character: find the end, then decode */
    if (q >= end) return SHORT;
    q += *q == '\\' ? 2 : 1;
  }
  if (q >= end) return SHORT;
  *id = tg__intern_escaped(P, p, q);
  *pp = q + 1;
  return PARSED;
}

static inline bool ends_value(char c) { return c == ',' || c == '}' || c == ']' || (unsigned char)c <= ' '; }

/* Anything that is not a JSON value but stands where one should (NaN, N/A, -1.-500): kept as its text. */
static enum outcome parse_bare(struct tg__parser *P, const char **pp, const char *end, struct tg__packed_val *v) {
  const char *p = *pp, *q = p;
  while (q < end && !ends_value(*q) && *q != '"' && *q != '{' && *q != '[' && *q != ':') q++;
  if (q >= end) return SHORT;
  if (q == p || !ends_value(*q)) return BAD;
  v->kind = TG__KIND_RAW;
  v->i = intern(P, p, (size_t)(q - p));
  *pp = q;
  tg__note_anomaly(P, TG__LOSS_bent_not_available, p);
  return PARSED;
}

/* The value of eight digits, one a byte, first digit lowest; bytes may be digits or their numbers. */
static inline uint64_t eight_digits_value(uint64_t v) {
  v = (v & 0x0f0f0f0f0f0f0f0fu) * 2561 >> 8;
  v = (v & 0x00ff00ff00ff00ffu) * 6553601 >> 16;
  return (v & 0x0000ffff0000ffffu) * 42949672960001u >> 32;
}

/* Digits at p; *value wraps beyond 19 digits, which the caller detects by the count. Without a loop over digits: their
 * number changes from event to event, and a mispredicted branch costs as much as all of this. */
static inline const char *parse_digits(const char *p, uint64_t *value) {
  static const uint32_t power[8] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000};
  for (;;) {
    const uint64_t v = load8(p) ^ 0x3030303030303030u; /* digits become 0…9 */
    const uint64_t other = ((v + 0x7676767676767676u) | v) & 0x8080808080808080u;
    if (!other) {
      *value = *value * 100000000u + eight_digits_value(v);
      p += 8;
      continue;
    }
    const unsigned n = (unsigned)__builtin_ctzll(other) >> 3;
    if (n == 0) return p;
    *value = *value * power[n] + eight_digits_value(v << (64 - 8 * n));
    return p + n;
  }
}

/* A number, into INT or DEC when that loses nothing of its spelling, else into RAW. */
static inline enum outcome parse_number(struct tg__parser *P, const char **pp, const char *end,
                                        struct tg__packed_val *v) {
  const char *start = *pp, *p = start + (*start == '-');
  const char *digits = p;
  uint64_t value = 0;
  p = parse_digits(p, &value);
  size_t n = (size_t)(p - digits);
  const bool zero_led = n > 1 && *digits == '0';
  unsigned decimals = 0;
  bool plain = n > 0 && !zero_led;
  if (*p == '.') {
    const char *fraction = ++p;
    p = parse_digits(p, &value);
    decimals = (unsigned)(p - fraction);
    n += decimals;
    plain = plain && decimals > 0;
  }
  if (TG_LIKELY(plain && n <= 18 && ends_value(*p))) {
    if (*start == '-' && value == 0) plain = false; /* -0 */
    if (plain) {
      v->kind = decimals ? TG__KIND_DEC : TG__KIND_INT;
      v->decimals = (uint8_t)decimals;
      v->i = *start == '-' ? -(int64_t)value : (int64_t)value;
      *pp = p;
      return p < end ? PARSED : SHORT;
    }
  }
  if (plain || n > 0) { /* long, signed zero or with an exponent: still JSON */
    if ((*p | 0x20) == 'e') {
      p += 1 + (p[1] == '+' || p[1] == '-');
      const char *exponent = p;
      while ((unsigned)(*p - '0') <= 9) p++;
      if (p == exponent) return parse_bare(P, pp, end, v);
    }
    if (p >= end) return SHORT;
    if (!zero_led && ends_value(*p) && p[-1] != '.') {
      v->kind = TG__KIND_RAW;
      v->i = intern(P, start, (size_t)(p - start));
      *pp = p;
      return PARSED;
    }
  }
  return parse_bare(P, pp, end, v);
}

static inline bool is_word(const char *p, const char *word, size_t n) {
  return memcmp(p, word, n) == 0 && ends_value(p[n]);
}

static inline enum outcome parse_value(struct tg__parser *P, const char **pp, const char *end,
                                       struct tg__packed_val *v) {
  const char *p = *pp;
  v->decimals = 0;
  v->i = 0;
  if (*p == '"') {
    uint32_t id;
    v->kind = TG__KIND_STR;
    *pp = p + 1;
    const enum outcome r = parse_string(P, pp, end, &id);
    v->i = id;
    return r;
  }
  if ((unsigned)(*p - '0') <= 9 || *p == '-') return parse_number(P, pp, end, v);
  if (*p == '[' || *p == '{') {
    const char *q = scan_nested(p, end);
    if (!q) return SHORT;
    /* Values of one event are short or stand on one line; what does not is worth a look. */
    if (TG_UNLIKELY(q - p > 512 || memchr(p, '\n', (size_t)(q - p))) && tg__swallows_events(p, q)) return BAD;
    v->kind = TG__KIND_RAW;
    v->i = intern(P, p, (size_t)(q - p));
    *pp = q;
    return PARSED;
  }
  if (is_word(p, "true", 4))
    v->kind = TG__KIND_TRUE, *pp = p + 4;
  else if (is_word(p, "null", 4))
    v->kind = TG__KIND_NULL, *pp = p + 4;
  else if (is_word(p, "false", 5))
    v->kind = TG__KIND_FALSE, *pp = p + 5;
  else
    return p >= end ? SHORT : parse_bare(P, pp, end, v);
  return PARSED;
}

/* Behind a key's closing quote: over the colon to the value. NULL when there is none. */
static inline const char *to_value(const char *p) {
  if (TG_LIKELY(*p == ':'))
    p++;
  else {
    p = skip_blank(p);
    if (*p != ':') return NULL;
    p++;
  }
  return skip_blank(p);
}

/* A time in any spelling but the usual. The token is not interned: a trace may have millions of them. */
static enum outcome parse_unusual_time(struct tg__parser *P, const char **pp, const char *end, int64_t *ns,
                                       uint8_t *flags) {
  const char *text = *pp, *q = text;
  size_t len;
  if (*text == '"') {
    q = memchr(text + 1, '"', (size_t)(end - text));
    if (!q || q >= end) return SHORT;
    len = (size_t)(q++ - ++text);
    tg__note_anomaly(P, TG__LOSS_bent_text_time, text);
  } else {
    while (q < end && !ends_value(*q) && *q != '"' && *q != '{' && *q != '[' && *q != ':') q++;
    if (q >= end) return SHORT;
    len = (size_t)(q - text);
  }
  bool rounded = false;
  if (len > 0 && ends_value(*q) && tg__parse_time_slow(text, len, ns, &rounded)) {
    *pp = q;
    if (!rounded) return PARSED;
    *flags |= TG__F_ROUNDED;
    tg__note_anomaly(P, TG__LOSS_bent_rounded_time, text);
    return PARSED;
  }
  struct tg__packed_val value; /* null, an object, NaN …: no time */
  *ns = TG_NULL_INT;
  return parse_value(P, pp, end, &value);
}

/* The fast path of a time: what fits 64-bit ns by its number of digits, up to three decimals. */
static inline enum outcome parse_time(struct tg__parser *P, const char **pp, const char *end, int64_t *ns,
                                      uint8_t *flags) {
  static const uint16_t scale[4] = {1000, 100, 10, 1};
  const char *start = *pp, *p = start;
  uint64_t v = 0, fraction = 0;
  p = parse_digits(p, &v);
  const size_t n = (size_t)(p - start);
  size_t f = 0;
  if (*p == '.') {
    const char *from = ++p;
    p = parse_digits(p, &fraction);
    f = (size_t)(p - from);
  }
  if (TG_LIKELY(n > 0 && n <= 16 && v < 9000000000000000u && f <= 3 && ends_value(*p) && p < end)) {
    *ns = (int64_t)(v * 1000 + fraction * scale[f]);
    *pp = p;
    return PARSED;
  }
  return parse_unusual_time(P, pp, end, ns, flags);
}
