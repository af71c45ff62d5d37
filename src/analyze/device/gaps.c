/* Finds the intervals in which a device does nothing, and says what the launching thread did meanwhile. */
#include "analyze/device/gaps.h"

const char *const tg__gap_cause_names[TG__GAP_CAUSE_COUNT] = {
    [TG__GAP_NONE] = "none",     [TG__GAP_QUEUED] = "queued", [TG__GAP_PYTHON] = "python", [TG__GAP_HOST] = "host",
    [TG__GAP_LAUNCH] = "launch", [TG__GAP_COPY] = "copy",     [TG__GAP_SYNC] = "sync",     [TG__GAP_DATA] = "data",
};

/* What a name means depends on what kind of slice bears it. */
enum bearer { BY_CALL, BY_OP, BY_OTHER, BEARER_KINDS };
enum { UNKNOWN = 0xff };

struct open_slice {
  int64_t end_ns;
  enum tg__gap_cause cause;
};

/* What a host did that shows nothing for that long is not known; less lies between any two calls of Python. Where it
 * had just waited for the device it goes on with its loop: inside a step, or where its operators are not recorded. */
enum { LONG_SILENCE_NS = 1000000 };

struct finder {
  const struct tg__columns *t;
  uint32_t rank, main_track;
  bool has_operators; /* else a host that shows nothing may be in one */
  bool has_samples;   /* of stacks: they show what the host does where nothing else is recorded */
  uint8_t (
      *names)[BEARER_KINDS]; /* what being inside a slice of this name and kind means; UNKNOWN = not looked at yet */
  uint32_t *tracks;          /* tracks with device work, by device */
  size_t track_count, track_cap;
  uint32_t *engines; /* threads on which autograd runs a backward pass */
  size_t engine_count, engine_cap;
  uint32_t *work; /* device work of one device, by start */
  size_t work_count, work_cap;
  uint32_t *chain; /* scratch: slices around one */
  size_t chain_cap;
  struct open_slice *stack;
  size_t stack_cap;
};

/* ---- what a slice of the launching thread means ---------------------------------------------- */

static enum tg__gap_cause call_cause(struct tg__str name) {
  if (tg__str_contains(name, "Synchronize")) return TG__GAP_SYNC;
  if (tg__str_contains(name, "Memcpy")) return TG__GAP_COPY;
  if (tg__str_contains(name, "Launch") || tg__str_contains(name, "Memset")) return TG__GAP_LAUNCH;
  return TG__GAP_HOST;
}

static enum tg__gap_cause op_cause(struct tg__str name) {
  static const char *const reads[] = {"aten::item", "aten::_local_scalar_dense", "aten::is_nonzero"};
  for (size_t i = 0; i < sizeof reads / sizeof *reads; i++)
    if (tg__str_eq(name, (struct tg__str){reads[i], (uint32_t)strlen(reads[i])})) return TG__GAP_SYNC;
  return TG__GAP_HOST;
}

/* A step lies around everything, and says nothing of what passes in it: TG__GAP_NONE. */
static enum tg__gap_cause slice_cause(struct finder *f, uint32_t slice) {
  const enum tg__class cls = tg__slice_class(f->t, slice);
  if (cls == TG__CLASS_PYTHON) return TG__GAP_PYTHON; /* most slices: without a look at the name */
  const enum bearer bearer = cls == TG__CLASS_RUNTIME ? BY_CALL : cls == TG__CLASS_OP ? BY_OP : BY_OTHER;
  uint8_t *const known = &f->names[f->t->slices.name[slice]][bearer];
  if (*known == UNKNOWN) {
    const struct tg__str text = tg__name(f->t, f->t->slices.name[slice]);
    *known = (uint8_t)(tg__name_is_dataloader(text)            ? TG__GAP_DATA
                       : bearer == BY_CALL                     ? call_cause(text)
                       : bearer == BY_OP                       ? op_cause(text)
                       : tg__name_is_profiler_step(text, NULL) ? TG__GAP_NONE
                                                               : TG__GAP_PYTHON);
  }
  return *known;
}

/* ---- what a thread did in an interval -------------------------------------------------------- */

struct doing {
  int64_t time_ns[TG__GAP_CAUSE_COUNT];
  int64_t now_ns, inside_ns; /* inside_ns: in any slice */
  size_t depth;
  uint32_t covering; /* innermost slice that covers at least half */
  bool seen;         /* any slice but that of a step */
  bool is_in_step, has_waited;
};

