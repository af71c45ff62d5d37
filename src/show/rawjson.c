/* Text from a trace becomes valid JSON: strings get escaped, values that are not JSON are quoted. */
#include "show/parts.h"

enum {
  DEPTH_MAX = 512,
  DEPTH_KEPT = 500, /* of a value that is written as it stood: it will lie a few levels deep itself */
};

/* An encoded surrogate half (U+D800–DFFF in three bytes): not UTF-8, but what a lone \uD8xx escape was kept as. */
static bool is_surrogate(const unsigned char *p, size_t left) {
  return left >= 3 && p[0] == 0xed && p[1] >= 0xa0 && p[1] <= 0xbf && (p[2] & 0xc0) == 0x80;
}

void tg__json_body(struct tg__out *o, struct tg__str s) {
  const unsigned char *const p = (const unsigned char *)s.ptr;
  size_t from = 0;
  for (size_t i = 0; i < s.len;) {
    const unsigned n = p[i] < 0x80 ? 1 : tg__utf8_length(p + i, s.len - i);
    if (n) {
      i += n;
    } else if (is_surrogate(p + i, s.len - i)) {
      i += 3;
    } else {
      tg__json_escape(o, (struct tg__str){s.ptr + from, (uint32_t)(i - from)}, false);
      tg__out_text(o, "\xef\xbf\xbd");
      from = ++i;
    }
  }
  if (from < s.len) tg__json_escape(o, (struct tg__str){s.ptr + from, (uint32_t)(s.len - from)}, false);
}

void tg__put_utf8(struct tg__out *out, struct tg__str s) {
  size_t from = 0;
  for (size_t i = 0; i < s.len;) {
    const unsigned n = tg__utf8_length((const unsigned char *)s.ptr + i, s.len - i);
    if (n) {
      i += n;
      continue;
    }
    tg__out_bytes(out, s.ptr + from, i - from);
    tg__out_text(out, "\xef\xbf\xbd");
    from = ++i;
  }
  tg__out_bytes(out, s.ptr + from, s.len - from);
}

/* ---- is it JSON? ----------------------------------------------------------------------------- */

struct scan {
  const char *p, *end;
};

static void skip_blanks(struct scan *s) {
  while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r')) s->p++;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

static bool take_digits(struct scan *s) {
  const char *const from = s->p;
  while (s->p < s->end && is_digit(*s->p)) s->p++;
  return s->p > from;
}

static bool take_number(struct scan *s) {
  if (s->p < s->end && *s->p == '-') s->p++;
  const char *const first = s->p;
  if (!take_digits(s)) return false;
  if (*first == '0' && s->p - first > 1) return false;
  if (s->p < s->end && *s->p == '.') {
    s->p++;
    if (!take_digits(s)) return false;
  }
  if (s->p < s->end && (*s->p == 'e' || *s->p == 'E')) {
    s->p++;
    if (s->p < s->end && (*s->p == '+' || *s->p == '-')) s->p++;
    if (!take_digits(s)) return false;
  }
  return true;
}

static bool take_escape(struct scan *s) {
  if (s->p + 1 >= s->end) return false;
  const char c = s->p[1];
  s->p += 2;
  if (c != 'u') return c && strchr("\"\\/bfnrt", c) != NULL;
  for (int i = 0; i < 4; i++, s->p++) {
    if (s->p >= s->end || !is_hex(*s->p)) return false;
  }
  return true;
}

/* p stands on the opening quote. */
static bool take_string(struct scan *s) {
  s->p++;
  while (s->p < s->end) {
    const unsigned char c = (unsigned char)*s->p;
    if (c == '"') {
      s->p++;
      return true;
    }
    if (c < 0x20) return false;
    if (c == '\\') {
      if (!take_escape(s)) return false;
    } else {
      const unsigned n = c < 0x80 ? 1 : tg__utf8_length((const unsigned char *)s->p, (size_t)(s->end - s->p));
      if (!n) return false;
      s->p += n;
    }
  }
  return false;
}

static bool take_word(struct scan *s, const char *word) {
  const size_t n = strlen(word);
  if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0) return false;
  s->p += n;
  return true;
}

static bool take_scalar(struct scan *s) {
  switch (*s->p) {
  case '"':
    return take_string(s);
  case 't':
    return take_word(s, "true");
  case 'f':
    return take_word(s, "false");
  case 'n':
    return take_word(s, "null");
  default:
    return take_number(s);
  }
}

