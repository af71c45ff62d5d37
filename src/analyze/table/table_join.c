/* table_join: rows of one table behind those of another that answers the same question of another trace. */
#include "analyze/analyze.h"

static bool add_texts(struct tg_table *to, const struct tg_table *from, uint32_t *ids) {
  const uint32_t count = tg__strings_count(from->strings);
  for (uint32_t i = 0; i < count; i++) {
    const struct tg__str s = tg__strings_get(from->strings, i);
    ids[i] = tg__strings_add(to->strings, s.ptr, s.len);
    if (ids[i] == TG_NONE) return false;
  }
  return true;
}

static bool add_rows(struct tg_table *to, const struct tg_table *from, const uint32_t *ids) {
  static const size_t widths[] = {
      [TG_TEXT] = sizeof(uint32_t), [TG_INT] = sizeof(int64_t), [TG_REAL] = sizeof(double), [TG_BOOL] = sizeof(int8_t)};
  if (from->rows == 0) return true;
  if (!tg__table_reserve(to, to->rows + from->rows)) return false;
  for (size_t c = 0; c < to->column_count; c++) {
    const struct tg__column *const source = &from->columns[c];
    struct tg__column *const target = &to->columns[c];
    const size_t width = widths[source->type];
    memcpy((char *)target->ints + to->rows * width, source->ints, from->rows * width);
    for (size_t i = 0; source->type == TG_TEXT && i < from->rows; i++)
      target->texts[to->rows + i] = source->texts[i] == TG_NONE ? TG_NONE : ids[source->texts[i]];
  }
  to->rows += from->rows;
  return true;
}

/* A note of both appears once; losses of one kind are added up. */
static bool add_remarks(struct tg_table *to, const struct tg_table *from) {
  for (size_t i = 0; i < from->note_count; i++) {
    bool again = false;
    for (size_t k = 0; k < to->note_count && !again; k++) again = strcmp(to->notes[k], from->notes[i]) == 0;
    if (!again) tg__table_note(to, "%s", from->notes[i]);
  }
  for (size_t i = 0; i < from->loss_count; i++) {
    size_t k = 0;
    while (k < to->loss_count && to->losses[k].name != from->losses[i].name) k++;
    if (k < to->loss_count) {
      to->losses[k].count += from->losses[i].count;
      continue;
    }
    struct tg__loss_row *const losses = tg__realloc(to->losses, (to->loss_count + 1) * sizeof *losses);
    if (!losses) return false;
    to->losses = losses;
    losses[to->loss_count++] = from->losses[i];
  }
  return !to->failed;
}

bool tg__table_append(struct tg_table *to, const struct tg_table *from) {
  uint32_t *const ids = tg__alloc(((size_t)tg__strings_count(from->strings) + 1) * sizeof *ids);
  bool done = ids && to->column_count == from->column_count;
  for (size_t c = 0; done && c < to->column_count; c++)
    done = to->columns[c].type == from->columns[c].type && strcmp(to->columns[c].name, from->columns[c].name) == 0;
  done = done && add_texts(to, from, ids) && add_rows(to, from, ids) && add_remarks(to, from);
  tg__free(ids);
  return done;
}

struct tg_table *tg__table_new_like(const struct tg_table *t) {
  struct tg_table *const like = tg__table_new(t->question);
  if (!like) return NULL;
  for (size_t c = 0; c < t->column_count; c++)
    tg__table_add_column_as(like, t->columns[c].name, t->columns[c].type, t->columns[c].unit, t->columns[c].role);
  like->is_tree = t->is_tree;
  if (!like->failed) return like;
  tg__table_free(like);
  return NULL;
}

struct tg_table *tg__table_copy(const struct tg_table *t) {
  struct tg_table *const copy = tg__table_new_like(t);
  if (!copy || tg__table_append(copy, t)) return copy;
  tg__table_free(copy);
  return NULL;
}
