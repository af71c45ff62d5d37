/* slice_classes: how a slice is drawn, by its category and, where that does not say, its name. */
#include "view/view.h"

const char *const tg__slice_class_names[TG__SLICE_CLASS_COUNT] = {
#define CLASS(name, text) text,
#include "view/slice_classes.def"
#undef CLASS
};

enum { IS_KNOWN = 1, IS_WAIT = 2, IS_COPY = 4, NAME_HASHED = 256, BLOCKING_NS = 1000000 };

bool tg__slice_classes_open(struct tg__slice_classes *l, const struct tg__columns *t) {
  const size_t count = tg__strings_count(t->strings);
  *l = (struct tg__slice_classes){.shades = tg__alloc(count ? count : 1), .flags = tg__alloc(count ? count : 1)};
  if (tg__names_open(&l->names, t) && l->shades && l->flags) return true;
  tg__slice_classes_close(l);
  return false;
}

void tg__slice_classes_close(struct tg__slice_classes *l) {
  tg__names_close(&l->names);
  tg__free(l->shades);
  tg__free(l->flags);
  *l = (struct tg__slice_classes){0};
}

uint8_t tg__shade_of(struct tg__slice_classes *l, uint32_t name) {
  if (l->shades[name]) return l->shades[name];
  const struct tg__str s = tg__name(l->names.trace, name);
  uint32_t hash = 2166136261u; /* FNV-1a: a page without a server makes the same */
  for (uint32_t i = 0; i < s.len && i < NAME_HASHED && s.ptr[i] != '<' && s.ptr[i] != '('; i++)
    hash = (hash ^ (uint8_t)s.ptr[i]) * 16777619u;
  return l->shades[name] = (uint8_t)(1 + hash % 255);
}

static uint8_t flags_of(struct tg__str name) {
  if (tg__str_contains(name, "Synchronize")) return IS_KNOWN | IS_WAIT;
  if (!tg__str_contains(name, "Memcpy") && !tg__str_contains(name, "memcpy")) return IS_KNOWN;
  return tg__str_contains(name, "Async") ? IS_KNOWN | IS_COPY : IS_KNOWN | IS_WAIT;
}

/* A host call that waits for the device: one that says so, a copy that is not asynchronous, and one that is by name and
 * yet took a millisecond, as with memory that is not pinned. */
static bool is_wait(struct tg__slice_classes *l, uint32_t name, int64_t dur_ns) {
  if (!l->flags[name]) l->flags[name] = flags_of(tg__name(l->names.trace, name));
  return l->flags[name] & IS_WAIT || (l->flags[name] & IS_COPY && dur_ns >= BLOCKING_NS);
}

static enum tg__slice_class by_name(struct tg__slice_classes *l, uint32_t name, enum tg__slice_class otherwise) {
  const unsigned what = tg__names_of(&l->names, name);
  if (what & TG__NAME_COLLECTIVE_CALL) return TG__SLICE_CLASS_COMMUNICATION;
  if (what & TG__NAME_DATALOADER) return TG__SLICE_CLASS_DATA;
  if (what & TG__NAME_OPTIMIZER_STEP) return TG__SLICE_CLASS_OPTIMIZER;
  return otherwise;
}

enum tg__slice_class tg__slice_class_of(struct tg__slice_classes *l, uint32_t slice) {
  const struct tg__columns *const t = l->names.trace;
  const uint32_t name = t->slices.name[slice];
  switch (tg__slice_class(t, slice)) {
  case TG__CLASS_KERNEL:
  case TG__CLASS_DEVICE_OTHER:
    return tg__names_of(&l->names, name) & TG__NAME_COLLECTIVE_KERNEL ? TG__SLICE_CLASS_COMMUNICATION
                                                                      : TG__SLICE_CLASS_COMPUTE;
  case TG__CLASS_MEMCPY:
    return TG__SLICE_CLASS_COPY;
  case TG__CLASS_MEMSET:
    return TG__SLICE_CLASS_MEMSET;
  case TG__CLASS_RUNTIME:
    return is_wait(l, name, t->slices.dur_ns[slice]) ? TG__SLICE_CLASS_WAIT : TG__SLICE_CLASS_LAUNCH;
  case TG__CLASS_SYNC:
  case TG__CLASS_DEVICE_MARK:
    return TG__SLICE_CLASS_WAIT;
  case TG__CLASS_OP:
    return by_name(l, name, TG__SLICE_CLASS_OPERATOR);
  case TG__CLASS_PYTHON:
  case TG__CLASS_PYTHON_OP:
    return TG__SLICE_CLASS_PYTHON;
  case TG__CLASS_ANNOTATION:
  case TG__CLASS_GPU_ANNOTATION:
    return by_name(l, name, TG__SLICE_CLASS_ANNOTATION);
  case TG__CLASS_SPAN:
    return TG__SLICE_CLASS_ANNOTATION;
  default:
    return TG__SLICE_CLASS_OTHER;
  }
}
