/* critical_rows_hta: the rows of the critical path as HolisticTraceAnalysis 0.6.1 selects and times them. */
#include "analyze/compat/hta/critical_hta.h"
#include "analyze/compat/hta/hta_rows.h"
#include "analyze/table/numpy_sort.h"

#include <stdlib.h>

struct fill {
  struct tg__crit *c;
  struct tg__crit_names *names;
  const struct tg__hta_row *rows;
  uint8_t *cats;         /* by category */
  uint32_t *thread_of;   /* by track of the rank: its thread, numbered as HTA walks them */
  struct tg__map stream; /* number of a stream as it stands → place */
};
enum { CAT_OP = 1, CAT_CALL = 2, CAT_SYNC = 4, CAT_ANNOTATION = 8 };

/* ---- the window ------------------------------------------------------------------------------ */

/* Instances are counted in the order of its rows, which is not that of time. */
static enum tg_err find_window(struct fill *f, struct tg__crit_range range, struct tg_error *e) {
  struct tg__crit *c = f->c;
  c->window_start = INT64_MIN;
  c->window_end = INT64_MAX;
  if (!*f->names->annotation) return TG_OK;
  int64_t seen = 0;
  bool any = false;
  for (uint32_t i = 0; i < c->count; i++) {
    if (!(tg__crit_name(f->names, c->t->slices.name[c->rows[i].slice]) & TG__CRIT_NAME_WANTED)) continue;
    const int64_t at = seen++;
    if (at < range.first || at > range.last) continue;
    if (!any || c->rows[i].start < c->window_start) c->window_start = c->rows[i].start;
    if (!any || c->rows[i].end > c->window_end) c->window_end = c->rows[i].end;
    any = true;
  }
  if (any) return TG_OK;
  return tg__fail(e, TG_NO_DATA, -1,
                  "critical_path: %lld events have '%.60s' in their names, and instance %lld is not among them",
                  (long long)seen, f->names->annotation, (long long)range.first);
}

/* ---- which rows count ------------------------------------------------------------------------ */

static bool is_in_window(const struct tg__crit *c, const struct tg__crit_row *r) {
  return r->start >= c->window_start && r->start <= c->window_end && r->end > r->start;
}

/* Host rows of the window and the device row each is tied to: of a call that launched many only the last. */
static void clip(const struct fill *f, bool *is_in) {
  const struct tg__crit *c = f->c;
  for (uint32_t i = 0; i < c->count; i++) {
    const struct tg__hta_row *h = &f->rows[i];
    if (h->stream != -1) {
      if (tg__crit_wait_kind(c->t, h->slice) == TG__CRIT_STREAM_WAIT) is_in[i] = true;
      continue;
    }
    if (!is_in_window(c, &c->rows[i])) continue;
    is_in[i] = true;
    if (h->link != TG_NONE && f->rows[h->link].stream != -1) is_in[h->link] = true;
  }
}

static void flag_row(const struct fill *f, uint32_t i) {
  const struct tg__crit *c = f->c;
  const struct tg__hta_row *h = &f->rows[i];
  struct tg__crit_row *r = &f->c->rows[i];
  const unsigned name = tg__crit_name(f->names, c->t->slices.name[h->slice]);
  const unsigned cat = f->cats[c->t->slices.cat[h->slice]];
  const bool has_id = h->index_correlation >= 0;
  const enum tg__crit_wait_kind wait = tg__crit_wait_kind(c->t, h->slice);
  if (h->stream == -1) r->flags |= TG__CRIT_HOST;
  if ((h->stream != -1 || wait == TG__CRIT_EVENT_SYNC || wait == TG__CRIT_CONTEXT_SYNC) && has_id)
    r->flags |= TG__CRIT_DEVICE;
  if (cat & (CAT_OP | CAT_CALL) || (c->loading && name & TG__CRIT_NAME_LOADING) || (h->stream != -1 && has_id))
    r->flags |= TG__CRIT_NODE;
  if (r->flags & TG__CRIT_NODE && name & TG__CRIT_NAME_LOCK) r->flags |= TG__CRIT_LOCK;
  if (name & TG__CRIT_NAME_BLOCKING) r->flags |= TG__CRIT_BLOCKING;
  if (c->loading && name & TG__CRIT_NAME_LOADING) r->flags |= TG__CRIT_LOADING;
  if (r->flags & TG__CRIT_DEVICE && cat & CAT_SYNC) r->flags |= TG__CRIT_WAIT;
}

