/* The work of factorisations, of solving with them, of Fourier transforms and of sampling at a grid: leading terms
 * of the operation counts of LAPACK Working Note 41 and of Golub and Van Loan, Matrix Computations; 5 n log2 n of a
 * complex transform, as FFTW's authors count. */
#include "analyze/work/work.h"

#include <math.h>

/* ---- matrices -------------------------------------------------------------------------------- */

struct matrices { /* a batch of them; m rows or columns, whichever is more, and n of the others */
  double batch, m, n;
};

static bool read_matrices(const struct tg__work_call *c, unsigned at, bool square, struct matrices *out) {
  if (c->count <= at || !c->element_bytes[at] || c->in[at].rank < 2) return false;
  const struct tg__shape *const s = &c->in[at];
  const int64_t rows = s->dim[s->rank - 2], columns = s->dim[s->rank - 1], batch = tg__product_of(s->dim, s->rank - 2);
  if (tg__shape_elements(s) < 0 || batch < 0 || (square && rows != columns)) return false;
  *out = (struct matrices){(double)batch, (double)(rows > columns ? rows : columns),
                           (double)(rows > columns ? columns : rows)};
  return true;
}

static int64_t whole(double v) { return v >= 0 && v < 9e18 ? (int64_t)(v + 0.5) : -1; }

/* bytes: of elements that are read and written. */
static void put_factor(const struct tg__work_call *c, unsigned like, double flops, double elements,
                       struct tg__work *w) {
  w->flops = whole(flops);
  w->bytes = c->element_bytes[like] < 0 ? -1 : whole(elements * (double)c->element_bytes[like]);
}

static bool is_true(const struct tg__work_call *c, unsigned at) {
  struct tg__str text;
  return tg__list_text(c->concrete, at, &text) && tg__str_eq(text, TG_STR("True"));
}

/* `per` · n³ for each matrix, which is read, and as large a result written. */
static void cubic(const struct tg__work_call *c, double per, struct tg__work *w) {
  struct matrices a;
  if (read_matrices(c, 0, true, &a)) put_factor(c, 0, per * a.batch * a.n * a.n * a.n, 2 * a.batch * a.n * a.n, w);
}
void tg__factor_cholesky(const struct tg__work_call *c, struct tg__work *w) { cubic(c, 1.0 / 3, w); }
void tg__factor_cholesky_inverse(const struct tg__work_call *c, struct tg__work *w) { cubic(c, 2.0 / 3, w); }
void tg__factor_eig(const struct tg__work_call *c, struct tg__work *w) { cubic(c, 25, w); }
void tg__factor_eigh(const struct tg__work_call *c, struct tg__work *w) { cubic(c, is_true(c, 2) ? 9 : 4.0 / 3, w); }

void tg__factor_lu(const struct tg__work_call *c, struct tg__work *w) {
  struct matrices a;
  if (read_matrices(c, 0, false, &a))
    put_factor(c, 0, a.batch * a.n * a.n * (a.m - a.n / 3), 2 * a.batch * a.m * a.n, w);
}

/* Factor and the vectors of Q as the default mode has them: which one was asked for is not recorded. */
void tg__factor_qr(const struct tg__work_call *c, struct tg__work *w) {
  struct matrices a;
  if (!read_matrices(c, 0, false, &a)) return;
  const bool is_tall = c->in[0].dim[c->in[0].rank - 2] >= c->in[0].dim[c->in[0].rank - 1];
  const double factor = 2 * a.n * a.n * (a.m - a.n / 3), vectors = is_tall ? factor : 4.0 / 3 * a.n * a.n * a.n;
  put_factor(c, 0, a.batch * (factor + vectors), a.batch * (2 * a.m * a.n + a.n * a.n), w);
}

void tg__factor_svd(const struct tg__work_call *c, struct tg__work *w) {
  struct matrices a;
  if (!read_matrices(c, 0, false, &a)) return;
  const double m = a.m, n = a.n;
  if (!is_true(c, 2))
    put_factor(c, 0, a.batch * (4 * m * n * n - 4.0 / 3 * n * n * n), a.batch * (m * n + n), w);
  else if (is_true(c, 1))
    put_factor(c, 0, a.batch * (4 * m * m * n + 8 * m * n * n + 9 * n * n * n), a.batch * (m * n + m * m + n + n * n),
               w);
  else
    put_factor(c, 0, a.batch * (14 * m * n * n + 8 * n * n * n), a.batch * (2 * m * n + n + n * n), w);
}

/* ---- solving --------------------------------------------------------------------------------- */

/* `per` · n operations for each element of the result. */
static void solve(const struct tg__work_call *c, unsigned matrix, unsigned right, double per, struct tg__work *w) {
  struct matrices a;
  if (c->count <= right || !read_matrices(c, matrix, true, &a)) return;
  const struct tg__shape *const b = &c->in[right];
  const int64_t elements = tg__shape_elements(b), batch = b->rank > 2 ? tg__product_of(b->dim, b->rank - 2) : 1;
  if (elements < 0 || b->rank < 2 || batch < 0) return;
  const double results = batch && a.batch > (double)batch ? (double)elements / (double)batch * a.batch
                                                          : (double)elements; /* one for all matrices */
  put_factor(c, right, per * a.n * results, a.batch * a.n * a.n + (double)elements + results, w);
}
void tg__solve_factored(const struct tg__work_call *c, struct tg__work *w) { solve(c, 0, 2, 2, w); }
void tg__solve_cholesky(const struct tg__work_call *c, struct tg__work *w) { solve(c, 1, 0, 2, w); }
void tg__solve_triangular(const struct tg__work_call *c, struct tg__work *w) { solve(c, 0, 1, 1, w); }

