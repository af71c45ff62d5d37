/* read_run: a run whose ranks are read when they are asked about and let go again. What read.c, read_ranks.c and read_run.c say to each other. */
#ifndef TG_READ_RUN_H
#define TG_READ_RUN_H

#include "analyze/analyze.h"
#include "tachograph/read.h"
#include "trace/summary.h"

/* What the first page asks of all ranks: answered while each rank is in memory anyway. */
enum { TG__RUN_READY = 5 };
struct tg__run_ready {
  const char *question, *by; /* by NULL: the usual one */
};
extern const struct tg__run_ready tg__run_ready[TG__RUN_READY];

/* A rank, where it is, and what its tracks, slices and marks would be called if all ranks were in one trace. */
struct tg__run_rank {
  uint32_t unit, of_unit; /* number of its file in the folder; which of the file's ranks */
  int64_t number, alone;  /* as a rank of the run; as a rank of its own file */
  uint32_t tracks, slices, marks, first_track, first_slice, first_mark;
};
struct tg__run_ranks { /* in the order of the files */
  struct tg__run_rank *items;
  size_t count, cap;
  struct tg_table *ready[TG__RUN_READY]; /* NULL: no rank has anything to say, the first one for this reason: */
  struct tg_error why_not[TG__RUN_READY];
  bool is_damaged; /* in memory, for one of them: a defect of ours */
};
void tg__run_ranks_free(struct tg__run_ranks *r);

/* read_ranks.c: summaries of the ranks of a folder, and what stands where; the folder stays the caller's. */
enum tg_err tg__folder_summaries(const struct tg__folder *folder, const char *path, const struct tg_open_options *options,
                                 struct tg__run_ranks *ranks, struct tg_trace **out, struct tg_error *e);

/* read_run.c */
bool tg__run_is_large(const char *path); /* too large to be held at once: ranks are read on demand */
enum tg_err tg__run_open(const char *path, const struct tg_open_options *options, struct tg_trace **out, struct tg_error *e);
void tg__run_close(struct tg__run_door *d); /* NULL is fine */
bool tg__run_is_valid(const struct tg__run_door *d);
enum tg_err tg__run_ask(struct tg_trace *t, const char *question, const struct tg_arg *args, size_t arg_count, struct tg_table **out,
                        struct tg_error *e);
/* *t, or in place of a run all its ranks in memory at once, for what cannot be said rank by rank. They stay there. */
enum tg_err tg__run_whole(struct tg_trace **t, struct tg_error *e);

#endif
