/* pipeline.h: threads of the program that make its input; private to the folder. */
#ifndef TG_PIPELINE_H
#define TG_PIPELINE_H

#include "diagnose/findings.h"

struct tg__turns {
  int64_t turns;       /* how often another thread goes on */
  uint32_t longest;    /* operator */
  bool several;        /* threads */
  struct tg__str line; /* where they call no operator: of the program, where most of them wait for their turn */
  size_t looks;        /* of the recorder; in how many of them one works and others wait */
  size_t in_turn;
  const char *when; /* these looks were taken, in words */
};
/* Do the threads beside that of the loop (a track) work one at a time while the loop waits (when: joined)? Either
 * several operators each before the next has its turn, or, as they were seen, one works and others wait for a lock. */
bool tg__takes_turns(struct tg__facts *f, uint32_t loop, const struct tg__spans *when, struct tg__turns *out);

#endif
