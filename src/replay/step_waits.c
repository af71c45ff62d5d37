/* step_waits: which work a call that synchronises waits for, and which work waits for an event.
 *
 * A record of the profiler (cuda_sync) says it. Without one the call's name does: a device is waited for as a whole, a
 * stream is the one of the thread's last launch, a copy is waited for by the call that made it. An event
 * without a record stands for the work that ended last during the call. The call did not wait for work that ends after
 * it. */
#include "replay/step_graph.h"

struct known {     /* the record of a call that waits */
  uint32_t record; /* slice */
  uint32_t source; /* work that the event stands for */
};
struct finder {
  struct tg__replay_graph *g;
  uint32_t *first;        /* by stream lane: its first work; and one more */
  struct tg__map calls;   /* correlation → call */
  struct tg__map of_call; /* call → position in known */
  struct known *known;
  size_t known_count, known_cap;
};

/* ---- which work is the last ------------------------------------------------------------------ */

/* The last work of a lane that was launched before ns. */
static uint32_t launched_before(const struct finder *f, uint32_t lane, int64_t ns) {
  size_t low = f->first[lane];
  const size_t past = f->first[lane + 1];
  TG__PARTITION(low, past, i, f->g->works[i].launched_ns < ns);
  return low > f->first[lane] ? (uint32_t)(low - 1) : TG_NONE;
}

/* The first work of a lane that was launched after ns. */
static uint32_t launched_after(const struct finder *f, uint32_t lane, int64_t ns) {
  size_t low = f->first[lane];
  const size_t past = f->first[lane + 1];
  TG__PARTITION(low, past, i, f->g->works[i].launched_ns <= ns);
  return low < past ? (uint32_t)low : TG_NONE;
}

/* The last work of a lane that ended up to ns. */
static uint32_t ended_before(const struct finder *f, uint32_t lane, int64_t ns) {
  size_t low = f->first[lane];
  const size_t past = f->first[lane + 1];
  TG__PARTITION(low, past, i, f->g->works[i].end_ns <= ns);
  return low > f->first[lane] ? (uint32_t)(low - 1) : TG_NONE;
}

static bool is_stream(const struct tg__replay_graph *g, uint32_t lane, int64_t device, int64_t stream) {
  const struct tg__track *const k = &g->t->tracks[g->lanes[lane].track];
  return k->device == device && k->stream == stream;
}

/* ---- waits ----------------------------------------------------------------------------------- */

static void add_wait(struct finder *f, uint32_t call, uint32_t target, uint32_t source) {
  struct tg__replay_graph *const g = f->g;
  if (source == TG_NONE) return;
  const int64_t let_go_ns = call == TG_NONE ? g->works[target].start_ns : tg__slice_end(g->t, call);
  if (g->works[source].end_ns > let_go_ns + TG__REPLAY_CLOCK_NS) {
    g->backward_edges += call == TG_NONE;
    return;
  }
  if (tg__grow(&g->waits, &g->wait_cap, g->wait_count + 1, sizeof *g->waits))
    g->waits[g->wait_count++] = (struct tg__replay_wait){call, target, source, false, 0};
  else
    g->failed = true;
}

static void wait_for_lanes(struct finder *f, uint32_t call, int64_t device, int64_t stream) {
  const struct tg__replay_graph *const g = f->g;
  for (uint32_t k = 0; k < g->device_lanes; k++)
    if (device < 0 || is_stream(g, k, device, stream))
      add_wait(f, call, TG_NONE, launched_before(f, k, g->t->slices.start_ns[call]));
}

static void wait_for_what_ended(struct finder *f, uint32_t call) {
  const struct tg__replay_graph *const g = f->g;
  uint32_t best = TG_NONE;
  for (uint32_t k = 0; k < g->device_lanes; k++) {
    const uint32_t work = ended_before(f, k, tg__slice_end(g->t, call));
    if (work == TG_NONE || g->works[work].end_ns <= g->t->slices.start_ns[call]) continue;
    if (best == TG_NONE || g->works[work].end_ns > g->works[best].end_ns) best = work;
  }
  add_wait(f, call, TG_NONE, best);
}

