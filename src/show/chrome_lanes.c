/* Which slices of a track stay on its tid when not all of them nest. Slices that readers of Chrome traces compute from
 * stay together: operators, annotations, calls and kernels are placed first, Python frames (device tracks: copies of
 * annotations) after them, where they nest with everything that is there. A frame that reaches from one step into the
 * next is moved, not the steps. */
#include "show/chrome_track.h"

/* The slices placed first, each with the one around it: a tree in order of start. */
struct lane {
  uint32_t *items, *around; /* around: position in items, TG_NONE */
  size_t count, cap, around_cap;
  uint32_t open; /* position of the innermost that is still on */
  int64_t *ends; /* ends of those placed later that are still on */
  size_t end_count, end_cap;
};
struct lanes {
  const struct tg__columns *t;
  struct lane *list;
  size_t count, cap;
};

static bool comes_later(const struct tg__columns *t, uint32_t slice) {
  const enum tg__class c = tg__slice_class(t, slice);
  return c == TG__CLASS_PYTHON || c == TG__CLASS_GPU_ANNOTATION;
}

static bool add_lane(struct lanes *l) {
  void *list = l->list;
  if (!tg__grow(&list, &l->cap, l->count + 1, sizeof *l->list)) return false;
  l->list = list;
  l->list[l->count++] = (struct lane){.open = TG_NONE};
  return true;
}

static int64_t end_of(const struct lanes *l, const struct lane *lane, uint32_t at) {
  return tg__slice_end(l->t, lane->items[at]);
}

/* Slices come in order of start, longer ones first. */
static bool fits_first(const struct lanes *l, struct lane *lane, uint32_t slice) {
  while (lane->open != TG_NONE && end_of(l, lane, lane->open) <= l->t->slices.start_ns[slice])
    lane->open = lane->around[lane->open];
  return lane->open == TG_NONE || end_of(l, lane, lane->open) >= tg__slice_end(l->t, slice);
}

static bool put_first(struct lane *lane, uint32_t slice) {
  void *items = lane->items, *around = lane->around;
  if (!tg__grow(&items, &lane->cap, lane->count + 1, sizeof *lane->items)) return false;
  lane->items = items;
  if (!tg__grow(&around, &lane->around_cap, lane->count + 1, sizeof *lane->around)) return false;
  lane->around = around;
  lane->items[lane->count] = slice;
  lane->around[lane->count] = lane->open;
  lane->open = (uint32_t)lane->count++;
  return true;
}

/* The innermost of those placed first that is on at ns and began before it; TG_NONE. */
static uint32_t on_at(const struct lanes *l, const struct lane *lane, int64_t ns) {
  size_t low = 0;
  TG__PARTITION(low, lane->count, i, l->t->slices.start_ns[lane->items[i]] < ns);
  uint32_t at = low ? (uint32_t)(low - 1) : TG_NONE;
  while (at != TG_NONE && end_of(l, lane, at) <= ns) at = lane->around[at];
  return at;
}

/* Overlap in part means: one that is on at the start ends inside, or one that is on at the end began inside. */
static bool fits_later(const struct lanes *l, struct lane *lane, uint32_t slice) {
  const int64_t start = l->t->slices.start_ns[slice], end = tg__slice_end(l->t, slice);
  const uint32_t before = on_at(l, lane, start), after = on_at(l, lane, end);
  if (before != TG_NONE && end_of(l, lane, before) < end) return false;
  if (after != TG_NONE && l->t->slices.start_ns[lane->items[after]] > start) return false;
  while (lane->end_count && lane->ends[lane->end_count - 1] <= start) lane->end_count--;
  return !lane->end_count || lane->ends[lane->end_count - 1] >= end;
}

static bool put_later(const struct lanes *l, struct lane *lane, uint32_t slice) {
  void *ends = lane->ends;
  if (!tg__grow(&ends, &lane->end_cap, lane->end_count + 1, sizeof *lane->ends)) return false;
  lane->ends = ends;
  lane->ends[lane->end_count++] = tg__slice_end(l->t, slice);
  return true;
}

/* The first lane that has room; a track that needs more than there are gets the rest in the last one. */
static bool place(struct lanes *l, uint32_t slice, bool later, uint16_t *out) {
  size_t k = 0;
  for (; k < l->count && k < TG__CHROME_LANES - 1; k++) {
    if (later ? fits_later(l, &l->list[k], slice) : fits_first(l, &l->list[k], slice)) break;
  }
  if (k == l->count && !add_lane(l)) return false;
  *out = (uint16_t)k;
  return later ? put_later(l, &l->list[k], slice) : put_first(&l->list[k], slice);
}

uint16_t *tg__chrome_lanes(const struct tg__columns *t, const struct tg__track *track) {
  struct lanes l = {.t = t};
  uint16_t *out = tg__alloc(((size_t)track->count + 1) * sizeof *out);
  bool ok = out != NULL;
  for (int pass = 0; pass < 2; pass++) {
    for (uint32_t i = 0; ok && i < track->count; i++) {
      if (comes_later(t, track->first + i) == (pass == 1)) ok = place(&l, track->first + i, pass == 1, &out[i]);
    }
  }
  for (size_t k = 0; k < l.count; k++) {
    tg__free(l.list[k].items);
    tg__free(l.list[k].around);
    tg__free(l.list[k].ends);
  }
  tg__free(l.list);
  if (ok) return out;
  tg__free(out);
  return NULL;
}
