/* Under which pid and tid an event is written. Usually its own; sub-lanes get a tid beside it, and when several
 * ranks share one document their pids are moved apart. */
#include "show/chrome_track.h"

static const int64_t TID_STEP = 1000000;  /* stream 7, lane 2 → tid 2000007 */
static const int64_t PID_STEP = 10000000; /* above Linux's largest pid, 4 194 304 */

struct place {
  struct tg__str text; /* ,"pid":1,"tid":2 */
};
struct lane_name {
  uint32_t track;
  unsigned lane;
};
struct tg__chrome_tracks {
  const struct tg__columns *t;
  bool merged, keep, failed;
  struct place **places;    /* by track, then lane */
  uint16_t **lanes;         /* by track, then slice from its first on; NULL where everything nests */
  int64_t *pids;            /* as written; string ids stay */
  struct tg__map used_pids; /* number as written → first track that has it */
  struct tg__map used_tids; /* hash of pid and tid as written → 1 */
  struct tg__map ends;      /* hash of track and end of begin/end slices in sub-lanes → lane */
  struct lane_name *names;
  size_t name_count, name_cap;
  struct tg__arena arena;
};

static uint64_t pair_hash(int64_t a, int64_t b) {
  const int64_t both[2] = {a, b};
  return tg__hash(both, sizeof both);
}

/* ---- pids ------------------------------------------------------------------------------------ */

static bool same_process(const struct tg__track *a, const struct tg__track *b) {
  return a->rank == b->rank && a->pid == b->pid;
}

static bool choose_pid(struct tg__chrome_tracks *c, uint32_t k) {
  const struct tg__track *const track = &c->t->tracks[k];
  c->pids[k] = track->pid;
  if (track->pid_is_text || !c->merged) return true;
  int64_t pid = track->pid;
  for (unsigned tries = 0; tries <= c->t->rank_count; tries++) {
    const uint32_t owner = tg__map_get(&c->used_pids, (uint64_t)pid);
    if (owner == TG_NONE || same_process(&c->t->tracks[owner], track)) {
      c->pids[k] = pid;
      return owner != TG_NONE || tg__map_put(&c->used_pids, (uint64_t)pid, k);
    }
    pid = (int64_t)((uint64_t)pid + (uint64_t)PID_STEP);
  }
  return true;
}

/* ---- sub-lanes ------------------------------------------------------------------------------- */

/* Async slices are distinguished by their id, not by nesting. */
static bool splits(const struct tg__chrome_tracks *c, const struct tg__track *track) {
  return !c->keep && track->lanes > 1 && track->kind != TG__TRACK_ASYNC;
}

unsigned tg__chrome_slice_lane(const struct tg__chrome_tracks *c, uint32_t track, uint32_t slice) {
  return c->lanes[track] ? c->lanes[track][slice - c->t->tracks[track].first] : 0;
}

/* A flow's end is tied to the slice that starts with it, so it must go where that slice went. */
static unsigned flow_lane(const struct tg__chrome_tracks *c, uint32_t k, uint32_t mark) {
  const struct tg__columns *t = c->t;
  const struct tg__track *const track = &t->tracks[k];
  const int64_t ns = t->marks.ts_ns[mark];
  struct tg__val id;
  const bool has_id = tg__arg(t, t->marks.args[mark], TG__K_ID, true, &id) && id.kind == TG__KIND_INT;
  const uint32_t end = track->first + track->count;
  unsigned lane = 0;
  for (uint32_t i = tg__first_slice_from(t, tg__slices_of(track), ns), seen = 0; i < end && t->slices.start_ns[i] == ns;
       i++, seen++) {
    const unsigned own = tg__chrome_slice_lane(c, k, i);
    if (!seen) lane = own;
    if (has_id && tg__arg_int(t, t->slices.args[i], TG__K_CORRELATION, -1) == id.i) return own;
  }
  return lane;
}

