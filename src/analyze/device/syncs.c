/* Answers the question "syncs": where the program makes the host wait for a device. */
#include "analyze/device/gaps.h"
#include "analyze/overview/steps.h"

struct sync {         /* all waits of a line, kind and operator */
  uint32_t where, op; /* a string of `places`; a string of the trace */
  enum tg__sync_kind kind;
  int64_t calls, in_steps, wait_ns, in_steps_ns, max_ns, idle_ns;
  uint32_t waits_for; /* device work, TG_NONE */
};
struct syncs {
  const struct tg__columns *t;
  const struct tg__ask *a;
  uint32_t rank;
  struct tg__breakdown steps;
  struct tg__gaps gaps;
  uint32_t *ends; /* device work, by end */
  size_t end_count, end_cap;
  struct tg__strings *places;
  struct tg__map index; /* (where, op, kind) → sync */
  struct sync *items;
  size_t count, cap;
  uint32_t last_unit; /* the operator or call that the wait before was in */
  struct sync *last;
  size_t last_gap;
  bool failed;
};

/* ---- what it waits for ----------------------------------------------------------------------- */

static bool is_less_end(uint32_t a, uint32_t b, const void *ctx) {
  const int64_t x = tg__slice_end(ctx, a), y = tg__slice_end(ctx, b);
  return x != y ? x < y : a < b;
}

static bool gather_ends(struct syncs *s) {
  TG__EACH (k, tg__tracks_of(&s->t->ranks[s->rank])) {
    if (s->t->tracks[k].kind != TG__TRACK_DEVICE) continue;
    TG__EACH (i, tg__slices_of(&s->t->tracks[k])) {
      if (!tg__class_is_device_work(tg__slice_class(s->t, i))) continue;
      if (!tg__grow((void **)&s->ends, &s->end_cap, s->end_count + 1, sizeof *s->ends)) return false;
      s->ends[s->end_count++] = i;
    }
  }
  return tg__sort_index(s->ends, s->end_count, is_less_end, s->t);
}

static uint32_t ended_before(const struct syncs *s, int64_t ns) {
  size_t low = 0;
  TG__PARTITION(low, s->end_count, i, tg__slice_end(s->t, s->ends[i]) <= ns);
  return low ? s->ends[low - 1] : TG_NONE;
}

/* The gap that is open at the end of a wait; SIZE_MAX. Those of a device lie by start. */
static size_t gap_at(const struct syncs *s, int64_t ns) {
  for (size_t from = 0, to; from < s->gaps.count; from = to) {
    const int64_t device = s->gaps.items[from].device;
    size_t past = from;
    TG__PARTITION(past, s->gaps.count, i, s->gaps.items[i].device <= device);
    to = past;
    size_t low = from;
    TG__PARTITION(low, to, i, s->gaps.items[i].start_ns <= ns);
    if (low > from && s->gaps.items[low - 1].end_ns > ns) return low - 1;
  }
  return SIZE_MAX;
}

/* ---- one wait -------------------------------------------------------------------------------- */

/* A copy from the device to pageable memory returns when it is done. */
static bool is_waiting_copy(const struct tg__columns *t, uint32_t copy) {
  return tg__slice_class(t, copy) == TG__CLASS_MEMCPY &&
         tg__str_contains(tg__name(t, t->slices.name[copy]), "Device -> Pageable");
}

static struct sync *sync_at(struct syncs *s, uint32_t where, uint32_t op, enum tg__sync_kind kind) {
  const uint64_t key = ((uint64_t)where << 37) ^ ((uint64_t)op << 5) ^ (uint64_t)kind;
  uint32_t *const slot = tg__map_slot(&s->index, key, TG_NONE);
  if (!slot) return NULL;
  if (*slot != TG_NONE) return &s->items[*slot];
  if (!tg__grow((void **)&s->items, &s->cap, s->count + 1, sizeof *s->items)) return NULL;
  *slot = (uint32_t)s->count;
  s->items[s->count] = (struct sync){.where = where, .op = op, .kind = kind, .waits_for = TG_NONE};
  return &s->items[s->count++];
}

/* The line of the program, a string of `places`; TG_NONE on no memory. */
static uint32_t where_of(struct syncs *s, uint32_t slice) {
  struct tg__out line = {0};
  tg__user_line(s->t, slice, &line);
  const uint32_t where = line.err ? TG_NONE : tg__strings_add(s->places, line.buf ? line.buf : "", (uint32_t)line.len);
  tg__out_free(&line);
  return where;
}

static struct sync *find_sync(struct syncs *s, uint32_t call, uint32_t unit, uint32_t ended) {
  const enum tg__sync_kind kind = tg__sync_kind_behind(s->t, call, ended);
  const uint32_t where = where_of(s, call);
  return where == TG_NONE ? NULL : sync_at(s, where, s->t->slices.name[unit], kind);
}

static bool is_in_step(const struct syncs *s, int64_t ns) {
  const size_t begun = s->steps.source == TG__STEPS_RECORDING ? 0 : tg__steps_begun(&s->steps, ns);
  return begun && ns < s->steps.steps[begun - 1].host_end_ns;
}

static void add_wait(struct syncs *s, uint32_t call) {
  const int64_t start = s->t->slices.start_ns[call], end = tg__slice_end(s->t, call), ns = end - start;
  const uint32_t unit = tg__sync_unit(s->t, call);
  const bool is_same = unit == s->last_unit && s->last, counts = is_in_step(s, start);
  const uint32_t ended = ended_before(s, end);
  struct sync *const x = is_same ? s->last : find_sync(s, call, unit, ended);
  s->last_unit = unit;
  s->last = x;
  s->failed |= !x;
  if (!x) return;
  x->calls += !is_same;
  x->in_steps += !is_same && counts;
  x->wait_ns += ns;
  x->in_steps_ns += counts ? ns : 0;
  if (ns >= x->max_ns) x->max_ns = ns, x->waits_for = ended;
  const size_t gap = gap_at(s, end);
  if (gap == SIZE_MAX || gap == s->last_gap) return;
  s->last_gap = gap;
  x->idle_ns += s->gaps.items[gap].end_ns - s->gaps.items[gap].start_ns;
}

