/* read_all: the ranks of a run are read for the first time, one after the other, and only what the questions about
 * ranks need is kept of each. */
#include "analyze/ranks/summarize.h"
#include "ranks/ranks.h"

enum { AT_ONCE = 2 }; /* more would not be faster than the memory they take is worth */

enum { MOST_ASKED = TG__READY_COUNT };
struct unit { /* a file */
  const struct tg__folder *folder;
  size_t index;
  const char *path; /* the folder's */
  int64_t bytes, read_bytes;
  struct tg__summaries ranks; /* what became of it; the strings are everybody's */
  /* Of a run that is asked more later: what stands where, the answers of this file, and the rows they have become of
   * everybody's. */
  struct tg__job_ranks own;
  struct tg_table *answers[MOST_ASKED]; /* NULL: none, for this reason */
  struct tg_error why_not[MOST_ASKED];
  size_t first_row[MOST_ASKED], row_count[MOST_ASKED];
  bool is_done;
  enum tg_err err;
  struct tg_error error;
};
struct asked { /* of every file, while it is in memory */
  struct tg_arg by;
  struct tg__merging merging;
};
struct reading {
  const struct tg_open_options *options;
  struct tg_open_options each;
  struct unit *units;
  size_t count, cap;
  struct tg__lock *lock;
  int64_t done_bytes, total_bytes, done_units, total_units;
  struct tg__job_ranks *run; /* NULL, or what a run that is asked more later keeps */
  struct tg__first_question *first;
  struct asked asked[MOST_ASKED];
  size_t asked_count;
  size_t joined;               /* units with merged answers: as many as come one after the other */
  struct tg__job_rank counted; /* how many tracks, slices and marks these have */
  bool stopped, no_memory;
};

static enum tg_err add_units(struct reading *r, const struct tg__folder *folder) {
  for (size_t i = 0; i < tg__folder_count(folder); i++) {
    const int64_t bytes = tg__folder_bytes(folder, i);
    if (!tg__grow((void **)&r->units, &r->cap, r->count + 1, sizeof *r->units)) return TG_MEMORY;
    r->units[r->count++] =
        (struct unit){.folder = folder, .index = i, .path = tg__folder_path(folder, i), .bytes = bytes};
    r->total_bytes += bytes;
    r->total_units += bytes > 0;
  }
  return TG_OK;
}

/* ---- questions to every file ----------------------------------------------------------------- */

/* Rows may be chosen before all ranks are there, unless they become one with others or are chosen by what is only
 * known at the end: what ranks are called, and when the first began. */
static bool chooses_now(const struct reading *r, const struct asked *a, const struct tg_table *rows) {
  if (!r->first || !tg__call_has(&r->first->call, "where") || tg__joining_needs_all_rows(a->merging.joining))
    return false;
  const char *const where = tg__call_value(&r->first->call, "where");
  for (size_t c = 0; c < rows->column_count; c++) {
    const enum tg__role role = rows->columns[c].role;
    if ((role == TG__ROLE_RANK || role == TG__ROLE_SINCE_FIRST) && strstr(where, rows->columns[c].name)) return false;
  }
  return true;
}

static enum tg_err join_answer(struct reading *r, struct asked *a, struct unit *u, size_t i, struct tg_error *e) {
  struct tg_table *const rows = u->answers[i], *joined = tg__joining_rows(a->merging.joining);
  u->first_row[i] = joined ? joined->rows : 0;
  u->answers[i] = NULL;
  if (!rows && !u->why_not[i].code) return TG_OK;
  if (rows) tg__renumber_rows(rows, &a->merging.call, &r->counted);
  const bool choose = rows && chooses_now(r, a, rows);
  const enum tg_err err = tg__merging_add(&a->merging, rows, &u->why_not[i], choose, (size_t)(u - r->units), e);
  joined = tg__joining_rows(a->merging.joining);
  u->row_count[i] = !err && rows ? joined->rows - u->first_row[i] : 0;
  return err;
}

