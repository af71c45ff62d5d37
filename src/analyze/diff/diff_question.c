/* One question asked of two traces: rows matched by what names them, numbers compared column by column. */
#include "analyze/answering.h"
#include "analyze/diff/diff_columns.h"

#include <math.h>
#include <stdio.h>

struct join {
  struct tg_table *sides[TG__SIDES];
  struct tg__diff_columns columns;
  struct tg__strings *keys; /* texts of keys, the n-th occurrence counted → position in pairs */
  uint32_t (*pairs)[TG__SIDES];
  size_t count, cap;
};

/* ---- matching -------------------------------------------------------------------------------- */

static bool is(const struct join *j, size_t column, enum tg__diff_role role) {
  return j->columns.roles[column] == role;
}

static void write_key(const struct join *j, const struct tg_table *t, size_t row, struct tg__out *out) {
  for (size_t c = 0; c < t->column_count; c++) {
    if (!is(j, c, TG__DIFF_KEY)) continue;
    const struct tg__column *column = &t->columns[c];
    if (column->type == TG_TEXT && column->texts[row] != TG_NONE) {
      const struct tg__str s = tg__strings_get(t->strings, column->texts[row]);
      tg__out_format(out, "%u:", s.len); /* the length keeps "a","bc" apart from "ab","c" */
      tg__out_bytes(out, s.ptr, s.len);
    } else if (column->type == TG_INT) {
      tg__out_int(out, column->ints[row]);
    } else if (column->type == TG_BOOL) {
      tg__out_int(out, column->bools[row]);
    } else if (column->type == TG_REAL) {
      tg__out_double(out, column->reals[row]);
    }
    tg__out_char(out, ';');
  }
}

/* Rows with one and the same key are matched in their order: the n-th occurrence is part of the key. */
static bool match_rows(struct join *j, int side, bool *repeated) {
  const struct tg_table *t = j->sides[side];
  struct tg__strings *plain = tg__strings_new();
  struct tg__map seen = {0};
  struct tg__out key = {0};
  bool ok = plain != NULL;
  for (size_t row = 0; ok && row < t->rows; row++) {
    key.len = 0;
    write_key(j, t, row, &key);
    uint32_t *times = key.err ? NULL : tg__map_slot(&seen, tg__strings_add(plain, key.buf ? key.buf : "", key.len), 0);
    if (!times) break;
    *repeated |= *times > 0;
    tg__out_format(&key, "#%u", (*times)++);
    const uint32_t at = key.err ? TG_NONE : tg__strings_add(j->keys, key.buf, key.len);
    ok = at != TG_NONE && tg__grow((void **)&j->pairs, &j->cap, (size_t)at + 1, sizeof *j->pairs);
    if (!ok) break;
    if (at == j->count) {
      j->pairs[at][0] = j->pairs[at][1] = TG_NONE;
      j->count++;
    }
    j->pairs[at][side] = (uint32_t)row;
  }
  ok = ok && !key.err;
  tg__strings_free(plain);
  tg__map_free(&seen);
  tg__out_free(&key);
  return ok;
}

/* ---- the table ------------------------------------------------------------------------------- */

static void add_compared_columns(const struct join *j, struct tg_table *out) {
  static const char *const ends[] = {"a", "b", "delta"};
  const struct tg_table *t = j->sides[0];
  for (size_t c = 0; c < t->column_count; c++)
    if (is(j, c, TG__DIFF_KEY))
      tg__table_add_column_as(out, t->columns[c].name, t->columns[c].type, t->columns[c].unit, t->columns[c].role);
  tg__table_add_column(out, "in", TG_TEXT, "");
  for (size_t c = 0; c < t->column_count; c++) {
    const int count = is(j, c, TG__DIFF_VALUE) ? 3 : is(j, c, TG__DIFF_SEEN) ? 2 : 0;
    for (int k = 0; k < count; k++) {
      char name[96];
      snprintf(name, sizeof name, "%.80s_%s", t->columns[c].name, ends[k]);
      tg__table_add_column(out, name, t->columns[c].type, t->columns[c].unit);
    }
  }
}

