/* event_sums: the question rows by=step, which steps have events, and by=name, how many events of a name there are
 * and how long. */
#include "analyze/names/by_class.h"
#include "analyze/compat/hta/rows.h"

#include <errno.h>
#include <stdlib.h>

/* ---- by=step --------------------------------------------------------------------------------- */

static void put_sums_step(const struct tg__columns *t, uint32_t rank, uint32_t name, int64_t number,
                          struct tg_table *out) {
  tg__put_rank(out, t, rank);
  for (int c = 0; c < 4; c++) tg__put_null(out); /* slice to category */
  tg__put_trace_text(out, t, name);
  for (int c = 0; c < 6; c++) tg__put_null(out); /* start to index_correlation */
  tg__put_int(out, number);
  tg__put_null(out);
}

/* Names of steps: a row for each, without a number, since where steps overlap no event need be in one of them. */
struct named {
  const struct tg__columns *t;
  struct tg__names names;
  uint8_t *seen; /* by string id */
};

static bool open_named(struct named *n, const struct tg__columns *t) {
  *n = (struct named){.t = t, .seen = tg__alloc((size_t)tg__strings_count(t->strings) + 1)};
  return tg__names_open(&n->names, t) && n->seen;
}

static void close_named(struct named *n) {
  tg__names_close(&n->names);
  tg__free(n->seen);
}

static bool is_new_step(struct named *n, uint32_t slice) {
  const uint32_t name = n->t->slices.name[slice];
  return (tg__names_of(&n->names, name) & TG__NAME_PROFILER_STEP) && !n->seen[name];
}

/* Is this slice a row? */
static bool is_row(const struct tg__columns *t, uint32_t slice) {
  const uint32_t category = t->cats[t->slices.cat[slice]].name;
  return !(t->slices.flags[slice] & (TG__F_BEGIN_END | TG__F_ASYNC)) && category != TG_NONE &&
         !tg__str_eq(tg__name(t, category), TG_STR("Trace"));
}

static bool put_named(struct named *n, uint32_t rank, struct tg_table *out) {
  struct tg__names_listed steps;
  if (!tg__names_listed(n->t, TG__LIST_STEPS, rank, &steps)) return false;
  memset(n->seen, 0, (size_t)tg__strings_count(n->t->strings) + 1);
  for (size_t i = 0; i < steps.count; i++) {
    const uint32_t slice = steps.slices[i], name = n->t->slices.name[slice];
    if (n->seen[name] || !is_row(n->t, slice)) continue;
    n->seen[name] = 1;
    put_sums_step(n->t, rank, name, TG_NULL_INT, out);
  }
  return true;
}

/* A step has its own annotation at least, unless the next one begins at the same time: then everything is that
 * one's. */
enum tg_err tg__put_exact_steps(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out) {
  struct named named;
  bool ok = open_named(&named, t);
  for (uint32_t i = 0; i < t->step_count; i++) {
    const struct tg__step *const s = &t->steps[i], *const next = s + 1;
    if (!tg__ask_has_rank(a, s->rank) || t->ranks[s->rank].step_kind != TG__STEP_PROFILER || s->end_ns <= s->start_ns)
      continue;
    if (i + 1 < t->step_count && next->rank == s->rank && next->start_ns == s->start_ns) continue;
    put_sums_step(t, s->rank, TG_NONE, s->number, out);
  }
  for (uint32_t rank = 0; ok && rank < t->rank_count; rank++)
    if (tg__ask_has_rank(a, rank)) ok = put_named(&named, rank, out);
  close_named(&named);
  return ok ? TG_OK : TG_MEMORY;
}

/* Each number once, in the order in which they come up. */
static bool put_numbers(const struct tg__rows *r, uint32_t rank, struct tg_table *out) {
  struct tg__map seen = {0};
  int64_t before = -1;
  bool ok = true;
  for (size_t i = 0; ok && i < r->hta.ranks[rank].count; i++) {
    const int64_t number = tg__rows_iteration(r, rank, &r->hta.ranks[rank].rows[i]);
    if (number < 0 || number == before) continue;
    uint32_t *const slot = tg__map_slot(&seen, (uint64_t)number, 0);
    ok = slot != NULL;
    if (ok && !(*slot)++) put_sums_step(r->t, rank, TG_NONE, number, out);
    before = number;
  }
  tg__map_free(&seen);
  return ok;
}

