/* Where the events of a rank begin. */
#include "analyze/analyze.h"

/* The first start of a track on the common clock; INT64_MAX without slices. Its slices stand in the order of their
 * start. */
static int64_t first_of_track(const struct tg__columns *t, uint32_t track) {
  const struct tg__track *const k = &t->tracks[track];
  TG__EACH (i, tg__slices_of(k))
    if (tg__slice_class(t, i) != TG__CLASS_SPAN)
      return t->slices.start_ns[i] + t->ranks[k->rank].clock_offset_ns; /* the recording itself is no row */
  return INT64_MAX;
}

int64_t tg__rank_first_common_ns(const struct tg__columns *t, uint32_t rank) {
  int64_t least = INT64_MAX;
  TG__EACH (k, tg__tracks_of(&t->ranks[rank])) {
    const int64_t start = first_of_track(t, k);
    if (start < least) least = start;
  }
  return least;
}

int64_t tg__rank_first_ns(const struct tg__columns *t, uint32_t rank) {
  const int64_t first = tg__rank_first_common_ns(t, rank);
  return first == INT64_MAX ? TG_NULL_INT : first - t->ranks[rank].clock_offset_ns;
}
