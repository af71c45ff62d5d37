/* gpu: utilisation, SM efficiency and occupancy of each device. */
#include "analyze/device/gpu.h"
#include "analyze/overview/steps.h"

#include <math.h>

/* Blocks per SM come as decimals; as integers of this scale what a kernel adds at its start is gone exactly at its
 * end. */
#define BLOCK_UNIT 1e12
#define MOST_BLOCKS 8e6 /* keeps a kernel's share inside int64; one full SM is 1 */

struct measure {
  const struct tg__columns *t;
  struct tg__spans busy;
  struct tg__sm_load load;
  long double occupancy, occupied_ns;
};

/* ---- how much of the SMs is asked for -------------------------------------------------------- */

static void add_point(struct tg__sm_load *p, int64_t ns, int64_t blocks) {
  if (!tg__grow((void **)&p->items, &p->cap, p->count + 1, sizeof *p->items)) {
    p->failed = true;
    return;
  }
  p->items[p->count++] = (struct tg__sm_point){ns, blocks};
}

void tg__sm_load_add(struct tg__sm_load *p, int64_t start_ns, int64_t end_ns, double blocks_per_sm) {
  if (!(blocks_per_sm > 0) || start_ns >= end_ns) return;
  const int64_t share = llround((blocks_per_sm < MOST_BLOCKS ? blocks_per_sm : MOST_BLOCKS) * BLOCK_UNIT);
  add_point(p, start_ns, share);
  add_point(p, end_ns, -share);
}

static bool gpu_is_earlier(uint32_t a, uint32_t b, const void *ctx) {
  return ((const struct tg__sm_point *)ctx)[a].ns < ((const struct tg__sm_point *)ctx)[b].ns;
}

void tg__sm_load_sweep(struct tg__sm_load *p, tg__sm_visitor *visit, void *ctx) {
  uint32_t *order = tg__order_new(p->count, gpu_is_earlier, p->items);
  if (!order) {
    p->failed = true;
    tg__free(order);
    return;
  }
  __int128 running = 0;
  for (size_t i = 0; i + 1 < p->count; i++) {
    const struct tg__sm_point *now = &p->items[order[i]], *next = &p->items[order[i + 1]];
    running += now->blocks;
    const __int128 capped = running < (__int128)BLOCK_UNIT ? running : (__int128)BLOCK_UNIT;
    if (capped > 0 && next->ns > now->ns) visit(ctx, now->ns, next->ns, (long double)capped / BLOCK_UNIT);
  }
  tg__free(order);
}

void tg__sm_load_free(struct tg__sm_load *p) {
  tg__free(p->items);
  *p = (struct tg__sm_load){0};
}

static void add_area(void *area, int64_t start_ns, int64_t end_ns, long double share) {
  *(long double *)area += share * (long double)(end_ns - start_ns);
}

/* ---- occupancy ------------------------------------------------------------------------------- */

/* Kineto writes 0 for a block with more shared memory than its calculator allows, and for a grid so small that less
 * than half a percent is rounded. The warps say which: a third of one is half a percent of 64, the most that a
 * multiprocessor holds. Without them nothing is known. */
bool tg__is_occupancy_estimated(double pct, double warps_per_sm) {
  const double rounded_to_0 = 0.005 * 64;
  return pct > 0 || (pct == 0 && warps_per_sm < rounded_to_0);
}

double tg__kernel_occupancy(const struct tg__columns *t, uint32_t args) {
  const double pct = tg__arg_real(t, args, TG__K_OCCUPANCY, NAN);
  if (isnan(pct) || pct > 0) return pct;
  return tg__is_occupancy_estimated(pct, tg__arg_real(t, args, TG__K_WARPS_PER_SM, NAN)) ? pct : NAN;
}

/* ---- one device ------------------------------------------------------------------------------ */

static void add_gpu_kernel(struct measure *m, uint32_t slice, const struct tg__window *w) {
  const int64_t start = m->t->slices.start_ns[slice] > w->start_ns ? m->t->slices.start_ns[slice] : w->start_ns;
  const int64_t end = tg__slice_end(m->t, slice) < w->end_ns ? tg__slice_end(m->t, slice) : w->end_ns;
  if (start >= end) return;
  const uint32_t args = m->t->slices.args[slice];
  const double blocks = tg__arg_real(m->t, args, TG__K_BLOCKS_PER_SM, 0), occupancy = tg__kernel_occupancy(m->t, args);
  tg__spans_add(&m->busy, start, end);
  tg__sm_load_add(&m->load, start, end, blocks);
  if (!isnan(occupancy)) {
    m->occupancy += (long double)occupancy * (long double)(end - start);
    m->occupied_ns += (long double)(end - start);
  }
}

