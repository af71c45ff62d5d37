/* What the recording does not let anybody judge, and which recording would: one step, ranks that are missing, steps
 * that still warm up, clocks of host and device that disagree. */
#include "diagnose/sites.h"
#include "diagnose/timed.h"

enum {
  USUAL_STEPS = 5,
  WARM_STEPS = 4,
  WARM_TIMES = 2,
  EARLY_PCT = 1,
  COMPILING_PCT = 20,
  PASS_PCT = 30,
  CLOCKS_NS = 20000
};

static void note_few_steps(const struct tg__facts *f, struct tg_table *out) {
  const struct tg__breakdown *const b = &f->steps;
  if (b->source == TG__STEPS_RECORDING)
    tg__table_note(out, "no steps are marked, so figures are of the whole recording and not of single steps; "
                        "call prof.step() once an iteration");
  else if (b->count < USUAL_STEPS)
    tg__table_note(out, "%zu step%s: whether %s usual is not known; record %d or more", b->count,
                   b->count == 1 ? "" : "s", b->count == 1 ? "it is" : "they are", USUAL_STEPS);
  if (b->left_out)
    tg__table_note(out, "left out: %zu step%s at the end, cut before %s device work ended", b->left_out,
                   b->left_out == 1 ? "" : "s", b->left_out == 1 ? "its" : "their");
}

/* The median length of steps from to until; 0 on no memory, which f then says. */
static int64_t median_between(struct tg__facts *f, size_t from, size_t until) {
  int64_t *const lengths = tg__alloc_scratch(f, until - from, sizeof *lengths), median = 0;
  for (size_t i = from; lengths && i < until; i++) lengths[i - from] = tg__own_length(&f->steps.steps[i]);
  f->failed |= lengths && !tg__median_of(lengths, until - from, &median);
  return median;
}

/* Where the first half takes much longer than what ends the recording, it is not what the program goes on with. */
static void note_warm_up(struct tg__facts *f, struct tg_table *out) {
  const size_t n = f->steps.count, warm = f->steps.warm;
  if (warm)
    tg__table_note(out,
                   "window includes warm-up: the first %zu of %zu steps, %.2f ms%s against a usual %.2f ms; means and "
                   "shares are without %s",
                   warm, warm + n, tg__ms(f->steps.warm_ns), warm > 1 ? " each" : "", tg__ms(f->steps.usual_ns),
                   warm > 1 ? "them" : "it");
  if (!tg__has_steps(f) || n < WARM_STEPS) return;
  const int64_t first = median_between(f, 0, n / 2), last = median_between(f, n - n / 4, n);
  if (f->failed || first <= WARM_TIMES * last) return;
  tg__table_note(
      out,
      "the first half of the steps takes %.2f ms each, the last quarter %.2f ms: the program was still warming "
      "up, and figures are of that; record later steps (schedule(wait=…, warmup=…))",
      tg__ms(first), tg__ms(last));
}

/* The parts of a step: training has a backward pass, and the two take about 1 to 2, on the device where
 * there is one. Where modules are known forward is what runs in them. */
static void note_passes(struct tg__facts *f, struct tg_table *out) {
  const struct tg__sites *const s = !tg__has_steps(f) || f->steps.count < USUAL_STEPS ? NULL : tg__facts_sites(f);
  int64_t forward = 0, backward = 0;
  for (size_t i = 0; s && i < s->call_count; i++) {
    const struct tg__site_call *const c = &s->calls[i];
    const int64_t ns = f->has_device_work ? c->device_ns : f->t->slices.dur_ns[c->slice];
    const bool is_of_model = !s->modules.count || (c->site != TG_NONE && s->sites[c->site].module != TG_NONE);
    if (c->counted && c->kind == TG__CALL_FORWARD && is_of_model) forward += ns;
    if (c->counted && c->kind == TG__CALL_BACKWARD) backward += ns;
  }
  const double forward_pct = tg__pct(forward, f->sum_ns), backward_pct = tg__pct(backward, f->sum_ns);
  const int64_t times = f->noise.is_busy ? 2 : 1; /* others may hold up the one and not the other */
  if (s && !backward && s->modules.count && forward_pct > PASS_PCT)
    tg__table_note(out,
                   "forward only: no backward pass in %zu steps; record steps of training, model.train() and "
                   "loss.backward(), where that is the question",
                   f->steps.count);
  else if (backward && (forward > 2 * times * backward || backward > 3 * times * forward) &&
           forward_pct + backward_pct > PASS_PCT)
    tg__table_note(out,
                   "operators of forward take %.2f ms a step and those of backward %.2f ms, %.1f times; usual is that "
                   "backward takes about twice what forward does",
                   tg__step_ms(f, forward), tg__step_ms(f, backward), forward ? (double)backward / (double)forward : 0);
}

