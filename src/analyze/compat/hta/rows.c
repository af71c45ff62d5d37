/* rows: the question rows, one row per complete event as frames of HolisticTraceAnalysis hold them, or those of a
 * rank, a step or a name as one. */
#include "analyze/compat/hta/rows.h"
#include "analyze/overview/steps.h"

static int64_t on_common_clock(const struct tg__columns *t, uint32_t track, uint32_t slice) {
  return t->slices.start_ns[slice] + t->ranks[t->tracks[track].rank].clock_offset_ns;
}

int64_t tg__rows_zero(const struct tg__columns *t, const struct tg__ask *a) {
  int64_t least = INT64_MAX;
  if (a->job.is_part) return a->job.origin_ns;
  for (uint32_t r = 0; r < t->rank_count; r++) {
    const int64_t start = tg__rank_first_common_ns(t, r);
    if (start < least) least = start;
  }
  return least == INT64_MAX ? 0 : least;
}

static int64_t last_of_rank(const struct tg__columns *t, uint32_t rank) {
  int64_t most = INT64_MIN;
  TG__EACH (k, tg__tracks_of(&t->ranks[rank])) {
    uint32_t past = t->tracks[k].first + t->tracks[k].count;
    while (past > t->tracks[k].first && tg__slice_class(t, past - 1) == TG__CLASS_SPAN) past--;
    if (past > t->tracks[k].first && on_common_clock(t, k, past - 1) > most) most = on_common_clock(t, k, past - 1);
  }
  return most;
}

static void put_begin(const struct tg__columns *t, uint32_t rank, int64_t start_ns, double ts_us, double extent_us,
                      struct tg_table *out) {
  tg__put_rank(out, t, rank);
  for (int c = TG__ROWS_SLICE; c < TG__ROWS_START; c++) tg__put_null(out);
  tg__put_int(out, start_ns);
  tg__put_real(out, ts_us);
  tg__put_real(out, extent_us);
  for (int c = TG__ROWS_STREAM; c < TG__ROWS_COLUMNS; c++) tg__put_null(out);
}

/* by=rank: where each begins, and how far it is from there to the last start. */
static void put_begins(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out) {
  const int64_t zero = tg__rows_zero(t, a);
  for (uint32_t r = 0; r < t->rank_count; r++) {
    const int64_t start = tg__rank_first_common_ns(t, r);
    if (!tg__ask_has_rank(a, r) || start == INT64_MAX) continue;
    put_begin(t, r, start - t->ranks[r].clock_offset_ns, tg__us_of(start - zero), tg__us_of(last_of_rank(t, r) - start),
              out);
  }
}

static uint32_t *tracks_of_slices(const struct tg__columns *t) {
  uint32_t *const tracks = tg__alloc(((size_t)t->slices.count + 1) * sizeof *tracks);
  if (!tracks) return NULL;
  for (uint32_t k = 0; k < t->track_count; k++)
    for (uint32_t i = 0; i < t->tracks[k].count; i++) tracks[t->tracks[k].first + i] = k;
  return tracks;
}

int64_t tg__rows_step_at(const struct tg__columns *t, uint32_t rank, int64_t ns) {
  const uint32_t step = t->ranks[rank].step_kind == TG__STEP_PROFILER ? tg__step_at(t, rank, ns) : TG_NONE;
  return step == TG_NONE ? -1 : t->steps[step].number;
}

/* Device work belongs to the step of the call that launched it. */
static int64_t exact_iteration(const struct tg__rows *r, const struct tg__hta_rank *of, uint32_t rank,
                               const struct tg__hta_row *row) {
  const bool on_device = r->t->tracks[r->tracks[row->slice]].kind == TG__TRACK_DEVICE;
  if (on_device && row->link == TG_NONE) return -1;
  const uint32_t slice = on_device ? of->rows[row->link].slice : row->slice;
  return tg__rows_step_at(r->t, rank, r->t->slices.start_ns[slice]);
}

static int64_t exact_stream(const struct tg__rows *r, const struct tg__hta_row *row) {
  const struct tg__track *const track = &r->t->tracks[r->tracks[row->slice]];
  return track->kind == TG__TRACK_DEVICE ? track->stream : -1;
}

int64_t tg__rows_iteration(const struct tg__rows *r, uint32_t rank, const struct tg__hta_row *row) {
  return r->is_exact ? exact_iteration(r, &r->hta.ranks[rank], rank, row) : row->iteration;
}

