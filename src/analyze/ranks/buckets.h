/* buckets: what a step sends, by its place in the step; for the questions buckets and bucket_sizes. */
#ifndef TG_BUCKETS_H
#define TG_BUCKETS_H

#include "analyze/analyze.h"

enum tg__send_phase { TG__SEND_FORWARD, TG__SEND_BACKWARD, TG__SEND_AFTER, TG__SEND_NO_BACKWARD };
struct tg__bucket {
  enum tg__send_phase phase;
  uint32_t kind; /* of tg__buckets.strings */
  int64_t place; /* 1 = the first of its kind in this phase of a step */
  /* sums over its steps; asked_ns and start_ns from the begin of the backward pass, to_end_ns to its end */
  int64_t steps, sized, bytes, asked_ns, start_ns, to_end_ns, dur_ns, exposed_ns;
};
struct tg__buckets {
  struct tg__bucket *items; /* in the order in which a step asks for them */
  size_t count;
  const struct tg__strings *strings; /* of the trace */
};
/* false on no memory; to be freed either way. Needs TG__COL_ALL. */
bool tg__buckets_of(const struct tg__columns *t, uint32_t rank, struct tg__buckets *out);
void tg__buckets_free(struct tg__buckets *b);
/* Is it an all_reduce with a known size, in this phase? In the backward pass the reducer of DistributedDataParallel
 * asks for them. */
bool tg__bucket_is_all_reduce(const struct tg__buckets *b, size_t i, enum tg__send_phase phase);

#endif
