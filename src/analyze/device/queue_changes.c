/* The changes of the queues of a rank: launches and beginnings of a stream, merged. */
#include "analyze/device/queue_changes.h"

struct pair { /* what is compared again and again, side by side: rows lie far apart */
  int64_t call_ns, start_ns;
  uint32_t call_order, call, work, track;
};
struct work {
  const struct tg__device_rows *d;
  struct tg__queue_changes *out;
  uint32_t *by_stream; /* pairs by stream, then start */
  size_t count;
  struct pair *pairs;           /* of one stream, by start */
  uint32_t *by_launch;          /* their places, by launch */
  const struct tg__track *last; /* that work was on: that of a stream lies on few, mostly on one */
};

/* ---- pairs in order ----------------------------------------------------------------------------------------------------------------- */

static bool launched_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct pair *const pairs = ctx;
  if (pairs[a].call_ns != pairs[b].call_ns) return pairs[a].call_ns < pairs[b].call_ns;
  return pairs[a].call_order < pairs[b].call_order;
}

static bool begins_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__launch_pair x = tg__device_pair(ctx, a), y = tg__device_pair(ctx, b);
  if (x.device != y.device) return x.device < y.device;
  if (x.stream != y.stream) return x.stream < y.stream;
  return x.start_ns != y.start_ns ? x.start_ns < y.start_ns : x.order < y.order;
}

static struct tg__stream_key stream_of(const void *ctx, size_t i) {
  const struct tg__launch_pair p = tg__device_pair(ctx, i);
  return (struct tg__stream_key){p.device, p.stream};
}

/* Pairs by stream, then start. */
static bool order_pairs(struct work *w, struct tg__device_rows *d) {
  const size_t n = d->pair_count;
  w->by_stream = tg__realloc(NULL, (n + 1) * sizeof *w->by_stream);
  if (!w->by_stream) return false;
  if (d->rules != TG__RULES_EXACT) {
    w->count = n;
    return tg__device_by_stream(w->by_stream, n, stream_of, d) && tg__sort_index(w->by_stream, n, begins_before, d);
  }
  if (!tg__device_order(d)) return false;
  for (size_t i = 0; i < n; i++)
    if (tg__device_is_pair(d, d->by_stream[i])) w->by_stream[w->count++] = d->by_stream[i];
  return true;
}

static struct pair pair_of(struct work *w, uint32_t number) {
  const struct tg__launch_pair p = tg__device_pair(w->d, number);
  const struct tg_trace *const t = w->d->t;
  const bool is_exact = w->d->rules == TG__RULES_EXACT;
  if (!w->last || p.slice - w->last->first >= w->last->count) w->last = &t->tracks[tg__slice_track(t, p.slice)];
  return (struct pair){.call_ns = p.call_start_ns,
                       .start_ns = p.start_ns,
                       .call_order = (uint32_t)p.call_order,
                       .call = is_exact ? p.call : (uint32_t)p.call_order,
                       .work = is_exact ? p.slice : (uint32_t)p.order,
                       .track = (uint32_t)(w->last - t->tracks)};
}

/* ---- one stream ---------------------------------------------------------------------------------------------------------------------- */

static void merge(const struct work *w, size_t count) {
  struct tg__queue_changes *const out = w->out;
  int32_t length = 0;
  for (size_t launched = 0, begun = 0; launched + begun < 2 * count; out->count++) {
    const struct pair *const launch = launched < count ? &w->pairs[w->by_launch[launched]] : NULL;
    const struct pair *const begin = begun < count ? &w->pairs[begun] : NULL;
    const bool is_launch = launch && (!begin || launch->call_ns <= begin->start_ns);
    if (out->ns) out->ns[out->count] = is_launch ? launch->call_ns : begin->start_ns;
    out->event[out->count] = is_launch ? launch->call : begin->work;
    out->track[out->count] = is_launch ? launch->track : begin->track;
    out->length[out->count] = length += is_launch ? 1 : -1;
    launched += is_launch;
    begun += !is_launch;
  }
}