static int64_t stream_of(const struct tg__rows *r, const struct tg__hta_row *row) {
  return r->is_exact ? exact_stream(r, row) : row->stream;
}

bool tg__rows_on_side(const struct tg__rows *r, const struct tg__hta_row *row) {
  if (r->side == TG__SIDE_ALL) return true;
  if ((stream_of(r, row) != -1) != (r->side != TG__SIDE_HOST)) return false;
  return r->side != TG__SIDE_WORK || tg__class_is_device_work(tg__slice_class(r->t, row->slice));
}

/* From the earliest event of all ranks. */
static int64_t start_of(const struct tg__rows *r, const struct tg__hta_row *row) {
  return r->is_exact ? on_common_clock(r->t, r->tracks[row->slice], row->slice) - r->zero_ns : row->ts_us * 1000;
}

static void put_event_int(struct tg__column *c, size_t at, int64_t v) {
  if (!c->is_left_out) c->ints[at] = v;
}
static void put_real(struct tg__column *c, size_t at, double v) {
  if (!c->is_left_out) c->reals[at] = v;
}
static void put_event_text(struct tg__column *c, size_t at, uint32_t v) {
  if (!c->is_left_out) c->texts[at] = v;
}

static void put_event_row(const struct tg__rows *r, uint32_t rank, const struct tg__hta_row *row,
                          struct tg_table *out) {
  const struct tg__columns *const t = r->t;
  const struct tg__hta_rank *const of = &r->hta.ranks[rank];
  struct tg__column *const c = out->columns;
  const size_t at = out->rows;
  const uint32_t i = row->slice;
  put_event_int(&c[TG__ROWS_RANK], at, tg__rank_number(t, rank));
  put_event_int(&c[TG__ROWS_SLICE], at, i);
  put_event_int(&c[TG__ROWS_TRACK], at, r->tracks[i]);
  put_event_int(&c[TG__ROWS_INDEX], at, row->index);
  put_event_text(&c[TG__ROWS_CATEGORY], at, tg__table_text(out, t, t->cats[t->slices.cat[i]].name));
  put_event_text(&c[TG__ROWS_NAME], at, tg__table_text(out, t, t->slices.name[i]));
  put_event_int(&c[TG__ROWS_START], at, t->slices.start_ns[i]);
  put_real(&c[TG__ROWS_TS], at, tg__us_of(start_of(r, row)));
  put_real(&c[TG__ROWS_DUR], at, tg__us_of(r->is_exact ? t->slices.dur_ns[i] : tg__hta_dur_ns(&r->hta, of, row)));
  put_event_int(&c[TG__ROWS_STREAM], at, stream_of(r, row));
  put_event_int(&c[TG__ROWS_CORRELATION], at, row->correlation);
  put_event_int(&c[TG__ROWS_INDEX_CORRELATION], at, row->index_correlation);
  put_event_int(&c[TG__ROWS_ITERATION], at, tg__rows_iteration(r, rank, row));
  tg__table_wrote(out, TG__ROWS_WRITTEN);
  tg__put_null(out);
  tg__put_extras(t, t->slices.args[i], r->extras, out);
}

static size_t count_shown(const struct tg__rows *r, const struct tg__hta_rank *of) {
  size_t count = 0;
  for (size_t i = 0; i < of->count; i++) count += tg__rows_on_side(r, &of->rows[i]);
  return count;
}

static enum tg_err put_event_rows(const struct tg__rows *r, const struct tg__ask *a, struct tg_table *out) {
  size_t count = 0;
  for (uint32_t rank = 0; rank < r->t->rank_count; rank++) count += count_shown(r, &r->hta.ranks[rank]);
  if (!tg__table_reserve(out, count)) return TG_MEMORY;
  for (uint32_t rank = 0; rank < r->t->rank_count; rank++) {
    const struct tg__hta_rank *const of = &r->hta.ranks[rank];
    if (!tg__ask_has_rank(a, rank)) continue;
    for (size_t i = 0; i < of->count && !out->failed; i++)
      if (tg__rows_on_side(r, &of->rows[i])) put_event_row(r, rank, &of->rows[i], out);
  }
  return TG_OK;
}

