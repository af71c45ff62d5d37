/* Ids that follow from the order of events: of events, of Python frames with their callers, of flows from forward to
 * backward. */
#include "show/chrome_recorded.h"

struct tg__recorded {
  const struct tg__columns *t;
  uint32_t *ids;        /* by slice: Python id of a frame, external id of an operator or annotation; else 0 */
  uint32_t *flows;      /* by slice: of the flow that begins there or ends there, 0 = none; NULL likewise */
  bool any_calls;       /* torch numbered the calls */
  bool *launches;       /* by slice: a call that launched work of a device; NULL where a recording has no such work */
  uint32_t frames, ops; /* how many have ids */
  int64_t instants;     /* written so far */
};

bool tg__recorded_any(const struct tg__columns *t) {
  for (uint32_t r = 0; r < t->rank_count; r++) {
    if (t->ranks[r].is_recording) return true;
  }
  return false;
}

static bool is_frame(const struct tg__columns *t, uint32_t slice) {
  return tg__slice_class(t, slice) == TG__CLASS_PYTHON;
}

static bool is_operation(enum tg__class cls) { return cls == TG__CLASS_OP || cls == TG__CLASS_ANNOTATION; }

/* Numbered in the order of the slices, so that callers come before what they call; Python numbers them likewise
 * (python/tachograph/_events/recorded_ids.py). */
static bool number_events(struct tg__recorded *r) {
  const struct tg__columns *const t = r->t;
  if (!(r->ids = tg__alloc(((size_t)t->slices.count + 1) * sizeof *r->ids))) return false;
  for (uint32_t i = 0; i < t->slices.count; i++) {
    if (is_frame(t, i)) r->ids[i] = ++r->frames;
    if (is_operation(tg__slice_class(t, i))) r->ids[i] = ++r->ops;
  }
  return true;
}

/* Only of pairs that are both in the document. */
static bool number_flows(struct tg__recorded *r, const struct tg__event *events, uint32_t count) {
  enum { PRESENT = UINT32_MAX };
  const struct tg__columns *const t = r->t;
  uint32_t next = 0;
  r->flows = tg__alloc(((size_t)t->slices.count + 1) * sizeof *r->flows);
  if (!r->flows) return false;
  for (uint32_t i = 0; i < count; i++) {
    if (!events[i].is_mark) r->flows[events[i].id] = PRESENT;
  }
  for (uint32_t i = 0; i < t->slices.count; i++) {
    const uint32_t forward = t->slices.cause[i];
    if (r->flows[i] == 0 || forward == TG_NONE || r->flows[forward] == 0 || tg__slice_class(t, i) != TG__CLASS_OP)
      continue;
    if (r->flows[forward] != PRESENT || r->flows[i] != PRESENT) continue; /* one flow begins at a slice, or ends */
    r->flows[i] = r->flows[forward] = ++next;
  }
  for (uint32_t i = 0; i < t->slices.count; i++) {
    if (r->flows[i] == PRESENT) r->flows[i] = 0;
  }
  return true;
}

static bool is_work(const struct tg__columns *t, uint32_t slice) {
  return tg__class_is_device_work(tg__slice_class(t, slice));
}

static bool find_launches(struct tg__recorded *r, const struct tg__event *events, uint32_t count) {
  const struct tg__columns *const t = r->t;
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t slice = events[i].id;
    if (events[i].is_mark || !is_work(t, slice) || !t->ranks[t->tracks[tg__slice_track(t, slice)].rank].is_recording)
      continue;
    if (!r->launches && !(r->launches = tg__alloc((size_t)t->slices.count * sizeof *r->launches))) return false;
    if (t->slices.cause[slice] != TG_NONE) r->launches[t->slices.cause[slice]] = true;
  }
  return true;
}

/* The id of the annotation that a span on a stream is the label of: it was open where the work that the span begins
 * with was launched. 0 = that work is not in the document. */
static uint32_t label_of(const struct tg__recorded *r, uint32_t span) {
  const struct tg__columns *const t = r->t;
  for (uint32_t i = span + 1; i < t->slices.count && tg__slice_track(t, i) == tg__slice_track(t, span) &&
                              (uint64_t)t->slices.start_ns[i] - (uint64_t)t->slices.start_ns[span] <= 1;
       i++) {
    uint32_t up = is_work(t, i) ? t->slices.cause[i] : TG_NONE;
    while (up != TG_NONE &&
           (tg__slice_class(t, up) != TG__CLASS_ANNOTATION || t->slices.name[up] != t->slices.name[span]))
      up = t->slices.parent[up];
    if (up != TG_NONE) return r->ids[up];
  }
  return 0;
}

/* The id of the operator that a call, or work of a device, belongs to; 0 = none. */
static uint32_t external_of(const struct tg__recorded *r, uint32_t slice) {
  const struct tg__columns *const t = r->t;
  if (tg__slice_class(t, slice) == TG__CLASS_GPU_ANNOTATION) return label_of(r, slice);
  for (int step = 0; step < 3 && slice != TG_NONE; step++, slice = t->slices.cause[slice])
    if (is_operation(tg__slice_class(t, slice))) return r->ids[slice];
  return 0;
}

