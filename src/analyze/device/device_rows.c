/* The device work of one rank under either set of rules. */
#include "analyze/device/device_rows.h"
#include "analyze/names/by_class.h"

enum tg_err tg__ask_rules(const struct tg__ask *a, enum tg__rules *rules, struct tg_error *e) {
  static const char *const choices[] = {
      [TG__RULES_EXACT] = "exact", [TG__RULES_HTA] = "hta", [TG__RULES_HTA_LAST] = "hta-last"};
  size_t which = TG__RULES_EXACT;
  const enum tg_err err = tg__ask_choice(a, "rules", choices, sizeof choices / sizeof *choices, &which, e);
  *rules = (enum tg__rules)which;
  return err;
}

static bool add_row(struct tg__device_rows *d, struct tg__device_row row) {
  if (d->count == d->cap && !tg__grow((void **)&d->rows, &d->cap, d->count + 1, sizeof *d->rows)) return false;
  d->rows[d->count++] = row;
  return true;
}

/* ---- exact ----------------------------------------------------------------------------------- */

static enum tg__hta_type type_of(const char *name) {
  unsigned k = TG__HTA_COMPUTATION;
  while (k < TG__HTA_OTHER && strcmp(name, tg__hta_type_names[k]) != 0) k++;
  return (enum tg__hta_type)k;
}

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
                                 .type = (uint8_t)type_of(tg__names_kernel_type(&d->names, slice)),
                                 .is_work = true};
}

static bool slice_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__slices *s = ctx;
  if (s->start_ns[a] != s->start_ns[b]) return s->start_ns[a] < s->start_ns[b];
  return s->dur_ns[a] != s->dur_ns[b] ? s->dur_ns[a] < s->dur_ns[b] : s->args[a] < s->args[b];
}

/* From the first start of any event to the last start, the recording itself left out: slices of a track stand by start.
 */