enum tg_err tg__put_row_steps(const struct tg__rows *r, const struct tg__ask *a, struct tg_table *out) {
  struct named named;
  bool ok = open_named(&named, r->t);
  for (uint32_t rank = 0; ok && rank < r->t->rank_count; rank++) {
    if (!tg__ask_has_rank(a, rank)) continue;
    ok = put_numbers(r, rank, out);
    memset(named.seen, 0, (size_t)tg__strings_count(r->t->strings) + 1);
    for (size_t i = 0; ok && i < r->hta.ranks[rank].count; i++) {
      const uint32_t slice = r->hta.ranks[rank].rows[i].slice;
      if (!is_new_step(&named, slice)) continue;
      named.seen[r->t->slices.name[slice]] = 1;
      put_sums_step(r->t, rank, r->t->slices.name[slice], TG_NULL_INT, out);
    }
  }
  close_named(&named);
  return ok ? TG_OK : TG_MEMORY;
}

/* ---- by=name --------------------------------------------------------------------------------- */

struct sum {
  uint32_t category, name; /* string ids */
  int64_t events, dur_ns;
};
struct sums {
  struct sum *items;
  size_t count, cap;
  struct tg__map of; /* category and name */
  struct tg__map steps;
  bool every_step;
};

static enum tg_err read_steps(const struct tg__ask *a, struct sums *s, struct tg_error *e) {
  const char *list = tg__ask_arg(a, "iteration");
  s->every_step = strcmp(list, "all") == 0;
  for (const char *p = list; !s->every_step;) {
    char *past;
    errno = 0;
    const long long number = strtoll(p, &past, 10);
    if (past == p || errno || (*past && *past != ','))
      return tg__fail(e, TG_USAGE, -1, "iteration=%.60s is not a list of numbers joined by comma", list);
    if (!tg__map_put(&s->steps, (uint64_t)number, 1)) return TG_MEMORY;
    if (!*past) break;
    p = past + 1;
  }
  return TG_OK;
}

static bool is_in_step(const struct sums *s, int64_t iteration) {
  return s->every_step || tg__map_get(&s->steps, (uint64_t)iteration) != TG_NONE;
}

static bool add_sums_row(const struct tg__rows *r, struct sums *s, uint32_t rank, const struct tg__hta_row *row) {
  const struct tg__columns *const t = r->t;
  const uint32_t category = t->slices.cat[row->slice], name = t->slices.name[row->slice];
  uint32_t *const slot = tg__map_slot(&s->of, (uint64_t)category << 32 | name, (uint32_t)s->count);
  if (!slot) return false;
  if (*slot == s->count) {
    if (!tg__grow((void **)&s->items, &s->cap, s->count + 1, sizeof *s->items)) return false;
    s->items[s->count++] = (struct sum){.category = t->cats[category].name, .name = name};
  }
  struct sum *const sum = &s->items[*slot];
  sum->events++;
  const int64_t dur = r->is_exact ? t->slices.dur_ns[row->slice] : tg__hta_dur_ns(&r->hta, &r->hta.ranks[rank], row);
  if (__builtin_add_overflow(sum->dur_ns, dur, &sum->dur_ns)) sum->dur_ns = INT64_MAX;
  return true;
}

static void put_sum(const struct tg__columns *t, uint32_t rank, const struct sum *s, struct tg_table *out) {
  tg__put_rank(out, t, rank);
  for (int c = 0; c < 3; c++) tg__put_null(out); /* slice, track, index */
  tg__put_trace_text(out, t, s->category);
  tg__put_trace_text(out, t, s->name);
  tg__put_null(out);
  tg__put_null(out);
  tg__put_real(out, (double)s->dur_ns / 1000);
  for (int c = 0; c < 4; c++) tg__put_null(out); /* stream to iteration */
  tg__put_int(out, s->events);
}

static void put_sums_sums(const struct tg__columns *t, uint32_t rank, struct sums *s, struct tg_table *out) {
  for (size_t i = 0; i < s->count; i++) put_sum(t, rank, &s->items[i], out);
  s->count = 0;
  tg__map_free(&s->of);
}

