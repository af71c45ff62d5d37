/* events: the question events, raw rows with the args one asks for beside them. */
#include "analyze/analyze.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- args as columns ------------------------------------------------------------------------------------------------- */

enum { MOST_KEYS = 64 };
struct extra {
  uint32_t key; /* string id; TG_NONE: no event of the trace has it */
  enum tg_type type;
  bool is_mixed; /* several kinds of value: all shown as their JSON text */
};
struct extras {
  struct extra items[MOST_KEYS];
  size_t count;
};

/* A member of args, else a member of the event itself (id, s, …). */
static bool find_value(const struct tg_trace *t, uint32_t args, uint32_t key, struct tg__val *val) {
  return tg__arg(t, args, key, false, val) || tg__arg(t, args, key, true, val);
}

static enum tg_type type_of(enum tg__kind kind) {
  switch (kind) {
  case TG__KIND_INT:
    return TG_INT;
  case TG__KIND_DEC:
    return TG_REAL;
  case TG__KIND_TRUE:
  case TG__KIND_FALSE:
    return TG_BOOL;
  case TG__KIND_STR:
  case TG__KIND_RAW:
  case TG__KIND_NULL:
    break;
  }
  return TG_TEXT;
}

/* The type that holds every value of the key; whole and decimal numbers meet in REAL, anything else in TEXT. */
static void find_type(const struct tg_trace *t, const uint32_t *args, uint32_t count, struct extra *x) {
  struct tg__val val;
  bool any = false;
  x->type = TG_TEXT;
  if (x->key == TG_NONE) return;
  for (uint32_t i = 0; i < count; i++) {
    if (!find_value(t, args[i], x->key, &val) || val.kind == TG__KIND_NULL) continue;
    const enum tg_type type = type_of(val.kind);
    if (!any || type == x->type) {
      x->type = type;
    } else if ((type == TG_INT || type == TG_REAL) && (x->type == TG_INT || x->type == TG_REAL)) {
      x->type = TG_REAL;
    } else {
      x->type = TG_TEXT;
      x->is_mixed = true;
      return;
    }
    any = true;
  }
}

static enum tg_err add_extras(const struct tg_trace *t, const char *keys, const uint32_t *args, uint32_t count, struct extras *extras,
                              struct tg_table *out, struct tg_error *e) {
  for (const char *from = keys; *from;) {
    const char *to = strchrnul(from, ',');
    char name[128], column[160];
    if (extras->count == MOST_KEYS) return tg__fail(e, TG_USAGE, -1, "args: at most %d keys", MOST_KEYS);
    if (to == from || (size_t)(to - from) >= sizeof name)
      return tg__fail(e, TG_USAGE, -1, "args=%.60s is not a list of keys joined by comma", keys);
    snprintf(name, sizeof name, "%.*s", (int)(to - from), from);
    struct extra *x = &extras->items[extras->count++];
    *x = (struct extra){.key = tg__strings_find(t->strings, name, strlen(name))};
    find_type(t, args, count, x);
    const bool taken = tg__table_column_index(out, name) != SIZE_MAX;
    snprintf(column, sizeof column, "%s%s", taken ? "args." : "", name);
    tg__table_add_column(out, column, x->type, "");
    from = *to ? to + 1 : to;
  }
  return TG_OK;
}

static void put_text_value(const struct tg_trace *t, const struct extra *x, const struct tg__val *val, struct tg_table *out) {
  if (!x->is_mixed && (val->kind == TG__KIND_STR || val->kind == TG__KIND_RAW)) {
    tg__put_trace_text(out, t, val->str);
    return;
  }
  struct tg__out json = {0};
  struct tg__jsonw writer = {.out = &json};
  tg__val_json(t, val, &writer);
  tg__put_text(out, (struct tg__str){json.buf, (uint32_t)json.len});
  out->failed |= json.err != TG_OK;
  tg__out_free(&json);
}

