/* Args of events as JSON, fast: what a string id looks like in JSON is worked out once, and so is the text in front
 * of every value of a schema. */
#include "show/argsjson.h"

struct form {
  const char *ptr; /* NULL: not made yet */
  uint32_t len;
};
struct tg__forms {
  const struct tg__columns *t;
  struct form *bodies, *values; /* by string id */
  uint32_t count;
  struct tg__arena arena;
  struct tg__str **prefixes; /* by schema, then field: {"key": or ,"key": */
};

struct tg__forms *tg__forms_new(const struct tg__columns *t) {
  struct tg__forms *f = tg__alloc(sizeof *f);
  if (!f) return NULL;
  f->t = t;
  f->count = tg__strings_count(t->strings);
  f->bodies = tg__alloc(((size_t)f->count + 1) * sizeof *f->bodies);
  f->values = tg__alloc(((size_t)f->count + 1) * sizeof *f->values);
  f->prefixes = tg__alloc(((size_t)t->schema_count + 1) * sizeof *f->prefixes);
  if (f->bodies && f->values && f->prefixes) return f;
  tg__forms_free(f);
  return NULL;
}

void tg__forms_free(struct tg__forms *f) {
  if (!f) return;
  tg__arena_free(&f->arena);
  tg__free(f->bodies);
  tg__free(f->values);
  tg__free(f->prefixes);
  tg__free(f);
}

/* Most strings are their own JSON body; only the others are copied. On no memory the empty string stands in and
 * out->err is set. */
static struct tg__str make_form(struct tg__forms *f, uint32_t id, struct form *forms, struct tg__out *out,
                                void (*render)(struct tg__out *, struct tg__str)) {
  const struct tg__str s = tg__strings_get(f->t->strings, id);
  struct tg__out text = {0};
  render(&text, s);
  const char *ptr = s.ptr;
  if (text.err != TG_OK || text.len >= UINT32_MAX) {
    out->err = TG_MEMORY;
    ptr = "";
    text.len = 0;
  } else if (text.len != s.len || (s.len && memcmp(text.buf, s.ptr, s.len) != 0)) {
    ptr = tg__arena_copy(&f->arena, text.len ? text.buf : "", text.len);
    if (!ptr) {
      out->err = TG_MEMORY;
      ptr = "";
      text.len = 0;
    }
  }
  forms[id] = (struct form){ptr ? ptr : "", (uint32_t)text.len};
  tg__out_free(&text);
  return (struct tg__str){forms[id].ptr, forms[id].len};
}

static struct tg__str form_of(struct tg__forms *f, uint32_t id, struct form *forms, struct tg__out *out,
                              void (*render)(struct tg__out *, struct tg__str)) {
  if (TG_UNLIKELY(id >= f->count)) return TG_STR("");
  if (TG_LIKELY(forms[id].ptr != NULL)) return (struct tg__str){forms[id].ptr, forms[id].len};
  return make_form(f, id, forms, out, render);
}

struct tg__str tg__form_body(struct tg__forms *f, uint32_t id, struct tg__out *out) {
  return form_of(f, id, f->bodies, out, tg__json_body);
}

static struct tg__str form_value(struct tg__forms *f, uint32_t id, struct tg__out *out) {
  return form_of(f, id, f->values, out, tg__json_value);
}

/* {"key": in front of the first value of the args, ,"key": in front of all others. */
static const struct tg__str *prefixes_of(struct tg__forms *f, const struct tg__schema *schema, struct tg__out *out) {
  const size_t at = (size_t)(schema - f->t->schemas);
  if (TG_LIKELY(f->prefixes[at] != NULL)) return f->prefixes[at];
  struct tg__str *list = tg__arena_get(&f->arena, (size_t)(schema->count + 1) * sizeof *list);
  bool first = true;
  for (uint16_t i = 0; list && i < schema->count; i++) {
    const struct tg__field *field = &schema->fields[i];
    const struct tg__str key = tg__form_body(f, field->key, out);
    char *const text = tg__arena_get(&f->arena, (size_t)key.len + 4);
    if (!text) return NULL;
    text[0] = !field->top && first ? '{' : ',';
    if (!field->top) first = false;
    text[1] = '"';
    memcpy(text + 2, key.ptr, key.len);
    text[key.len + 2] = '"';
    text[key.len + 3] = ':';
    list[i] = (struct tg__str){text, key.len + 4};
  }
  f->prefixes[at] = list;
  return list;
}