static int64_t reach_of(const struct tg__columns *t, const struct tg__rank *r) {
  int64_t least = INT64_MAX, most = INT64_MIN;
  for (uint32_t k = r->first_track; k < r->first_track + r->track_count; k++) {
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
  struct tg__listed work;
  if (!tg__listed(t, TG__LIST_WORK, d->rank, &work)) return false;
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
  d->reach_ns = reach_of(t, &t->ranks[d->rank]);
  tg__free(slices);
  return ok;
}

/* ---- hta ------------------------------------------------------------------------------------- */

static int64_t end_of(const struct tg__device_rows *d, const struct tg__hta_row *row) {
  return row->ts_us * 1000 + tg__hta_dur_ns(&d->hta, &d->hta.ranks[d->rank], row);
}

static bool is_asked(const struct tg__device_rows *d, uint32_t slice) {
  return !d->a->has_steps || tg__ask_has_slice(d->a, d->t, tg__slice_track(d->t, slice), slice);
}

/* The row its idle times take for the launch: with an index of 0, which says "no partner", whatever stands first in
 * the file. */
static const struct tg__hta_row *launch_row(const struct tg__hta_rank *rank, const struct tg__hta_row *row,
                                            const struct tg__hta_row *first) {
  if (row->link != TG_NONE) return &rank->rows[row->link];
  return row->index_correlation == 0 ? first : NULL;
}

static bool load_hta(struct tg__device_rows *d) {
  if (tg__hta_load(&d->hta, d->rank)) return false;
  const struct tg__hta_rank *rank = &d->hta.ranks[d->rank];
  const struct tg__hta_row *first = NULL;
  int64_t least = INT64_MAX, most = INT64_MIN;
  for (size_t i = 0; i < rank->count; i++) {
    if (rank->rows[i].index == 0) first = &rank->rows[i];
    if (rank->rows[i].ts_us < least) least = rank->rows[i].ts_us;
    if (rank->rows[i].ts_us > most) most = rank->rows[i].ts_us;
  }
  for (size_t i = 0; i < rank->count; i++) {
    const struct tg__hta_row *row = &rank->rows[i];
    if (!tg__hta_is_device(row) || !is_asked(d, row->slice)) continue;
    const struct tg__hta_row *launch = launch_row(rank, row, first);
    if (!add_row(d, (struct tg__device_row){.start_ns = row->ts_us * 1000,
                                            .end_ns = end_of(d, row),
                                            .device = TG_NULL_INT,
                                            .stream = row->stream,
                                            .order = row->index,
                                            .launch_ns = launch ? launch->ts_us * 1000 : TG_NULL_INT,
                                            .slice = row->slice,
                                            .call = launch ? launch->slice : TG_NONE,
                                            .type = (uint8_t)tg__hta_type(&d->hta, row),
                                            .is_work = tg__class_is_device_work(tg__slice_class(d->t, row->slice))}))
      return false;
  }
  d->reach_ns = least < most ? (most - least) * 1000 : 0;
  return true;
}

static bool add_pair(struct tg__device_rows *d, const struct tg__hta_row *call, const struct tg__hta_row *work) {
  if (!is_asked(d, work->slice)) return true;
  if (!tg__grow((void **)&d->pairs, &d->pair_cap, d->pair_count + 1, sizeof *d->pairs)) return false;
  d->pairs[d->pair_count++] = (struct tg__launch_pair){.call_start_ns = call->ts_us * 1000,
                                                       .call_end_ns = end_of(d, call),
                                                       .call_order = call->index,
                                                       .start_ns = work->ts_us * 1000,
                                                       .end_ns = end_of(d, work),
                                                       .order = work->index,
                                                       .device = TG_NULL_INT,
                                                       .stream = work->stream,
                                                       .correlation = work->correlation,
                                                       .call = call->slice,
                                                       .slice = work->slice};
  return true;
}

/* By string id: is it one of the names? NULL on no memory. */
static uint8_t *mark_names(const struct tg__columns *t, const char *const *names, size_t count) {
  uint8_t *marked = tg__alloc((size_t)tg__strings_count(t->strings) + 1);
  for (size_t k = 0; marked && k < count; k++) {
    const uint32_t id = tg__strings_find(t->strings, names[k], strlen(names[k]));
    if (id != TG_NONE) marked[id] = 1;
  }
  return marked;
}

static bool pair_queue(struct tg__device_rows *d) {
  static const char *const launches[] = {
      "cudaLaunchKernel", "cudaLaunchKernelExC",      "cuLaunchKernel",
      "cuLaunchKernelEx", "cudaMemcpyAsync",          "cudaMemsetAsync",
      "hipLaunchKernel",  "hipExtModuleLaunchKernel", "hipMemcpyAsync",
      "hipMemsetAsync",   "hipMemcpyWithStream",      "runFunction - job_prep_and_submit_for_execution"};
  const struct tg__hta_rank *rank = &d->hta.ranks[d->rank];
  uint8_t *launches_by_name = mark_names(d->t, launches, sizeof launches / sizeof *launches);
  struct tg__map calls = {0};
  bool ok = launches_by_name != NULL;
  for (size_t i = 0; i < rank->count && ok; i++) {
    const struct tg__hta_row *row = &rank->rows[i];
    if (launches_by_name[d->t->slices.name[row->slice]] && row->index_correlation > 0)
      ok = tg__map_put(&calls, (uint64_t)row->correlation, (uint32_t)i);
  }
  for (size_t i = 0; i < rank->count && ok; i++) {
    const uint32_t call =
        tg__hta_is_device(&rank->rows[i]) ? tg__map_get(&calls, (uint64_t)rank->rows[i].correlation) : TG_NONE;
    if (call != TG_NONE && call != i) ok = add_pair(d, &rank->rows[call], &rank->rows[i]);
  }
  tg__free(launches_by_name);
  tg__map_free(&calls);
  return ok;
}

struct join { /* device rows by correlation, of the correlations that a launch has */
  struct tg__map first;
  uint32_t *next;
  size_t pairs;
};

/* Each host row of a correlation meets each device row of it. In a file made to be multiplied only the first device
 * row. */
static bool join_rows(struct tg__device_rows *d, struct join *j) {
  const struct tg__hta_rank *rank = &d->hta.ranks[d->rank];
  const size_t most = 4 * rank->count + 1024;
  for (size_t i = 0; i < rank->count; i++) {
    if (tg__hta_is_device(&rank->rows[i])) continue;
    for (uint32_t k = tg__map_get(&j->first, (uint64_t)rank->rows[i].correlation); k != TG_NONE; k = j->next[k]) {
      if (!add_pair(d, &rank->rows[i], &rank->rows[k])) return false;
      if (++j->pairs > most) break;
    }
  }
  return true;
}

static bool pair_stats(struct tg__device_rows *d, bool copies) {
  static const char *const launches[] = {"cudaLaunchKernel", "cudaLaunchKernelExC",
                                         "runFunction - job_prep_and_submit_for_execution", "cudaMemcpyAsync",
                                         "cudaMemsetAsync"};
  const struct tg__hta_rank *rank = &d->hta.ranks[d->rank];
  uint8_t *launches_by_name = mark_names(d->t, launches, copies ? 5 : 3);
  struct tg__map launched = {0};
  struct join j = {.next = tg__alloc((rank->count + 1) * sizeof *j.next)};
  bool ok = launches_by_name && j.next;
  for (size_t i = 0; i < rank->count && ok; i++)
    if (launches_by_name[d->t->slices.name[rank->rows[i].slice]])
      ok = tg__map_put(&launched, (uint64_t)rank->rows[i].correlation, 1);
  for (size_t i = rank->count; i-- > 0 && ok;) {
    const struct tg__hta_row *row = &rank->rows[i];
    if (!tg__hta_is_device(row) || tg__map_get(&launched, (uint64_t)row->correlation) == TG_NONE) continue;
    uint32_t *first = tg__map_slot(&j.first, (uint64_t)row->correlation, TG_NONE);
    ok = first != NULL;
    if (!ok) break;
    j.next[i] = *first;
    *first = (uint32_t)i;
  }
  ok = ok && join_rows(d, &j);
  tg__free(launches_by_name);
  tg__free(j.next);
  tg__map_free(&launched);
  tg__map_free(&j.first);
  return ok;
}

/* ---- both ------------------------------------------------------------------------------------ */

bool tg__device_pairs(struct tg__device_rows *d, enum tg__pairs_for what) {
  d->pair_count = 0;
  if (d->rules == TG__RULES_EXACT) {
    d->pair_count = d->count;
    return true;
  }
  return what == TG__PAIRS_QUEUE ? pair_queue(d) : pair_stats(d, what == TG__PAIRS_STATS);
}

static bool row_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__device_row *x = &((const struct tg__device_row *)ctx)[a],
                              *y = &((const struct tg__device_row *)ctx)[b];
  if (x->start_ns != y->start_ns) return x->start_ns < y->start_ns;
  return x->end_ns != y->end_ns ? x->end_ns < y->end_ns : x->order < y->order;
}

