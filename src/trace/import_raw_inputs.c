/* What an operator was called with, in the words Kineto uses: four lists, one value per input, and a member of its
 * own for each value given by name. Rendered once per SHAPE entry. */
#include "trace/import_raw.h"

#include <math.h>
#include <stdio.h>

enum { LIST_MOST = 30 /* longer lists are left out, as torch does */, KEYWORDS_MOST = 48 };

struct lists { /* JSON texts in the making */
  struct tg__out dims, types, strides, values;
};

static void begin_values(struct lists *l) {
  struct tg__out *const all[] = {&l->dims, &l->types, &l->strides, &l->values};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (all[i]->len > 1) tg__out_text(all[i], ", ");
  }
}

/* ---- scalars --------------------------------------------------------------------------------- */

/* As an IValue prints a double: whole numbers end in a point, others have 17 digits. */
static void put_double(struct tg__out *o, double d) {
  char text[40];
  if (fabs(d) < 1e10 && d == (double)(int64_t)d) {
    snprintf(text, sizeof text, "%s%lld.", d == 0 && signbit(d) ? "-" : "", (long long)d);
  } else if (isnan(d)) {
    snprintf(text, sizeof text, "nan");
  } else {
    snprintf(text, sizeof text, "%.17g", d);
  }
  tg__out_text(o, text);
}

static double double_at(const uint8_t *p) {
  const uint64_t bits = tg__get64(p);
  double d;
  memcpy(&d, &bits, sizeof d);
  return d;
}

static void put_element(struct tg__out *o, const struct tg__input_value *v, unsigned i) {
  if (v->kind == TG_INPUT_INT_LIST) {
    tg__out_int(o, (int64_t)tg__get64(v->bytes + 8 * (size_t)i));
  } else if (v->kind == TG_INPUT_DOUBLE_LIST) {
    put_double(o, double_at(v->bytes + 8 * (size_t)i));
  } else {
    tg__out_text(o, v->bytes[i] ? "True" : "False");
  }
}

static void put_scalar_text(struct tg__out *o, const struct tg__input_value *v) {
  tg__out_char(o, '"');
  if (v->kind == TG_INPUT_INT) tg__out_int(o, v->i);
  if (v->kind == TG_INPUT_BOOL) tg__out_text(o, v->i ? "True" : "False");
  if (v->kind == TG_INPUT_DOUBLE) put_double(o, v->d);
  tg__out_char(o, '"');
}

static void put_list_text(struct tg__out *o, const struct tg__input_value *v) {
  tg__out_text(o, "\"[");
  for (unsigned i = 0; i < v->count; i++) {
    if (i) tg__out_text(o, ", ");
    put_element(o, v, i);
  }
  tg__out_text(o, "]\"");
}

/* ---- tensors --------------------------------------------------------------------------------- */

static void put_sizes(struct tg__out *o, const uint8_t *sizes, unsigned count) {
  tg__out_char(o, '[');
  for (unsigned i = 0; i < count; i++) {
    if (i) tg__out_text(o, ", ");
    tg__out_int(o, (int64_t)tg__get64(sizes + 8 * (size_t)i));
  }
  tg__out_char(o, ']');
}

static void put_tensor(struct lists *l, const struct tg__input_value *v) {
  const bool defined = v->kind == TG_INPUT_TENSOR;
  put_sizes(&l->dims, v->bytes, defined ? v->dims : 0);
  put_sizes(&l->strides, defined ? v->bytes + 8 * (size_t)v->dims : NULL, defined && v->strided ? v->dims : 0);
}

/* The head has been read: `count` values follow. false: one of them is no tensor, or is cut. */
static bool put_tensor_list(struct lists *l, struct tg__bytes *b, unsigned count) {
  const struct tg__out dims = l->dims, strides = l->strides; /* so that both can be taken back */
  struct tg__input_value v;
  tg__out_char(&l->dims, '[');
  tg__out_char(&l->strides, '[');
  for (unsigned i = 0; i < count; i++) {
    if (!tg__input_next(b, &v) || (v.kind != TG_INPUT_TENSOR && v.kind != TG_INPUT_UNDEFINED)) return false;
    if (i) {
      tg__out_text(&l->dims, ", ");
      tg__out_text(&l->strides, ", ");
    }
    put_tensor(l, &v);
  }
  if (count > LIST_MOST) {
    l->dims.len = dims.len + 1;
    l->strides.len = strides.len + 1;
  }
  tg__out_char(&l->dims, ']');
  tg__out_char(&l->strides, ']');
  return true;
}

/* ---- one input ------------------------------------------------------------------------------- */

static void put_type(struct lists *l, const char *type) {
  tg__out_char(&l->types, '"');
  tg__out_text(&l->types, type);
  tg__out_char(&l->types, '"');
}

