/* annotations: the question annotations.
 *
 * Device work counts for an annotation of the CPU when the host call that launched it starts inside: on the
 * annotation's own thread or on one that helps it. A thread that runs backward operators helps the thread on which
 * most of their forward operators ran: autograd's workers launch the work of the backward() that another thread
 * waits in. A thread with neither forward links nor annotations helps every thread of its rank. */
#include "analyze/host/annotations.h"
#include "analyze/names/by_class.h"

/* Host calls that launched device work, by start; device_ns[k] = device work of the calls before the k-th. */
struct launches {
  int64_t *start_ns, *device_ns;
  size_t count, cap, device_cap;
  bool failed;
};
struct work {
  struct tg__annotations sums;
  const struct tg__columns *t;
  const struct tg__ask *a;
  int64_t *device_of;                   /* per slice: device work it launched */
  bool *annotated;                      /* per track: has annotations of the CPU */
  uint32_t *first_helper, *next_helper; /* per track: the threads that help it, as a list */
  bool *helps_all;                      /* per track */
  bool failed;
};

static void launches_free(struct launches *l) {
  tg__free(l->start_ns);
  tg__free(l->device_ns);
}

static void launches_add(struct launches *l, int64_t start, int64_t device_ns) {
  if (!tg__grow((void **)&l->start_ns, &l->cap, l->count + 1, sizeof *l->start_ns) ||
      !tg__grow((void **)&l->device_ns, &l->device_cap, l->count + 2, sizeof *l->device_ns)) {
    l->failed = true;
    return;
  }
  if (l->count == 0) l->device_ns[0] = 0;
  l->start_ns[l->count] = start;
  l->device_ns[l->count + 1] = l->device_ns[l->count] + device_ns;
  l->count++;
}

static void launches_of_track(const struct work *w, uint32_t track, struct launches *l) {
  const struct tg__track *k = &w->t->tracks[track];
  TG__EACH (i, tg__slices_of(k))
    if (w->device_of[i] > 0) launches_add(l, w->t->slices.start_ns[i], w->device_of[i]);
}

static bool annotation_starts_before(uint32_t a, uint32_t b, const void *ctx) {
  const int64_t *start = ctx;
  return start[a] < start[b];
}

/* The same list by start: several threads were put into it one after the other. */
static void sort_launches(struct launches *l) {
  struct launches sorted = {0};
  uint32_t *order = tg__order_new(l->count, annotation_starts_before, l->start_ns);
  const bool done = order != NULL;
  for (size_t i = 0; done && i < l->count; i++)
    launches_add(&sorted, l->start_ns[order[i]], l->device_ns[order[i] + 1] - l->device_ns[order[i]]);
  sorted.failed |= l->failed || !done;
  tg__free(order);
  launches_free(l);
  *l = sorted;
}

/* Only of the thread and those that help it. */
static void launches_for_track(const struct work *w, uint32_t track, struct launches *l) {
  launches_of_track(w, track, l);
  if (w->first_helper[track] == TG_NONE) return;
  for (uint32_t k = w->first_helper[track]; k != TG_NONE; k = w->next_helper[k]) launches_of_track(w, k, l);
  sort_launches(l);
}

static void launches_for_all(const struct work *w, uint32_t rank, struct launches *l) {
  const struct tg__rank *r = &w->t->ranks[rank];
  TG__EACH (k, tg__tracks_of(r))
    if (w->helps_all[k]) launches_of_track(w, k, l);
  sort_launches(l);
}

static size_t first_from(const struct launches *l, int64_t ns) {
  size_t low = 0;
  TG__PARTITION(low, l->count, i, l->start_ns[i] < ns);
  return low;
}

static int64_t launched_inside(const struct launches *l, int64_t start, int64_t end) {
  if (l->count == 0) return 0;
  return l->device_ns[first_from(l, end)] - l->device_ns[first_from(l, start)];
}

struct tg__annotation *tg__annotation_at(struct tg__annotations *s, uint32_t name, uint32_t rank, bool is_gpu) {
  uint32_t *slot = tg__map_slot(&s->index, (uint64_t)rank << 33 | (uint64_t)is_gpu << 32 | name, TG_NONE);
  if (!slot) return NULL;
  if (*slot == TG_NONE) {
    if (!tg__grow((void **)&s->items, &s->cap, s->count + 1, sizeof *s->items)) return NULL;
    s->items[s->count] = (struct tg__annotation){.name = name, .rank = rank, .is_gpu = is_gpu};
    *slot = (uint32_t)s->count++;
  }
  return &s->items[*slot];
}

