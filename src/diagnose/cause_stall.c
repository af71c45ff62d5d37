/* A few steps are much longer than the others, and it is the program's doing: they hold work that the others lack,
 * or stand still at one place, or come at equal distances. A machine that is busy with something else makes long
 * steps too, of the same work, at no place in particular: those are not reported. */
#include "diagnose/samples.h"
#include "diagnose/timed.h"
#include "diagnose/sites.h"

enum { STALL_STEPS = 5, STALL_PCT = 5, MORE_PCT = 150 };

static const char ADVICE[] = "Evaluate, save and log less often, or off the loop: "
                             "torch.distributed.checkpoint.async_save writes checkpoints in the background.";

struct tally { /* [0] in usual steps, [1] in long ones */
  int64_t calls[2], ns[2];
  int64_t longest_stop_ns; /* before a call of the site, in a long step */
  uint32_t stops;          /* long steps that stand still before it for at least half of what they are too long by */
};
struct extra { /* calls that long steps make more often than usual ones */
  int64_t all_ns, trained_ns, most_ns;
  uint32_t top; /* the site with most of it, TG_NONE */
};
struct stalls {
  struct tg__facts *f;
  struct tg__sites *s;
  const struct tg__breakdown *b;
  bool *is_long; /* by step */
  int64_t typical_ns, excess_ns, longest_ns;
  size_t count, longest;
  struct tally *sites;
  struct extra extra;
};

/* Without what the thread waited for a core, which is the machine's doing, for other ranks, and for workers, which
 * make their batches several at a time. */
static int64_t length_of(const struct tg__facts *f, size_t i) {
  const struct tg__step_cost *const s = &f->steps.steps[i];
  return tg__own_length(s) - s->part_ns[TG__PART_COMMUNICATION] -
         (f->waits_for_workers ? s->part_ns[TG__PART_DATALOADER] : 0);
}

static void find_typical(struct stalls *x) {
  const size_t n = x->b->count;
  int64_t *const lengths = tg__alloc_scratch(x->f, n, sizeof *lengths);
  for (size_t i = 0; lengths && i < n; i++) lengths[i] = length_of(x->f, i);
  x->f->failed |= lengths && !tg__median_of(lengths, n, &x->typical_ns);
}

/* of: of a period that all timed steps show those in its slots are meant; others are long by chance. NULL: none. */
static void find_long_steps(struct stalls *x, const struct tg__timed *of) {
  for (size_t i = 0; i < x->b->count; i++) {
    const int64_t total = length_of(x->f, i), number = x->f->t->steps[x->b->steps[i].step].number;
    if (total <= 2 * x->typical_ns || (of && !tg__timed_is_slot(of, number))) continue;
    x->is_long[i] = true;
    x->count++;
    x->excess_ns += total - x->typical_ns;
    if (total > x->longest_ns) x->longest_ns = total, x->longest = i;
  }
}

/* The step that is under way at a time on the host; SIZE_MAX. */
static size_t step_at(const struct tg__breakdown *b, int64_t ns) {
  const size_t begun = tg__steps_begun(b, ns);
  return begun && ns < b->steps[begun - 1].host_end_ns ? begun - 1 : SIZE_MAX;
}

/* Of the stop before this call the length: in a long step where that is half of what the step is too long by, in a
 * usual one where it is half of it; 0. */
static int64_t stop_before(const struct stalls *x, size_t call, size_t step) {
  const struct tg__columns *t = x->s->f->t;
  const uint32_t slice = x->s->calls[call].slice, last = call ? x->s->calls[call - 1].slice : TG_NONE;
  if (last == TG_NONE || tg__slice_track(t, last) != tg__slice_track(t, slice)) return 0;
  const int64_t ns = t->slices.start_ns[slice] - tg__slice_end(t, last);
  return 2 * ns < length_of(x->f, step) - (x->is_long[step] ? x->typical_ns : 0) ? 0 : ns;
}

/* On the thread of the loop, where that is known: others may work ahead as they like. */
static void tally_calls(struct stalls *x) {
  const struct tg__columns *t = x->s->f->t;
  const uint32_t loop = tg__loop_track(x->s->f);
  for (size_t i = 0; i < x->s->call_count; i++) {
    const struct tg__site_call *c = &x->s->calls[i];
    const int64_t start = t->slices.start_ns[c->slice];
    const size_t step = c->site == TG_NONE ? SIZE_MAX : step_at(x->b, start);
    if (step == SIZE_MAX || (loop != TG_NONE && tg__slice_track(t, c->slice) != loop)) continue;
    struct tally *y = &x->sites[c->site];
    y->calls[x->is_long[step]]++;
    y->ns[x->is_long[step]] += t->slices.dur_ns[c->slice];
    const int64_t stop = x->is_long[step] ? stop_before(x, i, step) : 0;
    if (!stop) continue;
    y->stops++;
    if (stop > y->longest_stop_ns) y->longest_stop_ns = stop;
  }
}

