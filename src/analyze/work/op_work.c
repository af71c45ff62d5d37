/* Which operators of a trace count, and what they had to do. */
#include "analyze/work/op_work.h"

#include "analyze/host/call_names.h"
#include "analyze/work/work_lists.h"

struct reader {
  const struct tg__columns *t;
  struct tg__op_work *out;
  uint32_t first, end;         /* nodes within range */
  struct tg__paths signatures; /* (name, dims, types, concrete inputs) */
  struct tg__map of;           /* signature → index into works */
  uint8_t *formula;            /* by string id: 0 not looked up, else enum formula */
  struct tg__list_types types;
};
enum formula { NOT_LOOKED_UP, NO_FORMULA, OF_TENSORS, OF_LISTS };

static struct tg__str work_text_of(const struct tg__columns *t, uint32_t id) {
  return id == TG_NONE ? TG_STR("") : tg__name(t, id);
}

static enum formula formula_of(struct reader *r, uint32_t name) {
  if (!r->formula[name]) {
    const struct tg__str text = tg__name(r->t, name);
    r->formula[name] = tg__work_has_formula(text) ? OF_TENSORS : tg__work_takes_lists(text) ? OF_LISTS : NO_FORMULA;
  }
  return (enum formula)r->formula[name];
}

/* Append the work of a call that is the first with its texts. */
static bool compute(struct reader *r, enum formula formula, struct tg__str name, struct tg__str dims,
                    struct tg__str types, struct tg__str concrete) {
  struct tg__op_work *const out = r->out;
  if (!tg__grow((void **)&out->works, &out->cap, out->count + 1, sizeof *out->works)) return false;
  const bool lists = formula == OF_LISTS;
  out->works[out->count++] =
      lists ? tg__work_of_lists(&r->types, name, dims) : tg__work_of(name, dims, types, concrete);
  return lists || tg__list_types_learn(&r->types, dims, types);
}

/* Index into works; TG_NONE when the call has no formula of this kind, does not say, or memory ran out
 * (signatures.failed). */
static uint32_t work_of(struct reader *r, uint32_t slice, enum formula wanted) {
  const struct tg__columns *t = r->t;
  const uint32_t name = t->slices.name[slice], args = t->slices.args[slice];
  if (formula_of(r, name) != wanted) return TG_NONE;
  const uint32_t dims = tg__arg_dims(t, args);
  if (dims == TG_NONE) return TG_NONE;
  const uint32_t types = tg__arg_str(t, args, TG__K_INPUT_TYPE), concrete = tg__arg_str(t, args, TG__K_CONCRETE_INPUTS);
  uint32_t key = 0;
  const uint32_t parts[] = {name, dims, types, concrete};
  for (size_t i = 0; i < 4; i++) key = tg__paths_step(&r->signatures, key, parts[i]);
  uint32_t known = tg__map_get(&r->of, key);
  if (known == TG_NONE) {
    known = (uint32_t)r->out->count;
    if (!compute(r, wanted, tg__name(t, name), tg__name(t, dims), work_text_of(t, types), work_text_of(t, concrete)) ||
        !tg__map_put(&r->of, key, known)) {
      r->signatures.failed = true;
      return TG_NONE;
    }
  }
  return r->out->works[known].kind == TG__WORK_UNKNOWN ? TG_NONE : known;
}

static uint32_t node_around(const struct tg__op_node *n) {
  return n->absorbed_by != TG_NONE ? n->absorbed_by : n->parent;
}

/* ---- which of nested operators counts -------------------------------------------------------- */

/* By node, of what lies inside: operations that count, and what its children are. */
enum { PRODUCTS, ELEMENTWISE, OTHERS, CLASSES };
enum { COMPILING = 1, KEEPS = 2, WORKS = 4, BROKEN_OFF = 8 };
struct inside {
  int64_t flops[CLASSES - 1];
  /* COMPILING: torch.compile tries it on tensors without data; KEEPS, WORKS: a child is aten::detach, is anything
   * else */
  uint8_t is;
};
/* By string id, 0: not looked at. SHOWS: a call of this name has children or host calls. */
enum { PLAIN = 1, DETACH = 2, TRACER = 4, SHOWS = 8, IS_PRODUCT = 16 };

