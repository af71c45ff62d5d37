/* first_reading: the ranks of a job are read for the first time. Observers keep a summary of each, its place in the job
 * and how it was read, and the answers that will be asked for first. */
#include "analyze/ranks/summarize.h"
#include "ranks/merge_ranks.h"

/* ---- summaries --------------------------------------------------------------------------------- */

struct summing {
  const struct tg__file_pass *pass;
  struct tg__summaries *all; /* its strings are everybody's */
  struct tg__summaries *own; /* by file */
  struct tg_error *why;      /* by file; code 0 where it was read */
  int64_t unread;
  bool is_of_events; /* files of summaries do not count: their events are not there */
};

static enum tg_err see_summary(void *ctx, const struct tg__seen *s, struct tg_error *e) {
  struct summing *const w = ctx;
  struct tg__summaries *const own = &w->own[s->i];
  own->strings = w->all->strings;
  if (s->summaries && w->is_of_events) return TG_OK;
  if (s->summaries) return tg__summaries_move(s->summaries, own) ? TG_OK : tg__no_memory(e, "reading a summary");
  const enum tg_err err = tg__trace_load(s->columns, TG__COL_ALL, e);
  if (err) return err;
  if (w->pass->count > 1) tg__memory_return(); /* what reading took, before the questions take theirs */
  if (tg__rank_summarize(s->columns, own) != TG_OK) return tg__no_memory(e, "summing up a rank");
  for (uint32_t k = 0; k < own->count; k++) {
    own->ranks[k].file_index = w->pass->files[s->i].index;
    own->ranks[k].rank_in_file = k;
  }
  return TG_OK;
}

static bool ends_all(enum tg_err err) { return err == TG_MEMORY || err == TG_INTERNAL || err == TG_USAGE; }

static enum tg_err take_summary(void *ctx, size_t i, const struct tg_error *why, struct tg_error *e) {
  struct summing *const w = ctx;
  if (why && ends_all(why->code)) return tg__fail(e, why->code, why->offset, "%s", why->text);
  if (why) {
    w->why[i] = *why;
    w->unread++;
    return TG_OK;
  }
  if (!w->own[i].count || tg__summaries_move(&w->own[i], w->all)) return TG_OK;
  return tg__no_memory(e, "putting ranks together");
}

static bool summing_begin(struct summing *w, const struct tg__file_pass *pass, bool is_of_events) {
  *w = (struct summing){.pass = pass, .all = tg__summaries_new(), .is_of_events = is_of_events};
  w->own = tg__alloc((pass->count + 1) * sizeof *w->own);
  w->why = tg__alloc((pass->count + 1) * sizeof *w->why);
  return w->all && w->own && w->why;
}

static enum tg_err no_rank(const struct summing *w, const char *path, struct tg_error *e) {
  size_t i = 0;
  while (i < w->pass->count && !w->why[i].code) i++;
  if (i == w->pass->count) return tg__no_traces(path, e);
  if (w->pass->count == 1) return tg__fail(e, w->why[i].code, w->why[i].offset, "%s", w->why[i].text);
  return tg__fail(e, w->why[i].code, w->why[i].offset, "no file could be read; the first that failed says: %s",
                  w->why[i].text);
}

/* *out and *summaries: what the ranks that could be read are known by; the others are named and counted. */
static enum tg_err summing_end(struct summing *w, const char *path, struct tg__columns **out,
                               struct tg__summaries **summaries, struct tg_error *e) {
  enum tg_err err = w->all->count ? tg__trace_of_summaries(w->all, path, out, e) : no_rank(w, path, e);
  if (err) return err;
  *summaries = w->all;
  w->all = NULL;
  (*out)->ranks[0].loss[TG__LOSS_skipped_file] = w->unread;
  (*out)->ranks[0].loss_offset[TG__LOSS_skipped_file] = -1; /* of no place in any file */
  for (size_t i = 0; i < w->pass->count; i++)
    if (w->why[i].code)
      tg__trace_add_skipped(*out, tg__folder_path(w->pass->files[i].folder, w->pass->files[i].index), w->why[i].text);
  return TG_OK;
}

