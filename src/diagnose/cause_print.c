/* Tensors that are printed step by step, on a rank without a device: a print formats by some thirty operators. With a
 * device it is a wait, host-synchronisation. */
#include "diagnose/findings.h"

enum { PRINT_PCT = 5 };

struct prints {
  struct tg__facts *f;
  int64_t count;
  struct tg__host_read longest; /* slice TG_NONE = none */
  struct tg__spans *spans;
};

static void see_read(void *ctx, const struct tg__host_read *read) {
  struct prints *const p = ctx;
  const struct tg__breakdown *const steps = &p->f->steps;
  const size_t begun = tg__steps_begun(steps, read->start_ns);
  if (read->kind != TG__SYNC_PRINT || !begun || read->start_ns >= steps->steps[begun - 1].host_end_ns) return;
  const int64_t ns = read->end_ns - read->start_ns;
  p->count++;
  tg__spans_add(p->spans, read->start_ns, read->end_ns);
  if (p->longest.slice == TG_NONE || ns > p->longest.end_ns - p->longest.start_ns) p->longest = *read;
}

/* One print that takes long is no habit: what usual steps spend there counts. */
static void report_prints(struct prints *p) {
  struct tg__facts *const f = p->f;
  const int64_t usual_ns = tg__usual_sum(f, p->spans);
  struct tg__finding *const x = tg__find_above(f, TG__CAUSE_PER_ELEMENT_ITEM, PRINT_PCT, usual_ns);
  if (!x) return;
  tg__where_slice(f, p->longest.slice, x);
  TG_FORMAT(x->evidence, "prints of tensors %s: %.1f, %.2f ms (%.1f %%), the longest %.2f ms", tg__period_per(f),
            (double)p->count / (double)f->steps.count, tg__ms(x->cost_ns), x->share_pct,
            tg__ms(p->longest.end_ns - p->longest.start_ns));
  TG_FORMAT(x->advice, "Print a number, loss.item(), and that every N-th step: a tensor is formatted by some thirty "
                       "operators.");
  tg__claim_spans(f, x, p->spans);
  tg__finding_expect(f, x, usual_ns - usual_ns / 20, 0.7, "the time of the prints, but for one in twenty");
}

void tg__judge_prints(struct tg__facts *f) {
  struct prints p = {.f = f, .spans = tg__new_spans(f), .longest = {.slice = TG_NONE}};
  if (f->has_device_work || !f->steps.count || tg__has_found(f, TG__CAUSE_PER_ELEMENT_ITEM)) return;
  f->failed |= !tg__visit_host_reads(f->t, f->rank, see_read, &p);
  tg__spans_union(p.spans);
  if (!f->failed && p.count) report_prints(&p);
}
