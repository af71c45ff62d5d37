/* compiled_runs: how often, and for how long, the code of each compilation ran. */
#ifndef TG_COMPILED_RUNS_H
#define TG_COMPILED_RUNS_H

#include "analyze/analyze.h"

struct tg__compiled_run { /* of a region, "Torch-Compiled Region: 3/1", or of the backward pass of it */
  struct tg__str id;
  bool is_backward;
  int64_t calls;
  int64_t run_ns;    /* host time in it, without regions and compiling inside */
  int64_t device_ns; /* device work launched in it and in no region inside, added up */
};
struct tg__compiled_runs {
  struct tg__compiled_run *items;
  size_t count, cap;
  struct tg__map by_id;
  bool failed;
};
/* To be closed either way; failed: no memory. */
void tg__compiled_runs_open(const struct tg__columns *t, uint32_t rank, struct tg__compiled_runs *out);
void tg__compiled_runs_close(struct tg__compiled_runs *r);
/* NULL: it did not run. */
const struct tg__compiled_run *tg__compiled_run_of(const struct tg__compiled_runs *r, struct tg__str id,
                                                   bool is_backward);

#endif
