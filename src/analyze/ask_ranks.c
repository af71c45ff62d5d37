/* ask_ranks: a question about several ranks in memory is answered rank by rank and joined, as one about ranks that are read one after the
 * other is: so one folder has one answer, whichever way it is read. */
#include "analyze/ask.h"

#include <stdio.h>
#include <stdlib.h>

bool tg__ask_is_of_ranks(const struct tg_trace *t, const struct tg__ask *a) {
  const bool of_all = tg__ask_is_all(tg__ask_arg(a, "rank")) && (!tg__ask_has_arg(a, "track") || tg__ask_is_all(tg__ask_arg(a, "track")));
  return t->rank_count > 1 && !t->summaries && of_all && tg__question_joins(a->question->name, a->args, a->arg_count);
}

/* Rows behind these will be cut off, whatever comes: only then may a rank leave some out. */
static size_t most_rows(const struct tg__ask *a) {
  const char *const limit = tg__ask_arg(a, "limit"), *const where = tg__ask_arg(a, "where"), *const sort = tg__ask_arg(a, "sort");
  char *end = NULL;
  const long long n = limit ? strtoll(limit, &end, 10) : -1;
  return limit && end > limit && *end == 0 && n >= 0 && !(where && *where) && !(sort && *sort) ? (size_t)n : SIZE_MAX;
}

/* What is not for all ranks together. */
static size_t arguments_of_each(const struct tg__ask *a, struct tg_arg *args) {
  size_t count = 0;
  for (size_t i = 0; i < a->arg_count; i++)
    if (!tg__is_for_all_ranks(a->args[i].name)) args[count++] = a->args[i];
  return count;
}

static enum tg_err add_rank(struct tg_trace *t, uint32_t rank, const struct tg__ask *each, struct tg__joining *j, struct tg_error *e) {
  struct tg_table *rows;
  struct tg_error why = {0};
  const enum tg_err err = tg__ask_rank(t, rank, each->question->name, each->args, each->arg_count, &rows, &why);
  if (err == TG_NO_DATA) tg__joining_miss(j, &why); /* others may have it */
  if (err == TG_NO_DATA) return TG_OK;
  if (err) return tg__fail(e, why.code, why.offset, "%s", why.text);
  return tg__joining_add(j, rows, rank) ? TG_OK : tg__fail(e, TG_MEMORY, -1, "out of memory while answering %s", each->question->name);
}

/* What no single rank says. */
static enum tg_err settle(const struct tg_trace *t, const struct tg__ask *a, struct tg_table *rows, struct tg_error *e) {
  tg__table_add_skipped_files(rows, t);
  if (strcmp(a->question->name, "losses") == 0) tg__put_skipped_files(t, rows);
  if (strcmp(a->question->name, "modules") == 0 && !tg__modules_settle(rows)) rows->failed = true;
  if (strcmp(a->question->name, "findings") == 0 && tg__findings_of_all(t, rows)) rows->failed = true;
  return rows->failed ? tg__fail(e, TG_MEMORY, -1, "out of memory while answering %s", a->question->name) : TG_OK;
}

static enum tg_err join(struct tg_trace *t, const struct tg__ask *a, const struct tg__ask *each, int64_t *numbers, struct tg__joining *j,
                        struct tg_table **out, struct tg_error *e) {
  enum tg_err err = TG_OK;
  for (uint32_t r = 0; r < t->rank_count && !err; r++) {
    numbers[r] = t->ranks[r].number;
    err = add_rank(t, r, each, j, e);
  }
  if (!err) err = tg__joining_end(j, numbers, out, e);
  if (!err) err = settle(t, a, *out, e);
  return err ? err : tg__ask_finish(*out, a->args, a->arg_count, e);
}

enum tg_err tg__ask_ranks(struct tg_trace *t, const struct tg__ask *a, struct tg_table **out, struct tg_error *e) {
  struct tg_arg *const args = tg__alloc((a->arg_count + 1) * sizeof *args);
  int64_t *const numbers = tg__alloc((t->rank_count + 1) * sizeof *numbers);
  struct tg__joining *const j = tg__joining_new(a->question->name, a->args, a->arg_count, most_rows(a));
  enum tg_err err = args && numbers && j ? TG_OK : tg__fail(e, TG_MEMORY, -1, "out of memory while answering %s", a->question->name);
  char limit[24];
  if (!err) {
    size_t count = arguments_of_each(a, args);
    snprintf(limit, sizeof limit, "%zu", most_rows(a));
    if (!tg__joining_is_late(j) && most_rows(a) < SIZE_MAX) args[count++] = (struct tg_arg){"limit", limit};
    const struct tg__ask each = {.question = a->question, .args = args, .arg_count = count};
    err = join(t, a, &each, numbers, j, out, e);
  }
  tg__joining_free(j);
  tg__free(numbers);
  tg__free(args);
  if (!err) return TG_OK;
  tg__table_free(*out);
  *out = NULL;
  return err;
}
