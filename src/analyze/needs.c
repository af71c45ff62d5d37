/* needs: what a trace has to hold for a question to have an answer. A question about what was never recorded is
 * refused, with the option that would have recorded it: an empty table would read as "there was none". */
#include "analyze/answering.h"
#include "analyze/device/device_rows.h"

static bool is_operator(enum tg__class c) { return c == TG__CLASS_OP; }
static bool is_caller(enum tg__class c) {
  return c == TG__CLASS_OP || c == TG__CLASS_PYTHON_OP || c == TG__CLASS_ANNOTATION || c == TG__CLASS_PYTHON;
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

/* Is there one on a track of this kind? With `linked`, one with a known host call. */
static bool stands_on(const struct tg__columns *t, const struct tg__ask *a, const uint64_t *wanted, bool linked,
                      bool devices) {
  for (uint32_t k = t->track_count; k-- > 0;) { /* the category may be only on marks */
    if ((t->tracks[k].kind == TG__TRACK_DEVICE) != devices || !tg__ask_has_rank(a, t->tracks[k].rank)) continue;
    TG__EACH (i, tg__slices_of(&t->tracks[k])) {
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

static bool has_memory_marks(const struct tg__columns *t, const struct tg__ask *a) {
  for (uint32_t i = 0; i < t->marks.count; i++)
    if (t->marks.name[i] == TG__K_MEMORY && tg__ask_has_rank(a, t->tracks[t->marks.track[i]].rank)) return true;
  return false;
}

static bool has_shapes(const struct tg__columns *t, const struct tg__ask *a) {
  for (uint32_t k = 0; k < t->track_count; k++) {
    if (!tg__ask_has_rank(a, t->tracks[k].rank)) continue;
    TG__EACH (i, tg__slices_of(&t->tracks[k]))
      if (tg__arg_dims(t, t->slices.args[i]) != TG_NONE) return true;
  }
  return false;
}

static const struct {
  bool (*fits)(enum tg__class); /* NULL: memory events */
  const char *what, *cure;      /* what is missing, and what to do for it */
  enum tg__need first;          /* looked for before; NOTHING = none */
  bool linked;
} kinds[TG__NEED_COUNT] = {
    [TG__NEED_DEVICE] = {tg__class_is_device_work, "device work (kernels, copies, memsets)",
                         "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] on a machine with a "
                         "device",
                         TG__NEED_NOTHING, false},
    [TG__NEED_BUSY] = {tg__class_is_device_work, "device work (kernels, copies, memsets)",
                       "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] on a machine with a "
                       "device",
                       TG__NEED_NOTHING, false},
    [TG__NEED_LAUNCHES] = {tg__class_is_device_work, "host call that launched device work",
                           "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] together",
                           TG__NEED_DEVICE, true},
    [TG__NEED_CALLERS] = {is_caller, "operators, annotations or frames that device work could lie below",
                          "record with ProfilerActivity.CPU among the activities", TG__NEED_DEVICE, false},
    [TG__NEED_OPERATORS] = {is_operator, "operators", "record with ProfilerActivity.CPU among the activities",
                            TG__NEED_NOTHING, false},
    [TG__NEED_WORK] = {is_work, "operators, host calls or device work",
                       "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]", TG__NEED_NOTHING, false},
    [TG__NEED_TIMED] = {is_timed, "operators or device work",
                        "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]", TG__NEED_NOTHING,
                        false},
    [TG__NEED_SLICES] = {is_any, "events that take time", "record with ProfilerActivity.CPU among the activities",
                         TG__NEED_NOTHING, false},
    [TG__NEED_NAMED] = {is_named, "user annotations",
                        "wrap parts of the program in torch.profiler.record_function(\"name\")", TG__NEED_NOTHING,
                        false},
    [TG__NEED_MEMORY] = {NULL, "[memory] events", "record with profile_memory=True", TG__NEED_NOTHING, false},
};

static enum tg_err check_shapes(const struct tg__columns *t, const struct tg__ask *a, struct tg_error *e) {
  if (t->rank_count < 2 || has_shapes(t, a)) return TG_OK; /* of one rank the question says so itself */
  return tg__fail(e, TG_NO_DATA, -1,
                  "the trace holds no input shapes, from which operations and bytes are counted; record with "
                  "record_shapes=True");
}

static enum tg_err check(const struct tg__columns *t, const struct tg__ask *a, enum tg__need need, const char *who,
                         struct tg_error *e) {
  if (need == TG__NEED_NOTHING) return TG_OK;
  if (need == TG__NEED_SHAPES) return check_shapes(t, a, e);
  const struct tg__device_rules *const rules = need == TG__NEED_BUSY ? a->policy : NULL;
  if (rules && rules->has_work(t, a)) return TG_OK;
  if (kinds[need].fits ? tg__ask_has_class(t, a, kinds[need].fits, kinds[need].linked) : has_memory_marks(t, a))
    return TG_OK;
  return tg__fail(e, TG_NO_DATA, -1, "%s holds no %s, which %s is about; %s", who, kinds[need].what, a->question->name,
                  kinds[need].cure);
}

enum tg_err tg__check_needs(const struct tg__columns *t, const struct tg__ask *a, const char *who, struct tg_error *e) {
  const enum tg__need need = a->question->need;
  const enum tg_err err = check(t, a, kinds[need].first, who, e);
  return err ? err : check(t, a, need, who, e);
}
