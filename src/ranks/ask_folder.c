/* ask_folder: questions to a run. Those about ranks are answered from the summaries; one about one rank, or one
 * that joins, reads the ranks again, one after the other; any other needs them all in memory. */
#include "ranks/ranks.h"

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
static int64_t further(enum tg__role role, const struct tg__call *c, const struct tg__run_rank *r) {
  const char *const by = tg__call_value(c, "by"), *const rules = tg__call_value(c, "rules");
  switch (role) {
  case TG__ROLE_TRACK:
    return r->first_track;
  case TG__ROLE_SLICE:
    return r->first_slice;
  case TG__ROLE_EVENT:
    return rules && strncmp(rules, "hta", 3) == 0 ? 0 : r->first_slice;
  case TG__ROLE_SLICE_OR_MARK:
    return by && strcmp(by, "mark") == 0 ? r->first_mark : r->first_slice;
  default:
    return 0;
  }
}

void tg__run_number_through(struct tg_table *t, const struct tg__call *c, const struct tg__run_rank *first) {
  for (size_t k = 0; k < t->column_count; k++) {
    struct tg__column *const column = &t->columns[k];
    const int64_t by = column->type == TG_INT ? further(column->role, c, first) : 0;
    for (size_t i = 0; by && i < t->rows; i++)
      if (column->ints[i] != TG_NULL_INT) column->ints[i] += by;
  }
}

void tg__run_add_losses(const struct tg__columns *run, struct tg_table *out) {
  tg__table_add_skipped_files(out, run);
  tg__table_note_twins(out, run, "", TG_NULL_INT);
}

/* ---- the last word --------------------------------------------------------------------------- */

static enum tg_err load_of(const struct tg__ranks_view *v, uint32_t i, struct tg__rank_load *out, struct tg_error *e) {
  (void)e;
  *out = v->t->run->ranks.items[i].load;
  return TG_OK;
}

static enum tg_err trace_of(const struct tg__ranks_view *v, uint32_t i, const struct tg__columns **out, uint32_t *rank,
                            struct tg_error *e) {
  const struct tg__run_rank *const r = &v->t->run->ranks.items[i];
  struct tg__columns *t = NULL;
  enum tg_err err = tg__run_unit(v->t, r->unit, &t, e);
  if (!err) err = tg__trace_load(t, TG__COL_ALL, e);
  *out = t;
  *rank = r->of_unit;
  return err;
}

