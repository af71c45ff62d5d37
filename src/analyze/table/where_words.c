/* where_words: the words of a where expression, and what is wrong with it. */
#include "analyze/table/where.h"

#include <stdarg.h>
#include <stdio.h>

/* ---- errors ---------------------------------------------------------------------------------- */

/* Long expressions are shown in part. */
void tg__where_fail(struct where *w, const char *at, const char *format, ...) {
  enum { BEFORE = 50, SHOWN = 90 };
  if (w->err != TG_OK) return;
  char message[256], shown[SHOWN + 1];
  va_list args;
  va_start(args, format);
  tg__format_words(message, sizeof message, format, args);
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

void tg__where_expected(struct where *w, const char *expected) {
  if (w->token.kind == END) {
    tg__where_fail(w, w->token.at, "expected %s, found the end", expected);
  } else {
    const size_t len = (size_t)(w->token.end - w->token.at);
    tg__where_fail(w, w->token.at, "expected %s, found %.*s", expected, (int)(len < 60 ? len : 60), w->token.at);
  }
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static const char *number_end(const char *p) {
  if (*p == '-' || *p == '+') p++;
  while (tg__is_digit(*p)) p++;
  if (*p == '.') p++;
  while (tg__is_digit(*p)) p++;
  if ((*p == 'e' || *p == 'E') && (tg__is_digit(p[1]) || ((p[1] == '-' || p[1] == '+') && tg__is_digit(p[2])))) {
    p += 2;
    while (tg__is_digit(*p)) p++;
  }
  while (tg__is_letter(*p) || *p == '%') p++; /* the unit */
  return p;
}

static void read_quoted(struct where *w, const char *p) {
  const char quote = *p;
  const char *end = strchr(p + 1, quote);
  if (!end) {
    tg__where_fail(w, p, "the quote %c is never closed", quote);
    return;
  }
  w->token = (struct token){quote == '`' ? QUOTED_NAME : TEXT, p, end + 1, {p + 1, (uint32_t)(end - p - 1)}};
}

void tg__where_advance(struct where *w) {
  static const char *const signs[] = {"!=", "<>", "<=", ">=", "==", "!~", "=", "<", ">",
                                      "~",  "(",  ")",  ",",  "+",  "-",  "*", "/"};
  const char *p = w->token.end;
  while (*p == ' ' || (*p >= '\t' && *p <= '\r')) p++;
  w->token = (struct token){.kind = END, .at = p, .end = p};
  if (!*p || w->err != TG_OK) return;
  if (tg__is_letter(*p)) {
    const char *end = p;
    while (tg__is_letter(*end) || tg__is_digit(*end)) end++;
    w->token = (struct token){NAME, p, end, {p, (uint32_t)(end - p)}};
    return;
  }
  const char *digit = p + (*p == '-' || *p == '+');
  if (tg__is_digit(digit[*digit == '.'])) {
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
  tg__where_fail(w, p, "%.*s has no meaning here", (int)tg__utf8_length((const unsigned char *)p, strlen(p)), p);
}

static bool is_sign(const struct where *w, const char *sign) {
  return w->token.kind == SIGN && w->token.text.len == strlen(sign) &&
         memcmp(w->token.text.ptr, sign, w->token.text.len) == 0;
}
bool tg__where_is_word(const struct where *w, const char *word) {
  return w->token.kind == NAME && tg__str_eq_nocase(w->token.text, word);
}

bool tg__where_take_sign(struct where *w, const char *sign) {
  if (!is_sign(w, sign)) return false;
  tg__where_advance(w);
  return true;
}
bool tg__where_take_word(struct where *w, const char *word) {
  if (!tg__where_is_word(w, word)) return false;
  tg__where_advance(w);
  return true;
}
