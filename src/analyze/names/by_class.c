/* Slices by class: two passes over all of them for what many questions would look for, each in a pass of its own. */
#include "analyze/names/by_class.h"

struct lists {
  uint32_t *slices[TG__LIST_COUNT], *names[TG__LIST_COUNT];
  int64_t *dur_ns[TG__LIST_COUNT];
  size_t count[TG__LIST_COUNT], step_cap;
  bool is_made;
};

static void drop_lists(struct lists *l) {
  for (unsigned k = 0; k < TG__LIST_COUNT; k++) {
    tg__free(l->slices[k]);
    tg__free(l->names[k]);
    tg__free(l->dur_ns[k]);
  }
  *l = (struct lists){0};
}

static void free_lists(void *item) {
  drop_lists(item);
  tg__free(item);
}
static const struct tg__cached cached = {free_lists};

static enum tg__list list_of(enum tg__class c) {
  if (tg__class_is_device_work(c)) return TG__LIST_WORK;
  if (c == TG__CLASS_ANNOTATION) return TG__LIST_ANNOTATIONS;
  return c == TG__CLASS_GPU_ANNOTATION ? TG__LIST_GPU_ANNOTATIONS : TG__LIST_NONE;
}

static bool add_step(struct lists *l, uint32_t slice) {
  if (!tg__grow((void **)&l->slices[TG__LIST_STEPS], &l->step_cap, l->count[TG__LIST_STEPS] + 1, sizeof slice))
    return false;
  l->slices[TG__LIST_STEPS][l->count[TG__LIST_STEPS]++] = slice;
  return true;
}

static bool deal_out(const struct tg__columns *t, struct lists *l, const uint8_t *of_cat, struct tg__names *names) {
  for (uint32_t i = 0; i < t->slices.count; i++) {
    const uint8_t k = of_cat[t->slices.cat[i]];
    if (k) l->slices[k][l->count[k]++] = i;
    if (TG_UNLIKELY(tg__names_of(names, t->slices.name[i]) & TG__NAME_PROFILER_STEP) && !add_step(l, i)) return false;
  }
  return true;
}

static bool copy_columns(const struct tg__columns *t, struct lists *l, enum tg__list k) {
  l->names[k] = tg__realloc(NULL, (l->count[k] + 1) * sizeof *l->names[k]);
  l->dur_ns[k] = tg__realloc(NULL, (l->count[k] + 1) * sizeof *l->dur_ns[k]);
  if (!l->names[k] || !l->dur_ns[k]) return false;
  for (size_t i = 0; i < l->count[k]; i++) {
    l->names[k][i] = t->slices.name[l->slices[k][i]];
    l->dur_ns[k][i] = t->slices.dur_ns[l->slices[k][i]];
  }
  return true;
}

static bool make(const struct tg__columns *t, struct lists *l) {
  struct tg__names names;
  uint8_t *of_cat = tg__alloc((size_t)t->cat_count + 1);
  bool ok = tg__names_open(&names, t) && of_cat;
  for (uint32_t c = 0; ok && c < t->cat_count; c++) of_cat[c] = (uint8_t)list_of((enum tg__class)t->cats[c].cls);
  for (uint32_t i = 0; ok && i < t->slices.count; i++) l->count[of_cat[t->slices.cat[i]]]++;
  for (unsigned k = 0; k < TG__LIST_STEPS; k++) {
    l->slices[k] = ok && k != TG__LIST_NONE ? tg__realloc(NULL, (l->count[k] + 1) * sizeof *l->slices[k]) : NULL;
    ok = ok && (k == TG__LIST_NONE || l->slices[k]);
    l->count[k] = 0;
  }
  ok = ok && deal_out(t, l, of_cat, &names) && copy_columns(t, l, TG__LIST_ANNOTATIONS) &&
       copy_columns(t, l, TG__LIST_GPU_ANNOTATIONS);
  tg__names_close(&names);
  tg__free(of_cat);
  return ok;
}

static const struct lists *lists_of(const struct tg__columns *t) {
  struct lists *l = tg__cache_get(t, &cached, sizeof *l);
  if (!l || l->is_made) return l;
  l->is_made = make(t, l);
  if (l->is_made) return l;
  drop_lists(l);
  return NULL;
}

static size_t first_from(const uint32_t *slices, size_t count, uint32_t slice) {
  size_t low = 0;
  TG__PARTITION(low, count, i, slices[i] < slice);
  return low;
}

bool tg__names_listed(const struct tg__columns *t, enum tg__list which, uint32_t rank, struct tg__names_listed *out) {
  const struct lists *const l = lists_of(t);
  const struct tg__extent run = tg__rank_slices(t, rank);
  *out = (struct tg__names_listed){0};
  if (!l) return false;
  const size_t from = first_from(l->slices[which], l->count[which], run.first);
  *out = (struct tg__names_listed){
      .slices = l->slices[which] + from,
      .count = first_from(l->slices[which], l->count[which], run.past) - from,
      .names = l->names[which] ? l->names[which] + from : NULL,
      .dur_ns = l->dur_ns[which] ? l->dur_ns[which] + from : NULL,
  };
  return true;
}
