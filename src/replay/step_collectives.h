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
  bool waits;     /* for another thread */
  bool needs_gil; /* waits for Python's global lock */
};
struct tg__replay_ended {
  uint32_t work, root; /* root: first track of the chain that asked for it, counted from the rank's; TG_NONE */
};
struct tg__replay_await { /* a node in which a thread waits for a work */
  uint32_t node, work;
};
struct tg__replay_gap { /* a thread calls nothing */
  int64_t start_ns, end_ns;
  uint32_t name, root; /* of the call before it */
  bool is_main;
};
struct tg__replay_awaiting { /* of a thread that is walked */
  size_t next, unbound;      /* places in g->ended: the next to end; the first that no wait is for */
  size_t last;               /* of what it waits for */
  uint32_t call, root;       /* call: slice, the last one so far; TG_NONE */
};

/* Adds works and lanes; before the works are sorted. Out of memory sets g->failed. */
void tg__replay_gather_collectives(struct tg__replay_graph *g);
/* Fills g->looks; main: a track of the process with the steps. */
void tg__replay_gather_looks(struct tg__replay_graph *g, uint32_t main);
/* Fills g->ended; into: by track of the rank, its chain. */
void tg__replay_find_ends(struct tg__replay_graph *g, const uint32_t *into);
/* Behind which calls a thread waits for its collectives: the calls' names get TG__REPLAY_NAME_AWAITS. slices: of the
 * chain, by time. */
void tg__replay_find_places(struct tg__replay_graph *g, const uint32_t *slices, size_t count, uint32_t root,
                            bool is_main);
/* The thread calls nothing from gap->start_ns to to_ns. Does it wait there for a collective? gap: from when to when. */
bool tg__replay_awaits(struct tg__replay_awaiting *a, const struct tg__replay_graph *g, int64_t to_ns,
                       struct tg__replay_gap *gap);
/* This node is that wait: for the last one, and for those that the thread asked for and did not wait for before. */
void tg__replay_bind_awaited(struct tg__replay_awaiting *a, struct tg__replay_graph *g, uint32_t node);

#endif