/* ---- threads --------------------------------------------------------------------------------- */

/* The one thread with an operator or annotation of such a name; TG_NONE when there are several, or none. */
static uint32_t only_track(const struct fill *f, const bool *is_in, const char *part) {
  const struct tg__columns *t = f->c->t;
  uint32_t only = TG_NONE;
  for (uint32_t i = 0; i < f->c->count; i++) {
    const uint32_t slice = f->rows[i].slice;
    if (!is_in[i] || !(f->cats[t->slices.cat[slice]] & (CAT_OP | CAT_ANNOTATION))) continue;
    if (only != TG_NONE && slice - t->tracks[only].first < t->tracks[only].count) continue;
    if (!tg__str_contains(tg__name(t, t->slices.name[slice]), part)) continue;
    const uint32_t track = tg__slice_track(t, slice);
    const struct tg__track *a = &t->tracks[track], *b = &t->tracks[only == TG_NONE ? track : only];
    if (a->tid != b->tid || a->tid_is_text != b->tid_is_text) return TG_NONE;
    only = track;
  }
  return only;
}

struct thread_key {
  int64_t pid, tid;
  bool pid_is_text, tid_is_text;
  uint32_t track;
};

static int compare_keys(const void *a, const void *b) {
  const struct thread_key *x = a, *y = b;
  if (x->pid_is_text != y->pid_is_text) return x->pid_is_text ? 1 : -1; /* numbers come before texts */
  if (x->pid != y->pid) return x->pid < y->pid ? -1 : 1;
  if (x->tid_is_text != y->tid_is_text) return x->tid_is_text ? 1 : -1;
  if (x->tid != y->tid) return x->tid < y->tid ? -1 : 1;
  return x->track < y->track ? -1 : x->track > y->track;
}

static bool is_same_thread(const struct thread_key *x, const struct thread_key *y) {
  return x->pid == y->pid && x->pid_is_text == y->pid_is_text && x->tid == y->tid && x->tid_is_text == y->tid_is_text;
}

/* Threads by (pid, tid). Autograd's thread is taken for the one that runs the forward pass, when both are known. */
static bool number_threads(struct fill *f, const bool *is_in) {
  struct tg__crit *c = f->c;
  const struct tg__columns *t = c->t;
  const struct tg__rank *rank = &t->ranks[c->rank];
  struct thread_key *keys = tg__alloc(((size_t)rank->track_count + 1) * sizeof *keys);
  const uint32_t forward = only_track(f, is_in, "forward"), backward = only_track(f, is_in, "autograd");
  f->thread_of = tg__alloc(((size_t)rank->track_count + 1) * sizeof *f->thread_of);
  if (!keys || !f->thread_of) {
    tg__free(keys);
    return false;
  }
  const struct tg__track *to = forward == TG_NONE ? NULL : &t->tracks[forward],
                         *from = backward == TG_NONE ? NULL : &t->tracks[backward];
  const bool merges = to && from && (to->tid_is_text || to->tid) && (from->tid_is_text || from->tid);
  for (uint32_t k = 0; k < rank->track_count; k++) {
    const struct tg__track *track = &t->tracks[rank->first_track + k];
    const struct tg__track *as =
        merges && track->tid == from->tid && track->tid_is_text == from->tid_is_text ? to : track;
    keys[k] = (struct thread_key){track->pid, as->tid, track->pid_is_text, as->tid_is_text, k};
  }
  qsort(keys, rank->track_count, sizeof *keys, compare_keys);
  for (uint32_t k = 0; k < rank->track_count; k++) {
    if (k && !is_same_thread(&keys[k - 1], &keys[k])) c->thread_count++;
    f->thread_of[keys[k].track] = c->thread_count;
  }
  c->thread_count++;
  tg__free(keys);
  return true;
}

/* ---- places ---------------------------------------------------------------------------------- */

/* Streams by their number only: those of two devices are one (defect D12). */
static uint32_t stream_place(struct fill *f, int64_t stream) {
  uint32_t *slot = tg__map_slot(&f->stream, (uint64_t)stream, TG_NONE);
  if (!slot) {
    f->c->failed = true;
    return 0;
  }
  if (*slot == TG_NONE) *slot = f->c->stream_count++;
  return *slot;
}

