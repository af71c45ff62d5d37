/* The step-time breakdown: which step each piece of device work belongs to, and which part of the step each instant. */
#include "analyze/overview/step_code.h"
#include "analyze/overview/steps.h"

enum { ROLE_LABEL = TG__PART_OTHER, ROLE_COUNT, ROLE_NONE = ROLE_COUNT }; /* labels count for TG__PART_CPU_EXEC */

enum {
  NAME_KNOWN = 1,
  NAME_LOADER = 2,
  NAME_STEP = 4,
  NAME_COLLECTIVE = 8,
  NAME_COLLECTIVE_KERNEL = 16,
  NAME_LABEL = 32,
  NAME_OTHER_COPY = 64, /* of a vendor without finer categories: what its name says it is */
  NAME_OTHER_COLLECTIVE = 128
};

/* What one step launched on devices. */
enum { SHORT_KERNEL_NS = 10000 };
struct launched {
  int64_t first_ns, last_ns, count, short_kernels;
  int64_t
      latest_end_ns; /* latest annotation end of this and all earlier steps: bounds the search among overlapping ones */
};

struct work {
  const struct tg__columns *t;
  uint32_t rank;
  uint8_t *names; /* NAME_* per string id, filled as names turn up */
  struct tg__spans roles[ROLE_COUNT];
  struct tg__step_code code;
  struct launched *launched; /* one per step */
  int64_t launched_total;
  int64_t *loose_ends; /* ends of device work that no step launched */
  size_t loose_count, loose_cap;
  bool has_kernels; /* even if they took no time */
  /* device work without finer categories counts: not where the whole recording is the step, as the TensorBoard view
   * has it, which knew no such devices */
  bool has_others;
  bool failed;
};

/* ---- which part an event counts for ---------------------------------------------------------- */

/* The ten names the TensorBoard view counted as communication on the host. Point-to-point calls are not among them:
 * their host side returns at once and the waiting shows in their kernels. */
static bool is_host_collective(struct tg__str name) {
  static const char *const verbs[] = {"broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter"};
  if (!tg__str_has_prefix(name, "nccl:") && !tg__str_has_prefix(name, "gloo:")) return false;
  const struct tg__str verb = {name.ptr + 5, name.len - 5};
  for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
    if (tg__str_eq(verb, (struct tg__str){verbs[i], (uint32_t)strlen(verbs[i])})) return true;
  return false;
}

static uint8_t name_kind(struct work *w, uint32_t id) {
  if (w->names[id]) return w->names[id];
  const struct tg__str name = tg__name(w->t, id);
  uint8_t kind = NAME_KNOWN;
  if (tg__name_is_dataloader(name)) kind |= NAME_LOADER;
  if (tg__str_has_prefix(name, "ProfilerStep#")) kind |= NAME_STEP;
  if (is_host_collective(name)) kind |= NAME_COLLECTIVE;
  if (tg__name_is_label(name)) kind |= NAME_LABEL;
  if (tg__name_is_collective_kernel(name)) kind |= NAME_COLLECTIVE_KERNEL;
  const char *const type = tg__kernel_type_by_name(name);
  if (strcmp(type, "MEMORY") == 0) kind |= NAME_OTHER_COPY;
  if (strcmp(type, "COMMUNICATION") == 0) kind |= NAME_OTHER_COLLECTIVE;
  return w->names[id] = kind;
}

static unsigned part_role_of(struct work *w, uint32_t slice, enum tg__class cls) {
  switch (cls) {
  case TG__CLASS_KERNEL:
    return name_kind(w, w->t->slices.name[slice]) & NAME_COLLECTIVE_KERNEL ? TG__PART_COMMUNICATION : TG__PART_KERNEL;
  case TG__CLASS_DEVICE_OTHER: {
    const uint8_t kind = name_kind(w, w->t->slices.name[slice]);
    if (!w->has_others) return ROLE_NONE;
    return kind & NAME_OTHER_COPY         ? TG__PART_MEMCPY
           : kind & NAME_OTHER_COLLECTIVE ? TG__PART_COMMUNICATION
                                          : TG__PART_KERNEL;
  }
  case TG__CLASS_MEMCPY:
    return TG__PART_MEMCPY;
  case TG__CLASS_MEMSET:
    return TG__PART_MEMSET;
  case TG__CLASS_RUNTIME:
    return TG__PART_RUNTIME;
  case TG__CLASS_OP:
  case TG__CLASS_ANNOTATION:
  case TG__CLASS_PYTHON_OP: {
    const uint8_t kind = name_kind(w, w->t->slices.name[slice]);
    if (cls != TG__CLASS_PYTHON_OP && kind & NAME_LOADER) return TG__PART_DATALOADER;
    if (cls != TG__CLASS_PYTHON_OP && kind & NAME_STEP) return ROLE_NONE;
    if (kind & NAME_COLLECTIVE) return TG__PART_COMMUNICATION;
    return cls == TG__CLASS_ANNOTATION && kind & NAME_LABEL ? ROLE_LABEL : TG__PART_CPU_EXEC;
  }
  default:
    return ROLE_NONE;
  }
}

