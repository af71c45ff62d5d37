/* A trace as HolisticTraceAnalysis sees it: which rows it keeps, how it rounds, links and numbers them, and which it
 * filters out. */
#include "analyze/compat/hta/hta_rows.h"
#include "analyze/overview/file_order.h"

#include <math.h>
#include <stdlib.h>

struct tg__hta_fields { /* positions in a schema, -1 = none */
  int16_t stream, correlation;
};

/* ---- which slices are rows ------------------------------------------------------------------- */

static int16_t field_of(const struct tg__schema *s, uint32_t key) {
  for (uint16_t i = 0; i < s->count && i < INT16_MAX; i++)
    if (s->fields[i].key == key && !s->fields[i].top) return (int16_t)i;
  return -1;
}

static bool find_fields(struct tg__hta *h) {
  const struct tg__columns *t = h->t;
  h->fields = tg__alloc(((size_t)t->schema_count + 1) * sizeof *h->fields);
  h->cat_counts = tg__alloc((size_t)t->cat_count + 1);
  if (!h->fields || !h->cat_counts) return false;
  for (uint32_t i = 0; i < t->schema_count; i++)
    h->fields[i] =
        (struct tg__hta_fields){field_of(&t->schemas[i], TG__K_STREAM), field_of(&t->schemas[i], TG__K_CORRELATION)};
  for (uint32_t c = 0; c < t->cat_count; c++)
    h->cat_counts[c] = t->cats[c].name != TG_NONE && !tg__str_eq(tg__name(t, t->cats[c].name), TG_STR("Trace"));
  return true;
}

bool tg__hta_is_row(const struct tg__hta *h, uint32_t slice) {
  const struct tg__slices *s = &h->t->slices;
  return !(s->flags[slice] & (TG__F_BEGIN_END | TG__F_ASYNC)) && h->cat_counts[s->cat[slice]];
}

/* ---- times ----------------------------------------------------------------------------------- */

/* Its columns of times are doubles as soon as one event has a fraction, or no time at all; only then does it round. */
static bool is_rounded(const struct tg__columns *t, uint32_t rank) {
  const struct tg__extent b = tg__rank_slices(t, rank);
  TG__EACH (i, b)
    if (t->slices.start_ns[i] % 1000) return true;
  const struct tg__extent marks = tg__rank_marks(t, rank);
  TG__EACH (i, marks)
    if (t->marks.ts_ns[i] == TG_NULL_INT || t->marks.ts_ns[i] % 1000) return true;
  return false;
}

/* The double from reading the text of a time in microseconds: of exact nanoseconds, rounded once (the quotient
 * has at least 64 bits, of which the rest decides no tie). */
static double as_double_us(int64_t ns) { return (double)((long double)ns / 1000); }

static void set_times(struct tg__hta_row *row, const struct tg__slices *s, bool rounded) {
  const int64_t start = s->start_ns[row->slice], dur = s->dur_ns[row->slice];
  if (!rounded) {
    row->ts_us = start / 1000;
    row->dur_us = dur / 1000;
    return;
  }
  const double ts = as_double_us(start), end = floor(ts + as_double_us(dur));
  row->ts_us = (int64_t)ceil(ts);
  row->dur_us = (int64_t)end - row->ts_us;
}

static int64_t least_ts(const struct tg__hta *h) {
  int64_t least = INT64_MAX;
  for (uint32_t r = 0; r < h->t->rank_count; r++) {
    const struct tg__extent b = tg__rank_slices(h->t, r);
    struct tg__hta_row first = {.slice = TG_NONE};
    TG__EACH (i, b)
      if (tg__hta_is_row(h, i) &&
          (first.slice == TG_NONE || h->t->slices.start_ns[i] < h->t->slices.start_ns[first.slice]))
        first.slice = i;
    if (first.slice == TG_NONE) continue;
    set_times(&first, &h->t->slices, is_rounded(h->t, r)); /* rounding keeps order, so one row stands for all */
    if (first.ts_us < least) least = first.ts_us;
  }
  return least == INT64_MAX ? 0 : least;
}

