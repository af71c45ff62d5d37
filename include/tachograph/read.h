/* Tachograph, for a program that reads traces: open one, ask it questions, write it out, close it.
 *
 *     struct tg_trace *trace;
 *     struct tg_error error;
 *     if (tg_open("trace.json.gz", NULL, &trace, &error)) { puts(error.text); return 1; }
 *     struct tg_table *steps;
 *     if (tg_ask(trace, "steps", NULL, 0, &steps, &error) == TG_OK) { …; tg_table_free(steps); }
 *     tg_close(trace);
 *
 * Ownership: what a function returns through `out` is the caller's and has one free function; text and column pointers
 * belong to the object they came from. NULL is accepted wherever a comment says so and nowhere else.
 * Units: times are int64 nanoseconds, sizes are int64 bytes, unless a column's unit says otherwise.
 * Threads: different objects may be used from different threads; one trace may be asked from one thread at a time.
 * Untrusted input: every function that reads a file may be given any bytes.
 *
 * Stability and versions: the interface is what this header, types.h, error.h and err.def declare. Names that begin
 * with tg__ are no part of it. tg_version() is MAJOR.MINOR.PATCH. Functions, constants, layouts of structs and the
 * meaning of arguments stay as they are within a major version, which is the number of the library's name:
 * libtachograph.so.MAJOR. While MAJOR is 0, a minor version may change them: build against the headers of the version
 * that you link. A patch changes nothing of it. A minor version may add at any time: functions, error codes at the end,
 * questions, arguments, columns, rows of lists. So find columns by their name, treat an unknown error by tg_err_status,
 * and take names of types, roles and rules of merging that you do not know as text. Texts for people (errors, notes,
 * meanings, reports) may change with any version. A question that gets another name answers to the old one, and a note
 * says so, for one minor version. CHANGELOG.md names each change, and tests/abi/interface.txt is the accepted
 * interface, which a test compares. */
#ifndef TACHOGRAPH_READ_H
#define TACHOGRAPH_READ_H

#include "tachograph/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- traces ---------------------------------------------------------------------------------- */

/* Open a trace: a file (.json, .json.gz, .json.zst, .tacho; recognised by content), a directory or a glob of such
 * files (one per rank), or "-" for standard input. options may be NULL. The ranks
 * of a directory with more than 16 MB of files are read one after the other and released: findings, questions about
 * ranks or one rank (rank=, track=), the report, diffs, and questions with rows per rank or sums over ranks need the
 * memory of two ranks and about a megabyte for each other rank. Calls that need events of several ranks at once read
 * all of them into memory at first use, where they stay: call_stack without event=, SQL, exports and saving. */
TG_API enum tg_err tg_open(const char *path, const struct tg_open_options *options, struct tg_trace **out,
                           struct tg_error *error);
/* Open the ranks of one job for the questions about ranks only (ranks, collectives, stragglers, clocks, spread):
 * each file is read, summarized and released, two at a time, so this needs the memory of two ranks and about a
 * megabyte for each other rank. paths: folders, globs, traces and .tsum files, together the ranks of one job. */
TG_API enum tg_err tg_open_ranks(const char *const *paths, size_t count, const struct tg_open_options *options,
                                 struct tg_trace **out, struct tg_error *error);
/* Set the callbacks for questions that read the ranks of a large directory again; they are called as by tg_open. NULL
 * options, the default: none. Other traces are never read again. Only progress, part_done and progress_ctx are used,
 * and progress_ctx must live as long as the trace. */
TG_API void tg_set_progress(struct tg_trace *trace, const struct tg_open_options *options);
TG_API void tg_close(struct tg_trace *trace); /* NULL is fine */

/* Open a trace for one question. The ranks of a large folder are read once, and the answer comes from that reading:
 * then *answer is set, with at least the first most_rows rows (SIZE_MAX = all; see tg_table_rows_in_all). NULL and
 * TG_OK: the question is still to be asked, with tg_ask. An error with *out set: the trace is open, but the question
 * has no answer; an error without: the trace could not be opened. Both results are the caller's. */
TG_API enum tg_err tg_open_asking(const char *path, const struct tg_open_options *options, const char *question,
                                  const struct tg_arg *args, size_t arg_count, size_t most_rows, struct tg_trace **out,
                                  struct tg_table **answer, struct tg_error *error);