/* Tables of a few rows, but each with memory of its own: they are put together as soon as those before them are. */
static void join_answers(struct reading *r, struct unit *u) {
  for (size_t i = 0; i < r->asked_count && !r->no_memory; i++) {
    struct tg_error e = {0};
    if (!join_answer(r, &r->asked[i], u, i, &e)) continue;
    r->no_memory |= e.code == TG_MEMORY;
    r->stopped |= e.code != TG_MEMORY;
    if (r->first && !r->first->err) r->first->err = e.code, r->first->error = e;
  }
  for (size_t k = 0; k < u->own.count; k++) {
    r->counted.first_track += u->own.items[k].tracks;
    r->counted.first_slice += u->own.items[k].slices;
    r->counted.first_mark += u->own.items[k].marks;
  }
}

static bool prepare_questions(struct reading *r) {
  const size_t count = !r->run ? 0 : r->first ? 1 : TG__READY_COUNT;
  for (; r->asked_count < count; r->asked_count++) {
    struct asked *const a = &r->asked[r->asked_count];
    const struct tg__ready *const ready = &tg__ready[r->asked_count];
    a->by = (struct tg_arg){"by", ready->by};
    const struct tg__call call =
        r->first ? r->first->call : (struct tg__call){ready->question, &a->by, *ready->by != 0, SIZE_MAX, SIZE_MAX};
    if (!tg__merging_begin(&a->merging, &call, r->first ? r->first->most : SIZE_MAX)) {
      tg__merging_end(&a->merging);
      return false;
    }
  }
  return true;
}

static enum tg_err ask_unit(const struct tg__merging *m, struct tg__columns *t, const struct tg__job_info *job,
                            struct tg_table **out, struct tg_error *e) {
  return t->rank_count == 1 ? tg__ask_rank(t, job, 0, &m->each, out, e) : tg__part_ask(t, job, &m->each, out, e);
}

static bool note_health(const struct tg__rank *rank, struct tg__rank_health *h) {
  h->events_read = rank->events_read;
  h->events_kept = rank->events_kept;
  memcpy(h->loss, rank->loss, sizeof h->loss);
  memcpy(h->loss_offset, rank->loss_offset, sizeof h->loss_offset);
  h->processes = tg__alloc(((size_t)rank->process_count + 1) * sizeof *h->processes);
  if (!h->processes) return false;
  if (rank->process_count) memcpy(h->processes, rank->processes, rank->process_count * sizeof *h->processes);
  h->process_count = rank->process_count;
  return true;
}

/* Before the trace of a file is let go: how many tracks and slices its ranks have, and what is asked of them. */
static enum tg_err note_places(const struct reading *r, struct unit *u, struct tg__columns *t) {
  struct tg__job_ranks *const own = &u->own;
  if (!tg__grow((void **)&own->items, &own->cap, t->rank_count, sizeof *own->items))
    return tg__no_memory(&u->error, "looking at a rank");
  for (uint32_t k = 0; k < t->rank_count; k++) {
    const struct tg__rank *const rank = &t->ranks[k];
    struct tg__job_rank *const place = &own->items[own->count++];
    *place = (struct tg__job_rank){
        .unit = (uint32_t)u->index, .of_unit = k, .alone = rank->number, .tracks = rank->track_count};
    for (uint32_t i = 0; i < rank->track_count; i++) place->slices += t->tracks[rank->first_track + i].count;
    for (uint32_t i = 0; i < t->marks.count; i++) place->marks += t->tracks[t->marks.track[i]].rank == k;
    place->first_ns = tg__rank_first_ns(t, k);
    place->health.links = tg__links_of(t, k);
    if (!note_health(rank, &place->health) || tg__rank_load(t, k, &place->load))
      return tg__no_memory(&u->error, "looking at a rank");
    struct tg__rank_summary *const summary = &u->ranks.ranks[k];
    summary->unit = place->unit;
    summary->of_unit = k;
  }
  if (!r->first || r->first->checks) tg__trace_is_valid(t, &own->defect);
  const struct tg__job_info job = {.is_part = r->total_units > 1}; /* count_from_first moves it to the first start */
  for (size_t i = 0; i < r->asked_count; i++) {
    tg__cache_drop(t);
    const enum tg_err err = ask_unit(&r->asked[i].merging, t, &job, &u->answers[i], &u->why_not[i]);
    if (!err || err == TG_NO_DATA) continue;
    u->error = u->why_not[i];
    return err;
  }
  return TG_OK;
}