unsigned tg__chrome_mark_lane(const struct tg__chrome_tracks *c, uint32_t mark) {
  const uint32_t k = c->t->marks.track[mark];
  if (!c->lanes[k] || c->t->marks.ts_ns[mark] == TG_NULL_INT) return 0;
  switch (c->t->marks.ph[mark]) {
  case 's':
  case 't':
  case 'f':
    return flow_lane(c, k, mark);
  case 'E': {
    const uint32_t lane = tg__map_get(&c->ends, pair_hash(k, c->t->marks.ts_ns[mark]));
    return lane == TG_NONE ? 0 : lane;
  }
  default:
    return 0;
  }
}

/* A begin in a sub-lane takes its end along. */
static bool note_ends(struct tg__chrome_tracks *c, uint32_t k) {
  const struct tg__track *const track = &c->t->tracks[k];
  for (uint32_t i = track->first; c->lanes[k] && i < track->first + track->count; i++) {
    const unsigned lane = tg__chrome_slice_lane(c, k, i);
    if (!(c->t->slices.flags[i] & TG__F_BEGIN_END) || !lane) continue;
    if (!tg__map_put(&c->ends, pair_hash(k, tg__slice_end(c->t, i)), lane)) return false;
  }
  return true;
}

/* ---- places ---------------------------------------------------------------------------------- */

/* Numbers the reader could not hold are kept as their digits. So many digits had no quotes in the file. */
static bool is_long_number(struct tg__str s) {
  enum { DIGITS = 19 };
  uint32_t i = s.len && s.ptr[0] == '-';
  if (s.len < i + DIGITS || s.ptr[i] == '0') return false;
  while (i < s.len && s.ptr[i] >= '0' && s.ptr[i] <= '9') i++;
  return i == s.len;
}

static void put_chrome_id(const struct tg__chrome_tracks *c, struct tg__out *out, bool is_text, int64_t v,
                          const char *before, const char *after) {
  if (!is_text) {
    tg__out_int(out, v);
    return;
  }
  if (!*before && !*after && is_long_number(tg__name(c->t, (uint32_t)v))) {
    tg__out_bytes(out, tg__name(c->t, (uint32_t)v).ptr, tg__name(c->t, (uint32_t)v).len);
    return;
  }
  tg__out_char(out, '"');
  tg__out_text(out, before);
  tg__json_body(out, tg__name(c->t, (uint32_t)v));
  tg__out_text(out, after);
  tg__out_char(out, '"');
}

static bool has_id(bool is_text, int64_t v) { return !is_text || v != TG__K_NO_ID; }

/* A free number near the tid of the track. */
static int64_t lane_tid(struct tg__chrome_tracks *c, uint32_t k, unsigned lane) {
  uint64_t tid = (uint64_t)c->t->tracks[k].tid;
  for (unsigned i = 0; i < lane || tg__map_get(&c->used_tids, pair_hash(c->pids[k], (int64_t)tid)) != TG_NONE; i++) {
    tid += (uint64_t)TID_STEP;
  }
  if (!tg__map_put(&c->used_tids, pair_hash(c->pids[k], (int64_t)tid), 1)) c->failed = true;
  return (int64_t)tid;
}

static struct tg__str render_place(struct tg__chrome_tracks *c, uint32_t k, unsigned lane) {
  const struct tg__track *const track = &c->t->tracks[k];
  char before[32] = "", after[32] = "";
  if (c->merged && track->rank)
    snprintf(before, sizeof before, "rank %lld: ", (long long)c->t->ranks[track->rank].number);
  if (lane) snprintf(after, sizeof after, " (overlap %u)", lane);
  struct tg__out text = {0};
  if (has_id(track->pid_is_text, track->pid)) {
    tg__out_text(&text, ",\"pid\":");
    put_chrome_id(c, &text, track->pid_is_text, c->pids[k], before, "");
  }
  if (has_id(track->tid_is_text, track->tid)) {
    tg__out_text(&text, ",\"tid\":");
    put_chrome_id(c, &text, track->tid_is_text, lane && !track->tid_is_text ? lane_tid(c, k, lane) : track->tid, "",
                  after);
  }
  const char *copy = text.err ? NULL : tg__arena_copy(&c->arena, text.buf ? text.buf : "", text.len);
  if (!copy) c->failed = true;
  const struct tg__str place = {copy ? copy : "", copy ? (uint32_t)text.len : 0};
  tg__out_free(&text);
  return place;
}

