/* join: answers about one rank each become the one about all of them; the lists are in joins.def. */
#ifndef TG_JOIN_H
#define TG_JOIN_H

#include "analyze/analyze.h"

/* ---- which questions (joins.c) --------------------------------------------------------------- */

enum tg__join_how { TG__JOIN_WHOLE, TG__JOIN_ROWS, TG__JOIN_FOLD, TG__JOIN_LATE };
struct tg__join {
  const char *question, *argument, *value;
  enum tg__join_how how;
  const char *order, *note;
};
enum tg__fold_how {
  TG__FOLD_KEY,
  TG__FOLD_IS,
  TG__FOLD_SUM,
  TG__FOLD_SUM_IF_ALL,
  TG__FOLD_SUM_IF_ANY,
  TG__FOLD_FLOPS,
  TG__FOLD_LEAST,
  TG__FOLD_MOST,
  TG__FOLD_FIRST,
  TG__FOLD_EVER,
  TG__FOLD_EARLIEST,
  TG__FOLD_STD,
  TG__FOLD_WEIGHTED,
  TG__FOLD_STATED,
  TG__FOLD_PART,
  TG__FOLD_MEAN,
  TG__FOLD_RATE,
  TG__FOLD_SHARE,
  TG__FOLD_PER_ONE,
  TG__FOLD_RUNNING,
  TG__FOLD_MS,
  TG__FOLD_LOW,
  TG__FOLD_BOUND,
};
struct tg__fold_rule {
  const char *question, *column;
  enum tg__fold_how how;
  const char *of, *by;
};
const struct tg__fold_rule *tg__fold_rule_of(const char *question, const char *column); /* NULL: there is none */

/* ---- folding (fold.c) ------------------------------------------------------------------------ */

struct tg__fold;
struct tg__fold *
tg__fold_new(const struct tg_table *first); /* rules of its question for its columns; NULL on no memory */
void tg__fold_free(struct tg__fold *f);     /* NULL is fine */
/* Rows of `from` into `to`, whose rows all came this way; false on no memory. */
bool tg__fold_rows(struct tg__fold *f, struct tg_table *to, const struct tg_table *from);
/* What follows from the sums, when all are in: to be called once before the rows are sorted, and once more after. */
void tg__fold_settle(const struct tg__fold *f, struct tg_table *to);
void tg__fold_running(const struct tg__fold *f, struct tg_table *to);

#endif