/* ---- one file -------------------------------------------------------------------------------- */

/* Bytes of a file that is being read: those of all, so far. */
static bool count_bytes(struct reading *r, struct unit *u, int64_t bytes, bool done) {
  tg__lock_take(r->lock);
  if (bytes > u->bytes) bytes = u->bytes;
  r->done_bytes += bytes > u->read_bytes ? bytes - u->read_bytes : 0;
  if (bytes > u->read_bytes) u->read_bytes = bytes;
  u->is_done |= done;
  r->done_units += done && u->bytes > 0;
  if (done && u->bytes > 0 && r->options->part_done)
    r->options->part_done(r->options->progress_ctx, r->done_units, r->total_units);
  for (; r->run && r->joined < r->count && r->units[r->joined].is_done; r->joined++)
    join_answers(r, &r->units[r->joined]);
  if (r->options->progress && !r->stopped &&
      !r->options->progress(r->options->progress_ctx, r->done_bytes, r->total_bytes))
    r->stopped = true;
  const bool go_on = !r->stopped;
  tg__lock_drop(r->lock);
  return go_on;
}

struct part { /* of the reading */
  struct reading *r;
  struct unit *u;
};
static bool report_part(void *ctx, int64_t done, int64_t total) {
  const struct part *const p = ctx;
  (void)total;
  return count_bytes(p->r, p->u, done, false);
}

static void read_unit(void *ctx, size_t i) {
  struct reading *const r = ctx;
  struct unit *const u = &r->units[i];
  struct part part = {r, u};
  struct tg__columns *t = NULL;
  struct tg__summaries *summaries = NULL;
  if (!count_bytes(r, u, 0, false)) return;
  const struct tg_open_options options = {
      .threads = r->each.threads, .progress = r->options->progress ? report_part : NULL, .progress_ctx = &part};
  u->err = tg__folder_read(u->folder, u->index, &options, &t, &summaries, &u->error);
  if (summaries && r->run) {
    /* a summary among the traces it was made of, or of others: its events are not here */
  } else if (summaries) {
    if (!tg__summaries_move(summaries, &u->ranks)) u->err = tg__no_memory(&u->error, "reading a summary");
  } else if (t) {
    u->err = tg__trace_load(t, TG__COL_ALL, &u->error);
    if (r->count > 1) tg__memory_return(); /* what reading took, before the questions take theirs */
    if (!u->err && tg__summarize(t, &u->ranks) != TG_OK) u->err = tg__no_memory(&u->error, "summing up a rank");
    if (!u->err && r->run) u->err = note_places(r, u, t);
  }
  tg__trace_free(t);
  tg__summaries_free(summaries);
  if (r->count > 1)
    tg__memory_return(); /* or the next rank's memory comes on top of what the allocator keeps of this one's */
  count_bytes(r, u, u->bytes, true);
}

/* The ranks of all files, in the order of the files. Those that could not be read are passed over and counted,
 * unless none could. */
