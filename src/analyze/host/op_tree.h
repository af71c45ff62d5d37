/* op_tree: the operator forest of a trace, and what belongs to each operator. Used by ops, kernels, memory and stacks.
 *
 * Nodes are operators, steps, the annotations of data loader and optimizer, and the Python frames of modules;
 * everything else on a CPU track is passed over. Per track the tree is rebuilt only from these, because a slice may
 * be the child of something that is no node, and because nodes that partly overlap become siblings here. An operator
 * with a single child of the same name is one call seen twice: the child is absorbed, its launches stay. */
#ifndef TG_OP_TREE_H
#define TG_OP_TREE_H

#include "analyze/analyze.h"
#include "analyze/host/call_names.h"

struct tg__op_node {
  uint32_t slice;
  uint32_t parent;         /* node, TG_NONE for a root; never an absorbed one */
  uint32_t absorbed_by;    /* node this one is part of, TG_NONE when it stands for itself */
  uint32_t last_kid;       /* node */
  uint8_t kids;            /* direct children: 0, 1, or 2 for more */
  bool is_op;              /* an operator, not a step, data loader or optimizer wearing its category */
  bool in_table;           /* gets a row in tables of operators */
  int64_t kids_ns;         /* durations of the direct children, summed */
  int64_t calls_ns;        /* time inside runtime calls on its thread, in it and in none of its children */
  int64_t device_ns;       /* device work that it launched */
  int64_t device_total_ns; /* children's included */
};
struct tg__op_tree {
  struct tg__op_node *nodes; /* in slice order: a parent stands before its children */
  size_t count, cap;
  uint32_t *first;   /* by track: its first node; one more entry at the end */
  uint32_t *node_of; /* by slice; TG_NONE */
  bool is_kept;      /* all of it belongs to the trace */
};
/* The forest is made once and kept with the trace (about 60 bytes a node and 4 a slice): read it, do not write. *out
 * is to be freed either way. */
enum tg_err tg__op_tree_build(const struct tg__columns *t, struct tg__op_tree *out);
/* The same of its own and with other nodes, those of torch's own tables: everything of the host that has a length,
 * Python frames, annotations and runtime calls too, but for what has no row there. Two calls are one when their
 * labels in `names` are equal. rank: one, or TG_NONE for all. */
enum tg_err tg__op_tree_build_all(const struct tg__columns *t, struct tg__call_names *names, uint32_t rank,
                                  struct tg__op_tree *out);
void tg__op_tree_free(struct tg__op_tree *tree);

/* The operator a node counts for: itself, what absorbed it, or the nearest operator around it. TG_NONE when there is
 * none. */
uint32_t tg__op_tree_operator(const struct tg__op_tree *tree, uint32_t node);
/* Host time of a node that is neither a child's nor inside a runtime call. Below zero when a call ran on another
 * thread. */
int64_t tg__op_tree_self_ns(const struct tg__columns *t, const struct tg__op_node *n);
/* The host call and the operator behind a slice of device work; TG_NONE. */
static inline uint32_t tg__launch_of(const struct tg__columns *t, uint32_t device_slice) {
  return t->slices.cause[device_slice];
}
uint32_t tg__launching_op(const struct tg__columns *t, uint32_t device_slice);
/* The operator of the forward pass that this operator works out the gradient of; TG_NONE. */
static inline uint32_t tg__forward_of(const struct tg__columns *t, uint32_t slice) {
  const uint32_t cause = t->slices.cause[slice];
  return cause != TG_NONE && tg__slice_class(t, slice) == TG__CLASS_OP && tg__slice_class(t, cause) == TG__CLASS_OP
             ? cause
             : TG_NONE;
}

/* ---- memory events placed in the tree (op_memory.c) ------------------------------------------ */

/* By the question's argument `device`, where it has one. */
bool tg__memory_device_is_wanted(const struct tg__ask *a, int64_t type, int64_t id);

struct tg__memory_event {
  int64_t ts_ns, bytes; /* bytes above zero: an allocation; else a release */
  struct tg__memory_device device;
  int64_t allocated, reserved; /* what the allocator reported; TG_NULL_INT when it did not */
  uint64_t addr;
  uint32_t track;
  uint32_t node;                /* operator around it on its own track, TG_NONE */
  bool has_addr, addr_is_known; /* the key is there; its value is not null */
};
struct tg__memory_events {
  struct tg__memory_event *items; /* by time, then file order */
  size_t count, cap;
};
struct tg__memory_event tg__memory_event_read(const struct tg__columns *t, uint32_t mark); /* `node` stays TG_NONE */
/* Of the ranks asked for. tree may be NULL: then `node` is TG_NONE everywhere. *out is to be freed either way. Needs
 * TG__COL_MARKS. */
enum tg_err tg__memory_events_read(const struct tg__columns *t, const struct tg__ask *a, const struct tg__op_tree *tree,
                                   struct tg__memory_events *out);
void tg__memory_events_free(struct tg__memory_events *m);
/* By node of the tree the events were placed in: bytes on the CPU and on devices, with children and without. */
struct tg__memory_sums {
  int64_t (*total)[2], (*self)[2]; /* NULL when the trace has no memory events */
};
enum tg_err tg__memory_sum(const struct tg__op_tree *tree, struct tg__rank_range range,
                           const struct tg__memory_events *m, struct tg__memory_sums *out);
void tg__memory_sums_free(struct tg__memory_sums *s);
static inline bool
tg__memory_is_cpu(const struct tg__memory_event *e) { /* CPU, MKLDNN and IDEEP share the host's memory */
  return e->device.type == 0 || e->device.type == 2 || e->device.type == 5;
}

#endif
