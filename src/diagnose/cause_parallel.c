/* Several devices or processes: exposed communication, and wrappers or back ends that hold it back. */
#include "analyze/ranks/buckets.h"
#include "diagnose/sites.h"

enum { COMMUNICATION_PCT = 10, ALONE_PCT = 5, LEAST_PCT = 3 };

struct collectives {
  struct tg__facts *f;
  uint32_t longest, call; /* what runs; the first call of the program that asked for it */
  /* some are asked for by nodes of autograd, as DistributedDataParallel does: those go on beside backward already */
  bool in_backward;
};

static bool is_in_node(const struct tg__columns *t, uint32_t slice) {
  uint32_t up = t->slices.parent[slice];
  while (up != TG_NONE && !tg__str_has_prefix(tg__name(t, t->slices.name[up]), "autograd::engine::"))
    up = t->slices.parent[up];
  return up != TG_NONE;
}

static void see_collective(struct collectives *c, uint32_t slice, enum tg__class cls) {
  const bool host = cls == TG__CLASS_OP || cls == TG__CLASS_ANNOTATION;
  if (cls != TG__CLASS_KERNEL && !host) return;
  if (cls == TG__CLASS_OP && tg__str_has_prefix(tg__name(c->f->t, c->f->t->slices.name[slice]), "c10d::")) {
    if (c->call == TG_NONE && tg__user_frame(c->f->t, slice).len) c->call = slice;
    c->in_backward |= is_in_node(c->f->t, slice);
  }
  if (!(tg__slice_meaning(c->f, slice) & (host ? TG__NAME_COLLECTIVE_CALL : TG__NAME_COLLECTIVE_KERNEL))) return;
  tg__keep_longest(c->f->t, &c->longest, slice);
}

/* On the host communication can go on beside backward, as far as there is enough of that; it computes itself, and
 * half of it is what others then wait for. */
static void expect_of_host_overlap(struct tg__facts *f, struct tg__finding *x, int64_t exposed) {
  struct tg__sites *s = tg__facts_sites(f);
  int64_t backward = 0;
  for (size_t i = 0; s && i < s->call_count; i++) {
    const struct tg__site_call *c = &s->calls[i];
    if (c->counted && (c->kind == TG__CALL_BACKWARD || c->kind == TG__CALL_ACCUMULATE))
      backward += f->t->slices.dur_ns[c->slice];
  }
  if (backward > 0)
    tg__finding_expect(f, x, (exposed < backward ? exposed : backward) / 2, 0.3,
                       "half of the communication goes on beside backward, as far as that is long enough");
  else
    x->method = "no backward that it could go on beside is in the trace";
}

/* ---- what one rank of several can say -------------------------------------------------------- */

struct one_rank { /* kernels of collectives, by name and size, or place in the step */
  struct tg__facts *f;
  struct tg__map shortest_us; /* of each kind, at least 1 */
  struct tg__map seen;        /* how many of a name a step has had */
  struct tg__spans *sure, *others;
  bool learns;
};

/* Steps repeat their collectives: where no size is stated, the first of each step is of one kind, and so on. */
static uint64_t collective_kind(struct one_rank *a, uint32_t slice) {
  const struct tg__columns *const t = a->f->t;
  const uint32_t args = t->slices.args[slice], type = tg__arg_str(t, args, TG__K_DTYPE);
  int64_t key[4] = {t->slices.name[slice], tg__arg_int(t, args, TG__K_IN_MSG_NELEMS, -1), type, 0};
  if (key[1] >= 0) return tg__hash(key, sizeof key);
  const int64_t here[2] = {key[0], (int64_t)tg__steps_begun(&a->f->steps, t->slices.start_ns[slice])};
  uint32_t *const nth = tg__map_slot(&a->seen, tg__hash(here, sizeof here), 0);
  a->f->failed |= !nth;
  key[3] = nth ? ++*nth : 0;
  return tg__hash(key, sizeof key);
}

static void see_alone(struct one_rank *a, uint32_t slice, enum tg__class cls) {
  const struct tg__columns *const t = a->f->t;
  const int64_t dur = t->slices.dur_ns[slice], us = dur / 1000, end = tg__slice_end(t, slice);
  if (cls != TG__CLASS_KERNEL) return;
  if (!(tg__slice_meaning(a->f, slice) & TG__NAME_COLLECTIVE_KERNEL)) {
    if (!a->learns) tg__spans_add_slice(a->others, t, slice);
    return;
  }
  const uint32_t least = us < 1 ? 1 : us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
  uint32_t *const known = tg__map_slot(&a->shortest_us, collective_kind(a, slice), least);
  a->f->failed |= !known;
  if (!known) return;
  if (least < *known) *known = least;
  if (!a->learns) tg__spans_add(a->sure, end - (*known < least ? *known * INT64_C(1000) : dur), end);
}