static enum tg_err gather(struct reading *r, const char *path, struct tg__summaries *s, int64_t *passed_over,
                          struct tg_error *e) {
  const struct unit *bad = NULL;
  for (size_t i = 0; i < r->count; i++) {
    struct unit *const u = &r->units[i];
    if (u->err == TG_MEMORY || u->err == TG_INTERNAL || u->err == TG_USAGE) {
      if (e) *e = u->error;
      return u->err;
    }
    *passed_over += u->err != TG_OK;
    if (u->err && !bad) bad = u;
    if (u->ranks.count && !tg__summaries_move(&u->ranks, s)) return tg__no_memory(e, "putting ranks together");
  }
  if (r->first && r->first->err) return tg__fail(e, r->first->err, r->first->error.offset, "%s", r->first->error.text);
  if (r->stopped) return tg__fail(e, TG_CANCELLED, -1, "stopped on request");
  if (s->count) return TG_OK;
  if (!bad) return tg__no_traces(path, e);
  if (r->count == 1) return tg__fail(e, bad->error.code, bad->error.offset, "%s", bad->error.text);
  return tg__fail(e, bad->error.code, bad->error.offset, "no file could be read; the first that failed says: %s",
                  bad->error.text);
}

static enum tg_err read_all(struct reading *r, const char *path, struct tg__columns **out,
                            struct tg__summaries **summaries, struct tg_error *e) {
  int64_t passed_over = 0;
  struct tg__summaries *const s = tg__summaries_new();
  if (!s || !r->lock || !prepare_questions(r)) {
    tg__summaries_free(s);
    return tg__no_memory(e, "reading the ranks");
  }
  const unsigned threads = r->options->threads ? r->options->threads : tg__cpu_count();
  const unsigned at_once = threads < AT_ONCE || r->count < AT_ONCE ? 1 : AT_ONCE;
  r->each = (struct tg_open_options){.threads = threads / at_once};
  for (size_t i = 0; i < r->count; i++) r->units[i].ranks.strings = s->strings;
  tg__pages_frugal(true);
  tg__parallel(at_once, r->count, read_unit, r);
  tg__pages_frugal(false);
  enum tg_err err = gather(r, path, s, &passed_over, e);
  for (size_t i = 0; i < r->count; i++) {
    for (uint32_t k = 0; k < r->units[i].ranks.count; k++) tg__rank_summary_free(&r->units[i].ranks.ranks[k]);
    tg__free(r->units[i].ranks.ranks);
  }
  if (!err) err = tg__trace_of_summaries(s, path, out, e);
  if (err) tg__summaries_free(s);
  *summaries = err ? NULL : s;
  if (!err) (*out)->ranks[0].loss[TG__LOSS_skipped_file] = passed_over;
  if (!err) (*out)->ranks[0].loss_offset[TG__LOSS_skipped_file] = -1; /* of no place in any file */
  for (size_t i = 0; !err && i < r->count; i++)
    if (r->units[i].err) tg__trace_add_skipped(*out, r->units[i].path, r->units[i].error.text);
  return err;
}

/* ---- a run that is asked more later ---------------------------------------------------------- */

static const struct tg__rank_summary *summary_of(const struct tg__summaries *s, const struct tg__job_rank *place) {
  for (uint32_t i = 0; i < s->count; i++)
    if (s->ranks[i].unit == place->unit && s->ranks[i].of_unit == place->of_unit) return &s->ranks[i];
  return NULL;
}

/* The tables of a file say what its ranks are called alone. */
static void rename_ranks(struct tg_table *t, size_t first, size_t count, const struct tg__job_rank *places,
                         size_t place_count) {
  const size_t c = t ? tg__table_role_index(t, TG__ROLE_RANK) : SIZE_MAX;
  for (size_t i = first; c != SIZE_MAX && i < first + count; i++) {
    int64_t *const cell = &t->columns[c].ints[i];
    size_t k = 0;
    while (k < place_count && places[k].alone != *cell) k++;
    if (k < place_count) *cell = places[k].number;
  }
}

