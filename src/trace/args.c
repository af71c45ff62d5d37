/* args: packing the members of an event that have no column, and getting them back.
 *
 *   entry   schema id (3 bytes, little endian)  then one value per field of the schema, in order:
 *           INT  zigzag varint        DEC  one byte of decimals, zigzag varint of the digits
 *           STR, RAW  varint string id        TRUE, FALSE, NULL  nothing
 *   An entry begins at a multiple of 4 bytes, so that a 32-bit reference reaches 16 GiB of packed args. */
#include "format/format.h"
#include "trace/import.h"

enum { MAX_SCHEMAS = 1 << 24, MAX_VAL_BYTES = 11 };

static inline uint64_t zigzag(int64_t v) { return (uint64_t)v << 1 ^ (uint64_t)(v >> 63); }
static inline int64_t unzigzag(uint64_t v) { return (int64_t)(v >> 1) ^ -(int64_t)(v & 1); }

static inline uint8_t *put_varint(uint8_t *o, uint64_t v) {
  while (v >= 0x80) *o++ = (uint8_t)(v | 0x80), v >>= 7;
  *o++ = (uint8_t)v;
  return o;
}

static inline const uint8_t *get_varint(const uint8_t *p, const uint8_t *end, uint64_t *v) {
  uint64_t x = 0;
  for (unsigned shift = 0; p < end && shift < 64; shift += 7) {
    x |= (uint64_t)(*p & 0x7f) << shift;
    if (!(*p++ & 0x80)) break;
  }
  *v = x;
  return p;
}

uint32_t tg__pack_args(struct tg__parser *ps, uint32_t schema, const struct tg__packed_val *vals, size_t count) {
  const size_t most = 8 + count * MAX_VAL_BYTES;
  if (TG_UNLIKELY(ps->pool_len + most > ps->pool_cap &&
                  !tg__grow((void **)&ps->pool, &ps->pool_cap, ps->pool_len + most, 1)) ||
      schema >= MAX_SCHEMAS) {
    ps->no_memory = true;
    return TG_NONE;
  }
  uint8_t *o = ps->pool + ps->pool_len;
  const uint32_t reference = (uint32_t)(ps->pool_len / 4);
  *o++ = (uint8_t)schema, *o++ = (uint8_t)(schema >> 8), *o++ = (uint8_t)(schema >> 16);
  for (size_t i = 0; i < count; i++) switch (vals[i].kind) {
    case TG__KIND_INT:
      o = put_varint(o, zigzag(vals[i].i));
      break;
    case TG__KIND_DEC:
      *o++ = vals[i].decimals;
      o = put_varint(o, zigzag(vals[i].i));
      break;
    case TG__KIND_STR:
    case TG__KIND_RAW:
      o = put_varint(o, (uint64_t)vals[i].i);
      break;
    default:
      break;
    }
  size_t len = (size_t)(o - ps->pool);
  while (len % 4) ps->pool[len++] = 0;
  ps->pool_len = len;
  return reference;
}

void tg__args_begin(const struct tg__columns *t, uint32_t args, struct tg__args_iter *it) {
  *it = (struct tg__args_iter){.t = t};
  const uint64_t at = (uint64_t)args * 4;
  if (args == TG_NONE || !t->args || at + 4 > t->args_bytes) return;
  const uint8_t *p = t->args + at;
  const uint32_t schema = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
  if (schema >= t->schema_count) return;
  it->schema = &t->schemas[schema];
  it->p = p + 3;
  it->end = t->args + t->args_bytes;
}

static inline uint32_t string_of(const struct tg__columns *t, uint64_t v) {
  if (TG_UNLIKELY(t->args_strings)) return v < t->args_string_count ? t->args_strings[v] : (uint32_t)TG__K_EMPTY;
  return v < tg__strings_count(t->strings) ? (uint32_t)v : (uint32_t)TG__K_EMPTY;
}

bool tg__args_next(struct tg__args_iter *it) {
  if (!it->schema || it->i >= it->schema->count) return false;
  it->field = &it->schema->fields[it->i++];
  uint64_t v = 0;
  it->val = (struct tg__val){.kind = (enum tg__kind)it->field->kind, .str = TG_NONE};
  switch (it->val.kind) {
  case TG__KIND_DEC:
    it->val.decimals = it->p < it->end ? *it->p++ : 0; /* fall through */
  case TG__KIND_INT:
    it->p = get_varint(it->p, it->end, &v);
    it->val.i = unzigzag(v);
    break;
  case TG__KIND_STR:
  case TG__KIND_RAW:
    it->p = get_varint(it->p, it->end, &v);
    it->val.str = string_of(it->t, v);
    break;
  default:
    break;
  }
  return true;
}

/* Past `count` varints. Eight bytes at a time: how long each is would be guessed wrong too often. */
static const uint8_t *skip_varints(const uint8_t *p, const uint8_t *end, unsigned count) {
  while (count && end - p >= 8) {
    uint64_t lasts = ~tg__get64(p) & 0x8080808080808080u; /* a mark on the last byte of each */
    for (; count > 1 && lasts; count--) lasts &= lasts - 1;
    if (lasts) return p + (__builtin_ctzll(lasts) >> 3) + 1;
    p += 8;
  }
  for (; count; count--)
    while (p < end && *p++ & 0x80) {}
  return p;
}

void tg__args_skip(struct tg__args_iter *it, uint16_t count) {
  const uint8_t *p = it->p;
  unsigned varints = 0;
  for (; count > 0 && it->i < it->schema->count; count--) {
    const uint8_t kind = it->schema->fields[it->i++].kind;
    if (kind > TG__KIND_RAW) continue;
    if (kind == TG__KIND_DEC) {
      p = skip_varints(p, it->end, varints);
      p += p < it->end; /* how many decimals */
      varints = 0;
    }
    varints++;
  }
  it->p = skip_varints(p, it->end, varints);
}

