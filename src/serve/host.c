/* host: reads the traces one after the other while calls are answered. */
#include "serve/host.h"

#include "ranks/ranks.h"

enum { LATER_COLUMNS = TG__COL_PARENT | TG__COL_ARGS | TG__COL_MARKS, SLICES_MOST = 20000000 };

static void say_changed(struct tg__host *h) {
  if (h->changed) h->changed(h->ctx);
}

static void set_state(struct tg__hosted *t, enum tg__trace_state state) {
  tg__lock_take(t->host->lock);
  t->state = state;
  tg__lock_wake(t->host->lock);
  tg__lock_drop(t->host->lock);
  say_changed(t->host);
}

static bool show_progress(void *ctx, int64_t done, int64_t total) {
  struct tg__hosted *const t = ctx;
  tg__lock_take(t->host->lock);
  t->bytes_done = done;
  t->bytes = total;
  const bool goes_on = !t->host->is_stopping;
  tg__lock_drop(t->host->lock);
  say_changed(t->host);
  return goes_on;
}

/* A folder of ranks is read rank by rank for its questions; its timeline needs all of them in memory. */
static enum tg_err check_size(const struct tg__hosted *t, const struct tg__serve_options *o, struct tg_error *e) {
  const struct tg__rank_folder *const run = t->trace->run;
  const int64_t most = o->slices ? o->slices : SLICES_MOST;
  int64_t slices = 0;
  for (size_t i = 0; run && i < run->ranks.count; i++) slices += run->ranks.items[i].slices;
  if (slices <= most) return TG_OK;
  return tg__fail(e, TG_NO_DATA, -1,
                  "the ranks of this folder have %lld slices, and the timeline shows %lld at most (--slices): open the "
                  "file of one rank to see its timeline",
                  (long long)slices, (long long)most);
}

static enum tg_err index_trace(struct tg__hosted *t, const struct tg__serve_options *o) {
  struct tg_error *const e = &t->error;
  tg__lock_take(t->engine);
  enum tg_err err = check_size(t, o, e);
  if (!err) err = tg__load_all_ranks(t->trace, &t->columns, e);
  if (!err && t->columns->has_no_events)
    err = tg__fail(e, TG_NO_DATA, -1, "a summary of ranks has no events, so it has no timeline");
  if (!err) err = tg__trace_load(t->columns, TG__VIEW_COLUMNS, e);
  tg__lock_drop(t->engine);
  if (!err) err = tg__view_open(t->columns, o->threads ? o->threads : tg__cpu_count(), &t->view, e);
  if (!err && (!tg__looks_open(&t->tile_looks, t->columns) || !tg__looks_open(&t->looks, t->columns)))
    err = tg__no_memory(e, "laying out the timeline");
  return err;
}

static enum tg_err load_rest(struct tg__hosted *t) {
  tg__lock_take(t->engine);
  enum tg_err err = tg__trace_load(t->columns, LATER_COLUMNS, &t->error);
  tg__lock_drop(t->engine);
  if (!err) err = tg__series_open(t->view, &t->series, &t->error);
  return err;
}

static void mark(struct tg__hosted *t, bool *what) {
  tg__lock_take(t->host->lock);
  *what = true;
  tg__lock_wake(t->host->lock);
  tg__lock_drop(t->host->lock);
}

/* A trace that has no events, a summary for one, still answers questions: then there is no view, and `error` says why.
 */
static void load_trace(struct tg__hosted *t) {
  const struct tg__serve_options *const o = t->host->options;
  const struct tg_open_options options = {.threads = o->threads, .progress = show_progress, .progress_ctx = t};
  if (tg_open(t->path, &options, &t->trace, &t->error)) {
    set_state(t, TG__TRACE_FAILED);
    return;
  }
  tg_set_progress(t->trace, NULL);
  mark(t, &t->is_open);
  set_state(t, TG__TRACE_INDEXING);
  if (index_trace(t, o)) {
    tg__view_close(t->view);
    t->view = NULL;
  } else {
    set_state(t, TG__TRACE_READY);
    if (load_rest(t)) t->columns = NULL;
  }
  mark(t, &t->is_loaded);
  set_state(t, TG__TRACE_READY);
}

void tg__host_load(struct tg__host *h) {
  for (size_t i = 0; i < h->count && !h->is_stopping; i++) load_trace(&h->traces[i]);
}

void tg__host_stop(struct tg__host *h) {
  tg__lock_take(h->lock);
  h->is_stopping = true;
  tg__lock_wake(h->lock);
  tg__lock_drop(h->lock);
}

static const char *trace_name_of(const char *path) {
  const char *name = path;
  for (const char *p = path; *p; p++)
    if (*p == '/' && p[1]) name = p + 1;
  return name;
}

enum tg_err tg__host_open(struct tg__host *h, const struct tg__serve_options *o, struct tg_error *e) {
  *h = (struct tg__host){.options = o, .count = o->path_count};
  h->lock = tg__lock_new();
  h->traces = tg__alloc((o->path_count + 1) * sizeof *h->traces);
  bool ok = h->lock && h->traces;
  for (size_t i = 0; ok && i < h->count; i++) {
    h->traces[i] = (struct tg__hosted){
        .host = h, .path = o->paths[i], .name = trace_name_of(o->paths[i]), .bytes = -1, .engine = tg__lock_new()};
    ok = h->traces[i].engine != NULL;
  }
  return ok ? TG_OK : tg__no_memory(e, "starting the server");
}

void tg__host_close(struct tg__host *h) {
  for (size_t i = 0; h->traces && i < h->count; i++) {
    struct tg__hosted *const t = &h->traces[i];
    tg__series_close(t->series);
    tg__view_close(t->view);
    tg__looks_close(&t->tile_looks);
    tg__looks_close(&t->looks);
    tg_close(t->trace);
    if (t->engine) tg__lock_free(t->engine);
  }
  tg__free(h->traces);
  if (h->lock) tg__lock_free(h->lock);
  *h = (struct tg__host){0};
}
