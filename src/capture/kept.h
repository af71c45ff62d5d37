/* kept: nodes of CUDA graphs that were captured while nothing was recorded. A server captures its graphs when it starts
 * and is recorded hours later; a kernel then says the number of its node and nothing else. Shared by the files that
 * keep and write them, and private to those.
 *
 *   kept_nodes.c    the table: number of a node → operator and place
 *   python_kept.c   places: the Python stack with its modules, and what Python calls
 *   torch_follow.c  which operator is open on a thread while a graph is captured
 *   cuda_graph.c    CUPTI says when a node is made, cloned or gone
 *   cuda_source.c   the subscriber, which stays
 *   cuda_write.c    a kernel of a node that the file does not know yet: it is written then */
#ifndef TG_CAPTURE_KEPT_H
#define TG_CAPTURE_KEPT_H

#include "capture/capture.h"

/* ---- the table (kept_nodes.c); any thread ---------------------------------------------------- */

void tg__kept_begin(uint64_t most_bytes); /* again: only the bound changes */
void tg__kept_end(void);                  /* and forget everything */
void tg__kept_forked(void);               /* the same in the child of a fork: its parent's locks may be held */
bool tg__kept_is_on(void);

/* A node is captured on the calling thread. is_in_file: the open recording has written it. */
void tg__kept_capture(uint64_t node, uint32_t generation, bool is_in_file);
void tg__kept_clone(uint64_t node, uint64_t from, uint32_t generation);
void tg__kept_drop(uint64_t node);
void tg__kept_drop_graph(uint32_t graph); /* the upper half of the numbers of its nodes */
/* Is it a node that the thread's file does not know yet? Its operator and its stack there, each 0 = none; from then on
 * the file knows it. */
bool tg__kept_find(struct tg__thread *t, uint64_t node, uint32_t *op, uint32_t *stack);

struct tg__kept_stats {
  uint64_t nodes, places, modules, operators, bytes; /* now */
  uint64_t lost;                                     /* nodes that had no room, since tg__kept_begin */
};
struct tg__kept_stats tg__kept_now(void);

/* As tg__pages_grow, within the bound; with the table's lock. */
bool tg__kept_grow(void *place, size_t *cap, size_t want);
void tg__kept_release(void *p, size_t cap);
void tg__kept_lock(void);
void tg__kept_unlock(void);

/* ---- places (python_kept.c); with the table's lock ------------------------------------------- */

struct tg__kept_places {
  /* Number of the calling thread's Python stack; 0 = none. false: there was no room for it. */
  bool (*now)(uint32_t *place);
  uint32_t (*stack)(struct tg__thread *t, uint32_t place); /* its STACK entry in the thread's file; 0 = none */
  void (*forget)(void);
  void (*count)(struct tg__kept_stats *out);
};
extern const struct tg__kept_places *_Atomic tg__kept_places; /* NULL: without Python */

/* ---- operators (torch_follow.c) -------------------------------------------------------------- */

/* Counted: a begin for each end. false: torch did not take the callback. */
bool tg__torch_follow_begin(void);
void tg__torch_follow_end(void);
bool tg__torch_follow_is_off(void);
const char *tg__torch_operator_now(void); /* open on the calling thread; NULL = none */
/* What torch calls, by torch_hook.c. */
void tg__torch_follow(const void *rf);
void tg__torch_followed(const void *rf, void *context);

/* ---- the subscriber (cuda_source.c) ---------------------------------------------------------- */

/* Keep nodes from now on, in so many bytes at most; 0 = no more, and forget them. CUDA is initialised, the GIL is not
 * held. */
enum tg_err tg__cuda_keep(uint64_t most_bytes, struct tg_error *e);

#endif
