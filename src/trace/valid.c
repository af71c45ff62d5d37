/* valid: the invariants of a trace, as code. Tests, fuzz targets, `tachograph check` and the report call it, and each
 * .tacho file with all columns loaded: other people may have written it. */
#include "trace/trace.h"

#define CHECK(condition, at, ...) TG__CHECK(condition, __VA_ARGS__, (unsigned)(at))

static bool before_or_same(const struct tg__slices *s, uint32_t a, uint32_t b) {
  if (s->start_ns[a] != s->start_ns[b]) return s->start_ns[a] < s->start_ns[b];
  if (s->dur_ns[a] != s->dur_ns[b]) return s->dur_ns[a] > s->dur_ns[b];
  return s->args[a] <= s->args[b];
}

static bool slice_is_valid(const struct tg__columns *t, const struct tg__track *track, uint32_t i, struct tg_error *e) {
  const struct tg__slices *s = &t->slices;
  CHECK(s->dur_ns[i] >= 0, i, "slice %u has a negative duration");
  CHECK(s->start_ns[i] <= INT64_MAX - s->dur_ns[i], i, "the end of slice %u does not fit 64 bits");
  CHECK(s->name[i] < tg__strings_count(t->strings), i, "slice %u has a name that does not exist");
  CHECK(s->cat[i] < t->cat_count, i, "slice %u has a category that does not exist");
  CHECK(s->args[i] == TG_NONE || (uint64_t)s->args[i] * 4 < t->args_bytes, i, "the args of slice %u lie outside");
  CHECK(s->cause[i] == TG_NONE || s->cause[i] < s->count, i, "the cause of slice %u does not exist");
  CHECK(s->cause[i] != i, i, "slice %u is its own cause");
  if (i > track->first) CHECK(before_or_same(s, i - 1, i), i, "slice %u is out of order on its track");
  const uint32_t p = s->parent[i];
  if (p == TG_NONE) {
    CHECK(s->depth[i] == 0, i, "slice %u has a depth but no parent");
    return true;
  }
  CHECK(p >= track->first && p < i, i, "the parent of slice %u is not before it on its track");
  CHECK(s->start_ns[p] <= s->start_ns[i] && tg__slice_end(t, p) >= tg__slice_end(t, i), i,
        "slice %u is not inside its parent");
  CHECK(s->depth[i] == (s->depth[p] == UINT16_MAX ? UINT16_MAX : s->depth[p] + 1), i,
        "slice %u is not one deeper than its parent");
  return true;
}

/* That slices of one lane nest is checked by brute force in test_build.c. */
static bool lanes_are_valid(const struct tg__columns *t, const struct tg__track *track, struct tg_error *e) {
  TG__EACH (i, tg__slices_of(track))
    CHECK(t->slices.lane[i] < track->lanes, i, "slice %u is on a lane its track does not have");
  return true;
}

static bool marks_are_valid(const struct tg__columns *t, struct tg_error *e) {
  const struct tg__marks *m = &t->marks;
  for (uint32_t i = 0; i < m->count; i++) {
    CHECK(m->track[i] < t->track_count, i, "mark %u is on a track that does not exist");
    CHECK(m->name[i] < tg__strings_count(t->strings), i, "mark %u has a name that does not exist");
    CHECK(m->cat[i] < t->cat_count, i, "mark %u has a category that does not exist");
    CHECK(m->args[i] == TG_NONE || (uint64_t)m->args[i] * 4 < t->args_bytes, i, "the args of mark %u lie outside");
    const bool same_rank = i > 0 && t->tracks[m->track[i]].rank == t->tracks[m->track[i - 1]].rank;
    if (same_rank) CHECK(m->ts_ns[i - 1] <= m->ts_ns[i], i, "mark %u is out of order");
  }
  return true;
}

/* events read = events kept + events skipped by reason + the cut one */
static bool counts_are_valid(const struct tg__columns *t, uint32_t r, struct tg_error *e) {
  const struct tg__rank *rank = &t->ranks[r];
  int64_t skipped = rank->loss[TG__LOSS_cut_end];
  for (int i = 0; i < TG__LOSS_COUNT; i++)
    if (tg__loss_info[i].kind == TG__LOSS_SKIPPED) skipped += rank->loss[i];
  CHECK(rank->events_read == rank->events_kept + skipped, r,
        "rank %u: events read are not events kept plus events skipped");
  return true;
}

bool tg__trace_is_valid(const struct tg__columns *t, struct tg_error *e) {
  CHECK((t->loaded & TG__COL_ALL) == TG__COL_ALL, 0, "column set %u: not all columns are loaded");
  uint64_t next = 0;
  for (uint32_t k = 0; k < t->track_count; k++) {
    const struct tg__track *track = &t->tracks[k];
    CHECK(track->rank < t->rank_count, k, "track %u belongs to a rank that does not exist");
    CHECK(track->first == next, k, "the slices of track %u do not follow those of the one before");
    next += track->count;
    CHECK(next <= t->slices.count, k, "the slices of track %u lie outside the table");
    for (uint32_t i = track->first; i < next; i++)
      if (!slice_is_valid(t, track, i, e)) return false;
    if (!lanes_are_valid(t, track, e)) return false;
  }
  CHECK(next == t->slices.count, t->slices.count, "not all of the %u slices are on a track");
  uint64_t kept = 0;
  for (uint32_t r = 0; r < t->rank_count; r++) {
    if (!counts_are_valid(t, r, e)) return false;
    kept += (uint64_t)t->ranks[r].events_kept;
  }
  CHECK(kept == (uint64_t)t->slices.count + t->marks.count, 0, "events kept are not slices plus marks%.0u");
  for (uint32_t i = 0; i < t->step_count; i++)
    CHECK(t->steps[i].rank < t->rank_count && t->steps[i].start_ns <= t->steps[i].end_ns, i,
          "step %u is not a span of a rank");
  return marks_are_valid(t, e);
}
