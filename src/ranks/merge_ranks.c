/* merge_ranks: the answer about all ranks, put together of answers about one each. */
#include "ranks/ranks.h"

/* ---- arguments ------------------------------------------------------------------------------- */

/* Rows behind the first most_rows of a rank are cut off, unless only the end decides which rows there are. */
struct tg__call tg__call_of_each(const struct tg__call *c, bool needs_all_rows, struct tg_arg *args) {
  const size_t most = needs_all_rows ? SIZE_MAX : c->most_rows;
  struct tg__call each = {.question = c->question, .args = args, .limit = most, .most_rows = most};
  for (size_t i = 0; i < c->count; i++)
    if (!tg__is_for_all_ranks(c->args[i].name)) args[each.count++] = c->args[i];
  return each;
}

/* ---- merging --------------------------------------------------------------------------------- */

bool tg__merging_begin(struct tg__merging *m, const struct tg__call *c, size_t most) {
  *m = (struct tg__merging){.call = *c};
  m->joining = tg__joining_new(c->question, c->args, c->count, most);
  m->args = tg__alloc((c->count + 1) * sizeof *m->args);
  if (!m->joining || !m->args) return false;
  m->each = tg__call_of_each(c, tg__joining_needs_all_rows(m->joining), m->args);
  return true;
}

void tg__merging_end(struct tg__merging *m) {
  tg__joining_free(m->joining);
  tg__free(m->args);
}

enum tg_err tg__merging_add(struct tg__merging *m, struct tg_table *rows, const struct tg_error *why, bool choose,
                            size_t who, struct tg_error *e) {
  const char *const where = choose && !tg__joining_needs_all_rows(m->joining) && tg__call_has(&m->call, "where")
                                ? tg__call_value(&m->call, "where")
                                : NULL;
  if (!rows) tg__joining_add_missing(m->joining, why); /* others may have it */
  if (!rows) return TG_OK;
  const enum tg_err err = where ? tg__where_filter(rows, where, e) : TG_OK;
  if (err) tg__table_free(rows);
  if (err) return err;
  if (tg__joining_add(m->joining, rows, who)) return TG_OK;
  return tg__no_memory(e, "answering %s", m->call.question->name);
}

enum tg_err tg__merged(const struct tg__rank_source *s, const struct tg__call *c, struct tg_table *rows,
                       struct tg_error *e) {
  tg__merged_fn *const merged = tg__question_hooks(c->question)->merged;
  struct tg__rank_source ranks = *s;
  ranks.is_one = tg__call_has(c, "rank");
  const enum tg_err err = merged ? merged(&ranks, rows, e) : TG_OK;
  if (err || !rows->failed) return err;
  return tg__no_memory(e, "answering %s", c->question->name);
}

void tg__add_losses_of_all(const struct tg__columns *t, struct tg_table *out) {
  tg__table_add_skipped_files(out, t);
  tg__table_note_duplicate_ranks(out, t, "", TG_NULL_INT);
}

/* ---- all ranks, one after the other ---------------------------------------------------------- */

struct work {
  struct tg__merging merging;
  const struct tg__rank_source *ranks;
  int64_t *numbers;
};

static enum tg_err add_rank(void *ctx, uint32_t i, struct tg__columns *t, uint32_t rank, struct tg_error *e) {
  struct work *const w = ctx;
  struct tg__merging *const m = &w->merging;
  struct tg_table *rows = NULL;
  struct tg_error why = {0};
  w->numbers[i] = w->ranks->number(w->ranks, i);
  const enum tg_err err = tg__ask_rank(t, &w->ranks->job, rank, &m->each, &rows, &why);
  if (err && err != TG_NO_DATA) return tg__fail(e, why.code, why.offset, "%s", why.text);
  if (rows) tg__renumber_rank_rows(tg__rank_folder_of(w->ranks), i, &m->call, rows);
  return tg__merging_add(m, rows, &why, true, i, e);
}

/* Rows that are one row of several ranks, or that only the end decides on, are chosen at the end. */
enum tg_err tg__ranks_merge(const struct tg__rank_source *s, const struct tg__call *c, struct tg_table **out,
                            struct tg_error *e) {
  struct work w = {.ranks = s, .numbers = tg__alloc(((size_t)s->count + 1) * sizeof *w.numbers)};
  enum tg_err err = TG_OK;
  if (!tg__merging_begin(&w.merging, c, c->most_rows) || !w.numbers)
    err = tg__no_memory(e, "answering %s", c->question->name);
  if (!err) err = tg__ranks_each(s, add_rank, &w, e);
  if (!err) err = tg__joining_end(w.merging.joining, w.numbers, out, e);
  if (!err) tg__add_losses_of_all(s->t, *out);
  if (!err) err = tg__merged(s, c, *out, e);
  tg__merging_end(&w.merging);
  tg__free(w.numbers);
  return err;
}
