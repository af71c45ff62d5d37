/* ask_trace: a question to a trace, whichever way its ranks are read: all of them, one after the other; one of them; or
 * all of them in memory at once. */
#include "ranks/merge_ranks.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- numbers of tracks, slices and marks in a job ------------------------------------------------ */

/* Offset of the numbers in this column when all ranks are numbered together; 0: other numbers. */
static int64_t offset_in_job(enum tg__role role, const struct tg__call *c, const struct tg__job_rank *r) {
  const char *const by = tg__call_value(c, "by");
  switch (role) {
  case TG__ROLE_TRACK:
    return r->first_track;
  case TG__ROLE_SLICE:
    return r->first_slice;
  case TG__ROLE_EVENT:
    return tg__rules_go_by_row(c->args, c->count) ? 0 : r->first_slice;
  case TG__ROLE_SLICE_OR_MARK:
    return by && strcmp(by, "mark") == 0 ? r->first_mark : r->first_slice;
  default:
    return 0;
  }
}

void tg__renumber_rows(struct tg_table *t, const struct tg__call *c, const struct tg__job_rank *first) {
  for (size_t k = 0; k < t->column_count; k++) {
    struct tg__column *const column = &t->columns[k];
    const int64_t by = column->type == TG_INT ? offset_in_job(column->role, c, first) : 0;
    for (size_t i = 0; by && i < t->rows; i++)
      if (column->ints[i] != TG_NULL_INT) column->ints[i] += by;
  }
}

/* ---- which ranks a call is about ----------------------------------------------------------------- */

struct target {
  const struct tg__job_rank *rank; /* NULL: of no single rank */
  const char *argument;            /* track, event, or NULL: what is named by its number in the job */
  int64_t own;                     /* number of that in the rank's file */
  bool is_of_all;                  /* only all ranks together can say */
};

/* The rank that has this track or slice of the job. */
static void find_owner(const struct tg__job_ranks *ranks, const char *number, struct target *out) {
  const bool is_track = strcmp(out->argument, "track") == 0;
  char *end;
  const long long n = strtoll(number, &end, 10);
  out->rank = NULL;
  for (size_t i = 0; *number && *end == 0 && i < ranks->count; i++) {
    const struct tg__job_rank *const r = &ranks->items[i], *const file = tg__first_of_file(ranks, i);
    const int64_t first = is_track ? r->first_track : r->first_slice, count = is_track ? r->tracks : r->slices;
    if (n < first || n >= first + count) continue;
    out->rank = r;
    out->own = n - (is_track ? file->first_track : file->first_slice);
    return;
  }
}

static struct target target_of(const struct tg__job_ranks *ranks, const struct tg__call *c) {
  const struct tg__job_rank *const named =
      tg__call_has(c, "rank") ? tg__job_rank_of(ranks, tg__call_value(c, "rank")) : NULL;
  struct target t = {.rank = named, .is_of_all = tg__question_needs_all(c->question, c->args, c->count)};
  if (t.is_of_all) return t;
  t.argument = tg__call_has(c, "track") ? "track" : tg__call_has(c, "event") ? "event" : NULL;
  if (!t.argument) return t;
  find_owner(ranks, tg__call_value(c, t.argument), &t);
  t.is_of_all = !t.rank || (tg__call_has(c, "rank") && t.rank != named);
  return t;
}

/* No rank in a file has to be asked: what is known of them all answers it, or says why there is no answer. */
static bool is_known(const struct target *target, const struct tg__call *c) {
  return tg__summaries_answer(c->question, c->args, c->count) ||
         (tg__call_has(c, "rank") && !target->rank && !target->is_of_all);
}

static bool is_of_each(const struct tg__call *c) {
  return !tg__call_has(c, "rank") && !tg__call_has(c, "track") && tg__question_joins(c->question, c->args, c->count);
}

/* ---- one rank of a folder ------------------------------------------------------------------------ */

/* Rows of the rank, numbered as in the job; neither chosen nor sorted. */
static enum tg_err ask_file(const struct tg_trace *job, const struct target *target, const struct tg__call *c,
                            struct tg_table **out, struct tg_error *e) {
  const struct tg__job_rank *const r = target->rank;
  struct tg__columns *t = NULL;
  char rank[24], own[24];
  struct tg_arg *const args = tg__alloc((c->count + 2) * sizeof *args);
  if (!args) return tg__no_memory(e, "asking a rank");
  struct tg__call each = tg__call_of_each(c, c->question->merge == TG__MERGE_LATE, args);
  snprintf(own, sizeof own, "%lld", (long long)target->own);
  for (size_t i = 0; i < each.count; i++)
    if (target->argument && strcmp(args[i].name, target->argument) == 0) args[i].value = own;
  snprintf(rank, sizeof rank, "%lld", (long long)r->rank);
  args[each.count++] = (struct tg_arg){"rank", rank};
  enum tg_err err = tg__rank_folder_file(job, r->file_index, &t, e);
  if (!err) err = tg__ask_rank(t, &job->folder->job, TG_NONE, &each, out, e);
  if (t) tg__cache_drop(t);
  tg__free(args);
  if (err) return err;
  tg__renumber_rows(*out, c, tg__first_of_file(&job->folder->ranks, (size_t)(r - job->folder->ranks.items)));
  if (tg__call_has(c, "rank"))
    tg__table_note_duplicate_ranks(*out, job->columns, "", r->rank);
  else
    tg__add_losses_of_all(job->columns, *out);
  return TG_OK;
}

