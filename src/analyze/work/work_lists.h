/* work_lists: the work of operators on lists of tensors: joining them, and what optimizers do to all parameters at
 * once (aten::_foreach_…, aten::_fused_…). The types of tensors in lists are not recorded; they are taken from the
 * single tensors of the same shape in the trace, where those are all of one floating-point type. Definitions:
 * docs/metrics.md. */
#ifndef TG_WORK_LISTS_H
#define TG_WORK_LISTS_H

#include "analyze/work/work.h"

struct tg__list_types {
  struct tg__map of; /* hash of a shape → bytes of an element and precision, or that single tensors differ */
};
/* What the single tensors among the inputs of a call state; false on no memory. */
bool tg__list_types_learn(struct tg__list_types *l, struct tg__str dims, struct tg__str types);
void tg__list_types_free(struct tg__list_types *l);

bool tg__work_takes_lists(struct tg__str op);
/* Of kind TG__WORK_UNKNOWN where the lists are not recorded: torch leaves out those of more than 30 tensors. */
struct tg__work tg__work_of_lists(const struct tg__list_types *l, struct tg__str op, struct tg__str dims);

#endif
