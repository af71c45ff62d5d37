/* stragglers: the parts of the question. */
#ifndef TG_STRAGGLERS_H
#define TG_STRAGGLERS_H

#include "analyze/ranks/ranks.h"

/* rules=hta, in stragglers_hta.c. */
enum tg_err tg__stragglers_by_hta(const struct tg__columns *t, const struct tg__ask *a,
                                  const struct tg__step_picks *picks, size_t candidates, struct tg_table *out,
                                  struct tg_error *e);

#endif