/* A thread with a row on a stream is no thread of the host to it. */
static bool place_rows(struct fill *f, const bool *is_in) {
  struct tg__crit *c = f->c;
  const struct tg__columns *t = c->t;
  const uint32_t first_track = t->ranks[c->rank].first_track;
  uint32_t track = first_track;
  c->is_skipped_thread = tg__alloc((size_t)c->thread_count + 1);
  if (!c->is_skipped_thread) return false;
  for (uint32_t i = 0; i < c->count; i++) {
    struct tg__crit_row *r = &c->rows[i];
    if (r->slice - t->tracks[track].first >= t->tracks[track].count) track = tg__slice_track(t, r->slice);
    const uint32_t thread = f->thread_of[track - first_track];
    if (is_in[i] && f->rows[i].stream >= 0) c->is_skipped_thread[thread] = true;
    r->place = f->rows[i].stream == -1 ? thread : stream_place(f, f->rows[i].stream);
  }
  return !c->failed;
}

/* ---- launches, waits, queues ----------------------------------------------------------------- */

static bool is_launch(const struct fill *f, uint32_t i) {
  const struct tg__hta_row *h = &f->rows[i];
  return h->link != TG_NONE && h->index_correlation > 0 &&
         tg__crit_name(f->names, f->c->t->slices.name[h->slice]) & TG__CRIT_NAME_LAUNCH;
}

static bool is_record(const struct fill *f, uint32_t i) {
  return tg__str_eq(tg__name(f->c->t, f->c->t->slices.name[f->rows[i].slice]), TG_STR("cudaEventRecord"));
}

static void find_waits(struct fill *f) {
  struct tg__crit *c = f->c;
  const struct tg__columns *t = c->t;
  struct tg__map records = {0};
  bool any = false;
  for (uint32_t i = 0; i < c->count; i++)
    if (is_record(f, i) && !tg__map_put(&records, (uint64_t)f->rows[i].correlation, i)) c->failed = true;
  for (uint32_t i = 0; i < c->count; i++) {
    if (!(c->rows[i].flags & TG__CRIT_WAIT)) continue;
    struct tg__crit_wait wait = {
        .row = i, .kind = tg__crit_wait_kind(t, f->rows[i].slice), .record = TG_NONE, .record_place = TG_NONE};
    const int64_t id = tg__arg_int(t, t->slices.args[f->rows[i].slice], TG__K_WAIT_ON_RECORD, -1);
    const int64_t stream = tg__arg_int(t, t->slices.args[f->rows[i].slice], TG__K_WAIT_ON_STREAM, -1);
    if (id != -1 && stream > -1) {
      wait.record = tg__map_get(&records, (uint64_t)id);
      wait.record_place = tg__map_get(&f->stream, (uint64_t)stream);
    }
    any |= wait.record != TG_NONE && wait.record_place != TG_NONE;
    tg__crit_add_wait(c, wait);
  }
  for (uint32_t i = 0; any && i < c->count; i++) {
    if (!is_launch(f, i) || f->rows[f->rows[i].link].stream == -1) continue;
    const uint32_t work = f->rows[i].link;
    tg__crit_add_launch(
        c, (struct tg__crit_launch){c->rows[i].start, c->rows[work].place, tg__slice_track(t, f->rows[i].slice), work});
  }
  tg__map_free(&records);
}

struct changes { /* of the length of a queue, in the order of rows, launches before work */
  int64_t *at;
  uint32_t *row;
  size_t count;
};

/* Up where work is launched, down where it starts. */
static bool find_changes(const struct fill *f, struct changes *x) {
  const struct tg__crit *c = f->c;
  struct tg__map launches = {0};
  bool ok = true;
  for (uint32_t i = 0; i < c->count && ok; i++) {
    if (!is_launch(f, i)) continue;
    ok = tg__map_put(&launches, (uint64_t)f->rows[i].correlation, i);
    x->at[x->count] = c->rows[i].start;
    x->row[x->count++] = i;
  }
  for (uint32_t i = 0; i < c->count && launches.count; i++) {
    if (f->rows[i].stream == -1 || tg__map_get(&launches, (uint64_t)f->rows[i].correlation) == TG_NONE) continue;
    x->at[x->count] = c->rows[i].start;
    x->row[x->count++] = i;
  }
  tg__map_free(&launches);
  return ok;
}

/* After each change, of its stream. */
static void sum_up_queue(const struct fill *f, const struct changes *x, const uint32_t *order, int32_t *length) {
  struct tg__crit *c = f->c;
  for (size_t i = 0; i < x->count; i++) {
    const uint32_t row = x->row[order[i]];
    const bool starts = f->rows[row].stream != -1;
    const uint32_t work = starts ? row : f->rows[row].link;
    if (f->rows[work].stream == -1) continue;
    c->queue[row] = length[c->rows[work].place] += starts ? -1 : 1;
  }
}

