/* op_flops: floating-point operations of the calls of a trace. Calls with the same texts are computed once. */
#ifndef TG_OP_FLOPS_H
#define TG_OP_FLOPS_H

#include "analyze/host/call_names.h"

struct tg__op_flops {
  const struct tg__columns *t;
  struct tg__schema_mask dims, dims_old;
  uint8_t *formula;            /* by string id: 0 not looked up, 1 none, 2 has one */
  struct tg__map of;           /* call signature → index into values */
  struct tg__paths signatures; /* (name, dims, concrete inputs) */
  int64_t *values;
  size_t count, cap;
};
/* false on no memory; close it either way. */
bool tg__op_flops_open(struct tg__op_flops *f, const struct tg__columns *t);
void tg__op_flops_close(struct tg__op_flops *f);
/* -1: not known. `op`: the name of the slice, without overload. After a failure signatures.failed is set. */
int64_t tg__op_flops_of(struct tg__op_flops *f, uint32_t slice, struct tg__str op);
static inline bool tg__op_flops_any(const struct tg__op_flops *f) { return f->dims.any || f->dims_old.any; }
static inline bool tg__op_flops_none(const struct tg__op_flops *f, uint32_t name) {
  return f->formula[name] == 1;
} /* of a name asked for */

#endif