/* An input that is no tensor: no dims, no strides. */
static void put_other(struct lists *l, const char *type) {
  tg__out_text(&l->dims, "[]");
  tg__out_text(&l->strides, "[]");
  put_type(l, type);
}

static bool put_input(struct lists *l, struct tg__bytes *b, const struct tg__input_value *v) {
  begin_values(l);
  switch (v->kind) {
  case TG_INPUT_TENSOR:
    put_tensor(l, v);
    put_type(l, tg__scalar_type_name(v->dtype));
    break;
  case TG_INPUT_TENSOR_LIST:
    put_type(l, "TensorList");
    tg__out_text(&l->values, "\"\"");
    return put_tensor_list(l, b, v->count);
  case TG_INPUT_INT:
  case TG_INPUT_DOUBLE:
  case TG_INPUT_BOOL:
    put_other(l, "Scalar");
    put_scalar_text(&l->values, v);
    return true;
  case TG_INPUT_INT_LIST:
  case TG_INPUT_DOUBLE_LIST:
  case TG_INPUT_BOOL_LIST:
    put_other(l, v->count > LIST_MOST ? "" : "ScalarList");
    if (v->count > LIST_MOST) break;
    put_list_text(&l->values, v);
    return true;
  case TG_INPUT_SCALAR:
    put_other(l, "Scalar");
    break;
  default: /* None, text, anything else */
    put_other(l, "");
  }
  tg__out_text(&l->values, "\"\"");
  return true;
}

/* ---- values given by name -------------------------------------------------------------------- */

static bool put_string_list(struct tg__out *o, const struct tg__input_value *v, const uint8_t *end) {
  struct tg__bytes b = {.p = v->bytes, .end = end};
  tg__out_char(o, '[');
  for (unsigned i = 0; i < v->count; i++) {
    const uint16_t len = tg__bytes_take16(&b);
    const uint8_t *const text = tg__bytes_take(&b, len);
    if (!text) return false;
    tg__out_text(o, i ? ", \"" : "\"");
    tg__json_escape(o, (struct tg__str){(const char *)text, len}, true);
    tg__out_char(o, '"');
  }
  tg__out_char(o, ']');
  return true;
}

/* What torch keeps of keyword values: numbers, truth values, texts and lists of texts. Others have no field. */
static bool keyword_value(struct tg__raw *w, const struct tg__input_value *v, const uint8_t *end,
                          struct tg__packed_val *out) {
  struct tg__out text = {0};
  bool ok = true;
  switch (v->kind) {
  case TG_INPUT_INT:
    out->kind = TG__KIND_INT;
    out->i = v->i;
    return true;
  case TG_INPUT_BOOL:
    out->kind = v->i ? TG__KIND_TRUE : TG__KIND_FALSE;
    return true;
  case TG_INPUT_STRING:
    out->kind = TG__KIND_STR;
    out->i = tg__raw_intern(w, (const char *)v->bytes, v->count);
    return true;
  case TG_INPUT_DOUBLE:
    out->kind = TG__KIND_RAW;
    tg__out_double(&text, v->d);
    break;
  case TG_INPUT_STRING_LIST:
    out->kind = TG__KIND_RAW;
    ok = put_string_list(&text, v, end);
    break;
  default:
    return false;
  }
  if (text.err) w->no_memory = true;
  if (ok) out->i = tg__raw_intern(w, text.len ? text.buf : "", text.len);
  tg__out_free(&text);
  return ok;
}

static bool is_taken(const struct tg__packed_val *vals, size_t count, uint32_t key) {
  static const uint32_t ours[] = {TG__K_SEQUENCE_NUMBER,    TG__K_FWD_THREAD_ID, TG__K_CALL_STACK,
                                  TG__K_MODULE_HIERARCHY,   TG__K_OVERLOAD_NAME, TG__K_EXTERNAL_ID,
                                  TG__K_RECORD_FUNCTION_ID, TG__K_EV_IDX,        TG__K_MODULE_PATH};
  for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
    if (ours[i] == key) return true;
  }
  for (size_t i = 0; i < count; i++) {
    if (vals[i].key == key) return true;
  }
  return false;
}

/* The keyword's name has been read; its value follows. A list of tensors is passed over whole. */
static bool take_keyword(struct tg__raw *w, struct tg__bytes *b, const struct tg__input_value *name,
                         struct tg__packed_val *vals, size_t *count) {
  struct tg__input_value v, item;
  if (!tg__input_next(b, &v) || v.kind == TG_INPUT_KEYWORD) return false;
  for (unsigned i = 0; v.kind == TG_INPUT_TENSOR_LIST && i < v.count; i++) {
    if (!tg__input_next(b, &item) || (item.kind != TG_INPUT_TENSOR && item.kind != TG_INPUT_UNDEFINED)) return false;
  }
  struct tg__packed_val out = {.key = tg__raw_intern(w, (const char *)name->bytes, name->count)};
  if (*count < KEYWORDS_MOST && !is_taken(vals, *count, out.key) && keyword_value(w, &v, b->end, &out))
    vals[(*count)++] = out;
  return true;
}

