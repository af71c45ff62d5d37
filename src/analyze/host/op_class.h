/* op_class: which kind of work an operator or a kernel does: convolution, norm, matrix product, … See
 * op_classes.def. */
#ifndef TG_OP_CLASS_H
#define TG_OP_CLASS_H

#include "analyze/host/op_tree.h"

enum tg__op_class {
#define CLASS(id, name, meaning, claims) TG__OPS_##id,
#include "analyze/host/op_classes.def"
  TG__OPS_COUNT
};
const char *tg__op_class_name(enum tg__op_class c);

struct tg__op_classes {
  const struct tg__columns *t;
  const struct tg__op_tree *tree;
  uint8_t *of_node;         /* enum tg__op_class by node of the tree */
  uint8_t *names, *kernels; /* class + 1 by string id, 0 = not looked at yet */
  struct tg__names kinds;
};
/* Classes of all operators of the tree. TG_OK or TG_MEMORY; close it either way. */
enum tg_err tg__op_classes_open(struct tg__op_classes *c, const struct tg__columns *t, struct tg__rank_range range,
                                const struct tg__op_tree *tree);
void tg__op_classes_close(struct tg__op_classes *c);
enum tg__op_class tg__op_class_of_device_work(struct tg__op_classes *c, uint32_t slice);

#endif
