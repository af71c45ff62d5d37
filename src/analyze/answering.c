/* answering: a call becomes a table: its needs, the question, then where=, sort= and limit=. */
#include "analyze/answering.h"
#include "analyze/compat/compat.h"

#include <assert.h>
#include <stdio.h>

/* ---- losses and notes ------------------------------------------------------------------------ */

static void add_loss(struct tg_table *out, enum tg__loss which, int64_t count, int64_t offset) {
  struct tg__loss_row *const losses = tg__realloc(out->losses, (out->loss_count + 1) * sizeof *losses);
  if (!losses) {
    out->failed = true;
    return;
  }
  out->losses = losses;
  losses[out->loss_count++] =
      (struct tg__loss_row){tg__loss_info[which].name, tg__loss_info[which].meaning, count, offset};
}

void tg__table_add_skipped_files(struct tg_table *out, const struct tg__columns *t) {
  const struct tg__rank *const first = &t->ranks[0];
  if (first->loss[TG__LOSS_skipped_file])
    add_loss(out, TG__LOSS_skipped_file, first->loss[TG__LOSS_skipped_file], first->loss_offset[TG__LOSS_skipped_file]);
}

void tg__table_add_losses(struct tg_table *out, const struct tg__columns *t, const struct tg__ask *a) {
  for (int k = 0; k < TG__LOSS_COUNT; k++) {
    int64_t count = 0, offset = -1;
    if (k == TG__LOSS_skipped_file && a->rank != TG_NONE && t->rank_count > 1) continue; /* it is of no rank */
    for (uint32_t r = 0; r < t->rank_count; r++) {
      if (!tg__ask_has_rank(a, r) || t->ranks[r].loss[k] == 0) continue;
      if (count == 0) offset = t->ranks[r].loss_offset[k];
      count += t->ranks[r].loss[k];
    }
    if (count) add_loss(out, (enum tg__loss)k, count, offset);
  }
}

static void note_unlaunched(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out) {
  if (!a->has_steps || a->question->steps != TG__STEPS_BY_LAUNCH) return;
  int64_t without = 0;
  for (uint32_t k = 0; k < t->track_count; k++) {
    if (!tg__ask_has_track(a, t, k)) continue;
    TG__EACH (i, tg__slices_of(&t->tracks[k]))
      without += t->slices.cause[i] == TG_NONE && tg__class_is_device_work(tg__slice_class(t, i));
  }
  if (without > 0)
    tg__table_note(out, "%lld device events have no known launch, so they belong to no step and are left out here",
                   (long long)without);
}

/* Why there are no rows, where no question says so itself. */
static void note_nothing(const struct tg__call *c, struct tg_table *out) {
  const char *const where = tg__call_value(c, "where");
  if (out->rows || out->note_count || tg__call_has(c, "step") || (where && *where) || c->limit == 0) return;
  if (*c->question->empty) tg__table_note(out, "%s", c->question->empty);
}

static void add_notes(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out) {
  const bool uses_steps = a->has_steps || a->question->steps == TG__STEPS_BY_EACH;
  const struct tg__step *const step = uses_steps ? tg__ask_first_step(t, a) : NULL;
  const enum tg__step_kind kind = step ? t->ranks[step->rank].step_kind : TG__STEP_PROFILER;
  if (kind == TG__STEP_PERIOD)
    tg__table_note(out, "the trace marks no steps: these were found by the period of its operators");
  if (kind == TG__STEP_ANNOTATION)
    tg__table_note(out, "the trace has no ProfilerStep: the annotation %.*s is taken as the step",
                   (int)tg__name(t, step->name).len, tg__name(t, step->name).ptr);
  note_unlaunched(t, a, out);
  if (!a->is_joined && t->rank_count > 1)
    tg__table_note_duplicate_ranks(out, t, "", a->rank == TG_NONE ? TG_NULL_INT : t->ranks[a->rank].number);
}

/* ---- running --------------------------------------------------------------------------------- */

enum tg_err tg__choose_rows(struct tg_table *t, const char *where, const char *sort, size_t limit, struct tg_error *e) {
  enum tg_err err = where && *where ? tg__where_filter(t, where, e) : TG_OK;
  if (!err && sort && *sort) err = tg__sort_table(t, sort, e);
  if (!err && t->rows > limit) t->rows = limit;
  return err;
}

static enum tg_err choose_rows_asked_for(struct tg_table *t, const struct tg__ask *a, size_t limit,
                                         struct tg_error *e) {
  return tg__choose_rows(t, tg__ask_arg(a, "where"), tg__ask_arg(a, "sort"), limit, e);
}

enum tg_err tg__ask_finish(const struct tg__call *c, struct tg_table *t, struct tg_error *e) {
  const struct tg__ask a = {.question = c->question, .args = c->args, .arg_count = c->count};
  enum tg_err err = choose_rows_asked_for(t, &a, c->limit, e);
  if (!err) note_nothing(c, t);
  if (!err) err = tg__select_columns(&a, t, e);
  if (!err) err = tg__keep_selected_columns(&a, t, e);
  return err ? err : t->failed ? tg__no_memory(e, "answering %s", t->question) : TG_OK;
}

