/* encode: bytes out. Numbers, packed arrays. */
#include "format/format.h"

void tg__out_put8(struct tg__out *o, uint8_t v) { tg__out_bytes(o, &v, 1); }

void tg__out_put16(struct tg__out *o, uint16_t v) {
  uint8_t b[2];
  tg__set16(b, v);
  tg__out_bytes(o, b, sizeof b);
}

void tg__out_put32(struct tg__out *o, uint32_t v) {
  uint8_t b[4];
  tg__set32(b, v);
  tg__out_bytes(o, b, sizeof b);
}

void tg__out_put64(struct tg__out *o, uint64_t v) {
  uint8_t b[8];
  tg__set64(b, v);
  tg__out_bytes(o, b, sizeof b);
}

/* ---- packed arrays --------------------------------------------------------------------------- */

/*  0      4       5           6         7   8               12   16
 *  | rows | width | transform | packing | 0 | token bytes   | 0  | tokens, under zstd when packing is 1 */
enum { LONGEST_VARINT = 10 };

size_t tg__array_room(uint32_t rows, unsigned width) {
  return TG_PACKED_HEAD_BYTES + (size_t)rows * (width == 1 ? 2 : width == 2 ? 3 : width == 4 ? 5 : LONGEST_VARINT) + 64;
}

static uint64_t value_get(const void *values, uint32_t i, unsigned width) {
  switch (width) {
  case 1:
    return ((const uint8_t *)values)[i];
  case 2:
    return ((const uint16_t *)values)[i];
  case 4:
    return ((const uint32_t *)values)[i];
  default:
    return ((const uint64_t *)values)[i];
  }
}

/* Difference of two values of `width` bytes, zigzag-coded within that width. */
static uint64_t zigzag_delta(uint64_t difference, unsigned width) {
  const unsigned spare = 64 - 8 * width;
  const int64_t d = (int64_t)(difference << spare) >> spare;
  return (((uint64_t)d << 1) ^ (uint64_t)(d >> 63)) & (UINT64_MAX >> spare);
}

static uint8_t *varint_put(uint8_t *p, uint64_t v) {
  for (; v >= 0x80; v >>= 7) *p++ = (uint8_t)(v | 0x80);
  *p++ = (uint8_t)v;
  return p;
}

/* Write the tokens of all values; their length. 0 when a token would not fit its width (only possible with
 * OPTIONAL). */
static size_t tokens_put(const void *values, uint32_t rows, struct tg__packing_plan plan, uint8_t *out) {
  const uint64_t mask = UINT64_MAX >> (64 - 8 * plan.width);
  uint8_t *p = out;
  uint64_t before = 0;
  for (uint32_t i = 0; i < rows; i++) {
    const uint64_t v = value_get(values, i, plan.width);
    uint64_t token = v;
    if ((plan.transform & TG_T_OPTIONAL) && v == mask) {
      token = 0;
    } else {
      if (plan.transform & TG_T_ROW) token = ((uint64_t)plan.first_row + i - v) & mask;
      if (plan.transform & TG_T_DELTA) {
        const uint64_t here = token;
        token = zigzag_delta(here - before, plan.width);
        before = here;
      }
      if (plan.transform & TG_T_OPTIONAL) {
        if (token == mask) return 0;
        token++;
      }
    }
    if (plan.transform & TG_T_VARINT) {
      p = varint_put(p, token);
    } else if (plan.transform & TG_T_SHUFFLE) {
      for (unsigned b = 0; b < plan.width; b++) out[(size_t)b * rows + i] = (uint8_t)(token >> 8 * b);
    } else {
      for (unsigned b = 0; b < plan.width; b++) *p++ = (uint8_t)(token >> 8 * b);
    }
  }
  return (plan.transform & TG_T_SHUFFLE) ? (size_t)rows * plan.width : (size_t)(p - out);
}

size_t tg__array_pack(const void *values, uint32_t rows, struct tg__packing_plan plan, uint8_t *scratch, uint8_t *out) {
  size_t tokens = tokens_put(values, rows, plan, scratch);
  if (tokens == 0 && rows) { /* a token too large for its width: such values do not compress anyway */
    plan.transform = 0;
    tokens = tokens_put(values, rows, plan, scratch);
  }
  uint8_t *const body = out + TG_PACKED_HEAD_BYTES;
  size_t packed = tokens > 32 ? tg__zstd_pack(scratch, tokens, body, tokens - 1) : 0;
  tg__set32(out, rows);
  out[4] = plan.width;
  out[5] = plan.transform;
  out[6] = packed != 0;
  out[7] = 0;
  tg__set32(out + 8, (uint32_t)tokens);
  tg__set32(out + 12, 0);
  if (packed == 0) {
    memcpy(body, scratch, tokens);
    packed = tokens;
  }
  return TG_PACKED_HEAD_BYTES + packed;
}
