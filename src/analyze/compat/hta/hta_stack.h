/* hta_stack: HTA's newer call stacks, on its rows. The one place that knows how it nests and connects threads. */
#ifndef TG_HTA_STACK_H
#define TG_HTA_STACK_H

#include "analyze/launch/call_graph.h"
#include "analyze/compat/hta/hta_rows.h"

/* Nodes are the rows of the rank; times of device work are those of the rows, in ns. Negative durations count as 0
 * (HTA fails on traces where one meets an empty event). roles: one enum tg__thread_role a track of the trace,
 * those of the rank are written; may be NULL. false on no memory; free *g either way. */
bool tg__hta_call_graph(const struct tg__hta *h, uint32_t rank, struct tg__call_graph *g, uint8_t *roles);

#endif
