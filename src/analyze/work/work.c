/* The work of one call: which formula, and the formulas of what is not a product. */
#include "analyze/work/work.h"

const char *const tg__work_kinds[] = {"matmul",        "convolution", "attention", "normalisation",
                                      "embedding",     "elementwise", "copy",      "reduction",
                                      "factorisation", "fourier",     "unknown"};
const char *const tg__precision_names[TG__PRECISION_COUNT] = {NULL, "fp64", "fp32", "tf32", "fp16", "fp8", "int8"};

/* ---- types of inputs ------------------------------------------------------------------------- */

static const struct type {
  const char *name;
  int64_t bytes;
  enum tg__precision precision;
} input_types[] = {
    {"float", 4, TG__FP32},
    {"double", 8, TG__FP64},
    {"c10::Half", 2, TG__FP16},
    {"c10::BFloat16", 2, TG__FP16},
    {"c10::Float8_e4m3fn", 1, TG__FP8},
    {"c10::Float8_e5m2", 1, TG__FP8},
    {"c10::Float8_e4m3fnuz", 1, TG__FP8},
    {"c10::Float8_e5m2fnuz", 1, TG__FP8},
    {"long int", 8, TG__PRECISION_UNKNOWN},
    {"long", 8, TG__PRECISION_UNKNOWN},
    {"int", 4, TG__PRECISION_UNKNOWN},
    {"short", 2, TG__PRECISION_UNKNOWN},
    {"short int", 2, TG__PRECISION_UNKNOWN},
    {"signed char", 1, TG__INT8},
    {"unsigned char", 1, TG__INT8},
    {"bool", 1, TG__PRECISION_UNKNOWN},
    {"c10::complex<float>", 8, TG__FP32},
    {"c10::complex<double>", 16, TG__FP64},
};

static const struct type *type_of(struct tg__str name) {
  for (size_t i = 0; i < sizeof input_types / sizeof *input_types; i++)
    if (tg__str_eq(name, (struct tg__str){input_types[i].name, (uint32_t)strlen(input_types[i].name)}))
      return &input_types[i];
  return NULL;
}

bool tg__type_read(struct tg__str name, int64_t *bytes, enum tg__precision *precision) {
  const struct type *type = type_of(name);
  if (type) *bytes = type->bytes;
  if (type) *precision = type->precision;
  return type != NULL;
}

int64_t tg__type_bytes(struct tg__str name) {
  const struct type *type = type_of(name);
  return type ? type->bytes : 0;
}

static bool is_complex(const struct tg__work_call *c, struct tg__str types) {
  struct tg__str name;
  for (unsigned i = 0; i < c->count; i++)
    if (c->element_bytes[i] > 0 && tg__list_text(types, i, &name) && tg__str_has_prefix(name, "c10::complex"))
      return true;
  return false;
}

/* Scalar, TensorList; of torch before 2: Int, Double, Bool, Device, … Types of tensors are spelt as in C. */
static bool is_no_tensor(struct tg__str type) { return type.len == 0 || (*type.ptr >= 'A' && *type.ptr <= 'Z'); }

/* Without types every input with dimensions is a tensor. */
static enum tg__precision read_types(struct tg__work_call *c, struct tg__str list) {
  enum tg__precision precision = TG__PRECISION_UNKNOWN;
  for (unsigned i = 0; i < c->count; i++) {
    struct tg__str name;
    if (!tg__list_text(list, i, &name)) {
      c->element_bytes[i] = c->in[i].rank ? -1 : 0;
      continue;
    }
    const struct type *type = type_of(name);
    c->element_bytes[i] = type ? type->bytes : is_no_tensor(name) ? 0 : -1;
    c->is_real[i] = type && type->precision && type->precision != TG__INT8;
    if (type && precision == TG__PRECISION_UNKNOWN) precision = type->precision;
  }
  return precision;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static int64_t inputs_bytes(const struct tg__work_call *c) {
  int64_t sum = 0;
  for (unsigned i = 0; i < c->count && sum >= 0; i++)
    if (c->element_bytes[i]) sum = tg__size_add(sum, tg__input_bytes(c, i));
  return sum;
}

/* Every input is read, a result of the type of input `like` is written. */
static void read_and_write(const struct tg__work_call *c, struct tg__cost cost, unsigned like, struct tg__work *w) {
  w->flops = cost.flops;
  w->bytes =
      cost.flops < 0 ? -1 : tg__size_add(inputs_bytes(c), tg__size_multiply(cost.out_elements, c->element_bytes[like]));
}

/* ---- formulas of products -------------------------------------------------------------------- */

#define PRODUCT(formula, like, ...)                                                                                    \
  static void work_##formula(const struct tg__work_call *c, struct tg__work *w) {                                      \
    read_and_write(c, __VA_ARGS__, like, w);                                                                           \
  }