static void add_annotation_of_track(struct work *w, uint32_t track, const struct launches *of_all) {
  const struct tg__columns *t = w->t;
  const struct tg__track *k = &t->tracks[track];
  struct launches own = {0};
  if (w->annotated[track]) launches_for_track(w, track, &own);
  TG__EACH (i, tg__slices_of(k)) {
    const enum tg__class cls = tg__slice_class(t, i);
    if (cls != TG__CLASS_ANNOTATION && cls != TG__CLASS_GPU_ANNOTATION) continue;
    const int64_t start = t->slices.start_ns[i], end = tg__slice_end(t, i);
    if (!tg__ask_has_time(w->a, k->rank, start)) continue;
    struct tg__annotation *g = tg__annotation_at(&w->sums, t->slices.name[i], k->rank, cls == TG__CLASS_GPU_ANNOTATION);
    if (!g) {
      w->failed = true;
      break;
    }
    tg__stats_add(&g->stats, end - start);
    if (!g->is_gpu) g->device_ns += launched_inside(&own, start, end) + launched_inside(of_all, start, end);
  }
  w->failed |= own.failed;
  launches_free(&own);
}

/* The thread on which most forward operators of this thread's backward operators ran; TG_NONE when there are none. */
static uint32_t most_helped(struct work *w, uint32_t track) {
  const struct tg__columns *t = w->t;
  struct tg__map counts = {0};
  uint32_t best = TG_NONE, most = 0;
  TG__EACH (i, tg__slices_of(&t->tracks[track])) {
    const uint32_t forward = t->slices.cause[i];
    if (forward == TG_NONE || tg__slice_class(t, i) != TG__CLASS_OP || tg__slice_class(t, forward) != TG__CLASS_OP)
      continue;
    const uint32_t home = tg__slice_track(t, forward);
    uint32_t *count = tg__map_slot(&counts, home, 0);
    if (!count) {
      w->failed = true;
      break;
    }
    if (++*count > most) {
      most = *count;
      best = home;
    }
  }
  tg__map_free(&counts);
  return best;
}

/* What each host call launched, which threads have annotations, and which belong together. */
static void prepare_annotation(struct work *w) {
  const struct tg__columns *t = w->t;
  const struct tg__rank_range range = tg__rank_range_of(t, w->a->rank);
  for (uint32_t k = range.first_track; k < range.end_track; k++) {
    w->first_helper[k] = w->next_helper[k] = TG_NONE;
    TG__EACH (i, tg__slices_of(&t->tracks[k])) {
      const enum tg__class cls = tg__slice_class(t, i);
      w->annotated[k] |= cls == TG__CLASS_ANNOTATION;
      if (tg__class_is_device_work(cls) && t->slices.cause[i] != TG_NONE)
        w->device_of[t->slices.cause[i]] += t->slices.dur_ns[i];
    }
  }
  for (uint32_t k = range.first_track; k < range.end_track; k++) {
    const uint32_t home = most_helped(w, k);
    w->helps_all[k] = home == TG_NONE && !w->annotated[k];
    if (home == TG_NONE || home == k) continue;
    w->next_helper[k] = w->first_helper[home];
    w->first_helper[home] = k;
  }
}

/* ---- the table ------------------------------------------------------------------------------- */

static void put_annotation(const struct tg__columns *t, const struct tg__annotation *g, bool knows_device,
                           struct tg_table *out) {
  tg__put_trace_text(out, t, g->name);
  tg__put_cstr(out, g->is_gpu ? "gpu" : "cpu");
  tg__put_rank(out, t, g->rank);
  tg__put_int(out, g->stats.count);
  tg__put_int(out, g->stats.sum);
  tg__put_real(out, tg__stats_mean(&g->stats));
  tg__put_real(out, tg__stats_std(&g->stats));
  tg__put_int(out, g->stats.min);
  tg__put_int(out, g->stats.max);
  tg__put_int(out, g->is_gpu || !knows_device ? TG_NULL_INT : g->device_ns);
}

struct by_total {
  const struct tg__columns *t;
  const struct tg__annotation *items;
};

