/* op_tensor: tensor cores by operator: which could use them, and how much of its device time did. */
#ifndef TG_OP_TENSOR_H
#define TG_OP_TENSOR_H

#include "analyze/host/op_tree.h"
#include "analyze/device/tensor_cores.h"

struct tg__op_tensor {         /* by node of the tree; all NULL where the trace has no kernels */
  int64_t *self_ns, *total_ns; /* kernels that use tensor cores: launched by itself; by children too */
  bool *eligible;              /* its name says so, a child is, or it launched such a kernel */
  bool of_first_call;          /* a row is what its first call is */
};
/* TG_OK or TG_MEMORY; free *out either way. */
enum tg_err tg__op_tensor_sum(const struct tg__columns *t, const struct tg__ask *a, const struct tg__op_tree *tree,
                              struct tg__op_tensor *out);
void tg__op_tensor_free(struct tg__op_tensor *o);

#endif
