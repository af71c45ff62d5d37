/* fold: rows of several ranks that are about the same thing become one row, column by column as questions.def says. */
#include "analyze/table/join.h"

#include "analyze/work/flops.h"

#include <math.h>
#include <stdlib.h>

enum { BOTH = 2 }; /* yes of some, no of others: not yet decided */

struct rule {
  enum tg__fold_how how;
  size_t of, by;  /* columns, SIZE_MAX = none */
  int64_t number; /* TG__FOLD_EQUAL_TO: the one that it is or is not */
};
struct tg__fold {
  struct tg__strings *keys; /* id = row */
  struct rule *rules;       /* by column */
  struct tg__out key;
  size_t start, length; /* of EARLIEST; SIZE_MAX = none */
};

static struct rule rule_of(const struct tg__question *q, const struct tg_table *t, size_t column) {
  const struct tg__column_info *info;
  struct rule rule = {.how = TG__FOLD_FIRST, .of = SIZE_MAX, .by = SIZE_MAX, .number = TG_NULL_INT};
  for (size_t k = 0; (info = tg__question_column(q, k)) != NULL; k++) {
    if (info->fold == TG__FOLD_ || strcmp(info->name, t->columns[column].name) != 0) continue;
    rule.how = info->fold;
    rule.of = tg__table_column_index(t, info->of);
    rule.by = tg__table_column_index(t, info->by);
    if (info->fold == TG__FOLD_EQUAL_TO && strcmp(info->of, "unknown") != 0) rule.number = strtoll(info->of, NULL, 10);
  }
  return rule;
}

struct tg__fold *tg__fold_new(const struct tg__question *q, const struct tg_table *first) {
  struct tg__fold *const f = tg__alloc(sizeof *f);
  if (!f) return NULL;
  f->keys = tg__strings_new();
  f->rules = tg__alloc((first->column_count + 1) * sizeof *f->rules);
  if (!f->keys || !f->rules) {
    tg__fold_free(f);
    return NULL;
  }
  f->start = f->length = SIZE_MAX;
  for (size_t c = 0; c < first->column_count; c++) {
    f->rules[c] = rule_of(q, first, c);
    if (f->rules[c].how != TG__FOLD_EARLIEST) continue;
    f->start = f->rules[c].of;
    f->length = f->rules[c].by;
  }
  return f;
}

