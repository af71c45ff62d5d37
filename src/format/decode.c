/* decode: bytes in, trusting none of them. Numbers, packed arrays. */
#include "format/format.h"

/* ---- cursor ---------------------------------------------------------------------------------- */

const uint8_t *tg__bytes_take(struct tg__bytes *b, size_t len) {
  if (b->broken || (size_t)(b->end - b->p) < len) {
    b->broken = true;
    return NULL;
  }
  const uint8_t *const p = b->p;
  b->p += len;
  return p;
}

uint8_t tg__bytes_take8(struct tg__bytes *b) {
  const uint8_t *const p = tg__bytes_take(b, 1);
  return p ? *p : 0;
}

uint16_t tg__bytes_take16(struct tg__bytes *b) {
  const uint8_t *const p = tg__bytes_take(b, 2);
  return p ? tg__get16(p) : 0;
}

uint32_t tg__bytes_take32(struct tg__bytes *b) {
  const uint8_t *const p = tg__bytes_take(b, 4);
  return p ? tg__get32(p) : 0;
}

uint64_t tg__bytes_take64(struct tg__bytes *b) {
  const uint8_t *const p = tg__bytes_take(b, 8);
  return p ? tg__get64(p) : 0;
}

/* ---- packed arrays --------------------------------------------------------------------------- */

static bool transform_is_known(unsigned t) {
  if (t & ~(TG_T_ROW | TG_T_DELTA | TG_T_OPTIONAL | TG_T_VARINT | TG_T_SHUFFLE)) return false;
  if ((t & TG_T_VARINT) && (t & TG_T_SHUFFLE)) return false;
  return !(t & TG_T_OPTIONAL) || (t & TG_T_VARINT);
}

bool tg__array_rows(const uint8_t *payload, uint64_t len, unsigned width, uint32_t *rows) {
  if (len < TG_PACKED_HEAD_BYTES || payload[4] != width || payload[6] > 1) return false;
  const uint64_t n = tg__get32(payload), tokens = tg__get32(payload + 8), body = len - TG_PACKED_HEAD_BYTES;
  const bool varint = payload[5] & TG_T_VARINT;
  if (n > TG_PACKED_MAX_ROWS || n * width > len * TG_PACKED_MAX_RATIO) return false;
  if (varint ? tokens < n || tokens > n * 10 : tokens != n * width) return false;
  if (payload[6] ? tokens > body * TG_PACKED_MAX_RATIO : tokens != body) return false;
  *rows = (uint32_t)n;
  return true;
}

/* One varint of at most `bits` bits. NULL when it is longer or the bytes end inside it. */
static inline const uint8_t *varint_take(const uint8_t *p, const uint8_t *end, unsigned bits, uint64_t *out) {
  uint64_t v = 0;
  for (unsigned shift = 0; p < end && shift < 64; shift += 7) {
    const uint64_t part = *p & 0x7f;
    v |= part << shift;
    if (shift == 63 && part > 1) return NULL;
    if (*p++ < 0x80) {
      *out = v;
      return bits == 64 || v >> bits == 0 ? p : NULL;
    }
  }
  return NULL;
}

