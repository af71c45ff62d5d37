/* Ordinals of events by counting bits: 23 bits an event or so, where sorting them takes 8 bytes each, twice. */
#include "analyze/overview/file_order.h"

struct bounds {
  uint32_t least, most;
};

static void find_bounds(const uint32_t *args, struct tg__extent run, struct bounds *r) {
  TG__EACH (i, run) {
    if (args[i] < r->least) r->least = args[i];
    if (args[i] > r->most) r->most = args[i];
  }
}

static bool mark_taken(struct tg__file_order *o, const uint32_t *args, struct tg__extent run) {
  TG__EACH (i, run) {
    const uint32_t at = args[i] - o->least;
    const uint64_t bit = (uint64_t)1 << at % 64;
    if (o->bits[at / 64] & bit) return false;
    o->bits[at / 64] |= bit;
  }
  return true;
}

bool tg__file_order_open(struct tg__file_order *o, const struct tg__columns *t, uint32_t rank) {
  const struct tg__extent slices = tg__rank_slices(t, rank), marks = tg__rank_marks(t, rank);
  const size_t events = (size_t)(slices.past - slices.first) + (marks.past - marks.first);
  struct bounds bounds = {UINT32_MAX, 0};
  *o = (struct tg__file_order){0};
  find_bounds(t->slices.args, slices, &bounds);
  find_bounds(t->marks.args, marks, &bounds);
  o->least = events ? bounds.least : 0;
  o->words = events ? (size_t)(bounds.most - bounds.least) / 64 + 1 : 1;
  if (o->words > events + 1024) return false;
  o->bits = tg__alloc(o->words * sizeof *o->bits);
  o->taken = tg__realloc(NULL, o->words * sizeof *o->taken);
  if (!o->bits || !o->taken || !mark_taken(o, t->slices.args, slices) || !mark_taken(o, t->marks.args, marks))
    return false;
  for (size_t w = 0, sum = 0; w < o->words; w++) {
    o->taken[w] = (uint32_t)sum;
    sum += (size_t)__builtin_popcountll(o->bits[w]);
  }
  return true;
}

void tg__file_order_close(struct tg__file_order *o) {
  tg__free(o->bits);
  tg__free(o->taken);
  *o = (struct tg__file_order){0};
}
