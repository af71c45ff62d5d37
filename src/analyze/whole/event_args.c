/* event_args: args of events as columns of a table. */
#include "analyze/whole/event_args.h"

#include <stdio.h>
#include <stdlib.h>

static enum tg_type type_of(enum tg__kind kind) {
  switch (kind) {
  case TG__KIND_INT:
    return TG_INT;
  case TG__KIND_DEC:
    return TG_REAL;
  case TG__KIND_TRUE:
  case TG__KIND_FALSE:
    return TG_BOOL;
  case TG__KIND_STR:
  case TG__KIND_RAW:
  case TG__KIND_NULL:
    break;
  }
  return TG_TEXT;
}

/* By schema: is it that of one of the events? NULL on no memory. */
static bool *used_schemas(const struct tg_trace *t, const uint32_t *args, uint32_t count) {
  bool *used = tg__alloc(((size_t)t->schema_count + 1) * sizeof *used);
  struct tg__args_iter it;
  for (uint32_t i = 0; used && i < count; i++) {
    tg__args_begin(t, args[i], &it);
    if (it.schema) used[it.schema - t->schemas] = true;
  }
  return used;
}

static const struct tg__field *field_of(const struct tg__schema *s, uint32_t key) {
  for (unsigned top = 0; top < 2; top++)
    for (uint16_t i = 0; i < s->count; i++)
      if (s->fields[i].key == key && s->fields[i].top == (bool)top) return &s->fields[i];
  return NULL;
}

/* The type that holds every value of the key; whole and decimal numbers meet in REAL, anything else in TEXT. */
static void find_type(const struct tg_trace *t, const bool *used, struct tg__extra *x) {
  bool any = false;
  x->type = TG_TEXT;
  for (uint32_t s = 0; s < t->schema_count && x->key != TG_NONE; s++) {
    const struct tg__field *field = used[s] ? field_of(&t->schemas[s], x->key) : NULL;
    if (!field || field->kind == TG__KIND_NULL) continue;
    const enum tg_type type = type_of((enum tg__kind)field->kind);
    if (!any || type == x->type) {
      x->type = type;
    } else if ((type == TG_INT || type == TG_REAL) && (x->type == TG_INT || x->type == TG_REAL)) {
      x->type = TG_REAL;
    } else {
      x->type = TG_TEXT;
      x->is_mixed = true;
      return;
    }
    any = true;
  }
}

static enum tg_err add_keys(const struct tg_trace *t, const char *keys, const bool *used, struct tg__extras *extras, struct tg_table *out,
                            struct tg_error *e) {
  for (const char *from = keys; *from;) {
    const char *to = strchrnul(from, ',');
    char name[128], column[160];
    if (extras->count == TG__MOST_EXTRAS) return tg__fail(e, TG_USAGE, -1, "args: at most %d keys", TG__MOST_EXTRAS);
    if (to == from || (size_t)(to - from) >= sizeof name)
      return tg__fail(e, TG_USAGE, -1, "args=%.60s is not a list of keys joined by comma", keys);
    snprintf(name, sizeof name, "%.*s", (int)(to - from), from);
    struct tg__extra *x = &extras->items[extras->count++];
    *x = (struct tg__extra){.key = tg__strings_find(t->strings, name, strlen(name))};
    find_type(t, used, x);
    const bool taken = tg__table_column_index(out, name) != SIZE_MAX;
    snprintf(column, sizeof column, "%s%s", taken ? "args." : "", name);
    tg__table_add_column(out, column, x->type, "");
    from = *to ? to + 1 : to;
  }
  return TG_OK;
}

enum tg_err tg__add_extras(const struct tg_trace *t, const char *keys, const uint32_t *args, uint32_t count, struct tg__extras *extras,
                           struct tg_table *out, struct tg_error *e) {
  if (!*keys) return TG_OK;
  bool *used = used_schemas(t, args, count);
  const enum tg_err err = used ? add_keys(t, keys, used, extras, out, e) : TG_MEMORY;
  tg__free(used);
  return err;
}

static void put_text_value(const struct tg_trace *t, const struct tg__extra *x, const struct tg__val *val, struct tg_table *out) {
  if (!x->is_mixed && (val->kind == TG__KIND_STR || val->kind == TG__KIND_RAW)) {
    tg__put_trace_text(out, t, val->str);
    return;
  }
  struct tg__out json = {0};
  struct tg__jsonw writer = {.out = &json};
  tg__val_json(t, val, &writer);
  tg__put_text(out, (struct tg__str){json.buf, (uint32_t)json.len});
  out->failed |= json.err != TG_OK;
  tg__out_free(&json);
}

/* Correctly rounded: by one division where both numbers are exact, else through the text. */
static double real_value(const struct tg__val *val) {
  enum { MOST_EXACT_POWER = 22 };
  const int64_t exact = (int64_t)1 << 53;
  if (val->kind != TG__KIND_DEC) return (double)val->i;
  if (val->i > exact || val->i < -exact || val->decimals > MOST_EXACT_POWER) {
    char text[TG__VAL_TEXT + 1];
    text[tg__val_text(val, text)] = '\0';
    return strtod(text, NULL);
  }
  double unit = 1;
  for (unsigned d = 0; d < val->decimals; d++) unit *= 10;
  return (double)val->i / unit;
}

static void put_value(const struct tg_trace *t, const struct tg__extra *x, const struct tg__val *val, struct tg_table *out) {
  if (val->kind == TG__KIND_NULL) {
    tg__put_null(out);
    return;
  }
  switch (x->type) {
  case TG_INT:
    tg__put_int(out, val->i);
    break;
  case TG_BOOL:
    tg__put_bool(out, val->kind == TG__KIND_TRUE);
    break;
  case TG_TEXT:
    put_text_value(t, x, val, out);
    break;
  case TG_REAL:
    tg__put_real(out, real_value(val));
    break;
  }
}

/* Events that follow one another have few schemas between them. */
static const int32_t *places_in(const struct tg_trace *t, const struct tg__schema *schema, struct tg__extras *extras) {
  struct tg__key_places *p = &extras->recent[(size_t)(schema - t->schemas) % (sizeof extras->recent / sizeof *extras->recent)];
  if (p->schema == schema) return p->at;
  p->schema = schema;
  for (size_t k = 0; k < extras->count; k++) {
    const struct tg__field *f = field_of(schema, extras->items[k].key);
    p->at[k] = f ? (int32_t)(f - schema->fields) : -1;
  }
  return p->at;
}

void tg__put_extras(const struct tg_trace *t, uint32_t args, struct tg__extras *extras, struct tg_table *out) {
  struct tg__args_iter begun;
  tg__args_begin(t, args, &begun);
  const int32_t *at = begun.schema ? places_in(t, begun.schema, extras) : NULL;
  for (size_t k = 0; k < extras->count; k++) {
    if (!at || at[k] < 0) {
      tg__put_null(out);
      continue;
    }
    struct tg__args_iter it = begun;
    tg__args_skip(&it, (uint16_t)at[k]);
    tg__args_next(&it);
    put_value(t, &extras->items[k], &it.val, out);
  }
}
