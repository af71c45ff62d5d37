/* Stable sort of indexes, and by them of items: a natural merge sort. Input that is nearly in order is a few long
 * runs, and merging two runs touches only the part where they interleave. */
#include "base/base.h"

enum { RUN_MIN = 24 }; /* shorter runs are lengthened by insertion, which is cheaper than merging at that size */

struct sorter {
  uint32_t *items, *spare;
  tg__less *less;
  const void *ctx;
};

/* Upper bound by binary search: first position in [from, to) with an element after `key`. */
static size_t after_key(const struct sorter *s, size_t from, size_t to, uint32_t key) {
  while (from < to) {
    const size_t middle = from + (to - from) / 2;
    if (s->less(key, s->items[middle], s->ctx))
      to = middle;
    else
      from = middle + 1;
  }
  return from;
}

/* Lower bound: first position in [from, to) with an element not before `key`. */
static size_t not_before_key(const struct sorter *s, size_t from, size_t to, uint32_t key) {
  while (from < to) {
    const size_t middle = from + (to - from) / 2;
    if (s->less(s->items[middle], key, s->ctx))
      from = middle + 1;
    else
      to = middle;
  }
  return from;
}

static size_t run_end(const struct sorter *s, size_t start, size_t n) {
  size_t end = start + 1;
  while (end < n && !s->less(s->items[end], s->items[end - 1], s->ctx)) end++;
  const size_t wanted = n - start < RUN_MIN ? n : start + RUN_MIN;
  for (; end < wanted; end++) {
    const uint32_t key = s->items[end];
    const size_t place = after_key(s, start, end, key);
    memmove(&s->items[place + 1], &s->items[place], (end - place) * sizeof key);
    s->items[place] = key;
  }
  return end;
}

static void merge_pair_of_runs(const struct sorter *s, size_t start, size_t middle, size_t end) {
  start = after_key(s, start, middle, s->items[middle]);
  if (start == middle) return;
  end = not_before_key(s, middle, end, s->items[middle - 1]);
  const size_t left_count = middle - start;
  memcpy(s->spare, &s->items[start], left_count * sizeof *s->spare);
  size_t left = 0, right = middle, out = start;
  while (left < left_count && right < end) {
    if (s->less(s->items[right], s->spare[left], s->ctx))
      s->items[out++] = s->items[right++];
    else
      s->items[out++] = s->spare[left++];
  }
  memcpy(&s->items[out], &s->spare[left], (left_count - left) * sizeof *s->spare);
}

/* Merge neighbouring runs until one is left. ends[i] is where run i ends. */
static void merge_runs(const struct sorter *s, size_t *ends, size_t count) {
  while (count > 1) {
    size_t kept = 0, start = 0;
    for (size_t i = 0; i + 1 < count; i += 2) {
      merge_pair_of_runs(s, start, ends[i], ends[i + 1]);
      start = ends[i + 1];
      ends[kept++] = start;
    }
    if (count & 1) ends[kept++] = ends[count - 1];
    count = kept;
  }
}

bool tg__sort_index(uint32_t *index, size_t n, tg__less *less, const void *ctx) {
  if (n < 2) return true;
  struct sorter s = {index, NULL, less, ctx};
  const size_t first = run_end(&s, 0, n);
  if (first == n) return true;
  bool ok = false;
  size_t *ends = tg__realloc(NULL, (n / RUN_MIN + 2) * sizeof *ends);
  s.spare = tg__realloc(NULL, n * sizeof *s.spare);
  if (!ends || !s.spare) goto done;
  size_t count = 0;
  ends[count++] = first;
  for (size_t start = first; start < n; start = ends[count - 1]) {
    const size_t end = run_end(&s, start, n);
    ends[count++] = end;
  }
  merge_runs(&s, ends, count);
  ok = true;
done:
  tg__free(ends);
  tg__free(s.spare);
  return ok;
}

bool tg__sort_order(uint32_t *order, size_t n, tg__less *less, const void *ctx) {
  for (size_t i = 0; i < n; i++) order[i] = (uint32_t)i;
  return tg__sort_index(order, n, less, ctx);
}

uint32_t *tg__order_new(size_t n, tg__less *less, const void *ctx) {
  uint32_t *const order = tg__realloc(NULL, (n + 1) * sizeof *order);
  if (!order || tg__sort_order(order, n, less, ctx)) return order;
  tg__free(order);
  return NULL;
}

bool tg__sort_items(void **items, size_t n, size_t size, tg__less *less, const void *ctx) {
  uint32_t *const order = tg__order_new(n, less, ctx);
  char *const sorted = order ? tg__realloc(NULL, (n + 1) * size) : NULL;
  const bool done = sorted != NULL;
  for (size_t i = 0; done && i < n; i++) memcpy(sorted + i * size, (const char *)*items + order[i] * size, size);
  tg__free(order);
  tg__free(done ? *items : sorted);
  if (done) *items = sorted;
  return done;
}
