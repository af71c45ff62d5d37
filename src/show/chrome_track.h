/* show, private: under which pid and tid an event is written (chrome_track.c). */
#ifndef TG_SHOW_CHROME_TRACK_H
#define TG_SHOW_CHROME_TRACK_H

#include "show/parts.h"

enum { TG__CHROME_LANES = 1024 };
/* Lane of every slice of a track, from its first on; all are below TG__CHROME_LANES. NULL on no memory
 * (chrome_lanes.c). */
uint16_t *tg__chrome_lanes(const struct tg__columns *t, const struct tg__track *track);

struct tg__chrome_tracks;
/* merged: pids of different ranks must differ. keep: sub-lanes stay on their track. NULL on no memory. */
struct tg__chrome_tracks *tg__chrome_tracks_new(const struct tg__columns *t, bool merged, bool keep);
void tg__chrome_tracks_free(struct tg__chrome_tracks *c);

unsigned tg__chrome_slice_lane(const struct tg__chrome_tracks *c, uint32_t track, uint32_t slice);
unsigned tg__chrome_mark_lane(const struct tg__chrome_tracks *c, uint32_t mark);
struct tg__str tg__chrome_place(struct tg__chrome_tracks *c, uint32_t track, unsigned lane); /* ,"pid":1,"tid":2 */
int64_t tg__chrome_shift(const struct tg__chrome_tracks *c, uint32_t track); /* ns to add to its times */
/* Name the tids that were made up for sub-lanes, as metadata events. first: no event has been written yet. */
void tg__chrome_put_lane_names(const struct tg__chrome_tracks *c, struct tg__out *out, bool first);

#endif