/* A kernel of a collective waits for the last rank and then transfers. The shortest of a size is the most that its
 * transfer takes: the end of each that is so long counts, and what comes before may be waiting, which one rank does not
 * show. A step, beside no computation. */
static int64_t sure_alone(struct tg__facts *f) {
  struct one_rank a = {.f = f, .learns = true, .sure = tg__new_spans(f), .others = tg__new_spans(f)};
  TG__EACH_IN_STEPS (w, f) see_alone(&a, w.slice, w.cls);
  a.learns = false;
  tg__map_free(&a.seen);
  a.seen = (struct tg__map){0};
  TG__EACH_IN_STEPS (w, f) see_alone(&a, w.slice, w.cls);
  tg__map_free(&a.shortest_us);
  tg__map_free(&a.seen);
  tg__spans_union(a.others);
  return tg__usual_inside(f, tg__rest_of(f, a.sure, a.others));
}

/* Of one rank without the others: what it proves is the claim. */
static void claim_as_alone(struct tg__facts *f, struct tg__finding *x) {
  if (f->t->ranks[f->rank].world_size <= 1 || f->is_of_several) return;
  if (!f->has_device_work) {
    TG_ADD(x->evidence, "; how much of that is waiting for other ranks one rank does not show");
    return;
  }
  const int64_t sure = sure_alone(f), counts = sure < x->cost_ns ? sure : x->cost_ns;
  TG_ADD(x->evidence,
         "; at least %.2f ms of it stay if each collective takes as long as the shortest of its kind, the rest may be "
         "waiting for other ranks, which one rank does not show",
         tg__ms(counts));
  if (x->saving_ns > counts) x->saving_ns = counts;
  if (tg__pct(counts, tg__per_step(f, f->total_ns)) > ALONE_PCT) {
    if (x->saving_ns != TG_NULL_INT)
      x->method = "what transfers for certain goes on beside computation, as far as there is enough of it";
    return;
  }
  x->is_statement = true;
  x->saving_ns = TG_NULL_INT;
  x->confidence = NAN;
  x->method = "nearly all of it may be waiting for other ranks; record all ranks and open their folder";
}

/* Communication goes on beside what is computed in the same step; where there is more of it, the rest stays. */
static void expect_of_overlap(const struct tg__facts *f, struct tg__finding *x, int64_t exposed) {
  struct tg__tally more_ns = {0};
  int64_t computing_ns = 0;
  for (size_t i = 0; i < f->steps.count; i++) {
    computing_ns += f->steps.steps[i].computation_ns;
    const int64_t more = f->steps.steps[i].communication_ns - f->steps.steps[i].computation_ns;
    if (more > 0) tg__tally_in(&more_ns, i + 1, more);
  }
  const int64_t left = tg__tally_sum(f, &more_ns);
  x->saving_ns = tg__per_step(f, tg__steps_shortened(f, 0, left < exposed ? exposed - left : 0, 0));
  x->confidence = f->t->ranks[f->rank].world_size > 1 && !f->is_of_several ? 0.3 : 0.4; /* it may wait for others */
  x->method = "all communication goes on beside computation, as far as there is enough of it";
  const bool computes = tg__pct(computing_ns, f->sum_ns) > LEAST_PCT; /* else it measures collectives */
  if (!f->device_bound || !computes || tg__pct(x->saving_ns, f->median_ns) > LEAST_PCT) return;
  x->saving_ns = TG_NULL_INT;
  x->confidence = NAN;
  x->method = "there is too little computation to go on beside it; what fewer or smaller exchanges save is not known";
}

