/* show, private: the tables a report is made of. Every number in a report is a cell of one of them. */
#ifndef TG_SHOW_REPORT_H
#define TG_SHOW_REPORT_H

#include "show/parts.h"

enum tg__report_part {
  TG__REPORT_OVERVIEW,
  TG__REPORT_LOSSES,
  TG__REPORT_LAUNCHES,
  TG__REPORT_STEPS,     /* by=summary, all ranks */
  TG__REPORT_STEP_ROWS, /* those of the rank shown */
  TG__REPORT_LABELS,    /* of the program, on the host: by time */
  TG__REPORT_PHASES,    /* that need no labels */
  TG__REPORT_HOST_OPS,
  TG__REPORT_DEVICE_OPS,
  TG__REPORT_KERNELS,
  TG__REPORT_FINDINGS,
  TG__REPORT_KINDS,         /* of bottleneck */
  TG__REPORT_QUESTIONS,     /* six, with yes or no */
  TG__REPORT_THREADS,       /* with events, the busiest first */
  TG__REPORT_FRAGMENTATION, /* this and the next two: only of memory snapshots */
  TG__REPORT_OOMS,
  TG__REPORT_MEMORY_STACKS,
  TG__REPORT_PARTS
};
struct tg__report {
  const struct tg__columns *trace;
  bool is_valid; /* its invariants hold */
  struct tg_table *parts[TG__REPORT_PARTS];
  /* index into trace->ranks: the one with the longest steps; steps, operators, kernels and findings are its */
  uint32_t rank;
  struct tg__out next; /* the command to type next */
  const char *next_why;
  struct tg__out page; /* the command that opens its page; empty where no file can be opened again */
};

/* Ask for all parts; free also after a failure. */
enum tg_err tg__report_make(struct tg_trace *t, const struct tg__show_options *o, struct tg__report *r,
                            struct tg_error *e);
void tg__report_free(struct tg__report *r);
/* The figure of a statistic ("p50", "mean") of the steps of the rank shown; TG_NULL_INT. */
int64_t tg__report_step(const struct tg__report *r, const char *statistic, const char *column);

/* Why a flight recorder wrote this file; empty: it was not one. */
struct tg__str tg__report_why(const struct tg__report *r);

/* Cells by name; unknown where the table has no such column. */
int64_t tg__cell_int(const struct tg_table *t, size_t row, const char *column);
double tg__cell_real(const struct tg_table *t, size_t row, const char *column);
struct tg__str tg__cell_str(const struct tg_table *t, size_t row, const char *column);
/* First row with the text `value` in `column`, from row `from` on; SIZE_MAX. */
size_t tg__find_row(const struct tg_table *t, const char *column, const char *value, size_t from);

/* findings_json.c: the same from tables. */
void tg__put_findings_json(const struct tg_table *findings, double recorded_step_ns, double step_ns,
                           struct tg__out *out);

/* report_text.c */
void tg__report_print(const struct tg__report *r, const struct tg__show_options *o, struct tg__out *out);
/* What lies around the recorded steps: the run that they are of, other threads. report_run.c */
void tg__report_run_print(const struct tg__report *r, const struct tg__show_options *o, unsigned indent, unsigned width,
                          struct tg__out *out);
/* What bounds the program. report_kind.c; the kinds of bottleneck, "host 64.2 %, input 35.8 %: operators …"; the value
 * of one of the six questions, where it is known. */
void tg__report_kind_print(const struct tg__report *r, const struct tg__show_options *o, unsigned indent,
                           unsigned width, struct tg__out *out);
void tg__report_kinds(const struct tg__report *r, struct tg__out *text);
/* report_kind.c: a step's time by what ran (compiled, replayed, eager), where some of it is not eager, and by phase. */
void tg__report_times_print(const struct tg__report *r, const struct tg__show_options *o, unsigned indent,
                            unsigned width, struct tg__out *out);
void tg__report_value(const struct tg_table *t, size_t row, struct tg__out *text);
/* Of a memory snapshot, in the place of steps and operators. report_memory.c */
void tg__report_memory_print(const struct tg__report *r, const struct tg__show_options *o, unsigned indent,
                             unsigned width, struct tg__out *out);
/* One line, to be wrapped; ends with a zero byte. */
void tg__report_extent(const struct tg__report *r, struct tg__out *out);
bool tg__is_snapshot(const struct tg__columns *t); /* is the trace a memory snapshot? */

/* report_saving.c: "saves 51.0 ms to 70.2 ms a step: two workers load while the rest of the step runs"; "no saving is
 * given: it depends on how many of them can be joined". in_all: the findings are about a recording, not a step. */
void tg__report_saving(const struct tg_table *t, size_t row, bool in_all, struct tg__out *text);

#endif
