/* The loop waits for its data loader. */
#include "diagnose/samples.h"

enum { THRESHOLD_PCT = 5, NOISY_PCT = 30, LEAST_WAIT_NS = 1000000 };

struct loader {
  struct tg__facts *f;
  struct tg__sampled workers; /* what they do in the steps */
  uint32_t longest;           /* slice */
  int64_t calls;
  struct tg__spans *spans;
};

static void see_calls(struct loader *l) {
  TG__EACH_IN_STEPS (w, l->f) {
    if (!tg__class_is_range(w.cls) || !(tg__slice_meaning(l->f, w.slice) & TG__NAME_DATALOADER)) continue;
    l->calls++;
    tg__spans_add_slice(l->spans, l->f->t, w.slice);
    tg__keep_longest(l->f->t, &l->longest, w.slice);
  }
  tg__spans_union(l->spans);
}

/* Where other programs keep the machine busy, workers get fewer cores than they would: it takes a wait of that share
 * in nine of ten steps to say that there are too few. */
static bool is_certain(struct tg__facts *f, enum tg__cause cause, double share, bool is_seen) {
  char why[100];
  const bool is_doubtful = cause == TG__CAUSE_LOADER_TOO_SLOW && f->noise.is_busy && !is_seen;
  if (share > (is_doubtful ? NOISY_PCT : THRESHOLD_PCT)) return true;
  TG_FORMAT(why, "of usual steps %.1f %% is waiting for it", share);
  tg__finding_withhold(f, cause, tg__pct(f->part_ns[TG__PART_DATALOADER], f->sum_ns),
                       f->noise.is_busy ? tg__busy_machine : why);
  return false;
}

/* A thread that waits for workers is on no core and ready for none. Handing a batch over takes a core for most of its
 * time. */
static int64_t off_core(const struct tg__facts *f, int64_t wait) {
  int64_t sum = 0;
  for (size_t i = 0; i < f->steps.count; i++) {
    const struct tg__step_cost *const s = &f->steps.steps[i];
    if (s->thread_cpu_ns == TG_NULL_INT || s->core_wait_ns == TG_NULL_INT) return wait;
    const int64_t ns = s->end_ns - s->start_ns - s->thread_cpu_ns - s->core_wait_ns;
    if (ns > 0) sum += ns;
  }
  return f->steps.count && sum < wait ? sum : wait;
}

/* Of the time inside the loader's next the part in which workers keep the loop waiting. The rest is the loop's own: the
 * batch is there, and is handed over, which takes some round trips between the processes for each tensor. Where the
 * workers compute most of the time, their thread that answers waits for their GIL: that is a wait for them, too. -1:
 * without samples that cannot be distinguished, as a call takes no longer than that. */
static int64_t wait_for_workers(struct tg__facts *f, const struct loader *l, int64_t wait) {
  struct tg__sampled seen;
  tg__sample_stretches(f, l->spans, &seen);
  const bool compute = l->workers.is_known && 2 * l->workers.doing_ns[TG__DOING_COMPUTE] > l->workers.ns;
  const int64_t own_ns = seen.doing_ns[TG__DOING_COMPUTE] + (compute ? 0 : seen.receiving_ns);
  if (seen.is_known) return (int64_t)((double)(seen.ns - own_ns) / (double)seen.ns * (double)wait);
  return wait / l->calls >= LEAST_WAIT_NS ? wait : -1;
}

/* What usual steps wait, times the steps. Workers hand over their batches several at a time, so that a few steps hold
 * the wait for all. */
static int64_t usual_wait(struct tg__facts *f, bool has_workers) {
  struct tg__tally all = {0};
  if (!has_workers) return tg__usual_part(f, TG__PART_DATALOADER);
  for (size_t i = 0; i < f->steps.count; i++) tg__tally_in(&all, i + 1, f->steps.steps[i].part_ns[TG__PART_DATALOADER]);
  return tg__tally_sum(f, &all);
}

/* The finding costs what usual steps show. Where less of it can be won for certain, that is another figure. */
static void say_certain(const struct tg__facts *f, struct tg__finding *x, int64_t wait, bool has_workers) {
  if (tg__per_step(f, wait) >= x->cost_ns) return;
  TG_ADD(x->evidence, "; %.2f ms of that %s", tg__step_ms(f, wait),
         has_workers ? "it waits for workers for certain; the rest is its own, or others kept the machine busy"
                     : "in nine of ten steps at least");
}

