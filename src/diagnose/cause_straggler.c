/* One rank of a job has more work, and the others wait for it in collectives. Looks at all ranks at once, after the rules that look at one. */
#include "diagnose/sites.h"

enum { EXCESS_PCT = 10 };

struct load { /* means of a step */
  double total_ns, busy_ns, wait_ns;
};

static enum tg_err load_of(const struct tg_trace *t, uint32_t rank, struct load *out) {
  struct tg__breakdown b = {0};
  const enum tg_err err = tg__steps_breakdown(t, rank, TG__STEPS_DETECTED, &b);
  *out = (struct load){0};
  for (size_t i = 0; !err && i < b.count && b.source != TG__STEPS_WHOLE; i++) {
    const double n = (double)b.count, total = (double)(b.steps[i].end_ns - b.steps[i].start_ns);
    const double wait = (double)b.steps[i].part_ns[TG__PART_COMMUNICATION];
    out->total_ns += total / n;
    out->wait_ns += wait / n;
    out->busy_ns += (total - wait) / n;
  }
  tg__breakdown_free(&b);
  return err;
}

static bool is_in_backward(const struct tg__sites *s, const struct tg__site *x) {
  for (uint32_t p = x->path; p; p = s->paths.up[p]) {
    const struct tg__str frame = tg__paths_text(&s->paths, s->paths.label[p]);
    if (!tg__is_user_frame(frame) && tg__str_has_suffix(frame, ": backward")) return true;
  }
  return false;
}

/* Where its data comes in: the first operator of a step that is given other shapes from step to step. */
static void say_place(struct tg__facts *f, struct tg__finding *x) {
  struct tg__sites *s = tg__facts_sites(f);
  TG_SAY(x->where, "rank %lld", (long long)f->t->ranks[f->rank].number);
  for (size_t i = 0; s && i < s->call_count; i++) {
    const struct tg__call *c = &s->calls[i];
    if (!c->counted || c->kind != TG__CALL_FORWARD || c->site == TG_NONE || s->sites[c->site].other_dims == TG_NONE) continue;
    if (!tg__site_frame(s, &s->sites[c->site]).len || is_in_backward(s, &s->sites[c->site])) continue;
    tg__say_site(s, c->site, 0, x);
    return;
  }
}

static void report_straggler(struct tg__facts *f, const struct load *own, double others_busy_ns, double others_wait_ns,
                             double mean_busy_ns) {
  const double excess = own->busy_ns - mean_busy_ns;
  struct tg__finding *x = tg__find(f, TG__CAUSE_RANK_STRAGGLER, 100 * (own->busy_ns - others_busy_ns) / own->total_ns, EXCESS_PCT,
                                   (int64_t)(own->busy_ns - others_busy_ns));
  say_place(f, x);
  TG_SAY(x->evidence, "rank %lld works %.2f ms of a step and waits %.2f ms in collectives; the others work %.2f ms and wait %.2f ms for it",
         (long long)f->t->ranks[f->rank].number, own->busy_ns / 1e6, own->wait_ns / 1e6, others_busy_ns / 1e6, others_wait_ns / 1e6);
  TG_SAY(x->advice,
         "Deal the work out evenly: the same mix of lengths for each rank (a strided or bucketed sampler), the same host for each.");
  x->saving_ns = (int64_t)excess;
  x->confidence = 0.75;
  x->method = "each rank works as long as they do on average";
}

/* The rank that works longest, when it works longer than the others by a tenth of a step and they wait the longer for it. TG_NONE. */
static uint32_t find_straggler(const struct load *loads, uint32_t count, double *others_busy, double *others_wait, double *mean_busy) {
  uint32_t slow = 0;
  double busy = 0, wait = 0;
  for (uint32_t r = 0; r < count; r++) {
    if (loads[r].total_ns <= 0) return TG_NONE;
    busy += loads[r].busy_ns;
    wait += loads[r].wait_ns;
    if (loads[r].busy_ns > loads[slow].busy_ns) slow = r;
  }
  *mean_busy = busy / count;
  *others_busy = (busy - loads[slow].busy_ns) / (count - 1);
  *others_wait = (wait - loads[slow].wait_ns) / (count - 1);
  const double excess = loads[slow].busy_ns - *others_busy;
  return 100 * excess > EXCESS_PCT * loads[slow].total_ns && *others_wait - loads[slow].wait_ns > excess / 2 ? slow : TG_NONE;
}

enum tg_err tg__judge_ranks(const struct tg_trace *t, tg__rank_judge *judge, void *ctx) {
  struct load *loads = t->rank_count > 1 ? tg__alloc(t->rank_count * sizeof *loads) : NULL;
  if (t->rank_count < 2) return TG_OK;
  enum tg_err err = loads ? TG_OK : TG_MEMORY;
  for (uint32_t r = 0; !err && r < t->rank_count; r++) err = load_of(t, r, &loads[r]);
  double others_busy = 0, others_wait = 0, mean = 0;
  const uint32_t slow = err ? TG_NONE : find_straggler(loads, t->rank_count, &others_busy, &others_wait, &mean);
  if (slow != TG_NONE) {
    struct tg__facts f;
    err = tg__facts_open(t, slow, &f);
    if (!err) report_straggler(&f, &loads[slow], others_busy, others_wait, mean);
    if (!err && f.failed) err = TG_MEMORY;
    if (!err) judge(ctx, &f.found[0]);
    tg__facts_close(&f);
  }
  tg__free(loads);
  return err;
}