static bool sort_rows(struct tg__device_rows *d) {
  if (!tg__sort_items((void **)&d->rows, d->count, sizeof *d->rows, row_before, d->rows)) return false;
  d->cap = d->count + 1;
  return true;
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

/* All rows of each rank, exact. */
struct kept {
  uint32_t ranks;
  struct tg__device_rows of_rank[]; /* rows NULL: not asked for yet */
};

static void free_kept(void *item) {
  struct kept *k = item;
  for (uint32_t r = 0; r < k->ranks; r++) {
    tg__free(k->of_rank[r].rows);
    tg__free(k->of_rank[r].own_order);
  }
  tg__free(k);
}
static const struct tg__cached cached = {free_kept};

bool tg__device_is_kept(const struct tg__device_rows *d) { return d->rules == TG__RULES_EXACT && !d->a->has_steps; }

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
    struct tg__device_rows fresh = {.t = d->t, .a = d->a, .rank = d->rank, .names = d->names};
    const bool ok =
        load_exact(&fresh) && (fresh.rows || tg__grow((void **)&fresh.rows, &fresh.cap, 1, sizeof *fresh.rows));
    d->names = fresh.names;
    if (!ok) {
      tg__free(fresh.rows);
      return false;
    }
    *all = (struct tg__device_rows){.rows = fresh.rows, .count = fresh.count, .reach_ns = fresh.reach_ns};
  }
  d->rows = all->rows;
  d->count = all->count;
  d->reach_ns = all->reach_ns;
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

enum tg_err tg__device_each_rank(const struct tg__columns *t, const struct tg__ask *a, enum tg__rules rules,
                                 tg__device_body *body, void *ctx, struct tg_error *e) {
  struct tg__device_rows d = {.t = t, .a = a, .rules = rules};
  const enum tg__hta_filter filter = rules == TG__RULES_HTA ? TG__HTA_WITHOUT_LAST_STEP : TG__HTA_WITH_LAST_STEP;
  bool ok = tg__names_open(&d.names, t) && (rules == TG__RULES_EXACT || tg__hta_begin(&d.hta, t, filter) == TG_OK);
  for (uint32_t r = 0; r < t->rank_count && ok; r++) {
    if (!tg__ask_has_rank(a, r)) continue;
    d.rank = r;
    d.count = d.pair_count = 0;
    ok = tg__device_is_kept(&d)     ? load_kept(&d)
         : rules == TG__RULES_EXACT ? load_exact(&d)
                                    : load_hta(&d) && sort_rows(&d);
    ok = ok && body(&d, ctx);
    if (rules != TG__RULES_EXACT) tg__hta_drop(&d.hta, r);
  }
  if (!tg__device_is_kept(&d)) tg__free(d.rows);
  tg__free(d.pairs);
  tg__free(d.own_order);
  tg__names_close(&d.names);
  if (d.hta.t) tg__hta_close(&d.hta);
  return ok ? TG_OK : tg__fail(e, TG_MEMORY, -1, "out of memory while answering %s", a->question->name);
}
