/* host_reads: where a program without a device reads values of tensors: .item(), `if tensor`, .tolist(), print. */
#include "analyze/device/gaps.h"

struct reading {
  const struct tg__columns *t;
  tg__read_visitor *visit;
  void *ctx;
  struct tg__map prints; /* stack → whether a tensor is printed there */
  uint32_t parent;       /* Python frame that was looked at last */
  bool parent_prints;
  struct tg__host_read print; /* that goes on; slice TG_NONE = none */
  uint32_t conjugate;         /* the operator before, where .tolist() and .numpy() begin with it; TG_NONE */
  bool failed;
};

static void end_print(struct reading *r) {
  if (r->print.slice != TG_NONE) r->visit(r->ctx, &r->print);
  r->print.slice = TG_NONE;
}

static bool is_in_print(const struct tg__columns *t, uint32_t slice) {
  return tg__sync_kind_behind(t, slice, TG_NONE) == TG__SYNC_PRINT;
}

/* Many operators have the stack or the frame of the one before. */
static bool prints(struct reading *r, uint32_t slice) {
  enum { UNKNOWN = 2 };
  const uint32_t stack = tg__arg_str(r->t, r->t->slices.args[slice], TG__K_CALL_STACK);
  const uint32_t parent = r->t->slices.parent[slice];
  if (stack == TG_NONE) {
    if (parent == TG_NONE) return false;
    if (parent != r->parent) r->parent_prints = is_in_print(r->t, slice);
    r->parent = parent;
    return r->parent_prints;
  }
  uint32_t *const known = tg__map_slot(&r->prints, stack, UNKNOWN);
  r->failed |= !known;
  if (!known) return false;
  if (*known == UNKNOWN) *known = is_in_print(r->t, slice);
  return *known == 1;
}

/* The same operator from the same place begins the next print. */
static bool begins_again(const struct reading *r, uint32_t slice) {
  const struct tg__slices *const s = &r->t->slices;
  return s->name[slice] == s->name[r->print.slice] && tg__arg_str(r->t, s->args[slice], TG__K_CALL_STACK) ==
                                                          tg__arg_str(r->t, s->args[r->print.slice], TG__K_CALL_STACK);
}

static enum tg__sync_kind kind_of_read(const struct reading *r, uint32_t slice, struct tg__str name) {
  if (tg__str_eq(name, TG_STR("aten::item")) || tg__str_eq(name, TG_STR("aten::_local_scalar_dense")) ||
      tg__str_eq(name, TG_STR("aten::is_nonzero")))
    return tg__sync_kind_behind(r->t, slice, TG_NONE);
  if (r->conjugate == TG_NONE || !tg__str_eq(name, TG_STR("aten::resolve_neg"))) return TG__SYNC_NONE;
  const enum tg__sync_kind kind = tg__sync_kind_behind(r->t, r->conjugate, TG_NONE);
  return kind == TG__SYNC_OTHER ? TG__SYNC_VALUES : kind;
}

static void see_unit(struct reading *r, uint32_t slice) {
  const struct tg__columns *const t = r->t;
  const struct tg__str name = tg__name(t, t->slices.name[slice]);
  struct tg__host_read read = {slice, TG__SYNC_PRINT, t->slices.start_ns[slice], tg__slice_end(t, slice)};
  if (prints(r, slice)) {
    if (r->print.slice != TG_NONE && begins_again(r, slice)) end_print(r);
    if (r->print.slice == TG_NONE) r->print = read;
    r->print.end_ns = read.end_ns;
    return;
  }
  end_print(r);
  read.kind = kind_of_read(r, slice, name);
  if (read.kind != TG__SYNC_NONE && r->conjugate != TG_NONE && tg__str_eq(name, TG_STR("aten::resolve_neg")))
    read.start_ns = t->slices.start_ns[r->conjugate];
  if (read.kind != TG__SYNC_NONE) r->visit(r->ctx, &read);
  r->conjugate = tg__str_eq(name, TG_STR("aten::resolve_conj")) ? slice : TG_NONE;
}

bool tg__visit_host_reads(const struct tg__columns *t, uint32_t rank, tg__read_visitor *visit, void *ctx) {
  struct reading r = {.t = t, .visit = visit, .ctx = ctx, .parent = TG_NONE, .print = {.slice = TG_NONE}};
  TG__EACH (k, tg__tracks_of(&t->ranks[rank])) {
    int64_t until_ns = INT64_MIN; /* of the outermost operator */
    r.conjugate = TG_NONE;
    if (t->tracks[k].kind == TG__TRACK_DEVICE) continue;
    TG__EACH (i, tg__slices_of(&t->tracks[k])) {
      if (tg__slice_class(t, i) != TG__CLASS_OP || t->slices.start_ns[i] < until_ns ||
          tg__str_has_prefix(tg__name(t, t->slices.name[i]), "ProfilerStep"))
        continue;
      until_ns = tg__slice_end(t, i);
      see_unit(&r, i);
    }
    end_print(&r);
  }
  tg__map_free(&r.prints);
  return !r.failed;
}
