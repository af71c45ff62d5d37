/* where: which rows of a table an expression keeps.
 *
 *   or      = and { "or" and }                      test    = value ( "=" | "!=" | "<" | "<=" | ">" | ">=" | "~" |
 *           "!~" ) value
 *   and     = not { "and" not }                             | value [ "not" ] "in" "(" value { "," value } ")"
 *   not     = "not" not | "(" or ")" | test                 | value "is" [ "not" ] "null" | value          (a yes/no
 *           column)
 *   value   = product { ( "+" | "-" ) product }     product = factor { ( "*" | "/" ) factor }
 *   factor  = "(" value ")" | column | `any column` | number [unit] | 'text' | "text" | true | false
 *
 * There is no tree: every test is worked out for all rows as soon as it is read, into one byte a row: 0, 1, or -1
 * for unknown. Unknown cells make a test unknown, and/or/not pass that on as SQL does, and a row stays only when the
 * whole is 1. */
#include "analyze/table/where.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_DEPTH = 64, MOST_LENGTH = 16384 };

/* A number as written: exact when it is whole in the unit of the column it is compared with. */
struct number {
  bool whole;
  int64_t i;
  double d;
};
struct value {
  const struct tg__column *column; /* NULL: a constant */
  struct token token;
  struct tg__column *made; /* the column, where it was worked out; the value owns it */
  bool is_bare;            /* made only of numbers without units */
  enum tg_type type;       /* of a constant: TG_TEXT, TG_BOOL, TG_REAL for numbers */
  bool yes;
};

static void out_of_memory(struct where *w) {
  if (w->err == TG_OK) w->err = tg__no_memory(w->e, "reading where=");
}

/* ---- values ---------------------------------------------------------------------------------- */

static const struct unit {
  const char *name, *dimension; /* dimension: the unit columns have */
  double scale;
} units[] = {
    {"ns", "ns", 1},
    {"us", "ns", 1e3},
    {"ms", "ns", 1e6},
    {"s", "ns", 1e9},
    {"B", "bytes", 1},
    {"KB", "bytes", 1e3},
    {"MB", "bytes", 1e6},
    {"GB", "bytes", 1e9},
    {"KiB", "bytes", 1024},
    {"MiB", "bytes", 1048576},
    {"GiB", "bytes", 1073741824},
    {"%", "%", 1},
};

/* Digits × unit as an integer when that is exact and fits; the double beside it serves every other comparison. */
static struct number scaled(struct tg__str digits, double scale) {
  char text[64];
  snprintf(text, sizeof text, "%.*s", (int)digits.len, digits.ptr);
  struct number n = {.whole = true, .d = strtod(text, NULL) * scale};
  __int128 total = 0;
  int64_t decimals = 1;
  bool point = false;
  for (const char *p = text; *p; p++) {
    if (*p == '+' || *p == '-') continue;
    if (*p == '.') {
      point = true;
    } else if (tg__is_digit(*p) && total < INT64_MAX && decimals < INT64_MAX / 10) {
      total = total * 10 + (*p - '0');
      if (point) decimals *= 10;
    } else {
      n.whole = false;
      return n;
    }
  }
  total *= (int64_t)scale;
  n.whole = total % decimals == 0 && total / decimals <= INT64_MAX;
  n.i = (int64_t)(n.whole ? total / decimals : 0) * (*text == '-' ? -1 : 1);
  return n;
}

/* The unit behind a number, and its digits; NULL: it has none, or w->err says what is wrong. */
static const struct unit *unit_of(struct where *w, const struct token *token, struct tg__str *digits) {
  size_t len = token->text.len;
  while (len > 0 && (tg__is_letter(token->text.ptr[len - 1]) || token->text.ptr[len - 1] == '%')) len--;
  const struct tg__str unit = {token->text.ptr + len, token->text.len - (uint32_t)len};
  *digits = (struct tg__str){token->text.ptr, (uint32_t)len};
  if (len > 60) tg__where_fail(w, token->at, "a number has at most 60 digits");
  if (unit.len == 0 || w->err != TG_OK) return NULL;
  for (size_t k = 0; k < sizeof units / sizeof *units; k++)
    if (tg__str_eq_nocase(unit, units[k].name)) return &units[k];
  tg__where_fail(w, unit.ptr, "the unit %.*s is not known (there are ns us ms s, KB MB GB KiB MiB GiB, %%)",
                 (int)(unit.len < 20 ? unit.len : 20), unit.ptr);
  return NULL;
}

