/* needs: what a trace has to hold for a question to have an answer. A question about what was never recorded is
 * refused, with the option that would have recorded it: an empty table would read as "there was none". */
#include "analyze/ask.h"

enum need {
  NEED_DEVICE,    /* device work */
  NEED_BUSY,      /* device work, by the rules asked for */
  NEED_LAUNCHES,  /* device work with a known host call */
  NEED_OPERATORS, /* operators */
  NEED_CALLERS,   /* operators or annotations: what device work can lie below */
  NEED_WORK,      /* operators, host calls or device work */
  NEED_TIMED,     /* operators or device work */
  NEED_SLICES,    /* whatever takes time */
  NEED_NAMED,     /* user annotations */
  NEED_MEMORY,    /* [memory] events */
  NEED_SHAPES,    /* what calls were given */
};

static const struct {
  const char *question;
  enum need need;
} needs[] = {
    {"kernels", NEED_DEVICE},
    {"launches", NEED_DEVICE},
    {"gaps", NEED_DEVICE},
    {"device_metrics", NEED_DEVICE},
    {"kernel_annotations", NEED_DEVICE},
    {"breakdown", NEED_BUSY},
    {"overlap", NEED_BUSY},
    {"kernel_types", NEED_BUSY},
    {"kernel_breakdown", NEED_BUSY},
    {"idle", NEED_DEVICE},
    {"copy_bandwidth", NEED_DEVICE},
    {"op_kernels", NEED_DEVICE},
    {"sequences", NEED_DEVICE},
    {"queue", NEED_DEVICE},
    {"launch_stats", NEED_DEVICE},
    {"op_kernels", NEED_LAUNCHES},
    {"queue", NEED_LAUNCHES},
    {"launch_stats", NEED_LAUNCHES},
    {"sequences", NEED_CALLERS},
    {"ops", NEED_OPERATORS},
    {"totals", NEED_WORK},
    {"op_classes", NEED_WORK},
    {"top", NEED_TIMED},
    {"annotations", NEED_NAMED},
    {"memory", NEED_MEMORY},
    {"memory_ops", NEED_MEMORY},
    {"call_graph", NEED_SLICES},
    {"rows", NEED_SLICES},
    {"roofline", NEED_SHAPES},
    {"mfu", NEED_SHAPES},
};

static bool is_operator(enum tg__class c) { return c == TG__CLASS_OP; }
static bool is_caller(enum tg__class c) {
  return c == TG__CLASS_OP || c == TG__CLASS_PYTHON_OP || c == TG__CLASS_ANNOTATION;
}
static bool is_work(enum tg__class c) {
  return c == TG__CLASS_OP || c == TG__CLASS_RUNTIME || tg__class_is_device_work(c);
}
static bool is_timed(enum tg__class c) { return c == TG__CLASS_OP || tg__class_is_device_work(c); }
static bool is_any(enum tg__class c) {
  (void)c;
  return true;
}
static bool is_named(enum tg__class c) { return c == TG__CLASS_ANNOTATION || c == TG__CLASS_GPU_ANNOTATION; }

/* Is there one on a track of this kind? With `linked`, one whose host call is known. */
static bool stands_on(const struct tg__columns *t, const struct tg__ask *a, const uint64_t *wanted, bool linked,
                      bool devices) {
  for (uint32_t k = t->track_count; k-- > 0;) { /* the category may stand on marks alone */
    if ((t->tracks[k].kind == TG__TRACK_DEVICE) != devices || !tg__ask_has_rank(a, t->tracks[k].rank)) continue;
    for (uint32_t i = t->tracks[k].first, end = i + t->tracks[k].count; i < end; i++) {
      const uint16_t cat = t->slices.cat[i];
      if (wanted[cat / 64] >> cat % 64 & 1 && (!linked || t->slices.cause[i] != TG_NONE)) return true;
    }
  }
  return false;
}

/* Few tracks are those of devices, and what is asked for mostly stands there. */
bool tg__ask_has_class(const struct tg__columns *t, const struct tg__ask *a, bool (*fits)(enum tg__class),
                       bool linked) {
  uint64_t wanted[(UINT16_MAX + 1) / 64] = {0}; /* categories, a bit each */
  bool named = false;
  for (uint32_t c = 0; c < t->cat_count; c++) {
    if (!fits((enum tg__class)t->cats[c].cls)) continue;
    wanted[c / 64] |= (uint64_t)1 << c % 64;
    named = true;
  }
  if (!named || !t->slices.cat) return false;
  return stands_on(t, a, wanted, linked, true) || stands_on(t, a, wanted, linked, false);
}

