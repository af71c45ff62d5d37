/* Links of the rows of the question rows by the exact rules: each row has the last one of the other side with its
 * correlation. */
#include "analyze/compat/hta/rows_exact.h"

/* The last row of one side by correlation. Correlations are numbers in a row as a rule: then each has its place.
 * Else open addressing over row numbers, where neighbouring correlations share a line of the cache, as neighbouring
 * rows have them. */
struct last_rows {
  uint32_t *slots; /* TG_NONE = free; hashed: at most half of them are taken */
  uint64_t mask;   /* 0: not hashed */
  int64_t least;
};
enum { LINE = 16 }; /* slots */

/* ids: correlations that can come up, from `least` to `most`. */
static bool open_last(struct last_rows *l, size_t rows, int64_t least, int64_t most) {
  const uint64_t span = (uint64_t)most - (uint64_t)least;
  const bool is_hashed = span / 4 > rows;
  size_t slots = is_hashed ? LINE : (size_t)span + 1;
  while (is_hashed && slots < 2 * rows) slots *= 2;
  *l = (struct last_rows){tg__realloc(NULL, slots * sizeof *l->slots), is_hashed ? slots - 1 : 0, least};
  if (l->slots) memset(l->slots, 0xff, slots * sizeof *l->slots);
  return l->slots != NULL;
}

/* Where the correlation stands, or the free slot for it. */
static uint32_t *slot_of(const struct last_rows *l, const struct tg__exact *x, int64_t id) {
  if (!l->mask) return &l->slots[id - l->least];
  uint64_t line = (uint64_t)id / LINE * UINT64_C(0x9e3779b97f4a7c15);
  uint64_t at = ((line ^ line >> 32) * LINE + (uint64_t)id % LINE) & l->mask;
  while (l->slots[at] != TG_NONE && x->correlation[l->slots[at]] != id) at = (at + 1) & l->mask;
  return &l->slots[at];
}

bool tg__wanted_open(struct tg__wanted *w, const struct tg__exact *x) {
  size_t bits = 64;
  while (bits < 16 * x->shown) bits *= 2;
  *w = (struct tg__wanted){tg__alloc(bits / 8), bits - 1};
  for (size_t i = 0; w->bits && i < x->shown; i++) {
    const uint64_t at = (uint64_t)x->correlation[tg__exact_row(x, i)] & w->mask;
    w->bits[at / 64] |= (uint64_t)1 << at % 64;
  }
  return w->bits != NULL;
}

void tg__wanted_close(struct tg__wanted *w) { tg__free(w->bits); }

struct census {   /* of the rows with a correlation that is wanted */
  size_t rows[2]; /* by side */
  int64_t least, most;
  bool is_needed[2]; /* a row that is shown has its partner there */
};

static struct census count_rows(const struct tg__exact *x, const struct tg__wanted *w) {
  struct census n = {.least = INT64_MAX, .most = INT64_MIN};
  for (size_t i = 0; i < x->count; i++) {
    const int64_t id = x->correlation[i];
    if (id == -1 || !tg__is_wanted(w, id)) continue;
    n.rows[x->is_gpu[i]]++;
    if (id < n.least) n.least = id;
    if (id > n.most) n.most = id;
  }
  for (size_t i = 0; i < x->shown; i++) n.is_needed[!x->is_gpu[tg__exact_row(x, i)]] = true;
  return n;
}

bool tg__exact_link(struct tg__exact *x, const struct tg__wanted *w) {
  struct last_rows last[2] = {{0}, {0}};
  const struct census n = count_rows(x, w);
  x->link = tg__realloc(NULL, (x->count + 1) * sizeof *x->link);
  bool ok = x->link != NULL;
  for (unsigned side = 0; side < 2; side++)
    if (ok && n.is_needed[side] && n.least <= n.most) ok = open_last(&last[side], n.rows[side], n.least, n.most);
  for (size_t i = 0; ok && i < x->count; i++) {
    const struct last_rows *l = &last[x->is_gpu[i]];
    if (x->correlation[i] == -1 || !l->slots || !tg__is_wanted(w, x->correlation[i])) continue;
    uint32_t *const slot = slot_of(l, x, x->correlation[i]);
    if (*slot == TG_NONE || x->index[*slot] < x->index[i]) *slot = (uint32_t)i;
  }
  for (size_t i = 0; ok && i < x->shown; i++) {
    const size_t row = tg__exact_row(x, i);
    x->link[row] = x->correlation[row] == -1 ? TG_NONE : *slot_of(&last[!x->is_gpu[row]], x, x->correlation[row]);
  }
  tg__free(last[0].slots);
  tg__free(last[1].slots);
  return ok;
}

int64_t tg__exact_id(const struct tg__exact *x, uint32_t slice, bool *is_gpu) {
  int64_t stream, correlation;
  tg__hta_ids(x->hta, slice, &stream, &correlation);
  *is_gpu = tg__hta_is_gpu_row(x->hta, slice, stream, correlation);
  return correlation;
}

bool tg__exact_links(struct tg__exact *x) {
  x->correlation = tg__realloc(NULL, (x->count + 1) * sizeof *x->correlation);
  x->is_gpu = tg__realloc(NULL, x->count + 1);
  if (!x->correlation || !x->is_gpu) return false;
  for (size_t i = 0; i < x->count; i++) x->correlation[i] = tg__exact_id(x, x->slice[i], &x->is_gpu[i]);
  struct tg__wanted w = {0};
  const bool ok = (!x->kept || tg__wanted_open(&w, x)) && tg__exact_link(x, &w);
  tg__wanted_close(&w);
  return ok;
}
