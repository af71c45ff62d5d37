/* show: tables and traces become bytes. One ops struct per output; adding one touches formats.def and its own file.
 * The parts of a trace are opaque here, so that the command line sees nothing of it. */
#ifndef TG_SHOW_H
#define TG_SHOW_H

#include "base/base.h"

struct tg__columns;
struct tg__view;
struct tg__series_set;
struct tg__show_options {
  unsigned width; /* columns of the terminal, 0 = unlimited */
  bool color;
  const struct tg_arg *args; /* e.g. rank=, step=, metric= for folded */
  size_t arg_count;
};
struct tg__format {
  const char *name, *suffix, *meaning;
  /* NULL: cannot. */
  enum tg_err (*table)(const struct tg_table *t, const struct tg__show_options *o, struct tg__out *out);
  /* NULL: cannot. */
  enum tg_err (*trace)(struct tg__columns *t, const struct tg__show_options *o, struct tg__out *out,
                       struct tg_error *e);
  /* The report; NULL: cannot. */
  enum tg_err (*report)(struct tg_trace *t, const struct tg__show_options *o, struct tg__out *out, struct tg_error *e);
};
extern const struct tg__format tg__formats[];
size_t tg__format_count(void);
const struct tg__format *tg__format_find(const char *name); /* NULL when unknown */
/* The format of a trace by the suffix of the path, the longest one; of two the later in the list, so .json is
 * chrome. NULL: none. */
const struct tg__format *tg__format_of_file(struct tg__str path);

/* report.c: the report. */
enum tg_err tg__text_report(struct tg_trace *t, const struct tg__show_options *o, struct tg__out *out,
                            struct tg_error *e);
enum tg_err tg__json_report(struct tg_trace *t, const struct tg__show_options *o, struct tg__out *out,
                            struct tg_error *e);

/* findings_json.c: the members "step_ms" and "findings" of an object. step_ns: what a step takes without recording,
 * savings are scaled to it; NaN = as recorded. */
enum tg_err tg__findings_json(struct tg_trace *t, double step_ns, struct tg__out *out, struct tg_error *e);

/* checklist.c: which parts of a systematic profile are there, a row an item: a file of the folder `path`, or an answer
 * of its trace. *missing counts the others. The caller's; NULL on no memory. */
struct tg_table *tg__checklist(struct tg_trace *trace, const char *path, size_t *missing);
/* where_to_look.c: what people complain of, and the command that looks into it: match i of a complaint in words, the
 * best first. *command is empty where a profile does not help. false: there are no more. All are constants. */
bool tg__symptom_match(const char *words, size_t i, const char **complaint, const char **command, const char **answers);
/* Name of a question that this trace answers whatever it lacks: overview, or ranks for summaries. */
const char *tg__fallback_question(const struct tg_trace *trace);
/* memory_peaks.c: the question memory_blocks, with a note per device: what its memory at the peak was made of. rank=
 * and device= of the arguments choose the notes, too. */
enum tg_err tg__memory_with_peaks(struct tg_trace *trace, const struct tg_arg *args, size_t arg_count,
                                  struct tg_table **out, struct tg_error *error);

/* diff_page.c: a table of tg__diff_run for a person; TG_USAGE for one that has not its columns. */
enum tg_err tg__diff_page(const struct tg_table *t, const struct tg__show_options *o, bool markdown,
                          struct tg__out *out);
/* verify_fix.c: notes of a diff of a with b: which findings went, came and stayed, and what those that went promised
 * against what the usual step gained. */
struct tg__fix {
  bool is_known; /* a prediction was tried */
  int64_t predicted_ns, gained_ns, step_ns;
  char causes[200]; /* joined by + */
};
enum tg_err tg__verify_fix(struct tg_trace *a, struct tg_trace *b, struct tg_table *diff, struct tg__fix *fix,
                           struct tg_error *e);

/* diagnosis_page.c: the answer to the question diagnosis for a person, of the rank with the longest steps. file: what
 * stands for the trace in commands, as a word for a shell; NULL: FILE. */
enum tg_err tg__diagnosis_page(const struct tg_table *t, const char *file, const struct tg__show_options *o,
                               bool markdown, struct tg__out *out);
int64_t tg__diagnosis_rank(const struct tg_table *t); /* which one that is; TG_NULL_INT where ranks have no numbers */
/* A row of the answer to findings: how it was found, and how its saving was worked out. */
void tg__diagnosis_explain(const struct tg_table *findings, size_t row, struct tg__out *out);
/* facts.c: a table of items, values, what is fine and advice, for a person. */
enum tg_err tg__facts_page(const struct tg_table *t, const struct tg__show_options *o, struct tg__out *out);
/* The i-th figure of a report, the question that has it, and its column there; false past the last. */
struct tg__report_figure {
  const char *word, *question, *column;
};
bool tg__report_figure(size_t i, struct tg__report_figure *out);
void tg__diff_explain(struct tg__out *out);      /* what each column of a diff means */
bool tg__diff_is_page(const struct tg_table *t); /* has it? */

/* sql.c: SQLite over the columns. Only the sql_*.c files and it include sqlite3.h. */
enum tg_err tg__sql_run(struct tg__columns *t, const char *sql, struct tg_table **out, struct tg_error *e);
/* The same, stopping with TG_CANCELLED after `steps` steps of SQLite's machine (0 = never), or when goes_on, if there
 * is one, says false; it is asked every 100,000 steps. */
struct tg__sql_limit {
  uint64_t steps;
  bool (*goes_on)(void *ctx);
  void *ctx;
};
enum tg_err tg__sql_run_limited(struct tg__columns *t, const char *sql, const struct tg__sql_limit *limit,
                                struct tg_table **out, struct tg_error *e);
const char *tg__sql_schema(void); /* the tables and their columns, as text */

/* arrow.c */
struct ArrowSchema;
struct ArrowArray;
enum tg_err tg__table_arrow(struct tg_table *t, struct ArrowSchema *schema, struct ArrowArray *array);

/* The files of web/; tools/embed.py writes the list at build time. Sorted by path; the last has path NULL. */
struct tg__web_file {
  const char *path;
  const unsigned char *bytes;
  size_t len;
};
extern const struct tg__web_file tg__web_files[];

/* view_tracks.c: the result of the call `tracks` of docs/viewer-api.md, as one JSON object. On no memory w->out->err is
 * set. */
/* series: NULL where there are none. */
void tg__view_tracks_json(const struct tg__view *v, const struct tg__series_set *series, uint32_t generation,
                          struct tg__jsonw *w);

/* Numbers for people (human.c): "1.23 ms", "4.5 MB", "1 234 567". buf has room for 32 bytes; returns buf. */
char *tg__human_ns(int64_t ns, char *buf);
char *tg__human_bytes(int64_t bytes, char *buf);
char *tg__human_count(int64_t n, char *buf);

/* The text as one word of a command that is to be copied into a shell (human.c): quoted where it must be, and never
 * taken for an option. buf has room for size bytes, 16 or more; what does not fit is cut off inside the quotes.
 * Returns buf. */
char *tg__shell_word(struct tg__str text, char *buf, size_t size);

#endif
