/* annotations: sums over the annotations of a name, of a rank, on a side: what the question shows by any rules. */
#ifndef TG_ANNOTATIONS_H
#define TG_ANNOTATIONS_H

#include "analyze/analyze.h"

struct tg__annotation {
  uint32_t name, rank; /* string id; index into trace->ranks */
  bool is_gpu;
  struct tg__stats stats; /* of the durations */
  int64_t device_ns;      /* work launched inside */
};
struct tg__annotations {
  struct tg__annotation *items;
  size_t count, cap;
  struct tg__map index; /* name, side and rank → item */
};
/* The one with these properties, made when new. NULL on no memory. */
struct tg__annotation *tg__annotation_at(struct tg__annotations *s, uint32_t name, uint32_t rank, bool is_gpu);
/* Rows by rank, the CPU first, largest total first; a note when there are none. false on no memory. */
bool tg__annotations_put(const struct tg__annotations *s, const struct tg__columns *t, bool knows_device,
                         struct tg_table *out);
void tg__annotations_free(struct tg__annotations *s);

#endif
