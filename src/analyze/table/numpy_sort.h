/* numpy_sort: numpy's unstable sort. Rules of HolisticTraceAnalysis need it, where the order of equal keys shows in
 * its numbers (defect D11). */
#ifndef TG_NUMPY_SORT_H
#define TG_NUMPY_SORT_H

#include "base/base.h"

/* order[0..n) becomes the positions 0..n-1 by key, equal keys in the order in which numpy's default argsort (1.24,
 * which pandas sort_values(by=one column) uses) leaves them: a median-of-three quicksort that ends in insertion
 * sorts, so not a stable one. */
void tg__numpy_argsort(const int64_t *keys, uint32_t *order, size_t n);

#endif
