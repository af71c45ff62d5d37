/* member_text: the text of a JSON string that stands in a member of the document, without its escapes. */
#include "trace/trace.h"

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char low = (char)(c | 0x20);
  return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

/* The code point of four digits at p; -1. */
static int32_t read_hex(const char *p, const char *end) {
  int32_t value = 0;
  for (int i = 0; i < 4; i++) {
    const int digit = p + i < end ? hex_digit(p[i]) : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

/* Half of a pair is one '?'. */
static char *put_utf8(char *to, int32_t code) {
  if (code < 0x80) {
    *to++ = (char)code;
  } else if (code < 0x800) {
    *to++ = (char)(0xc0 | code >> 6);
    *to++ = (char)(0x80 | (code & 0x3f));
  } else if (code >= 0xd800 && code < 0xe000) {
    *to++ = '?';
  } else {
    *to++ = (char)(0xe0 | code >> 12);
    *to++ = (char)(0x80 | (code >> 6 & 0x3f));
    *to++ = (char)(0x80 | (code & 0x3f));
  }
  return to;
}

struct tg__str tg__member_text(struct tg__arena *a, struct tg__str value, bool *failed) {
  const struct tg__str raw = tg__json_unquoted(value);
  if (!raw.ptr || !raw.len) return TG_STR("");
  char *const text = tg__arena_get(a, raw.len), *to = text;
  *failed |= !text;
  if (!text) return TG_STR("");
  const char *p = raw.ptr, *const end = raw.ptr + raw.len;
  while (p < end) {
    if (*p != '\\' || p + 1 == end) {
      *to++ = *p++;
      continue;
    }
    const char kind = p[1];
    const int32_t code = kind == 'u' ? read_hex(p + 2, end) : -1;
    p += code >= 0 ? 6 : 2;
    if (code >= 0)
      to = put_utf8(to, code);
    else
      *to++ = kind == 'n' ? '\n' : kind == 't' ? '\t' : kind == 'r' ? '\r' : kind;
  }
  return (struct tg__str){text, (uint32_t)(to - text)};
}
