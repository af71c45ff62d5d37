/* check: greeting, chunk heads, index and footer of untrusted bytes. Payloads are only looked at when asked. */
#include "format/format.h"

static const uint8_t magic[8] = {0x89, 'T', 'A', 'C', 'H', 'O', '\r', '\n'}; /* a transfer as text breaks it visibly */
enum { HEAD_MARK = 0x6754 };                                                 /* "Tg": cheap first test when searching for a head */

/* ---- greeting ---------------------------------------------------------------------------------------------------------------- */

/*  0        8       10      12      16
 *  | magic  | major | minor | check |    check: low half of the checksum of the 12 bytes before it */
void tg__greeting_write(uint8_t out[TG_GREETING_BYTES]) {
  memcpy(out, magic, sizeof magic);
  tg__set16(out + 8, TG_FORMAT_MAJOR);
  tg__set16(out + 10, TG_FORMAT_MINOR);
  tg__set32(out + 12, (uint32_t)tg__checksum(out, 12));
}

bool tg__greeting_recognise(const void *head, size_t len) { return len >= sizeof magic && memcmp(head, magic, sizeof magic) == 0; }

enum tg_err tg__greeting_check(const uint8_t *file, size_t len, struct tg_error *e) {
  if (!tg__greeting_recognise(file, len)) return tg__fail(e, TG_NOT_A_TRACE, 0, "this is not a .tacho file: its first 8 bytes are others");
  if (len < TG_GREETING_BYTES) {
    return tg__fail(e, TG_DAMAGED, (int64_t)len, "the .tacho file ends after %zu bytes, inside its greeting: copy it again", len);
  }
  if (tg__get32(file + 12) != (uint32_t)tg__checksum(file, 12)) {
    return tg__fail(e, TG_DAMAGED, 8, "the greeting of the .tacho file is damaged: copy it again");
  }
  const unsigned major = tg__get16(file + 8);
  if (major != TG_FORMAT_MAJOR) {
    return tg__fail(e, TG_UNSUPPORTED, 8, "the .tacho file has format version %u, this build reads version %d: use a newer tachograph", major,
                    TG_FORMAT_MAJOR);
  }
  return TG_OK;
}

/* ---- chunk heads --------------------------------------------------------------------------------------------------------------- */

/*  0      2      4       8         16          24      28      32
 *  | mark | type | part  | length  | checksum  | flags | check |    check: low half of the checksum of the 28 bytes before it */
void tg__chunk_head_write(uint8_t out[TG_CHUNK_HEAD_BYTES], uint16_t type, uint32_t part, uint32_t flags, uint64_t length,
                          uint64_t checksum) {
  tg__set16(out, HEAD_MARK);
  tg__set16(out + 2, type);
  tg__set32(out + 4, part);
  tg__set64(out + 8, length);
  tg__set64(out + 16, checksum);
  tg__set32(out + 24, flags);
  tg__set32(out + 28, (uint32_t)tg__checksum(out, 28));
}

bool tg__chunk_at(const uint8_t *file, size_t len, uint64_t offset, struct tg__chunk *out) {
  if (offset % 8 || offset > len || len - offset < TG_CHUNK_HEAD_BYTES) return false;
  const uint8_t *const p = file + offset;
  if (tg__get16(p) != HEAD_MARK || tg__get32(p + 28) != (uint32_t)tg__checksum(p, 28)) return false;
  *out = (struct tg__chunk){.type = tg__get16(p + 2),
                            .part = tg__get32(p + 4),
                            .length = tg__get64(p + 8),
                            .checksum = tg__get64(p + 16),
                            .flags = tg__get32(p + 24),
                            .offset = offset,
                            .payload = p + TG_CHUNK_HEAD_BYTES};
  const uint64_t left = len - offset - TG_CHUNK_HEAD_BYTES;
  out->cut = out->length > left;
  if (!out->cut) return true;
  out->length = left;
  return out->flags & TG_CHUNK_IN_PLACE;
}

bool tg__chunk_is_intact(const struct tg__chunk *c) {
  return (c->flags & TG_CHUNK_IN_PLACE) || tg__checksum(c->payload, (size_t)c->length) == c->checksum;
}

const char *tg__chunk_name(uint16_t type) {
  switch (type) {
#define CHUNK(name, number, meaning)                                                                                                        \
  case number: return #name;
#include "format/chunks.def"
#undef CHUNK
  default: return NULL;
  }
}

/* ---- walk ------------------------------------------------------------------------------------------------------------------------ */

void tg__walk_begin(struct tg__walk *w, const uint8_t *file, size_t len) {
  *w = (struct tg__walk){.file = file, .len = len, .at = TG_GREETING_BYTES};
}

bool tg__walk_next(struct tg__walk *w, struct tg__chunk *out) {
  bool in_gap = false;
  for (; w->at < w->len; w->at += 8) {
    if (tg__chunk_at(w->file, w->len, w->at, out)) {
      w->at += tg__chunk_span(out->length);
      return true;
    }
    if (in_gap) continue;
    in_gap = true;
    if (w->gaps++ == 0) w->first_gap = w->at;
  }
  return false;
}

/* ---- index and footer -------------------------------------------------------------------------------------------------------------- */

/*  0      2      4       8         16        24
 *  | type | 0    | part  | offset  | length  |   */
void tg__index_entry_write(uint8_t out[TG_INDEX_ENTRY_BYTES], uint16_t type, uint32_t part, uint64_t offset, uint64_t length) {
  tg__set16(out, type);
  tg__set16(out + 2, 0);
  tg__set32(out + 4, part);
  tg__set64(out + 8, offset);
  tg__set64(out + 16, length);
}

uint64_t tg__footer_find(const uint8_t *file, size_t len) {
  struct tg__chunk footer, index;
  const size_t span = TG_CHUNK_HEAD_BYTES + TG_FOOTER_BYTES;
  if (len < TG_GREETING_BYTES + span || !tg__chunk_at(file, len, len - span, &footer)) return 0;
  if (footer.type != TG_CHUNK_FOOTER || footer.length != TG_FOOTER_BYTES || !tg__chunk_is_intact(&footer)) return 0;
  const uint64_t at = tg__get64(footer.payload);
  if (at < TG_GREETING_BYTES || tg__get64(footer.payload + 8) != len) return 0;
  if (!tg__chunk_at(file, len, at, &index) || index.type != TG_CHUNK_INDEX) return 0;
  return at;
}

bool tg__index_entry_chunk(const uint8_t *file, size_t len, const uint8_t *entry, struct tg__chunk *out) {
  return tg__chunk_at(file, len, tg__get64(entry + 8), out) && out->type == tg__get16(entry) && out->part == tg__get32(entry + 4) &&
         out->length == tg__get64(entry + 16);
}