static void summing_free(struct summing *w) {
  for (size_t i = 0; w->own && i < w->pass->count; i++) {
    for (uint32_t k = 0; k < w->own[i].count; k++) tg__rank_summary_free(&w->own[i].ranks[k]);
    tg__free(w->own[i].ranks);
  }
  tg__free(w->own);
  tg__free(w->why);
  tg__summaries_free(w->all);
}

/* ---- places, and how each rank was read ---------------------------------------------------------- */

struct placing {
  const struct tg__file_pass *pass;
  struct tg__job_ranks *all, *own; /* own: by file */
  struct tg__job_rank next;        /* its first track, slice and mark */
  bool checks;
};

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

static enum tg_err see_places(void *ctx, const struct tg__seen *s, struct tg_error *e) {
  const struct placing *const w = ctx;
  const struct tg__columns *const t = s->columns;
  struct tg__job_ranks *const own = &w->own[s->i];
  if (!t) return TG_OK;
  if (!tg__grow((void **)&own->items, &own->cap, t->rank_count, sizeof *own->items))
    return tg__no_memory(e, "looking at a rank");
  for (uint32_t k = 0; k < t->rank_count; k++) {
    const struct tg__rank *const rank = &t->ranks[k];
    struct tg__job_rank *const place = &own->items[own->count++];
    *place = (struct tg__job_rank){.file_index = w->pass->files[s->i].index,
                                   .rank_in_file = k,
                                   .rank_by_file = rank->number,
                                   .tracks = rank->track_count};
    for (uint32_t i = 0; i < rank->track_count; i++) place->slices += t->tracks[rank->first_track + i].count;
    for (uint32_t i = 0; i < t->marks.count; i++) place->marks += t->tracks[t->marks.track[i]].rank == k;
    place->first_ns = tg__rank_first_ns(t, k);
    place->health.links = tg__links_of(t, k);
    if (!note_health(rank, &place->health) || tg__rank_load(t, k, &place->load))
      return tg__no_memory(e, "looking at a rank");
  }
  if (w->checks) tg__trace_is_valid(t, &own->defect);
  return TG_OK;
}

static enum tg_err take_places(void *ctx, size_t i, const struct tg_error *why, struct tg_error *e) {
  struct placing *const w = ctx;
  struct tg__job_ranks *const own = &w->own[i], *const all = w->all;
  if (why) return TG_OK;
  if (!tg__grow((void **)&all->items, &all->cap, all->count + own->count, sizeof *all->items))
    return tg__no_memory(e, "putting ranks together");
  for (size_t k = 0; k < own->count; k++) {
    struct tg__job_rank *const place = &all->items[all->count++];
    *place = own->items[k];
    place->first_track = w->next.first_track;
    place->first_slice = w->next.first_slice;
    place->first_mark = w->next.first_mark;
    w->next.first_track += place->tracks;
    w->next.first_slice += place->slices;
    w->next.first_mark += place->marks;
  }
  own->count = 0; /* what they point to is the job's now */
  if (!all->defect.code) all->defect = own->defect;
  return TG_OK;
}

/* ---- once all are known -------------------------------------------------------------------------- */

/* Ranks get their numbers in the job, and what is known of them by their summaries the losses of each. */
static void name_places(const struct tg__summaries *s, struct tg__columns *known, struct tg__job_ranks *all) {
  for (size_t i = 0; i < all->count; i++) {
    struct tg__job_rank *const place = &all->items[i];
    place->rank = place->rank_by_file;
    for (uint32_t k = 0; k < s->count; k++)
      if (s->ranks[k].file_index == place->file_index && s->ranks[k].rank_in_file == place->rank_in_file)
        place->rank = s->ranks[k].number;
    for (uint32_t r = 0; r < known->rank_count; r++)
      for (int k = 0; k < TG__LOSS_COUNT && known->ranks[r].number == place->rank; k++)
        if (k != TG__LOSS_skipped_file) { /* which files were passed over is there already */
          known->ranks[r].loss[k] = place->health.loss[k];
          known->ranks[r].loss_offset[k] = place->health.loss_offset[k];
        }
  }
}

