/* build: the records of one file become the columns of one rank.
 *
 * Records arrive in file order; slices must lie together by track. Two passes: count the slices of every track, then
 * move each record to its track's next place, releasing the record's pages on the way, so that the peak is about one
 * copy of the events. */
#include "trace/import.h"
#include "trace/store.h"

#include <assert.h>
#include <stdlib.h>

/* A (pid, tid) may have several tracks: of slices as such, of asynchronous ones, which overlap freely, and of device
 * work where a thread of the host goes by the same numbers: a program is process 1 of its container, and device 1 is
 * "process" 1 as well. */
enum side { PLAIN, ASYNC, DEVICE, SIDES };

static bool is_async_begin(uint8_t ph) { return ph == 'b' || ph == 'S'; }
static bool is_slice(const struct tg__record *r) {
  if (r->ts_ns == TG_NULL_INT) return false;
  return (r->ph == 'X' && r->dur_ns != TG_NULL_INT) || r->ph == 'B' || is_async_begin(r->ph);
}

static enum tg_err grow_columns(struct tg__build *b, uint64_t slices, uint64_t marks) {
  for (size_t c = 0; c < TG__COLUMN_COUNT; c++) {
    const struct tg__stored_column *info = &tg__stored_columns[c];
    const uint64_t rows = info->of_marks ? marks : slices;
    if (!tg__pages_grow(tg__column_place(b->trace, info), &b->column_bytes[c], (size_t)(rows ? rows : 1) * info->width))
      return TG_MEMORY;
  }
  return TG_OK;
}

void tg__build_hand_over(struct tg__build *b) {
  struct tg__columns *t = b->trace;
  for (size_t c = 0; c < TG__COLUMN_COUNT; c++) {
    void **place = tg__column_place(t, &tg__stored_columns[c]);
    if (*place && !tg__store_adopt(t->store, *place, b->column_bytes[c])) {
      tg__pages_drop(*place, b->column_bytes[c]);
      *place = NULL;
    }
  }
}

/* ---- tracks ---------------------------------------------------------------------------------- */

struct plan {           /* for one file; slot: SIDES × number in im->shared.tracks + side */
  uint32_t *track_of;   /* by slot: number in trace, TG_NONE until met */
  uint32_t *met, *held; /* slots in the order in which they were met; by slot: slices */
  uint8_t *has_host;    /* by number in im->shared.tracks: is there a slice of the host? */
  size_t met_count;
  uint32_t *next; /* per track of this rank: where its next slice goes */
  uint32_t slices, marks;
};

static uint32_t slot_of(const struct tg__columns *t, const struct tg__record *r) {
  enum side side = PLAIN;
  if (is_slice(r) && is_async_begin(r->ph))
    side = ASYNC;
  else if (r->ph == 'X' && is_slice(r) && tg__class_is_device_side((enum tg__class)t->cats[r->cat].cls))
    side = DEVICE;
  return r->track * SIDES + side;
}

static enum tg_err add_track_to_build(struct tg__build *b, const struct tg__track_key *key, uint32_t rank, bool async) {
  struct tg__columns *t = b->trace;
  if (!tg__grow((void **)&t->tracks, &b->track_cap, t->track_count + 1u, sizeof *t->tracks)) return TG_MEMORY;
  t->tracks[t->track_count++] = (struct tg__track){.rank = rank,
                                                   .kind = async ? TG__TRACK_ASYNC : TG__TRACK_OTHER,
                                                   .pid_is_text = key->pid_is_text,
                                                   .tid_is_text = key->tid_is_text,
                                                   .pid = key->pid,
                                                   .tid = key->tid,
                                                   .device = -1,
                                                   .stream = -1,
                                                   .process_name = TG_NONE,
                                                   .name = TG_NONE,
                                                   .labels = TG_NONE,
                                                   .sort_index = TG_NULL_INT,
                                                   .lanes = 1};
  return TG_OK;
}

/* Count what goes where. */
static enum tg_err count_records(const struct tg__columns *t, const struct tg__import *im, struct plan *plan,
                                 struct tg_error *e) {
  for (size_t s = 0; s < im->segment_count; s++)
    for (size_t i = 0; i < im->segments[s].count; i++) {
      const struct tg__record *r = &im->segments[s].records[i];
      const uint32_t slot = slot_of(t, r);
      if (plan->track_of[slot] == TG_NONE) {
        plan->track_of[slot] = 0;
        plan->met[plan->met_count++] = slot;
      }
      if (is_slice(r)) {
        plan->held[slot]++, plan->slices++;
        plan->has_host[r->track] |= slot % SIDES == PLAIN && tg__class_is_host((enum tg__class)t->cats[r->cat].cls);
      } else
        plan->marks++;
    }
  if ((uint64_t)t->slices.count + plan->slices >= TG_NONE || (uint64_t)t->marks.count + plan->marks >= TG_NONE)
    return tg__fail(e, TG_UNSUPPORTED, -1, "more than 4 billion events in one trace: open its files one by one");
  return TG_OK;
}

