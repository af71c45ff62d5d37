/* Ticks of the recorder become wall-clock time: along the line through the two pairs around them, or the nearest
 * two. */
#include "trace/import_raw.h"

bool tg__raw_clock_take(struct tg__raw_clock *c, const uint8_t *payload, uint64_t len, bool *no_memory) {
  for (uint64_t at = 0; len - at >= TG_RAW_CLOCK_BYTES; at += TG_RAW_CLOCK_BYTES) {
    const struct tg__raw_pair pair = {tg__get64(payload + at), (int64_t)tg__get64(payload + at + 8)};
    const struct tg__raw_pair *const last = c->count ? &c->pairs[c->count - 1] : NULL;
    if (pair.ticks == 0 && pair.wall_ns == 0) return true; /* room that was never used */
    if (pair.wall_ns < 0 || (last && (pair.ticks <= last->ticks || pair.wall_ns <= last->wall_ns)))
      return false; /* set back */
    if (!tg__grow((void **)&c->pairs, &c->cap, c->count + 1, sizeof *c->pairs)) {
      *no_memory = true;
      return false;
    }
    c->pairs[c->count++] = pair;
  }
  return true;
}

/* Position of the pair that begins the stretch with `ticks`; the first and the last reach to the ends of time. */
static size_t stretch_of(const struct tg__raw_clock *c, uint64_t ticks) {
  size_t low = 0, high = c->count - 1;
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    if (c->pairs[middle].ticks <= ticks) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

static void move_to(struct tg__raw_cursor *c, uint64_t ticks) {
  c->low = 0;
  c->high = UINT64_MAX;
  c->span_ticks = c->span_ns = 1;
  c->from =
      c->clock->count ? c->clock->pairs[0] : (struct tg__raw_pair){0, 0}; /* ticks are ns where the file says no more */
  if (c->clock->count > 1) {
    const size_t at = stretch_of(c->clock, ticks);
    const struct tg__raw_pair *const a = &c->clock->pairs[at], *const b = a + 1;
    if (at) c->low = a->ticks;
    if (at + 2 < c->clock->count) c->high = b->ticks;
    c->from = *a;
    c->span_ticks = b->ticks - a->ticks;
    c->span_ns = (uint64_t)(b->wall_ns - a->wall_ns);
  }
  c->whole = c->span_ns / c->span_ticks;
  const unsigned __int128 rest = (unsigned __int128)(c->span_ns % c->span_ticks) << 64;
  c->part = (uint64_t)((rest + c->span_ticks - 1) / c->span_ticks);
  /* A product of n ticks is too large by less than n / 2^64; its exact fraction is a multiple of 1 / span_ticks. */
  c->exact_below = UINT64_MAX / c->span_ticks;
  if (c->whole && c->exact_below > (uint64_t)INT64_MAX / 4 / c->whole)
    c->exact_below = (uint64_t)INT64_MAX / 4 / c->whole;
}

bool tg__raw_wall_ns(struct tg__raw_cursor *c, uint64_t ticks, int64_t *ns) {
  if (TG_UNLIKELY(c->span_ticks == 0 || ticks < c->low || ticks >= c->high)) move_to(c, ticks);
  const uint64_t after = ticks - c->from.ticks;
  if (TG_LIKELY(ticks >= c->from.ticks && after < c->exact_below && c->from.wall_ns < INT64_MAX / 2)) {
    *ns = c->from.wall_ns + (int64_t)(after * c->whole + (uint64_t)((unsigned __int128)after * c->part >> 64));
    return true;
  }
  const __int128 from = (__int128)ticks - c->from.ticks; /* below 2^64, times below 2^63: fits */
  const __int128 down = from < 0 ? (__int128)c->span_ticks - 1 : 0;
  const __int128 at = c->from.wall_ns + (from * (__int128)c->span_ns - down) / (__int128)c->span_ticks;
  *ns = (int64_t)at;
  return at > INT64_MIN && at <= INT64_MAX;
}
