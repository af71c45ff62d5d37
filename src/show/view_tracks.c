/* view_tracks: everything with a place on the timeline, for the page with a server and without one. */
#include <inttypes.h>
#include <stdio.h>

#include "show/show.h"

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

static void put_names(const struct tg__columns *t, const struct tg__track *track, struct tg__jsonw *w) {
  struct tg__out name = {0}, process = {0};
  if (track->name != TG_NONE && tg__name(t, track->name).len)
    tg__out_bytes(&name, tg__name(t, track->name).ptr, tg__name(t, track->name).len);
  else {
    tg__out_text(&name, track->kind == TG__TRACK_DEVICE ? "stream " : track->kind == TG__TRACK_CPU ? "thread " : "");
    if (track->kind == TG__TRACK_DEVICE)
      tg__out_int(&name, track->stream);
    else
      put_json_id(t, &name, track->tid_is_text, track->tid);
  }
  if (track->process_name != TG_NONE)
    tg__out_bytes(&process, tg__name(t, track->process_name).ptr, tg__name(t, track->process_name).len);
  if (process.len) tg__out_char(&process, ' ');
  put_json_id(t, &process, track->pid_is_text, track->pid);
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

void tg__view_tracks_json(const struct tg__view *v, uint32_t generation, struct tg__jsonw *w) {
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
  put_int(w, "rows", v->row_count);
  put_track_ranks(v->trace, w);
  put_track_steps(v, w);
  tg__json_key(w, "tracks");
  tg__json_open(w, '[');
  for (uint32_t i = 0; i < count; i++) put_track(v, order[i], w);
  tg__json_close(w, ']');
  tg__json_close(w, '}');
  tg__free(order);
}