static unsigned class_of(const struct tg__work *w) {
  if (w->kind == TG__WORK_MATMUL || w->kind == TG__WORK_CONVOLUTION || w->kind == TG__WORK_ATTENTION) return PRODUCTS;
  return w->kind == TG__WORK_ELEMENTWISE ? ELEMENTWISE : OTHERS;
}

static uint8_t look_at_name(const struct tg__columns *t, uint8_t *is, uint32_t name) {
  if (!is[name]) {
    const struct tg__str text = tg__name(t, name);
    is[name] = PLAIN | (tg__str_eq(text, TG_STR("aten::detach")) ? DETACH : 0) |
               (tg__str_contains(text, "(dynamo_timed)") ? TRACER : 0) | (tg__work_is_product(text) ? IS_PRODUCT : 0);
  }
  return is[name];
}

/* Downwards: a parent stands before its children. */
static void look_around(struct reader *r, struct inside *in, uint8_t *name_is) {
  const struct tg__op_tree *tree = r->out->tree;
  for (uint32_t i = r->first; i < r->end; i++) {
    const struct tg__op_node *n = &tree->nodes[i];
    const uint32_t around = node_around(n), name = r->t->slices.name[n->slice];
    const uint8_t is = look_at_name(r->t, name_is, name);
    if (is & TRACER || (around != TG_NONE && in[around].is & COMPILING)) in[i].is |= COMPILING;
    if (n->calls_ns > 0) in[i].is |= WORKS;
    if (around != TG_NONE && n->absorbed_by == TG_NONE) in[around].is |= is & DETACH ? KEEPS : WORKS;
    const bool may_count = n->is_op && n->absorbed_by == TG_NONE && !(in[i].is & COMPILING);
    r->out->work_of[i] = may_count ? work_of(r, n->slice, OF_TENSORS) : TG_NONE;
    r->out->silent[i] = may_count && is & IS_PRODUCT && r->out->work_of[i] == TG_NONE;
  }
  for (uint32_t i = r->first; i < r->end; i++)
    if (in[i].is & WORKS) name_is[r->t->slices.name[tree->nodes[i].slice]] |= SHOWS;
}

/* A forward pass that is done again for the backward pass stops once it has kept what is missing (checkpointing):
 * its last operator keeps its inputs and computes nothing, though others of its name show that they do. */
static bool is_broken_off(const struct inside *in, const struct tg__work *w, uint8_t name_is) {
  if (class_of(w) != PRODUCTS) return false;
  return in->is & BROKEN_OFF ? in->flops[PRODUCTS] == 0 : in->is & KEEPS && !(in->is & WORKS) && name_is & SHOWS;
}

/* Of an operator and what it calls the outer stands for all, unless those inside do more: with vmap an outer
 * operator states of one element of a batch. */
static void choose(struct reader *r, struct inside *in, const uint8_t *name_is) {
  const struct tg__op_tree *tree = r->out->tree;
  for (uint32_t i = r->end; i-- > r->first;) {
    const struct tg__op_node *n = &tree->nodes[i];
    const uint32_t around = node_around(n), own = r->out->work_of[i];
    if (own != TG_NONE) {
      const struct tg__work *w = &r->out->works[own];
      const unsigned class = class_of(w);
      const bool broken = is_broken_off(&in[i], w, name_is[r->t->slices.name[n->slice]]);
      if (broken) in[i].is |= BROKEN_OFF;
      if (broken || (class != OTHERS && in[i].flops[class] > w->flops)) {
        r->out->work_of[i] = TG_NONE;
      } else {
        in[i].flops[PRODUCTS] = in[i].flops[ELEMENTWISE] = 0;
        if (class != OTHERS) in[i].flops[class] = w->flops;
      }
    }
    if (around == TG_NONE) continue;
    in[around].is |= in[i].is & BROKEN_OFF;
    for (unsigned k = 0; k < CLASSES - 1; k++)
      if (__builtin_add_overflow(in[around].flops[k], in[i].flops[k], &in[around].flops[k]))
        in[around].flops[k] = INT64_MAX;
  }
}