/* What helps depends on which collective it is that takes longest. */
static const char *advice_for(struct tg__str collective) {
  static const struct {
    const char *part, *advice;
  } kinds[] = {
      {"SendRecv",
       "Work on something else meanwhile: two halves of the batch in turns, or the next batch's exchange beside "
       "this one's layers; between stages of a pipeline more and smaller micro-batches; send fewer bytes."},
      {"all_to_all", "Work on something else meanwhile: two halves of the batch in turns, or the next batch's exchange "
                     "beside this one's layers; send fewer bytes."},
      {"ispatch",
       "Work on something else meanwhile: two halves of the batch in turns, dispatch and combine of one beside "
       "the experts of the other; dispatch in FP8."},
      {"ombine",
       "Work on something else meanwhile: two halves of the batch in turns, dispatch and combine of one beside "
       "the experts of the other; combine in bfloat16."},
      {"AllGather",
       "Gather the next layer's parameters while this one computes (FSDP: forward_prefetch, backward_prefetch), "
       "or shard only within a node."},
      {"ReduceScatter",
       "Let gradients leave while backward goes on (FSDP: backward_prefetch), or accumulate them under "
       "no_sync()."},
      {"broadcast",
       "Keep buffers on each rank: DistributedDataParallel(..., broadcast_buffers=False), or broadcast them "
       "every N-th step."},
  };
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (tg__str_contains(collective, kinds[i].part)) return kinds[i].advice;
  return "Overlap all-reduce with backward (bucket_cap_mb), accumulate gradients under no_sync(), or compress: "
         "register_comm_hook(None, bf16_compress_hook).";
}

/* Where the reducer of DistributedDataParallel said its cap: the one that the model of its buckets finds better. */
static void say_cap(struct tg__facts *f, struct tg__str collective, struct tg__finding *x) {
  double cap_mb, saving_ns;
  if (!tg__str_contains(collective, "AllReduce") && !tg__str_contains(collective, "all_reduce")) return;
  if (tg__bucket_cap_to_try(f->t, f->rank, &cap_mb, &saving_ns, &f->failed))
    TG_ADD(x->advice, " To try: bucket_cap_mb=%g (%.2f ms less behind backward).", cap_mb, saving_ns / 1e6);
}

/* A collective of the host lasts until the last rank has come, and ranks that share cores come now sooner, now later:
 * what steps have more of it than others is waiting for a rank that computes, and no communication. Kernels of
 * collectives wait as well, but for ranks with a device each. */
void tg__judge_communication(struct tg__facts *f) {
  const int64_t exposed =
      f->has_device_work ? tg__usual_part(f, TG__PART_COMMUNICATION) : tg__least_part(f, TG__PART_COMMUNICATION);
  const double share = tg__pct(exposed, f->total_ns), mean = tg__pct(f->part_ns[TG__PART_COMMUNICATION], f->sum_ns);
  if (mean <= COMMUNICATION_PCT || tg__has_found(f, TG__CAUSE_UNBUCKETED_COMMUNICATION)) return;
  const bool is_noise = f->noise.is_busy && !f->has_device_work; /* a rank without a core is waited for */
  if (share <= COMMUNICATION_PCT || is_noise) {
    char why[100];
    TG_FORMAT(why, "%s steps have %.1f %% of it", f->has_device_work ? "usual" : "nine of ten", share);
    tg__finding_withhold(f, TG__CAUSE_COMMUNICATION_NOT_OVERLAPPED, mean, is_noise ? tg__busy_machine : why);
    return;
  }
  struct collectives c = {.f = f, .longest = TG_NONE, .call = TG_NONE};
  TG__EACH_IN_STEPS (w, f) see_collective(&c, w.slice, w.cls);
  if (c.longest == TG_NONE) return;
  struct tg__tally all = {0};
  for (size_t i = 0; i < f->steps.count; i++) tg__tally_in(&all, i + 1, f->steps.steps[i].communication_ns);
  struct tg__finding *x =
      tg__finding_add(f, TG__CAUSE_COMMUNICATION_NOT_OVERLAPPED, share, COMMUNICATION_PCT, tg__per_step(f, exposed));
  tg__where_slice(f, f->has_device_work || c.call == TG_NONE ? c.longest : c.call, x);
  TG_FORMAT(x->evidence,
            "collectives take %.2f ms of %s %.2f ms %s, and nothing is computed during %.2f ms of that (%.1f %%)",
            tg__ms(tg__per_step(f, tg__tally_sum(f, &all))), tg__period_each(f), tg__ms(tg__per_step(f, f->total_ns)),
            tg__period_name(f), tg__ms(x->cost_ns), share);
  /* collectives of the CPU are not hidden behind operators: other threads may or may not compute */
  if (!f->has_device_work)
    TG_FORMAT(x->evidence, "the host is inside collectives for at least %.2f ms of %s %.2f ms %s (%.1f %%)",
              tg__ms(x->cost_ns), tg__period_each(f), tg__ms(tg__per_step(f, f->total_ns)), tg__period_name(f), share);
  TG_FORMAT(x->advice, "%s", advice_for(tg__name(f->t, f->t->slices.name[c.longest])));
  say_cap(f, tg__name(f->t, f->t->slices.name[c.longest]), x);
  if (f->has_device_work)
    expect_of_overlap(f, x, exposed);
  else if (!c.in_backward)
    expect_of_host_overlap(f, x, exposed);
  else
    x->method = "they begin in backward already; what else could go on beside them is not in the trace";
  claim_as_alone(f, x);
}