/* Number the tracks by first appearance. Device work has one of its own only beside slices of the host. */
static enum tg_err number_tracks(struct tg__build *b, const struct tg__import *im, uint32_t rank, struct plan *plan) {
  struct tg__columns *t = b->trace;
  for (size_t k = 0; k < plan->met_count; k++) plan->track_of[plan->met[k]] = TG_NONE;
  for (size_t k = 0; k < plan->met_count; k++) {
    const uint32_t slot = plan->met[k], key = slot / SIDES;
    const uint32_t home = slot % SIDES == DEVICE && !plan->has_host[key] ? key * SIDES + PLAIN : slot;
    if (plan->track_of[home] == TG_NONE) {
      plan->track_of[home] = t->track_count;
      if (add_track_to_build(b, &im->shared.tracks[key], rank, slot % SIDES == ASYNC) != TG_OK) return TG_MEMORY;
    }
    plan->track_of[slot] = plan->track_of[home];
    t->tracks[plan->track_of[home]].count += plan->held[slot];
  }
  return TG_OK;
}

static void move_record(struct tg__columns *t, const struct tg__record *r, const struct plan *plan,
                        uint32_t first_track) {
  if (is_slice(r)) {
    static const uint8_t flag_of[128] = {
        ['B'] = TG__F_BEGIN_END, ['b'] = TG__F_ASYNC, ['S'] = TG__F_ASYNC | TG__F_LEGACY};
    const uint32_t track = plan->track_of[slot_of(t, r)];
    const uint32_t at = plan->next[track - first_track]++;
    const uint8_t flags = flag_of[r->ph & 127];
    t->slices.start_ns[at] = r->ts_ns;
    t->slices.dur_ns[at] = flags ? 0 : r->dur_ns;
    t->slices.name[at] = r->name;
    t->slices.args[at] = r->args;
    t->slices.cat[at] = r->cat;
    t->slices.flags[at] = r->flags | flags;
    return;
  }
  const uint32_t at = t->marks.count++;
  t->marks.ts_ns[at] = r->ts_ns;
  t->marks.name[at] = r->name;
  t->marks.args[at] = r->args;
  t->marks.track[at] = plan->track_of[slot_of(t, r)];
  t->marks.cat[at] = r->cat;
  t->marks.ph[at] = r->ph;
}

static enum tg_err move_records(struct tg__build *b, struct tg__import *im, struct plan *plan, uint32_t first_track) {
  struct tg__columns *t = b->trace;
  uint32_t at = t->slices.count;
  for (uint32_t k = first_track; k < t->track_count; k++) {
    t->tracks[k].first = plan->next[k - first_track] = at;
    at += t->tracks[k].count;
  }
  if (grow_columns(b, (uint64_t)t->slices.count + plan->slices, (uint64_t)t->marks.count + plan->marks) != TG_OK)
    return TG_MEMORY;
  for (size_t s = 0; s < im->segment_count; s++) {
    struct tg__segment *seg = &im->segments[s];
    for (size_t i = 0; i < seg->count; i++) move_record(t, &seg->records[i], plan, first_track);
    tg__pages_drop(seg->records, seg->bytes);
    *seg = (struct tg__segment){0};
  }
  t->slices.count += plan->slices;
  return TG_OK;
}

static enum tg_err spread(struct tg__build *b, struct tg__import *im, uint32_t rank, struct tg_error *e) {
  struct tg__columns *t = b->trace;
  const uint32_t first_track = t->track_count;
  const size_t keys = im->shared.track_count + 1, slots = keys * SIDES;
  uint32_t *const numbers = tg__alloc(4 * slots * sizeof *numbers);
  struct plan plan = {.has_host = tg__alloc(keys)};
  enum tg_err err = TG_MEMORY;
  if (numbers && plan.has_host) {
    plan.track_of = numbers, plan.met = numbers + slots, plan.held = numbers + 2 * slots,
    plan.next = numbers + 3 * slots;
    memset(plan.track_of, 0xff, slots * sizeof *numbers);
    err = count_records(t, im, &plan, e);
    if (err == TG_OK) err = number_tracks(b, im, rank, &plan);
    if (err == TG_OK) err = move_records(b, im, &plan, first_track);
  }
  if (err == TG_MEMORY) tg__no_memory(e, "building the tracks and columns");
  t->ranks[rank].first_track = first_track;
  t->ranks[rank].track_count = t->track_count - first_track;
  tg__free(numbers);
  tg__free(plan.has_host);
  return err;
}

