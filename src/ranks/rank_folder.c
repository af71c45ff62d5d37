/* rank_folder: a folder of ranks that together would fill the memory. Opening it reads one rank after the other and
 * keeps their summaries and what the first page asks; what is asked later reads ranks again (ask_trace.c), of which two
 * files stay in memory. Questions that cannot be answered rank by rank need all of them, and then they all stay. */
#include "ranks/merge_ranks.h"

#include <assert.h>

enum { KEPT = sizeof((struct tg__rank_folder *)0)->kept / sizeof((struct tg__rank_folder *)0)->kept[0] };

/* ---- handles --------------------------------------------------------------------------------- */

enum tg_err tg__handle_new(struct tg__columns *columns, struct tg__rank_folder *folder, struct tg__summaries *summaries,
                           struct tg_trace **out, struct tg_error *e) {
  *out = tg__alloc(sizeof **out);
  if (*out) {
    **out = (struct tg_trace){columns, folder, summaries};
    return TG_OK;
  }
  tg__rank_folder_close(folder);
  tg__trace_free(columns);
  tg__summaries_free(summaries);
  return tg__no_memory(e, "opening a trace");
}

void tg__handle_free(struct tg_trace *t) {
  if (!t) return;
  tg__rank_folder_close(t->folder);
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

static void drop_kept(struct tg__rank_folder *d) {
  for (unsigned i = 0; i < KEPT; i++) tg__trace_free(d->kept[i].trace);
  memset(d->kept, 0, sizeof d->kept);
}

void tg__rank_folder_close(struct tg__rank_folder *d) {
  if (!d) return;
  drop_kept(d);
  tg__trace_free(d->whole);
  tg__job_ranks_free(&d->ranks);
  tg__folder_close(d->files);
  tg__free(d->path);
  tg__free(d);
  tg__pages_keep_none(false);
}

bool tg__ranks_are_valid(const struct tg_trace *t) {
  return t->folder ? t->folder->ranks.defect.code == TG_OK : tg__trace_is_valid(t->columns, &(struct tg_error){0});
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
  tg__pages_keep_none(true); /* what is kept of one rank would come on top of the next */
  enum tg_err err = tg__folder_open(path, &d->files, e);
  if (!err) err = tg__read_first(d->files, path, options, first, &d->ranks, &columns, &summaries, e);
  if (err) {
    tg__rank_folder_close(d);
    return err;
  }
  d->job.is_part = columns->rank_count > 1;
  d->job.origin_ns = tg__job_first_ns(columns, &d->ranks);
  assert(tg__rank_folder_is_valid(d, NULL));
  err = tg__handle_new(columns, d, summaries, out, e);
  if (err) return err;
  if (first && first->table) first->err = tg__merge_between_ranks(*out, &first->call, first->table, &first->error);
  for (unsigned i = 0; i < TG__READY_COUNT && !err; i++) {
    const struct tg__call call = {.question = tg__ready[i].question, .limit = SIZE_MAX, .most_rows = SIZE_MAX};
    if (d->ranks.ready[i]) err = tg__merge_between_ranks(*out, &call, d->ranks.ready[i], e);
  }
  if (!err) return TG_OK;
  tg__handle_free(*out);
  *out = NULL;
  return err;
}

enum tg_err tg__load_all_ranks(struct tg_trace *t, struct tg__columns **out, struct tg_error *e) {
  struct tg__rank_folder *const d = t->folder;
  *out = t->columns;
  if (!d) return TG_OK;
  if (!d->whole) {
    drop_kept(d);
    const enum tg_err err = tg__trace_open(d->path, &d->options, &d->whole, e);
    if (err) return err;
  }
  *out = d->whole;
  assert(tg__rank_folder_is_valid(d, NULL));
  return TG_OK;
}

/* ---- the ranks of the job ---------------------------------------------------------------------- */

int64_t tg__job_clock_offset(const struct tg__columns *known, int64_t rank) {
  for (uint32_t k = 0; k < known->rank_count; k++)
    if (known->ranks[k].number == rank) return known->ranks[k].clock_offset_ns;
  return 0;
}

int64_t tg__job_first_ns(const struct tg__columns *known, const struct tg__job_ranks *ranks) {
  int64_t least = INT64_MAX;
  for (size_t i = 0; i < ranks->count; i++) {
    const struct tg__job_rank *const r = &ranks->items[i];
    if (r->first_ns == TG_NULL_INT) continue;
    const int64_t first = r->first_ns + tg__job_clock_offset(known, r->rank);
    if (first < least) least = first;
  }
  return least == INT64_MAX ? 0 : least;
}

enum tg_err tg__name_ranks(const struct tg_trace *job, struct tg__columns *t, uint32_t file_index, struct tg_error *e) {
  const struct tg__job_ranks *const ranks = &job->folder->ranks;
  uint32_t count = 0;
  for (size_t i = 0; t && i < ranks->count; i++) {
    const struct tg__job_rank *const r = &ranks->items[i];
    if (r->file_index != file_index) continue;
    if (++count > t->rank_count) break;
    t->ranks[r->rank_in_file].number = r->rank;
    t->ranks[r->rank_in_file].clock_offset_ns = tg__job_clock_offset(job->columns, r->rank);
  }
  if (t && count == t->rank_count) return TG_OK;
  return tg__fail(e, TG_NO_DATA, -1, "a file in this folder was replaced: open the folder again");
}

/* ---- its files --------------------------------------------------------------------------------- */

enum tg_err tg__rank_folder_file(const struct tg_trace *job, uint32_t file_index, struct tg__columns **out,
                                 struct tg_error *e) {
  struct tg__rank_folder *const d = job->folder;
  unsigned at = 0;
  while (at < KEPT - 1 && !(d->kept[at].trace && d->kept[at].file_index == file_index)) at++;
  struct tg__columns *found = d->kept[at].file_index == file_index ? d->kept[at].trace : NULL;
  if (!found) {
    tg__trace_free(d->kept[at].trace);
    d->kept[at].trace = NULL;
    tg__memory_return();
    enum tg_err err = tg__folder_read(d->files, file_index, &d->options, &found, NULL, e);
    if (!err) err = tg__name_ranks(job, found, file_index, e);
    if (err) tg__trace_free(found);
    if (err) return err;
  }
  memmove(&d->kept[1], &d->kept[0], at * sizeof d->kept[0]);
  d->kept[0].trace = *out = found;
  d->kept[0].file_index = file_index;
  assert(tg__rank_folder_is_valid(d, NULL));
  return TG_OK;
}

enum tg_err tg__each_in_folder(struct tg_trace *t, unsigned at_once, const struct tg__observer *o, struct tg_error *e) {
  struct tg__rank_folder *const d = t->folder;
  struct tg__file_ref *const files = tg__alloc((d->ranks.count + 1) * sizeof *files);
  struct tg__file_pass pass = {
      .files = files, .at_once = at_once, .options = &d->options, .job = t, .observers = o, .observer_count = 1};
  if (!files) return tg__no_memory(e, "reading the ranks");
  for (size_t i = 0; i < d->ranks.count; i++)
    if (d->ranks.items[i].rank_in_file == 0) files[pass.count++] = tg__file_at(d->files, d->ranks.items[i].file_index);
  drop_kept(d); /* or they would be in memory beside those of the pass */
  const enum tg_err err = tg__each_file(&pass, e);
  tg__free(files);
  return err;
}

struct visit {
  tg__file_visitor *visit;
  void *ctx;
};
static enum tg_err see_file(void *ctx, const struct tg__seen *s, struct tg_error *e) {
  const struct visit *const w = ctx;
  const enum tg_err err = tg__trace_load(s->columns, TG__COL_ALL, e);
  return err ? err : w->visit(w->ctx, s->columns, e);
}
static enum tg_err take_file(void *ctx, size_t i, const struct tg_error *why, struct tg_error *e) {
  (void)ctx;
  (void)i;
  return why ? tg__fail(e, why->code, why->offset, "%s", why->text) : TG_OK;
}

enum tg_err tg__visit_rank_files(struct tg_trace *t, tg__file_visitor *visit, void *ctx, struct tg_error *e) {
  struct visit w = {visit, ctx};
  const struct tg__observer observer = {&w, see_file, take_file};
  return tg__each_in_folder(t, 1, &observer, e);
}
