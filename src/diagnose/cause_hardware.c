/* What the device could do and does not: tensor cores, full multiprocessors; and what it soon cannot: memory. */
#include <math.h>

#include "analyze/device/tensor_cores.h"
#include "diagnose/findings.h"

#include <stdio.h>

enum { FEW_BLOCKS = 4, MEMORY_PCT = 90, ELIGIBLE_PCT = 5, LOW_TIME_PCT = 10 };

/* ---- tensor cores ---------------------------------------------------------------------------- */

static const struct tg__device *find_device(const struct tg__facts *f, int64_t id) {
  const struct tg__rank *r = &f->t->ranks[f->rank];
  for (size_t i = 0; i < r->device_count; i++)
    if (r->devices[i].id == id) return &r->devices[i];
  return NULL;
}

/* Kernels that multiply without tensor cores, where the device has them. */
struct matrix_work {
  struct tg__facts *f;
  struct tg__tensor_names names;
  struct tg__spans *plain, *on_cores;
  int64_t kernels, eligible; /* eligible: on a device that has tensor cores */
  int64_t convolution_ns, narrow_ns, plain_ns;
  uint32_t longest; /* plain kernel */
  const struct tg__device *device;
};

static uint32_t operator_behind(const struct tg__columns *t, uint32_t kernel) {
  const uint32_t call = t->slices.cause[kernel];
  return call == TG_NONE ? TG_NONE : t->slices.cause[call];
}

/* Inside an operator of torch that multiplies no matrices, such as one that solves with them, products are not for the
 * program to change. Kernels of graphs, of extensions and without an operator count by their own names. */
static bool is_inner(struct matrix_work *m, uint32_t kernel) {
  const struct tg__columns *const t = m->f->t;
  const uint32_t op = operator_behind(t, kernel);
  return op != TG_NONE && tg__str_has_prefix(tg__slice_name(t, op), "aten::") &&
         !tg__tensor_op(&m->names, t->slices.name[op]);
}

/* What the operator was given says it where the name of its kernel does not. */
static enum tg__matrix_type type_of(const struct tg__columns *t, uint32_t kernel) {
  const enum tg__matrix_type by_name = tg__matrix_type(tg__slice_name(t, kernel));
  const uint32_t op = by_name == TG__MATRIX_SINGLE ? operator_behind(t, kernel) : TG_NONE;
  const uint32_t types = op == TG_NONE ? TG_NONE : tg__arg_str(t, t->slices.args[op], TG__K_INPUT_TYPE);
  const struct tg__str text = types == TG_NONE ? TG_STR("") : tg__name(t, types);
  if (tg__str_contains(text, "double") || tg__str_contains(text, "omplex")) return TG__MATRIX_WIDE;
  const bool is_narrow = tg__str_contains(text, "Half") || tg__str_contains(text, "BFloat16");
  return is_narrow && !tg__str_contains(text, "float") ? TG__MATRIX_NARROW : by_name;
}

/* A product of a matrix and a vector is bound by memory: on 16 bits there is nothing left to gain. */
static bool is_as_it_must_be(const struct tg__columns *t, uint32_t kernel, enum tg__matrix_type type) {
  return type == TG__MATRIX_WIDE || (type == TG__MATRIX_NARROW && tg__str_contains(tg__slice_name(t, kernel), "gemv"));
}

static void see_kernel(struct matrix_work *m, uint32_t slice, enum tg__class cls) {
  const struct tg__columns *t = m->f->t;
  if (cls != TG__CLASS_KERNEL) return;
  const struct tg__device *d = find_device(m->f, tg__device_of(m->f, slice));
  m->kernels++;
  if (!d || d->compute_major < 7) return;
  m->eligible++;
  const int64_t start = t->slices.start_ns[slice], dur = t->slices.dur_ns[slice];
  const enum tg__matrix_unit unit = tg__tensor_unit(&m->names, t->slices.name[slice]);
  if (unit == TG__UNIT_TENSOR_CORE) tg__spans_add(m->on_cores, start, start + dur);
  if (unit != TG__UNIT_PLAIN || is_inner(m, slice)) return;
  const enum tg__matrix_type type = type_of(t, slice);
  if (is_as_it_must_be(t, slice, type)) return;
  tg__spans_add(m->plain, start, start + dur);
  m->plain_ns += dur;
  if (type == TG__MATRIX_NARROW) m->narrow_ns += dur;
  if (tg__is_convolution_kernel(tg__slice_name(t, slice))) m->convolution_ns += dur;
  m->device = d;
  tg__keep_longest(t, &m->longest, slice);
}

