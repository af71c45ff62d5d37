/* The question plugin_advice: which of its seven recommendations the TensorBoard plugin makes, by its own rules and
 * thresholds. They judge a handful of kernels as they judge a long run; what we advise is in findings. */
#include "analyze/compat/compat.h"
#include "analyze/device/gpu.h"
#include "analyze/device/tensor_cores.h"
#include "analyze/host/op_tree.h"
#include "analyze/overview/steps.h"

#include <math.h>

enum { CUDA = 1, HIP = 6 }; /* c10::DeviceType */
enum { VOLTA = 7 };         /* first compute capability with tensor cores */
enum { LOADER_PCT = 5, COMMUNICATION_PCT = 10, UTILIZATION_PCT = 50, MEMORY_PCT = 90 };
static const double nccl_capability = 3.5; /* as a decimal: 10.0 is above 3.5 here too */

struct advised {
  const struct tg__columns *t;
  uint32_t rank;
  struct tg__tensor_names tensor;
  struct tg__names names;
  struct tg__map call_ids; /* External id of collective calls */
  int64_t kernel_ns, tensor_ns, linked_ns, eligible_ns;
  bool has_data_parallel, has_distributed, has_nccl, has_collective_call, has_collective_kernel, knows_kernel, failed;
};

/* 0: none */
static int64_t external_id(const struct tg__columns *t, uint32_t slice) {
  const uint32_t args = t->slices.args[slice];
  return tg__arg_int(t, args, TG__K_EXTERNAL_ID, tg__arg_int(t, args, TG__K_EXTERNAL_ID_OLD, 0));
}

static void see_host(struct advised *d, uint32_t slice) {
  const struct tg__str name = tg__name(d->t, d->t->slices.name[slice]);
  d->has_data_parallel |= tg__str_eq(name, TG_STR("DataParallel.forward"));
  d->has_distributed |= tg__str_eq(name, TG_STR("DistributedDataParallel.forward"));
  if (!(tg__names_of(&d->names, d->t->slices.name[slice]) & TG__NAME_COLLECTIVE_CALL)) return;
  d->has_nccl |= tg__str_has_prefix(name, "nccl:");
  d->has_collective_call = true;
  const int64_t id = external_id(d->t, slice);
  d->failed |= id && !tg__map_slot(&d->call_ids, (uint64_t)id, slice);
}

/* An operator has a kernel by the external id of the call that launched it. */
static void see_kernel(struct advised *d, uint32_t slice) {
  const struct tg__columns *const t = d->t;
  const int64_t dur_ns = t->slices.dur_ns[slice], id = external_id(t, slice);
  d->kernel_ns += dur_ns;
  if (tg__tensor_unit(&d->tensor, t->slices.name[slice]) == TG__UNIT_TENSOR_CORE) d->tensor_ns += dur_ns;
  if (tg__names_of(&d->names, t->slices.name[slice]) & TG__NAME_COLLECTIVE_KERNEL) {
    d->has_collective_kernel = true;
    d->knows_kernel |= id && tg__map_get(&d->call_ids, (uint64_t)id) != TG_NONE;
  }
  const uint32_t call = tg__launch_of(t, slice), op = call == TG_NONE ? TG_NONE : t->slices.cause[call];
  if (op == TG_NONE || external_id(t, call) != external_id(t, op)) return;
  d->linked_ns += dur_ns;
  if (tg__tensor_op(&d->tensor, t->slices.name[op])) d->eligible_ns += dur_ns;
}

static void see_all(struct advised *d) {
  const struct tg__rank_range range = tg__rank_range_of(d->t, d->rank);
  for (uint32_t i = range.first_slice; i < range.end_slice && !d->failed; i++) {
    const enum tg__class cls = tg__slice_class(d->t, i);
    if (cls == TG__CLASS_OP || cls == TG__CLASS_ANNOTATION) see_host(d, i);
  }
  for (uint32_t i = range.first_slice; i < range.end_slice; i++)
    if (tg__slice_class(d->t, i) == TG__CLASS_KERNEL) see_kernel(d, i);
}

static bool has_nccl_device(const struct tg__rank *r) {
  for (size_t i = 0; i < r->device_count; i++)
    if ((double)r->devices[i].compute_major + (double)r->devices[i].compute_minor / 10 >= nccl_capability) return true;
  return false;
}

/* The highest share of its device's memory that is allocated. */
static double memory_pct(const struct advised *d) {
  const struct tg__columns *const t = d->t;
  const struct tg__rank *const r = &t->ranks[d->rank];
  double most = 0;
  for (uint32_t i = 0; i < t->marks.count; i++) {
    if (t->marks.name[i] != TG__K_MEMORY || t->marks.track[i] == TG_NONE ||
        t->tracks[t->marks.track[i]].rank != d->rank)
      continue;
    const uint32_t args = t->marks.args[i];
    const int64_t kind = tg__arg_int(t, args, TG__K_DEVICE_TYPE, -1), id = tg__arg_int(t, args, TG__K_DEVICE_ID, -1);
    const double total = (double)tg__arg_int(t, args, TG__K_TOTAL_ALLOCATED, 0);
    for (size_t k = 0; k < r->device_count && (kind == CUDA || kind == HIP); k++)
      if (r->devices[k].id == id && r->devices[k].total_memory_bytes > 0 &&
          100 * total / (double)r->devices[k].total_memory_bytes > most)
        most = 100 * total / (double)r->devices[k].total_memory_bytes;
  }
  return most;
}