/* "key": before a member; nothing inside an array. */
static bool take_key(struct scan *s, bool in_object) {
  if (!in_object) return true;
  if (s->p >= s->end || *s->p != '"' || !take_string(s)) return false;
  skip_blanks(s);
  if (s->p >= s->end || *s->p++ != ':') return false;
  skip_blanks(s);
  return true;
}

static bool is_json(struct tg__str raw, unsigned deepest) {
  struct scan s = {raw.ptr, raw.ptr + raw.len};
  char open[DEPTH_MAX];
  unsigned depth = 0;
  skip_blanks(&s);
  for (;;) {
    if (s.p >= s.end) return false;
    bool done = true; /* a whole value has been read */
    if (*s.p == '{' || *s.p == '[') {
      if (depth == deepest) return false;
      open[depth++] = *s.p++;
      skip_blanks(&s);
      const char closing = open[depth - 1] == '{' ? '}' : ']';
      if (s.p < s.end && *s.p == closing) {
        s.p++;
        depth--;
      } else {
        done = false;
        if (!take_key(&s, closing == '}')) return false;
      }
    } else if (!take_scalar(&s)) {
      return false;
    }
    while (done) {
      skip_blanks(&s);
      if (depth == 0) return s.p == s.end;
      if (s.p >= s.end) return false;
      const bool in_object = open[depth - 1] == '{';
      const char c = *s.p++;
      if (c == ',') {
        skip_blanks(&s);
        if (!take_key(&s, in_object)) return false;
        done = false;
      } else if (c == (in_object ? '}' : ']')) {
        depth--;
      } else {
        return false;
      }
    }
  }
}

bool tg__json_is_valid(struct tg__str raw) { return is_json(raw, DEPTH_MAX); }

bool tg__raw_int(struct tg__str raw, int64_t *out) {
  const bool negative = raw.len && raw.ptr[0] == '-';
  uint64_t v = 0;
  for (uint32_t i = negative; i < raw.len; i++) {
    const uint64_t digit = (uint64_t)(unsigned char)raw.ptr[i] - '0';
    if (digit > 9 || v > (INT64_MAX - digit) / 10) return false;
    v = v * 10 + digit;
  }
  *out = negative ? -(int64_t)v : (int64_t)v;
  return raw.len > negative;
}

/* ---- making it JSON -------------------------------------------------------------------------- */

static bool is_structure(char c) { return c && strchr("{}[],:\" \t\r\n", c) != NULL; }

static void put_quoted(struct tg__out *o, const char *from, const char *to) {
  tg__out_char(o, '"');
  tg__json_body(o, (struct tg__str){from, (uint32_t)(to - from)});
  tg__out_char(o, '"');
}

/* A string token: kept when valid, else its characters are escaped again, so that \p reads back as backslash and p. */
static const char *mend_string(struct tg__out *o, const char *p, const char *end) {
  const char *q = p + 1;
  while (q < end && *q != '"') q += *q == '\\' && q + 1 < end ? 2 : 1;
  struct scan s = {p, q < end ? q + 1 : q};
  if (take_string(&s) && s.p == s.end) {
    tg__out_bytes(o, p, (size_t)(s.end - p));
  } else {
    put_quoted(o, p + 1, q < end ? q : end);
  }
  return s.end;
}

/* Token by token: words that are no JSON get quotes. Structure is copied as it is. */
static void mend(struct tg__out *o, struct tg__str raw) {
  const char *p = raw.ptr, *const end = raw.ptr + raw.len;
  while (p < end) {
    if (*p == '"') {
      p = mend_string(o, p, end);
    } else if (is_structure(*p)) {
      tg__out_char(o, *p++);
    } else {
      const char *q = p;
      while (q < end && !is_structure(*q)) q++;
      struct scan s = {p, q};
      if (take_scalar(&s) && s.p == q) {
        tg__out_bytes(o, p, (size_t)(q - p));
      } else {
        put_quoted(o, p, q);
      }
      p = q;
    }
  }
}

void tg__json_value(struct tg__out *o, struct tg__str raw) {
  if (is_json(raw, DEPTH_KEPT)) {
    tg__out_bytes(o, raw.ptr, raw.len);
    return;
  }
  struct tg__out try = {0};
  mend(&try, raw);
  const struct tg__str mended = {try.buf, (uint32_t)try.len};
  if (try.err == TG_OK && try.len < UINT32_MAX && is_json(mended, DEPTH_KEPT)) {
    tg__out_bytes(o, try.buf, try.len);
  } else {
    put_quoted(o, raw.ptr, raw.ptr + raw.len);
  }
  tg__out_free(&try);
}
