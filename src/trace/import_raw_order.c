/* The records of a chunk in the order of their starts. */
#include "trace/import_raw.h"

static bool key_before(const struct tg__raw_key *a, const struct tg__raw_key *b) {
  if (a->start != b->start) return a->start < b->start;
  if (a->dur != b->dur) return a->dur > b->dur;
  return a->at > b->at; /* what ended later lies around the other */
}
static bool key_less(uint32_t a, uint32_t b, const void *ctx) {
  return key_before((const struct tg__raw_key *)ctx + a, (const struct tg__raw_key *)ctx + b);
}

/* Records lie in the order of their ends, so one goes back over all that ran inside it: few, but for a chunk made to
 * hurt. */
static void insert_by_start(uint32_t *order, const struct tg__raw_key *keys, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    uint32_t place = i;
    while (place > 0 && key_before(&keys[i], &keys[order[place - 1]])) place--;
    memmove(order + place + 1, order + place, (i - place) * sizeof *order);
    order[place] = i;
  }
}

bool tg__raw_order_keys(uint32_t *order, const struct tg__raw_key *keys, uint32_t count) {
  enum { INSERT_MOST = 1 << 14 };
  if (count > INSERT_MOST) return tg__order(order, count, key_less, keys);
  insert_by_start(order, keys, count);
  return true;
}
