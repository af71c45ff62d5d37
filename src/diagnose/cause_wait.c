/* The program waits: for files, the collector, another thread. `tachograph run` marks such calls with a range while
 * it records. */
#include "diagnose/pipeline.h"
#include "diagnose/sites.h"

/* LOOK_BACK: of so many median steps ago may be a step of another thread that is still under way. */
enum { WAIT_PCT = 5, KINDS = 6, QUEUE = 4, ANSWER = 5, NAMES = 8, OFTEN = 10, LOOK_BACK = 100 };

static const struct {
  enum tg__cause cause;
  const char *names[NAMES];
  const char *evidence, *advice, *method;
  int64_t left; /* one part of so many stays */
} kinds[KINDS] = {
    {TG__CAUSE_SYNC_LOGGING,
     {"os.fsync", "os.fdatasync"},
     "force a file to disk",
     "Let the file buffer what is written, and flush it every N-th step or at the end; no os.fsync in the loop.",
     "the time of these calls",
     INT64_MAX},
    {TG__CAUSE_SYNC_CHECKPOINT,
     {"torch.save", "pickle.dump"},
     "save to a file",
     "Save less often, or off the loop: torch.distributed.checkpoint.async_save writes in the background.",
     "nine of ten of them left out",
     OFTEN},
    {TG__CAUSE_REPEATED_FILE_LOAD,
     {"torch.load", "numpy.load", "numpy.loadtxt", "numpy.genfromtxt", "json.load", "pickle.load", "pandas.read_csv",
      "pandas.read_parquet"},
     "read a file",
     "Read the file once, before the loop, and keep what was read.",
     "the time of these calls",
     INT64_MAX},
    {TG__CAUSE_GC_PRESSURE,
     {"gc.collect"},
     "collect garbage",
     "Collect rarely: gc.freeze() after set-up, gc.disable() in the loop and gc.collect() every N-th step.",
     "the time of these calls",
     INT64_MAX},
    {TG__CAUSE_LOADER_TOO_SLOW,
     {"queue.Queue.get", "threading.Condition.wait"},
     "wait for what another thread makes",
     "Let the threads that fill the queue work at the same time: more of them, no lock held while they work, processes "
     "where Python "
     "itself computes.",
     "the time of these calls, but for a tenth",
     OFTEN},
    {TG__CAUSE_HOST_WAITS,
     {"concurrent.futures.Future.result"},
     "wait for what another thread or process was asked to do",
     "Ask for it earlier, so that it is done when the loop comes to it, or make what the other does cheaper; "
     "where a thread computes in Python, use a process: threads take turns.",
     "the time of these calls, but for a tenth",
     OFTEN},
};

struct waits {
  struct tg__facts *f;
  struct tg__tally all[KINDS];
  int64_t ns[KINDS], calls[KINDS]; /* ns: without the work of only one step */
  uint32_t longest[KINDS], loop;   /* loop: track of the steps; waits of other threads do not count */
  uint32_t gradient;               /* name of the node of a leaf; TG_NONE */
  bool trains;                     /* gradients, or an optimizer */
  struct tg__finding *claimed;     /* by this finding, of this kind; NULL: only look */
  int claimed_kind;
  /* end of the wait the walk is in: torch.save may force to disk, too; or of the loader's next; its waits are its
   * own */
  int64_t until_ns;
};

static int classify_wait(struct tg__str name) {
  for (int k = 0; k < KINDS; k++)
    for (size_t i = 0; i < sizeof kinds[k].names / sizeof *kinds[k].names && kinds[k].names[i]; i++)
      if (tg__str_eq(name, (struct tg__str){kinds[k].names[i], (uint32_t)strlen(kinds[k].names[i])})) return k;
  return -1;
}

bool tg__is_marked_wait(struct tg__str name) { return classify_wait(name) >= 0; }

/* A thread of a pool that waits for work between two requests delays no other, though a step may be under way on
 * another thread. */
static bool is_in_step(const struct waits *w, uint32_t slice) {
  const struct tg__columns *const t = w->f->t;
  const int64_t start_ns = t->slices.start_ns[slice];
  size_t begun = w->loop == TG_NONE ? 0 : tg__steps_begun(&w->f->steps, start_ns);
  for (; begun; begun--) {
    const struct tg__step_cost *const s = &w->f->steps.steps[begun - 1];
    if (start_ns - s->host_start_ns > LOOK_BACK * w->f->median_ns) return false;
    const uint32_t step = t->steps[s->step].slice;
    const bool is_here = step == TG_NONE || tg__slice_track(t, step) == tg__slice_track(t, slice);
    if (is_here && start_ns < s->host_end_ns) return true;
  }
  return false;
}