/* Where others keep the machine busy, threads that compute beside the loop's wait as well, and it for them. More
 * work of long steps shows in the time that their thread was on a core. */
static bool is_computed(const struct stalls *x) {
  int64_t long_ns = 0, usual_ns = 0;
  if (!x->s->f->noise.is_busy) return true;
  for (size_t i = 0; i < x->b->count; i++) {
    const int64_t cpu_ns = x->b->steps[i].thread_cpu_ns;
    if (cpu_ns == TG_NULL_INT) return false;
    *(x->is_long[i] ? &long_ns : &usual_ns) += cpu_ns;
  }
  const int64_t more = long_ns - usual_ns / (int64_t)(x->b->count - x->count) * (int64_t)x->count;
  return 2 * more >= x->excess_ns;
}

/* Work that trains: with a backward pass, of one, or of the update. */
static bool is_trained(const struct tg__site *s) {
  return s->backward_calls || (s->kind != TG__CALL_FORWARD && s->kind != TG__CALL_LOAD);
}

static struct extra extra_calls(const struct stalls *x) {
  struct extra e = {.top = TG_NONE};
  const size_t usual = x->b->count - x->count;
  for (uint32_t i = 0; i < x->s->count; i++) {
    const struct tally *y = &x->sites[i];
    if (100 * y->calls[1] * (int64_t)usual <= MORE_PCT * y->calls[0] * (int64_t)x->count) continue;
    const int64_t more = y->ns[1] - y->ns[0] * (int64_t)x->count / (int64_t)usual;
    e.all_ns += more;
    if (is_trained(&x->s->sites[i])) e.trained_ns += more;
    if (more > e.most_ns) e.most_ns = more, e.top = i;
  }
  return e;
}

/* The site with most of the extra calls, when these make up half of the excess. */
static uint32_t extra_work(const struct stalls *x) {
  return 2 * x->extra.all_ns >= x->excess_ns ? x->extra.top : TG_NONE;
}

/* Every so many steps train more: another network in turns, or an update after several batches. That is no stall. */
static bool trains_more(const struct stalls *x) {
  const struct extra *const e = &x->extra;
  return x->count && 2 * e->all_ns >= x->excess_ns && 2 * e->trained_ns >= e->all_ns;
}

/* The call before which every long step stands still. */
static uint32_t common_stop(const struct stalls *x) {
  for (uint32_t i = 0; i < x->s->count; i++)
    if (x->sites[i].stops == x->count) return i;
  return TG_NONE;
}

/* How likely so many of n steps lie at equal distances by chance: the series of one distance among all choices. */
static double chance_of_series(size_t n, size_t count) {
  double series = 0, choices = 1;
  for (size_t distance = 1; (count - 1) * distance < n; distance++) series += (double)(n - (count - 1) * distance);
  for (size_t k = 0; k < count; k++) choices *= (double)(n - k) / (double)(k + 1);
  return series / choices;
}

/* The first step is often longer because things warm up: it does not count. Where every step of the job was timed,
 * those decide, not the few of the window. */
static bool is_regular(const struct stalls *x, const struct tg__timed *of) {
  const double most_chance = 0.01;
  size_t last = SIZE_MAX, distance = 0, count = 0;
  if (of->count) return false;
  for (size_t i = 1; i < x->b->count; i++) {
    if (!x->is_long[i]) continue;
    if (distance && i - last != distance) return false;
    if (last != SIZE_MAX) distance = i - last;
    last = i;
    count++;
  }
  return count > 2 && chance_of_series(x->b->count - 1, count) < most_chance;
}

/* In the loader's own calls, most of it: its workers are what the loop waits for there. */
static bool is_in_loader(struct tg__facts *f, const struct tg__spans *when) {
  struct tg__spans *const loads = tg__new_spans(f);
  int64_t inside_ns = 0;
  TG__EACH_IN_STEPS (w, f)
    if (tg__class_is_range(w.cls) && tg__slice_meaning(f, w.slice) & TG__NAME_DATALOADER)
      tg__spans_add_slice(loads, f->t, w.slice);
  tg__spans_union(loads);
  for (size_t i = 0; i < when->count; i++)
    inside_ns += tg__spans_inside(loads, when->items[i].start, when->items[i].end);
  return 2 * inside_ns > tg__spans_length(when);
}