static void gather_roles(struct work *w) {
  const struct tg__columns *t = w->t;
  const struct tg__rank *r = &t->ranks[w->rank];
  TG__EACH (k, tg__tracks_of(r)) {
    const struct tg__track *track = &t->tracks[k];
    TG__EACH (i, tg__slices_of(track)) {
      const unsigned role = part_role_of(w, i, tg__slice_class(t, i));
      if (role != ROLE_NONE) tg__spans_add(&w->roles[role], t->slices.start_ns[i], tg__slice_end(t, i));
      w->has_kernels |= role == TG__PART_KERNEL;
    }
  }
  for (unsigned i = 0; i < ROLE_COUNT; i++) {
    tg__spans_union(&w->roles[i]);
    w->failed |= w->roles[i].failed;
  }
}

/* ---- which steps there are ------------------------------------------------------------------- */

/* The whole recording as one step: operators and step annotations, as user annotations may begin long before. */
static bool recording_as_step(const struct tg__columns *t, uint32_t rank, bool by_calls, struct tg__step_cost *out) {
  const struct tg__rank *r = &t->ranks[rank];
  bool found = false, has_host = !by_calls; /* only kernels are no recording of a program */
  TG__EACH (k, tg__tracks_of(r)) {
    const struct tg__track *track = &t->tracks[k];
    TG__EACH (i, tg__slices_of(track)) {
      const enum tg__class cls = tg__slice_class(t, i);
      const bool is_step =
          cls == TG__CLASS_ANNOTATION && tg__str_has_prefix(tg__name(t, t->slices.name[i]), "ProfilerStep#");
      const bool is_call = by_calls && (cls == TG__CLASS_RUNTIME || tg__class_is_device_work(cls));
      has_host |= cls == TG__CLASS_RUNTIME;
      if (cls != TG__CLASS_OP && cls != TG__CLASS_PYTHON_OP && !is_step && !is_call) continue;
      const int64_t start = t->slices.start_ns[i], end = tg__slice_end(t, i);
      if (!found || start < out->start_ns) out->start_ns = start;
      if (!found || end > out->end_ns) out->end_ns = end;
      found = true;
    }
  }
  out->step = TG_NONE;
  out->host_start_ns = out->start_ns;
  out->host_end_ns = out->end_ns;
  return found && has_host;
}

static int64_t step_arg(const struct tg__columns *t, uint32_t slice, uint32_t key, int64_t unit_ns) {
  const int64_t n = slice == TG_NONE || !t->slices.args ? -1 : tg__arg_int(t, t->slices.args[slice], key, -1);
  return n < 0 || n > INT64_MAX / unit_ns ? TG_NULL_INT : n * unit_ns;
}

/* A recorder reads these where one step ends and where the next one begins. A wait that is longer than the step was
 * between the two: the step has at most the time of it that it was not on a core. */
static void read_costs(const struct tg__columns *t, uint32_t slice, struct tg__step_cost *out) {
  const int64_t total_ns = out->end_ns - out->start_ns;
  out->thread_cpu_ns = step_arg(t, slice, TG__K_THREAD_CPU_US, 1000);
  out->core_wait_ns = step_arg(t, slice, TG__K_CORE_WAIT_US, 1000);
  out->preemptions = step_arg(t, slice, TG__K_PREEMPTIONS, 1);
  if (out->core_wait_ns == TG_NULL_INT || out->core_wait_ns <= total_ns) return;
  const int64_t cpu_ns = out->thread_cpu_ns == TG_NULL_INT ? 0 : out->thread_cpu_ns;
  out->core_wait_ns = cpu_ns < total_ns ? total_ns - cpu_ns : 0;
}

