/* queue_changes: each moment at which work was launched onto a stream or began there, in order. */
#ifndef TG_QUEUE_CHANGES_H
#define TG_QUEUE_CHANGES_H

#include "analyze/device/device_rows.h"

struct tg__queue_stream { /* a run of the changes */
  int64_t device, stream;
  size_t first, count;
  bool overtakes; /* some work begins before what was launched earlier */
};
/* A value a change in each list. At one instant launches come first: what begins had been launched. */
struct tg__queue_changes {
  struct tg__queue_stream *streams;
  size_t stream_count, stream_cap, count;
  uint32_t *event; /* what began, or the call that launched it: its slice, or its place in the file */
  uint32_t *track; /* of the work */
  int32_t *length; /* of the queue afterwards */
  int64_t *ns;     /* when, where events are places in the file; NULL: when the slice begins */
};
static inline int64_t tg__queue_ns(const struct tg__queue_changes *q, const struct tg__columns *t, size_t change) {
  return q->ns ? q->ns[change] : t->slices.start_ns[q->event[change]];
}

/* Of the rank that is loaded. Exact ones of all steps are kept with the trace; others are put into *own, to be freed
 * after the last rank. NULL on no memory. */
const struct tg__queue_changes *tg__queue_changes(struct tg__device_rows *d, struct tg__queue_changes *own);
void tg__queue_changes_free(struct tg__queue_changes *c);

#endif
