/* import_raw: .tacho files as the recorder left them, killed or not. The files of the processes that make up one
 * rank become one import, and go the way of events read from JSON: build.c makes columns of them. */
#include "trace/import_raw.h"

/* ---- one file -------------------------------------------------------------------------------- */

static void take_process(struct tg__raw *w, struct tg__raw_file *f, const struct tg__chunk *c, const uint8_t *payload) {
  f->has_process = tg__raw_process_read(payload, c->length, &f->process);
  if (!f->has_process) tg__raw_count_lost_chunk(w, f, c);
}

static void take_chunks(struct tg__raw *w, struct tg__raw_file *f, uint16_t type) {
  const struct tg__tacho *const t = f->tacho;
  for (size_t i = 0; i < t->chunk_count && !w->no_memory; i++) {
    const struct tg__chunk *const c = &t->chunks[i];
    bool damaged = false;
    if (c->type != type) continue;
    uint8_t *const payload = tg__raw_fetch(f, c, &damaged);
    if (damaged) tg__raw_count_lost_chunk(w, f, c);
    if (!payload) {
      w->no_memory |= !damaged;
      continue;
    }
    if (type == TG_CHUNK_RAW_PROCESS) take_process(w, f, c, payload);
    if (type == TG_CHUNK_RAW_DICTIONARY) tg__raw_take_dictionary(w, f, c, payload);
    if (type == TG_CHUNK_RAW_CLOCK && !tg__raw_clock_take(&f->clock, payload, c->length, &w->no_memory))
      tg__raw_count_lost_chunk(w, f, c);
    tg__free(payload);
  }
}

/* ---- jobs ------------------------------------------------------------------------------------ */

struct jobs {
  struct tg__raw_job *items;
  size_t count, cap;
};

static bool add_job(struct tg__raw *w, struct jobs *jobs, struct tg__raw_file *f, const struct tg__chunk *c) {
  uint8_t head[TG_RAW_HEAD_BYTES];
  const struct tg__reader *const r = &f->tacho->reader;
  if (c->length < sizeof head || !r->read(r->ctx, c->offset + TG_CHUNK_HEAD_BYTES, head, sizeof head)) {
    tg__raw_count_lost_chunk(w, f, c);
    return true;
  }
  if (!tg__grow((void **)&jobs->items, &jobs->cap, jobs->count + 1, sizeof *jobs->items)) return false;
  struct tg__raw_job *const j = &jobs->items[jobs->count++];
  *j = (struct tg__raw_job){.raw = w, .file = f, .chunk = c, .head = tg__raw_head_read(head)};
  const struct tg__track_key key = {.pid = j->head.process, .tid = j->head.thread};
  j->track = tg__intern_track(w->parser, &key);
  return true;
}

static bool list_jobs(struct tg__raw *w, struct jobs *jobs) {
  for (size_t f = 0; f < w->file_count; f++) {
    const struct tg__tacho *const t = w->files[f].tacho;
    for (size_t i = 0; i < t->chunk_count; i++) {
      if (t->chunks[i].type == TG_CHUNK_RAW_RECORDS && !add_job(w, jobs, &w->files[f], &t->chunks[i])) return false;
    }
  }
  return true;
}

/* Does a file hold calls of modules as such? A look at the records before the jobs, which would otherwise derive
 * them. */
static bool chunk_has_modules(const struct tg__raw_job *j) {
  struct tg__raw_chunk chunk;
  bool damaged = false, found = false;
  uint8_t *const payload = tg__raw_fetch(j->file, j->chunk, &damaged);
  if (payload && !tg__raw_chunk_read(j->chunk, payload, &chunk)) {
    for (uint32_t i = 0; i < chunk.count && !found; i++)
      found = chunk.records[(size_t)i * TG_RAW_RECORD_BYTES + 30] == TG_RAW_MODULE;
  }
  tg__free(payload);
  return found;
}

static void find_modules(struct tg__raw *w, const struct jobs *jobs) {
  for (size_t i = 0; i < jobs->count && w->module_count; i++) {
    struct tg__raw_file *const f = jobs->items[i].file;
    const bool could = !f->has_process || f->process.features & (TG_RAW_HAS_CALLS | TG_RAW_HAS_MODULE_SPANS);
    if (could && !f->has_modules) f->has_modules = chunk_has_modules(&jobs->items[i]);
  }
}

static bool note_logical(struct tg__raw *w, const struct tg__raw_job *j) {
  struct tg__import *const im = w->im;
  if (j->head.logical == 0 || j->damaged) return true;
  const struct tg__logical_thread *const last = im->logical_count ? &im->logicals[im->logical_count - 1] : NULL;
  if (last && last->pid == j->head.process && last->number == j->head.logical) return true;
  if (!tg__grow((void **)&im->logicals, &im->logical_cap, im->logical_count + 1, sizeof *im->logicals)) return false;
  im->logicals[im->logical_count++] = (struct tg__logical_thread){j->head.process, j->head.logical, j->track};
  return true;
}

/* ---- results --------------------------------------------------------------------------------- */

