/* show, private: what Kineto counts up while it writes, for ranks that our own recorder made (chrome_recorded.c):
 * ids of events and of Python frames, flows from forward to backward and from launches to devices. A recording does not
 * store them, as they follow from the order of its events. */
#ifndef TG_SHOW_CHROME_RECORDED_H
#define TG_SHOW_CHROME_RECORDED_H

#include "show/parts.h"
#include "show/buffer.h"

struct tg__recorded;
bool tg__recorded_any(const struct tg__columns *t); /* is any rank a recording? */
/* For a document of these events. NULL on no memory. */
struct tg__recorded *tg__recorded_new(const struct tg__columns *t, const struct tg__event *events, uint32_t count);
void tg__recorded_free(struct tg__recorded *r);

/* Add to the args object that was just written, when there is one. slice TG_NONE: a mark. */
void tg__recorded_args(struct tg__recorded *r, struct tg__buffer *buffer, uint32_t slice, enum tg__class cls);
/* The flow that begins or ends at a slice: from forward to backward, or from a launch to what a device did. */
struct tg__flow {
  uint32_t id; /* 0 = none */
  bool is_end, is_launch;
};
struct tg__flow tg__recorded_flow(const struct tg__recorded *r, uint32_t slice);

#endif
