/* annotations: the question annotations.
 *
 * Device work counts for an annotation of the CPU when the host call that launched it starts inside: on the annotation's own
 * thread, or on a thread of the same rank that has no annotations at all. The latter are autograd's workers, whose launches belong
 * to what waits for them. */
#include "analyze/analyze.h"

/* Host calls that launched device work, by start; device_ns[k] = device work of the calls before the k-th. */
struct launches {
  int64_t *start_ns, *device_ns;
  size_t count, cap, device_cap;
  bool failed;
};
struct group {
  uint32_t name, rank;
  bool is_gpu;
  struct tg__stats stats;
  int64_t device_ns;
};
struct work {
  const struct tg_trace *t;
  const struct tg__ask *a;
  int64_t *device_of; /* per slice: device work it launched */
  bool *annotated;    /* per track: has annotations of the CPU */
  struct group *groups;
  size_t group_count, group_cap;
  struct tg__map index; /* name, side and rank → group */
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
  for (uint32_t i = k->first; i < k->first + k->count; i++)
    if (w->device_of[i] > 0) launches_add(l, w->t->slices.start_ns[i], w->device_of[i]);
}

static bool starts_before(uint32_t a, uint32_t b, const void *ctx) {
  const int64_t *start = ctx;
  return start[a] < start[b];
}

/* Those of every thread of the rank that has no annotations, in one list by start. */
static void launches_of_others(const struct work *w, uint32_t rank, struct launches *sorted) {
  struct launches all = {0};
  const struct tg__rank *r = &w->t->ranks[rank];
  for (uint32_t k = r->first_track; k < r->first_track + r->track_count; k++)
    if (!w->annotated[k]) launches_of_track(w, k, &all);
  uint32_t *order = tg__alloc((all.count + 1) * sizeof *order);
  for (size_t i = 0; order && i < all.count; i++) order[i] = (uint32_t)i;
  if (all.failed || !order || !tg__sort_index(order, all.count, starts_before, all.start_ns)) {
    sorted->failed = true;
  } else {
    for (size_t i = 0; i < all.count; i++)
      launches_add(sorted, all.start_ns[order[i]], all.device_ns[order[i] + 1] - all.device_ns[order[i]]);
  }
  tg__free(order);
  launches_free(&all);
}

