/* Assertions on a diff: does  step.p50 > +5%  hold?
 *
 *   test     = quantity sign bound                       sign  = ">" | ">=" | "<" | "<="
 *   quantity = kind [ "[" text "]" ] [ "." word ]        bound = [ "+" | "-" ] number [ unit ]
 *
 * kind and word are the columns by and quantity, text in quotes a name; without a name any row of the kind may make
 * it hold, and `kernels` is short for step.kernels; a kind without a word means its p50, time, self_cpu, cpu, device
 * or peak. A bound with a sign or in % is held against the change, any other against the figure of B. Noise makes
 * nothing fail: a change that may be none (see verdict) holds only where no change at all would hold, too. A time
 * without a verdict is TG_NO_DATA: neither holds nor fails. */
#include "analyze/analyze.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_LENGTH = 4096 };

struct test {
  const char *text, *at; /* the expression; how far it was read */
  struct tg__str kind, name, quantity;
  bool has_name, or_equal, below; /* below: < or <= */
  bool is_change, is_share;       /* of the change; in % */
  double bound;
  const char *dimension; /* unit the bound needs: ns, bytes, or "" */
  struct tg_error *e;
};

static const struct unit {
  const char *name, *dimension;
  double scale;
} units[] = {{"ns", "ns", 1},        {"us", "ns", 1e3},         {"ms", "ns", 1e6},           {"s", "ns", 1e9},
             {"B", "bytes", 1},      {"KB", "bytes", 1e3},      {"MB", "bytes", 1e6},        {"GB", "bytes", 1e9},
             {"KiB", "bytes", 1024}, {"MiB", "bytes", 1048576}, {"GiB", "bytes", 1073741824}};

/* ---- reading --------------------------------------------------------------------------------- */

static enum tg_err expected(const struct test *t, const char *what) {
  char shown[61];
  const size_t len = strnlen(t->at, 60);
  for (size_t i = 0; i < len; i++) shown[i] = t->at[i] >= ' ' && t->at[i] < 0x7f ? t->at[i] : '?';
  shown[len] = 0;
  return tg__fail(t->e, TG_USAGE, (int64_t)(t->at - t->text), "fail-if: expected %s at character %zu, found %s%s", what,
                  (size_t)(t->at - t->text) + 1, len ? shown : "the end",
                  ", as in  step.p50 > +5%  or  op[\"aten::conv2d\"].self_cpu > 2ms");
}

static void skip_blanks(struct test *t) {
  while (*t->at == ' ' || *t->at == '\t') t->at++;
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

static struct tg__str take_word(struct test *t) {
  const char *from = t->at;
  while (is_letter(*t->at) || (t->at > from && *t->at >= '0' && *t->at <= '9')) t->at++;
  return (struct tg__str){from, (uint32_t)(t->at - from)};
}

static enum tg_err take_name(struct test *t) {
  if (*t->at != '[') return TG_OK;
  t->at++;
  skip_blanks(t);
  const char quote = *t->at;
  if (quote != '"' && quote != '\'') return expected(t, "a name in quotes");
  const char *from = ++t->at, *end = strchr(from, quote);
  if (!end) return expected(t, "the closing quote");
  t->name = (struct tg__str){from, (uint32_t)(end - from)};
  t->has_name = true;
  t->at = end + 1;
  skip_blanks(t);
  if (*t->at != ']') return expected(t, "]");
  t->at++;
  return TG_OK;
}

static enum tg_err take_quantity(struct test *t) {
  skip_blanks(t);
  t->kind = take_word(t);
  if (!t->kind.len) return expected(t, "what to judge: step, category, op, module, kernel, family, memory or kernels");
  enum tg_err err = take_name(t);
  if (!err && *t->at == '.') {
    t->at++;
    t->quantity = take_word(t);
    if (!t->quantity.len) err = expected(t, "a quantity, such as p50 or self_cpu");
  }
  if (tg__str_eq(t->kind, TG_STR("kernels")) && !t->quantity.len && !t->has_name) {
    t->kind = TG_STR("step");
    t->quantity = TG_STR("kernels");
  }
  return err;
}

static enum tg_err take_sign(struct test *t) {
  skip_blanks(t);
  if (*t->at != '<' && *t->at != '>') return expected(t, ">, >=, < or <=");
  t->below = *t->at++ == '<';
  if (*t->at == '=') {
    t->or_equal = true;
    t->at++;
  }
  return TG_OK;
}

static enum tg_err take_unit(struct test *t) {
  skip_blanks(t);
  t->dimension = "";
  if (*t->at == '%') {
    t->at++;
    t->is_share = t->is_change = true;
    return TG_OK;
  }
  const struct tg__str word = take_word(t);
  if (!word.len) return TG_OK;
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    if (!tg__str_eq_nocase(word, units[i].name)) continue;
    t->bound *= units[i].scale;
    t->dimension = units[i].dimension;
    return TG_OK;
  }
  t->at = word.ptr;
  return expected(t, "a unit: %, ns, us, ms, s, B, KB, MB, GB, KiB, MiB or GiB");
}

