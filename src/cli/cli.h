/* cli: the command line. One file per command (cmd_<name>.c); what they share is declared here. Logic that another
 * surface could use too belongs into another folder. */
#ifndef TG_CLI_H
#define TG_CLI_H

#include "base/base.h"
#include "show/show.h"
#include "tachograph/read.h"

enum { TG__EXIT_OK = 0, TG__EXIT_THRESHOLD = 1, TG__EXIT_USAGE = 2 };

/* ---- the list of commands (commands.c) ------------------------------------------------------- */

struct tg__cli;
struct tg__command {
  const char *name, *operands, *meaning, *example;
  int (*run)(struct tg__cli *c); /* returns the exit status */
};
struct tg__option {
  const char *command; /* "every" = all of them */
  const char *name;
  char letter;       /* 0 = none */
  const char *value; /* what to call its value; NULL = a flag */
  const char *meaning;
  bool is_argument; /* handed on to the question or format */
};
extern const struct tg__command tg__commands[];
size_t tg__command_count(void);
const struct tg__command *tg__command_find(const char *name); /* NULL when unknown */
/* k-th option of a command, those of all commands last; NULL past the end. */
const struct tg__option *tg__command_option(const struct tg__command *command, size_t k);
/* Then the words behind the program's name are the program's. */
bool tg__command_runs_a_program(const struct tg__command *command);
const char *tg__command_nearest(const char *word); /* NULL when none is close */

/* ---- one call of the program (options.c) ----------------------------------------------------- */

struct tg__cli {
  const struct tg__command *command; /* NULL: a bare `tachograph` */
  const char **operands;
  size_t operand_count;
  struct tg_arg *settings; /* options of the command itself; flags have the value "" */
  size_t setting_count;
  struct tg_arg *arguments; /* options for the question or format */
  size_t argument_count;
  struct tg__arena arena;
  const char *format;   /* text, json, csv or md; of a report html too */
  const char *out_path; /* "-" = standard output */
  unsigned threads;
  bool color;
  unsigned width; /* from --width */
};
/* Fill *c from the words after the program's name. Returns the exit status to leave with, -1 to go on. */
int tg__cli_parse(struct tg__cli *c, int argc, char **argv);
void tg__cli_free(struct tg__cli *c);
const char *tg__cli_setting(const struct tg__cli *c, const char *name);  /* NULL when not given */
const char *tg__cli_argument(const struct tg__cli *c, const char *name); /* NULL when not given */
bool tg__cli_wants_json(const struct tg__cli *c);
bool tg__cli_says_dashes(const struct tg__cli *c); /* was there a -- before the operands? */
/* The number of rows of an option, `fallback` without it; -1: not a number of rows. */
long tg__cli_rows(const struct tg__cli *c, const char *name, long fallback);
/* Exactly `count` operands, else a usage error is printed and false returned. */
bool tg__cli_needs(const struct tg__cli *c, size_t count);

/* ---- saying what went wrong (terminal.c) ------------------------------------------------------- */

