/* The work of one call: which formula, and the formulas of what is not a product. */
#include "analyze/work/work.h"

const char *const tg__work_kinds[] = {"matmul",      "convolution", "attention", "normalisation", "embedding",
                                      "elementwise", "copy",        "reduction", "unknown"};
const char *const tg__precision_names[TG__PRECISION_COUNT] = {NULL, "fp64", "fp32", "tf32", "fp16", "fp8", "int8"};

/* ---- types of inputs -------------------------------------------------------------------------------------------------------------- */

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
    if (tg__str_eq(name, (struct tg__str){input_types[i].name, (uint32_t)strlen(input_types[i].name)})) return &input_types[i];
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
    if (c->element_bytes[i] > 0 && tg__text_pick(types, i, &name) && tg__str_has_prefix(name, "c10::complex")) return true;
  return false;
}

static bool is_no_tensor(struct tg__str type) {
  static const struct tg__str others[] = {{"Scalar", 6}, {"ScalarList", 10}, {"TensorList", 10}, {"GenericList", 11}};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (tg__str_eq(type, others[i])) return true;
  return type.len == 0;
}

/* Without types every input with dimensions is a tensor. */
static enum tg__precision read_types(struct tg__work_call *c, struct tg__str list) {
  enum tg__precision precision = TG__PRECISION_UNKNOWN;
  for (unsigned i = 0; i < c->count; i++) {
    struct tg__str name;
    if (!tg__text_pick(list, i, &name)) {
      c->element_bytes[i] = c->in[i].rank ? -1 : 0;
      continue;
    }
    const struct type *type = type_of(name);
    c->element_bytes[i] = type ? type->bytes : is_no_tensor(name) ? 0 : -1;
    if (type && precision == TG__PRECISION_UNKNOWN) precision = type->precision;
  }
  return precision;
}

/* ---- bytes -------------------------------------------------------------------------------------------------------------------------- */

static int64_t plus(int64_t a, int64_t b) {
  int64_t sum;
  return a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum) ? -1 : sum;
}
static int64_t input_bytes(const struct tg__work_call *c, unsigned index) {
  if (c->element_bytes[index] < 0) return -1;
  return tg__product_of((const int64_t[]){tg__shape_elements(&c->in[index]), c->element_bytes[index]}, 2);
}
static int64_t inputs_bytes(const struct tg__work_call *c) {
  int64_t sum = 0;
  for (unsigned i = 0; i < c->count && sum >= 0; i++)
    if (c->element_bytes[i]) sum = plus(sum, input_bytes(c, i));
  return sum;
}
static int64_t sized(int64_t elements, int64_t element_bytes) { return tg__product_of((const int64_t[]){elements, element_bytes}, 2); }

/* Every input is read, a result of the type of input `like` is written. */
static void read_and_write(const struct tg__work_call *c, struct tg__cost cost, unsigned like, struct tg__work *w) {
  w->flops = cost.flops;
  w->bytes = cost.flops < 0 ? -1 : plus(inputs_bytes(c), sized(cost.out_elements, c->element_bytes[like]));
}

/* ---- formulas of products ------------------------------------------------------------------------------------------------------------- */

#define PRODUCT(formula, like, ...)                                                                                                        \
  static void work_##formula(const struct tg__work_call *c, struct tg__work *w) { read_and_write(c, __VA_ARGS__, like, w); }
PRODUCT(mm, 0, tg__cost_mm(c, 0, 1, 2))
PRODUCT(addmm, 1, tg__cost_mm(c, 1, 2, 2))
PRODUCT(bmm, 0, tg__cost_mm(c, 0, 1, 3))
PRODUCT(baddbmm, 1, tg__cost_mm(c, 1, 2, 3))
PRODUCT(matmul, 0, tg__cost_matmul(c, 0, 1))
PRODUCT(addmv, 1, tg__cost_matmul(c, 1, 2))
PRODUCT(linear, 0, tg__cost_linear(c))
PRODUCT(grouped_mm, 0, tg__cost_grouped_mm(c))
PRODUCT(rnn_layer, 0, tg__cost_rnn_layer(c, false))
PRODUCT(rnn_layer_backward, 0, tg__cost_rnn_layer(c, true))
PRODUCT(conv, 0, tg__cost_conv(c, 3, 4, 5))
PRODUCT(conv_padding_first, 0, tg__cost_conv(c, 4, 3, 5))
PRODUCT(conv_no_bias, 0, tg__cost_conv(c, 3, 2, 4))
PRODUCT(conv_transpose, 0, tg__cost_conv_transpose(c, 3, 4, 7, 5, 6))
PRODUCT(convolution, 0, tg__cost_convolution(c))
PRODUCT(convolution_backward, 1, tg__cost_convolution_backward(c))
PRODUCT(attention, 0, tg__cost_attention(c, 0, false, false))
PRODUCT(attention_heads_inside, 0, tg__cost_attention(c, 0, true, false))
PRODUCT(attention_backward, 1, tg__cost_attention(c, 1, false, true))
PRODUCT(attention_heads_inside_backward, 1, tg__cost_attention(c, 1, true, true))
#undef PRODUCT

/* ---- the others ----------------------------------------------------------------------------------------------------------------------- */

/* Mean, variance, normalising: about so many operations an element; what counts here is that each is read and written. */
enum { NORMALISATION_FLOPS = 5, NORMALISATION_BACKWARD_FLOPS = 8 };

