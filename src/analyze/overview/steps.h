/* steps: how the time of each step divides into eight parts that add up. Used by the questions steps, overview and
 * findings.
 *
 * Which part an instant belongs to: the first of kernel, copy, memset, communication, runtime call, data loader,
 * host work that is going on; `other` when none is. A step begins and ends where its annotation does, moved so that
 * it holds the device work it launched and none of earlier steps; steps at the end without their device work in the
 * trace are left out. */
#ifndef TG_STEPS_H
#define TG_STEPS_H

#include "analyze/analyze.h"

enum tg__step_part {
  TG__PART_KERNEL,
  TG__PART_MEMCPY,
  TG__PART_MEMSET,
  TG__PART_COMMUNICATION,
  TG__PART_RUNTIME,
  TG__PART_DATALOADER,
  TG__PART_CPU_EXEC,
  TG__PART_OTHER,
  TG__PART_COUNT,
};

struct tg__step_cost {
  uint32_t step;                      /* index into trace->steps; TG_NONE for the whole recording taken as one step */
  int64_t host_start_ns, host_end_ns; /* the annotation */
  int64_t start_ns, end_ns;           /* device work it launched included */
  int64_t part_ns[TG__PART_COUNT];    /* add up to end_ns - start_ns */
  int64_t label_ns;                   /* of TG__PART_CPU_EXEC: only inside labels, which are no work */
  /* Of all parts but the data loader, labels and TG__PART_OTHER: code of torch.compile, CUDA graphs that are replayed,
   * and the rest. They add up to those parts. */
  int64_t compiled_ns, replayed_ns, eager_ns;
  int64_t computation_ns, communication_ns, overlap_ns, neither_ns; /* unions, not stripped of each other */
  int64_t device_events, short_kernels; /* kernels, copies and memsets it launched; kernels shorter than 10 us */
  /* Of its thread, as our recorder writes them; TG_NULL_INT where they are not recorded. */
  int64_t thread_cpu_ns, core_wait_ns, preemptions; /* core_wait_ns: ready, and no core was free */
};

enum tg__step_source {
  TG__STEPS_DETECTED,  /* trace->steps whatever their kind; the whole recording when the rank has none */
  TG__STEPS_PROFILER,  /* only ProfilerStep# annotations; the whole recording when there are none */
  TG__STEPS_RECORDING, /* the whole recording as one step: from the first operator to the end of the last */
  /* the same without operators, where there are calls of a runtime: from the first of these or device work on; the
   * rows say TG__STEPS_RECORDING */
  TG__STEPS_CALLS,
};

struct tg__breakdown {
  enum tg__step_source source; /* what the rows are in fact: TG__STEPS_RECORDING after a fall-back */
  struct tg__step_cost *steps; /* kept steps, by start */
  size_t count;                /* 0: the rank has neither steps nor operators */
  size_t left_out;             /* steps at the end with missing device work */
  size_t warm;                 /* steps at the start that tg__steps_leave_out_first took out as warm-up */
  int64_t warm_ns, usual_ns;   /* what those took on average, and what the others usually do */
  bool has_code;               /* some of the rank's code was compiled, or replayed: the three times say something */
  struct tg__window window;    /* from the start of the first kept step to the end of the last; empty when count is 0 */
};
/* rank: index into trace->ranks. TG_OK or TG_MEMORY; *out is to be freed either way. Needs TG__COL_CORE and
 * TG__COL_CAUSE. Worked out once for a rank and kept with the trace. */
enum tg_err tg__steps_breakdown(const struct tg__columns *t, uint32_t rank, enum tg__step_source source,
                                struct tg__breakdown *out);
void tg__breakdown_free(struct tg__breakdown *b);
/* A recording costs most where it begins: what each name is, is then written for the first time. Takes the first step
 * out of what means are taken of where its CPU time is more than one and a half times that of those after it, and
 * returns how many times; else 0. Then it takes out what warms up: of five steps or more those at the start, a third at
 * most, that are more than twice as long as the usual one. */
double tg__steps_leave_out_first(struct tg__breakdown *b);
/* The step of trace->steps that is under way on the host at ns, as an index; TG_NONE. */
uint32_t tg__step_at(const struct tg__columns *t, uint32_t rank, int64_t ns);
/* How many of the kept steps had begun on the host at ns; the last of them, one less, is the one that may be under
 * way. */
size_t tg__steps_begun(const struct tg__breakdown *b, int64_t ns);

/* step_code.c: is this work of a device of a CUDA graph that a call launched as a whole? */
bool tg__is_replayed(const struct tg__columns *t, uint32_t device_slice);

/* noise.c: how busy others kept the machine. Needs TG__COL_ALL of marks. */
struct tg__noise {
  double core_wait_pct; /* of the steps' time, the part in which their thread was ready and had no core; NaN: unknown */
  double foreign_cores; /* what other processes used on average; NaN: unknown */
  double own_cores;     /* what the process of the steps used with what it started; NaN: unknown */
  double worker_cores, busiest_worker; /* what the rank's other processes used, and the one with most; NaN: unknown */
  bool is_busy;                        /* times say as much of the machine as of the program */
  bool is_unclear;   /* the thread of the steps waits for a core, and which program had it is not known */
  bool is_of_window; /* known as one figure of all steps, not step by step or second by second */
};
struct tg__noise tg__noise_of(const struct tg__columns *t, uint32_t rank, const struct tg__breakdown *b);
int64_t tg__own_length(const struct tg__step_cost *s); /* of a step, without the wait for a core where it is known */

#endif
