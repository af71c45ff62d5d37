/* What the device could do and does not: tensor cores, full multiprocessors; and what it soon cannot: memory. */
#include <math.h>

#include "analyze/device/tensor_cores.h"
#include "diagnose/findings.h"

#include <stdio.h>

enum { MEMORY_PCT = 90, ELIGIBLE_PCT = 5, LOW_TIME_PCT = 10 };

/* ---- tensor cores ---------------------------------------------------------------------------- */

static const struct tg__device *find_device(const struct tg__facts *f, int64_t id) {
  const struct tg__rank *r = &f->t->ranks[f->rank];
  for (size_t i = 0; i < r->device_count; i++)
    if (r->devices[i].id == id) return &r->devices[i];
  return NULL;
}

struct matrix_work {
  const struct tg__facts *f;
  int64_t all_ns, tensor_ns, matrix_ns;
  struct tg__tally plain_ns;
  uint32_t longest;   /* plain kernel */
  bool has_new_types; /* bfloat16 and TF32: from capability 8 on */
  struct tg__tensor_names names;
};

/* Types of 16 bits and fewer in the name of a kernel: it computes with what the advice would bring. */
static bool has_narrow_type(struct tg__str kernel) {
  static const char *const types[] = {"bfloat16", "__half", "c10::Half", "bf16", "f16f16",
                                      "_h16",     "hgemm",  "e4m3",      "e5m2"};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (tg__str_contains(kernel, types[i])) return true;
  return false;
}

static void see_kernel(void *ctx, uint32_t slice, enum tg__class cls) {
  struct matrix_work *m = ctx;
  const struct tg__columns *t = m->f->t;
  if (cls != TG__CLASS_KERNEL) return;
  const struct tg__device *d = find_device(m->f, t->tracks[tg__slice_track(t, slice)].device);
  if (!d || d->compute_major < 7) return;
  const int64_t dur = t->slices.dur_ns[slice];
  const enum tg__matrix_unit unit = tg__tensor_unit(&m->names, t->slices.name[slice]);
  m->all_ns += dur;
  if (unit == TG__UNIT_TENSOR_CORE) m->tensor_ns += dur;
  const uint32_t call = t->slices.cause[slice], op = call == TG_NONE ? TG_NONE : t->slices.cause[call];
  if (op == TG_NONE || !tg__tensor_op(&m->names, t->slices.name[op])) return;
  m->matrix_ns += dur;
  if (unit != TG__UNIT_PLAIN || has_narrow_type(tg__name(t, t->slices.name[slice]))) return;
  tg__tally(m->f, &m->plain_ns, slice, dur);
  m->has_new_types = d->compute_major >= 8;
  if (m->longest == TG_NONE || dur > t->slices.dur_ns[m->longest]) m->longest = slice;
}

void tg__judge_precision(struct tg__facts *f) {
  if (!f->has_device_work) {
    tg__cannot_judge_device(f, TG__CAUSE_MIXED_PRECISION_UNUSED, "no device work in the trace");
    return;
  }
  struct matrix_work m = {.f = f, .longest = TG_NONE};
  if (tg__tensor_names_open(&m.names, f->t, &tg__tensor_exact))
    tg__visit(f, see_kernel, &m);
  else
    f->failed = true;
  tg__tensor_names_close(&m.names);
  if (f->failed) return;
  if (!m.all_ns)
    tg__cannot_judge(f, TG__CAUSE_MIXED_PRECISION_UNUSED, "no kernel on a device known to have tensor cores");
  const int64_t plain_ns = tg__tallied(f, &m.plain_ns);
  const double share = tg__pct(plain_ns, f->total_ns);
  if (m.tensor_ns || share <= ELIGIBLE_PCT) return;
  struct tg__finding *x = tg__find(f, TG__CAUSE_MIXED_PRECISION_UNUSED, share, ELIGIBLE_PCT, tg__per_step(f, plain_ns));
  tg__where_slice(f, m.longest, x);
  TG_SAY(x->evidence,
         "matrix operators launch %.1f %% of the kernel time; kernels known to do without tensor cores run %.2f ms %s "
         "(%.1f %%), none that "
         "use them",
         tg__pct(m.matrix_ns, m.all_ns), tg__ms(x->cost_ns), tg__per(f), share);
  TG_SAY(x->advice, "%s",
         m.has_new_types
             ? "Compute under torch.autocast(\"cuda\", dtype=torch.bfloat16), or allow TF32 with "
               "torch.set_float32_matmul_precision(\"high\")."
             : "Compute under torch.autocast(\"cuda\", dtype=torch.float16) with torch.amp.GradScaler(\"cuda\").");
  x->saving_ns = tg__per_step(f, tg__shortened(f, 0, plain_ns / 2, 0));
  x->confidence = 0.5;
  x->method = "these kernels take half as long, as far as the host is quick enough";
}

/* ---- occupancy ------------------------------------------------------------------------------- */

struct occupancy {
  struct tg__facts *f;
  struct tg__tensor_names names;
  struct tg__tally low_ns;
  int64_t count;
  uint32_t longest;
  bool stated; /* some kernel's */
};