static bool measure_device(const struct tg__columns *t, struct tg__gpu *g) {
  struct measure m = {.t = t};
  const struct tg__rank *rank = &t->ranks[g->rank];
  const double length = (double)(g->window.end_ns - g->window.start_ns);
  TG__EACH (k, tg__tracks_of(rank)) {
    const struct tg__track *track = &t->tracks[k];
    if (track->device != g->device) continue;
    TG__EACH (i, tg__slices_of(track))
      if (tg__slice_class(t, i) == TG__CLASS_KERNEL) add_gpu_kernel(&m, i, &g->window);
  }
  tg__spans_union(&m.busy);
  g->busy_ns = tg__spans_length(&m.busy);
  g->utilization = length > 0 ? (double)g->busy_ns / length : NAN;
  long double area = 0;
  tg__sm_load_sweep(&m.load, add_area, &area);
  g->sm_efficiency = length > 0 && m.load.count > 0 ? (double)(area / (long double)length) : NAN;
  g->occupancy_pct = m.occupied_ns > 0 ? (double)(m.occupancy / m.occupied_ns) : NAN;
  const bool done = !m.busy.failed && !m.load.failed;
  tg__spans_free(&m.busy);
  tg__sm_load_free(&m.load);
  return done;
}

/* The devices of the rank that run kernels, in ascending order. */
static bool find_devices(const struct tg__columns *t, uint32_t rank, struct tg__gpu **out, size_t *count) {
  size_t cap = 0;
  const struct tg__rank *r = &t->ranks[rank];
  TG__EACH (k, tg__tracks_of(r)) {
    const struct tg__track *track = &t->tracks[k];
    int64_t kernels = 0;
    TG__EACH (i, tg__slices_of(track)) kernels += tg__slice_class(t, i) == TG__CLASS_KERNEL;
    if (kernels == 0) continue;
    size_t at = 0;
    while (at < *count && (*out)[at].device < track->device) at++;
    if (at == *count || (*out)[at].device != track->device) {
      if (!tg__grow((void **)out, &cap, *count + 1, sizeof **out)) return false;
      memmove(&(*out)[at + 1], &(*out)[at], (*count - at) * sizeof **out);
      (*out)[at] = (struct tg__gpu){.rank = rank, .device = track->device};
      ++*count;
    }
    (*out)[at].kernels += kernels;
  }
  return true;
}

static enum tg_err measure_rank(const struct tg__columns *t, uint32_t rank, struct tg__gpu **out, size_t *count) {
  *out = NULL;
  *count = 0;
  if (!find_devices(t, rank, out, count)) return TG_MEMORY;
  if (*count == 0) return TG_OK;
  struct tg__breakdown steps;
  enum tg_err err = tg__steps_breakdown(t, rank, TG__STEPS_PROFILER, &steps);
  if (err == TG_OK && steps.count == 0) *count = 0; /* neither steps nor operators: no window to relate to */
  for (size_t i = 0; i < *count && err == TG_OK; i++) {
    (*out)[i].window = steps.window;
    if (!measure_device(t, &(*out)[i])) err = TG_MEMORY;
  }
  tg__breakdown_free(&steps);
  return err;
}

struct kept {
  uint32_t ranks;
  struct devices {
    struct tg__gpu *items;
    size_t count;
    bool is_known;
  } of_rank[];
};

static void free_kept_gpu(void *item) {
  struct kept *k = item;
  for (uint32_t r = 0; r < k->ranks; r++) tg__free(k->of_rank[r].items);
  tg__free(k);
}
static const struct tg__cached cached = {free_kept_gpu};

static struct kept *kept_of(const struct tg__columns *t) {
  struct kept *k = tg__cache_get(t, &cached, sizeof *k + t->rank_count * sizeof *k->of_rank);
  if (k) k->ranks = t->rank_count;
  return k;
}

enum tg_err tg__gpu_measure(const struct tg__columns *t, uint32_t rank, struct tg__gpu **out, size_t *count) {
  *out = NULL;
  *count = 0;
  struct kept *k = kept_of(t);
  if (!k) return TG_MEMORY;
  struct devices *d = &k->of_rank[rank];
  if (!d->is_known) {
    if (measure_rank(t, rank, &d->items, &d->count)) {
      tg__free(d->items);
      *d = (struct devices){0};
      return TG_MEMORY;
    }
    d->is_known = true;
  }
  *out = tg__alloc((d->count + 1) * sizeof **out);
  if (!*out) return TG_MEMORY;
  if (d->count) memcpy(*out, d->items, d->count * sizeof **out);
  *count = d->count;
  return TG_OK;
}
