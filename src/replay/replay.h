/* replay: a model of the steps of one rank, which proves itself before it is used. Public header of the folder.
 *
 * The model is a graph of what the threads and streams did, with the reasons why each piece could not begin earlier.
 * One pass over it works out the time of every step; a second pass with other durations works out the steps as they
 * would be. */
#ifndef TG_REPLAY_H
#define TG_REPLAY_H

#include "analyze/analyze.h"

/* The questions of questions_replay.def; those of diagnose come first. */
#define TG__Q_step_model ((enum tg__question_id)(TG__Q_COUNT + 4))
#define TG__Q_what_if ((enum tg__question_id)(TG__Q_COUNT + 5))
#define TG__Q_slack ((enum tg__question_id)(TG__Q_COUNT + 6))
tg__question_fn tg__answer_step_model, tg__answer_what_if, tg__answer_slack;

/* ---- what changes save ------------------------------------------------------------------------ */

/* Of calls: with what runs inside them. */
enum tg__replay_change_kind {
  TG__CHANGE_REMOVE, /* gone, with the work they launch */
  TG__CHANGE_SCALE,  /* they take a part of their time, the work they launch, too */
  /* done elsewhere: no time on their thread; the work they launch stays */
  TG__CHANGE_MOVE_OFF,
  TG__CHANGE_OVERLAP, /* they no longer wait for a device */
  TG__CHANGE_ADD,     /* they begin so much later */
  TG__CHANGE_BATCH,   /* of each step the first one stays, the others are removed */
  /* worker processes of a loader do it ahead, and take as long for it as before: after all other changes, and once */
  TG__CHANGE_WORKERS,
  TG__CHANGE_KINDS
};
struct tg__replay_change {
  enum tg__replay_change_kind kind;
  int64_t millionths;                               /* of TG__CHANGE_SCALE */
  int64_t ns;                                       /* of TG__CHANGE_ADD */
  int64_t workers;                                  /* of TG__CHANGE_WORKERS */
  bool (*selects)(const void *ctx, uint32_t slice); /* of calls on threads, and of work on devices */
  const void *ctx;
};
struct tg__saving {
  size_t steps, slices;                       /* slices: selected, in these steps */
  double step_ns, median_ns, low_ns, high_ns; /* of a step; low to high: 80 % */
  double predicted_ns;                        /* length of the replayed step with the change, median */
  char why_not[200], help[200];               /* "", or why there is no saving, and the recording that would help */
};

/* ---- one change after the other ---------------------------------------------------------------- */

/* A model that keeps what was changed: each saving is what the changes before it leave. Close it with
 * tg__replay_model_close, NULL included. TG_OK or TG_MEMORY. Needs TG__COL_ALL. */
struct tg__replay_model;
enum tg_err tg__replay_model_open(const struct tg__columns *t, uint32_t rank, struct tg__replay_model **out);
void tg__replay_model_close(struct tg__replay_model *m);
const char *tg__replay_model_fault(const struct tg__replay_model *m); /* why it says nothing; "" where it does */
enum tg__replay_cut {
  TG__CUT_HOST,   /* calls and gaps of threads */
  TG__CUT_DEVICE, /* work of streams */
  TG__CUT_WAITS,  /* calls that end in these times no longer wait for a device; part counts for nothing */
};
/* What lies in these (joined) times gets shorter by `part` of it, 0 to 1; how much shorter a step is then. out->slices
 * counts the pieces that change. Only of a model without a fault. */
enum tg_err tg__replay_cut(struct tg__replay_model *m, enum tg__replay_cut cut, const struct tg__spans *when,
                           double part, struct tg__saving *out);
/* A change of TG__CHANGE_WORKERS: from now on workers make what the calls fetch that it selects. Once in a model; again
 * it changes nothing. Only of a model without a fault. */
enum tg_err tg__replay_load_ahead(struct tg__replay_model *m, const struct tg__replay_change *workers,
                                  struct tg__saving *out);

#endif
