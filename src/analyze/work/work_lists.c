/* The work of operators on lists of tensors. */
#include "analyze/work/work_lists.h"

/* ---- which operators ------------------------------------------------------------------------- */

/* reads, writes: which inputs, a bit each; every operator has its result in the shape of a list it was given. */
static const struct list_op {
  struct tg__str name;
  enum tg__work_kind kind;
  int64_t flops; /* an element of the first list */
  unsigned reads, writes;
} list_ops[] = {
#define LIST_OP(name, kind, flops, reads, writes) {{name, sizeof name - 1}, TG__WORK_##kind, flops, reads, writes},
    LIST_OP("aten::cat", COPY, 0, 1, 1) LIST_OP("aten::stack", COPY, 0, 1, 1)
        LIST_OP("aten::_foreach_copy_", COPY, 0, 2, 1) LIST_OP("aten::_foreach_zero_", COPY, 0, 0, 1)
            LIST_OP("aten::_foreach_norm", REDUCTION, 1, 1, 0)
                LIST_OP("aten::_fused_adam_", ELEMENTWISE, 13, 1 | 2 | 4 | 8 | 16, 1 | 4 | 8 | 16)
                    LIST_OP("aten::_fused_adamw_", ELEMENTWISE, 14, 1 | 2 | 4 | 8 | 16, 1 | 4 | 8 | 16)
                        LIST_OP("aten::_fused_sgd_", ELEMENTWISE, 4, 1 | 2 | 4, 1 | 4)
                            LIST_OP("aten::_fused_adagrad_", ELEMENTWISE, 6, 1 | 2 | 4, 1 | 4)
                                LIST_OP("aten::_foreach_", ELEMENTWISE, 1, ~0u, 1) /* all others that begin so */
#undef LIST_OP
};
enum { LIST_OPS = sizeof list_ops / sizeof *list_ops };

static const struct list_op *find_list_op(struct tg__str op) {
  const struct list_op *last = &list_ops[LIST_OPS - 1];
  for (size_t i = 0; i + 1 < LIST_OPS; i++)
    if (tg__str_eq(op, list_ops[i].name)) return &list_ops[i];
  return op.len > last->name.len && memcmp(op.ptr, last->name.ptr, last->name.len) == 0 ? last : NULL;
}

bool tg__work_takes_lists(struct tg__str op) { return find_list_op(op) != NULL; }

/* ---- types ----------------------------------------------------------------------------------- */

enum { TYPES_DIFFER = 0 }; /* else 256 × precision + bytes of an element */

static uint64_t shape_hash(const struct tg__shape *s) { return tg__hash(s->dim, s->rank * sizeof *s->dim); }

bool tg__list_types_learn(struct tg__list_types *l, struct tg__str dims, struct tg__str types) {
  struct tg__shape in[TG_INPUTS];
  const unsigned count = tg__shapes_read(dims, in);
  for (unsigned i = 0; i < count; i++) {
    struct tg__str name;
    int64_t bytes;
    enum tg__precision precision;
    if (!in[i].rank || !tg__list_text(types, i, &name) || !tg__type_read(name, &bytes, &precision) || !precision)
      continue;
    const uint64_t key = shape_hash(&in[i]);
    const uint32_t type = 256 * (uint32_t)precision + (uint32_t)bytes, known = tg__map_get(&l->of, key);
    if (known != type && !tg__map_put(&l->of, key, known == TG_NONE ? type : TYPES_DIFFER)) return false;
  }
  return true;
}

void tg__list_types_free(struct tg__list_types *l) { tg__map_free(&l->of); }

/* ---- work ------------------------------------------------------------------------------------ */

struct list {
  int64_t elements; /* of all its tensors; -1: they do not fit */
  uint32_t type;    /* what those tensors are that are known; TYPES_DIFFER, or TG_NONE: none is */
};

static struct list measure(const struct tg__list_types *l, struct tg__str dims, unsigned index) {
  struct list out = {0, TG_NONE};
  struct tg__tensor_list at;
  struct tg__shape s;
  for (tg__list_begin(&at, dims, index); tg__list_next(&at, &s);) {
    const int64_t n = tg__shape_elements(&s);
    if (n < 0 || out.elements < 0 || __builtin_add_overflow(out.elements, n, &out.elements)) out.elements = -1;
    const uint32_t type = tg__map_get(&l->of, shape_hash(&s));
    if (type != TG_NONE) out.type = out.type == TG_NONE || out.type == type ? type : TYPES_DIFFER;
  }
  return out;
}

struct tg__work tg__work_of_lists(const struct tg__list_types *l, struct tg__str op, struct tg__str dims) {
  const struct tg__work unknown = {.flops = -1, .bytes = -1, .kind = TG__WORK_UNKNOWN};
  const struct list_op *o = find_list_op(op);
  const struct list first = measure(l, dims, 0);
  if (!o || first.elements <= 0) return unknown;
  struct tg__work w = {.kind = o->kind,
                       .elements = first.elements,
                       .flops = tg__product_of((const int64_t[]){o->flops, first.elements}, 2)};
  __int128 moved = 0;
  for (unsigned i = 0; i < TG_INPUTS; i++) {
    const struct list each = i ? measure(l, dims, i) : first;
    if (each.elements < 0) return unknown;
    moved += (__int128)each.elements * ((int)(o->reads >> i & 1) + (int)(o->writes >> i & 1));
  }
  const bool known = first.type != TG_NONE && first.type != TYPES_DIFFER;
  w.bytes = known ? tg__size_narrow(moved * (first.type & 255)) : -1;
  w.precision = known ? (enum tg__precision)(first.type >> 8) : TG__PRECISION_UNKNOWN;
  return w.flops < 0 ? unknown : w;
}
