/* The operator forest: which operator contains which, and what each launched. */
#include "analyze/host/op_tree.h"

#include "analyze/host/frames.h"

enum { NAME_SEEN = 1, NAME_OP = 2, NAME_IN_TABLE = 4, NAME_KEPT_ANNOTATION = 8 };

struct builder {
  const struct tg__columns *t;
  struct tg__op_tree *tree;
  uint8_t *names;                 /* NAME_* by string id, filled as names turn up */
  struct tg__schema_mask modules; /* schemas with a Python module id */
  struct tg__call_names *calls;   /* NULL, or: nodes are all events that torch's tables show, under these names */
  uint32_t rank;                  /* the rank with the events; TG_NONE: all ranks */
  int64_t *in_calls_until;        /* by node: up to when its calls_ns has it */
};

static uint8_t name_kind(struct builder *b, uint32_t id) {
  if (b->names[id]) return b->names[id];
  const struct tg__str s = tg__name(b->t, id);
  uint8_t kind = NAME_SEEN;
  const bool step = tg__str_has_prefix(s, "ProfilerStep#");
  const bool optimizer = tg__str_has_prefix(s, "Optimizer.step");
  if (step || optimizer || tg__str_has_prefix(s, "enumerate(Data")) kind |= NAME_KEPT_ANNOTATION;
  if (!step && !optimizer && !tg__name_is_dataloader(s)) {
    kind |= NAME_OP;
    if (!tg__str_has_prefix(s, "Optimizer.") && !tg__str_eq(s, TG_STR("DataParallel.forward")) &&
        !tg__str_eq(s, TG_STR("DistributedDataParallel.forward")))
      kind |= NAME_IN_TABLE;
  }
  return b->names[id] = kind;
}

static bool is_shown(const struct builder *b, uint32_t slice) {
  switch (tg__slice_class(b->t, slice)) {
  case TG__CLASS_OP:
    return !tg__call_is_hidden(b->calls, tg__call_name(b->calls, slice));
  case TG__CLASS_ANNOTATION:
  case TG__CLASS_PYTHON:
  case TG__CLASS_PYTHON_OP:
  case TG__CLASS_RUNTIME:
  case TG__CLASS_OVERHEAD:
    return true;
  default:
    return false;
  }
}

/* Does this slice become a node? *kind: the flags of its name when it is an operator, else 0. */
static bool is_node(struct builder *b, uint32_t slice, uint8_t *kind) {
  *kind = 0;
  if (b->t->slices.flags[slice] & TG__F_ASYNC) return false;
  if (b->calls) {
    *kind = NAME_OP | NAME_IN_TABLE;
    return is_shown(b, slice) && !tg__call_is_async(b->calls, slice);
  }
  switch (tg__slice_class(b->t, slice)) {
  case TG__CLASS_OP:
    *kind = name_kind(b, b->t->slices.name[slice]);
    return true;
  case TG__CLASS_ANNOTATION:
    return name_kind(b, b->t->slices.name[slice]) & NAME_KEPT_ANNOTATION;
  case TG__CLASS_PYTHON:
    return tg__schema_mask_has(b->t, &b->modules, slice);
  default:
    return false;
  }
}

/* The innermost open node that holds [start, end], found by climbing from the last one. A zero-length slice at the
 * start of a zero-length one is its child, not its successor. */
static uint32_t enclosing(const struct builder *b, uint32_t top, uint32_t slice) {
  const struct tg__slices *s = &b->t->slices;
  const struct tg__op_node *nodes = b->tree->nodes;
  const int64_t start = s->start_ns[slice], end = start + s->dur_ns[slice];
  while (top != TG_NONE && start >= tg__slice_end(b->t, nodes[top].slice) &&
         !(end == start && start == s->start_ns[nodes[top].slice]))
    top = nodes[top].parent;
  while (top != TG_NONE && end > tg__slice_end(b->t, nodes[top].slice)) top = nodes[top].parent;
  return top;
}

static bool add_op_tree_node(struct builder *b, uint32_t *top, uint32_t slice, uint8_t kind) {
  struct tg__op_tree *tree = b->tree;
  if (tree->count == tree->cap && !tg__grow((void **)&tree->nodes, &tree->cap, tree->count + 1, sizeof *tree->nodes))
    return false;
  const uint32_t self = (uint32_t)tree->count++;
  const uint32_t parent = enclosing(b, *top, slice);
  tree->nodes[self] = (struct tg__op_node){.slice = slice,
                                           .parent = parent,
                                           .absorbed_by = TG_NONE,
                                           .last_kid = TG_NONE,
                                           .is_op = kind & NAME_OP,
                                           .in_table = kind & NAME_IN_TABLE};
  tree->node_of[slice] = self;
  if (parent != TG_NONE) {
    struct tg__op_node *p = &tree->nodes[parent];
    p->kids = p->kids ? 2 : 1;
    p->last_kid = self;
    p->kids_ns += b->t->slices.dur_ns[slice];
  }
  *top = self;
  return true;
}