static bool any_call_numbers(const struct tg__columns *t) {
  for (uint32_t i = 0; i < t->schema_count; i++)
    for (uint16_t k = 0; k < t->schemas[i].count; k++)
      if (t->schemas[i].fields[k].key == TG__K_RECORD_FUNCTION_ID) return true;
  return false;
}
/* It is among the event's own args. */
static bool has_call_number(const struct tg__recorded *r, uint32_t slice) {
  return r->any_calls && tg__arg_int(r->t, r->t->slices.args[slice], TG__K_RECORD_FUNCTION_ID, 0);
}

struct tg__recorded *tg__recorded_new(const struct tg__columns *t, const struct tg__event *events, uint32_t count) {
  struct tg__recorded *const r = tg__alloc(sizeof *r);
  if (!r) return NULL;
  r->t = t;
  r->any_calls = any_call_numbers(t);
  if (number_events(r) && number_flows(r, events, count) && find_launches(r, events, count)) return r;
  tg__recorded_free(r);
  return NULL;
}

void tg__recorded_free(struct tg__recorded *r) {
  if (!r) return;
  tg__free(r->ids);
  tg__free(r->flows);
  tg__free(r->launches);
  tg__free(r);
}

/* ---- args ------------------------------------------------------------------------------------ */

static uint32_t caller_of(const struct tg__recorded *r, uint32_t slice) {
  uint32_t up = r->t->slices.parent[slice];
  while (up != TG_NONE && !is_frame(r->t, up)) up = r->t->slices.parent[up];
  return up == TG_NONE ? 0 : r->ids[up];
}

static char *begin_member(char *p, bool *any, const char *key, size_t len) {
  if (*any) *p++ = ',';
  *any = true;
  *p++ = '"';
  p = tg__buffer_copy(p, key, len);
  *p++ = '"';
  *p++ = ':';
  return p;
}

static char *put_member(char *p, bool *any, const char *key, size_t len, int64_t value) {
  return tg__buffer_int(begin_member(p, any, key, len), value);
}
#define PUT_MEMBER(p, any, key, value) put_member(p, any, key, sizeof(key) - 1, value)

static bool is_linked(const struct tg__recorded *r, uint32_t slice, enum tg__class cls) {
  return r->launches && slice != TG_NONE &&
         (cls == TG__CLASS_RUNTIME || cls == TG__CLASS_GPU_ANNOTATION || tg__class_is_device_work(cls));
}

void tg__recorded_args(struct tg__recorded *r, struct tg__buffer *buffer, uint32_t slice, enum tg__class cls) {
  enum { ROOM = 256 };
  const bool frame = cls == TG__CLASS_PYTHON && slice != TG_NONE, op = is_operation(cls) && slice != TG_NONE;
  const uint32_t external = is_linked(r, slice, cls) ? external_of(r, slice) : 0;
  if (!frame && !op && !external && cls != TG__CLASS_INSTANT) return;
  if (!buffer->p || buffer->p == buffer->start || buffer->p[-1] != '}') return; /* an event without args */
  buffer->p--;
  bool any = buffer->p == buffer->start || buffer->p[-1] != '{'; /* an empty object is written in one piece */
  if (!tg__buffer_room(buffer, ROOM)) return;
  char *p = buffer->p;
  if (frame) {
    const uint32_t caller = caller_of(r, slice);
    if (caller) p = PUT_MEMBER(p, &any, "Python parent id", caller);
    p = PUT_MEMBER(p, &any, "Python id", r->ids[slice]);
    p = PUT_MEMBER(p, &any, "Ev Idx", (int64_t)r->ops + r->ids[slice] - 1);
  } else if (op) {
    p = PUT_MEMBER(p, &any, "External id", r->ids[slice]);
    if (!has_call_number(r, slice)) p = PUT_MEMBER(p, &any, "Record function id", 0);
    p = PUT_MEMBER(p, &any, "Ev Idx", (int64_t)r->ids[slice] - 1);
  } else if (external) {
    p = PUT_MEMBER(p, &any, "External id", external);
  } else {
    p = tg__buffer_copy(begin_member(p, &any, "finished", 8), "false", 5); /* as torch writes of each allocation */
    p = PUT_MEMBER(p, &any, "Ev Idx", (int64_t)r->ops + r->frames + r->instants++);
  }
  *p++ = '}';
  buffer->p = p;
}

static struct tg__flow launch_flow(const struct tg__recorded *r, uint32_t slice) {
  const struct tg__columns *const t = r->t;
  const bool is_end = is_work(t, slice);
  if (!is_end && (tg__slice_class(t, slice) != TG__CLASS_RUNTIME || !r->launches[slice])) return (struct tg__flow){0};
  if (is_end && t->slices.cause[slice] == TG_NONE) return (struct tg__flow){0};
  const int64_t id = tg__arg_int(t, t->slices.args[slice], TG__K_CORRELATION, 0);
  return (struct tg__flow){id > 0 && id <= UINT32_MAX ? (uint32_t)id : 0, is_end, true};
}

struct tg__flow tg__recorded_flow(const struct tg__recorded *r, uint32_t slice) {
  const uint32_t id = r->flows[slice];
  if (!id) return r->launches ? launch_flow(r, slice) : (struct tg__flow){0};
  const uint32_t forward = r->t->slices.cause[slice];
  return (struct tg__flow){id, forward != TG_NONE && r->flows[forward] == id, false};
}
