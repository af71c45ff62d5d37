/* find_steps: the steps of each rank. ProfilerStep annotations when there are any; else an annotation that comes
 * again and again on one thread without overlapping itself; else a period: the time from one optimizer step, or one
 * batch, to the next. A rank is looked at by itself, as others may not be in memory when it is. */
#include "trace/import.h"

#include <stdlib.h>

enum { LEAST_STEPS = 3, MOST_FAMILIES = 256, PART_SHARE = 5 };

static bool add_step(struct tg__build *b, struct tg__step step) {
  struct tg__columns *t = b->trace;
  if (!tg__grow((void **)&t->steps, &b->step_cap, t->step_count + 1u, sizeof *t->steps)) return false;
  t->steps[t->step_count++] = step;
  return true;
}

/* ProfilerStep#12, also with blanks around the #. */
static bool profiler_step(struct tg__str s, int64_t *number) {
  static const char head[] = "ProfilerStep";
  uint32_t i = sizeof head - 1;
  if (s.len < i || memcmp(s.ptr, head, i) != 0) return false;
  while (i < s.len && s.ptr[i] == ' ') i++;
  if (i == s.len || s.ptr[i++] != '#') return false;
  while (i < s.len && s.ptr[i] == ' ') i++;
  const uint32_t digits = i;
  int64_t v = 0;
  for (; i < s.len && s.ptr[i] >= '0' && s.ptr[i] <= '9' && v < INT64_MAX / 10 - 1; i++) v = v * 10 + (s.ptr[i] - '0');
  *number = v;
  return i > digits;
}

static enum tg_err find_profiler_steps(struct tg__build *b, const struct tg__rank *rank) {
  const struct tg__columns *t = b->trace;
  TG__EACH (k, tg__tracks_of(rank))
    TG__EACH (i, tg__slices_of(&t->tracks[k])) {
      const enum tg__class c = tg__slice_class(t, i);
      int64_t number;
      if (c == TG__CLASS_GPU_ANNOTATION || c == TG__CLASS_PYTHON || t->slices.depth[i] > 64 ||
          !profiler_step(tg__name(t, t->slices.name[i]), &number))
        continue;
      if (!add_step(b, (struct tg__step){t->tracks[k].rank, i, t->slices.name[i], number, t->slices.start_ns[i],
                                         tg__slice_end(t, i)}))
        return TG_MEMORY;
    }
  return TG_OK;
}

/* ---- annotations ----------------------------------------------------------------------------- */

/* "train step 12" and "train step 13" are one family: the name without its last number. */
static struct tg__str family_of(struct tg__str s) {
  while (s.len && s.ptr[s.len - 1] >= '0' && s.ptr[s.len - 1] <= '9') s.len--;
  return s;
}

struct family {
  struct tg__str name;
  uint32_t count;
  int64_t total_ns, last_end_ns;
  bool overlaps;
};
struct families {
  struct family *items;
  size_t count, cap;
};

/* Spans of a loop belong to its parts, not to its steps; so do the calls that `tachograph run` labels
 * (python/tachograph/_launch/waits.py): a program that only waits has no steps. */
static bool is_part_of_step(struct tg__str s) {
  static const char *const parts[] = {
      "enumerate(Data", "Optimizer.", "os.f",       "torch.save",   "torch.load", "numpy.",    "json.",
      "pickle.",        "pandas.",    "gc.collect", "queue.Queue.", "threading.", "builtins.", "concurrent.futures."};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (tg__str_has_prefix(s, parts[i])) return true;
  return tg__str_contains(s, "nccl:") || tg__str_contains(s, "gloo:");
}

