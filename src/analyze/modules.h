/* modules: which module each operator, launch and backward node of a trace belongs to. Used by the question modules. */
#ifndef TG_MODULES_H
#define TG_MODULES_H

#include "analyze/frames.h"
#include "analyze/op_tree.h"

/* A place in the tree of modules is a path: the rank, then the modules from the outermost to the innermost. 0 = in none. */
struct tg__modules {
  const struct tg_trace *t;
  const struct tg__op_tree *tree;
  struct tg__paths paths;
  struct tg__schema_mask module_id, hierarchy;
  uint32_t *at_slice; /* by slice: place of the innermost module frame around it, its own when it is one */
  uint32_t *forward;  /* by node: the place it runs in */
  uint32_t *backward; /* by node: of what autograd runs elsewhere, the place of the forward operator */
  bool any;           /* some frame or operator names a module */
};
/* TG_OK or TG_MEMORY; close it either way. */
enum tg_err tg__modules_open(struct tg__modules *m, const struct tg_trace *t, const struct tg__op_tree *tree);
void tg__modules_close(struct tg__modules *m);
bool tg__modules_is_frame(const struct tg__modules *m, uint32_t slice); /* a call of a module */
/* Where device work belongs. *backward: it does so by way of autograd. */
uint32_t tg__modules_of_device_work(const struct tg__modules *m, uint32_t slice, bool *backward);

#endif