/* By the call's name. last: work of the thread's last launch. */
static void wait_by_name(struct finder *f, uint32_t call, unsigned name, uint32_t last) {
  const struct tg__replay_graph *const g = f->g;
  if (name & TG__REPLAY_NAME_COPY) {
    const uint32_t own = g->work_of[call - g->slices.first];
    if (own != TG_NONE && tg__slice_class(g->t, g->works[own].slice) == TG__CLASS_MEMCPY)
      add_wait(f, call, TG_NONE, own);
  } else if (name & TG__REPLAY_NAME_DEVICE_SYNC) {
    wait_for_lanes(f, call, -1, -1);
  } else if (name & TG__REPLAY_NAME_STREAM_SYNC && last != TG_NONE) {
    const struct tg__track *const k = &g->t->tracks[g->lanes[g->works[last].lane].track];
    wait_for_lanes(f, call, k->device, k->stream);
  } else {
    wait_for_what_ended(f, call);
  }
}

/* ---- records --------------------------------------------------------------------------------- */

static bool has_record_name(const struct tg__columns *t, uint32_t slice, const char *name) {
  const struct tg__str s = tg__name(t, t->slices.name[slice]);
  return s.len == strlen(name) && memcmp(s.ptr, name, s.len) == 0;
}

/* The work that an event stands for: the last of its stream when it was recorded. */
static uint32_t event_source(const struct finder *f, uint32_t record) {
  const struct tg__replay_graph *const g = f->g;
  const struct tg__columns *const t = g->t;
  const int64_t id = tg__arg_int(t, t->slices.args[record], TG__K_WAIT_ON_RECORD, -1);
  const int64_t stream = tg__arg_int(t, t->slices.args[record], TG__K_WAIT_ON_STREAM, -1);
  const int64_t device = t->tracks[tg__slice_track(t, record)].device;
  const uint32_t call = t->slices.cause[record];
  uint32_t best = TG_NONE;
  if (id < 0 || stream < 0 || call < g->slices.first || call >= g->slices.past ||
      tg__arg_int(t, t->slices.args[call], TG__K_CORRELATION, -1) != id)
    return TG_NONE;
  for (uint32_t k = 0; k < g->device_lanes; k++) {
    const uint32_t work = is_stream(g, k, device, stream) ? launched_before(f, k, t->slices.start_ns[call]) : TG_NONE;
    if (work != TG_NONE && (best == TG_NONE || g->works[work].end_ns > g->works[best].end_ns)) best = work;
  }
  return best;
}

static void take_record(struct finder *f, uint32_t record, uint32_t track) {
  struct tg__replay_graph *const g = f->g;
  const struct tg__columns *const t = g->t;
  const int64_t id = tg__arg_int(t, t->slices.args[record], TG__K_CORRELATION, -1);
  const uint32_t call = id < 0 ? TG_NONE : tg__map_get(&f->calls, (uint64_t)id);
  if (call == TG_NONE) return;
  if (has_record_name(t, record, "Stream Wait Event")) {
    const uint32_t source = event_source(f, record);
    for (uint32_t k = 0; source != TG_NONE && k < g->device_lanes; k++) {
      if (!is_stream(g, k, t->tracks[track].device, t->tracks[track].stream) || k == g->works[source].lane) continue;
      const uint32_t target = launched_after(f, k, t->slices.start_ns[call]);
      if (target != TG_NONE) add_wait(f, TG_NONE, target, source);
    }
    return;
  }
  if (!tg__grow(&f->known, &f->known_cap, f->known_count + 1, sizeof *f->known) ||
      !tg__map_put(&f->of_call, call, (uint32_t)f->known_count)) {
    g->failed = true;
    return;
  }
  f->known[f->known_count++] = (struct known){record, event_source(f, record)};
}