/* tg_open with the ranks of a folder in memory together, however large it is. */
TG_API enum tg_err tg_open_all(const char *path, const struct tg_open_options *options, struct tg_trace **out,
                               struct tg_error *error);
/* Bytes of memory, roughly, that tg_open_asking needs because it has to hold all ranks of a large folder together for
 * this question, or tg_open_all, with question NULL. 0: not a large folder, or its ranks are read one by one. */
TG_API int64_t tg_memory_needed(const char *path, const char *question, const struct tg_arg *args, size_t arg_count);
/* Visit each file of a folder or glob as a trace of its own, one in memory at a time. visit gets the trace with all its
 * columns, which is closed after it returns, or NULL and why it could not be read; files that are no traces are passed
 * over. It returns false to end the visits with TG_OK. progress and part_done count over all files. */
typedef bool tg_visit_fn(void *ctx, const char *path, struct tg_trace *trace, const struct tg_error *why);
TG_API enum tg_err tg_open_each(const char *path, const struct tg_open_options *options, tg_visit_fn *visit, void *ctx,
                                struct tg_error *error);

/* The ranks of a trace, in the order of the files. A large folder has those that could be read. */
TG_API size_t tg_rank_count(const struct tg_trace *trace);
/* Number of rank i in the job, from the recording (*is_given) or made up; TG_NULL_INT: unknown. is_given may be
 * NULL. */
TG_API int64_t tg_rank_number(const struct tg_trace *trace, size_t i, bool *is_given);
/* How often one of the losses that the question losses lists happened in all ranks, such as skipped_file, files of the
 * folder that could not be read; -1: there is no such name. Only what is known without reading a large folder again. */
TG_API int64_t tg_loss_count(const struct tg_trace *trace, const char *name);
/* Process i of those that our recorder recorded, as its file says; false past the end, and for packed files. rank: -1
 * none of its own. was_killed: it was killed, or left without cleaning up. Any out pointer may be NULL. */
TG_API bool tg_process(const struct tg_trace *trace, size_t i, int64_t *pid, int64_t *rank, bool *was_killed);
/* Has the trace events? false: it holds only summaries of ranks, and *error lists the questions that they answer. */
TG_API bool tg_has_events(struct tg_trace *trace, struct tg_error *error);
TG_API bool tg_has_steps(struct tg_trace *trace); /* steps that the recording names, ProfilerStep#7 */
/* Measure what this machine's CPU can do, for a second or so, and note it in a trace of this machine that names no
 * device, for roofline and mfu; tg_save keeps it. Nothing happens where it cannot be measured. */
TG_API void tg_add_cpu_peak(struct tg_trace *trace);
/* Note one more member of the document of every rank, which the question document lists and tg_save keeps; json is the
 * text of its value. Both are copied. false: no memory. */
TG_API bool tg_add_member(struct tg_trace *trace, const char *key, const char *json);
/* Note a file of the job that another reader of it could not read: answers count it among the skipped files, and the
 * question losses names it. Both texts are copied. */
TG_API void tg_add_missing(struct tg_trace *trace, const char *path, const char *why);
/* File i of those that could not be read, of which the first hundred are named; false past the end. */
TG_API bool tg_missing(const struct tg_trace *trace, size_t i, const char **path, const char **why);

/* Check every invariant of the in-memory trace. false: *error names the first that does not hold (a defect of this
 * library). */
TG_API bool tg_trace_is_valid(struct tg_trace *trace, struct tg_error *error);

/* Was everything read as written? *out: a row per rank, notes in words, the losses; the caller's. *verdict is set when
 * TG_OK is returned. The path is opened, read and closed; options may be NULL. */
enum tg_verdict {
  TG_CHECK_INTACT,
  TG_CHECK_DAMAGED, /* events or files were skipped, cut or altered: the table says which */
  TG_CHECK_INVALID  /* an invariant of the trace in memory does not hold: a defect of this library */
};
TG_API enum tg_err tg_check(const char *path, const struct tg_open_options *options, enum tg_verdict *verdict,
                            struct tg_table **out, struct tg_error *error);