/* ---- the whole entry ------------------------------------------------------------------------- */

static bool same_fields(const struct tg__raw_layout *l, const struct tg__packed_val *vals, size_t count) {
  if (l->count != count) return false;
  for (size_t i = 0; i < count; i++) {
    if (l->fields[i].key != vals[i].key || l->fields[i].kind != vals[i].kind) return false;
  }
  return true;
}

/* Number of the set of fields, from 1; 0 on no memory. */
static uint32_t layout_of(struct tg__raw *w, const struct tg__packed_val *vals, size_t count) {
  uint64_t hash = count;
  for (size_t i = 0; i < count; i++) hash = (hash ^ ((uint64_t)vals[i].key << 4 | vals[i].kind)) * 0x9e3779b97f4a7c15u;
  for (;; hash++) { /* chained through the next hash */
    const uint32_t known = tg__map_get(&w->layout_index, hash);
    if (known == TG_NONE) break;
    if (same_fields(&w->layouts[known], vals, count)) return known;
  }
  struct tg__packed_val *const fields = tg__arena_get(&w->trace->arena, count * sizeof *fields);
  if (!fields || !tg__grow((void **)&w->layouts, &w->layout_cap, w->layout_count + 2, sizeof *w->layouts)) return 0;
  if (w->layout_count == 0) w->layouts[w->layout_count++] = (struct tg__raw_layout){0}; /* 0: no inputs recorded */
  if (!tg__map_put(&w->layout_index, hash, (uint32_t)w->layout_count)) return 0;
  memcpy(fields, vals, count * sizeof *fields);
  w->layouts[w->layout_count] = (struct tg__raw_layout){fields, count};
  return (uint32_t)w->layout_count++;
}

bool tg__raw_pack_values(struct tg__raw *w, const struct tg__packed_val *vals, size_t count,
                         struct tg__raw_shape *out) {
  uint8_t *const start = tg__arena_get(&w->trace->arena, count * 11 + 1);
  uint8_t *p = start;
  out->layout = layout_of(w, vals, count);
  if (!start || !out->layout) return false;
  for (size_t i = 0; i < count; i++) {
    if (vals[i].kind > TG__KIND_RAW) continue;
    uint64_t v = (uint64_t)vals[i].i;
    if (vals[i].kind == TG__KIND_DEC) *p++ = vals[i].decimals;
    if (vals[i].kind <= TG__KIND_DEC) v = v << 1 ^ (uint64_t)(vals[i].i >> 63);
    for (; v >= 0x80; v >>= 7) *p++ = (uint8_t)(v | 0x80);
    *p++ = (uint8_t)v;
  }
  out->values = start;
  out->len = (uint32_t)(p - start);
  return true;
}

static uint32_t close_list(struct tg__raw *w, struct tg__out *o) {
  tg__out_char(o, ']');
  if (o->err) w->no_memory = true;
  return o->err ? TG_NONE : tg__raw_intern(w, o->buf, o->len);
}

bool tg__raw_take_shape(struct tg__raw *w, struct tg__str blob, struct tg__raw_shape *out) {
  struct tg__bytes b = {.p = (const uint8_t *)blob.ptr, .end = (const uint8_t *)blob.ptr + blob.len};
  struct tg__packed_val vals[4 + KEYWORDS_MOST] = {{.key = TG__K_CONCRETE_INPUTS, .kind = TG__KIND_RAW},
                                                   {.key = TG__K_INPUT_TYPE, .kind = TG__KIND_RAW},
                                                   {.key = TG__K_INPUT_STRIDES, .kind = TG__KIND_RAW},
                                                   {.key = TG__K_INPUT_DIMS, .kind = TG__KIND_RAW}};
  size_t count = 4;
  struct lists l = {{0}, {0}, {0}, {0}};
  struct tg__out *const order[4] = {&l.values, &l.types, &l.strides, &l.dims};
  struct tg__input_value v;
  bool ok = true;
  for (int i = 0; i < 4; i++) tg__out_char(order[i], '[');
  while (ok && tg__input_next(&b, &v))
    ok = v.kind == TG_INPUT_KEYWORD ? take_keyword(w, &b, &v, vals, &count) : put_input(&l, &b, &v);
  ok = ok && !b.broken;
  for (int i = 0; i < 4; i++) {
    if (ok) vals[i].i = close_list(w, order[i]);
    tg__out_free(order[i]);
  }
  if (ok && !w->no_memory && !tg__raw_pack_values(w, vals, count, out)) w->no_memory = true;
  if (w->no_memory) *out = (struct tg__raw_shape){0};
  return ok;
}