/* The number `token` in the unit of what it is compared with. A share has none and is 0.3 or 30%. */
static struct number number_for(struct where *w, const struct token *token, const struct value *with) {
  struct tg__str digits;
  const struct tg__column *const column = with->column;
  const struct unit *const u = unit_of(w, token, &digits);
  if (!u) return scaled(digits, 1);
  if (strcmp(column->unit, u->dimension) == 0) return scaled(digits, u->scale);
  if (with->made && !*column->unit && strcmp(u->dimension, "%") == 0)
    return (struct number){.d = scaled(digits, 1).d / 100};
  tg__where_fail(w, token->at, "%s does not fit %.60s, which has the unit %.20s", u->name, column->name,
                 *column->unit ? column->unit : "none");
  return (struct number){0};
}

static void read_column(struct where *w, struct value *v) {
  size_t column;
  struct tg_error e = {0};
  if (tg__find_column(w->table, "where", w->token.text.ptr, w->token.text.len, &column, &e) == TG_OK) {
    v->column = &w->table->columns[column];
    v->type = v->column->type;
    return;
  }
  tg__where_fail(w, w->token.at, "text stands in quotes, and %s", e.text + strlen("where: "));
}

static struct value read_word(struct where *w) {
  struct value v = {.token = w->token};
  switch (w->token.kind) {
  case NUMBER:
    v.type = TG_REAL;
    break;
  case TEXT:
    v.type = TG_TEXT;
    break;
  case QUOTED_NAME:
    read_column(w, &v);
    break;
  case NAME:
    v.yes = tg__where_is_word(w, "true");
    if (v.yes || tg__where_is_word(w, "false")) {
      v.type = TG_BOOL;
    } else {
      read_column(w, &v);
    }
    break;
  case SIGN:
  case END:
    tg__where_expected(w, "a column or a value");
    break;
  }
  tg__where_advance(w);
  return v;
}

/* ---- arithmetic, over all rows --------------------------------------------------------------- */

static void drop_value(struct value *v) {
  if (v->made) tg__free(v->made->reals);
  tg__free(v->made);
  v->made = NULL;
}

/* One side of an operator: cells of a column, or a constant in the unit it is written in. */
struct operand {
  const struct tg__column *column;
  double constant;
  const char *unit; /* "": none, NULL: a bare number, which has that of the other side */
};

static struct operand operand_of(struct where *w, const struct value *v) {
  struct operand o = {.column = v->column};
  if (w->err == TG_OK && v->type != TG_INT && v->type != TG_REAL)
    tg__where_fail(w, v->token.at, "+ - * / need numbers on both sides");
  if (v->column) {
    o.unit = v->is_bare ? NULL : v->column->unit;
  } else if (w->err == TG_OK) {
    struct tg__str digits;
    const struct unit *const u = unit_of(w, &v->token, &digits);
    o.constant = scaled(digits, u ? u->scale : 1).d;
    o.unit = u ? u->dimension : NULL;
  }
  return o;
}

static double operand_at(const struct operand *o, size_t row) {
  if (!o->column) return o->constant;
  if (o->column->type == TG_REAL) return o->column->reals[row];
  return o->column->ints[row] == TG_NULL_INT ? NAN : (double)o->column->ints[row];
}

static const char *unit_of_result(struct where *w, char sign, const struct operand *a, const struct operand *b,
                                  const char *at) {
  const char *const one = a->unit ? a->unit : b->unit ? b->unit : "", *const other = b->unit ? b->unit : one;
  if (sign == '*') return a->unit && b->unit && *a->unit && *b->unit ? "" : *one ? one : other;
  if (sign == '/') return !b->unit || !*b->unit ? one : "";
  if (strcmp(one, other) != 0)
    tg__where_fail(w, at, "%.20s and %.20s cannot be added or subtracted", *one ? one : "no unit",
                   *other ? other : "no unit");
  return one;
}

