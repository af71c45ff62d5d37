/* kernel_class: what a kernel does, only by its name. */
#ifndef TG_KERNEL_CLASS_H
#define TG_KERNEL_CLASS_H

#include "analyze/analyze.h"

enum tg__kernel_class {
  TG__KERNEL_OTHER,
  TG__KERNEL_COLLECTIVE,
  TG__KERNEL_PRODUCT, /* of matrices, convolution, fused attention */
  TG__KERNEL_COMPILED,
  TG__KERNEL_OPTIMIZER,
  TG__KERNEL_TRANSPOSE,
  TG__KERNEL_SOFTMAX,     /* over scores of attention, as it may be */
  TG__KERNEL_LOG_SOFTMAX, /* of a loss */
  TG__KERNEL_DOUBLE,      /* a product in FP64 */
  TG__KERNEL_FOREACH,     /* one pass of an optimizer over a list of tensors */
  TG__KERNEL_INDEX,       /* reads or writes by index: gather, scatter, embedding */
  TG__KERNEL_SORT,        /* sorts, selects the largest, or scans for that */
  TG__KERNEL_FILL,
  TG__KERNEL_RANDOM,
  TG__KERNEL_CONCATENATION,
  TG__KERNEL_COPY,
  TG__KERNEL_CAST,               /* a copy to another type */
  TG__KERNEL_EMBEDDING_GRADIENT, /* of all rows of a table */
  TG__KERNEL_REDUCTION,          /* normalisations among them */
  TG__KERNEL_ELEMENTWISE,
};
enum tg__kernel_class tg__kernel_class(struct tg__str name);

#endif