/* By what most of the time is: bfloat16 and TF32 are there from capability 8 on, TF32 only on NVIDIA's. */
static const char *precision_advice(const struct matrix_work *m) {
  const bool is_new = m->device->compute_major >= 8, has_tf32 = is_new && m->device->warp_size != 64;
  if (2 * m->narrow_ns > m->plain_ns)
    return "Make the sizes of these products (batch, features, vocabulary, channels) multiples of 8: kernels for other "
           "sizes do without tensor cores.";
  if (2 * m->convolution_ns > m->plain_ns)
    return has_tf32 ? "Let cuDNN use TF32, torch.backends.cudnn.allow_tf32 = True, or compute under "
                      "torch.autocast(\"cuda\", dtype=torch.bfloat16); with .to(memory_format=torch.channels_last)."
                    : "Compute under torch.autocast(\"cuda\", dtype=torch.float16), and with model and input "
                      ".to(memory_format=torch.channels_last), which cuDNN and MIOpen take without transposing.";
  if (!is_new)
    return "Compute under torch.autocast(\"cuda\", dtype=torch.float16) with torch.amp.GradScaler(\"cuda\").";
  return has_tf32 ? "Compute under torch.autocast(\"cuda\", dtype=torch.bfloat16), or allow TF32 with "
                    "torch.set_float32_matmul_precision(\"high\")."
                  : "Compute under torch.autocast(\"cuda\", dtype=torch.bfloat16).";
}

static void report_precision(struct matrix_work *m) {
  struct tg__facts *const f = m->f;
  tg__spans_union(m->plain);
  tg__spans_union(m->on_cores);
  const int64_t plain_ns = tg__usual_sum(f, m->plain);
  struct tg__finding *const x = tg__find_above(f, TG__CAUSE_MIXED_PRECISION_UNUSED, ELIGIBLE_PCT, plain_ns);
  if (!x) return;
  tg__where_slice(f, m->longest, x);
  TG_FORMAT(
      x->evidence,
      "kernels that multiply %s without tensor cores run %.2f ms %s (%.1f %%); those with tensor cores run %.2f ms",
      2 * m->narrow_ns > m->plain_ns ? "16-bit floats" : "32-bit floats", tg__ms(x->cost_ns), tg__period_per(f),
      x->share_pct, tg__ms(tg__usual_inside(f, m->on_cores)));
  TG_FORMAT(x->advice, "%s", precision_advice(m));
  tg__expect_of_device(f, x, plain_ns / 2, 0, 0.5,
                       "these kernels take half as long, as far as the host is quick enough");
}

void tg__judge_precision(struct tg__facts *f) {
  enum { LEAST_KERNELS = 10 };
  if (!f->has_device_work) {
    tg__cannot_judge_device(f, TG__CAUSE_MIXED_PRECISION_UNUSED, "no device work in the trace");
    return;
  }
  struct matrix_work m = {.f = f, .plain = tg__new_spans(f), .on_cores = tg__new_spans(f), .longest = TG_NONE};
  if (tg__tensor_names_open(&m.names, f->t, &tg__tensor_exact))
    TG__EACH_IN_STEPS (w, f) see_kernel(&m, w.slice, w.cls);
  else
    f->failed = true;
  const bool is_few = !tg__has_steps(f) && m.kernels < LEAST_KERNELS;
  if (!m.eligible)
    tg__cannot_judge(f, TG__CAUSE_MIXED_PRECISION_UNUSED, "no kernel on a device known to have tensor cores");
  else if (is_few)
    tg__cannot_judge(f, TG__CAUSE_MIXED_PRECISION_UNUSED, "fewer than 10 kernels, and no steps");
  else if (!f->failed && m.longest != TG_NONE)
    report_precision(&m);
  tg__tensor_names_close(&m.names);
}

