/* summarize: a rank of a trace, summed up. */
#ifndef TG_SUMMARIZE_H
#define TG_SUMMARIZE_H

#include "analyze/analyze.h"
#include "trace/summary.h"

/* Add the ranks of a trace to `s`; several threads may do so with different traces and lists that share the strings.
 * Needs TG__COL_ALL. TG_OK or TG_MEMORY. */
enum tg_err tg__rank_summarize(const struct tg__columns *t, struct tg__summaries *s);

/* Parts of it. comm_nodes.c: the collectives as the TensorBoard plugin counts them. false on no memory. */
bool tg__comm_nodes(const struct tg__columns *t, uint32_t rank, struct tg__strings *strings,
                    struct tg__rank_summary *r);

#endif
