/* show, private: frequent sequences of kernels marked in a Chrome trace, as HolisticTraceAnalysis marks them
 * (chrome_patterns.c): an event of one has args.Patterns with the pattern and how often it occurs, so that a viewer
 * finds it by searching. */
#ifndef TG_SHOW_CHROME_PATTERNS_H
#define TG_SHOW_CHROME_PATTERNS_H

#include "show/parts.h"
#include "show/buffer.h"

struct tg__marked;
/* The patterns below operators that patterns= names; top_k= (5) of each rank, of min_length= kernels or more. *out
 * stays NULL when the options do not say patterns=. */
enum tg_err tg__marked_new(struct tg__columns *t, const struct tg__show_options *o, struct tg__marked **out,
                           struct tg_error *e);
void tg__marked_free(struct tg__marked *m); /* NULL is fine */

/* Behind the args of a slice, if it had some. Returns whether it has some now. */
bool tg__marked_args(const struct tg__marked *m, struct tg__buffer *buffer, uint32_t slice, bool has_args);

#endif
