/* rows.h: what the files behind the question rows share; private to them. */
#ifndef TG_ROWS_H
#define TG_ROWS_H

#include "analyze/overview/event_args.h"
#include "analyze/compat/hta/hta_rows.h"

/* The columns of questions.def, in order. */
enum tg__rows_column {
  TG__ROWS_RANK,
  TG__ROWS_SLICE,
  TG__ROWS_TRACK,
  TG__ROWS_INDEX,
  TG__ROWS_CATEGORY,
  TG__ROWS_NAME,
  TG__ROWS_START,
  TG__ROWS_TS,
  TG__ROWS_DUR,
  TG__ROWS_STREAM,
  TG__ROWS_CORRELATION,
  TG__ROWS_INDEX_CORRELATION,
  TG__ROWS_ITERATION,
  TG__ROWS_EVENTS,
  TG__ROWS_COLUMNS,
  TG__ROWS_WRITTEN = TG__ROWS_EVENTS /* columns of an event */
};

enum tg__rows_side { TG__SIDE_ALL, TG__SIDE_DEVICE, TG__SIDE_WORK, TG__SIDE_HOST };
struct tg__rows {
  const struct tg__columns *t;
  struct tg__hta hta;
  bool is_exact;
  enum tg__rows_side side;
  int64_t zero_ns;        /* exact: the earliest start of all ranks on the common clock */
  const uint32_t *tracks; /* of each slice */
  struct tg__extras *extras;
};
/* TG_NULL_INT, -1: in no step. */
int64_t tg__rows_iteration(const struct tg__rows *r, uint32_t rank, const struct tg__hta_row *row);
/* The side asked for? By the exact rules only row->slice matters. */
bool tg__rows_on_side(const struct tg__rows *r, const struct tg__hta_row *row);

/* The last step of this rank that begins at or before ns and has not ended, by its number; -1. Steps are in order of
 * their start. */
int64_t tg__rows_step_at(const struct tg__columns *t, uint32_t rank, int64_t ns);
/* The earliest start of all ranks on the common clock. */
int64_t tg__rows_zero(const struct tg__columns *t, const struct tg__ask *a);

/* rules=exact, every row (rows_exact.c): column by column, and only those that are wanted. r has all but zero_ns;
 * its hta is prepared. */
enum tg_err tg__rows_exact(const struct tg__rows *r, const struct tg__ask *a, struct tg_table *out);

/* event_sums.c: by=step and by=name; "exact" with rules=exact and no step filter, where hta needs be prepared only
 * and no row is loaded. */
enum tg_err tg__put_exact_steps(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out);
enum tg_err tg__put_row_steps(const struct tg__rows *r, const struct tg__ask *a, struct tg_table *out);
enum tg_err tg__put_exact_names(const struct tg__rows *r, const struct tg__ask *a, struct tg_table *out,
                                struct tg_error *e);
enum tg_err tg__put_row_names(const struct tg__rows *r, const struct tg__ask *a, struct tg_table *out,
                              struct tg_error *e);

#endif