static void resolve_inside(const struct reader *r) {
  struct tg__op_work *const out = r->out;
  for (uint32_t i = r->first; i < r->end; i++) {
    const uint32_t around = node_around(&out->tree->nodes[i]);
    out->inside[i] = around != TG_NONE && (out->inside[around] || out->work_of[around] != TG_NONE);
    if (out->inside[i]) out->work_of[i] = TG_NONE;
  }
}

static bool place(struct reader *r) {
  struct inside *in = tg__alloc((r->out->tree->count + 1) * sizeof *in);
  uint8_t *name_is = tg__alloc((size_t)tg__strings_count(r->t->strings) + 1);
  const bool done = in && name_is;
  if (done) {
    look_around(r, in, name_is);
    choose(r, in, name_is);
    resolve_inside(r);
  }
  tg__free(in);
  tg__free(name_is);
  return done;
}

/* Operators on lists in which nothing counts: where they call others for each tensor, as on a CPU, those know their
 * types. */
static bool place_lists(struct reader *r) {
  struct tg__op_work *const out = r->out;
  bool *counts = tg__alloc(out->tree->count + 1); /* by node: something in it counts */
  if (!counts) return false;
  for (uint32_t i = r->end; i-- > r->first;) {
    const uint32_t around = node_around(&out->tree->nodes[i]);
    if (around != TG_NONE) counts[around] |= counts[i] || out->work_of[i] != TG_NONE;
  }
  for (uint32_t i = r->first; i < r->end; i++) {
    const struct tg__op_node *n = &out->tree->nodes[i];
    const uint32_t around = node_around(n);
    out->inside[i] = around != TG_NONE && (out->inside[around] || out->work_of[around] != TG_NONE);
    if (n->is_op && !out->inside[i] && !counts[i] && out->work_of[i] == TG_NONE)
      out->work_of[i] = work_of(r, n->slice, OF_LISTS);
  }
  tg__free(counts);
  return true;
}

enum tg_err tg__op_work_has_shapes(const struct tg__columns *t, bool *out) {
  struct tg__schema_mask dims = {0}, dims_old = {0};
  const bool done =
      tg__schema_mask_make(t, TG__K_INPUT_DIMS, &dims) && tg__schema_mask_make(t, TG__K_INPUT_DIMS_OLD, &dims_old);
  *out = done && (dims.any || dims_old.any);
  tg__schema_mask_free(&dims);
  tg__schema_mask_free(&dims_old);
  return done ? TG_OK : TG_MEMORY;
}

enum tg_err tg__op_work_build(const struct tg__columns *t, struct tg__rank_range range, const struct tg__op_tree *tree,
                              struct tg__op_work *out) {
  *out = (struct tg__op_work){.tree = tree};
  struct reader r = {.t = t, .out = out, .first = tree->first[range.first_track], .end = tree->first[range.end_track]};
  out->work_of = tg__alloc((tree->count + 1) * sizeof *out->work_of);
  out->inside = tg__alloc((tree->count + 1) * sizeof *out->inside);
  out->silent = tg__alloc((tree->count + 1) * sizeof *out->silent);
  r.formula = tg__alloc((size_t)tg__strings_count(t->strings) + 1);
  bool done = tg__paths_open(&r.signatures, t) && out->work_of && out->inside && out->silent && r.formula;
  done = done && place(&r) && place_lists(&r) && !r.signatures.failed;
  tg__list_types_free(&r.types);
  tg__paths_close(&r.signatures);
  tg__map_free(&r.of);
  tg__free(r.formula);
  return done ? TG_OK : TG_MEMORY;
}

void tg__op_work_free(struct tg__op_work *w) {
  tg__free(w->work_of);
  tg__free(w->inside);
  tg__free(w->silent);
  tg__free(w->works);
}