static enum tg_err take_bound(struct test *t) {
  skip_blanks(t);
  const char sign = *t->at;
  if (sign == '+' || sign == '-') {
    t->is_change = true;
    t->at++;
  }
  const char *from = t->at;
  while (*t->at >= '0' && *t->at <= '9') t->at++;
  if (*t->at == '.') t->at++;
  while (*t->at >= '0' && *t->at <= '9') t->at++;
  char digits[64];
  const size_t len = (size_t)(t->at - from);
  if (!len || len >= sizeof digits || (len == 1 && *from == '.')) {
    t->at = from;
    return expected(t, "a number");
  }
  memcpy(digits, from, len);
  digits[len] = 0;
  t->bound = strtod(digits, NULL) * (sign == '-' ? -1 : 1);
  enum tg_err err = take_unit(t);
  skip_blanks(t);
  if (!err && *t->at) err = expected(t, "the end");
  return err;
}

/* ---- judging --------------------------------------------------------------------------------- */

struct columns {
  const struct tg_table *table;
  const struct tg__column *by, *name, *quantity, *unit, *a, *b, *low, *high, *verdict;
};

static bool find_columns(const struct tg_table *table, struct columns *out) {
  static const char *const names[] = {"by", "name", "quantity", "unit", "a", "b", "low", "high", "verdict"};
  const struct tg__column **const into[] = {&out->by, &out->name, &out->quantity, &out->unit,   &out->a,
                                            &out->b,  &out->low,  &out->high,     &out->verdict};
  out->table = table;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const size_t c = tg__table_column_index(table, names[i]);
    if (c == SIZE_MAX) return false;
    *into[i] = &table->columns[c];
  }
  return true;
}

static struct tg__str diff_text_cell(const struct columns *c, const struct tg__column *column, size_t row) {
  return column->texts[row] == TG_NONE ? TG_STR("") : tg__strings_get(c->table->strings, column->texts[row]);
}

static bool beyond(const struct test *t, double v) {
  if (v == t->bound) return t->or_equal;
  return t->below ? v < t->bound : v > t->bound;
}

/* May the change be none? A row that was named is judged by its own interval; where any of many may fail, by the
 * verdict, which knows that many were looked at. */
static bool may_be_none(const struct test *t, const struct columns *c, size_t row) {
  if (isnan(c->low->reals[row])) return false;
  if (!t->has_name && !tg__str_eq(t->kind, TG_STR("step")))
    return tg__str_eq(diff_text_cell(c, c->verdict, row), TG_STR("no difference"));
  return c->low->reals[row] <= 0 && c->high->reals[row] >= 0;
}

static bool holds(const struct test *t, const struct columns *c, size_t row) {
  const double a = c->a->reals[row], b = c->b->reals[row];
  if (!t->is_change) return beyond(t, b);
  double change = b - a;
  if (t->is_share) change = change == 0 ? 0 : a != 0 ? 100 * change / fabs(a) : change > 0 ? INFINITY : -INFINITY;
  return beyond(t, change) && (beyond(t, 0) || !may_be_none(t, c, row));
}