/* Correctly rounded: by one division where both numbers are exact, else through the text. */
static double real_value(const struct tg__val *val) {
  enum { MOST_EXACT_POWER = 22 };
  const int64_t exact = (int64_t)1 << 53;
  if (val->kind != TG__KIND_DEC) return (double)val->i;
  if (val->i > exact || val->i < -exact || val->decimals > MOST_EXACT_POWER) {
    char text[TG__VAL_TEXT + 1];
    text[tg__val_text(val, text)] = '\0';
    return strtod(text, NULL);
  }
  double unit = 1;
  for (unsigned d = 0; d < val->decimals; d++) unit *= 10;
  return (double)val->i / unit;
}

static void put_extra(const struct tg_trace *t, uint32_t args, const struct extra *x, struct tg_table *out) {
  struct tg__val val;
  if (x->key == TG_NONE || !find_value(t, args, x->key, &val) || val.kind == TG__KIND_NULL) {
    tg__put_null(out);
    return;
  }
  switch (x->type) {
  case TG_INT:
    tg__put_int(out, val.i);
    break;
  case TG_BOOL:
    tg__put_bool(out, val.kind == TG__KIND_TRUE);
    break;
  case TG_TEXT:
    put_text_value(t, x, &val, out);
    break;
  case TG_REAL:
    tg__put_real(out, real_value(&val));
    break;
  }
}

static void put_extras(const struct tg_trace *t, uint32_t args, const struct extras *extras, struct tg_table *out) {
  for (size_t k = 0; k < extras->count; k++) put_extra(t, args, &extras->items[k], out);
}

/* ---- slices -------------------------------------------------------------------------------------------------------------- */

/* The columns of questions.def, in order. */
enum { ID, RANK, TRACK, CATEGORY, NAME, PHASE, START, DUR, SELF, DEPTH, PARENT, CAUSE, OWN_COLUMNS };

static int64_t index_or_null(uint32_t index) { return index == TG_NONE ? TG_NULL_INT : (int64_t)index; }

/* Slices of one track, and what is the same for all slices. */
struct slices {
  const uint32_t *items;
  size_t count;
  uint32_t track;
  const int64_t *self; /* by slice */
  uint32_t phase_x, phase_b, phase_async; /* texts */
};

static void put_texts(const struct tg_trace *t, const struct slices *b, unsigned column, uint32_t *cells, struct tg_table *out) {
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

static int64_t int_cell(const struct tg_trace *t, const struct slices *b, unsigned column, uint32_t slice) {
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
    return b->self[slice];
  case DEPTH:
    return s->depth[slice];
  default:
    return index_or_null(column == PARENT ? s->parent[slice] : s->cause[slice]);
  }
}

/* Tables of millions of rows are written here, so column by column; there is room. */
static void put_slices(const struct tg_trace *t, const struct slices *b, const struct extras *extras, struct tg_table *out) {
  for (unsigned c = 0; c < OWN_COLUMNS; c++) {
    struct tg__column *column = &out->columns[c];
    if (column->type == TG_TEXT) {
      put_texts(t, b, c, column->texts + out->rows, out);
      continue;
    }
    int64_t *cells = column->ints + out->rows;
    for (size_t i = 0; i < b->count; i++) cells[i] = int_cell(t, b, c, b->items[i]);
  }
  if (!extras->count) tg__table_wrote_rows(out, b->count);
  for (size_t i = 0; extras->count && i < b->count; i++) {
    tg__table_wrote(out, OWN_COLUMNS);
    put_extras(t, t->slices.args[b->items[i]], extras, out);
  }
}

static int64_t *self_times(const struct tg_trace *t) {
  const struct tg__slices *s = &t->slices;
  int64_t *self = tg__alloc(((size_t)s->count + 1) * sizeof *self);
  if (!self) return NULL;
  for (uint32_t i = 0; i < s->count; i++) { /* parents come before their children */
    self[i] = s->dur_ns[i];
    if (s->parent[i] != TG_NONE) self[s->parent[i]] -= s->dur_ns[i];
  }
  return self;
}

