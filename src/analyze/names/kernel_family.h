/* kernel_family: the name of a kernel without what a compiler or a tuner chose. */
#ifndef TG_KERNEL_FAMILY_H
#define TG_KERNEL_FAMILY_H

#include "analyze/analyze.h"

/* Template arguments, parameters and a leading return type "void" go, every number becomes one #, and so does a run
 * of numbers joined by x (128x64): a kernel that was renamed with its tile keeps its family. Appended to `out`; a
 * name with nothing left is kept whole. */
void tg__kernel_family(struct tg__str name, struct tg__out *out);

/* The short name of HolisticTraceAnalysis: what stands in closed brackets and -> go, then all up to the last
 * blank; names of copies and names without brackets stay. Appended to `out`. */
void tg__hta_short_name(struct tg__str name, struct tg__out *out);

#endif