/* The answer of a pool of processes: it waits in an event. Its iterators, which feed a loop, wait in a condition. */
static bool is_answer(const struct tg__columns *t, uint32_t slice) {
  const uint32_t text = tg__arg_str(t, t->slices.args[slice], TG__K_CALL_STACK);
  return text != TG_NONE && tg__str_contains(tg__name(t, text), "): wait;multiprocessing/pool.py(");
}

static void see_wait(struct waits *w, uint32_t slice, enum tg__class cls) {
  const struct tg__columns *t = w->f->t;
  const int named = cls == TG__CLASS_ANNOTATION ? classify_wait(tg__name(t, t->slices.name[slice])) : -1;
  const int k = named >= QUEUE && !is_in_step(w, slice) ? -1 : named == QUEUE && is_answer(t, slice) ? ANSWER : named;
  w->trains |= t->slices.name[slice] == w->gradient || (tg__slice_meaning(w->f, slice) & TG__NAME_OPTIMIZER_STEP);
  const bool loads = cls == TG__CLASS_ANNOTATION && (tg__slice_meaning(w->f, slice) & TG__NAME_DATALOADER);
  const uint32_t track = k < 0 && !loads ? TG_NONE : tg__slice_track(t, slice);
  if (track == TG_NONE || (w->loop != TG_NONE && track != w->loop) || t->slices.start_ns[slice] < w->until_ns) return;
  w->until_ns = tg__slice_end(t, slice);
  if (k < 0) return;
  if (w->claimed && k == w->claimed_kind) tg__finding_claim(w->f, w->claimed, t->slices.start_ns[slice], w->until_ns);
  tg__tally_add(w->f, &w->all[k], slice, t->slices.dur_ns[slice]);
  w->calls[k]++;
  tg__keep_longest(t, &w->longest[k], slice);
}

static struct waits walk(struct tg__facts *f, int kind, struct tg__finding *claimed) {
  static const char gradient[] = "torch::autograd::AccumulateGrad";
  struct waits w = {.f = f,
                    .loop = tg__loop_track(f),
                    .until_ns = INT64_MIN,
                    .gradient = tg__strings_find(f->t->strings, gradient, sizeof gradient - 1),
                    .claimed = claimed,
                    .claimed_kind = kind};
  for (int k = 0; k < KINDS; k++) w.longest[k] = TG_NONE;
  TG__EACH_IN_STEPS (at, f) see_wait(&w, at.slice, at.cls);
  for (int k = 0; k < KINDS; k++) w.ns[k] = tg__tally_sum(f, &w.all[k]);
  return w;
}

int64_t tg__marked_waits(struct tg__facts *f) {
  const struct waits w = walk(f, 0, NULL);
  int64_t sum = 0;
  for (int k = 0; k < KINDS; k++) sum += w.all[k].sum_ns;
  return sum;
}

int64_t tg__input_waits(struct tg__facts *f) {
  const struct waits w = walk(f, 0, NULL);
  int64_t sum = 0;
  for (int k = 0; k < KINDS; k++)
    if (kinds[k].cause != TG__CAUSE_GC_PRESSURE && kinds[k].cause != TG__CAUSE_HOST_WAITS) sum += w.all[k].sum_ns;
  return sum;
}

/* ---- another thread -------------------------------------------------------------------------- */

/* Operators on other threads of the process, joined. */
static struct tg__spans *work_of_others(struct tg__facts *f, uint32_t loop) {
  const struct tg__track *const tracks = f->t->tracks;
  struct tg__spans *const work = tg__new_spans(f);
  TG__EACH_IN_STEPS (w, f) {
    const uint32_t track = w.cls == TG__CLASS_OP ? tg__slice_track(f->t, w.slice) : loop;
    if (track != loop && tracks[track].pid == tracks[loop].pid) tg__spans_add_slice(work, f->t, w.slice);
  }
  tg__spans_union(work);
  return work;
}

/* A loop that trains waits for nothing but what its program makes. One that answers waits for requests as well: unless
 * other threads of the program are at work for half of the time, that is what the queue is empty for. */
static bool is_of_program(struct tg__facts *f, const struct waits *w, struct tg__finding *x) {
  if (w->trains) return true;
  struct tg__spans *const both = tg__new_spans(f);
  tg__spans_union(&x->claim);
  tg__spans_intersect(&x->claim, work_of_others(f, w->loop), both);
  return 2 * tg__spans_length(both) >= tg__spans_length(&x->claim);
}

