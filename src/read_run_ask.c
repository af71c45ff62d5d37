/* read_run_ask: questions to a run. Those about ranks are answered from the summaries; one about one rank, or one
 * that joins, reads the ranks again, one after the other; any other needs them all in memory. */
#include "analyze/ranks/read_run.h"

#include "diagnose/diagnose.h"

#include <stdio.h>
#include <stdlib.h>

const char *tg__call_value(const struct tg__call *c, const char *name) {
  for (size_t i = 0; i < c->count; i++)
    if (c->args[i].name && c->args[i].value && strcmp(c->args[i].name, name) == 0) return c->args[i].value;
  return NULL;
}

bool tg__call_has(const struct tg__call *c, const char *name) {
  const char *const value = tg__call_value(c, name);
  return value && *value && strcmp(value, "all") != 0;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* How much further a number in this column is when all ranks are counted through; 0: it counts something else. */
static int64_t further(const char *column, const struct tg__call *c, const struct tg__run_rank *r) {
  static const char *const of_slices[] = {"slice",         "parent",     "cause",    "launch",
                                          "event",         "from_event", "to_event", "annotation_event",
                                          "forward_event", "forward",    "id"};
  const char *const by = tg__call_value(c, "by"), *const rules = tg__call_value(c, "rules");
  if (strcmp(column, "track") == 0) return r->first_track;
  if (strncmp(c->question, "memory_", 7) == 0) return 0; /* events of the allocator are counted on each device */
  if (strcmp(column, "event") == 0 && rules && strncmp(rules, "hta", 3) == 0) return 0; /* positions in the file */
  if (strcmp(c->question, "events") == 0 && strcmp(column, "id") == 0 && by && strcmp(by, "mark") == 0)
    return r->first_mark;
  for (size_t k = 0; k < sizeof of_slices / sizeof *of_slices; k++)
    if (strcmp(column, of_slices[k]) == 0) return r->first_slice;
  return 0;
}

void tg__run_number_through(struct tg_table *t, const struct tg__call *c, const struct tg__run_rank *first) {
  for (size_t k = 0; k < t->column_count; k++) {
    struct tg__column *const column = &t->columns[k];
    const int64_t by = column->type == TG_INT ? further(column->name, c, first) : 0;
    for (size_t i = 0; by && i < t->rows; i++)
      if (column->ints[i] != TG_NULL_INT) column->ints[i] += by;
  }
}

void tg__run_add_losses(const struct tg__columns *run, const char *question, struct tg_table *out) {
  if (strcmp(question, "losses") == 0) tg__put_skipped_files(run, out);
  tg__table_add_skipped_files(out, run);
  tg__table_note_twins(out, run, "", TG_NULL_INT);
}

/* ---- the last word --------------------------------------------------------------------------- */

static enum tg_err settle_findings(const struct tg__columns *run, struct tg_table *rows, struct tg_error *e) {
  const struct tg__run_ranks *const ranks = &run->run->ranks;
  struct tg__straggler s;
  struct tg__columns *slow = NULL;
  struct tg__rank_load *const loads = tg__alloc((ranks->count + 1) * sizeof *loads);
  if (!loads) return tg__fail(e, TG_MEMORY, -1, "out of memory while looking for causes");
  for (size_t i = 0; i < ranks->count; i++) loads[i] = ranks->items[i].load;
  const bool is_slow = tg__find_straggler(loads, ranks->count, &s);
  tg__free(loads);
  enum tg_err err = is_slow ? tg__run_unit(run, ranks->items[s.which].unit, &slow, e) : TG_OK;
  if (!err && slow) err = tg__trace_load(slow, TG__COL_ALL, e);
  if (err) return err;
  if (!tg__findings_settle(rows, slow, is_slow ? ranks->items[s.which].of_unit : 0, &s)) return TG_OK;
  return tg__fail(e, TG_MEMORY, -1, "out of memory while looking for causes");
}

enum tg_err tg__run_settle(const struct tg__columns *run, const struct tg__call *c, struct tg_table *rows,
                           struct tg_error *e) {
  if (strcmp(c->question, "findings") == 0) return settle_findings(run, rows, e);
  if (strcmp(c->question, "modules") != 0 || tg__call_has(c, "rank") || tg__modules_settle(rows)) return TG_OK;
  return tg__fail(e, TG_MEMORY, -1, "out of memory while putting the ranks together");
}

/* ---- one rank -------------------------------------------------------------------------------- */

/* The first rank of the same file: tracks and slices of the file are counted from there. */
static const struct tg__run_rank *first_of_file(const struct tg__run_ranks *ranks, const struct tg__run_rank *r) {
  while (r > ranks->items && r->of_unit > 0 && r[-1].unit == r->unit) r--;
  return r;
}

/* The rank that has this track or slice of the run, or NULL; *own: what its file calls it. */
static const struct tg__run_rank *owner_of(const struct tg__run_ranks *ranks, const char *number, bool is_track,
                                           int64_t *own) {
  char *end;
  const long long n = strtoll(number, &end, 10);
  for (size_t i = 0; *number && *end == 0 && i < ranks->count; i++) {
    const struct tg__run_rank *const r = &ranks->items[i], *const file = first_of_file(ranks, r);
    const int64_t first = is_track ? r->first_track : r->first_slice, count = is_track ? r->tracks : r->slices;
    *own = n - (is_track ? file->first_track : file->first_slice);
    if (n >= first && n < first + count) return r;
  }
  return NULL;
}

/* The argument that names something by its number in the run: track=, or event= of the question call_stack. NULL:
 * there is none. */
static const char *numbered_argument(const struct tg__call *c) {
  const bool of_event = strcmp(c->question, "call_stack") == 0 && tg__call_has(c, "event");
  return tg__call_has(c, "track") ? "track" : of_event ? "event" : NULL;
}

/* Rows behind these will be cut off, whatever comes. */
static size_t most_rows(const struct tg__call *c) {
  const char *const limit = tg__call_value(c, "limit");
  char *end = NULL;
  const long long n = limit ? strtoll(limit, &end, 10) : -1;
  return limit && end > limit && *end == 0 && n >= 0 && !tg__call_has(c, "where") && !tg__call_has(c, "sort")
             ? (size_t)n
             : SIZE_MAX;
}

/* Rows of one rank as the run numbers them; neither chosen nor sorted, and cut only behind the first `most`. part:
 * of the answer about all. */
static enum tg_err ask_rank(const struct tg__columns *run, const struct tg__run_rank *r, const struct tg__call *c,
                            size_t most, bool part, struct tg_table **out, struct tg_error *e) {
  struct tg__columns *t = NULL;
  char number[24], own_number[24], limit[24];
  int64_t own;
  const char *const numbered = numbered_argument(c);
  size_t count = 0;
  struct tg_arg *const args = tg__alloc((c->count + 2) * sizeof *args);
  if (!args) return tg__fail(e, TG_MEMORY, -1, "out of memory");
  snprintf(number, sizeof number, "%lld", (long long)r->number);
  if (!part) args[count++] = (struct tg_arg){"rank", number};
  snprintf(limit, sizeof limit, "%zu", most);
  if (most < SIZE_MAX) args[count++] = (struct tg_arg){"limit", limit};
  for (size_t i = 0; i < c->count; i++) {
    if (tg__is_for_all_ranks(c->args[i].name)) continue;
    args[count++] = c->args[i];
    if (!numbered || strcmp(c->args[i].name, numbered) != 0) continue;
    (void)owner_of(&run->run->ranks, c->args[i].value, strcmp(numbered, "track") == 0, &own);
    snprintf(own_number, sizeof own_number, "%lld", (long long)own);
    args[count - 1].value = own_number;
  }
  enum tg_err err = tg__run_unit(run, r->unit, &t, e);
  if (!err)
    err = part ? tg__ask_rank(t, r->of_unit, c->question, args, count, out, e)
               : tg__ask_run(t, c->question, args, count, out, e);
  if (t) tg__cache_drop(t); /* two ranks stay in memory, and what questions keep of one may be as much again */
  tg__free(args);
  if (!err) tg__run_number_through(*out, c, first_of_file(&run->run->ranks, r));
  return err;
}

static enum tg_err choose(struct tg_table **t, const struct tg__call *c, struct tg_error *e) {
  const enum tg_err err = tg__call_has(c, "where") ? tg__where_filter(*t, tg__call_value(c, "where"), e) : TG_OK;
  if (!err) return TG_OK;
  tg__table_free(*t);
  *t = NULL;
  return err;
}

/* ---- all ranks, one after the other ---------------------------------------------------------- */

/* Which of the answers that are there is this one? TG__RUN_READY: none. */
static unsigned ready_answer(const struct tg__run_ranks *ranks, const struct tg__call *c) {
  unsigned i = ranks->has_ready ? 0 : TG__RUN_READY;
  for (; i < TG__RUN_READY; i++) {
    const char *const by = tg__run_ready[i].by, *const asked = tg__call_value(c, "by");
    const bool has_by = by ? asked && strcmp(asked, by) == 0 : !asked;
    if (strcmp(c->question, tg__run_ready[i].question) == 0 && has_by && !tg__call_has(c, "step") &&
        !tg__call_has(c, "rank"))
      break;
  }
  return i;
}

static enum tg_err give_ready(const struct tg__run_ranks *ranks, unsigned which, struct tg_table **out,
                              struct tg_error *e) {
  const struct tg_error *const why = &ranks->why_not[which];
  if (!ranks->ready[which]) return tg__fail(e, why->code ? why->code : TG_NO_DATA, why->offset, "%s", why->text);
  *out = tg__table_copy(ranks->ready[which]);
  return *out ? TG_OK : tg__fail(e, TG_MEMORY, -1, "out of memory while answering %s", tg__run_ready[which].question);
}

/* Progress: from here on, of the files of all ranks. */
static void begin_all(struct tg__run_door *d) {
  d->done_bytes = d->total_bytes = 0;
  for (size_t i = 0; i < d->ranks.count; i++)
    d->total_bytes += d->ranks.items[i].of_unit ? 0 : tg__folder_bytes(d->folder, d->ranks.items[i].unit);
}

static void begin_rank(const struct tg__run_door *d, size_t i) {
  if (d->options.part_done) d->options.part_done(d->options.progress_ctx, (int64_t)i, (int64_t)d->ranks.count);
}

static void end_rank(struct tg__run_door *d, size_t i) {
  d->done_bytes += d->ranks.items[i].of_unit ? 0 : tg__folder_bytes(d->folder, d->ranks.items[i].unit);
}

enum tg_err tg__run_each(struct tg__columns *run, tg__look_fn *look, void *ctx, struct tg_error *e) {
  struct tg__run_door *const d = run->run;
  enum tg_err err = TG_OK;
  begin_all(d);
  for (size_t i = 0; i < d->ranks.count && !err; i++) {
    struct tg__columns *t = NULL;
    begin_rank(d, i);
    if (d->ranks.items[i].of_unit == 0) err = tg__run_unit(run, d->ranks.items[i].unit, &t, e);
    if (!err && t) err = tg__trace_load(t, TG__COL_ALL, e);
    if (!err && t) err = look(ctx, t, e);
    if (t) tg__cache_drop(t);
    end_rank(d, i);
  }
  d->total_bytes = -1;
  return err;
}

static enum tg_err add_rank(const struct tg__columns *run, size_t i, const struct tg__call *c, bool choose_now,
                            struct tg__joining *j, struct tg_error *e) {
  struct tg_table *rows = NULL;
  struct tg_error why = {0};
  enum tg_err err =
      ask_rank(run, &run->run->ranks.items[i], c, tg__joining_is_late(j) ? SIZE_MAX : most_rows(c), true, &rows, &why);
  if (err == TG_NO_DATA) {
    tg__joining_miss(j, &why); /* others may have it */
    return TG_OK;
  }
  if (err) return tg__fail(e, why.code, why.offset, "%s", why.text);
  if (choose_now) err = choose(&rows, c, e);
  if (err) return err;
  return tg__joining_add(j, rows, i) ? TG_OK
                                     : tg__fail(e, TG_MEMORY, -1, "out of memory while answering %s", c->question);
}

/* What is the same row in several ranks is not chosen before it is one; what the last word takes back or adds is not
 * either. */
static enum tg_err ask_ranks(const struct tg__columns *run, const struct tg__call *c, struct tg_table **out,
                             struct tg_error *e) {
  struct tg__run_door *const d = run->run;
  struct tg__joining *const j = tg__joining_new(c->question, c->args, c->count, most_rows(c));
  int64_t *const numbers = tg__alloc((d->ranks.count + 1) * sizeof *numbers);
  enum tg_err err = j && numbers ? TG_OK : tg__fail(e, TG_MEMORY, -1, "out of memory while answering %s", c->question);
  const bool is_late = j && tg__joining_is_late(j);
  begin_all(d);
  for (size_t i = 0; i < d->ranks.count && !err; i++) {
    begin_rank(d, i);
    err = add_rank(run, i, c, !is_late, j, e);
    numbers[i] = d->ranks.items[i].number;
    end_rank(d, i);
  }
  d->total_bytes = -1;
  if (!err) err = tg__joining_end(j, numbers, out, e);
  if (!err) tg__run_add_losses(run, c->question, *out);
  if (!err) err = tg__run_settle(run, c, *out, e);
  if (!err && is_late) err = choose(out, c, e);
  tg__joining_free(j);
  tg__free(numbers);
  return err;
}

/* ---- a question ------------------------------------------------------------------------------ */

static const struct tg__run_rank *rank_of(const struct tg__run_ranks *ranks, const char *number) {
  char *end;
  const long long n = strtoll(number, &end, 10);
  for (size_t i = 0; *end == 0 && i < ranks->count; i++)
    if (ranks->items[i].number == n) return &ranks->items[i];
  return NULL;
}

/* Which one rank is it about, if any: that of rank=, or whose track or slice it is; *of_all: only all of them
 * together can say. */
static const struct tg__run_rank *asked_rank(const struct tg__run_ranks *ranks, const struct tg__call *c,
                                             bool *of_all) {
  const char *const numbered = numbered_argument(c), *const rules = tg__call_value(c, "rules");
  const bool as_hta = rules && strncmp(rules, "hta", 3) == 0;
  const struct tg__run_rank *const r = tg__call_has(c, "rank") ? rank_of(ranks, tg__call_value(c, "rank")) : NULL;
  int64_t own;
  /* these count by the rows of all ranks */
  *of_all = as_hta && (strcmp(c->question, "rows") == 0 || strcmp(c->question, "call_stack") == 0);
  if (!numbered || *of_all) return r;
  const struct tg__run_rank *const owner =
      owner_of(ranks, tg__call_value(c, numbered), strcmp(numbered, "track") == 0, &own);
  *of_all = !owner || (tg__call_has(c, "rank") && owner != r);
  return owner;
}

const struct tg__run_rank *tg__run_rank_of(const struct tg__columns *run, const char *number) {
  return rank_of(&run->run->ranks, number);
}

enum tg_err tg__run_ask(struct tg__columns *t, const char *question, const struct tg_arg *args, size_t arg_count,
                        struct tg_table **out, struct tg_error *e) {
  const struct tg__question *const q = tg__question_find(question);
  const struct tg__call c = {question, args, arg_count};
  struct tg__run_door *const d = t->run;
  const char *const rules = tg__call_value(&c, "rules");
  *out = NULL;
  if (!d || !q || (q->needs == TG__COL_RANKS && !(rules && strncmp(rules, "hta", 3) == 0)))
    return tg__ask_run(t, question, args, arg_count, out, e);
  enum tg_err err = tg__ask_check(q, args, arg_count, e);
  if (err) return err;
  bool of_all;
  const struct tg__run_rank *const r = asked_rank(&d->ranks, &c, &of_all);
  const unsigned ready = ready_answer(&d->ranks, &c);
  if (tg__call_has(&c, "rank") && !r && !of_all)
    return tg__ask_run(t, question, args, arg_count, out, e); /* which says what ranks there are */
  if (!d->whole && r && !of_all) {
    err = ask_rank(t, r, &c, strcmp(question, "findings") == 0 ? SIZE_MAX : most_rows(&c), false, out, e);
    if (!err && !tg__call_has(&c, "rank")) tg__run_add_losses(t, c.question, *out);
    if (!err && tg__call_has(&c, "rank")) tg__table_note_twins(*out, t, "", r->number);
    if (!err) err = tg__run_settle(t, &c, *out, e);
    if (!err) err = choose(out, &c, e);
  } else if (!d->whole && ready < TG__RUN_READY) {
    err = give_ready(&d->ranks, ready, out, e);
    if (!err) err = choose(out, &c, e);
  } else if (!d->whole && !of_all && tg__question_joins(question, args, arg_count)) {
    err = ask_ranks(t, &c, out, e);
  } else {
    err = tg__run_whole(&t, e);
    return err ? err : tg__ask_run(t, question, args, arg_count, out, e);
  }
  if (!err) err = tg__ask_order(*out, args, arg_count, e);
  if (!err) return TG_OK;
  tg__table_free(*out);
  *out = NULL;
  return err;
}
