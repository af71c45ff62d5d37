/* The Kineto / Chrome trace JSON, as Perfetto, the TensorBoard plugin and HTA read it. The only writer of that format.
 *
 * Events come in the order of their file, members in the order ph, cat, name, pid, tid, ts, dur, then the event's
 * other members, then args; members of the document stand where they stood. The result is always valid JSON: a value
 * that is not JSON (NaN, N/A) becomes the string of its characters, text that is not UTF-8 gets U+FFFD.
 *
 * A viewer that nests slices by time drops those that overlap, so slices of sub-lanes go to a tid of their own,
 * named "… (overlap 1)"; lanes=keep leaves every event on the track it came from. Several ranks become one document
 * on the common clock, with pids and flow ids made distinct; rank=N writes only that rank, as it was. chrome_track.c
 * decides on the pids and tids.
 *
 * critical=path, only or all draws the critical path into it (chrome_critical.c), counters=queue, bandwidth or all
 * adds counters (chrome_counters.c).
 *
 * predicted= with the arguments of what_if writes the steps as they would be (chrome_predicted.c).
 *
 * patterns=TEXT marks frequent sequences of kernels (chrome_patterns.c).
 *
 * A recording of ours has no name yet: trace_name=PATH names its document, as Kineto calls its documents by
 * their path. */
#include "show/argsjson.h"
#include "show/chrome_counters.h"
#include "show/chrome_critical.h"
#include "show/chrome_patterns.h"
#include "show/chrome_predicted.h"
#include "show/chrome_recorded.h"
#include "show/chrome_track.h"
#include "show/eventrow.h"

enum { EVENT_FIXED = 256 }; /* punctuation, keys and numbers of an event without its strings */

/* Files write their times either as whole microseconds or all with decimals, and readers show 5 and 5.0 differently.
 * So where one time of a file has decimals all get three, as Kineto writes them. */
struct style {
  bool ts, dur; /* with decimals */
  /* operators are called name.overload: what a recording was asked for, other files have it in the name already */
  bool overloads;
};

struct chrome {
  const struct tg__columns *t;
  struct tg__out *out;
  struct tg__buffer buffer;
  struct tg__forms *forms;
  struct tg__chrome_tracks *tracks;
  struct tg__str *cats;            /* by category: ,"cat":"kernel","name":" */
  struct style *styles;            /* by rank */
  struct tg__recorded *recorded;   /* NULL: no rank in the document is a recording */
  struct tg__overlay *overlay;     /* NULL: the critical path is not asked for */
  struct tg__marked *marked;       /* NULL: patterns are not asked for */
  struct tg__predicted *predicted; /* NULL: as recorded */
  struct tg__counters *counters;
  struct tg__arena arena;
  const char *name; /* of a recording's document, NULL = none */
  bool merged;      /* several ranks in one document */
};

/* ---- one event ------------------------------------------------------------------------------- */

struct event {
  char ph;
  bool has_dur;
  bool is_recorded; /* by us: numbers that Kineto writes with its events are added */
  uint16_t cat;
  uint32_t slice; /* TG_NONE: a mark */
  uint32_t name, args, track;
  struct tg__str place; /* ,"pid":1,"tid":2 */
  int64_t ts_ns, dur_ns;
};

/* Flow and async ids are made distinct between ranks: the rank's number in the bits above 40, where Kineto's
 * counters never reach. */
static void put_merged_id(struct chrome *c, const struct event *ev) {
  struct tg__val id;
  if (!tg__arg(c->t, ev->args, TG__K_ID, true, &id)) return;
  const uint32_t rank = c->t->tracks[ev->track].rank;
  const struct tg__str key = TG_STR(",\"id\":");
  if (id.kind == TG__KIND_INT && id.i >= 0 && id.i < INT64_C(1) << 40) {
    if (!tg__buffer_room(&c->buffer, (size_t)key.len + TG__NUMBER_BYTES)) return;
    c->buffer.p =
        tg__buffer_int(tg__buffer_copy(c->buffer.p, key.ptr, key.len), id.i | (int64_t)(rank & 0x3fffff) << 40);
    return;
  }
  struct tg__out text = {0};
  struct tg__jsonw w = {.out = &text};
  tg__val_json(c->t, &id, &w);
  tg__buffer_commit(&c->buffer);
  tg__out_format(c->out, ",\"id\":\"r%u:", rank);
  tg__json_body(c->out, (struct tg__str){text.buf, (uint32_t)text.len});
  tg__out_char(c->out, '"');
  tg__out_free(&text);
}

