/* op_group: by what calls of one operator are grouped: shapes, overload, stack, module, step, or several of them. */
#ifndef TG_OP_GROUP_H
#define TG_OP_GROUP_H

#include "analyze/host/frames.h"
#include "analyze/host/op_tree.h"

enum tg__group_part {
  TG__GROUP_SHAPE,
  TG__GROUP_OVERLOAD,
  TG__GROUP_STACK,
  TG__GROUP_MODULE,
  TG__GROUP_STEP,
  TG__GROUP_PARTS
};

struct tg__op_group {
  const struct tg__columns *t;
  struct tg__rank_range range;
  const struct tg__op_tree *tree;
  enum tg__group_part parts[TG__GROUP_PARTS]; /* in the order asked for */
  unsigned count;                             /* 0: only by name */
  uint32_t stack_limit;                       /* frames */
  bool found[TG__GROUP_PARTS];                /* some operator had this */
  struct tg__schema_mask call_stack, hierarchy, module_id;
  struct tg__paths keys;          /* one label per part: the group itself */
  struct tg__paths stacks;        /* frames, innermost first */
  struct tg__paths modules;       /* outermost first */
  uint32_t *around;               /* tg__frames_around; NULL unless stack or module is asked for */
  uint32_t *stack_of, *module_of; /* by Python slice: path of the stack it is on top of, of the modules it is in */
  struct tg__call_names *names;   /* NULL, or: shapes, overloads and stacks as in torch's own tables */
  struct tg__schema_mask forward_thread, called_from;
  struct tg__map lines;        /* (frame's name, CallFrom) → label of the frame with the line that was run */
  struct tg__map plain_shapes; /* string id of Input Dims → label in names->texts */
};
/* by: as typed, e.g. "name+shape". TG_USAGE with the choices named when it makes no sense. *g is to be closed either
 * way. */
enum tg_err tg__op_group_open(struct tg__op_group *g, const struct tg__columns *t, struct tg__rank_range range,
                              const struct tg__op_tree *tree, const char *by, struct tg_error *e);
/* The same for a tree of all events. As in torch's tables a list of tensors has the shape [], the overload may be
 * part of the name, and all that runs in a backward operator has the stack of the forward operator, or none. */
enum tg_err tg__op_group_open_all(struct tg__op_group *g, const struct tg__columns *t, struct tg__rank_range range,
                                  const struct tg__op_tree *tree, struct tg__call_names *names, const char *by,
                                  struct tg_error *e);
void tg__op_group_close(struct tg__op_group *g);
uint32_t tg__op_group_of(struct tg__op_group *g, uint32_t node); /* equal groups, equal numbers */
void tg__op_group_write(const struct tg__op_group *g, uint32_t group, struct tg__out *out);
/* One of them. */
void tg__op_group_write_part(const struct tg__op_group *g, uint32_t group, enum tg__group_part part,
                             struct tg__out *out);
/* Of tg__op_group_open_all: an operator autograd calls. */
bool tg__op_group_is_backward(const struct tg__op_group *g, uint32_t slice);
/* What the trace lacks, and how to record it. */
void tg__op_group_notes(const struct tg__op_group *g, struct tg_table *out);
static inline bool tg__op_group_failed(const struct tg__op_group *g) {
  return g->keys.failed || g->stacks.failed || g->modules.failed;
}

#endif
