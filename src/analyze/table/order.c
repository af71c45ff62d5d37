/* order: the rows of a table sorted by its columns. */
#include "analyze/answering.h"

#include <math.h>
#include <stdio.h>

enum { MOST_KEYS = 8 };

struct sort_key {
  const struct tg__column *column;
  bool descending;
};

static const char *column_name(const void *ctx, size_t k) {
  const struct tg_table *t = ctx;
  return k < t->column_count ? t->columns[k].name : NULL;
}

enum tg_err tg__find_column(const struct tg_table *t, const char *what, const char *name, size_t len, size_t *column,
                            struct tg_error *e) {
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
  char list[360] = "";
  for (size_t c = 0; c < t->column_count; c++) tg__list_name(list, sizeof list, t->columns[c].name);
  return tg__fail(e, TG_USAGE, -1, "%s: there is no column '%s'; there are %s", what, text, list);
}

/* ---- sorting
 * -------------------------------------------------------------------------------------------------------------
 *
 * Every kind of cell becomes an unsigned number in the same order, and rows are sorted by these numbers byte by byte
 * from the lowest: stable, so sorting by the last key first and the first key last sorts by all of them. */

struct item {
  uint64_t key;
  uint32_t row;
  bool is_null;
};

static bool row_comes_before(uint32_t a, uint32_t b, const void *ctx) {
  return tg__str_cmp(tg__strings_get(ctx, a), tg__strings_get(ctx, b)) < 0;
}

/* Place of each text of the table in byte order, by string id; NULL on no memory. */
static uint32_t *text_places(const struct tg_table *t) {
  const uint32_t count = tg__strings_count(t->strings);
  uint32_t *order = tg__order_new(count, row_comes_before, t->strings),
           *places = tg__alloc(((size_t)count + 1) * sizeof *places);
  if (order && places) {
    for (uint32_t i = 0; i < count; i++) places[order[i]] = i;
  } else {
    tg__free(places);
    places = NULL;
  }
  tg__free(order);
  return places;
}

/* Doubles order like their bits once negative ones are turned over; adding zero makes -0 into 0. */
static uint64_t real_key(double v) {
  uint64_t bits;
  v += 0.0;
  memcpy(&bits, &v, sizeof bits);
  return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}

static void fill_keys(struct item *items, size_t n, const struct sort_key *key, const uint32_t *places) {
  const struct tg__column *c = key->column;
  for (size_t i = 0; i < n; i++) {
    const uint32_t row = items[i].row;
    uint64_t k = 0;
    bool is_null = true;
    switch (c->type) {
    case TG_INT:
      k = (uint64_t)c->ints[row] ^ (uint64_t)1 << 63, is_null = c->ints[row] == TG_NULL_INT;
      break;
    case TG_REAL:
      k = real_key(c->reals[row]), is_null = isnan(c->reals[row]);
      break;
    case TG_BOOL:
      k = (uint64_t)(c->bools[row] > 0), is_null = c->bools[row] < 0;
      break;
    case TG_TEXT:
      is_null = c->texts[row] == TG_NONE;
      k = is_null ? 0 : places[c->texts[row]];
      break;
    }
    items[i].key = key->descending ? ~k : k;
    items[i].is_null = is_null;
  }
}

/* Unknown cells go behind all others whatever the direction. */
static void nulls_last(const struct item *from, struct item *to, size_t n) {
  size_t kept = 0;
  for (size_t i = 0; i < n; i++)
    if (!from[i].is_null) to[kept++] = from[i];
  for (size_t i = 0; i < n; i++)
    if (from[i].is_null) to[kept++] = from[i];
}

static void sort_items(struct item **items, struct item **spare, size_t n) {
  size_t counts[8][256] = {{0}};
  for (size_t i = 0; i < n; i++)
    for (unsigned byte = 0; byte < 8; byte++) counts[byte][(*items)[i].key >> 8 * byte & 255]++;
  for (unsigned byte = 0; byte < 8; byte++) {
    size_t *count = counts[byte], at = 0;
    if (n == 0 || count[(*items)[0].key >> 8 * byte & 255] == n) continue; /* the same in all keys */
    for (unsigned digit = 0; digit < 256; digit++) {
      const size_t here = count[digit];
      count[digit] = at;
      at += here;
    }
    for (size_t i = 0; i < n; i++) (*spare)[count[(*items)[i].key >> 8 * byte & 255]++] = (*items)[i];
    struct item *sorted = *spare;
    *spare = *items;
    *items = sorted;
  }
}

static bool sort_by(const struct tg_table *t, const struct sort_key *key, struct item **items, struct item **spare) {
  uint32_t *places = NULL;
  if (key->column->type == TG_TEXT && !(places = text_places(t))) return false;
  fill_keys(*items, t->rows, key, places);
  tg__free(places);
  sort_items(items, spare, t->rows);
  nulls_last(*items, *spare, t->rows);
  struct item *sorted = *spare;
  *spare = *items;
  *items = sorted;
  return true;
}

static bool sort_rows_by_keys(struct tg_table *t, const struct sort_key *keys, size_t count) {
  struct item *items = tg__alloc((t->rows + 1) * sizeof *items), *spare = tg__alloc((t->rows + 1) * sizeof *spare);
  uint32_t *rows = tg__alloc((t->rows + 1) * sizeof *rows);
  bool done = items && spare && rows;
  for (size_t i = 0; done && i < t->rows; i++) items[i].row = (uint32_t)i;
  for (size_t k = count; done && k-- > 0;) done = sort_by(t, &keys[k], &items, &spare);
  for (size_t i = 0; done && i < t->rows; i++) rows[i] = items[i].row;
  if (done) tg__table_keep_rows(t, rows, t->rows);
  tg__free(items);
  tg__free(spare);
  tg__free(rows);
  return done;
}

/* ---- keys as text ---------------------------------------------------------------------------- */

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
  t->is_tree = false; /* rows no longer stand below those they belong to */
  struct sort_key parsed[MOST_KEYS];
  size_t count = 0;
  for (const char *from = keys;; from++) {
    const char *to = strchrnul(from, ',');
    if (count == MOST_KEYS) return tg__fail(e, TG_USAGE, -1, "sort: at most %d columns", MOST_KEYS);
    const enum tg_err err = parse_key(t, trimmed(from, to), &parsed[count], e);
    if (err != TG_OK) return err;
    count++;
    from = to;
    if (!*from) break;
  }
  if (t->rows > UINT32_MAX || !sort_rows_by_keys(t, parsed, count)) return tg__no_memory(e, "sorting rows");
  return TG_OK;
}