static void put_arg_text(struct tg__buffer *buffer, struct tg__str prefix, struct tg__str s, bool quoted) {
  if (!tg__buffer_room(buffer, (size_t)prefix.len + s.len + 2)) return;
  char *p = tg__buffer_copy(buffer->p, prefix.ptr, prefix.len);
  if (quoted) *p++ = '"';
  p = tg__buffer_copy(p, s.ptr, s.len);
  if (quoted) *p++ = '"';
  buffer->p = p;
}

static void put_value(struct tg__forms *f, struct tg__buffer *buffer, struct tg__str prefix, const struct tg__val *v) {
  switch (v->kind) {
  case TG__KIND_INT:
    if (!tg__buffer_room(buffer, (size_t)prefix.len + TG__NUMBER_BYTES)) return;
    buffer->p = tg__buffer_int(tg__buffer_copy(buffer->p, prefix.ptr, prefix.len), v->i);
    break;
  case TG__KIND_DEC:
    if (!tg__buffer_room(buffer, (size_t)prefix.len + TG__NUMBER_BYTES)) return;
    buffer->p = tg__buffer_decimal(tg__buffer_copy(buffer->p, prefix.ptr, prefix.len), v->i, v->decimals);
    break;
  case TG__KIND_STR:
    put_arg_text(buffer, prefix, tg__form_body(f, v->str, buffer->out), true);
    break;
  case TG__KIND_RAW:
    put_arg_text(buffer, prefix, form_value(f, v->str, buffer->out), false);
    break;
  case TG__KIND_TRUE:
    put_arg_text(buffer, prefix, TG_STR("true"), false);
    break;
  case TG__KIND_FALSE:
    put_arg_text(buffer, prefix, TG_STR("false"), false);
    break;
  default:
    put_arg_text(buffer, prefix, TG_STR("null"), false);
    break;
  }
}

void tg__put_top(struct tg__forms *f, struct tg__buffer *buffer, uint32_t args, uint32_t skip) {
  struct tg__args_iter it;
  tg__args_begin(f->t, args, &it);
  if (!it.schema) return;
  const struct tg__str *const prefixes = prefixes_of(f, it.schema, buffer->out);
  if (!prefixes) {
    buffer->out->err = TG_MEMORY;
    return;
  }
  while (tg__args_next(&it)) {
    if (it.field->top && it.field->key != skip) put_value(f, buffer, prefixes[it.field - it.schema->fields], &it.val);
  }
}

bool tg__put_args(struct tg__forms *f, struct tg__buffer *buffer, uint32_t args, struct tg__str before) {
  struct tg__args_iter it;
  tg__args_begin(f->t, args, &it);
  if (!it.schema || !it.schema->has_args) return false;
  const struct tg__str *const prefixes = prefixes_of(f, it.schema, buffer->out);
  if (!prefixes) {
    buffer->out->err = TG_MEMORY;
    return false;
  }
  if (!tg__buffer_room(buffer, before.len)) return false;
  buffer->p = tg__buffer_copy(buffer->p, before.ptr, before.len);
  bool any = false;
  while (tg__args_next(&it)) {
    if (it.field->top) continue;
    put_value(f, buffer, prefixes[it.field - it.schema->fields], &it.val);
    any = true;
  }
  if (!tg__buffer_room(buffer, 2)) return false;
  if (!any) *buffer->p++ = '{';
  *buffer->p++ = '}';
  return true;
}
