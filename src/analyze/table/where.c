/* where: which rows of a table an expression keeps.
 *
 *   or      = and { "or" and }                      test    = value ( "=" | "!=" | "<" | "<=" | ">" | ">=" | "~" |
 *           "!~" ) value
 *   and     = not { "and" not }                             | value [ "not" ] "in" "(" value { "," value } ")"
 *   not     = "not" not | "(" or ")" | test                 | value "is" [ "not" ] "null" | value          (a yes/no
 *           column)
 *   value   = column | `any column` | number [unit] | 'text' | "text" | true | false
 *
 * There is no tree: every test is worked out for all rows as soon as it is read, into one byte a row: 0, 1, or -1
 * for unknown. Unknown cells make a test unknown, and/or/not pass that on as SQL does, and a row stays only when the
 * whole is 1. */
#include "analyze/ask.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_DEPTH = 64, MOST_LENGTH = 16384 };

enum token_kind { END, NAME, QUOTED_NAME, NUMBER, TEXT, SIGN };
struct token {
  enum token_kind kind;
  const char *at, *end; /* in the expression */
  struct tg__str text;  /* NAME, TEXT: without quotes; SIGN: the operator */
};

/* A number as written: exact when it is whole in the unit of the column it is compared with. */
struct number {
  bool whole;
  int64_t i;
  double d;
};
struct value {
  const struct tg__column *column; /* NULL: a constant */
  struct token token;
  enum tg_type type; /* of a constant: TG_TEXT, TG_BOOL, TG_REAL for numbers */
  bool yes;
};

struct where {
  struct tg_table *table;
  const char *expression;
  struct token token; /* the next one */
  struct tg_error *e;
  enum tg_err err;
  int depth;
};

/* ---- errors ---------------------------------------------------------------------------------- */

/* The message, then the expression with a caret under the place. Long expressions are shown in part. */
__attribute__((format(printf, 3, 4))) static void fail_at(struct where *w, const char *at, const char *format, ...) {
  enum { BEFORE = 50, SHOWN = 90 };
  if (w->err != TG_OK) return;
  char message[256], shown[SHOWN + 1];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  const size_t column = (size_t)(at - w->expression);
  const char *from = column > BEFORE ? at - BEFORE : w->expression;
  const size_t len = strnlen(from, SHOWN);
  for (size_t i = 0; i < len; i++)
    shown[i] = from[i] >= ' ' && from[i] < 0x7f ? from[i] : '?'; /* one column a byte keeps the caret in place */
  shown[len] = 0;
  w->err = tg__fail(w->e, TG_USAGE, (int64_t)column, "where: %s, at character %zu:\n  %s\n  %*s^", message, column + 1,
                    shown, (int)(at - from), "");
}

static void fail_expected(struct where *w, const char *expected) {
  if (w->token.kind == END) {
    fail_at(w, w->token.at, "expected %s, found the end", expected);
  } else {
    const size_t len = (size_t)(w->token.end - w->token.at);
    fail_at(w, w->token.at, "expected %s, found %.*s", expected, (int)(len < 60 ? len : 60), w->token.at);
  }
}

