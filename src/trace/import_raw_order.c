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

static bool order_keys(uint32_t *order, const struct tg__raw_key *keys, uint32_t count) {
  enum { INSERT_MOST = 1 << 14 };
  if (count > INSERT_MOST) return tg__sort_order(order, count, key_less, keys);
  insert_by_start(order, keys, count);
  return true;
}

/* An allocation known only to lie behind start_ticks lies behind all that had ended on the thread
 * when it was noted. */
static void list_keys(struct tg__raw_job *j, const struct tg__raw_chunk *chunk, struct tg__raw_ordered *o) {
  uint64_t last_end = 0;
  for (uint32_t i = 0; i < chunk->count;) {
    struct tg__raw_record r;
    struct tg__raw_key key = {.at = i};
    bool torn;
    tg__raw_next(chunk, &i, &r, &key.dur, &torn);
    if (torn) tg__count_loss(&j->losses, TG__LOSS_bent_torn_duration, tg__raw_offset(j, key.at));
    if (r.scope == TG_RAW_EXTENSION || r.scope == TG_RAW_MEMORY_TOTALS) continue;
    key.start = r.start_ticks;
    if (tg__raw_is_driver_memory(&r)) key.dur = 0; /* it stands for an address */
    if (tg__raw_is_memory(&r)) {
      key.dur = 0;
      if (r.flags & TG_RAW_F_EARLY && key.start < last_end) key.start = last_end;
    } else if (key.dur <= UINT64_MAX - key.start && key.start + key.dur > last_end) {
      last_end = key.start + key.dur;
    }
    o->keys[o->count++] = key;
  }
}

bool tg__raw_order_chunk(struct tg__raw_job *j, const struct tg__raw_chunk *chunk, struct tg__raw_ordered *o) {
  *o = (struct tg__raw_ordered){.keys = tg__realloc(NULL, (chunk->count + (size_t)1) * sizeof *o->keys),
                                .order = tg__realloc(NULL, (chunk->count + (size_t)1) * sizeof *o->order)};
  if (!o->keys || !o->order) return false;
  list_keys(j, chunk, o);
  return order_keys(o->order, o->keys, o->count);
}