static double worked_out(char sign, double a, double b) {
  switch (sign) {
  case '+':
    return a + b;
  case '-':
    return a - b;
  case '*':
    return a * b;
  default:
    return b != 0 ? a / b : NAN; /* unknown, as a cell may be */
  }
}

/* Takes both values over. */
static struct value combine_values(struct where *w, struct value a, char sign, struct value b) {
  const struct operand x = operand_of(w, &a), y = operand_of(w, &b);
  struct value v = {.token = a.token, .type = TG_REAL};
  const char *const unit = w->err ? "" : unit_of_result(w, sign, &x, &y, b.token.at);
  v.made = w->err ? NULL : tg__alloc(sizeof *v.made);
  double *const cells = v.made ? tg__alloc((w->table->rows + 1) * sizeof *cells) : NULL;
  if (w->err == TG_OK && !cells) out_of_memory(w);
  if (v.made) *v.made = (struct tg__column){.name = "the expression", .unit = unit, .type = TG_REAL, .reals = cells};
  for (size_t i = 0; cells && i < w->table->rows; i++) {
    const double result = worked_out(sign, operand_at(&x, i), operand_at(&y, i));
    cells[i] = isfinite(result) ? result : NAN;
  }
  v.column = v.made;
  v.is_bare = !x.unit && !y.unit;
  drop_value(&a);
  drop_value(&b);
  return v;
}

static struct value read_value(struct where *w);

static struct value read_factor(struct where *w) {
  if (w->err != TG_OK || !tg__where_take_sign(w, "(")) return read_word(w);
  struct value v = {.token = w->token, .type = TG_REAL};
  if (w->depth++ >= MOST_DEPTH)
    tg__where_fail(w, w->token.at, "nested too deeply");
  else
    v = read_value(w);
  if (!tg__where_take_sign(w, ")")) tg__where_expected(w, "an operator or a closing )");
  w->depth--;
  return v;
}

static struct value read_product(struct where *w) {
  struct value v = read_factor(w);
  while (w->err == TG_OK) {
    const char sign = tg__where_take_sign(w, "*") ? '*' : tg__where_take_sign(w, "/") ? '/' : 0;
    if (!sign) break;
    v = combine_values(w, v, sign, read_factor(w));
  }
  return v;
}

/* In a-5 and a -5 the sign stands with the number. */
static bool is_signed_number(const struct where *w) {
  return w->token.kind == NUMBER && (*w->token.at == '-' || *w->token.at == '+');
}

static struct value read_value(struct where *w) {
  struct value v = read_product(w);
  while (w->err == TG_OK) {
    const char sign = tg__where_take_sign(w, "-") ? '-' : tg__where_take_sign(w, "+") || is_signed_number(w) ? '+' : 0;
    if (!sign) break;
    v = combine_values(w, v, sign, read_product(w));
  }
  return v;
}

/* Does the ( at hand open a value? Behind its ) comes what only a value has behind it. */
static bool opens_value(const struct where *w) {
  if (w->token.kind != SIGN || *w->token.at != '(') return false;
  const char *p = w->token.end;
  for (int depth = 1; *p && depth; p++) {
    const char *const close = *p == '"' || *p == '\'' || *p == '`' ? strchr(p + 1, *p) : NULL;
    depth += (*p == '(') - (*p == ')');
    if (close) p = close;
  }
  while (*p == ' ' || (*p >= '\t' && *p <= '\r')) p++;
  if (*p && strchr("+-*/<>=!~", *p)) return true;
  const size_t word = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
  const struct tg__str next = {p, (uint32_t)word};
  return tg__str_eq_nocase(next, "is") || tg__str_eq_nocase(next, "in") || tg__str_eq_nocase(next, "not");
}

/* ---- tests, each over all rows --------------------------------------------------------------- */

