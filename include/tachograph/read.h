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
 * Untrusted input: every function that reads a file may be given any bytes. */
#ifndef TACHOGRAPH_READ_H
#define TACHOGRAPH_READ_H

#include "tachograph/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- traces ---------------------------------------------------------------------------------- */

struct tg_trace;

struct tg_open_options {
  unsigned threads; /* workers for reading; 0 = one per usable core */
  /* Called at intervals while reading, from any of the reading threads but never from two at once. done and total are
   * bytes of the files on disk; total is -1 when unknown (a pipe). Return false to stop: tg_open then fails with
   * TG_CANCELLED. NULL = no progress. */
  bool (*progress)(void *ctx, int64_t done, int64_t total);
  void *progress_ctx;
  /* For a folder that is read rank by rank, under the same conditions: number of files done. NULL = not wanted. */
  void (*part_done)(void *ctx, int64_t done, int64_t total);
};

/* Open a trace: a file (.json, .json.gz, .json.zst, .tacho; recognised by content), a directory or a glob of such
 * files (one per rank), or "-" for standard input. options may be NULL. The ranks
 * of a directory with more than 16 MB of files are read one after the other and released: findings, questions about
 * ranks or one rank (rank=, track=), the report, diffs, and questions with rows per rank or sums over ranks need the
 * memory of two ranks and about a megabyte for each other rank. What needs events of several ranks at once reads all
 * of them into memory at first use, where they stay: call_stack without event=, SQL, exports and saving. */
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

/* Check every invariant of the in-memory trace. false: *error names the first that does not hold (a defect of this
 * library). */
TG_API bool tg_trace_is_valid(struct tg_trace *trace, struct tg_error *error);

/* ---- questions ------------------------------------------------------------------------------- */

struct tg_arg {
  const char *name;  /* "step", "rank", "track", "by", "sort", "limit", "where", … as listed by tg_question_argument */
  const char *value; /* always text, as one would type it */
};

TG_API size_t tg_question_count(void);
TG_API const char *tg_question_name(size_t i);    /* NULL past the end */
TG_API const char *tg_question_meaning(size_t i); /* one line */
/* k-th argument of question i; false past the end. Any out pointer may be NULL. */
TG_API bool tg_question_argument(size_t i, size_t k, const char **name, const char **fallback, const char **meaning);
TG_API bool tg_question_column(size_t i, size_t k, const char **name, const char **type, const char **unit,
                               const char **meaning);

struct tg_table;
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
TG_API bool tg_diff_argument(size_t k, const char **name, const char **fallback,
                             const char **meaning); /* false past the end */
/* Does an assertion such as  step.p50 > +5%  hold? When it does, error->text says for which row. */
TG_API enum tg_err tg_diff_fails(const struct tg_table *diff, const char *expression, bool *fails,
                                 struct tg_error *error);

/* ---- tables ---------------------------------------------------------------------------------- */

enum tg_type { TG_TEXT, TG_INT, TG_REAL, TG_BOOL };

#define TG_NULL_INT                                                                                                    \
  INT64_MIN /* "unknown" in a TG_INT column; TG_REAL columns use NaN, TG_TEXT columns a NULL pointer, TG_BOOL -1 */

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
TG_API const uint32_t *
tg_column_codes(const struct tg_table *t,
                size_t c); /* NULL unless TG_TEXT: equal texts of a table have equal codes, UINT32_MAX unknown */
TG_API const char *tg_cell_text(const struct tg_table *t, size_t c, size_t row,
                                size_t *len); /* TG_TEXT only; NULL = unknown */
TG_API size_t tg_table_notes(const struct tg_table *t);
TG_API const char *tg_table_note(const struct tg_table *t,
                                 size_t i); /* one sentence a reader of the numbers should know */
TG_API size_t tg_table_losses(const struct tg_table *t);
/* i-th loss counter of the trace the table came from (only those above zero). offset: first byte it happened at, or -1.
 */
TG_API bool tg_table_loss(const struct tg_table *t, size_t i, const char **name, int64_t *count, int64_t *offset,
                          const char **meaning);

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
TG_API const char *
tg_format_of_file(const char *path); /* the format that tg_export writes to such a name; NULL: unknown extension */
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
