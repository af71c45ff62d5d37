/* ranks: jobs of many ranks. Their files are read one after the other, summarized, asked and released; what cannot be
 * answered rank by rank needs all of them in memory. Public header of the folder. */
#ifndef TG_RANKS_H
#define TG_RANKS_H

#include "catalog/catalog.h"
#include "trace/summary.h"

/* The public handle. A literal with columns only is a trace with all its ranks in memory. */
struct tg_trace {
  struct tg__columns *columns;     /* of a run only what is known of its ranks without their events */
  struct tg__rank_folder *run;     /* NULL: all ranks are in the columns */
  struct tg__summaries *summaries; /* of a run, and all there is of a summary; NULL: the columns have the events */
};
/* Takes all three over, also where it fails. */
enum tg_err tg__handle_new(struct tg__columns *columns, struct tg__rank_folder *run, struct tg__summaries *summaries,
                           struct tg_trace **out, struct tg_error *e);
void tg__handle_free(struct tg_trace *t); /* NULL is fine */
/* tg_open, with all ranks of a folder in memory. */
enum tg_err tg__open_in_memory(const char *path, const struct tg_open_options *options, struct tg_trace **out,
                               struct tg_error *e);

/* What `check` says of a rank. */
struct tg__rank_health {
  int64_t events_read, events_kept, loss[TG__LOSS_COUNT], loss_offset[TG__LOSS_COUNT];
  struct tg__process *processes;
  uint32_t process_count;
  struct tg__links links;
};
/* A rank, where it is, and what its tracks, slices and marks would be called if all ranks were in one trace. */
struct tg__job_rank {
  uint32_t unit, of_unit; /* number of its file in the folder; which of the file's ranks */
  int64_t number, alone;  /* as a rank of the job; as a rank of its own file */
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

/* The one question that a folder is opened for, in place of the first page. Rows behind the first `most` may be left
 * out.
 */
struct tg__first_question {
  struct tg__call call;
  size_t most;
  bool checks;            /* the invariants are looked at as well, as for the first page */
  struct tg_table *table; /* the caller's; NULL and an error: no answer */
  enum tg_err err;
  struct tg_error error;
};

/* read_all.c: tg_open_ranks and tg_save_ranks. */
enum tg_err tg__read_summaries(const char *const *paths, size_t count, const struct tg_open_options *options,
                               struct tg_trace **out, struct tg_error *e);
enum tg_err tg__save_summaries(struct tg_trace *trace, const char *path, struct tg_error *e);
/* The summaries of the ranks of a folder, and what stands where; the folder stays the caller's. first
 * NULL: the first page. */
enum tg_err tg__folder_summaries(const struct tg__folder *folder, const char *path,
                                 const struct tg_open_options *options, struct tg__first_question *first,
                                 struct tg__job_ranks *ranks, struct tg__columns **out,
                                 struct tg__summaries **summaries, struct tg_error *e);

/* rank_folder.c */
struct tg__rank_folder {
  struct tg__folder *folder;
  char *path;
  struct tg_open_options options; /* progress: for what is read later */
  struct tg__job_ranks ranks;
  struct tg__job_info job; /* for a file asked on its own */
  struct {
    struct tg__columns *trace;
    uint32_t unit;
  } kept[2];                       /* files, the last one asked first */
  struct tg__columns *whole;       /* NULL until something needs it */
  int64_t done_bytes, total_bytes; /* of the question at hand, before the file at hand; total -1: of this file alone */
};
/* For tests: folders with more bytes of files than this are read rank by rank. Any thread, before one is opened. */
TG_API void tg__ranks_large(int64_t bytes);
/* What all ranks of a large folder take in memory at once, roughly; 0 when the folder is no large one: then all are
 * held at once, else ranks are read on demand. */
int64_t tg__rank_folder_memory(const char *path);
enum tg_err tg__rank_folder_open(const char *path, const struct tg_open_options *options,
                                 struct tg__first_question *first, struct tg_trace **out, struct tg_error *e);
/* open_asking.c: a handle opened for first->call. first->table or first->err is set where it was answered while the
 * ranks were read; else it is to be asked. */
enum tg_err tg__open_asking(const char *path, const struct tg_open_options *options, struct tg__first_question *first,
                            struct tg_trace **out, struct tg_error *e);
bool tg__call_needs_all(const struct tg__call *c); /* all ranks in memory, even of a large folder */
/* What to add to a time of the rank of this number to get the common clock. */
int64_t tg__job_clock_offset(const struct tg__columns *run, int64_t number);
/* The first start of these ranks, on the common clock; 0 where nothing starts. */
int64_t tg__job_first_ns(const struct tg__columns *run, const struct tg__job_rank *places, size_t count);
void tg__rank_folder_close(struct tg__rank_folder *d); /* NULL is fine */
bool tg__ranks_are_valid(const struct tg_trace *t);    /* of a run: as it was found when its ranks were read */
/* The columns, of a run those of all its ranks in memory at once, for what cannot be said rank by rank. They stay
 * there, the trace's. */
enum tg_err tg__load_all_ranks(struct tg_trace *t, struct tg__columns **out, struct tg_error *e);
/* The trace of a file, from those kept or from the disk. It stays the folder's. */
enum tg_err tg__rank_folder_file(const struct tg_trace *run, uint32_t unit, struct tg__columns **out,
                                 struct tg_error *e);

/* What questions cached of the trace of a file, if it is still kept. */
void tg__rank_folder_drop_caches(struct tg__rank_folder *d, uint32_t unit);
/* Progress of what looks at all ranks; nothing where d is NULL. */
void tg__rank_folder_pass(struct tg__rank_folder *d, bool begins);
void tg__rank_folder_pass_to(struct tg__rank_folder *d, uint32_t i);

/* rank_source.c */
struct tg__rank_source tg__ranks_in_memory(struct tg__columns *t);
struct tg__rank_source tg__ranks_of(struct tg_trace *t);
struct tg__rank_folder *tg__rank_folder_of(const struct tg__rank_source *s); /* NULL: they are in memory */
typedef enum tg_err tg__rank_fn(void *ctx, uint32_t i, struct tg__columns *t, uint32_t rank, struct tg_error *e);
/* Open each rank, visit it, be done with it; stops at the first error. */
enum tg_err tg__ranks_each(const struct tg__rank_source *s, tg__rank_fn *visit, void *ctx, struct tg_error *e);
/* Visit the files of a folder, each with all its columns, one after the other; stops at the first error. */
enum tg_err tg__each_rank_file(struct tg_trace *run, tg__look_fn *look, void *ctx, struct tg_error *e);

/* merge_ranks.c. An answer about all ranks that is being put together: */
struct tg__merging {
  struct tg__call call;
  struct tg__joining *joining;
  struct tg__call each; /* what each rank is asked */
  struct tg_arg *args;
};
bool tg__merging_begin(struct tg__merging *m, const struct tg__call *c, size_t most); /* false on no memory */
void tg__merging_end(struct tg__merging *m); /* after a failed beginning, too */
/* The rows of the next one, taken over; NULL: it has none, for this reason. choose: apply where= now if it can be. */
enum tg_err tg__merging_add(struct tg__merging *m, struct tg_table *rows, const struct tg_error *why, bool choose,
                            size_t who, struct tg_error *e);
/* What a single rank is asked. args: room for c->count. */
struct tg__call tg__call_of_each(const struct tg__call *c, bool needs_all_rows, struct tg_arg *args);
/* Ask all ranks and merge their rows; where=, sort= and limit= are the caller's. */
enum tg_err tg__ranks_merge(const struct tg__rank_source *s, const struct tg__call *c, struct tg_table **out,
                            struct tg_error *e);
/* What shows only between the ranks, into rows that were put together of single ones. */
enum tg_err tg__merged(const struct tg__rank_source *s, const struct tg__call *c, struct tg_table *rows,
                       struct tg_error *e);
/* What no rank says: which files could not be read, and which say that they are the same rank. */
void tg__add_losses_of_all(const struct tg__columns *t, struct tg_table *out);

/* ask_job.c. The rank of that number; NULL: there is none. */
const struct tg__job_rank *tg__job_rank_of(const struct tg__job_ranks *ranks, const char *number);
enum tg_err tg__ask(struct tg_trace *t, const char *question, const struct tg_arg *args, size_t arg_count,
                    struct tg_table **out, struct tg_error *e);
/* The same to columns in memory that are a part of a job. */
enum tg_err tg__part_ask(struct tg__columns *t, const struct tg__job_info *job, const struct tg__call *c,
                         struct tg_table **out, struct tg_error *e);
/* Tracks, slices and marks of a file's rows are called what they are called in the run, where the file begins at
 * `first`; of the rows of the i-th rank, which need no other numbers where run is NULL. */
void tg__renumber_rows(struct tg_table *t, const struct tg__call *c, const struct tg__job_rank *first);
void tg__renumber_rank_rows(const struct tg__rank_folder *run, size_t i, const struct tg__call *c,
                            struct tg_table *rows);

#endif