enum test { EQ, NE, LT, LE, GT, GE, LIKE, UNLIKE };

static int8_t decide(enum test test, int order) {
  switch (test) {
  case EQ:
  case LIKE:
    return order == 0;
  case NE:
  case UNLIKE:
    return order != 0;
  case LT:
    return order < 0;
  case LE:
    return order <= 0;
  case GT:
    return order > 0;
  case GE:
    break;
  }
  return order >= 0;
}

static bool is_null_at(const struct tg__column *c, size_t row) {
  switch (c->type) {
  case TG_INT:
    return c->ints[row] == TG_NULL_INT;
  case TG_REAL:
    return isnan(c->reals[row]);
  case TG_BOOL:
    return c->bools[row] < 0;
  case TG_TEXT:
    break;
  }
  return c->texts[row] == TG_NONE;
}

static char fold_where(char c) { return (char)(c >= 'A' && c <= 'Z' ? c + 32 : c); }

static bool contains_nocase(struct tg__str s, struct tg__str part) {
  for (size_t i = 0; i + part.len <= s.len; i++) {
    size_t k = 0;
    while (k < part.len && fold_where(s.ptr[i + k]) == fold_where(part.ptr[k])) k++;
    if (k == part.len) return true;
  }
  return false;
}

/* Texts repeat, so each different one is compared once; `seen` remembers what came out, by string id. */
static void test_text(struct where *w, const struct tg__column *c, enum test test, struct tg__str with, int8_t *out) {
  enum { UNSEEN = 2 };
  const uint32_t texts = tg__strings_count(w->table->strings);
  int8_t *seen = tg__alloc((size_t)texts + 1);
  if (!seen) {
    out_of_memory(w);
    return;
  }
  memset(seen, UNSEEN, texts);
  for (size_t i = 0; i < w->table->rows; i++) {
    const uint32_t id = c->texts[i];
    if (id == TG_NONE) {
      out[i] = -1;
      continue;
    }
    if (seen[id] == UNSEEN) {
      const struct tg__str s = tg__strings_get(w->table->strings, id);
      seen[id] = decide(test, test == LIKE || test == UNLIKE ? !contains_nocase(s, with) : tg__str_cmp(s, with));
    }
    out[i] = seen[id];
  }
  tg__free(seen);
}

static void test_number(struct where *w, const struct tg__column *c, enum test test, struct number n, int8_t *out) {
  for (size_t i = 0; i < w->table->rows; i++) {
    if (is_null_at(c, i)) {
      out[i] = -1;
    } else if (c->type == TG_INT && n.whole) {
      out[i] = decide(test, (c->ints[i] > n.i) - (c->ints[i] < n.i));
    } else {
      const double v = c->type == TG_INT ? (double)c->ints[i] : c->reals[i];
      out[i] = decide(test, (v > n.d) - (v < n.d));
    }
  }
}

static void test_bool(struct where *w, const struct tg__column *c, enum test test, bool yes, int8_t *out) {
  for (size_t i = 0; i < w->table->rows; i++) out[i] = c->bools[i] < 0 ? -1 : decide(test, c->bools[i] - yes);
}

static void test_columns(struct where *w, const struct tg__column *a, enum test test, const struct tg__column *b,
                         int8_t *out) {
  for (size_t i = 0; i < w->table->rows; i++) {
    if (is_null_at(a, i) || is_null_at(b, i)) {
      out[i] = -1;
    } else if (a->type == TG_TEXT) {
      const struct tg__str x = tg__strings_get(w->table->strings, a->texts[i]),
                           y = tg__strings_get(w->table->strings, b->texts[i]);
      out[i] = decide(test, test == LIKE || test == UNLIKE ? !contains_nocase(x, y) : tg__str_cmp(x, y));
    } else if (a->type == TG_INT && b->type == TG_INT) {
      out[i] = decide(test, (a->ints[i] > b->ints[i]) - (a->ints[i] < b->ints[i]));
    } else {
      const double x = a->type == TG_INT ? (double)a->ints[i] : a->type == TG_REAL ? a->reals[i] : a->bools[i];
      const double y = b->type == TG_INT ? (double)b->ints[i] : b->type == TG_REAL ? b->reals[i] : b->bools[i];
      out[i] = decide(test, (x > y) - (x < y));
    }
  }
}