/* The first row, which need not be the earliest with rules=hta, and the extent of those that the step filter leaves. */
static void put_filtered_begins(const struct tg__rows *r, const struct tg__ask *a, struct tg_table *out) {
  for (uint32_t rank = 0; rank < r->t->rank_count; rank++) {
    const struct tg__hta_rank *const of = &r->hta.ranks[rank];
    int64_t least = INT64_MAX, most = INT64_MIN;
    size_t first = 0;
    if (!tg__ask_has_rank(a, rank) || of->count == 0) continue;
    for (size_t i = 0; i < of->count; i++) {
      const int64_t start = start_of(r, &of->rows[i]);
      if (start < least && r->is_exact) first = i;
      if (start < least) least = start;
      if (start > most) most = start;
    }
    put_begin(r->t, rank, r->t->slices.start_ns[of->rows[first].slice], tg__us_of(start_of(r, &of->rows[first])),
              tg__us_of(most - least), out);
  }
}

enum by { BY_EVENT, BY_RANK, BY_STEP, BY_NAME };

/* Every row by the exact rules: rows need not be loaded, and for ranks and steps not even looked at. */
static enum tg_err answer_exact(struct tg__rows *r, const struct tg__ask *a, enum by by, struct tg_table *out,
                                struct tg_error *e) {
  if (by == BY_STEP) return tg__put_exact_steps(r->t, a, out);
  if (by == BY_RANK) {
    put_begins(r->t, a, out);
    return TG_OK;
  }
  uint32_t *const tracks = tracks_of_slices(r->t);
  enum tg_err err = tracks ? tg__hta_prepare(&r->hta, r->t) : TG_MEMORY;
  r->tracks = tracks;
  if (!err) err = by == BY_NAME ? tg__put_exact_names(r, a, out, e) : tg__rows_exact(r, a, out);
  tg__hta_close(&r->hta);
  tg__free(tracks);
  return err;
}

static enum tg_err answer_loaded(struct tg__rows *r, const struct tg__ask *a, enum by by, enum tg__hta_filter filter,
                                 struct tg_table *out, struct tg_error *e) {
  uint32_t *const tracks = tracks_of_slices(r->t);
  enum tg_err err = tracks ? tg__hta_open(&r->hta, r->t, a->rank, filter) : TG_MEMORY;
  r->tracks = tracks;
  r->zero_ns = r->is_exact ? tg__rows_zero(r->t, a) : 0;
  if (err == TG_OK && by == BY_RANK) put_filtered_begins(r, a, out);
  if (err == TG_OK && by == BY_STEP) err = tg__put_row_steps(r, a, out);
  if (err == TG_OK && by == BY_NAME) err = tg__put_row_names(r, a, out, e);
  if (err == TG_OK && by == BY_EVENT) err = put_event_rows(r, a, out);
  tg__hta_close(&r->hta);
  tg__free(tracks);
  return err;
}

enum tg_err tg__answer_rows(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                            struct tg_error *e) {
  static const char *const rules[] = {"exact", "hta"}, *const steps[] = {"all", "without_last", "upto_last"};
  static const enum tg__hta_filter filters[] = {TG__HTA_EVERY_ROW, TG__HTA_WITHOUT_LAST_STEP, TG__HTA_WITH_LAST_STEP};
  static const char *const whats[] = {[BY_EVENT] = "event", [BY_RANK] = "rank", [BY_STEP] = "step", [BY_NAME] = "name"};
  static const char *const sides[] = {
      [TG__SIDE_ALL] = "all", [TG__SIDE_DEVICE] = "device", [TG__SIDE_WORK] = "work", [TG__SIDE_HOST] = "host"};
  size_t rule, filter, by, side;
  enum tg_err err = tg__ask_choice(a, "rules", rules, 2, &rule, e);
  if (!err) err = tg__ask_choice(a, "steps", steps, 3, &filter, e);
  if (!err) err = tg__ask_choice(a, "by", whats, sizeof whats / sizeof *whats, &by, e);
  if (!err) err = tg__ask_choice(a, "side", sides, sizeof sides / sizeof *sides, &side, e);
  if (err) return err;
  struct tg__extras extras = {.count = 0};
  struct tg__rows r = {.t = t, .is_exact = rule == 0, .side = (enum tg__rows_side)side, .extras = &extras};
  if (by == BY_EVENT) err = tg__add_extras(t, tg__ask_arg(a, "args"), t->slices.args, t->slices.count, &extras, out, e);
  if (err || out->failed) return err;
  if (r.is_exact && filters[filter] == TG__HTA_EVERY_ROW)
    err = answer_exact(&r, a, (enum by)by, out, e);
  else
    err = answer_loaded(&r, a, (enum by)by, filters[filter], out, e);
  tg__end_extras(&extras, out);
  return err;
}
