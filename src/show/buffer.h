/* show, private: direct writes into the buffer of an output. The exports write tens of millions of short pieces: one
 * check for room per piece and no call per character keeps them at memory speed. */
#ifndef TG_SHOW_BUFFER_H
#define TG_SHOW_BUFFER_H

#include "base/base.h"

enum { TG__BUFFER_BYTES = 1 << 15, TG__NUMBER_BYTES = 32 /* no number is longer */ };

struct tg__buffer {
  struct tg__out *out;
  char *start, *p, *end; /* NULL after an error: then nothing has room */
};

static inline void tg__buffer_commit(struct tg__buffer *buffer) { /* hand over what is written */
  if (buffer->p) tg__out_commit(buffer->out, (size_t)(buffer->p - buffer->start));
  buffer->start = buffer->p = buffer->end = NULL;
}

/* Room for `need` bytes at buffer->p; false when the output has failed. */
static inline bool tg__buffer_room(struct tg__buffer *buffer, size_t need) {
  if (TG_LIKELY((size_t)(buffer->end - buffer->p) >= need && buffer->p)) return true;
  tg__buffer_commit(buffer);
  const size_t room = need > TG__BUFFER_BYTES ? need : TG__BUFFER_BYTES;
  buffer->start = buffer->p = tg__out_reserve(buffer->out, room);
  buffer->end = buffer->p ? buffer->p + room : NULL;
  return buffer->p != NULL;
}

/* The writers below need room that has been asked for. */
static inline char *tg__buffer_copy(char *p, const char *text, size_t len) {
  memcpy(p, text, len);
  return p + len;
}
#define TG__BUFFER_LITERAL(p, literal) tg__buffer_copy(p, literal, sizeof(literal) - 1)

static inline char *tg__buffer_uint(char *p, uint64_t v) {
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
  return tg__buffer_copy(p, d, (size_t)(digits + sizeof digits - d));
}

static inline char *tg__buffer_int(char *p, int64_t v) {
  if (v >= 0) return tg__buffer_uint(p, (uint64_t)v);
  *p++ = '-';
  return tg__buffer_uint(p, 0 - (uint64_t)v);
}

/* v × 10^-decimals with all its decimals; decimals ≤ 19. */
static inline char *tg__buffer_decimal(char *p, int64_t v, unsigned decimals) {
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
  p = tg__buffer_uint(p, u / powers[decimals]);
  if (!decimals) return p;
  *p = '.';
  uint64_t rest = u % powers[decimals];
  for (unsigned i = decimals; i; i--, rest /= 10) p[i] = (char)('0' + rest % 10);
  return p + 1 + decimals;
}

/* Nanoseconds as exact decimal microseconds, three decimals always. */
static inline char *tg__buffer_us_fixed(char *p, int64_t ns) {
  uint64_t u = (uint64_t)ns;
  if (ns < 0) {
    *p++ = '-';
    u = 0 - u;
  }
  p = tg__buffer_uint(p, u / 1000);
  const unsigned rest = (unsigned)(u % 1000);
  *p++ = '.';
  *p++ = (char)('0' + rest / 100);
  *p++ = (char)('0' + rest / 10 % 10);
  *p++ = (char)('0' + rest % 10);
  return p;
}

/* The same without trailing zeros. */
static inline char *tg__buffer_us(char *p, int64_t ns) {
  p = tg__buffer_us_fixed(p, ns);
  while (p[-1] == '0') p--;
  return p[-1] == '.' ? p - 1 : p;
}

#endif
