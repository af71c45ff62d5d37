/* The device work of one rank by HTA's rules: its rows and links, rounded to the microsecond where it rounds, streams
 * of all devices taken for one. */
#include "analyze/compat/compat.h"
#include "analyze/compat/hta/hta_rows.h"
#include "analyze/device/device_rows.h"

#include <stdlib.h>

static struct tg__hta *hta_of(const struct tg__device_rows *d) { return d->state; }
static const struct tg__hta_rank *rank_of(const struct tg__device_rows *d) { return &hta_of(d)->ranks[d->rank]; }

static bool add_row(struct tg__device_rows *d, struct tg__device_row row) {
  if (d->count == d->cap && !tg__grow((void **)&d->rows, &d->cap, d->count + 1, sizeof *d->rows)) return false;
  d->rows[d->count++] = row;
  return true;
}

static int64_t end_of(const struct tg__device_rows *d, const struct tg__hta_row *row) {
  return row->ts_us * 1000 + tg__hta_dur_ns(d->state, rank_of(d), row);
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

static bool load_hta_device(struct tg__device_rows *d) {
  if (tg__hta_load(d->state, d->rank)) return false;
  const struct tg__hta_rank *rank = rank_of(d);
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
                                            .type = (uint8_t)tg__hta_type(d->state, row),
                                            .is_work = tg__class_is_device_work(tg__slice_class(d->t, row->slice))}))
      return false;
  }
  d->extent_ns = least < most ? (most - least) * 1000 : 0;
  return sort_rows(d);
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
  const struct tg__hta_rank *rank = rank_of(d);
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
  const struct tg__hta_rank *rank = rank_of(d);
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
  const struct tg__hta_rank *rank = rank_of(d);
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

static bool pair(struct tg__device_rows *d, enum tg__pairs_for what) {
  return what == TG__PAIRS_QUEUE ? pair_queue(d) : pair_stats(d, what == TG__PAIRS_STATS);
}

/* ---- is there any ---------------------------------------------------------------------------- */

/* Device work is whatever has a stream, on the host too (operators that
 * torch.compile made). */
static bool has_work(const struct tg__columns *t, const struct tg__ask *a) {
  bool named = false;
  for (uint32_t s = 0; s < t->schema_count && !named; s++)
    for (uint16_t f = 0; f < t->schemas[s].count && !named; f++) named = t->schemas[s].fields[f].key == TG__K_STREAM;
  for (uint32_t k = 0; k < t->track_count && named; k++) {
    if (!tg__ask_has_rank(a, t->tracks[k].rank)) continue;
    TG__EACH (i, tg__slices_of(&t->tracks[k]))
      if (tg__arg_int(t, t->slices.args[i], TG__K_STREAM, -1) != -1) return true;
  }
  return false;
}

/* ---- kernel_breakdown ------------------------------------------------------------------------ */

static int ascending(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* Its rule (D2): those with a running sum above the `ratio` quantile of all running sums. Names with a sum below
 * zero stay. */
static bool fold(struct tg__kernel_sum *sums, const uint32_t *order, size_t count, int64_t most, double ratio) {
  int64_t *running = tg__alloc((2 * count + 1) * sizeof *running), sum = 0;
  if (!running) return false;
  for (size_t i = 0; i < count; i++) running[i] = running[count + i] = sum += sums[order[i]].dur.sum;
  qsort(running + count, count, sizeof *running, ascending);
  const double cut = tg__quantile(running + count, count, ratio);
  for (size_t i = 0; i < count; i++) {
    struct tg__kernel_sum *r = &sums[order[i]];
    r->folded = r->dur.sum >= 0 && ((int64_t)i >= most || (double)running[i] > cut);
  }
  tg__free(running);
  return true;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool open_rows(struct tg__device_rows *d) {
  d->state = tg__alloc(sizeof(struct tg__hta));
  return d->state && tg__hta_begin(d->state, d->t, tg__hta_filter_of(d->a)) == TG_OK;
}

static void drop_rank(struct tg__device_rows *d) { tg__hta_drop(d->state, d->rank); }

static void close_rows(struct tg__device_rows *d) {
  tg__hta_close(d->state);
  tg__free(d->state);
}

const struct tg__device_rules tg__device_hta = {.open = open_rows,
                                                .close = close_rows,
                                                .load = load_hta_device,
                                                .after = drop_rank,
                                                .has_work = has_work,
                                                .pair = pair,
                                                .by_file = true,
                                                .counts_overlap = true,
                                                .shortest_ns = 1000,
                                                .std_of_one = 0,
                                                .folds_sums = true,
                                                .fold = fold};

/* ---- what it has no answer for --------------------------------------------------------------- */

/* breakdown and overlap: one figure a rank. */
enum tg_err tg__rank_alone_hta(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                               struct tg_error *e) {
  const char *const by = tg__ask_arg(a, "by");
  if (strcmp(by, "device") == 0 || strcmp(by, "step") == 0)
    return tg__fail(e, TG_USAGE, -1, "%s: by=%s goes only with rules=exact", a->question->name, by);
  return a->question->answer(t, a, out, e);
}