/* Where the schema has the key; its count: nowhere. Most events lack most keys. */
static uint16_t place_of(const struct tg__schema *schema, uint32_t key, bool top) {
  uint16_t at = 0;
  while (at < schema->count && (schema->fields[at].key != key || schema->fields[at].top != top)) at++;
  return at;
}

bool tg__arg(const struct tg__columns *t, uint32_t args, uint32_t key, bool top, struct tg__val *out) {
  struct tg__args_iter it;
  tg__args_begin(t, args, &it);
  if (!it.schema) return false;
  const uint16_t at = place_of(it.schema, key, top);
  if (at == it.schema->count) return false;
  tg__args_skip(&it, at);
  tg__args_next(&it);
  *out = it.val;
  return true;
}

static int64_t int_of(const struct tg__columns *t, const struct tg__val *v, int64_t fallback) {
  switch (v->kind) {
  case TG__KIND_INT:
    return v->i;
  case TG__KIND_DEC: {
    int64_t i = v->i;
    for (unsigned d = v->decimals; d > 0; d--) {
      if (i % 10) return fallback;
      i /= 10;
    }
    return i;
  }
  case TG__KIND_STR:
  case TG__KIND_RAW: {
    int64_t i;
    return tg__str_to_int(tg__name(t, v->str), &i) ? i : fallback;
  }
  default:
    return fallback;
  }
}

int64_t tg__arg_int(const struct tg__columns *t, uint32_t args, uint32_t key, int64_t fallback) {
  struct tg__val v;
  return tg__arg(t, args, key, false, &v) ? int_of(t, &v, fallback) : fallback;
}

void tg__arg_ints(const struct tg__columns *t, const uint32_t *args, size_t count, uint32_t key, int64_t fallback,
                  int64_t *out) {
  enum { AHEAD = 8 };
  const struct tg__schema *schema = NULL;
  uint16_t at = 0;
  for (size_t i = 0; i < count; i++) {
    struct tg__args_iter it;
    if (i + AHEAD < count && args[i + AHEAD] != TG_NONE && t->args)
      __builtin_prefetch(t->args + (uint64_t)args[i + AHEAD] * 4);
    tg__args_begin(t, args[i], &it);
    if (it.schema && it.schema != schema) {
      schema = it.schema;
      at = place_of(schema, key, false);
    }
    out[i] = fallback;
    if (!it.schema || at == schema->count) continue;
    tg__args_skip(&it, at);
    tg__args_next(&it);
    out[i] = int_of(t, &it.val, fallback);
  }
}

static double str_to_real(struct tg__str s, double fallback) {
  double v;
  return tg__str_to_real(s, &v) ? v : fallback;
}

double tg__arg_real(const struct tg__columns *t, uint32_t args, uint32_t key, double fallback) {
  struct tg__val v;
  if (!tg__arg(t, args, key, false, &v)) return fallback;
  switch (v.kind) {
  case TG__KIND_INT:
    return (double)v.i;
  case TG__KIND_DEC: { /* through its text: correctly rounded, like everybody else's reader */
    char text[TG__VAL_TEXT];
    return str_to_real((struct tg__str){text, (uint32_t)tg__val_text(&v, text)}, fallback);
  }
  case TG__KIND_STR:
  case TG__KIND_RAW:
    return str_to_real(tg__name(t, v.str), fallback);
  default:
    return fallback;
  }
}

uint32_t tg__arg_str(const struct tg__columns *t, uint32_t args, uint32_t key) {
  struct tg__val v;
  return tg__arg(t, args, key, false, &v) && (v.kind == TG__KIND_STR || v.kind == TG__KIND_RAW) ? v.str : TG_NONE;
}

uint32_t tg__arg_dims(const struct tg__columns *t, uint32_t args) {
  const uint32_t dims = tg__arg_str(t, args, TG__K_INPUT_DIMS);
  return dims == TG_NONE ? tg__arg_str(t, args, TG__K_INPUT_DIMS_OLD) : dims;
}

size_t tg__val_text(const struct tg__val *v, char text[TG__VAL_TEXT]) {
  uint64_t digits = v->i < 0 ? 0 - (uint64_t)v->i : (uint64_t)v->i;
  char back[TG__VAL_TEXT];
  size_t n = sizeof back;
  for (unsigned d = 0; d <= v->decimals || digits; d++) { /* last digit first; at least one before the point */
    if (d > 0 && d == v->decimals) back[--n] = '.';
    back[--n] = (char)('0' + digits % 10);
    digits /= 10;
  }
  if (v->i < 0) back[--n] = '-';
  memcpy(text, back + n, sizeof back - n);
  return sizeof back - n;
}

void tg__val_json(const struct tg__columns *t, const struct tg__val *v, struct tg__jsonw *w) {
  switch (v->kind) {
  case TG__KIND_INT:
    tg__json_int(w, v->i);
    break;
  case TG__KIND_DEC: {
    char text[TG__VAL_TEXT];
    tg__json_raw(w, (struct tg__str){text, (uint32_t)tg__val_text(v, text)});
    break;
  }
  case TG__KIND_STR:
    tg__json_str(w, tg__name(t, v->str));
    break;
  case TG__KIND_RAW:
    tg__json_raw(w, tg__name(t, v->str));
    break;
  case TG__KIND_TRUE:
    tg__json_bool(w, true);
    break;
  case TG__KIND_FALSE:
    tg__json_bool(w, false);
    break;
  default:
    tg__json_null(w);
    break;
  }
}