/* Of a rank without a device. A print calls many operators. */
static void add_read(void *ctx, const struct tg__host_read *read) {
  struct syncs *const s = ctx;
  const struct tg__columns *const t = s->t;
  const int64_t ns = read->end_ns - read->start_ns;
  if (!tg__ask_has_slice(s->a, t, tg__slice_track(t, read->slice), read->slice)) return;
  const uint32_t where = where_of(s, read->slice);
  const uint32_t op = read->kind == TG__SYNC_PRINT ? TG_NONE : t->slices.name[read->slice];
  struct sync *const x = where == TG_NONE ? NULL : sync_at(s, where, op, read->kind);
  s->failed |= !x;
  if (!x) return;
  const bool counts = is_in_step(s, read->start_ns);
  x->calls++;
  x->in_steps += counts;
  x->wait_ns += ns;
  x->in_steps_ns += counts ? ns : 0;
  if (ns > x->max_ns) x->max_ns = ns;
}

/* Calls of the runtime that wait by their name, and those that made a copy which does. */
static bool *find_waiting_calls(const struct syncs *s) {
  const struct tg__extent run = tg__rank_slices(s->t, s->rank);
  bool *const waits = tg__alloc((size_t)(run.past - run.first) + 1);
  for (size_t i = 0; waits && i < s->end_count; i++) {
    const uint32_t call = is_waiting_copy(s->t, s->ends[i]) ? s->t->slices.cause[s->ends[i]] : TG_NONE;
    if (call != TG_NONE && call >= run.first && call < run.past) waits[call - run.first] = true;
  }
  return waits;
}

static void look_at_tracks(struct syncs *s) {
  const uint32_t first = tg__rank_slices(s->t, s->rank).first;
  bool *const waits = find_waiting_calls(s);
  s->failed |= !waits;
  TG__EACH (k, tg__tracks_of(&s->t->ranks[s->rank])) {
    const struct tg__track *const track = &s->t->tracks[k];
    s->last_unit = TG_NONE;
    if (s->failed || track->kind == TG__TRACK_DEVICE) continue;
    TG__EACH (i, tg__slices_of(track)) {
      const bool is_call = tg__slice_class(s->t, i) == TG__CLASS_RUNTIME && tg__ask_has_slice(s->a, s->t, k, i);
      if (is_call && (waits[i - first] || tg__call_waits(tg__name(s->t, s->t->slices.name[i])))) add_wait(s, i);
    }
  }
  tg__free(waits);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void put_sync(const struct syncs *s, const struct sync *x, struct tg_table *out) {
  const bool has_steps = s->steps.source != TG__STEPS_RECORDING && s->steps.count;
  const double steps = has_steps ? (double)s->steps.count : 1;
  tg__put_rank(out, s->t, s->rank);
  tg__put_text(out, tg__strings_get(s->places, x->where));
  tg__put_cstr(out, tg__sync_kind_names[x->kind]);
  tg__put_trace_text(out, s->t, x->op);
  tg__put_int(out, x->calls);
  tg__put_real_if(out, has_steps, (double)x->in_steps / steps);
  tg__put_int(out, x->wait_ns);
  tg__put_real_if(out, has_steps, (double)x->in_steps_ns / steps);
  tg__put_int(out, x->max_ns);
  tg__put_int(out, s->end_count ? x->idle_ns : TG_NULL_INT);
  tg__put_trace_text(out, s->t, x->waits_for == TG_NONE ? TG_NONE : s->t->slices.name[x->waits_for]);
}

static enum tg_err answer_of_rank(const struct tg__columns *t, const struct tg__ask *a, uint32_t rank,
                                  struct tg_table *out) {
  struct syncs s = {.t = t, .a = a, .rank = rank, .places = tg__strings_new(), .last_gap = SIZE_MAX};
  enum tg_err err = s.places ? tg__steps_breakdown(t, rank, TG__STEPS_DETECTED, &s.steps) : TG_MEMORY;
  if (!err) err = tg__gaps_find(t, rank, &s.gaps);
  if (!err && !gather_ends(&s)) err = TG_MEMORY;
  const bool has_device = s.end_count > 0;
  if (!err && has_device) look_at_tracks(&s);
  if (!err && !has_device && !tg__visit_host_reads(t, rank, add_read, &s)) err = TG_MEMORY;
  if (!err && s.failed) err = TG_MEMORY;
  for (size_t i = 0; !err && i < s.count; i++) put_sync(&s, &s.items[i], out);
  if (!has_device && s.count)
    tg__table_note(out,
                   "no device to wait for: where values of tensors are read, and the time of the operators that do; "
                   "what Python makes of them is not in it");
  if (s.places) tg__strings_free(s.places);
  tg__breakdown_free(&s.steps);
  tg__gaps_free(&s.gaps);
  tg__map_free(&s.index);
  tg__free(s.items);
  tg__free(s.ends);
  return err;
}

enum tg_err tg__answer_syncs(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                             struct tg_error *e) {
  for (uint32_t r = 0; r < t->rank_count; r++) {
    const enum tg_err err = tg__ask_has_rank(a, r) ? answer_of_rank(t, a, r, out) : TG_OK;
    if (err) return tg__no_memory(e, "looking for waits");
  }
  return TG_OK;
}
