/* The door for runs of many ranks: read one after the other, and only what the questions about ranks need is kept of each. */
#include "analyze/ranks/summarize.h"
#include "analyze/ranks/read_run.h"

enum { AT_ONCE = 2 }; /* more would not be faster than the memory they take is worth */

struct unit { /* a file */
  const struct tg__folder *folder;
  size_t index;
  int64_t bytes;
  struct tg__summaries ranks; /* what became of it; the strings are everybody's */
  /* Of a run that is asked more later: what stands where, the first page's tables, and the rows they have become of everybody's. */
  struct tg__run_ranks own;
  size_t first_row[TG__RUN_READY], row_count[TG__RUN_READY];
  bool is_done;
  enum tg_err err;
  struct tg_error error;
};
struct reading {
  const struct tg_open_options *options;
  struct tg_open_options each;
  struct unit *units;
  size_t count, cap;
  struct tg__lock *lock;
  int64_t done_bytes, total_bytes;
  struct tg__run_ranks *run; /* NULL, or what a run that is asked more later keeps */
  size_t joined;             /* units whose tables are in there: as many as come one after the other */
  bool stopped, no_memory;
};

static enum tg_err add_units(struct reading *r, const struct tg__folder *folder) {
  for (size_t i = 0; i < tg__folder_count(folder); i++) {
    const int64_t bytes = tg__folder_bytes(folder, i);
    if (!tg__grow((void **)&r->units, &r->cap, r->count + 1, sizeof *r->units)) return TG_MEMORY;
    r->units[r->count++] = (struct unit){.folder = folder, .index = i, .bytes = bytes};
    r->total_bytes += bytes;
  }
  return TG_OK;
}

/* Tables of a few rows, but each with memory of its own: they are put together as soon as those before them are. */
static bool join_tables(struct tg__run_ranks *all, struct unit *u) {
  bool done = true;
  for (unsigned i = 0; i < TG__RUN_READY && done; i++) {
    struct tg_table *const own = u->own.ready[i];
    if (!own && !all->why_not[i].code) all->why_not[i] = u->own.why_not[i];
    if (!own) continue;
    u->first_row[i] = all->ready[i] ? all->ready[i]->rows : 0;
    u->row_count[i] = own->rows;
    if (all->ready[i]) {
      done = tg__table_append(all->ready[i], own);
      tg__table_free(own);
    } else {
      all->ready[i] = own;
    }
    u->own.ready[i] = NULL;
  }
  return done;
}

static void report(struct reading *r, struct unit *u) {
  tg__lock_take(r->lock);
  u->is_done = true;
  for (; r->run && r->joined < r->count && r->units[r->joined].is_done; r->joined++)
    r->no_memory |= !join_tables(r->run, &r->units[r->joined]);
  r->done_bytes += u->bytes;
  if (r->options->progress && !r->stopped && !r->options->progress(r->options->progress_ctx, r->done_bytes, r->total_bytes))
    r->stopped = true;
  tg__lock_drop(r->lock);
}

/* Before the trace of a file is let go: how many tracks and slices its ranks have, and what the first page asks of them. */
static enum tg_err note_places(struct unit *u, struct tg_trace *t) {
  struct tg__run_ranks *const own = &u->own;
  if (!tg__grow((void **)&own->items, &own->cap, t->rank_count, sizeof *own->items)) return TG_MEMORY;
  for (uint32_t r = 0; r < t->rank_count; r++) {
    const struct tg__rank *const rank = &t->ranks[r];
    struct tg__run_rank *const place = &own->items[own->count++];
    *place = (struct tg__run_rank){.unit = (uint32_t)u->index, .of_unit = r, .alone = rank->number, .tracks = rank->track_count};
    for (uint32_t k = 0; k < rank->track_count; k++) place->slices += t->tracks[rank->first_track + k].count;
    for (uint32_t i = 0; i < t->marks.count; i++) place->marks += t->tracks[t->marks.track[i]].rank == r;
    struct tg__rank_summary *const summary = &u->ranks.ranks[r];
    summary->unit = place->unit;
    summary->of_unit = r;
  }
  own->is_damaged = !tg__trace_is_valid(t, &(struct tg_error){0});
  for (unsigned i = 0; i < TG__RUN_READY; i++) {
    const struct tg_arg by = {"by", tg__run_ready[i].by};
    const enum tg_err err = tg__ask_run(t, tg__run_ready[i].question, &by, by.value != NULL, &own->ready[i], &own->why_not[i]);
    if (err && err != TG_NO_DATA) return err;
  }
  return TG_OK;
}