/* Slices of one track that are open at a time: the last one to start before it, and those around that one. */
static void advance(struct finder *f, struct doing *d, int64_t to_ns) {
  while (d->depth && f->stack[d->depth - 1].end_ns <= to_ns) {
    const struct open_slice *top = &f->stack[--d->depth];
    if (top->end_ns <= d->now_ns) continue;
    d->time_ns[top->cause] += top->end_ns - d->now_ns;
    d->inside_ns += top->end_ns - d->now_ns;
    d->now_ns = top->end_ns;
  }
  if (to_ns <= d->now_ns) return;
  if (d->depth) d->inside_ns += to_ns - d->now_ns;
  const bool goes_on = d->has_waited && (d->is_in_step || !f->has_operators),
             is_silent = !d->depth && !f->has_samples && !goes_on && to_ns - d->now_ns >= LONG_SILENCE_NS;
  d->time_ns[d->depth ? f->stack[d->depth - 1].cause : is_silent ? TG__GAP_NONE : TG__GAP_PYTHON] += to_ns - d->now_ns;
  d->now_ns = to_ns;
}

static bool enter_slice(struct finder *f, struct doing *d, uint32_t slice, int64_t from_ns, int64_t to_ns) {
  const int64_t start = f->t->slices.start_ns[slice], end = tg__slice_end(f->t, slice);
  const int64_t covered = (end < to_ns ? end : to_ns) - (start > from_ns ? start : from_ns);
  const enum tg__gap_cause own = slice_cause(f, slice);
  if (own == TG__GAP_NONE) {
    d->is_in_step = true;
    return true;
  }
  if (2 * covered >= to_ns - from_ns) d->covering = slice;
  advance(f, d, start > from_ns ? start : from_ns);
  if (!tg__grow((void **)&f->stack, &f->stack_cap, d->depth + 1, sizeof *f->stack)) return false;
  const enum tg__gap_cause outer = d->depth ? f->stack[d->depth - 1].cause : TG__GAP_PYTHON;
  f->stack[d->depth++] = (struct open_slice){end < to_ns ? end : to_ns, own > outer ? own : outer};
  d->has_waited |= own == TG__GAP_SYNC || (tg__slice_class(f->t, slice) == TG__CLASS_RUNTIME &&
                                           tg__call_waits(tg__name(f->t, f->t->slices.name[slice])));
  d->seen = true;
  return true;
}

/* `slice` and those around it that are open at from_ns, outermost first. */
static bool enter_open(struct finder *f, struct doing *d, uint32_t slice, int64_t from_ns, int64_t to_ns) {
  const struct tg__columns *t = f->t;
  size_t n = 0;
  for (uint32_t s = slice; s != TG_NONE; s = t->slices.parent[s]) {
    if (tg__slice_end(t, s) <= from_ns) continue;
    if (!tg__grow((void **)&f->chain, &f->chain_cap, n + 1, sizeof *f->chain)) return false;
    f->chain[n++] = s;
  }
  while (n > 0)
    if (!enter_slice(f, d, f->chain[--n], from_ns, to_ns)) return false;
  return true;
}

static bool look_at_thread(struct finder *f, uint32_t track, int64_t from_ns, int64_t to_ns, struct doing *d) {
  const struct tg__columns *t = f->t;
  *d = (struct doing){.now_ns = from_ns, .covering = TG_NONE};
  const uint32_t first = t->tracks[track].first, past = first + t->tracks[track].count;
  uint32_t i = tg__first_slice_from(t, tg__slices_of(&t->tracks[track]), from_ns);
  if (i > first && !enter_open(f, d, i - 1, from_ns, to_ns)) return false;
  for (; i < past && t->slices.start_ns[i] < to_ns; i++)
    if (!enter_slice(f, d, i, from_ns, to_ns)) return false;
  advance(f, d, to_ns);
  return true;
}

/* While a backward pass goes on, the thread that asked for it waits: what the pass is in for most of a gap holds the
 * device up, whichever thread launches next. Where the launching thread is in operators or calls itself, it does. */
