/* show, private: the critical path drawn into a Chrome trace, as HolisticTraceAnalysis draws it (chrome_critical.c):
 * args.critical is 1 on its events, and edges become flows of the category critical_path. */
#ifndef TG_SHOW_CHROME_CRITICAL_H
#define TG_SHOW_CHROME_CRITICAL_H

#include "show/chrome_track.h"
#include "show/buffer.h"

struct tg__overlay;
/* Asks for the path with what the options say. *out stays NULL when they do not say critical=. */
enum tg_err tg__overlay_new(struct tg__columns *t, const struct tg__show_options *o, struct tg__overlay **out,
                            struct tg_error *e);
void tg__overlay_free(struct tg__overlay *v); /* NULL is fine */

/* Leave out what is not asked for: with critical=only slices that are neither on the path, nor annotations, nor
 * Python frames. */
uint32_t tg__overlay_filter(const struct tg__overlay *v, struct tg__event *events, uint32_t count);
/* Behind the args of a slice, if it had some. */
void tg__overlay_args(const struct tg__overlay *v, struct tg__buffer *buffer, uint32_t slice, bool has_args);
/* The flows, two events each, with a comma in front. */
void tg__overlay_arrows(const struct tg__overlay *v, struct tg__chrome_tracks *tracks, struct tg__buffer *buffer);

#endif
