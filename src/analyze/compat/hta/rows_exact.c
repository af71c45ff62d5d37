/* The question rows by the exact rules: the same events as HTA's rows, in its order, each column written by a loop
 * of its own. */
#include "analyze/compat/hta/rows_exact.h"

/* ---- sides ----------------------------------------------------------------------------------- */

static bool choose_rows(struct tg__exact *x, size_t most) {
  x->shown = x->count < most ? x->count : most;
  if (x->rows->side == TG__SIDE_ALL) return true;
  x->kept = tg__realloc(NULL, (x->count + 1) * sizeof *x->kept);
  x->shown = 0;
  for (size_t i = 0; x->kept && i < x->count && x->shown < most; i++)
    if (tg__rows_on_side(x->rows, &(struct tg__hta_row){.slice = x->slice[i]})) x->kept[x->shown++] = (uint32_t)i;
  return x->kept != NULL;
}

/* ---- columns --------------------------------------------------------------------------------- */

/* Device work belongs to the step of the call that launched it. Neighbours in the file are mostly of one step. */
static void put_iterations(const struct tg__exact *x, int64_t *cells) {
  const struct tg__columns *t = x->t;
  for (size_t i = 0; i < x->shown; i++) {
    const size_t row = tg__exact_row(x, i);
    const bool on_device = t->tracks[x->tracks[x->slice[row]]].kind == TG__TRACK_DEVICE;
    const bool known = !on_device || x->link[row] != TG_NONE;
    cells[i] = known ? tg__rows_step_at(t, x->rank, t->slices.start_ns[x->slice[on_device ? x->link[row] : row]]) : -1;
  }
}

static void put_partners(const struct tg__exact *x, int64_t *cells) {
  for (size_t i = 0; i < x->shown; i++) {
    const size_t row = tg__exact_row(x, i);
    const int64_t id = x->correlation[row];
    cells[i] = x->link[row] != TG_NONE ? (int64_t)x->index[x->link[row]] : id < 0 ? id : 0;
  }
}

static void put_exact_texts(const struct tg__exact *x, enum tg__rows_column c, uint32_t *cells) {
  const struct tg__slices *s = &x->t->slices;
  for (size_t i = 0; i < x->shown; i++) {
    const uint32_t slice = x->slice[tg__exact_row(x, i)];
    cells[i] = tg__table_text(x->out, x->t, c == TG__ROWS_NAME ? s->name[slice] : x->t->cats[s->cat[slice]].name);
  }
}

static void put_reals(const struct tg__exact *x, enum tg__rows_column c, double *cells) {
  const struct tg__slices *s = &x->t->slices;
  const int64_t offset = x->t->ranks[x->rank].clock_offset_ns - x->zero_ns;
  for (size_t i = 0; i < x->shown; i++) {
    const uint32_t slice = x->slice[tg__exact_row(x, i)];
    cells[i] = tg__us_of(c == TG__ROWS_DUR ? s->dur_ns[slice] : s->start_ns[slice] + offset);
  }
}

static int64_t stream_of(const struct tg__exact *x, size_t row) {
  const struct tg__track *track = &x->t->tracks[x->tracks[x->slice[row]]];
  return track->kind == TG__TRACK_DEVICE ? track->stream : -1;
}

static void put_exact_ints(const struct tg__exact *x, enum tg__rows_column c, int64_t *cells) {
  const int64_t rank = tg__rank_number(x->t, x->rank);
  switch (c) {
  case TG__ROWS_RANK:
    for (size_t i = 0; i < x->shown; i++) cells[i] = rank;
    break;
  case TG__ROWS_SLICE:
    for (size_t i = 0; i < x->shown; i++) cells[i] = x->slice[tg__exact_row(x, i)];
    break;
  case TG__ROWS_TRACK:
    for (size_t i = 0; i < x->shown; i++) cells[i] = x->tracks[x->slice[tg__exact_row(x, i)]];
    break;
  case TG__ROWS_INDEX:
    for (size_t i = 0; i < x->shown; i++) cells[i] = x->index[tg__exact_row(x, i)];
    break;
  case TG__ROWS_START:
    for (size_t i = 0; i < x->shown; i++) cells[i] = x->t->slices.start_ns[x->slice[tg__exact_row(x, i)]];
    break;
  case TG__ROWS_STREAM:
    for (size_t i = 0; i < x->shown; i++) cells[i] = stream_of(x, tg__exact_row(x, i));
    break;
  case TG__ROWS_CORRELATION:
    for (size_t i = 0; i < x->shown; i++) cells[i] = x->correlation[tg__exact_row(x, i)];
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

static void put_args(const struct tg__exact *x) {
  struct tg__extras *const extras = x->rows->extras;
  if (!extras->count) tg__table_wrote_rows(x->out, x->shown);
  for (size_t i = 0; extras->count && i < x->shown; i++) {
    tg__table_wrote(x->out, TG__ROWS_COLUMNS);
    tg__put_extras(x->t, x->t->slices.args[x->slice[tg__exact_row(x, i)]], extras, x->out);
  }
}

static bool put_columns(struct tg__exact *x) {
  if (!tg__table_reserve(x->out, x->out->rows + x->shown)) return false;
  for (unsigned c = 0; c < TG__ROWS_COLUMNS; c++) {
    struct tg__column *column = &x->out->columns[c];
    if (column->is_left_out) continue;
    if (column->type == TG_TEXT)
      put_exact_texts(x, c, column->texts + x->out->rows);
    else if (column->type == TG_REAL)
      put_reals(x, c, column->reals + x->out->rows);
    else
      put_exact_ints(x, c, column->ints + x->out->rows);
  }
  put_args(x);
  return !x->out->failed;
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static bool list_rows(struct tg__exact *x) {
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

static bool wants_links(const struct tg__exact *x) {
  const struct tg__column *const c = x->out->columns;
  return !c[TG__ROWS_CORRELATION].is_left_out || !c[TG__ROWS_INDEX_CORRELATION].is_left_out ||
         !c[TG__ROWS_ITERATION].is_left_out;
}

static bool find_rows(struct tg__exact *x, size_t most) {
  const bool links = wants_links(x);
  bool listed = false;
  const bool on_device = x->rows->side == TG__SIDE_DEVICE || x->rows->side == TG__SIDE_WORK;
  if (on_device && !tg__exact_device(x, most, links, &listed)) return false;
  return listed || (list_rows(x) && choose_rows(x, most) && (!links || !x->shown || tg__exact_links(x)));
}

static bool add_exact_of_rank(struct tg__exact *x, uint32_t rank, size_t most_rows) {
  x->rank = rank;
  const bool ok = find_rows(x, most_rows - x->out->rows) && put_columns(x);
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
  struct tg__exact x = {
      .t = r->t, .out = out, .rows = r, .hta = &r->hta, .tracks = r->tracks, .zero_ns = tg__rows_zero(r->t, a)};
  for (uint32_t rank = 0; rank < r->t->rank_count; rank++)
    if (tg__ask_has_rank(a, rank) && out->rows < a->most_rows && !add_exact_of_rank(&x, rank, a->most_rows))
      return TG_MEMORY;
  return TG_OK;
}
