/* Events that no parser of JSON has made: values gathered one by one, then the event, then whole blocks of them. */
#include "trace/import.h"

static uint32_t cat_of(struct tg__parser *p, uint32_t category) {
  const uint32_t slot = category % 64;
  return p->cat_string[slot] == category && p->cat_index[slot] != TG_NONE ? p->cat_index[slot]
                                                                          : tg__intern_cat(p, category);
}

static inline uint64_t head_of(const struct tg__packed_val *v) {
  uint64_t head;
  memcpy(&head, v, sizeof head);
  return head;
}
_Static_assert(offsetof(struct tg__packed_val, i) == sizeof(uint64_t), "the head is a word");

/* Most rows have the fields of the last one with as many values. */
static const struct tg__guess *schema_of(struct tg__parser *p) {
  const size_t count = p->val_count;
  struct tg__row_fields *const known = &p->rows[count % TG__ROW_CACHE];
  size_t same = 0;
  while (same < count && head_of(&p->vals[same]) == known->heads[same]) same++;
  if (known->schema && same == count && known->schema->count == count) return known->schema;
  bool has_args = false;
  for (size_t i = 0; i < count; i++) {
    has_args |= !p->vals[i].top;
    known->heads[i] = head_of(&p->vals[i]);
  }
  return known->schema = tg__intern_schema(p, has_args, p->vals, count);
}

bool tg__row_add(struct tg__parser *p, struct tg__record r, uint32_t category) {
  r.cat = (uint16_t)cat_of(p, category);
  const struct tg__guess *const schema = schema_of(p);
  r.args = schema ? tg__pack_args(p, schema->id, p->vals, p->val_count) : TG_NONE;
  p->val_count = 0;
  if (p->no_memory || !tg__grow((void **)&p->records, &p->record_cap, p->record_count + 1, sizeof *p->records))
    return false;
  p->records[p->record_count++] = r;
  p->phases[r.ph]++;
  return true;
}

static bool add_segment(struct tg__import *im, struct tg__segment s) {
  if (!tg__grow((void **)&im->segments, &im->segment_cap, im->segment_count + 1, sizeof *im->segments)) return false;
  im->segments[im->segment_count++] = s;
  im->events_read += (int64_t)s.count;
  return true;
}

static bool move_args(struct tg__import *im, const struct tg__segment *s, const uint8_t *pool, size_t len,
                      const int64_t phases[128]) {
  const uint64_t base = im->pool_len / 4;
  if (base + len / 4 >= TG_NONE || !tg__pages_grow((void **)&im->pool, &im->pool_cap, im->pool_len + len + 1))
    return false;
  if (len) memcpy(im->pool + im->pool_len, pool, len);
  im->pool_len += len;
  for (size_t i = 0; i < s->count; i++) s->records[i].args += (uint32_t)base;
  for (int i = 0; i < 128; i++) im->phases[i] += phases[i];
  return true;
}

bool tg__commit_block(struct tg__import *im, struct tg__segment *s, const uint8_t *pool, size_t len,
                      const int64_t phases[128]) {
  return move_args(im, s, pool, len, phases) && add_segment(im, *s);
}

enum { SEGMENT_BYTES = 4 << 20 }; /* of all but the first: few rows are no reason for huge pages */

/* Behind the last block while it has room, else in a block of its own. */
static bool commit_records(struct tg__import *im, const struct tg__parser *p) {
  struct tg__segment *const last = im->segment_count ? &im->segments[im->segment_count - 1] : NULL;
  const size_t bytes = p->record_count * sizeof *p->records;
  if (last && last->bytes / sizeof *p->records - last->count >= p->record_count) {
    struct tg__segment more = {last->records + last->count, p->record_count, 0};
    if (bytes) memcpy(more.records, p->records, bytes);
    if (!move_args(im, &more, p->pool, p->pool_len, p->phases)) return false;
    last->count += more.count;
    im->events_read += (int64_t)more.count;
    return true;
  }
  const size_t room = last && bytes < SEGMENT_BYTES ? SEGMENT_BYTES : bytes + sizeof *p->records;
  struct tg__segment s = {tg__pages_get(room), p->record_count, room};
  if (!s.records) return false;
  if (bytes) memcpy(s.records, p->records, bytes);
  const bool ok = tg__commit_block(im, &s, p->pool, p->pool_len, p->phases);
  if (!ok) tg__pages_drop(s.records, room);
  return ok;
}

bool tg__commit_rows(struct tg__import *im, struct tg__parser *p) {
  const bool ok = commit_records(im, p);
  tg__losses_add(&im->losses, &p->losses);
  tg__parser_reset(p);
  return ok;
}
