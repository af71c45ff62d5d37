/* sync_kind: by what the program makes the host wait for a device, from the call that waits, the operators and Python
 * frames around it, and the stack recorded with them. */
#include "analyze/device/gaps.h"

const char *const tg__sync_kind_names[TG__SYNC_KIND_COUNT] = {
    [TG__SYNC_NONE] = "",
    [TG__SYNC_ITEM] = ".item()",
    [TG__SYNC_CPU] = ".cpu()",
    [TG__SYNC_NUMPY] = ".numpy()",
    [TG__SYNC_TOLIST] = ".tolist()",
    [TG__SYNC_PRINT] = "print of a tensor",
    [TG__SYNC_TRUTH] = "if tensor",
    [TG__SYNC_METRIC] = "metric",
    [TG__SYNC_SIZE] = "size that depends on data",
    [TG__SYNC_DEVICE] = "torch.cuda.synchronize",
    [TG__SYNC_STREAM] = "stream.synchronize",
    [TG__SYNC_EVENT] = "event.synchronize",
    [TG__SYNC_COPY] = "copy that waits",
    [TG__SYNC_FREE] = "memory released",
    [TG__SYNC_VALUES] = ".tolist() or .numpy()",
    [TG__SYNC_OTHER] = "other",
};

static bool is_any(struct tg__str name, const char *const *names, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (tg__str_eq(name, (struct tg__str){names[i], (uint32_t)strlen(names[i])})) return true;
  return false;
}

/* cudaFree and hipFree, which wait for the device; those of a stream, of pinned memory and of arrays are other
 * calls. */
bool tg__call_frees(struct tg__str name) {
  return tg__str_eq(name, TG_STR("cudaFree")) || tg__str_eq(name, TG_STR("hipFree"));
}

bool tg__call_waits(struct tg__str name) {
  return tg__str_contains(name, "Synchronize") || tg__call_frees(name) ||
         (tg__str_contains(name, "Memcpy") && !tg__str_contains(name, "Async") && !tg__str_contains(name, "Peer"));
}

static enum tg__sync_kind kind_of_call(struct tg__str name) {
  return tg__str_contains(name, "StreamSynchronize")  ? TG__SYNC_STREAM
         : tg__str_contains(name, "EventSynchronize") ? TG__SYNC_EVENT
         : tg__str_contains(name, "Synchronize")      ? TG__SYNC_DEVICE
         : tg__str_contains(name, "Memcpy")           ? TG__SYNC_COPY
         : tg__call_frees(name)                       ? TG__SYNC_FREE
                                                      : TG__SYNC_NONE;
}

static enum tg__sync_kind kind_of_op(struct tg__str name) {
  static const char *const truths[] = {"aten::is_nonzero"},
                           *const items[] = {"aten::item", "aten::_local_scalar_dense"},
                           *const sizes[] = {"aten::nonzero",           "aten::masked_select",      "aten::unique",
                                             "aten::_unique2",          "aten::unique_consecutive", "aten::unique_dim",
                                             "aten::repeat_interleave", "aten::bincount",           "aten::argwhere"},
                           *const copies[] = {"aten::to", "aten::_to_copy", "aten::copy_", "aten::cpu"};
  if (is_any(name, truths, 1)) return TG__SYNC_TRUTH;
  if (is_any(name, items, 2)) return TG__SYNC_ITEM;
  if (is_any(name, sizes, sizeof sizes / sizeof *sizes)) return TG__SYNC_SIZE;
  return is_any(name, copies, 4) ? TG__SYNC_CPU : TG__SYNC_NONE;
}

