/* host: reads the traces one after the other while calls are answered. */
#include "serve/host.h"

#include "ranks/ranks.h"

enum { LATER_COLUMNS = TG__COL_PARENT | TG__COL_ARGS | TG__COL_MARKS, SLICES_MOST = 20000000 };

static void say_changed(struct tg__host *h) {
  if (h->changed) h->changed(h->ctx);
}

/* what: NULL, or what holds from now on. */
static void set_state(struct tg__hosted *t, enum tg__trace_state state, bool *what) {
  tg__lock_take(t->host->lock);
  t->state = state;
  if (what) *what = true;
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
static enum tg_err check_size(const struct tg__loaded *t, const struct tg__serve_options *o, struct tg_error *e) {
  const struct tg__rank_folder *const folder = t->trace->folder;
  const int64_t most = o->slices ? o->slices : SLICES_MOST;
  int64_t slices = 0;
  for (size_t i = 0; folder && i < folder->ranks.count; i++) slices += folder->ranks.items[i].slices;
  if (slices <= most) return TG_OK;
  return tg__fail(e, TG_NO_DATA, -1,
                  "the ranks of this folder have %lld slices, and the timeline shows %lld at most (--slices): open the "
                  "file of one rank to see its timeline",
                  (long long)slices, (long long)most);
}

static enum tg_err index_trace(struct tg__loaded *t, const struct tg__serve_options *o) {
  struct tg_error *const e = &t->error;
  tg__lock_take(t->engine);
  enum tg_err err = check_size(t, o, e);
  if (!err) err = tg__load_all_ranks(t->trace, &t->columns, e);
  if (!err && t->columns->has_no_events)
    err = tg__fail(e, TG_NO_DATA, -1, "a summary of ranks has no events, so it has no timeline");
  const uint32_t marks = !err && tg__view_ends_with_marks(t->columns) ? TG__COL_MARKS : 0;
  if (!err) err = tg__trace_load(t->columns, TG__VIEW_COLUMNS | marks, e);
  tg__lock_drop(t->engine);
  if (!err) err = tg__view_open(t->columns, o->threads ? o->threads : tg__cpu_count(), &t->view, e);
  if (!err &&
      (!tg__slice_classes_open(&t->tile_classes, t->columns) || !tg__slice_classes_open(&t->classes, t->columns)))
    err = tg__no_memory(e, "laying out the timeline");
  return err;
}

static enum tg_err load_rest(struct tg__loaded *t) {
  tg__lock_take(t->engine);
  enum tg_err err = tg__trace_load(t->columns, LATER_COLUMNS, &t->error);
  tg__lock_drop(t->engine);
  if (!err) err = tg__series_open(t->view, &t->series, &t->error);
  return err;
}

/* The states of a reading that is not shown yet are not sent. */
static void say_state(const struct tg__loaded *l, struct tg__hosted *t, enum tg__trace_state state, bool *what) {
  if (t->now == l)
    set_state(t, state, what);
  else if (what)
    *what = true;
}

/* A trace that has no events, a summary for one, still answers questions: then there is no view. */
enum tg_err tg__loaded_read(struct tg__loaded *l, struct tg__hosted *t) {
  const struct tg__serve_options *const o = t->host->options;
  struct tg_open_options options = {.threads = o->threads};
  if (t->now == l) options.progress = show_progress, options.progress_ctx = t;
  const enum tg_err err = tg_open(l->path, &options, &l->trace, &l->error);
  if (err) return err;
  tg_set_progress(l->trace, NULL);
  say_state(l, t, TG__TRACE_INDEXING, &l->is_open);
  if (index_trace(l, o)) {
    tg__view_close(l->view);
    l->view = NULL;
  } else {
    say_state(l, t, TG__TRACE_READY, NULL);
    if (load_rest(l)) l->columns = NULL;
  }
  say_state(l, t, TG__TRACE_READY, &l->is_loaded);
  return TG_OK;
}

/* A recording that goes on and has nothing finished yet is waited for. */
static void load_trace(struct tg__hosted *t) {
  struct tg__recording r;
  tg__recording_read(t->path, &r);
  const bool failed = tg__loaded_read(t->now, t) != TG_OK, may_come = r.is_run || r.is_open;
  if (failed && !may_come) set_state(t, TG__TRACE_FAILED, NULL);
  t->read_ns = failed ? 0 : tg__clock_ns();
}

void tg__host_load(struct tg__host *h) {
  for (size_t i = 0; i < h->count && !h->is_stopping; i++) load_trace(&h->traces[i]);
  tg__host_follow(h);
}

/* ---- readings ---------------------------------------------------------------------------------------- */

static void loaded_free(struct tg__loaded *l) {
  tg__series_close(l->series);
  tg__view_close(l->view);
  tg__slice_classes_close(&l->tile_classes);
  tg__slice_classes_close(&l->classes);
  tg_close(l->trace);
  if (l->engine) tg__lock_free(l->engine);
  tg__free(l);
}

struct tg__loaded *tg__loaded_new(const struct tg__hosted *t, uint32_t number) {
  struct tg__loaded *const l = tg__alloc(sizeof *l);
  if (!l) return NULL;
  *l = (struct tg__loaded){.path = t->path, .name = t->name, .number = number, .users = 1, .engine = tg__lock_new()};
  if (l->engine) return l;
  tg__free(l);
  return NULL;
}

struct tg__loaded *tg__loaded_hold(struct tg__hosted *t) {
  tg__lock_take(t->host->lock);
  struct tg__loaded *const l = t->now;
  l->users++;
  tg__lock_drop(t->host->lock);
  return l;
}

void tg__loaded_drop(struct tg__host *h, struct tg__loaded *l) {
  tg__lock_take(h->lock);
  const bool is_last = --l->users == 0;
  tg__lock_drop(h->lock);
  if (is_last) loaded_free(l);
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
    struct tg__hosted *const t = &h->traces[i];
    *t = (struct tg__hosted){.host = h, .path = o->paths[i], .name = trace_name_of(o->paths[i]), .bytes = -1};
    ok = (t->now = tg__loaded_new(t, 1)) != NULL;
  }
  return ok ? TG_OK : tg__no_memory(e, "starting the server");
}

void tg__host_close(struct tg__host *h) {
  for (size_t i = 0; h->traces && i < h->count; i++)
    if (h->traces[i].now) loaded_free(h->traces[i].now);
  tg__free(h->traces);
  if (h->lock) tg__lock_free(h->lock);
  *h = (struct tg__host){0};
}
