/* op_work: the work of the operators of a trace, each counted once. Among an operator and those it calls, the outermost
 * with known work counts for all of them: its time is theirs, and nothing inside it counts again. Calls with the
 * same texts are computed once. */
#ifndef TG_OP_WORK_H
#define TG_OP_WORK_H

#include "analyze/host/op_tree.h"
#include "analyze/work/work.h"

struct tg__op_work {
  const struct tg__op_tree *tree;
  uint32_t *work_of;      /* by node: index into works; TG_NONE: not known, or inside one that counts */
  bool *inside;           /* by node: a node around it counts */
  bool *silent;           /* by node: a product, convolution or attention that does not say what it was given */
  struct tg__work *works; /* one per distinct call */
  size_t count, cap;
};
/* Does any call say what it was given? TG_MEMORY otherwise. */
enum tg_err tg__op_work_has_shapes(const struct tg__columns *t, bool *out);
/* Free *out either way. */
enum tg_err tg__op_work_build(const struct tg__columns *t, struct tg__rank_range range, const struct tg__op_tree *tree,
                              struct tg__op_work *out);
void tg__op_work_free(struct tg__op_work *w);

#endif
