/* chunk_valid: the invariants of a chunk, as code. The recorder asserts them where it seals one, readers where they
 * have accepted one; tests and fuzz targets call them. */
#include "format/format.h"

bool tg__raw_records_are_valid(const struct tg__raw_head *head, const uint8_t *records, uint64_t room,
                               struct tg_error *e) {
  TG__CHECK(head->capacity <= room / TG_RAW_RECORD_BYTES, "chunk: no room for its %u records", head->capacity);
  if (head->sealed == 0) return true; /* open: what it holds is not final */
  TG__CHECK(head->sealed - 1 <= head->capacity, "chunk: sealed with %u records of at most %u", head->sealed - 1,
            head->capacity);
  TG__CHECK(tg__checksum(records, (size_t)(head->sealed - 1) * TG_RAW_RECORD_BYTES) == head->checksum,
            "chunk: its %u records are not those that were sealed", head->sealed - 1);
  return true;
}

bool tg__chunk_is_valid(const struct tg__chunk *c, const uint8_t *payload, struct tg_error *e) {
  const bool in_place = c->flags & TG_CHUNK_IN_PLACE;
  TG__CHECK(c->offset % 8 == 0, "chunk: its offset is no multiple of 8");
  TG__CHECK(c->offset >= TG_GREETING_BYTES, "chunk: it lies in the greeting");
  TG__CHECK(c->length <= UINT64_MAX - TG_CHUNK_HEAD_BYTES - c->offset, "chunk: its end does not fit 64 bits");
  TG__CHECK(!c->cut || in_place, "chunk: cut, but not in place");
  TG__CHECK(in_place || tg__checksum(payload, (size_t)c->length) == c->checksum,
            "chunk: the payload is not as written");
  if (c->cut || c->type != TG_CHUNK_RAW_RECORDS) return true;
  TG__CHECK(c->length >= TG_RAW_HEAD_BYTES, "chunk: no room for the head of its records");
  const struct tg__raw_head head = tg__raw_head_read(payload);
  return tg__raw_records_are_valid(&head, payload + TG_RAW_HEAD_BYTES, c->length - TG_RAW_HEAD_BYTES, e);
}