/* A number among the conditions of the recording, or of one member of them; 0: not known. */
static int64_t setting(const struct tg__facts *f, const char *of, const char *name) {
  int64_t value;
  return tg__document_condition(f->t, f->rank, of, name, &value) && value > 0 ? value : 0;
}

/* Of the wait the part that has nothing to do with other programs, as the workers were seen: what they wait
 * themselves, or what they compute in the time they have on cores, however many others want these, beyond the loop's
 * own time: spread over as many cores as they can use, and that of the busiest, as no other makes its batches. */
static int64_t seen_wait(const struct tg__facts *f, const struct tg__sampled *seen, int64_t cost) {
  const int64_t waits_ns = seen->ns - seen->doing_ns[TG__DOING_COMPUTE], cores = setting(f, NULL, "cpu_cores"),
                workers = setting(f, "loader", "num_workers"), side_by_side = workers < cores ? workers : cores;
  if (!seen->is_known) return 0;
  if (2 * waits_ns > seen->ns) return (int64_t)((double)cost * (double)waits_ns / (double)seen->ns);
  if (!side_by_side) return 0;
  const bool is_counted = !isnan(f->noise.worker_cores);
  const double spread = f->noise.worker_cores / (double)side_by_side;
  const int64_t need = is_counted ? (int64_t)(fmax(spread, f->noise.busiest_worker) * (double)f->total_ns)
                                  : seen->cpu_ns / side_by_side,
                ns = need - (f->total_ns - cost);
  return ns < 0 ? 0 : ns < cost ? ns : cost;
}

/* Twice of both where workers wait; one for each core where they compute and there are fewer. */
static void say_to_try(const struct tg__facts *f, struct tg__finding *x, bool waits) {
  const int64_t workers = setting(f, "loader", "num_workers"), ahead = setting(f, "loader", "prefetch_factor"),
                cores = setting(f, NULL, "cpu_cores");
  x->workers = workers >= INT32_MAX ? 0 : waits ? 2 * workers : workers < cores ? cores : 0;
  if (waits && workers && ahead && workers < INT32_MAX && ahead < INT32_MAX)
    TG_ADD(x->advice, " To try: num_workers=%lld, prefetch_factor=%lld.", 2 * (long long)workers, 2 * (long long)ahead);
  else if (!waits && workers && workers < cores)
    TG_ADD(x->advice, " To try: num_workers=%lld.", (long long)cores);
}

/* What the workers do while the loop waits for them: those that wait themselves take no core from one another. */
static void say_workers(struct tg__facts *f, const struct tg__sampled *seen, struct tg__finding *x, int64_t wait) {
  const int64_t waits_ns = seen->ns - seen->doing_ns[TG__DOING_COMPUTE];
  const bool waits = seen->is_known && 2 * waits_ns > seen->ns;
  const char *const pins = f->has_device_work ? ", pin_memory=True" : "";
  if (seen->is_known)
    TG_ADD(x->evidence,
           "; %zu samples of the workers: they %s for %.0f %% of the time%s%.*s, and are on a core for %.0f %%",
           seen->count, waits ? "wait" : "compute", tg__pct(waits ? waits_ns : seen->ns - waits_ns, seen->ns),
           seen->frame.len ? ", most at " : "", (int)seen->frame.len, seen->frame.ptr, tg__pct(seen->cpu_ns, seen->ns));
  if (waits) {
    TG_FORMAT(x->advice,
              "The workers %s and hardly compute, so more of them than there are cores help: a larger num_workers and "
              "prefetch_factor%s; or keep in memory what they fetch.",
              tg__doing_of_several(seen->most == TG__DOING_COMPUTE ? TG__DOING_WAIT : seen->most), pins);
    say_to_try(f, x, true);
    tg__finding_expect(f, x, wait - wait / 4, 0.6,
                       "twice the workers and twice as far ahead leave a quarter of the wait");
    return;
  }
  TG_FORMAT(x->advice,
            "%sMake the dataset's __getitem__ and the collate_fn cheaper; a larger num_workers%s helps while cores are "
            "free, a larger prefetch_factor where batches take unequally long.",
            seen->is_known ? "The workers compute. " : "", pins);
  say_to_try(f, x, false);
  /* whether there are cores for more workers is not known: never high */
  tg__finding_expect(f, x, wait, 0.35, "the loop waits for workers no more, as far as there are cores for them");
}

