/* merge_ranks: the answer about all ranks, put together of answers about one each. */
#include "ranks/merge_ranks.h"

/* ---- what a rank is asked ---------------------------------------------------------------------- */

/* Rows behind the first most_rows of a rank are cut off, unless only the end decides which rows there are. */
struct tg__call tg__call_of_each(const struct tg__call *c, bool needs_all_rows, struct tg_arg *args) {
  const size_t most = needs_all_rows ? SIZE_MAX : c->most_rows;
  struct tg__call each = {.question = c->question, .args = args, .limit = most, .most_rows = most};
  for (size_t i = 0; i < c->count; i++)
    if (!tg__is_for_all_ranks(c->args[i].name)) args[each.count++] = c->args[i];
  return each;
}

bool tg__answering_begin(struct tg__answering *a, const struct tg__call *c, bool is_single, size_t most,
                         size_t file_count) {
  *a = (struct tg__answering){.call = *c, .each = *c, .is_single = is_single, .file_count = file_count};
  a->join = is_single ? NULL : tg__rank_join_new(c->question, c->args, c->count, most);
  a->args = tg__alloc((c->count + 1) * sizeof *a->args);
  a->files = tg__alloc((file_count + 1) * sizeof *a->files);
  if (!a->args || !a->files || (!is_single && !a->join)) return false;
  if (is_single) return true;
  a->each = tg__call_of_each(c, tg__rank_join_needs_all_rows(a->join), a->args);
  return true;
}

static void free_file(struct tg__answered *f) {
  for (uint32_t k = 0; k < f->count; k++) tg__table_free(f->got[k].rows);
  tg__free(f->got);
  f->got = NULL;
  f->count = 0;
}

void tg__answering_free(struct tg__answering *a) {
  for (size_t i = 0; a->files && i < a->file_count; i++) free_file(&a->files[i]);
  tg__free(a->files);
  tg__free(a->args);
  tg__rank_join_free(a->join);
}

/* ---- the observer ------------------------------------------------------------------------------ */

static enum tg_err see_ranks(void *ctx, const struct tg__seen *s, struct tg_error *e) {
  struct tg__answering *const a = ctx;
  struct tg__answered *const f = &a->files[s->i];
  if (!s->count) return TG_OK;
  f->got = tg__alloc(((size_t)s->count + 1) * sizeof *f->got);
  if (!f->got) return tg__no_memory(e, "answering %s", a->call.question->name);
  if (a->is_first) tg__cache_drop(s->columns); /* what other questions derived comes on top of this one's */
  for (f->count = 0; f->count < s->count; f->count++) {
    struct tg__got *const got = &f->got[f->count];
    const uint32_t rank = a->is_single ? TG_NONE : s->first + f->count;
    const enum tg_err err = tg__ask_rank(s->columns, &a->job, rank, &a->each, &got->rows, &got->why);
    if (err && (err != TG_NO_DATA || a->is_single)) return tg__fail(e, err, got->why.offset, "%s", got->why.text);
  }
  return TG_OK;
}

/* Rows may be chosen before all ranks are there, unless they become one with others or are chosen by what is only
 * known at the end: what ranks are called, and when the first began. */
static const char *where_now(const struct tg__answering *a, const struct tg_table *rows) {
  if (!tg__call_has(&a->call, "where") || tg__rank_join_needs_all_rows(a->join)) return NULL;
  const char *const where = tg__call_value(&a->call, "where");
  for (size_t c = 0; a->is_first && c < rows->column_count; c++) {
    const enum tg__role role = rows->columns[c].role;
    if ((role == TG__ROLE_RANK || role == TG__ROLE_SINCE_FIRST) && strstr(where, rows->columns[c].name)) return NULL;
  }
  return where;
}

/* Until all ranks are known, rows of rank i have i in place of its number in the job. */
static void set_ranks(struct tg_table *rows, size_t i) {
  const size_t c = tg__table_role_index(rows, TG__ROLE_RANK);
  for (size_t k = 0; c != SIZE_MAX && k < rows->rows; k++)
    if (rows->columns[c].ints[k] != TG_NULL_INT) rows->columns[c].ints[k] = (int64_t)i;
}