static size_t first_from(const struct launches *l, int64_t ns) {
  size_t low = 0, high = l->count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (l->start_ns[middle] < ns) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

static int64_t launched_inside(const struct launches *l, int64_t start, int64_t end) {
  if (l->count == 0) return 0;
  return l->device_ns[first_from(l, end)] - l->device_ns[first_from(l, start)];
}

static struct group *group_of(struct work *w, uint32_t name, uint32_t rank, bool is_gpu) {
  uint32_t *slot = tg__map_slot(&w->index, (uint64_t)rank << 33 | (uint64_t)is_gpu << 32 | name, TG_NONE);
  if (!slot) return NULL;
  if (*slot == TG_NONE) {
    if (!tg__grow((void **)&w->groups, &w->group_cap, w->group_count + 1, sizeof *w->groups)) return NULL;
    w->groups[w->group_count] = (struct group){.name = name, .rank = rank, .is_gpu = is_gpu};
    *slot = (uint32_t)w->group_count++;
  }
  return &w->groups[*slot];
}

static void add_track(struct work *w, uint32_t track, const struct launches *others) {
  const struct tg_trace *t = w->t;
  const struct tg__track *k = &t->tracks[track];
  struct launches own = {0};
  if (w->annotated[track]) launches_of_track(w, track, &own);
  for (uint32_t i = k->first; i < k->first + k->count; i++) {
    const enum tg__class cls = tg__slice_class(t, i);
    if (cls != TG__CLASS_ANNOTATION && cls != TG__CLASS_GPU_ANNOTATION) continue;
    const int64_t start = t->slices.start_ns[i], end = tg__slice_end(t, i);
    if (!tg__ask_has_time(w->a, k->rank, start)) continue;
    struct group *g = group_of(w, t->slices.name[i], k->rank, cls == TG__CLASS_GPU_ANNOTATION);
    if (!g) {
      w->failed = true;
      break;
    }
    tg__stats_add(&g->stats, end - start);
    if (!g->is_gpu) g->device_ns += launched_inside(&own, start, end) + launched_inside(others, start, end);
  }
  w->failed |= own.failed;
  launches_free(&own);
}

/* What each host call launched, and which threads carry annotations. */
static void prepare(struct work *w) {
  const struct tg_trace *t = w->t;
  for (uint32_t k = 0; k < t->track_count; k++) {
    for (uint32_t i = t->tracks[k].first; i < t->tracks[k].first + t->tracks[k].count; i++) {
      const enum tg__class cls = tg__slice_class(t, i);
      w->annotated[k] |= cls == TG__CLASS_ANNOTATION;
      if (tg__class_is_device_work(cls) && t->slices.cause[i] != TG_NONE) w->device_of[t->slices.cause[i]] += t->slices.dur_ns[i];
    }
  }
}

static void put_groups(const struct work *w, struct tg_table *out) {
  for (size_t i = 0; i < w->group_count; i++) {
    const struct group *g = &w->groups[i];
    tg__put_trace_text(out, w->t, g->name);
    tg__put_cstr(out, g->is_gpu ? "gpu" : "cpu");
    tg__put_rank(out, w->t, g->rank);
    tg__put_int(out, g->stats.count);
    tg__put_int(out, g->stats.sum);
    tg__put_real(out, tg__stats_mean(&g->stats));
    tg__put_real(out, tg__stats_std(&g->stats));
    tg__put_int(out, g->stats.min);
    tg__put_int(out, g->stats.max);
    tg__put_int(out, g->is_gpu ? TG_NULL_INT : g->device_ns);
  }
}

static bool comes_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct work *w = ctx;
  const struct group *x = &w->groups[a], *y = &w->groups[b];
  if (x->rank != y->rank) return x->rank < y->rank;
  if (x->is_gpu != y->is_gpu) return y->is_gpu;
  if (x->stats.sum != y->stats.sum) return x->stats.sum > y->stats.sum;
  return tg__str_cmp(tg__name(w->t, x->name), tg__name(w->t, y->name)) < 0;
}

/* By rank, the CPU first, largest total first. */
static void put_sorted(const struct work *w, struct tg_table *out) {
  put_groups(w, out);
  uint32_t *order = tg__alloc((w->group_count + 1) * sizeof *order);
  for (size_t i = 0; order && i < w->group_count; i++) order[i] = (uint32_t)i;
  if (order && !out->failed && tg__sort_index(order, w->group_count, comes_before, w)) {
    tg__table_keep_rows(out, order, w->group_count);
  } else {
    out->failed = true;
  }
  tg__free(order);
}

enum tg_err tg__answer_annotations(const struct tg_trace *t, const struct tg__ask *a, struct tg_table *out, struct tg_error *e) {
  struct work w = {.t = t, .a = a};
  w.device_of = tg__alloc(((size_t)t->slices.count + 1) * sizeof *w.device_of);
  w.annotated = tg__alloc((size_t)t->track_count + 1);
  w.failed = !w.device_of || !w.annotated;
  (void)e;
  if (!w.failed) prepare(&w);
  for (uint32_t r = 0; r < t->rank_count && !w.failed; r++) {
    if (!tg__ask_has_rank(a, r)) continue;
    struct launches others = {0};
    launches_of_others(&w, r, &others);
    w.failed |= others.failed;
    for (uint32_t k = t->ranks[r].first_track; k < t->ranks[r].first_track + t->ranks[r].track_count && !w.failed; k++)
      add_track(&w, k, &others);
    launches_free(&others);
  }
  if (!w.failed) put_sorted(&w, out);
  if (w.group_count == 0 && !w.failed)
    tg__table_note(out, "nothing here is annotated: wrap parts of the program in torch.profiler.record_function(\"name\")");
  tg__free(w.device_of);
  tg__free(w.annotated);
  tg__free(w.groups);
  tg__map_free(&w.index);
  return w.failed ? TG_MEMORY : TG_OK;
}
