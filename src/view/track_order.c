/* track_order: the tracks as people look for them. */
#include "view/view.h"

struct ordering {
  const struct tg__view *v;
  const uint32_t *steps; /* of each track */
};

static int64_t compare(int64_t a, int64_t b) { return (a > b) - (a < b); }

static int kind_place(enum tg__track_kind kind) {
  switch (kind) {
  case TG__TRACK_CPU:
    return 0;
  case TG__TRACK_DEVICE:
    return 1;
  case TG__TRACK_ASYNC:
    return 2;
  default:
    return 3;
  }
}

static bool comes_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct ordering *const o = ctx;
  const struct tg__track *const x = &o->v->trace->tracks[a], *const y = &o->v->trace->tracks[b];
  int64_t order = compare(x->rank, y->rank);
  if (!order) order = compare(kind_place(x->kind), kind_place(y->kind));
  if (!order && x->kind == TG__TRACK_CPU) order = -compare(o->steps[a], o->steps[b]);
  if (!order && x->kind == TG__TRACK_DEVICE) order = compare(x->device, y->device);
  if (!order && x->kind == TG__TRACK_DEVICE) order = compare(x->stream, y->stream);
  if (!order) order = compare(x->sort_index, y->sort_index);
  if (!order && x->kind == TG__TRACK_CPU) order = -compare(x->count, y->count);
  return order < 0;
}

uint32_t tg__view_order(const struct tg__view *v, uint32_t *order) {
  const struct tg__columns *const t = v->trace;
  uint32_t *const steps = tg__alloc((t->track_count + 1) * sizeof *steps);
  if (!steps) return TG_NONE;
  for (uint32_t i = 0; i < t->step_count; i++)
    if (t->steps[i].slice < t->slices.count) steps[tg__slice_track(t, t->steps[i].slice)]++;
  uint32_t count = 0;
  for (uint32_t k = 0; k < t->track_count; k++)
    if (t->tracks[k].count) order[count++] = k;
  const struct ordering o = {v, steps};
  const bool ok = tg__sort_index(order, count, comes_before, &o);
  tg__free(steps);
  return ok ? count : TG_NONE;
}
