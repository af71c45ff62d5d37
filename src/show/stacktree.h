/* show, private: the call stacks of a trace as one tree, for the flame graph formats (stacktree.c). */
#ifndef TG_SHOW_STACKTREE_H
#define TG_SHOW_STACKTREE_H

#include "show/parts.h"

enum tg__stack_metric { TG__STACK_CPU, TG__STACK_DEVICE };

struct tg__stack_node {
  uint32_t parent; /* smaller than its own number; TG_NONE at the roots */
  uint32_t name;   /* string id */
  int64_t self_ns;
};
struct tg__stacktree {
  struct tg__stack_node *nodes;
  size_t count, cap;
  struct tg__map index; /* parent and name → node */
  uint32_t *of_slice;   /* node of every slice that is a frame, TG_NONE */
  int64_t *self_ns;     /* of every slice that is a frame, 0 */
};
/* Frames are what runs on CPU threads: Python functions, operators, annotations (but for the steps, which would
 * split every stack), runtime calls. With TG__STACK_DEVICE device work hangs below the call that launched it, and only
 * device work has time. TG_NO_DATA: there is no device work, so that a file of it would be empty. */
enum tg_err tg__stacktree_build(const struct tg__columns *t, const struct tg__ask *selection,
                                enum tg__stack_metric metric, struct tg__stacktree *out, struct tg_error *e);
void tg__stacktree_free(struct tg__stacktree *s);
/* metric=cpu (the default) or metric=device. */
enum tg_err tg__stack_metric(const struct tg__show_options *o, enum tg__stack_metric *metric, struct tg_error *e);

#endif