PRODUCT(mm, 0, tg__cost_mm(c, 0, 1, 2))
PRODUCT(addmm, 1, tg__cost_mm(c, 1, 2, 2))
PRODUCT(bmm, 0, tg__cost_mm(c, 0, 1, 3))
PRODUCT(baddbmm, 1, tg__cost_mm(c, 1, 2, 3))
PRODUCT(matmul, 0, tg__cost_matmul(c, 0, 1))
PRODUCT(addmv, 1, tg__cost_matmul(c, 1, 2))
PRODUCT(linear, 0, tg__cost_linear(c, 1))
PRODUCT(linear_pointwise, 0, tg__cost_linear_pointwise(c))
PRODUCT(grouped_mm, 0, tg__cost_grouped_mm(c))
PRODUCT(rnn_layer, 0, tg__cost_rnn_layer(c, false))
PRODUCT(rnn_layer_backward, 0, tg__cost_rnn_layer(c, true))
PRODUCT(conv, 0, tg__cost_conv(c, 3, 4, 5))
PRODUCT(conv_padding_first, 0, tg__cost_conv(c, 4, 3, 5))
PRODUCT(conv_pointwise, 0, tg__cost_conv_pointwise(c))
PRODUCT(conv_transpose_padding_first, 0, tg__cost_conv_transpose(c, 5, 3, 6, 4, 7))
PRODUCT(conv_no_bias, 0, tg__cost_conv(c, 3, 2, 4))
PRODUCT(conv_transpose, 0, tg__cost_conv_transpose(c, 3, 4, 7, 5, 6))
PRODUCT(convolution, 0, tg__cost_convolution(c))
PRODUCT(convolution_backward, 1, tg__cost_convolution_backward(c))
PRODUCT(attention, 0, tg__cost_attention(c, 0, false, false))
PRODUCT(attention_heads_inside, 0, tg__cost_attention(c, 0, true, false))
PRODUCT(attention_backward, 1, tg__cost_attention(c, 1, false, true))
PRODUCT(attention_heads_inside_backward, 1, tg__cost_attention(c, 1, true, true))
#undef PRODUCT

/* ---- the others ------------------------------------------------------------------------------ */

/* Mean, variance, normalising: about so many operations an element; what counts here is that each is read and
 * written. */
enum { NORMALISATION_FLOPS = 5, NORMALISATION_BACKWARD_FLOPS = 8 };

static void per_element(const struct tg__work_call *c, int64_t flops_each, struct tg__work *w) {
  const int64_t n = c->count ? tg__shape_elements(&c->in[0]) : -1;
  read_and_write(c, (struct tg__cost){n < 0 ? -1 : tg__product_of((const int64_t[]){flops_each, n}, 2), n}, 0, w);
}
static void work_normalisation(const struct tg__work_call *c, struct tg__work *w) {
  per_element(c, NORMALISATION_FLOPS, w);
}
static void work_normalisation_backward(const struct tg__work_call *c, struct tg__work *w) {
  per_element(c, NORMALISATION_BACKWARD_FLOPS, w);
}

