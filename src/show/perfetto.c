/* Perfetto's protobuf, as its UI and trace_processor read it; smaller than JSON and exact, because its times are
 * whole ns.
 *
 * Slices become begin/end pairs, other events instants, C events counter tracks; what made a slice happen (launch →
 * kernel, forward → backward) becomes a flow. Args become debug annotations, members of the event itself are
 * annotations named event.<key>. Metadata events are the names of tracks; events without a time have no place in the
 * format and are left out. Times are those of the common clock, moved up as a whole when any is negative. */
#include "show/perfetto.h"

#include <stdlib.h>

#include "show/buffer.h"

enum { /* perfetto/trace/trace_packet.proto, track_event.proto, debug_annotation.proto, interned_data.proto */
       TRACE_PACKET = 1,
       PACKET_TIMESTAMP = 8,
       PACKET_SEQUENCE_ID = 10,
       PACKET_INTERNED = 12,
       PACKET_SEQUENCE_FLAGS = 13,
       SEQUENCE_STARTS = 1,
       SEQUENCE_INTERNS = 2,
       EVENT_CATEGORY_IID = 3,
       EVENT_ANNOTATION = 4,
       EVENT_TYPE = 9,
       EVENT_NAME_IID = 10,
       EVENT_TRACK = 11,
       EVENT_COUNTER_INT = 30,
       EVENT_COUNTER_DOUBLE = 44,
       EVENT_FLOW = 47,
       EVENT_FLOW_END = 48,
       TYPE_BEGIN = 1,
       TYPE_END = 2,
       TYPE_INSTANT = 3,
       TYPE_COUNTER = 4,
       ANNOTATION_NAME_IID = 1,
       ANNOTATION_BOOL = 2,
       ANNOTATION_INT = 4,
       ANNOTATION_DOUBLE = 5,
       ANNOTATION_JSON = 9,
       ANNOTATION_NAME = 10,
       ANNOTATION_STRING_IID = 17,
       INTERNED_CATEGORY = 1,
       INTERNED_NAME = 2,
       INTERNED_ANNOTATION_NAME = 3,
       INTERNED_STRING = 29,
       ENTRY_IID = 1,
       ENTRY_TEXT = 2,
};

/* ---- packets --------------------------------------------------------------------------------- */

void tg__proto_utf8(struct tg__out *o, unsigned field, struct tg__str s) {
  struct tg__out clean = {0};
  tg__put_utf8(&clean, s);
  if (clean.err && !o->err) o->err = clean.err;
  tg__proto_bytes(o, field, clean.buf, clean.len);
  tg__out_free(&clean);
}

static void put_packet(struct tg__perfetto *p, unsigned sequence_flags) {
  tg__proto_uint(&p->packet, PACKET_SEQUENCE_ID, 1);
  tg__proto_uint(&p->packet, PACKET_SEQUENCE_FLAGS, sequence_flags);
  tg__proto_message(p->out, TRACE_PACKET, &p->packet);
}

void tg__perfetto_end_packet(struct tg__perfetto *p) { put_packet(p, SEQUENCE_INTERNS); }

static void end_event(struct tg__perfetto *p, int64_t ns) {
  tg__proto_uint(&p->packet, PACKET_TIMESTAMP, (uint64_t)ns + (uint64_t)p->shift_ns);
  if (p->interned.len) tg__proto_message(&p->packet, PACKET_INTERNED, &p->interned);
  tg__proto_message(&p->packet, TG__PACKET_TRACK_EVENT, &p->event);
  tg__perfetto_end_packet(p);
}

/* The number of a string in one of the interning tables; it is defined in the packet that uses it first. */
static uint64_t intern_string(struct tg__perfetto *p, unsigned table, uint32_t string_id) {
  const unsigned bit = table == INTERNED_CATEGORY          ? 1
                       : table == INTERNED_NAME            ? 2
                       : table == INTERNED_ANNOTATION_NAME ? 4
                                                           : 8;
  const uint64_t iid = (uint64_t)string_id + 1; /* 0 means none */
  if (p->known[string_id] & bit) return iid;
  p->known[string_id] |= (uint8_t)bit;
  struct tg__out entry = {0};
  tg__proto_uint(&entry, ENTRY_IID, iid);
  tg__proto_utf8(&entry, ENTRY_TEXT, tg__name(p->t, string_id));
  tg__proto_message(&p->interned, table, &entry);
  tg__out_free(&entry);
  return iid;
}

/* ---- annotations ----------------------------------------------------------------------------- */

static double decimal(const struct tg__val *v) {
  char text[TG__NUMBER_BYTES + 1];
  *tg__buffer_decimal(text, v->i, v->decimals) = 0;
  return strtod(text, NULL);
}

