/* The device work of one rank: the exact rules, and what is done with rows by any rules. */
#include "analyze/device/device_rows.h"
#include "analyze/names/by_class.h"

#include <math.h>

/* ---- exact ----------------------------------------------------------------------------------- */

static struct tg__device_row exact_row(struct tg__device_rows *d, const struct tg__track *track, uint32_t slice) {
  const struct tg__columns *t = d->t;
  const uint32_t call = t->slices.cause[slice];
  return (struct tg__device_row){.start_ns = t->slices.start_ns[slice],
                                 .end_ns = tg__slice_end(t, slice),
                                 .device = track->device,
                                 .stream = track->stream,
                                 .order = t->slices.args[slice],
                                 .launch_ns = call == TG_NONE ? TG_NULL_INT : t->slices.start_ns[call],
                                 .slice = slice,
                                 .call = call,
                                 .type = (uint8_t)tg__work_type_of(tg__names_kernel_type(&d->names, slice)),
                                 .is_work = true};
}

static bool slice_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__slices *s = ctx;
  if (s->start_ns[a] != s->start_ns[b]) return s->start_ns[a] < s->start_ns[b];
  return s->dur_ns[a] != s->dur_ns[b] ? s->dur_ns[a] < s->dur_ns[b] : s->args[a] < s->args[b];
}

/* From the first start of any event to the last start, the recording itself left out: slices of a track stand by
 * start. */
static int64_t extent_of(const struct tg__columns *t, const struct tg__rank *r) {
  int64_t least = INT64_MAX, most = INT64_MIN;
  TG__EACH (k, tg__tracks_of(r)) {
    uint32_t first = t->tracks[k].first, past = first + t->tracks[k].count;
    while (first < past && tg__slice_class(t, first) == TG__CLASS_SPAN) first++;
    while (past > first && tg__slice_class(t, past - 1) == TG__CLASS_SPAN) past--;
    if (first == past) continue;
    if (t->slices.start_ns[first] < least) least = t->slices.start_ns[first];
    if (t->slices.start_ns[past - 1] > most) most = t->slices.start_ns[past - 1];
  }
  return least < most ? most - least : 0;
}

/* In order: slices are sorted, being a run a track, before rows of many words are made of them. */
static bool load_exact(struct tg__device_rows *d) {
  const struct tg__columns *t = d->t;
  struct tg__names_listed work;
  if (!tg__names_listed(t, TG__LIST_WORK, d->rank, &work)) return false;
  uint32_t *slices = tg__realloc(NULL, (work.count + 1) * sizeof *slices);
  size_t count = 0;
  for (size_t i = 0; slices && i < work.count; i++)
    if (!d->a->has_steps || tg__ask_has_slice(d->a, t, tg__slice_track(t, work.slices[i]), work.slices[i]))
      slices[count++] = work.slices[i];
  const bool ok = slices && tg__sort_index(slices, count, slice_before, &t->slices) &&
                  (count <= d->cap || tg__grow((void **)&d->rows, &d->cap, count, sizeof *d->rows));
  const struct tg__track *track = t->tracks;
  for (size_t i = 0; ok && i < count; i++) {
    if (slices[i] - track->first >= track->count) track = &t->tracks[tg__slice_track(t, slices[i])];
    d->rows[i] = exact_row(d, track, slices[i]);
  }
  d->count = ok ? count : 0;
  d->extent_ns = extent_of(t, &t->ranks[d->rank]);
  tg__free(slices);
  return ok;
}

/* ---- any rules ------------------------------------------------------------------------------- */

bool tg__device_pairs(struct tg__device_rows *d, enum tg__pairs_for what) {
  d->pair_count = d->rules->pair ? 0 : d->count;
  return !d->rules->pair || d->rules->pair(d, what);
}

bool tg__device_by_stream(uint32_t *order, size_t n, tg__stream_of *stream_of, const void *ctx) {
  struct tg__map groups = {0};
  uint32_t *group = tg__realloc(NULL, (n + 1) * sizeof *group);
  size_t *next = NULL, cap = 0, count = 0;
  struct tg__stream_key last = {0};
  bool ok = group != NULL;
  for (size_t i = 0; ok && i < n; i++) {
    const struct tg__stream_key key = stream_of(ctx, i);
    if (i > 0 && key.device == last.device && key.stream == last.stream) { /* work comes in long runs of one stream */
      next[group[i] = group[i - 1]]++;
      continue;
    }
    last = key;
    const uint64_t mixed =
        (uint64_t)key.device * 0x9e3779b97f4a7c15u ^ (uint64_t)key.stream; /* two streams in one group do no harm */
    uint32_t *slot = tg__map_slot(&groups, mixed, (uint32_t)count);
    ok = slot && (*slot < count || tg__grow((void **)&next, &cap, count + 2, sizeof *next));
    if (!ok) break;
    if (*slot == count) next[count++] = 0;
    next[group[i] = *slot]++;
  }
  for (size_t g = 0, at = 0; ok && g < count; g++) {
    const size_t here = next[g];
    next[g] = at;
    at += here;
  }
  for (size_t i = 0; ok && i < n; i++) order[next[group[i]]++] = (uint32_t)i;
  tg__map_free(&groups);
  tg__free(group);
  tg__free(next);
  return ok;
}

static struct tg__stream_key stream_of_row(const void *ctx, size_t i) {
  const struct tg__device_row *row = &((const struct tg__device_row *)ctx)[i];
  return (struct tg__stream_key){row->device, row->stream};
}

