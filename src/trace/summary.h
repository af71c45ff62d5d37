/* summary: what the questions about many ranks need to know of each, small enough that hundreds fit into memory.
 * Made from a trace by analyze/ranks/summarize.c; a .tsum file holds nothing else (summary_file.c). Included by other
 * layers: only analyze and ranks include it.
 *
 * Times are as in the file of their rank; add base_ns to compare ranks by the files' own clocks. */
#ifndef TG_SUMMARY_H
#define TG_SUMMARY_H

#include "trace/trace.h"

enum {
  TG__SUM_MOST_ROWS = 1 << 20, /* of one list of one rank; what is beyond is counted in `dropped` */
  TG__SUM_MOST_NAMES = 1024,   /* operators, and kernels, with totals of their own; the rest is one row */
};

/* What a step's time goes to; each instant counts for the first that is going on, so the shares add up to the step. */
enum tg__share {
  TG__SHARE_COMPUTE,       /* kernels but collectives; operators where the rank has no device work */
  TG__SHARE_COMMUNICATION, /* collectives on the device, else those of the host */
  TG__SHARE_COPY,          /* copies and memsets */
  TG__SHARE_DATA,          /* the data loader */
  TG__SHARE_HOST,          /* operators and runtime calls */
  TG__SHARE_REST,
  TG__SHARE_COUNT
};
struct tg__sum_step {
  int64_t number;           /* of the step; -1 = the whole recording taken as one */
  int64_t start_ns, end_ns; /* device work it launched included */
  int64_t share_ns[TG__SHARE_COUNT];
  int64_t communication_ns; /* the whole of it: the share is what computation does not hide */
  bool is_partial;          /* at the end, and its device work is not in the trace: no figure is about it */
};
/* One collective as one rank took part in it. */
struct tg__sum_collective {
  int64_t start_ns, end_ns; /* of its device work; of the host's span where it has none */
  int64_t call_ns;          /* when the host asked for it; TG_NULL_INT = not known */
  int64_t bytes;            /* this rank put in; -1 = not known */
  int64_t sequence;         /* number within its group; -1 = not known */
  uint32_t group, kind;     /* strings */
  uint32_t step;            /* index into the steps, TG_NONE */
  uint32_t group_size;      /* 0 = not known */
  bool on_device;
};
enum tg__sum_what { TG__SUM_OP, TG__SUM_KERNEL, TG__SUM_WHATS };
struct tg__sum_total {
  uint32_t name; /* string; TG_NONE = all those beyond TG__SUM_MOST_NAMES */
  enum tg__sum_what what;
  int64_t calls, total_ns, min_ns, max_ns;
};
/* A collective as the TensorBoard plugin sees it: the host's range, or its copy on the device, with the kernels of
 * its external id. */
struct tg__sum_node {
  int64_t start_ns, end_ns, bytes;
  uint32_t name;                       /* string */
  uint32_t first_kernel, kernel_count; /* in node_kernels */
};
struct tg__sum_range {
  int64_t start_ns, end_ns;
};

struct tg__rank_summary {
  uint32_t path, host;               /* strings; host TG_NONE = not known */
  uint32_t file_index, rank_in_file; /* the rank of a folder that it was made of; not kept in files */
  int64_t number, world_size, base_ns, json_bytes, events;
  int64_t first_ns, last_ns; /* start of its first and end of its last complete slice */
  int64_t lost;              /* events and stretches of the input that could not be read */
  int64_t dropped;           /* rows beyond TG__SUM_MOST_ROWS */
  int64_t bare_requests;     /* collectives that were asked for and never seen to run */
  enum tg__step_kind step_kind;
  bool number_is_given, is_cut, is_killed, has_device_work;
  struct tg__sum_step *steps;
  uint32_t step_count;
  struct tg__sum_collective *collectives; /* as they were asked for */
  uint32_t collective_count;
  struct tg__sum_total *totals; /* by what, then name */
  uint32_t total_count;
  struct tg__sum_node *nodes; /* by start */
  uint32_t node_count;
  struct tg__sum_range *node_kernels;
  uint32_t node_kernel_count;
};
struct tg__summaries {
  struct tg__strings *strings;
  struct tg__rank_summary *ranks; /* by number, then path */
  uint32_t count;
};

struct tg__summaries *tg__summaries_new(void);    /* empty; NULL on no memory */
void tg__summaries_free(struct tg__summaries *s); /* NULL is fine */
void tg__rank_summary_free(struct tg__rank_summary *r);
bool tg__summaries_sort(struct tg__summaries *s); /* by number, then path; false on no memory */

/* Is this file one? file: its bytes, only looked at; NULL: those at the path. */
bool tg__summaries_recognise(const char *path, struct tg__file *file);
/* All ranks of one list into another that may have other strings; false on no memory, and then neither is of use. */
bool tg__summaries_move(struct tg__summaries *from, struct tg__summaries *to);

/* Columns without events that name the ranks of the summaries, which answer the questions about ranks. Numbers ranks
 * that have none and puts them in order. */
enum tg_err tg__trace_of_summaries(struct tg__summaries *s, const char *path, struct tg__columns **out,
                                   struct tg_error *e);
/* As tg__trace_open. *summaries: those of a .tsum file, the caller's; else NULL. */
enum tg_err tg__trace_or_summary_open(const char *path, const struct tg_open_options *options, struct tg__columns **out,
                                      struct tg__summaries **summaries, struct tg_error *e);
enum tg_err tg__summaries_save(const struct tg__summaries *s, const char *path, struct tg_error *e);
/* Add the ranks of a .tsum file to `s`. file: its bytes, taken over; NULL: those at the path. *damaged: how many of
 * them could not be read. */
enum tg_err tg__summaries_read(struct tg__summaries *s, const char *path, struct tg__file *file, int64_t *damaged,
                               struct tg_error *e);

/* ---- one rank after the other (open.c): so that never more than a few are in memory ---------- */

bool tg__is_trace_name(const char *name); /* by its end */
bool tg__is_summary_name(const char *name);
/* folder_hint.c: the files of a folder or glob; of a folder that holds no trace itself, those of its folders raw,
 * rank_0, rank_1, … */
enum tg_err tg__trace_list(const char *path, struct tg__arena *arena, const char ***names, size_t *count,
                           struct tg_error *e);
/* folder_hint.c: the sentence of a folder that holds none. */
enum tg_err tg__no_traces(const char *path, struct tg_error *e);
struct tg__folder; /* the files of a folder or glob, those that belong together put together; or a single file */
enum tg_err tg__folder_open(const char *path, struct tg__folder **out, struct tg_error *e);
void tg__folder_close(struct tg__folder *f); /* NULL is fine */
size_t tg__folder_count(const struct tg__folder *f);
const char *tg__folder_path(const struct tg__folder *f, size_t i);
/* Of file i on disk; 0 when it is no trace by its name. */
int64_t tg__folder_bytes(const struct tg__folder *f, size_t i);
/* File i as a trace of its own. *out is NULL and all is well when it is no trace by its name or part of one before
 * it, or a summary and `summaries` is NULL. May be called from several threads. */
enum tg_err tg__folder_read(const struct tg__folder *f, size_t i, const struct tg_open_options *options,
                            struct tg__columns **out, struct tg__summaries **summaries, struct tg_error *e);

#endif