static bool commit_jobs(struct tg__raw *w, struct jobs *jobs) {
  uint64_t bytes = w->im->pool_len + 1;
  for (size_t i = 0; i < jobs->count; i++) bytes += jobs->items[i].pool_len;
  if (!tg__pages_grow((void **)&w->im->pool, &w->im->pool_cap, bytes)) return false;
  for (size_t i = 0; i < jobs->count; i++) {
    struct tg__raw_job *const j = &jobs->items[i];
    tg__losses_add(&w->im->losses, &j->losses);
    if (j->no_memory) return false;
    if (j->damaged) {
      tg__raw_count_lost_chunk(w, j->file, j->chunk);
      continue;
    }
    if (!tg__commit_block(w->im, &j->records, j->pool, j->pool_len, j->phases)) return false;
    j->records = (struct tg__segment){0};
    tg__free(j->pool);
    j->pool = NULL;
  }
  return true;
}

static int64_t last_end(const struct tg__raw *w) {
  int64_t last = INT64_MIN;
  for (size_t s = 0; s < w->im->segment_count; s++) {
    for (size_t i = 0; i < w->im->segments[s].count; i++) {
      const struct tg__record *const r = &w->im->segments[s].records[i];
      if (r->ts_ns == TG_NULL_INT) continue;
      const int64_t end = r->dur_ns == TG_NULL_INT ? r->ts_ns : r->ts_ns + r->dur_ns;
      if (end > last) last = end;
    }
  }
  return last;
}

/* ---- losses ---------------------------------------------------------------------------------- */

static void count_many_losses(struct tg__raw *w, enum tg__loss what, uint64_t count) {
  if (count == 0) return;
  tg__count_loss(&w->im->losses, what, TG_GREETING_BYTES);
  w->im->losses.count[what] += (int64_t)(count < INT32_MAX ? count : INT32_MAX) - 1;
}

/* Counted twice by the recorder, in the heads of chunks and for the process; a killed one may not have come to the
 * second. */
static void count_losses(struct tg__raw *w, const struct jobs *jobs) {
  static const enum tg__loss loss_of[TG_RAW_COUNTS] = {[TG_RAW_C_OVERWRITTEN] = TG__LOSS_skipped_overwritten,
                                                       [TG_RAW_C_TOO_DEEP] = TG__LOSS_skipped_too_deep,
                                                       [TG_RAW_C_DEVICE_LOST] = TG__LOSS_skipped_device_lost,
                                                       [TG_RAW_C_DEVICE_UNREAD] = TG__LOSS_skipped_device_unread};
  for (size_t f = 0; f < w->file_count; f++) {
    const struct tg__raw_file *const file = &w->files[f];
    const uint64_t *const counts = file->process.counts;
    uint64_t in_heads = 0;
    for (size_t i = 0; i < jobs->count; i++) {
      if (jobs->items[i].file == file && !jobs->items[i].damaged) in_heads += jobs->items[i].head.lost;
    }
    count_many_losses(w, TG__LOSS_skipped_no_room,
                      counts[TG_RAW_C_NO_ROOM] > in_heads ? counts[TG_RAW_C_NO_ROOM] : in_heads);
    for (int i = 0; i < TG_RAW_COUNTS; i++) {
      if (loss_of[i]) count_many_losses(w, loss_of[i], counts[i]);
    }
  }
}

static bool keep_processes(struct tg__raw *w) {
  struct tg__process *const list = tg__arena_get(&w->trace->arena, w->file_count * sizeof *list);
  if (!list) return false;
  uint32_t n = 0;
  for (size_t f = 0; f < w->file_count; f++) {
    const struct tg__raw_process *const p = &w->files[f].process;
    if (!w->files[f].has_process) continue;
    const uint64_t lost = p->counts[TG_RAW_C_NO_ROOM] + p->counts[TG_RAW_C_OVERWRITTEN] + p->counts[TG_RAW_C_TOO_DEEP];
    list[n++] = (struct tg__process){.pid = p->process,
                                     .parent = p->parent,
                                     .start_ns = p->start_ns,
                                     .stop_ns = p->stop_ns,
                                     .records = (int64_t)p->counts[TG_RAW_C_RECORDS],
                                     .lost = (int64_t)lost,
                                     .session = p->session,
                                     .features = p->features,
                                     .rank = p->rank};
    if (p->rank >= 0) w->im->rank_number = p->rank;
  }
  w->im->processes = list;
  w->im->process_count = n;
  return true;
}

/* ---- the whole rank -------------------------------------------------------------------------- */

static size_t bytes_of(const struct jobs *jobs) {
  size_t bytes = 0;
  for (size_t i = 0; i < jobs->count; i++) bytes += jobs->items[i].chunk->length;
  return bytes;
}

