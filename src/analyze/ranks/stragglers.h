/* stragglers: the arguments of the question. */
#ifndef TG_STRAGGLERS_H
#define TG_STRAGGLERS_H

#include "analyze/ranks/rank_set.h"

struct tg__straggler_call {
  struct tg__step_selection selection;
  bool is_aligned;   /* ranks on one clock */
  size_t candidates; /* at least 1 */
};
enum tg_err tg__stragglers_read(const struct tg__ask *a, struct tg__straggler_call *call, struct tg_error *e);

#endif
