/* One rank of a job has more work, and the others wait for it in collectives. Shows in what all of them work and
 * wait; the events of the slow one say where. */
#include "diagnose/samples.h"
#include "diagnose/sites.h"

/* EQUAL_PCT: equal work on the host; cores of one machine differ by less for no reason that a program has. */
enum { EXCESS_PCT = 10, EQUAL_PCT = 20 };

static int least_excess_pct(const struct tg__straggler *s) { return s->is_equal_work ? EQUAL_PCT : EXCESS_PCT; }

static bool is_in_backward(const struct tg__sites *s, const struct tg__site *x) {
  for (uint32_t p = x->path; p; p = s->paths.up[p]) {
    const struct tg__str frame = tg__paths_text(&s->paths, s->paths.label[p]);
    if (!tg__is_user_frame(frame) && tg__str_has_suffix(frame, ": backward")) return true;
  }
  return false;
}

/* Where its data comes in: the first operator of a step that is given other shapes from step to step. Where none is:
 * what takes longest. */
static void say_place(struct tg__facts *f, struct tg__finding *x) {
  struct tg__sites *s = tg__facts_sites(f);
  uint32_t longest = TG_NONE;
  TG_FORMAT(x->where, "rank %lld", (long long)f->t->ranks[f->rank].number);
  for (size_t i = 0; s && i < s->call_count; i++) {
    const struct tg__site_call *c = &s->calls[i];
    if (!tg__is_forward(c) || !tg__site_frame(s, &s->sites[c->site]).len || is_in_backward(s, &s->sites[c->site]))
      continue;
    if (longest == TG_NONE || tg__site_ns(&s->sites[c->site]) > tg__site_ns(&s->sites[longest])) longest = c->site;
    if (s->sites[c->site].other_dims == TG_NONE) continue;
    longest = c->site;
    break;
  }
  if (longest != TG_NONE) tg__say_site(s, longest, 0, x);
}

/* Where half of what it works longer passes between two operators, that is the place: the line that was seen there, or
 * the two lines around. */
static bool say_stretch(struct tg__facts *f, struct tg__finding *x) {
  struct tg__pause pause;
  struct tg__sampled seen;
  if (f->has_device_work || !tg__has_steps(f)) return false;
  tg__find_longest_pause(f, &pause);
  tg__sample_stretches(f, pause.when, &seen);
  const bool is_it =
      2 * tg__per_step(f, pause.usual_ns) >= x->cost_ns && (seen.is_known || strstr(pause.where, ".py("));
  if (is_it && seen.is_known)
    TG_FORMAT(x->where, "%.*s", (int)seen.frame.len, seen.frame.ptr);
  else if (is_it)
    TG_FORMAT(x->where, "%s", pause.where);
  return is_it;
}

static void report_straggler(struct tg__facts *f, const struct tg__straggler *s) {
  struct tg__finding *x =
      tg__finding_add(f, TG__CAUSE_RANK_STRAGGLER, 100 * (s->own.busy_ns - s->others_busy_ns) / s->own.total_ns,
                      least_excess_pct(s), (int64_t)(s->own.busy_ns - s->others_busy_ns));
  if (!say_stretch(f, x)) say_place(f, x);
  TG_FORMAT(
      x->evidence,
      "rank %lld works %.2f ms of a step and waits %.2f ms in collectives; the others work %.2f ms and wait %.2f ms "
      "for it",
      (long long)f->t->ranks[f->rank].number, s->own.busy_ns / 1e6, s->own.wait_ns / 1e6, s->others_busy_ns / 1e6,
      s->others_wait_ns / 1e6);
  TG_FORMAT(x->advice, "%s",
            s->is_equal_work
                ? "Its operators and their shapes are those of the others, so look at what it runs on: other programs "
                  "there, clock and temperature, cores that it shares with another rank."
                : "Deal the work out evenly: the same mix of lengths for each rank (a strided or bucketed sampler), "
                  "the same host for each.");
  x->saving_ns = (int64_t)(s->own.busy_ns - s->mean_busy_ns);
  x->confidence = 0.75;
  x->method = "each rank works as long as they do on average";
}

/* Does it do the same work as the others, in operators that take longer there? */
static bool is_equal_work(const struct tg__rank_load *loads, size_t count, const struct tg__straggler *s) {
  double operators_ns = 0;
  bool is_equal = s->own.work != 0;
  for (size_t r = 0; r < count; r++) {
    is_equal = is_equal && loads[r].work == s->own.work;
    if (r != s->which) operators_ns += loads[r].operators_ns / (double)(count - 1);
  }
  return is_equal && 2 * (s->own.operators_ns - operators_ns) > s->own.busy_ns - s->others_busy_ns;
}

/* Is it more than steps differ by anyway? */
static bool is_beyond_jitter(const struct tg__rank_load *loads, size_t count, size_t slow, double excess_ns) {
  enum { ERRORS = 3 };
  const double others = (double)(count - 1);
  double variance = loads[slow].error_ns * loads[slow].error_ns;
  for (size_t r = 0; r < count; r++)
    if (r != slow) variance += loads[r].error_ns * loads[r].error_ns / (others * others);
  return excess_ns > ERRORS * sqrt(variance);
}

/* Slower cores, or none, do not explain a thread that is on none and ready for none. */
static bool stands_still(const struct tg__rank_load *loads, size_t count, size_t slow, double excess_ns) {
  double most_ns = 0;
  for (size_t r = 0; r < count; r++)
    if (r != slow && !(loads[r].most_still_ns <= most_ns)) most_ns = loads[r].most_still_ns; /* NaN: not known */
  return loads[slow].least_still_ns - most_ns > excess_ns / 2;
}

/* The rank that works longest, when it works longer than the others by a tenth of a step and they wait the longer
 * for it. */
bool tg__find_straggler(const struct tg__rank_load *loads, size_t count, struct tg__straggler *out) {
  size_t slow = 0;
  double busy = 0, wait = 0;
  for (size_t r = 0; r < count; r++) {
    if (loads[r].total_ns <= 0) return false;
    busy += loads[r].busy_ns;
    wait += loads[r].wait_ns;
    if (loads[r].busy_ns > loads[slow].busy_ns) slow = r;
  }
  if (count < 2) return false;
  const double others = (double)(count - 1);
  *out = (struct tg__straggler){.which = slow,
                                .own = loads[slow],
                                .others_busy_ns = (busy - loads[slow].busy_ns) / others,
                                .others_wait_ns = (wait - loads[slow].wait_ns) / others,
                                .mean_busy_ns = busy / (double)count};
  const double excess = loads[slow].busy_ns - out->others_busy_ns;
  out->is_equal_work = is_equal_work(loads, count, out);
  out->stands_still = stands_still(loads, count, slow, excess);
  return 100 * excess > least_excess_pct(out) * loads[slow].total_ns &&
         out->others_wait_ns - loads[slow].wait_ns > excess / 2 && is_beyond_jitter(loads, count, slow, excess);
}

enum tg_err tg__judge_straggler(const struct tg__columns *t, uint32_t rank, const struct tg__straggler *s,
                                struct tg__finding *out) {
  struct tg__facts f;
  enum tg_err err = tg__facts_open(t, rank, &f);
  if (!err) report_straggler(&f, s);
  if (!err && f.failed) err = TG_MEMORY;
  if (!err) *out = f.found[0];
  tg__facts_close(&f);
  return err;
}
