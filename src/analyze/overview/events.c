/* events: the question events, raw rows with the args one asks for beside them. */
#include "analyze/overview/event_args.h"

/* ---- slices ---------------------------------------------------------------------------------- */

/* The columns of questions.def, in order. */
enum { ID, RANK, TRACK, CATEGORY, NAME, PHASE, START, DUR, SELF, DEPTH, PARENT, CAUSE, OWN_COLUMNS };

static int64_t index_or_null(uint32_t index) { return index == TG_NONE ? TG_NULL_INT : (int64_t)index; }

/* Slices of one track, and what is the same for all slices. */
struct slices {
  const uint32_t *items;
  size_t count;
  uint32_t track;
  const int64_t *self; /* by slice, from `first` on */
  uint32_t first;
  uint32_t phase_x, phase_b, phase_async; /* texts */
};

static void put_event_texts(const struct tg__columns *t, const struct slices *b, unsigned column, uint32_t *cells,
                            struct tg_table *out) {
  const struct tg__slices *s = &t->slices;
  for (size_t i = 0; i < b->count; i++) {
    const uint32_t slice = b->items[i];
    const uint8_t flags = s->flags[slice];
    if (column == NAME)
      cells[i] = tg__table_text(out, t, s->name[slice]);
    else if (column == CATEGORY)
      cells[i] = tg__table_text(out, t, t->cats[s->cat[slice]].name);
    else
      cells[i] = flags & TG__F_BEGIN_END ? b->phase_b : flags & TG__F_ASYNC ? b->phase_async : b->phase_x;
  }
}

static int64_t int_cell(const struct tg__columns *t, const struct slices *b, unsigned column, uint32_t slice) {
  const struct tg__slices *s = &t->slices;
  switch (column) {
  case ID:
    return slice;
  case RANK:
    return tg__rank_number(t, t->tracks[b->track].rank);
  case TRACK:
    return b->track;
  case START:
    return s->start_ns[slice];
  case DUR:
    return s->dur_ns[slice];
  case SELF:
    return b->self[slice - b->first];
  case DEPTH:
    return s->depth[slice];
  default:
    return index_or_null(column == PARENT ? s->parent[slice] : s->cause[slice]);
  }
}

/* Tables of millions of rows are written here, so column by column; there is room. */
static void put_slices(const struct tg__columns *t, const struct slices *b, struct tg__extras *extras,
                       struct tg_table *out) {
  for (unsigned c = 0; c < OWN_COLUMNS; c++) {
    struct tg__column *column = &out->columns[c];
    if (column->type == TG_TEXT) {
      put_event_texts(t, b, c, column->texts + out->rows, out);
      continue;
    }
    int64_t *cells = column->ints + out->rows;
    for (size_t i = 0; i < b->count; i++) cells[i] = int_cell(t, b, c, b->items[i]);
  }
  if (!extras->count) tg__table_wrote_rows(out, b->count);
  for (size_t i = 0; extras->count && i < b->count; i++) {
    tg__table_wrote(out, OWN_COLUMNS);
    tg__put_extras(t, t->slices.args[b->items[i]], extras, out);
  }
}

/* From the first slice within range on. */
static int64_t *self_times(const struct tg__columns *t, struct tg__rank_range range) {
  const struct tg__slices *s = &t->slices;
  const uint32_t first = range.first_slice;
  int64_t *self = tg__alloc(((size_t)(range.end_slice - first) + 1) * sizeof *self);
  if (!self) return NULL;
  for (uint32_t i = first; i < range.end_slice; i++) { /* parents come before their children */
    self[i - first] = s->dur_ns[i];
    if (s->parent[i] != TG_NONE) self[s->parent[i] - first] -= s->dur_ns[i];
  }
  return self;
}

