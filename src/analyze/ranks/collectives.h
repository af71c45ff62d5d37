/* collectives: what the answers share. */
#ifndef TG_COLLECTIVES_H
#define TG_COLLECTIVES_H

#include <stdio.h>

#include "analyze/ranks/rank_set.h"

/* The ranks asked for, with the argument clock=; TG_NO_DATA where they have no collectives. Close it either way. */
enum tg_err tg__collectives_open(struct tg__ranks *r, const struct tg__columns *t, const struct tg__ask *a,
                                 struct tg_error *e);

#endif