static bool look_at_engines(struct finder *f, const struct tg__gap *g, uint32_t launching, struct doing *d) {
  const int64_t gap_ns = g->end_ns - g->start_ns;
  int64_t working_ns = 0;
  for (enum tg__gap_cause c = TG__GAP_HOST; c < TG__GAP_CAUSE_COUNT; c++) working_ns += d->time_ns[c];
  for (size_t i = 0; i < f->engine_count && 2 * working_ns < gap_ns; i++) {
    struct doing other;
    if (f->engines[i] == launching) continue;
    if (!look_at_thread(f, f->engines[i], g->start_ns, g->end_ns, &other)) return false;
    if (2 * other.inside_ns < gap_ns) continue;
    *d = other;
    break;
  }
  return true;
}

static bool explain(struct finder *f, struct tg__gap *g) {
  const struct tg__columns *t = f->t;
  const uint32_t call = t->slices.cause[g->after];
  struct doing d = {.covering = TG_NONE};
  g->during = TG_NONE;
  g->cause = TG__GAP_QUEUED;
  if (call != TG_NONE && tg__slice_end(t, call) <= g->start_ns) return true;
  const uint32_t launching = call == TG_NONE ? TG_NONE : tg__slice_track(t, call);
  if (call != TG_NONE && !look_at_thread(f, launching, g->start_ns, g->end_ns, &d)) return false;
  /* A thread without anything to show for most of it, such as autograd's before backward, was waiting for the main
   * one. */
  const bool is_other = f->main_track != TG_NONE && f->main_track != launching;
  if (is_other && 2 * d.inside_ns < g->end_ns - g->start_ns) {
    struct doing of_main;
    if (!look_at_thread(f, f->main_track, g->start_ns, g->end_ns, &of_main)) return false;
    if (!d.seen || of_main.inside_ns > d.inside_ns) d = of_main;
  }
  if (!look_at_engines(f, g, launching, &d)) return false;
  g->during = d.covering;
  g->cause = TG__GAP_NONE;
  if (call == TG_NONE && !d.seen) return true;
  g->cause = TG__GAP_PYTHON;
  for (enum tg__gap_cause c = TG__GAP_NONE; c < TG__GAP_CAUSE_COUNT; c++)
    if (d.time_ns[c] > d.time_ns[g->cause]) g->cause = c;
  return true;
}

/* ---- the intervals --------------------------------------------------------------------------- */

static bool less_start(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__columns *t = ctx;
  return t->slices.start_ns[a] < t->slices.start_ns[b];
}

static bool less_device(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__columns *t = ctx;
  return t->tracks[a].device < t->tracks[b].device;
}

static bool has_device_work(const struct tg__columns *t, uint32_t track) {
  const struct tg__track *k = &t->tracks[track];
  TG__EACH (i, tg__slices_of(k))
    if (tg__class_is_device_work(tg__slice_class(t, i))) return true;
  return false;
}

static bool gather_tracks(struct finder *f) {
  const struct tg__rank *r = &f->t->ranks[f->rank];
  TG__EACH (k, tg__tracks_of(r)) {
    if (!has_device_work(f->t, k)) continue;
    if (!tg__grow((void **)&f->tracks, &f->track_cap, f->track_count + 1, sizeof *f->tracks)) return false;
    f->tracks[f->track_count++] = k;
  }
  return tg__sort_index(f->tracks, f->track_count, less_device, f->t);
}

/* tracks[from..to) are the streams of one device */
static bool gather_work(struct finder *f, size_t from, size_t to) {
  const struct tg__columns *t = f->t;
  f->work_count = 0;
  for (size_t k = from; k < to; k++) {
    const struct tg__track *track = &t->tracks[f->tracks[k]];
    TG__EACH (i, tg__slices_of(track)) {
      if (!tg__class_is_device_work(tg__slice_class(t, i))) continue;
      if (!tg__grow((void **)&f->work, &f->work_cap, f->work_count + 1, sizeof *f->work)) return false;
      f->work[f->work_count++] = i;
    }
  }
  return tg__sort_index(f->work, f->work_count, less_start, t);
}

