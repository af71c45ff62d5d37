/* ranks: jobs of many ranks. Their files are read in one pass, summarized, asked and released; what cannot be answered
 * rank by rank needs all of them in memory. Public header of the folder. */
#ifndef TG_RANKS_H
#define TG_RANKS_H

#include "catalog/catalog.h"
#include "ranks/file_pass.h"

/* ---- a trace (rank_folder.c) --------------------------------------------------------------------- */

/* The public handle. A literal with columns only is a trace with all ranks in memory. */
struct tg_trace {
  struct tg__columns *columns;     /* with a folder: what is known of its ranks without their events */
  struct tg__rank_folder *folder;  /* NULL: all ranks are in the columns */
  struct tg__summaries *summaries; /* of a folder, or all there is of a summary; NULL: the columns have the events */
};
/* Takes all three over, also where it fails. */
enum tg_err tg__handle_new(struct tg__columns *columns, struct tg__rank_folder *folder, struct tg__summaries *summaries,
                           struct tg_trace **out, struct tg_error *e);
void tg__handle_free(struct tg_trace *t); /* NULL is fine */
/* tg_open, with all ranks of a folder in memory. */
enum tg_err tg__open_in_memory(const char *path, const struct tg_open_options *options, struct tg_trace **out,
                               struct tg_error *e);
bool tg__ranks_are_valid(const struct tg_trace *t); /* of a folder: as it was found when its ranks were read */
/* The columns with all ranks, for what cannot be answered rank by rank. They stay in memory, the trace's. */
enum tg_err tg__load_all_ranks(struct tg_trace *t, struct tg__columns **out, struct tg_error *e);

/* Answer a question, whichever way its ranks are read: all of them one by one, one of them, or all in memory at once
 * (ask_trace.c). */
enum tg_err tg__ask_trace(struct tg_trace *t, const char *question, const struct tg_arg *args, size_t arg_count,
                          struct tg_table **out, struct tg_error *e);

/* ---- the ranks of a folder ----------------------------------------------------------------------- */

/* What `check` reports of a rank. */
struct tg__rank_health {
  int64_t events_read, events_kept, loss[TG__LOSS_COUNT], loss_offset[TG__LOSS_COUNT];
  struct tg__process *processes;
  uint32_t process_count;
  struct tg__links links;
};
/* A rank, its file, and the numbers of its tracks, slices and marks in one trace of all ranks. */
struct tg__job_rank {
  uint32_t file_index, rank_in_file;
  int64_t rank, rank_by_file; /* number in the job; number that its own file states */
  uint32_t tracks, slices, marks, first_track, first_slice, first_mark;
  struct tg__rank_load load;
  int64_t first_ns; /* tg__rank_first_ns */
  struct tg__rank_health health;
};
struct tg__job_ranks { /* in the order of the files */
  struct tg__job_rank *items;
  size_t count, cap;
  bool has_ready;                          /* was the first page asked? */
  struct tg_table *ready[TG__READY_COUNT]; /* as tg__ready; NULL: no rank can answer, the first one for this reason: */
  struct tg_error why_not[TG__READY_COUNT];
  struct tg_error defect; /* code 0, or an invariant that does not hold in memory, for one of them */
};
void tg__job_ranks_free(struct tg__job_ranks *r);
/* ask_trace.c */
const struct tg__job_rank *tg__job_rank_of(const struct tg__job_ranks *ranks, const char *number); /* NULL: none */
/* The first rank of the file of rank i: numbers of tracks and slices count from there. */
const struct tg__job_rank *tg__first_of_file(const struct tg__job_ranks *ranks, size_t i);
/* The first start of all ranks, on the common clock; 0 where nothing starts. */
int64_t tg__job_first_ns(const struct tg__columns *known, const struct tg__job_ranks *ranks);
int64_t tg__job_clock_offset(const struct tg__columns *known, int64_t rank); /* to the common clock */