enum tg_err tg__run_settle(const struct tg__columns *run, const struct tg__call *c, struct tg_table *rows,
                           struct tg_error *e) {
  tg__merged_fn *const merged = tg__question_hooks(c->question)->merged;
  const struct tg__ranks_view view = {.t = run,
                                      .is_one = tg__call_has(c, "rank"),
                                      .count = (uint32_t)run->run->ranks.count,
                                      .load = load_of,
                                      .open = trace_of};
  return merged ? merged(&view, rows, e) : TG_OK;
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

/* The argument that names something by its number in the run: track= or event=. NULL: there is none. */
static const char *numbered_argument(const struct tg__call *c) {
  return tg__call_has(c, "track") ? "track" : tg__call_has(c, "event") ? "event" : NULL;
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
               : tg__ask_run(&tg__catalog, t, c->question->name, args, count, out, e);
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

/* Which of the answers that are there is this one? TG__READY_COUNT: none. */
static unsigned ready_answer(const struct tg__run_ranks *ranks, const struct tg__call *c) {
  unsigned i = ranks->has_ready ? 0 : TG__READY_COUNT;
  for (; i < TG__READY_COUNT; i++) {
    const char *const by = tg__ready[i].by, *const asked = tg__call_value(c, "by");
    const bool has_by = *by ? asked && strcmp(asked, by) == 0 : !asked;
    if (c->question == tg__ready[i].question && has_by && !tg__call_has(c, "step") && !tg__call_has(c, "rank")) break;
  }
  return i;
}

static enum tg_err give_ready(const struct tg__run_ranks *ranks, unsigned which, struct tg_table **out,
                              struct tg_error *e) {
  const struct tg_error *const why = &ranks->why_not[which];
  if (!ranks->ready[which]) return tg__fail(e, why->code ? why->code : TG_NO_DATA, why->offset, "%s", why->text);
  *out = tg__table_copy(ranks->ready[which]);
  return *out ? TG_OK : tg__fail(e, TG_MEMORY, -1, "out of memory while answering %s", tg__ready[which].question->name);
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
  return tg__joining_add(j, rows, i)
             ? TG_OK
             : tg__fail(e, TG_MEMORY, -1, "out of memory while answering %s", c->question->name);
}

/* What is the same row in several ranks is not chosen before it is one; what the last word takes back or adds is not
 * either. */
static enum tg_err ask_ranks(const struct tg__columns *run, const struct tg__call *c, struct tg_table **out,
                             struct tg_error *e) {
  struct tg__run_door *const d = run->run;
  struct tg__joining *const j = tg__joining_new(c->question, c->args, c->count, most_rows(c));
  int64_t *const numbers = tg__alloc((d->ranks.count + 1) * sizeof *numbers);
  enum tg_err err =
      j && numbers ? TG_OK : tg__fail(e, TG_MEMORY, -1, "out of memory while answering %s", c->question->name);
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
  if (!err) tg__run_add_losses(run, *out);
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
  const char *const numbered = numbered_argument(c);
  const struct tg__run_rank *const r = tg__call_has(c, "rank") ? rank_of(ranks, tg__call_value(c, "rank")) : NULL;
  int64_t own;
  *of_all = tg__question_needs_all(c->question, c->args, c->count);
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
  const struct tg__question *const q = tg__catalog_find(&tg__catalog, question);
  const struct tg__call c = {q, args, arg_count};
  struct tg__run_door *const d = t->run;
  const char *const rules = tg__call_value(&c, "rules");
  *out = NULL;
  if (!d || !q || (q->loads == TG__COL_RANKS && !(rules && strncmp(rules, "hta", 3) == 0)))
    return tg__ask_run(&tg__catalog, t, question, args, arg_count, out, e);
  enum tg_err err = tg__ask_check(q, args, arg_count, e);
  if (err) return err;
  bool of_all;
  const struct tg__run_rank *const r = asked_rank(&d->ranks, &c, &of_all);
  const unsigned ready = ready_answer(&d->ranks, &c);
  if (tg__call_has(&c, "rank") && !r && !of_all)
    return tg__ask_run(&tg__catalog, t, question, args, arg_count, out, e); /* which says what ranks there are */
  if (!d->whole && r && !of_all) {
    err = ask_rank(t, r, &c, q->merge == TG__MERGE_LATE ? SIZE_MAX : most_rows(&c), false, out, e);
    if (!err && !tg__call_has(&c, "rank")) tg__run_add_losses(t, *out);
    if (!err && tg__call_has(&c, "rank")) tg__table_note_twins(*out, t, "", r->number);
    if (!err) err = tg__run_settle(t, &c, *out, e);
    if (!err) err = choose(out, &c, e);
  } else if (!d->whole && ready < TG__READY_COUNT) {
    err = give_ready(&d->ranks, ready, out, e);
    if (!err) err = choose(out, &c, e);
  } else if (!d->whole && !of_all && tg__question_joins(q, args, arg_count)) {
    err = ask_ranks(t, &c, out, e);
  } else {
    err = tg__run_whole(&t, e);
    return err ? err : tg__ask_run(&tg__catalog, t, question, args, arg_count, out, e);
  }
  if (!err) err = tg__ask_order(q, *out, args, arg_count, e);
  if (!err) return TG_OK;
  tg__table_free(*out);
  *out = NULL;
  return err;
}
