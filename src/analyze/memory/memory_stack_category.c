/* What the blocks of a memory snapshot were for. It has no operators; the stack of an allocation says which part of a
 * training step it was made in, and its life in the sequence of these parts says the rest:
 *   backward    given back before the optimizer begins, or before the pass takes its last block: autograd_detail; else
 *               a gradient
 *   optimizer   given back before something else takes a block: temporary; else its state
 *   forward     alive when a backward pass begins: an activation; given back before: temporary
 *   loader      input
 * Frames are torch's own, by file and function. */
#include "analyze/memory/memory_blocks.h"

enum part { NOT_ASKED, NOWHERE, FORWARD, BACKWARD, OPTIMIZER, LOADER, PARTS };

/* In this order: a stack in the backward pass may lie within an optimizer's closure, and both within a loader's
 * loop. */
static enum part part_of_stack(struct tg__str stack) {
  static const struct {
    const char *frame;
    enum part part;
  } frames[] = {{"_engine_run_backward", BACKWARD},
                {"torch/autograd/__init__.py", BACKWARD},
                {"torch::autograd::Engine", BACKWARD},
                {"torch/optim/lr_scheduler", NOWHERE},
                {"torch/utils/data/", LOADER},
                {"torch/nn/modules/module.py", FORWARD},
                {"torch/optim/", OPTIMIZER}};
  for (size_t i = 0; i < sizeof frames / sizeof *frames; i++)
    if (tg__str_contains(stack, frames[i].frame)) return frames[i].part;
  return NOWHERE;
}

/* A device's blocks from the last to the first. */
struct course {
  enum part now, next;  /* the part at hand, and the one after it; blocks that are made nowhere do not count */
  int64_t first_ns;     /* when the first block seen of the part at hand was made */
  int64_t last_ns;      /* when its last one was */
  int64_t next_ns;      /* when the first block of the next part was made; INT64_MAX = there is none */
  int64_t next_pass_ns; /* when the next backward pass takes its first block; TG_NULL_INT = there is none */
};

static void enter(struct course *c, enum part part, int64_t made_ns) {
  if (part != c->now) {
    if (c->now == BACKWARD) c->next_pass_ns = c->first_ns;
    c->next_ns = c->now == NOT_ASKED ? INT64_MAX : c->first_ns;
    c->last_ns = made_ns;
    c->next = c->now;
    c->now = part;
  }
  c->first_ns = made_ns;
}

static enum tg__held held_in(const struct course *c, const struct tg__block *x) {
  const bool is_freed = x->freed_ns != TG_NULL_INT;
  /* Gradients live until the optimizer has used them; where none takes a block, nothing says when the pass ended. */
  const int64_t pass_end_ns = c->next == OPTIMIZER ? c->next_ns : c->last_ns;
  switch (c->now) {
  case BACKWARD:
    return is_freed && x->freed_ns <= pass_end_ns ? TG__HELD_AUTOGRAD_DETAIL : TG__HELD_GRADIENT;
  case OPTIMIZER:
    return is_freed && x->freed_ns <= c->next_ns ? TG__HELD_TEMPORARY : TG__HELD_OPTIMIZER_STATE;
  case LOADER:
    return TG__HELD_INPUT;
  default:
    if (c->next_pass_ns != TG_NULL_INT && (!is_freed || x->freed_ns > c->next_pass_ns)) return TG__HELD_ACTIVATION;
    return is_freed ? TG__HELD_TEMPORARY : TG__HELD_UNKNOWN;
  }
}

static uint32_t stack_of(const struct tg__blocks *b, const struct tg__block *x) {
  const bool is_open = x->basis == TG__BASIS_NONE && x->made_ns != TG_NULL_INT && x->made.op == TG_NONE;
  return is_open && x->mark != TG_NONE ? tg__arg_str(b->t, b->t->marks.args[x->mark], TG__K_CALL_STACK) : TG_NONE;
}

bool tg__blocks_judge_by_stacks(struct tg__blocks *b) {
  struct course *const courses = tg__alloc((b->device_count + 1) * sizeof *courses);
  struct tg__map parts = {0};
  bool ok = courses != NULL;
  for (size_t i = 0; ok && i < b->device_count; i++) courses[i].next_pass_ns = TG_NULL_INT;
  for (size_t i = b->count; ok && i-- > 0;) {
    struct tg__block *const x = &b->items[i];
    const uint32_t stack = stack_of(b, x);
    uint32_t *const known = stack == TG_NONE ? NULL : tg__map_slot(&parts, stack, NOT_ASKED);
    ok = stack == TG_NONE || known;
    if (!known) continue;
    if (*known == NOT_ASKED) *known = part_of_stack(tg__name(b->t, stack));
    if (*known == NOWHERE) continue;
    struct course *const c = &courses[x->device];
    enter(c, (enum part) * known, x->made_ns);
    x->held = (uint8_t)held_in(c, x);
    if (x->held != TG__HELD_UNKNOWN) x->basis = *known == LOADER ? TG__BASIS_PLACE : TG__BASIS_LIFETIME;
  }
  tg__map_free(&parts);
  tg__free(courses);
  return ok;
}