/* Waiting for another thread: where several make what is waited for, and only one of them works at any time, that is
 * the reason. */
static void name_turns(struct tg__facts *f, uint32_t loop, struct tg__finding *x) {
  struct tg__turns turns;
  tg__spans_union(&x->claim);
  if (!tg__takes_turns(f, loop, &x->claim, &turns)) return;
  x->cause = TG__CAUSE_PIPELINE_LOCK_CONTENTION;
  if (turns.longest != TG_NONE) {
    tg__where_slice(f, turns.longest, x);
    TG_ADD(x->evidence,
           "; the threads that work meanwhile do so one at a time, in %lld turns of several operators each",
           (long long)turns.turns);
  } else {
    TG_FORMAT(x->where, "%.*s", (int)turns.line.len, turns.line.ptr);
    TG_ADD(x->evidence,
           "; in %zu of %zu looks at the other threads %s at most one of them works, and others wait for a "
           "lock there",
           turns.in_turn, turns.looks, turns.when);
  }
  TG_FORMAT(x->advice,
            "Hold the lock only to take an index and to hand over, not while reading and computing; where it "
            "is Python's own, use processes: "
            "DataLoader workers.");
}

/* What is saved and then forced to disk by the same function is one checkpoint. */
static void join_checkpoint(struct tg__facts *f, struct waits *w) {
  enum { LOGGING, CHECKPOINT };
  struct tg__frame_parts a, b;
  if (!w->calls[LOGGING] || !w->calls[CHECKPOINT] || w->calls[LOGGING] > w->calls[CHECKPOINT]) return;
  const bool known = tg__frame_split(tg__user_frame(f->t, w->longest[LOGGING]), &a) &&
                     tg__frame_split(tg__user_frame(f->t, w->longest[CHECKPOINT]), &b);
  if (!known || !tg__str_eq(a.file, b.file) || !tg__str_eq(a.function, b.function)) return;
  w->ns[CHECKPOINT] += w->ns[LOGGING];
  w->ns[LOGGING] = w->all[LOGGING].sum_ns = 0;
}

/* Work of only one step of several may come every hundredth time, or never again. */
static void name_what_comes_once(struct tg__facts *f, const struct waits *w, int k) {
  char why[100];
  const double share = tg__pct(w->all[k].sum_ns, f->sum_ns);
  if (share <= WAIT_PCT) return;
  TG_FORMAT(why, "in one of %zu steps, %.2f ms: whether it comes again is not known; record more steps", f->steps.count,
            tg__ms(w->all[k].most_ns));
  tg__finding_withhold(f, kinds[k].cause, share, why);
}

static void report_wait(struct tg__facts *f, const struct waits *w, int k, double share) {
  struct tg__finding *const x = tg__finding_add(f, kinds[k].cause, share, WAIT_PCT, tg__per_step(f, w->ns[k]));
  walk(f, k, x);
  if (k == QUEUE && !is_of_program(f, w, x)) {
    tg__drop_last(f);
    tg__finding_withhold(
        f, kinds[k].cause, share,
        "it waits for a queue, and no thread of this program is seen to fill it: for requests, or for threads "
        "that call no operator");
    return;
  }
  tg__where_slice(f, w->longest[k], x);
  TG_FORMAT(x->evidence, "%lld calls in %zu steps %s: %.2f ms %s (%.1f %%), the longest %.2f ms",
            (long long)w->calls[k], f->steps.count, kinds[k].evidence, tg__ms(x->cost_ns), tg__period_per(f), share,
            tg__ms(f->t->slices.dur_ns[w->longest[k]]));
  TG_FORMAT(x->advice, "%s", kinds[k].advice);
  if (k == QUEUE) name_turns(f, w->loop, x);
  x->is_on_average = true;
  tg__finding_expect(f, x, w->ns[k] - w->ns[k] / kinds[k].left, 0.9, kinds[k].method);
}

void tg__judge_waits(struct tg__facts *f) {
  struct waits w = walk(f, 0, NULL);
  join_checkpoint(f, &w);
  for (int k = 0; k < KINDS; k++) {
    const double share = tg__pct(w.ns[k], f->total_ns);
    if (share <= WAIT_PCT) {
      name_what_comes_once(f, &w, k);
      continue;
    }
    report_wait(f, &w, k, share);
  }
}