void tg__fold_free(struct tg__fold *f) {
  if (!f) return;
  tg__strings_free(f->keys);
  tg__free(f->rules);
  tg__out_free(&f->key);
  tg__free(f);
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void write_cell(const struct tg_table *t, size_t column, size_t row, struct tg__out *out) {
  const struct tg__column *const c = &t->columns[column];
  if (c->type == TG_TEXT && c->texts[row] != TG_NONE) {
    const struct tg__str s = tg__strings_get(t->strings, c->texts[row]);
    tg__out_format(out, "%u:", s.len); /* the length keeps "a","bc" apart from "ab","c" */
    tg__out_bytes(out, s.ptr, s.len);
  } else if (c->type == TG_INT) {
    tg__out_int(out, c->ints[row]);
  } else if (c->type == TG_BOOL) {
    tg__out_int(out, c->bools[row]);
  }
  tg__out_char(out, ';');
}

/* The row that this one belongs to: to->rows when it is a new one, TG_NONE on no memory. */
static uint32_t find_fold_row(struct tg__fold *f, const struct tg_table *from, size_t row) {
  f->key.len = 0;
  for (size_t c = 0; c < from->column_count; c++) {
    if (f->rules[c].how == TG__FOLD_KEY) write_cell(from, c, row, &f->key);
    if (f->rules[c].how == TG__FOLD_EQUAL_TO)
      tg__out_char(&f->key, from->columns[c].ints[row] == f->rules[c].number ? 'y' : 'n');
  }
  return f->key.err ? TG_NONE : tg__strings_add(f->keys, f->key.buf ? f->key.buf : "", f->key.len);
}

/* ---- cells ----------------------------------------------------------------------------------- */

static bool is_known(const struct tg__column *c, size_t row) {
  return c->type == TG_INT    ? c->ints[row] != TG_NULL_INT
         : c->type == TG_REAL ? !isnan(c->reals[row])
         : c->type == TG_BOOL ? c->bools[row] >= 0
                              : c->texts[row] != TG_NONE;
}

/* An integer, or TG_NULL_INT, as a number that can be reckoned with. */
static double number_at(const struct tg_table *t, size_t column, size_t row) {
  const struct tg__column *const c = &t->columns[column];
  if (!is_known(c, row)) return NAN;
  return c->type == TG_INT ? (double)c->ints[row] : c->reals[row];
}

static bool copy_cell(struct tg_table *to, size_t into, const struct tg_table *from, size_t column, size_t row) {
  struct tg__column *const c = &to->columns[column];
  const struct tg__column *const source = &from->columns[column];
  if (c->type == TG_INT) c->ints[into] = source->ints[row];
  if (c->type == TG_REAL) c->reals[into] = source->reals[row];
  if (c->type == TG_BOOL) c->bools[into] = source->bools[row];
  if (c->type != TG_TEXT) return true;
  const struct tg__str s =
      source->texts[row] == TG_NONE ? (struct tg__str){0} : tg__strings_get(from->strings, source->texts[row]);
  c->texts[into] = s.ptr ? tg__strings_add(to->strings, s.ptr, s.len) : TG_NONE;
  return !s.ptr || c->texts[into] != TG_NONE;
}

static bool add_fold_row(struct tg_table *to, const struct tg_table *from, size_t row) {
  bool done = tg__table_reserve(to, to->rows + 1);
  for (size_t c = 0; done && c < from->column_count; c++) done = copy_cell(to, to->rows, from, c, row);
  if (done) tg__table_wrote(to, from->column_count);
  return done;
}

/* Deviations of two lots around their own means, put together around the common one. */
static double join_std(const struct tg_table *to, size_t into, const struct tg_table *from, size_t row,
                       const struct rule *r, size_t column) {
  const double n = number_at(to, r->by, into), m = number_at(from, r->by, row);
  const double a = to->columns[column].reals[into], b = from->columns[column].reals[row];
  const double apart = number_at(from, r->of, row) / m - number_at(to, r->of, into) / n;
  const double squares =
      (n > 1 ? a * a * (n - 1) : 0) + (m > 1 ? b * b * (m - 1) : 0) + apart * apart * n * m / (n + m);
  return sqrt(squares / (n + m - 1));
}

/* Unknown means of no weight do not matter. */
static double join_means(double a, double weight_a, double b, double weight_b, enum tg__fold_how how) {
  if (!(weight_a > 0)) return b;
  if (!(weight_b > 0)) return a;
  if (how == TG__FOLD_WEIGHTED_IF_ANY && isnan(a) != isnan(b))
    return (isnan(a) ? b * weight_b : a * weight_a) / (weight_a + weight_b);
  if (how == TG__FOLD_WEIGHTED_INT)
    return 100 * (round(a * weight_a / 100) + round(b * weight_b / 100)) / (weight_a + weight_b);
  return (a * weight_a + b * weight_b) / (weight_a + weight_b);
}

/* Needs the sums as they were before this row, so it comes first. */
static void fold_mean(struct tg__fold *f, struct tg_table *to, size_t into, const struct tg_table *from, size_t row,
                      size_t column) {
  const struct rule *const r = &f->rules[column];
  double *const cell = &to->columns[column].reals[into];
  if (r->how == TG__FOLD_STD) *cell = join_std(to, into, from, row, r, column);
  if (r->how == TG__FOLD_WEIGHTED || r->how == TG__FOLD_WEIGHTED_IF_ANY || r->how == TG__FOLD_WEIGHTED_INT)
    *cell = join_means(*cell, number_at(to, r->of, into), from->columns[column].reals[row], number_at(from, r->of, row),
                       r->how);
}

static int64_t sum(int64_t a, int64_t b) {
  int64_t s;
  if (__builtin_add_overflow(a, b, &s)) return a < 0 ? INT64_MIN + 1 : INT64_MAX;
  return s;
}

static bool fold_cell(struct tg__fold *f, struct tg_table *to, size_t into, const struct tg_table *from, size_t row,
                      size_t column, bool earlier) {
  struct tg__column *const c = &to->columns[column];
  const struct tg__column *const source = &from->columns[column];
  const bool here = is_known(c, into), there = is_known(source, row);
  switch (f->rules[column].how) {
  case TG__FOLD_SUM:
  case TG__FOLD_FLOPS:
  case TG__FOLD_SUM_IF_ANY:
    if (here && there)
      c->ints[into] = sum(c->ints[into], source->ints[row]);
    else if (there)
      c->ints[into] = source->ints[row];
    return true;
  case TG__FOLD_SUM_IF_ALL:
    c->ints[into] = here && there ? sum(c->ints[into], source->ints[row]) : TG_NULL_INT;
    return true;
  case TG__FOLD_MIN:
    if (there && (!here || source->ints[row] < c->ints[into])) c->ints[into] = source->ints[row];
    return true;
  case TG__FOLD_MAX:
    if (there && (!here || source->ints[row] > c->ints[into])) c->ints[into] = source->ints[row];
    return true;
  case TG__FOLD_LOW:
    if (there) c->bools[into] = !here || source->bools[row] == c->bools[into] ? source->bools[row] : BOTH;
    return true;
  case TG__FOLD_ANY:
    if (there && (!here || source->bools[row] > c->bools[into])) c->bools[into] = source->bools[row];
    return true;
  case TG__FOLD_FIRST:
    return here || !there || copy_cell(to, into, from, column, row);
  case TG__FOLD_EQUAL_TO:
  case TG__FOLD_EARLIEST:
    return !earlier || copy_cell(to, into, from, column, row);
  default:
    return true; /* keys are equal; the rest follows from the others */
  }
}

static bool is_earlier(const struct tg__fold *f, const struct tg_table *to, size_t into, const struct tg_table *from,
                       size_t row) {
  if (f->start == SIZE_MAX) return false;
  const int64_t a = to->columns[f->start].ints[into], b = from->columns[f->start].ints[row];
  if (a != b || f->length == SIZE_MAX) return b < a;
  return from->columns[f->length].ints[row] > to->columns[f->length].ints[into];
}

bool tg__fold_rows(struct tg__fold *f, struct tg_table *to, const struct tg_table *from) {
  for (size_t row = 0; row < from->rows && !to->failed; row++) {
    const uint32_t into = find_fold_row(f, from, row);
    if (into == TG_NONE) return false;
    if (into == to->rows) {
      if (!add_fold_row(to, from, row)) return false;
      continue;
    }
    const bool earlier = is_earlier(f, to, into, from, row);
    for (size_t c = 0; c < from->column_count; c++) fold_mean(f, to, into, from, row, c);
    for (size_t c = 0; c < from->column_count; c++)
      if (!fold_cell(f, to, into, from, row, c, earlier)) return false;
  }
  return !to->failed;
}

/* ---- what follows from the sums -------------------------------------------------------------- */

static double sum_of_all(const struct tg_table *t, size_t column) {
  double whole = 0;
  for (size_t i = 0; i < t->rows; i++) whole += isnan(number_at(t, column, i)) ? 0 : number_at(t, column, i);
  return whole;
}

static void finish_bound(struct tg_table *t, const struct rule *r, size_t column) {
  for (size_t i = 0; i < t->rows; i++) {
    const double intensity = number_at(t, r->of, i), ridge = number_at(t, r->by, i);
    const struct tg__str text = intensity < ridge ? TG_STR("memory") : TG_STR("compute");
    const bool known = !isnan(intensity) && ridge > 0;
    uint32_t *const cell = &t->columns[column].texts[i];
    *cell = known ? tg__strings_add(t->strings, text.ptr, text.len) : TG_NONE;
    t->failed |= known && *cell == TG_NONE;
  }
}

static void finish_share(struct tg_table *t, const struct rule *r, size_t column) {
  size_t of = r->of;
  double whole = sum_of_all(t, of);
  if (whole <= 0 && r->by != SIZE_MAX) whole = sum_of_all(t, of = r->by);
  for (size_t i = 0; i < t->rows; i++)
    t->columns[column].reals[i] =
        whole > 0 ? (r->how == TG__FOLD_FRACTION ? 1.0 : 100.0) * number_at(t, of, i) / whole : NAN;
}

static bool has_formula(const struct tg_table *t, size_t name, size_t row) {
  return tg__flops_has_formula(tg__strings_get(t->strings, t->columns[name].texts[row]));
}

static void finish_column(struct tg_table *t, const struct rule *r, size_t column) {
  struct tg__column *const c = &t->columns[column];
  bool any = false;
  for (size_t i = 0; i < t->rows; i++) any |= is_known(c, i);
  for (size_t i = 0; i < t->rows; i++) {
    if (r->how == TG__FOLD_SUM_IF_ANY && any && !is_known(c, i)) c->ints[i] = 0;
    if (r->how == TG__FOLD_FLOPS && any && !is_known(c, i) && !has_formula(t, r->of, i)) c->ints[i] = 0;
    if (r->how == TG__FOLD_LOW && c->bools[i] == BOTH) c->bools[i] = number_at(t, r->of, i) < TG__LOW_OCCUPANCY_PCT;
    if (r->how == TG__FOLD_MS) c->reals[i] = number_at(t, r->of, i) / 1e6;
    if (r->how != TG__FOLD_MEAN && r->how != TG__FOLD_RATE) continue;
    const double of = number_at(t, r->of, i), by = number_at(t, r->by, i);
    c->reals[i] = by > 0 ? of / (r->how == TG__FOLD_RATE ? by / 1e9 : by) : NAN;
  }
}

void tg__fold_finish(const struct tg__fold *f, struct tg_table *to) {
  for (size_t c = 0; c < to->column_count; c++) {
    if (f->rules[c].how == TG__FOLD_SHARE || f->rules[c].how == TG__FOLD_FRACTION)
      finish_share(to, &f->rules[c], c);
    else if (f->rules[c].how == TG__FOLD_BOUND)
      finish_bound(to, &f->rules[c], c);
    else
      finish_column(to, &f->rules[c], c);
  }
}

void tg__fold_running(const struct tg__fold *f, struct tg_table *to) {
  for (size_t c = 0; c < to->column_count; c++) {
    if (f->rules[c].how != TG__FOLD_RUNNING) continue;
    const double whole = sum_of_all(to, f->rules[c].of);
    double so_far = 0;
    for (size_t i = 0; i < to->rows; i++) {
      so_far += number_at(to, f->rules[c].of, i);
      to->columns[c].reals[i] = whole > 0 ? 100.0 * so_far / whole : 0;
    }
  }
}