static void say_row(const struct test *t, const struct columns *c, size_t row) {
  const struct tg__str name = diff_text_cell(c, c->name, row), quantity = diff_text_cell(c, c->quantity, row);
  const double a = c->a->reals[row], b = c->b->reals[row];
  const struct tg__str unit = diff_text_cell(c, c->unit, row);
  const bool time = tg__str_eq(unit, TG_STR("ns"));
  const char *const said = time ? " ms" : unit.len ? " bytes" : "";
  char share[32] = "";
  if (a != 0) snprintf(share, sizeof share, " (%+.1f %%)", 100 * (b - a) / fabs(a));
  snprintf(t->e->text, sizeof t->e->text, "%.200s holds: %.*s %.*s is %.10g%s in A and %.10g%s in B%s", t->text,
           (int)(name.len < 120 ? name.len : 120), name.ptr, (int)quantity.len, quantity.ptr, time ? a / 1e6 : a, said,
           time ? b / 1e6 : b, said, share);
}

/* ---- what there is not ----------------------------------------------------------------------- */

/* The texts of one column in rows of one kind, each once, as candidates for "did you mean". */
struct words {
  const char **items;
  size_t count, cap;
  struct tg__arena arena;
};

static const char *word_at(const void *ctx, size_t k) {
  const struct words *w = ctx;
  return k < w->count ? w->items[k] : NULL;
}

static void gather_words(struct words *w, const struct columns *c, const struct tg__column *column,
                         const struct test *t, bool any_kind) {
  uint32_t last = TG_NONE; /* rows of one name stand together */
  for (size_t row = 0; row < c->table->rows; row++) {
    if (column->texts[row] == last || (!any_kind && !tg__str_eq(diff_text_cell(c, c->by, row), t->kind))) continue;
    const struct tg__str s = diff_text_cell(c, column, row);
    last = column->texts[row];
    char *own = tg__arena_copy(&w->arena, s.ptr, s.len);
    if (!own || !tg__grow((void **)&w->items, &w->cap, w->count + 1, sizeof *w->items)) return; /* fewer candidates */
    w->items[w->count++] = own;
  }
}

static enum tg_err unknown(const struct test *t, const struct columns *c, const char *what,
                           const struct tg__column *column, struct tg__str wanted) {
  struct words w = {0};
  char text[128];
  snprintf(text, sizeof text, "%.*s", (int)(wanted.len < 100 ? wanted.len : 100), wanted.ptr);
  gather_words(&w, c, column, t, column == c->by);
  const char *near = tg__nearest_text(text, word_at, &w);
  const enum tg_err err = tg__fail(t->e, TG_USAGE, -1, "fail-if: the diff has no %s '%s'%s%.200s%s", what, text,
                                   near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
  tg__free((void *)w.items);
  tg__arena_free(&w.arena);
  return err;
}

static enum tg_err no_kind(const struct test *t, const struct columns *c) {
  static const struct {
    const char *kind, *cure;
  } lacking[] = {
      {"module", "modules: record with --preset default, or with_stack=True"},
      {"kernel",
       "device work: record on a machine with a device, with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"},
      {"family",
       "device work: record on a machine with a device, with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"},
      {"memory", "memory events: record both with --preset deep, or profile_memory=True"},
      {"op", "operators inside steps"},
      {"category", "times of steps"}};
  for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++)
    if (tg__str_eq(t->kind, (struct tg__str){lacking[i].kind, (uint32_t)strlen(lacking[i].kind)}))
      return tg__fail(t->e, TG_NO_DATA, -1, "fail-if: the traces have no %s", lacking[i].cure);
  return unknown(t, c, "kind", c->by, t->kind);
}

/* ---- the test -------------------------------------------------------------------------------- */

