/* file_pass: one pass over the files of a job, two at once. Each file is read, seen by the observers and released. */
#include "ranks/ranks.h"

struct file {
  int64_t read_bytes;
  bool is_done;
  struct tg_error why; /* code 0, or why it was not read or seen */
};
struct pass {
  const struct tg__file_pass *of;
  const struct tg_open_options *options;
  struct tg_open_options each;
  struct file *files;
  struct tg__lock *lock;
  int64_t done_bytes, total_bytes, done_files, total_files;
  size_t taken; /* files that the observers took */
  bool is_stopped;
  struct tg_error error; /* code 0, or what ended the pass */
};

/* ---- in the order of the files ----------------------------------------------------------------- */

static void take_file(struct pass *p, size_t i) {
  const struct tg_error *const why = p->files[i].why.code ? &p->files[i].why : NULL;
  for (size_t k = 0; k < p->of->observer_count && !p->error.code; k++) {
    const struct tg__observer *const o = &p->of->observers[k];
    if (o->take && o->take(o->ctx, i, why, &p->error)) p->is_stopped = true;
  }
}

/* Count what was read of a file so far. false: stop. */
static bool count_bytes(struct pass *p, size_t i, int64_t bytes, bool is_done) {
  struct file *const f = &p->files[i];
  const int64_t all = p->of->files[i].bytes;
  tg__lock_take(p->lock);
  if (bytes > all) bytes = all;
  if (bytes > f->read_bytes) {
    p->done_bytes += bytes - f->read_bytes;
    f->read_bytes = bytes;
  }
  f->is_done |= is_done;
  p->done_files += is_done && all > 0;
  if (is_done && all > 0 && p->options->part_done)
    p->options->part_done(p->options->progress_ctx, p->done_files, p->total_files);
  for (; p->taken < p->of->count && p->files[p->taken].is_done; p->taken++) take_file(p, p->taken);
  if (p->options->progress && !p->is_stopped &&
      !p->options->progress(p->options->progress_ctx, p->done_bytes, p->total_bytes)) {
    tg__fail(&p->error, TG_CANCELLED, -1, "stopped on request");
    p->is_stopped = true;
  }
  const bool goes_on = !p->is_stopped;
  tg__lock_drop(p->lock);
  return goes_on;
}

/* ---- one file ---------------------------------------------------------------------------------- */

struct part { /* of the pass */
  struct pass *p;
  size_t i;
};
static bool report_part(void *ctx, int64_t done, int64_t total) {
  const struct part *const part = ctx;
  (void)total;
  return count_bytes(part->p, part->i, done, false);
}

static void read_file(void *ctx, size_t i) {
  struct pass *const p = ctx;
  const struct tg__file_ref *const at = &p->of->files[i];
  struct tg_error *const why = &p->files[i].why;
  struct tg__columns *t = NULL;
  struct tg__summaries *summaries = NULL;
  struct part part = {p, i};
  if (!count_bytes(p, i, 0, false)) return;
  const struct tg_open_options options = {
      .threads = p->each.threads, .progress = p->options->progress ? report_part : NULL, .progress_ctx = &part};
  enum tg_err err =
      tg__folder_read(at->folder, at->index, &options, &t, p->of->reads_summaries ? &summaries : NULL, why);
  if (!err && p->of->job) err = tg__name_ranks(p->of->job, t, at->index, why);
  const struct tg__seen seen = {.i = i, .columns = t, .count = t ? t->rank_count : 0, .summaries = summaries};
  for (size_t k = 0; k < p->of->observer_count && !err && (t || summaries); k++)
    err = p->of->observers[k].see(p->of->observers[k].ctx, &seen, why);
  why->code = err;
  tg__trace_free(t);
  tg__summaries_free(summaries);
  if (p->of->count > 1) tg__memory_return(); /* the allocator would keep it, and the next file comes on top */
  count_bytes(p, i, at->bytes, true);
}

enum tg_err tg__each_file(const struct tg__file_pass *of, struct tg_error *e) {
  static const struct tg_open_options defaults;
  struct pass p = {.of = of, .options = of->options ? of->options : &defaults, .lock = tg__lock_new()};
  p.files = tg__alloc((of->count + 1) * sizeof *p.files);
  if (!p.files || !p.lock) tg__no_memory(&p.error, "reading the ranks");
  for (size_t i = 0; i < of->count && !p.error.code; i++) {
    p.total_bytes += of->files[i].bytes;
    p.total_files += of->files[i].bytes > 0;
  }
  const unsigned threads = p.options->threads ? p.options->threads : tg__cpu_count();
  const bool is_many = of->at_once > 1 && of->at_once <= threads && of->at_once <= of->count;
  const unsigned at_once = is_many ? of->at_once : 1;
  p.each.threads = threads / at_once;
  tg__pages_keep_none(true);
  if (!p.error.code) tg__threads_run(at_once, of->count, read_file, &p);
  tg__pages_keep_none(false);
  tg__free(p.files);
  tg__lock_free(p.lock);
  return p.error.code ? tg__fail(e, p.error.code, p.error.offset, "%s", p.error.text) : TG_OK;
}
