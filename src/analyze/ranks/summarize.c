/* summarize: a rank of a trace, summed up: its number, its steps and where their time went, its collectives, totals
 * by name. */
#include "analyze/ranks/summarize.h"

#include "analyze/ranks/comm_calls.h"
#include "analyze/overview/steps.h"

struct work {
  const struct tg__columns *t;
  uint32_t rank;
  struct tg__strings *strings;
  struct tg__rank_summary *r;
  uint8_t *roles; /* for tg__comm_is_layer */
  struct tg__names names;
  struct tg__spans shares[TG__SHARE_REST];
  struct tg__breakdown steps;
  bool failed;
};

static uint32_t keep_text(struct work *w, struct tg__str s) {
  const uint32_t id = tg__strings_add(w->strings, s.ptr, s.len);
  w->failed |= id == TG_NONE;
  return id;
}

/* ---- identity ------------------------------------------------------------------------------- */

static void note_identity(struct work *w) {
  const struct tg__rank *const rank = &w->t->ranks[w->rank];
  struct tg__rank_summary *const r = w->r;
  r->path = keep_text(w, tg__name(w->t, rank->path));
  const struct tg__str host = tg__json_unquoted(tg__document_member(w->t, w->rank, "host_name"));
  r->host = host.len ? keep_text(w, host) : TG_NONE;
  r->number = rank->number;
  r->number_is_given = rank->number_is_given;
  r->world_size = rank->world_size;
  r->base_ns = rank->base_ns;
  r->json_bytes = rank->json_bytes;
  r->events = rank->events_kept;
  r->step_kind = rank->step_kind;
  for (int k = 0; k < TG__LOSS_COUNT; k++) {
    if (tg__loss_info[k].kind == TG__LOSS_SKIPPED || tg__loss_info[k].kind == TG__LOSS_CUT) r->lost += rank->loss[k];
    r->is_cut |= tg__loss_info[k].kind == TG__LOSS_CUT && rank->loss[k] > 0;
  }
  for (uint32_t i = 0; i < rank->process_count; i++) r->is_killed |= tg__rank_was_killed(rank, i);
}

static void note_extent(struct work *w) {
  const struct tg__rank *const rank = &w->t->ranks[w->rank];
  bool any = false;
  TG__EACH (k, tg__tracks_of(rank)) {
    const struct tg__track *const track = &w->t->tracks[k];
    TG__EACH (i, tg__slices_of(track)) {
      if (w->t->slices.flags[i] & (TG__F_BEGIN_END | TG__F_ASYNC)) continue;
      const int64_t start = w->t->slices.start_ns[i], end = tg__slice_end(w->t, i);
      if (!any || start < w->r->first_ns) w->r->first_ns = start;
      if (!any || end > w->r->last_ns) w->r->last_ns = end;
      any = true;
    }
  }
}

/* ---- what its time goes to ------------------------------------------------------------------- */

static unsigned share_of(struct work *w, uint32_t slice) {
  const struct tg__columns *const t = w->t;
  switch (tg__slice_class(t, slice)) {
  case TG__CLASS_KERNEL:
    return tg__names_of(&w->names, t->slices.name[slice]) & TG__NAME_COLLECTIVE_KERNEL ? TG__SHARE_REST
                                                                                       : TG__SHARE_COMPUTE;
  case TG__CLASS_DEVICE_OTHER: {
    const char *const type = tg__kernel_type(t, slice);
    return type[0] == 'M' ? TG__SHARE_COPY : strcmp(type, "COMPUTATION") == 0 ? TG__SHARE_COMPUTE : TG__SHARE_REST;
  }
  case TG__CLASS_MEMCPY:
  case TG__CLASS_MEMSET:
    return TG__SHARE_COPY;
  case TG__CLASS_RUNTIME:
    return TG__SHARE_HOST;
  case TG__CLASS_ANNOTATION:
    return tg__names_of(&w->names, t->slices.name[slice]) & TG__NAME_DATALOADER ? TG__SHARE_DATA : TG__SHARE_REST;
  case TG__CLASS_OP:
  case TG__CLASS_PYTHON_OP:
    if (tg__names_of(&w->names, t->slices.name[slice]) & TG__NAME_DATALOADER) return TG__SHARE_DATA;
    if (tg__comm_is_layer(t, w->roles, slice)) return w->r->has_device_work ? TG__SHARE_HOST : TG__SHARE_REST;
    return w->r->has_device_work ? TG__SHARE_HOST : TG__SHARE_COMPUTE;
  default:
    return TG__SHARE_REST;
  }
}

