/* The question launches: how device work finds its host call and operator, and how long it waits to start. */
#include "analyze/host/op_tree.h"

#include <stdlib.h>

enum by { BY_RANK, BY_CALL, BY_EVENT };

struct row {
  uint32_t rank, call; /* call: string id, TG_NONE for work without a known one */
  int64_t events, with_call, by_id, by_containment, call_ns;
  struct tg__stats delay;
  size_t first_delay, delays; /* its run of work.delays once they are dealt out */
};
struct launch {
  uint32_t row;
  int64_t delay_ns;
};
struct work {
  const struct tg__columns *t;
  enum by by;
  struct tg__map row_of;
  struct row *rows;
  size_t count, cap;
  struct launch *launches;
  size_t launch_count, launch_cap;
  uint8_t *seen; /* by slice, a bit: the call is counted; one call of a graph launches many pieces of device work */
};

/* ---- one device event ------------------------------------------------------------------------ */

static int64_t delay_of(const struct tg__columns *t, uint32_t call, uint32_t device) {
  const int64_t wait = t->slices.start_ns[device] - tg__slice_end(t, call);
  return wait > 0 ? wait : 0; /* the device may start before the call has returned */
}

/* is_first: of the device events of its call. */
static void count_into(struct row *r, const struct tg__columns *t, uint32_t device, bool is_first) {
  const uint32_t call = tg__launch_of(t, device);
  r->events++;
  if (call == TG_NONE) return;
  r->with_call++;
  if (is_first) r->call_ns += t->slices.dur_ns[call];
  if (t->slices.cause[call] != TG_NONE) {
    if (t->slices.flags[call] & TG__F_CAUSE_BY_ID)
      r->by_id++;
    else
      r->by_containment++;
  }
  tg__stats_add(&r->delay, delay_of(t, call, device));
}

struct tg__links tg__links_of(const struct tg__columns *t, uint32_t rank) {
  const struct tg__rank_range range = tg__rank_range_of(t, rank);
  struct tg__links links = {0};
  for (uint32_t i = range.first_slice; i < range.end_slice; i++) {
    if (!tg__class_is_device_work(tg__slice_class(t, i))) continue;
    links.device_events++;
    links.with_call += tg__launch_of(t, i) != TG_NONE;
    links.with_op += tg__launching_op(t, i) != TG_NONE;
  }
  return links;
}

/* ---- the table ------------------------------------------------------------------------------- */

static void put_launch_row(const struct work *w, const struct row *r, uint32_t device, const int64_t *delays,
                           struct tg_table *out) {
  const struct tg__columns *t = w->t;
  const uint32_t op = device == TG_NONE ? TG_NONE : tg__launching_op(t, device);
  tg__put_rank(out, t, r->rank);
  if (w->by == BY_RANK)
    tg__put_cstr(out, "");
  else
    tg__put_trace_text(out, t, r->call);
  tg__put_trace_text(out, t, device == TG_NONE ? TG_NONE : t->slices.name[device]);
  tg__put_trace_text(out, t, op == TG_NONE ? TG_NONE : t->slices.name[op]);
  tg__put_int(out, r->events);
  tg__put_int(out, r->with_call);
  tg__put_int(out, r->events - r->with_call);
  tg__put_int(out, r->by_id);
  tg__put_int(out, r->by_containment);
  tg__put_int(out, r->with_call - r->by_id - r->by_containment);
  tg__put_real_if(out, r->events, 100.0 * (double)r->with_call / (double)(r->events ? r->events : 1));
  tg__put_int(out, r->call_ns);
  tg__put_real(out, tg__stats_mean(&r->delay));
  tg__put_real(out, tg__quantile(delays, r->delays, 0.5));
  tg__put_real(out, tg__quantile(delays, r->delays, 0.99));
  tg__put_int(out, r->delays ? r->delay.max : TG_NULL_INT);
}

