/* meta: what the document says beside its events: the rank, the devices; and what its metadata events say of tracks. */
#include "trace/import.h"

#include <stdlib.h>

/* ---- small JSON values ------------------------------------------------------------------------------------------------------------- */

/* A copy of a value's text with the padding the scanner wants; freed by the caller. NULL on no memory. */
static char *padded(struct tg__str s) {
  char *text = tg__alloc((size_t)s.len + TG__TEXT_PAD);
  if (!text) return NULL;
  memcpy(text, s.ptr, s.len);
  memset(text + s.len, TG__TEXT_STOP, 8);
  return text;
}

struct member {
  struct tg__str key, value;
};

static const char *blanks(const char *p, const char *end) {
  while (p < end && ((unsigned char)*p <= ' ' || *p == ',')) p++;
  return p;
}

/* The next member of an object, or element of an array (key empty). *p: behind the bracket, or behind the last one. */
static bool next_member(const char **p, const char *end, bool object, struct member *m) {
  const char *q = blanks(*p, end);
  if (q >= end || *q == '}' || *q == ']') return false;
  m->key = TG_STR("");
  if (object) {
    const char *key_end = *q == '"' ? tg__skip_value(q, end) : NULL;
    if (!key_end) return false;
    m->key = (struct tg__str){q + 1, (uint32_t)(key_end - q - 2)};
    q = blanks(key_end, end);
    if (q >= end || *q != ':') return false;
    q = blanks(q + 1, end);
  }
  const char *value_end = tg__skip_value(q, end + 1); /* the byte behind the end is readable and ends numbers */
  if (!value_end || value_end == q) return false;
  m->value = (struct tg__str){q, (uint32_t)(value_end - q)};
  *p = value_end;
  return true;
}

static int64_t to_int(struct tg__str s, int64_t fallback) {
  char text[24], *end;
  if (s.len == 0 || s.len >= sizeof text) return fallback;
  memcpy(text, s.ptr, s.len);
  text[s.len] = 0;
  const long long v = strtoll(text, &end, 10);
  return *end == 0 ? v : fallback;
}

static uint32_t to_string(struct tg_trace *t, struct tg__str s) { /* device names have no escapes worth decoding */
  return s.len >= 2 && s.ptr[0] == '"' ? tg__strings_add(t->strings, s.ptr + 1, s.len - 2) : TG_NONE;
}

/* ---- the document ---------------------------------------------------------------------------------------------------------------------- */

static void read_distributed_info(struct tg__rank *rank, struct tg__str raw, const char *text) {
  const char *p = text + 1, *end = text + raw.len;
  struct member m;
  while (*text == '{' && next_member(&p, end, true, &m)) {
    const int64_t v = to_int(m.value, -1);
    if (tg__str_eq(m.key, TG_STR("rank")) && v >= 0) rank->number = v, rank->number_is_given = true;
    if (tg__str_eq(m.key, TG_STR("world_size")) && v >= 0) rank->world_size = v;
  }
}

static struct tg__device read_device(struct tg_trace *t, struct tg__str raw, int64_t position) {
  struct tg__device d = {position, -1, -1, -1, -1, -1, -1, TG_NONE};
  const struct {
    const char *key;
    int64_t *into;
  } numbers[] = {{"id", &d.id}, {"totalGlobalMem", &d.total_memory_bytes}, {"numSms", &d.sm_count}, {"computeMajor", &d.compute_major},
                 {"computeMinor", &d.compute_minor}, {"maxThreadsPerMultiprocessor", &d.max_threads_per_sm}, {"warpSize", &d.warp_size}};
  const char *p = raw.ptr + 1, *end = raw.ptr + raw.len;
  struct member m;
  while (*raw.ptr == '{' && next_member(&p, end, true, &m)) {
    if (tg__str_eq(m.key, TG_STR("name"))) d.name = to_string(t, m.value);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
      if (strlen(numbers[i].key) == m.key.len && memcmp(numbers[i].key, m.key.ptr, m.key.len) == 0) *numbers[i].into = to_int(m.value, -1);
  }
  return d;
}

static enum tg_err read_devices(struct tg_trace *t, struct tg__rank *rank, struct tg__str raw, const char *text) {
  const char *p = text + 1, *end = text + raw.len;
  struct member m;
  size_t n = 0;
  while (*text == '[' && next_member(&p, end, false, &m)) n++;
  rank->devices = tg__arena_get(&t->arena, (n + 1) * sizeof *rank->devices);
  if (!rank->devices) return TG_MEMORY;
  p = text + 1;
  for (rank->device_count = 0; rank->device_count < n && next_member(&p, end, false, &m); rank->device_count++)
    rank->devices[rank->device_count] = read_device(t, m.value, (int64_t)rank->device_count);
  return TG_OK;
}

