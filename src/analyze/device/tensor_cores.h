/* tensor_cores: which kernels use tensor cores, and which operators could. Derived from names: no trace states it. */
#ifndef TG_TENSOR_CORES_H
#define TG_TENSOR_CORES_H

#include "analyze/analyze.h"

enum tg__matrix_unit {
  TG__UNIT_NONE = 1, /* multiplies no matrices */
  TG__UNIT_PLAIN,    /* multiplies them with ordinary instructions */
  TG__UNIT_TENSOR_CORE,
  TG__UNIT_UNKNOWN, /* multiplies them, and its name does not say with what; never a ground for advice */
};
enum tg__matrix_unit tg__matrix_unit(struct tg__str kernel);
/* The type that a matrix kernel multiplies, by its name: 16 bits or fewer, 64 bits or complex, else 32 bits. */
enum tg__matrix_type { TG__MATRIX_SINGLE, TG__MATRIX_NARROW, TG__MATRIX_WIDE };
enum tg__matrix_type tg__matrix_type(struct tg__str kernel);
bool tg__is_convolution_kernel(struct tg__str kernel); /* of a kernel that multiplies */

/* What the rules decide: tg__ask.policy of the questions about tensor cores. */
struct tg__tensor_rules {
  enum tg__matrix_unit (*unit)(struct tg__str kernel);
  bool (*op)(struct tg__str op);
  bool launched_alone; /* device_metrics: only kernels that an operator launched count */
  bool by_op_name; /* kernels: only the name decides whether an operator suits, else also where its kernel uses them */
  bool of_first_call; /* ops: a row is what its first call is */
};
extern const struct tg__tensor_rules tg__tensor_exact;
const struct tg__tensor_rules *tg__tensor_rules_of(const struct tg__ask *a);

/* The same once per distinct name. */
struct tg__tensor_names {
  const struct tg__columns *t;
  const struct tg__tensor_rules *rules;
  uint8_t *units, *ops; /* by string id; 0 = not looked at yet */
};
/* false on no memory; close either way. */
bool tg__tensor_names_open(struct tg__tensor_names *n, const struct tg__columns *t,
                           const struct tg__tensor_rules *rules);
void tg__tensor_names_close(struct tg__tensor_names *n);
enum tg__matrix_unit tg__tensor_unit(struct tg__tensor_names *n, uint32_t kernel_name);
bool tg__tensor_op(struct tg__tensor_names *n, uint32_t op_name);

#endif