/* The rows of a file count their microseconds from its own first start; in the run, from the first of all. */
static void count_from_first(const struct tg__columns *run, const struct tg__job_ranks *all, struct tg_table *t) {
  const size_t us = t ? tg__table_role_index(t, TG__ROLE_SINCE_FIRST) : SIZE_MAX;
  if (us == SIZE_MAX) return;
  const int64_t origin = tg__job_first_ns(run, all->items, all->count);
  const int64_t *const start = t->columns[tg__table_role_index(t, TG__ROLE_INSTANT)].ints;
  const int64_t *const rank = t->columns[tg__table_role_index(t, TG__ROLE_RANK)].ints;
  int64_t last = TG_NULL_INT, offset = 0;
  for (size_t i = 0; i < t->rows; i++) {
    if (rank[i] != last) offset = tg__job_clock_offset(run, rank[i]);
    last = rank[i];
    if (start[i] != TG_NULL_INT) t->columns[us].reals[i] = tg__us_of(start[i] + offset - origin);
  }
}

/* What is said of ranks by their summaries says what was lost of them, too; which files were passed over is there
 * already. */
static void copy_losses(struct tg__columns *run, const struct tg__job_rank *place) {
  for (uint32_t r = 0; r < run->rank_count; r++)
    for (int k = 0; k < TG__LOSS_COUNT && run->ranks[r].number == place->number; k++)
      if (k != TG__LOSS_skipped_file)
        run->ranks[r].loss[k] = place->health.loss[k], run->ranks[r].loss_offset[k] = place->health.loss_offset[k];
}

/* Where each rank is, by what it is called now that all are known. */
static bool gather_places(const struct reading *r, struct tg__columns *t, const struct tg__summaries *summaries,
                          struct tg__job_ranks *all) {
  uint32_t track = 0, slice = 0, mark = 0;
  for (size_t i = 0; i < r->count; i++) {
    struct tg__job_ranks *const own = &r->units[i].own;
    if (r->units[i].err || own->count == 0) continue;
    if (!tg__grow((void **)&all->items, &all->cap, all->count + own->count, sizeof *all->items)) return false;
    struct tg__job_rank *const places = all->items + all->count;
    for (size_t k = 0; k < own->count; k++) {
      places[k] = own->items[k];
      const struct tg__rank_summary *const s = summary_of(summaries, &places[k]);
      places[k].number = s ? s->number : places[k].alone;
      places[k].first_track = track;
      places[k].first_slice = slice;
      track += places[k].tracks;
      places[k].first_mark = mark;
      slice += places[k].slices;
      mark += places[k].marks;
    }
    all->count += own->count;
    for (size_t k = 0; k < own->count; k++) copy_losses(t, &places[k]);
    if (!all->defect.code) all->defect = own->defect;
    for (size_t n = 0; n < r->asked_count; n++)
      rename_ranks(tg__joining_rows(r->asked[n].merging.joining), r->units[i].first_row[n], r->units[i].row_count[n],
                   places, own->count);
    own->count = 0; /* what they point to is the run's now */
  }
  for (size_t n = 0; n < r->asked_count; n++) count_from_first(t, all, tg__joining_rows(r->asked[n].merging.joining));
  return true;
}

/* The answers are whole, but for what is asked of all ranks together. */
static enum tg_err end_questions(struct reading *r, const struct tg__columns *run, struct tg__job_ranks *ranks,
                                 struct tg_error *e) {
  int64_t *const numbers = tg__alloc((r->count + 1) * sizeof *numbers);
  if (!numbers) return tg__no_memory(e, "putting ranks together");
  for (size_t i = 0; i < r->count; i++) numbers[i] = -1;
  for (size_t i = ranks->count; i-- > 0;)
    for (size_t k = 0; k < r->count; k++)
      if (r->units[k].index == ranks->items[i].unit) numbers[k] = ranks->items[i].number;
  enum tg_err err = TG_OK;
  for (size_t i = 0; i < r->asked_count && err != TG_MEMORY; i++) {
    struct tg_table **const table = r->first ? &r->first->table : &ranks->ready[i];
    struct tg_error *const why = r->first ? &r->first->error : &ranks->why_not[i];
    err = tg__joining_end(r->asked[i].merging.joining, numbers, table, why);
    if (!err) tg__add_losses_of_all(run, *table);
    if (r->first) r->first->err = err;
    if (err == TG_MEMORY && e) *e = *why;
  }
  ranks->has_ready = !r->first;
  tg__free(numbers);
  return err == TG_MEMORY ? err : TG_OK;
}

