/* analyze: pure functions, a const trace in, a table out. No I/O, no globals, no printing. */
#ifndef TG_ANALYZE_H
#define TG_ANALYZE_H

#include "trace/trace.h"

/* ---- tables (table.c) ------------------------------------------------------------------------ */

enum tg__role { /* what the cells of a column mean */
#define ROLE(id, ...) TG__ROLE_##id,
#include "analyze/roles.def"
};
struct tg__column {
  const char *name, *unit;
  enum tg_type type;
  enum tg__role role;
  bool is_left_out; /* nobody asked for it: its cells go nowhere, and none of the pointers may be used */
  union {           /* `rows` values each */
    int64_t *ints;
    double *reals;
    int8_t *bools;
    uint32_t *texts; /* ids in tg_table.strings, TG_NONE = unknown */
  };
};
struct tg__loss_row {
  const char *name, *meaning;
  int64_t count, offset;
};
struct tg_table {
  const char *question;
  struct tg__column *columns;
  size_t column_count, rows, capacity;
  struct tg__strings *strings;
  const char **notes;
  size_t note_count;
  struct tg__loss_row *losses;
  size_t loss_count;
  bool failed;  /* out of memory somewhere; the runner turns it into TG_MEMORY */
  bool is_tree; /* rows stand below the one they belong to: text indents the column `name` by the column `depth` */
  size_t cell;  /* next column of the row being written */
  size_t uncut; /* rows there would be, where a run was asked for its first ones alone; else 0 */
  unsigned references; /* 1, plus one per exported Arrow array */
  struct tg__arena arena;
  uint32_t recent[64];              /* texts put last, by a cheap hash of their bytes */
  const struct tg__columns *source; /* trace with the string ids that of_source maps to this table's */
  uint32_t *of_source;
  uint32_t of_source_count;
};
struct tg_table *
tg__table_new(const char *question);     /* no columns yet; NULL on no memory; question must outlive the table */
void tg__table_free(struct tg_table *t); /* drops one reference, the last one frees; NULL is fine */
/* Before the first row; texts are copied. Without a role: KEY for texts and flags, VALUE for numbers. */
void tg__table_add_column_as(struct tg_table *t, const char *name, enum tg_type type, const char *unit,
                             enum tg__role role);
void tg__table_add_column(struct tg_table *t, const char *name, enum tg_type type, const char *unit);
/* One call per column, in order; the row is complete after the last. */
void tg__put_int(struct tg_table *t, int64_t v);
void tg__put_real(struct tg_table *t, double v);
void tg__put_bool(struct tg_table *t, bool v);
void tg__put_text(struct tg_table *t, struct tg__str s);
void tg__put_cstr(struct tg_table *t, const char *s);  /* NULL = unknown */
void tg__put_text_id(struct tg_table *t, uint32_t id); /* of t->strings; TG_NONE = unknown */
/* A text of the trace by its string id (TG_NONE = unknown): a table look-up from the second time on. */
void tg__put_trace_text(struct tg_table *t, const struct tg__columns *trace, uint32_t string_id);
void tg__put_rank(struct tg_table *t, const struct tg__columns *trace,
                  uint32_t rank); /* its number in the job, else unknown */
static inline int64_t tg__rank_number(const struct tg__columns *trace, uint32_t rank) {
  return trace->ranks[rank].number < 0 ? TG_NULL_INT : trace->ranks[rank].number;
}
void tg__put_null(struct tg_table *t);
void tg__put_real_if(struct tg_table *t, bool known, double v); /* else null */
/* For long tables: room for `rows` rows in all; then the first `cells` cells of row t->rows are the caller's to
 * write into t->columns, followed by tg__table_wrote. The text ids to write come from tg__table_text. Or column by
 * column, cells of many rows at a time, followed by tg__table_wrote_rows: quicker, as a dozen columns that begin at
 * the same place of a page fall into one set of the caches. */
bool tg__table_reserve(struct tg_table *t, size_t rows); /* false on no memory, and t->failed is set */
void tg__column_null(struct tg__column *c, size_t row);  /* an unknown cell; nothing in a column that is left out */
void tg__table_wrote(struct tg_table *t, size_t cells);
void tg__table_wrote_rows(struct tg_table *t, size_t rows);
uint32_t tg__table_text(struct tg_table *t, const struct tg__columns *trace,
                        uint32_t string_id); /* TG_NONE stays TG_NONE */
