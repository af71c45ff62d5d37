/* Numbers for people: three digits that matter and a unit; counts in groups of three. Integers all the way. And
 * words for a shell. */
#include <stdio.h>

#include "show/show.h"

enum { HUMAN_BYTES = 32 };

struct unit {
  const char *name;
  uint64_t size;
};

/* v in units of `size`, rounded to `decimals` (1, 10 or 100 parts of a unit). */
static uint64_t in_parts(uint64_t v, uint64_t size, uint64_t decimals) {
  const uint64_t step = size / decimals;
  return v / step + (v % step >= step - step / 2);
}

/* Three significant digits; one decimal fewer when rounding adds a digit, so 9.996 is 10.0. */
static char *three_digits(bool negative, uint64_t v, const struct unit *u, char *buf) {
  const char *sign = negative ? "-" : "";
  uint64_t decimals = u->size == 1 ? 1 : 100;
  while (decimals > 1 && in_parts(v, u->size, decimals) >= 1000) decimals /= 10;
  const unsigned long long parts = in_parts(v, u->size, decimals), whole = parts / decimals, rest = parts % decimals;
  if (decimals == 1)
    snprintf(buf, HUMAN_BYTES, "%s%llu %s", sign, whole, u->name);
  else
    snprintf(buf, HUMAN_BYTES, "%s%llu.%0*llu %s", sign, whole, decimals == 100 ? 2 : 1, rest, u->name);
  return buf;
}

static char *with_unit(int64_t value, const struct unit *units, size_t count, char *buf) {
  if (value == TG_NULL_INT) {
    snprintf(buf, HUMAN_BYTES, "-");
    return buf;
  }
  const bool negative = value < 0;
  const uint64_t v = negative ? (uint64_t)-value : (uint64_t)value;
  size_t i = 0;
  /* 999.5 of a unit would be shown as 1000: that is one of the next */
  while (i + 1 < count && v >= units[i + 1].size - (i ? units[i].size / 2 : 0)) i++;
  return three_digits(negative, v, &units[i], buf);
}

char *tg__human_ns(int64_t ns, char *buf) {
  static const struct unit units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
  return with_unit(ns, units, sizeof units / sizeof *units, buf);
}

char *tg__human_bytes(int64_t bytes, char *buf) {
  static const struct unit units[] = {
      {"B", 1}, {"kB", 1000}, {"MB", 1000000}, {"GB", 1000000000}, {"TB", 1000000000000}};
  return with_unit(bytes, units, sizeof units / sizeof *units, buf);
}

char *tg__human_count(int64_t n, char *buf) {
  if (n == TG_NULL_INT) {
    snprintf(buf, HUMAN_BYTES, "-");
    return buf;
  }
  char digits[HUMAN_BYTES];
  const uint64_t v = n < 0 ? (uint64_t)-n : (uint64_t)n;
  const int len = snprintf(digits, sizeof digits, "%llu", (unsigned long long)v);
  char *p = buf;
  if (n < 0) *p++ = '-';
  for (int i = 0; i < len; i++) {
    if (i && (len - i) % 3 == 0) *p++ = ' ';
    *p++ = digits[i];
  }
  *p = 0;
  return buf;
}

static bool needs_quotes(struct tg__str text) {
  for (uint32_t i = 0; i < text.len; i++) {
    const char c = text.ptr[i];
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("/._-+,=@%", c));
    if (!plain) return true;
  }
  return text.len == 0;
}

char *tg__shell_word(struct tg__str text, char *buf, size_t size) {
  static const char quote_in_quotes[] = "'\\''";
  enum {
    AT_THE_END = 2,
    OF_ONE = sizeof quote_in_quotes - 1
  }; /* the closing quote and the NUL; what one character takes at most */
  size_t n = 0;
  const bool quoted = needs_quotes(text);
  if (quoted) buf[n++] = '\'';
  if (text.len > 1 && text.ptr[0] == '-') buf[n++] = '.', buf[n++] = '/';
  for (uint32_t i = 0; i < text.len && n + OF_ONE + AT_THE_END <= size; i++) {
    if (text.ptr[i] != '\'') {
      buf[n++] = text.ptr[i];
      continue;
    }
    memcpy(buf + n, quote_in_quotes, OF_ONE);
    n += OF_ONE;
  }
  if (quoted) buf[n++] = '\'';
  buf[n] = 0;
  return buf;
}