/* rank_folder.c: a folder of which the ranks are read one by one. */
struct tg__rank_folder {
  struct tg__folder *files;
  char *path;
  struct tg_open_options options; /* progress: for what is read later */
  struct tg__job_ranks ranks;
  struct tg__job_info job; /* for a file asked on its own */
  struct {
    struct tg__columns *trace;
    uint32_t file_index;
  } kept[2];                 /* files, the last one asked first */
  struct tg__columns *whole; /* NULL until something needs it */
};
/* For tests: folders with more bytes of files than this are read rank by rank. Any thread, before one is opened. */
TG_API void tg__ranks_large(int64_t bytes);
/* Memory that all ranks of a large folder take at once, roughly; 0 for other paths: their ranks are held at once. */
int64_t tg__rank_folder_memory(const char *path);
struct tg__first_question;
enum tg_err tg__rank_folder_open(const char *path, const struct tg_open_options *options,
                                 struct tg__first_question *first, struct tg_trace **out, struct tg_error *e);
void tg__rank_folder_close(struct tg__rank_folder *d);                              /* NULL is fine */
bool tg__rank_folder_is_valid(const struct tg__rank_folder *d, struct tg_error *e); /* rank_folder_valid.c */
/* The trace of a file, from those kept or from the disk. It stays the folder's. */
enum tg_err tg__rank_folder_file(const struct tg_trace *t, uint32_t file_index, struct tg__columns **out,
                                 struct tg_error *e);
/* Name the ranks of a file as the job does, and set their clocks. An error: it is not the file that was read first. */
enum tg_err tg__name_ranks(const struct tg_trace *job, struct tg__columns *t, uint32_t file_index, struct tg_error *e);
/* One pass over the files of a folder, as the job names their ranks. */
enum tg_err tg__each_in_folder(struct tg_trace *t, unsigned at_once, const struct tg__observer *o, struct tg_error *e);
/* Visit each file of a folder with all its columns, one by one; stops at the first error. */
enum tg_err tg__visit_rank_files(struct tg_trace *t, tg__file_visitor *visit, void *ctx, struct tg_error *e);

/* rank_source.c: where the ranks of a trace are. */
struct tg__rank_place {
  /* Let the observer see and take ranks [first, past), in their order. */
  enum tg_err (*each)(struct tg_trace *t, uint32_t first, uint32_t past, const struct tg__observer *o,
                      struct tg_error *e);
  enum tg_err (*whole)(struct tg_trace *t, struct tg__columns **out, struct tg_error *e); /* tg__load_all_ranks */
  struct tg__rank_source source; /* for what compares the ranks; the trace is still to be set */
};
extern const struct tg__rank_place tg__in_memory, tg__in_folder;

/* ---- opening (first_reading.c, open_asking.c) ---------------------------------------------------- */

/* The one question that a folder is opened for, in place of the first page. Rows behind the first `most` may be left
 * out. */
struct tg__first_question {
  struct tg__call call;
  size_t most;
  bool checks;            /* the invariants are looked at as well, as for the first page */
  struct tg_table *table; /* the caller's; NULL and an error: no answer */
  enum tg_err err;
  struct tg_error error;
};
/* A handle opened for first->call. first->table or first->err is set where the first reading answered it; else it is
 * to be asked. */
enum tg_err tg__open_asking(const char *path, const struct tg_open_options *options, struct tg__first_question *first,
                            struct tg_trace **out, struct tg_error *e);
bool tg__call_needs_all(const struct tg__call *c); /* all ranks in memory, even of a large folder */
/* Read a folder for the first time: summaries of its ranks, their places, and the first question or the first page. */
enum tg_err tg__read_first(const struct tg__folder *files, const char *path, const struct tg_open_options *options,
                           struct tg__first_question *first, struct tg__job_ranks *ranks, struct tg__columns **out,
                           struct tg__summaries **summaries, struct tg_error *e);
/* tg_open_ranks and tg_save_ranks. */
enum tg_err tg__read_summaries(const char *const *paths, size_t count, const struct tg_open_options *options,
                               struct tg_trace **out, struct tg_error *e);
enum tg_err tg__save_summaries(struct tg_trace *trace, const char *path, struct tg_error *e);

#endif
