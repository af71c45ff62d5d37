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

bool tg__commit_block(struct tg__import *im, struct tg__segment *s, const uint8_t *pool, size_t len, const int64_t phases[128]) {
  const uint64_t base = im->pool_len / 4;
  if (base + len / 4 >= TG_NONE || !tg__pages_grow((void **)&im->pool, &im->pool_cap, im->pool_len + len + 1)) return false;
  if (len) memcpy(im->pool + im->pool_len, pool, len);
  im->pool_len += len;
  for (size_t i = 0; i < s->count; i++) s->records[i].args += (uint32_t)base;
  for (int i = 0; i < 128; i++) im->phases[i] += phases[i];
  return add_segment(im, *s);
}

bool tg__commit_rows(struct tg__import *im, struct tg__parser *p) {
  const size_t bytes = (p->record_count + 1) * sizeof *p->records;
  struct tg__segment s = {tg__pages_get(bytes), p->record_count, bytes};
  if (!s.records) return false;
  if (p->record_count) memcpy(s.records, p->records, p->record_count * sizeof *p->records);
  const bool ok = tg__commit_block(im, &s, p->pool, p->pool_len, p->phases);
  if (!ok) tg__pages_drop(s.records, bytes);
  tg__losses_add(&im->losses, &p->losses);
  tg__parser_reset(p);
  return ok;
}
