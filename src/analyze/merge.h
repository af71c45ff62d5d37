/* One answer about several ranks, put together of answers about one each, and where the ranks are. */
#ifndef TG_MERGE_H
#define TG_MERGE_H

#include "analyze/ask.h"

/* joins.c: the answer about all ranks, put together of answers about one each (questions.def says how, and for which
 * questions). */
bool tg__question_joins(const struct tg__question *q, const struct tg_arg *args, size_t count);
/* Even when it is about one rank. */
bool tg__question_needs_all(const struct tg__question *q, const struct tg_arg *args, size_t count);
/* compat.c: do the rules asked for number events as rows of another tool's table? */
bool tg__rules_go_by_row(const struct tg_arg *args, size_t count);
/* The summaries of the ranks answer it: no event is read. */
bool tg__summaries_answer(const struct tg__question *q, const struct tg_arg *args, size_t count);
/* About the rows of all ranks together, so that no single rank is asked it. */
bool tg__is_for_all_ranks(const char *argument);
struct tg__rank_join;
/* For a question that joins. most: rows behind the first so many may be left out, SIZE_MAX = none; NULL on no
 * memory. */
struct tg__rank_join *tg__rank_join_new(const struct tg__question *q, const struct tg_arg *args, size_t count,
                                        size_t most);
void tg__rank_join_free(struct tg__rank_join *j); /* NULL is fine */
/* The rows of the next one, taken over; who: what it is called in `numbers` below. false on no memory. */
bool tg__rank_join_add(struct tg__rank_join *j, struct tg_table *rows, size_t who);
/* The next one has no data for the question. */
void tg__rank_join_add_missing(struct tg__rank_join *j, const struct tg_error *why);
struct tg_table *tg__rank_join_rows(const struct tg__rank_join *j); /* what is there so far; NULL before the first */
bool tg__rank_join_needs_all_rows(const struct tg__rank_join *j);   /* does only the end decide which rows there are? */
/* *out: the answer, neither filtered nor cut. numbers: of the rank by `who`, below 0 = none. TG_NO_DATA when none
 * had any. */
enum tg_err tg__rank_join_end(struct tg__rank_join *j, const int64_t *numbers, struct tg_table **out,
                              struct tg_error *e);

/* ---- the ranks of a job ---------------------------------------------------------------------- */

/* rank_load.c: what a rank works and what it waits in collectives, means of a step without the longest: all that shows
 * whether one holds the others up. */
struct tg__rank_load {
  double total_ns, busy_ns, wait_ns;
  double error_ns; /* standard error of busy_ns */
  /* Of busy_ns, on no core and ready for none, without the loader: nine of ten steps have no less, no more; NaN */
  double least_still_ns, most_still_ns;
  double operators_ns; /* of busy_ns, in operators of the host */
  /* equal for ranks that have the same operators on the same shapes in their middle step, in any order; 0: not known */
  uint64_t work;
};
/* TG_OK or TG_MEMORY. */
enum tg_err tg__rank_load(const struct tg__columns *t, uint32_t rank, struct tg__rank_load *out);
/* first_start.c: the first start of a rank's events but the recording itself, as in its file; TG_NULL_INT: none. */
int64_t tg__rank_first_ns(const struct tg__columns *t, uint32_t rank);
int64_t tg__rank_first_common_ns(const struct tg__columns *t, uint32_t rank); /* on the common clock; INT64_MAX: none */

/* Where the ranks of a job are: all in memory, or in files of which two stay in memory; src/ranks has both. */
struct tg__rank_source {
  struct tg_trace *trace;
  struct tg__columns *t; /* of all ranks; of those in files only what is known without their events */
  bool is_one;           /* for tg__merged_fn: the rows are those of one rank that was asked for */
  uint32_t count;
  enum tg_err (*load)(const struct tg__rank_source *s, uint32_t i, struct tg__rank_load *out, struct tg_error *e);
  /* *out and *rank: the trace that holds the i-th, and its place there. The trace stays the source's, and is good until
   * two others were opened. */
  enum tg_err (*open)(const struct tg__rank_source *s, uint32_t i, struct tg__columns **out, uint32_t *rank,
                      struct tg_error *e);
};

#endif
