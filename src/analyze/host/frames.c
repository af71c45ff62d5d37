/* Python frames and modules around a slice, and paths of names as small integers. */
#include "analyze/host/frames.h"

enum { WRITE_MOST = 256 }; /* labels of one path in a text: keeps the output of deep stacks linear in the input */

/* ---- which events have an argument ---------------------------------------------------------- */

bool tg__schema_mask_make(const struct tg__columns *t, uint32_t key, struct tg__schema_mask *out) {
  *out = (struct tg__schema_mask){.key = key};
  out->has = tg__alloc((size_t)t->schema_count + 1);
  if (!out->has) return false;
  for (uint32_t i = 0; i < t->schema_count; i++)
    for (uint16_t k = 0; k < t->schemas[i].count; k++)
      if (t->schemas[i].fields[k].key == key && !t->schemas[i].fields[k].top) out->has[i] = out->any = true;
  return true;
}

void tg__schema_mask_free(struct tg__schema_mask *m) {
  tg__free(m->has);
  *m = (struct tg__schema_mask){0};
}

bool tg__schema_mask_has(const struct tg__columns *t, const struct tg__schema_mask *m, uint32_t slice) {
  if (!m->any) return false;
  struct tg__args_iter it;
  tg__args_begin(t, t->slices.args[slice], &it);
  if (!it.schema || !m->has[it.schema - t->schemas]) return false;
  struct tg__val v;
  return tg__arg(t, t->slices.args[slice], m->key, false, &v) && v.kind != TG__KIND_NULL;
}

/* ---- Python frames --------------------------------------------------------------------------- */

/* Frames nest among themselves whatever else overlaps them: a range that a function begins and leaves on (the
 * profiler's own do, in __enter__) takes nothing out of that function. So each frame of `open` ends no later than
 * the one before it. */
struct open_frames {
  uint32_t *slices;
  size_t count, cap;
};

/* The innermost open frame that holds the slice. */
static uint32_t frame_holding(const struct tg__columns *t, const struct open_frames *open, uint32_t slice) {
  const int64_t end = tg__slice_end(t, slice);
  size_t low = 0;
  TG__PARTITION(low, open->count, i, tg__slice_end(t, open->slices[i]) >= end);
  return low ? open->slices[low - 1] : TG_NONE;
}

static bool frames_of_track(const struct tg__columns *t, const struct tg__track *track, struct open_frames *open,
                            uint32_t *around) {
  open->count = 0;
  TG__EACH (i, tg__slices_of(track)) {
    const int64_t start = t->slices.start_ns[i], end = tg__slice_end(t, i);
    while (open->count && start >= tg__slice_end(t, open->slices[open->count - 1]) &&
           !(end == start && start == t->slices.start_ns[open->slices[open->count - 1]]))
      open->count--;
    around[i] = frame_holding(t, open, i);
    if (tg__slice_class(t, i) != TG__CLASS_PYTHON) continue;
    while (open->count && end > tg__slice_end(t, open->slices[open->count - 1])) open->count--;
    if (!tg__grow((void **)&open->slices, &open->cap, open->count + 1, sizeof *open->slices)) return false;
    open->slices[open->count++] = i;
  }
  return true;
}

uint32_t *tg__frames_around(const struct tg__columns *t, struct tg__rank_range range) {
  uint32_t *around = tg__alloc(((size_t)t->slices.count + 1) * sizeof *around);
  struct open_frames open = {0};
  bool ok = around != NULL;
  for (uint32_t k = range.first_track; ok && k < range.end_track; k++)
    ok = frames_of_track(t, &t->tracks[k], &open, around);
  tg__free(open.slices);
  if (ok) return around;
  tg__free(around);
  return NULL;
}

/* ---- paths ----------------------------------------------------------------------------------- */

bool tg__paths_open(struct tg__paths *p, const struct tg__columns *t) {
  *p = (struct tg__paths){.t = t, .count = 1};
  p->extra = tg__strings_new();
  return p->extra && tg__grow((void **)&p->up, &p->up_cap, 1, sizeof *p->up) &&
         tg__grow((void **)&p->label, &p->label_cap, 1, sizeof *p->label);
}

void tg__paths_close(struct tg__paths *p) {
  tg__map_free(&p->next);
  tg__map_free(&p->by_text);
  tg__map_free(&p->by_frame);
  tg__free(p->up);
  tg__free(p->label);
  if (p->extra) tg__strings_free(p->extra);
  *p = (struct tg__paths){0};
}

uint32_t tg__paths_step(struct tg__paths *p, uint32_t from, uint32_t label) {
  uint32_t *slot = tg__map_slot(&p->next, (uint64_t)from << 32 | label, TG_NONE);
  if (slot && *slot != TG_NONE) return *slot;
  if (!slot || !tg__grow((void **)&p->up, &p->up_cap, p->count + 1, sizeof *p->up) ||
      !tg__grow((void **)&p->label, &p->label_cap, p->count + 1, sizeof *p->label)) {
    p->failed = true;
    return 0;
  }
  p->up[p->count] = from;
  p->label[p->count] = label;
  return *slot = (uint32_t)p->count++;
}