/* A gate that cannot be judged neither holds nor fails: the reason of the diff, and what to do. */
static enum tg_err not_judged(const struct test *t, const struct columns *c, bool too_few) {
  static const char prefix[] = "No verdict: ", busy[] = "other programs ";
  const char *reason = "the diff withholds its verdict on times", *cure = "; see --accept";
  if (c->table->note_count && strncmp(c->table->notes[0], prefix, sizeof prefix - 1) == 0)
    reason = c->table->notes[0] + sizeof prefix - 1;
  if (strncmp(reason, busy, sizeof busy - 1) == 0) cure = "; record both again on a quiet machine";
  if (too_few) {
    reason = "a change of times needs 3 steps on both sides";
    cure = "; record more steps";
  }
  return tg__fail(t->e, TG_NO_DATA, -1, "fail-if: not judged: %.120s: %s%s", t->text, reason, cure);
}

static enum tg_err check_row(const struct test *t, const struct columns *c, size_t row) {
  const struct tg__str unit = diff_text_cell(c, c->unit, row), verdict = diff_text_cell(c, c->verdict, row);
  if (tg__str_eq(verdict, TG_STR("withheld"))) return not_judged(t, c, false);
  if (t->is_change && tg__str_eq(verdict, TG_STR("too few steps"))) return not_judged(t, c, true);
  if (t->is_share || tg__str_eq(unit, (struct tg__str){t->dimension, (uint32_t)strlen(t->dimension)})) return TG_OK;
  return tg__fail(t->e, TG_USAGE, -1, "fail-if: the unit of the number does not fit: %.*s is in %s, or use %%",
                  (int)(t->quantity.len ? t->quantity.len : t->kind.len),
                  t->quantity.len ? t->quantity.ptr : t->kind.ptr,
                  unit.len ? tg__str_eq(unit, TG_STR("ns")) ? "ns, us, ms or s" : "B, KB, MB or GB" : "no unit");
}

static enum tg_err judge_diff_fail(const struct test *t, const struct columns *c, bool *fails) {
  bool kind = false, name = false, quantity = false;
  for (size_t row = 0; row < c->table->rows; row++) {
    if (!tg__str_eq(diff_text_cell(c, c->by, row), t->kind)) continue;
    kind = true;
    if (t->has_name && !tg__str_eq(diff_text_cell(c, c->name, row), t->name)) continue;
    name = true;
    if (t->quantity.len && !tg__str_eq(diff_text_cell(c, c->quantity, row), t->quantity)) continue;
    quantity = true;
    const enum tg_err err = check_row(t, c, row);
    if (err) *fails = false;
    if (err) return err;
    if (*fails || !holds(t, c, row)) continue;
    *fails = true;
    say_row(t, c, row);
  }
  if (!kind) return no_kind(t, c);
  if (!name) return unknown(t, c, "row", c->name, t->name);
  return quantity ? TG_OK : unknown(t, c, "quantity", c->quantity, t->quantity);
}

enum tg_err tg__diff_fails(const struct tg_table *diff, const char *expression, bool *fails, struct tg_error *e) {
  struct tg_error ignored;
  struct columns c;
  struct test t = {.text = expression, .at = expression, .e = e ? e : &ignored};
  *fails = false;
  if (!find_columns(diff, &c))
    return tg__fail(t.e, TG_USAGE, -1,
                    "fail-if: this table is no diff by step, category, op, module, kernel, family or memory");
  if (strnlen(expression, MOST_LENGTH + 1) > MOST_LENGTH)
    return tg__fail(t.e, TG_USAGE, -1, "fail-if: at most %d characters", MOST_LENGTH);
  enum tg_err err = take_quantity(&t);
  if (!err) err = take_sign(&t);
  if (!err) err = take_bound(&t);
  /* A bare kind stands for its first quantity. */
  if (!err && !t.quantity.len) {
    static const char *const firsts[][2] = {{"step", "p50"},   {"category", "time"}, {"op", "self_cpu"},
                                            {"module", "cpu"}, {"kernel", "device"}, {"family", "device"},
                                            {"memory", "peak"}};
    for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++)
      if (tg__str_eq(t.kind, (struct tg__str){firsts[i][0], (uint32_t)strlen(firsts[i][0])}))
        t.quantity = (struct tg__str){firsts[i][1], (uint32_t)strlen(firsts[i][1])};
  }
  return err ? err : judge_diff_fail(&t, &c, fails);
}