static void end_sums(struct sums *s) {
  tg__map_free(&s->of);
  tg__map_free(&s->steps);
  tg__free(s->items);
}

/* The partners of a rank by correlation: of the calls, then of the device work, the last in the file. */
static bool find_partners(const struct tg__rows *r, uint32_t rank, struct tg__map last[2]) {
  const struct tg__columns *const t = r->t;
  const struct tg__rank *const of = &t->ranks[rank];
  TG__EACH (k, tg__tracks_of(of))
    TG__EACH (i, tg__slices_of(&t->tracks[k])) {
      int64_t stream, correlation;
      if (!is_row(t, i)) continue;
      tg__hta_ids(&r->hta, i, &stream, &correlation);
      if (correlation == -1) continue;
      uint32_t *const slot =
          tg__map_slot(&last[tg__hta_is_gpu_row(&r->hta, i, stream, correlation)], (uint64_t)correlation, i);
      if (!slot) return false;
      if (t->slices.args[i] > t->slices.args[*slot]) *slot = i;
    }
  return true;
}

static int64_t iteration_of(const struct tg__rows *r, uint32_t rank, const struct tg__map last[2], uint32_t slice) {
  const struct tg__columns *const t = r->t;
  int64_t stream, correlation;
  if (t->tracks[r->tracks[slice]].kind != TG__TRACK_DEVICE) return tg__rows_step_at(t, rank, t->slices.start_ns[slice]);
  tg__hta_ids(&r->hta, slice, &stream, &correlation);
  const bool is_gpu = tg__hta_is_gpu_row(&r->hta, slice, stream, correlation);
  const uint32_t partner = correlation == -1 ? TG_NONE : tg__map_get(&last[!is_gpu], (uint64_t)correlation);
  return partner == TG_NONE ? -1 : tg__rows_step_at(t, rank, t->slices.start_ns[partner]);
}

static bool sum_slices(const struct tg__rows *r, struct sums *s, uint32_t rank, const struct tg__map last[2]) {
  const struct tg__rank *const of = &r->t->ranks[rank];
  TG__EACH (k, tg__tracks_of(of))
    TG__EACH (i, tg__slices_of(&r->t->tracks[k])) {
      const struct tg__hta_row row = {.slice = i};
      if (!is_row(r->t, i) || !tg__rows_on_side(r, &row)) continue;
      if (!s->every_step && !is_in_step(s, iteration_of(r, rank, last, i))) continue;
      if (!add_sums_row(r, s, rank, &row)) return false;
    }
  return true;
}

enum tg_err tg__put_exact_names(const struct tg__rows *r, const struct tg__ask *a, struct tg_table *out,
                                struct tg_error *e) {
  struct sums s = {0};
  enum tg_err err = read_steps(a, &s, e);
  for (uint32_t rank = 0; rank < r->t->rank_count && !err; rank++) {
    struct tg__map last[2] = {{0}, {0}};
    if (!tg__ask_has_rank(a, rank)) continue;
    if ((!s.every_step && !find_partners(r, rank, last)) || !sum_slices(r, &s, rank, last)) err = TG_MEMORY;
    if (!err) put_sums_sums(r->t, rank, &s, out);
    tg__map_free(&last[0]);
    tg__map_free(&last[1]);
  }
  end_sums(&s);
  return err;
}

enum tg_err tg__put_row_names(const struct tg__rows *r, const struct tg__ask *a, struct tg_table *out,
                              struct tg_error *e) {
  struct sums s = {0};
  enum tg_err err = read_steps(a, &s, e);
  for (uint32_t rank = 0; rank < r->t->rank_count && !err; rank++) {
    if (!tg__ask_has_rank(a, rank)) continue;
    for (size_t i = 0; i < r->hta.ranks[rank].count && !err; i++) {
      const struct tg__hta_row *const row = &r->hta.ranks[rank].rows[i];
      if (tg__rows_on_side(r, row) && is_in_step(&s, tg__rows_iteration(r, rank, row)) &&
          !add_sums_row(r, &s, rank, row))
        err = TG_MEMORY;
    }
    if (!err) put_sums_sums(r->t, rank, &s, out);
  }
  end_sums(&s);
  return err;
}
