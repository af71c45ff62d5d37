/* sweep: damage at every place of a file. All of them are tried with TG_LONG=1, as in `make check`; else every seventh,
 * which is each byte, and each bit of a byte in turn. */
#ifndef TG_TEST_SWEEP_H
#define TG_TEST_SWEEP_H

#include <stdlib.h>

static inline size_t sweep_step(void) { return getenv("TG_LONG") ? 1 : 7; }

#endif