/* The thread the steps are on, else the one with most slices. */
static uint32_t find_main_track(const struct tg__columns *t, uint32_t rank) {
  for (uint32_t i = 0; i < t->step_count; i++)
    if (t->steps[i].rank == rank && t->steps[i].slice != TG_NONE) return tg__slice_track(t, t->steps[i].slice);
  const struct tg__rank *r = &t->ranks[rank];
  uint32_t best = TG_NONE;
  TG__EACH (k, tg__tracks_of(r))
    if (t->tracks[k].kind == TG__TRACK_CPU && (best == TG_NONE || t->tracks[k].count > t->tracks[best].count)) best = k;
  return best;
}

/* In the order of their tracks. */
static bool gather_engines(struct finder *f) {
  TG__EACH (k, tg__tracks_of(&f->t->ranks[f->rank])) {
    const struct tg__track *const track = &f->t->tracks[k];
    uint32_t i = track->first;
    const uint32_t past = track->kind == TG__TRACK_CPU ? i + track->count : i;
    while (i < past && !tg__str_has_prefix(tg__name(f->t, f->t->slices.name[i]), "autograd::engine::")) i++;
    if (i == past) continue;
    if (!tg__grow((void **)&f->engines, &f->engine_cap, f->engine_count + 1, sizeof *f->engines)) return false;
    f->engines[f->engine_count++] = k;
  }
  return true;
}

static bool has_operators(const struct tg__columns *t, uint32_t rank) {
  TG__EACH (i, tg__rank_slices(t, rank))
    if (tg__slice_class(t, i) == TG__CLASS_OP) return true;
  return false;
}

static bool has_samples(const struct tg__columns *t, uint32_t rank) {
  TG__EACH (k, tg__tracks_of(&t->ranks[rank]))
    if (tg__track_has_samples(t, &t->tracks[k])) return true;
  return false;
}

static bool add_gap(struct finder *f, struct tg__gaps *out, int64_t device, uint32_t before, uint32_t after) {
  struct tg__gap g = {.device = device, .before = before, .after = after};
  g.start_ns = tg__slice_end(f->t, before);
  g.end_ns = f->t->slices.start_ns[after];
  if (!explain(f, &g) || !tg__grow((void **)&out->items, &out->cap, out->count + 1, sizeof *out->items)) return false;
  out->items[out->count++] = g;
  return true;
}

static bool sweep_device(struct finder *f, int64_t device, struct tg__gaps *out) {
  const struct tg__columns *t = f->t;
  uint32_t last = f->work[0]; /* what ends last of all seen so far */
  int64_t idle = 0;
  for (size_t i = 1; i < f->work_count; i++) {
    const uint32_t s = f->work[i];
    const int64_t gap = t->slices.start_ns[s] - tg__slice_end(t, last);
    if (gap > 0) {
      if (!add_gap(f, out, device, last, s)) return false;
      idle += gap;
    }
    if (tg__slice_end(t, s) > tg__slice_end(t, last)) last = s;
  }
  const int64_t span = tg__slice_end(t, last) - t->slices.start_ns[f->work[0]];
  out->span_ns += span;
  out->busy_ns += span - idle;
  out->device_count++;
  return true;
}

enum tg_err tg__gaps_find(const struct tg__columns *t, uint32_t rank, struct tg__gaps *out) {
  *out = (struct tg__gaps){0};
  struct finder f = {.t = t, .rank = rank};
  const size_t names = (size_t)tg__strings_count(t->strings) + 1;
  enum tg_err err = TG_MEMORY;
  f.names = tg__alloc(names * sizeof *f.names);
  if (!f.names || !gather_tracks(&f) || (f.track_count && !gather_engines(&f))) goto done;
  memset(f.names, UNKNOWN, names * sizeof *f.names);
  f.main_track = find_main_track(t, rank);
  f.has_operators = has_operators(t, rank);
  f.has_samples = has_samples(t, rank);
  for (size_t from = 0, to; from < f.track_count; from = to) {
    const int64_t device = t->tracks[f.tracks[from]].device;
    for (to = from + 1; to < f.track_count && t->tracks[f.tracks[to]].device == device;) to++;
    if (!gather_work(&f, from, to) || !sweep_device(&f, device, out)) goto done;
  }
  err = TG_OK;
done:
  tg__free(f.stack);
  tg__free(f.chain);
  tg__free(f.work);
  tg__free(f.tracks);
  tg__free(f.engines);
  tg__free(f.names);
  return err;
}

void tg__gaps_free(struct tg__gaps *g) {
  tg__free(g->items);
  *g = (struct tg__gaps){0};
}