/* ---- questions ------------------------------------------------------------------------------- */

TG_API size_t tg_question_count(void);
TG_API const char *tg_question_name(size_t i);    /* NULL past the end */
TG_API const char *tg_question_meaning(size_t i); /* one line */
/* Do summaries of ranks (.tsum) answer this, without their events? args may be NULL. false also where the question is
 * unknown. */
TG_API bool tg_summaries_answer(const char *question, const struct tg_arg *args, size_t arg_count);
TG_API size_t tg_question_find(const char *name); /* its place in the list; tg_question_count() when unknown */
/* k-th argument of question i; false past the end. Any out pointer may be NULL. */
TG_API bool tg_question_argument(size_t i, size_t k, const char **name, const char **fallback, const char **meaning);
/* k-th column of the answer to question i; false past the end, and *out stays as it is. Constants of the library. */
struct tg_question_column {
  const char *name, *type, *unit, *meaning;
  const char *role;    /* what its cells mean: "key", "value", "instant", … */
  const char *fold;    /* how it is merged where rows of several ranks become one: "key", "sum", "mean", …; "" = not */
  const char *of, *by; /* columns that it is merged by; "" = none */
  bool is_important;   /* one of those that answer the question: it is shown last of all to be left out */
};
TG_API bool tg_question_column(size_t i, size_t k, struct tg_question_column *out);

TG_API enum tg_err tg_ask(struct tg_trace *trace, const char *question, const struct tg_arg *args, size_t arg_count,
                          struct tg_table **out, struct tg_error *error);
/* Any single SELECT over the tables slices, marks, tracks, … (tachograph sql --schema lists them). */
TG_API enum tg_err tg_sql(struct tg_trace *trace, const char *sql, struct tg_table **out, struct tg_error *error);

/* ---- two traces ------------------------------------------------------------------------------ */

/* Compare b with a: one row per figure, with a 95 % interval of the change and a verdict; the first note is the
 * headline. Arguments: by, rank, step, least, accept, question, … as listed by tg_diff_argument. Neither trace may
 * be asked elsewhere meanwhile. */
TG_API enum tg_err tg_diff(struct tg_trace *a, struct tg_trace *b, const struct tg_arg *args, size_t arg_count,
                           struct tg_table **out, struct tg_error *error);
/* false past the end. */
TG_API bool tg_diff_argument(size_t k, const char **name, const char **fallback, const char **meaning);
/* Does an assertion such as  step.p50 > +5%  hold? When it does, error->text says for which row. */
TG_API enum tg_err tg_diff_fails(const struct tg_table *diff, const char *expression, bool *fails,
                                 struct tg_error *error);

/* ---- tables ---------------------------------------------------------------------------------- */

TG_API void tg_table_free(struct tg_table *t); /* NULL is fine */
TG_API const char *tg_table_question(const struct tg_table *t);
TG_API size_t tg_table_rows(const struct tg_table *t);
TG_API size_t tg_table_columns(const struct tg_table *t);
TG_API const char *tg_column_name(const struct tg_table *t, size_t c);
TG_API const char *tg_column_unit(const struct tg_table *t, size_t c); /* "ns", "bytes", "%", … or "" */
TG_API enum tg_type tg_column_type(const struct tg_table *t, size_t c);
TG_API const int64_t *tg_column_ints(const struct tg_table *t, size_t c); /* NULL unless TG_INT */
TG_API const double *tg_column_reals(const struct tg_table *t, size_t c); /* NULL unless TG_REAL */
TG_API const int8_t *tg_column_bools(const struct tg_table *t, size_t c); /* NULL unless TG_BOOL: 0, 1, -1 unknown */
/* NULL unless TG_TEXT: equal texts of a table have equal codes, UINT32_MAX unknown. */
TG_API const uint32_t *tg_column_codes(const struct tg_table *t, size_t c);
/* TG_TEXT only; NULL = unknown. */
TG_API const char *tg_cell_text(const struct tg_table *t, size_t c, size_t row, size_t *len);
TG_API size_t tg_table_notes(const struct tg_table *t);
/* One sentence a reader of the numbers should know. */
TG_API const char *tg_table_note(const struct tg_table *t, size_t i);
TG_API size_t tg_table_losses(const struct tg_table *t);
/* i-th loss counter of the trace the table came from (only those above zero). offset: first byte it happened at, or
 * -1. */
