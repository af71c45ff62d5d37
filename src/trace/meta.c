/* meta: the members of the document beside its events: the rank, the devices; and the metadata events about tracks. */
#include "trace/import.h"

/* ---- the document ---------------------------------------------------------------------------- */

static int64_t to_int(struct tg__str s, int64_t fallback) {
  int64_t v;
  return tg__str_to_int(s, &v) ? v : fallback;
}

static void read_distributed_info(struct tg__rank *rank, struct tg__str raw) {
  const int64_t number = to_int(tg__json_member(raw, "rank"), -1),
                world_size = to_int(tg__json_member(raw, "world_size"), -1);
  if (number >= 0) rank->number = number, rank->number_is_given = true;
  if (world_size >= 0) rank->world_size = world_size;
}

static struct tg__device read_device(struct tg__columns *t, struct tg__str raw, int64_t position) {
  const struct tg__str name =
      tg__json_unquoted(tg__json_member(raw, "name")); /* device names have no escapes worth decoding */
  return (struct tg__device){.id = to_int(tg__json_member(raw, "id"), position),
                             .total_memory_bytes = to_int(tg__json_member(raw, "totalGlobalMem"), -1),
                             .sm_count = to_int(tg__json_member(raw, "numSms"), -1),
                             .compute_major = to_int(tg__json_member(raw, "computeMajor"), -1),
                             .compute_minor = to_int(tg__json_member(raw, "computeMinor"), -1),
                             .max_threads_per_sm = to_int(tg__json_member(raw, "maxThreadsPerMultiprocessor"), -1),
                             .warp_size = to_int(tg__json_member(raw, "warpSize"), -1),
                             .name = name.ptr ? tg__strings_add(t->strings, name.ptr, name.len) : TG_NONE};
}

static enum tg_err read_devices(struct tg__columns *t, struct tg__rank *rank, struct tg__str raw) {
  size_t n = 0;
  for (struct tg__members m = tg__members_of(raw); tg__members_next(&m);) n++;
  rank->devices = tg__arena_get(&t->arena, (n + 1) * sizeof *rank->devices);
  if (!rank->devices) return TG_MEMORY;
  rank->device_count = 0;
  for (struct tg__members m = tg__members_of(raw); tg__members_next(&m); rank->device_count++)
    rank->devices[rank->device_count] = read_device(t, m.value, (int64_t)rank->device_count);
  return TG_OK;
}

enum tg_err tg__read_meta(struct tg__columns *t, struct tg__rank *rank) {
  for (size_t i = 0; i < rank->meta_count; i++) {
    const uint32_t key = rank->meta[i].key;
    const struct tg__str raw = tg__name(t, rank->meta[i].raw);
    if (key == TG__K_BASE_TIME) {
      const int64_t base = to_int(raw, 0);
      if (base > 0) rank->base_ns = base;
    }
    if (key == TG__K_DISTRIBUTED_INFO) read_distributed_info(rank, raw);
    if (key == TG__K_DEVICE_PROPERTIES && read_devices(t, rank, raw)) return TG_MEMORY;
  }
  return TG_OK;
}

/* ---- tracks ---------------------------------------------------------------------------------- */

static bool same_process(const struct tg__track *a, const struct tg__track *b) {
  return a->pid == b->pid && a->pid_is_text == b->pid_is_text;
}
static bool same_thread(const struct tg__track *a, const struct tg__track *b) {
  return same_process(a, b) && a->tid == b->tid && a->tid_is_text == b->tid_is_text;
}

static void take_name(struct tg__columns *t, const struct tg__rank *rank, uint32_t mark) {
  const uint32_t what = t->marks.name[mark], args = t->marks.args[mark];
  const struct tg__track *of = &t->tracks[t->marks.track[mark]];
  const bool process = what == TG__K_PROCESS_NAME || what == TG__K_PROCESS_LABELS;
  if (!process && what != TG__K_THREAD_NAME && what != TG__K_THREAD_SORT_INDEX) return;
  TG__EACH (k, tg__tracks_of(rank)) {
    struct tg__track *track = &t->tracks[k];
    if (process ? !same_process(track, of) : !same_thread(track, of)) continue;
    if (what == TG__K_PROCESS_NAME)
      track->process_name = tg__arg_str(t, args, TG__K_NAME);
    else if (what == TG__K_PROCESS_LABELS)
      track->labels = tg__arg_str(t, args, TG__K_LABELS);
    else if (what == TG__K_THREAD_NAME)
      track->name = tg__arg_str(t, args, TG__K_NAME);
    else
      track->sort_index = tg__arg_int(t, args, TG__K_SORT_INDEX, TG_NULL_INT);
  }
}

/* A track is a device's when most of its slices are device work; device and stream are what its first such slice
 * says. */
static void classify_track(struct tg__columns *t, struct tg__track *track) {
  uint32_t device = 0, host = 0, first = TG_NONE, synced = 0;
  TG__EACH (i, tg__slices_of(track)) {
    const enum tg__class c = tg__slice_class(t, i);
    if (tg__class_is_host(c))
      host++;
    else if (tg__class_is_device_work(c)) {
      if (device++ == 0) first = i;
    } else if (tg__class_is_device_side(c))
      synced++;
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

void tg__name_tracks(struct tg__columns *t, struct tg__rank *rank, uint32_t first_mark) {
  for (uint32_t i = first_mark; i < t->marks.count; i++)
    if (t->marks.ph[i] == 'M') take_name(t, rank, i);
  TG__EACH (k, tg__tracks_of(rank)) classify_track(t, &t->tracks[k]);
}

bool tg__rank_was_killed(const struct tg__rank *rank, uint32_t i) {
  if (rank->processes[i].stop_ns) return false;
  for (uint32_t k = 0; k < rank->process_count; k++)
    if (k != i && rank->processes[k].pid == rank->processes[i].parent) return false;
  return true;
}

bool tg__trace_add_meta(struct tg__columns *t, const char *key, const char *raw) {
  const uint32_t key_id = tg__strings_add(t->strings, key, strlen(key)),
                 raw_id = tg__strings_add(t->strings, raw, strlen(raw));
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

void tg__trace_add_skipped(struct tg__columns *t, const char *path, const char *why) {
  enum { MOST = 100 }; /* that are named */
  if (t->skipped_count == MOST) return;
  if (!t->skipped) t->skipped = tg__arena_get(&t->arena, MOST * sizeof *t->skipped);
  if (!t->skipped) return;
  struct tg__skipped_file *const s = &t->skipped[t->skipped_count];
  s->path = tg__arena_copy(&t->arena, path, strlen(path));
  s->why = tg__arena_copy(&t->arena, why, strlen(why));
  t->skipped_count += s->path && s->why;
}
