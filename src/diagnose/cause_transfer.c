/* Input that the device copies from pageable memory: slowly, by way of a buffer, while it computes nothing and the host
 * is inside the call. */
#include "diagnose/findings.h"

enum { COPY_PCT = 5 };

struct transfers {
  struct tg__facts *f;
  struct tg__spans copies, kernels;
  uint32_t longest;
  int64_t count;
};

static bool is_pageable(struct tg__str name) {
  return tg__str_contains(name, "Pageable -> Device") || tg__str_contains(name, "Device -> Pageable");
}

static void see_transfer(void *ctx, uint32_t slice, enum tg__class cls) {
  struct transfers *const x = ctx;
  const struct tg__columns *const t = x->f->t;
  const int64_t start = t->slices.start_ns[slice], end = tg__slice_end(t, slice);
  if (cls == TG__CLASS_KERNEL) tg__spans_add(&x->kernels, start, end);
  if (cls != TG__CLASS_MEMCPY || !is_pageable(tg__name(t, t->slices.name[slice]))) return;
  tg__spans_add(&x->copies, start, end);
  x->count++;
  if (x->longest == TG_NONE || end - start > t->slices.dur_ns[x->longest]) x->longest = slice;
}

static void report_transfers(struct transfers *x, const struct tg__spans *exposed) {
  struct tg__facts *const f = x->f;
  const int64_t each_ns = tg__usual_inside(f, exposed), ns = each_ns * (int64_t)f->steps.count;
  const double share = tg__pct(each_ns, f->median_ns);
  if (share <= COPY_PCT) return;
  struct tg__finding *const y = tg__find(f, TG__CAUSE_BLOCKING_COPY, share, COPY_PCT, each_ns);
  const uint32_t call = f->t->slices.cause[x->longest];
  for (size_t i = 0; i < exposed->count; i++) tg__claim(f, y, exposed->items[i].start, exposed->items[i].end);
  tg__where_slice(f, call == TG_NONE ? x->longest : call, y);
  TG_SAY(y->evidence,
         "%lld copies %s are from or to pageable memory, and nothing is computed during %.2f ms of them (%.1f %%), the "
         "longest %.2f ms",
         (long long)tg__per_step(f, x->count), tg__per(f), tg__ms(each_ns), share,
         tg__ms(f->t->slices.dur_ns[x->longest]));
  TG_SAY(y->advice, "Copy from pinned memory: DataLoader(..., pin_memory=True) or tensor.pin_memory(), and "
                    "tensor.to(device, non_blocking=True), which goes on beside kernels.");
  y->saving_ns = tg__per_step(f, tg__shortened(f, 0, ns / 2, 0));
  y->confidence = 0.6;
  y->method = "copies from pinned memory take half as long";
}

void tg__judge_transfers(struct tg__facts *f) {
  struct transfers x = {.f = f, .longest = TG_NONE};
  struct tg__spans exposed = {0};
  if (!f->has_device_work) return;
  tg__visit(f, see_transfer, &x);
  tg__spans_union(&x.copies);
  tg__spans_union(&x.kernels);
  tg__spans_subtract(&x.copies, &x.kernels, &exposed);
  f->failed |= x.copies.failed || x.kernels.failed || exposed.failed;
  if (!f->failed && x.longest != TG_NONE) report_transfers(&x, &exposed);
  tg__spans_free(&x.copies);
  tg__spans_free(&x.kernels);
  tg__spans_free(&exposed);
}
