/* buckets: what a step sends, by its place in the step; for the questions buckets and bucket_sizes. */
#ifndef TG_BUCKETS_H
#define TG_BUCKETS_H

#include "analyze/analyze.h"

enum tg__send_phase { TG__SEND_FORWARD, TG__SEND_BACKWARD, TG__SEND_AFTER, TG__SEND_NO_BACKWARD };
struct tg__bucket {
  enum tg__send_phase phase; /* in which most of its steps ask for it */
  uint32_t kind;             /* of tg__buckets.strings */
  int64_t place; /* 1 = the first of its kind in the forward pass of a step, or behind the begin of the backward pass */
  /* sums over its steps; asked_ns and start_ns from the begin of the backward pass, to_end_ns to its end */
  int64_t steps, steps_after, sized, bytes, asked_ns, start_ns, to_end_ns, dur_ns, exposed_ns;
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

/* The settings that DistributedDataParallel stated when the recording stopped (wrappers.c), from the document. */
struct tg__reducer {
  double cap_mb, first_cap_mb; /* of DistributedDataParallel; NaN: not recorded */
  size_t count;                /* its buckets; 0: not recorded */
  double least, most;          /* bytes of the smallest and the largest */
  bool is_rebuilt;             /* in the order in which gradients become ready */
};
struct tg__reducer tg__reducer_of(const struct tg__columns *t, uint32_t rank);
void tg__note_wrappers(const struct tg__columns *t, uint32_t rank, struct tg_table *out);
/* bucket_sizes.c. The cap that ends a step earliest by the model of bucket_sizes, among a quarter, half, twice and four
 * times the recorded one, and its saving; false: there is no prediction, or none saves a fiftieth of the backward pass.
 * No memory sets *failed. */
bool tg__bucket_cap_to_try(const struct tg__columns *t, uint32_t rank, double *cap_mb, double *saving_ns, bool *failed);

#endif