/* ---- one rank -------------------------------------------------------------------------------- */

static enum tg_err add_rank_to_build(struct tg__build *b, struct tg__import *im, uint32_t path) {
  struct tg__columns *t = b->trace;
  if (!tg__grow((void **)&t->ranks, &b->rank_cap, t->rank_count + 1u, sizeof *t->ranks)) return TG_MEMORY;
  struct tg__rank *r = &t->ranks[t->rank_count];
  *r = (struct tg__rank){.path = path,
                         .number = -1,
                         .world_size = -1,
                         .bare_array = im->bare_array,
                         .packed = im->packed,
                         .json_bytes = im->text_bytes};
  r->is_recording = im->is_recording;
  r->processes = im->processes;
  r->process_count = im->process_count;
  r->events_kept = r->events_read = im->events_read;
  memcpy(r->phase_count, im->phases, sizeof r->phase_count);
  for (int i = 0; i < TG__LOSS_COUNT; i++) {
    r->loss[i] = im->losses.count[i];
    r->loss_offset[i] = im->losses.count[i] ? im->losses.offset[i] : -1;
    if (tg__loss_info[i].kind == TG__LOSS_SKIPPED) r->events_read += r->loss[i];
  }
  r->events_read += r->loss[TG__LOSS_cut_end];
  r->meta = tg__arena_get(&t->arena, (im->meta_count + 1) * sizeof *r->meta);
  if (!r->meta) return TG_MEMORY;
  if (im->meta_count) memcpy(r->meta, im->meta, im->meta_count * sizeof *r->meta);
  r->meta_count = im->meta_count;
  t->rank_count++;
  const enum tg_err err = tg__read_meta(t, r);
  if (!err && im->is_recording && im->rank_number >= 0 && !r->number_is_given) {
    r->number = im->rank_number;
    r->number_is_given = true;
  }
  return err;
}

struct track_work {
  const struct tg__columns *trace;
  uint32_t *tracks;
  void (*body)(void *ctx, uint32_t track);
  void *ctx;
};

static void work_on_track(void *ctx, size_t i) {
  const struct track_work *w = ctx;
  w->body(w->ctx, w->tracks[i]);
}

static bool larger_track(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__columns *t = ctx;
  return t->tracks[a].count > t->tracks[b].count;
}

enum { SLICE_BYTES = 32 }; /* of the columns that such work goes over */

enum tg_err tg__parallel_tracks(const struct tg__columns *t, const struct tg__rank *r, unsigned threads,
                                void (*body)(void *ctx, uint32_t track), void *ctx) {
  struct track_work w = {t, tg__alloc((r->track_count + 1u) * sizeof *w.tracks), body, ctx};
  if (!w.tracks) return TG_MEMORY;
  for (uint32_t i = 0; i < r->track_count; i++) w.tracks[i] = r->first_track + i;
  const bool sorted = tg__sort_index(w.tracks, r->track_count, larger_track, t);
  size_t slices = 0;
  for (uint32_t i = 0; i < r->track_count; i++) slices += t->tracks[r->first_track + i].count;
  if (sorted) tg__threads_run(tg__threads_worth(slices * SLICE_BYTES, threads), r->track_count, work_on_track, &w);
  tg__free(w.tracks);
  return sorted ? TG_OK : TG_MEMORY;
}

struct ordering {
  struct tg__columns *trace;
  enum tg_err err;
};

static void order_track(void *ctx, uint32_t track) {
  struct ordering *o = ctx;
  enum tg_err err = tg__sort_track(o->trace, &o->trace->tracks[track]);
  if (err == TG_OK) err = tg__nest_track(o->trace, &o->trace->tracks[track]);
  if (err != TG_OK) __atomic_store_n(&o->err, err, __ATOMIC_RELAXED);
}

static enum tg_err order_tracks(struct tg__build *b, const struct tg__rank *r) {
  struct ordering o = {b->trace, TG_OK};
  const enum tg_err err = tg__parallel_tracks(b->trace, r, b->threads, order_track, &o);
  return err == TG_OK ? o.err : err;
}