static bool count_queues(struct fill *f) {
  struct tg__crit *c = f->c;
  struct changes x = {tg__alloc(((size_t)c->count * 2 + 1) * sizeof *x.at),
                      tg__alloc(((size_t)c->count * 2 + 1) * sizeof *x.row), 0};
  uint32_t *order = tg__alloc(((size_t)c->count * 2 + 1) * sizeof *order);
  int32_t *length = tg__alloc(((size_t)c->stream_count + 1) * sizeof *length);
  c->queue = tg__alloc(((size_t)c->count + 1) * sizeof *c->queue);
  const bool ok = x.at && x.row && order && length && c->queue && find_changes(f, &x);
  if (ok) {
    for (uint32_t i = 0; i < c->count; i++) c->queue[i] = INT32_MIN;
    tg__numpy_argsort(x.at, order, x.count);
    sum_up_queue(f, &x, order, length);
  }
  tg__free(x.at);
  tg__free(x.row);
  tg__free(order);
  tg__free(length);
  return ok;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool copy_rows(struct fill *f, const struct tg__hta_rank *from) {
  struct tg__crit *c = f->c;
  c->count = (uint32_t)from->count;
  c->rows = tg__alloc((from->count + 1) * sizeof *c->rows);
  c->index = tg__alloc((from->count + 1) * sizeof *c->index);
  if (!c->rows || !c->index) return false;
  for (uint32_t i = 0; i < c->count; i++) {
    const struct tg__hta_row *h = &from->rows[i];
    c->rows[i] =
        (struct tg__crit_row){.start = h->ts_us, .end = h->ts_us + h->dur_us, .slice = h->slice, .link = h->link};
    c->index[i] = h->index;
  }
  return true;
}

static bool find_cats(struct fill *f) {
  static const struct {
    const char *name;
    uint8_t flag;
  } known[] = {{"cpu_op", CAT_OP},
               {"cuda_runtime", CAT_CALL},
               {"cuda_driver", CAT_CALL},
               {"cuda_sync", CAT_SYNC},
               {"user_annotation", CAT_ANNOTATION}};
  const struct tg__columns *t = f->c->t;
  f->cats = tg__alloc((size_t)t->cat_count + 1);
  for (uint32_t i = 0; f->cats && i < t->cat_count; i++)
    for (size_t k = 0; k < sizeof known / sizeof *known && t->cats[i].name != TG_NONE; k++)
      if (tg__str_eq(tg__name(t, t->cats[i].name), (struct tg__str){known[k].name, (uint32_t)strlen(known[k].name)}))
        f->cats[i] = known[k].flag;
  return f->cats != NULL;
}

static enum tg_err fill_rows(struct fill *f, struct tg__crit_range range, struct tg_error *e) {
  struct tg__crit *c = f->c;
  bool *is_in = tg__alloc((size_t)c->count + 1);
  enum tg_err err = is_in ? find_window(f, range, e) : TG_MEMORY;
  if (err) goto done;
  clip(f, is_in);
  if (!number_threads(f, is_in) || !place_rows(f, is_in)) {
    err = TG_MEMORY;
    goto done;
  }
  for (uint32_t i = 0; i < c->count; i++)
    if (is_in[i]) flag_row(f, i);
  find_waits(f);
  if (!count_queues(f) || c->failed) err = TG_MEMORY;
done:
  tg__free(is_in);
  return err;
}

enum tg_err tg__crit_rows_hta(struct tg__crit *c, struct tg__crit_names *n, const struct tg__ask *a,
                              struct tg__crit_range range, struct tg_error *e) {
  struct tg__hta h;
  struct fill f = {.c = c, .names = n};
  enum tg_err err = tg__hta_open(&h, c->t, c->rank, tg__hta_filter_of(a));
  if (!err) {
    f.rows = h.ranks[c->rank].rows;
    err = h.ranks[c->rank].count < TG_NONE / 2 && copy_rows(&f, &h.ranks[c->rank]) && find_cats(&f)
              ? fill_rows(&f, range, e)
              : TG_MEMORY;
  }
  tg__free(f.cats);
  tg__free(f.thread_of);
  tg__map_free(&f.stream);
  tg__hta_close(&h);
  return err;
}
