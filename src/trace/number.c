/* number: the slow, exact way from any spelling of a time in microseconds to nanoseconds. */
#include "trace/import.h"

/* Digits of a decimal number without its point, and where the point stands. 64 significant digits are more than
 * int64 has room for; later ones only matter for whether the rest is zero. */
struct decimal {
  char digit[64];
  int count, point; /* value = 0.d1 d2 … × 10^point */
  bool more;        /* a non-zero digit was left out */
  bool negative;
};

static void add_digit(struct decimal *d, char c) {
  if (d->count == 0 && c == '0') {
    d->point--;
    return;
  }
  if (d->count < (int)sizeof d->digit)
    d->digit[d->count++] = c;
  else if (c != '0')
    d->more = true;
}

static const char *read_fraction(const char *p, const char *end, struct decimal *d) {
  for (; p < end && *p >= '0' && *p <= '9'; p++) add_digit(d, *p);
  return p;
}

/* digits[.digits][e±digits], all of text. Kineto prints a negative time as two signed halves, -1.-500: the second
 * sign is skipped. */
static bool read_decimal(const char *p, const char *end, struct decimal *d) {
  *d = (struct decimal){0};
  if (p < end && (*p == '-' || *p == '+')) d->negative = *p++ == '-';
  const char *from = p;
  for (; p < end && *p >= '0' && *p <= '9'; p++) {
    d->point++;
    add_digit(d, *p);
  }
  bool any = p > from;
  if (p < end && *p == '.') {
    p++;
    if (p < end && *p == '-') d->negative = true, p++;
    from = p;
    p = read_fraction(p, end, d);
    any |= p > from;
  }
  if (any && p < end && (*p | 0x20) == 'e') {
    p++;
    bool down = false;
    if (p < end && (*p == '-' || *p == '+')) down = *p++ == '-';
    int exponent = 0;
    from = p;
    for (; p < end && *p >= '0' && *p <= '9'; p++)
      if (exponent < 100000) exponent = exponent * 10 + (*p - '0');
    any = p > from;
    d->point += down ? -exponent : exponent;
  }
  return any && p == end;
}

/* Does the part behind the point say "up"? Half goes to the even neighbour. */
static bool rounds_up(const struct decimal *d, int integer_digits, bool last_bit_set) {
  if (integer_digits < 0 || integer_digits >= d->count) return false;
  const char next = d->digit[integer_digits];
  if (next != '5') return next > '5';
  for (int i = integer_digits + 1; i < d->count; i++)
    if (d->digit[i] != '0') return true;
  return d->more || last_bit_set;
}

bool tg__parse_time_slow(const char *text, size_t len, int64_t *ns, bool *rounded) {
  struct decimal d;
  if (!read_decimal(text, text + len, &d)) return false;
  const int whole = d.point + 3; /* digits of the nanosecond count */
  uint64_t v = 0;
  if (d.count > 0) {
    if (whole > 19) return false;
    for (int i = 0; i < whole; i++) {
      const unsigned digit = i < d.count ? (unsigned)(d.digit[i] - '0') : 0;
      if (v > ((uint64_t)INT64_MAX - digit) / 10) return false;
      v = v * 10 + digit;
    }
    for (int i = whole < 0 ? 0 : whole; i < d.count; i++) *rounded |= d.digit[i] != '0';
    *rounded |= d.more;
    if (rounds_up(&d, whole, v & 1)) v++;
    if (v > INT64_MAX) return false;
  }
  *ns = d.negative ? -(int64_t)v : (int64_t)v;
  return true;
}