static bool annotation_comes_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct by_total *o = ctx;
  const struct tg__annotation *x = &o->items[a], *y = &o->items[b];
  if (x->rank != y->rank) return x->rank < y->rank;
  if (x->is_gpu != y->is_gpu) return y->is_gpu;
  if (x->stats.sum != y->stats.sum) return x->stats.sum > y->stats.sum;
  return tg__str_cmp(tg__name(o->t, x->name), tg__name(o->t, y->name)) < 0;
}

bool tg__annotations_put(const struct tg__annotations *s, const struct tg__columns *t, bool knows_device,
                         struct tg_table *out) {
  const struct by_total by = {t, s->items};
  uint32_t *order = tg__order_new(s->count, annotation_comes_before, &by);
  const bool ok = order != NULL;
  for (size_t i = 0; ok && i < s->count; i++) put_annotation(t, &s->items[order[i]], knows_device, out);
  if (ok && !s->count)
    tg__table_note(out,
                   "nothing here is annotated: wrap parts of the program in torch.profiler.record_function(\"name\")");
  tg__free(order);
  return ok;
}

void tg__annotations_free(struct tg__annotations *s) {
  tg__free(s->items);
  tg__map_free(&s->index);
}

/* ---- all ranks ------------------------------------------------------------------------------- */

static void add_ranks(struct work *w) {
  const struct tg__columns *t = w->t;
  for (uint32_t r = 0; r < t->rank_count && !w->failed; r++) {
    if (!tg__ask_has_rank(w->a, r)) continue;
    struct launches of_all = {0};
    launches_for_all(w, r, &of_all);
    w->failed |= of_all.failed;
    for (uint32_t k = t->ranks[r].first_track; k < t->ranks[r].first_track + t->ranks[r].track_count && !w->failed; k++)
      add_annotation_of_track(w, k, &of_all);
    launches_free(&of_all);
  }
}

/* Where the device work of annotations is not asked for, only the annotations are read. */
static void add_listed(struct work *w, uint32_t rank, enum tg__list which) {
  const struct tg__columns *t = w->t;
  struct tg__names_listed list;
  w->failed |= !tg__names_listed(t, which, rank, &list);
  for (size_t i = 0; i < list.count && !w->failed; i++) {
    if (w->a->has_steps && !tg__ask_has_time(w->a, rank, t->slices.start_ns[list.slices[i]])) continue;
    struct tg__annotation *g = tg__annotation_at(&w->sums, list.names[i], rank, which == TG__LIST_GPU_ANNOTATIONS);
    w->failed = g == NULL;
    if (g) tg__stats_add(&g->stats, list.dur_ns[i]);
  }
}

static void add_all_listed(struct work *w) {
  for (uint32_t r = 0; r < w->t->rank_count; r++) {
    if (!tg__ask_has_rank(w->a, r)) continue;
    add_listed(w, r, TG__LIST_ANNOTATIONS);
    add_listed(w, r, TG__LIST_GPU_ANNOTATIONS);
  }
}

static void add_all(struct work *w) {
  const size_t tracks = (size_t)w->t->track_count + 1;
  w->device_of = tg__alloc(((size_t)w->t->slices.count + 1) * sizeof *w->device_of);
  w->annotated = tg__alloc(tracks);
  w->helps_all = tg__alloc(tracks);
  w->first_helper = tg__alloc(tracks * sizeof *w->first_helper);
  w->next_helper = tg__alloc(tracks * sizeof *w->next_helper);
  w->failed = !w->device_of || !w->annotated || !w->helps_all || !w->first_helper || !w->next_helper;
  if (!w->failed) prepare_annotation(w);
  if (!w->failed) add_ranks(w);
  tg__free(w->device_of);
  tg__free(w->annotated);
  tg__free(w->helps_all);
  tg__free(w->first_helper);
  tg__free(w->next_helper);
}

enum tg_err tg__answer_annotations(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                   struct tg_error *e) {
  (void)e;
  struct work w = {.t = t, .a = a};
  if (out->columns[tg__table_column_index(out, "device_ns")].is_left_out)
    add_all_listed(&w);
  else
    add_all(&w);
  const bool ok = !w.failed && tg__annotations_put(&w.sums, t, true, out);
  tg__annotations_free(&w.sums);
  return ok ? TG_OK : TG_MEMORY;
}
