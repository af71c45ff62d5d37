/* modules: which module each operator, launch and backward node of a trace belongs to. Used by the question modules. */
#ifndef TG_MODULES_H
#define TG_MODULES_H

#include "analyze/host/frames.h"
#include "analyze/host/op_tree.h"

/* A place in the tree of modules is a path: the rank, then the modules from the outermost to the innermost. 0 = in
 * none. Work inside a node of autograd counts as backward, also a forward that is computed again there: it has
 * the place it had at first. */
struct tg__modules {
  const struct tg__columns *t;
  const struct tg__op_tree *tree;
  struct tg__paths paths;
  struct tg__schema_mask module_id, hierarchy, captured;
  struct tg__map captured_place; /* rank << 32 | text of the modules that captured a node of a graph → place */
  uint32_t *place;               /* by node: where it belongs */
  bool *in_backward;             /* by node: it does so by way of autograd */
  uint32_t *around; /* by slice: node of the innermost module frame around it, itself when it is one; TG_NONE */
  uint32_t *call;   /* by node of compiled code: its number among calls of its name; NULL: no compiled code is known */
  struct tg__map calls;        /* parent << 32 | name → how many those are */
  struct tg__map kernel_place; /* compiled kernel on a device → where it belongs */
  bool any;                    /* some frame or operator names a module */
};
/* Might some event name a module? Seen without looking at events. */
enum tg_err tg__modules_have_names(const struct tg__columns *t, bool *any);
/* TG_OK or TG_MEMORY; close it either way. */
enum tg_err tg__modules_open(struct tg__modules *m, const struct tg__columns *t, struct tg__rank_range range,
                             const struct tg__op_tree *tree);
void tg__modules_close(struct tg__modules *m);
/* "Linear" of "Linear_12", and of "up(Linear)" with the attribute "up"; else it is empty. */
struct tg__str tg__module_class(struct tg__str module, struct tg__str *attribute);
/* Append a place without its rank: "Net_0 / up(Linear)"; nothing for 0. */
void tg__modules_write(const struct tg__modules *m, uint32_t place, struct tg__out *out);
bool tg__modules_is_frame(const struct tg__modules *m, uint32_t slice); /* a call of a module */
/* Where device work belongs. *backward: it does so by way of autograd. */
uint32_t tg__modules_of_device_work(const struct tg__modules *m, uint32_t slice, bool *backward);

#endif
