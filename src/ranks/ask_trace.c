/* ask_trace: a question to a trace, whichever way its ranks are read: each of them, one of them, or all of them in
 * memory at once. */
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

const struct tg__job_rank *tg__job_rank_of(const struct tg__job_ranks *ranks, const char *number) {
  char *end;
  const long long n = strtoll(number, &end, 10);
  for (size_t i = 0; *end == 0 && i < ranks->count; i++)
    if (ranks->items[i].rank == n) return &ranks->items[i];
  return NULL;
}

const struct tg__job_rank *tg__first_of_file(const struct tg__job_ranks *ranks, size_t i) {
  return &ranks->items[i - ranks->items[i].rank_in_file];
}

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

/* ---- how a question is answered ------------------------------------------------------------------ */

enum way {
  FROM_COLUMNS, /* at once, from what is in memory: of a folder, what is known of its ranks without their events */
  FROM_READY,
  FROM_ONE, /* rank of a folder */
  FROM_EACH,
  FROM_ALL /* all ranks of a folder have to be in memory */
};
struct plan {
  enum way way;
  struct target target;
  unsigned ready;
};

static bool is_of_each(const struct tg__call *c) {
  return !tg__call_has(c, "rank") && !tg__call_has(c, "track") && tg__question_joins(c->question, c->args, c->count);
}

static struct plan plan_of(const struct tg_trace *t, const struct tg__call *c) {
  const bool is_at_once = t->summaries || t->columns->rank_count < 2 || !is_of_each(c);
  if (!t->folder) return (struct plan){.way = is_at_once ? FROM_COLUMNS : FROM_EACH};
  struct plan p = {FROM_ALL, target_of(&t->folder->ranks, c), ready_answer(&t->folder->ranks, c)};
  const bool lacks_rank = tg__call_has(c, "rank") && !p.target.rank && !p.target.is_of_all; /* to refuse it */
  if (lacks_rank || tg__summaries_answer(c->question, c->args, c->count))
    p.way = FROM_COLUMNS;
  else if (t->folder->whole || p.target.is_of_all)
    p.way = FROM_ALL;
  else if (p.target.rank)
    p.way = FROM_ONE;
  else if (p.ready < TG__READY_COUNT)
    p.way = FROM_READY;
  else if (is_of_each(c))
    p.way = FROM_EACH;
  return p;
}

/* The arguments of the rank's own file. */
struct own_arguments {
  char rank[24], number[24];
};
static void set_own(struct tg__answering *a, const struct target *target, struct own_arguments *own) {
  a->each = tg__call_of_each(&a->call, a->call.question->merge == TG__MERGE_LATE, a->args);
  snprintf(own->rank, sizeof own->rank, "%lld", (long long)target->rank->rank);
  snprintf(own->number, sizeof own->number, "%lld", (long long)target->own);
  for (size_t i = 0; i < a->each.count; i++)
    if (target->argument && strcmp(a->args[i].name, target->argument) == 0) a->args[i].value = own->number;
  a->args[a->each.count++] = (struct tg_arg){"rank", own->rank};
}

/* The numbers and losses that a rank of a folder does not know. */
static void complete_one(const struct tg_trace *t, const struct tg__job_rank *r, const struct tg__call *c,
                         struct tg_table *rows) {
  const struct tg__job_ranks *const ranks = &t->folder->ranks;
  tg__renumber_rows(rows, c, tg__first_of_file(ranks, (size_t)(r - ranks->items)));
  if (tg__call_has(c, "rank"))
    tg__table_note_duplicate_ranks(rows, t->columns, "", r->rank);
  else
    tg__add_losses_of_all(t->columns, rows);
}

/* Rows of the ranks that the plan is about; neither chosen nor sorted, but those of columns. */
static enum tg_err ask_ranks(struct tg_trace *t, const struct tg__call *c, const struct plan *p, struct tg_table **out,
                             struct tg_error *e) {
  const struct tg__rank_place *const place = t->folder && p->way != FROM_COLUMNS ? &tg__in_folder : &tg__in_memory;
  struct tg__rank_folder *const d = place == &tg__in_folder ? t->folder : NULL;
  const uint32_t first = p->way == FROM_ONE ? (uint32_t)(p->target.rank - d->ranks.items) : 0;
  const uint32_t count = p->way != FROM_EACH ? 1 : d ? (uint32_t)d->ranks.count : t->columns->rank_count;
  struct own_arguments own;
  struct tg__answering a;
  enum tg_err err = TG_OK;
  if (!tg__answering_begin(&a, c, p->way != FROM_EACH, c->most_rows, count))
    err = tg__no_memory(e, "answering %s", c->question->name);
  a.known = t->columns;
  a.ranks = d ? &d->ranks : NULL;
  a.job = d ? d->job : (struct tg__job_info){.summaries = t->summaries};
  if (!err && p->way == FROM_ONE) set_own(&a, &p->target, &own);
  const struct tg__observer observer = tg__answering_observer(&a);
  if (!err) err = place->each(t, first, first + count, &observer, e);
  if (!err) err = tg__answering_end(&a, out, e);
  tg__answering_free(&a);
  if (err || p->way == FROM_COLUMNS) return err;
  if (p->way == FROM_ONE) complete_one(t, p->target.rank, c, *out);
  return tg__merge_between_ranks(t, c, *out, e);
}

enum tg_err tg__ask_trace(struct tg_trace *t, const char *question, const struct tg_arg *args, size_t arg_count,
                          struct tg_table **out, struct tg_error *e) {
  struct tg__call c = {.question = tg__catalog_find(&tg__catalog, question), .args = args, .count = arg_count};
  *out = NULL;
  if (!c.question) return tg__no_question(&tg__catalog, question, e);
  enum tg_err err = tg__call_check(&c, e);
  if (err) return err;
  const struct plan p = plan_of(t, &c);
  if (p.way == FROM_ALL) {
    struct tg_trace whole = {0};
    err = tg__in_folder.whole(t, &whole.columns, e);
    return err ? err : tg__ask_trace(&whole, question, args, arg_count, out, e);
  }
  err = p.way == FROM_READY ? take_ready(&t->folder->ranks, p.ready, out, e) : ask_ranks(t, &c, &p, out, e);
  if (!err && p.way != FROM_COLUMNS) err = tg__ask_finish(&c, *out, e);
  if (!err) return TG_OK;
  tg__table_free(*out);
  *out = NULL;
  return err;
}