static void out_of_memory(struct where *w) {
  if (w->err == TG_OK) w->err = tg__fail(w->e, TG_MEMORY, -1, "out of memory");
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static const char *number_end(const char *p) {
  if (*p == '-' || *p == '+') p++;
  while (is_digit(*p)) p++;
  if (*p == '.') p++;
  while (is_digit(*p)) p++;
  if ((*p == 'e' || *p == 'E') && (is_digit(p[1]) || ((p[1] == '-' || p[1] == '+') && is_digit(p[2])))) {
    p += 2;
    while (is_digit(*p)) p++;
  }
  while (is_letter(*p) || *p == '%') p++; /* the unit */
  return p;
}

static void read_quoted(struct where *w, const char *p) {
  const char quote = *p;
  const char *end = strchr(p + 1, quote);
  if (!end) {
    fail_at(w, p, "the quote %c is never closed", quote);
    return;
  }
  w->token = (struct token){quote == '`' ? QUOTED_NAME : TEXT, p, end + 1, {p + 1, (uint32_t)(end - p - 1)}};
}

static void advance(struct where *w) {
  static const char *const signs[] = {"!=", "<>", "<=", ">=", "==", "!~", "=", "<", ">", "~", "(", ")", ","};
  const char *p = w->token.end;
  while (*p == ' ' || (*p >= '\t' && *p <= '\r')) p++;
  w->token = (struct token){.kind = END, .at = p, .end = p};
  if (!*p || w->err != TG_OK) return;
  if (is_letter(*p)) {
    const char *end = p;
    while (is_letter(*end) || is_digit(*end)) end++;
    w->token = (struct token){NAME, p, end, {p, (uint32_t)(end - p)}};
    return;
  }
  const char *digit = p + (*p == '-' || *p == '+');
  if (is_digit(digit[*digit == '.'])) {
    const char *end = number_end(p);
    w->token = (struct token){NUMBER, p, end, {p, (uint32_t)(end - p)}};
    return;
  }
  if (*p == '"' || *p == '\'' || *p == '`') {
    read_quoted(w, p);
    return;
  }
  for (size_t k = 0; k < sizeof signs / sizeof *signs; k++) {
    const size_t len = strlen(signs[k]);
    if (strncmp(p, signs[k], len) != 0) continue;
    w->token = (struct token){SIGN, p, p + len, {p, (uint32_t)len}};
    return;
  }
  fail_at(w, p, "%.*s has no meaning here", (int)tg__utf8_length((const unsigned char *)p, strlen(p)), p);
}

static bool is_sign(const struct where *w, const char *sign) {
  return w->token.kind == SIGN && w->token.text.len == strlen(sign) &&
         memcmp(w->token.text.ptr, sign, w->token.text.len) == 0;
}
static bool is_word_char(const struct where *w, const char *word) {
  return w->token.kind == NAME && tg__str_eq_nocase(w->token.text, word);
}

static bool take_sign(struct where *w, const char *sign) {
  if (!is_sign(w, sign)) return false;
  advance(w);
  return true;
}
static bool take_word(struct where *w, const char *word) {
  if (!is_word_char(w, word)) return false;
  advance(w);
  return true;
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
    } else if (is_digit(*p) && total < INT64_MAX && decimals < INT64_MAX / 10) {
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

/* The number `token` in the unit of `column`. */
static struct number number_for(struct where *w, const struct token *token, const struct tg__column *column) {
  size_t digits = token->text.len;
  while (digits > 0 && (is_letter(token->text.ptr[digits - 1]) || token->text.ptr[digits - 1] == '%')) digits--;
  const struct tg__str number = {token->text.ptr, (uint32_t)digits},
                       unit = {token->text.ptr + digits, token->text.len - (uint32_t)digits};
  if (digits > 60) fail_at(w, token->at, "a number has at most 60 digits");
  if (unit.len == 0 || w->err != TG_OK) return scaled(number, 1);
  for (size_t k = 0; k < sizeof units / sizeof *units; k++) {
    if (!tg__str_eq_nocase(unit, units[k].name)) continue;
    if (strcmp(column->unit, units[k].dimension) == 0) return scaled(number, units[k].scale);
    fail_at(w, token->at, "%s does not fit %.60s, which has the unit %.20s", units[k].name, column->name,
            *column->unit ? column->unit : "none");
    return (struct number){0};
  }
  fail_at(w, unit.ptr, "the unit %.*s is not known (there are ns us ms s, KB MB GB KiB MiB GiB, %%)",
          (int)(unit.len < 20 ? unit.len : 20), unit.ptr);
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
  fail_at(w, w->token.at, "%.200s (text stands in quotes)", e.text + strlen("where: "));
}

static struct value read_value(struct where *w) {
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
    v.yes = is_word_char(w, "true");
    if (v.yes || is_word_char(w, "false")) {
      v.type = TG_BOOL;
    } else {
      read_column(w, &v);
    }
    break;
  case SIGN:
  case END:
    fail_expected(w, "a column or a value");
    break;
  }
  advance(w);
  return v;
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
    fail_at(w, a.token.at, "a comparison needs a column on one side");
  } else if ((test == LIKE || test == UNLIKE) && (operand_kind_of(&a) != TG_TEXT || operand_kind_of(&b) != TG_TEXT)) {
    fail_at(w, operand_kind_of(&a) != TG_TEXT ? a.token.at : b.token.at, "~ compares text with text");
  } else if (operand_kind_of(&a) != operand_kind_of(&b)) {
    fail_at(w, b.token.at, "%.60s is %s, not %s", a.column->name, kinds[operand_kind_of(&a)],
            kinds[operand_kind_of(&b)]);
  } else if (b.column) {
    test_columns(w, a.column, test, b.column, out);
  } else if (b.type == TG_TEXT) {
    test_text(w, a.column, test, b.token.text, out);
  } else if (b.type == TG_BOOL) {
    test_bool(w, a.column, test, b.yes, out);
  } else {
    test_number(w, a.column, test, number_for(w, &b.token, a.column), out);
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
    if (take_sign(w, all[k].sign)) {
      *test = all[k].test;
      return true;
    }
  }
  return false;
}