static void note_compiling(const struct tg__facts *f, struct tg_table *out) {
  const struct tg__slices *const s = &f->t->slices;
  int64_t ns = 0, until_ns = INT64_MIN;
  if (tg__has_found(f, TG__CAUSE_RECOMPILATION)) return;
  TG__EACH_IN_STEPS (w, f) {
    if (!tg__class_is_range(w.cls) || s->start_ns[w.slice] < until_ns) continue;
    if (!tg__is_compiling(tg__slice_name(f->t, w.slice))) continue;
    until_ns = tg__slice_end(f->t, w.slice);
    ns += s->dur_ns[w.slice];
  }
  const double share = tg__pct(ns, f->sum_ns);
  if (share > COMPILING_PCT)
    tg__table_note(out,
                   "torch.compile works for %.1f %% of the time, so other shares are of what it leaves; record steps "
                   "after the last compilation",
                   share < 100 ? share : 100);
}

static void note_ranks(const struct tg__facts *f, struct tg_table *out) {
  const int64_t world = f->t->ranks[f->rank].world_size;
  if (world > 1 && !f->is_of_several)
    tg__table_note(out,
                   "1 of %lld ranks: whether a collective is slow or waits for another rank is not known; record all "
                   "ranks and open their folder",
                   (long long)world);
}

/* Work cannot begin before the call that launches it. Clocks are brought together to within some microseconds, which
 * leaves open nothing. */
static void note_clocks(const struct tg__facts *f, struct tg_table *out) {
  const struct tg__slices *const s = &f->t->slices;
  const struct tg__rank *const r = &f->t->ranks[f->rank];
  int64_t launched = 0, early = 0, most_ns = 0;
  TG__EACH (k, tg__tracks_of(r)) {
    TG__EACH (i, tg__slices_of(&f->t->tracks[k])) {
      if (!tg__class_is_device_work(tg__slice_class(f->t, i)) || s->cause[i] == TG_NONE) continue;
      const int64_t ns = s->start_ns[s->cause[i]] - s->start_ns[i];
      launched++;
      early += ns > CLOCKS_NS;
      if (ns > most_ns) most_ns = ns;
    }
  }
  if (100 * early > EARLY_PCT * launched)
    tg__table_note(out,
                   "%lld of %lld kernels and copies begin before the call that launches them, by up to %.2f ms: the "
                   "clocks of host and device disagree, and what the device waits for cannot be judged; record again",
                   (long long)early, (long long)launched, tg__ms(most_ns));
}

static void note_jumps(const struct tg__facts *f, struct tg_table *out) {
  size_t i = 0;
  while (i < f->steps.count && !tg__jump_after(f, i)) i++;
  if (i < f->steps.count)
    tg__table_note(
        out,
        "%.2f s lie between two steps: the clock jumped, or the program stood still; what goes on there is not judged",
        (double)tg__jump_after(f, i) / 1e9);
}

static void note_noise(const struct tg__facts *f, struct tg_table *out) {
  if (f->noise.is_busy)
    tg__table_note(out, "other programs kept the machine busy, so nothing is graded high; record on a quiet machine");
  else if (f->noise.is_unclear)
    tg__table_note(out,
                   "the loop had no core for %.0f %% of its time, and which program had it is not known, so nothing is "
                   "graded high; "
                   "record on a quiet machine",
                   f->noise.core_wait_pct);
}

void tg__note_limits(struct tg__facts *f, struct tg_table *out) {
  note_noise(f, out);
  note_few_steps(f, out);
  note_warm_up(f, out);
  tg__note_timed(f, out);
  note_passes(f, out);
  note_compiling(f, out);
  note_ranks(f, out);
  note_clocks(f, out);
  note_jumps(f, out);
}

void tg__note_missing_ranks(const struct tg__columns *t, uint32_t count, struct tg_table *out) {
  int64_t world = -1;
  for (uint32_t r = 0; r < t->rank_count; r++)
    if (t->ranks[r].world_size > world) world = t->ranks[r].world_size;
  if (count > 1 && world > count)
    tg__table_note(out,
                   "%u of %lld ranks: whether a rank that is missing holds up the others is not known; open all of "
                   "them together",
                   (unsigned)count, (long long)world);
}
