/* check: greeting, chunk heads, index and footer, from untrusted bytes. */
#include "format/format.h"

static const uint8_t magic[8] = {0x89, 'T', 'A', 'C', 'H', 'O', '\r', '\n'}; /* a transfer as text breaks it visibly */
enum { HEAD_MARK = 0x6754 }; /* "Tg": cheap first test when searching for a head */

/* ---- greeting -------------------------------------------------------------------------------- */

/*  0        8       10      12      16
 *  | magic  | major | minor | check |    check: low half of the checksum of the 12 bytes before it */
void tg__greeting_write(uint8_t out[TG_GREETING_BYTES]) {
  memcpy(out, magic, sizeof magic);
  tg__set16(out + 8, TG_FORMAT_MAJOR);
  tg__set16(out + 10, TG_FORMAT_MINOR);
  tg__set32(out + 12, (uint32_t)tg__checksum(out, 12));
}

bool tg__greeting_recognise(const void *head, size_t len) {
  return len >= sizeof magic && memcmp(head, magic, sizeof magic) == 0;
}

enum tg_err tg__greeting_check(const void *head, size_t len, struct tg_error *e) {
  const uint8_t *const p = head;
  if (!tg__greeting_recognise(p, len))
    return tg__fail(e, TG_NOT_A_TRACE, 0, "this is not a .tacho file: it does not begin like one");
  if (len < TG_GREETING_BYTES) {
    return tg__fail(e, TG_DAMAGED, (int64_t)len,
                    "the .tacho file ends after %zu bytes, inside its greeting: copy it again", len);
  }
  if (tg__get32(p + 12) != (uint32_t)tg__checksum(p, 12)) {
    return tg__fail(e, TG_DAMAGED, 8, "the greeting of the .tacho file is damaged: copy it again");
  }
  const unsigned major = tg__get16(p + 8);
  if (major == TG_FORMAT_MAJOR) return TG_OK;
  return tg__fail(e, TG_UNSUPPORTED, 8,
                  "the .tacho file has format version %u and this build reads version %d: use a newer tachograph",
                  major, TG_FORMAT_MAJOR);
}

/* ---- chunk heads ----------------------------------------------------------------------------- */

/*  0      2      4       8         16          24      28      32
 *  | mark | type | part  | length  | checksum  | flags | check |    check: low half of the checksum of the 28 bytes
 *                        before it */
void tg__chunk_head_write(uint8_t out[TG_CHUNK_HEAD_BYTES], uint16_t type, uint32_t part, uint32_t flags,
                          uint64_t length, uint64_t checksum) {
  tg__set16(out, HEAD_MARK);
  tg__set16(out + 2, type);
  tg__set32(out + 4, part);
  tg__set64(out + 8, length);
  tg__set64(out + 16, checksum);
  tg__set32(out + 24, flags);
  tg__set32(out + 28, (uint32_t)tg__checksum(out, 28));
}

bool tg__chunk_head_read(const uint8_t *head, uint64_t offset, uint64_t file_len, struct tg__chunk *out) {
  if (offset % 8 || offset > file_len || file_len - offset < TG_CHUNK_HEAD_BYTES) return false;
  if (tg__get16(head) != HEAD_MARK || tg__get32(head + 28) != (uint32_t)tg__checksum(head, 28)) return false;
  *out = (struct tg__chunk){.type = tg__get16(head + 2),
                            .part = tg__get32(head + 4),
                            .length = tg__get64(head + 8),
                            .checksum = tg__get64(head + 16),
                            .flags = tg__get32(head + 24),
                            .offset = offset};
  const uint64_t left = file_len - offset - TG_CHUNK_HEAD_BYTES;
  out->cut = out->length > left;
  if (!out->cut) return true;
  out->length = left;
  return out->flags & TG_CHUNK_IN_PLACE;
}

bool tg__chunk_at(const struct tg__reader *r, uint64_t offset, struct tg__chunk *out) {
  uint8_t head[TG_CHUNK_HEAD_BYTES];
  if (offset > r->len || r->len - offset < sizeof head || !r->read(r->ctx, offset, head, sizeof head)) return false;
  return tg__chunk_head_read(head, offset, r->len, out);
}

