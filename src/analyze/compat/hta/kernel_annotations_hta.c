/* kernel_annotations by HTA's rules: its rows and times, and device work by stream and correlation, synchronisation
 * included. */
#include "analyze/launch/kernel_annotations.h"
#include "analyze/compat/compat.h"
#include "analyze/compat/hta/hta_rows.h"

struct view {
  const struct tg__hta *h;
  const struct tg__hta_rank *rank;
  struct tg__piece *pieces; /* in order of rows */
  uint32_t *track;          /* by piece */
};

static bool hta_starts_before(uint32_t x, uint32_t y, const void *ctx) {
  const struct view *v = ctx;
  if (v->track[x] != v->track[y]) return v->track[x] < v->track[y];
  return v->pieces[x].start_ns < v->pieces[y].start_ns;
}

struct placed_label {
  struct tg__label label;
  uint32_t track;
};
static bool label_before(uint32_t x, uint32_t y, const void *ctx) {
  const struct placed_label *l = ctx;
  return l[x].track < l[y].track;
}

static bool add_piece(const struct tg__hta *h, const struct tg__hta_rank *rank, const struct tg__hta_row *row,
                      struct tg__piece_list *out) {
  if (!tg__grow((void **)&out->items, &out->cap, out->count + 1, sizeof *out->items)) return false;
  const int64_t start = row->ts_us * 1000, dur = tg__hta_dur_ns(h, rank, row);
  out->items[out->count++] = (struct tg__piece){row->slice, TG_NONE, start, start + (dur > 0 ? dur : 0), dur};
  return true;
}

/* Label the pieces of one stream after the other; both lists are sorted by it. */
static bool label_streams(struct view *v, size_t count, const uint32_t *order, const struct placed_label *labels,
                          size_t label_count, const uint32_t *label_order) {
  struct tg__piece *some = tg__alloc((count + 1) * sizeof *some);
  struct tg__label *of_track = tg__alloc((label_count + 1) * sizeof *of_track);
  bool ok = some && of_track;
  for (size_t from = 0, to, at = 0; ok && from < count; from = to) {
    const uint32_t track = v->track[order[from]];
    size_t n = 0;
    for (to = from; to < count && v->track[order[to]] == track; to++) some[to - from] = v->pieces[order[to]];
    while (at < label_count && labels[label_order[at]].track < track) at++;
    for (; at < label_count && labels[label_order[at]].track == track; at++)
      of_track[n++] = labels[label_order[at]].label;
    ok = tg__label_pieces(some, to - from, of_track, n);
    for (size_t i = from; i < to; i++) v->pieces[order[i]].label = some[i - from].label;
  }
  tg__free(some);
  tg__free(of_track);
  return ok;
}

static bool annotate(struct view *v, struct tg__piece_list *out, struct placed_label *labels, size_t label_count) {
  uint32_t *order = NULL, *label_order = tg__order_new(label_count, label_before, labels);
  v->pieces = out->items;
  v->track = tg__alloc((out->count + 1) * sizeof *v->track);
  bool ok = label_order && v->track;
  for (size_t i = 0; ok && i < out->count; i++) v->track[i] = tg__slice_track(v->h->t, out->items[i].slice);
  ok = ok && (order = tg__order_new(out->count, hta_starts_before, v)) != NULL &&
       label_streams(v, out->count, order, labels, label_count, label_order);
  tg__free(order);
  tg__free(label_order);
  tg__free(v->track);
  return ok;
}

/* The pieces of a rank in the order of its rows. It knows no selection of steps here. */
static bool annotate_rank(void *ctx, uint32_t rank, struct tg__piece_list *out, bool *any) {
  const struct tg__hta *const h = ctx;
  struct view v = {.h = h, .rank = &h->ranks[rank]};
  struct placed_label *labels = NULL;
  size_t count = 0, cap = 0;
  bool ok = true;
  for (size_t i = 0; ok && i < v.rank->count; i++) {
    const struct tg__hta_row *row = &v.rank->rows[i];
    if (tg__hta_is_gpu(h, row)) ok = add_piece(h, v.rank, row, out);
    if (tg__slice_class(h->t, row->slice) != TG__CLASS_GPU_ANNOTATION) continue;
    ok = ok && tg__grow((void **)&labels, &cap, count + 1, sizeof *labels);
    const int64_t start = row->ts_us * 1000, end = start + tg__hta_dur_ns(h, v.rank, row);
    if (ok) labels[count++] = (struct placed_label){{row->slice, start, end}, tg__slice_track(h->t, row->slice)};
  }
  *any |= count > 0;
  ok = ok && annotate(&v, out, labels, count);
  tg__free(labels);
  return ok;
}

enum tg_err tg__kernel_annotations_hta(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                       struct tg_error *e) {
  static const char *const sides[] = {"gpu", "cpu"};
  struct tg__hta h = {0};
  size_t cpu;
  enum tg_err err = tg__ask_choice(a, "side", sides, 2, &cpu, e);
  if (err) return err;
  if (cpu)
    return tg__fail(e, TG_USAGE, -1,
                    "HTA has no such numbers for annotations of the CPU: leave out side=cpu or rules=hta");
  err = tg__hta_open(&h, t, a->rank, tg__hta_filter_of(a));
  if (err) tg__no_memory(e, "looking for the annotations of kernels");
  if (!err)
    err = tg__kernel_annotations(t, a, &(struct tg__annotator){annotate_rank, &h, TG__NO_DEVICE_ANNOTATIONS}, out, e);
  tg__hta_close(&h);
  return err;
}
