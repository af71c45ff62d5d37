/* same_ids: threads that are written in two ways. Kineto of 2021 wrote a thread as text where it wrote operators
 * and as a number where it wrote what belongs to them: flows, and [memory] events. */
#include "trace/trace.h"

/* Number of the track's (rank, pid, tid) as text, in which 77 and "77" are the same; TG_NONE on no memory. */
static uint32_t text_identity(const struct tg__columns *t, const struct tg__track *track, struct tg__strings *seen) {
  struct tg__out text = {0};
  const bool is_text[2] = {track->pid_is_text, track->tid_is_text};
  const int64_t ids[2] = {track->pid, track->tid};
  tg__out_int(&text, track->rank);
  for (int k = 0; k < 2; k++) {
    tg__out_char(&text, '\n');
    const struct tg__str s = is_text[k] ? tg__name(t, (uint32_t)ids[k]) : TG_STR("");
    if (is_text[k])
      tg__out_bytes(&text, s.ptr, s.len);
    else
      tg__out_int(&text, ids[k]);
  }
  const uint32_t id = text.err ? TG_NONE : tg__strings_add(seen, text.buf, text.len);
  tg__out_free(&text);
  return id;
}

uint32_t *tg__tracks_with_same_ids(const struct tg__columns *t, uint32_t first, uint32_t count) {
  uint32_t *home = tg__alloc(((size_t)count + 1) * 2 * sizeof *home);
  struct tg__strings *seen = tg__strings_new();
  uint32_t *const with_slices = home ? home + count + 1 : NULL; /* by number of the identity: track + 1 */
  bool done = home && seen;
  for (int pass = 0; done && pass < 2; pass++) {
    for (uint32_t k = 0; done && k < count; k++) {
      const struct tg__track *track = &t->tracks[first + k];
      const uint32_t id = text_identity(t, track, seen);
      done = id != TG_NONE;
      if (!done) break;
      if (pass == 0 && track->count) with_slices[id] = first + k + 1;
      if (pass == 1) home[k] = track->count || !with_slices[id] ? first + k : with_slices[id] - 1;
    }
  }
  if (seen) tg__strings_free(seen);
  if (done) return home;
  tg__free(home);
  return NULL;
}