/* The name of a process says which rank it belongs to once several are in one document. */
static bool put_merged_process_name(struct chrome *c, const struct event *ev) {
  if (ev->ph != 'M' || ev->name != TG__K_PROCESS_NAME) return false;
  const uint32_t name = tg__arg_str(c->t, ev->args, TG__K_NAME);
  const struct tg__rank *rank = &c->t->ranks[c->t->tracks[ev->track].rank];
  tg__buffer_commit(&c->buffer);
  tg__out_format(c->out, ",\"args\":{\"name\":\"rank %lld: ", (long long)rank->number);
  if (name != TG_NONE) tg__json_body(c->out, tg__name(c->t, name));
  tg__out_text(c->out, "\"}");
  return true;
}

/* Returns whether there was an args object, which then stands last. */
static bool put_rest(struct chrome *c, const struct event *ev) {
  tg__put_top(c->forms, &c->buffer, ev->args, c->merged ? TG__K_ID : TG_NONE);
  if (c->merged) {
    put_merged_id(c, ev);
    if (put_merged_process_name(c, ev)) return true;
  }
  return tg__put_args(c->forms, &c->buffer, ev->args, TG_STR(",\"args\":"));
}

static char *put_us(char *p, int64_t ns, bool decimals) {
  return decimals ? tg__buffer_us_fixed(p, ns) : tg__buffer_us(p, ns);
}

static struct tg__str overload_of(struct chrome *c, const struct event *ev) {
  if (!ev->is_recorded || !c->styles[c->t->tracks[ev->track].rank].overloads) return TG_STR("");
  const uint32_t overload = tg__arg_str(c->t, ev->args, TG__K_OVERLOAD_NAME);
  return overload == TG_NONE ? TG_STR("") : tg__form_body(c->forms, overload, c->out);
}

static void put_event(struct chrome *c, const struct event *ev, bool first) {
  const struct tg__str cat = c->cats[ev->cat];
  const struct tg__str name = tg__form_body(c->forms, ev->name, c->out);
  const struct tg__str overload = overload_of(c, ev);
  if (!tg__buffer_room(&c->buffer, (size_t)EVENT_FIXED + cat.len + name.len + overload.len + ev->place.len)) return;
  char *p = first ? TG__BUFFER_LITERAL(c->buffer.p, "\n{") : TG__BUFFER_LITERAL(c->buffer.p, ",\n{");
  if (ev->ph > ' ' && ev->ph != '"' && ev->ph != '\\') { /* also in a damaged .tacho */
    p = TG__BUFFER_LITERAL(p, "\"ph\":\"");
    *p++ = ev->ph;
    p = TG__BUFFER_LITERAL(p, "\",");
  }
  p = tg__buffer_copy(p, cat.ptr, cat.len);
  p = tg__buffer_copy(p, name.ptr, name.len);
  if (overload.len) {
    *p++ = '.';
    p = tg__buffer_copy(p, overload.ptr, overload.len);
  }
  *p++ = '"';
  p = tg__buffer_copy(p, ev->place.ptr, ev->place.len);
  const struct style style = c->styles[c->t->tracks[ev->track].rank];
  if (ev->ts_ns != TG_NULL_INT) p = put_us(TG__BUFFER_LITERAL(p, ",\"ts\":"), ev->ts_ns, style.ts);
  if (ev->has_dur) p = put_us(TG__BUFFER_LITERAL(p, ",\"dur\":"), ev->dur_ns, style.dur);
  c->buffer.p = p;
  bool has_args = put_rest(c, ev);
  if (ev->is_recorded) tg__recorded_args(c->recorded, &c->buffer, ev->slice, (enum tg__class)c->t->cats[ev->cat].cls);
  if (c->marked && ev->slice != TG_NONE) has_args = tg__marked_args(c->marked, &c->buffer, ev->slice, has_args);
  if (c->overlay && ev->slice != TG_NONE) tg__overlay_args(c->overlay, &c->buffer, ev->slice, has_args);
  if (tg__buffer_room(&c->buffer, 1)) *c->buffer.p++ = '}';
}

