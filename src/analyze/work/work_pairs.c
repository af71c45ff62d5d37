/* The work of what meets everything with everything and is no product: distances of all pairs, alignments of a
 * sequence with its target. */
#include "analyze/work/work.h"

/* ---- distances ------------------------------------------------------------------------------- */

enum { OF_A_COORDINATE = 3 }; /* its difference, that to its power, and the sum; of unusual powers somewhat more */

/* torch works out Euclidean distances of more points than these as a product, which counts itself. */
static bool is_product(const struct tg__work_call *c, int64_t points, int64_t others) {
  enum { FEW = 25, AS_THEY_ARE = 2 };
  struct tg__str power;
  int64_t mode = 0;
  if (!tg__list_text(c->concrete, 2, &power) ||
      (!tg__str_eq(power, TG_STR("2.")) && !tg__str_eq(power, TG_STR("2")) && !tg__str_eq(power, TG_STR("2.0"))))
    return false;
  if (tg__list_int(c->concrete, 3, &mode) && mode) return mode != AS_THEY_ARE;
  return points > FEW || others > FEW;
}

/* (…, points, coordinates) of both. */
void tg__pairs_cdist(const struct tg__work_call *c, struct tg__work *w) {
  if (c->count < 2 || c->in[0].rank < 2 || c->in[1].rank < 2) return;
  const struct tg__shape *const x = &c->in[0], *const y = &c->in[1];
  const int64_t points = x->dim[x->rank - 2], others = y->dim[y->rank - 2], coordinates = x->dim[x->rank - 1];
  const int64_t batch = tg__shape_broadcast(x, y, 2),
                pairs = tg__product_of((const int64_t[]){batch, points, others}, 3);
  if (coordinates != y->dim[y->rank - 1] || is_product(c, points, others)) return;
  w->flops = tg__product_of((const int64_t[]){OF_A_COORDINATE, pairs, coordinates}, 3);
  w->bytes = tg__size_add(tg__size_add(tg__input_bytes(c, 0), tg__input_bytes(c, 1)),
                          tg__size_multiply(pairs, c->element_bytes[0]));
}

void tg__pairs_pdist(const struct tg__work_call *c, struct tg__work *w) {
  if (!c->count || c->in[0].rank != 2) return;
  const int64_t points = c->in[0].dim[0],
                twice = points > 0 ? tg__product_of((const int64_t[]){points, points - 1}, 2) : 0;
  if (twice < 0) return;
  w->flops = tg__product_of((const int64_t[]){OF_A_COORDINATE, twice / 2, c->in[0].dim[1]}, 3);
  w->bytes = tg__size_add(tg__input_bytes(c, 0), tg__size_multiply(twice / 2, c->element_bytes[0]));
}

/* ---- connectionist temporal classification --------------------------------------------------- */

/* A state at a time is reached from at most three: the largest of three, three differences and exponentials, two
 * sums, the logarithm, and two sums more. Backward the same from the end, then both are put together (a sum, and the
 * logarithm of the sum of two exponentials: 9), and each class at each time gets its gradient. */
enum { FORWARD = 13, BACKWARD = FORWARD + 9, OF_A_CLASS = 6 };

/* log probabilities (times, batch, classes) and targets: (batch, longest), or all one behind the other. Between
 * labels and at both ends are blanks. How long each really is lies in tensors: no longer than this. */
void tg__pairs_ctc(const struct tg__work_call *c, struct tg__work *w) {
  if (c->count < 2 || c->in[0].rank != 3 || !c->in[1].rank || c->in[1].rank > 2) return;
  const int64_t labels = tg__shape_elements(&c->in[1]), batch = c->in[0].dim[1], times = c->in[0].dim[0];
  if (labels < 0 || labels > INT64_MAX / 4 || batch < 0 || batch > INT64_MAX / 4 || times < 1) return;
  const int64_t states = 2 * labels + batch;
  w->flops = tg__product_of((const int64_t[]){FORWARD, times - 1, states}, 3);
  w->bytes = tg__size_add(tg__size_add(tg__input_bytes(c, 0), tg__input_bytes(c, 1)),
                          tg__size_multiply(tg__product_of((const int64_t[]){times, states}, 2), c->element_bytes[0]));
}

/* gradient, log probabilities, targets, both lengths, loss, and what the forward pass kept: (batch, times, states). */
void tg__pairs_ctc_backward(const struct tg__work_call *c, struct tg__work *w) {
  enum { PROBABILITIES = 1, TARGETS = 2, KEPT = 6 };
  if (c->count <= KEPT || c->in[PROBABILITIES].rank != 3 || c->in[KEPT].rank != 3) return;
  const int64_t classes = tg__shape_elements(&c->in[PROBABILITIES]);
  w->flops = tg__size_add(tg__product_of((const int64_t[]){BACKWARD, tg__shape_elements(&c->in[KEPT])}, 2),
                          tg__product_of((const int64_t[]){OF_A_CLASS, classes}, 2));
  w->bytes =
      tg__size_add(tg__size_add(tg__size_multiply(tg__input_bytes(c, PROBABILITIES), 2), tg__input_bytes(c, TARGETS)),
                   tg__input_bytes(c, KEPT));
}
