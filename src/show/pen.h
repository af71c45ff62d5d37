/* show, private: writing by hand into an output's buffer. The exports write tens of millions of short pieces; asking
 * for room once per piece and no call per character is what makes them run at the speed of memory. */
#ifndef TG_SHOW_PEN_H
#define TG_SHOW_PEN_H

#include "base/base.h"

enum { TG__PEN_ROOM = 1 << 15, TG__PEN_NUMBER = 32 /* no number is longer */ };

struct tg__pen {
  struct tg__out *out;
  char *start, *p, *end; /* NULL after an error: then nothing has room */
};

static inline void tg__pen_lift(struct tg__pen *pen) { /* hand over what is written */
  if (pen->p) tg__out_commit(pen->out, (size_t)(pen->p - pen->start));
  pen->start = pen->p = pen->end = NULL;
}

/* Room for `need` bytes at pen->p; false when the output has failed. */
static inline bool tg__pen_room(struct tg__pen *pen, size_t need) {
  if (TG_LIKELY((size_t)(pen->end - pen->p) >= need && pen->p)) return true;
  tg__pen_lift(pen);
  const size_t room = need > TG__PEN_ROOM ? need : TG__PEN_ROOM;
  pen->start = pen->p = tg__out_reserve(pen->out, room);
  pen->end = pen->p ? pen->p + room : NULL;
  return pen->p != NULL;
}

/* The writers below need room that has been asked for. */
static inline char *tg__pen_copy(char *p, const char *text, size_t len) {
  memcpy(p, text, len);
  return p + len;
}
#define TG__PEN_LITERAL(p, literal) tg__pen_copy(p, literal, sizeof(literal) - 1)

static inline char *tg__pen_uint(char *p, uint64_t v) {
  static const char pairs[] =
      "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051"
      "525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";
  char digits[20], *d = digits + sizeof digits;
  while (v >= 100) {
    d -= 2;
    memcpy(d, pairs + v % 100 * 2, 2);
    v /= 100;
  }
  if (v >= 10) {
    d -= 2;
    memcpy(d, pairs + v * 2, 2);
  } else {
    *--d = (char)('0' + v);
  }
  return tg__pen_copy(p, d, (size_t)(digits + sizeof digits - d));
}

static inline char *tg__pen_int(char *p, int64_t v) {
  if (v >= 0) return tg__pen_uint(p, (uint64_t)v);
  *p++ = '-';
  return tg__pen_uint(p, 0 - (uint64_t)v);
}

/* v × 10^-decimals with all its decimals; decimals ≤ 19. */
static inline char *tg__pen_decimal(char *p, int64_t v, unsigned decimals) {
  static const uint64_t powers[] = {1,
                                    10,
                                    100,
                                    1000,
                                    10000,
                                    100000,
                                    1000000,
                                    10000000,
                                    100000000,
                                    1000000000,
                                    10000000000,
                                    100000000000,
                                    1000000000000,
                                    10000000000000,
                                    100000000000000,
                                    1000000000000000,
                                    10000000000000000,
                                    100000000000000000,
                                    1000000000000000000,
                                    10000000000000000000u};
  uint64_t u = (uint64_t)v;
  if (v < 0) {
    *p++ = '-';
    u = 0 - u;
  }
  if (decimals > 19) decimals = 19;
  p = tg__pen_uint(p, u / powers[decimals]);
  if (!decimals) return p;
  *p = '.';
  uint64_t rest = u % powers[decimals];
  for (unsigned i = decimals; i; i--, rest /= 10) p[i] = (char)('0' + rest % 10);
  return p + 1 + decimals;
}

/* Nanoseconds as exact decimal microseconds, three decimals always. */
static inline char *tg__pen_us_fixed(char *p, int64_t ns) {
  uint64_t u = (uint64_t)ns;
  if (ns < 0) {
    *p++ = '-';
    u = 0 - u;
  }
  p = tg__pen_uint(p, u / 1000);
  const unsigned rest = (unsigned)(u % 1000);
  *p++ = '.';
  *p++ = (char)('0' + rest / 100);
  *p++ = (char)('0' + rest / 10 % 10);
  *p++ = (char)('0' + rest % 10);
  return p;
}

/* The same without trailing zeros. */
static inline char *tg__pen_us(char *p, int64_t ns) {
  p = tg__pen_us_fixed(p, ns);
  while (p[-1] == '0') p--;
  return p[-1] == '.' ? p - 1 : p;
}

#endif
