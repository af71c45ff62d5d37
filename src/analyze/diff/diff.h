/* diff: two traces held against each other; private to the folder.
 *
 * Every figure is a number a step. The steps of both sides are compared by drawing steps again
 * (bootstrap.h), so that noise is not called change. Ranks of one job wait for each other, so their steps are no
 * independent observations: step k of a side is the k-th step of all its ranks, and its figure the mean over them. */
#ifndef TG_DIFF_H
#define TG_DIFF_H

#include "analyze/diff/bootstrap.h"
#include "analyze/host/op_tree.h"
#include "analyze/overview/steps.h"

enum { TG__SIDES = 2 };

/* ---- figures by name (diff_collect.c) -------------------------------------------------------- */

enum tg__diff_figure {
  TG__DIFF_CALLS,
  TG__DIFF_CPU,
  TG__DIFF_SELF_CPU,
  TG__DIFF_DEVICE,
  TG__DIFF_SELF_DEVICE,
  TG__DIFF_FIGURES
};
enum { TG__DIFF_PEAK = TG__DIFF_CALLS }; /* of memory: one entry a device */
enum tg__diff_by {
  TG__DIFF_STEP,
  TG__DIFF_CATEGORY,
  TG__DIFF_OP,
  TG__DIFF_MODULE,
  TG__DIFF_KERNEL,
  TG__DIFF_FAMILY,
  TG__DIFF_MEMORY,
  TG__DIFF_BYS
};
extern const char *const tg__diff_by_names[TG__DIFF_BYS + 1];
extern const char *const tg__diff_figure_names[TG__DIFF_FIGURES + 1];

struct tg__diff_entry { /* what one name came to in one step, summed over ranks */
  uint32_t row, step;
  int64_t v[TG__DIFF_FIGURES];
};
struct tg__diff_named {      /* all names of one kind */
  struct tg__strings *names; /* a name's id is its row; NULL: not collected */
  struct tg__diff_entry *items;
  size_t count, cap;
  struct tg__map at; /* row and step → entry */
  int64_t loose;     /* device events that no step can be found for */
  bool has_modules;
};
struct tg__diff_sorted { /* both sides have the same rows */
  struct tg__diff_entry *items;
  size_t count;
  uint32_t *first; /* by row, one more at the end */
};
struct tg__diff_side;
/* Of the trace that the side has at hand. */
enum tg_err tg__diff_collect(const struct tg__diff_side *s, enum tg__diff_by by, struct tg__diff_named *out);
/* Sums, or the larger one; false on no memory. */
bool tg__diff_named_add(struct tg__diff_named *to, const struct tg__diff_named *from, bool most);
void tg__diff_named_free(struct tg__diff_named *n);
/* Entries of the first `steps` steps by row in `names`, to which all names are added. */
bool tg__diff_named_sort(const struct tg__diff_named *n, size_t steps, struct tg__strings *names,
                         struct tg__diff_sorted *out);
/* When both sides have been sorted; false on no memory. */
bool tg__diff_sorted_end(struct tg__diff_sorted *s, size_t rows);
void tg__diff_sorted_free(struct tg__diff_sorted *s);

/* ---- how a trace was recorded (diff_conditions.c, diff_shapes.c) ---------------- */

enum { TG__DIFF_FACTS = 24 };
struct tg__diff_facts {
  char *texts[TG__DIFF_FACTS]; /* NULL = not said */
  int64_t world_size;
  enum tg__step_kind step_kind;
};
bool tg__diff_facts_take(struct tg__diff_side *s); /* false on no memory */
/* The first that is added counts. */
bool tg__diff_facts_add(struct tg__diff_facts *to, const struct tg__diff_facts *from);
void tg__diff_facts_free(struct tg__diff_facts *f);