static enum tg_err add_columns(const struct tg__question *q, struct tg_table *out) {
  const struct tg__column_info *info;
  for (size_t k = 0; (info = tg__question_column(q, k)) != NULL; k++)
    tg__table_add_column_as(out, info->name, info->type, info->unit, info->role);
  return out->failed ? TG_MEMORY : TG_OK;
}

static enum tg_err only_summaries(const struct tg__columns *t, const struct tg__question *q, struct tg_error *e) {
  char list[128] = "";
  size_t len = 0, left = 0;
  const struct tg__catalog *const c = q->catalog;
  for (size_t k = 0; k < c->count; k++) left += c->questions[k].loads == TG__COL_RANKS;
  for (size_t k = 0; k < c->count && len < sizeof list; k++)
    if (c->questions[k].loads == TG__COL_RANKS)
      len += (size_t)snprintf(list + len, sizeof list - len, "%s%s", c->questions[k].name,
                              --left > 1 ? ", "
                              : left     ? " and "
                                         : "");
  return tg__fail(e, TG_NO_DATA, -1,
                  "this is a summary of %u rank%s, which answers %s; %s needs the traces it was made of", t->rank_count,
                  t->rank_count == 1 ? "" : "s", list, q->name);
}

/* Questions about ranks are answered from all columns or, where there are none, from the summaries of the ranks. */
static enum tg_err load_answer(struct tg__columns *t, const struct tg__ask *a, struct tg_error *e) {
  const struct tg__question *const q = a->question;
  if (q->loads == TG__COL_RANKS) return a->job.summaries ? TG_OK : tg__trace_load(t, TG__COL_ALL, e);
  if (a->job.summaries && q->loads != TG__COL_NONE) return only_summaries(t, q, e);
  return tg__trace_load(t, q->loads, e);
}

static enum tg_err check_needs(const struct tg__columns *t, const struct tg__ask *a, struct tg_error *e) {
  char buf[TG__RANK_LABEL_BYTES];
  const bool is_one_of_several = !a->is_joined && (t->rank_count > 1 || a->job.is_part);
  return tg__check_needs(t, a, tg__rank_label(t, is_one_of_several ? a->rank : TG_NONE, buf), e);
}

static enum tg_err answer_question(struct tg__columns *t, struct tg__ask *a, const struct tg__call *c,
                                   struct tg_table *out, struct tg_error *e) {
  enum tg_err err = a->is_joined ? TG_OK : tg__ask_parse_rank(t, a, e);
  if (err == TG_OK) err = tg__ask_parse_track(t, a, e);
  if (err == TG_OK) err = load_answer(t, a, e);
  if (err == TG_OK) err = tg__ask_parse_steps(t, a, e);
  if (err == TG_OK) a->policy = tg__rules_policy(a);
  if (err == TG_OK) err = check_needs(t, a, e);
  if (err == TG_OK) err = add_columns(a->question, out);
  if (err == TG_OK) err = tg__select_columns(a, out, e);
  if (err == TG_OK) err = tg__rules_answer(t, a, out, e);
  if (err == TG_OK && !out->failed) err = choose_rows_asked_for(out, a, c->limit, e);
  if (err == TG_OK && !out->failed) err = tg__keep_selected_columns(a, out, e);
  if (err == TG_OK) {
    if (!a->is_joined) note_nothing(c, out); /* else other ranks may have some */
    add_notes(t, a, out);
    tg__table_add_losses(out, t, a);
  }
  if (out->failed || err == TG_MEMORY) return tg__no_memory(e, "answering %s", a->question->name);
  return err;
}

enum tg_err tg__ask_rank(struct tg__columns *t, const struct tg__job_info *job, uint32_t rank, const struct tg__call *c,
                         struct tg_table **out, struct tg_error *e) {
  struct tg__ask a = {.question = c->question,
                      .args = c->args,
                      .arg_count = c->count,
                      .most_rows = c->most_rows,
                      .job = *job,
                      .rank = rank,
                      .is_joined = rank != TG_NONE};
  struct tg_table *const table = tg__table_new(c->question->name);
  *out = NULL;
  if (!table) return tg__no_memory(e, "answering %s", c->question->name);
  const enum tg_err err = answer_question(t, &a, c, table, e);
  tg__ask_end(&a);
  assert(err || tg__table_is_valid(table, NULL));
  if (err)
    tg__table_free(table);
  else
    *out = table;
  return err;
}

enum tg_err tg__ask_loaded(const struct tg__columns *t, uint32_t rank, const struct tg__question *q,
                           const struct tg_arg *args, size_t arg_count, struct tg_table **out, struct tg_error *e) {
  const struct tg__ask a = {.question = q,
                            .args = args,
                            .arg_count = arg_count,
                            .rank = rank,
                            .track = TG_NONE,
                            .most_rows = SIZE_MAX,
                            .is_joined = true};
  struct tg_table *const table = tg__table_new(q->name);
  *out = NULL;
  if (!table) return tg__no_memory(e, "answering %s", q->name);
  enum tg_err err = check_needs(t, &a, e);
  if (!err) err = add_columns(q, table);
  if (!err) err = tg__rules_answer(t, &a, table, e);
  if (table->failed) err = TG_MEMORY;
  if (err)
    tg__table_free(table);
  else
    *out = table;
  return err;
}