static bool stream_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__device_row *x = &((const struct tg__device_row *)ctx)[a],
                              *y = &((const struct tg__device_row *)ctx)[b];
  if (x->device != y->device) return x->device < y->device;
  if (x->stream != y->stream) return x->stream < y->stream;
  return x->start_ns != y->start_ns ? x->start_ns < y->start_ns : x->order < y->order;
}

/* Rows come by start: those of one stream are nearly in order once they stand together. NULL on no memory. */
static uint32_t *make_order(const struct tg__device_rows *d) {
  uint32_t *order = tg__realloc(NULL, (d->count + 1) * sizeof *order);
  if (order && tg__device_by_stream(order, d->count, stream_of_row, d->rows) &&
      tg__sort_index(order, d->count, stream_before, d->rows))
    return order;
  tg__free(order);
  return NULL;
}

bool tg__device_spans(const struct tg__device_rows *d, int types, int64_t device, struct tg__spans *out) {
  out->count = 0;
  for (size_t i = 0; i < d->count; i++) {
    const struct tg__device_row *row = &d->rows[i];
    if (!(types >> row->type & 1) || (device != TG_NULL_INT && row->device != device)) continue;
    struct tg__span *last = out->count ? &out->items[out->count - 1] : NULL;
    if (last && row->start_ns <= last->end) {
      if (row->end_ns > last->end) last->end = row->end_ns;
      continue;
    }
    if (!tg__grow((void **)&out->items, &out->cap, out->count + 1, sizeof *out->items)) return false;
    out->items[out->count++] = (struct tg__span){row->start_ns, row->end_ns};
  }
  return true;
}

int64_t tg__device_length(const struct tg__spans *s) {
  __int128 length = 0;
  for (size_t i = 0; i < s->count; i++) length += (__int128)s->items[i].end - s->items[i].start;
  return length > INT64_MAX ? INT64_MAX : (int64_t)length;
}

/* All rows of each rank. */
struct kept {
  uint32_t ranks;
  struct tg__device_rows of_rank[]; /* rows NULL: not asked for yet */
};

static void free_kept_device(void *item) {
  struct kept *k = item;
  for (uint32_t r = 0; r < k->ranks; r++) {
    tg__free(k->of_rank[r].rows);
    tg__free(k->of_rank[r].own_order);
  }
  tg__free(k);
}
static const struct tg__cached cached = {free_kept_device};

bool tg__device_is_kept(const struct tg__device_rows *d) { return d->rules->is_kept && !d->a->has_steps; }

static struct kept *kept_of(const struct tg__columns *t) {
  struct kept *k = tg__cache_get(t, &cached, sizeof *k + t->rank_count * sizeof *k->of_rank);
  if (k) k->ranks = t->rank_count;
  return k;
}

/* Hands out the rows kept of d->rank, loading them when they are not there. */
static bool load_kept(struct tg__device_rows *d) {
  struct kept *k = kept_of(d->t);
  if (!k) return false;
  struct tg__device_rows *all = &k->of_rank[d->rank];
  if (!all->rows) {
    struct tg__device_rows fresh = {.t = d->t, .a = d->a, .rules = d->rules, .rank = d->rank, .names = d->names};
    const bool ok =
        d->rules->load(&fresh) && (fresh.rows || tg__grow((void **)&fresh.rows, &fresh.cap, 1, sizeof *fresh.rows));
    d->names = fresh.names;
    if (!ok) {
      tg__free(fresh.rows);
      return false;
    }
    *all = (struct tg__device_rows){.rows = fresh.rows, .count = fresh.count, .extent_ns = fresh.extent_ns};
  }
  d->rows = all->rows;
  d->count = all->count;
  d->extent_ns = all->extent_ns;
  return true;
}

bool tg__device_order(struct tg__device_rows *d) {
  struct kept *k = tg__device_is_kept(d) ? kept_of(d->t) : NULL;
  uint32_t **order = k ? &k->of_rank[d->rank].own_order : &d->own_order;
  if (!k) tg__free(d->own_order); /* of the rank before */
  if (!k || !*order) *order = make_order(d);
  d->by_stream = *order;
  return d->by_stream != NULL;
}

enum tg_err tg__device_each_rank(const struct tg__columns *t, const struct tg__ask *a, tg__device_body *body, void *ctx,
                                 struct tg_error *e) {
  const struct tg__device_rules *const rules = a->policy ? a->policy : &tg__device_exact;
  struct tg__device_rows d = {.t = t, .a = a, .rules = rules};
  bool ok = tg__names_open(&d.names, t) && (!rules->open || rules->open(&d));
  for (uint32_t r = 0; r < t->rank_count && ok; r++) {
    if (!tg__ask_has_rank(a, r)) continue;
    d.rank = r;
    d.count = d.pair_count = 0;
    ok = (tg__device_is_kept(&d) ? load_kept(&d) : rules->load(&d)) && body(&d, ctx);
    if (rules->after) rules->after(&d);
  }
  if (!tg__device_is_kept(&d)) tg__free(d.rows);
  tg__free(d.pairs);
  tg__free(d.own_order);
  tg__names_close(&d.names);
  if (d.state) rules->close(&d);
  return ok ? TG_OK : tg__no_memory(e, "adding up the work of devices");
}

const struct tg__device_rules tg__device_exact = {
    .load = load_exact, .is_kept = true, .shortest_ns = 1, .std_of_one = NAN};
