/* view_tracks: everything with a place on the timeline, for the page with a server and without one. */
#include <inttypes.h>
#include <stdio.h>

#include "show/show.h"
#include "view/view.h"

static void put_digits(struct tg__jsonw *w, const char *key, int64_t v) { /* exact in a page, whatever its size */
  char text[24];
  snprintf(text, sizeof text, "%" PRId64, v);
  tg__json_key(w, key);
  tg__json_cstr(w, text);
}

static void put_int(struct tg__jsonw *w, const char *key, int64_t v) {
  tg__json_key(w, key);
  tg__json_int(w, v);
}

static void put_track_ranks(const struct tg__columns *t, struct tg__jsonw *w) {
  tg__json_key(w, "ranks");
  tg__json_open(w, '[');
  for (uint32_t r = 0; r < t->rank_count; r++) {
    tg__json_open(w, '{');
    tg__json_key(w, "number");
    if (t->ranks[r].number < 0)
      tg__json_null(w);
    else
      tg__json_int(w, t->ranks[r].number);
    tg__json_key(w, "path");
    tg__json_str(w, tg__name(t, t->ranks[r].path));
    put_digits(w, "offset_ns", t->ranks[r].clock_offset_ns);
    tg__json_close(w, '}');
  }
  tg__json_close(w, ']');
}

static void put_track_steps(const struct tg__view *v, struct tg__jsonw *w) {
  const struct tg__columns *const t = v->trace;
  tg__json_key(w, "steps");
  tg__json_open(w, '[');
  for (uint32_t i = 0; i < t->step_count; i++) {
    const struct tg__step *const s = &t->steps[i];
    const int64_t shift = tg__view_shift(v, s->rank);
    tg__json_open(w, '[');
    tg__json_int(w, s->number);
    tg__json_int(w, s->start_ns + shift);
    tg__json_int(w, s->end_ns + shift);
    tg__json_int(w, s->rank);
    tg__json_str(w, tg__name(t, s->name));
    tg__json_close(w, ']');
  }
  tg__json_close(w, ']');
}

/* An id as it is written: a number, or a text. */
static void put_json_id(const struct tg__columns *t, struct tg__out *out, bool is_text, int64_t token) {
  if (!is_text)
    tg__out_int(out, token);
  else {
    const struct tg__str s = tg__name(t, (uint32_t)token);
    tg__out_bytes(out, s.ptr, s.len);
  }
}

static void put_built(struct tg__jsonw *w, const char *key, struct tg__out *text) {
  tg__json_key(w, key);
  tg__json_str(w, (struct tg__str){text->len ? text->buf : "", (uint32_t)text->len});
  tg__out_free(text);
}

static void put_track_name(const struct tg__columns *t, const struct tg__track *track, struct tg__out *name) {
  if (track->name != TG_NONE && tg__name(t, track->name).len) {
    tg__out_bytes(name, tg__name(t, track->name).ptr, tg__name(t, track->name).len);
    return;
  }
  tg__out_text(name, track->kind == TG__TRACK_DEVICE ? "stream " : track->kind == TG__TRACK_CPU ? "thread " : "");
  if (track->kind == TG__TRACK_DEVICE)
    tg__out_int(name, track->stream);
  else
    put_json_id(t, name, track->tid_is_text, track->tid);
}

static void put_process(const struct tg__columns *t, const struct tg__track *track, struct tg__out *process) {
  if (track->process_name != TG_NONE)
    tg__out_bytes(process, tg__name(t, track->process_name).ptr, tg__name(t, track->process_name).len);
  if (process->len) tg__out_char(process, ' ');
  put_json_id(t, process, track->pid_is_text, track->pid);
}

static void put_names(const struct tg__columns *t, const struct tg__track *track, struct tg__jsonw *w) {
  struct tg__out name = {0}, process = {0};
  put_track_name(t, track, &name);
  put_process(t, track, &process);
  put_built(w, "name", &name);
  put_built(w, "process", &process);
}

/* How many rows each lane has. */
static void put_lanes(const struct tg__view *v, uint32_t track, struct tg__jsonw *w) {
  tg__json_key(w, "lanes");
  tg__json_open(w, '[');
  for (uint32_t row = v->first_row[track]; row < v->first_row[track + 1];) {
    const uint32_t first = row;
    while (row < v->first_row[track + 1] && v->rows[row].lane == v->rows[first].lane) row++;
    tg__json_int(w, row - first);
  }
  tg__json_close(w, ']');
}

static void put_track(const struct tg__view *v, uint32_t k, struct tg__jsonw *w) {
  static const char *const kinds[] = {
      [TG__TRACK_CPU] = "cpu", [TG__TRACK_DEVICE] = "device", [TG__TRACK_ASYNC] = "async", [TG__TRACK_OTHER] = "other"};
  const struct tg__track *const track = &v->trace->tracks[k];
  tg__json_open(w, '{');
  put_int(w, "track", k);
  tg__json_key(w, "kind");
  tg__json_cstr(w, kinds[track->kind]);
  put_int(w, "rank", track->rank);
  put_names(v->trace, track, w);
  if (track->kind == TG__TRACK_DEVICE) {
    put_int(w, "device", track->device);
    put_int(w, "stream", track->stream);
  }
  put_int(w, "slices", track->count);
  put_int(w, "row", v->first_row[k]);
  put_lanes(v, k, w);
  tg__json_close(w, '}');
}

