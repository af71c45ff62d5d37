/* ask_ranks: a question about several ranks in memory is answered rank by rank and joined, as one about ranks that
 * are read one after the other is: so one folder has one answer, whichever way it is read. */
#include "analyze/ask.h"

#include <stdio.h>
#include <stdlib.h>

bool tg__ask_is_of_ranks(const struct tg__columns *t, const struct tg__ask *a) {
  const bool of_all = tg__ask_is_all(tg__ask_arg(a, "rank")) &&
                      (!tg__ask_has_arg(a, "track") || tg__ask_is_all(tg__ask_arg(a, "track")));
  return t->rank_count > 1 && !t->summaries && of_all && tg__question_joins(a->question, a->args, a->arg_count);
}

/* Rows behind these will be cut off, whatever comes: only then may a rank leave some out. */
static size_t most_rows(const struct tg__ask *a) {
  const char *const limit = tg__ask_arg(a, "limit"), *const where = tg__ask_arg(a, "where"),
                    *const sort = tg__ask_arg(a, "sort");
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

static enum tg_err add_rank(struct tg__columns *t, uint32_t rank, const struct tg__ask *each, struct tg__joining *j,
                            struct tg_error *e) {
  struct tg_table *rows;
  struct tg_error why = {0};
  const enum tg_err err = tg__ask_rank(t, rank, each->question, each->args, each->arg_count, &rows, &why);
  if (err == TG_NO_DATA) tg__joining_miss(j, &why); /* others may have it */
  if (err == TG_NO_DATA) return TG_OK;
  if (err) return tg__fail(e, why.code, why.offset, "%s", why.text);
  return tg__joining_add(j, rows, rank)
             ? TG_OK
             : tg__fail(e, TG_MEMORY, -1, "out of memory while answering %s", each->question->name);
}

/* ---- files of one rank ----------------------------------------------------------------------- */

/* What a reader of the folder would call it. */
static struct tg__str name_below(const struct tg__columns *t, struct tg__str path) {
  const size_t len = t->path ? strlen(t->path) : 0;
  const bool below = len && path.len > len && memcmp(path.ptr, t->path, len) == 0 &&
                     (path.ptr[len] == '/' || path.ptr[len - 1] == '/');
  const uint32_t skip = below ? (uint32_t)len + (path.ptr[len] == '/') : 0;
  return (struct tg__str){path.ptr + skip, path.len - skip};
}

/* The smallest number that several files say is theirs, of all or of one; TG_NULL_INT: none. *more: how many numbers
 * there are beside it. */
static int64_t find_twins(const struct tg__columns *t, int64_t rank, int64_t *more) {
  struct tg__map times = {0};
  int64_t least = TG_NULL_INT;
  *more = -1;
  for (uint32_t r = 0; r < t->rank_count; r++) {
    const int64_t number = t->ranks[r].number;
    if (!t->ranks[r].number_is_given || (rank != TG_NULL_INT && number != rank)) continue;
    uint32_t *const seen = tg__map_slot(&times, (uint64_t)number, 0);
    if (!seen) break; /* no memory: what follows will say so */
    if (++*seen != 2) continue;
    ++*more;
    if (least == TG_NULL_INT || number < least) least = number;
  }
  tg__map_free(&times);
  return least;
}

int64_t tg__twin_rank(const struct tg__columns *t) {
  int64_t more;
  return find_twins(t, TG_NULL_INT, &more);
}

void tg__table_note_twins(struct tg_table *out, const struct tg__columns *t, const char *side, int64_t rank) {
  enum { MOST = 4 };
  int64_t more;
  const int64_t number = find_twins(t, rank, &more);
  struct tg__out files = {0};
  unsigned count = 0;
  for (uint32_t r = 0; number != TG_NULL_INT && r < t->rank_count; r++) {
    if (t->ranks[r].number != number || ++count > MOST) continue;
    const struct tg__str name = name_below(t, tg__name(t, t->ranks[r].path));
    tg__out_format(&files, "%s%.*s", count > 1 ? ", " : "", (int)name.len, name.ptr);
  }
  char others[64] = "";
  if (more > 0)
    snprintf(others, sizeof others, " (so it is with %lld more rank%s)", (long long)more, more == 1 ? "" : "s");
  tg__out_text(&files, count > MOST ? ", \u2026" : "");
  tg__out_char(&files, 0);
  if (files.err)
    out->failed = true;
  else if (count)
    tg__table_note(out, "%s%u files say that they are rank %lld%s, and %s: %s", side, count, (long long)number, others,
                   rank == TG_NULL_INT ? "each is counted as a rank of its own" : "this is the first of them alone",
                   files.buf);
  tg__out_free(&files);
}

/* ---- joining --------------------------------------------------------------------------------- */

/* What no single rank says. */
static enum tg_err settle(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *rows,
                          struct tg_error *e) {
  tg__merged_fn *const merged = tg__question_hooks(a->question)->merged;
  const struct tg__ranks_view view = tg__ranks_view_of(t);
  tg__table_add_skipped_files(rows, t);
  tg__table_note_twins(rows, t, "", TG_NULL_INT);
  const enum tg_err err = merged ? merged(&view, rows, e) : TG_OK;
  if (err || !rows->failed) return err;
  return tg__fail(e, TG_MEMORY, -1, "out of memory while answering %s", a->question->name);
}

static enum tg_err join(struct tg__columns *t, const struct tg__ask *a, const struct tg__ask *each, int64_t *numbers,
                        struct tg__joining *j, struct tg_table **out, struct tg_error *e) {
  enum tg_err err = TG_OK;
  for (uint32_t r = 0; r < t->rank_count && !err; r++) {
    numbers[r] = t->ranks[r].number;
    err = add_rank(t, r, each, j, e);
  }
  if (!err) err = tg__joining_end(j, numbers, out, e);
  if (!err) err = settle(t, a, *out, e);
  return err ? err : tg__ask_finish(a->question, *out, a->args, a->arg_count, e);
}

enum tg_err tg__ask_ranks(struct tg__columns *t, const struct tg__ask *a, struct tg_table **out, struct tg_error *e) {
  struct tg_arg *const args = tg__alloc((a->arg_count + 1) * sizeof *args);
  int64_t *const numbers = tg__alloc((t->rank_count + 1) * sizeof *numbers);
  struct tg__joining *const j = tg__joining_new(a->question, a->args, a->arg_count, most_rows(a));
  enum tg_err err =
      args && numbers && j ? TG_OK : tg__fail(e, TG_MEMORY, -1, "out of memory while answering %s", a->question->name);
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
