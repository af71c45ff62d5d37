/* read_run: a folder of ranks that together would fill the memory. Opening it reads one rank after the other and keeps their summaries and
 * what the first page asks. Questions about ranks are answered from the summaries; a question about one rank, or one that has its rows rank by
 * rank, reads the rank again, and two of them stay in memory. What sums over the ranks needs them all, and then they all stay. */
#include "analyze/ranks/read_run.h"

#include <stdio.h>
#include <stdlib.h>

enum {
  LARGE = 16 << 20, /* bytes of files; below that all ranks together take no more than a few megabytes */
  KEPT = 2,
};
struct kept {
  struct tg_trace *trace;
  uint32_t unit;
};
struct tg__run_door {
  struct tg__folder *folder;
  char *path;
  unsigned threads;
  struct tg__run_ranks ranks;
  struct kept kept[KEPT]; /* the last one asked first */
  struct tg_trace *whole; /* NULL until something needs it */
};

const struct tg__run_ready tg__run_ready[TG__RUN_READY] = {
    {"overview", NULL}, {"losses", NULL}, {"launches", NULL}, {"steps", "summary"}, {"steps", NULL}};

/* ---- opening and closing ---------------------------------------------------------------------------------------------------------- */

void tg__run_ranks_free(struct tg__run_ranks *r) {
  for (unsigned i = 0; i < TG__RUN_READY; i++) tg__table_free(r->ready[i]);
  tg__free(r->items);
  *r = (struct tg__run_ranks){0};
}

void tg__run_close(struct tg__run_door *d) {
  if (!d) return;
  for (unsigned i = 0; i < KEPT; i++) tg__trace_free(d->kept[i].trace);
  tg__trace_free(d->whole);
  tg__run_ranks_free(&d->ranks);
  tg__folder_close(d->folder);
  tg__free(d->path);
  tg__free(d);
}

bool tg__run_is_valid(const struct tg__run_door *d) { return !d->ranks.is_damaged; }

bool tg__run_is_large(const char *path) {
  const enum tg__path_kind kind = tg__path_kind(path);
  if (kind != TG__PATH_DIR && !(kind == TG__PATH_NONE && strpbrk(path, "*?["))) return false;
  struct tg__folder *folder;
  if (tg__folder_open(path, &folder, &(struct tg_error){0})) return false;
  int64_t sum = 0;
  size_t files = 0;
  for (size_t i = 0; i < tg__folder_count(folder); i++) {
    const int64_t bytes = tg__folder_bytes(folder, i);
    sum += bytes;
    files += bytes > 0;
  }
  tg__folder_close(folder);
  return files > 1 && sum > LARGE;
}

enum tg_err tg__run_open(const char *path, const struct tg_open_options *options, struct tg_trace **out, struct tg_error *e) {
  struct tg__run_door *const d = tg__alloc(sizeof *d);
  const size_t len = strlen(path);
  *out = NULL;
  if (!d || !(d->path = tg__alloc(len + 1))) {
    tg__free(d);
    return tg__fail(e, TG_MEMORY, -1, "out of memory before reading the ranks");
  }
  memcpy(d->path, path, len);
  d->threads = options ? options->threads : 0;
  enum tg_err err = tg__folder_open(path, &d->folder, e);
  if (!err) err = tg__folder_summaries(d->folder, path, options, &d->ranks, out, e);
  if (err)
    tg__run_close(d);
  else
    (*out)->run = d;
  return err;
}

enum tg_err tg__run_whole(struct tg_trace **t, struct tg_error *e) {
  struct tg__run_door *const d = (*t)->run;
  if (!d) return TG_OK;
  if (!d->whole) {
    for (unsigned i = 0; i < KEPT; i++) tg__trace_free(d->kept[i].trace);
    memset(d->kept, 0, sizeof d->kept);
    const enum tg_err err = tg__trace_open(d->path, &(struct tg_open_options){.threads = d->threads}, &d->whole, e);
    if (err) return err;
  }
  *t = d->whole;
  return TG_OK;
}

/* ---- one rank ----------------------------------------------------------------------------------------------------------------------- */

/* The ranks of a file are called what they are called in the run, and their clocks stand as there. */
static void name_ranks(const struct tg_trace *run, struct tg_trace *t, uint32_t unit) {
  const struct tg__run_ranks *const ranks = &run->run->ranks;
  for (size_t i = 0; i < ranks->count; i++) {
    const struct tg__run_rank *const r = &ranks->items[i];
    if (r->unit != unit || r->of_unit >= t->rank_count) continue;
    t->ranks[r->of_unit].number = r->number;
    for (uint32_t k = 0; k < run->rank_count; k++)
      if (run->ranks[k].number == r->number) t->ranks[r->of_unit].clock_offset_ns = run->ranks[k].clock_offset_ns;
  }
}