static void wait_by_record(struct finder *f, uint32_t call, const struct known *k) {
  const struct tg__columns *const t = f->g->t;
  const struct tg__track *const track = &t->tracks[tg__slice_track(t, k->record)];
  if (has_record_name(t, k->record, "Event Sync"))
    add_wait(f, call, TG_NONE, k->source);
  else if (has_record_name(t, k->record, "Stream Sync"))
    wait_for_lanes(f, call, track->device, track->stream);
  else
    wait_for_lanes(f, call, -1, -1);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static bool can_wait(struct tg__str name) {
  return tg__str_contains(name, "ynchronize") || tg__str_contains(name, "WaitEvent");
}

static bool has_records(const struct tg__replay_graph *g) {
  TG__EACH (i, g->slices)
    if (tg__slice_class(g->t, i) == TG__CLASS_SYNC) return true;
  return false;
}

static void read_records(struct finder *f) {
  struct tg__replay_graph *const g = f->g;
  const struct tg__columns *const t = g->t;
  if (!has_records(g)) return;
  TG__EACH (i, g->slices) {
    if (tg__slice_class(t, i) != TG__CLASS_RUNTIME || !can_wait(tg__name(t, t->slices.name[i]))) continue;
    const int64_t id = tg__arg_int(t, t->slices.args[i], TG__K_CORRELATION, -1);
    if (id >= 0 && !tg__map_put(&f->calls, (uint64_t)id, i)) g->failed = true;
  }
  TG__EACH (k, tg__tracks_of(&t->ranks[g->rank]))
    TG__EACH (i, tg__slices_of(&t->tracks[k]))
      if (tg__slice_class(t, i) == TG__CLASS_SYNC) take_record(f, i, k);
}

static void look_at_calls(struct finder *f, uint32_t track) {
  struct tg__replay_graph *const g = f->g;
  const struct tg__columns *const t = g->t;
  enum {
    WAITS =
        TG__REPLAY_NAME_DEVICE_SYNC | TG__REPLAY_NAME_STREAM_SYNC | TG__REPLAY_NAME_EVENT_SYNC | TG__REPLAY_NAME_COPY
  };
  uint32_t last = TG_NONE;
  TG__EACH (i, tg__slices_of(&t->tracks[track])) {
    if (tg__slice_class(t, i) != TG__CLASS_RUNTIME || t->slices.start_ns[i] < g->start_ns) continue;
    const unsigned name = tg__replay_name(g, t->slices.name[i]);
    const uint32_t known = tg__map_get(&f->of_call, i);
    if (known != TG_NONE)
      wait_by_record(f, i, &f->known[known]);
    else if (name & WAITS)
      wait_by_name(f, i, name, last);
    if (g->work_of[i - g->slices.first] != TG_NONE) last = g->work_of[i - g->slices.first];
  }
}

/* Waits of works first, by target; then those of calls, by call. */
static bool wait_is_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__replay_wait *x = &((const struct tg__replay_wait *)ctx)[a],
                               *y = &((const struct tg__replay_wait *)ctx)[b];
  if ((x->call == TG_NONE) != (y->call == TG_NONE)) return x->call == TG_NONE;
  if (x->call == TG_NONE) return x->target != y->target ? x->target < y->target : a < b;
  return x->call != y->call ? x->call < y->call : a < b;
}

void tg__replay_find_waits(struct tg__replay_graph *g) {
  struct finder f = {.g = g, .first = tg__alloc(((size_t)g->stream_count + 2) * sizeof *f.first)};
  if (!f.first) g->failed = true;
  for (size_t i = 0, k = 0; f.first && i <= g->work_count; i++)
    for (; k <= (i < g->work_count ? g->works[i].lane : g->stream_count); k++) f.first[k] = (uint32_t)i;
  if (!g->failed && g->work_count) {
    read_records(&f);
    TG__EACH (k, tg__tracks_of(&g->t->ranks[g->rank]))
      if (g->t->tracks[k].kind != TG__TRACK_DEVICE && !g->failed) look_at_calls(&f, k);
  }
  if (!g->failed) tg__replay_find_full_queues(g);
  if (g->wait_count && !g->failed &&
      !tg__sort_items((void **)&g->waits, g->wait_count, sizeof *g->waits, wait_is_before, g->waits))
    g->failed = true;
  g->wait_cap = g->wait_count + 1;
  tg__free(f.first);
  tg__free(f.known);
  tg__map_free(&f.calls);
  tg__map_free(&f.of_call);
}