struct tg__str tg__chrome_place(struct tg__chrome_tracks *c, uint32_t track, unsigned lane) {
  struct place *const place = &c->places[track][lane];
  if (TG_LIKELY(place->text.ptr != NULL)) return place->text;
  place->text = render_place(c, track, lane);
  void *names = c->names;
  if (lane && tg__grow(&names, &c->name_cap, c->name_count + 1, sizeof *c->names)) {
    c->names = names;
    c->names[c->name_count++] = (struct lane_name){track, lane};
  }
  return place->text;
}

int64_t tg__chrome_shift(const struct tg__chrome_tracks *c, uint32_t track) {
  return c->merged ? c->t->ranks[c->t->tracks[track].rank].clock_offset_ns : 0;
}

void tg__chrome_put_lane_names(const struct tg__chrome_tracks *c, struct tg__out *out, bool first) {
  if (c->failed && !out->err) out->err = TG_MEMORY;
  for (size_t i = 0; i < c->name_count; i++) {
    const struct lane_name *n = &c->names[i];
    const struct tg__track *track = &c->t->tracks[n->track];
    const struct tg__str place = c->places[n->track][n->lane].text;
    tg__out_text(out, first && i == 0 ? "\n{\"ph\":\"M\",\"name\":\"thread_name\""
                                      : ",\n{\"ph\":\"M\",\"name\":\"thread_name\"");
    tg__out_bytes(out, place.ptr, place.len);
    tg__out_text(out, ",\"args\":{\"name\":\"");
    if (track->name != TG_NONE) {
      tg__json_body(out, tg__name(c->t, track->name));
    } else {
      tg__out_text(out, track->kind == TG__TRACK_DEVICE ? "stream" : "thread");
    }
    tg__out_format(out, " (overlap %u)\"}}", n->lane);
  }
}

/* ---- life ------------------------------------------------------------------------------------ */

static bool prepare_tracks(struct tg__chrome_tracks *c) {
  const struct tg__columns *t = c->t;
  c->places = tg__alloc(((size_t)t->track_count + 1) * sizeof *c->places);
  c->pids = tg__alloc(((size_t)t->track_count + 1) * sizeof *c->pids);
  c->lanes = tg__alloc(((size_t)t->track_count + 1) * sizeof *c->lanes);
  if (!c->places || !c->pids || !c->lanes) return false;
  for (uint32_t k = 0; k < t->track_count; k++) {
    const bool split = splits(c, &t->tracks[k]);
    const size_t bytes = (split ? TG__CHROME_LANES : 1) * sizeof **c->places;
    c->places[k] = tg__arena_get(&c->arena, bytes);
    if (split) c->lanes[k] = tg__chrome_lanes(t, &t->tracks[k]);
    if (!c->places[k] || (split && !c->lanes[k]) || !choose_pid(c, k) || !note_ends(c, k)) return false;
    memset(c->places[k], 0, bytes);
    if (!tg__map_put(&c->used_tids, pair_hash(c->pids[k], t->tracks[k].tid), 1)) return false;
  }
  return true;
}

struct tg__chrome_tracks *tg__chrome_tracks_new(const struct tg__columns *t, bool merged, bool keep) {
  struct tg__chrome_tracks *c = tg__alloc(sizeof *c);
  if (!c) return NULL;
  *c = (struct tg__chrome_tracks){.t = t, .merged = merged, .keep = keep};
  if (prepare_tracks(c)) return c;
  tg__chrome_tracks_free(c);
  return NULL;
}

void tg__chrome_tracks_free(struct tg__chrome_tracks *c) {
  if (!c) return;
  for (uint32_t k = 0; c->lanes && k < c->t->track_count; k++) tg__free(c->lanes[k]);
  tg__free(c->lanes);
  tg__map_free(&c->used_pids);
  tg__map_free(&c->used_tids);
  tg__map_free(&c->ends);
  tg__free(c->names);
  tg__free(c->places);
  tg__free(c->pids);
  tg__arena_free(&c->arena);
  tg__free(c);
}
