/* rows: the question rows, one row per complete event as frames of HolisticTraceAnalysis hold them, and document, what a file says
 * beside its events. */
#include "analyze/rows.h"

struct rows {
  const struct tg_trace *t;
  struct tg__hta hta;
  bool is_exact;
  int64_t zero_ns;        /* exact: the earliest start of all ranks on the common clock */
  const uint32_t *tracks; /* of each slice */
};

static int64_t on_common_clock(const struct tg_trace *t, uint32_t track, uint32_t slice) {
  return t->slices.start_ns[slice] + t->ranks[t->tracks[track].rank].clock_offset_ns;
}

/* The first start of a track on the common clock; INT64_MAX without slices. Its slices stand in the order of their start. */
static int64_t first_of_track(const struct tg_trace *t, uint32_t track) {
  const struct tg__track *const k = &t->tracks[track];
  for (uint32_t i = k->first; i < k->first + k->count; i++)
    if (tg__slice_class(t, i) != TG__CLASS_SPAN) return on_common_clock(t, track, i); /* the recording itself is no row */
  return INT64_MAX;
}

static int64_t first_of_rank(const struct tg_trace *t, uint32_t rank) {
  int64_t least = INT64_MAX;
  for (uint32_t k = t->ranks[rank].first_track; k < t->ranks[rank].first_track + t->ranks[rank].track_count; k++) {
    const int64_t start = first_of_track(t, k);
    if (start < least) least = start;
  }
  return least;
}

int64_t tg__rows_zero(const struct tg_trace *t) {
  int64_t least = INT64_MAX;
  for (uint32_t r = 0; r < t->rank_count; r++) {
    const int64_t start = first_of_rank(t, r);
    if (start < least) least = start;
  }
  return least == INT64_MAX ? 0 : least;
}

/* by=rank: where each begins. */
static void put_begins(const struct tg_trace *t, const struct tg__ask *a, struct tg_table *out) {
  const int64_t zero = tg__rows_zero(t);
  for (uint32_t r = 0; r < t->rank_count; r++) {
    const int64_t start = first_of_rank(t, r);
    if (!tg__ask_has_rank(a, r) || start == INT64_MAX) continue;
    tg__put_rank(out, t, r);
    for (int c = TG__ROWS_SLICE; c < TG__ROWS_START; c++) tg__put_null(out);
    tg__put_int(out, start - t->ranks[r].clock_offset_ns);
    tg__put_real(out, tg__rows_us(start - zero));
    for (int c = TG__ROWS_DUR; c < TG__ROWS_COLUMNS; c++) tg__put_null(out);
  }
}

uint32_t *tg__rows_tracks(const struct tg_trace *t) {
  uint32_t *const tracks = tg__alloc(((size_t)t->slices.count + 1) * sizeof *tracks);
  if (!tracks) return NULL;
  for (uint32_t k = 0; k < t->track_count; k++)
    for (uint32_t i = 0; i < t->tracks[k].count; i++) tracks[t->tracks[k].first + i] = k;
  return tracks;
}

int64_t tg__rows_step_at(const struct tg_trace *t, uint32_t rank, int64_t ns) {
  uint32_t from = 0, to = t->step_count;
  while (from < to) {
    const uint32_t mid = from + (to - from) / 2;
    const struct tg__step *const s = &t->steps[mid];
    if (s->rank < rank || (s->rank == rank && s->start_ns <= ns)) from = mid + 1;
    else to = mid;
  }
  if (from == 0 || t->step_kind != TG__STEP_PROFILER) return -1;
  const struct tg__step *const s = &t->steps[from - 1];
  return s->rank == rank && ns < s->end_ns ? s->number : -1;
}

/* Device work belongs to the step of the call that launched it. */
static int64_t exact_iteration(const struct rows *r, const struct tg__hta_rank *of, uint32_t rank, const struct tg__hta_row *row) {
  const bool on_device = r->t->tracks[r->tracks[row->slice]].kind == TG__TRACK_DEVICE;
  if (on_device && row->link == TG_NONE) return -1;
  const uint32_t slice = on_device ? of->rows[row->link].slice : row->slice;
  return tg__rows_step_at(r->t, rank, r->t->slices.start_ns[slice]);
}

static int64_t exact_stream(const struct rows *r, const struct tg__hta_row *row) {
  const struct tg__track *const track = &r->t->tracks[r->tracks[row->slice]];
  return track->kind == TG__TRACK_DEVICE ? track->stream : -1;
}

static void put_int(struct tg__column *c, size_t at, int64_t v) {
  if (!c->is_left_out) c->ints[at] = v;
}
static void put_real(struct tg__column *c, size_t at, double v) {
  if (!c->is_left_out) c->reals[at] = v;
}
static void put_text(struct tg__column *c, size_t at, uint32_t v) {
  if (!c->is_left_out) c->texts[at] = v;
}