static void put_cell(const struct tg_table *t, const struct tg__column *c, size_t row, struct tg_table *out) {
  if (c->type == TG_TEXT && c->texts[row] == TG_NONE)
    tg__put_null(out);
  else if (c->type == TG_TEXT)
    tg__put_text(out, tg__strings_get(t->strings, c->texts[row]));
  else if (c->type == TG_INT)
    tg__put_int(out, c->ints[row]);
  else if (c->type == TG_REAL)
    tg__put_real(out, c->reals[row]);
  else if (c->bools[row] < 0)
    tg__put_null(out);
  else
    tg__put_bool(out, c->bools[row]);
}

static void put_diff_question_ints(const int64_t v[TG__SIDES], struct tg_table *out) {
  int64_t delta = TG_NULL_INT;
  if (v[0] != TG_NULL_INT && v[1] != TG_NULL_INT && __builtin_sub_overflow(v[1], v[0], &delta)) delta = TG_NULL_INT;
  for (int side = 0; side < TG__SIDES; side++) tg__put_int(out, v[side]);
  tg__put_int(out, delta);
}

static void put_values(const struct join *j, const uint32_t rows[TG__SIDES], size_t column, struct tg_table *out) {
  const bool is_recording = j->sides[0]->columns[column].type == TG_INT;
  int64_t ints[TG__SIDES] = {TG_NULL_INT, TG_NULL_INT};
  double reals[TG__SIDES] = {NAN, NAN};
  for (int side = 0; side < TG__SIDES; side++) {
    const struct tg__column *const c = &j->sides[side]->columns[column];
    if (rows[side] != TG_NONE && is_recording) ints[side] = c->ints[rows[side]];
    if (rows[side] != TG_NONE && !is_recording) reals[side] = c->reals[rows[side]];
  }
  if (is_recording) {
    put_diff_question_ints(ints, out);
    return;
  }
  for (int side = 0; side < TG__SIDES; side++) tg__put_real(out, reals[side]);
  tg__put_real(out, reals[1] - reals[0]);
}

static void put_diff_question_row(const struct join *j, const uint32_t rows[TG__SIDES], struct tg_table *out) {
  const int from = rows[0] == TG_NONE;
  const struct tg_table *t = j->sides[from];
  for (size_t c = 0; c < t->column_count; c++)
    if (is(j, c, TG__DIFF_KEY)) put_cell(t, &t->columns[c], rows[from], out);
  tg__put_cstr(out, rows[0] == TG_NONE ? "b" : rows[1] == TG_NONE ? "a" : "both");
  for (size_t c = 0; c < t->column_count; c++) {
    if (is(j, c, TG__DIFF_VALUE)) put_values(j, rows, c, out);
    for (int side = 0; side < TG__SIDES && is(j, c, TG__DIFF_SEEN); side++) {
      if (rows[side] == TG_NONE)
        tg__put_null(out);
      else
        put_cell(j->sides[side], &j->sides[side]->columns[c], rows[side], out);
    }
  }
}

static bool same_columns(const struct join *j) {
  if (j->sides[0]->column_count != j->sides[1]->column_count) return false;
  for (size_t c = 0; c < j->sides[0]->column_count; c++) {
    const struct tg__column *x = &j->sides[0]->columns[c], *y = &j->sides[1]->columns[c];
    if (x->type != y->type || strcmp(x->name, y->name) != 0) return false;
  }
  return true;
}

static enum tg_err ask_side(const struct tg__diff_input *in, const struct tg__diff_ask *ask, int side,
                            struct tg_table **out, struct tg_error *e) {
  static const char *const ours[] = {"question", "columns", "keys",  "rank_a", "rank_b", "step_a",
                                     "step_b",   "accept",  "least", "where",  "sort",   "limit"};
  struct tg_arg *args = tg__alloc((ask->count + 2) * sizeof *args);
  if (!args) return tg__no_memory(e, "comparing");
  const char *const rank = tg__diff_arg(ask, side ? "rank_b" : "rank_a"), *const step = tg__diff_arg(
                                                                              ask, side ? "step_b" : "step_a");
  size_t count = 0;
  for (size_t i = 0; i < ask->count; i++) {
    bool keep = true;
    for (size_t k = 0; k < sizeof ours / sizeof *ours; k++) keep &= strcmp(ask->args[i].name, ours[k]) != 0;
    keep &= !(*rank && strcmp(ask->args[i].name, "rank") == 0) && !(*step && strcmp(ask->args[i].name, "step") == 0);
    if (keep) args[count++] = ask->args[i];
  }
  if (*rank) args[count++] = (struct tg_arg){"rank", rank};
  if (*step) args[count++] = (struct tg_arg){"step", step};
  const char *const question = tg__diff_arg(ask, "question");
  const enum tg_err err = ask->access->ask(in->trace, question, args, count, out, e);
  tg__free(args);
  return err;
}