enum tg_err tg__build_rank(struct tg__build *b, struct tg__import *im, uint32_t path, struct tg_error *e) {
  struct tg__columns *t = b->trace;
  const uint32_t r = t->rank_count, first_mark = t->marks.count;
  t->args = im->pool;
  t->args_bytes = im->pool_len;
  if (add_rank_to_build(b, im, path) != TG_OK) return tg__no_memory(e, "keeping the rank's metadata");
  enum tg_err err = spread(b, im, r, e);
  if (err != TG_OK) return err;
  tg__name_tracks(t, &t->ranks[r], first_mark);
  err = tg__pair_ends(t, r);
  if (err == TG_OK) err = order_tracks(b, &t->ranks[r]);
  if (err == TG_OK) err = tg__sort_marks(t, first_mark, t->marks.count - first_mark);
  if (err == TG_OK) err = tg__link_rank(t, r, im, first_mark, b->threads);
  return err == TG_OK ? err : tg__no_memory(e, "ordering and linking events");
}

/* ---- all ranks ------------------------------------------------------------------------------- */

/* Ranks without a number get the smallest free ones, in order of their files. */
static void number_ranks(struct tg__columns *t) {
  if (t->rank_count == 1 && t->ranks[0].number < 0) t->ranks[0].number = 0;
  int64_t next = 0;
  for (uint32_t i = 0; i < t->rank_count; i++) {
    if (t->ranks[i].number >= 0) continue;
    for (uint32_t j = 0; j < t->rank_count; j++)
      if (t->ranks[j].number == next) next++, j = UINT32_MAX;
    t->ranks[i].number = next++;
  }
}

static void align_clocks(struct tg__columns *t) {
  int64_t least = INT64_MAX;
  for (uint32_t i = 0; i < t->rank_count; i++)
    if (t->ranks[i].base_ns < least) least = t->ranks[i].base_ns;
  for (uint32_t i = 0; i < t->rank_count; i++) t->ranks[i].clock_offset_ns = t->ranks[i].base_ns - least;
}

static bool cat_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__columns *t = ctx;
  const uint32_t x = t->cats[a].name, y = t->cats[b].name;
  if (x == TG_NONE || y == TG_NONE) return x == TG_NONE && y != TG_NONE;
  return tg__str_cmp(tg__name(t, x), tg__name(t, y)) < 0;
}

/* Categories were numbered as the workers met them, which differs from run to run: number them by name. */
static enum tg_err number_cats(struct tg__columns *t) {
  const uint32_t n = t->cat_count;
  uint32_t *order = tg__order_new(n, cat_before, t);
  uint16_t *now = tg__alloc((n + 1) * sizeof *now);
  struct tg__cat *cats = tg__alloc((n + 1) * sizeof *cats);
  enum tg_err err = TG_MEMORY;
  if (order && now && cats) {
    for (uint32_t i = 0; i < n; i++) cats[i] = t->cats[order[i]], now[order[i]] = (uint16_t)i;
    memcpy(t->cats, cats, n * sizeof *cats);
    for (uint32_t i = 0; i < t->slices.count; i++) t->slices.cat[i] = now[t->slices.cat[i]];
    for (uint32_t i = 0; i < t->marks.count; i++) t->marks.cat[i] = now[t->marks.cat[i]];
    err = TG_OK;
  }
  tg__free(order);
  tg__free(now);
  tg__free(cats);
  return err;
}

enum tg_err tg__build_finish(struct tg__build *b, struct tg_error *e) {
  struct tg__columns *t = b->trace;
  number_ranks(t);
  align_clocks(t);
  if (grow_columns(b, t->slices.count, t->marks.count) != TG_OK || tg__find_steps(b) != TG_OK ||
      (t->cat_count > 0 && number_cats(t) != TG_OK))
    return tg__no_memory(e, "finding the steps");
  for (size_t c = 0; c < TG__COLUMN_COUNT; c++) { /* pages past the last row may be resident: huge pages come whole */
    const struct tg__stored_column *info = &tg__stored_columns[c];
    const size_t used = (size_t)(info->of_marks ? t->marks.count : t->slices.count) * info->width;
    tg__pages_release(*tg__column_place(t, info), used, b->column_bytes[c]);
  }
  t->loaded = TG__COL_ALL;
  assert(tg__strings_is_valid(t->strings, NULL));
  return TG_OK;
}
