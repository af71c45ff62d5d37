/* event_args: args of events as columns of a table. */
#include "analyze/overview/event_args.h"

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
static bool *used_schemas(const struct tg__columns *t, const uint32_t *args, uint32_t count) {
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
static void find_type(const struct tg__columns *t, const bool *used, struct tg__extra *x) {
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
  x->is_absent = !any;
}

/* Numbers that identify something of the recording, by the key of the arg; other numbers are values. */
static enum tg__role arg_role_of(const char *name, enum tg_type type) {
  static const struct {
    const char *key;
    enum tg__role role;
  } known[] = {{"correlation", TG__ROLE_REFERENCE},
               {"device", TG__ROLE_RECORDED},
               {"step", TG__ROLE_RECORDED},
               {"stream", TG__ROLE_RECORDED}};
  for (size_t i = 0; type == TG_INT && i < sizeof known / sizeof *known; i++)
    if (strcmp(known[i].key, name) == 0) return known[i].role;
  return type == TG_INT || type == TG_REAL ? TG__ROLE_VALUE : TG__ROLE_KEY;
}

static enum tg_err add_keys(const struct tg__columns *t, const char *keys, const bool *used, struct tg__extras *extras,
                            struct tg_table *out, struct tg_error *e) {
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
    tg__table_add_column_as(out, column, x->type, "", arg_role_of(column, x->type));
    from = *to ? to + 1 : to;
  }
  return TG_OK;
}

enum tg_err tg__add_extras(const struct tg__columns *t, const char *keys, const uint32_t *args, uint32_t count,
                           struct tg__extras *extras, struct tg_table *out, struct tg_error *e) {
  if (!*keys) return TG_OK;
  bool *used = used_schemas(t, args, count);
  const enum tg_err err = used ? add_keys(t, keys, used, extras, out, e) : TG_MEMORY;
  tg__free(used);
  return err;
}

/* Of a column of several kinds: the JSON text. */
static void put_json(const struct tg__columns *t, const struct tg__val *val, size_t column, struct tg_table *out) {
  const size_t row = out->rows, cell = out->cell;
  struct tg__out json = {0};
  struct tg__jsonw writer = {.out = &json};
  tg__val_json(t, val, &writer);
  out->cell = column;
  tg__put_text(out, (struct tg__str){json.buf, (uint32_t)json.len});
  out->cell = cell;
  out->rows = row;
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

static void put_value(const struct tg__columns *t, const struct tg__extra *x, const struct tg__val *val, size_t column,
                      struct tg_table *out) {
  struct tg__column *const c = &out->columns[column];
  const size_t row = out->rows;
  if (c->is_left_out) return;
  if (val->kind == TG__KIND_NULL) {
    tg__column_null(c, row);
    return;
  }
  switch (x->type) {
  case TG_INT:
    c->ints[row] = val->i;
    break;
  case TG_BOOL:
    c->bools[row] = val->kind == TG__KIND_TRUE;
    break;
  case TG_TEXT:
    if (!x->is_mixed && (val->kind == TG__KIND_STR || val->kind == TG__KIND_RAW))
      c->texts[row] = tg__table_text(out, t, val->str);
    else
      put_json(t, val, column, out);
    break;
  case TG_REAL:
    c->reals[row] = real_value(val);
    break;
  }
}

/* By place in the schema: an entry is then gone through once. */
static void sort_found(struct tg__key_places *p) {
  for (size_t i = 1; i < p->found; i++)
    for (size_t k = i; k > 0 && p->field[k] < p->field[k - 1]; k--) {
      const uint16_t field = p->field[k];
      const uint8_t key = p->key[k];
      p->field[k] = p->field[k - 1], p->field[k - 1] = field;
      p->key[k] = p->key[k - 1], p->key[k - 1] = key;
    }
}

/* Events that follow one another have few schemas between them. schema NULL: of events without args. */
static const struct tg__key_places *places_in(const struct tg__columns *t, const struct tg__schema *schema,
                                              struct tg__extras *extras) {
  const size_t ways = sizeof extras->recent / sizeof *extras->recent;
  struct tg__key_places *const p = &extras->recent[schema ? (size_t)(schema - t->schemas) % ways : 0];
  if (p->is_known && p->schema == schema) return p;
  p->schema = schema;
  p->is_known = true;
  p->found = p->missing = 0;
  for (size_t k = 0; k < extras->count; k++) {
    const struct tg__field *const f = schema ? field_of(schema, extras->items[k].key) : NULL;
    if (f) {
      p->field[p->found] = (uint16_t)(f - schema->fields);
      p->key[p->found++] = (uint8_t)k;
    } else if (!extras->items[k].is_absent) { /* those cells are written at the end, at once */
      p->without[p->missing++] = (uint8_t)k;
    }
  }
  sort_found(p);
  return p;
}

void tg__put_extras(const struct tg__columns *t, uint32_t args, struct tg__extras *extras, struct tg_table *out) {
  if (!extras->count || out->failed) return;
  struct tg__args_iter it;
  tg__args_begin(t, args, &it);
  const struct tg__key_places *const p = places_in(t, it.schema, extras);
  const size_t first = out->column_count - extras->count;
  for (size_t i = 0; i < p->missing; i++) tg__column_null(&out->columns[first + p->without[i]], out->rows);
  for (size_t i = 0; i < p->found; i++) {
    if (i == 0 || p->field[i] != p->field[i - 1]) { /* a key may be asked for twice */
      tg__args_skip(&it, (uint16_t)(p->field[i] - it.i));
      tg__args_next(&it);
    }
    put_value(t, &extras->items[p->key[i]], &it.val, first + p->key[i], out);
  }
  tg__table_wrote(out, extras->count);
}

void tg__end_extras(const struct tg__extras *extras, struct tg_table *out) {
  for (size_t k = 0; k < extras->count; k++) {
    const struct tg__column *column = &out->columns[out->column_count - extras->count + k];
    if (extras->items[k].is_absent && !column->is_left_out && out->rows)
      memset(column->texts, 0xff, out->rows * sizeof *column->texts);
  }
}
