/* kernel_annotations: pieces of device work with their annotation, shown the same way by any rules. */
#ifndef TG_KERNEL_ANNOTATIONS_H
#define TG_KERNEL_ANNOTATIONS_H

#include "analyze/analyze.h"

struct tg__piece { /* of device work */
  uint32_t slice;
  uint32_t label;           /* slice of the annotation, TG_NONE */
  int64_t start_ns, end_ns; /* of an empty one that counts as lying at its start: a nanosecond later */
  int64_t dur_ns;
};
struct tg__label {
  uint32_t slice;
  int64_t start_ns, end_ns;
};
/* Assigns to each piece of [0, count), ordered by start, the shortest label that shares time with it;
 * of equally long ones the first of the list. Near-linear. false on no memory. */
bool tg__label_pieces(struct tg__piece *pieces, size_t count, const struct tg__label *labels, size_t label_count);

struct tg__piece_list {
  struct tg__piece *items;
  size_t count, cap;
};

struct tg__annotator {
  /* Adds the pieces of a rank with their labels. *any: set where there are annotations. false on no memory. */
  bool (*annotate)(void *ctx, uint32_t rank, struct tg__piece_list *out, bool *any);
  void *ctx;
  const char *missing; /* what to say where there are none */
};
#define TG__NO_DEVICE_ANNOTATIONS                                                                                      \
  "the trace holds no user annotation on a device: wrap parts of the program in "                                      \
  "torch.profiler.record_function(\"name\") and record CPU and CUDA together; side=cpu takes those of the CPU"
/* The answer, with pieces as the annotator finds them. */
enum tg_err tg__kernel_annotations(const struct tg__columns *t, const struct tg__ask *a,
                                   const struct tg__annotator *annotator, struct tg_table *out, struct tg_error *e);

#endif