/* Kineto writes the flow from a forward operator to its autograd node, and from a launch to what the device did, as two
 * events, each behind the one it is tied to. */
static void put_flow(struct chrome *c, const struct event *ev) {
  const struct tg__flow flow = tg__recorded_flow(c->recorded, ev->slice);
  const uint32_t rank = c->t->tracks[ev->track].rank;
  if (!flow.id || !tg__buffer_room(&c->buffer, (size_t)EVENT_FIXED + ev->place.len)) return;
  char *p = TG__BUFFER_LITERAL(c->buffer.p, ",\n{\"ph\":\"");
  *p++ = flow.is_end ? 'f' : 's';
  p = flow.is_launch ? TG__BUFFER_LITERAL(p, "\",\"cat\":\"ac2g\",\"name\":\"ac2g\"")
                     : TG__BUFFER_LITERAL(p, "\",\"cat\":\"fwdbwd\",\"name\":\"fwdbwd\"");
  p = tg__buffer_copy(p, ev->place.ptr, ev->place.len);
  p = put_us(TG__BUFFER_LITERAL(p, ",\"ts\":"), ev->ts_ns, c->styles[rank].ts);
  p = TG__BUFFER_LITERAL(p, ",\"id\":");
  p = tg__buffer_int(p, (int64_t)flow.id | (c->merged ? (int64_t)(rank & 0x3fffff) << 40 : 0));
  if (flow.is_end) p = TG__BUFFER_LITERAL(p, ",\"bp\":\"e\"");
  *p++ = '}';
  c->buffer.p = p;
}

static bool is_recorded(const struct chrome *c, uint32_t track) {
  return c->t->ranks[c->t->tracks[track].rank].is_recording;
}

static void put_slice(struct chrome *c, uint32_t i, uint32_t track, bool first) {
  const struct tg__slices *s = &c->t->slices;
  const struct tg__predicted *const p = c->predicted;
  const bool has_own_end = p && !(s->flags[i] & TG__F_ASYNC); /* not as a mark */
  const char ph = has_own_end ? 'X' : tg__slice_phase(c->t, i);
  const int64_t start_ns = p ? p->start_ns[i] : s->start_ns[i], dur_ns = p ? p->dur_ns[i] : s->dur_ns[i];
  struct event ev = {
      .ph = ph,
      .has_dur = ph == 'X',
      .is_recorded = is_recorded(c, track),
      .slice = i,
      .cat = s->cat[i],
      .name = s->name[i],
      .args = s->args[i],
      .track = track,
      .place = tg__chrome_place(c->tracks, track, tg__chrome_slice_lane(c->tracks, track, i)),
      .ts_ns = start_ns + tg__chrome_shift(c->tracks, track),
      .dur_ns = dur_ns,
  };
  put_event(c, &ev, first);
  if (ev.is_recorded) put_flow(c, &ev);
  if (!p || has_own_end) return;
  ev.ph = ph == 'S' ? 'F' : 'e';
  ev.ts_ns += dur_ns;
  put_event(c, &ev, false);
}

static void put_mark(struct chrome *c, uint32_t i, bool first) {
  const struct tg__marks *m = &c->t->marks;
  const uint32_t track = m->track[i];
  const bool is_moved = c->predicted && c->predicted->mark_ns[i] != TG_NULL_INT;
  const int64_t ts_ns = is_moved ? c->predicted->mark_ns[i] : m->ts_ns[i];
  const struct event ev = {
      .ph = (char)m->ph[i],
      .is_recorded = is_recorded(c, track),
      .slice = TG_NONE,
      .cat = m->cat[i],
      .name = m->name[i],
      .args = m->args[i],
      .track = track,
      .place = tg__chrome_place(c->tracks, track, tg__chrome_mark_lane(c->tracks, i)),
      .ts_ns = ts_ns == TG_NULL_INT ? TG_NULL_INT : ts_ns + tg__chrome_shift(c->tracks, track),
  };
  put_event(c, &ev, first);
}

