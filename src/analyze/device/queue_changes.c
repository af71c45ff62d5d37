/* The changes of the queues of a rank: launches and beginnings of a stream, merged. */
#include "analyze/device/queue_changes.h"

struct work {
  const struct tg__device_rows *d;
  struct tg__queue_changes *out;
  uint32_t *by_start;           /* numbers of pairs by stream, then start */
  uint32_t *by_launch;          /* the same by stream, then launch */
  size_t count;                 /* of pairs */
  const struct tg__track *last; /* that work was on: that of a stream lies on few, mostly on one */
};

/* ---- pairs in order -------------------------------------------------------------------------- */

static bool launched_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__launch_pair x = tg__device_pair(ctx, a), y = tg__device_pair(ctx, b);
  return x.call_start_ns != y.call_start_ns ? x.call_start_ns < y.call_start_ns : x.call_order < y.call_order;
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

/* The stream of the next pair: the last one, or one more. NULL on no memory. */
static struct tg__queue_stream *stream_for(struct work *w, struct tg__stream_key key) {
  struct tg__queue_changes *const out = w->out;
  struct tg__queue_stream *const last = out->stream_count ? &out->streams[out->stream_count - 1] : NULL;
  if (last && last->device == key.device && last->stream == key.stream) return last;
  if (!tg__grow((void **)&out->streams, &out->stream_cap, out->stream_count + 1, sizeof *out->streams)) return NULL;
  out->streams[out->stream_count] =
      (struct tg__queue_stream){.device = key.device, .stream = key.stream, .first = 2 * w->count};
  return &out->streams[out->stream_count++];
}

/* The rows do not fit into the caches: each pass over them counts. numbers: by stream, then start. */
static bool take_pairs(struct work *w, const uint32_t *numbers, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (!tg__device_is_pair(w->d, numbers[i])) continue;
    struct tg__queue_stream *const s = stream_for(w, stream_of(w->d, numbers[i]));
    if (!s) return false;
    if (s->count && launched_before(numbers[i], w->by_start[w->count - 1], w->d)) s->overtakes = true;
    w->by_start[w->count++] = numbers[i];
    s->count += 2;
  }
  return true;
}

static bool find_pairs(struct work *w, struct tg__device_rows *d) {
  const size_t n = d->pair_count;
  if (!d->rules->pair) return tg__device_order(d) && take_pairs(w, d->by_stream, n);
  return tg__device_by_stream(w->by_launch, n, stream_of, d) && tg__sort_index(w->by_launch, n, begins_before, d) &&
         take_pairs(w, w->by_launch, n);
}

/* ---- one stream ------------------------------------------------------------------------------ */

static void put_change(struct work *w, uint32_t number, bool is_launch, int32_t length) {
  struct tg__queue_changes *const out = w->out;
  const struct tg__columns *const t = w->d->t;
  const struct tg__launch_pair p = tg__device_pair(w->d, number);
  if (!w->last || p.slice - w->last->first >= w->last->count) w->last = &t->tracks[tg__slice_track(t, p.slice)];
  if (out->ns) {
    out->ns[out->count] = is_launch ? p.call_start_ns : p.start_ns;
    out->event[out->count] = (uint32_t)(is_launch ? p.call_order : p.order);
  } else {
    out->event[out->count] = is_launch ? p.call : p.slice;
  }
  out->track[out->count] = (uint32_t)(w->last - t->tracks);
  out->length[out->count++] = length;
}

/* Of a stream with so many pairs. */
static void merge(struct work *w, const uint32_t *by_launch, const uint32_t *by_start, size_t count) {
  int32_t length = 0;
  for (size_t launched = 0, begun = 0; launched + begun < 2 * count;) {
    const bool is_launch =
        begun == count || (launched < count && tg__device_pair(w->d, by_launch[launched]).call_start_ns <=
                                                   tg__device_pair(w->d, by_start[begun]).start_ns);
    length += is_launch ? 1 : -1;
    put_change(w, is_launch ? by_launch[launched++] : by_start[begun++], is_launch, length);
  }
}

static bool add_changes(struct work *w, const struct tg__queue_stream *s) {
  const size_t count = s->count / 2;
  const uint32_t *const by_start = w->by_start + s->first / 2;
  if (!s->overtakes) {
    merge(w, by_start, by_start, count);
    return true;
  }
  memcpy(w->by_launch, by_start, count * sizeof *by_start);
  if (!tg__sort_index(w->by_launch, count, launched_before, w->d)) return false;
  merge(w, w->by_launch, by_start, count);
  return true;
}

/* ---- a rank ---------------------------------------------------------------------------------- */

/* For so many pairs. */
static bool make_room(struct work *w, size_t count) {
  struct tg__queue_changes *const out = w->out;
  const size_t changes = 2 * count + 1;
  const bool needs_ns = w->d->rules->by_file;
  char *const lists = tg__realloc(NULL, changes * (sizeof *out->event + sizeof *out->track + sizeof *out->length +
                                                   (needs_ns ? sizeof *out->ns : 0)));
  if (!lists) return false;
  out->ns = needs_ns ? (int64_t *)(void *)lists : NULL;
  out->event = (uint32_t *)(void *)(needs_ns ? lists + changes * sizeof *out->ns : lists);
  out->track = out->event + changes;
  out->length = (int32_t *)(out->track + changes);
  w->by_start = tg__realloc(NULL, 2 * (count + 1) * sizeof *w->by_start);
  w->by_launch = w->by_start ? w->by_start + count + 1 : NULL;
  return w->by_start != NULL;
}

static bool make(struct tg__device_rows *d, struct tg__queue_changes *out) {
  struct work w = {.d = d, .out = out};
  bool ok = tg__device_pairs(d, TG__PAIRS_QUEUE) && d->pair_count <= INT32_MAX && make_room(&w, d->pair_count) &&
            find_pairs(&w, d);
  for (size_t k = 0; ok && k < out->stream_count; k++) ok = add_changes(&w, &out->streams[k]);
  tg__free(w.by_start);
  if (!ok) tg__queue_changes_free(out);
  return ok;
}

void tg__queue_changes_free(struct tg__queue_changes *c) {
  tg__free(c->ns ? (void *)c->ns : (void *)c->event);
  tg__free(c->streams);
  *c = (struct tg__queue_changes){0};
}

struct kept {
  uint32_t ranks;
  struct tg__queue_changes of_rank[]; /* event NULL: not asked for yet */
};

static void free_kept_queue_changes(void *item) {
  struct kept *k = item;
  for (uint32_t r = 0; r < k->ranks; r++) tg__queue_changes_free(&k->of_rank[r]);
  tg__free(k);
}
static const struct tg__cached cached = {free_kept_queue_changes};

const struct tg__queue_changes *tg__queue_changes(struct tg__device_rows *d, struct tg__queue_changes *own) {
  if (!tg__device_is_kept(d)) {
    tg__queue_changes_free(own);
    return make(d, own) ? own : NULL;
  }
  struct kept *const k = tg__cache_get(d->t, &cached, sizeof *k + d->t->rank_count * sizeof *k->of_rank);
  if (!k) return NULL;
  k->ranks = d->t->rank_count;
  struct tg__queue_changes *const c = &k->of_rank[d->rank];
  return c->event || make(d, c) ? c : NULL;
}