/* ---- rows in file order ---------------------------------------------------------------------- */

/* Stable, by the bits of args from `shift` on, as many as there are places for in starts. */
static void sort_round(const struct tg__hta_event *from, struct tg__hta_event *to, size_t n, unsigned shift,
                       uint32_t *starts, uint32_t places) {
  const uint32_t mask = places - 1;
  memset(starts, 0, places * sizeof *starts);
  for (size_t i = 0; i < n; i++) starts[from[i].args >> shift & mask]++;
  uint32_t sum = 0;
  for (size_t k = 0; k < places; k++) {
    const uint32_t here = starts[k];
    starts[k] = sum;
    sum += here;
  }
  for (size_t i = 0; i < n; i++) to[starts[from[i].args >> shift & mask]++] = from[i];
}

/* Two rounds over half the bits that are in use: the fewer places a round writes to, the more of them the caches
 * hold. */
bool tg__hta_sort_events(struct tg__hta_event *events, size_t n) {
  uint32_t most = 1;
  for (size_t i = 0; i < n; i++) most |= events[i].args;
  const unsigned bits = (32 - (unsigned)__builtin_clz(most) + 1) / 2;
  uint32_t *starts = tg__alloc(((size_t)1 << bits) * sizeof *starts);
  struct tg__hta_event *other = tg__realloc(NULL, (n + 1) * sizeof *other);
  const bool ok = starts && other;
  if (ok) {
    sort_round(events, other, n, 0, starts, (uint32_t)1 << bits);
    sort_round(other, events, n, bits, starts, (uint32_t)1 << bits);
  }
  tg__free(starts);
  tg__free(other);
  return ok;
}

static struct tg__hta_event of_slice(const struct tg__hta *h, uint32_t i) {
  return (struct tg__hta_event){h->t->slices.args[i], tg__hta_is_row(h, i) ? i : TG_NONE};
}

static struct tg__hta_event of_mark(const struct tg__hta *h, uint32_t i) {
  return (struct tg__hta_event){h->t->marks.args[i], TG_NONE};
}

static void place_events(const struct tg__hta *h, uint32_t rank, const struct tg__file_order *order,
                         struct tg__hta_event *events) {
  const struct tg__extent slices = tg__rank_slices(h->t, rank), marks = tg__rank_marks(h->t, rank);
  TG__EACH (i, slices) events[tg__file_order_of(order, h->t->slices.args[i])] = of_slice(h, i);
  TG__EACH (i, marks) events[tg__file_order_of(order, h->t->marks.args[i])] = of_mark(h, i);
}

static bool list_and_sort(const struct tg__hta *h, uint32_t rank, struct tg__hta_event *events) {
  const struct tg__extent slices = tg__rank_slices(h->t, rank), marks = tg__rank_marks(h->t, rank);
  size_t n = 0;
  TG__EACH (i, slices) events[n++] = of_slice(h, i);
  TG__EACH (i, marks) events[n++] = of_mark(h, i);
  return tg__hta_sort_events(events, n);
}

struct tg__hta_event *tg__hta_events(const struct tg__hta *h, uint32_t rank, size_t *count) {
  const struct tg__extent slices = tg__rank_slices(h->t, rank), marks = tg__rank_marks(h->t, rank);
  *count = (size_t)(slices.past - slices.first) + (marks.past - marks.first);
  struct tg__hta_event *events = tg__realloc(NULL, (*count + 1) * sizeof *events);
  struct tg__file_order order = {0};
  bool ok = events != NULL;
  if (ok && tg__file_order_open(&order, h->t, rank))
    place_events(h, rank, &order, events);
  else
    ok = ok && list_and_sort(h, rank, events);
  tg__file_order_close(&order);
  if (ok) return events;
  tg__free(events);
  return NULL;
}