static bool is_container(struct tg__str raw) {
  return raw.len && (raw.ptr[0] == '[' || raw.ptr[0] == '{') && tg__json_is_valid(raw);
}

static void put_raw(struct tg__perfetto *p, uint32_t string_id) {
  const struct tg__str raw = tg__name(p->t, string_id);
  int64_t i;
  if (is_container(raw)) {
    tg__proto_bytes(&p->inner, ANNOTATION_JSON, raw.ptr, raw.len);
  } else if (tg__raw_int(raw, &i)) {
    tg__proto_uint(&p->inner, ANNOTATION_INT, (uint64_t)i);
  } else { /* a number that is too large, NaN, N/A: its characters */
    tg__proto_uint(&p->inner, ANNOTATION_STRING_IID, intern_string(p, INTERNED_STRING, string_id));
  }
}

static void put_value(struct tg__perfetto *p, const struct tg__val *v) {
  switch (v->kind) {
  case TG__KIND_INT:
    tg__proto_uint(&p->inner, ANNOTATION_INT, (uint64_t)v->i);
    break;
  case TG__KIND_DEC:
    tg__proto_double(&p->inner, ANNOTATION_DOUBLE, decimal(v));
    break;
  case TG__KIND_TRUE:
  case TG__KIND_FALSE:
    tg__proto_uint(&p->inner, ANNOTATION_BOOL, v->kind == TG__KIND_TRUE);
    break;
  case TG__KIND_RAW:
    put_raw(p, v->str);
    break;
  case TG__KIND_STR:
    tg__proto_uint(&p->inner, ANNOTATION_STRING_IID, intern_string(p, INTERNED_STRING, v->str));
    break;
  default:
    tg__proto_bytes(&p->inner, ANNOTATION_JSON, "null", 4);
    break;
  }
}

static void put_annotations(struct tg__perfetto *p, uint32_t args) {
  struct tg__args_iter it;
  for (tg__args_begin(p->t, args, &it); tg__args_next(&it);) {
    if (it.field->top) {
      struct tg__out name = {0};
      tg__out_text(&name, "event.");
      tg__out_bytes(&name, tg__name(p->t, it.field->key).ptr, tg__name(p->t, it.field->key).len);
      tg__proto_utf8(&p->inner, ANNOTATION_NAME, (struct tg__str){name.buf, (uint32_t)name.len});
      tg__out_free(&name);
    } else {
      tg__proto_uint(&p->inner, ANNOTATION_NAME_IID, intern_string(p, INTERNED_ANNOTATION_NAME, it.field->key));
    }
    put_value(p, &it.val);
    tg__proto_message(&p->event, EVENT_ANNOTATION, &p->inner);
  }
}

static void put_packet_head(struct tg__perfetto *p, unsigned type, uint64_t track, uint32_t name, uint16_t cat) {
  tg__proto_uint(&p->event, EVENT_TYPE, type);
  tg__proto_uint(&p->event, EVENT_TRACK, track);
  tg__proto_uint(&p->event, EVENT_NAME_IID, intern_string(p, INTERNED_NAME, name));
  const uint32_t cat_name = p->t->cats[cat].name;
  if (cat_name != TG_NONE) tg__proto_uint(&p->event, EVENT_CATEGORY_IID, intern_string(p, INTERNED_CATEGORY, cat_name));
}

static int64_t clock_offset(const struct tg__columns *t, uint32_t track) {
  return t->ranks[t->tracks[track].rank].clock_offset_ns;
}

/* ---- flows ----------------------------------------------------------------------------------- */

static bool is_flow(const struct tg__columns *t, uint32_t effect) {
  const uint32_t cause = t->slices.cause[effect];
  if (cause == TG_NONE) return false;
  const enum tg__class c = tg__slice_class(t, effect);
  return tg__class_is_device_work(c) || (c == TG__CLASS_OP && tg__slice_class(t, cause) == TG__CLASS_OP);
}

/* Turn the column cause around. */
static bool find_effects(struct tg__perfetto *p) {
  const struct tg__columns *t = p->t;
  const size_t n = t->slices.count;
  p->first_effect = tg__alloc((n + 2) * sizeof *p->first_effect);
  p->effects = tg__alloc((n + 1) * sizeof *p->effects);
  if (!p->first_effect || !p->effects) return false;
  uint32_t *const ends = p->first_effect + 1;
  for (uint32_t i = 0; i < n; i++) {
    if (is_flow(t, i)) p->first_effect[t->slices.cause[i] + 1]++;
  }
  for (size_t i = 1; i <= n; i++) p->first_effect[i] += p->first_effect[i - 1];
  const uint32_t total = p->first_effect[n];
  for (uint32_t i = (uint32_t)n; i-- > 0;) { /* filled from behind; afterwards ends[c] is where c's effects begin */
    if (is_flow(t, i)) p->effects[--ends[t->slices.cause[i]]] = i;
  }
  memmove(p->first_effect, ends, n * sizeof *ends);
  p->first_effect[n] = total;
  return true;
}