static enum tg_err add_rank(struct tg__answering *a, struct tg__got *got, struct tg_error *e) {
  struct tg_table *const rows = got->rows;
  const size_t i = a->asked++;
  got->rows = NULL;
  if (!rows) tg__rank_join_add_missing(a->join, &got->why); /* others may have it */
  if (!rows) return TG_OK;
  if (a->ranks) tg__renumber_rows(rows, &a->call, tg__first_of_file(a->ranks, i));
  if (a->is_first) set_ranks(rows, i);
  const char *const where = where_now(a, rows);
  const enum tg_err err = where ? tg__where_filter(rows, where, e) : TG_OK;
  if (err) tg__table_free(rows);
  if (err) return err;
  if (tg__rank_join_add(a->join, rows, i)) return TG_OK;
  return tg__no_memory(e, "answering %s", a->call.question->name);
}

static enum tg_err take_rows(void *ctx, size_t i, const struct tg_error *why, struct tg_error *e) {
  struct tg__answering *const a = ctx;
  struct tg__answered *const f = &a->files[i];
  enum tg_err err = TG_OK;
  if (a->is_single) return TG_OK; /* they stay where they are */
  if (why && !a->is_first) err = tg__fail(e, why->code, why->offset, "%s", why->text);
  for (uint32_t k = 0; !why && !err && k < f->count; k++) err = add_rank(a, &f->got[k], e);
  free_file(f);
  return err;
}

struct tg__observer tg__answering_observer(struct tg__answering *a) {
  return (struct tg__observer){a, see_ranks, take_rows};
}

/* The numbers of ranks in the job, and microseconds from the first start of them all in place of each file's own. */
static void name_ranks(const struct tg__answering *a, struct tg_table *t) {
  const size_t c = t ? tg__table_role_index(t, TG__ROLE_RANK) : SIZE_MAX,
               us = t ? tg__table_role_index(t, TG__ROLE_SINCE_FIRST) : SIZE_MAX;
  for (size_t i = 0; c != SIZE_MAX && i < t->rows; i++)
    if (t->columns[c].ints[i] != TG_NULL_INT) t->columns[c].ints[i] = a->ranks->items[t->columns[c].ints[i]].rank;
  if (us == SIZE_MAX) return;
  const int64_t origin = tg__job_first_ns(a->known, a->ranks);
  const int64_t *const start = t->columns[tg__table_role_index(t, TG__ROLE_INSTANT)].ints, *const rank =
                                                                                               t->columns[c].ints;
  int64_t last = TG_NULL_INT, offset = 0;
  for (size_t i = 0; i < t->rows; i++) {
    if (rank[i] != last) offset = tg__job_clock_offset(a->known, rank[i]);
    last = rank[i];
    if (start[i] != TG_NULL_INT) t->columns[us].reals[i] = tg__us_of(start[i] + offset - origin);
  }
}

enum tg_err tg__answering_end(struct tg__answering *a, struct tg_table **out, struct tg_error *e) {
  if (a->is_single) {
    *out = a->files[0].got[0].rows;
    a->files[0].got[0].rows = NULL;
    return TG_OK;
  }
  int64_t *const numbers = tg__alloc((a->asked + 1) * sizeof *numbers);
  if (!numbers) return tg__no_memory(e, "answering %s", a->call.question->name);
  for (size_t i = 0; i < a->asked; i++) numbers[i] = a->ranks ? a->ranks->items[i].rank : a->known->ranks[i].number;
  if (a->is_first) name_ranks(a, tg__rank_join_rows(a->join));
  const enum tg_err err = tg__rank_join_end(a->join, numbers, out, e);
  tg__free(numbers);
  if (!err) tg__add_losses_of_all(a->known, *out);
  return err;
}

/* ---- all ranks --------------------------------------------------------------------------------- */

void tg__add_losses_of_all(const struct tg__columns *t, struct tg_table *out) {
  tg__table_add_skipped_files(out, t);
  tg__table_note_duplicate_ranks(out, t, "", TG_NULL_INT);
}

enum tg_err tg__merge_between_ranks(struct tg_trace *t, const struct tg__call *c, struct tg_table *rows,
                                    struct tg_error *e) {
  tg__merged_fn *const merged = tg__question_hooks(c->question)->merged;
  struct tg__rank_source ranks = (t->folder ? &tg__in_folder : &tg__in_memory)->source;
  ranks.trace = t;
  ranks.t = t->columns;
  ranks.count = t->folder ? (uint32_t)t->folder->ranks.count : t->columns->rank_count;
  ranks.is_one = tg__call_has(c, "rank");
  const enum tg_err err = merged ? merged(&ranks, rows, e) : TG_OK;
  if (err || !rows->failed) return err;
  return tg__no_memory(e, "answering %s", c->question->name);
}