static void read_unit(void *ctx, size_t i) {
  struct reading *const r = ctx;
  struct unit *const u = &r->units[i];
  struct tg_trace *t = NULL;
  tg__lock_take(r->lock);
  const bool stopped = r->stopped;
  tg__lock_drop(r->lock);
  if (stopped) return;
  u->err = tg__folder_read(u->folder, u->index, &r->each, &t, &u->error);
  if (t && t->summaries && r->run) {
    /* a summary among the traces it was made of, or of others: its events are not here */
  } else if (t && t->summaries) {
    if (!tg__summaries_move(t->summaries, &u->ranks)) u->err = tg__fail(&u->error, TG_MEMORY, -1, "out of memory while reading a summary");
  } else if (t) {
    u->err = tg__trace_load(t, TG__COL_ALL, &u->error);
    if (!u->err && tg__summarize(t, &u->ranks) != TG_OK)
      u->err = tg__fail(&u->error, TG_MEMORY, -1, "out of memory while summing up a rank");
    if (!u->err && r->run && note_places(u, t) != TG_OK)
      u->err = tg__fail(&u->error, TG_MEMORY, -1, "out of memory while looking at a rank");
  }
  tg_close(t);
  report(r, u);
}

/* The ranks of all files, in the order of the files. Those that could not be read are passed over and counted, unless none could. */
static enum tg_err gather(struct reading *r, struct tg__summaries *s, int64_t *passed_over, struct tg_error *e) {
  const struct unit *bad = NULL;
  for (size_t i = 0; i < r->count; i++) {
    struct unit *const u = &r->units[i];
    if (u->err == TG_MEMORY || u->err == TG_INTERNAL) {
      if (e) *e = u->error;
      return u->err;
    }
    *passed_over += u->err != TG_OK;
    if (u->err && !bad) bad = u;
    if (u->ranks.count && !tg__summaries_move(&u->ranks, s))
      return tg__fail(e, TG_MEMORY, -1, "out of memory while putting ranks together");
  }
  if (r->stopped) return tg__fail(e, TG_CANCELLED, -1, "stopped on request");
  if (s->count) return TG_OK;
  if (!bad) return tg__fail(e, TG_NOT_A_TRACE, -1, "there are no traces: no file ends in .json, .json.gz, .json.zst, .tacho or .tsum");
  return tg__fail(e, bad->error.code, bad->error.offset, "no file could be read; the first that failed says: %s", bad->error.text);
}

static enum tg_err read_all(struct reading *r, const char *path, struct tg_trace **out, struct tg_error *e) {
  int64_t passed_over = 0;
  struct tg__summaries *const s = tg__summaries_new();
  if (!s || !r->lock) {
    tg__summaries_free(s);
    return tg__fail(e, TG_MEMORY, -1, "out of memory before reading the ranks");
  }
  const unsigned threads = r->options->threads ? r->options->threads : tg__cpu_count();
  const unsigned at_once = threads < AT_ONCE || r->count < AT_ONCE ? 1 : AT_ONCE;
  r->each = (struct tg_open_options){.threads = threads / at_once};
  for (size_t i = 0; i < r->count; i++) r->units[i].ranks.strings = s->strings;
  tg__parallel(at_once, r->count, read_unit, r);
  enum tg_err err = gather(r, s, &passed_over, e);
  for (size_t i = 0; i < r->count; i++) {
    for (uint32_t k = 0; k < r->units[i].ranks.count; k++) tg__rank_summary_free(&r->units[i].ranks.ranks[k]);
    tg__free(r->units[i].ranks.ranks);
  }
  if (err)
    tg__summaries_free(s);
  else
    err = tg__trace_of_summaries(s, path, out, e);
  if (!err) (*out)->ranks[0].loss[TG__LOSS_skipped_file] = passed_over;
  return err;
}

/* ---- a run that is asked more later ------------------------------------------------------------------------------------------------- */

static const struct tg__rank_summary *summary_of(const struct tg__summaries *s, const struct tg__run_rank *place) {
  for (uint32_t i = 0; i < s->count; i++)
    if (s->ranks[i].unit == place->unit && s->ranks[i].of_unit == place->of_unit) return &s->ranks[i];
  return NULL;
}

/* The tables of a file say what its ranks are called alone. */
static void rename_ranks(struct tg_table *t, size_t first, size_t count, const struct tg__run_rank *places, size_t place_count) {
  const size_t c = t ? tg__table_column_index(t, "rank") : SIZE_MAX;
  for (size_t i = first; c != SIZE_MAX && i < first + count; i++) {
    int64_t *const cell = &t->columns[c].ints[i];
    size_t k = 0;
    while (k < place_count && places[k].alone != *cell) k++;
    if (k < place_count) *cell = places[k].number;
  }
}

