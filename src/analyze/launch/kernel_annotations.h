/* kernel_annotations.h: what the exact rules and those of HTA share. */
#ifndef TG_KERNEL_ANNOTATIONS_H
#define TG_KERNEL_ANNOTATIONS_H

#include "analyze/compat/hta/hta_rows.h"

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
/* Gives each piece of [0, count), which are in order of their starts, the shortest label that shares time with it;
 * of equally long ones the first of the list. Near-linear. false on no memory. */
bool tg__label_pieces(struct tg__piece *pieces, size_t count, const struct tg__label *labels, size_t label_count);

struct tg__piece_list {
  struct tg__piece *items;
  size_t count, cap;
};
/* kernel_annotations_hta.c: the pieces of a rank in the order of HTA's rows. *any: there are annotations of the device.
 */
bool tg__annotate_hta(const struct tg__hta *h, uint32_t rank, struct tg__piece_list *out, bool *any);

#endif