static bool find_steps(struct work *w, enum tg__step_source wanted, struct tg__breakdown *out) {
  const struct tg__columns *t = w->t;
  size_t count = 0;
  for (uint32_t i = 0; wanted == TG__STEPS_DETECTED && i < t->step_count; i++) count += t->steps[i].rank == w->rank;
  out->source = count ? TG__STEPS_DETECTED : TG__STEPS_RECORDING;
  out->steps = tg__alloc((count ? count : 1) * sizeof *out->steps);
  if (!out->steps) return false;
  if (!count) {
    out->count = recording_as_step(t, w->rank, wanted == TG__STEPS_CALLS, out->steps);
    read_costs(t, TG_NONE, out->steps);
    return true;
  }
  for (uint32_t i = 0; i < t->step_count; i++) {
    const struct tg__step *s = &t->steps[i];
    if (s->rank != w->rank) continue;
    out->steps[out->count++] = (struct tg__step_cost){.step = i,
                                                      .host_start_ns = s->start_ns,
                                                      .host_end_ns = s->end_ns,
                                                      .start_ns = s->start_ns,
                                                      .end_ns = s->end_ns};
    read_costs(t, s->slice, &out->steps[out->count - 1]);
    /* an annotation that serves as a step is the frame, not work inside it */
    if (s->slice != TG_NONE) w->names[t->slices.name[s->slice]] = name_kind(w, t->slices.name[s->slice]) | NAME_STEP;
  }
  return true;
}

/* ---- device work belongs to the step that launched it ---------------------------------------- */

uint32_t tg__step_at(const struct tg__columns *t, uint32_t rank, int64_t ns) {
  uint32_t low = 0; /* first step that starts after ns, by (rank, start) */
  TG__PARTITION(low, t->step_count, i,
                t->steps[i].rank < rank || (t->steps[i].rank == rank && t->steps[i].start_ns <= ns));
  if (low == 0 || t->steps[low - 1].rank != rank || ns >= t->steps[low - 1].end_ns) return TG_NONE;
  return low - 1;
}

size_t tg__steps_begun(const struct tg__breakdown *b, int64_t ns) {
  size_t low = 0;
  TG__PARTITION(low, b->count, i, b->steps[i].host_start_ns <= ns);
  return low;
}

/* Assign device work to every step with an annotation around the call that launched it. false: to none. */
static bool assign_to_steps(struct work *w, const struct tg__breakdown *b, uint32_t slice) {
  const struct tg__columns *t = w->t;
  const uint32_t call = t->slices.cause[slice];
  if (call == TG_NONE || tg__slice_class(t, call) != TG__CLASS_RUNTIME) return false;
  const int64_t start = t->slices.start_ns[call], end = tg__slice_end(t, call);
  bool given = false;
  for (size_t i = tg__steps_begun(b, start); i-- > 0 && w->launched[i].latest_end_ns >= end;) {
    if (b->steps[i].host_end_ns < end) continue;
    struct launched *l = &w->launched[i];
    const int64_t from = t->slices.start_ns[slice], to = tg__slice_end(t, slice);
    if (!l->count || from < l->first_ns) l->first_ns = from;
    if (!l->count || to > l->last_ns) l->last_ns = to;
    l->count++;
    l->short_kernels += tg__slice_class(t, slice) == TG__CLASS_KERNEL && to - from < SHORT_KERNEL_NS;
    w->launched_total++;
    given = true;
  }
  return given;
}

static bool assign_device_work(struct work *w, const struct tg__breakdown *b) {
  const struct tg__columns *t = w->t;
  const struct tg__rank *r = &t->ranks[w->rank];
  w->launched = tg__alloc(b->count * sizeof *w->launched);
  if (!w->launched) return false;
  for (size_t i = 0; i < b->count; i++) {
    const int64_t end = b->steps[i].host_end_ns;
    w->launched[i].latest_end_ns = i && w->launched[i - 1].latest_end_ns > end ? w->launched[i - 1].latest_end_ns : end;
  }
  TG__EACH (k, tg__tracks_of(r)) {
    const struct tg__track *track = &t->tracks[k];
    TG__EACH (i, tg__slices_of(track)) {
      const enum tg__class cls = tg__slice_class(t, i);
      const bool counts = tg__class_is_device_work(cls) && (w->has_others || cls != TG__CLASS_DEVICE_OTHER);
      if (!counts || assign_to_steps(w, b, i)) continue;
      if (!tg__grow((void **)&w->loose_ends, &w->loose_cap, w->loose_count + 1, sizeof *w->loose_ends)) return false;
      w->loose_ends[w->loose_count++] = tg__slice_end(t, i);
    }
  }
  return true;
}

