/* What is copied while the device computes nothing: from pageable memory, slowly by way of a buffer, with the
 * host inside the call; or from pinned memory, on the stream that computes. */
#include "diagnose/findings.h"

enum { COPY_PCT = 5, MANY = 50, SMALL_BYTES = 1 << 16 };

struct transfers {
  struct tg__facts *f;
  bool is_pageable; /* which copies are meant */
  struct tg__spans *copies, *kernels;
  uint32_t longest;
  int64_t count, bytes; /* bytes: 2 GB for one that does not state them */
};

/* Pinned memory, either way. HIP does not say what memory of the host it is: what goes there may be waited for. */
static bool is_meant(const struct transfers *x, struct tg__str name) {
  const bool is_pageable = tg__str_contains(name, "Pageable -> Device") || tg__str_contains(name, "Device -> Pageable");
  return x->is_pageable ? is_pageable
                        : !is_pageable && (tg__str_contains(name, "HtoD") || tg__str_contains(name, "HostToDevice") ||
                                           tg__str_contains(name, "Device -> Pinned"));
}

static void see_transfer(struct transfers *x, uint32_t slice, enum tg__class cls) {
  const struct tg__columns *const t = x->f->t;
  if (cls == TG__CLASS_KERNEL) tg__spans_add_slice(x->kernels, t, slice);
  if (cls != TG__CLASS_MEMCPY || !is_meant(x, tg__slice_name(t, slice))) return;
  tg__spans_add_slice(x->copies, t, slice);
  const int64_t bytes = tg__arg_int(t, t->slices.args[slice], TG__K_BYTES, INT32_MAX);
  x->bytes += bytes > 0 && x->bytes < INT64_MAX / 2 ? (bytes < INT32_MAX ? bytes : INT32_MAX) : 0;
  x->count++;
  tg__keep_longest(t, &x->longest, slice);
}

static void report_transfers(const struct transfers *x, const struct tg__spans *exposed) {
  struct tg__facts *const f = x->f;
  const int64_t each_ns = tg__usual_inside(f, exposed);
  const int64_t count = tg__per_step(f, x->count);
  const double share = tg__pct(each_ns, f->median_ns);
  if (share <= COPY_PCT) return;
  struct tg__finding *const y = tg__finding_add(f, TG__CAUSE_BLOCKING_COPY, share, COPY_PCT, each_ns);
  const uint32_t call = f->t->slices.cause[x->longest];
  tg__claim_spans(f, y, exposed);
  tg__where_slice(f, call == TG_NONE || !x->is_pageable ? x->longest : call, y);
  TG_FORMAT(y->evidence,
            "%lld %s %s %s %s, and nothing is computed during %.2f ms of them (%.1f %%), the longest %.2f ms",
            (long long)count, count == 1 ? "copy" : "copies", tg__period_per(f), count == 1 ? "is" : "are",
            x->is_pageable ? "from or to pageable memory" : "between the host and the device", tg__ms(each_ns), share,
            tg__ms(f->t->slices.dur_ns[x->longest]));
  if (count >= MANY && x->bytes / x->count < SMALL_BYTES)
    TG_FORMAT(y->advice,
              "Copy once: put these small tensors (%.1f kB on average) into one buffer in pinned memory, and take "
              "them apart on the device; with non_blocking=True.",
              (double)x->bytes / (double)x->count / 1e3);
  else
    TG_FORMAT(y->advice, "%s",
              x->is_pageable
                  ? "Copy from pinned memory: DataLoader(..., pin_memory=True) or tensor.pin_memory(), and "
                    "tensor.to(device, non_blocking=True), which goes on beside kernels."
                  : "Prefetch on another stream: copy the next batch under torch.cuda.stream(other) while this one "
                    "computes, and let the computing stream wait_stream(other) before it is used; from pinned memory, "
                    "with non_blocking=True. Copy to the host on another stream, too.");
  const int64_t ns = each_ns * (int64_t)f->steps.count;
  if (x->is_pageable)
    tg__expect_of_device(f, y, ns / 2, 0, 0.6, "copies from pinned memory take half as long");
  else /* all of it, as far as there are kernels enough */
    tg__expect_of_device(f, y, ns, 0, 0.5, "these copies go on beside the kernels of the step before");
}

static void judge_copies_of(struct tg__facts *f, bool is_pageable) {
  struct transfers x = {
      .f = f, .is_pageable = is_pageable, .copies = tg__new_spans(f), .kernels = tg__new_spans(f), .longest = TG_NONE};
  TG__EACH_IN_STEPS (w, f) see_transfer(&x, w.slice, w.cls);
  tg__spans_union(x.kernels);
  const struct tg__spans *const exposed = tg__rest_of(f, x.copies, x.kernels);
  if (!f->failed && x.longest != TG_NONE) report_transfers(&x, exposed);
}

void tg__judge_transfers(struct tg__facts *f) {
  if (!f->has_device_work || tg__has_little_work(f)) return;
  judge_copies_of(f, true);
  judge_copies_of(f, false);
}
