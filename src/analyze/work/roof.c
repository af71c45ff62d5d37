/* Which operators count towards the work of a rank, and with how much time. */
#include "analyze/work/roof.h"

#include "analyze/device/tensor_cores.h"
#include "analyze/host/call_names.h"

uint32_t tg__roof_behind(const struct tg__roof *r, uint32_t device_slice) {
  const uint32_t op = tg__launching_op(r->t, device_slice);
  uint32_t node = op == TG_NONE ? TG_NONE : r->tree.node_of[op];
  while (node != TG_NONE && r->work.work_of[node] == TG_NONE) {
    const struct tg__op_node *n = &r->tree.nodes[node];
    node = n->absorbed_by != TG_NONE ? n->absorbed_by : n->parent;
  }
  return node;
}

/* Tensor cores of NVIDIA take no 32-bit floats but rounded to TF32, so work on those says it by using them. AMD's
 * matrix cores take them as they are. */
static bool name_has_tf32(struct tg__str name) {
  static const char *const amd[] = {"Cijk_", "mfma", "xdl", "_MI16x16", "_MI32x32", "_MI4x4", "_gtcx"};
  for (size_t i = 0; i < sizeof amd / sizeof *amd; i++)
    if (tg__str_contains(name, amd[i])) return false;
  return tg__str_contains(name, "tf32") || tg__str_contains(name, "TF32") ||
         tg__matrix_unit(name) == TG__UNIT_TENSOR_CORE;
}

/* Device work: which ranks have it, and the precision that its kernels have. */
static bool look_at_devices(struct tg__roof *r, struct tg__rank_range range) {
  const struct tg__columns *t = r->t;
  uint8_t *says = tg__alloc((size_t)tg__strings_count(t->strings) + 1); /* by string id: 0 not looked at, 1 no, 2 yes */
  if (!says) return false;
  for (uint32_t k = range.first_track; k < range.end_track; k++)
    TG__EACH (i, tg__slices_of(&t->tracks[k])) {
      if (!tg__class_is_device_work(tg__slice_class(t, i))) continue;
      r->on_device[t->tracks[k].rank] = true;
      const uint32_t name = t->slices.name[i];
      if (!says[name]) says[name] = name_has_tf32(tg__name(t, name)) ? 2 : 1;
      const uint32_t node = says[name] == 2 ? tg__roof_behind(r, i) : TG_NONE;
      if (node != TG_NONE) r->tf32[node] = true;
    }
  tg__free(says);
  return true;
}

enum tg_err tg__roof_open(const struct tg__columns *t, const struct tg__ask *a, struct tg__roof *out,
                          struct tg_error *e) {
  *out = (struct tg__roof){.t = t};
  const struct tg__rank_range range = tg__rank_range_of(t, a->rank);
  bool any_shapes;
  enum tg_err err = tg__op_work_has_shapes(t, &any_shapes);
  if (!err && any_shapes) err = tg__op_tree_build(t, &out->tree);
  if (!err && any_shapes) err = tg__op_work_build(t, range, &out->tree, &out->work);
  if (err) return tg__no_memory(e, "reading shapes");
  if (!any_shapes)
    return tg__fail(
        e, TG_NO_DATA, -1,
        "the trace holds no input shapes, from which operations and bytes are counted; record with record_shapes=True");
  out->on_device = tg__alloc(t->rank_count + 1);
  out->tf32 = tg__alloc(out->tree.count + 1);
  if (!out->on_device || !out->tf32 || !look_at_devices(out, range)) return tg__no_memory(e, "reading kernels");
  return TG_OK;
}

void tg__roof_close(struct tg__roof *r) {
  tg__op_tree_free(&r->tree);
  tg__op_work_free(&r->work);
  tg__free(r->on_device);
  tg__free(r->tf32);
}

bool tg__roof_count(const struct tg__roof *r, uint32_t track, uint32_t node, struct tg__counted *out) {
  const struct tg__op_node *n = &r->tree.nodes[node];
  if (!n->is_op || !n->in_table || n->absorbed_by != TG_NONE || r->work.inside[node]) return false;
  const bool on_device = r->on_device[r->t->tracks[track].rank];
  const uint32_t work = r->work.work_of[node];
  *out = (struct tg__counted){.node = node, .track = track};
  if (work == TG_NONE) {
    out->time_ns = on_device ? n->device_ns : tg__op_tree_self_ns(r->t, n);
    return out->time_ns > 0;
  }
  out->work = &r->work.works[work];
  out->precision = out->work->precision == TG__FP32 && r->tf32[node] ? TG__TF32 : out->work->precision;
  out->time_ns = on_device ? n->device_total_ns : r->t->slices.dur_ns[n->slice];
  return out->time_ns > 0;
}

/* Calls shorter than this are timed too coarsely to prove anything. */
enum { LEAST_PROOF_NS = 100000, PROOF_PCT = 105 };

void tg__roof_try_peaks(const struct tg__roof *r, uint32_t rank, struct tg__peaks *peaks) {
  const struct tg__rank *const of = &r->t->ranks[rank];
  double most = 0, rate = 0, peak = 0;
  uint32_t fastest = TG_NONE;
  if (!peaks->is_measured) return;
  for (uint32_t k = of->first_track; k < of->first_track + of->track_count; k++)
    for (uint32_t i = r->tree.first[k]; i < r->tree.first[k + 1]; i++) {
      struct tg__counted c;
      if (!tg__roof_count(r, k, i, &c) || !c.work || c.time_ns < LEAST_PROOF_NS) continue;
      const double limit = peaks->flops[c.precision], flops = 1e9 * (double)c.work->flops / (double)c.time_ns;
      if (limit <= 0 || 100 * flops <= PROOF_PCT * limit || flops / limit <= most) continue;
      most = flops / limit, rate = flops, peak = limit;
      fastest = r->t->slices.name[r->tree.nodes[i].slice];
    }
  if (fastest != TG_NONE) tg__peaks_withhold(peaks, tg__name(r->t, fastest), rate, peak);
}
