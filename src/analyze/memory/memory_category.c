/* What each block of memory was for. In this order, the first that fits:
 *   1. the program's note on the tensor in it;
 *   2. made by a collective;
 *   3. made by a backward node: again, for checkpointing; given back by the same node; by the end of the pass, but for
 *      what a leaf's node adds to the leaf's gradient; else a gradient;
 *   4. given back by the operator that made it;
 *   5. made in the optimizer's step: outlives it, or not;
 *   6. made outside of modules by what brings data in, or by the data loader;
 *   7. made in the forward pass: alive when a backward pass begins; given back before. */
#include "analyze/memory/memory_blocks.h"

/* ---- modules --------------------------------------------------------------------------------- */

static uint32_t outer_module(const struct tg__places *p, uint32_t module) {
  const uint32_t parent = p->t->slices.parent[module];
  return parent == TG_NONE ? TG_NONE : p->around[parent].module;
}

enum { NAMES_MOST = 16 }; /* calls of modules that are named when none has a path */

/* Path in the model where the trace has it; else the calls around up to one that has, outermost first:
 * Net_0.Linear_1. */
static uint32_t path_of(struct tg__blocks *b, const struct tg__places *p, uint32_t module) {
  const struct tg__columns *const t = b->t;
  struct tg__str parts[NAMES_MOST];
  size_t count = 0;
  bool has_path = false;
  for (uint32_t m = module; m != TG_NONE && !has_path && count < NAMES_MOST; m = outer_module(p, m)) {
    const uint32_t path = tg__arg_str(t, t->slices.args[m], TG__K_MODULE_PATH);
    has_path = path != TG_NONE && tg__name(t, path).len;
    parts[count++] = has_path ? tg__name(t, path) : tg__module_name(tg__name(t, t->slices.name[m]));
  }
  struct tg__out text = {0};
  while (count-- > 0) {
    tg__out_bytes(&text, parts[count].ptr, parts[count].len);
    if (count) tg__out_char(&text, '.');
  }
  const uint32_t id = text.err ? TG_NONE : tg__strings_add(b->texts, text.len ? text.buf : "", text.len);
  tg__out_free(&text);
  return id;
}

uint32_t tg__block_module(struct tg__blocks *b, const struct tg__places *p, uint32_t module_slice) {
  if (module_slice == TG_NONE) return TG_NONE;
  uint32_t *const known = tg__map_slot(&b->path_of, module_slice, TG_NONE);
  if (!known) return TG_NONE;
  if (*known == TG_NONE) *known = path_of(b, p, module_slice);
  return *known;
}

static bool is_number(struct tg__str s) {
  for (uint32_t i = 0; i < s.len; i++)
    if (s.ptr[i] < '0' || s.ptr[i] > '9') return false;
  return s.len > 0;
}

/* Linear_0, not layer_norm: the name of a class and a number behind it. */
static bool is_class_name(struct tg__str s) {
  const char *const line = memrchr(s.ptr, '_', s.len);
  if (!line || s.ptr[0] < 'A' || s.ptr[0] > 'Z') return false;
  const uint32_t head = (uint32_t)(line + 1 - s.ptr);
  return is_number((struct tg__str){line + 1, s.len - head});
}

struct tg__str tg__layer_of(struct tg__str path) {
  uint32_t parts = 0, first_end = path.len, second_end = path.len;
  for (uint32_t from = 0; from <= path.len; parts++) {
    const char *const dot = memchr(path.ptr + from, '.', path.len - from);
    const uint32_t end = dot ? (uint32_t)(dot - path.ptr) : path.len;
    if (is_number((struct tg__str){path.ptr + from, end - from})) return (struct tg__str){path.ptr, end};
    if (parts == 0) first_end = end;
    if (parts == 1) second_end = end;
    from = end + 1;
  }
  const bool classes = is_class_name((struct tg__str){path.ptr, first_end});
  return (struct tg__str){path.ptr, classes ? second_end : first_end};
}

/* "layers.0.weight" is of module layers.0, and so is the optimizer's "layers.0.weight.exp_avg". */
static uint32_t module_of_tensor(struct tg__blocks *b, const struct tg__block *x) {
  struct tg__str name = tg__name(b->t, x->tensor);
  for (int parts = x->held == TG__HELD_OPTIMIZER_STATE ? 2 : 1; parts; parts--) {
    const char *const dot = name.len ? memrchr(name.ptr, '.', name.len) : NULL;
    name.len = dot ? (uint32_t)(dot - name.ptr) : 0;
  }
  return name.len ? tg__strings_add(b->texts, name.ptr, name.len) : TG_NONE;
}

uint32_t tg__block_forward_op(const struct tg__blocks *b, const struct tg__block *x) {
  return x->made.link != TG_NONE       ? b->t->slices.cause[x->made.link]
         : x->made.backward == TG_NONE ? x->made.top
                                       : TG_NONE;
}

/* A node's module is that of its forward operator, which may have run under another one than the node. */
static uint32_t module_around(struct tg__blocks *b, const struct tg__places *p, const struct tg__block *x) {
  const bool is_node = x->made.backward != TG_NONE && !(x->made.flags & TG__PLACE_RECOMPUTED);
  const uint32_t op = is_node ? tg__block_forward_op(b, x) : TG_NONE;
  return tg__block_module(b, p, op != TG_NONE ? p->around[op].module : x->made.module);
}