/* Of the cost, the wait is what is certain. */
static void report_loader(struct loader *l, enum tg__cause cause, int64_t cost, int64_t wait) {
  struct tg__facts *const f = l->f;
  const bool has_workers = cause == TG__CAUSE_LOADER_TOO_SLOW;
  const double share = tg__pct(cost, f->total_ns);
  struct tg__finding *const x =
      tg__finding_add(f, has_workers ? TG__CAUSE_LOADER_TOO_SLOW : TG__CAUSE_LOADER_IN_MAIN_PROCESS, share,
                      THRESHOLD_PCT, tg__per_step(f, cost));
  tg__claim_spans(f, x, l->spans);
  tg__where_slice(f, l->longest, x);
  TG_FORMAT(x->evidence,
            "the loop waits %.2f ms of %s %.2f ms %s for the next batch (%.1f %%); %lld call%s, the longest %.2f ms%s",
            tg__ms(x->cost_ns), tg__period_each(f), tg__ms(tg__per_step(f, f->total_ns)), tg__period_name(f), share,
            (long long)l->calls, l->calls == 1 ? "" : "s", tg__ms(f->t->slices.dur_ns[l->longest]),
            has_workers ? ", although worker processes load ahead" : ", all in the process that trains");
  say_certain(f, x, wait, has_workers);
  if (has_workers) {
    say_workers(f, &l->workers, x, wait);
    return;
  }
  TG_FORMAT(x->advice,
            "Let worker processes load ahead: DataLoader(..., num_workers=2 or more, persistent_workers=True%s).",
            f->has_device_work ? ", pin_memory=True" : "");
  x->workers = TG__LOADER_WORKERS;
  /* loading goes on beside the rest of the step, in two processes: the longer of the two remains */
  const int64_t rest = f->total_ns - wait, of_worker = wait / TG__LOADER_WORKERS,
                left = of_worker > rest ? of_worker - rest : 0;
  tg__finding_expect(f, x, wait - left, 0.85, "two workers load while the rest of the step runs");
}

void tg__judge_loader(struct tg__facts *f) {
  if (tg__pct(f->part_ns[TG__PART_DATALOADER], f->sum_ns) <= THRESHOLD_PCT) return;
  struct loader l = {.f = f, .longest = TG_NONE, .spans = tg__new_spans(f)};
  see_calls(&l);
  if (l.longest == TG_NONE) return; /* one that began before the steps: none was added */
  const bool has_workers = tg__str_contains(tg__name(f->t, f->t->slices.name[l.longest]), "MultiProcess");
  const enum tg__cause cause = has_workers ? TG__CAUSE_LOADER_TOO_SLOW : TG__CAUSE_LOADER_IN_MAIN_PROCESS;
  f->waits_for_workers = has_workers;
  const int64_t cost = usual_wait(f, has_workers);
  int64_t wait = f->noise.is_busy ? tg__least_part(f, TG__PART_DATALOADER) : cost;
  if (has_workers) tg__sample_workers(f, &l.workers);
  if (has_workers) wait = wait_for_workers(f, &l, off_core(f, wait));
  const int64_t seen_ns = f->noise.is_busy ? seen_wait(f, &l.workers, cost) : 0;
  const bool is_seen = seen_ns > 0 && seen_ns > wait;
  if (is_seen) wait = seen_ns;
  const double share = tg__pct(wait, f->total_ns);
  if (wait < 0 && !f->noise.is_busy)
    tg__finding_withhold(f, cause, tg__pct(f->part_ns[TG__PART_DATALOADER], f->sum_ns),
                         "too short to be distinguished from handing a batch over");
  else if (is_certain(f, cause, share, is_seen))
    report_loader(&l, cause, cost > wait ? cost : wait, wait);
}