/* Slices [from, to) begin and end together. A module's frame is around an operator of the same extent: where frames
 * were derived from operators, a call begins with its first one. */
static bool add_together(struct builder *b, uint32_t *top, uint32_t from, uint32_t to) {
  for (int operators = 0; operators < 2; operators++) {
    for (uint32_t i = from; i < to; i++) {
      const bool frame = to - from > 1 && !b->calls && tg__slice_class(b->t, i) == TG__CLASS_PYTHON;
      uint8_t kind;
      if (frame == !operators && is_node(b, i, &kind) && !add_op_tree_node(b, top, i, kind)) return false;
    }
  }
  return true;
}

static bool add_tracks(struct builder *b) {
  const struct tg__slices *s = &b->t->slices;
  for (uint32_t k = 0; k < b->t->track_count; k++) {
    const uint32_t end = b->t->tracks[k].first + b->t->tracks[k].count;
    uint32_t top = TG_NONE;
    const bool is_asked = b->rank == TG_NONE || b->t->tracks[k].rank == b->rank;
    b->tree->first[k] = (uint32_t)b->tree->count;
    for (uint32_t i = b->t->tracks[k].first, next; is_asked && i < end; i = next) {
      for (next = i + 1; next < end && s->start_ns[next] == s->start_ns[i] && s->dur_ns[next] == s->dur_ns[i]; next++)
        continue;
      if (!add_together(b, &top, i, next)) return false;
    }
  }
  b->tree->first[b->t->track_count] = (uint32_t)b->tree->count;
  return true;
}

/* Nodes [first, end) of a track begin after the call, in it or later. */
static void take_off_call(const struct builder *b, uint32_t call, uint32_t first, uint32_t end) {
  struct tg__op_node *const nodes = b->tree->nodes;
  const int64_t *const start = b->t->slices.start_ns, call_end = tg__slice_end(b->t, call);
  int64_t from = start[call];
  for (uint32_t next = first, top = first - 1; from < call_end; top = next++) {
    const bool more = next < end && start[nodes[next].slice] < call_end;
    const int64_t until = more ? start[nodes[next].slice] : call_end;
    for (uint32_t n = top; n != TG_NONE && from < until; n = nodes[n].parent) {
      const int64_t node_end = tg__slice_end(b->t, nodes[n].slice), to = until < node_end ? until : node_end;
      if (to <= from) continue;
      const int64_t seen = b->in_calls_until[n];
      if (n < first && to > seen) nodes[n].calls_ns += to - (from > seen ? from : seen);
      if (n < first && to > seen) b->in_calls_until[n] = to;
      from = to;
    }
    from = until;
  }
}

/* The time of a runtime call comes off the innermost node around it, whatever operator its external id names: only that
 * node was on. A node that begins during the call keeps its time, and no time comes off twice. */
static bool take_off_calls(struct builder *b) {
  const struct tg__slices *s = &b->t->slices;
  const struct tg__op_tree *tree = b->tree;
  b->in_calls_until = tg__alloc((tree->count + 1) * sizeof *b->in_calls_until);
  if (!b->in_calls_until) return false;
  for (size_t n = 0; n < tree->count; n++) b->in_calls_until[n] = INT64_MIN;
  for (uint32_t k = 0; k < b->t->track_count; k++) {
    const uint32_t end = tree->first[k + 1];
    uint32_t next = tree->first[k];
    if (next == end) continue;
    TG__EACH (i, tg__slices_of(&b->t->tracks[k])) {
      if (tg__slice_class(b->t, i) != TG__CLASS_RUNTIME) continue;
      for (; next < end; next++) {
        const uint32_t node = tree->nodes[next].slice;
        if (s->start_ns[node] > s->start_ns[i]) break;
        if (s->start_ns[node] == s->start_ns[i] && s->dur_ns[node] < s->dur_ns[i]) break;
      }
      if (next > tree->first[k]) take_off_call(b, i, next, end);
    }
  }
  return true;
}

uint32_t tg__launching_op(const struct tg__columns *t, uint32_t device_slice) {
  const uint32_t call = tg__launch_of(t, device_slice);
  return call == TG_NONE ? TG_NONE : t->slices.cause[call];
}

/* Device work goes to the operator that the links name. */
static void attach(const struct builder *b) {
  const struct tg__columns *t = b->t;
  struct tg__op_tree *tree = b->tree;
  const struct tg__rank_range range = tg__rank_range_of(t, b->rank);
  for (uint32_t i = range.first_slice; i < range.end_slice; i++) {
    if (!tg__class_is_device_work(tg__slice_class(t, i))) continue;
    const uint32_t op = tg__launching_op(t, i);
    if (op != TG_NONE && tree->node_of[op] != TG_NONE) tree->nodes[tree->node_of[op]].device_ns += t->slices.dur_ns[i];
  }
}

static bool same_name(const struct builder *b, uint32_t slice, uint32_t other) {
  if (b->calls) return tg__call_name(b->calls, slice) == tg__call_name(b->calls, other);
  return b->t->slices.name[slice] == b->t->slices.name[other];
}

