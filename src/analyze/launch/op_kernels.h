/* op_kernels: calls of operators with the device work they launched, grouped and shown the same way by any rules. */
#ifndef TG_OP_KERNELS_H
#define TG_OP_KERNELS_H

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
  int64_t unlinked, outside; /* device work without a host call; with one outside all operators */
};
/* The call with this key, made when new. NULL on no memory. */
struct tg__op_call *tg__op_calls_at(struct tg__op_calls *c, uint64_t key, uint32_t *number);
void tg__op_calls_free(struct tg__op_calls *c);

struct tg__op_kernels {
  const struct tg__columns *t;
  const struct tg__ask *a;
  enum { TG__BY_SEQUENCE, TG__BY_OP, TG__BY_CALL } by;
  struct tg__sequences sequences;
  struct tg__op_row *rows;
  size_t count, cap;
  int64_t unlinked, outside; /* of all ranks */
};
bool tg__op_kernels_group(struct tg__op_kernels *w, struct tg__op_calls *c, uint32_t rank); /* false on no memory */

/* tg__ask.policy of the question. */
struct tg__op_kernels_rules {
  bool (*add_ranks)(struct tg__op_kernels *w); /* groups the calls of each rank asked for; false on no memory */
  const char *unlinked;                        /* calls that are in no row because they have no link */
};

#endif
