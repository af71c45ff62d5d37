/* file_order: the ordinal of an event among all events of its file, from the reference to its args, which rises
 * along the file. */
#ifndef TG_FILE_ORDER_H
#define TG_FILE_ORDER_H

#include "analyze/analyze.h"

/* References that are taken: a bit each, from `least` on; taken[w]: how many there are before word w. */
struct tg__file_order {
  uint64_t *bits;
  uint32_t *taken;
  uint32_t least;
  size_t words;
};
/* false on no memory, where two events share a reference, or where references lie far apart, which they do in no
 * file that was read; close it either way. Needs TG__COL_ARGS and TG__COL_MARKS. */
bool tg__file_order_open(struct tg__file_order *o, const struct tg__columns *t, uint32_t rank);
void tg__file_order_close(struct tg__file_order *o);

/* Of an event of that rank: a few bits are counted. */
static inline uint32_t tg__file_order_of(const struct tg__file_order *o, uint32_t args) {
  const uint32_t at = args - o->least;
  return o->taken[at / 64] + (uint32_t)__builtin_popcountll(o->bits[at / 64] & (((uint64_t)1 << at % 64) - 1));
}

#endif