/* How long a long step, or a usual one, stands still before this call, if it is of the site. */
static int64_t stop_of(const struct stalls *x, size_t call, uint32_t site, bool is_long) {
  const int64_t at = x->f->t->slices.start_ns[x->s->calls[call].slice];
  const size_t step = x->s->calls[call].site == site ? step_at(x->b, at) : SIZE_MAX;
  return step == SIZE_MAX || x->is_long[step] != is_long ? 0 : stop_before(x, call, step);
}

/* When long steps, or usual ones, stand still before calls of a site: joined. */
static struct tg__spans *stops_at(const struct stalls *x, uint32_t site, bool is_long) {
  struct tg__spans *const when = tg__new_spans(x->f);
  for (size_t i = 0; i < x->s->call_count; i++) {
    const int64_t at = x->f->t->slices.start_ns[x->s->calls[i].slice], stop = stop_of(x, i, site, is_long);
    if (stop) tg__spans_add(when, at - stop, at);
  }
  tg__spans_union(when);
  return when;
}

/* Most usual steps stand still there as well, for half of their time, in the same function of the program: it is the
 * work of every step, which now and then takes longer. */
static bool is_usual_work(const struct stalls *x, uint32_t site) {
  struct tg__sampled seen[2];
  struct tg__frame_parts parts[2];
  for (int is_long = 0; is_long < 2; is_long++) {
    const struct tg__spans *const when = stops_at(x, site, is_long);
    if (!is_long && 2 * when->count < x->b->count - x->count) return false;
    tg__sample_stretches(x->f, when, &seen[is_long]);
    if (!seen[is_long].is_known || seen[is_long].most != TG__DOING_COMPUTE) return false;
    if (!tg__frame_split(seen[is_long].frame, &parts[is_long])) return false;
  }
  return tg__str_eq(parts[0].file, parts[1].file) && tg__str_eq(parts[0].function, parts[1].function);
}

/* Where long steps stand still before calls of a site: that is what is claimed. The place is where the thread was seen
 * there, else what lies before the longest stop and behind it. The cause is the wait that it was seen in, unless it is
 * for a file: saving and logging in some steps waits for one. */
static void name_wait(const struct stalls *x, uint32_t site, struct tg__finding *y) {
  struct tg__facts *const f = x->s->f;
  struct tg__sampled seen;
  int64_t longest_ns = 0;
  size_t longest = 0;
  for (size_t i = 0; i < x->s->call_count; i++) {
    const int64_t stop = stop_of(x, i, site, true);
    if (stop > longest_ns) longest_ns = stop, longest = i;
  }
  tg__claim_spans(f, y, stops_at(x, site, true));
  tg__spans_union(&y->claim);
  if (is_in_loader(f, &y->claim)) return;
  tg__sample_stretches(f, &y->claim, &seen);
  if (seen.is_known)
    TG_FORMAT(y->where, "%.*s", (int)seen.frame.len, seen.frame.ptr);
  else
    tg__say_gap(f->t, x->s->calls[longest - 1].slice, x->s->calls[longest].slice, y->where, sizeof y->where);
  if (!seen.is_known || seen.most == TG__DOING_COMPUTE || seen.most == TG__DOING_DISK) return;
  y->cause = TG__CAUSE_HOST_WAITS;
  TG_ADD(y->evidence, ", and %s there in %zu samples of the stack", tg__doing_words(seen.most), seen.count);
  TG_FORMAT(y->advice, "%s", tg__doing_advice(seen.most));
}

static void report_stalls(struct stalls *x, const struct tg__timed *of) {
  struct tg__facts *f = x->s->f;
  const double share = tg__pct(x->excess_ns, f->sum_ns);
  const uint32_t work = is_computed(x) ? extra_work(x) : TG_NONE,
                 stop = work == TG_NONE && !f->noise.is_busy ? common_stop(x) : TG_NONE,
                 place = work == TG_NONE ? stop : work;
  if (place == TG_NONE && f->noise.is_busy) {
    tg__finding_withhold(f, TG__CAUSE_PERIODIC_STALL, share, tg__busy_machine);
    return;
  }
  if (place == TG_NONE ? !is_regular(x, of) : stop != TG_NONE && is_usual_work(x, stop)) return;
  struct tg__finding *y = tg__finding_add(f, TG__CAUSE_PERIODIC_STALL, share, STALL_PCT, tg__per_step(f, x->excess_ns));
  if (place != TG_NONE && x->s->sites[place].path)
    tg__say_site(x->s, place, 0, y);
  else
    TG_FORMAT(y->where, "step %lld", (long long)f->t->steps[x->b->steps[x->longest].step].number);
  TG_FORMAT(
      y->evidence,
      "%zu of %zu steps take more than twice the median of %.2f ms, the longest %.2f ms; on average that is %.2f ms "
      "a step (%.1f %%)%s",
      x->count, x->b->count, tg__ms(x->typical_ns), tg__ms(x->longest_ns), tg__ms(y->cost_ns), share,
      work != TG_NONE   ? "; they do work there that the other steps do not"
      : stop != TG_NONE ? "; each stands still there"
                        : "; they come at equal distances");
  TG_FORMAT(y->advice, "%s", ADVICE);
  if (stop != TG_NONE) name_wait(x, stop, y);
  y->is_on_average = true;
  tg__finding_expect(f, y, x->excess_ns - x->excess_ns / 10, 0.7,
                     "nine of ten of the long steps become like the others");
}

