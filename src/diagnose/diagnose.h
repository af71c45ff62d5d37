/* diagnose: findings. A cause from causes.def, where it is, the numbers that show it, and what to do. */
#ifndef TG_DIAGNOSE_H
#define TG_DIAGNOSE_H

#include "analyze/analyze.h"

/* Answers the question "findings"; a rule that needs what the trace lacks is silent and named in a note. */
enum tg_err tg__answer_findings(const struct tg_trace *t, const struct tg__ask *a, struct tg_table *out, struct tg_error *e);

#endif