/* By a QR factorisation: it, Q' to each right side, and the triangle solved for it. Of more unknowns than equations
 * the same with the transpose. Drivers that find the rank, too, do more. A right side of one dimension less is
 * vectors. */
void tg__solve_least_squares(const struct tg__work_call *c, struct tg__work *w) {
  struct matrices a;
  if (c->count < 2 || !read_matrices(c, 0, false, &a)) return;
  const struct tg__shape *const s = &c->in[0], *const b = &c->in[1];
  const double right = b->rank == s->rank ? (double)b->dim[b->rank - 1] : 1, unknowns = (double)s->dim[s->rank - 1];
  const int64_t given = tg__shape_elements(b);
  if (given < 0 || b->rank + 1 < s->rank || b->rank > s->rank) return;
  const double factor = 2 * a.n * a.n * (a.m - a.n / 3), each = 4 * a.m * a.n - 2 * a.n * a.n + a.n * a.n;
  put_factor(c, 0, a.batch * (factor + right * each), a.batch * (a.m * a.n + unknowns * right) + (double)given, w);
}

/* ---- Fourier transforms ---------------------------------------------------------------------- */

struct transform {
  double points;        /* of one transform */
  int64_t last, others; /* length of its last axis as it is given, and elements of input 0 by that */
};

static bool read_transform(const struct tg__work_call *c, struct transform *out) {
  struct tg__shape axes;
  if (!c->count || !c->element_bytes[0] || !tg__list_ints(c->concrete, 1, &axes) || !axes.rank) return false;
  *out = (struct transform){.points = 1};
  const int64_t elements = tg__shape_elements(&c->in[0]);
  for (unsigned i = 0; i < axes.rank; i++) {
    const int64_t axis = axes.dim[i] < 0 ? axes.dim[i] + c->in[0].rank : axes.dim[i];
    if (axis < 0 || axis >= (int64_t)c->in[0].rank || c->in[0].dim[axis] <= 0) return false;
    out->last = c->in[0].dim[axis];
    out->points *= (double)out->last;
  }
  out->others = elements / out->last;
  return elements >= 0;
}

/* parts: of real numbers half a transform of complex ones; elements of the real or complex side that is whole. */
static double transform_flops(double parts, double elements, double points) {
  return parts * 5 * elements * log2(points);
}

void tg__fft_complex(const struct tg__work_call *c, struct tg__work *w) {
  struct transform t;
  if (!read_transform(c, &t)) return;
  const double elements = (double)t.others * (double)t.last;
  put_factor(c, 0, transform_flops(1, elements, t.points), 2 * elements, w);
}

void tg__fft_of_real(const struct tg__work_call *c, struct tg__work *w) {
  struct transform t;
  if (!read_transform(c, &t)) return;
  const double elements = (double)t.others * (double)t.last;
  const int64_t half = t.last / 2 + 1;
  const double kept = is_true(c, 3) ? (double)t.others * (double)half : elements;
  put_factor(c, 0, transform_flops(0.5, elements, t.points), elements + 2 * kept,
             w); /* a complex number is two real ones */
}

void tg__fft_to_real(const struct tg__work_call *c, struct tg__work *w) {
  struct transform t;
  int64_t length;
  if (!read_transform(c, &t) || !tg__list_int(c->concrete, 3, &length) || length <= 0) return;
  const double given = (double)t.others * (double)t.last, elements = (double)t.others * (double)length;
  put_factor(c, 0, transform_flops(0.5, elements, t.points / (double)t.last * (double)length), given + elements / 2, w);
}

/* ---- sampling at a grid ---------------------------------------------------------------------- */

/* Each element of the result is one operation, as in resizing. input: batch, channels, axes; grid: batch, places, a
 * coordinate for each axis. */
void tg__grid_sample(const struct tg__work_call *c, struct tg__work *w) {
  if (c->count < 2 || c->in[0].rank < 4 || c->in[1].rank != c->in[0].rank) return;
  const struct tg__shape *const grid = &c->in[1];
  const int64_t written = tg__size_multiply(tg__product_of(grid->dim, grid->rank - 1), c->in[0].dim[1]);
  w->flops = written;
  w->bytes = tg__size_add(tg__size_add(tg__input_bytes(c, 0), tg__input_bytes(c, 1)),
                          tg__size_multiply(written, c->element_bytes[0]));
}

/* gradient, input, grid: all read; gradients of input and grid are written. */
void tg__grid_sample_backward(const struct tg__work_call *c, struct tg__work *w) {
  if (c->count < 3 || c->in[0].rank < 4) return;
  w->flops = tg__shape_elements(&c->in[0]);
  w->bytes = tg__size_add(tg__input_bytes(c, 0),
                          tg__size_multiply(tg__size_add(tg__input_bytes(c, 1), tg__input_bytes(c, 2)), 2));
}
