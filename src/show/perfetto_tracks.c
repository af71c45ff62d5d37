/* The tracks of a Perfetto file: one per process, below it one per thread or stream, beside that one per sub-lane,
 * with the same name and parent, which is Perfetto's way of showing overlapping slices. */
#include "show/perfetto.h"

enum { /* fields of TrackDescriptor and what it holds; perfetto/trace/track_event/track_descriptor.proto */
       TRACK_UUID = 1,
       TRACK_NAME = 2,
       TRACK_PROCESS = 3,
       TRACK_THREAD = 4,
       TRACK_PARENT = 5,
       TRACK_COUNTER = 8,
       TRACK_CHILD_ORDERING = 11,
       TRACK_SIBLING_RANK = 12,
       ORDER_EXPLICIT = 3,
       PROCESS_PID = 1,
       PROCESS_NAME = 6,
       THREAD_PID = 1,
       THREAD_TID = 2,
       THREAD_NAME = 5,
       COUNTER_UNIT = 3,
       UNIT_BYTES = 3,
};

static void put_track_name(struct tg__perfetto *p, struct tg__out *out, unsigned field, const struct tg__out *name) {
  struct tg__str s = {name->buf, (uint32_t)name->len};
  if (name->err) p->out->err = name->err;
  tg__proto_utf8(out, field, s);
}

static void put_track_token(const struct tg__columns *t, struct tg__out *out, bool is_text, int64_t v) {
  if (is_text) {
    tg__out_bytes(out, tg__name(t, (uint32_t)v).ptr, tg__name(t, (uint32_t)v).len);
  } else {
    tg__out_int(out, v);
  }
}

static void put_string(const struct tg__columns *t, struct tg__out *out, uint32_t id) {
  if (id != TG_NONE) tg__out_bytes(out, tg__name(t, id).ptr, tg__name(t, id).len);
}

/* pids and tids of the operating system are looked up in its tables by Perfetto, so only those that can be such are
 * given as such. */
static bool is_os_id(bool is_text, int64_t v) { return !is_text && v > 0 && v <= INT32_MAX; }

static bool is_os_process(const struct tg__columns *t, const struct tg__track *track) {
  return t->rank_count == 1 && track->kind != TG__TRACK_DEVICE && is_os_id(track->pid_is_text, track->pid);
}

static void put_packet(struct tg__perfetto *p) {
  tg__proto_message(&p->packet, TG__PACKET_TRACK_DESCRIPTOR, &p->event);
  tg__perfetto_end_packet(p);
}

/* ---- processes ------------------------------------------------------------------------------- */

static void process_name(const struct tg__columns *t, const struct tg__track *track, struct tg__out *name) {
  if (t->rank_count > 1) tg__out_format(name, "rank %lld ", (long long)t->ranks[track->rank].number);
  if (track->process_name != TG_NONE) {
    put_string(t, name, track->process_name);
  } else {
    tg__out_text(name, "process");
  }
  tg__out_char(name, ' ');
  put_track_token(t, name, track->pid_is_text, track->pid);
  if (track->labels != TG_NONE) {
    tg__out_text(name, " (");
    put_string(t, name, track->labels);
    tg__out_char(name, ')');
  }
}

static void put_process(struct tg__perfetto *p, const struct tg__track *track, uint64_t uuid) {
  struct tg__out inner = {0}, name = {0};
  tg__proto_uint(&p->event, TRACK_UUID, uuid);
  if (is_os_process(p->t, track)) {
    tg__proto_uint(&inner, PROCESS_PID, (uint64_t)track->pid);
    if (track->process_name != TG_NONE) tg__proto_utf8(&inner, PROCESS_NAME, tg__name(p->t, track->process_name));
    tg__proto_message(&p->event, TRACK_PROCESS, &inner);
  } else {
    process_name(p->t, track, &name);
    put_track_name(p, &p->event, TRACK_NAME, &name);
    tg__proto_uint(&p->event, TRACK_CHILD_ORDERING, ORDER_EXPLICIT);
  }
  put_packet(p);
  tg__out_free(&inner);
  tg__out_free(&name);
}

static uint64_t process_of(struct tg__perfetto *p, uint32_t k) {
  const struct tg__track *track = &p->t->tracks[k];
  const int64_t key[3] = {track->rank, track->pid, track->pid_is_text};
  uint32_t *const slot = tg__map_slot(&p->processes, tg__hash(key, sizeof key), 0);
  if (!slot) {
    p->out->err = TG_MEMORY;
    return 0;
  }
  if (!*slot) {
    *slot = ++p->last_uuid;
    put_process(p, track, *slot);
  }
  return *slot;
}

