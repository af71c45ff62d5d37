/* show, private: the two halves of the Perfetto writer: perfetto.c has the events, perfetto_tracks.c the tracks. */
#ifndef TG_SHOW_PERFETTO_H
#define TG_SHOW_PERFETTO_H

#include "show/parts.h"
#include "show/proto.h"

enum { TG__PACKET_TRACK_EVENT = 11, TG__PACKET_TRACK_DESCRIPTOR = 60 };

struct tg__perfetto {
  const struct tg__columns *t;
  const struct tg__ask *selection;
  struct tg__out *out;
  struct tg__out packet, event, inner, interned; /* messages being built */
  uint8_t *known;                                /* by string id: which interning tables have it */
  struct tg__map processes, counters;            /* hash of identity → uuid */
  uint64_t *uuids;                               /* by track: of its first lane, 0 = not yet */
  uint32_t last_uuid;
  int64_t shift_ns;                 /* makes every timestamp positive, as the format requires */
  uint32_t *effects, *first_effect; /* slices a slice caused: effects[first_effect[i] .. first_effect[i + 1]) */
};
void tg__perfetto_end_packet(struct tg__perfetto *p); /* write what p->packet holds */

/* Each writes descriptors that are still missing and returns a uuid. */
uint64_t tg__perfetto_track(struct tg__perfetto *p, uint32_t track, unsigned lane); /* a new one on every call */
uint64_t tg__perfetto_counter(struct tg__perfetto *p, uint32_t mark, uint32_t key);

/* A string field; bytes that are not UTF-8 become U+FFFD. */
void tg__proto_utf8(struct tg__out *o, unsigned field, struct tg__str s);

#endif
