/* How many threads compute, against how many cores there are: a recording of ours states both. */
#include "diagnose/sites.h"

enum { THREADS_PCT = 10, SHARED_OUT_NS = 200000 };
static const double SPARE_CORES = 0.25; /* of a core: what runs on any machine */

/* A number of the document's member `conditions`; -1, too when no machine has so many. */
static int64_t condition(const struct tg__facts *f, const char *key) {
  int64_t value;
  return tg__document_condition(f->t, f->rank, NULL, key, &value) && value >= 0 && value <= INT32_MAX ? value : -1;
}

/* The line that set them, as far as a recording states one, or the variable of the environment. An operator is no place
 * of theirs. */
static void say_place(const struct tg__facts *f, struct tg__finding *x) {
  const struct tg__str from =
      tg__json_unquoted(tg__json_member(tg__document_member(f->t, f->rank, "conditions"), "threads_from"));
  const int len = (int)from.len;
  if (tg__str_contains(from, ".py("))
    TG_FORMAT(x->where, "torch.set_num_threads at %.*s", len, from.ptr);
  else if (tg__str_has_suffix(from, "_NUM_THREADS"))
    TG_FORMAT(x->where, "%.*s in the environment", len, from.ptr);
  else
    TG_FORMAT(x->where, "torch's number of threads");
}

struct own { /* by slice of a call */
  int64_t *ns;
  size_t cap;
};

/* The pieces of an operator that come one after the other: a recurrent layer goes along its sequence, the first
 * dimension of its input. */
static int64_t pieces_of(const struct tg__sites *s, uint32_t slice) {
  struct tg__shape shapes[TG_INPUTS];
  if (!tg__str_contains(tg__slice_name(s->f->t, slice), "_rnn_layer")) return 1;
  return tg__call_shapes(s, slice, shapes) && shapes[0].rank == 3 && shapes[0].dim[0] > 1 ? shapes[0].dim[0] : 1;
}

/* Time of one call in operators so long that torch shares them out, without what others take that they call: a call
 * may be made of many short ones, and no thread takes a part of those. */
static int64_t long_inside(const struct tg__sites *s, const struct tg__site_call *c, struct own *own) {
  struct tg__facts *f = s->f;
  const struct tg__slices *x = &f->t->slices;
  const int64_t end = tg__slice_end(f->t, c->slice);
  const struct tg__track *track = &f->t->tracks[tg__slice_track(f->t, c->slice)];
  uint32_t n = 0;
  for (uint32_t i = c->slice; i < track->first + track->count && (x->start_ns[i] < end || i == c->slice); i++, n++) {
    if (!tg__grow((void **)&own->ns, &own->cap, n + 1, sizeof *own->ns)) {
      f->failed = true;
      return 0;
    }
    own->ns[n] = x->dur_ns[i];
    if (x->parent[i] != TG_NONE && x->parent[i] >= c->slice && n) own->ns[x->parent[i] - c->slice] -= x->dur_ns[i];
  }
  int64_t sum = 0;
  for (uint32_t i = 0; i < n; i++)
    if (tg__slice_class(f->t, c->slice + i) == TG__CLASS_OP && own->ns[i] / pieces_of(s, c->slice + i) >= SHARED_OUT_NS)
      sum += own->ns[i];
  return sum;
}

/* Of all calls of the steps, and the site that has most of it. */
static int64_t shared_out(struct tg__sites *s, uint32_t *top) {
  struct own own = {0};
  struct tg__tally all = {0};
  int64_t *const by_site = tg__alloc_scratch(s->f, s->count, sizeof *by_site);
  *top = TG_NONE;
  for (size_t i = 0; by_site && i < s->call_count; i++) {
    const struct tg__site_call *c = &s->calls[i];
    if (!c->counted || c->kind == TG__CALL_LOAD || s->f->t->slices.dur_ns[c->slice] < SHARED_OUT_NS) continue;
    const int64_t ns = long_inside(s, c, &own);
    tg__tally_add(s->f, &all, c->slice, ns);
    if (c->site == TG_NONE || !ns) continue;
    by_site[c->site] += ns;
    if (s->sites[c->site].kind == TG__CALL_FORWARD && (*top == TG_NONE || by_site[c->site] > by_site[*top]))
      *top = c->site;
  }
  tg__free(own.ns);
  const int64_t sum = tg__tally_sum(s->f, &all);
  return sum < s->f->total_ns ? sum : s->f->total_ns; /* several threads may be at it */
}

static bool is_alone(const struct tg__facts *f) {
  const struct tg__columns *const t = f->t;
  if (f->is_of_several) return false;
  for (uint32_t i = 1; i < t->track_count; i++)
    if (t->tracks[i].kind == TG__TRACK_CPU && t->tracks[0].pid != t->tracks[i].pid) return false;
  return true;
}