/* pct and limit_pct: NAN where the rule has none */
static void put_rule(const struct advised *d, struct tg_table *out, const char *rule, bool is_made, double pct,
                     double limit_pct, const char *advice) {
  tg__put_rank(out, d->t, d->rank);
  tg__put_cstr(out, rule);
  tg__put_bool(out, is_made);
  tg__put_real_if(out, !isnan(pct), pct);
  tg__put_real_if(out, !isnan(limit_pct), limit_pct);
  tg__put_cstr(out, advice);
}

/* Rules 1 and 4: shares of the mean step. Of collectives it knows those of ten calls: where kernels of collectives
 * have the id of none, there is no communication. */
static void put_shares(const struct advised *d, const int64_t part_ns[TG__PART_COUNT], int64_t total_ns, bool loader,
                       struct tg_table *out) {
  const bool knows = d->has_collective_call && (d->knows_kernel || !d->has_collective_kernel);
  const double pct =
      total_ns ? 100.0 * (double)part_ns[loader ? TG__PART_DATALOADER : TG__PART_COMMUNICATION] / (double)total_ns : 0;
  if (loader)
    put_rule(d, out, "loader", pct > LOADER_PCT, pct, LOADER_PCT, "set num_workers of the DataLoader");
  else
    put_rule(d, out, "communication", knows && pct > COMMUNICATION_PCT, knows ? pct : 0, COMMUNICATION_PCT,
             "compress or accumulate gradients, or take a larger batch");
}

static enum tg_err put_rank_advice(struct advised *d, struct tg_table *out) {
  const struct tg__rank *const r = &d->t->ranks[d->rank];
  struct tg__breakdown steps = {0};
  struct tg__gpu *gpus = NULL;
  size_t gpu_count = 0;
  int64_t part_ns[TG__PART_COUNT] = {0}, total_ns = 0;
  enum tg_err err = tg__steps_breakdown(d->t, d->rank, TG__STEPS_PROFILER, &steps);
  if (!err) err = tg__gpu_measure(d->t, d->rank, &gpus, &gpu_count);
  if (!err) see_all(d);
  for (size_t i = 0; i < steps.count; i++) {
    total_ns += steps.steps[i].end_ns - steps.steps[i].start_ns;
    for (int k = 0; k < TG__PART_COUNT; k++) part_ns[k] += steps.steps[i].part_ns[k];
  }
  double least = NAN;
  for (size_t i = 0; i < gpu_count; i++)
    if (!(gpus[i].utilization >= least)) least = gpus[i].utilization;
  const double eligible = d->linked_ns ? 100.0 * (double)d->eligible_ns / (double)d->linked_ns : NAN;
  const double memory = memory_pct(d);
  if (!err && !d->failed) {
    put_shares(d, part_ns, total_ns, true, out);
    put_rule(d, out, "data_parallel", d->has_data_parallel && gpu_count > 1, NAN, NAN,
             "use DistributedDataParallel instead of DataParallel");
    put_rule(d, out, "backend", d->has_distributed && !d->has_nccl && has_nccl_device(r), NAN, NAN,
             "use NCCL, the fastest back end for DistributedDataParallel");
    put_shares(d, part_ns, total_ns, false, out);
    put_rule(d, out, "utilization", 100 * least < UTILIZATION_PCT, 100 * least, UTILIZATION_PCT, "take a larger batch");
    put_rule(d, out, "tensor_cores",
             r->device_count && r->devices[0].compute_major >= VOLTA && d->kernel_ns && !d->tensor_ns && d->eligible_ns,
             eligible, NAN, "use automatic mixed precision");
    put_rule(d, out, "device_memory", memory > MEMORY_PCT, memory, MEMORY_PCT,
             "checkpoint activations, or use automatic mixed precision");
  }
  tg__breakdown_free(&steps);
  tg__free(gpus);
  return err;
}

enum tg_err tg__answer_plugin_advice(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                     struct tg_error *e) {
  enum tg_err err = TG_OK;
  for (uint32_t rank = 0; rank < t->rank_count && !err; rank++) {
    struct advised d = {.t = t, .rank = rank};
    if (!tg__ask_has_rank(a, rank)) continue;
    err = tg__tensor_names_open(&d.tensor, t, &tg__tensor_plugin) && tg__names_open(&d.names, t)
              ? put_rank_advice(&d, out)
              : TG_MEMORY;
    if (d.failed) err = TG_MEMORY;
    tg__tensor_names_close(&d.tensor);
    tg__names_close(&d.names);
    tg__map_free(&d.call_ids);
  }
  return err ? tg__no_memory(e, "judging by the plugin's rules") : TG_OK;
}
