/* diff_columns.c: what each column of an answer is for, when two answers are held against each other. */
#ifndef TG_DIFF_COLUMNS_H
#define TG_DIFF_COLUMNS_H

#include "analyze/diff/diff.h"

enum tg__diff_role {
  TG__DIFF_LEFT_OUT,
  TG__DIFF_KEY,   /* rows are matched by it */
  TG__DIFF_VALUE, /* shown of both sides, with the difference */
  TG__DIFF_SEEN   /* shown of both sides */
};
struct tg__diff_columns {
  uint8_t *roles; /* by column, enum tg__diff_role */
  size_t by;      /* rows are sorted by the change of this column; SIZE_MAX = none */
  bool in_order;  /* a column that names rows says other things on the two sides, so they are matched without it */
};
/* By keys= and columns= of the ask, else by what the columns hold. Both sides have the same columns. To be closed
 * either way. */
enum tg_err tg__diff_columns_choose(struct tg_table *const sides[TG__SIDES], const struct tg__diff_ask *ask,
                                    struct tg__diff_columns *out, struct tg_table *notes, struct tg_error *e);
void tg__diff_columns_close(struct tg__diff_columns *c);

#endif