/* ---- occupancy ------------------------------------------------------------------------------- */

struct occupancy {
  struct tg__facts *f;
  struct tg__tensor_names names;
  /* few: of low, with few blocks; others: any other kernel, which fills what these leave free */
  struct tg__spans *low, *few, *others;
  int64_t count;
  uint32_t longest;
  bool stated; /* some kernel's */
};

/* Fewer blocks than a quarter of the multiprocessors: the rest has nothing to do, whatever the kernel is. */
static bool has_few_blocks(const struct tg__facts *f, uint32_t slice) {
  const struct tg__columns *const t = f->t;
  const double stated = tg__arg_real(t, t->slices.args[slice], TG__K_BLOCKS_PER_SM, 0);
  if (stated > 0) return stated * FEW_BLOCKS <= 1;
  const struct tg__device *const d = find_device(f, tg__device_of(f, slice));
  const uint32_t grid = tg__arg_str(t, t->slices.args[slice], TG__K_GRID);
  int x, y, z;
  char text[48];
  if (!d || grid == TG_NONE) return false;
  TG_FORMAT(text, "%.*s", (int)tg__name(t, grid).len, tg__name(t, grid).ptr);
  if (sscanf(text, "[%9d, %9d, %9d", &x, &y, &z) != 3 || x < 1 || y < 1 || z < 1) return false;
  return (double)x * y * z * FEW_BLOCKS <= (double)d->sm_count;
}

/* Kernels that multiply matrices keep few, large blocks by design: to them a low figure says nothing. */
static void see_occupancy(struct occupancy *o, uint32_t slice, enum tg__class cls) {
  const struct tg__columns *t = o->f->t;
  if (cls != TG__CLASS_KERNEL) return;
  const double pct = tg__kernel_occupancy(t, t->slices.args[slice]);
  o->stated |= !isnan(pct);
  const bool is_few = has_few_blocks(o->f, slice);
  const bool is_low =
      (is_few || (pct < TG__LOW_OCCUPANCY_PCT && tg__tensor_unit(&o->names, t->slices.name[slice]) == TG__UNIT_NONE)) &&
      !(tg__slice_meaning(o->f, slice) & TG__NAME_COLLECTIVE_KERNEL);
  if (is_few && is_low) tg__spans_add_slice(o->few, t, slice);
  tg__spans_add_slice(is_low ? o->low : o->others, t, slice);
  if (!is_low) return;
  o->count++;
  tg__keep_longest(t, &o->longest, slice);
}

static struct tg__str arg_text(const struct tg__columns *t, uint32_t slice, uint32_t key) {
  const uint32_t id = tg__arg_str(t, t->slices.args[slice], key);
  return id == TG_NONE ? TG_STR("unknown") : tg__name(t, id);
}

static void describe_occupancy(const struct occupancy *o, struct tg__finding *x) {
  const struct tg__columns *t = o->f->t;
  const struct tg__str grid = arg_text(t, o->longest, TG__K_GRID), block = arg_text(t, o->longest, TG__K_BLOCK);
  const bool is_few = has_few_blocks(o->f, o->longest);
  const double occupancy = tg__arg_real(t, t->slices.args[o->longest], TG__K_OCCUPANCY, 0);
  tg__where_slice(o->f, o->longest, x);
  TG_FORMAT(
      x->evidence,
      "%lld kernels %s are estimated to occupy less than %d %% of the multiprocessors' threads; nothing runs beside "
      "them for "
      "%.2f ms "
      "(%.1f %%); the longest: "
      "%s%.0f %%%s, grid %.*s, block %.*s",
      (long long)tg__per_step(o->f, o->count), tg__period_per(o->f), TG__LOW_OCCUPANCY_PCT, tg__ms(x->cost_ns),
      x->share_pct, is_few ? "blocks for at most " : "", is_few ? 100.0 / FEW_BLOCKS : occupancy,
      is_few ? " of the multiprocessors" : "", (int)grid.len, grid.ptr, (int)block.len, block.ptr);
  TG_FORMAT(x->advice,
            "Launch more blocks: a larger batch, or fused kernels by torch.compile(model); or run it on a stream "
            "of its own beside other work. In a kernel of one's own: more blocks (a sum over a long dimension "
            "in parts), more threads a block, fewer registers, less shared memory.");
}

