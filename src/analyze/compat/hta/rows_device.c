/* Rows of device work for the question rows by the exact rules. They are few among the events of a rank: their
 * places in the file follow from counting, and of the host only calls that have one of their correlations are kept. */
#include "analyze/overview/file_order.h"
#include "analyze/compat/hta/rows_exact.h"

struct listing {
  struct tg__exact *x;
  struct tg__file_order order;
  size_t cap[4]; /* of slice, index, correlation, is_gpu */
  bool failed;
};

static bool is_device(const struct tg__columns *t, uint32_t track) { return t->tracks[track].kind == TG__TRACK_DEVICE; }

/* The device work of a rank, by track. */
static struct tg__hta_event *list_work(const struct tg__exact *x, size_t *count) {
  const struct tg__columns *const t = x->t;
  const struct tg__rank *const r = &t->ranks[x->rank];
  size_t most = 0;
  TG__EACH (k, tg__tracks_of(r)) most += is_device(t, k) ? t->tracks[k].count : 0;
  struct tg__hta_event *const work = tg__realloc(NULL, (most + 1) * sizeof *work);
  *count = 0;
  for (uint32_t k = r->first_track; work && k < r->first_track + r->track_count; k++)
    for (uint32_t i = t->tracks[k].first; is_device(t, k) && i < t->tracks[k].first + t->tracks[k].count; i++)
      if (tg__hta_is_row(x->hta, i) && tg__rows_on_side(x->rows, &(struct tg__hta_row){.slice = i}))
        work[(*count)++] = (struct tg__hta_event){t->slices.args[i], i};
  return work;
}

static bool show_work(struct listing *l, const struct tg__hta_event *work, size_t count, size_t most) {
  struct tg__exact *const x = l->x;
  x->count = x->shown = count < most ? count : most;
  l->cap[0] = l->cap[1] = x->count + 1;
  x->slice = tg__realloc(NULL, l->cap[0] * sizeof *x->slice);
  x->index = tg__realloc(NULL, l->cap[1] * sizeof *x->index);
  if (!x->slice || !x->index) return false;
  for (size_t i = 0; i < x->shown; i++) {
    x->slice[i] = work[i].slice;
    x->index[i] = tg__file_order_of(&l->order, work[i].args);
  }
  return true;
}

static bool find_ids(struct listing *l) {
  struct tg__exact *const x = l->x;
  l->cap[2] = l->cap[3] = x->count + 1;
  x->correlation = tg__realloc(NULL, l->cap[2] * sizeof *x->correlation);
  x->is_gpu = tg__realloc(NULL, l->cap[3] * sizeof *x->is_gpu);
  if (!x->correlation || !x->is_gpu) return false;
  for (size_t i = 0; i < x->count; i++) x->correlation[i] = tg__exact_id(x, x->slice[i], &x->is_gpu[i]);
  return true;
}

/* One more row that is not shown. */
static void add_other(struct listing *l, uint32_t slice, int64_t id, bool is_gpu) {
  struct tg__exact *const x = l->x;
  const size_t want = x->count + 1;
  l->failed |= !tg__grow((void **)&x->slice, &l->cap[0], want, sizeof *x->slice) ||
               !tg__grow((void **)&x->index, &l->cap[1], want, sizeof *x->index) ||
               !tg__grow((void **)&x->correlation, &l->cap[2], want, sizeof *x->correlation) ||
               !tg__grow((void **)&x->is_gpu, &l->cap[3], want, sizeof *x->is_gpu);
  if (l->failed) return;
  x->slice[x->count] = slice;
  x->index[x->count] = tg__file_order_of(&l->order, x->t->slices.args[slice]);
  x->correlation[x->count] = id;
  x->is_gpu[x->count++] = is_gpu;
}

static void add_others_of(struct listing *l, const struct tg__wanted *w, uint32_t track) {
  const struct tg__track *const k = &l->x->t->tracks[track];
  for (uint32_t i = k->first; i < k->first + k->count && !l->failed; i++) {
    bool is_gpu;
    const int64_t id = tg__exact_id(l->x, i, &is_gpu);
    if (id != -1 && tg__is_wanted(w, id) && tg__hta_is_row(l->x->hta, i)) add_other(l, i, id, is_gpu);
  }
}

/* Every row that may be the partner of one that is shown, then the links. */
static bool find_partners(struct listing *l, bool all_shown) {
  const struct tg__columns *const t = l->x->t;
  const struct tg__rank *const r = &t->ranks[l->x->rank];
  struct tg__wanted w = {0};
  bool ok = find_ids(l) && tg__wanted_open(&w, l->x);
  for (uint32_t k = r->first_track; ok && k < r->first_track + r->track_count; k++)
    if (!all_shown || !is_device(t, k)) add_others_of(l, &w, k);
  ok = ok && !l->failed && tg__exact_link(l->x, &w);
  tg__wanted_close(&w);
  return ok;
}

bool tg__exact_device(struct tg__exact *x, size_t most, bool links, bool *listed) {
  struct listing l = {.x = x};
  size_t count = 0;
  *listed = tg__file_order_open(&l.order, x->t, x->rank);
  struct tg__hta_event *const work = *listed ? list_work(x, &count) : NULL;
  bool ok = !*listed || (work && tg__hta_sort_events(work, count) && show_work(&l, work, count, most));
  if (ok && *listed && links && x->shown) ok = find_partners(&l, x->shown == count);
  tg__free(work);
  tg__file_order_close(&l.order);
  return ok;
}
