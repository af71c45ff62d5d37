/* Text on a terminal: how wide it is, what may be printed, and how it is cut to fit. */
#include "show/parts.h"

struct rune {
  unsigned bytes, width;
  bool shown; /* else U+FFFD is, in its place */
};

static bool is_wide(uint32_t c) {
  return (c >= 0x1100 && c <= 0x115f) || (c >= 0x2e80 && c <= 0xa4cf) || (c >= 0xac00 && c <= 0xd7a3) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0xfe30 && c <= 0xfe6f) || (c >= 0xff00 && c <= 0xff60) ||
         (c >= 0xffe0 && c <= 0xffe6) || (c >= 0x1f300 && c <= 0x1f64f) || (c >= 0x1f900 && c <= 0x1f9ff) ||
         (c >= 0x20000 && c <= 0x3fffd);
}

static bool is_combining(uint32_t c) {
  return (c >= 0x300 && c <= 0x36f) || c == 0x200c || c == 0x200d || (c >= 0x20d0 && c <= 0x20ff) ||
         (c >= 0xfe00 && c <= 0xfe0f);
}

/* The character at p. A character that may not be shown (control, not UTF-8) is one column wide. */
static struct rune rune_at(const char *p, size_t left) {
  const unsigned char *u = (const unsigned char *)p;
  const unsigned n = tg__utf8_length(u, left);
  if (!n || tg__utf8_is_unsafe(u, n)) return (struct rune){n ? n : 1, 1, false};
  if (n == 1) return (struct rune){1, 1, true};
  uint32_t c = u[0] & (0x7fu >> n);
  for (unsigned i = 1; i < n; i++) c = c << 6 | (u[i] & 0x3f);
  return (struct rune){n, is_combining(c) ? 0 : is_wide(c) ? 2 : 1, true};
}

unsigned tg__text_width(struct tg__str s) {
  unsigned w = 0;
  for (size_t i = 0; i < s.len;) {
    const struct rune r = rune_at(s.ptr + i, s.len - i);
    w += r.width;
    i += r.bytes;
  }
  return w;
}

/* Terminal escapes in a name must not reach the terminal. */
void tg__put_clean(struct tg__out *out, struct tg__str s) {
  for (size_t i = 0; i < s.len;) {
    const struct rune r = rune_at(s.ptr + i, s.len - i);
    if (r.shown)
      tg__out_bytes(out, s.ptr + i, r.bytes);
    else
      tg__out_text(out, "\xef\xbf\xbd");
    i += r.bytes;
  }
}

/* Byte position reached after at most `width` columns from the front. */
static size_t head_bytes(struct tg__str s, unsigned width) {
  size_t i = 0;
  for (unsigned w = 0; i < s.len;) {
    const struct rune r = rune_at(s.ptr + i, s.len - i);
    if (w + r.width > width) break;
    w += r.width;
    i += r.bytes;
  }
  return i;
}

static bool is_of_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Where the name of a C++ template begins that has a namespace or a type in front, and its length; 0: it is not one. */
static uint32_t template_name(struct tg__str s, uint32_t *len) {
  uint32_t end = 0;
  while (end < s.len && s.ptr[end] != '<') end++;
  uint32_t at = end;
  while (at > 0 && is_of_name(s.ptr[at - 1])) at--;
  *len = end - at;
  const bool is_qualified = at > 2 && s.ptr[at - 1] == ':' && s.ptr[at - 2] == ':';
  return end < s.len && *len && (is_qualified || (at > 1 && s.ptr[at - 1] == ' ')) ? at : 0;
}

/* At most `width` columns of a text that has more, without its middle. At least `kept` of its beginning stay. */
static unsigned put_ends(struct tg__out *out, struct tg__str s, unsigned width, unsigned kept) {
  enum { LEAST_TAIL = 4 };
  const unsigned full = tg__text_width(s), half = width - 1 - (width - 1) / 2;
  const unsigned most = width > 1 + LEAST_TAIL ? width - 1 - LEAST_TAIL : half;
  const unsigned head_width = kept > half && half < most ? (kept < most ? kept : most) : half;
  const unsigned tail_width = width - 1 - head_width;
  const size_t head = head_bytes(s, head_width);
  const struct tg__str front = {s.ptr, (uint32_t)head};
  unsigned rest = full - tg__text_width(front);
  size_t at = head;
  while (rest > tail_width && at < s.len) {
    const struct rune r = rune_at(s.ptr + at, s.len - at);
    rest -= r.width;
    at += r.bytes;
  }
  tg__put_clean(out, front);
  tg__out_text(out, "\xe2\x80\xa6");
  tg__put_clean(out, (struct tg__str){s.ptr + at, (uint32_t)(s.len - at)});
  return tg__text_width(front) + 1 + rest;
}

/* Names differ at both ends (namespace in front, shape or type behind), so the middle is cut; of a template its name
 * says most, so what stands in front of it goes first. */
unsigned tg__put_fitted(struct tg__out *out, struct tg__str s, unsigned width) {
  const unsigned full = tg__text_width(s);
  uint32_t len;
  if (full <= width) {
    tg__put_clean(out, s);
    return full;
  }
  const uint32_t at = template_name(s, &len);
  const struct tg__str name = {s.ptr + at, s.len - at};
  if (!at || width < len + 2) return put_ends(out, s, width, 0);
  tg__out_text(out, "\xe2\x80\xa6");
  if (tg__text_width(name) < width) {
    tg__put_clean(out, name);
    return 1 + tg__text_width(name);
  }
  return 1 + put_ends(out, name, width - 1, len);
}

void tg__put_blanks(struct tg__out *out, unsigned n) {
  while (n--) tg__out_char(out, ' ');
}

/* Bytes of the line that begins at s: as many words as fit, at least one. */
static size_t line_bytes(struct tg__str s, unsigned width) {
  if (tg__text_width(s) <= width) return s.len;
  const size_t most = head_bytes(s, width);
  size_t end = most;
  while (end > 0 && s.ptr[end] != ' ') end--;
  return end ? end : most ? most : s.len;
}

unsigned tg__put_wrapped(struct tg__out *out, struct tg__str s, unsigned indent, unsigned width, unsigned most_lines) {
  unsigned lines = 0;
  while (s.len && lines < most_lines) {
    const size_t n = line_bytes(s, width);
    if (lines) tg__put_blanks(out, indent);
    if (++lines == most_lines) {
      tg__put_fitted(out, s, width);
      s.len = 0;
    } else {
      tg__put_clean(out, (struct tg__str){s.ptr, (uint32_t)n});
      s.ptr += n;
      s.len -= (uint32_t)n;
      while (s.len && *s.ptr == ' ') s.ptr++, s.len--;
    }
    tg__out_char(out, '\n');
  }
  return lines;
}
