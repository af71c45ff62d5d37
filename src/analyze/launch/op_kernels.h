/* op_kernels.h: what the exact rules and those of HTA share. */
#ifndef TG_OP_KERNELS_H
#define TG_OP_KERNELS_H

#include "analyze/compat/hta/hta_rows.h"
#include "analyze/launch/sequence.h"

/* One call of an operator that launched device work: an owner of the list. */
struct tg__op_call {
  uint32_t op; /* slice */
  int64_t start_ns, dur_ns;
};
struct tg__op_calls {
  struct tg__launched_list work;
  struct tg__op_call *calls;
  size_t count, cap;
  struct tg__map of;         /* the caller's key → call */
  int64_t unlinked, outside; /* device work without a host call (HTA: launches without exactly one kernel); with one
                                outside all operators */
};
/* The call with this key, made when new. NULL on no memory. */
struct tg__op_call *tg__op_calls_at(struct tg__op_calls *c, uint64_t key, uint32_t *number);

/* op_kernels_hta.c: adds the launches of one rank; what is there already stays. false on no memory. */
bool tg__op_calls_of_hta(const struct tg__hta *h, uint32_t rank, struct tg__op_calls *c);

#endif