/* ---- threads, streams ------------------------------------------------------------------------ */

static void track_name(const struct tg__columns *t, const struct tg__track *track, struct tg__out *name) {
  if (track->name != TG_NONE) {
    put_string(t, name, track->name);
    return;
  }
  tg__out_text(name, track->kind == TG__TRACK_DEVICE  ? "stream "
                     : track->kind == TG__TRACK_ASYNC ? "async "
                                                      : "thread ");
  put_track_token(t, name, track->tid_is_text, track->tid);
}

static void put_thread(struct tg__perfetto *p, const struct tg__track *track) {
  struct tg__out thread = {0}, name = {0};
  track_name(p->t, track, &name);
  tg__proto_uint(&thread, THREAD_PID, (uint64_t)track->pid);
  tg__proto_uint(&thread, THREAD_TID, (uint64_t)track->tid);
  put_track_name(p, &thread, THREAD_NAME, &name);
  tg__proto_message(&p->event, TRACK_THREAD, &thread);
  tg__out_free(&thread);
  tg__out_free(&name);
}

uint64_t tg__perfetto_track(struct tg__perfetto *p, uint32_t k, unsigned lane) {
  const struct tg__track *track = &p->t->tracks[k];
  const uint64_t parent = process_of(p, k), uuid = ++p->last_uuid;
  tg__proto_uint(&p->event, TRACK_UUID, uuid);
  if (lane == 0 && is_os_process(p->t, track) && track->kind == TG__TRACK_CPU &&
      is_os_id(track->tid_is_text, track->tid)) {
    put_thread(p, track);
  } else {
    struct tg__out name = {0};
    track_name(p->t, track, &name);
    put_track_name(p, &p->event, TRACK_NAME, &name);
    tg__proto_uint(&p->event, TRACK_PARENT, parent);
    const int64_t rank = track->tid_is_text       ? INT32_MAX
                         : track->tid < 0         ? 0
                         : track->tid < INT32_MAX ? track->tid
                                                  : INT32_MAX;
    tg__proto_uint(&p->event, TRACK_SIBLING_RANK, (uint64_t)rank);
    tg__out_free(&name);
  }
  put_packet(p);
  return uuid;
}

/* ---- counters -------------------------------------------------------------------------------- */

static bool counts_bytes(struct tg__str name) {
  return tg__str_contains(name, "ytes") || tg__str_contains(name, "BYTES");
}

uint64_t tg__perfetto_counter(struct tg__perfetto *p, uint32_t mark, uint32_t key) {
  const struct tg__columns *t = p->t;
  const uint32_t k = t->marks.track[mark], name_id = t->marks.name[mark];
  const uint64_t parent = process_of(p, k);
  struct tg__val id;
  const bool has_id = tg__arg(t, t->marks.args[mark], TG__K_ID, true, &id);
  const int64_t parts[4] = {(int64_t)parent, name_id, key,
                            has_id ? (id.kind == TG__KIND_INT ? id.i : -1 - (int64_t)id.str) : INT64_MIN};
  uint32_t *const slot = tg__map_slot(&p->counters, tg__hash(parts, sizeof parts), 0);
  if (!slot) {
    p->out->err = TG_MEMORY;
    return 0;
  }
  if (*slot) return *slot;
  *slot = ++p->last_uuid;
  struct tg__out name = {0}, counter = {0};
  put_string(t, &name, name_id);
  if (key != name_id) {
    tg__out_char(&name, ' ');
    put_string(t, &name, key);
  }
  if (has_id) {
    struct tg__jsonw w = {.out = &name};
    tg__out_text(&name, " #");
    tg__val_json(t, &id, &w);
  }
  tg__proto_uint(&p->event, TRACK_UUID, *slot);
  put_track_name(p, &p->event, TRACK_NAME, &name);
  tg__proto_uint(&p->event, TRACK_PARENT, parent);
  if (counts_bytes(tg__name(t, name_id)) || counts_bytes(tg__name(t, key)))
    tg__proto_uint(&counter, COUNTER_UNIT, UNIT_BYTES);
  tg__proto_message(&p->event, TRACK_COUNTER, &counter);
  put_packet(p);
  tg__out_free(&name);
  tg__out_free(&counter);
  return *slot;
}
