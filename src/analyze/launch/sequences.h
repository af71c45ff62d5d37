/* sequences.h: patterns of kernels below operators of a name, for the question sequences and for exports that mark
 * them. */
#ifndef TG_SEQUENCES_H
#define TG_SEQUENCES_H

#include "analyze/launch/sequence.h"

struct tg__pattern {
  uint32_t rank, name, sequence, first; /* name: string id of the operator; first: slice of its earliest call */
  int64_t count, kernel_ns, op_ns;
};
struct tg__patterns {
  const struct tg__columns *t;
  const char *op; /* "" = every operator */
  size_t min_length;
  bool any;           /* something of that name was found */
  uint8_t *is_wanted; /* by string id: 0 not looked at, 1 no, 2 yes */
  uint32_t *root;     /* by slice: the operator of that name it lies below, or itself; TG_NONE */
  uint32_t *pattern;  /* by slice that is such an operator: its pattern; TG_NONE: fewer than min_length kernels */
  struct tg__sequences sequences;
  struct tg__pattern *items;
  size_t count, cap;
};
struct tg__pattern_owner {
  uint32_t slice;
  int64_t dur_ns;
};
/* Where the device work below operators comes from. */
struct tg__pattern_source {
  /* Adds the work of a rank; an owner is an operator, in a numbering of the source. false on no memory. */
  bool (*work)(const void *ctx, struct tg__patterns *p, uint32_t rank, struct tg__launched_list *out);
  struct tg__pattern_owner (*owner)(const void *ctx, const struct tg__patterns *p, uint32_t rank, uint32_t owner);
  const void *ctx;
};
/* TG_OK or TG_MEMORY; free it either way. */
enum tg_err tg__patterns_find(struct tg__patterns *p, const struct tg__columns *t, const struct tg__ask *a,
                              const char *op, size_t min_length, const struct tg__pattern_source *source);
void tg__patterns_free(struct tg__patterns *p);
/* The pattern a slice lies in. TG_NONE. */
static inline uint32_t tg__pattern_around(const struct tg__patterns *p, uint32_t slice) {
  return p->root[slice] == TG_NONE ? TG_NONE : p->pattern[p->root[slice]];
}
bool tg__patterns_wants(struct tg__patterns *p, uint32_t string_id);
/* The numbers of the `most` most frequent of each rank, in the order of the question; order has room for all. How
 * many there are; SIZE_MAX on no memory. */
size_t tg__patterns_top(const struct tg__patterns *p, size_t most, uint32_t *order);
/* The same of an order that is made already. */
size_t tg__patterns_cut(const struct tg__patterns *p, size_t most, uint32_t *order);
/* op|kernel|kernel…. */
void tg__pattern_text(const struct tg__patterns *p, const struct tg__pattern *item, struct tg__out *out);

/* By the exact rules. */
struct tg__pattern_source tg__patterns_source(const struct tg__ask *a);
/* The question: patterns from the source, the `top_k` first of each rank by `order`, which is called as
 * tg__patterns_top. */
typedef size_t tg__pattern_order(const struct tg__patterns *p, size_t most, uint32_t *order);
enum tg_err tg__sequences(const struct tg__columns *t, const struct tg__ask *a, const struct tg__pattern_source *source,
                          tg__pattern_order *order, struct tg_table *out, struct tg_error *e);

#endif
