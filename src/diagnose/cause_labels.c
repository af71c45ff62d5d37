/* Labels that a host clock times wrongly: the program reads a clock at both ends, and the device work that was launched
 * inside ends long after the second. A label that ends before its work is no mistake by itself: that is how work is
 * launched. */
#include "diagnose/sites.h"

enum { UNSEEN_PCT = 50, LEAST_UNSEEN_NS = 100000, LEAST_NS = 10000, BESIDE_NS = 100000 };
enum {
  OF_TORCH = TG__NAME_COLLECTIVE_KERNEL | TG__NAME_COLLECTIVE_CALL | TG__NAME_DATALOADER | TG__NAME_OPTIMIZER_STEP |
             TG__NAME_PROFILER_STEP
};

struct launch {
  uint32_t call;  /* slice of the host */
  int64_t end_ns; /* of what it launched */
};
struct label {
  uint32_t name, longest; /* longest: the slice with the most unseen time */
  int64_t count, host_ns, unseen_ns, longest_ns;
};
struct labels {
  struct tg__facts *f;
  uint32_t *reads; /* calls that read a clock, by track, then start */
  size_t read_count, read_cap;
  struct launch *launches; /* by call */
  size_t launch_count, launch_cap;
  struct label *items;
  size_t count, cap;
  struct tg__map index; /* name → item */
};

static bool reads_clock(struct tg__str call) {
  static const char *const clocks[] = {"perf_counter", "perf_counter_ns", "monotonic",    "monotonic_ns",
                                       "time",         "time_ns",         "clock_gettime"};
  static const char begin[] = "<built-in function ";
  if (!tg__str_has_prefix(call, begin) || !tg__str_has_suffix(call, ">")) return false;
  const struct tg__str name = {call.ptr + sizeof begin - 1, call.len - (uint32_t)sizeof begin};
  return TG__IS_ONE_OF(name, clocks);
}

static void see_launched(struct labels *l, uint32_t slice, enum tg__class cls) {
  const struct tg__columns *t = l->f->t;
  if (cls == TG__CLASS_PYTHON && reads_clock(tg__slice_name(t, slice))) {
    TG__PUSH(l->f, l->reads, l->read_count, l->read_cap, slice);
  }
  const uint32_t call = t->slices.cause[slice];
  if (tg__class_is_device_work(cls) && call != TG_NONE)
    TG__PUSH(l->f, l->launches, l->launch_count, l->launch_cap, (struct launch){call, tg__slice_end(t, slice)});
}

static bool calls_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct launch *launches = ctx;
  return launches[a].call < launches[b].call;
}

static size_t first_after(const struct labels *l, uint32_t slice) {
  size_t low = 0;
  TG__PARTITION(low, l->launch_count, i, l->launches[i].call <= slice);
  return low;
}

/* When the last device work ends that was launched inside the slice, on its own thread. INT64_MIN: none was. */
static int64_t device_end(const struct labels *l, uint32_t slice) {
  const struct tg__columns *t = l->f->t;
  const struct tg__track *track = &t->tracks[tg__slice_track(t, slice)];
  const int64_t end = tg__slice_end(t, slice);
  int64_t last = INT64_MIN;
  for (size_t i = first_after(l, slice); i < l->launch_count;
       i++) { /* what runs inside a slice follows it on its track */
    const uint32_t call = l->launches[i].call;
    if (call >= track->first + track->count || t->slices.start_ns[call] >= end) break;
    if (l->launches[i].end_ns > last) last = l->launches[i].end_ns;
  }
  return last;
}

static struct label *label_of(struct labels *l, uint32_t name) {
  uint32_t *slot = tg__map_slot(&l->index, name, TG_NONE);
  if (slot && *slot == TG_NONE && tg__grow((void **)&l->items, &l->cap, l->count + 1, sizeof *l->items)) {
    l->items[l->count] = (struct label){.name = name, .longest = TG_NONE};
    *slot = (uint32_t)l->count++;
  }
  if (slot && *slot != TG_NONE) return &l->items[*slot];
  l->f->failed = true;
  return NULL;
}

