/* What a call was given: lists of shapes, types and values as Kineto writes them. */
#include "analyze/work/op_inputs.h"

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
static bool read_shape(struct cursor *c, struct tg__shape *out) {
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
    else if (rank < TG_DIMS)
      out->dim[rank++] = v;
    else
      plain = false;
  }
  out->rank = plain ? rank : 0;
  return true;
}

unsigned tg__shapes_read(struct tg__str text, struct tg__shape shapes[TG_INPUTS]) {
  struct cursor c = {text.ptr, text.ptr + text.len};
  unsigned n = 0;
  if (!eat(&c, '[')) return 0;
  while (n < TG_INPUTS && eat(&c, '[')) {
    if (!read_shape(&c, &shapes[n++])) return 0;
    if (!eat(&c, ',')) break;
  }
  return n;
}

void tg__list_begin(struct tg__tensor_list *l, struct tg__str dims, unsigned index) {
  struct cursor c = {dims.ptr, dims.ptr + dims.len};
  struct tg__shape passed;
  bool there = eat(&c, '[');
  for (unsigned i = 0; there && i < index; i++) there = eat(&c, '[') && read_shape(&c, &passed) && eat(&c, ',');
  there = there && eat(&c, '[');
  *l = (struct tg__tensor_list){there ? c.p : c.end, c.end};
}

bool tg__list_next(struct tg__tensor_list *l, struct tg__shape *out) {
  struct cursor c = {l->p, l->end};
  const bool there = eat(&c, '[') && read_shape(&c, out);
  if (there) eat(&c, ',');
  l->p = there ? c.p : l->end;
  return there;
}

/* Escapes do not occur in numbers, so they are not decoded. */
bool tg__list_text(struct tg__str list, unsigned index, struct tg__str *out) {
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

bool tg__list_ints(struct tg__str list, unsigned index, struct tg__shape *out) {
  struct tg__str text;
  if (!tg__list_text(list, index, &text)) return false;
  struct cursor c = {text.ptr, text.ptr + text.len};
  return eat(&c, '[') && read_shape(&c, out);
}

bool tg__list_int(struct tg__str list, unsigned index, int64_t *out) {
  struct tg__str text;
  if (!tg__list_text(list, index, &text)) return false;
  struct cursor c = {text.ptr, text.ptr + text.len};
  return eat_number(&c, out);
}

/* ---- arithmetic that does not overflow ------------------------------------------------------- */

int64_t tg__product_of(const int64_t *factors, size_t count) {
  __int128 n = 1;
  for (size_t i = 0; i < count; i++) {
    if (factors[i] < 0) return -1;
    n *= factors[i];
    if (n > INT64_MAX) return -1; /* so that the next factor fits in 128 bits */
  }
  return (int64_t)n;
}

int64_t tg__shape_elements(const struct tg__shape *s) { return tg__product_of(s->dim, s->rank); }

int64_t tg__matrix_product(const struct tg__shape *a, const struct tg__shape *b, unsigned rank) {
  const int64_t left = tg__shape_elements(a), right = tg__shape_elements(b);
  if (a->rank != rank || b->rank != rank || left < 0 || right < 0) return -1;
  const int64_t shared = a->dim[rank - 1], batch = rank == 3 ? a->dim[0] : 1;
  if (left == 0 || right == 0) return 0;
  return tg__size_narrow((__int128)2 * (left / shared / batch) * right);
}

int64_t tg__list_elements(struct tg__str dims, unsigned index) {
  struct tg__tensor_list list;
  struct tg__shape shape;
  int64_t sum = 0;
  for (tg__list_begin(&list, dims, index); tg__list_next(&list, &shape);) {
    const int64_t elements = tg__shape_elements(&shape);
    if (elements > 0 && sum < INT64_MAX / 8 - elements) sum += elements;
  }
  return sum;
}

int64_t tg__conv_positions(int64_t size, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation) {
  const __int128 room = (__int128)size + (__int128)2 * pad - (__int128)dilation * (kernel - 1) - 1;
  return room < 0 ? 0 : tg__size_narrow(room / stride + 1);
}
