/* select_columns: only the requested columns of a table. */
#include "analyze/answering.h"

static const char *wanted(const struct tg__ask *a) {
  if (!tg__ask_has_arg(a, "columns")) return "";
  const char *text = tg__ask_arg(a, "columns");
  return text ? text : "";
}

static bool is_columns_word(char c) {
  return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Does the word stand anywhere in the text? Where it is part of a quoted text, a column is kept without need. */
static bool mentions(const char *text, const char *word) {
  const size_t len = strlen(word);
  for (const char *at = text ? strstr(text, word) : NULL; at; at = strstr(at + 1, word))
    if ((at == text || !is_columns_word(at[-1])) && !is_columns_word(at[len])) return true;
  return false;
}

static size_t count_names(const char *list) {
  size_t count = *list != 0;
  for (; *list; list++) count += *list == ',';
  return count;
}

/* The places of the columns that the list names, in its order. */
static enum tg_err find_all(const struct tg_table *t, const char *list, size_t *places, struct tg_error *e) {
  for (size_t k = 0; *list; k++) {
    const char *end = strchrnul(list, ',');
    const enum tg_err err = tg__find_column(t, "columns", list, (size_t)(end - list), &places[k], e);
    if (err) return err;
    for (size_t before = 0; before < k; before++)
      if (places[before] == places[k])
        return tg__fail(e, TG_USAGE, -1, "columns: %s is named twice", t->columns[places[k]].name);
    list = *end ? end + 1 : end;
  }
  return TG_OK;
}

enum tg_err tg__select_columns(const struct tg__ask *a, struct tg_table *t, struct tg_error *e) {
  const char *const list = wanted(a), *const where = tg__ask_arg(a, "where"), *const sort = tg__ask_arg(a, "sort");
  const size_t count = count_names(list);
  if (!count) return TG_OK;
  size_t *const places = tg__alloc(count * sizeof *places);
  if (!places) return TG_MEMORY;
  const enum tg_err err = find_all(t, list, places, e);
  for (size_t c = 0; c < t->column_count && !err; c++)
    t->columns[c].is_left_out = !mentions(where, t->columns[c].name) && !mentions(sort, t->columns[c].name);
  for (size_t k = 0; k < count && !err; k++) t->columns[places[k]].is_left_out = false;
  tg__free(places);
  return err;
}

enum tg_err tg__keep_selected_columns(const struct tg__ask *a, struct tg_table *t, struct tg_error *e) {
  const char *const list = wanted(a);
  const size_t count = count_names(list);
  if (!count) return TG_OK;
  size_t declared = 0;
  while (tg__question_column(a->question, declared)) declared++;
  const size_t extra = t->column_count - declared; /* args= names them: they stay */
  size_t *const places = tg__alloc(count * sizeof *places);
  struct tg__column *const columns = tg__alloc((count + extra) * sizeof *columns);
  enum tg_err err = places && columns ? find_all(t, list, places, e) : TG_MEMORY;
  if (!err) {
    for (size_t k = 0; k < count; k++) {
      columns[k] = t->columns[places[k]];
      t->columns[places[k]].ints = NULL;
    }
    memcpy(columns + count, t->columns + declared, extra * sizeof *columns);
    for (size_t c = 0; c < declared; c++) tg__free(t->columns[c].ints);
    memcpy(t->columns, columns, (count + extra) * sizeof *columns);
    t->column_count = count + extra;
  }
  tg__free(places);
  tg__free(columns);
  return err;
}
