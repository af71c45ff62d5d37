/* Events that no parser of JSON has made: values gathered one by one, then the event, then whole blocks of them. */
#include "trace/import.h"

void tg__row_value(struct tg__parser *p, uint32_t key, enum tg__kind kind, int64_t i, bool top) {
  p->vals[p->val_count++] = (struct tg__packed_val){.key = key, .kind = (uint8_t)kind, .i = i, .top = top}; /* room for 64 is there */
}

bool tg__row_add(struct tg__parser *p, struct tg__record r, uint32_t category) {
  bool has_args = false;
  for (size_t i = 0; i < p->val_count; i++) has_args |= !p->vals[i].top;
  r.cat = (uint16_t)tg__intern_cat(p, category);
  const struct tg__guess *const schema = tg__intern_schema(p, has_args, p->vals, p->val_count);
  r.args = schema ? tg__pack_args(p, schema->id, p->vals, p->val_count) : TG_NONE;
  p->val_count = 0;
  if (p->no_memory || !tg__grow((void **)&p->records, &p->record_cap, p->record_count + 1, sizeof *p->records)) return false;
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

static bool move_args(struct tg__import *im, const struct tg__segment *s, const uint8_t *pool, size_t len, const int64_t phases[128]) {
  const uint64_t base = im->pool_len / 4;
  if (base + len / 4 >= TG_NONE || !tg__pages_grow((void **)&im->pool, &im->pool_cap, im->pool_len + len + 1)) return false;
  if (len) memcpy(im->pool + im->pool_len, pool, len);
  im->pool_len += len;
  for (size_t i = 0; i < s->count; i++) s->records[i].args += (uint32_t)base;
  for (int i = 0; i < 128; i++) im->phases[i] += phases[i];
  return true;
}

bool tg__commit_block(struct tg__import *im, struct tg__segment *s, const uint8_t *pool, size_t len, const int64_t phases[128]) {
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
