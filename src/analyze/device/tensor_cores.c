/* Which kernels use tensor cores, and which operators could. */
#include "analyze/device/tensor_cores.h"

static bool is_for_cores_only(struct tg__str kernel) {
#define CORES_ONLY(part)                                                                                               \
  if (tg__str_contains(kernel, part)) return true;
#include "analyze/device/matrix_names.def"
  return false;
}

enum tg__matrix_unit tg__matrix_unit(struct tg__str kernel) {
#define PLAIN(part)                                                                                                    \
  if (tg__str_contains(kernel, part)) return TG__UNIT_PLAIN;
#include "analyze/device/matrix_names.def"
#define TENSOR(part)                                                                                                   \
  if (tg__str_contains(kernel, part)) return TG__UNIT_TENSOR_CORE;
#include "analyze/device/matrix_names.def"
#define REST(part)                                                                                                     \
  if (tg__str_contains(kernel, part)) return TG__UNIT_PLAIN;
#include "analyze/device/matrix_names.def"
#define NEITHER(part)                                                                                                  \
  if (tg__str_contains(kernel, part)) return TG__UNIT_NONE;
#include "analyze/device/matrix_names.def"
#define UNSURE(part)                                                                                                   \
  if (tg__str_contains(kernel, part)) return is_for_cores_only(kernel) ? TG__UNIT_TENSOR_CORE : TG__UNIT_UNKNOWN;
#include "analyze/device/matrix_names.def"
  return TG__UNIT_NONE;
}

enum tg__matrix_type tg__matrix_type(struct tg__str kernel) {
#define WIDE(part)                                                                                                     \
  if (tg__str_contains(kernel, part)) return TG__MATRIX_WIDE;
#include "analyze/device/matrix_names.def"
#define NARROW(part)                                                                                                   \
  if (tg__str_contains(kernel, part)) return TG__MATRIX_NARROW;
#include "analyze/device/matrix_names.def"
  return TG__MATRIX_SINGLE;
}

bool tg__is_convolution_kernel(struct tg__str kernel) {
#define CONVOLUTION(part)                                                                                              \
  if (tg__str_contains(kernel, part)) return true;
#include "analyze/device/matrix_names.def"
  return false;
}

/* Its work suits tensor cores. */
static bool is_matrix_op(struct tg__str op) {
  if (!tg__str_has_prefix(op, "aten::")) return false;
  const struct tg__str name = {op.ptr + 6, op.len - 6};
#define OP(op_name)                                                                                                    \
  if (tg__str_eq(name, TG_STR(op_name))) return true;
#include "analyze/device/matrix_names.def"
  return false;
}

const struct tg__tensor_rules tg__tensor_exact = {.unit = tg__matrix_unit, .op = is_matrix_op};

const struct tg__tensor_rules *tg__tensor_rules_of(const struct tg__ask *a) {
  return a->policy ? a->policy : &tg__tensor_exact;
}

bool tg__tensor_names_open(struct tg__tensor_names *n, const struct tg__columns *t,
                           const struct tg__tensor_rules *rules) {
  const size_t strings = (size_t)tg__strings_count(t->strings) + 1;
  *n = (struct tg__tensor_names){.t = t, .rules = rules, .units = tg__alloc(strings), .ops = tg__alloc(strings)};
  return n->units && n->ops;
}

void tg__tensor_names_close(struct tg__tensor_names *n) {
  tg__free(n->units);
  tg__free(n->ops);
  *n = (struct tg__tensor_names){0};
}

enum tg__matrix_unit tg__tensor_unit(struct tg__tensor_names *n, uint32_t kernel_name) {
  if (!n->units[kernel_name]) {
    const struct tg__str s = tg__name(n->t, kernel_name);
    n->units[kernel_name] = (uint8_t)(n->rules->unit(s));
  }
  return (enum tg__matrix_unit)n->units[kernel_name];
}

bool tg__tensor_op(struct tg__tensor_names *n, uint32_t op_name) {
  if (!n->ops[op_name]) {
    const struct tg__str s = tg__name(n->t, op_name);
    n->ops[op_name] = n->rules->op(s) ? 2 : 1;
  }
  return n->ops[op_name] == 2;
}
