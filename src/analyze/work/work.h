/* work: what one call of an operator has to do, from the shapes it was recorded with. Floating-point operations as
 * torch.utils.flop_counter counts them where it does (a multiplication and an addition are two), and the bytes that
 * must be read and written at the least: each input once, the result once. Operators and formulas: work.def;
 * definitions: docs/metrics.md. */
#ifndef TG_WORK_H
#define TG_WORK_H

#include "base/base.h"

enum tg__work_kind {
  TG__WORK_MATMUL,
  TG__WORK_CONVOLUTION,
  TG__WORK_ATTENTION,
  TG__WORK_NORMALISATION,
  TG__WORK_EMBEDDING,
  TG__WORK_ELEMENTWISE,
  TG__WORK_COPY,
  TG__WORK_REDUCTION,
  TG__WORK_FACTORISATION, /* and solving with one */
  TG__WORK_FOURIER,
  TG__WORK_UNKNOWN, /* no formula, or inputs that do not say */
};
enum tg__precision {
  TG__PRECISION_UNKNOWN,
  TG__FP64,
  TG__FP32,
  TG__TF32,
  TG__FP16,
  TG__FP8,
  TG__INT8,
  TG__PRECISION_COUNT
}; /* FP16: BF16 too */

struct tg__work {
  int64_t flops, bytes; /* -1: not known; bytes need the types of the inputs */
  int64_t elements;     /* of the largest input, of a list all of its tensors; 0: not known */
  enum tg__work_kind kind;
  enum tg__precision precision; /* of the first floating-point input */
};
extern const char *const tg__work_kinds[];      /* by kind */
extern const char *const tg__precision_names[]; /* by precision; NULL = unknown */

bool tg__work_has_formula(struct tg__str op); /* op: without overload */
bool tg__work_is_product(struct tg__str op);  /* of matrices, a convolution or attention, with a formula or without */
/* The texts of "Input Dims", "Input type" and "Concrete Inputs", empty when absent; any bytes may be given. */
struct tg__work tg__work_of(struct tg__str op, struct tg__str dims, struct tg__str types, struct tg__str concrete);

/* A type as "Input type" names it: bytes of an element and precision. false: none that is known. */
bool tg__type_read(struct tg__str name, int64_t *bytes, enum tg__precision *precision);

/* ---- between work.c and work_matrix.c -------------------------------------------------------- */

#include "analyze/work/op_inputs.h"

struct tg__work_call {
  unsigned count;
  struct tg__shape in[TG_INPUTS];
  int64_t element_bytes[TG_INPUTS]; /* 0: no tensor; -1: a tensor of unknown type */
  bool is_real[TG_INPUTS];          /* of a floating-point type */
  bool in_place;                    /* aten::add_ */
  struct tg__str concrete;
};
int64_t tg__size_add(int64_t a, int64_t b); /* -1 when one is below zero or the sum does not fit */
int64_t tg__size_multiply(int64_t elements, int64_t element_bytes);
int64_t tg__input_bytes(const struct tg__work_call *c, unsigned index);
/* Elements of the two shapes broadcast against each other, without their last `skip` dimensions; -1: they do not
 * fit. */
int64_t tg__shape_broadcast(const struct tg__shape *x, const struct tg__shape *y, unsigned skip);
struct tg__cost {
  int64_t flops, out_elements; /* -1: not known */
};
/* The formulas of products. Of attention: elements of the result, which is what is written. */
struct tg__cost tg__cost_mm(const struct tg__work_call *c, unsigned a, unsigned b, unsigned rank);
/* Of any ranks, as torch.matmul broadcasts. */
struct tg__cost tg__cost_matmul(const struct tg__work_call *c, unsigned a, unsigned b);
struct tg__cost tg__cost_linear(const struct tg__work_call *c, unsigned weight);
struct tg__cost tg__cost_linear_pointwise(const struct tg__work_call *c);
struct tg__cost tg__cost_grouped_mm(const struct tg__work_call *c);
struct tg__cost tg__cost_rnn_layer(const struct tg__work_call *c, bool backward);
struct tg__cost tg__cost_conv(const struct tg__work_call *c, unsigned stride, unsigned padding, unsigned dilation);
struct tg__cost tg__cost_conv_pointwise(const struct tg__work_call *c);
struct tg__cost tg__cost_conv_transpose(const struct tg__work_call *c, unsigned stride, unsigned padding,
                                        unsigned dilation, unsigned output_padding, unsigned groups);
/* aten::convolution: says itself whether it is transposed. */
struct tg__cost tg__cost_convolution(const struct tg__work_call *c);
struct tg__cost tg__cost_convolution_backward(const struct tg__work_call *c);
struct tg__cost tg__cost_attention(const struct tg__work_call *c, unsigned query, bool heads_inside, bool backward);

/* Those that mostly move (work_move.c): into *w, which stays as it is where the inputs do not say. */
void tg__move_embedding(const struct tg__work_call *c, struct tg__work *w);
void tg__move_embedding_backward(const struct tg__work_call *c, struct tg__work *w);
void tg__move_embedding_bag(const struct tg__work_call *c, struct tg__work *w);
void tg__move_embedding_bag_backward(const struct tg__work_call *c, struct tg__work *w);
void tg__move_gather(const struct tg__work_call *c, struct tg__work *w);
void tg__move_scatter(const struct tg__work_call *c, struct tg__work *w);
void tg__move_nll(const struct tg__work_call *c, struct tg__work *w);
void tg__move_nll_backward(const struct tg__work_call *c, struct tg__work *w);
void tg__move_pool_backward(const struct tg__work_call *c, struct tg__work *w);
void tg__move_resize(const struct tg__work_call *c, struct tg__work *w);
void tg__move_resize_backward(const struct tg__work_call *c, struct tg__work *w);
/* Factorisations, transforms, sampling (work_factors.c), as above. */
void tg__factor_cholesky(const struct tg__work_call *c, struct tg__work *w);
void tg__factor_cholesky_inverse(const struct tg__work_call *c, struct tg__work *w);
void tg__factor_lu(const struct tg__work_call *c, struct tg__work *w);
void tg__factor_qr(const struct tg__work_call *c, struct tg__work *w);
void tg__factor_svd(const struct tg__work_call *c, struct tg__work *w);
void tg__factor_eigh(const struct tg__work_call *c, struct tg__work *w);
void tg__factor_eig(const struct tg__work_call *c, struct tg__work *w);
void tg__solve_factored(const struct tg__work_call *c, struct tg__work *w);
void tg__solve_cholesky(const struct tg__work_call *c, struct tg__work *w);
void tg__solve_triangular(const struct tg__work_call *c, struct tg__work *w);
void tg__solve_least_squares(const struct tg__work_call *c, struct tg__work *w);
void tg__fft_complex(const struct tg__work_call *c, struct tg__work *w);
void tg__fft_of_real(const struct tg__work_call *c, struct tg__work *w);
void tg__fft_to_real(const struct tg__work_call *c, struct tg__work *w);
void tg__grid_sample(const struct tg__work_call *c, struct tg__work *w);
void tg__grid_sample_backward(const struct tg__work_call *c, struct tg__work *w);
/* Distances and alignments (work_pairs.c), as above. */
void tg__pairs_cdist(const struct tg__work_call *c, struct tg__work *w);
void tg__pairs_pdist(const struct tg__work_call *c, struct tg__work *w);
void tg__pairs_ctc(const struct tg__work_call *c, struct tg__work *w);
void tg__pairs_ctc_backward(const struct tg__work_call *c, struct tg__work *w);

#endif