/* ---- of all steps that were timed ------------------------------------------------------------- */

/* Where the window holds such a step: what it calls that usual ones do not, else what it was seen at. Else what was
 * seen in the others. */
static void say_place_of_long(struct stalls *x, const struct tg__timed *of, struct tg__finding *y) {
  struct tg__facts *const f = x->s->f;
  const uint32_t work = x->count && is_computed(x) ? extra_work(x) : TG_NONE;
  struct tg__sampled seen = {.is_known = false};
  for (size_t i = 0; i < x->b->count; i++)
    if (x->is_long[i]) tg__finding_claim(f, y, x->b->steps[i].host_start_ns, x->b->steps[i].host_end_ns);
  if (work == TG_NONE && x->count) tg__sample_stretches(f, &y->claim, &seen);
  const struct tg__str frame = seen.is_known ? seen.frame : tg__timed_place(f, of);
  if (work != TG_NONE && x->s->sites[work].path)
    tg__say_site(x->s, work, 0, y);
  else if (frame.len)
    TG_FORMAT(y->where, "%.*s", (int)frame.len, frame.ptr);
  else
    TG_FORMAT(y->where, "every %zuth step, as step %zu", of->period, of->first_long);
}

static void report_periodic(struct stalls *x, const struct tg__timed *of) {
  struct tg__facts *const f = x->s->f;
  const int64_t n = (int64_t)(of->count - of->warm);
  struct tg__finding *const y =
      tg__finding_add(f, TG__CAUSE_PERIODIC_STALL, tg__pct(of->excess_ns, of->sum_ns), STALL_PCT, of->excess_ns / n);
  say_place_of_long(x, of, y);
  TG_FORMAT(
      y->evidence,
      "of %zu timed steps every %zuth is long, as step %zu: %zu of %zu seen, the longest %.2f ms (%.2f ms on a core) "
      "against a usual %.2f ms; on average that is %.2f ms a step (%.1f %%); %zu of them in the window",
      of->count, of->period, of->first_long, of->long_count, of->slot_count, tg__ms(of->longest_ns),
      tg__ms(of->longest_cpu_ns), tg__ms(of->usual_ns), tg__ms(y->cost_ns), y->share_pct, x->count);
  TG_FORMAT(y->advice, "%s", ADVICE);
  f->job_step_ns = of->sum_ns / n;
  y->is_on_average = y->is_general = true;
  y->saving_ns = y->cost_ns - y->cost_ns / 10;
  y->confidence = 0.7;
  y->method = "nine of ten of the long steps become like the others";
}

/* Workers hand over their batches several at a time, which makes every so many steps wait for all: that is
 * another finding. */
static bool is_periodic(struct tg__facts *f, const struct tg__timed *of) {
  return of->period && !f->waits_for_workers && tg__pct(of->excess_ns, of->sum_ns) > STALL_PCT;
}

void tg__judge_stalls(struct tg__facts *f) {
  if (!tg__has_steps(f) || f->steps.count < STALL_STEPS) {
    tg__cannot_judge(f, TG__CAUSE_PERIODIC_STALL, "fewer than 5 steps");
    return;
  }
  struct stalls x = {.f = f, .b = &f->steps, .is_long = tg__alloc_scratch(f, f->steps.count, sizeof *x.is_long)};
  struct tg__timed timed;
  const bool comes_again = tg__timed_read(f, &timed) && is_periodic(f, &timed);
  find_typical(&x);
  if (!f->failed) find_long_steps(&x, comes_again ? &timed : NULL);
  const bool is_in_window =
      !f->failed && x.count > 1 && tg__pct(x.excess_ns, f->sum_ns) > STALL_PCT && 2 * x.count < x.b->count;
  if (!f->failed && (is_in_window || comes_again)) {
    x.s = tg__facts_sites(f);
    x.sites = x.s ? tg__alloc_scratch(f, x.s->count, sizeof *x.sites) : NULL;
    if (!f->failed) {
      tally_calls(&x);
      x.extra = extra_calls(&x);
    }
    const bool is_stall = !f->failed && !trains_more(&x);
    if (is_stall && comes_again)
      report_periodic(&x, &timed);
    else if (is_stall)
      report_stalls(&x, &timed);
  }
}
