/* critical_hta: the parts of the critical path by HTA's rules. */
#ifndef TG_CRITICAL_HTA_H
#define TG_CRITICAL_HTA_H

#include "analyze/critical/critical.h"

/* critical_rows_hta.c: fills rows, places, waits, launches, queue and index. */
enum tg_err tg__crit_rows_hta(struct tg__crit *c, struct tg__crit_names *n, const struct tg__ask *a,
                              struct tg__crit_range range, struct tg_error *e);

#endif
