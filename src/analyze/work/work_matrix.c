/* The work of products: matrices, convolutions, attention. */
#include "analyze/work/work.h"

static const struct tg__cost unknown = {-1, -1};

static struct tg__cost cost(int64_t flops, int64_t out_elements) {
  return flops < 0 || out_elements < 0 ? unknown : (struct tg__cost){flops, out_elements};
}

static int64_t dims_product(const struct tg__shape *s, unsigned from, unsigned to) {
  return tg__product_of(s->dim + from, to - from);
}

/* ---- matrices -------------------------------------------------------------------------------- */

struct tg__cost tg__cost_mm(const struct tg__work_call *c, unsigned a, unsigned b, unsigned rank) {
  if (c->count <= b) return unknown;
  const struct tg__shape *x = &c->in[a], *y = &c->in[b];
  if (x->rank != rank || y->rank != rank || x->dim[rank - 1] != y->dim[rank - 2]) return unknown;
  const int64_t out =
      tg__product_of((const int64_t[]){rank == 3 ? x->dim[0] : 1, x->dim[rank - 2], y->dim[rank - 1]}, 3);
  return cost(tg__product_of((const int64_t[]){2, out, x->dim[rank - 1]}, 3), out);
}

int64_t tg__shape_broadcast(const struct tg__shape *x, const struct tg__shape *y, unsigned skip) {
  int64_t n = 1;
  for (unsigned i = skip; i < x->rank || i < y->rank; i++) {
    const int64_t a = i < x->rank ? x->dim[x->rank - 1 - i] : 1, b = i < y->rank ? y->dim[y->rank - 1 - i] : 1;
    if (a != b && a != 1 && b != 1) return -1;
    n = tg__product_of((const int64_t[]){n, a == 1 ? b : a}, 2);
    if (n < 0) return -1;
  }
  return n;
}

struct tg__cost tg__cost_matmul(const struct tg__work_call *c, unsigned a, unsigned b) {
  if (c->count <= b || c->in[a].rank == 0 || c->in[b].rank == 0) return unknown;
  const struct tg__shape *x = &c->in[a], *y = &c->in[b];
  const int64_t inner = x->dim[x->rank - 1], rows = x->rank > 1 ? x->dim[x->rank - 2] : 1,
                columns = y->rank > 1 ? y->dim[y->rank - 1] : 1;
  const int64_t other = y->rank > 1 ? y->dim[y->rank - 2] : y->dim[0];
  if (inner != other) return unknown;
  const int64_t out = tg__product_of((const int64_t[]){tg__shape_broadcast(x, y, 2), rows, columns}, 3);
  return cost(tg__product_of((const int64_t[]){2, out, inner}, 3), out);
}

struct tg__cost tg__cost_linear(const struct tg__work_call *c, unsigned weight) {
  if (c->count <= weight || c->in[0].rank == 0 || c->in[weight].rank == 0) return unknown;
  const struct tg__shape *x = &c->in[0], *w = &c->in[weight];
  const int64_t inner = x->dim[x->rank - 1];
  if (w->rank > 2 || w->dim[w->rank - 1] != inner) return unknown;
  const int64_t out =
      tg__product_of((const int64_t[]){dims_product(x, 0, x->rank - 1), w->rank == 2 ? w->dim[0] : 1}, 2);
  return cost(tg__product_of((const int64_t[]){2, out, inner}, 3), out);
}

/* Of oneDNN: with another tensor that is added, say, it stands between input and weight, and the bias is not the
 * third that has dimensions. */
struct tg__cost tg__cost_linear_pointwise(const struct tg__work_call *c) {
  return tg__cost_linear(c, c->count > 2 && c->in[2].rank == 2 ? 2 : 1);
}

/* Rows of a (or columns of b, or the inner dimension) are dealt out to groups, so the total does not depend on how. */
struct tg__cost tg__cost_grouped_mm(const struct tg__work_call *c) {
  if (c->count < 2) return unknown;
  const struct tg__shape *x = &c->in[0], *y = &c->in[1];
  if (x->rank == 3 && y->rank == 3) return tg__cost_mm(c, 0, 1, 3);
  if (x->rank < 2 || y->rank < 2 || x->rank > 3 || y->rank > 3 || (x->rank == 2 && y->rank == 2))
    return unknown; /* groups: not in a shape */
  const int64_t rows = x->dim[x->rank - 2], inner = x->dim[x->rank - 1], columns = y->dim[y->rank - 1];
  if (y->dim[y->rank - 2] != inner) return unknown;
  const int64_t out = tg__product_of((const int64_t[]){rows, columns}, 2);
  return cost(tg__product_of((const int64_t[]){2, out, inner}, 3), out);
}

