/* sort_tracks: the slices of a track by (start ↑, duration ↓, file order), marks by (time, file order).
 *
 * Recorders write events nearly in order, out of it only within a step or a buffer, so: short sorted runs, then
 * merging of neighbours that first skips what is in place already. An index is sorted, then each column is permuted
 * once. */
#include "trace/import.h"
#include "trace/store.h"

enum { RUN = 32 };

struct order {
  const int64_t *start, *dur; /* dur NULL: marks */
  const uint32_t *args;
  uint32_t *index, *temp;
};

static inline bool slice_comes_before(const struct order *o, uint32_t a, uint32_t b) {
  if (o->start[a] != o->start[b]) return o->start[a] < o->start[b];
  if (o->dur && o->dur[a] != o->dur[b]) return o->dur[a] > o->dur[b];
  return o->args[a] < o->args[b];
}

static bool in_order(const struct order *o, uint32_t n) {
  for (uint32_t i = 1; i < n; i++)
    if (slice_comes_before(o, i, i - 1)) return false;
  return true;
}

static void insertion_sort(const struct order *o, uint32_t from, uint32_t to) {
  for (uint32_t i = from + 1; i < to; i++) {
    const uint32_t x = o->index[i];
    uint32_t j = i;
    for (; j > from && slice_comes_before(o, x, o->index[j - 1]); j--) o->index[j] = o->index[j - 1];
    o->index[j] = x;
  }
}

/* First position in [from, to) with an element not before x (after = false) or after x (after = true). */
static uint32_t find_place(const struct order *o, uint32_t from, uint32_t to, uint32_t x, bool after) {
  while (from < to) {
    const uint32_t mid = from + (to - from) / 2;
    const bool left = after ? !slice_comes_before(o, x, o->index[mid]) : slice_comes_before(o, o->index[mid], x);
    if (left)
      from = mid + 1;
    else
      to = mid;
  }
  return from;
}

static void merge_runs(const struct order *o, uint32_t from, uint32_t mid, uint32_t to) {
  uint32_t *x = o->index;
  if (!slice_comes_before(o, x[mid], x[mid - 1])) return;
  from = find_place(o, from, mid, x[mid], true);
  to = find_place(o, mid, to, x[mid - 1], false);
  const uint32_t left = mid - from;
  memcpy(o->temp, x + from, left * sizeof *x);
  uint32_t i = 0, j = mid, k = from;
  while (i < left && j < to) x[k++] = slice_comes_before(o, x[j], o->temp[i]) ? x[j++] : o->temp[i++];
  memcpy(x + k, o->temp + i, (left - i) * sizeof *x);
}

static void sort_index(const struct order *o, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) o->index[i] = i;
  for (uint64_t i = 0; i < n; i += RUN) insertion_sort(o, (uint32_t)i, (uint32_t)(i + RUN < n ? i + RUN : n));
  for (uint64_t width = RUN; width < n; width *= 2)
    for (uint64_t i = 0; i + width < n; i += 2 * width)
      merge_runs(o, (uint32_t)i, (uint32_t)(i + width), (uint32_t)(i + 2 * width < n ? i + 2 * width : n));
}

static void permute(char *column, size_t width, const uint32_t *index, uint32_t n, char *temp) {
  switch (width) { /* constant widths make the copies single moves */
#define PERMUTE(type)                                                                                                  \
  for (uint32_t i = 0; i < n; i++) ((type *)(void *)temp)[i] = ((const type *)(const void *)column)[index[i]];         \
  break
  case 8:
    PERMUTE(uint64_t);
  case 4:
    PERMUTE(uint32_t);
  case 2:
    PERMUTE(uint16_t);
  default:
    PERMUTE(uint8_t);
#undef PERMUTE
  }
  memcpy(column, temp, n * width);
}

static enum tg_err sort_slices_or_marks(struct tg__columns *t, bool marks, uint32_t first, uint32_t n) {
  struct order o = {.start = (marks ? t->marks.ts_ns : t->slices.start_ns) + first,
                    .dur = marks ? NULL : t->slices.dur_ns + first,
                    .args = (marks ? t->marks.args : t->slices.args) + first};
  if (n < 2 || in_order(&o, n)) return TG_OK;
  const size_t bytes = (size_t)n * 8;
  char *temp = tg__pages_get(bytes);
  o.index = tg__pages_get(bytes / 2);
  o.temp = (uint32_t *)(void *)temp;
  enum tg_err err = TG_MEMORY;
  if (temp && o.index) {
    sort_index(&o, n);
    for (size_t c = 0; c < TG__COLUMN_COUNT; c++) {
      const struct tg__stored_column *info = &tg__stored_columns[c];
      const bool derived = info->bit & (TG__COL_PARENT | TG__COL_DEPTH | TG__COL_LANE | TG__COL_CAUSE);
      if (info->of_marks == marks && !derived)
        permute((char *)*tg__column_place(t, info) + (size_t)first * info->width, info->width, o.index, n, temp);
    }
    err = TG_OK;
  }
  tg__pages_drop(temp, bytes);
  tg__pages_drop(o.index, bytes / 2);
  return err;
}

enum tg_err tg__sort_track(struct tg__columns *t, const struct tg__track *track) {
  return sort_slices_or_marks(t, false, track->first, track->count);
}
enum tg_err tg__sort_marks(struct tg__columns *t, uint32_t first, uint32_t count) {
  return sort_slices_or_marks(t, true, first, count);
}