/* Elements of all tensors among the inputs, broadcast against each other. */
static int64_t broadcast_elements(const struct tg__work_call *c) {
  int64_t dims[TG_DIMS];
  unsigned rank = 0;
  for (unsigned i = 0; i < TG_DIMS; i++) dims[i] = 1;
  for (unsigned k = 0; k < c->count; k++) {
    if (!c->element_bytes[k]) continue;
    const struct tg__shape *s = &c->in[k];
    if (s->rank > rank) rank = s->rank;
    for (unsigned i = 0; i < s->rank; i++) {
      int64_t *const d = &dims[i];
      const int64_t own = s->dim[s->rank - 1 - i];
      if (own != 1 && *d != 1 && own != *d) return -1;
      if (own != 1) *d = own;
    }
  }
  return tg__product_of(dims, rank);
}
static void elementwise(const struct tg__work_call *c, int64_t result_bytes, struct tg__work *w) {
  w->flops = c->count ? broadcast_elements(c) : -1;
  w->bytes = w->flops < 0 ? -1 : tg__size_add(inputs_bytes(c), tg__size_multiply(w->flops, result_bytes));
}
/* What a result is stored in: tensors with dimensions go before those without, floating-point before integers, wider
 * before narrower. */
static int64_t promoted_bytes(const struct tg__work_call *c) {
  int64_t best = -1, bytes = 0;
  for (unsigned i = 0; i < c->count; i++) {
    if (!c->element_bytes[i]) continue;
    if (c->element_bytes[i] < 0) return -1;
    const int64_t weight = (c->in[i].rank ? 256 : 0) + (c->is_real[i] ? 128 : 0) + c->element_bytes[i];
    if (weight > best) bytes = c->element_bytes[i];
    if (weight > best) best = weight;
  }
  return bytes;
}
static void work_elementwise(const struct tg__work_call *c, struct tg__work *w) {
  elementwise(c, c->in_place ? c->element_bytes[0] : promoted_bytes(c), w);
}
static void work_comparison(const struct tg__work_call *c, struct tg__work *w) {
  elementwise(c, c->in_place ? c->element_bytes[0] : 1, w);
}

/* One number comes out. */
static void work_loss(const struct tg__work_call *c, struct tg__work *w) {
  w->flops = c->count ? broadcast_elements(c) : -1;
  w->bytes = inputs_bytes(c);
}
/* With a second tensor max, min and all of two are meant, element by element. */
static void work_reduction(const struct tg__work_call *c, struct tg__work *w) {
  if (!c->count) return;
  if (c->count > 1 && c->element_bytes[1] && c->in[1].rank) {
    work_elementwise(c, w);
    return;
  }
  w->flops = tg__shape_elements(&c->in[0]);
  w->bytes = tg__input_bytes(c, 0);
}
static void work_fill(const struct tg__work_call *c, struct tg__work *w) {
  if (!c->count) return;
  w->flops = 0;
  w->bytes = tg__input_bytes(c, 0);
}
static void work_copy(const struct tg__work_call *c, struct tg__work *w) {
  if (c->count < 2) return;
  w->flops = 0;
  w->bytes = tg__size_add(tg__input_bytes(c, 0),
                          tg__size_multiply(tg__shape_elements(&c->in[0]),
                                            c->element_bytes[1])); /* a source that is broadcast is read again */
}
static void work_clone(const struct tg__work_call *c, struct tg__work *w) {
  if (!c->count) return;
  w->flops = 0;
  w->bytes = tg__size_add(tg__input_bytes(c, 0), tg__input_bytes(c, 0));
}

#define AS(name, function)                                                                                             \
  static void work_##name(const struct tg__work_call *c, struct tg__work *w) { function(c, w); }
AS(cholesky, tg__factor_cholesky)
AS(cholesky_inverse, tg__factor_cholesky_inverse)
AS(lu, tg__factor_lu)
AS(qr, tg__factor_qr)
AS(svd, tg__factor_svd)
AS(eigh, tg__factor_eigh)
AS(eig, tg__factor_eig)
AS(solve_factored, tg__solve_factored)
AS(solve_cholesky, tg__solve_cholesky)
AS(solve_triangular, tg__solve_triangular)
AS(solve_least_squares, tg__solve_least_squares)
AS(cdist, tg__pairs_cdist)
AS(pdist, tg__pairs_pdist)
AS(ctc, tg__pairs_ctc)
AS(ctc_backward, tg__pairs_ctc_backward)
AS(fft_complex, tg__fft_complex)
AS(fft_of_real, tg__fft_of_real)
AS(fft_to_real, tg__fft_to_real)
AS(grid_sample, tg__grid_sample)
AS(grid_sample_backward, tg__grid_sample_backward)
#undef AS