static void gather_shares(struct work *w) {
  const struct tg__rank *const rank = &w->t->ranks[w->rank];
  TG__EACH (k, tg__tracks_of(rank)) {
    const struct tg__track *const track = &w->t->tracks[k];
    TG__EACH (i, tg__slices_of(track)) {
      const unsigned share = share_of(w, i);
      if (share < TG__SHARE_REST) tg__spans_add(&w->shares[share], w->t->slices.start_ns[i], tg__slice_end(w->t, i));
    }
  }
  for (unsigned s = 0; s < TG__SHARE_REST; s++) {
    tg__spans_union(&w->shares[s]);
    w->failed |= w->shares[s].failed;
  }
}

static void note_steps(struct work *w) {
  struct tg__rank_summary *const r = w->r;
  const struct tg__breakdown *const b = &w->steps;
  const size_t all = b->count + b->left_out, count = all < TG__SUM_MOST_ROWS ? all : TG__SUM_MOST_ROWS;
  r->steps = tg__alloc((count + 1) * sizeof *r->steps);
  w->failed |= !r->steps;
  if (w->failed) return;
  r->step_count = (uint32_t)count;
  r->dropped += (int64_t)(all - count);
  for (size_t i = 0; i < count; i++) {
    const struct tg__step_cost *const s = &b->steps[i];
    r->steps[i] = (struct tg__sum_step){
        .number = s->step == TG_NONE ? -1 : w->t->steps[s->step].number,
        .start_ns = s->start_ns,
        .end_ns = s->end_ns,
        .is_partial = i >= b->count,
        .communication_ns = tg__spans_inside(&w->shares[TG__SHARE_COMMUNICATION], s->start_ns, s->end_ns)};
  }
}

/* Time that is free after the shares before this one. */
static void divide_steps(struct work *w) {
  struct tg__spans left = {0};
  struct tg__rank_summary *const r = w->r;
  for (uint32_t i = 0; i < r->step_count; i++) tg__spans_add(&left, r->steps[i].start_ns, r->steps[i].end_ns);
  tg__spans_union(&left);
  for (unsigned s = 0; s < TG__SHARE_REST; s++) {
    struct tg__spans part = {0};
    w->failed |= !tg__spans_take(&left, &w->shares[s], &part);
    for (uint32_t i = 0; i < r->step_count; i++)
      r->steps[i].share_ns[s] = tg__spans_inside(&part, r->steps[i].start_ns, r->steps[i].end_ns);
    tg__spans_free(&part);
  }
  for (uint32_t i = 0; i < r->step_count; i++)
    r->steps[i].share_ns[TG__SHARE_REST] = tg__spans_inside(&left, r->steps[i].start_ns, r->steps[i].end_ns);
  tg__spans_free(&left);
}

/* A collective belongs to the step in which the host asked for it, else to the one it ran in. */
static void place_collectives(struct work *w) {
  const struct tg__breakdown *const b = &w->steps;
  if (b->source == TG__STEPS_RECORDING) return;
  for (uint32_t k = 0; k < w->r->collective_count; k++) {
    struct tg__sum_collective *const c = &w->r->collectives[k];
    const bool asked = c->call_ns != TG_NULL_INT;
    const int64_t at = asked ? c->call_ns : c->start_ns;
    size_t low = 0;
    TG__PARTITION(low, w->r->step_count, i, (asked ? b->steps[i].host_start_ns : b->steps[i].start_ns) <= at);
    if (low > 0 && at < (asked ? b->steps[low - 1].host_end_ns : b->steps[low - 1].end_ns)) c->step = (uint32_t)low - 1;
  }
}

/* ---- totals by name -------------------------------------------------------------------------- */

static void add_total(struct tg__sum_total *to, int64_t calls, int64_t total, int64_t min, int64_t max) {
  if (to->calls == 0 || min < to->min_ns) to->min_ns = min;
  if (to->calls == 0 || max > to->max_ns) to->max_ns = max;
  to->calls += calls;
  to->total_ns += total;
}

struct totals {
  struct tg__sum_total *items;
  size_t count, cap;
  struct tg__map index; /* string of the trace and what → item */
};

static bool count_slice(struct totals *all, uint32_t name, enum tg__sum_what what, int64_t dur) {
  uint32_t *const at = tg__map_slot(&all->index, (uint64_t)name << 1 | what, TG_NONE);
  if (!at) return false;
  if (*at == TG_NONE) {
    if (!tg__grow((void **)&all->items, &all->cap, all->count + 1, sizeof *all->items)) return false;
    *at = (uint32_t)all->count;
    all->items[all->count++] = (struct tg__sum_total){.name = name, .what = what};
  }
  add_total(&all->items[*at], 1, dur, dur, dur);
  return true;
}

