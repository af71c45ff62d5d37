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

unsigned tg__crit_name_exact(struct tg__str name) {
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
  unsigned flags = TG__CRIT_NAME_KNOWN | c->rules->name(name);
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
