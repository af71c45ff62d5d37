/* pipeline.h: threads of the program that make its input; private to the folder. */
#ifndef TG_PIPELINE_H
#define TG_PIPELINE_H

#include "diagnose/findings.h"

struct tg__turns {
  int64_t turns;    /* how often another thread goes on */
  uint32_t longest; /* operator */
  bool several;     /* threads */
};
/* Do the threads beside that of the loop (a track) work one at a time, several operators each before the next has
 * its turn? */
bool tg__takes_turns(struct tg__facts *f, uint32_t loop, struct tg__turns *out);

#endif
