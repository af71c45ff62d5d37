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

static struct row figures_of(const struct work *w, const struct tg__launch_pair *p) {
  const int64_t call = p->call_end_ns - p->call_start_ns, device = p->end_ns - p->start_ns;
  const int64_t wait = p->start_ns - p->call_end_ns,
                delay = wait > 0 ? wait : 0; /* it may start before the call has returned */
  return (struct row){.name = TG_NONE,
                      .launches = 1,
                      .call_ns = call,
                      .device_ns = device,
                      .delay_ns = delay,
                      .short_kernels = call <= w->call_limit_ns && device<call, .call_outliers = call> w->call_limit_ns,
                      .delay_outliers = delay > w->delay_limit_ns};
}

static void add_figures(struct row *to, const struct row *one) {
  to->launches += one->launches;
  to->call_ns += one->call_ns;
  to->device_ns += one->device_ns;
  to->delay_ns += one->delay_ns;
  to->short_kernels += one->short_kernels;
  to->call_outliers += one->call_outliers;
  to->delay_outliers += one->delay_outliers;
}

static void put_launch_stats_row(struct work *w, const struct tg__device_rows *d, const struct row *r, uint32_t call,
                                 uint32_t kernel) {
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

static struct row *find_launch_stats_row(struct work *w, uint32_t name) {
  uint32_t *slot = tg__map_slot(&w->row_of, name, TG_NONE);
  if (!slot) return NULL;
  if (*slot == TG_NONE) {
    if (!tg__grow((void **)&w->rows, &w->cap, w->count + 1, sizeof *w->rows)) return NULL;
    *slot = (uint32_t)w->count;
    w->rows[w->count++] = (struct row){.name = name};
  }
  return &w->rows[*slot];
}

/* Rules that list pairs have left copies out. */
static bool is_left_out(const struct work *w, const struct tg__device_rows *d, size_t pair) {
  if (!tg__device_is_pair(d, pair)) return true;
  if (w->copies || d->rules->pair) return false;
  const enum tg__class cls = tg__slice_class(d->t, d->rows[pair].slice);
  return cls == TG__CLASS_MEMCPY || cls == TG__CLASS_MEMSET;
}

static bool longer_first(uint32_t a, uint32_t b, const void *ctx) {
  const struct row *x = &((const struct row *)ctx)[a], *y = &((const struct row *)ctx)[b];
  return x->call_ns > y->call_ns;
}

static bool put_launch_stats_rows(struct work *w, const struct tg__device_rows *d) {
  uint32_t *order = tg__order_new(w->count, longer_first, w->rows);
  bool ok = order != NULL;
  for (size_t i = 0; ok && i < w->count; i++) {
    const struct row *r = &w->rows[order[i]];
    put_launch_stats_row(w, d, r, w->by == BY_CALL ? r->name : TG_NONE, w->by == BY_KERNEL ? r->name : TG_NONE);
  }
  tg__free(order);
  return ok;
}

/* ---- by=event: a row a launch, written column by column -------------------------------------- */

enum {
  RANK,
  CALL,
  KERNEL,
  CORRELATION,
  LAUNCHES,
  CALL_NS,
  DEVICE_NS,
  DELAY_NS,
  SHORT,
  CALL_OUTLIERS,
  DELAY_OUTLIERS,
  COLUMNS,
  AT_ONCE = 128
};

static const size_t figure_at[COLUMNS] = {[LAUNCHES] = offsetof(struct row, launches),
                                          [CALL_NS] = offsetof(struct row, call_ns),
                                          [DEVICE_NS] = offsetof(struct row, device_ns),
                                          [DELAY_NS] = offsetof(struct row, delay_ns),
                                          [SHORT] = offsetof(struct row, short_kernels),
                                          [CALL_OUTLIERS] = offsetof(struct row, call_outliers),
                                          [DELAY_OUTLIERS] = offsetof(struct row, delay_outliers)};

/* So many rows at a time that what they are made of, which lies far apart, is looked up once and stays in the cache
 * meanwhile. */
struct batch {
  uint32_t calls[AT_ONCE], slices[AT_ONCE];
  int64_t correlations[AT_ONCE]; /* of pairs that the rules list; others are looked up if they are asked for */
  struct row figures[AT_ONCE];
  size_t first, count; /* rows of the table */
};

static void add_to_batch(const struct work *w, struct batch *b, const struct tg__launch_pair *p) {
  b->calls[b->count] = p->call;
  b->slices[b->count] = p->slice;
  b->correlations[b->count] = p->correlation;
  b->figures[b->count] = figures_of(w, p);
  b->count++;
}

static void put_launch_stats_texts(struct work *w, const struct tg__device_rows *d, const struct batch *b,
                                   unsigned column) {
  uint32_t *const out = w->out->columns[column].texts + b->first;
  const uint32_t *const slices = column == CALL ? b->calls : b->slices;
  for (size_t i = 0; i < b->count; i++) out[i] = tg__table_text(w->out, d->t, d->t->slices.name[slices[i]]);
}

static void put_correlations(const struct tg__device_rows *d, const struct batch *b, int64_t *out) {
  uint32_t args[AT_ONCE];
  for (size_t i = 0; i < b->count; i++) args[i] = d->t->slices.args[b->slices[i]];
  if (d->rules->pair)
    memcpy(out, b->correlations, b->count * sizeof *out);
  else
    tg__arg_ints(d->t, args, b->count, TG__K_CORRELATION, -1, out);
}

static void put_launch_stats_ints(struct work *w, const struct tg__device_rows *d, const struct batch *b,
                                  unsigned column) {
  int64_t *const out = w->out->columns[column].ints + b->first;
  const int64_t number = tg__rank_number(d->t, d->rank);
  if (column == CORRELATION) put_correlations(d, b, out);
  for (size_t i = 0; column == RANK && i < b->count; i++) out[i] = number;
  for (size_t i = 0; column >= LAUNCHES && i < b->count; i++)
    memcpy(&out[i], (const char *)&b->figures[i] + figure_at[column], sizeof *out);
}

static void put_batch(struct work *w, const struct tg__device_rows *d, struct batch *b) {
  for (unsigned c = 0; c < COLUMNS; c++) {
    if (w->out->columns[c].is_left_out) continue;
    if (c == CALL || c == KERNEL)
      put_launch_stats_texts(w, d, b, c);
    else
      put_launch_stats_ints(w, d, b, c);
  }
  b->first += b->count;
  b->count = 0;
}

static bool put_events(struct work *w, const struct tg__device_rows *d) {
  struct batch b;
  b.first = w->out->rows;
  b.count = 0;
  if (!tg__table_reserve(w->out, b.first + d->pair_count)) return false;
  for (size_t i = 0; i < d->pair_count; i++) {
    if (is_left_out(w, d, i)) continue;
    const struct tg__launch_pair p = tg__device_pair(d, i);
    add_to_batch(w, &b, &p);
    if (b.count == AT_ONCE) put_batch(w, d, &b);
  }
  put_batch(w, d, &b);
  tg__table_wrote_rows(w->out, b.first - w->out->rows);
  return true;
}

/* ---- sums ------------------------------------------------------------------------------------ */

static bool has_launches(const struct tg__columns *t, uint32_t rank) {
  TG__EACH (k, tg__tracks_of(&t->ranks[rank]))
    TG__EACH (i, tg__slices_of(&t->tracks[k]))
      if (t->slices.cause[i] != TG_NONE && tg__class_is_device_work(tg__slice_class(t, i))) return true;
  return false;
}

static bool launches_of_rank(struct tg__device_rows *d, void *ctx) {
  struct work *w = ctx;
  if (!tg__device_pairs(d, w->copies ? TG__PAIRS_STATS : TG__PAIRS_STATS_KERNELS)) return false;
  if (w->by == BY_EVENT) return put_events(w, d);
  w->count = 0;
  tg__map_free(&w->row_of);
  if (w->by == BY_RANK && has_launches(d->t, d->rank) && !find_launch_stats_row(w, TG_NONE))
    return false; /* even if none is in these steps */
  for (size_t i = 0; i < d->pair_count; i++) {
    if (is_left_out(w, d, i)) continue;
    const struct tg__launch_pair p = tg__device_pair(d, i);
    const uint32_t call = d->t->slices.name[p.call], kernel = d->t->slices.name[p.slice];
    struct row *r = find_launch_stats_row(w, w->by == BY_CALL ? call : w->by == BY_KERNEL ? kernel : TG_NONE);
    if (!r) return false;
    const struct row one = figures_of(w, &p);
    add_figures(r, &one);
  }
  return put_launch_stats_rows(w, d);
}

enum tg_err tg__answer_launch_stats(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                    struct tg_error *e) {
  static const char *const choices[] = {
      [BY_RANK] = "rank", [BY_KERNEL] = "kernel", [BY_CALL] = "call", [BY_EVENT] = "event"};
  struct work w = {.out = out};
  size_t by;
  int64_t memory;
  enum tg_err err = tg__ask_choice(a, "by", choices, sizeof choices / sizeof *choices, &by, e);
  if (!err) err = tg__ask_us(a, "call_us", &w.call_limit_ns, e);
  if (!err) err = tg__ask_us(a, "delay_us", &w.delay_limit_ns, e);
  if (!err) err = tg__ask_integer(a, "memory", &memory, e);
  if (err) return err;
  w.by = (enum by)by;
  w.copies = memory != 0;
  err = tg__device_each_rank(t, a, launches_of_rank, &w, e);
  tg__map_free(&w.row_of);
  tg__free(w.rows);
  return err;
}
