/* The question rows by the exact rules: the same events as HTA's rows, in its order, each column written by a loop of its own. */
#include "analyze/rows.h"

struct exact {
  const struct tg_trace *t;
  struct tg_table *out;
  struct tg__hta hta; /* which slices are rows, and their ids */
  const uint32_t *tracks;
  int64_t zero_ns;
  uint32_t rank;
  uint32_t *slice, *index; /* by row: in file order, and its ordinal among all events of the file */
  size_t count, shown;     /* rows of the rank; how many of them the table gets */
  int64_t *correlation;    /* by row, -1 = none; with the links, NULL unless wanted */
  uint32_t *link;          /* by row: the partner, TG_NONE */
  bool *is_gpu;
};

/* ---- links --------------------------------------------------------------------------------------------------------------------- */

/* The last row of one side by correlation: open addressing over row numbers. Neighbouring correlations share a line of the cache, as
 * neighbouring rows have them. */
struct last_rows {
  uint32_t *slots; /* TG_NONE = free; at most half of them are taken */
  uint64_t mask;
};
enum { LINE = 16 }; /* slots */

static bool open_last(struct last_rows *l, size_t rows) {
  size_t slots = LINE;
  while (slots < 2 * rows) slots *= 2;
  *l = (struct last_rows){tg__alloc(slots * sizeof *l->slots), slots - 1};
  if (l->slots) memset(l->slots, 0xff, slots * sizeof *l->slots);
  return l->slots != NULL;
}

/* Where the correlation stands, or the free slot for it. */
static uint32_t *slot_of(const struct last_rows *l, const struct exact *x, int64_t id) {
  uint64_t line = (uint64_t)id / LINE * UINT64_C(0x9e3779b97f4a7c15);
  uint64_t at = ((line ^ line >> 32) * LINE + (uint64_t)id % LINE) & l->mask;
  while (l->slots[at] != TG_NONE && x->correlation[l->slots[at]] != id) at = (at + 1) & l->mask;
  return &l->slots[at];
}

/* Each side is given the last row of the other with its correlation. */
static bool link_rows(struct exact *x) {
  struct last_rows last[2] = {{0}, {0}};
  size_t rows[2] = {0};
  for (size_t i = 0; i < x->count; i++) rows[x->is_gpu[i]] += x->correlation[i] != -1;
  const bool ok = open_last(&last[0], rows[0]) && open_last(&last[1], rows[1]);
  for (size_t i = 0; ok && i < x->count; i++)
    if (x->correlation[i] != -1) *slot_of(&last[x->is_gpu[i]], x, x->correlation[i]) = (uint32_t)i;
  for (size_t i = 0; ok && i < x->count; i++)
    x->link[i] = x->correlation[i] == -1 ? TG_NONE : *slot_of(&last[!x->is_gpu[i]], x, x->correlation[i]);
  tg__free(last[0].slots);
  tg__free(last[1].slots);
  return ok;
}

static bool find_links(struct exact *x) {
  x->correlation = tg__alloc((x->count + 1) * sizeof *x->correlation);
  x->link = tg__alloc((x->count + 1) * sizeof *x->link);
  x->is_gpu = tg__alloc(x->count + 1);
  if (!x->correlation || !x->link || !x->is_gpu) return false;
  for (size_t i = 0; i < x->count; i++) {
    int64_t stream;
    tg__hta_ids(&x->hta, x->slice[i], &stream, &x->correlation[i]);
    x->is_gpu[i] = tg__hta_is_gpu_row(&x->hta, x->slice[i], stream, x->correlation[i]);
  }
  return link_rows(x);
}

/* ---- columns ------------------------------------------------------------------------------------------------------------------- */

/* Device work belongs to the step of the call that launched it. Neighbours in the file are mostly of one step. */
static void put_iterations(const struct exact *x, int64_t *cells) {
  const struct tg_trace *t = x->t;
  for (size_t i = 0; i < x->shown; i++) {
    const bool on_device = t->tracks[x->tracks[x->slice[i]]].kind == TG__TRACK_DEVICE;
    const bool known = !on_device || x->link[i] != TG_NONE;
    cells[i] = known ? tg__rows_step_at(t, x->rank, t->slices.start_ns[x->slice[on_device ? x->link[i] : i]]) : -1;
  }
}

static void put_partners(const struct exact *x, int64_t *cells) {
  for (size_t i = 0; i < x->shown; i++) {
    const int64_t id = x->correlation[i];
    cells[i] = x->link[i] != TG_NONE ? (int64_t)x->index[x->link[i]] : id < 0 ? id : 0;
  }
}

static void put_texts(const struct exact *x, enum tg__rows_column c, uint32_t *cells) {
  const struct tg__slices *s = &x->t->slices;
  for (size_t i = 0; i < x->shown; i++) {
    const uint32_t slice = x->slice[i];
    cells[i] = tg__table_text(x->out, x->t, c == TG__ROWS_NAME ? s->name[slice] : x->t->cats[s->cat[slice]].name);
  }
}