/* A step starts after device work of earlier ones and lasts until its own is done. */
static void move_borders(const struct work *w, struct tg__breakdown *b) {
  if (!w->launched_total) return;
  int64_t before = b->steps[0].host_start_ns;
  for (size_t i = 0; w->launched[0].count && i < w->loose_count; i++)
    if (w->loose_ends[i] < w->launched[0].first_ns && w->loose_ends[i] > before) before = w->loose_ends[i];
  for (size_t i = 0; i < b->count; i++) {
    struct tg__step_cost *s = &b->steps[i];
    if (s->start_ns < before) s->start_ns = before;
    if (w->launched[i].count && s->end_ns < w->launched[i].last_ns) s->end_ns = w->launched[i].last_ns;
    if (s->end_ns < s->start_ns) s->end_ns = s->start_ns;
    s->device_events = w->launched[i].count;
    s->short_kernels = w->launched[i].short_kernels;
    before = s->end_ns;
  }
}

/* The recording often stops before the device has caught up: steps behind the last that launched anything go, and
 * that one too when it launched less than 80 % of the one before. */
static void drop_tail(const struct work *w, struct tg__breakdown *b) {
  if (!w->launched_total || b->count < 2) return;
  size_t last = b->count - 1;
  while (!w->launched[last].count) last--;
  size_t keep = last + 1;
  if (last > 0 && 5 * w->launched[last].count < 4 * w->launched[last - 1].count) keep--;
  b->left_out = b->count - keep;
  b->count = keep;
}

/* ---- time divided ---------------------------------------------------------------------------- */

/* part: of all steps, and counted as eager so far. */
static void divide_code(struct work *w, struct tg__breakdown *b, const struct tg__spans *part) {
  struct tg__spans replayed = {0}, compiled = {0};
  tg__spans_intersect(part, &w->code.replayed, &replayed);
  tg__spans_intersect(part, &w->code.compiled, &compiled);
  w->failed |= replayed.failed || compiled.failed;
  for (size_t i = 0; i < b->count; i++) {
    struct tg__step_cost *const s = &b->steps[i];
    const int64_t replayed_ns = tg__spans_inside(&replayed, s->start_ns, s->end_ns);
    const int64_t compiled_ns = tg__spans_inside(&compiled, s->start_ns, s->end_ns);
    s->replayed_ns += replayed_ns;
    s->compiled_ns += compiled_ns;
    s->eager_ns -= replayed_ns + compiled_ns;
  }
  tg__spans_free(&replayed);
  tg__spans_free(&compiled);
}

static void divide_parts(struct work *w, struct tg__breakdown *b) {
  struct tg__spans left = {0};
  for (size_t i = 0; i < b->count; i++) tg__spans_add(&left, b->steps[i].start_ns, b->steps[i].end_ns);
  tg__spans_union(&left);
  for (unsigned r = 0; r < ROLE_COUNT; r++) {
    const bool is_code = r != TG__PART_DATALOADER && r != ROLE_LABEL;
    struct tg__spans part = {0};
    w->failed |= !tg__spans_take(&left, &w->roles[r], &part);
    for (size_t i = 0; i < b->count; i++) {
      struct tg__step_cost *const s = &b->steps[i];
      const int64_t ns = tg__spans_inside(&part, s->start_ns, s->end_ns);
      s->part_ns[r == ROLE_LABEL ? TG__PART_CPU_EXEC : r] += ns;
      if (r == ROLE_LABEL) s->label_ns = ns;
      if (is_code) s->eager_ns += ns;
    }
    if (is_code && b->has_code) divide_code(w, b, &part);
    tg__spans_free(&part);
  }
  for (size_t i = 0; i < b->count; i++)
    b->steps[i].part_ns[TG__PART_OTHER] = tg__spans_inside(&left, b->steps[i].start_ns, b->steps[i].end_ns);
  tg__spans_free(&left);
}