static int64_t id_at(const struct tg__columns *t, uint32_t args, const struct tg__args_iter *begun, int16_t at) {
  if (at < 0) return -1;
  const struct tg__field *f = &begun->schema->fields[at];
  if (f->kind != TG__KIND_INT) return tg__arg_int(t, args, f->key, -1);
  struct tg__args_iter it = *begun;
  tg__args_skip(&it, (uint16_t)at);
  tg__args_next(&it);
  return it.val.i;
}

void tg__hta_ids(const struct tg__hta *h, uint32_t slice, int64_t *stream, int64_t *correlation) {
  const uint32_t args = h->t->slices.args[slice];
  struct tg__args_iter it;
  tg__args_begin(h->t, args, &it);
  *stream = *correlation = -1;
  if (!it.schema) return;
  const struct tg__hta_fields at = h->fields[it.schema - h->t->schemas];
  if (at.stream < 0 && at.correlation < 0) return; /* operators, most of a trace */
  *stream = id_at(h->t, args, &it, at.stream);
  *correlation = id_at(h->t, args, &it, at.correlation);
}

static bool load_rank(const struct tg__hta *h, uint32_t rank, struct tg__hta_rank *out) {
  size_t events;
  struct tg__hta_event *order = tg__hta_events(h, rank, &events);
  if (!order) return false;
  for (size_t i = 0; i < events; i++) out->count += order[i].slice != TG_NONE;
  out->is_rounded = is_rounded(h->t, rank);
  out->rows = tg__alloc((out->count + 1) * sizeof *out->rows);
  size_t n = 0;
  for (size_t i = 0; out->rows && i < events; i++) {
    if (order[i].slice == TG_NONE) continue;
    struct tg__hta_row *row = &out->rows[n++];
    *row = (struct tg__hta_row){.slice = order[i].slice, .link = TG_NONE, .index = (int64_t)i};
    set_times(row, &h->t->slices, out->is_rounded);
    row->ts_us -= h->min_ts_us;
    tg__hta_ids(h, row->slice, &row->stream, &row->correlation);
  }
  tg__free(order);
  return out->rows != NULL;
}

/* ---- links ----------------------------------------------------------------------------------- */

bool tg__hta_is_gpu_row(const struct tg__hta *h, uint32_t slice, int64_t stream, int64_t correlation) {
  const uint32_t name = h->t->slices.name[slice];
  return (stream >= 0 && correlation >= 0) || name == h->event_sync || name == h->context_sync;
}

bool tg__hta_is_gpu(const struct tg__hta *h, const struct tg__hta_row *r) {
  return tg__hta_is_gpu_row(h, r->slice, r->stream, r->correlation);
}

/* Each side is given the last row of the other with its correlation. */
static bool link_rows(const struct tg__hta *h, struct tg__hta_rank *rank) {
  struct tg__map last[2] = {{0}, {0}};
  bool ok = true;
  for (size_t i = 0; i < rank->count && ok; i++) {
    const struct tg__hta_row *row = &rank->rows[i];
    if (row->correlation != -1)
      ok = tg__map_put(&last[tg__hta_is_gpu(h, row)], (uint64_t)row->correlation, (uint32_t)i);
  }
  for (size_t i = 0; i < rank->count && ok; i++) {
    struct tg__hta_row *row = &rank->rows[i];
    row->index_correlation = row->correlation < 0 ? row->correlation : 0;
    if (row->correlation == -1) continue;
    row->link = tg__map_get(&last[!tg__hta_is_gpu(h, row)], (uint64_t)row->correlation);
    if (row->link != TG_NONE) row->index_correlation = rank->rows[row->link].index;
  }
  tg__map_free(&last[0]);
  tg__map_free(&last[1]);
  return ok;
}

/* ---- iterations ------------------------------------------------------------------------------ */

struct step {
  int64_t start, end, number;
};
struct steps {
  struct step *items; /* in file order */
  size_t count, cap;
  int64_t *edges, *numbers; /* sorted starts and ends; the number that holds from edge i to the next */
};

