/* tensor_cores: which kernels use tensor cores, and which operators could. Told by names alone: no trace states it. */
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

/* The same once per distinct name. plugin: by the lists of the TensorBoard plugin, which know no Hopper and no
 * "unknown". */
struct tg__tensor_names {
  const struct tg__columns *t;
  bool plugin;
  uint8_t *units, *ops; /* by string id; 0 = not looked at yet */
};
bool tg__tensor_names_open(struct tg__tensor_names *n, const struct tg__columns *t,
                           bool plugin); /* false on no memory; close either way */
void tg__tensor_names_close(struct tg__tensor_names *n);
enum tg__matrix_unit tg__tensor_unit(struct tg__tensor_names *n, uint32_t kernel_name);
bool tg__tensor_op(struct tg__tensor_names *n, uint32_t op_name);
/* The argument tensor=exact|plugin that the questions about tensor cores share. */
enum tg_err tg__tensor_rules(const struct tg__ask *a, bool *plugin, struct tg_error *e);

#endif
