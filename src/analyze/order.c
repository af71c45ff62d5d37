/* order: the rows of a table sorted by its columns. */
#include "analyze/ask.h"

#include <math.h>
#include <stdio.h>

enum { MOST_KEYS = 8 };

struct sort_key {
  const struct tg__column *column;
  bool descending;
};
struct order {
  const struct tg_table *table;
  struct sort_key keys[MOST_KEYS];
  size_t count;
};

static const char *column_name(const void *ctx, size_t k) {
  const struct tg_table *t = ctx;
  return k < t->column_count ? t->columns[k].name : NULL;
}

enum tg_err tg__find_column(const struct tg_table *t, const char *what, const char *name, size_t len, size_t *column, struct tg_error *e) {
  char text[64];
  snprintf(text, sizeof text, "%.*s", (int)(len < sizeof text ? len : sizeof text - 1), name);
  for (size_t c = 0; c < t->column_count; c++) {
    if (strlen(t->columns[c].name) == len && memcmp(t->columns[c].name, name, len) == 0) {
      *column = c;
      return TG_OK;
    }
  }
  const char *nearest = tg__nearest_text(text, column_name, t);
  if (nearest) return tg__fail(e, TG_USAGE, -1, "%s: there is no column '%s'; did you mean %s?", what, text, nearest);
  char list[256] = "";
  size_t used = 0;
  for (size_t c = 0; c < t->column_count && used < sizeof list; c++)
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", c ? ", " : "", t->columns[c].name);
  return tg__fail(e, TG_USAGE, -1, "%s: there is no column '%s'; there are %s", what, text, list);
}

/* NULLs sort behind everything in both directions. */
static bool is_null(const struct tg__column *c, uint32_t row) {
  switch (c->type) {
  case TG_INT: return c->ints[row] == TG_NULL_INT;
  case TG_REAL: return isnan(c->reals[row]);
  case TG_BOOL: return c->bools[row] < 0;
  case TG_TEXT: break;
  }
  return c->texts[row] == TG_NONE;
}

static int compare(const struct tg_table *t, const struct tg__column *c, uint32_t a, uint32_t b) {
  switch (c->type) {
  case TG_INT: return (c->ints[a] > c->ints[b]) - (c->ints[a] < c->ints[b]);
  case TG_REAL: return (c->reals[a] > c->reals[b]) - (c->reals[a] < c->reals[b]);
  case TG_BOOL: return c->bools[a] - c->bools[b];
  case TG_TEXT: break;
  }
  if (c->texts[a] == c->texts[b]) return 0;
  return tg__str_cmp(tg__strings_get(t->strings, c->texts[a]), tg__strings_get(t->strings, c->texts[b]));
}

static bool comes_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct order *o = ctx;
  for (size_t k = 0; k < o->count; k++) {
    const struct sort_key *key = &o->keys[k];
    const bool a_null = is_null(key->column, a), b_null = is_null(key->column, b);
    if (a_null != b_null) return b_null;
    if (a_null) continue;
    const int order = compare(o->table, key->column, a, b);
    if (order != 0) return key->descending ? order > 0 : order < 0;
  }
  return false;
}

static struct tg__str trimmed(const char *from, const char *to) {
  while (from < to && *from == ' ') from++;
  while (to > from && to[-1] == ' ') to--;
  return (struct tg__str){from, (uint32_t)(to - from)};
}

/* One key: a column, with its direction behind it (asc, desc) or a minus in front of it (descending). */
static enum tg_err parse_key(const struct tg_table *t, struct tg__str text, struct sort_key *key, struct tg_error *e) {
  bool stated = false, descending = false;
  if (text.len > 0 && text.ptr[0] == '-') {
    stated = descending = true;
    text = trimmed(text.ptr + 1, text.ptr + text.len);
  } else if (tg__str_has_suffix(text, " desc")) {
    stated = descending = true;
    text = trimmed(text.ptr, text.ptr + text.len - strlen(" desc"));
  } else if (tg__str_has_suffix(text, " asc")) {
    stated = true;
    text = trimmed(text.ptr, text.ptr + text.len - strlen(" asc"));
  }
  size_t column;
  const enum tg_err err = tg__find_column(t, "sort", text.ptr, text.len, &column, e);
  if (err != TG_OK) return err;
  key->column = &t->columns[column];
  key->descending = stated ? descending : key->column->type != TG_TEXT;
  return TG_OK;
}

enum tg_err tg__sort_table(struct tg_table *t, const char *keys, struct tg_error *e) {
  struct order o = {.table = t};
  for (const char *from = keys;; from++) {
    const char *to = strchrnul(from, ',');
    if (o.count == MOST_KEYS) return tg__fail(e, TG_USAGE, -1, "sort: at most %d columns", MOST_KEYS);
    const enum tg_err err = parse_key(t, trimmed(from, to), &o.keys[o.count], e);
    if (err != TG_OK) return err;
    o.count++;
    from = to;
    if (!*from) break;
  }
  if (t->rows > UINT32_MAX) return tg__fail(e, TG_MEMORY, -1, "sort: too many rows");
  uint32_t *rows = tg__alloc((t->rows + 1) * sizeof *rows);
  if (!rows) return tg__fail(e, TG_MEMORY, -1, "out of memory");
  for (size_t i = 0; i < t->rows; i++) rows[i] = (uint32_t)i;
  const bool sorted = tg__sort_index(rows, t->rows, comes_before, &o);
  if (sorted) tg__table_keep_rows(t, rows, t->rows);
  tg__free(rows);
  return sorted ? TG_OK : tg__fail(e, TG_MEMORY, -1, "out of memory");
}
