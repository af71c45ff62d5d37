/* The question rows by the exact rules: the same events as HTA's rows, in its order, each column written by a loop of its own. */
#include "analyze/whole/rows.h"

struct exact {
  const struct tg_trace *t;
  struct tg_table *out;
  const struct tg__rows *rows; /* what is asked for */
  const struct tg__hta *hta;   /* which slices are rows, and their ids */
  const uint32_t *tracks;
  int64_t zero_ns;
  uint32_t rank;
  uint32_t *slice, *index; /* by row: in file order, and its ordinal among all events of the file */
  size_t count, shown;     /* rows of the rank; how many of them the table gets */
  uint32_t *kept;          /* which of them: of one side; NULL: the first ones */
  int64_t *correlation;    /* by row, -1 = none; with the links, NULL unless wanted */
  uint32_t *link;          /* by row: the partner, TG_NONE */
  bool *is_gpu;
};

static size_t row_of(const struct exact *x, size_t i) { return x->kept ? x->kept[i] : i; }

/* ---- links --------------------------------------------------------------------------------------------------------------------- */

/* The last row of one side by correlation. Correlations are numbers in a row as a rule: then each has its place. Else open addressing
 * over row numbers, where neighbouring correlations share a line of the cache, as neighbouring rows have them. */
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
static uint32_t *slot_of(const struct last_rows *l, const struct exact *x, int64_t id) {
  if (!l->mask) return &l->slots[id - l->least];
  uint64_t line = (uint64_t)id / LINE * UINT64_C(0x9e3779b97f4a7c15);
  uint64_t at = ((line ^ line >> 32) * LINE + (uint64_t)id % LINE) & l->mask;
  while (l->slots[at] != TG_NONE && x->correlation[l->slots[at]] != id) at = (at + 1) & l->mask;
  return &l->slots[at];
}

struct census { /* of the rows with a correlation */
  size_t rows[2]; /* by side */
  int64_t least, most;
  bool is_needed[2]; /* a row that is shown has its partner there */
};

static struct census count_rows(const struct exact *x) {
  struct census n = {.least = INT64_MAX, .most = INT64_MIN};
  for (size_t i = 0; i < x->count; i++) {
    if (x->correlation[i] == -1) continue;
    n.rows[x->is_gpu[i]]++;
    if (x->correlation[i] < n.least) n.least = x->correlation[i];
    if (x->correlation[i] > n.most) n.most = x->correlation[i];
  }
  for (size_t i = 0; i < x->shown; i++) n.is_needed[!x->is_gpu[row_of(x, i)]] = true;
  return n;
}

/* Each row that is shown is given the last row of the other side with its correlation. */
static bool link_rows(struct exact *x) {
  struct last_rows last[2] = {{0}, {0}};
  const struct census n = count_rows(x);
  bool ok = true;
  for (unsigned side = 0; side < 2; side++)
    if (n.is_needed[side] && n.least <= n.most) ok &= open_last(&last[side], n.rows[side], n.least, n.most);
  for (size_t i = 0; ok && i < x->count; i++)
    if (x->correlation[i] != -1 && last[x->is_gpu[i]].slots) *slot_of(&last[x->is_gpu[i]], x, x->correlation[i]) = (uint32_t)i;
  for (size_t i = 0; ok && i < x->shown; i++) {
    const size_t row = row_of(x, i);
    x->link[row] = x->correlation[row] == -1 ? TG_NONE : *slot_of(&last[!x->is_gpu[row]], x, x->correlation[row]);
  }
  tg__free(last[0].slots);
  tg__free(last[1].slots);
  return ok;
}

static bool find_links(struct exact *x) {
  x->correlation = tg__realloc(NULL, (x->count + 1) * sizeof *x->correlation);
  x->link = tg__realloc(NULL, (x->count + 1) * sizeof *x->link);
  x->is_gpu = tg__realloc(NULL, x->count + 1);
  if (!x->correlation || !x->link || !x->is_gpu) return false;
  for (size_t i = 0; i < x->count; i++) {
    int64_t stream;
    tg__hta_ids(x->hta, x->slice[i], &stream, &x->correlation[i]);
    x->is_gpu[i] = tg__hta_is_gpu_row(x->hta, x->slice[i], stream, x->correlation[i]);
  }
  return link_rows(x);
}

/* ---- sides ---------------------------------------------------------------------------------------------------------------------- */

static bool choose_rows(struct exact *x, size_t most) {
  x->shown = x->count < most ? x->count : most;
  if (x->rows->side == TG__SIDE_ALL) return true;
  x->kept = tg__realloc(NULL, (x->count + 1) * sizeof *x->kept);
  x->shown = 0;
  for (size_t i = 0; x->kept && i < x->count && x->shown < most; i++)
    if (tg__rows_on_side(x->rows, &(struct tg__hta_row){.slice = x->slice[i]})) x->kept[x->shown++] = (uint32_t)i;
  return x->kept != NULL;
}

/* ---- columns ------------------------------------------------------------------------------------------------------------------- */