static int ascending(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* Last edge at or before ts, SIZE_MAX when all are later. */
static size_t edge_of(const struct steps *s, int64_t ts) {
  size_t low = 0;
  TG__PARTITION(low, 2 * s->count, i, s->edges[i] <= ts);
  return low - 1;
}

/* Where steps overlap the last of the file holds: they are laid down from last to first, each only where nothing
 * lies yet. */
static bool lay_steps(struct steps *s) {
  const size_t edges = 2 * s->count;
  size_t *next_free = tg__alloc((edges + 1) * sizeof *next_free);
  s->edges = tg__alloc((edges + 1) * sizeof *s->edges);
  s->numbers = tg__alloc((edges + 1) * sizeof *s->numbers);
  if (!next_free || !s->edges || !s->numbers) {
    tg__free(next_free);
    return false;
  }
  for (size_t i = 0; i < s->count; i++) s->edges[2 * i] = s->items[i].start, s->edges[2 * i + 1] = s->items[i].end;
  qsort(s->edges, edges, sizeof *s->edges, ascending);
  for (size_t i = 0; i <= edges; i++) next_free[i] = i, s->numbers[i] = -1;
  for (size_t k = s->count; k-- > 0;) {
    const struct step *step = &s->items[k];
    size_t i = step->end > step->start ? edge_of(s, step->start) : edges;
    for (; i < edges && s->edges[i] < step->end; i++) {
      while (next_free[i] != i) {
        next_free[i] = next_free[next_free[i]];
        i = next_free[i];
      }
      if (i >= edges || s->edges[i] >= step->end) break;
      s->numbers[i] = step->number;
      next_free[i] = i + 1;
    }
  }
  tg__free(next_free);
  return true;
}

static int64_t step_at(const struct steps *s, int64_t ts) {
  const size_t edge = s->count ? edge_of(s, ts) : SIZE_MAX;
  return edge == SIZE_MAX ? -1 : s->numbers[edge];
}

static bool number_rows(struct tg__hta *h, struct tg__hta_rank *rank) {
  const struct tg__columns *t = h->t;
  struct steps steps = {0};
  bool ok = true;
  for (size_t i = 0; i < rank->count && ok; i++) {
    const struct tg__hta_row *row = &rank->rows[i];
    struct step step = {row->ts_us, row->ts_us + row->dur_us, 0};
    if (!(tg__names_of(&h->names, t->slices.name[row->slice]) & TG__NAME_PROFILER_STEP)) continue;
    tg__name_is_profiler_step(tg__name(t, t->slices.name[row->slice]), &step.number);
    ok = tg__grow((void **)&steps.items, &steps.cap, steps.count + 1, sizeof *steps.items);
    if (ok) steps.items[steps.count++] = step;
  }
  ok = ok && lay_steps(&steps);
  for (size_t i = 0; i < rank->count && ok; i++) {
    struct tg__hta_row *row = &rank->rows[i];
    const bool triton =
        row->stream == 0 && tg__str_eq(tg__name(t, t->cats[t->slices.cat[row->slice]].name), TG_STR("cpu_op"));
    row->iteration = row->stream < 0 || triton ? step_at(&steps, row->ts_us) : TG_NULL_INT;
  }
  for (size_t i = 0; i < rank->count && ok; i++) {
    struct tg__hta_row *row = &rank->rows[i];
    if (row->stream > 0)
      row->iteration = row->index_correlation > 0 && row->link != TG_NONE ? rank->rows[row->link].iteration : -1;
  }
  tg__free(steps.items);
  tg__free(steps.edges);
  tg__free(steps.numbers);
  return ok;
}

/* ---- the step filter ------------------------------------------------------------------------- */

/* Only the exact spelling counts here, unlike for iterations. */
static bool is_step_name(struct tg__str name) {
  return tg__str_has_prefix(name, "ProfilerStep#") && tg__name_is_profiler_step(name, NULL) && name.ptr[13] >= '0' &&
         name.ptr[13] <= '9';
}

/* Are there two different step names among the rows of all ranks? */
static bool has_two_steps(struct tg__hta *h) {
  uint32_t seen = TG_NONE;
  for (uint32_t i = 0; i < h->t->slices.count; i++) {
    const uint32_t name = h->t->slices.name[i];
    if (name == seen || !(tg__names_of(&h->names, name) & TG__NAME_PROFILER_STEP) || !tg__hta_is_row(h, i)) continue;
    if (!is_step_name(tg__name(h->t, name))) continue;
    if (seen != TG_NONE) return true;
    seen = name;
  }
  return false;
}

/* Host rows before this time stay. */
static int64_t last_step_start(struct tg__hta *h, const struct tg__hta_rank *rank) {
  int64_t last = INT64_MIN;
  for (size_t i = 0; i < rank->count; i++) {
    const struct tg__hta_row *row = &rank->rows[i];
    const uint32_t name = h->t->slices.name[row->slice];
    if (row->ts_us <= last || !(tg__names_of(&h->names, name) & TG__NAME_PROFILER_STEP)) continue;
    if (is_step_name(tg__name(h->t, name)) && !tg__hta_is_gpu(h, row)) last = row->ts_us;
  }
  return last; /* a rank without steps loses every row */
}

struct filter {
  const struct tg__hta *h;
  const struct tg__hta_rank *rank;
  int64_t before;
  struct tg__map calls; /* correlation → host rows that stay and have it */
  bool once;
};

static bool count_calls(struct filter *f) {
  for (size_t i = 0; i < f->rank->count; i++) {
    const struct tg__hta_row *row = &f->rank->rows[i];
    if (tg__hta_is_gpu(f->h, row) || row->ts_us >= f->before) continue;
    uint32_t *slot = tg__map_slot(&f->calls, (uint64_t)row->correlation, 0);
    if (!slot) return false;
    ++*slot;
  }
  return true;
}

/* How often a row stands in the result: device work once for each host row with its correlation, as its join has it. */
static uint32_t copies_of(const struct filter *f, const struct tg__hta_row *row) {
  if (!tg__hta_is_gpu(f->h, row)) return row->ts_us < f->before;
  const uint32_t calls = tg__map_get(&f->calls, (uint64_t)row->correlation);
  return calls == TG_NONE ? 0 : f->once ? 1 : calls;
}

static size_t count_kept(const struct filter *f) {
  size_t kept = 0;
  for (size_t i = 0; i < f->rank->count; i++) kept += copies_of(f, &f->rank->rows[i]);
  return kept;
}

/* First the device rows, then those of the host. now_at: where each row went. */
static size_t move_rows(const struct filter *f, struct tg__hta_row *out, uint32_t *now_at) {
  size_t n = 0;
  for (unsigned host = 0; host < 2; host++)
    for (size_t i = 0; i < f->rank->count; i++) {
      const struct tg__hta_row *row = &f->rank->rows[i];
      if (tg__hta_is_gpu(f->h, row) == (bool)host) continue;
      uint32_t copies = copies_of(f, row);
      now_at[i] = copies ? (uint32_t)n : TG_NONE;
      while (copies-- > 0) out[n++] = *row;
    }
  for (size_t i = 0; i < n; i++)
    if (out[i].link != TG_NONE) out[i].link = now_at[out[i].link];
  return n;
}

static bool filter_rows(const struct tg__hta *h, struct tg__hta_rank *rank, int64_t before) {
  struct filter f = {.h = h, .rank = rank, .before = before};
  bool ok = count_calls(&f);
  size_t kept = ok ? count_kept(&f) : 0;
  f.once = kept > 4 * rank->count + 1024; /* a file made to be multiplied: every row once */
  if (f.once) kept = count_kept(&f);
  struct tg__hta_row *rows = ok ? tg__alloc((kept + 1) * sizeof *rows) : NULL;
  uint32_t *now_at = ok ? tg__alloc((rank->count + 1) * sizeof *now_at) : NULL;
  ok = rows && now_at;
  if (ok) {
    const size_t n = move_rows(&f, rows, now_at);
    struct tg__hta_row *all = rank->rows;
    rank->rows = rows;
    rank->count = n;
    rows = all;
  }
  tg__map_free(&f.calls);
  tg__free(now_at);
  tg__free(rows);
  return ok;
}

/* ---- all of it ------------------------------------------------------------------------------- */

enum tg_err tg__hta_prepare(struct tg__hta *h, const struct tg__columns *t) {
  *h = (struct tg__hta){.t = t,
                        .event_sync = tg__strings_find(t->strings, "Event Sync", 10),
                        .context_sync = tg__strings_find(t->strings, "Context Sync", 12)};
  h->ranks = tg__alloc(((size_t)t->rank_count + 1) * sizeof *h->ranks);
  h->types = tg__alloc((size_t)tg__strings_count(t->strings) + 1);
  if (!h->ranks || !h->types || !tg__names_open(&h->names, t) || !find_fields(h)) return TG_MEMORY;
  return TG_OK;
}

enum tg_err tg__hta_begin(struct tg__hta *h, const struct tg__columns *t, enum tg__hta_filter filter) {
  const enum tg_err err = tg__hta_prepare(h, t);
  if (err) return err;
  h->filter = filter;
  h->min_ts_us = least_ts(h);
  h->filters = filter != TG__HTA_EVERY_ROW && has_two_steps(h);
  return TG_OK;
}

enum tg_err tg__hta_load(struct tg__hta *h, uint32_t rank) {
  struct tg__hta_rank *rows = &h->ranks[rank];
  if (!load_rank(h, rank, rows) || !link_rows(h, rows) || !number_rows(h, rows)) return TG_MEMORY;
  if (!h->filters) return TG_OK;
  return filter_rows(h, rows, h->filter == TG__HTA_WITH_LAST_STEP ? INT64_MAX : last_step_start(h, rows)) ? TG_OK
                                                                                                          : TG_MEMORY;
}

void tg__hta_drop(struct tg__hta *h, uint32_t rank) {
  tg__free(h->ranks[rank].rows);
  h->ranks[rank] = (struct tg__hta_rank){0};
}

enum tg__hta_filter tg__hta_filter_of(const struct tg__ask *a) {
  const char *const rules = tg__ask_arg(a, "rules");
  if (strcmp(rules, "hta-all") == 0) return TG__HTA_EVERY_ROW;
  return strcmp(rules, "hta-last") == 0 ? TG__HTA_WITH_LAST_STEP : TG__HTA_WITHOUT_LAST_STEP;
}

enum tg_err tg__hta_open(struct tg__hta *h, const struct tg__columns *t, uint32_t rank, enum tg__hta_filter filter) {
  enum tg_err err = tg__hta_begin(h, t, filter);
  for (uint32_t r = 0; r < t->rank_count && !err; r++)
    if (rank == TG_NONE || rank == r) err = tg__hta_load(h, r);
  return err;
}

void tg__hta_close(struct tg__hta *h) {
  for (uint32_t r = 0; h->ranks && r < h->t->rank_count; r++) tg__hta_drop(h, r);
  tg__free(h->ranks);
  tg__free(h->types);
  tg__free(h->fields);
  tg__free(h->cat_counts);
  tg__names_close(&h->names);
  *h = (struct tg__hta){0};
}

enum tg__work_type tg__hta_type(struct tg__hta *h, const struct tg__hta_row *r) {
  const uint32_t name = h->t->slices.name[r->slice];
  if (h->types[name] == TG__TYPE_UNKNOWN)
    h->types[name] = (uint8_t)tg__work_type_of(tg__kernel_type_by_name(tg__name(h->t, name)));
  return (enum tg__work_type)h->types[name];
}