void tg__table_note(struct tg_table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tg__table_keep_rows(struct tg_table *t, const uint32_t *rows, size_t count); /* reorder and drop */
bool tg__table_is_valid(const struct tg_table *t, struct tg_error *e); /* table_valid.c: the invariants, as code */
/* table_join.c: the rows of `from`, a table with the same columns, behind those of `to`, its notes and losses with
 * them; false on no memory, or when the columns differ, and then `to` is of no use. */
bool tg__table_append(struct tg_table *to, const struct tg_table *from);
struct tg_table *tg__table_copy(const struct tg_table *t);     /* NULL on no memory */
struct tg_table *tg__table_new_like(const struct tg_table *t); /* its columns without rows; NULL on no memory */

struct tg__question;
/* joins.c: the answer about all ranks, put together of answers about one each (questions.def says how, and for which
 * questions). */
bool tg__question_joins(const struct tg__question *q, const struct tg_arg *args, size_t count);
bool tg__question_needs_all(const struct tg__question *q, const struct tg_arg *args,
                            size_t count); /* even when it is about one rank */
/* compat.c: do the rules asked for number events as rows of another tool's table? */
bool tg__rules_go_by_row(const struct tg_arg *args, size_t count);
/* The summaries of the ranks answer it: no event is read. */
bool tg__summaries_answer(const struct tg__question *q, const struct tg_arg *args, size_t count);
bool tg__is_for_all_ranks(
    const char *argument); /* about the rows of all ranks together, so that no single rank is asked it */
struct tg__joining;
/* For a question that joins. most: rows behind the first so many may be left out, SIZE_MAX = none; NULL on no memory.
 */
struct tg__joining *tg__joining_new(const struct tg__question *q, const struct tg_arg *args, size_t count, size_t most);
void tg__joining_free(struct tg__joining *j); /* NULL is fine */
/* The rows of the next one, taken over; who: what it is called in `numbers` below. false on no memory. */
bool tg__joining_add(struct tg__joining *j, struct tg_table *rows, size_t who);
void tg__joining_miss(struct tg__joining *j,
                      const struct tg_error *why);              /* the next one has no data for the question */
struct tg_table *tg__joining_rows(const struct tg__joining *j); /* what is there so far; NULL before the first */
bool tg__joining_is_late(const struct tg__joining *j);          /* is it only known at the end which rows there are? */
/* *out: the answer, neither filtered nor cut. numbers: of the rank by `who`, below 0 = none. TG_NO_DATA when none
 * had any. */
enum tg_err tg__joining_end(struct tg__joining *j, const int64_t *numbers, struct tg_table **out, struct tg_error *e);
size_t tg__table_column_index(const struct tg_table *t, const char *name); /* SIZE_MAX when absent */
size_t tg__table_role_index(const struct tg_table *t, enum tg__role role); /* the first; SIZE_MAX when absent */

/* ---- asking (ask.c) -------------------------------------------------------------------------- */

struct tg__window {
  int64_t start_ns, end_ns;
  uint32_t rank, step; /* indexes into trace->ranks and trace->steps */
  int64_t reach_ns;    /* largest end of the windows of this rank up to here: steps of several threads may overlap */
};
struct tg__summaries; /* trace/summary.h */
/* What the columns asked do not say of the job they belong to; src/ranks knows it. All 0: they are all there is. */
struct tg__job_info {
  bool is_part;                          /* other ranks of it are not in memory; what they decide together: */
  int64_t origin_ns;                     /* the first start of all ranks, on the common clock */
  const struct tg__summaries *summaries; /* NULL, or what answers the questions about ranks in place of events */
};
/* The arguments of one call, parsed and checked against questions.def. */
struct tg__ask {
  const struct tg__question *question; /* NULL: tg__ask_select */
  const struct tg_arg *args;
  size_t arg_count;
  uint32_t rank;    /* index into trace->ranks, TG_NONE = all */
  uint32_t track;   /* index into trace->tracks, TG_NONE = all */
  size_t most_rows; /* rows behind the first so many will be cut off; SIZE_MAX = none: there is no limit=, or where= or
                       sort= come first */
  bool has_steps;   /* step= was given: only what lies in these windows counts */
  struct tg__window *windows; /* by rank, then start */
  size_t window_count;
  bool is_joined; /* the answer about `rank` becomes part of the one about all ranks */
  struct tg__job_info job;
  const void *policy; /* what the answer's algorithm leaves to the rules asked for (compat.def); NULL: the exact ones */
};
bool tg__ask_has_arg(const struct tg__ask *a, const char *name); /* does the question take it? */
const char *tg__ask_arg(const struct tg__ask *a,
                        const char *name); /* the value given, else the default from questions.def */
bool tg__ask_has_rank(const struct tg__ask *a, uint32_t rank);
/* Where the tracks, slices and marks of a rank stand, or of all ranks (TG_NONE): whoever asks rank by rank looks at
 * each event once. */
struct tg__reach {
  uint32_t first_track, end_track, first_slice, end_slice, first_mark, end_mark;
};
struct tg__reach tg__reach_of(const struct tg__columns *t, uint32_t rank);
struct tg__extent tg__rank_marks(const struct tg__columns *t, uint32_t rank); /* of one; needs TG__COL_MARKS */
bool tg__ask_has_track(const struct tg__ask *a, const struct tg__columns *t, uint32_t track); /* rank and track fit */
bool tg__ask_has_time(const struct tg__ask *a, uint32_t rank, int64_t ns); /* inside a step window, or none asked for */
const struct tg__step *tg__ask_first_step(const struct tg__columns *t,
                                          const struct tg__ask *a); /* of the ranks asked for; NULL: they have none */
/* Does this slice count? CPU slices by their start, device work by the start of the host call that launched it (with
 * step=, device work without a known launch belongs to no step; the table gets a note that says how much there was). */
bool tg__ask_has_slice(const struct tg__ask *a, const struct tg__columns *t, uint32_t track, uint32_t slice);
/* Has a rank asked for a slice of a class that fits (needs.c)? linked: one with a known host call. */
bool tg__ask_has_class(const struct tg__columns *t, const struct tg__ask *a, bool (*fits)(enum tg__class), bool linked);

/* How much of a rank's device work is linked (launches.c): to the call that launched it, and through it to an operator.
 * All columns are loaded. */
struct tg__links {
  int64_t device_events, with_call, with_op;
};
struct tg__links tg__links_of(const struct tg__columns *t, uint32_t rank);

/* rank= and step= alone, for what is not a question (exports, SQL); other arguments are the caller's to look at.
 * tg__ask_end after use, after a failure too. */
enum tg_err tg__ask_select(const struct tg__columns *t, const struct tg_arg *args, size_t arg_count,
                           struct tg__ask *out, struct tg_error *e);
void tg__ask_end(struct tg__ask *a);
void tg__table_add_skipped_files(struct tg_table *out, const struct tg__columns *t); /* which are no rank's */
/* Files that say they are one and the same rank, where there are such: how each is counted. side: "" or such as "A:
 * " before the note; rank: TG_NULL_INT, or the number asked for. */
void tg__table_note_duplicate_ranks(struct tg_table *out, const struct tg__columns *t, const char *side, int64_t rank);
int64_t tg__duplicate_rank(
    const struct tg__columns *t); /* the smallest number that several files say is theirs; TG_NULL_INT: none */
void tg__table_add_losses(struct tg_table *out, const struct tg__columns *t,
                          const struct tg__ask *a); /* those of the ranks asked for */

/* The value of `arg` as a position in choices[0..count); TG_USAGE with the list of choices when it is none of them. */
enum tg_err tg__ask_choice(const struct tg__ask *a, const char *arg, const char *const *choices, size_t count,
                           size_t *which, struct tg_error *e);

/* The value of `arg` as a whole number of 0 and above, or as microseconds such as 30 or 0.5. TG_USAGE when it is none.
 */
enum tg_err tg__ask_integer(const struct tg__ask *a, const char *arg, int64_t *out, struct tg_error *e);
enum tg_err tg__ask_us(const struct tg__ask *a, const char *arg, int64_t *ns, struct tg_error *e);

typedef enum tg_err tg__question_fn(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                    struct tg_error *e);
/* What a trace has to hold for a question to have an answer (needs.c). */
enum tg__need {
  TG__NEED_NOTHING,
  TG__NEED_DEVICE,    /* device work */
  TG__NEED_BUSY,      /* device work, by the rules asked for */
  TG__NEED_LAUNCHES,  /* device work, and some with a known host call */
  TG__NEED_CALLERS,   /* device work, and operators or annotations: what it can lie below */
  TG__NEED_OPERATORS, /* operators */
  TG__NEED_WORK,      /* operators, host calls or device work */
  TG__NEED_TIMED,     /* operators or device work */
  TG__NEED_SLICES,    /* whatever takes time */
  TG__NEED_NAMED,     /* user annotations */
  TG__NEED_MEMORY,    /* [memory] events */
  TG__NEED_SHAPES,    /* what calls were given */
  TG__NEED_COUNT
};
/* questions.def explains these two. */
enum tg__steps_by { TG__STEPS_BY_TIME, TG__STEPS_BY_LAUNCH, TG__STEPS_BY_EACH };
enum tg__merge { TG__MERGE_TOGETHER, TG__MERGE_EVERY, TG__MERGE_ROWS, TG__MERGE_FOLD, TG__MERGE_LATE };
enum tg__question_id { /* of the questions of this folder; those of folders above follow from TG__Q_COUNT on */
#define QUESTION(name, ...) TG__Q_##name,
#include "analyze/questions.def"
                       TG__Q_COUNT
};
struct tg__catalog;
struct tg__question {
  const struct tg__catalog *catalog; /* which it stands in */
  enum tg__question_id id;
  const char *name, *meaning, *order, *empty;
  uint32_t loads; /* TG__COL_* */
  enum tg__need need;
  enum tg__steps_by steps;
  enum tg__merge merge;
  tg__question_fn *answer;
  uint16_t first_argument, first_column; /* for the two accessors below */
};
struct tg__merge_rule {
  const struct tg__question *question;
  const char *argument, *value;
  enum tg__merge merge;
  const char *order;
};
/* Where the ranks of a job are: all in memory, or in files of which two stay in memory; src/ranks has both. */
struct tg__rank_load;
struct tg__rank_source {
  void *place;             /* the source's own */
  struct tg__columns *t;   /* of all ranks; of those in files only what is known without their events */
  struct tg__job_info job; /* of the columns that `open` opens */
  bool is_one;             /* for tg__merged_fn: the rows are those of one rank that was asked for */
  uint32_t count;
  int64_t (*number)(const struct tg__rank_source *s, uint32_t i); /* of the job */
  enum tg_err (*load)(const struct tg__rank_source *s, uint32_t i, struct tg__rank_load *out, struct tg_error *e);
  /* *out and *rank: the trace that holds the i-th, and its place there. The trace stays the source's, and is good until
   * two others were opened. */
  enum tg_err (*open)(const struct tg__rank_source *s, uint32_t i, struct tg__columns **out, uint32_t *rank,
                      struct tg_error *e);
  void (*done)(const struct tg__rank_source *s, uint32_t i); /* nothing more is asked of it for now */
};
typedef void tg__folded_fn(struct tg__joining *j, struct tg_table *rows);
typedef enum tg_err tg__merged_fn(const struct tg__rank_source *ranks, struct tg_table *rows, struct tg_error *e);
struct tg__merge_hooks {
  const char *note; /* notes of a rank with these words are not taken over; NULL or "": all are */
  tg__folded_fn *folded;
  tg__merged_fn *merged; /* NULL: none */
};
enum tg__fold_how { /* how a column is merged where rows of several ranks become one */
#define FOLD(id, ...) TG__FOLD_##id,
#include "analyze/roles.def"
};
struct tg__argument_info {
  const char *name, *fallback, *meaning;
};
struct tg__column_info {
  const char *name, *unit, *meaning;
  enum tg_type type;
  enum tg__role role;
  enum tg__fold_how fold;
  const char *of, *by; /* columns of the same question, "" = none */
};
/* All questions there are, as src/catalog puts them together. */
struct tg__question_alias { /* a question's name in the version before */
  const char *name;
  const struct tg__question *question;
};
struct tg__catalog {
  const struct tg__question *questions;
  size_t count;
  const struct tg__question_alias *aliases;
  size_t alias_count;
  const struct tg__argument_info *arguments; /* of all questions, as columns and merge_rules */
  size_t argument_count;
  const struct tg__column_info *columns;
  size_t column_count;
  const struct tg__merge_rule *merge_rules;
  size_t merge_rule_count;
  const struct tg__merge_hooks *hooks; /* by question */
  const char *const *important;        /* by question: its columns, joined by comma; NULL: none is listed */
};
/* questions.c */
const struct tg__question *tg__catalog_find(const struct tg__catalog *c,
                                            const char *name); /* by name or alias; NULL when unknown */
/* A note with the name of q, when the question was asked by an alias. */
void tg__table_note_alias(struct tg_table *t, const struct tg__question *q, const char *asked);
const struct tg__question *tg__catalog_question(const struct tg__catalog *c, enum tg__question_id id);
const struct tg__argument_info *tg__question_argument(const struct tg__question *q,
                                                      size_t k); /* sort, limit, where come last; NULL past the end */
const struct tg__column_info *tg__question_column(const struct tg__question *q, size_t k);    /* NULL past the end */
const struct tg__merge_rule *tg__question_merge_rule(const struct tg__question *q, size_t k); /* NULL past the end */
const struct tg__merge_hooks *tg__question_hooks(const struct tg__question *q);
bool tg__question_is_important(const struct tg__question *q, const char *column); /* is it listed in IMPORTANT? */
#define QUESTION(name, ...) tg__question_fn tg__answer_##name;
#define FOLDED(question, note) tg__folded_fn tg__folded_##question;
#define MERGED(question, note) tg__merged_fn tg__merged_##question;
#include "analyze/questions.def"
/* The answer of question x is tg__answer_x. Runs one of the catalog: checks arguments, loads columns, answers, then
 * where, sort, limit. */
enum tg_err tg__ask_run(const struct tg__catalog *c, struct tg__columns *t, const struct tg__job_info *job,
                        const char *question, const struct tg_arg *args, size_t arg_count, struct tg_table **out,
                        struct tg_error *e);
/* The answer about one rank, counted from 0, as a part of the one about all. */
enum tg_err tg__ask_rank(struct tg__columns *t, const struct tg__job_info *job, uint32_t rank,
                         const struct tg__question *q, const struct tg_arg *args, size_t arg_count,
                         struct tg_table **out, struct tg_error *e);

/* diff.c: two traces held against each other; arguments and columns stand in diff.def. The notes of the table begin
 * with the headline. A side may be a folder with ranks that are read one after the other. */
typedef enum tg_err tg__look_fn(void *ctx, struct tg__columns *t, struct tg_error *e);
struct tg__diff_access {
  const struct tg__catalog *catalog;
  enum tg_err (*each)(struct tg_trace *run, tg__look_fn *look, void *ctx, struct tg_error *e); /* files of a run */
  enum tg_err (*ask)(struct tg__columns *t, const char *question, const struct tg_arg *args, size_t arg_count,
                     struct tg_table **out, struct tg_error *e); /* of columns with all their ranks */
  enum tg_err (*ask_trace)(struct tg_trace *t, const char *question, const struct tg_arg *args, size_t arg_count,
                           struct tg_table **out, struct tg_error *e);
};
struct tg__diff_input {        /* a side */
  struct tg__columns *columns; /* of a run, what is known of its ranks without their events */
  struct tg_trace *trace;      /* what `each` and `ask_trace` take; NULL: there are the columns alone */
  bool is_run;                 /* the ranks are in files */
};
enum tg_err tg__diff_run(const struct tg__diff_input *a, const struct tg__diff_input *b,
                         const struct tg__diff_access *access, const struct tg_arg *args, size_t arg_count,
                         struct tg_table **out, struct tg_error *e);
const struct tg__argument_info *tg__diff_argument(size_t k); /* NULL past the end */
/* diff_fail.c: does  step.p50 > +5%  hold for a table of tg__diff_run? When it does, e->text says for which row. */
enum tg_err tg__diff_fails(const struct tg_table *diff, const char *expression, bool *fails, struct tg_error *e);

/* ask.c, for an answer put together of several: are the arguments those of the question, and where=, sort= and limit=
 * as the last steps. */
enum tg_err tg__ask_check(const struct tg__question *q, const struct tg_arg *args, size_t arg_count,
                          struct tg_error *e);
/* where=, sort= and limit=, in this order. */
enum tg_err tg__ask_finish(const struct tg__question *q, struct tg_table *t, const struct tg_arg *args,
                           size_t arg_count, struct tg_error *e);
/* sort= and limit= alone. */
enum tg_err tg__ask_order(const struct tg__question *q, struct tg_table *t, const struct tg_arg *args, size_t arg_count,
                          struct tg_error *e);
/* where.c: keeps the rows for which an expression over the columns holds, such as  dur_ns > 1ms and name ~ "conv". */
enum tg_err tg__where_filter(struct tg_table *t, const char *expression, struct tg_error *e);

/* rank_load.c: what a rank works and what it waits in collectives, means of a step without the longest: all that shows
 * whether one holds the others up. */
struct tg__rank_load {
  double total_ns, busy_ns, wait_ns;
  double error_ns; /* standard error of busy_ns */
  /* Of busy_ns, on no core and ready for none, without the loader: nine of ten steps have no less, no more; NaN */
  double least_still_ns, most_still_ns;
  double operators_ns; /* of busy_ns, in operators of the host */
  uint64_t work;       /* equal for ranks that have the same operators on the same shapes in their middle step, in any
                          order; 0: not known */
};
enum tg_err tg__rank_load(const struct tg__columns *t, uint32_t rank,
                          struct tg__rank_load *out); /* TG_OK or TG_MEMORY */
/* first_start.c: the first start of a rank's events but the recording itself, as in its file; TG_NULL_INT: none. */
int64_t tg__rank_first_ns(const struct tg__columns *t, uint32_t rank);
int64_t tg__rank_first_common_ns(const struct tg__columns *t, uint32_t rank); /* on the common clock; INT64_MAX: none */

/* ---- shared arithmetic ----------------------------------------------------------------------- */

enum {
  TG__LOW_OCCUPANCY_PCT = 30
}; /* below it a computing kernel is worth a look: in kernels, in joins, in findings */

/* Microseconds without the digits that a conversion of large nanoseconds would lose. */
static inline double tg__us_of(int64_t ns) {
  const int64_t exact = (int64_t)1 << 53;
  const int64_t whole = ns / 1000, rest = ns % 1000;
  return ns > -exact && ns < exact ? (double)ns / 1000 : (double)whole + (double)rest / 1000;
}

/* Sorted, disjoint intervals [start, end) in ns; touching ones are joined (interval.c). */
struct tg__span {
  int64_t start, end;
};
struct tg__spans {
  struct tg__span *items;
  size_t count, cap;
  bool failed;
};
void tg__spans_add(struct tg__spans *s, int64_t start, int64_t end); /* any order; then tg__spans_union */
void tg__spans_union(struct tg__spans *s);                           /* sort and join */
void tg__spans_intersect(const struct tg__spans *a, const struct tg__spans *b, struct tg__spans *out);
void tg__spans_subtract(const struct tg__spans *a, const struct tg__spans *b, struct tg__spans *out);
/* Move what of `left` lies in `s` to *part, which is empty. false: out of memory. */
bool tg__spans_take(struct tg__spans *left, const struct tg__spans *s, struct tg__spans *part);
int64_t tg__spans_length(const struct tg__spans *s);
int64_t tg__spans_inside(const struct tg__spans *s, int64_t start,
                         int64_t end); /* length of the part inside a window */
void tg__spans_free(struct tg__spans *s);

/* Count, sum, min, max, mean and sample standard deviation of int64 values, exact where it can be (stats.c). */
struct tg__stats {
  int64_t count, sum, min, max;
  __int128 squares;
};
void tg__stats_add(struct tg__stats *s, int64_t v);
double tg__stats_mean(const struct tg__stats *s); /* NaN when empty */
double tg__stats_std(const struct tg__stats *s);  /* NaN below two values; computed from integers, rounded once */
double tg__quantile(const int64_t *sorted, size_t n, double q); /* linear interpolation at q × (n−1); NaN when empty */

/* The estimated achieved occupancy of a kernel in percent (gpu.c); NaN where its args do not state it, or state that it
 * could not be estimated. */
double tg__kernel_occupancy(const struct tg__columns *t, uint32_t args);
bool tg__is_occupancy_estimated(double pct, double warps_per_sm);

/* Names with a meaning (names.c). */
bool tg__name_is_collective_kernel(struct tg__str kernel);
bool tg__name_is_collective_call(struct tg__str op);    /* nccl:all_reduce, gloo:broadcast, … */
bool tg__name_is_dataloader(struct tg__str annotation); /* enumerate(DataLoader)#….__next__, enumerate(DataPipe)#… */
bool tg__name_is_optimizer_step(struct tg__str annotation);
bool tg__name_is_label(struct tg__str annotation); /* it groups what runs inside, and is no work itself */
bool tg__name_is_profiler_step(struct tg__str name, int64_t *number);
const char *tg__kernel_type(const struct tg__columns *t,
                            uint32_t slice);              /* COMPUTATION, COMMUNICATION, MEMORY, OTHER */
const char *tg__kernel_type_by_name(struct tg__str name); /* the same by HTA's rule, which knows nothing but the name */

/* The same questions asked once per distinct string instead of once per event: for loops over all slices. */
enum {
  TG__NAME_COLLECTIVE_KERNEL = 1,
  TG__NAME_COLLECTIVE_CALL = 2,
  TG__NAME_DATALOADER = 4,
  TG__NAME_OPTIMIZER_STEP = 8,
  TG__NAME_PROFILER_STEP = 16,
  TG__NAME_FRAME = 32,  /* "file.py(12): function" */
  TG__NAME_MODULE = 64, /* "nn.Module: …" */
  TG__NAME_KNOWN = 128, /* private */
};
struct tg__names {
  const struct tg__columns *trace;
  uint8_t *flags; /* one per string of the trace, filled on first use */
};
bool tg__names_open(struct tg__names *n, const struct tg__columns *t);  /* false on no memory */
unsigned tg__names_of(struct tg__names *n, uint32_t string_id);         /* TG__NAME_* */
const char *tg__names_kernel_type(struct tg__names *n, uint32_t slice); /* equals tg__kernel_type */
void tg__names_close(struct tg__names *n);

/* ---- devices of memory events (op_memory.c) ------------------------------------------------------ */

/* Device of the memory: a kind of c10's devices and a number; -1 where the trace does not say, the number of the host
 * always.
 */
struct tg__memory_device {
  int64_t type, id;
};
static inline struct tg__memory_device tg__memory_device_of(int64_t type, int64_t id) {
  return (struct tg__memory_device){type, type == 0 ? -1 : id};
}
struct tg__memory_device tg__memory_device_read(const struct tg__columns *t, uint32_t args);
/* CPU, GPU0, type6:0 (HIP); type-1:-1 where the trace says nothing. buf is not always used. */
enum { TG__DEVICE_NAME = 64 };
const char *tg__memory_device_name(int64_t type, int64_t id, char buf[TG__DEVICE_NAME]);

/* ---- the program's own lines (user_frame.c) -------------------------------------------------- */

bool tg__is_user_frame(struct tg__str name); /* of the program, neither of torch nor of another package */
struct tg__str tg__user_frame_of_stack(
    struct tg__str stack); /* innermost such frame of "a.py(1): f;b.py(2): g", empty when there is none */
/* The frame of the program around a slice, or the one in the stack recorded with it; empty when there is none. */
struct tg__str tg__user_frame(const struct tg__columns *t, uint32_t slice);
/* Append the line that made this call, or the call around it that says so, as "file.py(12): function", whoever's code
 * it is; false where none says so. */
bool tg__call_line(const struct tg__columns *t, uint32_t slice, struct tg__out *out);
/* Append "file.py(12): function" with the line that was executing, where the trace has it; nothing when it has
 * no line. */
void tg__user_line(const struct tg__columns *t, uint32_t slice, struct tg__out *out);

#endif
