/* One call of a question: its arguments, the events that count by them, the answer. */
#ifndef TG_ASK_H
#define TG_ASK_H

#include "analyze/question.h"

struct tg__window {
  int64_t start_ns, end_ns;
  uint32_t rank, step;   /* indexes into trace->ranks and trace->steps */
  int64_t latest_end_ns; /* largest end of the windows of this rank up to here: steps of several threads may overlap */
};
struct tg__summaries; /* trace/summary.h */
/* The facts of the job that the columns lack; src/ranks knows them. All 0: they are all there is. */
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
  uint32_t rank;  /* index into trace->ranks, TG_NONE = all */
  uint32_t track; /* index into trace->tracks, TG_NONE = all */
  /* rows behind the first so many will be cut off; SIZE_MAX = none: there is no limit=, or where= or sort= come
   * first */
  size_t most_rows;
  bool has_steps;             /* step= was given: only what lies in these windows counts */
  struct tg__window *windows; /* by rank, then start */
  size_t window_count;
  bool is_joined; /* the answer about `rank` becomes part of the one about all ranks */
  struct tg__job_info job;
  const void *policy; /* what the answer's algorithm leaves to the rules asked for (compat.def); NULL: the exact ones */
};
bool tg__ask_has_arg(const struct tg__ask *a, const char *name); /* does the question take it? */
/* The value given, else the default from questions.def. */
const char *tg__ask_arg(const struct tg__ask *a, const char *name);
bool tg__ask_has_rank(const struct tg__ask *a, uint32_t rank);
/* Where the tracks, slices and marks of a rank stand, or of all ranks (TG_NONE): whoever asks rank by rank looks at
 * each event once. */
struct tg__rank_range {
  uint32_t first_track, end_track, first_slice, end_slice, first_mark, end_mark;
};
struct tg__rank_range tg__rank_range_of(const struct tg__columns *t, uint32_t rank);
struct tg__extent tg__rank_marks(const struct tg__columns *t, uint32_t rank); /* of one; needs TG__COL_MARKS */
bool tg__ask_has_track(const struct tg__ask *a, const struct tg__columns *t, uint32_t track); /* rank and track fit */
bool tg__ask_has_time(const struct tg__ask *a, uint32_t rank, int64_t ns); /* inside a step window, or none asked for */
/* Of the ranks asked for; NULL: they have none. */
const struct tg__step *tg__ask_first_step(const struct tg__columns *t, const struct tg__ask *a);
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

/* Only rank= and step=, for exports and SQL, which are no questions; the caller reads the other arguments.
 * tg__ask_end after use, after a failure too. */
enum tg_err tg__ask_select(const struct tg__columns *t, const struct tg_arg *args, size_t arg_count,
                           struct tg__ask *out, struct tg_error *e);
void tg__ask_end(struct tg__ask *a);
void tg__table_add_skipped_files(struct tg_table *out, const struct tg__columns *t); /* which are no rank's */
/* Files that say they are one and the same rank, where there are such: how each is counted. side: "" or such as "A:
 * " before the note; rank: TG_NULL_INT, or the number asked for. */
void tg__table_note_duplicate_ranks(struct tg_table *out, const struct tg__columns *t, const char *side, int64_t rank);
/* The smallest number that several files say is theirs; TG_NULL_INT: none. */
int64_t tg__duplicate_rank(const struct tg__columns *t);
/* Those of the ranks asked for. */
void tg__table_add_losses(struct tg_table *out, const struct tg__columns *t, const struct tg__ask *a);

/* The value of `arg` as a position in choices[0..count); TG_USAGE with the list of choices when it is not among
 * them. */
enum tg_err tg__ask_choice(const struct tg__ask *a, const char *arg, const char *const *choices, size_t count,
                           size_t *which, struct tg_error *e);

/* The value of `arg` as a whole number of 0 and above, or as microseconds such as 30 or 0.5. TG_USAGE when it is
 * neither. */
enum tg_err tg__ask_integer(const struct tg__ask *a, const char *arg, int64_t *out, struct tg_error *e);
enum tg_err tg__ask_us(const struct tg__ask *a, const char *arg, int64_t *ns, struct tg_error *e);

/* ---- running ------------------------------------------------------------------------------- */

/* A question with its arguments. */
struct tg__call {
  const struct tg__question *question;
  const struct tg_arg *args;
  size_t count;
  /* As tg__call_check reads limit=: rows of the answer, and rows behind which all will be cut off, where neither where=
   * nor sort= comes first. SIZE_MAX: all. */
  size_t limit, most_rows;
};
const char *tg__call_value(const struct tg__call *c, const char *name); /* NULL when not given */
bool tg__call_has(const struct tg__call *c, const char *name);          /* given, and neither empty nor all */
enum tg_err tg__call_check(struct tg__call *c, struct tg_error *e);     /* are its arguments those of the question? */
enum tg_err tg__no_question(const struct tg__catalog *c, const char *name, struct tg_error *e); /* TG_USAGE */
/* Load columns and answer a call that was checked, with where=, sort= and limit= as the last steps. rank: an index, for
 * an answer that becomes part of the one about all ranks; TG_NONE: what rank= says. */
enum tg_err tg__ask_rank(struct tg__columns *t, const struct tg__job_info *job, uint32_t rank, const struct tg__call *c,
                         struct tg_table **out, struct tg_error *e);
/* The same for an answer that needs another one: all columns are loaded, and of its arguments none is where, sort or
 * limit. */
enum tg_err tg__ask_loaded(const struct tg__columns *t, uint32_t rank, const struct tg__question *q,
                           const struct tg_arg *args, size_t arg_count, struct tg_table **out, struct tg_error *e);
/* The last steps of an answer put together of several, in this order: where=, sort=, limit=, columns=. */
enum tg_err tg__ask_finish(const struct tg__call *c, struct tg_table *t, struct tg_error *e);
/* where.c: keeps the rows for which an expression over the columns holds, such as  dur_ns > 1ms and name ~ "conv". */
enum tg_err tg__where_filter(struct tg_table *t, const char *expression, struct tg_error *e);

#endif
