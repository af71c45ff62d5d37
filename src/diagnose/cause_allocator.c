/* Memory of the device is taken and released in most steps, while the device stands still: the allocator keeps none. */
#include "diagnose/findings.h"

enum { CHURN_PCT = 5 };

struct churn {
  struct tg__facts *f;
  struct tg__spans *calls, *busy; /* busy: the device */
  size_t steps, step;             /* that have such calls; the last of them, and one */
  int64_t count;
  uint32_t longest;
};

static bool is_of_memory(struct tg__str call) {
  static const char *const parts[] = {"Malloc",    "HostAlloc", "HostRegister", "HostUnregister", "FreeHost",
                                      "MemCreate", "MemMap",    "MemUnmap",     "MemRelease",     "MemSetAccess"};
  return TG__HAS_ONE_OF(call, parts) || tg__call_frees(call);
}

static void see_memory_call(struct churn *c, uint32_t slice, enum tg__class cls) {
  const struct tg__columns *const t = c->f->t;
  if (tg__class_is_device_work(cls)) tg__spans_add_slice(c->busy, t, slice);
  if (cls != TG__CLASS_RUNTIME || !is_of_memory(tg__slice_name(t, slice))) return;
  const size_t step = tg__steps_begun(&c->f->steps, t->slices.start_ns[slice]) + 1;
  tg__spans_add_slice(c->calls, t, slice);
  c->steps += step != c->step;
  c->step = step;
  c->count++;
  tg__keep_longest(t, &c->longest, slice);
}

static int64_t mean_of(const struct tg__facts *f, const struct tg__spans *waits) {
  int64_t sum = 0;
  for (size_t i = 0; i < f->steps.count; i++)
    sum += tg__spans_inside(waits, f->steps.steps[i].start_ns, f->steps.steps[i].end_ns);
  return sum;
}

static void report_churn(const struct churn *c, const struct tg__spans *waits) {
  struct tg__facts *const f = c->f;
  const int64_t ns = tg__usual_sum(f, waits), mean_ns = tg__per_step(f, mean_of(f, waits));
  struct tg__finding *const x = tg__find_above(f, TG__CAUSE_ALLOCATOR_CHURN, CHURN_PCT, ns);
  if (!x) return;
  tg__claim_spans(f, x, waits);
  tg__where_slice(f, c->longest, x);
  TG_FORMAT(
      x->evidence,
      "%lld calls in %zu of %zu steps take or release memory of the device, which stands still in them for %.2f ms "
      "of the usual step (%.1f %%), and for %.2f ms on average; the longest takes %.2f ms",
      (long long)c->count, c->steps, f->steps.count, tg__ms(x->cost_ns), x->share_pct, tg__ms(mean_ns),
      tg__ms(f->t->slices.dur_ns[c->longest]));
  TG_FORMAT(x->advice,
            "Let the allocator keep its memory: no torch.cuda.empty_cache() in the step, pinned buffers that are "
            "made once; where sizes differ from step to step, PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True or "
            "padded sizes; where memory is short, less of it in use.");
  tg__expect_of_device(f, x, 0, ns, 0.65,
                       "these calls go, as far as host and device each have less to do than a step takes");
}

void tg__judge_allocator(struct tg__facts *f) {
  struct churn c = {.f = f, .calls = tg__new_spans(f), .busy = tg__new_spans(f), .longest = TG_NONE};
  if (!f->has_device_work || !tg__has_steps(f)) return;
  TG__EACH_IN_STEPS (w, f) see_memory_call(&c, w.slice, w.cls);
  tg__spans_union(c.busy);
  struct tg__spans *const waits = tg__rest_of(f, c.calls, c.busy);
  const bool goes_on = c.step && 3 * (c.step - 1) > 2 * f->steps.count; /* beyond what a program does when it starts */
  if (!f->failed && c.steps > 1 && 2 * c.steps > f->steps.count && goes_on) report_churn(&c, waits);
}
