/* collectives: the parts of the question. */
#ifndef TG_COLLECTIVES_H
#define TG_COLLECTIVES_H

#include <stdio.h>

#include "analyze/ranks/ranks.h"

/* rules=plugin, in collectives_plugin.c: by rank and name, or by rank and step. */
enum tg_err tg__collectives_by_plugin(const struct tg__ranks *r, bool by_step, struct tg_table *out,
                                      struct tg_error *e);

#endif
