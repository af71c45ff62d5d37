/* numpy's unstable argsort, step by step: another sort leaves equal keys in another order. */
#include "analyze/table/numpy_sort.h"

enum {
  SMALL = 15,
  PENDING = 128
}; /* parts up to this are sorted by insertion; parts that wait: at most 2 × log2 of all */

struct sorter {
  const int64_t *keys;
  uint32_t *order;
};

static bool less(const struct sorter *s, size_t a, size_t b) { return s->keys[s->order[a]] < s->keys[s->order[b]]; }

static void swap(const struct sorter *s, size_t a, size_t b) {
  const uint32_t was = s->order[a];
  s->order[a] = s->order[b];
  s->order[b] = was;
}

static void insert_all(const struct sorter *s, size_t first, size_t last) {
  for (size_t i = first + 1; i <= last; i++) {
    const uint32_t item = s->order[i];
    size_t at = i;
    for (; at > first && s->keys[item] < s->keys[s->order[at - 1]]; at--) s->order[at] = s->order[at - 1];
    s->order[at] = item;
  }
}

/* Put the median of first, middle and last where it belongs, what is smaller before it; returns its place. */
static size_t split(const struct sorter *s, size_t first, size_t last) {
  const size_t middle = first + (last - first) / 2;
  if (less(s, middle, first)) swap(s, middle, first);
  if (less(s, last, middle)) swap(s, last, middle);
  if (less(s, middle, first)) swap(s, middle, first);
  const int64_t pivot = s->keys[s->order[middle]];
  size_t up = first, down = last - 1;
  swap(s, middle, down);
  for (;;) {
    do up++;
    while (s->keys[s->order[up]] < pivot);
    do down--;
    while (pivot < s->keys[s->order[down]]);
    if (up >= down) break;
    swap(s, up, down);
  }
  swap(s, up, last - 1);
  return up;
}

/* Where splitting does not make the parts small, numpy turns to a heap sort. */
static void sort_rest(const struct sorter *s, size_t first, size_t last) {
  const size_t n = last - first + 1;
  uint32_t *at = s->order + first;
  for (size_t root = n / 2, end = n; end > 1;) {
    if (root > 0)
      root--;
    else
      swap(s, first, first + --end);
    size_t parent = root;
    for (size_t child; (child = 2 * parent + 1) < end; parent = child) {
      if (child + 1 < end && s->keys[at[child]] < s->keys[at[child + 1]]) child++;
      if (s->keys[at[parent]] >= s->keys[at[child]]) break;
      const uint32_t was = at[parent];
      at[parent] = at[child];
      at[child] = was;
    }
  }
}

void tg__numpy_argsort(const int64_t *keys, uint32_t *order, size_t n) {
  const struct sorter s = {keys, order};
  struct {
    size_t first, last;
    int depth;
  } pending[PENDING];
  size_t waiting = 0, first = 0, last = n - 1;
  int depth = 0;
  for (size_t i = 0; i < n; i++) order[i] = (uint32_t)i;
  if (n < 2) return;
  for (size_t k = n; k > 1; k >>= 1) depth += 2;
  for (;;) {
    const bool is_deep = depth < 0;
    while (!is_deep && last - first > SMALL) {
      const size_t at = split(&s, first, last);
      depth--;
      if (at - first < last - at) { /* the larger part waits */
        pending[waiting].first = at + 1;
        pending[waiting].last = last;
        last = at - 1;
      } else {
        pending[waiting].first = first;
        pending[waiting].last = at - 1;
        first = at + 1;
      }
      pending[waiting++].depth = depth;
    }
    if (is_deep)
      sort_rest(&s, first, last);
    else if (last + 1 > first)
      insert_all(&s, first, last);
    if (waiting == 0) return;
    waiting--;
    first = pending[waiting].first;
    last = pending[waiting].last;
    depth = pending[waiting].depth;
  }
}