/* The trace of a file, from those kept or from the disk. */
static enum tg_err unit_trace(const struct tg_trace *run, uint32_t unit, struct tg_trace **out, struct tg_error *e) {
  struct tg__run_door *const d = run->run;
  unsigned at = 0;
  while (at < KEPT - 1 && !(d->kept[at].trace && d->kept[at].unit == unit)) at++;
  struct kept found = d->kept[at];
  if (!found.trace || found.unit != unit) {
    tg__trace_free(found.trace);
    d->kept[at] = found = (struct kept){0};
    enum tg_err err = tg__folder_read(d->folder, unit, &(struct tg_open_options){.threads = d->threads}, &found.trace, e);
    if (!err && !found.trace) err = tg__fail(e, TG_NO_DATA, -1, "a file of the run has become another one: open the run again");
    if (err) return err;
    found.unit = unit;
    name_ranks(run, found.trace, unit);
  }
  memmove(&d->kept[1], &d->kept[0], at * sizeof d->kept[0]);
  d->kept[0] = found;
  *out = found.trace;
  return TG_OK;
}

struct call { /* a question to a run */
  const char *question;
  const struct tg_arg *args;
  size_t count;
};
static const char *value_of(const struct call *c, const char *name) {
  for (size_t i = 0; i < c->count; i++)
    if (c->args[i].name && c->args[i].value && strcmp(c->args[i].name, name) == 0) return c->args[i].value;
  return NULL;
}
static bool is_given(const struct call *c, const char *name) {
  const char *const value = value_of(c, name);
  return value && *value && strcmp(value, "all") != 0;
}

/* How much further a number in this column is when all ranks are counted through; 0: it counts something else. */
static int64_t further(const char *column, const struct call *c, const struct tg__run_rank *r) {
  static const char *const of_slices[] = {"slice",    "parent",           "cause",         "launch",  "event", "from_event",
                                          "to_event", "annotation_event", "forward_event", "forward", "id"};
  const char *const by = value_of(c, "by"), *const rules = value_of(c, "rules");
  if (strcmp(column, "track") == 0) return r->first_track;
  if (strncmp(c->question, "memory_", 7) == 0) return 0; /* events of the allocator are counted on each device */
  if (strcmp(column, "event") == 0 && rules && strncmp(rules, "hta", 3) == 0) return 0; /* positions in the file */
  if (strcmp(c->question, "events") == 0 && strcmp(column, "id") == 0 && by && strcmp(by, "mark") == 0) return r->first_mark;
  for (size_t k = 0; k < sizeof of_slices / sizeof *of_slices; k++)
    if (strcmp(column, of_slices[k]) == 0) return r->first_slice;
  return 0;
}

/* Tracks, slices and marks are numbered through all ranks. */
static void number_through(struct tg_table *t, const struct call *c, const struct tg__run_rank *r) {
  for (size_t k = 0; k < t->column_count; k++) {
    struct tg__column *const column = &t->columns[k];
    const int64_t by = column->type == TG_INT ? further(column->name, c, r) : 0;
    for (size_t i = 0; by && i < t->rows; i++)
      if (column->ints[i] != TG_NULL_INT) column->ints[i] += by;
  }
}

/* What is done once with the rows of all ranks, or is the rank itself. */
static bool is_for_the_whole(const char *argument) {
  static const char *const names[] = {"rank", "where", "sort", "limit", "columns"};
  for (size_t i = 0; argument && i < sizeof names / sizeof *names; i++)
    if (strcmp(argument, names[i]) == 0) return true;
  return false;
}

/* Rows of one rank as the run numbers them, chosen by where; neither sorted nor cut. */
static enum tg_err ask_rank(const struct tg_trace *run, const struct tg__run_rank *r, const struct call *c, struct tg_table **out,
                            struct tg_error *e) {
  struct tg_trace *t;
  char number[24];
  size_t count = 0;
  struct tg_arg *const args = tg__alloc((c->count + 1) * sizeof *args);
  if (!args) return tg__fail(e, TG_MEMORY, -1, "out of memory");
  snprintf(number, sizeof number, "%lld", (long long)r->number);
  args[count++] = (struct tg_arg){"rank", number};
  for (size_t i = 0; i < c->count; i++) {
    if (!is_for_the_whole(c->args[i].name)) args[count++] = c->args[i];
  }
  enum tg_err err = unit_trace(run, r->unit, &t, e);
  if (!err) err = tg__ask_run(t, c->question, args, count, out, e);
  tg__free(args);
  if (err) return err;
  number_through(*out, c, r);
  if (is_given(c, "where")) err = tg__where_filter(*out, value_of(c, "where"), e);
  if (!err) return TG_OK;
  tg__table_free(*out);
  *out = NULL;
  return err;
}

