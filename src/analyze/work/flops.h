/* flops: floating-point operations of one call, from the shapes it was recorded with. */
#ifndef TG_FLOPS_H
#define TG_FLOPS_H

#include "analyze/analyze.h"

bool tg__flops_has_formula(struct tg__str op);
/* dims: text of "Input Dims"; concrete: text of "Concrete Inputs", empty when absent. -1: these inputs do not say.
 * Any bytes may be given. */
int64_t tg__flops(struct tg__str op, struct tg__str dims, struct tg__str concrete);

/* mfu.c: what share of its peak the device of a rank, or its CPU, uses in the steps, as the question mfu says; `of`:
 * the device and where its peak is from. false where the trace does not say, or the figure is above 100 % and so wrong;
 * `of` is then empty, or says why a measured peak is not taken. */
bool tg__mfu_of(const struct tg__columns *t, uint32_t rank, double *pct, char *of, size_t size);

#endif