static enum tg_err answer_slices(const struct tg_trace *t, const struct tg__ask *a, const struct extras *extras, struct tg_table *out) {
  size_t rows = 0;
  uint32_t most = 0;
  for (uint32_t k = 0; k < t->track_count; k++) {
    if (!tg__ask_has_track(a, t, k)) continue;
    rows += t->tracks[k].count;
    if (t->tracks[k].count > most) most = t->tracks[k].count;
  }
  int64_t *self = self_times(t);
  uint32_t *items = tg__alloc(((size_t)most + 1) * sizeof *items);
  struct slices b = {.items = items, .self = self};
  b.phase_x = tg__strings_add(out->strings, "X", 1);
  b.phase_b = tg__strings_add(out->strings, "B", 1);
  b.phase_async = tg__strings_add(out->strings, "b", 1);
  const bool ok = self && items && tg__table_reserve(out, rows);
  for (b.track = 0; ok && b.track < t->track_count && !out->failed; b.track++) {
    const struct tg__track *track = &t->tracks[b.track];
    if (!tg__ask_has_track(a, t, b.track)) continue;
    b.count = 0;
    for (uint32_t i = track->first; i < track->first + track->count; i++)
      if (tg__ask_has_time(a, track->rank, t->slices.start_ns[i])) items[b.count++] = i;
    put_slices(t, &b, extras, out);
  }
  tg__free(self);
  tg__free(items);
  return ok ? TG_OK : TG_MEMORY;
}

/* ---- marks --------------------------------------------------------------------------------------------------------------- */

static bool wants_mark(const struct tg_trace *t, const struct tg__ask *a, uint32_t i) {
  const uint32_t track = t->marks.track[i];
  if (track == TG_NONE) return a->rank == TG_NONE && a->track == TG_NONE && !a->has_steps;
  if (!tg__ask_has_track(a, t, track)) return false;
  if (t->marks.ts_ns[i] == TG_NULL_INT) return !a->has_steps;
  return tg__ask_has_time(a, t->tracks[track].rank, t->marks.ts_ns[i]);
}

static void put_mark(const struct tg_trace *t, uint32_t i, uint32_t phase, struct tg_table *out) {
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

static enum tg_err answer_marks(const struct tg_trace *t, const struct tg__ask *a, const struct extras *extras, struct tg_table *out) {
  const struct tg__marks *m = &t->marks;
  uint32_t phases[256]; /* text id per letter */
  memset(phases, 0xff, sizeof phases);
  if (!tg__table_reserve(out, m->count)) return TG_MEMORY;
  for (uint32_t i = 0; i < m->count && !out->failed; i++) {
    if (!wants_mark(t, a, i)) continue;
    const char letter = (char)m->ph[i];
    uint32_t *phase = &phases[m->ph[i]];
    if (letter && *phase == TG_NONE) *phase = tg__strings_add(out->strings, &letter, 1);
    put_mark(t, i, *phase, out);
    put_extras(t, m->args[i], extras, out);
  }
  return TG_OK;
}

enum tg_err tg__answer_events(const struct tg_trace *t, const struct tg__ask *a, struct tg_table *out, struct tg_error *e) {
  static const char *const choices[] = {"slice", "mark"};
  const char *keys = tg__ask_arg(a, "args");
  struct extras extras = {.count = 0};
  size_t by;
  enum tg_err err = tg__ask_choice(a, "by", choices, 2, &by, e);
  if (err == TG_OK && by == 0) err = add_extras(t, keys, t->slices.args, t->slices.count, &extras, out, e);
  if (err == TG_OK && by == 1) err = add_extras(t, keys, t->marks.args, t->marks.count, &extras, out, e);
  if (err != TG_OK || out->failed) return err;
  return by == 0 ? answer_slices(t, a, &extras, out) : answer_marks(t, a, &extras, out);
}
