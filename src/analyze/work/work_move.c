/* The work of operators that mostly move: look up, add or scatter rows, pool, resize, select the loss of each
 * target. */
#include "analyze/work/work.h"

int64_t tg__size_add(int64_t a, int64_t b) {
  int64_t sum;
  return a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum) ? -1 : sum;
}
int64_t tg__size_multiply(int64_t elements, int64_t element_bytes) {
  return tg__product_of((const int64_t[]){elements, element_bytes}, 2);
}
int64_t tg__input_bytes(const struct tg__work_call *c, unsigned index) {
  if (c->element_bytes[index] < 0) return -1;
  return tg__size_multiply(tg__shape_elements(&c->in[index]), c->element_bytes[index]);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Rows of the table that are looked up are read and written; the rest of it is not touched. */
void tg__move_embedding(const struct tg__work_call *c, struct tg__work *w) {
  if (c->count < 2 || c->in[0].rank == 0) return;
  const int64_t width = c->in[0].dim[c->in[0].rank - 1];
  const int64_t moved =
      tg__product_of((const int64_t[]){2, tg__shape_elements(&c->in[1]), width, c->element_bytes[0]}, 4);
  w->flops = 0;
  w->bytes = tg__size_add(moved, tg__input_bytes(c, 1));
}

/* What is read once, and the gradient of the whole table, `rows` of it, each written. */
static void table_gradient(const struct tg__work_call *c, unsigned rows_at, int64_t width, int64_t read,
                           struct tg__work *w) {
  int64_t rows;
  w->bytes = tg__list_int(c->concrete, rows_at, &rows)
                 ? tg__size_add(read, tg__size_multiply(tg__size_multiply(rows, width), c->element_bytes[0]))
                 : -1;
}
void tg__move_embedding_backward(const struct tg__work_call *c, struct tg__work *w) {
  if (c->count < 2 || c->in[0].rank == 0) return;
  w->flops = tg__shape_elements(&c->in[0]);
  table_gradient(c, 2, c->in[0].dim[c->in[0].rank - 1], tg__size_add(tg__input_bytes(c, 0), tg__input_bytes(c, 1)), w);
}

/* A table, indices, where each bag begins: rows are read, added up, and one a bag is written. */
void tg__move_embedding_bag(const struct tg__work_call *c, struct tg__work *w) {
  if (c->count < 3 || c->in[0].rank != 2) return;
  const int64_t width = c->in[0].dim[1], rows = tg__shape_elements(&c->in[1]), bags = tg__shape_elements(&c->in[2]);
  w->flops = tg__size_multiply(rows, width);
  w->bytes = tg__size_add(tg__size_multiply(tg__size_multiply(tg__size_add(rows, bags), width), c->element_bytes[0]),
                          tg__size_add(tg__input_bytes(c, 1), tg__input_bytes(c, 2)));
}
void tg__move_embedding_bag_backward(const struct tg__work_call *c, struct tg__work *w) {
  if (c->count < 2 || c->in[0].rank != 2) return;
  const int64_t width = c->in[0].dim[1];
  w->flops = tg__size_multiply(tg__shape_elements(&c->in[1]), width);
  table_gradient(c, 5, width, tg__size_add(tg__input_bytes(c, 0), tg__input_bytes(c, 1)), w);
}

void tg__move_gather(const struct tg__work_call *c, struct tg__work *w) {
  if (c->count < 3) return;
  const struct tg__shape *x = &c->in[0], *index = &c->in[2];
  int64_t dim, elements = tg__shape_elements(index);
  if (index->rank == 1 && x->rank > 1) { /* index_select: whole rows */
    if (!tg__list_int(c->concrete, 1, &dim)) return;
    if (dim < 0) dim += x->rank;
    if (dim < 0 || dim >= (int64_t)x->rank || x->dim[dim] <= 0 || tg__shape_elements(x) < 0) return;
    elements = tg__product_of((const int64_t[]){tg__shape_elements(x) / x->dim[dim], elements}, 2);
  }
  w->flops = 0;
  w->bytes =
      tg__size_add(tg__product_of((const int64_t[]){2, elements, c->element_bytes[0]}, 3), tg__input_bytes(c, 2));
}

/* What is added (input 3) is read, the places that it goes to are read and written. */
void tg__move_scatter(const struct tg__work_call *c, struct tg__work *w) {
  if (c->count < 4 || !c->element_bytes[3]) return;
  w->flops = tg__shape_elements(&c->in[3]);
  w->bytes =
      tg__size_add(tg__product_of((const int64_t[]){3, w->flops, c->element_bytes[0]}, 3), tg__input_bytes(c, 2));
}

/* ---- losses ---------------------------------------------------------------------------------- */

/* Of each row the figure of its target; one number is written. */
void tg__move_nll(const struct tg__work_call *c, struct tg__work *w) {
  if (c->count < 2) return;
  w->flops = tg__shape_elements(&c->in[1]);
  w->bytes = tg__size_add(tg__size_multiply(w->flops, c->element_bytes[0]), tg__input_bytes(c, 1));
}
/* gradient, input, target: a gradient of the input's shape is written. */
void tg__move_nll_backward(const struct tg__work_call *c, struct tg__work *w) {
  if (c->count < 3) return;
  w->flops = tg__shape_elements(&c->in[2]);
  w->bytes = tg__size_add(tg__input_bytes(c, 1), tg__input_bytes(c, 2));
}

/* ---- pooling, resizing ----------------------------------------------------------------------- */

/* gradient, input: the one is written in the shape of the other. */
void tg__move_pool_backward(const struct tg__work_call *c, struct tg__work *w) {
  if (c->count < 2 || c->in[0].rank == 0 || c->in[1].rank == 0) return;
  w->flops = tg__shape_elements(&c->in[0]);
  w->bytes = tg__size_add(tg__input_bytes(c, 0), tg__size_multiply(tg__shape_elements(&c->in[1]), c->element_bytes[0]));
}

/* Input 0 is read, one of the size that input `size_at` says is written; of the larger of the two each element is
 * one operation. */
static void resized(const struct tg__work_call *c, unsigned size_at, bool of_axes, struct tg__work *w) {
  struct tg__shape size;
  if (c->count == 0 || c->in[0].rank < 3 || !tg__list_ints(c->concrete, size_at, &size)) return;
  const struct tg__shape *x = &c->in[0];
  const unsigned kept =
      of_axes ? x->rank - 2 : x->rank; /* the list is of the axes behind batch and channels, or of all */
  if (size.rank != kept) return;
  const int64_t batch = of_axes ? tg__product_of(x->dim, 2) : 1, read = tg__shape_elements(x);
  const int64_t written = tg__product_of((const int64_t[]){batch, tg__shape_elements(&size)}, 2);
  if (read < 0 || written < 0) return;
  w->flops = read > written ? read : written;
  w->bytes = tg__size_multiply(tg__size_add(read, written), c->element_bytes[0]);
}
void tg__move_resize(const struct tg__work_call *c, struct tg__work *w) { resized(c, 1, true, w); }
void tg__move_resize_backward(const struct tg__work_call *c, struct tg__work *w) { resized(c, 2, false, w); }