/* Where each rank is, by what it is called now that all are known. */
static bool gather_places(const struct reading *r, const struct tg_trace *t, struct tg__run_ranks *all) {
  uint32_t track = 0, slice = 0, mark = 0;
  for (size_t i = 0; i < r->count; i++) {
    struct tg__run_ranks *const own = &r->units[i].own;
    if (r->units[i].err || own->count == 0) continue;
    if (!tg__grow((void **)&all->items, &all->cap, all->count + own->count, sizeof *all->items)) return false;
    struct tg__run_rank *const places = all->items + all->count;
    for (size_t k = 0; k < own->count; k++) {
      places[k] = own->items[k];
      const struct tg__rank_summary *const s = summary_of(t->summaries, &places[k]);
      places[k].number = s ? s->number : places[k].alone;
      places[k].first_track = track;
      places[k].first_slice = slice;
      track += places[k].tracks;
      places[k].first_mark = mark;
      slice += places[k].slices;
      mark += places[k].marks;
    }
    all->count += own->count;
    all->is_damaged |= own->is_damaged;
    for (unsigned n = 0; n < TG__RUN_READY; n++)
      rename_ranks(all->ready[n], r->units[i].first_row[n], r->units[i].row_count[n], places, own->count);
  }
  return true;
}

enum tg_err tg__folder_summaries(const struct tg__folder *folder, const char *path, const struct tg_open_options *options,
                                 struct tg__run_ranks *ranks, struct tg_trace **out, struct tg_error *e) {
  static const struct tg_open_options defaults;
  struct reading r = {.options = options ? options : &defaults, .lock = tg__lock_new(), .run = ranks};
  enum tg_err err =
      add_units(&r, folder) ? tg__fail(e, TG_MEMORY, -1, "out of memory before reading the ranks") : read_all(&r, path, out, e);
  if (!err && (r.no_memory || !gather_places(&r, *out, ranks))) {
    err = tg__fail(e, TG_MEMORY, -1, "out of memory while putting ranks together");
    tg__trace_free(*out);
    *out = NULL;
  }
  if (!err) (*out)->step_kind = (*out)->summaries->ranks[0].step_kind;
  for (size_t i = 0; i < r.count; i++) tg__run_ranks_free(&r.units[i].own);
  tg__free(r.units);
  tg__lock_free(r.lock);
  return err;
}

/* ---- the front door -------------------------------------------------------------------------------------------------------------------- */

enum tg_err tg_open_ranks(const char *const *paths, size_t count, const struct tg_open_options *options, struct tg_trace **out,
                          struct tg_error *error) {
  static const struct tg_open_options defaults;
  struct tg_error ignored;
  struct reading r = {.options = options ? options : &defaults, .lock = tg__lock_new()};
  struct tg__folder **const folders = tg__alloc((count + 1) * sizeof *folders);
  struct tg_error *const e = error ? error : &ignored;
  enum tg_err err = folders ? TG_OK : tg__fail(e, TG_MEMORY, -1, "out of memory before reading the ranks");
  *out = NULL;
  if (!err && count == 0) err = tg__fail(e, TG_USAGE, -1, "there are no ranks to open: name their files or folder");
  for (size_t i = 0; i < count && !err; i++) {
    err = tg__folder_open(paths[i], &folders[i], e);
    if (!err && add_units(&r, folders[i])) err = tg__fail(e, TG_MEMORY, -1, "out of memory before reading the ranks");
  }
  if (!err) err = read_all(&r, paths[0], out, e);
  for (size_t i = 0; folders && i < count; i++) tg__folder_close(folders[i]);
  tg__free(folders);
  tg__free(r.units);
  tg__lock_free(r.lock);
  return err;
}

enum tg_err tg_save_ranks(struct tg_trace *trace, const char *path, struct tg_error *error) {
  if (trace->summaries) return tg__summaries_save(trace->summaries, path, error);
  enum tg_err err = tg__trace_load(trace, TG__COL_ALL, error);
  if (err) return err;
  struct tg__summaries *const s = tg__summaries_new();
  if (!s || tg__summarize(trace, s) != TG_OK || !tg__summaries_sort(s))
    err = tg__fail(error, TG_MEMORY, -1, "out of memory while summing up the ranks");
  else
    err = tg__summaries_save(s, path, error);
  tg__summaries_free(s);
  return err;
}