/* Does the thread read a clock within a tenth of a millisecond of this time? */
static bool reads_beside(const struct labels *l, uint32_t track, int64_t at_ns) {
  const struct tg__columns *t = l->f->t;
  for (size_t i = 0; i < l->read_count; i++) {
    const int64_t away = t->slices.start_ns[l->reads[i]] - at_ns;
    if (away <= BESIDE_NS && away >= -BESIDE_NS && tg__slice_track(t, l->reads[i]) == track) return true;
  }
  return false;
}

static bool is_timed(const struct labels *l, uint32_t slice) {
  const uint32_t track = tg__slice_track(l->f->t, slice);
  return reads_beside(l, track, l->f->t->slices.start_ns[slice]) &&
         reads_beside(l, track, tg__slice_end(l->f->t, slice));
}

/* Steps, loaders, optimizers and collectives are labelled by torch; a program that times something puts a label of
 * its own there. */
static void see_label(struct labels *l, uint32_t slice, enum tg__class cls) {
  const struct tg__columns *t = l->f->t;
  if (cls != TG__CLASS_ANNOTATION || (tg__slice_meaning(l->f, slice) & OF_TORCH)) return;
  const int64_t end = tg__slice_end(t, slice), device = device_end(l, slice), unseen = device > end ? device - end : 0;
  struct label *x = device == INT64_MIN || !is_timed(l, slice) ? NULL : label_of(l, t->slices.name[slice]);
  if (!x) return;
  x->count++;
  x->host_ns += t->slices.dur_ns[slice];
  x->unseen_ns += unseen;
  if (x->longest == TG_NONE || unseen > x->longest_ns) {
    x->longest = slice;
    x->longest_ns = unseen;
  }
}

static void report_label(struct tg__facts *f, const struct label *l) {
  struct tg__finding *x =
      tg__finding_add(f, TG__CAUSE_HOST_TIMED_LABEL, tg__pct(l->unseen_ns, l->host_ns + l->unseen_ns), UNSEEN_PCT,
                      tg__per_step(f, l->unseen_ns));
  x->is_warning = true;
  tg__where_slice(f, l->longest, x);
  TG_FORMAT(
      x->evidence,
      "a clock is read at both ends of it: %.2f ms on the host; the work launched in it ends %.2f ms later on the "
      "device (means of %lld)",
      tg__ms(l->host_ns / l->count), tg__ms(l->unseen_ns / l->count), (long long)l->count);
  TG_FORMAT(
      x->advice,
      "A host clock around it sees little but the launching: take tg.timer, which uses events of the device, or the "
      "device columns of the question annotations.");
  tg__finding_expect(f, x, 0, 0.9, "a measurement becomes right, nothing becomes faster");
}

/* The label of which a host clock misses most. */
void tg__judge_labels(struct tg__facts *f) {
  struct labels l = {.f = f};
  const struct label *most = NULL;
  if (!f->has_device_work) return;
  TG__EACH_IN_STEPS (w, f) see_launched(&l, w.slice, w.cls);
  if (!f->failed)
    f->failed = !tg__sort_items((void **)&l.launches, l.launch_count, sizeof *l.launches, calls_before, l.launches);
  if (!f->failed && l.read_count)
    TG__EACH_IN_STEPS (w, f) see_label(&l, w.slice, w.cls);
  for (size_t i = 0; !f->failed && i < l.count; i++) {
    const struct label *x = &l.items[i];
    const bool is_missed =
        tg__pct(x->unseen_ns, x->host_ns + x->unseen_ns) > UNSEEN_PCT && x->unseen_ns / x->count >= LEAST_UNSEEN_NS;
    if (is_missed && x->host_ns / x->count >= LEAST_NS && (!most || x->unseen_ns > most->unseen_ns)) most = x;
  }
  if (most) report_label(f, most);
  tg__map_free(&l.index);
  tg__free(l.launches);
  tg__free(l.items);
  tg__free(l.reads);
}