/* How much a pair changed; rows that only one side has count whole. */
static double change_of(const struct join *j, const uint32_t rows[TG__SIDES]) {
  double v[TG__SIDES] = {0, 0};
  for (int side = 0; j->columns.by != SIZE_MAX && side < TG__SIDES; side++) {
    if (rows[side] == TG_NONE) continue;
    const struct tg__column *column = &j->sides[side]->columns[j->columns.by];
    if (column->type == TG_REAL)
      v[side] = isnan(column->reals[rows[side]]) ? 0 : column->reals[rows[side]];
    else if (column->ints[rows[side]] != TG_NULL_INT)
      v[side] = (double)column->ints[rows[side]];
  }
  return fabs(v[1] - v[0]);
}

static bool larger_change(uint32_t a, uint32_t b, const void *ctx) {
  const struct join *j = ctx;
  return change_of(j, j->pairs[a]) > change_of(j, j->pairs[b]);
}

static enum tg_err join_sides(struct join *j, const struct tg__diff_ask *ask, struct tg_table *out,
                              struct tg_error *e) {
  if (!same_columns(j))
    return tg__fail(e, TG_USAGE, -1, "question=%s answers the two traces with different columns",
                    tg__diff_arg(ask, "question"));
  enum tg_err err = tg__diff_columns_choose(j->sides, ask, &j->columns, out, e);
  if (err) return err;
  bool repeated = false;
  j->keys = tg__strings_new();
  if (!j->keys || !match_rows(j, 0, &repeated) || !match_rows(j, 1, &repeated))
    return tg__no_memory(e, "matching rows");
  uint32_t *order = tg__order_new(j->count, larger_change, j);
  if (!order) {
    tg__free(order);
    return tg__no_memory(e, "sorting");
  }
  add_compared_columns(j, out);
  for (size_t i = 0; i < j->count; i++) put_diff_question_row(j, j->pairs[order[i]], out);
  tg__free(order);
  if (repeated && !j->columns.in_order)
    tg__table_note(out, "some rows have the same key as others: these are matched in their order");
  return TG_OK;
}

static void note_losses(const struct tg_table *t, char letter, struct tg_table *out) {
  int64_t loss[TG__LOSS_COUNT] = {0};
  for (size_t i = 0; i < t->loss_count; i++)
    for (int k = 0; k < TG__LOSS_COUNT; k++)
      if (strcmp(t->losses[i].name, tg__loss_info[k].name) == 0) loss[k] = t->losses[i].count;
  tg__diff_note_losses(out, letter, loss);
}

enum tg_err tg__diff_question(const struct tg__diff_input *const sides[TG__SIDES], const struct tg__diff_ask *ask,
                              struct tg_table *out, struct tg_error *e) {
  struct join j = {0};
  enum tg_err err = TG_OK;
  for (int side = 0; !err && side < TG__SIDES; side++)
    err = tg__diff_side_lacks(side, ask_side(sides[side], ask, side, &j.sides[side], e), e);
  if (!err) err = join_sides(&j, ask, out, e);
  for (int side = 0; !err && side < TG__SIDES; side++) note_losses(j.sides[side], "AB"[side], out);
  for (int side = 0; side < TG__SIDES; side++) tg__table_free(j.sides[side]);
  tg__diff_columns_close(&j.columns);
  tg__free(j.pairs);
  tg__strings_free(j.keys);
  return err;
}
