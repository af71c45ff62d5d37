/* step_code: when a program runs code that torch.compile made, and when a device replays a CUDA graph. */
#ifndef TG_STEP_CODE_H
#define TG_STEP_CODE_H

#include "analyze/analyze.h"

/* A device counts before the host: while one works, its work decides. Replayed counts before compiled. */
struct tg__step_code {
  struct tg__spans replayed; /* work that the launch of a graph began, else the host is inside such a launch */
  struct tg__spans compiled; /* work of compiled code, else the host is inside it */
  bool failed;               /* no memory */
};
/* Both are empty where the rank has neither. with_others: work of devices without finer categories counts as work.
 * To be closed either way. */
void tg__step_code_open(const struct tg__columns *t, uint32_t rank, bool with_others, struct tg__step_code *out);
void tg__step_code_close(struct tg__step_code *c);
/* Has the rank anything that such code is known by? Looks only at names. *failed: no memory. */
bool tg__has_step_code(const struct tg__columns *t, uint32_t rank, bool *failed);

#endif