/* By operator and shape of its first input: how much time goes there. */
struct tg__shape_cost {
  double ns;                        /* with what it calls and launches; 0 where no shape is known */
  double calls, self_ns, device_ns; /* its own, and what it launched itself */
};
struct tg__shape_row {
  uint32_t op, shape; /* in names */
  struct tg__shape_cost of[TG__SIDES];
};
struct tg__diff_shapes {
  struct tg__strings *names;
  struct tg__map at;
  struct tg__shape_row *rows;
  size_t count, cap;
};
bool tg__diff_shapes_take(struct tg__diff_side *s); /* false on no memory, as those below */
bool tg__diff_shapes_add(struct tg__diff_shapes *to, int side, const struct tg__diff_shapes *from);
void tg__diff_shapes_free(struct tg__diff_shapes *h);
/* Is it other work? Then where most of it is, and the shapes there, as long as the tables of the sides are. */
struct tg__shapes_verdict {
  bool known, other;
  struct tg__str op, shape[TG__SIDES];
};
bool tg__diff_shapes_compare(const struct tg__diff_side *const sides[TG__SIDES], struct tg__diff_shapes *both,
                             struct tg__shapes_verdict *out);

/* How long equal work takes in B, as a multiple of A: the median over operators of one shape that are called as often
 * on both sides, each counted once, however long it is. A change of the program moves some of them, another pace of
 * the machine moves all. diff_pace.c */
struct tg__diff_pace {
  double factor;    /* NaN = not known */
  double step_ns;   /* of a step of A, in the time that it is of */
  size_t operators; /* that it is the median of */
  bool of_device;   /* of what they launched, not of the host */
};
/* false on no memory. */
bool tg__diff_pace_find(const struct tg__diff_side *const sides[TG__SIDES], struct tg__diff_pace *out);
/* Does it explain a third and more of the change from a to b, leave less than a factor of 1.5, and hold for a fifth and
 * more of a step? */
bool tg__diff_pace_explains(const struct tg__diff_pace *p, double a, double b);

/* How many kernels and operators ran, and which Inductor had fused. diff_fusion.c */
struct tg__diff_fusion {
  int64_t plain[2], fused[2]; /* kernels of devices; operators of the host that stand in no other, kernels in it */
  int64_t units;              /* steps of single ranks that they ran in */
};
void tg__diff_fusion_take(struct tg__diff_side *s);
void tg__diff_fusion_add(struct tg__diff_fusion *to, const struct tg__diff_fusion *from);

/* ---- one side (diff_side.c) ------------------------------------------------------------------ */

struct tg__diff_unit { /* one step of one rank */
  uint32_t rank, step;
  int64_t start_ns, end_ns; /* of the host: the annotation */
  int64_t latest_end_ns;    /* largest end of the units of this rank up to here */
};
struct tg__diff_side {
  const struct tg__diff_access *access;
  struct tg__columns *t; /* NULL: its ranks were looked at one after the other, and let go */
  const char *path;
  char letter; /* what notes call it: A or B */
  struct tg__ask selection;
  struct tg__diff_unit *units; /* by rank, then start */
  struct tg__step_cost *costs; /* by unit */
  size_t unit_count, cap, cost_cap;
  size_t count;                 /* steps; each has one unit a rank */
  size_t ranks;                 /* that have units */
  int64_t loss[TG__LOSS_COUNT]; /* of the ranks asked for */
  size_t left_out;   /* units at the end: without their device work, not there in every rank, or beyond TG__DRAW_MOST */
  bool is_recording; /* some rank has no steps: all of it is one unit */
  bool is_noisy;     /* others kept the machine busy, */
  bool is_unclear;   /* or the loop itself did, which is not known */
  bool has_code;     /* some code is compiled, or a graph that is replayed */
  struct tg__diff_fusion fusion;
  struct tg__draws draws; /* weights NULL: too few steps for an interval */
  struct tg__diff_facts facts;
  struct tg__diff_shapes shapes;
  struct tg__diff_named named[TG__DIFF_BYS]; /* of a side without a trace at hand: what was asked for */
};
/* A whole trace, or one file of a folder: kinds has the bits of those to collect now. *out is to be closed either
 * way. */
enum tg_err tg__diff_side_take(struct tg__columns *t, const struct tg__diff_access *access, const struct tg_arg *args,
                               size_t arg_count, int side, unsigned kinds, struct tg__diff_side *out,
                               struct tg_error *e);
