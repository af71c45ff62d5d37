/* JSON writing: commas and escaping. */
#include "base/base.h"

static void before_value(struct tg__jsonw *w) {
  if (w->comma && !w->after_key) tg__out_char(w->out, ',');
  w->comma = true;
  w->after_key = false;
}

void tg__json_open(struct tg__jsonw *w, char bracket) {
  before_value(w);
  tg__out_char(w->out, bracket);
  w->depth++;
  w->comma = false;
}

void tg__json_close(struct tg__jsonw *w, char bracket) {
  tg__out_char(w->out, bracket);
  w->depth--;
  w->comma = true;
  w->after_key = false;
}

void tg__json_key(struct tg__jsonw *w, const char *key) {
  tg__json_cstr(w, key);
  tg__out_char(w->out, ':');
  w->after_key = true;
}

void tg__json_str(struct tg__jsonw *w, struct tg__str s) {
  before_value(w);
  tg__out_char(w->out, '"');
  tg__json_escape(w->out, s, true);
  tg__out_char(w->out, '"');
}

void tg__json_cstr(struct tg__jsonw *w, const char *s) {
  if (s)
    tg__json_str(w, (struct tg__str){s, (uint32_t)strlen(s)});
  else
    tg__json_null(w);
}

void tg__json_int(struct tg__jsonw *w, int64_t v) {
  before_value(w);
  tg__out_int(w->out, v);
}

void tg__json_double(struct tg__jsonw *w, double v) {
  before_value(w);
  tg__out_double(w->out, v);
}

void tg__json_bool(struct tg__jsonw *w, bool v) { tg__json_raw(w, v ? TG_STR("true") : TG_STR("false")); }
void tg__json_null(struct tg__jsonw *w) { tg__json_raw(w, TG_STR("null")); }

void tg__json_raw(struct tg__jsonw *w, struct tg__str raw) {
  before_value(w);
  tg__out_bytes(w->out, raw.ptr, raw.len);
}

/* ---- escaping -------------------------------------------------------------------------------- */

#define EVERY_BYTE(b) (UINT64_C(0x0101010101010101) * (b))

/* How many bytes from p on are plain ASCII that needs no escape. Eight at a time: a zero byte in x is found by (x -
 * 1) & ~x. */
static size_t plain_length(const unsigned char *p, size_t len) {
  size_t i = 0;
  for (; i + 8 <= len; i += 8) {
    uint64_t v;
    memcpy(&v, p + i, 8);
    const uint64_t quote = v ^ EVERY_BYTE('"'), slash = v ^ EVERY_BYTE('\\');
    const uint64_t special =
        v | (v - EVERY_BYTE(0x20)) | ((quote - EVERY_BYTE(1)) & ~quote) | ((slash - EVERY_BYTE(1)) & ~slash);
    if (special & EVERY_BYTE(0x80)) break;
  }
  while (i < len && p[i] >= 0x20 && p[i] < 0x80 && p[i] != '"' && p[i] != '\\') i++;
  return i;
}

static void escape_ascii(struct tg__out *o, unsigned char c) {
  static const char hex[] = "0123456789abcdef";
  char text[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
  size_t len = 2;
  switch (c) {
  case '"':
  case '\\':
    text[1] = (char)c;
    break;
  case '\n':
    text[1] = 'n';
    break;
  case '\t':
    text[1] = 't';
    break;
  case '\r':
    text[1] = 'r';
    break;
  case '\b':
    text[1] = 'b';
    break;
  case '\f':
    text[1] = 'f';
    break;
  default:
    len = 6;
  }
  tg__out_bytes(o, text, len);
}

/* One character that is not ASCII; returns how many bytes it took. Characters that steer a terminal have at most three
 * bytes. */
static size_t escape_high(struct tg__out *o, const unsigned char *p, size_t left, bool display) {
  const unsigned n = tg__utf8_length(p, left);
  if (n && tg__utf8_is_unsafe(p, n)) {
    tg__out_format(o, "\\u%04x",
                   n == 2 ? (p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu)
                          : (p[0] & 0xFu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu));
    return n;
  }
  if (n) {
    tg__out_bytes(o, p, n);
    return n;
  }
  if (display) {
    tg__out_bytes(o, "\xEF\xBF\xBD", 3);
    return 1;
  }
  if (left >= 3 && p[0] == 0xED && p[1] >= 0xA0 && p[1] <= 0xBF && (p[2] & 0xC0) == 0x80) {
    tg__out_format(o, "\\u%04x", 0xD000u | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu));
    return 3;
  }
  tg__out_bytes(o, p, 1);
  return 1;
}

void tg__json_escape(struct tg__out *o, struct tg__str s, bool display) {
  const unsigned char *p = (const unsigned char *)s.ptr;
  size_t left = s.len;
  while (left) {
    size_t n = plain_length(p, left);
    if (n) {
      tg__out_bytes(o, p, n);
    } else if (*p < 0x80) {
      escape_ascii(o, *p);
      n = 1;
    } else {
      n = escape_high(o, p, left, display);
    }
    p += n;
    left -= n;
  }
}