static enum tg_err answer_slices(const struct tg__columns *t, const struct tg__ask *a, struct tg__extras *extras,
                                 struct tg_table *out) {
  size_t rows = 0;
  uint32_t most = 0;
  for (uint32_t k = 0; k < t->track_count; k++) {
    if (!tg__ask_has_track(a, t, k)) continue;
    rows += t->tracks[k].count;
    if (t->tracks[k].count > most) most = t->tracks[k].count;
  }
  if (rows > a->most_rows) rows = a->most_rows;
  const struct tg__rank_range range = tg__rank_range_of(t, a->rank);
  int64_t *self = self_times(t, range);
  uint32_t *items = tg__alloc(((size_t)most + 1) * sizeof *items);
  struct slices b = {.items = items, .self = self, .first = range.first_slice};
  b.phase_x = tg__strings_add(out->strings, "X", 1);
  b.phase_b = tg__strings_add(out->strings, "B", 1);
  b.phase_async = tg__strings_add(out->strings, "b", 1);
  const bool ok = self && items && tg__table_reserve(out, rows);
  for (b.track = 0; ok && b.track < t->track_count && out->rows < a->most_rows && !out->failed; b.track++) {
    const struct tg__track *track = &t->tracks[b.track];
    if (!tg__ask_has_track(a, t, b.track)) continue;
    b.count = 0;
    const size_t room = a->most_rows - out->rows;
    for (uint32_t i = track->first; i < track->first + track->count && b.count < room; i++)
      if (tg__ask_has_time(a, track->rank, t->slices.start_ns[i])) items[b.count++] = i;
    put_slices(t, &b, extras, out);
  }
  tg__free(self);
  tg__free(items);
  return ok ? TG_OK : TG_MEMORY;
}

/* ---- marks ----------------------------------------------------------------------------------- */

static bool wants_mark(const struct tg__columns *t, const struct tg__ask *a, uint32_t i) {
  const uint32_t track = t->marks.track[i];
  if (track == TG_NONE) return a->rank == TG_NONE && a->track == TG_NONE && !a->has_steps;
  if (!tg__ask_has_track(a, t, track)) return false;
  if (t->marks.ts_ns[i] == TG_NULL_INT) return !a->has_steps;
  return tg__ask_has_time(a, t->tracks[track].rank, t->marks.ts_ns[i]);
}

static void put_mark(const struct tg__columns *t, uint32_t i, uint32_t phase, struct tg_table *out) {
  const struct tg__marks *m = &t->marks;
  struct tg__column *c = out->columns;
  const size_t row = out->rows;
  c[ID].ints[row] = i;
  c[RANK].ints[row] = m->track[i] == TG_NONE ? TG_NULL_INT : tg__rank_number(t, t->tracks[m->track[i]].rank);
  c[TRACK].ints[row] = index_or_null(m->track[i]);
  c[CATEGORY].texts[row] = tg__table_text(out, t, t->cats[m->cat[i]].name);
  c[NAME].texts[row] = tg__table_text(out, t, m->name[i]);
  c[PHASE].texts[row] = phase;
  c[START].ints[row] = m->ts_ns[i];
  for (int k = DUR; k <= CAUSE; k++) c[k].ints[row] = TG_NULL_INT; /* of slices only */
  tg__table_wrote(out, OWN_COLUMNS);
}

static enum tg_err answer_marks(const struct tg__columns *t, const struct tg__ask *a, struct tg__extras *extras,
                                struct tg_table *out) {
  const struct tg__marks *m = &t->marks;
  uint32_t phases[256]; /* text id per letter */
  memset(phases, 0xff, sizeof phases);
  if (!tg__table_reserve(out, m->count < a->most_rows ? m->count : a->most_rows)) return TG_MEMORY;
  for (uint32_t i = 0; i < m->count && out->rows < a->most_rows && !out->failed; i++) {
    if (!wants_mark(t, a, i)) continue;
    const char letter = (char)m->ph[i];
    uint32_t *phase = &phases[m->ph[i]];
    if (letter && *phase == TG_NONE) *phase = tg__strings_add(out->strings, &letter, 1);
    put_mark(t, i, *phase, out);
    tg__put_extras(t, m->args[i], extras, out);
  }
  return TG_OK;
}

enum tg_err tg__answer_events(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                              struct tg_error *e) {
  static const char *const choices[] = {"slice", "mark"};
  const char *keys = tg__ask_arg(a, "args");
  struct tg__extras extras = {.count = 0};
  size_t by;
  enum tg_err err = tg__ask_choice(a, "by", choices, 2, &by, e);
  if (err == TG_OK && by == 0) err = tg__add_extras(t, keys, t->slices.args, t->slices.count, &extras, out, e);
  if (err == TG_OK && by == 1) err = tg__add_extras(t, keys, t->marks.args, t->marks.count, &extras, out, e);
  if (err != TG_OK || out->failed) return err;
  err = by == 0 ? answer_slices(t, a, &extras, out) : answer_marks(t, a, &extras, out);
  tg__end_extras(&extras, out);
  return err;
}