static bool is_on(const struct tg__track *track, uint32_t slice) { return slice - track->first < track->count; }

static void put_events(struct chrome *c, const struct tg__event *events, uint32_t count) {
  uint32_t track = 0; /* neighbours in a file are mostly neighbours on a track */
  for (uint32_t i = 0; i < count && c->out->err == TG_OK; i++) {
    if (events[i].is_mark) {
      put_mark(c, events[i].id, i == 0);
      continue;
    }
    if (!is_on(&c->t->tracks[track], events[i].id)) track = tg__slice_track(c->t, events[i].id);
    put_slice(c, events[i].id, track, i == 0);
  }
  tg__buffer_commit(&c->buffer);
}

/* ---- the document ---------------------------------------------------------------------------- */

/* ,"cat":"kernel","name":" once per category. */
static bool render_cats(struct chrome *c) {
  c->cats = tg__arena_get(&c->arena, ((size_t)c->t->cat_count + 1) * sizeof *c->cats);
  for (uint32_t i = 0; c->cats && i < c->t->cat_count; i++) {
    struct tg__out text = {0};
    if (c->t->cats[i].name != TG_NONE) {
      tg__out_text(&text, "\"cat\":\"");
      tg__json_body(&text, tg__name(c->t, c->t->cats[i].name));
      tg__out_text(&text, "\",");
    }
    tg__out_text(&text, "\"name\":\"");
    const char *copy = text.err ? NULL : tg__arena_copy(&c->arena, text.buf, text.len);
    c->cats[i] = (struct tg__str){copy, (uint32_t)text.len};
    tg__out_free(&text);
    if (!copy) return false;
  }
  return c->cats != NULL;
}

static bool has_member(const struct tg__rank *rank, uint32_t key) {
  for (size_t i = 0; i < rank->meta_count; i++) {
    if (rank->meta[i].key == key) return true;
  }
  return false;
}

static bool find_styles(struct chrome *c) {
  const struct tg__columns *t = c->t;
  c->styles = tg__alloc(((size_t)t->rank_count + 1) * sizeof *c->styles);
  if (!c->styles) return false;
  for (uint32_t r = 0; r < t->rank_count; r++)
    c->styles[r].overloads = t->ranks[r].is_recording && has_member(&t->ranks[r], TG__K_CAPTURE_OVERLOAD_NAMES);
  for (uint32_t k = 0; k < t->track_count; k++) {
    struct style *style = &c->styles[t->tracks[k].rank];
    for (uint32_t i = t->tracks[k].first; i < t->tracks[k].first + t->tracks[k].count && !(style->ts && style->dur);
         i++) {
      style->ts |= (t->slices.start_ns[i] + tg__chrome_shift(c->tracks, k)) % 1000 != 0;
      style->dur |= t->slices.dur_ns[i] % 1000 != 0;
    }
  }
  for (uint32_t i = 0; i < t->marks.count; i++) {
    const int64_t ns = t->marks.ts_ns[i];
    const uint32_t k = t->marks.track[i];
    if (ns != TG_NULL_INT && (ns + tg__chrome_shift(c->tracks, k)) % 1000) c->styles[t->tracks[k].rank].ts = true;
  }
  return true;
}

/* The members in front of (or behind) traceEvents. With several ranks the members of the first on the clock count for
 * all, without the number of that rank. */
static void put_members(struct chrome *c, const struct tg__rank *rank, bool after) {
  for (size_t i = 0; i < rank->meta_count; i++) {
    const struct tg__meta *m = &rank->meta[i];
    if (m->after != after || (c->merged && m->key == TG__K_DISTRIBUTED_INFO)) continue;
    if (c->predicted && tg__predicted_replaces(c->t, m->key)) continue;
    tg__out_text(c->out, after ? ",\n\"" : "\n\"");
    tg__json_body(c->out, tg__name(c->t, m->key));
    tg__out_text(c->out, "\":");
    tg__json_value(c->out, tg__name(c->t, m->raw));
    if (!after) tg__out_char(c->out, ',');
  }
}