static void per_element(const struct tg__work_call *c, int64_t flops_each, struct tg__work *w) {
  const int64_t n = c->count ? tg__shape_elements(&c->in[0]) : -1;
  read_and_write(c, (struct tg__cost){n < 0 ? -1 : tg__product_of((const int64_t[]){flops_each, n}, 2), n}, 0, w);
}
static void work_normalisation(const struct tg__work_call *c, struct tg__work *w) { per_element(c, NORMALISATION_FLOPS, w); }
static void work_normalisation_backward(const struct tg__work_call *c, struct tg__work *w) { per_element(c, NORMALISATION_BACKWARD_FLOPS, w); }

/* Rows of the table that are looked up are read and written; the rest of it is not touched. */
static void work_embedding(const struct tg__work_call *c, struct tg__work *w) {
  if (c->count < 2 || c->in[0].rank == 0) return;
  const int64_t width = c->in[0].dim[c->in[0].rank - 1];
  const int64_t moved = tg__product_of((const int64_t[]){2, tg__shape_elements(&c->in[1]), width, c->element_bytes[0]}, 4);
  w->flops = 0;
  w->bytes = plus(moved, input_bytes(c, 1));
}
static void work_embedding_backward(const struct tg__work_call *c, struct tg__work *w) {
  if (c->count < 2) return;
  w->flops = tg__shape_elements(&c->in[0]);
  w->bytes = plus(inputs_bytes(c), input_bytes(c, 0));
}
static void work_gather(const struct tg__work_call *c, struct tg__work *w) {
  if (c->count < 3) return;
  const struct tg__shape *x = &c->in[0], *index = &c->in[2];
  int64_t dim, elements = tg__shape_elements(index);
  if (index->rank == 1 && x->rank > 1) { /* index_select: whole rows */
    if (!tg__int_pick(c->concrete, 1, &dim)) return;
    if (dim < 0) dim += x->rank;
    if (dim < 0 || dim >= (int64_t)x->rank || x->dim[dim] <= 0 || tg__shape_elements(x) < 0) return;
    elements = tg__product_of((const int64_t[]){tg__shape_elements(x) / x->dim[dim], elements}, 2);
  }
  w->flops = 0;
  w->bytes = plus(tg__product_of((const int64_t[]){2, elements, c->element_bytes[0]}, 3), input_bytes(c, 2));
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
  w->bytes = w->flops < 0 ? -1 : plus(inputs_bytes(c), sized(w->flops, result_bytes));
}
static void work_elementwise(const struct tg__work_call *c, struct tg__work *w) { elementwise(c, c->element_bytes[0], w); }
static void work_comparison(const struct tg__work_call *c, struct tg__work *w) { elementwise(c, 1, w); }

static void work_reduction(const struct tg__work_call *c, struct tg__work *w) {
  if (!c->count) return;
  w->flops = tg__shape_elements(&c->in[0]);
  w->bytes = input_bytes(c, 0);
}
static void work_fill(const struct tg__work_call *c, struct tg__work *w) {
  if (!c->count) return;
  w->flops = 0;
  w->bytes = input_bytes(c, 0);
}
static void work_copy(const struct tg__work_call *c, struct tg__work *w) {
  if (c->count < 2) return;
  w->flops = 0;
  w->bytes =
      plus(input_bytes(c, 0), sized(tg__shape_elements(&c->in[0]), c->element_bytes[1])); /* a source that is broadcast is read again */
}
static void work_clone(const struct tg__work_call *c, struct tg__work *w) {
  if (!c->count) return;
  w->flops = 0;
  w->bytes = plus(input_bytes(c, 0), input_bytes(c, 0));
}

/* ---- dispatch --------------------------------------------------------------------------------------------------------------------- */

static const struct formula {
  struct tg__str op;
  void (*work)(const struct tg__work_call *c, struct tg__work *w);
  enum tg__work_kind kind;
} formulas[] = {
#define WORK(op, formula, kind) {{op, sizeof op - 1}, work_##formula, TG__WORK_##kind},
#include "analyze/work/work.def"
#undef WORK
};

static const struct formula *formula_of(struct tg__str op) {
  for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++)
    if (tg__str_eq(op, formulas[i].op)) return &formulas[i];
  return NULL;
}

bool tg__work_has_formula(struct tg__str op) { return formula_of(op) != NULL; }

struct tg__work tg__work_of(struct tg__str op, struct tg__str dims, struct tg__str types, struct tg__str concrete) {
  struct tg__work w = {.flops = -1, .bytes = -1, .kind = TG__WORK_UNKNOWN};
  const struct formula *f = formula_of(op);
  if (!f) return w;
  struct tg__work_call c = {.concrete = concrete};
  c.count = tg__shapes_read(dims, c.in);
  w.precision = read_types(&c, types);
  w.kind = f->kind;
  f->work(&c, &w);
  const bool is_product = w.kind == TG__WORK_MATMUL || w.kind == TG__WORK_CONVOLUTION || w.kind == TG__WORK_ATTENTION;
  if (is_product && is_complex(&c, types)) w.flops = tg__product_of((const int64_t[]){4, w.flops}, 2); /* real ones, for each of complex numbers */
  if (w.flops < 0) w = (struct tg__work){.flops = -1, .bytes = -1, .kind = TG__WORK_UNKNOWN};
  return w;
}
