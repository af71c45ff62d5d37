/* Floating-point operations of one call. The seven operators and the formulas are those of torch.profiler's
 * with_flops, so that the numbers compare: children of linear, matmul and the like count, they themselves do not.
 * work.c has the counts of the question roofline. */
#include "analyze/work/flops.h"

#include "analyze/work/op_inputs.h"

/* ---- the formulas ---------------------------------------------------------------------------- */

/* An empty shape is a tensor without dimensions here, as the first argument is always a tensor: one element. */
static int64_t elementwise(const struct tg__shape *in, unsigned count) {
  return count >= 1 ? tg__shape_elements(&in[0]) : -1;
}

static bool list_pair(struct tg__str concrete, unsigned index, int64_t pair[2]) {
  struct tg__shape list;
  if (!tg__list_ints(concrete, index, &list) || list.rank != 2) return false;
  memcpy(pair, list.dim, 2 * sizeof *pair);
  return true;
}

static int64_t convolution(const struct tg__shape *in, unsigned count, struct tg__str concrete) {
  if (count < 2 || in[0].rank != 4 || in[1].rank != 4 || tg__shape_elements(&in[0]) < 0 ||
      tg__shape_elements(&in[1]) < 0)
    return -1;
  int64_t stride[2], pad[2], dilation[2], groups;
  if (!list_pair(concrete, 3, stride) || !list_pair(concrete, 4, pad) || !list_pair(concrete, 5, dilation) ||
      !tg__list_int(concrete, 6, &groups) || groups < 1 || stride[0] < 1 || stride[1] < 1 || pad[0] < 0 || pad[1] < 0)
    return -1;
  const int64_t *x = in[0].dim, *w = in[1].dim;
  const int64_t high = tg__conv_positions(x[2], w[2], stride[0], pad[0], dilation[0]);
  const int64_t wide = tg__conv_positions(x[3], w[3], stride[1], pad[1], dilation[1]);
  const int64_t n = tg__product_of((const int64_t[]){2, x[0], high, wide, w[2], w[3], x[1], w[0]}, 8);
  return n < 0 ? -1 : n / groups;
}

/* ---- dispatch -------------------------------------------------------------------------------- */

enum formula { NO_FORMULA, CONV2D, MM, ADDMM, BMM, BADDBMM, ELEMENTWISE };

static enum formula formula_of(struct tg__str op) {
  static const struct {
    const char *name;
    enum formula formula;
  } known[] = {{"aten::conv2d", CONV2D},   {"aten::mm", MM},           {"aten::addmm", ADDMM},    {"aten::bmm", BMM},
               {"aten::baddbmm", BADDBMM}, {"aten::mul", ELEMENTWISE}, {"aten::add", ELEMENTWISE}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (tg__str_eq(op, (struct tg__str){known[i].name, (uint32_t)strlen(known[i].name)})) return known[i].formula;
  return NO_FORMULA;
}

bool tg__flops_has_formula(struct tg__str op) { return formula_of(op) != NO_FORMULA; }

int64_t tg__flops(struct tg__str op, struct tg__str dims, struct tg__str concrete) {
  struct tg__shape in[TG_INPUTS];
  const unsigned n = tg__shapes_read(dims, in);
  switch (formula_of(op)) {
  case CONV2D:
    return convolution(in, n, concrete);
  case MM:
    return n < 2 ? -1 : tg__matrix_product(&in[0], &in[1], 2);
  case ADDMM:
    return n < 3 ? -1 : tg__matrix_product(&in[1], &in[2], 2);
  case BMM:
    return n < 2 ? -1 : tg__matrix_product(&in[0], &in[1], 3);
  case BADDBMM:
    return n < 3 ? -1 : tg__matrix_product(&in[1], &in[2], 3);
  case ELEMENTWISE:
    return elementwise(in, n);
  case NO_FORMULA:
    break;
  }
  return -1;
}