static bool read_rank(struct tg__raw *w, struct jobs *jobs) {
  for (size_t f = 0; f < w->file_count; f++) {
    take_chunks(w, &w->files[f], TG_CHUNK_RAW_PROCESS);
    take_chunks(w, &w->files[f], TG_CHUNK_RAW_CLOCK);
    take_chunks(w, &w->files[f], TG_CHUNK_RAW_DICTIONARY);
  }
  if (w->no_memory || !list_jobs(w, jobs) || !keep_processes(w)) return false;
  tg__raw_pack_launches(w);
  find_modules(w, jobs);
  tg__raw_document(w);
  tg__threads_run(tg__threads_worth(bytes_of(jobs), w->threads), jobs->count, tg__raw_job_run, jobs->items);
  for (size_t i = 0; i < jobs->count; i++) {
    if (!note_logical(w, &jobs->items[i])) return false;
  }
  tg__raw_head_rows(w, jobs->items, jobs->count);
  tg__raw_device_rows(w, jobs->items, jobs->count);
  tg__raw_label_rows(w, jobs->items, jobs->count);
  tg__raw_module_rows(w, jobs->items, jobs->count); /* before operators: a call of the same extent is around them */
  if (w->no_memory || !tg__commit_rows(w->im, w->parser) || !commit_jobs(w, jobs)) return false;
  tg__raw_memory_rows(w, jobs->items, jobs->count);
  if (w->no_memory || !tg__commit_rows(w->im, w->parser)) return false;
  if (w->im->events_read > w->im->phases['M']) tg__raw_tail_rows(w, last_end(w));
  count_losses(w, jobs);
  return !w->no_memory && tg__commit_rows(w->im, w->parser);
}

static void release(struct tg__raw *w, struct jobs *jobs) {
  for (size_t i = 0; i < jobs->count; i++) tg__raw_job_free(&jobs->items[i]);
  for (size_t f = 0; w->files && f < w->file_count; f++) tg__raw_file_free(&w->files[f]);
  tg__free(jobs->items);
  tg__free(w->files);
  tg__free(w->names);
  tg__free(w->shapes);
  tg__free(w->frames);
  tg__free(w->modules);
  tg__free(w->contexts);
  tg__free(w->layouts);
  tg__free(w->launches);
  tg__free(w->labels);
  tg__free(w->devices);
  tg__free(w->nodes);
  tg__map_free(&w->node_of);
  tg__map_free(&w->layout_index);
  tg__lock_free(w->lock);
  if (w->parser) tg__parser_free(w->parser);
  tg__free(w->parser);
}

enum tg_err tg__raw_read(struct tg__import *im, struct tg__tacho *const *files, size_t count, unsigned threads,
                         struct tg_error *e) {
  struct jobs jobs = {0};
  struct tg__raw w = {.trace = im->shared.trace,
                      .im = im,
                      .lock = tg__lock_new(),
                      .parser = tg__alloc(sizeof *w.parser),
                      .files = tg__alloc(count * sizeof *w.files),
                      .file_count = count,
                      .threads = threads};
  enum tg_err err = TG_OK;
  for (size_t f = 0; w.files && f < count; f++) {
    w.files[f].tacho = files[f];
    im->losses.count[TG__LOSS_cut_chunks] += files[f]->lost;
    if (files[f]->lost) im->losses.offset[TG__LOSS_cut_chunks] = files[f]->lost_at;
  }
  im->is_recording = true;
  if (!w.lock || !w.parser || !w.files || !tg__parser_init(w.parser, &im->shared) || !read_rank(&w, &jobs)) {
    err = tg__no_memory(e, "opening %s", files[0]->path);
  } else if (im->events_read == im->phases['M']) {
    err = tg__fail(e, TG_NO_EVENTS, -1, "%s holds no finished operation: was the program stopped before its first?",
                   files[0]->path);
  }
  release(&w, &jobs);
  return err;
}

/* ---- a trace of one file --------------------------------------------------------------------- */

static enum tg_err build(struct tg__columns *t, struct tg__import *im, const struct tg__tacho *f, struct tg_error *e) {
  struct tg__build b = {.trace = t, .threads = tg__cpu_count()};
  enum tg_err err = TG_OK;
  const uint32_t path = tg__strings_add(t->strings, f->path, strlen(f->path));
  if (path == TG_NONE) err = tg__no_memory(e, "opening %s", f->path);
  if (!err) err = tg__build_rank(&b, im, path, e);
  if (!err) err = tg__build_finish(&b, e);
  tg__build_hand_over(&b);
  return err;
}

enum tg_err tg__raw_import(struct tg__columns *t, struct tg__tacho *f, struct tg_error *e) {
  struct tg__import im = {.shared = {.trace = t, .lock = tg__lock_new()}, .rank_number = -1};
  enum tg_err err = TG_MEMORY;
  if (!im.shared.lock || !tg__add_known_strings(t->strings)) {
    tg__no_memory(e, "opening %s", f->path);
  } else {
    err = tg__raw_read(&im, &f, 1, tg__cpu_count(), e);
  }
  if (!err) err = build(t, &im, f, e);
  t->args = im.pool;
  t->args_bytes = im.pool_len;
  if (im.pool && !tg__store_adopt(t->store, im.pool, im.pool_cap)) {
    tg__pages_drop(im.pool, im.pool_cap);
    t->args = NULL;
    err = tg__no_memory(e, "opening %s", f->path);
  }
  tg__import_release(&im);
  return err;
}
