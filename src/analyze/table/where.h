/* analyze/table, private: the words of a where expression (where_words.c). */
#ifndef TG_ANALYZE_TABLE_WHERE_H
#define TG_ANALYZE_TABLE_WHERE_H

#include "analyze/answering.h"

enum token_kind { END, NAME, QUOTED_NAME, NUMBER, TEXT, SIGN };
struct token {
  enum token_kind kind;
  const char *at, *end; /* in the expression */
  struct tg__str text;  /* NAME, TEXT: without quotes; SIGN: the operator */
};

struct where {
  struct tg_table *table;
  const char *expression;
  struct token token; /* the next one */
  struct tg_error *e;
  enum tg_err err;
  int depth;
};

static inline bool tg__is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static inline bool tg__is_digit(char c) { return c >= '0' && c <= '9'; }

/* The message, then the expression with a caret under the place; only the first one counts. */
__attribute__((format(printf, 3, 4))) void tg__where_fail(struct where *w, const char *at, const char *format, ...);
void tg__where_expected(struct where *w, const char *expected);
void tg__where_advance(struct where *w); /* to the next token */
bool tg__where_is_word(const struct where *w, const char *word);
/* Advance if the token is this one. */
bool tg__where_take_sign(struct where *w, const char *sign);
bool tg__where_take_word(struct where *w, const char *word);

#endif
