/* call_graph: what ran inside what, across threads and devices, and the device work below each. Used by call_graph,
 * call_stack, forward_backward and sequences.
 *
 * The builder of the graph numbers the nodes: slices of the trace by the exact rules, rows by those of HTA
 * (hta_stack.c). A node of the device hangs below the host call that launched it. */
#ifndef TG_CALL_GRAPH_H
#define TG_CALL_GRAPH_H

#include "analyze/analyze.h"

enum tg__node_kind { TG__NODE_ABSENT, TG__NODE_HOST, TG__NODE_DEVICE };
struct tg__call_graph {
  uint32_t count;
  uint32_t *parent; /* TG_NONE: none */
  uint8_t *kind;    /* enum tg__node_kind */
  /* made by tg__call_graph_sum: */
  uint32_t *order; /* every node with a kind, children before parents */
  uint32_t order_count;
  int32_t *depth;    /* 0: no parent; -1: absent */
  int32_t *height;   /* 0: device work; host: 1 above the highest child, and at least 1; -1: absent */
  uint32_t *kernels; /* pieces of device work below, or itself */
  /* their durations summed, first start, last end; without any: 0, INT64_MAX, INT64_MIN */
  int64_t *kernel_ns, *first_ns, *last_ns;
};
/* Free it after a failure, too. false on no memory, as below. */
bool tg__call_graph_new(struct tg__call_graph *g, uint32_t count);
void tg__call_graph_host(struct tg__call_graph *g, uint32_t node, uint32_t parent);
void tg__call_graph_device(struct tg__call_graph *g, uint32_t node, uint32_t parent, int64_t start_ns, int64_t dur_ns);
/* Nodes in a circle, which damaged traces may hold, get no depth and count for nothing. */
bool tg__call_graph_sum(struct tg__call_graph *g);
void tg__call_graph_free(struct tg__call_graph *g);

/* ---- the exact rules ------------------------------------------------------------------------- */

/* What a thread did, as far as its events show. */
enum tg__thread_role { TG__THREAD_OTHER, TG__THREAD_MAIN, TG__THREAD_BACKWARD };
struct tg__thread_names { /* by string id: has the name been looked at, and what it says */
  const struct tg__columns *t;
  uint8_t *flags;
};
enum { TG__NAME_STEP = 2, TG__NAME_BACKWARD_RANGE = 4, TG__NAME_AUTOGRAD = 8 };
bool tg__thread_names_open(struct tg__thread_names *n, const struct tg__columns *t);
unsigned tg__thread_name(struct tg__thread_names *n, uint32_t string_id);
void tg__thread_names_close(struct tg__thread_names *n);

/* Nodes are the slices of all ranks. Made once and kept with the trace (45 bytes a slice); NULL on no memory.
 * *roles, where not NULL: one enum tg__thread_role a track, kept likewise. */
const struct tg__call_graph *tg__call_graph_of(const struct tg__columns *t, const uint8_t **roles);

#endif
