/* step_batches: the batches that worker processes of a data loader make, private to this folder.
 *
 * The recorder puts the range "DataLoader batch" around each batch in its worker, and a counter with the batch's number
 * into that range and into the call with which the loop takes it. The counter's name has the worker's process, so
 * batches of several loaders differ. Another counter has the time that the worker was on a core. */
#ifndef TG_STEP_BATCHES_H
#define TG_STEP_BATCHES_H

#include "replay/step_graph.h"

struct tg__replay_batch {
  uint32_t fetch;   /* slice in which the loop takes it */
  uint32_t made;    /* slice of its worker; TG_NONE: not recorded */
  uint32_t asked;   /* the batch with which it was asked for, by its place in g->batches; TG_NONE: not known */
  int64_t taken_ns; /* when the loop has it, and asks for another one */
  uint32_t wait;    /* node: its worker waits to be asked; TG_NONE: none */
};

/* Fills g->batches, by time. main: a track of the process with the steps. Out of memory sets g->failed. */
void tg__replay_find_batches(struct tg__replay_graph *g, uint32_t main);
/* The batch that is taken or made in this slice; NULL. */
struct tg__replay_batch *tg__replay_batch_of(const struct tg__replay_graph *g, uint32_t slice);
void tg__replay_add_batch_edges(struct tg__replay_graph *g);
/* The last node of a slice on its lane, from its first on. first: below g->node_count. */
uint32_t tg__replay_last_node(const struct tg__replay_graph *g, uint32_t slice, uint32_t first);
/* A number among the conditions of the recording, or of one member of them; 0: not known. */
int64_t tg__replay_condition(const struct tg__replay_graph *g, const char *of, const char *name);

#endif
