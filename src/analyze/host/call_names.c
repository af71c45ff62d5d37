/* What torch's own tables call the events of a trace. */
#include "analyze/host/call_names.h"

bool tg__call_names_open(struct tg__call_names *n, const struct tg__columns *t) {
  static const char *const hidden[TG__HIDDEN_NAMES] = {"profiler::_record_function_enter",
                                                       "profiler::_record_function_enter_new",
                                                       "profiler::_record_function_exit",
                                                       "aten::is_leaf",
                                                       "aten::output_nr",
                                                       "aten::_version"};
  const size_t bytes = ((size_t)tg__strings_count(t->strings) + 1) * sizeof *n->base;
  *n = (struct tg__call_names){0};
  if (!tg__paths_open(&n->texts, t) || !(n->base = tg__alloc(bytes)) || !(n->overload = tg__alloc(bytes)) ||
      !tg__schema_mask_make(t, TG__K_OVERLOAD_NAME, &n->given) || !tg__schema_mask_make(t, TG__K_ASYNC, &n->async))
    return false;
  for (size_t i = 0; i < TG__HIDDEN_NAMES; i++)
    n->hidden[i] = tg__paths_label(&n->texts, (struct tg__str){hidden[i], (uint32_t)strlen(hidden[i])});
  n->step = tg__paths_label(&n->texts, TG_STR("ProfilerStep*"));
  return !n->texts.failed;
}

void tg__call_names_close(struct tg__call_names *n) {
  tg__paths_close(&n->texts);
  tg__schema_mask_free(&n->given);
  tg__schema_mask_free(&n->async);
  tg__free(n->base);
  tg__free(n->overload);
  *n = (struct tg__call_names){0};
}

static bool is_call_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Where the dot of namespace::operator.overload stands; s.len when the name is not of that form. */
static uint32_t overload_dot(struct tg__str s) {
  uint32_t dot = s.len;
  bool colons = false;
  for (uint32_t i = 0; i < s.len; i++) {
    const char c = s.ptr[i];
    if (c == '.' && dot == s.len && colons && i + 1 < s.len)
      dot = i;
    else if (c == ':' && dot == s.len && i + 1 < s.len && s.ptr[i + 1] == ':')
      colons = true, i++;
    else if (!is_call_word(c))
      return s.len;
  }
  return dot;
}

static void split(struct tg__call_names *n, uint32_t id) {
  const struct tg__str s = tg__strings_get(n->texts.t->strings, id);
  const uint32_t dot = overload_dot(s);
  n->base[id] = dot == s.len ? id + 1 : tg__paths_label(&n->texts, (struct tg__str){s.ptr, dot}) + 1;
  n->overload[id] =
      dot == s.len ? TG_NONE : tg__paths_label(&n->texts, (struct tg__str){s.ptr + dot + 1, s.len - dot - 1}) + 1;
}

uint32_t tg__call_name(struct tg__call_names *n, uint32_t slice) {
  const struct tg__columns *t = n->texts.t;
  const uint32_t id = t->slices.name[slice];
  switch (tg__slice_class(t, slice)) {
  case TG__CLASS_OP:
    if (!n->base[id]) split(n, id);
    return n->base[id] - 1;
  case TG__CLASS_ANNOTATION:
  case TG__CLASS_GPU_ANNOTATION:
    return tg__str_has_prefix(tg__name(t, id), "ProfilerStep#") ? n->step : id;
  default:
    return id;
  }
}

uint32_t tg__call_overload(struct tg__call_names *n, uint32_t slice) {
  const struct tg__columns *t = n->texts.t;
  const uint32_t id = t->slices.name[slice];
  if (tg__slice_class(t, slice) != TG__CLASS_OP) return TG_NONE;
  if (tg__schema_mask_has(t, &n->given, slice)) {
    const uint32_t said = tg__arg_str(t, t->slices.args[slice], TG__K_OVERLOAD_NAME);
    if (said != TG_NONE && said != TG__K_EMPTY) return said;
  }
  if (!n->base[id]) split(n, id);
  return n->overload[id] == TG_NONE ? TG_NONE : n->overload[id] - 1;
}

bool tg__call_is_async(const struct tg__call_names *n, uint32_t slice) {
  return n->texts.t->slices.flags[slice] & TG__F_ASYNC || tg__schema_mask_has(n->texts.t, &n->async, slice);
}

bool tg__call_is_hidden(const struct tg__call_names *n, uint32_t name) {
  for (size_t i = 0; i < TG__HIDDEN_NAMES; i++)
    if (n->hidden[i] == name) return true;
  return false;
}