/* Labels count as computation of a host without kernels, as they do in the eight parts. */
static void join_labels(struct work *w) {
  const struct tg__spans *const labels = &w->roles[ROLE_LABEL];
  struct tg__spans *const host = &w->roles[TG__PART_CPU_EXEC];
  tg__spans_add_all(host, labels);
  tg__spans_union(host);
  w->failed |= host->failed;
}

static void divide_communication(struct work *w, struct tg__breakdown *b) {
  if (!w->has_kernels) join_labels(w);
  const struct tg__spans *computation = &w->roles[w->has_kernels ? TG__PART_KERNEL : TG__PART_CPU_EXEC];
  const struct tg__spans *communication = &w->roles[TG__PART_COMMUNICATION];
  struct tg__spans both = {0};
  tg__spans_intersect(computation, communication, &both);
  w->failed |= both.failed;
  for (size_t i = 0; i < b->count; i++) {
    struct tg__step_cost *s = &b->steps[i];
    s->computation_ns = tg__spans_inside(computation, s->start_ns, s->end_ns);
    s->communication_ns = tg__spans_inside(communication, s->start_ns, s->end_ns);
    s->overlap_ns = tg__spans_inside(&both, s->start_ns, s->end_ns);
    s->neither_ns = s->end_ns - s->start_ns + s->overlap_ns - s->computation_ns - s->communication_ns;
  }
  tg__spans_free(&both);
}

/* wanted: detected, the recording, or by calls. */
static enum tg_err break_down(const struct tg__columns *t, uint32_t rank, enum tg__step_source wanted,
                              struct tg__breakdown *out) {
  *out = (struct tg__breakdown){.window = {.rank = rank}};
  struct work w = {.t = t, .rank = rank, .has_others = wanted != TG__STEPS_RECORDING};
  enum tg_err err = TG_MEMORY;
  w.names = tg__alloc((size_t)tg__strings_count(t->strings) + 1);
  if (!w.names || !find_steps(&w, wanted, out)) goto done;
  if (!out->count) {
    err = TG_OK;
    goto done;
  }
  gather_roles(&w);
  tg__step_code_open(t, rank, w.has_others, &w.code);
  out->has_code = w.code.replayed.count || w.code.compiled.count;
  w.failed |= w.code.failed;
  if (w.failed || !assign_device_work(&w, out)) goto done;
  move_borders(&w, out);
  drop_tail(&w, out);
  out->window.start_ns = out->steps[0].start_ns;
  out->window.end_ns = out->steps[out->count - 1].end_ns;
  divide_parts(&w, out);
  divide_communication(&w, out);
  err = w.failed ? TG_MEMORY : TG_OK;
done:
  for (unsigned i = 0; i < ROLE_COUNT; i++) tg__spans_free(&w.roles[i]);
  tg__step_code_close(&w.code);
  tg__free(w.loose_ends);
  tg__free(w.launched);
  tg__free(w.names);
  return err;
}

/* ---- kept with the trace --------------------------------------------------------------------- */

enum { KINDS = TG__STEPS_CALLS + 1 };
struct kept { /* of each rank, by what was wanted */
  uint32_t ranks;
  struct {
    struct tg__breakdown breakdown;
    bool is_known;
  } of_rank[][KINDS];
};

static void free_kept_steps(void *item) {
  struct kept *k = item;
  for (uint32_t r = 0; r < k->ranks; r++)
    for (int i = 0; i < KINDS; i++) tg__breakdown_free(&k->of_rank[r][i].breakdown);
  tg__free(k);
}
static const struct tg__cached cached = {free_kept_steps};

static struct kept *kept_of(const struct tg__columns *t) {
  struct kept *k = tg__cache_get(t, &cached, sizeof *k + t->rank_count * sizeof *k->of_rank);
  if (k) k->ranks = t->rank_count;
  return k;
}