/* ---- counters and instants --------------------------------------------------------------------------- */

static void put_series_name(const struct tg__columns *t, const struct tg__series *s, struct tg__jsonw *w) {
  static const char *const sizes[] = {
      [TG__SERIES_ALLOCATED] = " allocated", [TG__SERIES_RESERVED] = " reserved", [TG__SERIES_NET] = " taken"};
  char buffer[TG__DEVICE_NAME];
  struct tg__out name = {0};
  if (s->what == TG__SERIES_INSTANTS) {
    struct tg__out track = {0};
    put_track_name(t, &t->tracks[s->track], &track);
    tg__out_text(&name, track.len ? "instants of " : "instants");
    if (track.len) tg__out_bytes(&name, track.buf, track.len);
    tg__out_free(&track);
  } else if (s->what != TG__SERIES_COUNTER) {
    tg__out_text(&name, tg__memory_device_name(s->device.type, s->device.id, buffer));
    tg__out_text(&name, sizes[s->what]);
  } else {
    const struct tg__str text = tg__name(t, s->name), key = tg__name(t, s->key);
    const bool says_more = !tg__str_eq(text, key) && !tg__str_eq(key, TG_STR("value"));
    tg__out_bytes(&name, text.ptr, text.len);
    if (says_more) tg__out_text(&name, ": ");
    if (says_more) tg__out_bytes(&name, key.ptr, key.len);
  }
  put_built(w, "name", &name);
}

/* The name of a counter may end in its unit, as those of our own recordings do. */
static const char *unit_of_series(const struct tg__columns *t, const struct tg__series *s) {
  if (s->what != TG__SERIES_COUNTER) return "bytes";
  const struct tg__str name = tg__name(t, s->name);
  return tg__str_has_suffix(name, " bytes") ? "bytes" : tg__str_has_suffix(name, " %") ? "%" : "";
}

/* Numbers of tracks go on behind those of the trace. */
static void put_series(const struct tg__view *v, const struct tg__series *s, uint32_t i, struct tg__jsonw *w) {
  const struct tg__track *const track = &v->trace->tracks[s->track];
  const bool is_memory = s->what >= TG__SERIES_ALLOCATED && s->what <= TG__SERIES_NET;
  struct tg__out process = {0};
  tg__json_open(w, '{');
  put_int(w, "track", (int64_t)v->trace->track_count + i);
  tg__json_key(w, "kind");
  tg__json_cstr(w, s->what == TG__SERIES_INSTANTS ? "marks" : "counter");
  put_int(w, "rank", track->rank);
  put_series_name(v->trace, s, w);
  if (s->what == TG__SERIES_INSTANTS) put_process(v->trace, track, &process);
  if (!process.len)
    tg__out_text(&process, is_memory ? "device memory" : s->what == TG__SERIES_COUNTER ? "counters" : "instants");
  put_built(w, "process", &process);
  put_int(w, "slices", s->count);
  put_int(w, "row", (int64_t)v->row_count + i);
  tg__json_key(w, "lanes");
  tg__json_open(w, '[');
  tg__json_int(w, 1);
  tg__json_close(w, ']');
  if (s->what != TG__SERIES_INSTANTS) {
    tg__json_key(w, "unit");
    tg__json_cstr(w, unit_of_series(v->trace, s));
    tg__json_key(w, "min");
    tg__json_double(w, s->least);
    tg__json_key(w, "max");
    tg__json_double(w, s->most);
  }
  tg__json_close(w, '}');
}

static void put_series_of_rank(const struct tg__view *v, const struct tg__series_set *series, uint32_t rank,
                               struct tg__jsonw *w) {
  for (uint32_t i = 0; i < tg__series_count(series); i++) {
    const struct tg__series *const s = tg__series_at(series, i);
    if (v->trace->tracks[s->track].rank == rank) put_series(v, s, i, w);
  }
}

void tg__view_tracks_json(const struct tg__view *v, const struct tg__series_set *series, uint32_t generation,
                          struct tg__jsonw *w) {
  uint32_t *const order = tg__alloc((v->trace->track_count + 1) * sizeof *order);
  const uint32_t count = order ? tg__view_order(v, order) : TG_NONE;
  if (count == TG_NONE) {
    tg__free(order);
    w->out->err = TG_MEMORY;
    return;
  }
  tg__json_open(w, '{');
  put_int(w, "generation", generation);
  put_digits(w, "origin_ns", v->origin_ns);
  put_int(w, "end_ns", v->end_ns);
  put_int(w, "rows", (int64_t)v->row_count + tg__series_count(series));
  put_track_ranks(v->trace, w);
  put_track_steps(v, w);
  tg__json_key(w, "tracks");
  tg__json_open(w, '[');
  for (uint32_t i = 0, rank = 0; rank < v->trace->rank_count; rank++) {
    for (; i < count && v->trace->tracks[order[i]].rank == rank; i++) put_track(v, order[i], w);
    put_series_of_rank(v, series, rank, w);
  }
  tg__json_close(w, ']');
  tg__json_close(w, '}');
  tg__free(order);
}
