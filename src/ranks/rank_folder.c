/* rank_folder: a folder of ranks that together would fill the memory. Opening it reads one rank after the other and
 * keeps their summaries and what the first page asks; what is asked later reads ranks again (ask_job.c), of
 * which two files stay in memory. What cannot be said rank by rank needs them all, and then they all stay. */
#include "ranks/ranks.h"

#include <stdio.h>

enum { KEPT = sizeof((struct tg__rank_folder *)0)->kept / sizeof((struct tg__rank_folder *)0)->kept[0] };

/* ---- handles --------------------------------------------------------------------------------- */

enum tg_err tg__handle_new(struct tg__columns *columns, struct tg__rank_folder *run, struct tg__summaries *summaries,
                           struct tg_trace **out, struct tg_error *e) {
  *out = tg__alloc(sizeof **out);
  if (*out) {
    **out = (struct tg_trace){columns, run, summaries};
    return TG_OK;
  }
  tg__rank_folder_close(run);
  tg__trace_free(columns);
  tg__summaries_free(summaries);
  return tg__no_memory(e, "opening a trace");
}

void tg__handle_free(struct tg_trace *t) {
  if (!t) return;
  tg__rank_folder_close(t->run);
  tg__trace_free(t->columns);
  tg__summaries_free(t->summaries);
  tg__free(t);
}

enum tg_err tg__open_in_memory(const char *path, const struct tg_open_options *options, struct tg_trace **out,
                               struct tg_error *e) {
  struct tg__columns *columns;
  *out = NULL;
  struct tg__summaries *summaries;
  const enum tg_err err = tg__trace_or_summary_open(path, options, &columns, &summaries, e);
  return err ? err : tg__handle_new(columns, NULL, summaries, out, e);
}

/* ---- opening and closing --------------------------------------------------------------------- */

void tg__job_ranks_free(struct tg__job_ranks *r) {
  for (unsigned i = 0; i < TG__READY_COUNT; i++) tg__table_free(r->ready[i]);
  for (size_t i = 0; i < r->count; i++) tg__free(r->items[i].health.processes);
  tg__free(r->items);
  *r = (struct tg__job_ranks){0};
}

void tg__rank_folder_close(struct tg__rank_folder *d) {
  if (!d) return;
  for (unsigned i = 0; i < KEPT; i++) tg__trace_free(d->kept[i].trace);
  tg__trace_free(d->whole);
  tg__job_ranks_free(&d->ranks);
  tg__folder_close(d->folder);
  tg__free(d->path);
  tg__free(d);
  tg__pages_frugal(false);
}

bool tg__ranks_are_valid(const struct tg_trace *t) {
  return t->run ? t->run->ranks.defect.code == TG_OK : tg__trace_is_valid(t->columns, &(struct tg_error){0});
}

/* Measured on traces of several programs: half a byte for each of text, and packed text is a dozen times or more as
 * long. */
static int64_t memory_of(const struct tg__folder *folder, size_t i, int64_t bytes) {
  const struct tg__str name = {tg__folder_path(folder, i), (uint32_t)strlen(tg__folder_path(folder, i))};
  return tg__str_has_suffix(name, ".json") ? bytes / 2 : bytes * 9;
}

/* Bytes of files; below that all ranks together take no more than a few megabytes. */
static _Atomic int64_t large_bytes = 16 << 20;

void tg__ranks_large(int64_t bytes) { large_bytes = bytes; }

int64_t tg__rank_folder_memory(const char *path) {
  if (!tg__path_is_of_many(path)) return 0;
  struct tg__folder *folder;
  if (tg__folder_open(path, &folder, &(struct tg_error){0})) return 0;
  int64_t sum = 0, memory = 0;
  size_t files = 0;
  for (size_t i = 0; i < tg__folder_count(folder); i++) {
    const int64_t bytes = tg__folder_bytes(folder, i);
    sum += bytes;
    memory += memory_of(folder, i, bytes);
    files += bytes > 0;
  }
  tg__folder_close(folder);
  return files > 1 && sum > large_bytes ? memory : 0;
}

enum tg_err tg__rank_folder_open(const char *path, const struct tg_open_options *options,
                                 struct tg__first_question *first, struct tg_trace **out, struct tg_error *e) {
  struct tg__columns *columns;
  struct tg__summaries *summaries;
  struct tg__rank_folder *const d = tg__alloc(sizeof *d);
  const size_t len = strlen(path);
  *out = NULL;
  if (!d || !(d->path = tg__alloc(len + 1))) {
    tg__free(d);
    return tg__no_memory(e, "reading the ranks");
  }
  memcpy(d->path, path, len);
  d->options.threads = options ? options->threads : 0;
  d->total_bytes = -1;
  tg__pages_frugal(true); /* what is kept of one rank would come on top of the next */
  enum tg_err err = tg__folder_open(path, &d->folder, e);
  if (!err) err = tg__folder_summaries(d->folder, path, options, first, &d->ranks, &columns, &summaries, e);
  if (err) {
    tg__rank_folder_close(d);
    return err;
  }
  d->job.is_part = columns->rank_count > 1;
  d->job.origin_ns = tg__job_first_ns(columns, d->ranks.items, d->ranks.count);
  err = tg__handle_new(columns, d, summaries, out, e);
  if (err) return err;
  const struct tg__rank_source ranks = tg__ranks_of(*out);
  if (first && first->table) first->err = tg__merged(&ranks, &first->call, first->table, &first->error);
  for (unsigned i = 0; i < TG__READY_COUNT && !err; i++) {
    const struct tg__call call = {.question = tg__ready[i].question, .limit = SIZE_MAX, .most_rows = SIZE_MAX};
    if (d->ranks.ready[i]) err = tg__merged(&ranks, &call, d->ranks.ready[i], e);
  }
  if (!err) return TG_OK;
  tg__handle_free(*out);
  *out = NULL;
  return err;
}