enum tg_err tg__read_meta(struct tg_trace *t, struct tg__rank *rank) {
  for (size_t i = 0; i < rank->meta_count; i++) {
    const uint32_t key = rank->meta[i].key;
    const struct tg__str raw = tg__name(t, rank->meta[i].raw);
    if (key == TG__K_BASE_TIME) {
      const int64_t base = to_int(raw, 0);
      if (base > 0) rank->base_ns = base;
    }
    if (key != TG__K_DISTRIBUTED_INFO && key != TG__K_DEVICE_PROPERTIES) continue;
    char *text = padded(raw);
    if (!text) return TG_MEMORY;
    enum tg_err err = TG_OK;
    if (key == TG__K_DISTRIBUTED_INFO) read_distributed_info(rank, raw, text);
    else err = read_devices(t, rank, raw, text);
    tg__free(text);
    if (err != TG_OK) return err;
  }
  return TG_OK;
}

/* ---- tracks -------------------------------------------------------------------------------------------------------------------------------- */

static bool same_process(const struct tg__track *a, const struct tg__track *b) { return a->pid == b->pid && a->pid_is_text == b->pid_is_text; }
static bool same_thread(const struct tg__track *a, const struct tg__track *b) {
  return same_process(a, b) && a->tid == b->tid && a->tid_is_text == b->tid_is_text;
}

static void take_name(struct tg_trace *t, const struct tg__rank *rank, uint32_t mark) {
  const uint32_t what = t->marks.name[mark], args = t->marks.args[mark];
  const struct tg__track *of = &t->tracks[t->marks.track[mark]];
  const bool process = what == TG__K_PROCESS_NAME || what == TG__K_PROCESS_LABELS;
  if (!process && what != TG__K_THREAD_NAME && what != TG__K_THREAD_SORT_INDEX) return;
  for (uint32_t k = rank->first_track; k < rank->first_track + rank->track_count; k++) {
    struct tg__track *track = &t->tracks[k];
    if (process ? !same_process(track, of) : !same_thread(track, of)) continue;
    if (what == TG__K_PROCESS_NAME) track->process_name = tg__arg_str(t, args, TG__K_NAME);
    else if (what == TG__K_PROCESS_LABELS) track->labels = tg__arg_str(t, args, TG__K_LABELS);
    else if (what == TG__K_THREAD_NAME) track->name = tg__arg_str(t, args, TG__K_NAME);
    else track->sort_index = tg__arg_int(t, args, TG__K_SORT_INDEX, TG_NULL_INT);
  }
}

/* A track is a device's when most of its slices are device work; device and stream are what its first such slice says. */
static void classify_track(struct tg_trace *t, struct tg__track *track) {
  uint32_t device = 0, host = 0, first = TG_NONE, synced = 0;
  for (uint32_t i = track->first; i < track->first + track->count; i++) {
    const enum tg__class c = tg__slice_class(t, i);
    if (tg__class_is_host(c)) host++;
    else if (tg__class_is_device_work(c)) {
      if (device++ == 0) first = i;
    } else if (tg__class_is_device_side(c)) synced++;
  }
  if (track->kind == TG__TRACK_ASYNC || host + device + synced == 0) return;
  track->kind = device + synced > host ? TG__TRACK_DEVICE : TG__TRACK_CPU;
  if (track->kind != TG__TRACK_DEVICE) return;
  track->device = track->pid_is_text ? -1 : track->pid;
  track->stream = track->tid_is_text ? -1 : track->tid;
  if (first == TG_NONE) return;
  track->device = tg__arg_int(t, t->slices.args[first], TG__K_DEVICE, track->device);
  track->stream = tg__arg_int(t, t->slices.args[first], TG__K_STREAM, track->stream);
}

void tg__name_tracks(struct tg_trace *t, struct tg__rank *rank, uint32_t first_mark) {
  for (uint32_t i = first_mark; i < t->marks.count; i++)
    if (t->marks.ph[i] == 'M') take_name(t, rank, i);
  for (uint32_t k = rank->first_track; k < rank->first_track + rank->track_count; k++) classify_track(t, &t->tracks[k]);
}

bool tg__trace_add_meta(struct tg_trace *t, const char *key, const char *raw) {
  const uint32_t key_id = tg__strings_add(t->strings, key, strlen(key)), raw_id = tg__strings_add(t->strings, raw, strlen(raw));
  if (key_id == TG_NONE || raw_id == TG_NONE) return false;
  for (uint32_t i = 0; i < t->rank_count; i++) {
    struct tg__rank *const r = &t->ranks[i];
    struct tg__meta *const more = tg__arena_get(&t->arena, (r->meta_count + 1) * sizeof *more);
    if (!more) return false;
    if (r->meta_count) memcpy(more, r->meta, r->meta_count * sizeof *more);
    more[r->meta_count++] = (struct tg__meta){.key = key_id, .raw = raw_id};
    r->meta = more;
  }
  return true;
}

void tg__trace_add_skipped(struct tg_trace *t, const char *path, const char *why) {
  enum { MOST = 100 }; /* that are named */
  if (t->skipped_count == MOST) return;
  if (!t->skipped) t->skipped = tg__arena_get(&t->arena, MOST * sizeof *t->skipped);
  if (!t->skipped) return;
  struct tg__skipped_file *const s = &t->skipped[t->skipped_count];
  s->path = tg__arena_copy(&t->arena, path, strlen(path));
  s->why = tg__arena_copy(&t->arena, why, strlen(why));
  t->skipped_count += s->path && s->why;
}
