/* Which columns of two answers name their rows, which are compared, and which are only shown.
 *
 * What names a row in one recording need not do so in another: steps go on counting, ranks, processes and addresses
 * are others. Such a column matches rows only where both sides say largely the same in it. */
#include "analyze/diff/diff_columns.h"

#include "analyze/answering.h"

/* ---- what a column is ------------------------------------------------------------------------ */

/* Names made by the recording: another recording may have others for the same. */
static bool is_of_recording(enum tg__role role) {
  return role == TG__ROLE_RECORDED || role == TG__ROLE_RANK || role == TG__ROLE_PROCESS_ID || role == TG__ROLE_TRACK;
}

static enum tg__diff_role diff_role_of(enum tg__role role, bool has_columns) {
  switch (role) {
  case TG__ROLE_VALUE:
  case TG__ROLE_INSTANT:
  case TG__ROLE_SINCE_FIRST:
    return has_columns ? TG__DIFF_LEFT_OUT : TG__DIFF_VALUE;
  case TG__ROLE_REFERENCE:
  case TG__ROLE_SLICE:
  case TG__ROLE_EVENT:
  case TG__ROLE_SLICE_OR_MARK:
    return has_columns ? TG__DIFF_LEFT_OUT : TG__DIFF_SEEN;
  case TG__ROLE_OUTCOME:
    return TG__DIFF_SEEN;
  default:
    return TG__DIFF_KEY;
  }
}

/* ---- do both sides say the same in it -------------------------------------------------------- */

/* What a cell holds, as a number that is the same on both sides; false: nothing, or on side 1 a text that side 0
 * does not have at all. */
static bool diff_value_of(struct tg_table *const sides[TG__SIDES], int side, size_t column, size_t row,
                          uint64_t *value) {
  const struct tg__column *const c = &sides[side]->columns[column];
  if (c->type == TG_INT) {
    *value = (uint64_t)c->ints[row];
    return c->ints[row] != TG_NULL_INT;
  }
  uint32_t id = c->texts[row];
  if (side && id != TG_NONE) {
    const struct tg__str text = tg__strings_get(sides[side]->strings, id);
    id = tg__strings_find(sides[0]->strings, text.ptr, text.len);
  }
  *value = id;
  return id != TG_NONE;
}

/* *out: at least half of what one side holds is on the other as well. Of tracks, processes and threads it must be
 * all: a number that both happen to have does not match them. false on no memory. */
static bool is_shared(struct tg_table *const sides[TG__SIDES], size_t column, bool *out) {
  const struct tg__column *const c = &sides[0]->columns[column];
  struct tg__map seen[TG__SIDES] = {0};
  size_t different[TG__SIDES] = {0}, common = 0;
  bool done = true;
  for (int side = 0; side < TG__SIDES; side++) {
    struct tg__map own = {0}; /* texts that the other side lacks are distinguished by their own numbers */
    for (size_t row = 0; done && row < sides[side]->rows; row++) {
      uint64_t value;
      const bool known = diff_value_of(sides, side, column, row, &value);
      if (!known && (c->type == TG_INT || sides[side]->columns[column].texts[row] == TG_NONE)) continue;
      if (!known) value = sides[side]->columns[column].texts[row];
      uint32_t *const slot = tg__map_slot(known ? &seen[side] : &own, value, 0);
      done = slot != NULL;
      if (!slot || (*slot)++) continue;
      different[side]++;
      common += side && known && tg__map_get(&seen[0], value) != TG_NONE;
    }
    tg__map_free(&own);
  }
  for (int side = 0; side < TG__SIDES; side++) tg__map_free(&seen[side]);
  const size_t fewer = different[0] < different[1] ? different[0] : different[1];
  const bool all = c->role == TG__ROLE_TRACK || c->role == TG__ROLE_PROCESS_ID;
  *out = !fewer || (all ? common == different[0] && common == different[1] : 2 * common >= fewer);
  return done;
}

/* ---- roles ----------------------------------------------------------------------------------- */

