/* op_inputs: what a call was given, read from the texts of "Input Dims", "Input type" and "Concrete Inputs". Any
 * bytes may be given. */
#ifndef TG_OP_INPUTS_H
#define TG_OP_INPUTS_H

#include "base/base.h"

enum { TG_INPUTS = 16, TG_DIMS = 8 };
struct tg__shape {
  unsigned rank; /* 0: none, a scalar, or a list of tensors */
  int64_t dim[TG_DIMS];
};
/* How many inputs the text names; those beyond TG_INPUTS are left out. 0 when it is no such text. */
unsigned tg__shapes_read(struct tg__str dims, struct tg__shape shapes[TG_INPUTS]);
/* Input `index` as a list of tensors: for (tg__list_begin(…); tg__list_next(…, &shape);). Of anything else nothing
 * comes. */
struct tg__tensor_list {
  const char *p, *end;
};
void tg__list_begin(struct tg__tensor_list *l, struct tg__str dims, unsigned index);
bool tg__list_next(struct tg__tensor_list *l, struct tg__shape *out);
int64_t tg__list_elements(struct tg__str dims, unsigned index); /* of all its tensors; an eighth of what fits at most */
/* -1 when it does not fit or a dimension is negative; 1 for rank 0. */
int64_t tg__shape_elements(const struct tg__shape *s);

/* The index-th string of a JSON list of strings, as it stands between its quotes. */
bool tg__list_text(struct tg__str list, unsigned index, struct tg__str *out);
/* The same as a list of integers "[1, 2]", or as one integer. */
bool tg__list_ints(struct tg__str list, unsigned index, struct tg__shape *out);
bool tg__list_int(struct tg__str list, unsigned index, int64_t *out);

/* Bytes of an element of a type as "Input type" names it, at most TG_WIDEST; 0: none that is known. (work.c) */
enum { TG_WIDEST = 16 };
int64_t tg__type_bytes(struct tg__str name);

/* 2 × rows of a × inner × columns of b, all of this rank; a batch dimension is in both, and counts once. -1: they do
 * not fit. */
int64_t tg__matrix_product(const struct tg__shape *a, const struct tg__shape *b, unsigned rank);
/* Output positions of a convolution along one axis; 0 when the kernel does not fit. stride ≥ 1. */
int64_t tg__conv_positions(int64_t size, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation);
static inline int64_t tg__size_narrow(__int128 v) { return v < 0 || v > INT64_MAX ? -1 : (int64_t)v; }
int64_t tg__product_of(const int64_t *factors, size_t count); /* -1 when one is negative or the product does not fit */

#endif
