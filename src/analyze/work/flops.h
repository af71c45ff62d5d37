/* flops: floating-point operations of one call, from the shapes it was recorded with. */
#ifndef TG_FLOPS_H
#define TG_FLOPS_H

#include "base/base.h"

bool tg__flops_has_formula(struct tg__str op);
/* dims: text of "Input Dims"; concrete: text of "Concrete Inputs", empty when absent. -1: these inputs do not say.
 * Any bytes may be given. */
int64_t tg__flops(struct tg__str op, struct tg__str dims, struct tg__str concrete);

#endif