/* Blocks for a quarter of the multiprocessors at most: with blocks for all of them the work takes a quarter of the
 * time at most. Kernels with a low occupancy for another reason may wait for something else. */
static void expect_of_blocks(struct tg__facts *f, struct tg__finding *x, int64_t few_ns) {
  x->method = "what more threads save depends on what the kernel waits for, which a trace does not hold";
  if (2 * few_ns < x->cost_ns) return;
  tg__expect_of_device(
      f, x, few_ns * (int64_t)f->steps.count * (FEW_BLOCKS - 1) / FEW_BLOCKS, 0, 0.35,
      "with a block for each multiprocessor, or beside other work, three quarters of these kernels' time go");
}

void tg__judge_occupancy(struct tg__facts *f) {
  struct occupancy o = {
      .f = f, .low = tg__new_spans(f), .few = tg__new_spans(f), .others = tg__new_spans(f), .longest = TG_NONE};
  if (tg__tensor_names_open(&o.names, f->t, &tg__tensor_exact))
    TG__EACH_IN_STEPS (w, f) see_occupancy(&o, w.slice, w.cls);
  else
    f->failed = true;
  tg__tensor_names_close(&o.names);
  tg__spans_union(o.others);
  const int64_t each_ns = tg__usual_inside(f, tg__rest_of(f, o.low, o.others)),
                few_ns = tg__usual_inside(f, tg__rest_of(f, o.few, o.others)); /* without what runs beside others */
  const double share = tg__pct(each_ns * (int64_t)f->steps.count, f->total_ns);
  if (f->has_device_work && !o.stated && share <= LOW_TIME_PCT)
    tg__cannot_judge(f, TG__CAUSE_LOW_OCCUPANCY, "no kernel states its occupancy");
  if (f->failed || o.longest == TG_NONE || share <= LOW_TIME_PCT) return;
  if (!f->device_bound) { /* the step would wait for the host all the same */
    tg__cannot_judge(f, TG__CAUSE_LOW_OCCUPANCY, "the host is the slower side");
    return;
  }
  struct tg__finding *const x = tg__finding_add(f, TG__CAUSE_LOW_OCCUPANCY, share, LOW_TIME_PCT, each_ns);
  describe_occupancy(&o, x);
  expect_of_blocks(f, x, few_ns);
}

/* ---- memory ---------------------------------------------------------------------------------- */

enum { CUDA = 1, HIP = 6 }; /* c10::DeviceType */

int64_t tg__device_peak(const struct tg__facts *f, const struct tg__device *d) {
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
    const int64_t peak = tg__device_peak(f, d);
    const double share = tg__pct(peak, d->total_memory_bytes);
    known |= peak > 0;
    if (share <= MEMORY_PCT) continue;
    struct tg__finding *x = tg__finding_add(f, TG__CAUSE_DEVICE_MEMORY_NEARLY_FULL, share, MEMORY_PCT, TG_NULL_INT);
    x->is_warning = true;
    x->method = "it makes room, and saves time only where the allocator has to release and ask again";
    TG_FORMAT(x->where, "device %lld", (long long)d->id);
    TG_FORMAT(x->evidence, "at the peak %.2f of %.2f GiB are allocated (%.1f %%)", (double)peak / (1 << 30),
              (double)d->total_memory_bytes / (1 << 30), share);
    TG_FORMAT(x->advice, "Recompute activations with torch.utils.checkpoint.checkpoint, train under torch.autocast, or "
                         "use a smaller batch.");
  }
  if (!known) tg__cannot_judge_device(f, TG__CAUSE_DEVICE_MEMORY_NEARLY_FULL, "no device memory events with totals");
}
