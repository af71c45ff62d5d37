/* interval: sets of time as sorted, disjoint [start, end). */
#include "analyze/analyze.h"

static void append(struct tg__spans *s, int64_t start, int64_t end) {
  if (TG_UNLIKELY(s->count == s->cap) && !tg__grow((void **)&s->items, &s->cap, s->count + 1, sizeof *s->items)) {
    s->failed = true;
    return;
  }
  s->items[s->count++] = (struct tg__span){start, end};
}

void tg__spans_add(struct tg__spans *s, int64_t start, int64_t end) {
  if (start >= end) return;
  if (s->count > 0) { /* most input comes in order: joining here keeps the list short before it is sorted */
    struct tg__span *last = &s->items[s->count - 1];
    if (start >= last->start && start <= last->end) {
      if (end > last->end) last->end = end;
      return;
    }
  }
  append(s, start, end);
}

void tg__spans_add_all(struct tg__spans *s, const struct tg__spans *of) {
  for (size_t i = 0; i < of->count; i++) tg__spans_add(s, of->items[i].start, of->items[i].end);
}

static void merge(const struct tg__span *a, const struct tg__span *a_end, const struct tg__span *b_end,
                  struct tg__span *out) {
  const struct tg__span *b = a_end;
  while (a < a_end && b < b_end) *out++ = b->start < a->start ? *b++ : *a++;
  while (a < a_end) *out++ = *a++;
  while (b < b_end) *out++ = *b++;
}

/* The end of the ascending run that starts at `from`. */
static size_t run_end(const struct tg__span *items, size_t from, size_t count) {
  size_t i = from + 1;
  while (i < count && items[i - 1].start <= items[i].start) i++;
  return i < count ? i : count;
}

/* Natural merge sort: input is a few sorted tracks behind one another, so log2(tracks) passes are enough. */
static bool sort_spans(struct tg__spans *s) {
  struct tg__span *spare = NULL;
  while (run_end(s->items, 0, s->count) < s->count) {
    if (!spare && !(spare = tg__alloc(s->cap * sizeof *spare))) return false;
    for (size_t from = 0; from < s->count;) {
      const size_t middle = run_end(s->items, from, s->count);
      const size_t to = middle < s->count ? run_end(s->items, middle, s->count) : middle;
      merge(s->items + from, s->items + middle, s->items + to, spare + from);
      from = to;
    }
    struct tg__span *sorted = spare;
    spare = s->items;
    s->items = sorted;
  }
  tg__free(spare);
  return true;
}

void tg__spans_union(struct tg__spans *s) {
  if (s->count < 2) return;
  if (!sort_spans(s)) {
    s->failed = true;
    return;
  }
  size_t kept = 0;
  for (size_t i = 1; i < s->count; i++) {
    struct tg__span *last = &s->items[kept];
    const struct tg__span next = s->items[i];
    if (next.start > last->end) {
      s->items[++kept] = next;
    } else if (next.end > last->end) {
      last->end = next.end;
    }
  }
  s->count = kept + 1;
}

void tg__spans_intersect(const struct tg__spans *a, const struct tg__spans *b, struct tg__spans *out) {
  out->count = 0;
  size_t i = 0, j = 0;
  while (i < a->count && j < b->count) {
    const struct tg__span x = a->items[i], y = b->items[j];
    const int64_t start = x.start > y.start ? x.start : y.start;
    const int64_t end = x.end < y.end ? x.end : y.end;
    if (start < end) append(out, start, end);
    if (x.end < y.end) {
      i++;
    } else {
      j++;
    }
  }
}

void tg__spans_subtract(const struct tg__spans *a, const struct tg__spans *b, struct tg__spans *out) {
  out->count = 0;
  size_t first = 0; /* of b: everything before it ends before the current span of a starts */
  for (size_t i = 0; i < a->count; i++) {
    int64_t start = a->items[i].start;
    const int64_t end = a->items[i].end;
    while (first < b->count && b->items[first].end <= start) first++;
    for (size_t j = first; j < b->count && b->items[j].start < end; j++) {
      if (b->items[j].start > start) append(out, start, b->items[j].start);
      if (b->items[j].end > start) start = b->items[j].end;
    }
    if (start < end) append(out, start, end);
  }
}

bool tg__spans_take(struct tg__spans *left, const struct tg__spans *s, struct tg__spans *part) {
  struct tg__spans rest = {0};
  tg__spans_intersect(left, s, part);
  tg__spans_subtract(left, part, &rest);
  const bool ok = !left->failed && !part->failed && !rest.failed;
  tg__spans_free(left);
  *left = rest;
  return ok;
}

int64_t tg__spans_length(const struct tg__spans *s) {
  uint64_t length = 0;
  for (size_t i = 0; i < s->count; i++) length += (uint64_t)s->items[i].end - (uint64_t)s->items[i].start;
  return length > INT64_MAX ? INT64_MAX : (int64_t)length;
}

int64_t tg__spans_inside(const struct tg__spans *s, int64_t start, int64_t end) {
  size_t low = 0; /* first span that ends after `start` */
  TG__PARTITION(low, s->count, i, s->items[i].end <= start);
  uint64_t length = 0;
  for (size_t i = low; i < s->count && s->items[i].start < end; i++) {
    const int64_t from = s->items[i].start > start ? s->items[i].start : start;
    const int64_t to = s->items[i].end < end ? s->items[i].end : end;
    if (from < to) length += (uint64_t)to - (uint64_t)from;
  }
  return length > INT64_MAX ? INT64_MAX : (int64_t)length;
}

void tg__spans_free(struct tg__spans *s) {
  tg__free(s->items);
  *s = (struct tg__spans){0};
}