static void absorb_repeats(const struct builder *b) {
  struct tg__op_tree *tree = b->tree;
  struct tg__op_node *nodes = tree->nodes;
  for (uint32_t i = 0; i < tree->count; i++) {
    struct tg__op_node *n = &nodes[i];
    if (n->absorbed_by != TG_NONE) continue;
    if (n->parent != TG_NONE && nodes[n->parent].absorbed_by != TG_NONE) n->parent = nodes[n->parent].absorbed_by;
    while (n->is_op && n->kids == 1 && nodes[n->last_kid].is_op && same_name(b, nodes[n->last_kid].slice, n->slice)) {
      struct tg__op_node *kid = &nodes[n->last_kid];
      kid->absorbed_by = i;
      n->calls_ns += kid->calls_ns;
      n->device_ns += kid->device_ns;
      n->kids = kid->kids;
      n->last_kid = kid->last_kid;
      n->kids_ns = kid->kids_ns;
    }
  }
}

static void sum_device_totals(struct tg__op_tree *tree) {
  for (size_t i = tree->count; i-- > 0;) {
    struct tg__op_node *n = &tree->nodes[i];
    if (n->absorbed_by != TG_NONE) continue;
    n->device_total_ns += n->device_ns;
    if (n->parent != TG_NONE) tree->nodes[n->parent].device_total_ns += n->device_total_ns;
  }
}

/* It may stay as long as the trace: no room for nodes that never came. */
static void trim(struct tg__op_tree *tree) {
  struct tg__op_node *nodes = tree->count ? tg__realloc(tree->nodes, tree->count * sizeof *nodes) : NULL;
  if (!nodes) return;
  tree->nodes = nodes;
  tree->cap = tree->count;
}

static enum tg_err build(const struct tg__columns *t, struct tg__call_names *names, uint32_t rank,
                         struct tg__op_tree *out) {
  *out = (struct tg__op_tree){0};
  struct builder b = {.t = t, .tree = out, .calls = names, .rank = rank};
  enum tg_err err = TG_MEMORY;
  b.names = tg__alloc((size_t)tg__strings_count(t->strings) + 1);
  out->first = tg__alloc(((size_t)t->track_count + 1) * sizeof *out->first);
  out->node_of = tg__alloc(((size_t)t->slices.count + 1) * sizeof *out->node_of);
  if (!b.names || !out->first || !out->node_of || !tg__schema_mask_make(t, TG__K_PYTHON_MODULE_ID, &b.modules))
    goto done;
  memset(out->node_of, 0xff, (size_t)t->slices.count * sizeof *out->node_of);
  if (!add_tracks(&b) || (!names && !take_off_calls(&b))) goto done; /* else calls are nodes of their own */
  attach(&b);
  absorb_repeats(&b);
  sum_device_totals(out);
  trim(out);
  err = TG_OK;
done:
  tg__free(b.names);
  tg__free(b.in_calls_until);
  tg__schema_mask_free(&b.modules);
  return err;
}

static void free_kept_op_tree(void *item) {
  struct tg__op_tree *tree = item;
  tree->is_kept = false;
  tg__op_tree_free(tree);
  tg__free(tree);
}
static const struct tg__cached cached = {free_kept_op_tree};

enum tg_err tg__op_tree_build(const struct tg__columns *t, struct tg__op_tree *out) {
  const struct tg__op_tree *kept = tg__cache_find(t, &cached);
  *out = (struct tg__op_tree){0};
  if (!kept) {
    struct tg__op_tree *tree = tg__alloc(sizeof *tree);
    if (!tree) return TG_MEMORY;
    if (build(t, NULL, TG_NONE, tree) || !tg__cache_put(t, &cached, tree)) {
      free_kept_op_tree(tree);
      return TG_MEMORY;
    }
    tree->is_kept = true;
    kept = tree;
  }
  *out = *kept;
  return TG_OK;
}

enum tg_err tg__op_tree_build_all(const struct tg__columns *t, struct tg__call_names *names, uint32_t rank,
                                  struct tg__op_tree *out) {
  return build(t, names, rank, out);
}

void tg__op_tree_free(struct tg__op_tree *tree) {
  if (!tree->is_kept) {
    tg__free(tree->nodes);
    tg__free(tree->first);
    tg__free(tree->node_of);
  }
  *tree = (struct tg__op_tree){0};
}

uint32_t tg__op_tree_operator(const struct tg__op_tree *tree, uint32_t node) {
  while (node != TG_NONE) {
    const struct tg__op_node *n = &tree->nodes[node];
    if (n->absorbed_by != TG_NONE)
      node = n->absorbed_by;
    else if (n->in_table)
      return node;
    else
      node = n->parent;
  }
  return TG_NONE;
}

int64_t tg__op_tree_self_ns(const struct tg__columns *t, const struct tg__op_node *n) {
  return t->slices.dur_ns[n->slice] - n->kids_ns - n->calls_ns;
}