/* TEXT, BOOL, or REAL for both kinds of number: what may be compared with what. */
static enum tg_type operand_kind_of(const struct value *v) { return v->type == TG_INT ? TG_REAL : v->type; }

static void compare_values(struct where *w, struct value a, enum test test, struct value b, int8_t *out) {
  static const char *const kinds[] = {
      [TG_TEXT] = "text", [TG_INT] = "a number", [TG_REAL] = "a number", [TG_BOOL] = "yes or no"};
  static const enum test mirrored[] = {
      [EQ] = EQ, [NE] = NE, [LT] = GT, [LE] = GE, [GT] = LT, [GE] = LE, [LIKE] = LIKE, [UNLIKE] = UNLIKE};
  if (w->err != TG_OK) return;
  if (!a.column && b.column && test != LIKE && test != UNLIKE) { /* 5 < x is x > 5 */
    const struct value swap = a;
    a = b, b = swap, test = mirrored[test];
  }
  if (!a.column) {
    tg__where_fail(w, a.token.at, "a comparison needs a column on one side");
  } else if ((test == LIKE || test == UNLIKE) && (operand_kind_of(&a) != TG_TEXT || operand_kind_of(&b) != TG_TEXT)) {
    tg__where_fail(w, operand_kind_of(&a) != TG_TEXT ? a.token.at : b.token.at, "~ compares text with text");
  } else if (operand_kind_of(&a) != operand_kind_of(&b)) {
    tg__where_fail(w, b.token.at, "%.60s is %s, not %s", a.column->name, kinds[operand_kind_of(&a)],
                   kinds[operand_kind_of(&b)]);
  } else if (b.column) {
    test_columns(w, a.column, test, b.column, out);
  } else if (b.type == TG_TEXT) {
    test_text(w, a.column, test, b.token.text, out);
  } else if (b.type == TG_BOOL) {
    test_bool(w, a.column, test, b.yes, out);
  } else {
    test_number(w, a.column, test, number_for(w, &b.token, &a), out);
  }
}

/* ---- and, or, not of answers (-1 unknown) ---------------------------------------------------- */

static int8_t *new_answer(struct where *w) {
  int8_t *out = w->err == TG_OK ? tg__alloc(w->table->rows + 1) : NULL;
  if (!out) out_of_memory(w);
  return out;
}

static void negate(const struct where *w, int8_t *v) {
  for (size_t i = 0; v && i < w->table->rows; i++) v[i] = v[i] < 0 ? -1 : !v[i];
}

/* False wins over unknown in an and, true in an or. */
static void combine(const struct where *w, int8_t *into, int8_t *with, int8_t winner) {
  for (size_t i = 0; into && with && i < w->table->rows; i++) {
    if (into[i] == winner || with[i] == winner) {
      into[i] = winner;
    } else if (with[i] < 0) {
      into[i] = -1;
    }
  }
  tg__free(with);
}

/* ---- grammar; NULL or rubbish once w->err is set --------------------------------------------- */

static int8_t *parse_or(struct where *w);

static bool take_operator(struct where *w, enum test *test) {
  static const struct {
    const char *sign;
    enum test test;
  } all[] = {{"=", EQ},  {"==", EQ}, {"!=", NE}, {"<>", NE},  {"<", LT},
             {"<=", LE}, {">", GT},  {">=", GE}, {"~", LIKE}, {"!~", UNLIKE}};
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
    if (tg__where_take_sign(w, all[k].sign)) {
      *test = all[k].test;
      return true;
    }
  }
  return false;
}