/* The flow is named by its effect, which has but one cause. */
static void put_flows(struct tg__perfetto *p, uint32_t slice) {
  for (uint32_t k = p->first_effect[slice]; k < p->first_effect[slice + 1]; k++) {
    tg__proto_fixed64(&p->event, EVENT_FLOW, (uint64_t)p->effects[k] + 1);
  }
  if (is_flow(p->t, slice)) tg__proto_fixed64(&p->event, EVENT_FLOW_END, (uint64_t)slice + 1);
}

/* ---- slices ---------------------------------------------------------------------------------- */

struct stack {
  uint32_t *items;
  size_t count, cap;
};

static bool push_slice(struct stack *s, uint32_t i) {
  void *items = s->items;
  if (!tg__grow(&items, &s->cap, s->count + 1, sizeof *s->items)) return false;
  s->items = items;
  s->items[s->count++] = i;
  return true;
}

static void put_end(struct tg__perfetto *p, uint64_t track, int64_t ns) {
  tg__proto_uint(&p->event, EVENT_TYPE, TYPE_END);
  tg__proto_uint(&p->event, EVENT_TRACK, track);
  end_event(p, ns);
}

static void put_begin(struct tg__perfetto *p, uint64_t track, uint32_t i, int64_t offset) {
  const struct tg__slices *s = &p->t->slices;
  put_packet_head(p, TYPE_BEGIN, track, s->name[i], s->cat[i]);
  put_annotations(p, s->args[i]);
  put_flows(p, i);
  end_event(p, s->start_ns[i] + offset);
}

/* Write the slices of `todo` that nest on one Perfetto track; those that do not are left in `later`. */
static bool put_nested(struct tg__perfetto *p, const struct stack *todo, struct stack *later, uint64_t track,
                       int64_t offset) {
  struct stack open = {0};
  bool ok = true;
  for (size_t k = 0; k < todo->count && ok; k++) {
    const uint32_t i = todo->items[k];
    const int64_t start = p->t->slices.start_ns[i], end = tg__slice_end(p->t, i);
    while (open.count && tg__slice_end(p->t, open.items[open.count - 1]) <= start) {
      put_end(p, track, tg__slice_end(p->t, open.items[--open.count]) + offset);
    }
    if (open.count && tg__slice_end(p->t, open.items[open.count - 1]) < end) {
      ok = push_slice(later, i);
    } else {
      put_begin(p, track, i, offset);
      ok = push_slice(&open, i);
    }
  }
  while (open.count) put_end(p, track, tg__slice_end(p->t, open.items[--open.count]) + offset);
  tg__free(open.items);
  return ok;
}

static uint64_t main_track(struct tg__perfetto *p, uint32_t k) {
  if (!p->uuids[k]) p->uuids[k] = tg__perfetto_track(p, k, 0);
  return p->uuids[k];
}

/* Lane by lane. A track has as many lanes as it has slices that overlap at once, so the loop ends. */
static bool put_track(struct tg__perfetto *p, uint32_t k) {
  const struct tg__track *track = &p->t->tracks[k];
  struct stack todo = {0}, later = {0};
  bool ok = true;
  for (uint32_t i = track->first; i < track->first + track->count && ok; i++) {
    if (tg__ask_has_slice(p->selection, p->t, k, i)) ok = push_slice(p->t->slices.lane[i] ? &later : &todo, i);
  }
  for (unsigned lane = 0; ok && (todo.count || later.count); lane++) {
    struct stack rest = {0};
    const uint64_t uuid = lane ? tg__perfetto_track(p, k, lane) : main_track(p, k);
    ok = put_nested(p, &todo, &rest, uuid, clock_offset(p->t, k));
    todo.count = 0;
    /* what is left of this lane comes before what later lanes have, in order of start */
    for (size_t a = 0, b = 0; ok && (a < rest.count || b < later.count);) {
      const bool from_rest = b == later.count || (a < rest.count && rest.items[a] < later.items[b]);
      ok = push_slice(&todo, from_rest ? rest.items[a++] : later.items[b++]);
    }
    later.count = 0;
    tg__free(rest.items);
  }
  tg__free(todo.items);
  tg__free(later.items);
  return ok;
}

