/* show, private: the four wire forms of protobuf, written by hand. */
#ifndef TG_SHOW_PROTO_H
#define TG_SHOW_PROTO_H

#include "base/base.h"

static inline char *tg__proto_varint_at(char *p, uint64_t v) {
  for (; v >= 0x80; v >>= 7) *p++ = (char)(v | 0x80);
  *p++ = (char)v;
  return p;
}

/* Field with a varint value; int64 values go in as their two's complement. */
static inline void tg__proto_uint(struct tg__out *o, unsigned field, uint64_t v) {
  char *const start = tg__out_reserve(o, 16);
  if (start)
    tg__out_commit(o, (size_t)(tg__proto_varint_at(tg__proto_varint_at(start, (uint64_t)field << 3), v) - start));
}

static inline void tg__proto_fixed64(struct tg__out *o, unsigned field, uint64_t v) {
  char *const start = tg__out_reserve(o, 16);
  if (!start) return;
  char *p = tg__proto_varint_at(start, (uint64_t)field << 3 | 1);
  for (int i = 0; i < 8; i++) *p++ = (char)(v >> 8 * i);
  tg__out_commit(o, (size_t)(p - start));
}

static inline void tg__proto_double(struct tg__out *o, unsigned field, double v) {
  uint64_t bits;
  memcpy(&bits, &v, sizeof bits);
  tg__proto_fixed64(o, field, bits);
}

static inline void tg__proto_bytes(struct tg__out *o, unsigned field, const void *bytes, size_t len) {
  char *const start = tg__out_reserve(o, 16);
  if (start)
    tg__out_commit(o, (size_t)(tg__proto_varint_at(tg__proto_varint_at(start, (uint64_t)field << 3 | 2), len) - start));
  tg__out_bytes(o, bytes, len);
}

/* A message built in another buffer, which is emptied for the next. */
static inline void tg__proto_message(struct tg__out *o, unsigned field, struct tg__out *message) {
  if (message->err && !o->err) o->err = message->err;
  tg__proto_bytes(o, field, message->buf, message->len);
  message->len = 0;
}

#endif
