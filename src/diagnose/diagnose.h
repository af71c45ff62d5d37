/* diagnose: findings. A cause from causes.def, where it is, the numbers that show it, and what to do. */
#ifndef TG_DIAGNOSE_H
#define TG_DIAGNOSE_H

#include "analyze/analyze.h"

/* The questions of questions_findings.def; a rule that needs what the trace lacks is silent and named in a note. */
#define TG__Q_findings ((enum tg__question_id)TG__Q_COUNT)
#define TG__Q_bottleneck ((enum tg__question_id)(TG__Q_COUNT + 1))
#define TG__Q_six_questions ((enum tg__question_id)(TG__Q_COUNT + 2))
#define TG__Q_diagnosis ((enum tg__question_id)(TG__Q_COUNT + 3))
tg__question_fn tg__answer_findings, tg__answer_bottleneck, tg__answer_six_questions, tg__answer_diagnosis;
tg__merged_fn tg__merged_findings;

/* ---- findings of ranks that were judged one after the other ---------------------------------- */

/* The rank that the others wait for. */
struct tg__straggler {
  size_t which; /* of the loads */
  struct tg__rank_load own;
  double others_busy_ns, others_wait_ns, mean_busy_ns;
  bool is_equal_work; /* it does what the others do, and takes longer for that */
  bool stands_still;  /* half of what it takes longer, in nearly all steps, for no want of a core */
};
/* false: there is none. */
bool tg__find_straggler(const struct tg__rank_load *loads, size_t count, struct tg__straggler *out);
/* The findings of all ranks together: adds those visible only between ranks, removes what these explain, and orders
 * by severity. slow: the trace and rank that *s names, NULL when none is slow. TG_OK or TG_MEMORY. */
enum tg_err tg__findings_of_ranks(struct tg_table *rows, const struct tg__columns *slow, uint32_t rank,
                                  const struct tg__straggler *s);

/* What to ask when this is the first finding: a question, its arguments on the command line, and what it shows. false:
 * nothing in particular. */
struct tg__next {
  enum tg__question_id question;
  const char *words, *why;
};
bool tg__cause_next(struct tg__str cause, struct tg__next *out);

#endif