/* ---- a folder ------------------------------------------------------------------------------------ */

static enum tg_err list_files(const struct tg__folder *folder, struct tg__file_ref **files, size_t *count,
                              size_t *cap) {
  for (size_t i = 0; i < tg__folder_count(folder); i++) {
    if (!tg__grow((void **)files, cap, *count + 1, sizeof **files)) return TG_MEMORY;
    (*files)[(*count)++] = tg__file_at(folder, (uint32_t)i);
  }
  return TG_OK;
}

struct first { /* the first reading of a folder */
  struct tg__file_pass pass;
  struct summing summing;
  struct placing placing;
  struct tg__answering answers[TG__READY_COUNT];
  size_t answer_count;
  struct tg__observer observers[2 + TG__READY_COUNT];
};

static bool begin_answers(struct first *r, const struct tg__first_question *first) {
  const size_t count = first ? 1 : TG__READY_COUNT;
  size_t traces = 0;
  for (size_t i = 0; i < r->pass.count; i++) traces += r->pass.files[i].bytes > 0;
  for (; r->answer_count < count; r->answer_count++) {
    struct tg__answering *const a = &r->answers[r->answer_count];
    const struct tg__ready *const ready = &tg__ready[r->answer_count];
    const struct tg_arg by = {"by", ready->by};
    const struct tg__call c =
        first ? first->call : (struct tg__call){ready->question, &by, *ready->by != 0, SIZE_MAX, SIZE_MAX};
    const bool has_begun = tg__answering_begin(a, &c, false, first ? first->most : SIZE_MAX, r->pass.count);
    a->ranks = r->placing.all;
    a->is_first = true;
    a->job.is_part = traces > 1;        /* the first start is known at the end */
    if (!first) a->call.args = a->args; /* `by` ends here; each rank is asked it as it is */
    r->observers[2 + r->answer_count] = tg__answering_observer(a);
    if (!has_begun) return r->answer_count++, false;
  }
  return true;
}

static bool first_begin(struct first *r, const struct tg__first_question *first, struct tg__job_ranks *ranks) {
  r->placing = (struct placing){.pass = &r->pass, .all = ranks, .checks = !first || first->checks};
  r->placing.own = tg__alloc((r->pass.count + 1) * sizeof *r->placing.own);
  r->observers[0] = (struct tg__observer){&r->summing, see_summary, take_summary};
  r->observers[1] = (struct tg__observer){&r->placing, see_places, take_places};
  if (!summing_begin(&r->summing, &r->pass, true) || !r->placing.own || !begin_answers(r, first)) return false;
  r->pass.observers = r->observers;
  r->pass.observer_count = 2 + r->answer_count;
  return true;
}

static enum tg_err end_answers(struct first *r, struct tg__first_question *first, const struct tg__columns *known,
                               struct tg__job_ranks *ranks, struct tg_error *e) {
  enum tg_err err = TG_OK;
  for (size_t i = 0; i < r->answer_count && err != TG_MEMORY; i++) {
    struct tg_error *const why = first ? &first->error : &ranks->why_not[i];
    r->answers[i].known = known;
    err = tg__answering_end(&r->answers[i], first ? &first->table : &ranks->ready[i], why);
    if (first) first->err = err;
    if (err == TG_MEMORY && e) *e = *why;
  }
  ranks->has_ready = !first;
  return err == TG_MEMORY ? err : TG_OK;
}