/* The loops below exist once per width and are the same otherwise; `U` is the unsigned type of that width. */
#define LOOPS(U, BITS)                                                                                                 \
  static bool varints_##BITS(U *out, uint32_t rows, const uint8_t *p, const uint8_t *end) {                            \
    for (uint32_t i = 0; i < rows; i++) {                                                                              \
      uint64_t v;                                                                                                      \
      if (p < end && *p < 0x80) {                                                                                      \
        out[i] = *p++;                                                                                                 \
        continue;                                                                                                      \
      }                                                                                                                \
      p = varint_take(p, end, BITS, &v);                                                                               \
      if (!p) return false;                                                                                            \
      out[i] = (U)v;                                                                                                   \
    }                                                                                                                  \
    return p == end;                                                                                                   \
  }                                                                                                                    \
  static void planes_##BITS(U *out, uint32_t rows, const uint8_t *p, bool shuffled) {                                  \
    const size_t step = shuffled ? rows : 1, next = shuffled ? 1 : BITS / 8;                                           \
    for (uint32_t i = 0; i < rows; i++) {                                                                              \
      uint64_t v = 0;                                                                                                  \
      for (unsigned b = 0; b < BITS / 8; b++) v |= (uint64_t)p[i * next + b * step] << 8 * b;                          \
      out[i] = (U)v;                                                                                                   \
    }                                                                                                                  \
  }                                                                                                                    \
  static void values_##BITS(U *v, uint32_t rows, unsigned transform, uint32_t first_row) {                             \
    const bool optional = transform & TG_T_OPTIONAL, delta = transform & TG_T_DELTA, row = transform & TG_T_ROW;       \
    U before = 0;                                                                                                      \
    for (uint32_t i = 0; i < rows; i++) {                                                                              \
      U t = v[i];                                                                                                      \
      if (optional && t-- == 0) {                                                                                      \
        v[i] = (U) - 1;                                                                                                \
        continue;                                                                                                      \
      }                                                                                                                \
      if (delta) t = before = (U)(before + (U)((t >> 1) ^ (U)(0 - (t & 1))));                                          \
      v[i] = row ? (U)((U)(first_row + i) - t) : t;                                                                    \
    }                                                                                                                  \
  }                                                                                                                    \
  static bool unpack_##BITS(U *out, uint32_t rows, const uint8_t *p, size_t len, unsigned transform,                   \
                            uint32_t first_row) {                                                                      \
    if (transform & TG_T_VARINT) {                                                                                     \
      if (!varints_##BITS(out, rows, p, p + len)) return false;                                                        \
    } else {                                                                                                           \
      planes_##BITS(out, rows, p, transform &TG_T_SHUFFLE);                                                            \
    }                                                                                                                  \
    if (transform & (TG_T_OPTIONAL | TG_T_DELTA | TG_T_ROW)) values_##BITS(out, rows, transform, first_row);           \
    return true;                                                                                                       \
  }
LOOPS(uint8_t, 8)
LOOPS(uint16_t, 16)
LOOPS(uint32_t, 32)
LOOPS(uint64_t, 64)
#undef LOOPS

static bool tokens_take(void *values, uint32_t rows, unsigned width, const uint8_t *p, size_t len, unsigned transform,
                        uint32_t first_row) {
  switch (width) {
  case 1:
    return unpack_8(values, rows, p, len, transform, first_row);
  case 2:
    return unpack_16(values, rows, p, len, transform, first_row);
  case 4:
    return unpack_32(values, rows, p, len, transform, first_row);
  case 8:
    return unpack_64(values, rows, p, len, transform, first_row);
  default:
    return false;
  }
}

enum tg_err tg__array_unpack(const uint8_t *payload, uint64_t len, void *values, uint32_t rows, unsigned width,
                             uint32_t first_row, uint8_t *scratch) {
  uint32_t said;
  if (!tg__array_rows(payload, len, width, &said) || said != rows) return TG_DAMAGED;
  const unsigned transform = payload[5];
  if (!transform_is_known(transform)) return TG_UNSUPPORTED; /* of a later minor version */
  const size_t tokens = tg__get32(payload + 8);
  const uint8_t *body = payload + TG_PACKED_HEAD_BYTES;
  if (rows == 0) return TG_OK;
  if (payload[6]) {
    const bool bytes_as_they_are = width == 1 && (transform & ~(unsigned)TG_T_SHUFFLE) == 0;
    void *const to = bytes_as_they_are ? values : scratch;
    const enum tg_err err = tg__zstd_unpack(body, (size_t)(len - TG_PACKED_HEAD_BYTES), to, tokens);
    if (err || bytes_as_they_are) return err;
    body = scratch;
  }
  return tokens_take(values, rows, width, body, tokens, transform, first_row) ? TG_OK : TG_DAMAGED;
}