/* ---- categories ------------------------------------------------------------------------------ */

/* Operators that bring data in, by their first letters. */
static bool brings_data(struct tg__str op) {
  static const char *const sources[] = {"aten::empty",   "aten::zeros",         "aten::ones",      "aten::full",
                                        "aten::rand",    "aten::arange",        "aten::linspace",  "aten::eye",
                                        "aten::to",      "aten::_to_copy",      "aten::stack",     "aten::pin_memory",
                                        "aten::lift",    "aten::clone",         "aten::tensor",    "aten::normal",
                                        "aten::one_hot", "aten::scalar_tensor", "aten::from_file", "aten::_pin_memory"};
  for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
    if (tg__str_has_prefix(op, sources[i])) return true;
  return false;
}

static void judge_category(struct tg__block *x, enum tg__held held, enum tg__basis basis) {
  x->held = (uint8_t)held;
  x->basis = (uint8_t)basis;
}

static bool freed_in_same_op(const struct tg__block *x) {
  return x->made.top != TG_NONE && x->freed_ns != TG_NULL_INT && x->freed.top == x->made.top;
}

/* Where a leaf has a gradient already, its node adds to it what arrives, and frees that. */
static bool arrives_at_leaf(const struct tg__columns *t, const struct tg__block *x) {
  return x->freed.backward != TG_NONE &&
         tg__str_has_suffix(tg__name(t, t->slices.name[x->freed.backward]), "AccumulateGrad");
}

static void judge_backward(const struct tg__places *p, struct tg__block *x) {
  const struct tg__pass *const pass = tg__pass_during(p, x->track, x->made_ns);
  if (freed_in_same_op(x) && !(x->made.flags & TG__PLACE_RECOMPUTED))
    judge_category(x, TG__HELD_TEMPORARY, TG__BASIS_LIFETIME);
  else if (x->made.flags & TG__PLACE_RECOMPUTED)
    judge_category(x, freed_in_same_op(x) && x->freed.op == x->made.op ? TG__HELD_TEMPORARY : TG__HELD_ACTIVATION,
                   TG__BASIS_LIFETIME);
  else if (pass && x->freed_ns != TG_NULL_INT && x->freed_ns <= pass->end_ns && !arrives_at_leaf(p->t, x))
    judge_category(x, TG__HELD_AUTOGRAD_DETAIL, TG__BASIS_LIFETIME);
  else
    judge_category(x, TG__HELD_GRADIENT, TG__BASIS_LIFETIME);
}

static void judge_optimizer(const struct tg__columns *t, struct tg__block *x) {
  const bool outlives = x->freed_ns == TG_NULL_INT || x->freed_ns > tg__slice_end(t, x->made.optimizer);
  judge_category(x, outlives ? TG__HELD_OPTIMIZER_STATE : TG__HELD_TEMPORARY, TG__BASIS_LIFETIME);
}

static void judge_forward(const struct tg__places *p, struct tg__block *x) {
  const struct tg__pass *const pass = tg__pass_after(p, x->track, x->made_ns);
  if (pass && (x->freed_ns == TG_NULL_INT || x->freed_ns > pass->start_ns))
    judge_category(x, TG__HELD_ACTIVATION, TG__BASIS_LIFETIME);
  else if (x->freed_ns != TG_NULL_INT)
    judge_category(x, TG__HELD_TEMPORARY, TG__BASIS_LIFETIME);
}

static void judge_block(const struct tg__places *p, struct tg__block *x) {
  if (x->basis == TG__BASIS_REGISTERED || x->made_ns == TG_NULL_INT) return;
  const struct tg__columns *const t = p->t;
  const struct tg__place *const made = &x->made;
  if (made->flags & TG__PLACE_COLLECTIVE)
    judge_category(x, TG__HELD_COMMUNICATION, TG__BASIS_PLACE);
  else if (made->backward != TG_NONE)
    judge_backward(p, x);
  else if (freed_in_same_op(x))
    judge_category(x, TG__HELD_TEMPORARY, TG__BASIS_LIFETIME);
  else if (made->optimizer != TG_NONE)
    judge_optimizer(t, x);
  else if ((made->flags & TG__PLACE_LOADER) ||
           (made->top != TG_NONE && made->module == TG_NONE && brings_data(tg__name(t, t->slices.name[made->top]))))
    judge_category(x, TG__HELD_INPUT, TG__BASIS_PLACE);
  else if (made->op != TG_NONE)
    judge_forward(p, x);
}

bool tg__blocks_judge(struct tg__blocks *b, const struct tg__places *p) {
  for (size_t i = 0; i < b->count; i++) {
    struct tg__block *const x = &b->items[i];
    judge_block(p, x);
    if (x->tensor != TG_NONE && x->basis == TG__BASIS_REGISTERED)
      x->module = x->held == TG__HELD_INPUT ? TG_NONE : module_of_tensor(b, x);
    else if (x->made_ns != TG_NULL_INT)
      x->module = module_around(b, p, x);
  }
  return tg__blocks_judge_by_stacks(b);
}