static void parse_list(struct where *w, struct value column, int8_t *out) {
  if (!take_sign(w, "(")) {
    fail_expected(w, "a list such as (1, 2)");
    return;
  }
  do {
    int8_t *one = new_answer(w);
    if (one) compare_values(w, column, EQ, read_value(w), one);
    combine(w, out, one, 1);
  } while (take_sign(w, ",") && w->err == TG_OK);
  if (!take_sign(w, ")")) fail_expected(w, "a comma or )");
}

static void parse_is(struct where *w, struct value v, int8_t *out) {
  const bool want = !take_word(w, "not");
  if (!take_word(w, "null")) fail_expected(w, "null or not null");
  if (!v.column) fail_at(w, v.token.at, "is null needs a column");
  for (size_t i = 0; w->err == TG_OK && i < w->table->rows; i++) out[i] = is_null_at(v.column, i) == want;
}

static int8_t *parse_test(struct where *w) {
  const struct value v = read_value(w);
  int8_t *out = new_answer(w);
  if (!out) return NULL;
  enum test test;
  if (take_word(w, "is")) {
    parse_is(w, v, out);
  } else if (take_word(w, "in")) {
    parse_list(w, v, out);
  } else if (take_word(w, "not")) {
    if (!take_word(w, "in")) fail_expected(w, "in");
    parse_list(w, v, out);
    negate(w, out);
  } else if (take_operator(w, &test)) {
    compare_values(w, v, test, read_value(w), out);
  } else if (v.column && v.type == TG_BOOL) {
    test_bool(w, v.column, EQ, true, out);
  } else {
    fail_expected(w, "a comparison such as = or >");
  }
  return out;
}

static int8_t *parse_not(struct where *w) {
  if (w->err != TG_OK) return NULL;
  if (w->depth >= MOST_DEPTH) {
    fail_at(w, w->token.at, "nested too deeply");
    return NULL;
  }
  int8_t *v;
  w->depth++;
  if (take_word(w, "not")) {
    v = parse_not(w);
    negate(w, v);
  } else if (take_sign(w, "(")) {
    v = parse_or(w);
    if (!take_sign(w, ")")) fail_expected(w, "and, or, or a closing )");
  } else {
    v = parse_test(w);
  }
  w->depth--;
  return v;
}

static int8_t *parse_and(struct where *w) {
  int8_t *v = parse_not(w);
  while (w->err == TG_OK && take_word(w, "and")) combine(w, v, parse_not(w), 0);
  return v;
}

static int8_t *parse_or(struct where *w) {
  int8_t *v = parse_and(w);
  while (w->err == TG_OK && take_word(w, "or")) combine(w, v, parse_and(w), 1);
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
  advance(&w);
  int8_t *answer = parse_or(&w);
  if (w.token.kind != END) fail_expected(&w, "and, or, or the end");
  if (w.err == TG_OK) keep(&w, answer);
  tg__free(answer);
  return w.err;
}
