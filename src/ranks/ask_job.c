/* ask_job: a question to a trace, whichever way its ranks are read: about all of them, one after the other; about one
 * alone; or about all of them in memory at once. */
#include "ranks/ranks.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- numbers of tracks, slices and marks in a run of files -------------------------------------- */

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

/* The first rank of the same file: tracks and slices of the file are counted from there. */
static const struct tg__job_rank *first_of_file(const struct tg__job_ranks *ranks, const struct tg__job_rank *r) {
  while (r > ranks->items && r->of_unit > 0 && r[-1].unit == r->unit) r--;
  return r;
}

/* The rank that has this track or slice of the run, or NULL; *own: what its file calls it. */
static const struct tg__job_rank *owner_of(const struct tg__job_ranks *ranks, const char *number, bool is_track,
                                           int64_t *own) {
  char *end;
  const long long n = strtoll(number, &end, 10);
  for (size_t i = 0; *number && *end == 0 && i < ranks->count; i++) {
    const struct tg__job_rank *const r = &ranks->items[i], *const file = first_of_file(ranks, r);
    const int64_t first = is_track ? r->first_track : r->first_slice, count = is_track ? r->tracks : r->slices;
    *own = n - (is_track ? file->first_track : file->first_slice);
    if (n >= first && n < first + count) return r;
  }
  return NULL;
}

/* The argument that names something by its number in the run: track= or event=. NULL: there is none. */
static const char *numbered_argument(const struct tg__call *c) {
  return tg__call_has(c, "track") ? "track" : tg__call_has(c, "event") ? "event" : NULL;
}

void tg__renumber_rank_rows(const struct tg__rank_folder *run, size_t i, const struct tg__call *c,
                            struct tg_table *rows) {
  if (run) tg__renumber_rows(rows, c, first_of_file(&run->ranks, &run->ranks.items[i]));
}

/* ---- one rank of a run of files ----------------------------------------------------------------- */

const struct tg__job_rank *tg__job_rank_of(const struct tg__job_ranks *ranks, const char *number) {
  char *end;
  const long long n = strtoll(number, &end, 10);
  for (size_t i = 0; *end == 0 && i < ranks->count; i++)
    if (ranks->items[i].number == n) return &ranks->items[i];
  return NULL;
}

/* Which one rank is it about, if any: that of rank=, or of the track or slice; *of_all: only all of them
 * together can say. */
static const struct tg__job_rank *asked_rank(const struct tg__job_ranks *ranks, const struct tg__call *c,
                                             bool *of_all) {
  const char *const numbered = numbered_argument(c);
  const struct tg__job_rank *const r =
      tg__call_has(c, "rank") ? tg__job_rank_of(ranks, tg__call_value(c, "rank")) : NULL;
  int64_t own;
  *of_all = tg__question_needs_all(c->question, c->args, c->count);
  if (!numbered || *of_all) return r;
  const struct tg__job_rank *const owner =
      owner_of(ranks, tg__call_value(c, numbered), strcmp(numbered, "track") == 0, &own);
  *of_all = !owner || (tg__call_has(c, "rank") && owner != r);
  return owner;
}

/* Rows of the rank as the run numbers them; neither chosen nor sorted. */
static enum tg_err ask_file(const struct tg_trace *run, const struct tg__job_rank *r, const struct tg__call *c,
                            struct tg_table **out, struct tg_error *e) {
  struct tg__columns *t = NULL;
  char number[24], own_number[24];
  int64_t own = 0;
  const char *const numbered = numbered_argument(c);
  struct tg_arg *const args = tg__alloc((c->count + 2) * sizeof *args);
  if (!args) return tg__no_memory(e, "asking a rank");
  struct tg__call each = tg__call_of_each(c, c->question->merge == TG__MERGE_LATE, args);
  if (numbered) (void)owner_of(&run->run->ranks, tg__call_value(c, numbered), strcmp(numbered, "track") == 0, &own);
  snprintf(own_number, sizeof own_number, "%lld", (long long)own);
  for (size_t i = 0; i < each.count; i++)
    if (numbered && strcmp(args[i].name, numbered) == 0) args[i].value = own_number;
  snprintf(number, sizeof number, "%lld", (long long)r->number);
  args[each.count++] = (struct tg_arg){"rank", number};
  enum tg_err err = tg__rank_folder_file(run, r->unit, &t, e);
  if (!err) err = tg__ask_rank(t, &run->run->job, TG_NONE, &each, out, e);
  tg__rank_folder_drop_caches(run->run, r->unit);
  tg__free(args);
  if (!err) tg__renumber_rank_rows(run->run, (size_t)(r - run->run->ranks.items), c, *out);
  return err;
}