static void put_row(const struct rows *r, uint32_t rank, const struct tg__hta_row *row, struct tg_table *out) {
  const struct tg_trace *const t = r->t;
  const struct tg__hta_rank *const of = &r->hta.ranks[rank];
  struct tg__column *const c = out->columns;
  const size_t at = out->rows;
  const uint32_t i = row->slice;
  put_int(&c[TG__ROWS_RANK], at, tg__rank_number(t, rank));
  put_int(&c[TG__ROWS_SLICE], at, i);
  put_int(&c[TG__ROWS_TRACK], at, r->tracks[i]);
  put_int(&c[TG__ROWS_INDEX], at, row->index);
  put_text(&c[TG__ROWS_CATEGORY], at, tg__table_text(out, t, t->cats[t->slices.cat[i]].name));
  put_text(&c[TG__ROWS_NAME], at, tg__table_text(out, t, t->slices.name[i]));
  put_int(&c[TG__ROWS_START], at, t->slices.start_ns[i]);
  put_real(&c[TG__ROWS_TS], at, r->is_exact ? tg__rows_us(on_common_clock(t, r->tracks[i], i) - r->zero_ns) : (double)row->ts_us);
  put_real(&c[TG__ROWS_DUR], at, tg__rows_us(r->is_exact ? t->slices.dur_ns[i] : tg__hta_dur_ns(&r->hta, of, row)));
  put_int(&c[TG__ROWS_STREAM], at, r->is_exact ? exact_stream(r, row) : row->stream);
  put_int(&c[TG__ROWS_CORRELATION], at, row->correlation);
  put_int(&c[TG__ROWS_INDEX_CORRELATION], at, row->index_correlation);
  put_int(&c[TG__ROWS_ITERATION], at, r->is_exact ? exact_iteration(r, of, rank, row) : row->iteration);
  tg__table_wrote(out, TG__ROWS_COLUMNS);
}

static enum tg_err put_rows(const struct rows *r, const struct tg__ask *a, struct tg_table *out) {
  size_t count = 0;
  for (uint32_t rank = 0; rank < r->t->rank_count; rank++) count += r->hta.ranks[rank].count;
  if (!tg__table_reserve(out, count)) return TG_MEMORY;
  for (uint32_t rank = 0; rank < r->t->rank_count; rank++) {
    const struct tg__hta_rank *const of = &r->hta.ranks[rank];
    if (!tg__ask_has_rank(a, rank)) continue;
    for (size_t i = 0; i < of->count && !out->failed; i++) put_row(r, rank, &of->rows[i], out);
  }
  return TG_OK;
}

enum tg_err tg__answer_rows(const struct tg_trace *t, const struct tg__ask *a, struct tg_table *out, struct tg_error *e) {
  static const char *const rules[] = {"exact", "hta"}, *const steps[] = {"all", "without_last", "upto_last"};
  static const enum tg__hta_filter filters[] = {TG__HTA_EVERY_ROW, TG__HTA_WITHOUT_LAST_STEP, TG__HTA_WITH_LAST_STEP};
  static const char *const whats[] = {"event", "rank"};
  size_t rule, filter, by;
  enum tg_err err = tg__ask_choice(a, "rules", rules, 2, &rule, e);
  if (!err) err = tg__ask_choice(a, "steps", steps, 3, &filter, e);
  if (!err) err = tg__ask_choice(a, "by", whats, 2, &by, e);
  if (err) return err;
  if (by == 1) {
    put_begins(t, a, out);
    return TG_OK;
  }
  if (rule == 0 && filters[filter] == TG__HTA_EVERY_ROW) return tg__rows_exact(t, a, out);
  struct rows r = {.t = t, .is_exact = rule == 0};
  uint32_t *const tracks = tg__rows_tracks(t);
  err = tracks ? tg__hta_open(&r.hta, t, a->rank, filters[filter]) : TG_MEMORY;
  if (!err) {
    r.tracks = tracks;
    r.zero_ns = r.is_exact ? tg__rows_zero(t) : 0;
    err = put_rows(&r, a, out);
  }
  tg__hta_close(&r.hta);
  tg__free(tracks);
  return err;
}

enum tg_err tg__answer_document(const struct tg_trace *t, const struct tg__ask *a, struct tg_table *out, struct tg_error *e) {
  (void)e;
  for (uint32_t rank = 0; rank < t->rank_count; rank++) {
    if (!tg__ask_has_rank(a, rank)) continue;
    for (size_t i = 0; i < t->ranks[rank].meta_count; i++) {
      tg__put_rank(out, t, rank);
      tg__put_trace_text(out, t, t->ranks[rank].meta[i].key);
      tg__put_trace_text(out, t, t->ranks[rank].meta[i].raw);
    }
  }
  return TG_OK;
}