/* Device work belongs to the step of the call that launched it. Neighbours in the file are mostly of one step. */
static void put_iterations(const struct exact *x, int64_t *cells) {
  const struct tg_trace *t = x->t;
  for (size_t i = 0; i < x->shown; i++) {
    const size_t row = row_of(x, i);
    const bool on_device = t->tracks[x->tracks[x->slice[row]]].kind == TG__TRACK_DEVICE;
    const bool known = !on_device || x->link[row] != TG_NONE;
    cells[i] = known ? tg__rows_step_at(t, x->rank, t->slices.start_ns[x->slice[on_device ? x->link[row] : row]]) : -1;
  }
}

static void put_partners(const struct exact *x, int64_t *cells) {
  for (size_t i = 0; i < x->shown; i++) {
    const size_t row = row_of(x, i);
    const int64_t id = x->correlation[row];
    cells[i] = x->link[row] != TG_NONE ? (int64_t)x->index[x->link[row]] : id < 0 ? id : 0;
  }
}

static void put_texts(const struct exact *x, enum tg__rows_column c, uint32_t *cells) {
  const struct tg__slices *s = &x->t->slices;
  for (size_t i = 0; i < x->shown; i++) {
    const uint32_t slice = x->slice[row_of(x, i)];
    cells[i] = tg__table_text(x->out, x->t, c == TG__ROWS_NAME ? s->name[slice] : x->t->cats[s->cat[slice]].name);
  }
}

static void put_reals(const struct exact *x, enum tg__rows_column c, double *cells) {
  const struct tg__slices *s = &x->t->slices;
  const int64_t offset = x->t->ranks[x->rank].clock_offset_ns - x->zero_ns;
  for (size_t i = 0; i < x->shown; i++) {
    const uint32_t slice = x->slice[row_of(x, i)];
    cells[i] = tg__us_of(c == TG__ROWS_DUR ? s->dur_ns[slice] : s->start_ns[slice] + offset);
  }
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
    for (size_t i = 0; i < x->shown; i++) cells[i] = x->slice[row_of(x, i)];
    break;
  case TG__ROWS_TRACK:
    for (size_t i = 0; i < x->shown; i++) cells[i] = x->tracks[x->slice[row_of(x, i)]];
    break;
  case TG__ROWS_INDEX:
    for (size_t i = 0; i < x->shown; i++) cells[i] = x->index[row_of(x, i)];
    break;
  case TG__ROWS_START:
    for (size_t i = 0; i < x->shown; i++) cells[i] = x->t->slices.start_ns[x->slice[row_of(x, i)]];
    break;
  case TG__ROWS_STREAM:
    for (size_t i = 0; i < x->shown; i++) cells[i] = stream_of(x, row_of(x, i));
    break;
  case TG__ROWS_CORRELATION:
    for (size_t i = 0; i < x->shown; i++) cells[i] = x->correlation[row_of(x, i)];
    break;
  case TG__ROWS_INDEX_CORRELATION:
    put_partners(x, cells);
    break;
  case TG__ROWS_EVENTS:
    for (size_t i = 0; i < x->shown; i++) cells[i] = TG_NULL_INT;
    break;
  default:
    put_iterations(x, cells);
  }
}

static void put_args(const struct exact *x) {
  struct tg__extras *const extras = x->rows->extras;
  if (!extras->count) tg__table_wrote_rows(x->out, x->shown);
  for (size_t i = 0; extras->count && i < x->shown; i++) {
    tg__table_wrote(x->out, TG__ROWS_COLUMNS);
    tg__put_extras(x->t, x->t->slices.args[x->slice[row_of(x, i)]], extras, x->out);
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
  put_args(x);
  return !x->out->failed;
}

/* ---- ranks ---------------------------------------------------------------------------------------------------------------------- */

static bool list_rows(struct exact *x) {
  size_t events;
  struct tg__hta_event *order = tg__hta_events(x->hta, x->rank, &events);
  if (!order) return false;
  x->count = 0;
  for (size_t i = 0; i < events; i++) x->count += order[i].slice != TG_NONE;
  x->slice = tg__realloc(NULL, (x->count + 1) * sizeof *x->slice);
  x->index = tg__realloc(NULL, (x->count + 1) * sizeof *x->index);
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
  if (ok) ok = choose_rows(x, most_rows - x->out->rows) && (!wants_links || !x->shown || find_links(x)) && put_columns(x);
  tg__free(x->slice);
  tg__free(x->kept);
  tg__free(x->index);
  tg__free(x->correlation);
  tg__free(x->link);
  tg__free(x->is_gpu);
  x->slice = x->index = x->link = x->kept = NULL;
  x->correlation = NULL;
  x->is_gpu = NULL;
  return ok;
}

enum tg_err tg__rows_exact(const struct tg__rows *r, const struct tg__ask *a, struct tg_table *out) {
  struct exact x = {.t = r->t, .out = out, .rows = r, .hta = &r->hta, .tracks = r->tracks, .zero_ns = tg__rows_zero(r->t)};
  for (uint32_t rank = 0; rank < r->t->rank_count; rank++)
    if (tg__ask_has_rank(a, rank) && out->rows < a->most_rows && !add_rank(&x, rank, a->most_rows)) return TG_MEMORY;
  return TG_OK;
}