/* ---- wrappers -------------------------------------------------------------------------------- */

struct wrappers {
  struct tg__facts *f;
  uint32_t data_parallel, distributed;
  struct tg__tally data_parallel_ns;
  bool has_nccl;
};

static void see_wrapper(struct wrappers *w, uint32_t slice, enum tg__class cls) {
  const struct tg__columns *t = w->f->t;
  if (cls == TG__CLASS_KERNEL) w->has_nccl |= (tg__slice_meaning(w->f, slice) & TG__NAME_COLLECTIVE_KERNEL) != 0;
  if (cls != TG__CLASS_OP && cls != TG__CLASS_ANNOTATION) return;
  const struct tg__str name = tg__name(t, t->slices.name[slice]);
  if (tg__str_has_prefix(name, "nccl:")) w->has_nccl = true;
  if (tg__str_eq(name, TG_STR("DataParallel.forward"))) {
    w->data_parallel = slice;
    tg__tally_add(w->f, &w->data_parallel_ns, slice, t->slices.dur_ns[slice]);
  }
  if (tg__str_eq(name, TG_STR("DistributedDataParallel.forward"))) w->distributed = slice;
}

/* Capability 3.5 and later, compared as a pair: 10.0 is newer than 9.0. */
static bool has_nccl_device(const struct tg__facts *f) {
  const struct tg__rank *r = &f->t->ranks[f->rank];
  for (size_t i = 0; i < r->device_count; i++) {
    const struct tg__device *d = &r->devices[i];
    if (d->compute_major > 3 || (d->compute_major == 3 && d->compute_minor >= 5)) return true;
  }
  return false;
}

void tg__judge_parallel_wrapper(struct tg__facts *f) {
  if (!f->has_device_work) return;
  struct wrappers w = {.f = f, .data_parallel = TG_NONE, .distributed = TG_NONE};
  TG__EACH_IN_STEPS (at, f) see_wrapper(&w, at.slice, at.cls);
  if (w.data_parallel != TG_NONE && f->gaps.device_count > 1) {
    const int64_t ns = tg__tally_sum(f, &w.data_parallel_ns);
    struct tg__finding *x = tg__finding_add(f, TG__CAUSE_DATA_PARALLEL_THREADS, tg__pct(ns, f->total_ns),
                                            TG__NO_THRESHOLD, tg__per_step(f, ns));
    tg__where_slice(f, w.data_parallel, x);
    TG_FORMAT(x->evidence, "one process drives %zu devices through DataParallel.forward, which takes %.2f ms %s",
              f->gaps.device_count, tg__ms(x->cost_ns), tg__period_per(f));
    x->method = "how long a step of one process for each device takes is not in the trace";
    TG_FORMAT(x->advice,
              "Use torch.nn.parallel.DistributedDataParallel with one process a device (torchrun) instead of "
              "torch.nn.DataParallel.");
  }
  if (w.distributed != TG_NONE && !w.has_nccl && has_nccl_device(f)) {
    struct tg__finding *x =
        tg__finding_add(f, TG__CAUSE_SLOW_COLLECTIVE_BACKEND, tg__pct(f->part_ns[TG__PART_COMMUNICATION], f->sum_ns),
                        TG__NO_THRESHOLD, TG_NULL_INT);
    tg__where_slice(f, w.distributed, x);
    TG_FORMAT(x->evidence,
              "DistributedDataParallel.forward runs on a CUDA device, and no NCCL collective is in the trace");
    x->method = "how long the same collectives take with NCCL is not in the trace";
    TG_FORMAT(x->advice,
              "Call torch.distributed.init_process_group(backend=\"nccl\"): it is the fastest back end between "
              "CUDA devices.");
  }
}
