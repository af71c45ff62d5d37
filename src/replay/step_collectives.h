/* step_collectives: collectives that a library runs on threads of its own (gloo), private to this folder.
 *
 * They are work of a stream, and the operator that asks for one is its launch: all that holds of kernels holds of them.
 * A thread that asked waits for them in a gap or a label: where it is seen to wait up to the end of one, or where
 * it goes on at once. */
#ifndef TG_STEP_COLLECTIVES_H
#define TG_STEP_COLLECTIVES_H

#include "replay/step_graph.h"

struct tg__replay_look { /* at the thread of the steps, for the time since the look before */
  int64_t start_ns, end_ns;
  bool waits; /* for another thread */
};
struct tg__replay_await { /* a node in which a thread waits for a work */
  uint32_t node, work;
};
struct tg__replay_awaiting { /* of a thread that is walked from its first node on; begins with zeros */
  size_t next, unbound;      /* places in g->ended: the next to end; the first that no wait is for */
};

/* Adds works and lanes; before the works are sorted. Out of memory sets g->failed. */
void tg__replay_gather_collectives(struct tg__replay_graph *g);
/* Fills g->ended and g->looks; main: a track of the process with the steps. */
void tg__replay_find_ends(struct tg__replay_graph *g, uint32_t main);
/* The thread of this lane does nothing recorded from at_ns to to_ns. Does it wait there for a collective? Since when,
 * and up to when. */
struct tg__replay_stretch {
  int64_t from_ns, until_ns;
  size_t last; /* place in g->ended: of the last collective that it waits for */
};
bool tg__replay_awaits(struct tg__replay_awaiting *a, const struct tg__replay_graph *g, uint32_t lane, int64_t at_ns,
                       int64_t to_ns, struct tg__replay_stretch *out);
/* This node is that wait: for the last one and for those that the thread asked for and did not wait for before. */
void tg__replay_bind_awaited(struct tg__replay_awaiting *a, struct tg__replay_graph *g, uint32_t node,
                             const struct tg__replay_stretch *s);

#endif