/* Kernels that multiply matrices keep few, large blocks by design: to them a low figure says nothing. */
static void see_occupancy(void *ctx, uint32_t slice, enum tg__class cls) {
  struct occupancy *o = ctx;
  const struct tg__columns *t = o->f->t;
  if (cls != TG__CLASS_KERNEL) return;
  const double pct = tg__kernel_occupancy(t, t->slices.args[slice]);
  o->stated |= !isnan(pct);
  if (!(pct < TG__LOW_OCCUPANCY_PCT) || tg__tensor_unit(&o->names, t->slices.name[slice]) != TG__UNIT_NONE) return;
  if (tg__meaning(o->f, slice) & TG__NAME_COLLECTIVE_KERNEL) return;
  tg__tally(o->f, &o->low_ns, slice, t->slices.dur_ns[slice]);
  o->count++;
  if (o->longest == TG_NONE || t->slices.dur_ns[slice] > t->slices.dur_ns[o->longest]) o->longest = slice;
}

static struct tg__str arg_text(const struct tg__columns *t, uint32_t slice, uint32_t key) {
  const uint32_t id = tg__arg_str(t, t->slices.args[slice], key);
  return id == TG_NONE ? TG_STR("unknown") : tg__name(t, id);
}

static void describe_occupancy(const struct occupancy *o, struct tg__finding *x) {
  const struct tg__columns *t = o->f->t;
  const struct tg__str grid = arg_text(t, o->longest, TG__K_GRID), block = arg_text(t, o->longest, TG__K_BLOCK);
  tg__where_slice(o->f, o->longest, x);
  TG_SAY(x->evidence,
         "%lld kernels %s are estimated to occupy less than %d %% of the multiprocessors' threads; they take %.2f ms "
         "(%.1f %%); the longest: "
         "%.0f %%, grid %.*s, block %.*s",
         (long long)tg__per_step(o->f, o->count), tg__per(o->f), TG__LOW_OCCUPANCY_PCT, tg__ms(x->cost_ns),
         x->share_pct, tg__arg_real(t, t->slices.args[o->longest], TG__K_OCCUPANCY, 0), (int)grid.len, grid.ptr,
         (int)block.len, block.ptr);
  TG_SAY(x->advice, "Launch more blocks: a larger batch, or fused kernels by torch.compile(model). In a kernel "
                    "of one's own: more threads a "
                    "block, fewer registers, less shared memory.");
}

void tg__judge_occupancy(struct tg__facts *f) {
  struct occupancy o = {.f = f, .longest = TG_NONE};
  if (tg__tensor_names_open(&o.names, f->t, &tg__tensor_exact))
    tg__visit(f, see_occupancy, &o);
  else
    f->failed = true;
  tg__tensor_names_close(&o.names);
  const int64_t low_ns = tg__tallied(f, &o.low_ns);
  const double share = tg__pct(low_ns, f->total_ns);
  if (f->has_device_work && !o.stated) tg__cannot_judge(f, TG__CAUSE_LOW_OCCUPANCY, "no kernel states its occupancy");
  if (f->failed || o.longest == TG_NONE || share <= LOW_TIME_PCT) return;
  if (!f->device_bound) { /* the step would wait for the host all the same */
    tg__cannot_judge(f, TG__CAUSE_LOW_OCCUPANCY, "the host is the slower side");
    return;
  }
  struct tg__finding *const x = tg__find(f, TG__CAUSE_LOW_OCCUPANCY, share, LOW_TIME_PCT, tg__per_step(f, low_ns));
  describe_occupancy(&o, x);
  x->method = "what more threads save depends on what the kernel waits for, which a trace does not hold";
}

/* ---- memory ---------------------------------------------------------------------------------- */

enum { CUDA = 1, HIP = 6 }; /* c10::DeviceType */

static int64_t peak_of(const struct tg__facts *f, const struct tg__device *d) {
  const struct tg__columns *t = f->t;
  int64_t peak = 0;
  for (uint32_t i = 0; i < t->marks.count; i++) {
    if (t->marks.name[i] != TG__K_MEMORY || t->marks.track[i] == TG_NONE ||
        t->tracks[t->marks.track[i]].rank != f->rank)
      continue;
    const uint32_t args = t->marks.args[i];
    const int64_t kind = tg__arg_int(t, args, TG__K_DEVICE_TYPE, -1);
    if ((kind != CUDA && kind != HIP) || tg__arg_int(t, args, TG__K_DEVICE_ID, -1) != d->id) continue;
    const int64_t total = tg__arg_int(t, args, TG__K_TOTAL_ALLOCATED, 0);
    if (total > peak) peak = total;
  }
  return peak;
}

void tg__judge_device_memory(struct tg__facts *f) {
  const struct tg__rank *r = &f->t->ranks[f->rank];
  bool known = false;
  for (size_t i = 0; i < r->device_count; i++) {
    const struct tg__device *d = &r->devices[i];
    if (d->total_memory_bytes <= 0) continue;
    const int64_t peak = peak_of(f, d);
    const double share = tg__pct(peak, d->total_memory_bytes);
    known |= peak > 0;
    if (share <= MEMORY_PCT) continue;
    struct tg__finding *x = tg__find(f, TG__CAUSE_DEVICE_MEMORY_NEARLY_FULL, share, MEMORY_PCT, TG_NULL_INT);
    x->is_warning = true;
    x->method = "it makes room, and saves time only where the allocator has to release and ask again";
    TG_SAY(x->where, "device %lld", (long long)d->id);
    TG_SAY(x->evidence, "at the peak %.2f of %.2f GiB are allocated (%.1f %%)", (double)peak / (1 << 30),
           (double)d->total_memory_bytes / (1 << 30), share);
    TG_SAY(x->advice, "Recompute activations with torch.utils.checkpoint.checkpoint, train under torch.autocast, or "
                      "use a smaller batch.");
  }
  if (!known) tg__cannot_judge_device(f, TG__CAUSE_DEVICE_MEMORY_NEARLY_FULL, "no device memory events with totals");
}
