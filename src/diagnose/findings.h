/* findings.h: what the rules share; private to the folder. A rule looks at the facts of one rank and adds what it
 * found. */
#ifndef TG_FINDINGS_H
#define TG_FINDINGS_H

#include "analyze/device/gaps.h"
#include "analyze/overview/steps.h"
#include "diagnose/diagnose.h"

#include <math.h>

enum tg__cause {
#define CAUSE(id, name, meaning, change) TG__CAUSE_##id,
#include "diagnose/causes.def"
  TG__CAUSE_COUNT
};

struct tg__finding {
  enum tg__cause cause;
  uint32_t rank;
  double share_pct;     /* of the step, or the figure the rule tests */
  double threshold_pct; /* the rule fires when that is above this; TG__NO_THRESHOLD where something else decides */
  int64_t cost_ns;      /* a step; TG_NULL_INT = the rule has no estimate */
  int64_t saving_bytes; /* of memory, where that is what the cure saves; TG_NULL_INT */
  int64_t saving_ns;    /* what the cure should take off a step; TG_NULL_INT = not estimated */
  int64_t saving_low_ns, saving_high_ns; /* eight of ten measured savings lie there; TG_NULL_INT */
  int64_t rule_ns, model_ns; /* saving_ns as the rule, and as the model of the steps works it out; TG_NULL_INT */
  int64_t gone_ns;           /* what of its time goes, over all steps, whatever then bounds them; TG_NULL_INT */
  int64_t workers;           /* of the loader, which it proposes; 0: none */
  double confidence;         /* 0 to 1 that this is the cause and the cure works */
  const char *method;        /* how the saving was estimated; where it is not, why not */
  /* the time it speaks of, inside the window of the steps: the host's, or in which a device stands still; empty
   * where a rule states only its length */
  struct tg__spans claim;
  bool is_symptom;    /* a finding that claims half of its time is its cause, and is reported instead */
  bool is_general;    /* of the step as a whole: what names a place in it keeps its time */
  bool is_on_average; /* its time is only in some steps, and is spread over all */
  bool is_in_noise;   /* other programs kept the machine busy: it is never graded high */
  bool is_unclear;    /* its thread waited for a core, and for whom is not known: neither */
  bool is_warning;    /* speaks of memory or of measuring, not of time to be saved */
  bool is_statement;  /* of how it is: there is no cure, and it is low */
  bool is_of_device;  /* what it claims is when the device works; else the host's time, or when a device waits */
  char where[200], evidence[600], advice[500];
};

/* The facts of one rank. Sums are over the kept steps (the whole recording counts as one); total_ns is without the
 * work of only one step, as figures of usual steps are, sum_ns and part_ns are with it. */
struct tg__facts {
  const struct tg__columns *t;
  const struct tg__catalog *questions; /* that rules may ask; NULL: none */
  uint32_t rank;
  bool is_of_several; /* the job has other ranks */
  struct tg__names names;
  struct tg__breakdown steps;
  struct tg__gaps gaps;
  int64_t total_ns, sum_ns, part_ns[TG__PART_COUNT];
  /* inside the window of the steps, over all devices: of usual steps, times the steps, without what comes once */
  int64_t gap_ns[TG__GAP_CAUSE_COUNT];
  int64_t all_ns, label_ns; /* of the steps with what comes once; inside labels only, which are no work */
  struct tg__noise noise;
  bool has_device_work;
  bool has_memory; /* events of an allocator, or a snapshot: looked at without steps, too */
  /* In the window of the steps: its length, the time some device works, and the host's without what it waits for
   * devices. The longer of the two is what a step cannot be shorter than as long as that side does the same work. */
  int64_t window_ns, device_busy_ns, host_busy_ns;
  bool device_bound; /* the device's is the longer */
  struct tg__finding *found;
  size_t found_count, found_cap;
  struct tg__finding overflow; /* written to when memory has run out */
  char unjudged[512];          /* causes a rule could not judge, and why; "; " between */
  struct tg__spans one_off;    /* what comes once, and counts for no step */
  char one_off_text[300];      /* the same in words */
  int64_t device_events;       /* in the window of the steps: kernels, copies, memsets */
  int64_t replayed;            /* of them, launched as parts of a graph */
  int64_t device_names;        /* how many names they have */
  char withheld[400];          /* findings that are not reported, and why; "; " between */
  char uncertain[400];         /* those that the recording does not bear out, with their shares; "; " between */
  bool waits_for_workers;      /* of its loader, which tg__judge_loader looks at */
  int64_t median_ns;           /* of the lengths of the steps */
  int64_t job_step_ns;         /* the mean of all steps that were timed, where a rule goes by them; 0 */
  struct tg__sites *sites;     /* made when the first rule asks */
  struct tg__arena scratch;    /* see tg__alloc_scratch */
  struct tg__scratch_spans *scratch_spans;
  struct tg__spans overflow_spans; /* written to when memory has run out */
  bool failed;
};