/* A call of C from Python or a frame of torch's own, as a profiler names it. */
static enum tg__sync_kind kind_of_frame(struct tg__str name) {
  static const struct {
    const char *text;
    enum tg__sync_kind kind;
  } known[] = {
      {"method tolist", TG__SYNC_TOLIST},
      {"method 'tolist'", TG__SYNC_TOLIST},
      {"method numpy", TG__SYNC_NUMPY},
      {"method 'numpy'", TG__SYNC_NUMPY},
      {"method item of", TG__SYNC_ITEM},
      {"method cpu of", TG__SYNC_CPU},
      {"method 'cpu'", TG__SYNC_CPU},
      {"method __bool__", TG__SYNC_TRUTH},
      {"torch/_tensor_str.py(", TG__SYNC_PRINT},
      {"torchmetrics/", TG__SYNC_METRIC},
      {"torcheval/", TG__SYNC_METRIC},
      {"sklearn/metrics/", TG__SYNC_METRIC},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (tg__str_contains(name, known[i].text)) return known[i].kind;
  return TG__SYNC_NONE;
}

/* print and metrics read values one by one, and `if` reads one: the more special name is the better one. */
static enum tg__sync_kind more_special(enum tg__sync_kind a, enum tg__sync_kind b) {
  static const uint8_t order[TG__SYNC_KIND_COUNT] = {
      [TG__SYNC_OTHER] = 1,  [TG__SYNC_FREE] = 2,  [TG__SYNC_COPY] = 2,    [TG__SYNC_STREAM] = 3, [TG__SYNC_DEVICE] = 4,
      [TG__SYNC_EVENT] = 4,  [TG__SYNC_CPU] = 5,   [TG__SYNC_ITEM] = 6,    [TG__SYNC_NUMPY] = 7,  [TG__SYNC_SIZE] = 8,
      [TG__SYNC_TOLIST] = 8, [TG__SYNC_TRUTH] = 9, [TG__SYNC_METRIC] = 10, [TG__SYNC_PRINT] = 11};
  return order[b] > order[a] ? b : a;
}

/* Early traces have the step among the operators. */
uint32_t tg__sync_unit(const struct tg__columns *t, uint32_t call) {
  uint32_t unit = call;
  for (uint32_t s = call; s != TG_NONE; s = t->slices.parent[s])
    if (tg__slice_class(t, s) == TG__CLASS_OP && !tg__str_has_prefix(tg__name(t, t->slices.name[s]), "ProfilerStep"))
      unit = s;
  return unit;
}

static enum tg__sync_kind kind_of(const struct tg__columns *t, uint32_t slice) {
  enum tg__sync_kind kind = TG__SYNC_NONE;
  uint32_t stack = TG_NONE;
  for (uint32_t s = slice; s != TG_NONE; s = t->slices.parent[s]) {
    const struct tg__str name = tg__name(t, t->slices.name[s]);
    const enum tg__class cls = tg__slice_class(t, s);
    const bool is_user = cls == TG__CLASS_PYTHON && tg__is_user_frame(name);
    if (is_user) break; /* what called it is no part of it */
    kind = more_special(kind, cls == TG__CLASS_RUNTIME  ? kind_of_call(name)
                              : cls == TG__CLASS_OP     ? kind_of_op(name)
                              : cls == TG__CLASS_PYTHON ? kind_of_frame(name)
                                                        : TG__SYNC_NONE);
    if (stack == TG_NONE) stack = tg__arg_str(t, t->slices.args[s], TG__K_CALL_STACK);
  }
  struct tg__str frames = stack == TG_NONE ? TG_STR("") : tg__name(t, stack);
  const struct tg__str user = tg__user_frame_of_stack(frames);
  if (user.len) frames.len = (uint32_t)(user.ptr - frames.ptr);
  kind = more_special(kind, kind_of_frame(frames));
  const bool is_of_op = kind == TG__SYNC_STREAM && tg__sync_unit(t, slice) != slice;
  return is_of_op ? TG__SYNC_OTHER : kind; /* of an operator that is not known to wait */
}

enum tg__sync_kind tg__sync_kind_behind(const struct tg__columns *t, uint32_t slice, uint32_t work) {
  const enum tg__sync_kind kind = slice == TG_NONE ? TG__SYNC_NONE : kind_of(t, slice);
  const bool brings_input = kind == TG__SYNC_CPU && work != TG_NONE && tg__slice_class(t, work) == TG__CLASS_MEMCPY &&
                            tg__str_contains(tg__name(t, t->slices.name[work]), "HtoD");
  return brings_input ? TG__SYNC_COPY : kind == TG__SYNC_NONE ? TG__SYNC_OTHER : kind;
}
