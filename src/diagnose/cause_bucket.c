/* Many small collectives where a few large ones would do: each pays the fixed price of one. */
#include "analyze/work/op_inputs.h"
#include "diagnose/findings.h"

enum { BUCKET_PCT = 5, MANY = 16, SMALL_BYTES = 1 << 20, BUCKET_BYTES = 25 << 20, BYTES_PER_US = 1000 };

enum { SHORT_NS = 50000, OF_CALLS = 10 };
static const char few_large[] =
    "Send gradients in a few large pieces: DistributedDataParallel does (bucket_cap_mb), or one all_reduce on "
    "torch._utils._flatten_dense_tensors(gradients).";

struct collectives {
  struct tg__facts *f;
  uint32_t *slices; /* what runs: gloo's or, on a device, kernels */
  size_t count, cap;
  uint32_t call; /* on the host, to say where */
  struct tg__spans *calls;
  int64_t elements; /* that were sent, as far as calls and kernels state them */
};

/* c10d::allreduce_ is given a list of tensors. */
static void see_call(struct collectives *c, uint32_t slice) {
  const uint32_t dims = tg__arg_str(c->f->t, c->f->t->slices.args[slice], TG__K_INPUT_DIMS);
  if (c->call == TG_NONE) c->call = slice;
  tg__spans_add_slice(c->calls, c->f->t, slice);
  if (dims == TG_NONE || c->f->has_device_work) return;
  const int64_t elements = tg__list_elements(tg__name(c->f->t, dims), 0);
  if (c->elements < INT64_MAX / 8 - elements) c->elements += elements;
}

static void visit_collective(struct collectives *c, uint32_t slice, enum tg__class cls) {
  const struct tg__columns *t = c->f->t;
  const bool host = tg__class_is_range(cls);
  if (cls != TG__CLASS_KERNEL && !host) return;
  if (cls == TG__CLASS_OP && tg__str_has_prefix(tg__slice_name(t, slice), "c10d::")) see_call(c, slice);
  if (!(tg__slice_meaning(c->f, slice) & (host ? TG__NAME_COLLECTIVE_CALL : TG__NAME_COLLECTIVE_KERNEL))) return;
  const bool is_work = c->f->has_device_work ? !host : tg__str_has_prefix(tg__slice_name(t, slice), "gloo:");
  if (!is_work) return;
  const int64_t elements = tg__arg_int(t, t->slices.args[slice], TG__K_IN_MSG_NELEMS, 0);
  if (c->f->has_device_work && elements > 0 && c->elements < INT64_MAX / 8 - elements) c->elements += elements;
  TG__PUSH(c->f, c->slices, c->count, c->cap, slice);
}

/* Half of them take no longer than a message of some kilobytes does: then they are small, though no size is stated. */
static bool are_short(const struct collectives *c) {
  int64_t *const ns = tg__alloc_scratch(c->f, c->count, sizeof *ns), median = 0;
  for (size_t i = 0; ns && i < c->count; i++) ns[i] = c->f->t->slices.dur_ns[c->slices[i]];
  c->f->failed |= ns && !tg__median_of(ns, c->count, &median);
  return !c->f->failed && median < SHORT_NS;
}

/* Without sizes what is certain is the host's time in the calls, where the host is the slower side. */
static void report_calls(struct collectives *c, int64_t each) {
  struct tg__facts *const f = c->f;
  tg__spans_union(c->calls);
  const int64_t ns = tg__usual_sum(f, c->calls);
  if (f->device_bound || tg__pct(ns, f->total_ns) <= BUCKET_PCT || !are_short(c)) return;
  struct tg__finding *const x = tg__find_above(f, TG__CAUSE_UNBUCKETED_COMMUNICATION, BUCKET_PCT, ns);
  tg__claim_spans(f, x, c->calls);
  tg__where_slice(f, c->call, x);
  TG_FORMAT(x->evidence,
            "%lld collectives a step, half of them shorter than %d us; the host, which is the slower side, is in their "
            "calls for %.2f ms (%.1f %%)",
            (long long)each, SHORT_NS / 1000, tg__ms(x->cost_ns), x->share_pct);
  TG_FORMAT(x->advice, "%s", few_large);
  tg__finding_expect(f, x, ns - ns / OF_CALLS, 0.35, "nine of ten calls go, as far as several fit in one");
}

static void report_collective(struct collectives *c) {
  struct tg__facts *f = c->f;
  const int64_t each = tg__per_step(f, (int64_t)c->count), bytes = 4 * tg__per_step(f, c->elements);
  const int64_t exposed = tg__usual_part(f, TG__PART_COMMUNICATION), buckets = bytes / BUCKET_BYTES + 1;
  if (each >= MANY && bytes <= 0 && f->has_device_work && c->call != TG_NONE) report_calls(c, each);
  if (each < MANY || bytes <= 0 || bytes / each >= SMALL_BYTES) return;
  const int64_t sending = bytes / BYTES_PER_US * 1000 * (int64_t)f->steps.count; /* that stays: 1 GB/s is slow */
  const int64_t saving =
      exposed > sending ? (int64_t)((double)(exposed - sending) * (double)(each - buckets) / (double)each) : 0;
  const double share = tg__pct(exposed, f->total_ns);
  if (tg__pct(saving, f->total_ns) <= BUCKET_PCT) return;
  struct tg__finding *x =
      tg__finding_add(f, TG__CAUSE_UNBUCKETED_COMMUNICATION, share, BUCKET_PCT, tg__per_step(f, exposed));
  tg__where_slice(f, c->call == TG_NONE ? c->slices[0] : c->call, x);
  TG_FORMAT(x->evidence,
            "%lld collectives a step of %.1f kB each, where %lld would hold all; nothing is computed during %.2f ms of "
            "them (%.1f %%)",
            (long long)each, (double)bytes / (double)each / 1e3, (long long)buckets, tg__ms(x->cost_ns), share);
  TG_FORMAT(x->advice, "%s", few_large);
  tg__finding_expect(f, x, saving, 0.7,
                     "all but one for each 25 MB go, with their part of the exposed time beyond the sending itself");
  if (f->device_bound) /* each of them may have waited for another rank */
    tg__expect_of_device(f, x, saving, 0, 0.35, x->method);
}

void tg__judge_buckets(struct tg__facts *f) {
  struct collectives c = {.f = f, .call = TG_NONE, .calls = tg__new_spans(f)};
  if (!tg__has_steps(f) || tg__pct(f->part_ns[TG__PART_COMMUNICATION], f->sum_ns) <= BUCKET_PCT) return;
  TG__EACH_IN_STEPS (w, f) visit_collective(&c, w.slice, w.cls);
  if (!f->failed && c.count) report_collective(&c);
  tg__free(c.slices);
}