/* A new finding with its numbers, to be given its texts; never NULL. */
#define TG__NO_THRESHOLD ((double)NAN)
enum { TG__LOADER_WORKERS = 2 }; /* what is proposed where there are none */
struct tg__finding *tg__finding_add(struct tg__facts *f, enum tg__cause cause, double share_pct, double threshold_pct,
                                    int64_t cost_ns);
/* The same of a cause that takes so much time over all steps; NULL where that is not above least_pct of them. */
struct tg__finding *tg__find_above(struct tg__facts *f, enum tg__cause cause, double least_pct, int64_t sum_ns);
void tg__drop_last(struct tg__facts *f); /* takes back the newest finding */
/* cause_device.c: how well a device is used that works for so much of the time, in words. */
const char *tg__utilisation_class(double busy_pct);
int64_t tg__device_peak(const struct tg__facts *f, const struct tg__device *d); /* bytes allocated; 0: not known */
/* gap_holder.c: the part of the host's program that holds the gaps with one of these causes (bits), of one device or of
 * all. slice: TG_NONE: none holds a fifth. pct: of these gaps. */
#define TG__ANY_DEVICE INT64_MIN
struct tg__holder {
  uint32_t slice;
  int64_t longest_ns;
  double pct;
  bool is_half;
};
struct tg__holder tg__find_holder(struct tg__facts *f, int64_t device, unsigned causes);
bool tg__has_little_work(const struct tg__facts *f);               /* too little on the device to judge its use by */
bool tg__is_step_slice(const struct tg__facts *f, uint32_t slice); /* the annotation of one */
bool tg__next_device(const struct tg__facts *f, int64_t *device);  /* in rising order, from INT64_MIN on */
void tg__text_format(char *buf, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
#define TG_FORMAT(field, ...) tg__text_format(field, sizeof(field), __VA_ARGS__)
/* The same behind the text that is there. */
void tg__text_add(char *buf, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
#define TG_ADD(field, ...) tg__text_add(field, sizeof(field), __VA_ARGS__)
/* What the cure is expected to take off all steps together, how that was worked out, and how sure it is. */
void tg__finding_expect(struct tg__facts *f, struct tg__finding *x, int64_t saving_sum_ns, double confidence,
                        const char *method);
/* The same where so much of it goes that the device does, and so much that the host waits for it. */
void tg__expect_of_device(struct tg__facts *f, struct tg__finding *x, int64_t device_ns, int64_t wait_ns,
                          double confidence, const char *method);
/* The same for work with times from sites: the device's where it is device bound. Says in the evidence which
 * time that is. */
void tg__expect_at_sites(struct tg__facts *f, struct tg__finding *x, int64_t saving_sum_ns, double confidence,
                         const char *method);
/* What of these intervals, which are joined and freed, lies outside of others, which are joined; of tg__new_spans. */
struct tg__spans *tg__rest_of(struct tg__facts *f, struct tg__spans *of, const struct tg__spans *others);
/* The gaps of a device with one cause, joined and without what comes once; of tg__new_spans. */
struct tg__spans *tg__gap_spans(struct tg__facts *f, int64_t device, enum tg__gap_cause cause);
/* Time between a step and the next that is as long as a hundred steps: the clock jumped, or the program stood still;
 * 0. */
int64_t tg__jump_after(const struct tg__facts *f, size_t step);
void tg__facts_find_one_off(struct tg__facts *f); /* once.c: fills one_off and one_off_text */
/* bounds.c: what the steps become shorter by when the host has so much less to do, the device so much, and the host
 * waits so much less for it. Without device work there is only the host. */
void tg__find_bounds(struct tg__facts *f);
int64_t tg__steps_shortened(const struct tg__facts *f, int64_t host_ns, int64_t device_ns, int64_t wait_ns);
int64_t tg__marked_waits(struct tg__facts *f); /* time inside calls that only wait, as `tachograph run` marks them */
int64_t tg__input_waits(struct tg__facts *f);  /* of these, for files and for queues that other threads fill */
bool tg__is_marked_wait(struct tg__str name);
/* claims.c: the time that a finding speaks of, as an interval (cut to the window of the steps), as several, as the
 * host's calls of the sites marked in `in`. */
struct tg__sites;
void tg__finding_claim(const struct tg__facts *f, struct tg__finding *x, int64_t start_ns, int64_t end_ns);
void tg__claim_spans(const struct tg__facts *f, struct tg__finding *x, const struct tg__spans *s);
void tg__claim_sites(const struct tg__sites *s, const bool *in, struct tg__finding *x);
/* Of a finding about work of the host that keeps a device waiting: it costs what the device waits in its time. */
void tg__count_waiting(struct tg__facts *f, struct tg__finding *x);
/* usual.c. The part of these (joined) intervals in a usual step: the median over the steps, or the mean where that is
 * less; the same times the steps; of a part, times the steps; and the median of the lengths of the steps. */
int64_t tg__usual_inside(struct tg__facts *f, const struct tg__spans *s);
int64_t tg__usual_sum(struct tg__facts *f, const struct tg__spans *s);
int64_t tg__usual_part(struct tg__facts *f, enum tg__step_part part);
/* Of a place, by step: the median, or what nine of ten steps spend there where other programs keep the machine busy;
 * times the steps. */
int64_t tg__usual_place(struct tg__facts *f, const int64_t *ns);
int64_t tg__usual_place_of(struct tg__facts *f, const struct tg__spans *s); /* the same of (joined) intervals */
int64_t tg__usual_length(struct tg__facts *f);
bool tg__median_of(const int64_t *values, size_t n, int64_t *out); /* 0 of none; false on no memory */
uint32_t *tg__order_numbers(const int64_t *values, size_t n);      /* their order; NULL on no memory; tg__free */
/* What nine of ten steps spend in this part of theirs at least, times the steps: a thread that waits for another waits
 * longer there in some, whatever the program does. */
int64_t tg__least_part(struct tg__facts *f, enum tg__step_part part);
/* The sum of what need not come in each step, as what is saved now and then, or by one of many places. From five steps
 * on the step with most of it counts as the one with most of the others, so that a single one says nothing. Begin with
 * zeros; add by track, then start. */
struct tg__tally {
  int64_t sum_ns, here_ns, most_ns, next_ns; /* in all; in the step under way, in the one with most, in the next */
  size_t step, most_step;                    /* steps that had begun */
};
void tg__tally_in(struct tg__tally *y, size_t step, int64_t ns);
void tg__tally_add(const struct tg__facts *f, struct tg__tally *y, uint32_t slice, int64_t ns);
int64_t tg__tally_sum(const struct tg__facts *f, const struct tg__tally *y);
/* A step; of what comes only in some steps the mean one. */
int64_t tg__most_to_save(const struct tg__facts *f, const struct tg__finding *x);
/* What makes a finding impossible, in words; NULL where it is sound: nothing saves more than the median step, and no
 * share is above 100 %. */
const char *tg__finding_fault(const struct tg__facts *f, const struct tg__finding *x);
/* What the cure is expected to save: the order of findings. Without an estimate a part of the time that the cause
 * holds. */
double tg__expected_ns(int64_t saving_ns, double confidence, int64_t cost_ns);
/* Of findings that claim the same time the one with most expected saving stays; what is unsound or worth less than
 * 3 % goes. */
void tg__resolve_claims(struct tg__facts *f);
void tg__find_ranges(struct tg__facts *f); /* ranges.c: of the savings; after tg__resolve_claims */
struct tg__finding *tg__finding_of(const struct tg__facts *f, enum tg__cause cause); /* the first of it; NULL */
bool tg__has_found(const struct tg__facts *f, enum tg__cause cause);
struct tg__sites *tg__facts_sites(struct tg__facts *f); /* NULL on no memory: f->failed */
void tg__cannot_judge(struct tg__facts *f, enum tg__cause cause, const char *why);
/* The time is there, and whether this is the cause is not sure. */
void tg__finding_withhold(struct tg__facts *f, enum tg__cause cause, double share_pct, const char *why);
extern const char tg__busy_machine[]; /* a reason for both */
/* Of a rule about devices: where the trace neither has work of one nor names one, there is nothing to judge. */
void tg__cannot_judge_device(struct tg__facts *f, enum tg__cause cause, const char *why);
/* "name", and " at file.py(12): function" behind it when a Python frame of the user's is around the slice. */
void tg__where_slice(const struct tg__facts *f, uint32_t slice, struct tg__finding *out);
/* Between which lines of the program most time passes without an operator. Where the trace has no lines: all long
 * pauses. */
struct tg__pause {
  char where[sizeof((struct tg__finding *)0)->where];
  int64_t usual_ns, all_ns; /* what usual steps spend there, times the steps; all of it */
  uint32_t read;            /* a call that opens a file there, where half of the steps do so; TG_NONE */
  struct tg__spans *when;   /* joined; as of tg__new_spans */
};
void tg__find_longest_pause(struct tg__facts *f, struct tg__pause *out);
/* Says where Python stands between these two slices, each with the line of the program. */
void tg__say_gap(const struct tg__columns *t, uint32_t before, uint32_t after, char *where, size_t size);
/* Is the name one of these, or has it one of these in it? */
bool tg__is_one_of(struct tg__str name, const char *const *names, size_t count);
bool tg__has_one_of(struct tg__str name, const char *const *parts, size_t count);
#define TG__IS_ONE_OF(name, list) tg__is_one_of(name, list, sizeof(list) / sizeof *(list))
#define TG__HAS_ONE_OF(name, list) tg__has_one_of(name, list, sizeof(list) / sizeof *(list))
static inline unsigned tg__slice_meaning(struct tg__facts *f, uint32_t slice) { /* TG__NAME_* of a slice's name */
  return tg__names_of(&f->names, f->t->slices.name[slice]);
}
/* Every slice that starts inside the window of the steps, by track, then start: w.slice, of the class w.cls. */
struct tg__slice_walk {
  const struct tg__facts *f;
  uint32_t slice;
  enum tg__class cls;
  uint32_t track, past_track, next, past; /* the track to go on with, and the slices to come of the one before it */
};
struct tg__slice_walk tg__slices_begin(const struct tg__facts *f);
bool tg__slices_next(struct tg__slice_walk *w);
#define TG__EACH_IN_STEPS(w, f) for (struct tg__slice_walk w = tg__slices_begin(f); tg__slices_next(&w);)
static inline void tg__spans_add_slice(struct tg__spans *s, const struct tg__columns *t, uint32_t slice) {
  tg__spans_add(s, t->slices.start_ns[slice], tg__slice_end(t, slice));
}
static inline int64_t tg__device_of(const struct tg__facts *f, uint32_t slice) {
  return f->t->tracks[tg__slice_track(f->t, slice)].device;
}
/* longest: TG_NONE before the first. Of equally long ones the first stays. */
static inline void tg__keep_longest(const struct tg__columns *t, uint32_t *longest, uint32_t slice) {
  if (*longest == TG_NONE || t->slices.dur_ns[slice] > t->slices.dur_ns[*longest]) *longest = slice;
}
/* Of a slice inside Optimizer.step: whether it is no part of the update. step(closure) runs a forward and a backward
 * pass in there, with gradients switched on and so with sequence numbers; an update has neither. */
bool tg__is_of_closure(const struct tg__columns *t, uint32_t slice);
/* Of the thread on which the steps are marked; TG_NONE: not known. */
uint32_t tg__loop_track(const struct tg__facts *f);
int64_t tg__per_step(const struct tg__facts *f, int64_t sum);
/* Are steps marked? Else figures are of the whole recording. */
static inline bool tg__has_steps(const struct tg__facts *f) { return f->steps.source != TG__STEPS_RECORDING; }
/* What the figures are of: "a step", "step", "each"; without steps "in all", "recording", "the". */
const char *tg__period_per(const struct tg__facts *f);
const char *tg__period_name(const struct tg__facts *f);
const char *tg__period_each(const struct tg__facts *f);
/* Zeroed memory, which goes when the rule ends that asked for it. NULL on no memory, which the facts then say. */
void *tg__alloc_scratch(struct tg__facts *f, size_t count, size_t item_bytes);
struct tg__spans *tg__new_spans(struct tg__facts *f); /* go at the same time; never NULL */
/* A value behind the others of an array that grows; on no memory the facts say so. */
#define TG__PUSH(f, items, count, cap, ...)                                                                            \
  do {                                                                                                                 \
    if (tg__grow(&(items), &(cap), (count) + 1, sizeof *(items)))                                                      \
      (items)[(count)++] = __VA_ARGS__;                                                                                \
    else                                                                                                               \
      (f)->failed = true;                                                                                              \
  } while (0)
static inline double tg__pct(int64_t part, int64_t whole) {
  return whole > 0 ? 100.0 * (double)part / (double)whole : 0;
}
static inline double tg__ms(int64_t ns) { return (double)ns / 1e6; }
static inline double tg__step_ms(const struct tg__facts *f, int64_t sum_ns) { return tg__ms(tg__per_step(f, sum_ns)); }

/* One rank's facts; close them either way. TG_OK or TG_MEMORY. */
enum tg_err tg__facts_open(const struct tg__columns *t, uint32_t rank, struct tg__facts *f);
void tg__facts_close(struct tg__facts *f);

/* facts_ask.c: the answer of another question about the rank, with one argument or, name NULL, none. NULL: the trace
 * has no data for it, or memory has run out, which f then says. Cells by name: unknown counts as 0, NaN or empty. */
struct tg_table *tg__facts_ask(struct tg__facts *f, enum tg__question_id id, const char *name, const char *value);
int64_t tg__fact_number(const struct tg_table *t, size_t row, const char *column);
double tg__fact_real(const struct tg_table *t, size_t row, const char *column);
struct tg__str tg__fact_text(const struct tg_table *t, size_t row, const char *column);

bool tg__is_compiling(struct tg__str name); /* cause_compile.c: a range in which torch.compile works */
/* cause_break.c: a range in which code that it compiled runs; whether a slice is one, or lies in one. */
bool tg__is_compiled_range(struct tg__str name);
bool tg__is_in_compiled(const struct tg__columns *t, uint32_t slice);

void tg__judge_memory(struct tg__facts *f); /* cause_memory.c: needs no steps, so it is asked of snapshots as well */
struct tg_table *tg__ask_leaks(struct tg__facts *f);             /* the question leaks, as tg__facts_ask answers */
void tg__note_checks(struct tg__facts *f, struct tg_table *out); /* checks.c: what was looked at, in numbers */
/* limits.c: what the recording leaves open, and which one would show it; of one rank, and of `count` ranks together. */
void tg__note_limits(struct tg__facts *f, struct tg_table *out);
void tg__note_missing_ranks(const struct tg__columns *t, uint32_t count, struct tg_table *out);

enum tg_err tg__no_steps_to_judge(struct tg_error *e); /* work_bounds.c: TG_NO_DATA */

/* work_bounds.c: an answer of the facts of each rank that was asked for, of those with steps. TG_NO_DATA where no row
 * comes of it; doing: what there was no memory for. */
typedef void tg__put_facts(struct tg__facts *f, struct tg_table *out);
enum tg_err tg__put_of_ranks(const struct tg__columns *t, const struct tg__ask *a, tg__put_facts *put,
                             const char *doing, struct tg_table *out, struct tg_error *e);

/* settings.c: as they are, behind the advice. */
void tg__say_settings(const struct tg__facts *f, struct tg__finding *x);

/* finding_rows.c */
const char *tg__cause_name(enum tg__cause cause);
void tg__put_finding(const struct tg__columns *t, const struct tg__finding *x, struct tg_table *out);

/* cause_straggler.c: the finding about the rank that tg__find_straggler names. */
enum tg_err tg__judge_straggler(const struct tg__columns *t, uint32_t rank, const struct tg__straggler *s,
                                struct tg__finding *out);

#define RULE(function) void function(struct tg__facts *f);
#include "diagnose/causes.def"

#endif