enum tg_err tg__load_all_ranks(struct tg_trace *t, struct tg__columns **out, struct tg_error *e) {
  struct tg__rank_folder *const d = t->run;
  *out = t->columns;
  if (!d) return TG_OK;
  if (!d->whole) {
    for (unsigned i = 0; i < KEPT; i++) tg__trace_free(d->kept[i].trace);
    memset(d->kept, 0, sizeof d->kept);
    const enum tg_err err = tg__trace_open(d->path, &d->options, &d->whole, e);
    if (err) return err;
  }
  *out = d->whole;
  return TG_OK;
}

/* ---- one file -------------------------------------------------------------------------------- */

int64_t tg__job_clock_offset(const struct tg__columns *run, int64_t number) {
  for (uint32_t k = 0; k < run->rank_count; k++)
    if (run->ranks[k].number == number) return run->ranks[k].clock_offset_ns;
  return 0;
}

int64_t tg__job_first_ns(const struct tg__columns *run, const struct tg__job_rank *places, size_t count) {
  int64_t least = INT64_MAX;
  for (size_t i = 0; i < count; i++) {
    if (places[i].first_ns == TG_NULL_INT) continue;
    const int64_t first = places[i].first_ns + tg__job_clock_offset(run, places[i].number);
    if (first < least) least = first;
  }
  return least == INT64_MAX ? 0 : least;
}

/* The ranks of a file are called what they are called in the run, and their clocks stand as there. */
static void name_ranks(const struct tg_trace *trace, struct tg__columns *t, uint32_t unit) {
  const struct tg__columns *const run = trace->columns;
  const struct tg__job_ranks *const ranks = &trace->run->ranks;
  for (size_t i = 0; i < ranks->count; i++) {
    const struct tg__job_rank *const r = &ranks->items[i];
    if (r->unit != unit || r->of_unit >= t->rank_count) continue;
    t->ranks[r->of_unit].number = r->number;
    t->ranks[r->of_unit].clock_offset_ns = tg__job_clock_offset(run, r->number);
  }
}

static bool report_unit(void *ctx, int64_t done, int64_t total) {
  const struct tg__rank_folder *const d = ctx;
  const bool alone = d->total_bytes < 0;
  return d->options.progress(d->options.progress_ctx, alone ? done : d->done_bytes + done,
                             alone ? total : d->total_bytes);
}

enum tg_err tg__rank_folder_file(const struct tg_trace *run, uint32_t unit, struct tg__columns **out,
                                 struct tg_error *e) {
  struct tg__rank_folder *const d = run->run;
  unsigned at = 0;
  while (at < KEPT - 1 && !(d->kept[at].trace && d->kept[at].unit == unit)) at++;
  struct tg__columns *found = d->kept[at].unit == unit ? d->kept[at].trace : NULL;
  if (!found) {
    const bool one_by_one = d->total_bytes >= 0; /* then none of those before is asked again soon */
    for (unsigned i = one_by_one ? 0 : at; i <= at; i++) {
      tg__trace_free(d->kept[i].trace);
      d->kept[i].trace = NULL;
    }
    tg__memory_return();
    const struct tg_open_options options = {
        .threads = d->options.threads, .progress = d->options.progress ? report_unit : NULL, .progress_ctx = d};
    enum tg_err err = tg__folder_read(d->folder, unit, &options, &found, NULL, e);
    if (!err && !found)
      err = tg__fail(e, TG_NO_DATA, -1, "a file of the run has become another one: open the run again");
    if (err) return err;
    name_ranks(run, found, unit);
  }
  memmove(&d->kept[1], &d->kept[0], at * sizeof d->kept[0]);
  d->kept[0].trace = *out = found;
  d->kept[0].unit = unit;
  return TG_OK;
}

void tg__rank_folder_drop_caches(struct tg__rank_folder *d, uint32_t unit) {
  for (unsigned i = 0; i < KEPT; i++)
    if (d->kept[i].trace && d->kept[i].unit == unit) tg__cache_drop(d->kept[i].trace);
}

/* ---- progress -------------------------------------------------------------------------------- */

static int64_t bytes_of(const struct tg__rank_folder *d, uint32_t i) {
  return d->ranks.items[i].of_unit ? 0 : tg__folder_bytes(d->folder, d->ranks.items[i].unit);
}

void tg__rank_folder_pass(struct tg__rank_folder *d, bool begins) {
  if (!d) return;
  d->done_bytes = 0;
  d->total_bytes = begins ? 0 : -1;
  for (uint32_t i = 0; begins && i < d->ranks.count; i++) d->total_bytes += bytes_of(d, i);
}

void tg__rank_folder_pass_to(struct tg__rank_folder *d, uint32_t i) {
  if (!d) return;
  d->done_bytes += i ? bytes_of(d, i - 1) : 0;
  if (d->options.part_done) d->options.part_done(d->options.progress_ctx, (int64_t)i, (int64_t)d->ranks.count);
}
