/* What rules and questions here learn from the answers of other questions. */
#include "diagnose/findings.h"

struct tg_table *tg__facts_ask(struct tg__facts *f, enum tg__question_id id, const char *name, const char *value) {
  struct tg_table *rows = NULL;
  struct tg_error ignored;
  const struct tg_arg arg = {name, value};
  if (!f->questions || f->failed) return NULL;
  const enum tg_err err =
      tg__ask_loaded(f->t, f->rank, tg__catalog_question(f->questions, id), &arg, name != NULL, &rows, &ignored);
  f->failed |= err == TG_MEMORY;
  return rows;
}

int64_t tg__fact_number(const struct tg_table *t, size_t row, const char *column) {
  const int64_t v = t->columns[tg__table_column_index(t, column)].ints[row];
  return v == TG_NULL_INT ? 0 : v;
}

double tg__fact_real(const struct tg_table *t, size_t row, const char *column) {
  return t->columns[tg__table_column_index(t, column)].reals[row];
}

struct tg__str tg__fact_text(const struct tg_table *t, size_t row, const char *column) {
  const uint32_t id = t->columns[tg__table_column_index(t, column)].texts[row];
  return id == TG_NONE ? TG_STR("") : tg__strings_get(t->strings, id);
}
