/* call_graph_view: what the questions call_graph and call_stack show of a graph, however it was made. */
#ifndef TG_CALL_GRAPH_VIEW_H
#define TG_CALL_GRAPH_VIEW_H

#include "analyze/launch/call_graph.h"

struct tg__graph_view {
  const struct tg__columns *t;
  const struct tg__call_graph *g;
  const uint32_t *slices; /* by node; NULL: nodes are slices */
  const uint8_t *roles;   /* by track: enum tg__thread_role */
};
/* Rows of one graph; false on no memory. */
typedef bool tg__put_graph(const struct tg__graph_view *v, const struct tg__ask *a, struct tg_table *out);
/* Makes the graphs and has the rows of each put. */
typedef enum tg_err tg__answer_graph(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                     struct tg_error *e, tg__put_graph *put);

tg__put_graph tg__put_call_graph; /* every node, in order */
/* The question call_stack, on graphs made by `answer_graph`. */
enum tg_err tg__call_stack(const struct tg__columns *t, const struct tg__ask *a, tg__answer_graph *answer_graph,
                           struct tg_table *out, struct tg_error *e);

#endif