static enum tg_err ask_one(struct tg_trace *t, const struct tg__job_rank *r, const struct tg__call *c,
                           struct tg_table **out, struct tg_error *e) {
  const struct tg__rank_source ranks = tg__ranks_of(t);
  const enum tg_err err = ask_file(t, r, c, out, e);
  if (err) return err;
  if (tg__call_has(c, "rank"))
    tg__table_note_duplicate_ranks(*out, t->columns, "", r->number);
  else
    tg__add_losses_of_all(t->columns, *out);
  return tg__merged(&ranks, c, *out, e);
}

/* ---- what was asked while the ranks were read --------------------------------------------------- */

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

/* ---- a question ------------------------------------------------------------------------------ */

static bool is_of_all(const struct tg__call *c) {
  return !tg__call_has(c, "rank") && !tg__call_has(c, "track") && tg__question_joins(c->question, c->args, c->count);
}

/* Rows of ranks that are in files, as far as they can be had without all ranks in memory. *whole: they cannot. */
static enum tg_err ask_files(struct tg_trace *t, const struct tg__call *c, bool *whole, struct tg_table **out,
                             struct tg_error *e) {
  const struct tg__job_ranks *const ranks = &t->run->ranks;
  const struct tg__rank_source source = tg__ranks_of(t);
  bool of_all;
  const struct tg__job_rank *const r = asked_rank(ranks, c, &of_all);
  const unsigned ready = ready_answer(ranks, c);
  *whole = false;
  if (r && !of_all) return ask_one(t, r, c, out, e);
  if (ready < TG__READY_COUNT) return take_ready(ranks, ready, out, e);
  if (!of_all && is_of_all(c)) return tg__ranks_merge(&source, c, out, e);
  *whole = true;
  return TG_OK;
}

/* What no rank in a file has to be asked for. */
static bool is_plain(const struct tg__rank_folder *run, const struct tg__call *c) {
  bool of_all;
  return tg__summaries_answer(c->question, c->args, c->count) ||
         (tg__call_has(c, "rank") && !asked_rank(&run->ranks, c, &of_all) && !of_all);
}

/* The last steps of an answer that was put together. */
static enum tg_err finish(enum tg_err err, const struct tg__call *c, struct tg_table **out, struct tg_error *e) {
  if (!err) err = tg__ask_finish(c, *out, e);
  if (!err) return TG_OK;
  tg__table_free(*out);
  *out = NULL;
  return err;
}

enum tg_err tg__part_ask(struct tg__columns *t, const struct tg__job_info *job, const struct tg__call *c,
                         struct tg_table **out, struct tg_error *e) {
  *out = NULL;
  if (t->rank_count < 2 || job->summaries || !is_of_all(c)) return tg__ask_rank(t, job, TG_NONE, c, out, e);
  struct tg__rank_source source = tg__ranks_in_memory(t);
  source.job = *job;
  return finish(tg__ranks_merge(&source, c, out, e), c, out, e);
}

enum tg_err tg__ask(struct tg_trace *t, const char *question, const struct tg_arg *args, size_t arg_count,
                    struct tg_table **out, struct tg_error *e) {
  struct tg__call c = {.question = tg__catalog_find(&tg__catalog, question), .args = args, .count = arg_count};
  struct tg__columns *columns = t->columns;
  struct tg__job_info job = {.summaries = t->summaries};
  bool whole = false;
  *out = NULL;
  if (!c.question) return tg__no_question(&tg__catalog, question, e);
  enum tg_err err = tg__call_check(&c, e);
  if (err) return err;
  if (!t->run) return tg__part_ask(columns, &job, &c, out, e);
  if (is_plain(t->run, &c)) return tg__ask_rank(columns, &job, TG_NONE, &c, out, e);
  if (!t->run->whole) err = ask_files(t, &c, &whole, out, e);
  if (!t->run->whole && !whole) return finish(err, &c, out, e);
  job.summaries = NULL;
  err = tg__load_all_ranks(t, &columns, e);
  return err ? err : tg__part_ask(columns, &job, &c, out, e);
}
