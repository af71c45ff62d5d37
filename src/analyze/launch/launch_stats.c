/* The question launch_stats: launch calls beside what they launched. */
#include "analyze/device/device_rows.h"

enum by { BY_RANK, BY_KERNEL, BY_CALL, BY_EVENT };

struct row {
  uint32_t name; /* string id of the kernel or the call; TG_NONE for by=rank */
  int64_t launches, call_ns, device_ns, delay_ns, short_kernels, call_outliers, delay_outliers;
};
struct work {
  struct tg_table *out;
  enum by by;
  bool copies;
  int64_t call_limit_ns, delay_limit_ns;
  struct row *rows;
  struct tg__map row_of;
  size_t count, cap;
};

static void count_pair(const struct work *w, struct row *r, const struct tg__launch_pair *p) {
  const int64_t call = p->call_end_ns - p->call_start_ns, device = p->end_ns - p->start_ns;
  const int64_t wait = p->start_ns - p->call_end_ns, delay = wait > 0 ? wait : 0; /* it may start before the call has returned */
  r->launches++;
  r->call_ns += call;
  r->device_ns += device;
  r->delay_ns += delay;
  r->short_kernels += call <= w->call_limit_ns && device < call;
  r->call_outliers += call > w->call_limit_ns;
  r->delay_outliers += delay > w->delay_limit_ns;
}

static void put_row(struct work *w, const struct tg__device_rows *d, const struct row *r, uint32_t call, uint32_t kernel) {
  tg__put_rank(w->out, d->t, d->rank);
  tg__put_trace_text(w->out, d->t, call);
  tg__put_trace_text(w->out, d->t, kernel);
  tg__put_null(w->out); /* correlation */
  tg__put_int(w->out, r->launches);
  tg__put_int(w->out, r->call_ns);
  tg__put_int(w->out, r->device_ns);
  tg__put_int(w->out, r->delay_ns);
  tg__put_int(w->out, r->short_kernels);
  tg__put_int(w->out, r->call_outliers);
  tg__put_int(w->out, r->delay_outliers);
}

static struct row *row_of(struct work *w, uint32_t name) {
  uint32_t *slot = tg__map_slot(&w->row_of, name, TG_NONE);
  if (!slot) return NULL;
  if (*slot == TG_NONE) {
    if (!tg__grow((void **)&w->rows, &w->cap, w->count + 1, sizeof *w->rows)) return NULL;
    *slot = (uint32_t)w->count;
    w->rows[w->count++] = (struct row){.name = name};
  }
  return &w->rows[*slot];
}

/* hta leaves copies out by the name of the call, before the pairs are made. */
static bool is_left_out(const struct work *w, const struct tg__device_rows *d, size_t pair) {
  if (!tg__device_is_pair(d, pair)) return true;
  if (w->copies || d->rules != TG__RULES_EXACT) return false;
  const enum tg__class cls = tg__slice_class(d->t, d->rows[pair].slice);
  return cls == TG__CLASS_MEMCPY || cls == TG__CLASS_MEMSET;
}

static bool longer_first(uint32_t a, uint32_t b, const void *ctx) {
  const struct row *x = &((const struct row *)ctx)[a], *y = &((const struct row *)ctx)[b];
  return x->call_ns > y->call_ns;
}

static bool put_rows(struct work *w, const struct tg__device_rows *d) {
  uint32_t *order = tg__alloc((w->count + 1) * sizeof *order);
  bool ok = order != NULL;
  for (size_t i = 0; ok && i < w->count; i++) order[i] = (uint32_t)i;
  ok = ok && tg__sort_index(order, w->count, longer_first, w->rows);
  for (size_t i = 0; ok && i < w->count; i++) {
    const struct row *r = &w->rows[order[i]];
    put_row(w, d, r, w->by == BY_CALL ? r->name : TG_NONE, w->by == BY_KERNEL ? r->name : TG_NONE);
  }
  tg__free(order);
  return ok;
}

/* ---- by=event: a row a launch, written column by column -------------------------------------------------------------------------- */

enum { RANK, CALL, KERNEL, CORRELATION, LAUNCHES, CALL_NS, DEVICE_NS, DELAY_NS, SHORT, CALL_OUTLIERS, DELAY_OUTLIERS };

