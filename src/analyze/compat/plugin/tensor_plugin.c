/* Tensor cores by the name lists of the TensorBoard plugin, which know no Hopper and no "unknown". */
#include "analyze/compat/compat.h"
#include "analyze/device/tensor_cores.h"

static enum tg__matrix_unit unit_of(struct tg__str kernel) {
#define KERNEL(part)                                                                                                   \
  if (tg__str_contains(kernel, part)) return TG__UNIT_TENSOR_CORE;
#include "analyze/compat/plugin/plugin_names.def"
  return TG__UNIT_NONE;
}

static bool is_listed_op(struct tg__str op) {
#define OP(op_name)                                                                                                    \
  if (tg__str_eq(op, TG_STR(op_name))) return true;
#include "analyze/compat/plugin/plugin_names.def"
  return false;
}

const struct tg__tensor_rules tg__tensor_plugin = {
    .unit = unit_of, .op = is_listed_op, .launched_alone = true, .by_op_name = true, .of_first_call = true};