/* Print the error, and the command to type next when there is one; returns the exit status. */
int tg__cli_failed(const struct tg__cli *c, const struct tg_error *e, const char *next);
int tg__cli_usage(const struct tg__cli *c, const char *next, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int tg__cli_no_memory(const struct tg__cli *c);
/* A note of up to 511 bytes. */
void tg__cli_note(struct tg_table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* To standard error, up to 2 kB, without what would steer the terminal: for texts in which names or paths stand. */
void tg__cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The path as a word of a command to type next, quoted for a shell. Lives as long as c. */
const char *tg__cli_word(struct tg__cli *c, const char *path);
/* What to type next, as long as it has to be. Lives as long as c; NULL on no memory. */
const char *tg__cli_command(struct tg__cli *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Where a trace lacks what was asked of it: what it does answer. NULL: err is another. */
const char *tg__cli_instead(struct tg__cli *c, enum tg_err err, const struct tg_trace *t, const char *path);
/* A summary has no events: says so and returns the exit status; else 0. */
/* Serves the page of these traces until a signal ends it; the exit status. port 0: any that is free; slices 0: as usual
 * (cmd_view.c). */
int tg__cli_serve(struct tg__cli *c, const char *const *paths, size_t count, int port, int64_t slices);
int tg__cli_needs_events(struct tg__cli *c, struct tg_trace *t, const char *path);

/* ---- how far it has come (progress.c) ---------------------------------------------------------- */

struct tg__sink;
struct tg__reading {
  int64_t begin_ns, shown_ns; /* shown_ns 0: not yet */
  int64_t last;               /* bytes done when it was called last */
  int64_t parts, parts_done;  /* files of a folder; parts 0: of one file */
};
/* What to open with, so that it shows how much is read. *p must live until tg__reading_end. */
struct tg_open_options tg__reading_begin(const struct tg__cli *c, struct tg__reading *p);
void tg__reading_end(const struct tg__reading *p);
void tg__watch_again(struct tg_trace *t); /* the same for what a question reads after the opening */
void tg__writing_shown(struct tg__sink *s);
void tg__writing_end(const struct tg__sink *s);
/* What is computed, of which no share is known: "computing the answer  3 s". Between the two nothing else may be
 * printed to standard error; the second may come more than once. */
void tg__work_begin(const char *what);
void tg__work_end(void);

/* ---- input and output (terminal.c) ------------------------------------------------------------- */

/* With a progress bar, as all of these. A folder: all its ranks in memory. */
enum tg_err tg__cli_open(const struct tg__cli *c, const char *path, struct tg_trace **out, struct tg_error *e);
/* A large folder: opened one rank after the other. Only for tg_ask and tg_report. */
enum tg_err tg__cli_open_run(const struct tg__cli *c, const char *path, struct tg_trace **out, struct tg_error *e);
/* For a single question, of which at most the first most_rows rows are needed. *trace NULL: the trace could not be
 * opened; else it is the caller's, also when the question has no answer. */
struct tg__cli_question {
  const char *name;
  const struct tg_arg *args;
  size_t arg_count, most_rows;
};
enum tg_err tg__cli_ask(const struct tg__cli *c, const char *path, const struct tg__cli_question *q,
                        struct tg_trace **trace, struct tg_table **out, struct tg_error *e);
/* tg_check and tg_open_each; the bar of the second counts over all files. */
enum tg_err tg__cli_check(const struct tg__cli *c, const char *path, enum tg_verdict *verdict, struct tg_table **out,
                          struct tg_error *e);
enum tg_err tg__cli_visit(const struct tg__cli *c, const char *path, tg_visit_fn *visit, void *ctx, struct tg_error *e);
/* The same for tg_open_ranks. */
enum tg_err tg__cli_open_ranks(const struct tg__cli *c, const char *const *paths, size_t count, struct tg_trace **out,
                               struct tg_error *e);

/* Where output goes: a file that appears when complete, or standard output; compressed when its name says so. */
struct tg__sink {
  struct tg__writer *writer;
  struct tg__packer *packer;
  struct tg__out out;
  int64_t bytes;              /* handed to the writer so far */
  bool to_file, counts_aloud; /* counts_aloud: show how far writing has come */
  int64_t begin_ns, shown_ns;
};
enum tg_err tg__sink_open(struct tg__sink *s, const char *path, struct tg_error *e);
/* Complete the file, or leave none behind when err is set. Returns the exit status; standard output closed by its
 * reader (`| head`) is no failure. */
int tg__sink_close(struct tg__sink *s, const struct tg__cli *c, enum tg_err err, struct tg_error *e);
/* Where the output of `path` goes by default: trace.json.gz → trace.tacho beside it, dir/ → dir.tacho.
 * NULL on no memory. */
char *tg__cli_beside(struct tg__cli *c, const char *path, const char *suffix);
int64_t tg__cli_size_of(const char *path); /* TG_NULL_INT when unknown */

unsigned tg__cli_width(const struct tg__cli *c); /* columns of the terminal output goes to, 0 = not a terminal */
/* Reads a number of columns; false: the text is not a number of columns. */
bool tg__cli_read_width(const char *text, unsigned *width);
/* --explain: the meaning of every column that the answer has, as notes. */
void tg__cli_explain(const struct tg__cli *c, struct tg_table *t);
void tg__cli_explain_column(struct tg_table *t, const struct tg_question_column *c);
/* Write the table where and how the options say, at most `most` rows of it (0 = all); text says how many are left
 * out. */
int tg__cli_table(const struct tg__cli *c, struct tg_table *t, size_t most);
/* Write text as it is, or, with --json, as a table of one cell. Takes over the buffer. */
int tg__cli_text(const struct tg__cli *c, const char *question, struct tg__out *text);
/* What was written, as a one-row table; printed with --json only. Returns the exit status. */
int tg__cli_result(const struct tg__cli *c, const char *path, const char *format, int64_t bytes);

/* each_file.c: -o FOLDER/ with a folder of ranks: one file a rank, one rank in memory at a time. */
struct tg__file_writer {
  /* rank NULL: all there are. Says what fails; the exit status. */
  int (*write)(const struct tg__cli *c, void *ctx, struct tg_trace *t, const char *rank, const char *target);
  void *ctx;
  const char *suffix;
};
bool tg__cli_writes_files(const struct tg__cli *c, const char *path);
int tg__cli_write_files(struct tg__cli *c, const char *path, const struct tg__file_writer *each); /* the exit status */
bool tg__cli_into_folder(const struct tg__cli *c);                                                /* -o FOLDER/ */
/* The same for the ranks of one file, which is open. */
int tg__cli_write_ranks(struct tg__cli *c, const char *path, struct tg_trace *trace,
                        const struct tg__file_writer *each);
/* export_to.c. The format of a trace by the suffix of the path, .gz and .zst left aside; NULL: none. */
const struct tg__format *tg__cli_format_of(const char *path);
/* The trace to target with the arguments of the command; own, if there is one, takes the place of that of its name. The
 * exit status. */
int tg__cli_export_to(const struct tg__cli *c, struct tg_trace *trace, const struct tg__format *format,
                      const struct tg_arg *own, const char *target, int64_t *bytes);
/* The same to -o, and what was written is reported. */
int tg__cli_export(const struct tg__cli *c, struct tg_trace *trace, const struct tg__format *format,
                   const struct tg_arg *own);

/* ledger.c: keep a prediction with its outcome. A failure to write is not reported: the diff is still the answer. */
void tg__ledger_add(const struct tg__fix *fix);
/* cmd_diff.c: the page of B against A; the exit status. */
int tg__cli_compare(const struct tg__cli *c, const char *a, const char *b);
/* in_python.c: python -m MODULE words…, by the Python that has our package, with our standard streams; the exit
 * status. */
int tg__cli_in_python(struct tg__cli *c, const char *module, const char *const *words, size_t count);

/* on_cluster.c: --on ENGINE, by which the ranks are summarized elsewhere and the answer is given here. */
#define TG__CLI_ON_ASKS                                                                                                \
  "--on answers ranks, collectives, stragglers, clocks and spread; %s needs the events: leave out --on"
bool tg__cli_is_elsewhere(const struct tg__cli *c);
/* The ranks of these paths. Says what fails; the exit status. */
int tg__cli_gather(struct tg__cli *c, const char *const *paths, size_t count, struct tg_trace **out);
/* Which of them are missing, as notes: of the table, or, with NULL, on standard error. */
void tg__cli_note_missing(const struct tg_trace *ranks, const char *side, struct tg_table *t);

/* ---- commands -------------------------------------------------------------------------------- */

#define OPTION(command, name, letter, value, meaning)
#define ARGUMENT(command, name, value, meaning)
#define COMMAND(name, operands, meaning, example) int tg__cmd_##name(struct tg__cli *c);
#include "cli/commands.def"
#undef OPTION
#undef ARGUMENT
#undef COMMAND
/* The operands' ranks into one .tsum file (cmd_summarize.c) */
int tg__cli_sum_up(struct tg__cli *c, const char *target);
void tg__help_command(const struct tg__command *command, struct tg__out *out);

#endif