static bool count_slices(const struct work *w, struct totals *all) {
  const struct tg__columns *const t = w->t;
  const struct tg__rank *const rank = &t->ranks[w->rank];
  TG__EACH (k, tg__tracks_of(rank)) {
    const struct tg__track *const track = &t->tracks[k];
    TG__EACH (i, tg__slices_of(track)) {
      const enum tg__class cls = tg__slice_class(t, i);
      const bool is_op = cls == TG__CLASS_OP;
      if ((is_op || tg__class_is_device_work(cls)) &&
          !count_slice(all, t->slices.name[i], is_op ? TG__SUM_OP : TG__SUM_KERNEL, t->slices.dur_ns[i]))
        return false;
    }
  }
  return true;
}

/* By what, then the longest in all first; equal ones by name, so that the order does not depend on how strings are
 * numbered. */
static bool longer(uint32_t a, uint32_t b, const void *ctx) {
  const void *const *const both = ctx;
  const struct tg__sum_total *const x = (const struct tg__sum_total *)both[0] + a, *const y =
                                                                                       (const struct tg__sum_total *)
                                                                                           both[0] +
                                                                                       b;
  const struct tg__columns *const t = both[1];
  if (x->what != y->what) return x->what < y->what;
  if (x->total_ns != y->total_ns) return x->total_ns > y->total_ns;
  return tg__str_cmp(tg__name(t, x->name), tg__name(t, y->name)) < 0;
}

static void keep_totals(struct work *w, const struct totals *all, const uint32_t *order) {
  struct tg__rank_summary *const r = w->r;
  size_t kept[TG__SUM_WHATS] = {0};
  struct tg__sum_total others[TG__SUM_WHATS] = {{.name = TG_NONE, .what = TG__SUM_OP},
                                                {.name = TG_NONE, .what = TG__SUM_KERNEL}};
  r->totals = tg__alloc(((all->count < 2 * TG__SUM_MOST_NAMES ? all->count : 2 * TG__SUM_MOST_NAMES) + TG__SUM_WHATS) *
                        sizeof *r->totals);
  w->failed |= !r->totals;
  for (size_t i = 0; i < all->count && !w->failed; i++) {
    struct tg__sum_total item = all->items[order[i]];
    if (kept[item.what]++ >= TG__SUM_MOST_NAMES) {
      add_total(&others[item.what], item.calls, item.total_ns, item.min_ns, item.max_ns);
      continue;
    }
    item.name = keep_text(w, tg__name(w->t, item.name));
    r->totals[r->total_count++] = item;
  }
  for (int what = 0; what < TG__SUM_WHATS && !w->failed; what++)
    if (others[what].calls) r->totals[r->total_count++] = others[what];
}

static void note_totals(struct work *w) {
  struct totals all = {0};
  uint32_t *order = NULL;
  const void *both[2] = {NULL, w->t};
  bool done = count_slices(w, &all);
  both[0] = all.items;
  done = done && (order = tg__order_new(all.count, longer, both)) != NULL;
  if (done) keep_totals(w, &all, order);
  w->failed |= !done;
  tg__free(order);
  tg__free(all.items);
  tg__map_free(&all.index);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static bool summarize_rank(const struct tg__columns *t, uint32_t rank, struct tg__strings *strings,
                           struct tg__rank_summary *r) {
  struct work w = {.t = t, .rank = rank, .strings = strings, .r = r};
  w.roles = tg__alloc((size_t)tg__strings_count(t->strings) + 1);
  w.failed = !w.roles || !tg__names_open(&w.names, t);
  if (!w.failed) w.failed = tg__steps_breakdown(t, rank, TG__STEPS_DETECTED, &w.steps) != TG_OK;
  if (!w.failed) {
    note_identity(&w);
    note_extent(&w);
    w.failed |= !tg__comm_gather(t, rank, strings, r, &w.shares[TG__SHARE_COMMUNICATION]);
  }
  if (!w.failed) gather_shares(&w);
  if (!w.failed) note_steps(&w);
  if (!w.failed) {
    divide_steps(&w);
    place_collectives(&w);
    note_totals(&w);
    w.failed |= !tg__comm_nodes(t, rank, strings, r);
  }
  for (unsigned s = 0; s < TG__SHARE_REST; s++) tg__spans_free(&w.shares[s]);
  tg__breakdown_free(&w.steps);
  tg__names_close(&w.names);
  tg__free(w.roles);
  return !w.failed;
}

enum tg_err tg__rank_summarize(const struct tg__columns *t, struct tg__summaries *s) {
  struct tg__rank_summary *const ranks = tg__realloc(s->ranks, ((size_t)s->count + t->rank_count) * sizeof *ranks);
  if (!ranks) return TG_MEMORY;
  s->ranks = ranks;
  for (uint32_t r = 0; r < t->rank_count; r++) {
    s->ranks[s->count] = (struct tg__rank_summary){0};
    if (!summarize_rank(t, r, s->strings, &s->ranks[s->count++])) return TG_MEMORY;
  }
  return TG_OK;
}