static bool note_annotation(const struct tg__columns *t, struct families *f, uint32_t slice) {
  const struct tg__str name = family_of(tg__name(t, t->slices.name[slice]));
  if (is_part_of_step(name)) return true;
  size_t i = 0;
  while (i < f->count && !tg__str_eq(f->items[i].name, name)) i++;
  if (i == f->count) {
    if (f->count >= MOST_FAMILIES) return true;
    if (!tg__grow((void **)&f->items, &f->cap, f->count + 1, sizeof *f->items)) return false;
    f->items[f->count++] = (struct family){.name = name, .last_end_ns = INT64_MIN};
  }
  struct family *x = &f->items[i];
  if (t->slices.start_ns[slice] < x->last_end_ns) x->overlaps = true;
  x->count++;
  x->total_ns += t->slices.dur_ns[slice];
  x->last_end_ns = tg__slice_end(t, slice);
  return true;
}

/* Does another part of the loop come as often, beside it, for a good part of the time? Then both are parts of a
 * step. */
static bool is_one_of_parts(const struct tg__columns *t, const struct tg__track *track, const struct families *f,
                            const struct family *best, int64_t span) {
  int64_t end_ns = INT64_MIN, beside_ns[MOST_FAMILIES] = {0};
  for (uint32_t i = track->first; i < track->first + track->count; i++) {
    if (tg__slice_class(t, i) != TG__CLASS_ANNOTATION) continue;
    const struct tg__str name = family_of(tg__name(t, t->slices.name[i]));
    size_t k = 0;
    while (k < f->count && !tg__str_eq(f->items[k].name, name)) k++;
    if (k == f->count) continue;
    if (&f->items[k] == best)
      end_ns = tg__slice_end(t, i);
    else if (t->slices.start_ns[i] >= end_ns && !f->items[k].overlaps)
      beside_ns[k] += t->slices.dur_ns[i];
  }
  for (size_t k = 0; k < f->count; k++) {
    const uint32_t a = f->items[k].count, b = best->count;
    if (a + 1 >= b && b + 1 >= a && beside_ns[k] >= span / PART_SHARE) return true;
  }
  return false;
}

/* The family that covers most time on this track; it must cover at least half of it, or it is a part of the step,
 * not the step. */
static const struct family *best_family(const struct tg__columns *t, const struct tg__track *track,
                                        const struct families *f) {
  const struct family *best = NULL;
  for (size_t i = 0; i < f->count; i++) {
    const struct family *x = &f->items[i];
    if (x->count >= LEAST_STEPS && !x->overlaps && (!best || x->total_ns > best->total_ns)) best = x;
  }
  if (!best) return NULL;
  const int64_t span = tg__slice_end(t, track->first + track->count - 1) - t->slices.start_ns[track->first];
  return best->total_ns >= span / 2 && !is_one_of_parts(t, track, f, best, span) ? best : NULL;
}

static enum tg_err find_annotations(struct tg__build *b, const struct tg__track *track) {
  const struct tg__columns *t = b->trace;
  struct families f = {0};
  bool ok = true;
  for (uint32_t i = track->first; i < track->first + track->count && ok; i++)
    if (tg__slice_class(t, i) == TG__CLASS_ANNOTATION) ok = note_annotation(t, &f, i);
  const struct family *best = ok ? best_family(t, track, &f) : NULL;
  int64_t number = 0;
  for (uint32_t i = track->first; best && ok && i < track->first + track->count; i++) {
    if (tg__slice_class(t, i) != TG__CLASS_ANNOTATION ||
        !tg__str_eq(family_of(tg__name(t, t->slices.name[i])), best->name))
      continue;
    ok = add_step(
        b, (struct tg__step){track->rank, i, t->slices.name[i], number++, t->slices.start_ns[i], tg__slice_end(t, i)});
  }
  tg__free(f.items);
  return ok ? TG_OK : TG_MEMORY;
}

/* ---- periods --------------------------------------------------------------------------------- */