static int64_t figure_of(const struct work *w, const struct tg__device_rows *d, unsigned column, const struct tg__launch_pair *p) {
  struct row one = {0};
  if (column == CORRELATION) return tg__pair_correlation(d, p);
  count_pair(w, &one, p);
  switch (column) {
  case RANK:
    return tg__rank_number(d->t, d->rank);
  case LAUNCHES:
    return one.launches;
  case CALL_NS:
    return one.call_ns;
  case DEVICE_NS:
    return one.device_ns;
  case DELAY_NS:
    return one.delay_ns;
  case SHORT:
    return one.short_kernels;
  case CALL_OUTLIERS:
    return one.call_outliers;
  default:
    return one.delay_outliers;
  }
}

/* The cells of `count` rows from `first` on. */
static void put_cells(struct work *w, const struct tg__device_rows *d, const struct tg__launch_pair *pairs, size_t first, size_t count,
                      unsigned column) {
  const struct tg__column *const out = &w->out->columns[column];
  for (size_t i = 0; i < count; i++)
    if (out->type == TG_TEXT)
      out->texts[first + i] = tg__table_text(w->out, d->t, d->t->slices.name[column == CALL ? pairs[i].call : pairs[i].slice]);
    else
      out->ints[first + i] = figure_of(w, d, column, &pairs[i]);
}

/* So many rows at a time that what they are made of, which lies far apart, is looked up once and stays in the cache meanwhile. */
static void put_columns(struct work *w, const struct tg__device_rows *d, const uint32_t *pairs, size_t count) {
  enum { AT_ONCE = 128 };
  struct tg__launch_pair at_once[AT_ONCE];
  for (size_t done = 0, some; done < count; done += some) {
    some = count - done < AT_ONCE ? count - done : AT_ONCE;
    for (size_t i = 0; i < some; i++) at_once[i] = tg__device_pair(d, pairs[done + i]);
    for (unsigned c = 0; c <= DELAY_OUTLIERS; c++)
      if (!w->out->columns[c].is_left_out) put_cells(w, d, at_once, w->out->rows + done, some, c);
  }
  tg__table_wrote_rows(w->out, count);
}

static bool put_events(struct work *w, const struct tg__device_rows *d) {
  uint32_t *const pairs = tg__realloc(NULL, (d->pair_count + 1) * sizeof *pairs);
  size_t count = 0;
  for (size_t i = 0; pairs && i < d->pair_count; i++)
    if (!is_left_out(w, d, i)) pairs[count++] = (uint32_t)i;
  const bool ok = pairs && tg__table_reserve(w->out, w->out->rows + count);
  if (ok) put_columns(w, d, pairs, count);
  tg__free(pairs);
  return ok;
}

/* ---- sums ------------------------------------------------------------------------------------------------------------------------- */

static bool launches_of_rank(struct tg__device_rows *d, void *ctx) {
  struct work *w = ctx;
  if (!tg__device_pairs(d, w->copies ? TG__PAIRS_STATS : TG__PAIRS_STATS_KERNELS)) return false;
  if (w->by == BY_EVENT) return put_events(w, d);
  w->count = 0;
  tg__map_free(&w->row_of);
  if (w->by == BY_RANK && !row_of(w, TG_NONE)) return false; /* a rank without launches has a row, too */
  for (size_t i = 0; i < d->pair_count; i++) {
    if (is_left_out(w, d, i)) continue;
    const struct tg__launch_pair p = tg__device_pair(d, i);
    const uint32_t call = d->t->slices.name[p.call], kernel = d->t->slices.name[p.slice];
    struct row *r = row_of(w, w->by == BY_CALL ? call : w->by == BY_KERNEL ? kernel : TG_NONE);
    if (!r) return false;
    count_pair(w, r, &p);
  }
  return put_rows(w, d);
}

enum tg_err tg__answer_launch_stats(const struct tg_trace *t, const struct tg__ask *a, struct tg_table *out, struct tg_error *e) {
  static const char *const choices[] = {[BY_RANK] = "rank", [BY_KERNEL] = "kernel", [BY_CALL] = "call", [BY_EVENT] = "event"};
  struct work w = {.out = out};
  enum tg__rules rules;
  size_t by;
  int64_t memory;
  enum tg_err err = tg__ask_choice(a, "by", choices, sizeof choices / sizeof *choices, &by, e);
  if (!err) err = tg__ask_rules(a, &rules, e);
  if (!err) err = tg__ask_us(a, "call_us", &w.call_limit_ns, e);
  if (!err) err = tg__ask_us(a, "delay_us", &w.delay_limit_ns, e);
  if (!err) err = tg__ask_whole(a, "memory", &memory, e);
  if (err) return err;
  w.by = (enum by)by;
  w.copies = memory != 0;
  err = tg__device_each_rank(t, a, rules, launches_of_rank, &w, e);
  tg__map_free(&w.row_of);
  tg__free(w.rows);
  return err;
}