/* input (…, features), the weights of input and of hidden state: of each row with both. Backward twice that: the
 * gradients of rows and weights. */
struct tg__cost tg__cost_rnn_layer(const struct tg__work_call *c, bool backward) {
  if (c->count < 3 || c->in[0].rank < 2 || c->in[1].rank != 2 || c->in[2].rank != 2) return unknown;
  const struct tg__shape *x = &c->in[0], *w = &c->in[1], *hidden = &c->in[2];
  if (x->dim[x->rank - 1] != w->dim[1]) return unknown;
  const int64_t rows = dims_product(x, 0, x->rank - 1), weights[] = {tg__shape_elements(w), tg__shape_elements(hidden)};
  if (rows < 0 || weights[0] < 0 || weights[1] < 0 || weights[0] > INT64_MAX / 4 || weights[1] > INT64_MAX / 4)
    return unknown;
  const int64_t flops = tg__product_of((const int64_t[]){2, rows, weights[0] + weights[1], backward ? 2 : 1}, 4);
  if (!backward) return cost(flops, tg__product_of((const int64_t[]){rows, hidden->dim[1]}, 2));
  const int64_t inputs = tg__shape_elements(x);
  return cost(flops, inputs < 0 || inputs > INT64_MAX / 4 ? -1 : inputs + weights[0] + weights[1]);
}

/* ---- convolutions ---------------------------------------------------------------------------- */

struct conv {
  unsigned axes;         /* 1, 2 or 3 */
  const int64_t *x, *w;  /* spatial sizes of input and kernel */
  int64_t batch, w0, w1; /* weight: w0 × w1 × kernel */
};
static bool conv_of(const struct tg__work_call *c, unsigned input, unsigned weight, struct conv *v) {
  if (c->count <= weight) return false;
  const struct tg__shape *x = &c->in[input], *w = &c->in[weight];
  if (w->rank < 3 || w->rank > 5 || (x->rank != w->rank && x->rank + 1 != w->rank)) return false;
  *v = (struct conv){w->rank - 2, x->dim + (x->rank + 2 - w->rank),
                     w->dim + 2,  x->rank == w->rank ? x->dim[0] : 1,
                     w->dim[0],   w->dim[1]};
  return true;
}

/* Operations: every weight meets every position it is laid on, of the output or, transposed, of the input. */
static int64_t conv_flops(const struct conv *v, const int64_t *positions) {
  return tg__product_of(
      (const int64_t[]){2, v->batch, v->w0, v->w1, tg__product_of(v->w, v->axes), tg__product_of(positions, v->axes)},
      6);
}

/* A list of one value per axis, or of one for all. */
static bool per_axis(const struct tg__work_call *c, unsigned index, unsigned axes, int64_t least, int64_t *out) {
  struct tg__shape list;
  if (!tg__list_ints(c->concrete, index, &list) || (list.rank != axes && list.rank != 1)) return false;
  for (unsigned i = 0; i < axes; i++) {
    out[i] = list.dim[list.rank == 1 ? 0 : i];
    if (out[i] < least) return false;
  }
  return true;
}

static struct tg__cost conv(const struct tg__work_call *c, unsigned input, unsigned weight, unsigned stride,
                            unsigned padding, unsigned dilation) {
  struct conv v;
  int64_t s[3], p[3], d[3], out[3];
  if (!conv_of(c, input, weight, &v) || !per_axis(c, stride, v.axes, 1, s) || !per_axis(c, padding, v.axes, 0, p) ||
      !per_axis(c, dilation, v.axes, 1, d))
    return unknown;
  for (unsigned i = 0; i < v.axes; i++) out[i] = tg__conv_positions(v.x[i], v.w[i], s[i], p[i], d[i]);
  return cost(conv_flops(&v, out), tg__product_of((const int64_t[]){v.batch, v.w0, tg__product_of(out, v.axes)}, 3));
}

struct tg__cost tg__cost_conv(const struct tg__work_call *c, unsigned stride, unsigned padding, unsigned dilation) {
  return conv(c, 0, 1, stride, padding, dilation);
}

/* Of oneDNN: with another tensor that is added, say, behind the input, or before it when it is overwritten. */
struct tg__cost tg__cost_conv_pointwise(const struct tg__work_call *c) {
  const bool has_other = c->count > 2 && c->in[2].rank == c->in[1].rank;
  return has_other ? conv(c, c->in_place, 2, 5, 4, 6) : conv(c, 0, 1, 4, 3, 5);
}