/* What HolisticTraceAnalysis takes for device work: whatever has a stream, on the host too (operators that
 * torch.compile made). */
static bool has_streams(const struct tg__columns *t, const struct tg__ask *a) {
  bool named = false;
  for (uint32_t s = 0; s < t->schema_count && !named; s++)
    for (uint16_t f = 0; f < t->schemas[s].count && !named; f++) named = t->schemas[s].fields[f].key == TG__K_STREAM;
  for (uint32_t k = 0; k < t->track_count && named; k++) {
    if (!tg__ask_has_rank(a, t->tracks[k].rank)) continue;
    for (uint32_t i = t->tracks[k].first, end = i + t->tracks[k].count; i < end; i++)
      if (tg__arg_int(t, t->slices.args[i], TG__K_STREAM, -1) != -1) return true;
  }
  return false;
}

static bool has_memory_marks(const struct tg__columns *t, const struct tg__ask *a) {
  for (uint32_t i = 0; i < t->marks.count; i++)
    if (t->marks.name[i] == TG__K_MEMORY && tg__ask_has_rank(a, t->tracks[t->marks.track[i]].rank)) return true;
  return false;
}

static bool has_shapes(const struct tg__columns *t, const struct tg__ask *a) {
  for (uint32_t k = 0; k < t->track_count; k++) {
    if (!tg__ask_has_rank(a, t->tracks[k].rank)) continue;
    for (uint32_t i = t->tracks[k].first, end = i + t->tracks[k].count; i < end; i++)
      if (tg__arg_dims(t, t->slices.args[i]) != TG_NONE) return true;
  }
  return false;
}

static const struct {
  bool (*fits)(enum tg__class); /* NULL: memory events */
  bool linked;
  const char *what, *cure; /* what is missing, and what to do for it */
} kinds[] = {
    [NEED_DEVICE] = {tg__class_is_device_work, false, "device work (kernels, copies, memsets)",
                     "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] on a machine with a device"},
    [NEED_BUSY] = {tg__class_is_device_work, false, "device work (kernels, copies, memsets)",
                   "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] on a machine with a device"},
    [NEED_LAUNCHES] = {tg__class_is_device_work, true, "host call that launched device work",
                       "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] together"},
    [NEED_OPERATORS] = {is_operator, false, "operators", "record with ProfilerActivity.CPU among the activities"},
    [NEED_CALLERS] = {is_caller, false, "operators that device work could lie below",
                      "record with ProfilerActivity.CPU among the activities"},
    [NEED_WORK] = {is_work, false, "operators, host calls or device work",
                   "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"},
    [NEED_TIMED] = {is_timed, false, "operators or device work",
                    "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"},
    [NEED_SLICES] = {is_any, false, "events that take time", "record with ProfilerActivity.CPU among the activities"},
    [NEED_NAMED] = {is_named, false, "user annotations",
                    "wrap parts of the program in torch.profiler.record_function(\"name\")"},
    [NEED_MEMORY] = {NULL, false, "[memory] events", "record with profile_memory=True"},
};

enum tg_err tg__check_needs(const struct tg__columns *t, const struct tg__ask *a, const char *who, struct tg_error *e) {
  for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
    const enum need need = needs[i].need;
    if (strcmp(needs[i].question, a->question->name) != 0) continue;
    if (need == NEED_BUSY && strcmp(tg__ask_arg(a, "rules"), "exact") != 0 && has_streams(t, a)) continue;
    if (need == NEED_SHAPES) {
      if (t->rank_count < 2 || has_shapes(t, a)) continue; /* of one rank the question says so itself */
      return tg__fail(e, TG_NO_DATA, -1,
                      "the trace holds no input shapes, from which operations and bytes are counted; record with "
                      "record_shapes=True");
    }
    if (kinds[need].fits ? tg__ask_has_class(t, a, kinds[need].fits, kinds[need].linked) : has_memory_marks(t, a))
      continue;
    return tg__fail(e, TG_NO_DATA, -1, "%s holds no %s, which %s is about; %s", who, kinds[need].what,
                    a->question->name, kinds[need].cure);
  }
  return TG_OK;
}
