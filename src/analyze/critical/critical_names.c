/* critical_names: what a name means to the critical path, looked at once per string. */
#include "analyze/critical/critical.h"

bool tg__crit_names_open(struct tg__crit_names *n, struct tg__crit *c, const char *annotation) {
  *n = (struct tg__crit_names){
      .c = c, .annotation = annotation, .flags = tg__alloc((size_t)tg__strings_count(c->t->strings) + 1)};
  return n->flags != NULL;
}

void tg__crit_names_close(struct tg__crit_names *n) { tg__free(n->flags); }

static bool is_one_of(struct tg__str name, const char *const *list, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (name.len == strlen(list[i]) && memcmp(name.ptr, list[i], name.len) == 0) return true;
  return false;
}
#define IS_ONE_OF(name, list) is_one_of(name, list, sizeof(list) / sizeof *(list))

static bool contains(struct tg__str text, const char *part, size_t len) {
  for (size_t i = 0; i + len <= text.len; i++)
    if (memcmp(text.ptr + i, part, len) == 0) return true;
  return false;
}

static bool contains_any(struct tg__str text, const char *words) {
  while (*words) {
    const size_t len = strcspn(words, ",");
    if (len && contains(text, words, len)) return true;
    words += len + (words[len] == ',');
  }
  return false;
}

/* What HTA counts as waiting and as launching, and no other. */
static unsigned hta_name(struct tg__str name) {
  static const char *const blocking[] = {
      "cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventQuery", "cudaEventSynchronize", "cudaMemcpy",
      "cudaMemcpyAsync"};
  static const char *const launches[] = {
      "cudaLaunchKernel", "cudaLaunchKernelExC",      "cuLaunchKernel",
      "cuLaunchKernelEx", "cudaMemcpyAsync",          "cudaMemsetAsync",
      "hipLaunchKernel",  "hipExtModuleLaunchKernel", "hipMemcpyAsync",
      "hipMemsetAsync",   "hipMemcpyWithStream",      "runFunction - job_prep_and_submit_for_execution"};
  unsigned flags = 0;
  if (IS_ONE_OF(name, blocking)) flags |= TG__CRIT_NAME_BLOCKING;
  if (IS_ONE_OF(name, launches)) flags |= TG__CRIT_NAME_LAUNCH;
  return flags;
}

static unsigned exact_name(struct tg__str name) {
  unsigned flags = 0;
  if (tg__str_contains(name, "ynchronize")) flags |= TG__CRIT_NAME_BLOCKING;
  if (tg__str_contains(name, "Memcpy")) flags |= TG__CRIT_NAME_BLOCKING | TG__CRIT_NAME_COPY;
  if (tg__name_is_profiler_step(name, NULL)) flags |= TG__CRIT_NAME_STEP;
  return flags;
}

unsigned tg__crit_name(struct tg__crit_names *n, uint32_t string_id) {
  static const char *const locks[] = {"cudaHostAlloc", "cudaLaunchKernel", "cudaMemcpyAsync"};
  if (TG_LIKELY(n->flags[string_id] != 0)) return n->flags[string_id];
  const struct tg__crit *c = n->c;
  const struct tg__str name = tg__name(c->t, string_id);
  unsigned flags = TG__CRIT_NAME_KNOWN | (c->hta ? hta_name(name) : exact_name(name));
  if (IS_ONE_OF(name, locks)) flags |= TG__CRIT_NAME_LOCK;
  if (c->loading ? contains_any(name, c->loading) : tg__name_is_dataloader(name)) flags |= TG__CRIT_NAME_LOADING;
  if (*n->annotation && tg__str_contains(name, n->annotation)) flags |= TG__CRIT_NAME_WANTED;
  n->flags[string_id] = (uint8_t)flags;
  return flags;
}

enum tg__crit_wait_kind tg__crit_wait_kind(const struct tg__columns *t, uint32_t slice) {
  static const char *const names[] = {[TG__CRIT_NO_WAIT] = "",
                                      [TG__CRIT_STREAM_SYNC] = "Stream Sync",
                                      [TG__CRIT_CONTEXT_SYNC] = "Context Sync",
                                      [TG__CRIT_EVENT_SYNC] = "Event Sync",
                                      [TG__CRIT_STREAM_WAIT] = "Stream Wait Event"};
  const struct tg__str name = tg__name(t, t->slices.name[slice]);
  for (unsigned k = TG__CRIT_STREAM_SYNC; k <= TG__CRIT_STREAM_WAIT; k++)
    if (name.len == strlen(names[k]) && memcmp(name.ptr, names[k], name.len) == 0) return (enum tg__crit_wait_kind)k;
  return TG__CRIT_NO_WAIT;
}

/* HTA looks at what is left of a name without its <…> and (…), behind the last space. 256 bytes of that tell. */
bool tg__crit_is_collective_in_hta(struct tg__str kernel) {
  static const char *const prefixes[] = {"nccl", "hip", "hccl"};
  char word[256];
  uint32_t len = 0, depth = 0;
  const bool is_short = !contains(kernel, "<", 1) && !contains(kernel, "(", 1);
  for (uint32_t i = 0; i < kernel.len; i++) {
    const char ch = kernel.ptr[i];
    const bool arrow = !is_short && ch == '-' && i + 1 < kernel.len && kernel.ptr[i + 1] == '>';
    if (arrow) {
      i++;
    } else if (!is_short && (ch == '<' || ch == '(')) {
      depth++;
    } else if (!is_short && (ch == '>' || ch == ')')) {
      depth -= depth > 0;
    } else if (!is_short && depth == 0 && ch == ' ') {
      len = 0;
    } else if (depth == 0 && len < sizeof word) {
      word[len++] = ch;
    }
  }
  const struct tg__str name = {word, len};
  for (size_t k = 0; k < sizeof prefixes / sizeof *prefixes; k++)
    if (tg__str_has_prefix(name, prefixes[k])) return true;
  return tg__str_contains(name, "ncclKernel");
}
