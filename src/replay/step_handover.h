/* step_handover: threads of one process that hand over to each other, private to this folder.
 *
 * The recorder marks where a thread waits for another one (a queue, a condition, the answer of a pool), and not what
 * ends the wait. A place of a thread is what lies between a call of one name and one of another name. If in the waits
 * of one place the other thread has always come to some place of its own as often, but for a fixed number, that is
 * where it hands over: as the queue between them holds no more and no less. */
#ifndef TG_STEP_HANDOVER_H
#define TG_STEP_HANDOVER_H

#include "replay/step_graph.h"

struct tg__replay_handover {
  uint32_t wait; /* slice */
  uint32_t root; /* track of the other thread's chain, counted from the rank's first */
  uint32_t node; /* in which it waits; TG_NONE */
  int64_t ns;    /* when the other thread's last call before that ended */
};

/* The calls of each thread, gathered before the nodes are made. slices: of the chain of `root`, by time. Out of memory
 * sets g->failed. */
void tg__replay_add_places(struct tg__replay_graph *g, const uint32_t *slices, size_t count, uint32_t root);
/* Fills g->handovers, by slice. */
void tg__replay_find_handovers(struct tg__replay_graph *g);
void tg__replay_free_places(struct tg__replay_graph *g);
/* Of this slice; NULL. */
struct tg__replay_handover *tg__replay_handover_of(const struct tg__replay_graph *g, uint32_t slice);
void tg__replay_add_handover_edges(struct tg__replay_graph *g);
/* Does the thread of the steps wait here for another one of which it is not known when it lets go? A marked wait, or a
 * gap over half of which it is seen waiting for a lock. */
bool tg__replay_is_unbound_wait(const struct tg__replay_graph *g, uint32_t node);

#endif