enum tg_err tg__steps_breakdown(const struct tg__columns *t, uint32_t rank, enum tg__step_source source,
                                struct tg__breakdown *out) {
  const bool by_steps =
      source == TG__STEPS_DETECTED || (source == TG__STEPS_PROFILER && t->ranks[rank].step_kind == TG__STEP_PROFILER);
  const enum tg__step_source wanted = by_steps                    ? TG__STEPS_DETECTED
                                      : source == TG__STEPS_CALLS ? TG__STEPS_CALLS
                                                                  : TG__STEPS_RECORDING;
  *out = (struct tg__breakdown){.window = {.rank = rank}};
  struct kept *k = kept_of(t);
  if (!k) return TG_MEMORY;
  struct tg__breakdown *b = &k->of_rank[rank][wanted].breakdown;
  if (!k->of_rank[rank][wanted].is_known) {
    if (break_down(t, rank, wanted, b)) {
      tg__breakdown_free(b);
      return TG_MEMORY;
    }
    k->of_rank[rank][wanted].is_known = true;
  }
  const size_t all = b->count + b->left_out;
  *out = *b;
  out->steps = tg__alloc((all + 1) * sizeof *out->steps);
  if (!out->steps) return TG_MEMORY;
  if (all) memcpy(out->steps, b->steps, all * sizeof *out->steps);
  if (b->source != TG__STEPS_RECORDING) out->source = source;
  return TG_OK;
}

void tg__breakdown_free(struct tg__breakdown *b) {
  tg__free(b->steps);
  *b = (struct tg__breakdown){0};
}

/* ---- the step in which a recording begins ----------------------------------------------------- */

enum { COMPARED = 10 }; /* steps after the first */

/* The CPU time of the first step over the median of those after it; 0: not recorded, or of too few. */
static double first_over_next(const struct tg__step_cost *steps, size_t n) {
  int64_t sorted[COMPARED];
  size_t count = 0;
  for (size_t i = 1; i < n && count < COMPARED; i++) {
    size_t at = count++;
    for (; at > 0 && sorted[at - 1] > steps[i].thread_cpu_ns; at--) sorted[at] = sorted[at - 1];
    sorted[at] = steps[i].thread_cpu_ns;
  }
  if (count < 2 || steps[0].thread_cpu_ns == TG_NULL_INT || sorted[0] == TG_NULL_INT) return 0;
  const size_t low = (count - 1) / 2, high = count / 2;
  const double median = ((double)sorted[low] + (double)sorted[high]) / 2;
  return median > 0 ? (double)steps[0].thread_cpu_ns / median : 0;
}

static void leave_out(struct tg__breakdown *b, size_t n) {
  if (!n) return;
  memmove(b->steps, b->steps + n, (b->count - n) * sizeof *b->steps);
  b->count -= n;
  b->window.start_ns = b->steps[0].start_ns;
}

/* Without waiting for a core; and without workers that make several batches at a time, and other ranks. */
static int64_t length_alone(const struct tg__step_cost *s) {
  return tg__own_length(s) - s->part_ns[TG__PART_DATALOADER] - s->part_ns[TG__PART_COMMUNICATION];
}

/* The median of some of the last two thirds, evenly chosen. */
static int64_t usual_length(const struct tg__breakdown *b, int64_t (*length_of)(const struct tg__step_cost *)) {
  enum { CHOSEN = 64 };
  int64_t sorted[CHOSEN];
  const size_t from = b->count / 3, n = b->count - from, chosen = n < CHOSEN ? n : CHOSEN;
  for (size_t i = 0; i < chosen; i++) {
    const int64_t ns = length_of(&b->steps[from + i * n / chosen]);
    size_t at = i;
    for (; at > 0 && sorted[at - 1] > ns; at--) sorted[at] = sorted[at - 1];
    sorted[at] = ns;
  }
  return sorted[chosen / 2];
}

static void leave_out_warm_up(struct tg__breakdown *b) {
  enum { LEAST_STEPS = 5, PART = 3, TIMES = 2 };
  size_t n = 0;
  int64_t sum = 0;
  if (b->source == TG__STEPS_RECORDING || b->count < LEAST_STEPS) return;
  const int64_t usual = usual_length(b, tg__own_length), usual_alone = usual_length(b, length_alone);
  for (; n < b->count && usual_alone > 0; n++) {
    const int64_t ns = tg__own_length(&b->steps[n]);
    if (ns / TIMES <= usual || length_alone(&b->steps[n]) / TIMES <= usual_alone) break;
    sum += ns;
  }
  if (!n || PART * n > b->count) return;
  b->warm = n;
  b->warm_ns = sum / (int64_t)n;
  b->usual_ns = usual;
  leave_out(b, n);
}

double tg__steps_leave_out_first(struct tg__breakdown *b) {
  const double times = b->count ? first_over_next(b->steps, b->count) : 0;
  if (times > 1.5) leave_out(b, 1);
  leave_out_warm_up(b);
  return times > 1.5 ? times : 0;
}