static void report_threads(struct tg__sites *s, enum tg__cause cause, int64_t threads, int64_t cores, int64_t ns,
                           uint32_t top) {
  struct tg__facts *f = s->f;
  const bool many = cause == TG__CAUSE_THREAD_OVERSUBSCRIPTION;
  struct tg__finding most = {.where = ""};
  struct tg__finding *x = tg__finding_add(f, cause, tg__pct(ns, f->total_ns), THREADS_PCT, tg__per_step(f, ns));
  if (top != TG_NONE) tg__say_site(s, top, 0, &most);
  say_place(f, x);
  TG_FORMAT(
      x->evidence,
      "%lld thread%s of torch on %lld cores; operators of 0.2 ms and more, which are shared out among threads, take "
      "%.2f ms %s (%.1f %%)%s%s",
      (long long)threads, threads == 1 ? "" : "s", (long long)cores, tg__ms(x->cost_ns), tg__period_per(f),
      x->share_pct, most.where[0] ? ", most of it " : "", most.where);
  if (many) {
    TG_FORMAT(
        x->advice,
        "torch.set_num_threads(%lld), or OMP_NUM_THREADS=%lld in the environment: more threads than cores wait for "
        "each other.",
        (long long)cores, (long long)cores);
    tg__finding_expect(f, x, (int64_t)((double)ns * (1 - (double)cores / (double)threads)), 0.6,
                       "these operators take turns as if each thread beyond the cores were idle");
  } else {
    TG_FORMAT(
        x->advice,
        "torch.set_num_threads(%lld) where nothing else needs the cores; some environments set OMP_NUM_THREADS=1.",
        (long long)cores);
    tg__finding_expect(f, x, (int64_t)((double)ns * 0.7 * (1 - (double)threads / (double)cores)), 0.5,
                       "seven tenths of an even division among all cores");
  }
}

/* Mean number of other threads of the process that run an operator while the loop runs one. */
static double threads_beside(const struct tg__sites *s) {
  const struct tg__columns *const t = s->f->t;
  const uint32_t loop = tg__loop_track(s->f);
  struct tg__spans *const loops = tg__new_spans(s->f);
  int64_t both_ns = 0;
  for (size_t i = 0; i < s->call_count; i++) {
    const uint32_t slice = s->calls[i].slice;
    if (s->calls[i].counted && tg__slice_track(t, slice) == loop) tg__spans_add_slice(loops, t, slice);
  }
  tg__spans_union(loops);
  for (size_t i = 0; i < s->call_count; i++) {
    const uint32_t slice = s->calls[i].slice;
    if (tg__slice_track(t, slice) != loop)
      both_ns += tg__spans_inside(loops, t->slices.start_ns[slice], tg__slice_end(t, slice));
  }
  const int64_t loop_ns = tg__spans_length(loops);
  return loop_ns ? (double)both_ns / (double)loop_ns : 0;
}

/* How many threads are enough: torch by itself takes one for each whole core. Where that is not known, each may
 * count as two. */
static int64_t enough(const struct tg__facts *f, int64_t cores) {
  const int64_t physical = condition(f, "physical_cores");
  return physical > 0 && physical <= cores ? physical : (cores + 1) / 2;
}

void tg__judge_threads(struct tg__facts *f) {
  const int64_t threads = condition(f, "threads"), cores = condition(f, "cpu_cores");
  if (f->has_device_work || !tg__has_steps(f) || threads < 1 || cores < 1) return;
  if (threads <= cores && threads >= enough(f, cores)) return;
  const double foreign = f->noise.foreign_cores;
  const int64_t free_cores = foreign > 0 ? cores - (int64_t)ceil(foreign - SPARE_CORES) : cores;
  struct tg__sites *s = tg__facts_sites(f);
  uint32_t top;
  const int64_t ns = s ? shared_out(s, &top) : 0;
  const double share = tg__pct(ns, f->total_ns);
  if (!s || share <= THREADS_PCT || (threads <= cores && !is_alone(f))) return;
  if (threads <= cores && (f->noise.is_busy || f->noise.is_unclear || threads >= free_cores)) {
    tg__finding_withhold(f, TG__CAUSE_THREAD_UNDERUSE, share, "the cores are in use: more threads would wait for them");
    return;
  }
  if (threads <= cores && (double)threads * (1 + threads_beside(s)) >= (double)enough(f, cores) - SPARE_CORES) {
    tg__finding_withhold(f, TG__CAUSE_THREAD_UNDERUSE, share,
                         "other threads of the program run operators on the other cores");
    return;
  }
  if (threads > cores)
    report_threads(s, TG__CAUSE_THREAD_OVERSUBSCRIPTION, threads, cores, ns, top);
  else
    report_threads(s, TG__CAUSE_THREAD_UNDERUSE, threads, enough(f, cores), ns, top);
}