uint32_t tg__paths_label(struct tg__paths *p, struct tg__str text) {
  const uint32_t known = tg__strings_find(p->t->strings, text.ptr, text.len);
  if (known != TG_NONE) return known;
  const uint32_t id = tg__strings_add(p->extra, text.ptr, text.len);
  if (id == TG_NONE) p->failed = true;
  return id == TG_NONE ? TG__K_EMPTY : tg__strings_count(p->t->strings) + id;
}

/* Length of " at 0x7f00" in front of s[at], 0 when something else stands there. */
static uint32_t address_length(struct tg__str s, uint32_t at) {
  static const char lead[] = " at 0x";
  const uint32_t n = sizeof lead - 1;
  if (s.len - at <= n || memcmp(s.ptr + at, lead, n) != 0) return 0;
  uint32_t end = at + n;
  while (end < s.len && ((s.ptr[end] >= '0' && s.ptr[end] <= '9') || (s.ptr[end] >= 'a' && s.ptr[end] <= 'f'))) end++;
  return end - at;
}

/* The label of a frame's text without addresses. */
static uint32_t plain_label(struct tg__paths *p, struct tg__str s) {
  if (!tg__str_contains(s, " at 0x")) return tg__paths_label(p, s);
  struct tg__out plain = {0};
  for (uint32_t i = 0, from = 0; i <= s.len; i++) {
    const uint32_t skip = i < s.len ? address_length(s, i) : 0;
    if (!skip && i < s.len) continue;
    tg__out_bytes(&plain, s.ptr + from, i - from);
    i += skip;
    from = i;
  }
  const uint32_t label = tg__paths_label(p, plain.err ? s : (struct tg__str){plain.buf, (uint32_t)plain.len});
  if (plain.err) p->failed = true;
  tg__out_free(&plain);
  return label;
}

uint32_t tg__paths_frame(struct tg__paths *p, uint32_t string_id) {
  uint32_t *slot = tg__map_slot(&p->by_frame, string_id, TG_NONE);
  if (!slot) {
    p->failed = true;
    return string_id;
  }
  return *slot != TG_NONE ? *slot : (*slot = plain_label(p, tg__strings_get(p->t->strings, string_id)));
}

struct tg__str tg__paths_text(const struct tg__paths *p, uint32_t label) {
  const uint32_t own = tg__strings_count(p->t->strings);
  return label < own ? tg__strings_get(p->t->strings, label) : tg__strings_get(p->extra, label - own);
}

void tg__paths_write(const struct tg__paths *p, uint32_t path, const char *separator, struct tg__out *out) {
  uint32_t labels[WRITE_MOST];
  size_t n = 0;
  for (; path && n < WRITE_MOST; path = p->up[path]) labels[n++] = p->label[path];
  if (path) {
    tg__out_text(out, "…");
    tg__out_text(out, separator);
  }
  while (n-- > 0) {
    const struct tg__str s = tg__paths_text(p, labels[n]);
    tg__out_bytes(out, s.ptr, s.len);
    if (n) tg__out_text(out, separator);
  }
}

uint32_t tg__paths_split(struct tg__paths *p, uint32_t string_id, uint32_t limit) {
  const uint32_t known = tg__map_get(&p->by_text, string_id);
  if (known != TG_NONE) return known;
  const struct tg__str s = tg__strings_get(p->t->strings, string_id);
  uint32_t path = 0;
  for (uint32_t at = 0, n = 0; at < s.len && n < limit; n++) {
    const char *stop = memchr(s.ptr + at, ';', s.len - at);
    const uint32_t end = stop ? (uint32_t)(stop - s.ptr) : s.len;
    if (end > at) path = tg__paths_step(p, path, plain_label(p, (struct tg__str){s.ptr + at, end - at}));
    at = end + 1;
  }
  if (!tg__map_put(&p->by_text, string_id, path)) p->failed = true;
  return path;
}

void tg__write_list(struct tg__out *out, struct tg__str json) {
  bool quoted = false;
  for (uint32_t i = 0; i < json.len; i++) {
    const char c = json.ptr[i];
    if (quoted && c == '\\' && i + 1 < json.len) {
      tg__out_char(out, c);
      tg__out_char(out, json.ptr[++i]);
      continue;
    }
    if (c == '"') quoted = !quoted;
    if (!quoted && (c == ' ' || c == '\n' || c == '\t' || c == '\r')) continue;
    tg__out_char(out, c);
    if (!quoted && c == ',') tg__out_char(out, ' ');
  }
}

struct tg__str tg__module_name(struct tg__str frame) {
  static const char prefix[] = "nn.Module: ";
  const uint32_t n = sizeof prefix - 1;
  return tg__str_has_prefix(frame, prefix) ? (struct tg__str){frame.ptr + n, frame.len - n} : frame;
}