static void put_reals(const struct exact *x, enum tg__rows_column c, double *cells) {
  const struct tg__slices *s = &x->t->slices;
  const int64_t offset = x->t->ranks[x->rank].clock_offset_ns - x->zero_ns;
  for (size_t i = 0; i < x->shown; i++)
    cells[i] = tg__rows_us(c == TG__ROWS_DUR ? s->dur_ns[x->slice[i]] : s->start_ns[x->slice[i]] + offset);
}

static int64_t stream_of(const struct exact *x, size_t row) {
  const struct tg__track *track = &x->t->tracks[x->tracks[x->slice[row]]];
  return track->kind == TG__TRACK_DEVICE ? track->stream : -1;
}

static void put_ints(const struct exact *x, enum tg__rows_column c, int64_t *cells) {
  const int64_t rank = tg__rank_number(x->t, x->rank);
  switch (c) {
  case TG__ROWS_RANK:
    for (size_t i = 0; i < x->shown; i++) cells[i] = rank;
    break;
  case TG__ROWS_SLICE:
    for (size_t i = 0; i < x->shown; i++) cells[i] = x->slice[i];
    break;
  case TG__ROWS_TRACK:
    for (size_t i = 0; i < x->shown; i++) cells[i] = x->tracks[x->slice[i]];
    break;
  case TG__ROWS_INDEX:
    for (size_t i = 0; i < x->shown; i++) cells[i] = x->index[i];
    break;
  case TG__ROWS_START:
    for (size_t i = 0; i < x->shown; i++) cells[i] = x->t->slices.start_ns[x->slice[i]];
    break;
  case TG__ROWS_STREAM:
    for (size_t i = 0; i < x->shown; i++) cells[i] = stream_of(x, i);
    break;
  case TG__ROWS_CORRELATION:
    memcpy(cells, x->correlation, x->shown * sizeof *cells);
    break;
  case TG__ROWS_INDEX_CORRELATION:
    put_partners(x, cells);
    break;
  default:
    put_iterations(x, cells);
  }
}

static bool put_columns(struct exact *x) {
  if (!tg__table_reserve(x->out, x->out->rows + x->shown)) return false;
  for (unsigned c = 0; c < TG__ROWS_COLUMNS; c++) {
    struct tg__column *column = &x->out->columns[c];
    if (column->is_left_out) continue;
    if (column->type == TG_TEXT)
      put_texts(x, c, column->texts + x->out->rows);
    else if (column->type == TG_REAL)
      put_reals(x, c, column->reals + x->out->rows);
    else
      put_ints(x, c, column->ints + x->out->rows);
  }
  tg__table_wrote_rows(x->out, x->shown);
  return !x->out->failed;
}

/* ---- ranks ---------------------------------------------------------------------------------------------------------------------- */

static bool list_rows(struct exact *x) {
  size_t events;
  struct tg__hta_event *order = tg__hta_events(&x->hta, x->rank, &events);
  if (!order) return false;
  x->count = 0;
  for (size_t i = 0; i < events; i++) x->count += order[i].slice != TG_NONE;
  x->slice = tg__alloc((x->count + 1) * sizeof *x->slice);
  x->index = tg__alloc((x->count + 1) * sizeof *x->index);
  const bool ok = x->slice && x->index;
  for (size_t i = 0, n = 0; ok && i < events; i++) {
    if (order[i].slice == TG_NONE) continue;
    x->slice[n] = order[i].slice;
    x->index[n++] = (uint32_t)i;
  }
  tg__free(order);
  return ok;
}

static bool add_rank(struct exact *x, uint32_t rank, size_t most_rows) {
  const struct tg__column *c = x->out->columns;
  const bool wants_links =
      !c[TG__ROWS_CORRELATION].is_left_out || !c[TG__ROWS_INDEX_CORRELATION].is_left_out || !c[TG__ROWS_ITERATION].is_left_out;
  x->rank = rank;
  bool ok = list_rows(x);
  if (ok) {
    const size_t room = most_rows - x->out->rows;
    x->shown = x->count < room ? x->count : room;
    ok = (!wants_links || !x->shown || find_links(x)) && put_columns(x);
  }
  tg__free(x->slice);
  tg__free(x->index);
  tg__free(x->correlation);
  tg__free(x->link);
  tg__free(x->is_gpu);
  x->slice = x->index = x->link = NULL;
  x->correlation = NULL;
  x->is_gpu = NULL;
  return ok;
}

enum tg_err tg__rows_exact(const struct tg_trace *t, const struct tg__ask *a, struct tg_table *out) {
  uint32_t *const tracks = tg__rows_tracks(t);
  struct exact x = {.t = t, .out = out, .tracks = tracks};
  enum tg_err err = tg__hta_prepare(&x.hta, t);
  if (!tracks) err = TG_MEMORY;
  if (!err) x.zero_ns = tg__rows_zero(t);
  for (uint32_t r = 0; r < t->rank_count && !err; r++)
    if (tg__ask_has_rank(a, r) && out->rows < a->most_rows && !add_rank(&x, r, a->most_rows)) err = TG_MEMORY;
  tg__hta_close(&x.hta);
  tg__free(tracks);
  return err;
}