#define MOVE(name)                                                                                                     \
  static void work_##name(const struct tg__work_call *c, struct tg__work *w) { tg__move_##name(c, w); }
MOVE(embedding)
MOVE(embedding_backward)
MOVE(embedding_bag)
MOVE(embedding_bag_backward)
MOVE(gather)
MOVE(scatter)
MOVE(nll)
MOVE(nll_backward)
MOVE(pool_backward)
MOVE(resize)
MOVE(resize_backward)
#undef MOVE

/* ---- dispatch -------------------------------------------------------------------------------- */

static const struct formula {
  struct tg__str op;
  void (*work)(const struct tg__work_call *c, struct tg__work *w);
  enum tg__work_kind kind;
} formulas[] = {
#define WORK(op, formula, kind) {{op, sizeof op - 1}, work_##formula, TG__WORK_##kind},
#include "analyze/work/work.def"
#undef WORK
};

static const struct formula *find_formula(struct tg__str op) {
  for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++)
    if (tg__str_eq(op, formulas[i].op)) return &formulas[i];
  return NULL;
}
/* aten::exp_ is aten::exp in place; names that end in two underscores are Python's own. */
static const struct formula *formula_of(struct tg__str op, bool *in_place) {
  const struct formula *f = find_formula(op);
  const bool may_be = op.len > 1 && op.ptr[op.len - 1] == '_' && op.ptr[op.len - 2] != '_';
  if (!f && may_be) f = find_formula((struct tg__str){op.ptr, op.len - 1});
  *in_place = may_be;
  return f;
}

bool tg__work_has_formula(struct tg__str op) {
  bool in_place;
  return formula_of(op, &in_place) != NULL;
}

bool tg__work_is_product(struct tg__str op) {
  bool in_place;
  const struct formula *f = formula_of(op, &in_place);
  if (f) return f->kind == TG__WORK_MATMUL || f->kind == TG__WORK_CONVOLUTION || f->kind == TG__WORK_ATTENTION;
  return tg__str_has_prefix(op, "aten::") &&
         (tg__str_contains(op, "convolution") || tg__str_contains(op, "conv2d") || tg__str_contains(op, "conv3d"));
}

static int64_t most_elements(const struct tg__work_call *c) {
  int64_t most = 0;
  for (unsigned i = 0; i < c->count; i++) {
    const int64_t elements = c->element_bytes[i] && c->in[i].rank ? tg__shape_elements(&c->in[i]) : 0;
    if (elements > most) most = elements;
  }
  return most;
}

struct tg__work tg__work_of(struct tg__str op, struct tg__str dims, struct tg__str types, struct tg__str concrete) {
  struct tg__work w = {.flops = -1, .bytes = -1, .kind = TG__WORK_UNKNOWN};
  struct tg__work_call c = {.concrete = concrete};
  const struct formula *f = formula_of(op, &c.in_place);
  if (!f) return w;
  c.count = tg__shapes_read(dims, c.in);
  w.precision = read_types(&c, types);
  w.kind = f->kind;
  w.elements = most_elements(&c);
  f->work(&c, &w);
  const bool multiplies = w.kind == TG__WORK_MATMUL || w.kind == TG__WORK_CONVOLUTION || w.kind == TG__WORK_ATTENTION ||
                          w.kind == TG__WORK_FACTORISATION;
  if (multiplies && is_complex(&c, types))
    w.flops = tg__product_of((const int64_t[]){4, w.flops}, 2); /* real ones, for each of complex numbers */
  if (w.flops < 0) w = (struct tg__work){.flops = -1, .bytes = -1, .kind = TG__WORK_UNKNOWN};
  return w;
}
