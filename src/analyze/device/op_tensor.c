/* Tensor cores by operator. */
#include "analyze/device/op_tensor.h"

static bool is_kernel(enum tg__class c) { return c == TG__CLASS_KERNEL; }

/* The node that a kernel's time counts for; TG_NONE. */
static uint32_t launching_node(const struct tg__columns *t, const struct tg__op_tree *tree, uint32_t kernel) {
  const uint32_t op = tg__launching_op(t, kernel);
  const uint32_t node = op == TG_NONE ? TG_NONE : tree->node_of[op];
  return node == TG_NONE || tree->nodes[node].absorbed_by == TG_NONE ? node : tree->nodes[node].absorbed_by;
}

static void add_kernels(const struct tg__columns *t, const struct tg__track *track, const struct tg__op_tree *tree,
                        struct tg__tensor_names *names, struct tg__op_tensor *out) {
  TG__EACH (i, tg__slices_of(track)) {
    if (tg__slice_class(t, i) != TG__CLASS_KERNEL) continue;
    if (tg__tensor_unit(names, t->slices.name[i]) != TG__UNIT_TENSOR_CORE) continue;
    const uint32_t node = launching_node(t, tree, i);
    if (node == TG_NONE) continue;
    out->self_ns[node] += t->slices.dur_ns[i];
    out->eligible[node] |= tree->nodes[node].is_op;
  }
}

/* Children stand behind their parents, so from the end each one is complete when its parent takes it in. */
static void add_children(const struct tg__columns *t, struct tg__rank_range range, const struct tg__op_tree *tree,
                         struct tg__tensor_names *names, struct tg__op_tensor *out) {
  for (uint32_t i = tree->first[range.end_track]; i-- > tree->first[range.first_track];) {
    const struct tg__op_node *n = &tree->nodes[i];
    if (n->absorbed_by != TG_NONE) continue;
    out->eligible[i] |= n->is_op && tg__tensor_op(names, t->slices.name[n->slice]);
    out->total_ns[i] += out->self_ns[i];
    if (n->parent == TG_NONE) continue;
    out->total_ns[n->parent] += out->total_ns[i];
    out->eligible[n->parent] |= out->eligible[i];
  }
}

enum tg_err tg__op_tensor_sum(const struct tg__columns *t, const struct tg__ask *a, const struct tg__op_tree *tree,
                              struct tg__op_tensor *out) {
  const struct tg__tensor_rules *const rules = tg__tensor_rules_of(a);
  *out = (struct tg__op_tensor){.of_first_call = rules->of_first_call};
  if (!tg__ask_has_class(t, a, is_kernel, false)) return TG_OK;
  struct tg__tensor_names names;
  enum tg_err err = TG_MEMORY;
  out->self_ns = tg__alloc((tree->count + 1) * sizeof *out->self_ns);
  out->total_ns = tg__alloc((tree->count + 1) * sizeof *out->total_ns);
  out->eligible = tg__alloc((tree->count + 1) * sizeof *out->eligible);
  if (tg__tensor_names_open(&names, t, rules) && out->self_ns && out->total_ns && out->eligible) {
    const struct tg__rank_range range = tg__rank_range_of(t, a->rank);
    for (uint32_t k = range.first_track; k < range.end_track; k++) add_kernels(t, &t->tracks[k], tree, &names, out);
    add_children(t, range, tree, &names, out);
    err = TG_OK;
  }
  tg__tensor_names_close(&names);
  return err;
}

void tg__op_tensor_free(struct tg__op_tensor *o) {
  tg__free(o->self_ns);
  tg__free(o->total_ns);
  tg__free(o->eligible);
  *o = (struct tg__op_tensor){0};
}