enum tg_err tg__folder_summaries(const struct tg__folder *folder, const char *path,
                                 const struct tg_open_options *options, struct tg__first_question *first,
                                 struct tg__job_ranks *ranks, struct tg__columns **out,
                                 struct tg__summaries **summaries, struct tg_error *e) {
  static const struct tg_open_options defaults;
  struct reading r = {.options = options ? options : &defaults, .lock = tg__lock_new(), .run = ranks, .first = first};
  enum tg_err err =
      add_units(&r, folder) ? tg__no_memory(e, "reading the ranks") : read_all(&r, path, out, summaries, e);
  const bool is_open = !err;
  if (!err && (r.no_memory || !gather_places(&r, *out, *summaries, ranks)))
    err = tg__no_memory(e, "putting ranks together");
  if (!err) err = end_questions(&r, *out, ranks, e);
  if (err && is_open) {
    tg__trace_free(*out);
    tg__summaries_free(*summaries);
    *out = NULL;
  }
  for (size_t i = 0; i < r.count; i++) {
    for (size_t k = 0; k < MOST_ASKED; k++) tg__table_free(r.units[i].answers[k]);
    tg__job_ranks_free(&r.units[i].own);
  }
  for (size_t i = 0; i < r.asked_count; i++) tg__merging_end(&r.asked[i].merging);
  tg__free(r.units);
  tg__lock_free(r.lock);
  return err;
}

/* ---- summaries alone ------------------------------------------------------------------------- */

enum tg_err tg__read_summaries(const char *const *paths, size_t count, const struct tg_open_options *options,
                               struct tg_trace **out, struct tg_error *e) {
  struct tg__columns *columns;
  struct tg__summaries *summaries;
  static const struct tg_open_options defaults;
  struct reading r = {.options = options ? options : &defaults, .lock = tg__lock_new()};
  struct tg__folder **const folders = tg__alloc((count + 1) * sizeof *folders);
  enum tg_err err = folders ? TG_OK : tg__no_memory(e, "reading the ranks");
  *out = NULL;
  if (!err && count == 0) err = tg__fail(e, TG_USAGE, -1, "there are no ranks to open: name their files or folder");
  for (size_t i = 0; i < count && !err; i++) {
    err = tg__folder_open(paths[i], &folders[i], e);
    if (!err && add_units(&r, folders[i])) err = tg__no_memory(e, "reading the ranks");
  }
  if (!err) err = read_all(&r, paths[0], &columns, &summaries, e);
  if (!err) err = tg__handle_new(columns, NULL, summaries, out, e);
  for (size_t i = 0; folders && i < count; i++) tg__folder_close(folders[i]);
  tg__free(folders);
  tg__free(r.units);
  tg__lock_free(r.lock);
  return err;
}

enum tg_err tg__save_summaries(struct tg_trace *t, const char *path, struct tg_error *e) {
  struct tg__columns *const trace = t->columns;
  if (t->summaries) return tg__summaries_save(t->summaries, path, e);
  enum tg_err err = tg__trace_load(trace, TG__COL_ALL, e);
  if (err) return err;
  struct tg__summaries *const s = tg__summaries_new();
  if (!s || tg__summarize(trace, s) != TG_OK || !tg__summaries_sort(s))
    err = tg__no_memory(e, "summing up the ranks");
  else
    err = tg__summaries_save(s, path, e);
  tg__summaries_free(s);
  return err;
}