static void first_free(struct first *r) {
  for (size_t i = 0; i < r->answer_count; i++) tg__answering_free(&r->answers[i]);
  for (size_t i = 0; r->placing.own && i < r->pass.count; i++) tg__job_ranks_free(&r->placing.own[i]);
  tg__free(r->placing.own);
  summing_free(&r->summing);
}

enum tg_err tg__read_first(const struct tg__folder *folder, const char *path, const struct tg_open_options *options,
                           struct tg__first_question *first, struct tg__job_ranks *ranks, struct tg__columns **out,
                           struct tg__summaries **summaries, struct tg_error *e) {
  struct tg__file_ref *files = NULL;
  size_t cap = 0;
  struct first *const r = tg__alloc(sizeof *r);
  if (!r) return tg__no_memory(e, "reading the ranks");
  r->pass = (struct tg__file_pass){.at_once = TG__FILES_AT_ONCE, .options = options, .reads_summaries = true};
  enum tg_err err = list_files(folder, &files, &r->pass.count, &cap);
  r->pass.files = files;
  if (err || !first_begin(r, first, ranks)) err = tg__no_memory(e, "reading the ranks");
  if (!err) err = tg__each_file(&r->pass, e);
  if (!err) err = summing_end(&r->summing, path, out, summaries, e);
  if (!err) {
    name_places(*summaries, *out, ranks);
    err = end_answers(r, first, *out, ranks, e);
    if (err) tg__trace_free(*out);
    if (err) tg__summaries_free(*summaries);
  }
  first_free(r);
  tg__free(files);
  tg__free(r);
  return err;
}

/* ---- summaries only ------------------------------------------------------------------------------ */

enum tg_err tg__read_summaries(const char *const *paths, size_t count, const struct tg_open_options *options,
                               struct tg_trace **out, struct tg_error *e) {
  struct tg__columns *columns = NULL;
  struct tg__summaries *summaries = NULL;
  struct tg__file_ref *files = NULL;
  size_t cap = 0;
  struct summing w = {0};
  const struct tg__observer observer = {&w, see_summary, take_summary};
  struct tg__file_pass pass = {.at_once = TG__FILES_AT_ONCE,
                               .options = options,
                               .reads_summaries = true,
                               .observers = &observer,
                               .observer_count = 1};
  struct tg__folder **const folders = tg__alloc((count + 1) * sizeof *folders);
  enum tg_err err = folders ? TG_OK : tg__no_memory(e, "reading the ranks");
  *out = NULL;
  if (!err && count == 0) err = tg__fail(e, TG_USAGE, -1, "there are no ranks to open: name their files or folder");
  for (size_t i = 0; i < count && !err; i++) {
    err = tg__folder_open(paths[i], &folders[i], e);
    if (!err && list_files(folders[i], &files, &pass.count, &cap)) err = tg__no_memory(e, "reading the ranks");
  }
  pass.files = files;
  if (!err && !summing_begin(&w, &pass, false)) err = tg__no_memory(e, "reading the ranks");
  if (!err) err = tg__each_file(&pass, e);
  if (!err) err = summing_end(&w, paths[0], &columns, &summaries, e);
  if (!err) err = tg__handle_new(columns, NULL, summaries, out, e);
  if (w.pass) summing_free(&w);
  for (size_t i = 0; folders && i < count; i++) tg__folder_close(folders[i]);
  tg__free(folders);
  tg__free(files);
  return err;
}

enum tg_err tg__save_summaries(struct tg_trace *t, const char *path, struct tg_error *e) {
  struct tg__columns *const trace = t->columns;
  if (t->summaries) return tg__summaries_save(t->summaries, path, e);
  enum tg_err err = tg__trace_load(trace, TG__COL_ALL, e);
  if (err) return err;
  struct tg__summaries *const s = tg__summaries_new();
  if (!s || tg__rank_summarize(trace, s) != TG_OK || !tg__summaries_sort(s))
    err = tg__no_memory(e, "summing up the ranks");
  else
    err = tg__summaries_save(s, path, e);
  tg__summaries_free(s);
  return err;
}
