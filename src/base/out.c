/* Output: a byte sink with a buffer in front, and numbers as text. */
#include "base/base.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { BUFFER = 256 << 10 }; /* one write call per 256 KiB: large enough that the call no longer shows */

static bool send(struct tg__out *o, const char *bytes, size_t len) {
  if (!len || (*o->write)(o->ctx, bytes, len)) return true;
  o->err = TG_IO;
  return false;
}

/* Make room for len more bytes in buf; false with err set. */
static bool make_room(struct tg__out *o, size_t len) {
  if (o->err) return false;
  if (o->write && o->len) {
    if (!send(o, o->buf, o->len)) return false;
    o->len = 0;
  }
  if (o->cap - o->len >= len) return true;
  size_t want = o->len + len;
  if (want < len) want = SIZE_MAX;
  if (o->write && want < BUFFER) want = BUFFER;
  void *buf = o->buf;
  if (!tg__grow(&buf, &o->cap, want, 1)) {
    o->err = TG_MEMORY;
    return false;
  }
  o->buf = buf;
  return true;
}

void tg__out_bytes(struct tg__out *o, const void *bytes, size_t len) {
  if (TG_UNLIKELY(o->cap - o->len < len)) {
    if (o->write && len >= BUFFER) { /* no use in copying it first */
      if (make_room(o, 0)) send(o, bytes, len);
      return;
    }
    if (!make_room(o, len)) return;
  }
  if (TG_UNLIKELY(o->err) || !len) return;
  memcpy(o->buf + o->len, bytes, len);
  o->len += len;
}

void tg__out_text(struct tg__out *o, const char *text) { tg__out_bytes(o, text, strlen(text)); }
void tg__out_char(struct tg__out *o, char c) { tg__out_bytes(o, &c, 1); }

char *tg__out_reserve(struct tg__out *o, size_t len) {
  if (TG_UNLIKELY(o->cap - o->len < len) && !make_room(o, len)) return NULL;
  return o->err ? NULL : o->buf + o->len;
}

void tg__out_commit(struct tg__out *o, size_t len) { o->len += len; }

void tg__out_format(struct tg__out *o, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  char small[256];
  const int len = vsnprintf(small, sizeof small, format, args);
  va_end(args);
  if (len > 0 && (size_t)len < sizeof small) {
    tg__out_bytes(o, small, (size_t)len);
  } else if (len > 0) {
    char *p = tg__out_reserve(o, (size_t)len + 1); /* the NUL needs a place too */
    if (p) {
      vsnprintf(p, (size_t)len + 1, format, again);
      tg__out_commit(o, (size_t)len);
    }
  }
  va_end(again);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static const char two_digits[] =
    "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354"
    "555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

/* Write v so that it ends before `end`; returns where it starts. At most 20 digits. */
static char *digits_before(char *end, uint64_t v) {
  while (v >= 100) {
    const unsigned rest = (unsigned)(v % 100);
    v /= 100;
    end -= 2;
    memcpy(end, two_digits + rest * 2, 2);
  }
  if (v >= 10) {
    end -= 2;
    memcpy(end, two_digits + v * 2, 2);
  } else {
    *--end = (char)('0' + v);
  }
  return end;
}

static uint64_t magnitude(int64_t v) { return v < 0 ? 0 - (uint64_t)v : (uint64_t)v; }

void tg__out_uint(struct tg__out *o, uint64_t v) {
  char text[24], *end = text + sizeof text, *start = digits_before(end, v);
  tg__out_bytes(o, start, (size_t)(end - start));
}

void tg__out_int(struct tg__out *o, int64_t v) {
  char text[24], *end = text + sizeof text, *start = digits_before(end, magnitude(v));
  if (v < 0) *--start = '-';
  tg__out_bytes(o, start, (size_t)(end - start));
}

void tg__out_double(struct tg__out *o, double v) {
  if (!isfinite(v)) {
    tg__out_bytes(o, "null", 4);
    return;
  }
  if (v == floor(v) && fabs(v) < 1e15 && !(v == 0 && signbit(v))) {
    tg__out_int(o, (int64_t)v);
    return;
  }
  char text[40];
  int len = 0;
  /* 15 digits always survive, 17 always suffice; below the normal range fewer digits may be enough. */
  for (int digits = fabs(v) < DBL_MIN ? 1 : 15; digits <= 17; digits++) {
    len = snprintf(text, sizeof text, "%.*g", digits, v);
    if (strtod(text, NULL) == v) break;
  }
  for (int i = 0; i < len; i++) { /* the program around us may have set a locale with another decimal sign */
    if (text[i] == ',') text[i] = '.';
  }
  tg__out_bytes(o, text, (size_t)len);
}

/* ---- the end --------------------------------------------------------------------------------- */

enum tg_err tg__out_flush(struct tg__out *o) {
  if (!o->err && o->write && send(o, o->buf, o->len)) o->len = 0;
  return o->err;
}

void tg__out_free(struct tg__out *o) {
  tg__free(o->buf);
  o->buf = NULL;
  o->len = o->cap = 0;
}