/* ---- marks ----------------------------------------------------------------------------------- */

static void put_counter(struct tg__perfetto *p, uint32_t i) {
  const struct tg__marks *m = &p->t->marks;
  struct tg__args_iter it;
  for (tg__args_begin(p->t, m->args[i], &it); tg__args_next(&it);) {
    const bool whole = it.val.kind == TG__KIND_INT;
    if (it.field->top || (!whole && it.val.kind != TG__KIND_DEC)) continue;
    const uint64_t track = tg__perfetto_counter(p, i, it.field->key);
    tg__proto_uint(&p->event, EVENT_TYPE, TYPE_COUNTER);
    tg__proto_uint(&p->event, EVENT_TRACK, track);
    if (whole) {
      tg__proto_uint(&p->event, EVENT_COUNTER_INT, (uint64_t)it.val.i);
    } else {
      tg__proto_double(&p->event, EVENT_COUNTER_DOUBLE, decimal(&it.val));
    }
    end_event(p, m->ts_ns[i] + clock_offset(p->t, m->track[i]));
  }
}

static void put_mark(struct tg__perfetto *p, uint32_t i) {
  const struct tg__marks *m = &p->t->marks;
  const uint32_t k = m->track[i];
  if (m->ts_ns[i] == TG_NULL_INT) return;
  switch (m->ph[i]) {
  case 'M': /* names of tracks */
  case 'E':
  case 'e':
  case 'F': /* ends of slices */
  case 's':
  case 't':
  case 'f':
    return; /* flows: as the causes they led to */
  case 'C':
    put_counter(p, i);
    return;
  default:
    break;
  }
  const uint64_t track = main_track(p, k);
  put_packet_head(p, TYPE_INSTANT, track, m->name[i], m->cat[i]);
  put_annotations(p, m->args[i]);
  end_event(p, m->ts_ns[i] + clock_offset(p->t, k));
}

/* ---- the file -------------------------------------------------------------------------------- */

static int64_t shift_needed(const struct tg__columns *t, const struct tg__ask *selection) {
  int64_t least = 0;
  for (uint32_t k = 0; k < t->track_count; k++) {
    const struct tg__track *track = &t->tracks[k];
    if (!tg__ask_has_track(selection, t, k) || !track->count) continue;
    const int64_t first = t->slices.start_ns[track->first] + clock_offset(t, k);
    if (first < least) least = first;
  }
  for (uint32_t i = 0; i < t->marks.count; i++) {
    const uint32_t k = t->marks.track[i];
    if (t->marks.ts_ns[i] == TG_NULL_INT || !tg__ask_has_track(selection, t, k)) continue;
    const int64_t ns = t->marks.ts_ns[i] + clock_offset(t, k);
    if (ns < least) least = ns;
  }
  return least < 0 ? -least : 0;
}

static bool put_all(struct tg__perfetto *p) {
  const struct tg__columns *t = p->t;
  bool ok = true;
  put_packet(p, SEQUENCE_STARTS);
  for (uint32_t k = 0; ok && k < t->track_count; k++) {
    if (tg__ask_has_track(p->selection, t, k)) ok = put_track(p, k);
  }
  for (uint32_t i = 0; ok && i < t->marks.count; i++) {
    if (tg__show_has_mark(p->selection, t, i)) put_mark(p, i);
  }
  return ok;
}

enum tg_err tg__perfetto_trace(struct tg__columns *t, const struct tg__show_options *o, struct tg__out *out,
                               struct tg_error *e) {
  struct tg__ask selection;
  struct tg__perfetto p = {.t = t, .selection = &selection, .out = out};
  enum tg_err err = tg__show_begin(t, o, TG__COL_ALL, &selection, e);
  if (err) goto done;
  p.shift_ns = shift_needed(t, &selection);
  p.known = tg__alloc((size_t)tg__strings_count(t->strings) + 1);
  p.uuids = tg__alloc(((size_t)t->track_count + 1) * sizeof *p.uuids);
  if (!p.known || !p.uuids || !find_effects(&p) || !put_all(&p)) out->err = TG_MEMORY;
  err = tg__show_end(out, e);
done:
  tg__ask_end(&selection);
  tg__free(p.known);
  tg__free(p.uuids);
  tg__free(p.effects);
  tg__free(p.first_effect);
  tg__map_free(&p.processes);
  tg__map_free(&p.counters);
  tg__out_free(&p.packet);
  tg__out_free(&p.event);
  tg__out_free(&p.inner);
  tg__out_free(&p.interned);
  return err;
}
