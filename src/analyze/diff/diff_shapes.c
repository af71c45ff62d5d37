/* The shapes that operators of a side were called with, and whether two sides did other work. */
#include "analyze/diff/diff.h"

/* The first input that is a tensor with more than one dimension: [32,64] of [[32, 64], [10, 64], []]. */
static struct tg__str first_input(struct tg__str dims) {
  for (struct tg__members m = tg__members_of(dims); tg__members_next(&m);) {
    const struct tg__str one = m.value;
    if (one.len > 2 && one.ptr[1] >= '0' && one.ptr[1] <= '9' && memchr(one.ptr, ',', one.len)) return one;
  }
  return TG_STR("");
}

static uint32_t shape_id(struct tg__diff_shapes *h, struct tg__str dims) {
  char text[96];
  size_t n = 0;
  for (uint32_t i = 0; i < dims.len && n < sizeof text; i++)
    if (dims.ptr[i] != ' ' && dims.ptr[i] != '\n') text[n++] = dims.ptr[i];
  return tg__strings_add(h->names, text, n);
}

static bool add_shape(struct tg__diff_shapes *h, int side, struct tg__str op, uint32_t shape,
                      const struct tg__shape_cost *cost) {
  const uint32_t name = tg__strings_add(h->names, op.ptr, op.len);
  if (name == TG_NONE || shape == TG_NONE) return false;
  uint32_t *slot = tg__map_slot(&h->at, (uint64_t)name << 32 | shape, TG_NONE);
  if (!slot) return false;
  if (*slot == TG_NONE) {
    if (!tg__grow((void **)&h->rows, &h->cap, h->count + 1, sizeof *h->rows)) return false;
    *slot = (uint32_t)h->count;
    h->rows[h->count++] = (struct tg__shape_row){.op = name, .shape = shape};
  }
  struct tg__shape_cost *const sum = &h->rows[*slot].of[side];
  sum->ns += cost->ns;
  sum->calls += cost->calls;
  sum->self_ns += cost->self_ns;
  sum->device_ns += cost->device_ns;
  return true;
}

bool tg__diff_shapes_take(struct tg__diff_side *s) {
  const struct tg__columns *const t = s->t;
  struct tg__diff_shapes *const h = &s->shapes;
  struct tg__op_tree tree = {0};
  bool ok = (h->names = tg__strings_new()) && !tg__op_tree_build(t, &tree);
  for (uint32_t k = 0; ok && k < t->track_count; k++) {
    if (!tg__ask_has_track(&s->selection, t, k)) continue;
    for (uint32_t i = tree.first[k]; ok && i < tree.first[k + 1]; i++) {
      const struct tg__op_node *n = &tree.nodes[i];
      if (!n->is_op || n->absorbed_by != TG_NONE) continue;
      const uint32_t dims = tg__arg_dims(t, t->slices.args[n->slice]);
      const struct tg__str input = dims == TG_NONE ? TG_STR("") : first_input(tg__name(t, dims));
      if (tg__diff_step_at(s, t->tracks[k].rank, t->slices.start_ns[n->slice]) == TG_NONE) continue;
      const struct tg__shape_cost cost = {
          .ns = input.len ? (double)(t->slices.dur_ns[n->slice] + n->device_total_ns + 1) : 0,
          .calls = 1,
          .self_ns = (double)tg__op_tree_self_ns(t, n),
          .device_ns = (double)n->device_ns};
      ok = add_shape(h, 0, tg__name(t, t->slices.name[n->slice]), shape_id(h, input), &cost);
    }
  }
  tg__op_tree_free(&tree);
  return ok;
}

bool tg__diff_shapes_add(struct tg__diff_shapes *to, int side, const struct tg__diff_shapes *from) {
  if (!to->names && !(to->names = tg__strings_new())) return false;
  for (size_t i = 0; i < from->count; i++) {
    const struct tg__str shape = tg__strings_get(from->names, from->rows[i].shape);
    const uint32_t id = tg__strings_add(to->names, shape.ptr, shape.len);
    if (!add_shape(to, side, tg__strings_get(from->names, from->rows[i].op), id, &from->rows[i].of[0])) return false;
  }
  return true;
}

void tg__diff_shapes_free(struct tg__diff_shapes *h) {
  tg__free(h->rows);
  tg__map_free(&h->at);
  tg__strings_free(h->names);
  *h = (struct tg__diff_shapes){0};
}

/* Operators that both sides run: how much of A's time in them went into shapes that B never saw, and where most. */
struct verdict {
  double common, differs, most;
  uint32_t op;
};

static struct verdict compare_shapes(const struct tg__diff_shapes *h, const bool *in_both) {
  struct verdict v = {.op = TG_NONE};
  for (size_t i = 0; i < h->count; i++) {
    const struct tg__shape_row *r = &h->rows[i];
    if (!in_both[r->op]) continue;
    v.common += r->of[0].ns;
    if (r->of[1].ns > 0) continue;
    v.differs += r->of[0].ns;
    if (r->of[0].ns > v.most) {
      v.most = r->of[0].ns;
      v.op = r->op;
    }
  }
  return v;
}

/* The shape in which a side spends most time in an operator, among those the other side lacks. */
static struct tg__str main_shape(const struct tg__diff_shapes *h, uint32_t op, int side) {
  const struct tg__shape_row *best = NULL;
  for (size_t i = 0; i < h->count; i++) {
    const struct tg__shape_row *r = &h->rows[i];
    if (r->op == op && r->of[1 - side].ns == 0 && r->of[side].ns > 0 && (!best || r->of[side].ns > best->of[side].ns))
      best = r;
  }
  return best ? tg__strings_get(h->names, best->shape) : TG_STR("?");
}

static bool has_shapes(const struct tg__diff_shapes *h) {
  size_t i = 0;
  while (i < h->count && h->rows[i].of[0].ns == 0) i++;
  return i < h->count;
}

bool tg__diff_shapes_compare(const struct tg__diff_side *const sides[TG__SIDES], struct tg__diff_shapes *both,
                             struct tg__shapes_verdict *out) {
  enum { OTHER_WORK_PCT = 20 }; /* below that it is a layer that was changed, not the work */
  *out = (struct tg__shapes_verdict){.known = has_shapes(&sides[0]->shapes) && has_shapes(&sides[1]->shapes)};
  bool ok = true;
  for (int side = 0; ok && side < TG__SIDES; side++) ok = tg__diff_shapes_add(both, side, &sides[side]->shapes);
  const size_t texts = ok ? tg__strings_count(both->names) : 0;
  uint8_t *const seen = tg__alloc(texts + 1);
  bool *const in_both = tg__alloc((texts + 1) * sizeof *in_both);
  ok = ok && seen && in_both;
  for (size_t i = 0; ok && i < both->count; i++)
    seen[both->rows[i].op] |= (uint8_t)((both->rows[i].of[0].ns > 0) | (both->rows[i].of[1].ns > 0) << 1);
  for (size_t i = 0; ok && i < texts; i++) in_both[i] = seen[i] == 3;
  if (ok && out->known) {
    const struct verdict v = compare_shapes(both, in_both);
    out->other = v.common > 0 && 100 * v.differs > OTHER_WORK_PCT * v.common;
    out->op = out->other ? tg__strings_get(both->names, v.op) : TG_STR("");
    for (int side = 0; side < TG__SIDES; side++)
      out->shape[side] = out->other ? main_shape(both, v.op, side) : TG_STR("");
  }
  tg__free(seen);
  tg__free(in_both);
  return ok;
}