struct tg__cost tg__cost_conv_transpose(const struct tg__work_call *c, unsigned stride, unsigned padding,
                                        unsigned dilation, unsigned output_padding, unsigned groups) {
  struct conv v;
  int64_t s[3], p[3], d[3], o[3], out[3], channel_groups;
  if (!tg__list_int(c->concrete, groups, &channel_groups) || !conv_of(c, 0, 1, &v) ||
      !per_axis(c, stride, v.axes, 1, s) || !per_axis(c, padding, v.axes, 0, p) ||
      !per_axis(c, dilation, v.axes, 1, d) || !per_axis(c, output_padding, v.axes, 0, o))
    return unknown;
  for (unsigned i = 0; i < v.axes; i++)
    out[i] =
        tg__size_narrow((__int128)(v.x[i] - 1) * s[i] - (__int128)2 * p[i] + (__int128)d[i] * (v.w[i] - 1) + o[i] + 1);
  const int64_t channels = tg__product_of((const int64_t[]){v.w1, channel_groups}, 2);
  return cost(conv_flops(&v, v.x),
              tg__product_of((const int64_t[]){v.batch, channels, tg__product_of(out, v.axes)}, 3));
}

static bool is_true(const struct tg__work_call *c, unsigned index) {
  struct tg__str text;
  return tg__list_text(c->concrete, index, &text) && text.len > 0 &&
         (*text.ptr == 'T' || *text.ptr == 't' || *text.ptr == '1');
}

struct tg__cost tg__cost_convolution(const struct tg__work_call *c) {
  return is_true(c, 6) ? tg__cost_conv_transpose(c, 3, 4, 5, 7, 8) : tg__cost_conv(c, 3, 4, 5);
}

/* The gradients of input and of weight take as much as the forward each, where they are asked for. */
struct tg__cost tg__cost_convolution_backward(const struct tg__work_call *c) {
  struct conv v;
  struct tg__str mask;
  if (!conv_of(c, 1, 2, &v) || c->in[0].rank < v.axes || !tg__list_text(c->concrete, 10, &mask)) return unknown;
  const int64_t once = conv_flops(&v, is_true(c, 7) ? v.x : c->in[0].dim + (c->in[0].rank - v.axes));
  int64_t gradients = 0, out = 0;
  const int64_t written[] = {tg__shape_elements(&c->in[1]), tg__shape_elements(&c->in[2])};
  unsigned at = 0; /* "[True, True, False]": which of input, weight and bias */
  for (uint32_t i = 0; i < mask.len && at < 2; i++) {
    if (mask.ptr[i] == 'T' || mask.ptr[i] == 't') {
      if (written[at] < 0) return unknown;
      gradients++;
      out += written[at];
    }
    if (mask.ptr[i] == ',') at++;
  }
  return cost(once < 0 ? -1 : tg__product_of((const int64_t[]){gradients, once}, 2), out);
}

/* ---- attention ------------------------------------------------------------------------------- */

/* query (…, heads, n, d), key (…, m, d), value (…, m, e): two products forward; backward five, as the scores are
 * computed again. heads_inside: (batch, n, heads, d). A causal mask is not taken off: kernels differ in what they
 * skip. */
struct tg__cost tg__cost_attention(const struct tg__work_call *c, unsigned query, bool heads_inside, bool backward) {
  if (c->count < query + 3) return unknown;
  const struct tg__shape *q = &c->in[query], *k = &c->in[query + 1], *v = &c->in[query + 2];
  if (q->rank < 2 || k->rank != q->rank || v->rank != q->rank || (heads_inside && q->rank != 4)) return unknown;
  const unsigned last = q->rank - 1, length = heads_inside ? 1 : last - 1;
  if (q->dim[last] != k->dim[last] || k->dim[length] != v->dim[length]) return unknown;
  const int64_t heads =
      heads_inside ? tg__product_of((const int64_t[]){q->dim[0], q->dim[2]}, 2) : dims_product(q, 0, length);
  const int64_t d = q->dim[last], e = v->dim[last];
  if (d < 0 || e < 0 || d > INT64_MAX / 8 || e > INT64_MAX / 8) return unknown;
  const int64_t flops =
      tg__product_of((const int64_t[]){2, heads, q->dim[length], k->dim[length], backward ? 3 * d + 2 * e : d + e}, 5);
  const int64_t out = tg__product_of((const int64_t[]){heads, q->dim[length], e}, 3);
  if (!backward) return cost(flops, out);
  const int64_t grads[] = {tg__shape_elements(q), tg__shape_elements(k), tg__shape_elements(v)};
  for (size_t i = 0; i < 3; i++)
    if (grads[i] < 0 || grads[i] > INT64_MAX / 4) return unknown;
  return cost(flops, grads[0] + grads[1] + grads[2]);
}
