/* members: JSON text of the document, looked into where it is needed: the facts of a trace about its program and its
 * machine. The text comes from a file, so any bytes may stand in it. */
#include "trace/trace.h"

/* ---- one after the other --------------------------------------------------------------------- */

static const char *behind_blanks(const char *p, const char *end) {
  while (p < end && (unsigned char)*p <= ' ') p++;
  return p;
}

/* Behind the string that begins at p; NULL when it does not end. */
static const char *behind_string(const char *p, const char *end) {
  for (p++; p < end && *p != '"'; p++)
    if (*p == '\\' && p + 1 < end) p++;
  return p < end ? p + 1 : NULL;
}

/* Where a value ends: at the comma or bracket behind it. Text in strings and brackets is passed over. */
static const char *value_end(const char *p, const char *end) {
  for (size_t depth = 0; p < end; p++) {
    if (*p == '"') {
      const char *const behind = behind_string(p, end);
      if (!behind) return end;
      p = behind - 1;
    } else if (*p == '[' || *p == '{') {
      depth++;
    } else if (*p == ']' || *p == '}') {
      if (depth-- == 0) return p;
    } else if (*p == ',' && depth == 0) {
      return p;
    }
  }
  return end;
}

struct tg__members tg__members_of(struct tg__str text) {
  const char *const end = text.ptr + text.len, *const p = behind_blanks(text.ptr, end);
  const bool has_keys = p < end && *p == '{';
  if (p == end || (!has_keys && *p != '[')) return (struct tg__members){.p = end, .end = end};
  return (struct tg__members){.p = p + 1, .end = end, .has_keys = has_keys};
}

/* *p: where a key may begin; afterwards behind its colon. */
static bool read_key(const char **p, const char *end, struct tg__str *key) {
  const char *const from = *p, *const behind = from < end && *from == '"' ? behind_string(from, end) : NULL;
  const char *const colon = behind ? behind_blanks(behind, end) : end;
  if (colon == end || *colon != ':') return false;
  *key = (struct tg__str){from + 1, (uint32_t)(behind - from - 2)};
  *p = colon + 1;
  return true;
}

bool tg__members_next(struct tg__members *m) {
  const char *p = m->p, *const end = m->end;
  while (p < end && ((unsigned char)*p <= ' ' || *p == ',')) p++;
  m->p = end;
  m->key = TG_STR("");
  if (p == end || *p == ']' || *p == '}' || (m->has_keys && !read_key(&p, end, &m->key))) return false;
  const char *const from = behind_blanks(p, end), *const stop = value_end(from, end);
  const char *last = stop;
  while (last > from && (unsigned char)last[-1] <= ' ') last--;
  m->value = (struct tg__str){from, (uint32_t)(last - from)};
  m->p = stop;
  return last > from;
}

/* ---- one by its name ------------------------------------------------------------------------- */

static bool is_key(struct tg__str s, const char *key) { return strlen(key) == s.len && memcmp(key, s.ptr, s.len) == 0; }

struct tg__str tg__json_member(struct tg__str object, const char *key) {
  struct tg__str value = TG_STR("");
  for (struct tg__members m = tg__members_of(object); tg__members_next(&m);)
    if (is_key(m.key, key)) value = m.value;
  return tg__str_eq(value, TG_STR("null")) ? TG_STR("") : value;
}

struct tg__str tg__document_member(const struct tg__columns *t, uint32_t rank, const char *key) {
  const struct tg__rank *const r = &t->ranks[rank];
  struct tg__str value = TG_STR("");
  for (size_t i = 0; i < r->meta_count; i++)
    if (is_key(tg__name(t, r->meta[i].key), key)) value = tg__name(t, r->meta[i].raw);
  return tg__str_eq(value, TG_STR("null")) ? TG_STR("") : value;
}

bool tg__document_condition(const struct tg__columns *t, uint32_t rank, const char *of, const char *name,
                            int64_t *out) {
  const struct tg__str all = tg__document_member(t, rank, "conditions");
  return tg__str_to_int(tg__json_member(of ? tg__json_member(all, of) : all, name), out);
}

struct tg__str tg__json_unquoted(struct tg__str value) {
  const bool is_string = value.len > 1 && value.ptr[0] == '"' && value.ptr[value.len - 1] == '"';
  return is_string ? (struct tg__str){value.ptr + 1, value.len - 2} : (struct tg__str){0};
}

struct tg__str tg__json_plain(struct tg__str value) {
  const struct tg__str text = tg__json_unquoted(value);
  return text.ptr ? text : value;
}

bool tg__is_member_of(const struct tg__rank *r, struct tg__str key, const char *prefix) {
  const uint32_t skip = (uint32_t)strlen(prefix);
  int64_t number;
  uint32_t end = skip;
  if (!tg__str_has_prefix(key, prefix)) return false;
  while (end < key.len && key.ptr[end] != '.') end++;
  if (!r->process_count || !tg__str_to_int((struct tg__str){key.ptr + skip, end - skip}, &number)) return true;
  for (uint32_t i = 0; i < r->process_count; i++)
    if (r->processes[i].pid == number) return true;
  return false;
}
