/* critical_rows: the rows of the critical path by our own rules: nanoseconds, devices apart, every link followed. */
#include "analyze/critical/critical.h"

struct fill {
  struct tg__crit *c;
  struct tg__crit_names *names;
  uint32_t first_slice, past_slice;
  uint32_t *row_of;      /* by slice of the rank, TG_NONE */
  struct tg__map stream; /* device and stream → place */
  struct tg__map calls;  /* correlation → row of a host call that can wait; only with waits in the trace */
  bool has_waits;
};

/* ---- the window ------------------------------------------------------------------------------ */

struct found {
  int64_t start, end;
};

static bool is_host_annotation(const struct tg__track *track) { return track->kind != TG__TRACK_DEVICE; }

static bool critical_is_earlier(uint32_t a, uint32_t b, const void *ctx) {
  const struct found *x = &((const struct found *)ctx)[a], *y = &((const struct found *)ctx)[b];
  return x->start != y->start ? x->start < y->start : x->end > y->end;
}

/* Host events with the annotation in their name, by start. */
static bool find_annotated(const struct fill *f, struct found **found, size_t *count) {
  const struct tg__columns *t = f->c->t;
  const struct tg__rank *rank = &t->ranks[f->c->rank];
  size_t cap = 0;
  TG__EACH (k, tg__tracks_of(rank)) {
    if (!is_host_annotation(&t->tracks[k])) continue;
    TG__EACH (i, tg__slices_of(&t->tracks[k])) {
      if (!(tg__crit_name(f->names, t->slices.name[i]) & TG__CRIT_NAME_WANTED)) continue;
      if (!tg__grow((void **)found, &cap, *count + 1, sizeof **found)) return false;
      (*found)[(*count)++] = (struct found){t->slices.start_ns[i], tg__slice_end(t, i)};
    }
  }
  return true;
}

static enum tg_err window_of_annotation(struct fill *f, struct tg__crit_range range, struct tg_error *e) {
  struct tg__crit *c = f->c;
  struct found *found = NULL;
  size_t count = 0;
  const bool ok = find_annotated(f, &found, &count);
  uint32_t *order = ok ? tg__order_new(count, critical_is_earlier, found) : NULL;
  enum tg_err err = TG_MEMORY;
  if (!order) goto done;
  err = TG_OK;
  if (range.first >= (int64_t)count) {
    err = tg__fail(e, TG_NO_DATA, -1,
                   "critical_path: %zu events of the host have '%.60s' in their names, and instance %lld (counted from "
                   "0) is not among them",
                   count, f->names->annotation, (long long)range.first);
    goto done;
  }
  c->window_start = INT64_MAX;
  c->window_end = INT64_MIN;
  for (int64_t i = range.first; i <= range.last && i < (int64_t)count; i++) {
    const struct found *x = &found[order[i]];
    if (x->start < c->window_start) c->window_start = x->start;
    if (x->end > c->window_end) c->window_end = x->end;
  }
done:
  tg__free(order);
  tg__free(found);
  return err;
}