/* Steps begin where the loader is asked for a batch, or end where the optimizer is done. */
static enum tg_err find_periods(struct tg__build *b, const struct tg__track *track, const char *prefix, bool at_end) {
  const struct tg__columns *t = b->trace;
  const uint32_t end = track->first + track->count;
  uint32_t found = 0;
  for (uint32_t i = track->first; i < end; i++)
    if (tg__slice_class(t, i) == TG__CLASS_ANNOTATION)
      found += tg__str_has_prefix(tg__name(t, t->slices.name[i]), prefix);
  if (found <= LEAST_STEPS) return TG_OK;
  int64_t from = TG_NULL_INT, number = 0;
  for (uint32_t i = track->first; i < end; i++) {
    if (tg__slice_class(t, i) != TG__CLASS_ANNOTATION || !tg__str_has_prefix(tg__name(t, t->slices.name[i]), prefix))
      continue;
    const int64_t edge = at_end ? tg__slice_end(t, i) : t->slices.start_ns[i];
    if (from != TG_NULL_INT && edge <= from) continue;
    if (from != TG_NULL_INT &&
        !add_step(b, (struct tg__step){track->rank, TG_NONE, t->slices.name[i], number++, from, edge}))
      return TG_MEMORY;
    from = edge;
  }
  return TG_OK;
}

static enum tg_err find_on_tracks(struct tg__build *b, const struct tg__rank *rank, enum tg__step_kind kind) {
  const struct tg__columns *const t = b->trace;
  const uint32_t before = t->step_count;
  enum tg_err err = TG_OK;
  for (uint32_t k = 0; k < rank->track_count && t->step_count == before && err == TG_OK; k++) {
    const struct tg__track *track = &t->tracks[rank->first_track + k];
    if (track->kind != TG__TRACK_CPU) continue;
    if (kind == TG__STEP_ANNOTATION)
      err = find_annotations(b, track);
    else
      err = find_periods(b, track, "enumerate(Data", false);
    if (err == TG_OK && t->step_count == before && kind == TG__STEP_PERIOD)
      err = find_periods(b, track, "Optimizer.step", true);
  }
  return err;
}

static enum tg_err find_of_rank(struct tg__build *b, const struct tg__rank *rank) {
  const struct tg__columns *const t = b->trace;
  const uint32_t before = t->step_count;
  enum tg_err err = find_profiler_steps(b, rank);
  if (err == TG_OK && t->step_count == before) err = find_on_tracks(b, rank, TG__STEP_ANNOTATION);
  if (err == TG_OK && t->step_count == before) err = find_on_tracks(b, rank, TG__STEP_PERIOD);
  return err;
}

/* Of those that begin at once the one that ends first comes first: an empty step is over when the next begins. */
static int by_rank_and_time(const void *a, const void *b) {
  const struct tg__step *x = a, *y = b;
  if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
  if (x->start_ns != y->start_ns) return x->start_ns < y->start_ns ? -1 : 1;
  if (x->end_ns != y->end_ns) return x->end_ns < y->end_ns ? -1 : 1;
  return (x->slice > y->slice) - (x->slice < y->slice);
}

static enum tg__step_kind step_kind_of(const struct tg__columns *t, const struct tg__step *s) {
  int64_t number;
  return s->slice == TG_NONE                            ? TG__STEP_PERIOD
         : profiler_step(tg__name(t, s->name), &number) ? TG__STEP_PROFILER
                                                        : TG__STEP_ANNOTATION;
}

void tg__note_step_kinds(struct tg__columns *t) {
  for (uint32_t r = 0; r < t->rank_count; r++) t->ranks[r].step_kind = TG__STEP_PROFILER;
  for (uint32_t i = t->step_count; i-- > 0;)
    t->step_kind = t->ranks[t->steps[i].rank].step_kind = step_kind_of(t, &t->steps[i]);
}

enum tg_err tg__find_steps(struct tg__build *b) {
  struct tg__columns *t = b->trace;
  enum tg_err err = TG_OK;
  for (uint32_t r = 0; r < t->rank_count && !err; r++) err = find_of_rank(b, &t->ranks[r]);
  if (t->step_count) qsort(t->steps, t->step_count, sizeof *t->steps, by_rank_and_time);
  tg__note_step_kinds(t);
  return err;
}
