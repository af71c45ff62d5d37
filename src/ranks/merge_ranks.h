/* merge_ranks: the answer about all ranks, put together by an observer of each; private to the folder. */
#ifndef TG_MERGE_RANKS_H
#define TG_MERGE_RANKS_H

#include "ranks/ranks.h"

struct tg__answered { /* by one file */
  struct tg__got {
    struct tg_table *rows; /* NULL: none, for this reason */
    struct tg_error why;
  } *got; /* by rank in the file */
  uint32_t count;
};
struct tg__answering {
  struct tg__call call, each; /* as asked; what each rank is asked */
  struct tg_arg *args;
  struct tg__rank_join *join;
  struct tg__job_info job;
  const struct tg__columns *known;   /* of all ranks */
  const struct tg__job_ranks *ranks; /* NULL: all are in one trace; else those taken so far */
  bool is_first;                     /* what ranks are called in the job is not known yet; a file may be missing */
  bool is_single;                    /* `each` is asked once, and its rows are the answer; join is NULL */
  struct tg__answered *files;
  size_t file_count, asked;
};
/* For a question that joins, or a single answer. Rows behind the first `most` may be left out. false on no memory; to
 * be freed anyway. */
bool tg__answering_begin(struct tg__answering *a, const struct tg__call *c, bool is_single, size_t most,
                         size_t file_count);
struct tg__observer tg__answering_observer(struct tg__answering *a);
/* *out: the rows of all ranks, which where=, sort= and limit= are still to be applied to. known is set by now. */
enum tg_err tg__answering_end(struct tg__answering *a, struct tg_table **out, struct tg_error *e);
void tg__answering_free(struct tg__answering *a);

/* What shows only between the ranks, into rows that were put together of single ones. */
enum tg_err tg__merge_between_ranks(struct tg_trace *t, const struct tg__call *c, struct tg_table *rows,
                                    struct tg_error *e);
/* The question to a single rank. args: room for c->count. */
struct tg__call tg__call_of_each(const struct tg__call *c, bool needs_all_rows, struct tg_arg *args);
/* The rows that no rank has: files that could not be read, and files that state the same rank. */
void tg__add_losses_of_all(const struct tg__columns *t, struct tg_table *out);
/* Number tracks, slices and marks of a file's rows as in the job, where the file begins at `first`. */
void tg__renumber_rows(struct tg_table *t, const struct tg__call *c, const struct tg__job_rank *first);

#endif