static enum tg_err find_window(struct fill *f, const struct tg__ask *a, struct tg__crit_range range,
                               struct tg_error *e) {
  struct tg__crit *c = f->c;
  c->window_start = INT64_MIN;
  c->window_end = INT64_MAX;
  if (*f->names->annotation) return window_of_annotation(f, range, e);
  if (!a->has_steps) return TG_OK;
  c->window_start = INT64_MAX;
  c->window_end = INT64_MIN;
  for (size_t i = 0; i < a->window_count; i++) {
    if (a->windows[i].rank != c->rank) continue;
    if (a->windows[i].start_ns < c->window_start) c->window_start = a->windows[i].start_ns;
    if (a->windows[i].end_ns > c->window_end) c->window_end = a->windows[i].end_ns;
  }
  return TG_OK;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Steps stand around operators in early traces, as operators themselves: they are no work. */
static bool is_host_row(const struct fill *f, uint32_t slice, enum tg__class cls) {
  const unsigned name = tg__crit_name(f->names, f->c->t->slices.name[slice]);
  if (f->c->t->slices.flags[slice] & TG__F_ASYNC) return false;
  if (cls == TG__CLASS_OP || cls == TG__CLASS_RUNTIME) return !(name & TG__CRIT_NAME_STEP);
  return name & TG__CRIT_NAME_LOADING && !tg__class_is_device_work(cls) && cls != TG__CLASS_SYNC &&
         cls != TG__CLASS_GPU_ANNOTATION;
}

static uint8_t host_flags(const struct fill *f, uint32_t slice, enum tg__class cls) {
  const unsigned name = tg__crit_name(f->names, f->c->t->slices.name[slice]);
  uint8_t flags = TG__CRIT_HOST | TG__CRIT_NODE;
  if (name & TG__CRIT_NAME_LOADING) flags |= TG__CRIT_LOADING;
  if (cls != TG__CLASS_RUNTIME) return flags;
  if (name & TG__CRIT_NAME_LOCK) flags |= TG__CRIT_LOCK;
  if (name & TG__CRIT_NAME_BLOCKING) flags |= TG__CRIT_BLOCKING;
  return flags;
}

static uint32_t stream_place(struct fill *f, int64_t device, int64_t stream) {
  const int64_t key[2] = {device, stream};
  uint32_t *slot = tg__map_slot(&f->stream, tg__hash(key, sizeof key), TG_NONE);
  if (!slot) {
    f->c->failed = true;
    return 0;
  }
  if (*slot == TG_NONE) *slot = f->c->stream_count++;
  return *slot;
}

static bool is_in_window(const struct tg__crit *c, int64_t start) {
  return start >= c->window_start && start <= c->window_end;
}

static void add_critical_row(struct fill *f, uint32_t slice, uint32_t place, uint8_t flags) {
  struct tg__crit *c = f->c;
  f->row_of[slice - f->first_slice] = c->count;
  c->rows[c->count++] = (struct tg__crit_row){
      .start = c->t->slices.start_ns[slice],
      .end = tg__slice_end(c->t, slice),
      .slice = slice,
      .link = TG_NONE,
      .place = place,
      .flags = flags,
  };
}

static void add_device(struct fill *f, uint32_t slice, enum tg__class cls, const struct tg__track *track) {
  const bool waits = cls == TG__CLASS_SYNC;
  add_critical_row(f, slice, stream_place(f, track->device, track->stream),
                   waits ? TG__CRIT_DEVICE | TG__CRIT_WAIT : TG__CRIT_DEVICE | TG__CRIT_NODE);
  f->has_waits |= waits;
}

/* Work counts when its host call was made, or when it began if that is not there. */
static bool is_work_in_window(const struct fill *f, uint32_t slice) {
  const struct tg__columns *t = f->c->t;
  const uint32_t cause = t->slices.cause[slice];
  const bool is_called =
      cause >= f->first_slice && cause < f->past_slice && is_host_row(f, cause, tg__slice_class(t, cause));
  return is_in_window(f->c, t->slices.start_ns[is_called ? cause : slice]);
}

/* Which wait belongs to which call is known once all rows are there: for now each does. */
static void add_rows(struct fill *f) {
  const struct tg__columns *t = f->c->t;
  const struct tg__rank *rank = &t->ranks[f->c->rank];
  for (uint32_t k = 0; k < rank->track_count; k++) {
    const struct tg__track *track = &t->tracks[rank->first_track + k];
    TG__EACH (i, tg__slices_of(track)) {
      const enum tg__class cls = tg__slice_class(t, i);
      if (tg__class_is_device_work(cls) ? is_work_in_window(f, i) : cls == TG__CLASS_SYNC)
        add_device(f, i, cls, track);
      else if (is_in_window(f->c, t->slices.start_ns[i]) && is_host_row(f, i, cls))
        add_critical_row(f, i, k, host_flags(f, i, cls));
    }
  }
  f->c->thread_count = rank->track_count;
}

/* ---- links ----------------------------------------------------------------------------------- */

/* A wait names the call that recorded what it waits for; the call that waits has its correlation. */
static void index_waiting_calls(struct fill *f) {
  struct tg__crit *c = f->c;
  for (uint32_t i = 0; i < c->count && f->has_waits; i++) {
    const struct tg__str name = tg__name(c->t, c->t->slices.name[c->rows[i].slice]);
    if (c->rows[i].flags & TG__CRIT_DEVICE ||
        !(tg__str_contains(name, "ynchronize") || tg__str_contains(name, "WaitEvent")))
      continue;
    const int64_t id = tg__arg_int(c->t, c->t->slices.args[c->rows[i].slice], TG__K_CORRELATION, -1);
    if (id >= 0 && !tg__map_put(&f->calls, (uint64_t)id, i)) c->failed = true;
  }
}

static uint32_t find_critical_row(const struct fill *f, uint32_t slice) {
  return slice >= f->first_slice && slice < f->past_slice ? f->row_of[slice - f->first_slice] : TG_NONE;
}

/* Is the cause of a wait the call it names? Else it is the call that waits, as the other one is missing. */
static bool is_record(const struct tg__columns *t, uint32_t wait) {
  const uint32_t cause = t->slices.cause[wait];
  const int64_t id = tg__arg_int(t, t->slices.args[wait], TG__K_WAIT_ON_RECORD, -1);
  return id >= 0 && cause != TG_NONE && tg__arg_int(t, t->slices.args[cause], TG__K_CORRELATION, -1) == id;
}

static void link_wait(struct fill *f, uint32_t row) {
  struct tg__crit *c = f->c;
  struct tg__crit_row *r = &c->rows[row];
  const uint32_t args = c->t->slices.args[r->slice];
  const int64_t id = tg__arg_int(c->t, args, TG__K_CORRELATION, -1);
  const int64_t stream = tg__arg_int(c->t, args, TG__K_WAIT_ON_STREAM, -1);
  struct tg__crit_wait wait = {
      .row = row, .kind = tg__crit_wait_kind(c->t, r->slice), .record = TG_NONE, .record_place = TG_NONE};
  r->link = id < 0 ? TG_NONE : tg__map_get(&f->calls, (uint64_t)id);
  if (stream >= 0 && is_record(c->t, r->slice)) {
    const int64_t key[2] = {c->t->tracks[tg__slice_track(c->t, r->slice)].device, stream};
    wait.record = find_critical_row(f, c->t->slices.cause[r->slice]);
    wait.record_place = tg__map_get(&f->stream, tg__hash(key, sizeof key));
  }
  tg__crit_add_wait(c, wait);
}

static void link_rows(struct fill *f) {
  struct tg__crit *c = f->c;
  for (uint32_t i = 0; i < c->count; i++) {
    struct tg__crit_row *r = &c->rows[i];
    if (!(r->flags & TG__CRIT_DEVICE)) continue;
    if (r->flags & TG__CRIT_WAIT)
      link_wait(f, i);
    else
      r->link = find_critical_row(f, c->t->slices.cause[r->slice]);
    if (r->link == TG_NONE && !is_in_window(c, r->start)) r->flags = TG__CRIT_WAIT;
  }
}

static void list_launches(struct fill *f) {
  struct tg__crit *c = f->c;
  bool any = false;
  for (size_t i = 0; i < c->wait_count; i++)
    any |= c->waits[i].record != TG_NONE && c->waits[i].record_place != TG_NONE;
  for (uint32_t i = 0; any && i < c->count; i++) {
    const struct tg__crit_row *r = &c->rows[i];
    if (r->link == TG_NONE || r->flags & TG__CRIT_WAIT || !tg__class_is_device_work(tg__slice_class(c->t, r->slice)))
      continue;
    const struct tg__crit_row *call = &c->rows[r->link];
    tg__crit_add_launch(c, (struct tg__crit_launch){call->start, r->place, tg__slice_track(c->t, call->slice), i});
  }
}

/* ---- threads --------------------------------------------------------------------------------- */

/* The one thread with an operator or annotation of such a name; TG_NONE when there are several, or none. */
static uint32_t only_thread(const struct fill *f, const char *part) {
  enum { UNKNOWN, WITHOUT, WITH };
  const struct tg__columns *t = f->c->t;
  const struct tg__rank *rank = &t->ranks[f->c->rank];
  uint8_t *const names = tg__alloc((size_t)tg__strings_count(t->strings) + 1); /* each is looked at once */
  uint32_t only = TG_NONE;
  f->c->failed |= !names;
  for (uint32_t k = 0; names && k < rank->track_count; k++) {
    const struct tg__track *track = &t->tracks[rank->first_track + k];
    for (uint32_t i = track->first; i < track->first + track->count && only != k; i++) {
      const enum tg__class cls = tg__slice_class(t, i);
      if ((cls != TG__CLASS_OP && cls != TG__CLASS_ANNOTATION) || !is_in_window(f->c, t->slices.start_ns[i])) continue;
      uint8_t *const name = &names[t->slices.name[i]];
      if (*name == UNKNOWN) *name = tg__str_contains(tg__name(t, t->slices.name[i]), part) ? WITH : WITHOUT;
      if (*name == WITHOUT) continue;
      if (only != TG_NONE) {
        tg__free(names);
        return TG_NONE;
      }
      only = k;
    }
  }
  tg__free(names);
  return only;
}

/* The thread with the forward operators of most backward operators of thread k, by their links; TG_NONE when it
 * has none. */
static uint32_t forward_thread(const struct fill *f, uint32_t k, uint32_t *votes) {
  const struct tg__columns *t = f->c->t;
  const struct tg__rank *rank = &t->ranks[f->c->rank];
  const struct tg__track *track = &t->tracks[rank->first_track + k];
  uint32_t best = TG_NONE, at = rank->first_track;
  bool any = false;
  TG__EACH (i, tg__slices_of(track)) {
    const uint32_t forward = tg__slice_class(t, i) == TG__CLASS_OP ? t->slices.cause[i] : TG_NONE;
    if (forward == TG_NONE) continue;
    if (!any) memset(votes, 0, rank->track_count * sizeof *votes);
    any = true;
    if (forward - t->tracks[at].first >= t->tracks[at].count) at = tg__slice_track(t, forward);
    const uint32_t other = at - rank->first_track;
    if (other == k || other >= rank->track_count) continue;
    votes[other]++;
    if (best == TG_NONE || votes[other] > votes[best]) best = other;
  }
  return best;
}

/* While autograd's thread works the thread that called backward() stands still: the two are one chain. Links say
 * which thread that is; without any, names do where both are known. */
static void merge_backward(struct fill *f) {
  struct tg__crit *c = f->c;
  uint32_t *into = tg__alloc(((size_t)c->thread_count + 1) * sizeof *into),
           *votes = tg__alloc(((size_t)c->thread_count + 1) * sizeof *votes);
  bool any = false;
  if (!into || !votes) c->failed = true;
  for (uint32_t k = 0; !c->failed && k < c->thread_count; k++) {
    into[k] = forward_thread(f, k, votes);
    any |= into[k] != TG_NONE;
  }
  if (!c->failed && !any) {
    const uint32_t forward = only_thread(f, "forward"), backward = only_thread(f, "autograd");
    any = forward != TG_NONE && backward != TG_NONE && forward != backward;
    if (any) into[backward] = forward;
  }
  for (uint32_t i = 0; !c->failed && any && i < c->count; i++) {
    struct tg__crit_row *r = &c->rows[i];
    if (r->flags & TG__CRIT_HOST && into[r->place] != TG_NONE) r->place = into[r->place];
  }
  tg__free(into);
  tg__free(votes);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static enum tg_err open_fill(struct fill *f) {
  const struct tg__columns *t = f->c->t;
  const struct tg__extent run = tg__rank_slices(t, f->c->rank);
  f->first_slice = run.first;
  f->past_slice = run.past;
  const size_t n = f->past_slice - f->first_slice;
  if (n >= TG_NONE / 2) return TG_MEMORY;
  f->row_of = tg__realloc(NULL, (n + 1) * sizeof *f->row_of);
  f->c->rows = tg__realloc(NULL, (n + 1) * sizeof *f->c->rows);
  if (!f->row_of || !f->c->rows) return TG_MEMORY;
  memset(f->row_of, 0xff, n * sizeof *f->row_of); /* TG_NONE */
  return TG_OK;
}

enum tg_err tg__crit_rows_exact(struct tg__crit *c, struct tg__crit_names *n, const struct tg__ask *a,
                                struct tg__crit_range range, struct tg_error *e) {
  struct fill f = {.c = c, .names = n};
  enum tg_err err = open_fill(&f);
  if (!err) err = find_window(&f, a, range, e);
  if (!err) {
    add_rows(&f);
    index_waiting_calls(&f);
    link_rows(&f);
    list_launches(&f);
    merge_backward(&f);
    if (c->failed) err = TG_MEMORY;
  }
  tg__free(f.row_of);
  tg__map_free(&f.stream);
  tg__map_free(&f.calls);
  return err;
}
