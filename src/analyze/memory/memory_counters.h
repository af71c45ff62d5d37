/* memory_counters: what torch.cuda.memory_stats() counts, from the history of an allocator and the segments that it
 * ends with. */
#ifndef TG_MEMORY_COUNTERS_H
#define TG_MEMORY_COUNTERS_H

#include "analyze/memory/memory_history.h"

enum tg__alloc_metric {
  TG__COUNT_ALLOCATION,
  TG__COUNT_ALLOCATED_BYTES,
  TG__COUNT_ACTIVE,
  TG__COUNT_ACTIVE_BYTES,
  TG__COUNT_REQUESTED_BYTES,
  TG__COUNT_SEGMENT,
  TG__COUNT_RESERVED_BYTES,
  TG__COUNT_INACTIVE_SPLIT,
  TG__COUNT_INACTIVE_SPLIT_BYTES,
  TG__COUNT_POOLED, /* those before are kept by pool */
  TG__COUNT_OOMS = TG__COUNT_POOLED,
  TG__COUNT_DEVICE_ALLOC,
  TG__COUNT_DEVICE_FREE,
  TG__ALLOC_METRICS
};
enum tg__alloc_pool { TG__POOL_ALL, TG__POOL_LARGE, TG__POOL_SMALL, TG__ALLOC_POOLS };
struct tg__alloc_counter {
  int64_t current, peak, allocated, freed; /* TG_NULL_INT: not known */
};
struct tg__alloc_counters {
  struct tg__alloc_counter of[TG__ALLOC_METRICS][TG__ALLOC_POOLS];
};
/* Of one device of the history; false: memory ran out. */
bool tg__alloc_counters_of(const struct tg__columns *t, const struct tg__alloc_history *h, uint32_t device,
                           struct tg__alloc_counters *out);

#endif