bool tg__chunk_is_intact(const struct tg__chunk *c, const uint8_t *payload) {
  return (c->flags & TG_CHUNK_IN_PLACE) || tg__checksum(payload, (size_t)c->length) == c->checksum;
}

const char *tg__chunk_name(uint16_t type) {
  switch (type) {
#define CHUNK(name, number, meaning)                                                                                   \
  case number:                                                                                                         \
    return #name;
#include "format/chunks.def"
#undef CHUNK
  default:
    return NULL;
  }
}

/* ---- walk ------------------------------------------------------------------------------------ */

void tg__walk_begin(struct tg__walk *w, const struct tg__reader *r) {
  *w = (struct tg__walk){.reader = r, .at = TG_GREETING_BYTES};
}

static bool is_zero(const uint8_t *p, size_t len) {
  while (len && *p == 0) p++, len--;
  return len == 0;
}

/* The first intact head behind w->at; w->at moves there, or to the end of the file. *damaged: other bytes than zeros
 * lie before it. */
static bool find_head(struct tg__walk *w, struct tg__chunk *out, bool *damaged) {
  uint8_t window[4096 + TG_CHUNK_HEAD_BYTES];
  const struct tg__reader *const r = w->reader;
  while (w->at < r->len) {
    const uint64_t left = r->len - w->at;
    const size_t have = left < sizeof window ? (size_t)left : sizeof window;
    if (!r->read(r->ctx, w->at, window, have)) break;
    size_t i = 0;
    for (; i + TG_CHUNK_HEAD_BYTES <= have; i += 8, w->at += 8) {
      if (tg__chunk_head_read(window + i, w->at, r->len, out)) return true;
      *damaged |= !is_zero(window + i, 8);
    }
    if (have < sizeof window) { /* the end of the file: no room for a head */
      *damaged |= !is_zero(window + i, have - i);
      break;
    }
  }
  w->at = r->len;
  return false;
}

bool tg__walk_next(struct tg__walk *w, struct tg__chunk *out) {
  if (w->at >= w->reader->len) return false;
  if (!tg__chunk_at(w->reader, w->at, out)) {
    const uint64_t gap = w->at;
    bool damaged = false;
    const bool found = find_head(w, out, &damaged);
    if (damaged && w->gaps++ == 0) w->first_gap = gap;
    if (!found) return false;
  }
  w->at += tg__chunk_span(out->length); /* cannot wrap: the payload lies in the file */
  return true;
}

/* ---- index and footer ------------------------------------------------------------------------ */

/*  0      2      4       8         16        24
 *  | type | 0    | part  | offset  | length  |   */
void tg__index_entry_write(uint8_t out[TG_INDEX_ENTRY_BYTES], const struct tg__chunk *c) {
  tg__set16(out, c->type);
  tg__set16(out + 2, 0);
  tg__set32(out + 4, c->part);
  tg__set64(out + 8, c->offset);
  tg__set64(out + 16, c->length);
}

bool tg__index_entry_read(const uint8_t in[TG_INDEX_ENTRY_BYTES], uint64_t file_len, struct tg__chunk *out) {
  *out = (struct tg__chunk){
      .type = tg__get16(in), .part = tg__get32(in + 4), .offset = tg__get64(in + 8), .length = tg__get64(in + 16)};
  return out->offset % 8 == 0 && out->offset <= file_len && file_len - out->offset >= TG_CHUNK_HEAD_BYTES &&
         out->length <= file_len - out->offset - TG_CHUNK_HEAD_BYTES;
}

uint64_t tg__footer_find(const struct tg__reader *r) {
  uint8_t bytes[TG_CHUNK_HEAD_BYTES + TG_FOOTER_BYTES];
  struct tg__chunk footer;
  if (r->len < TG_GREETING_BYTES + sizeof bytes || !r->read(r->ctx, r->len - sizeof bytes, bytes, sizeof bytes))
    return 0;
  const uint8_t *const payload = bytes + TG_CHUNK_HEAD_BYTES;
  if (!tg__chunk_head_read(bytes, r->len - sizeof bytes, r->len, &footer) || footer.type != TG_CHUNK_FOOTER ||
      footer.length != TG_FOOTER_BYTES || !tg__chunk_is_intact(&footer, payload)) {
    return 0;
  }
  return tg__get64(payload + 8) == r->len ? tg__get64(payload) : 0;
}