/* Of one more file; false on no memory. */
bool tg__diff_side_add(struct tg__diff_side *to, const struct tg__diff_side *part);
/* All ranks are in. TG_NO_DATA when there is nothing to compare. */
enum tg_err tg__diff_side_end(struct tg__diff_side *s, struct tg_error *e);
/* diff.c: says which side it is that lacks the data. */
enum tg_err tg__diff_side_lacks(int side, enum tg_err err, struct tg_error *e);
/* Of what was lost, not of what was bent: figures are only of the rest. */
void tg__diff_note_losses(struct tg_table *out, char letter, const int64_t loss[TG__LOSS_COUNT]);
void tg__diff_side_close(struct tg__diff_side *s);
/* From 0 on; TG_NONE outside all. */
uint32_t tg__diff_step_at(const struct tg__diff_side *s, uint32_t rank, int64_t ns);
/* diff_fusion.c: what was fused, where one side is compiled and the other is not. */
void tg__diff_note_fusion(const struct tg__diff_side sides[TG__SIDES], struct tg_table *out);

/* ---- are they comparable at all (diff_conditions.c) ------------------------------------------ */

struct tg__document_condition {
  const char *key;
  char *a, *b;  /* in words; NULL = not known */
  bool decides; /* other work or another machine: no verdict on times unless accepted */
  bool accepted;
};
struct tg__conditions {
  struct tg__document_condition *items;
  size_t count, cap;
  struct tg__arena arena;
  bool failed;
};
/* All that both traces state about their recording; accept: keys joined by comma, or all. */
enum tg_err tg__conditions_read(const struct tg__diff_side *a, const struct tg__diff_side *b, const char *accept,
                                struct tg__conditions *out, struct tg_error *e);
bool tg__conditions_accept(const char *accept, const char *key); /* does the list name it, or all? */
void tg__conditions_free(struct tg__conditions *c);
bool tg__condition_differs(const struct tg__document_condition *c); /* both known, and not equal */
/* The first that withholds a verdict; NULL. */
const struct tg__document_condition *tg__conditions_deciding(const struct tg__conditions *c);

/* ---- the tables ------------------------------------------------------------------------------ */

struct tg__diff_ask { /* the arguments of one diff, checked */
  const struct tg_arg *args;
  size_t count;
  const struct tg__diff_access *access; /* NULL: no side is read rank by rank */
  unsigned by;                          /* bits of enum tg__diff_by */
  double least_pct;                     /* smaller changes do not count */
};
/* The value given, else its default; see diff.def. */
const char *tg__diff_arg(const struct tg__diff_ask *a, const char *name);
/* diff_question.c: one question asked of both, column by column. diff_totals.c: counts and durations by name, as
 * HTA's TraceDiff. */
enum tg_err tg__diff_question(const struct tg__diff_input *const sides[TG__SIDES], const struct tg__diff_ask *ask,
                              struct tg_table *out, struct tg_error *e);
enum tg_err tg__diff_totals(const struct tg__diff_input *const sides[TG__SIDES], const struct tg__diff_ask *ask,
                            struct tg_table *out, struct tg_error *e);

/* diff_rows.c: every figure of both sides, judged. */
struct tg__diff_row {
  enum tg__diff_by by;
  uint32_t name; /* in tg__diff_rows.names */
  const char *quantity, *unit, *verdict;
  double a, b, low, high; /* low, high: 95 % of b − a, NaN = none */
  double p;
  bool in_a, in_b, changed;
};
struct tg__diff_rows {
  struct tg__strings *names;
  struct tg__diff_row *items;
  size_t count, cap, kind_begin; /* kind_begin: first row of the kind at hand */
  double least_pct, step_ns;     /* of A: what small changes are small against */
  bool withheld;                 /* times are not judged */
  double draws[TG__SIDES][TG__DRAWS];
};
enum tg_err tg__diff_step_rows(struct tg__diff_rows *rows, const struct tg__diff_side *a,
                               const struct tg__diff_side *b);
enum tg_err tg__diff_category_rows(struct tg__diff_rows *rows, const struct tg__diff_side *a,
                                   const struct tg__diff_side *b);
/* is_only_kind: nothing else was asked for, so what the traces lack for it is worth a note. */
enum tg_err tg__diff_name_rows(struct tg__diff_rows *rows, enum tg__diff_by by, const struct tg__diff_side *a,
                               const struct tg__diff_side *b, bool is_only_kind, struct tg_table *notes);
enum tg_err tg__diff_memory_rows(struct tg__diff_rows *rows, const struct tg__diff_side *a,
                                 const struct tg__diff_side *b);
void tg__diff_judge(struct tg__diff_rows *rows); /* verdicts and order of the rows added since the last call */

#endif