/* ---- what was asked while the ranks were read ---------------------------------------------------- */

/* Which of the answers that are there is this one? TG__READY_COUNT: none. */
static unsigned ready_answer(const struct tg__job_ranks *ranks, const struct tg__call *c) {
  unsigned i = ranks->has_ready ? 0 : TG__READY_COUNT;
  for (; i < TG__READY_COUNT; i++) {
    const char *const by = tg__ready[i].by, *const asked = tg__call_value(c, "by");
    const bool has_by = *by ? asked && strcmp(asked, by) == 0 : !asked;
    if (c->question == tg__ready[i].question && has_by && !tg__call_has(c, "step") && !tg__call_has(c, "rank")) break;
  }
  return i;
}

static enum tg_err take_ready(const struct tg__job_ranks *ranks, unsigned which, struct tg_table **out,
                              struct tg_error *e) {
  const struct tg_error *const why = &ranks->why_not[which];
  if (!ranks->ready[which]) return tg__fail(e, why->code ? why->code : TG_NO_DATA, why->offset, "%s", why->text);
  *out = tg__table_copy(ranks->ready[which]);
  return *out ? TG_OK : tg__no_memory(e, "answering %s", tg__ready[which].question->name);
}

/* ---- a question -------------------------------------------------------------------------------- */

/* The last steps of an answer that was put together. */
static enum tg_err finish(enum tg_err err, const struct tg__call *c, struct tg_table **out, struct tg_error *e) {
  if (!err) err = tg__ask_finish(c, *out, e);
  if (!err) return TG_OK;
  tg__table_free(*out);
  *out = NULL;
  return err;
}

static enum tg_err ask_columns(struct tg_trace *t, const struct tg__call *c, struct tg_table **out,
                               struct tg_error *e) {
  const struct tg__job_info job = {.summaries = t->summaries};
  if (t->folder || t->summaries || t->columns->rank_count < 2 || !is_of_each(c))
    return tg__ask_rank(t->columns, &job, TG_NONE, c, out, e);
  return finish(tg__ranks_merge(t, c, out, e), c, out, e);
}

/* As far as it can be answered without all ranks in memory. *needs_all: it cannot. */
static enum tg_err ask_folder(struct tg_trace *t, const struct tg__call *c, bool *needs_all, struct tg_table **out,
                              struct tg_error *e) {
  const struct tg__job_ranks *const ranks = &t->folder->ranks;
  const struct target target = target_of(ranks, c);
  const unsigned ready = ready_answer(ranks, c);
  enum tg_err err = TG_OK;
  if (is_known(&target, c)) return ask_columns(t, c, out, e);
  *needs_all = t->folder->whole || target.is_of_all || (!target.rank && ready == TG__READY_COUNT && !is_of_each(c));
  if (*needs_all) return TG_OK;
  if (target.rank) {
    err = ask_file(t, &target, c, out, e);
    if (!err) err = tg__merged(t, c, *out, e);
  } else {
    err = ready < TG__READY_COUNT ? take_ready(ranks, ready, out, e) : tg__ranks_merge(t, c, out, e);
  }
  return finish(err, c, out, e);
}

enum tg_err tg__ask(struct tg_trace *t, const char *question, const struct tg_arg *args, size_t arg_count,
                    struct tg_table **out, struct tg_error *e) {
  struct tg__call c = {.question = tg__catalog_find(&tg__catalog, question), .args = args, .count = arg_count};
  struct tg_trace all = {NULL};
  bool needs_all = false;
  *out = NULL;
  if (!c.question) return tg__no_question(&tg__catalog, question, e);
  enum tg_err err = tg__call_check(&c, e);
  if (err) return err;
  if (!t->folder) return ask_columns(t, &c, out, e);
  err = ask_folder(t, &c, &needs_all, out, e);
  if (err || !needs_all) return err;
  err = tg__load_all_ranks(t, &all.columns, e);
  return err ? err : ask_columns(&all, &c, out, e);
}