static void parse_list(struct where *w, struct value column, int8_t *out) {
  if (!tg__where_take_sign(w, "(")) {
    tg__where_expected(w, "a list such as (1, 2)");
    return;
  }
  do {
    int8_t *one = new_answer(w);
    struct value v = read_value(w);
    if (one) compare_values(w, column, EQ, v, one);
    drop_value(&v);
    combine(w, out, one, 1);
  } while (tg__where_take_sign(w, ",") && w->err == TG_OK);
  if (!tg__where_take_sign(w, ")")) tg__where_expected(w, "a comma or )");
}

static void parse_is(struct where *w, struct value v, int8_t *out) {
  const bool want = !tg__where_take_word(w, "not");
  if (!tg__where_take_word(w, "null")) tg__where_expected(w, "null or not null");
  if (!v.column) tg__where_fail(w, v.token.at, "is null needs a column");
  for (size_t i = 0; w->err == TG_OK && i < w->table->rows; i++) out[i] = is_null_at(v.column, i) == want;
}

static int8_t *parse_test(struct where *w) {
  struct value v = read_value(w), with = {0};
  int8_t *out = new_answer(w);
  if (!out) {
    drop_value(&v);
    return NULL;
  }
  enum test test;
  if (tg__where_take_word(w, "is")) {
    parse_is(w, v, out);
  } else if (tg__where_take_word(w, "in")) {
    parse_list(w, v, out);
  } else if (tg__where_take_word(w, "not")) {
    if (!tg__where_take_word(w, "in")) tg__where_expected(w, "in");
    parse_list(w, v, out);
    negate(w, out);
  } else if (take_operator(w, &test)) {
    with = read_value(w);
    compare_values(w, v, test, with, out);
  } else if (v.column && v.type == TG_BOOL) {
    test_bool(w, v.column, EQ, true, out);
  } else {
    tg__where_expected(w, "a comparison such as = or >");
  }
  drop_value(&v);
  drop_value(&with);
  return out;
}

static int8_t *parse_not(struct where *w) {
  if (w->err != TG_OK) return NULL;
  if (w->depth >= MOST_DEPTH) {
    tg__where_fail(w, w->token.at, "nested too deeply");
    return NULL;
  }
  int8_t *v;
  w->depth++;
  if (tg__where_take_word(w, "not")) {
    v = parse_not(w);
    negate(w, v);
  } else if (!opens_value(w) && tg__where_take_sign(w, "(")) {
    v = parse_or(w);
    if (!tg__where_take_sign(w, ")")) tg__where_expected(w, "and, or, or a closing )");
  } else {
    v = parse_test(w);
  }
  w->depth--;
  return v;
}

static int8_t *parse_and(struct where *w) {
  int8_t *v = parse_not(w);
  while (w->err == TG_OK && tg__where_take_word(w, "and")) combine(w, v, parse_not(w), 0);
  return v;
}

static int8_t *parse_or(struct where *w) {
  int8_t *v = parse_and(w);
  while (w->err == TG_OK && tg__where_take_word(w, "or")) combine(w, v, parse_and(w), 1);
  return v;
}

static void keep(struct where *w, const int8_t *answer) {
  struct tg_table *t = w->table;
  uint32_t *rows = tg__alloc((t->rows + 1) * sizeof *rows);
  if (!rows) {
    out_of_memory(w);
    return;
  }
  size_t count = 0;
  for (size_t i = 0; i < t->rows; i++)
    if (answer[i] == 1) rows[count++] = (uint32_t)i;
  if (count < t->rows) tg__table_keep_rows(t, rows, count);
  tg__free(rows);
}

enum tg_err tg__where_filter(struct tg_table *t, const char *expression, struct tg_error *e) {
  struct where w = {.table = t, .expression = expression, .token = {.end = expression}, .e = e};
  if (strnlen(expression, MOST_LENGTH + 1) > MOST_LENGTH)
    return tg__fail(e, TG_USAGE, -1, "where: an expression has at most %d characters", MOST_LENGTH);
  tg__where_advance(&w);
  int8_t *answer = parse_or(&w);
  if (w.token.kind != END) tg__where_expected(&w, "and, or, or the end");
  if (w.err == TG_OK) keep(&w, answer);
  tg__free(answer);
  return w.err;
}