static void put_event(const struct work *w, uint32_t rank, uint32_t device, struct tg_table *out) {
  const uint32_t call = tg__launch_of(w->t, device);
  struct row r = {.rank = rank, .call = call == TG_NONE ? TG_NONE : w->t->slices.name[call]};
  count_into(&r, w->t, device, true);
  r.delays = r.with_call ? 1 : 0;
  const int64_t delay = r.with_call ? r.delay.max : 0;
  put_launch_row(w, &r, device, &delay, out);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static uint32_t find_launch_row(struct work *w, uint32_t rank, uint32_t call) {
  uint32_t *slot = tg__map_slot(&w->row_of, (uint64_t)rank << 32 | call, TG_NONE);
  if (!slot) return TG_NONE;
  if (*slot == TG_NONE) {
    if (w->count == w->cap && !tg__grow((void **)&w->rows, &w->cap, w->count + 1, sizeof *w->rows)) return TG_NONE;
    *slot = (uint32_t)w->count;
    w->rows[w->count++] = (struct row){.rank = rank, .call = call};
  }
  return *slot;
}

static bool see_call(struct work *w, uint32_t call) {
  const uint8_t bit = (uint8_t)(1u << call % 8);
  const bool is_first = !(w->seen[call / 8] & bit);
  w->seen[call / 8] |= bit;
  return is_first;
}

static bool count_one(struct work *w, uint32_t rank, uint32_t device) {
  const uint32_t call = tg__launch_of(w->t, device);
  const uint32_t name = w->by == BY_RANK || call == TG_NONE ? TG_NONE : w->t->slices.name[call];
  const uint32_t row = find_launch_row(w, rank, name);
  if (row == TG_NONE) return false;
  count_into(&w->rows[row], w->t, device, call != TG_NONE && see_call(w, call));
  if (call == TG_NONE) return true;
  if (w->launch_count == w->launch_cap &&
      !tg__grow((void **)&w->launches, &w->launch_cap, w->launch_count + 1, sizeof *w->launches))
    return false;
  w->rows[row].delays++;
  w->launches[w->launch_count++] = (struct launch){row, delay_of(w->t, call, device)};
  return true;
}

static enum tg_err count_all(struct work *w, const struct tg__ask *a, struct tg_table *out) {
  for (uint32_t k = 0; k < w->t->track_count; k++) {
    const struct tg__track *track = &w->t->tracks[k];
    if (!tg__ask_has_rank(a, track->rank)) continue;
    TG__EACH (i, tg__slices_of(track)) {
      if (!tg__class_is_device_work(tg__slice_class(w->t, i))) continue;
      if (w->by == BY_RANK && find_launch_row(w, track->rank, TG_NONE) == TG_NONE)
        return TG_MEMORY; /* even if none of it is in these steps */
      if (a->has_steps && !tg__ask_has_slice(a, w->t, k, i)) continue;
      if (w->by == BY_EVENT)
        put_event(w, track->rank, i, out);
      else if (!count_one(w, track->rank, i))
        return TG_MEMORY;
    }
  }
  return TG_OK;
}

static int ascending(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static bool launch_row_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct row *x = &((const struct work *)ctx)->rows[a], *y = &((const struct work *)ctx)->rows[b];
  return x->rank != y->rank ? x->rank < y->rank : x->events > y->events;
}

static enum tg_err put_launch_rows(struct work *w, struct tg_table *out) {
  int64_t *delays = tg__alloc((w->launch_count + 1) * sizeof *delays);
  uint32_t *order = tg__alloc((w->count + 1) * sizeof *order);
  enum tg_err err = TG_MEMORY;
  if (!delays || !order) goto done;
  size_t next = 0;
  for (uint32_t i = 0; i < w->count; i++) {
    w->rows[i].first_delay = next;
    next += w->rows[i].delays;
    w->rows[i].delays = 0; /* counted again while they are dealt out */
  }
  for (size_t i = 0; i < w->launch_count; i++) {
    struct row *r = &w->rows[w->launches[i].row];
    delays[r->first_delay + r->delays++] = w->launches[i].delay_ns;
  }
  if (!tg__sort_order(order, w->count, launch_row_before, w)) goto done;
  for (size_t i = 0; i < w->count; i++) {
    const struct row *r = &w->rows[order[i]];
    qsort(delays + r->first_delay, r->delays, sizeof *delays, ascending);
    put_launch_row(w, r, TG_NONE, delays + r->first_delay, out);
  }
  err = TG_OK;
done:
  tg__free(delays);
  tg__free(order);
  return err;
}

enum tg_err tg__answer_launches(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                struct tg_error *e) {
  static const char *const choices[] = {[BY_RANK] = "rank", [BY_CALL] = "call", [BY_EVENT] = "event"};
  size_t by;
  enum tg_err err = tg__ask_choice(a, "by", choices, sizeof choices / sizeof *choices, &by, e);
  if (err) return err;
  struct work w = {.t = t, .by = (enum by)by, .seen = tg__alloc((size_t)t->slices.count / 8 + 1)};
  err = w.seen ? count_all(&w, a, out) : TG_MEMORY;
  if (!err && w.by != BY_EVENT) err = put_launch_rows(&w, out);
  if (err) tg__no_memory(e, "counting launches");
  tg__map_free(&w.row_of);
  tg__free(w.rows);
  tg__free(w.launches);
  tg__free(w.seen);
  return err;
}