static enum tg_err assign_role(const struct tg_table *t, const char *list, const char *what, enum tg__diff_role role,
                               uint8_t *roles, struct tg_error *e) {
  for (const char *p = list; *p;) {
    const char *const end = strchrnul(p, ',');
    size_t column;
    const enum tg_err err = tg__find_column(t, what, p, (size_t)(end - p), &column, e);
    if (err) return err;
    const enum tg_type type = t->columns[column].type;
    if (role == TG__DIFF_VALUE && type != TG_INT && type != TG_REAL)
      return tg__fail(e, TG_USAGE, -1, "columns: %s holds no numbers", t->columns[column].name);
    if (roles[column] != TG__DIFF_KEY) roles[column] = (uint8_t)role;
    p = *end ? end + 1 : end;
  }
  return TG_OK;
}

/* Keys that say other things on the two sides match nothing. */
static bool loosen(struct tg_table *const sides[TG__SIDES], struct tg__diff_columns *out, struct tg_table *notes) {
  const struct tg_table *const t = sides[0];
  struct tg__out names = {0};
  bool done = true, shared;
  for (size_t c = 0; c < t->column_count && done; c++) {
    const enum tg_type type = t->columns[c].type;
    if (out->roles[c] != TG__DIFF_KEY || type == TG_BOOL || !is_of_recording(t->columns[c].role)) continue;
    done = is_shared(sides, c, &shared);
    if (!done || shared) continue;
    out->roles[c] = TG__DIFF_SEEN;
    tg__out_format(&names, "%s%s", out->in_order ? ", " : "", t->columns[c].name);
    out->in_order = true;
  }
  tg__out_char(&names, 0);
  done = done && !names.err;
  if (done && out->in_order)
    tg__table_note(notes,
                   "A and B have little in common in %s: rows are matched by the other columns, and in their order "
                   "(keys= says by which)",
                   names.buf);
  tg__out_free(&names);
  return done;
}

/* The column named first; where none is named the first that is a length of time, else a point of time, else the
 * first there is. */
static size_t choose_order(const struct tg_table *t, const uint8_t *roles, const char *columns) {
  const size_t first = strcspn(columns, ",");
  size_t by = SIZE_MAX;
  int best = 0;
  for (size_t c = 0; c < t->column_count; c++) {
    if (roles[c] != TG__DIFF_VALUE) continue;
    const char *const name = t->columns[c].name;
    const bool is_named = first && strncmp(columns, name, first) == 0 && !name[first],
               time = strcmp(t->columns[c].unit, "ns") == 0;
    const int rank = is_named ? 4 : !time ? 1 : t->columns[c].role == TG__ROLE_INSTANT ? 2 : 3;
    if (rank > best) by = c;
    if (rank > best) best = rank;
  }
  return by;
}

enum tg_err tg__diff_columns_choose(struct tg_table *const sides[TG__SIDES], const struct tg__diff_ask *ask,
                                    struct tg__diff_columns *out, struct tg_table *notes, struct tg_error *e) {
  const struct tg_table *const t = sides[0];
  const char *const keys = tg__diff_arg(ask, "keys"), *const columns = tg__diff_arg(ask, "columns");
  *out = (struct tg__diff_columns){.roles = tg__alloc(t->column_count + 1), .by = SIZE_MAX};
  if (!out->roles) return tg__no_memory(e, "comparing");
  enum tg_err err = assign_role(t, keys, "keys", TG__DIFF_KEY, out->roles, e);
  if (!err) err = assign_role(t, columns, "columns", TG__DIFF_VALUE, out->roles, e);
  if (err) return err;
  for (size_t c = 0; c < t->column_count; c++) {
    const enum tg__diff_role role = diff_role_of(t->columns[c].role, *columns);
    if (out->roles[c] == TG__DIFF_LEFT_OUT && (!*keys || role == TG__DIFF_VALUE)) out->roles[c] = (uint8_t)role;
  }
  if (!*keys && !loosen(sides, out, notes)) return tg__no_memory(e, "matching rows");
  out->by = choose_order(t, out->roles, columns);
  return TG_OK;
}

void tg__diff_columns_close(struct tg__diff_columns *c) { tg__free(c->roles); }
