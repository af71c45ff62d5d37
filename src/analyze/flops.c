/* Floating-point operations of one call. The seven operators and the formulas are those of torch.profiler's with_flops, so that
 * the numbers compare: children of linear, matmul and the like count, they themselves do not. */
#include "analyze/flops.h"

enum { INPUTS = 8, DIMS = 8 };

struct shape {
  unsigned rank; /* 0: none, a scalar, or a list of tensors */
  int64_t dim[DIMS];
};

/* ---- reading lists ---------------------------------------------------------------------------------------------------------------- */

struct cursor {
  const char *p, *end;
};

static bool eat(struct cursor *c, char want) {
  while (c->p < c->end && (*c->p == ' ' || *c->p == '\n' || *c->p == '\t' || *c->p == '\r')) c->p++;
  if (c->p == c->end || *c->p != want) return false;
  c->p++;
  return true;
}

static bool eat_number(struct cursor *c, int64_t *out) {
  const bool minus = eat(c, '-');
  const char *from = c->p;
  int64_t v = 0;
  for (; c->p < c->end && *c->p >= '0' && *c->p <= '9'; c->p++)
    if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *c->p - '0', &v)) return false;
  *out = minus ? -v : v;
  return c->p > from;
}

/* Behind a '[' up to its ']': numbers into *out; anything nested is passed over and leaves the shape empty. */
static bool read_shape(struct cursor *c, struct shape *out) {
  out->rank = 0;
  if (eat(c, ']')) return true;
  bool plain = true;
  unsigned rank = 0, depth = 1;
  while (depth) {
    int64_t v;
    if (eat(c, '['))
      depth++, plain = false;
    else if (eat(c, ']'))
      depth--;
    else if (eat(c, ','))
      continue;
    else if (!eat_number(c, &v))
      return false;
    else if (rank < DIMS)
      out->dim[rank++] = v;
    else
      plain = false;
  }
  out->rank = plain ? rank : 0;
  return true;
}

static unsigned read_shapes(struct tg__str text, struct shape *shapes) {
  struct cursor c = {text.ptr, text.ptr + text.len};
  unsigned n = 0;
  if (!eat(&c, '[')) return 0;
  while (n < INPUTS && eat(&c, '[')) {
    if (!read_shape(&c, &shapes[n++])) return 0;
    if (!eat(&c, ',')) break;
  }
  return n;
}

/* The index-th string of a JSON list of strings; escapes do not occur in numbers, so they are not decoded. */
static bool pick_text(struct tg__str list, unsigned index, struct tg__str *out) {
  struct cursor c = {list.ptr, list.ptr + list.len};
  if (!eat(&c, '[')) return false;
  for (unsigned i = 0; eat(&c, '"'); i++) {
    const char *from = c.p;
    while (c.p < c.end && *c.p != '"') c.p += *c.p == '\\' && c.p + 1 < c.end ? 2 : 1;
    if (c.p == c.end) return false;
    *out = (struct tg__str){from, (uint32_t)(c.p - from)};
    if (i == index) return true;
    c.p++;
    if (!eat(&c, ',')) return false;
  }
  return false;
}

static bool pick_pair(struct tg__str concrete, unsigned index, int64_t *a, int64_t *b) {
  struct tg__str text;
  struct shape pair;
  if (!pick_text(concrete, index, &text)) return false;
  struct cursor c = {text.ptr, text.ptr + text.len};
  if (!eat(&c, '[') || !read_shape(&c, &pair) || pair.rank != 2) return false;
  *a = pair.dim[0], *b = pair.dim[1];
  return true;
}

/* ---- the formulas ------------------------------------------------------------------------------------------------------------------- */

static int64_t narrow(__int128 v) { return v < 0 || v > INT64_MAX ? -1 : (int64_t)v; }

/* -1 when it does not fit or a dimension is negative. */
static int64_t product(const struct shape *s) {
  __int128 n = 1;
  for (unsigned i = 0; i < s->rank; i++) {
    if (s->dim[i] < 0) return -1;
    n *= s->dim[i];
    if (n > INT64_MAX) return -1;
  }
  return (int64_t)n;
}

/* An empty shape is a tensor without dimensions here, as the first argument is always a tensor: one element. */
static int64_t elementwise(const struct shape *in, unsigned count) { return count >= 1 ? product(&in[0]) : -1; }

/* 2 × rows of a × inner × columns of b; a batch dimension is in both products, so it is divided out once. */
static int64_t matrix_product(const struct shape *a, const struct shape *b, unsigned rank) {
  const int64_t left = product(a), right = product(b);
  if (a->rank != rank || b->rank != rank || left < 0 || right < 0) return -1;
  const int64_t shared = a->dim[rank - 1], batch = rank == 3 ? a->dim[0] : 1;
  if (left == 0 || right == 0) return 0;
  return narrow((__int128)2 * (left / shared / batch) * right);
}

/* Output positions along one axis; 0 when the kernel does not fit. */
static int64_t positions(int64_t size, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation) {
  const __int128 reach = (__int128)size + (__int128)2 * pad - (__int128)dilation * (kernel - 1) - 1;
  return reach < 0 ? 0 : narrow(reach / stride + 1);
}

static int64_t convolution(const struct shape *in, unsigned count, struct tg__str concrete) {
  if (count < 2 || in[0].rank != 4 || in[1].rank != 4 || product(&in[0]) < 0 || product(&in[1]) < 0) return -1;
  int64_t stride[2], pad[2], dilation[2], groups;
  struct tg__str text;
  if (!pick_pair(concrete, 3, &stride[0], &stride[1]) || !pick_pair(concrete, 4, &pad[0], &pad[1]) ||
      !pick_pair(concrete, 5, &dilation[0], &dilation[1]) || !pick_text(concrete, 6, &text))
    return -1;
  struct cursor c = {text.ptr, text.ptr + text.len};
  if (!eat_number(&c, &groups) || groups < 1 || stride[0] < 1 || stride[1] < 1 || pad[0] < 0 || pad[1] < 0) return -1;
  const int64_t *x = in[0].dim, *w = in[1].dim;
  const int64_t high = positions(x[2], w[2], stride[0], pad[0], dilation[0]);
  const int64_t wide = positions(x[3], w[3], stride[1], pad[1], dilation[1]);
  __int128 n = 2;
  const int64_t factors[] = {x[0], high, wide, w[2], w[3], x[1], w[0]};
  for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
    if (factors[i] < 0) return -1;
    n *= factors[i];
    if (n > INT64_MAX) return -1; /* so that the next factor fits in 128 bits */
  }
  return narrow(n / groups);
}

/* ---- dispatch --------------------------------------------------------------------------------------------------------------------- */

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
  struct shape in[INPUTS];
  const unsigned n = read_shapes(dims, in);
  switch (formula_of(op)) {
  case CONV2D:
    return convolution(in, n, concrete);
  case MM:
    return n < 2 ? -1 : matrix_product(&in[0], &in[1], 2);
  case ADDMM:
    return n < 3 ? -1 : matrix_product(&in[1], &in[2], 2);
  case BMM:
    return n < 2 ? -1 : matrix_product(&in[0], &in[1], 3);
  case BADDBMM:
    return n < 3 ? -1 : matrix_product(&in[1], &in[2], 3);
  case ELEMENTWISE:
    return elementwise(in, n);
  case NO_FORMULA:
    break;
  }
  return -1;
}