TG_API bool tg_table_loss(const struct tg_table *t, size_t i, const char **name, int64_t *count, int64_t *offset,
                          const char **meaning);

/* Rows there would be, where tg_open_asking left some out; else tg_table_rows. */
TG_API size_t tg_table_rows_in_all(const struct tg_table *t);
/* Keep the rows for which an expression over the columns holds, such as  dur_ns > 1ms and name ~ "conv". */
TG_API enum tg_err tg_table_filter(struct tg_table *t, const char *expression, struct tg_error *error);
/* Keep the first rows, at most `most`. false: out of memory, and the table is of no use. */
TG_API bool tg_table_truncate(struct tg_table *t, size_t most);

/* A table of the caller's own, to be written as answers are. name must outlive it, other texts are copied. NULL: out
 * of memory. */
struct tg_column_spec {
  const char *name;
  enum tg_type type;
  const char *unit;
};
struct tg_cell { /* the member of the column's type counts; unknown values are as above: TG_NULL_INT, -1, NaN, NULL */
  const char *text;
  int64_t number; /* TG_INT, TG_BOOL */
  double real;
};
TG_API struct tg_table *tg_table_new(const char *name, const struct tg_column_spec *columns, size_t count);
TG_API void tg_table_add_row(struct tg_table *t, const struct tg_cell *cells); /* one per column */
TG_API void tg_table_add_note(struct tg_table *t, const char *text);
TG_API bool tg_table_failed(const struct tg_table *t); /* out of memory meanwhile: rows or notes are missing */

/* The Arrow C data interface (arrow.apache.org, "ArrowSchema" and "ArrowArray"): a struct array of the columns. The
 * numeric buffers are the table's own, not copies; the array keeps the table alive, so tg_table_free may be called
 * at once. */
struct ArrowSchema;
struct ArrowArray;
TG_API enum tg_err tg_table_arrow(struct tg_table *t, struct ArrowSchema *schema, struct ArrowArray *array);

/* ---- output ---------------------------------------------------------------------------------- */

/* Receives output piece by piece; false stops it with TG_IO. */
typedef bool tg_write_fn(void *ctx, const char *bytes, size_t len);

TG_API size_t tg_format_count(void);
TG_API const char *tg_format_name(size_t i); /* "text", "json", "csv", "chrome", "perfetto", "folded", "speedscope" */
/* The format that tg_export writes to such a name; NULL: unknown extension. */
TG_API const char *tg_format_of_file(const char *path);
/* Write a table as "text", "json" or "csv". width: columns of the terminal, 0 = unlimited. */
TG_API enum tg_err tg_table_write(const struct tg_table *t, const char *format, unsigned width, tg_write_fn *write,
                                  void *ctx, struct tg_error *error);
/* Write a diff for a person: format "text" or "markdown". */
TG_API enum tg_err tg_diff_write(const struct tg_table *diff, const char *format, unsigned width, bool color,
                                 tg_write_fn *write, void *ctx, struct tg_error *error);
/* Write a whole trace in a format for traces ("chrome", "perfetto", "folded", "speedscope", "csv", "json"). */
TG_API enum tg_err tg_export(struct tg_trace *trace, const char *format, const struct tg_arg *args, size_t arg_count,
                             tg_write_fn *write, void *ctx, struct tg_error *error);
/* Save as a native .tacho file; it appears under its name only when complete. */
TG_API enum tg_err tg_save(struct tg_trace *trace, const char *path, struct tg_error *error);
/* Save what the questions about ranks need as a .tsum file, which tg_open and tg_open_ranks open again. */
TG_API enum tg_err tg_save_ranks(struct tg_trace *trace, const char *path, struct tg_error *error);
/* The report as text (format "text") or one JSON object ("json"). color: 1 = ANSI colours. */
TG_API enum tg_err tg_report(struct tg_trace *trace, const char *format, unsigned width, bool color, tg_write_fn *write,
                             void *ctx, struct tg_error *error);
#ifdef __cplusplus
}
#endif
#endif