/* From the pair `first` on. */
static bool add_changes(struct work *w, size_t first, size_t count) {
  for (size_t i = 0; i < count; i++) {
    w->pairs[i] = pair_of(w, w->by_stream[first + i]);
    w->by_launch[i] = (uint32_t)i;
  }
  if (!tg__sort_index(w->by_launch, count, launched_before, w->pairs)) return false;
  merge(w, count);
  return true;
}

/* ---- a rank -------------------------------------------------------------------------------------------------------------------------- */

/* The streams, and how many pairs the largest has; 0 on no memory, or without pairs. */
static size_t find_streams(struct work *w) {
  struct tg__queue_changes *const out = w->out;
  size_t most = 0;
  for (size_t i = 0; i < w->count; i++) {
    const struct tg__stream_key key = stream_of(w->d, w->by_stream[i]);
    struct tg__queue_stream *s = out->stream_count ? &out->streams[out->stream_count - 1] : NULL;
    if (!s || s->device != key.device || s->stream != key.stream) {
      if (!tg__grow((void **)&out->streams, &out->stream_cap, out->stream_count + 1, sizeof *out->streams)) return 0;
      s = &out->streams[out->stream_count++];
      *s = (struct tg__queue_stream){key.device, key.stream, 2 * i, 0};
    }
    s->count += 2;
    if (s->count > 2 * most) most = s->count / 2;
  }
  return most;
}

static bool make_room(struct work *w, size_t most) {
  struct tg__queue_changes *const out = w->out;
  const size_t changes = 2 * w->count + 1;
  const bool needs_ns = w->d->rules != TG__RULES_EXACT;
  w->pairs = tg__realloc(NULL, (most + 1) * sizeof *w->pairs);
  w->by_launch = tg__realloc(NULL, (most + 1) * sizeof *w->by_launch);
  out->event = tg__realloc(NULL, changes * sizeof *out->event);
  out->track = tg__realloc(NULL, changes * sizeof *out->track);
  out->length = tg__realloc(NULL, changes * sizeof *out->length);
  out->ns = needs_ns ? tg__realloc(NULL, changes * sizeof *out->ns) : NULL;
  return w->pairs && w->by_launch && out->event && out->track && out->length && (!needs_ns || out->ns);
}

static bool make(struct tg__device_rows *d, struct tg__queue_changes *out) {
  struct work w = {.d = d, .out = out};
  bool ok = tg__device_pairs(d, TG__PAIRS_QUEUE) && d->pair_count <= INT32_MAX && order_pairs(&w, d);
  const size_t most = ok ? find_streams(&w) : 0;
  ok = ok && (most || !w.count) && make_room(&w, most);
  for (size_t k = 0; ok && k < out->stream_count; k++) ok = add_changes(&w, out->streams[k].first / 2, out->streams[k].count / 2);
  tg__free(w.by_stream);
  tg__free(w.pairs);
  tg__free(w.by_launch);
  if (!ok) tg__queue_changes_free(out);
  return ok;
}

void tg__queue_changes_free(struct tg__queue_changes *c) {
  tg__free(c->event);
  tg__free(c->track);
  tg__free(c->length);
  tg__free(c->ns);
  tg__free(c->streams);
  *c = (struct tg__queue_changes){0};
}

struct kept {
  uint32_t ranks;
  struct tg__queue_changes of_rank[]; /* event NULL: not asked for yet */
};

static void free_kept(void *item) {
  struct kept *k = item;
  for (uint32_t r = 0; r < k->ranks; r++) tg__queue_changes_free(&k->of_rank[r]);
  tg__free(k);
}

const struct tg__queue_changes *tg__queue_changes(struct tg__device_rows *d, struct tg__queue_changes *own) {
  if (!tg__device_is_kept(d)) {
    tg__queue_changes_free(own);
    return make(d, own) ? own : NULL;
  }
  struct kept *const k = tg__kept_room(d->t, sizeof *k + d->t->rank_count * sizeof *k->of_rank, free_kept);
  if (!k) return NULL;
  k->ranks = d->t->rank_count;
  struct tg__queue_changes *const c = &k->of_rank[d->rank];
  return c->event || make(d, c) ? c : NULL;
}