static const struct tg__rank *speaker(const struct tg__columns *t, uint32_t rank) {
  if (rank != TG_NONE) return &t->ranks[rank];
  for (uint32_t r = 0; r < t->rank_count; r++) {
    if (t->ranks[r].clock_offset_ns == 0) return &t->ranks[r];
  }
  return &t->ranks[0];
}

static void put_document(struct chrome *c, uint32_t rank, const struct tg__event *events, uint32_t count) {
  const struct tg__rank *who = speaker(c->t, rank);
  const bool bare = who->bare_array && !c->merged && !c->predicted;
  if (!bare) {
    tg__out_char(c->out, '{');
    put_members(c, who, false);
    tg__out_text(c->out, "\n\"traceEvents\":");
  }
  tg__out_char(c->out, '[');
  put_events(c, events, count);
  if (c->overlay) tg__overlay_arrows(c->overlay, c->tracks, &c->buffer);
  if (c->counters) tg__counters_put(c->counters, c->tracks, &c->buffer);
  if (c->predicted) tg__predicted_events(c->predicted, c->tracks, c->out);
  tg__chrome_put_lane_names(c->tracks, c->out, count == 0);
  tg__out_text(c->out, "\n]");
  if (!bare) {
    put_members(c, who, true);
    if (c->predicted) tg__predicted_member(c->predicted, c->out);
    if (c->name && who->is_recording && !has_member(who, TG__K_TRACE_NAME)) {
      tg__out_text(c->out, ",\n\"traceName\":\"");
      tg__json_body(c->out, (struct tg__str){c->name, (uint32_t)strlen(c->name)});
      tg__out_char(c->out, '"');
    }
    tg__out_text(c->out, "\n}");
  }
  tg__out_char(c->out, '\n');
}

enum tg_err tg__chrome_trace(struct tg__columns *t, const struct tg__show_options *o, struct tg__out *out,
                             struct tg_error *e) {
  const char *lanes = tg__show_arg(o, "lanes");
  if (lanes && strcmp(lanes, "keep") != 0 && strcmp(lanes, "split") != 0) {
    return tg__fail(e, TG_USAGE, -1, "lanes=%s is unknown: it is split (the default) or keep", lanes);
  }
  uint32_t count = 0;
  struct tg__ask selection;
  struct tg__event *events = NULL;
  struct chrome c = {.t = t, .out = out, .buffer = {.out = out}, .name = tg__show_arg(o, "trace_name")};
  enum tg_err err = tg__show_begin(t, o, TG__COL_ALL, &selection, e);
  if (err) goto done;
  const uint32_t rank = t->rank_count == 1 ? 0 : selection.rank;
  c.merged = rank == TG_NONE;
  c.forms = tg__forms_new(t);
  c.tracks = tg__chrome_tracks_new(t, c.merged, lanes && strcmp(lanes, "keep") == 0);
  events = tg__walk_new(t, &selection, &count);
  err = tg__overlay_new(t, o, &c.overlay, e);
  if (!err) err = tg__marked_new(t, o, &c.marked, e);
  if (!err) err = tg__counters_new(t, o, &c.counters, e);
  if (!err) err = tg__predicted_new(t, o, &c.predicted, e);
  if (err) goto done;
  if (events && c.overlay) count = tg__overlay_filter(c.overlay, events, count);
  if (events && c.predicted) count = tg__predicted_filter(c.predicted, events, count);
  if (events && tg__recorded_any(t)) c.recorded = tg__recorded_new(t, events, count);
  if (!c.forms || !c.tracks || !events || (!c.recorded && tg__recorded_any(t)) || !render_cats(&c) ||
      !find_styles(&c)) {
    err = tg__no_memory(e, "preparing the export");
    goto done;
  }
  put_document(&c, rank, events, count);
  err = tg__show_end(out, e);
done:
  tg__ask_end(&selection);
  tg__free(events);
  tg__chrome_tracks_free(c.tracks);
  tg__recorded_free(c.recorded);
  tg__overlay_free(c.overlay);
  tg__marked_free(c.marked);
  tg__counters_free(c.counters);
  tg__predicted_free(c.predicted);
  tg__free(c.styles);
  tg__forms_free(c.forms);
  tg__arena_free(&c.arena);
  return err;
}
