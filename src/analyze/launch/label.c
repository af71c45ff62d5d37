/* Which of many intervals is the shortest that meets a piece of device work. */
#include "analyze/launch/kernel_annotations.h"

struct tree { /* largest end below each node; leaves are pieces; labelled ones have INT64_MIN */
  int64_t *end;
  size_t leaves;
};

static bool is_shorter(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__label *l = ctx;
  return l[a].end_ns - l[a].start_ns < l[b].end_ns - l[b].start_ns;
}

static bool plant(struct tree *t, const struct tg__piece *pieces, size_t count) {
  for (t->leaves = 1; t->leaves < count; t->leaves *= 2) {}
  t->end = tg__alloc(2 * t->leaves * sizeof *t->end);
  if (!t->end) return false;
  for (size_t i = 0; i < t->leaves; i++) t->end[t->leaves + i] = i < count ? pieces[i].end_ns : INT64_MIN;
  for (size_t i = t->leaves - 1; i > 0; i--)
    t->end[i] = t->end[2 * i] > t->end[2 * i + 1] ? t->end[2 * i] : t->end[2 * i + 1];
  return true;
}

static void take_leaf(struct tree *t, size_t leaf) {
  size_t node = t->leaves + leaf;
  t->end[node] = INT64_MIN;
  while (node /= 2) t->end[node] = t->end[2 * node] > t->end[2 * node + 1] ? t->end[2 * node] : t->end[2 * node + 1];
}

/* The first leaf that ends after `ns`; SIZE_MAX. */
static size_t first_beyond(const struct tree *t, int64_t ns) {
  size_t node = 1;
  if (t->end[1] <= ns) return SIZE_MAX;
  while (node < t->leaves) node = t->end[2 * node] > ns ? 2 * node : 2 * node + 1;
  return node - t->leaves;
}

bool tg__label_pieces(struct tg__piece *pieces, size_t count, const struct tg__label *labels, size_t label_count) {
  struct tree t = {0};
  uint32_t *order = tg__order_new(label_count, is_shorter, labels);
  bool ok = order && plant(&t, pieces, count);
  for (size_t i = 0; ok && i < label_count; i++) {
    const struct tg__label *l = &labels[order[i]];
    if (l->end_ns <= l->start_ns) continue;
    for (size_t k; (k = first_beyond(&t, l->start_ns)) < count && pieces[k].start_ns < l->end_ns;) {
      pieces[k].label = l->slice;
      take_leaf(&t, k);
    }
  }
  tg__free(order);
  tg__free(t.end);
  return ok;
}
