/* table_valid: the invariants of an answer, as code. Debug builds assert them of each table that leaves a question;
 * tests and fuzz targets call it. */
#include "analyze/analyze.h"

static bool cells_are_valid(const struct tg_table *t, const struct tg__column *c, struct tg_error *e) {
  const uint32_t texts = tg__strings_count(t->strings);
  for (size_t i = 0; i < t->rows; i++) {
    if (c->type == TG_TEXT)
      TG__CHECK(c->texts[i] == TG_NONE || c->texts[i] < texts, "table %s: %s of row %zu is a text that does not exist",
                t->question, c->name, i);
    if (c->type == TG_BOOL)
      TG__CHECK(c->bools[i] >= -1 && c->bools[i] <= 1, "table %s: %s of row %zu is neither true nor false nor unknown",
                t->question, c->name, i);
  }
  return true;
}

/* SQL may call two columns alike, or one by an empty text. */
static bool column_is_valid(const struct tg_table *t, size_t k, struct tg_error *e) {
  const struct tg__column *const c = &t->columns[k];
  TG__CHECK(c->name && c->unit, "table %s: column %zu has no name or no unit", t->question, k);
  TG__CHECK((unsigned)c->type <= TG_BOOL, "table %s: column %s has no type", t->question, c->name);
  if (c->is_left_out || t->rows == 0) return true;
  TG__CHECK(c->ints, "table %s: column %s has no cells", t->question, c->name);
  return cells_are_valid(t, c, e);
}

bool tg__table_is_valid(const struct tg_table *t, struct tg_error *e) {
  TG__CHECK(t->question && *t->question, "table: it does not say what it answers");
  TG__CHECK(t->references > 0, "table %s: it has no owner", t->question);
  TG__CHECK(!t->failed, "table %s: it ran out of memory", t->question);
  TG__CHECK(t->rows <= t->capacity, "table %s: %zu rows in room for %zu", t->question, t->rows, t->capacity);
  TG__CHECK(t->cell == 0, "table %s: its last row is not complete", t->question);
  TG__CHECK(t->column_count > 0 || t->rows == 0, "table %s: rows without columns", t->question);
  for (size_t k = 0; k < t->column_count; k++)
    if (!column_is_valid(t, k, e)) return false;
  for (size_t i = 0; i < t->note_count; i++) TG__CHECK(t->notes[i], "table %s: note %zu is no text", t->question, i);
  for (size_t i = 0; i < t->loss_count; i++)
    TG__CHECK(t->losses[i].name && t->losses[i].meaning && t->losses[i].count > 0, "table %s: loss %zu is not one",
              t->question, i);
  return tg__strings_is_valid(t->strings, e);
}