/* ---- all ranks, one after the other ---------------------------------------------------------------------------------------------------- */

/* Which of the answers that are there is this one? TG__RUN_READY: none. */
static unsigned ready_answer(const struct call *c) {
  unsigned i = 0;
  for (; i < TG__RUN_READY; i++) {
    const char *const by = tg__run_ready[i].by, *const asked = value_of(c, "by");
    const bool has_by = by ? asked && strcmp(asked, by) == 0 : !asked;
    if (strcmp(c->question, tg__run_ready[i].question) == 0 && has_by && !is_given(c, "step") && !is_given(c, "rank") &&
        !is_given(c, "where"))
      break;
  }
  return i;
}

static enum tg_err give_ready(const struct tg__run_ranks *ranks, unsigned which, struct tg_table **out, struct tg_error *e) {
  const struct tg_error *const why = &ranks->why_not[which];
  if (!ranks->ready[which]) return tg__fail(e, why->code ? why->code : TG_NO_DATA, why->offset, "%s", why->text);
  *out = tg__table_copy(ranks->ready[which]);
  return *out ? TG_OK : tg__fail(e, TG_MEMORY, -1, "out of memory while answering %s", tg__run_ready[which].question);
}

static enum tg_err ask_ranks(const struct tg_trace *run, const struct call *c, struct tg_table **out, struct tg_error *e) {
  const struct tg__run_ranks *const ranks = &run->run->ranks;
  struct tg_error first = {0};
  for (size_t i = 0; i < ranks->count; i++) {
    struct tg_table *rows = NULL;
    struct tg_error why = {0};
    const enum tg_err err = ask_rank(run, &ranks->items[i], c, &rows, &why);
    if (err && !first.code) first = why;
    if (err == TG_NO_DATA) continue; /* of this rank: others may have it */
    if (err || (*out && !tg__table_append(*out, rows))) {
      tg__table_free(rows);
      tg__table_free(*out);
      *out = NULL;
      return err ? tg__fail(e, why.code, why.offset, "%s", why.text)
                 : tg__fail(e, TG_MEMORY, -1, "out of memory while answering %s", c->question);
    }
    if (*out)
      tg__table_free(rows);
    else
      *out = rows;
  }
  return *out ? TG_OK : tg__fail(e, first.code ? first.code : TG_NO_DATA, first.offset, "%s", first.text);
}

/* A track or slice may be any rank's, and rows count their microseconds from the first start of them all. */
static bool needs_all(const struct call *c) {
  return is_given(c, "track") || strcmp(c->question, "call_stack") == 0 || strcmp(c->question, "rows") == 0;
}

/* ---- a question -------------------------------------------------------------------------------------------------------------------------- */

static const struct tg__run_rank *rank_of(const struct tg__run_ranks *ranks, const char *number) {
  char *end;
  const long long n = strtoll(number, &end, 10);
  for (size_t i = 0; *end == 0 && i < ranks->count; i++)
    if (ranks->items[i].number == n) return &ranks->items[i];
  return NULL;
}

enum tg_err tg__run_ask(struct tg_trace *t, const char *question, const struct tg_arg *args, size_t arg_count, struct tg_table **out,
                        struct tg_error *e) {
  const struct tg__question *const q = tg__question_find(question);
  const struct call c = {question, args, arg_count};
  struct tg__run_door *const d = t->run;
  const char *const rules = value_of(&c, "rules");
  *out = NULL;
  if (!d || !q || (q->needs == TG__COL_RANKS && !(rules && strncmp(rules, "hta", 3) == 0)))
    return tg__ask_run(t, question, args, arg_count, out, e);
  enum tg_err err = tg__ask_check(q, args, arg_count, e);
  if (err) return err;
  const bool of_one = is_given(&c, "rank"), of_all = needs_all(&c);
  const struct tg__run_rank *const r = of_one ? rank_of(&d->ranks, value_of(&c, "rank")) : NULL;
  const unsigned ready = ready_answer(&c);
  if (of_one && !r) return tg__ask_run(t, question, args, arg_count, out, e); /* which says what ranks there are */
  if (!d->whole && r && !of_all) {
    err = ask_rank(t, r, &c, out, e);
  } else if (!d->whole && ready < TG__RUN_READY) {
    err = give_ready(&d->ranks, ready, out, e);
  } else if (!d->whole && !of_all && tg__question_goes_by_rank(question)) {
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
