/* replay: a model of the steps of one rank, which proves itself before it is used. Public header of the folder.
 *
 * The model is a graph of what the threads and streams did, with the reasons why each piece could not begin earlier.
 * One pass over it works out the time of every step; a second pass with other durations works out the steps as they
 * would be.
 */
#ifndef TG_REPLAY_H
#define TG_REPLAY_H

#include "analyze/analyze.h"

/* The questions of questions_replay.def; TG__Q_COUNT itself is the question of diagnose. */
#define TG__Q_step_model ((enum tg__question_id)(TG__Q_COUNT + 1))
tg__question_fn tg__answer_step_model;

#endif
