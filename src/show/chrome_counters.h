/* show, private: counters that are not in the trace but follow from it, written into a Chrome trace
 * (chrome_counters.c). */
#ifndef TG_SHOW_CHROME_COUNTERS_H
#define TG_SHOW_CHROME_COUNTERS_H

#include "show/chrome_track.h"
#include "show/buffer.h"

struct tg__counters;
/* Asks for the series that the option counters= names. *out stays NULL when it is not given. */
enum tg_err tg__counters_new(struct tg__columns *t, const struct tg__show_options *o, struct tg__counters **out,
                             struct tg_error *e);
void tg__counters_free(struct tg__counters *c); /* NULL is fine */
/* With a comma in front of each. */
void tg__counters_put(const struct tg__counters *c, struct tg__chrome_tracks *tracks, struct tg__buffer *buffer);

#endif
