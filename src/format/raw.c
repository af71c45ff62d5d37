/* raw: what the recorder writes in place while the program runs, and how it is read back. */
#include "format/format.h"

#include <stddef.h>

/* The list in events.def says where each field lies; the compiler's layout must be the same, as the recorder stores
 * structs. */
#define RAW_FIELD(type, name, offset, meaning) _Static_assert(offsetof(struct tg__raw_record, name) == (offset), #name);
#include "format/events.def"
_Static_assert(sizeof(struct tg__raw_record) == TG_RAW_RECORD_BYTES, "a record is 32 bytes");
_Static_assert(sizeof(struct tg__raw_process) == TG_RAW_PROCESS_BYTES, "the recorder stores the struct");
_Static_assert(offsetof(struct tg__raw_process, counts) == 64, "no holes");

void tg__raw_head_write(uint8_t out[TG_RAW_HEAD_BYTES], const struct tg__raw_head *head) {
  tg__set32(out, head->capacity);
  tg__set32(out + 4, head->sealed);
  tg__set64(out + 8, head->checksum);
  tg__set32(out + 16, head->process);
  tg__set32(out + 20, head->thread);
  tg__set32(out + 24, head->lost);
  tg__set32(out + 28, head->logical);
}

struct tg__raw_head tg__raw_head_read(const uint8_t in[TG_RAW_HEAD_BYTES]) {
  return (struct tg__raw_head){.capacity = tg__get32(in),
                               .sealed = tg__get32(in + 4),
                               .checksum = tg__get64(in + 8),
                               .process = tg__get32(in + 16),
                               .thread = tg__get32(in + 20),
                               .lost = tg__get32(in + 24),
                               .logical = tg__get32(in + 28)};
}

void tg__raw_record_write(uint8_t out[TG_RAW_RECORD_BYTES], const struct tg__raw_record *r) {
  tg__set64(out, r->start_ticks);
  tg__set32(out + 8, r->dur_ticks);
  tg__set32(out + 12, r->name);
  tg__set32(out + 16, r->shape);
  tg__set32(out + 20, r->stack);
  tg__set32(out + 24, r->seq);
  tg__set16(out + 28, r->depth);
  out[30] = r->scope;
  out[31] = r->flags;
}

void tg__raw_record_read(const uint8_t in[TG_RAW_RECORD_BYTES], struct tg__raw_record *out) {
  *out = (struct tg__raw_record){.start_ticks = tg__get64(in),
                                 .dur_ticks = tg__get32(in + 8),
                                 .name = tg__get32(in + 12),
                                 .shape = tg__get32(in + 16),
                                 .stack = tg__get32(in + 20),
                                 .seq = tg__get32(in + 24),
                                 .depth = tg__get16(in + 28),
                                 .scope = in[30],
                                 .flags = in[31]};
}

enum tg_err tg__raw_chunk_read(const struct tg__chunk *c, const uint8_t *payload, struct tg__raw_chunk *out) {
  if (c->type != TG_CHUNK_RAW_RECORDS || c->length < TG_RAW_HEAD_BYTES) return TG_DAMAGED;
  const uint64_t room = (c->length - TG_RAW_HEAD_BYTES) / TG_RAW_RECORD_BYTES;
  *out = (struct tg__raw_chunk){.records = payload + TG_RAW_HEAD_BYTES, .head = tg__raw_head_read(payload)};
  const struct tg__raw_head *const head = &out->head;
  if ((head->capacity > room && !c->cut) || (head->sealed && head->sealed - 1 > head->capacity)) return TG_DAMAGED;
  if (c->cut && head->capacity > room) out->head.capacity = (uint32_t)room;
  out->is_open =
      head->sealed == 0 || head->sealed - 1 > head->capacity; /* the second: what the cut left of a sealed one */
  if (!out->is_open) {
    out->count = head->sealed - 1;
    const uint64_t is = tg__checksum(out->records, (size_t)out->count * TG_RAW_RECORD_BYTES);
    return is == head->checksum ? TG_OK : TG_DAMAGED;
  }
  while (out->count < head->capacity &&
         out->records[(size_t)out->count * TG_RAW_RECORD_BYTES + TG_RAW_RECORD_BYTES - 1])
    out->count++;
  return TG_OK;
}

/* 0        8        12       16      20        24          32         40      44 … 64
 * | session | process | parent | rank | features | start_ns | stop_ns | ticks | reserved | counts */
bool tg__raw_process_read(const uint8_t *payload, uint64_t len, struct tg__raw_process *out) {
  if (len < TG_RAW_PROCESS_BYTES) return false;
  *out = (struct tg__raw_process){.session = tg__get64(payload),
                                  .process = tg__get32(payload + 8),
                                  .parent = tg__get32(payload + 12),
                                  .rank = (int32_t)tg__get32(payload + 16),
                                  .features = tg__get32(payload + 20),
                                  .start_ns = (int64_t)tg__get64(payload + 24),
                                  .stop_ns = (int64_t)tg__get64(payload + 32),
                                  .ticks = tg__get32(payload + 40)};
  for (int i = 0; i < TG_RAW_COUNTS; i++) out->counts[i] = tg__get64(payload + 64 + 8 * i);
  return true;
}

bool tg__raw_next(const struct tg__raw_chunk *c, uint32_t *i, struct tg__raw_record *r, uint64_t *dur_ticks,
                  bool *torn) {
  if (*i >= c->count) return false;
  tg__raw_record_read(c->records + (size_t)(*i)++ * TG_RAW_RECORD_BYTES, r);
  *dur_ticks = r->dur_ticks;
  *torn = r->scope == TG_RAW_EXTENSION; /* one that belongs to nothing */
  if (!(r->flags & TG_RAW_F_LONG) || *torn) return true;
  struct tg__raw_record next = {0};
  if (*i < c->count) tg__raw_record_read(c->records + (size_t)*i * TG_RAW_RECORD_BYTES, &next);
  *torn = next.scope != TG_RAW_EXTENSION || (uint32_t)next.start_ticks != r->dur_ticks;
  if (*torn) return true;
  *dur_ticks = next.start_ticks;
  ++*i;
  return true;
}

uint64_t tg__raw_call_number(const struct tg__raw_chunk *c, uint32_t i) {
  struct tg__raw_record r, next;
  if (i + 1 >= c->count) return 0;
  tg__raw_record_read(c->records + (size_t)i * TG_RAW_RECORD_BYTES, &r);
  tg__raw_record_read(c->records + ((size_t)i + 1) * TG_RAW_RECORD_BYTES, &next);
  const bool has_extension = r.flags & TG_RAW_F_LONG && next.scope == TG_RAW_EXTENSION;
  return has_extension ? (uint64_t)next.stack << 32 | next.seq : 0;
}

/*  0    4        8        12
 *  | id | parent | length | text, zeros up to a multiple of 4 */
void tg__raw_entry_put(struct tg__out *o, const struct tg__raw_entry *entry) {
  static const char zeros[4];
  tg__out_put32(o, entry->id);
  tg__out_put32(o, entry->parent);
  tg__out_put32(o, entry->text.len);
  tg__out_bytes(o, entry->text.ptr, entry->text.len);
  tg__out_bytes(o, zeros, (0 - entry->text.len) & 3);
}

bool tg__raw_entry_take(struct tg__bytes *b, struct tg__raw_entry *out) {
  if (b->p == b->end) return false;
  out->id = tg__bytes_take32(b);
  out->parent = tg__bytes_take32(b);
  out->text.len = tg__bytes_take32(b);
  out->text.ptr = (const char *)tg__bytes_take(b, out->text.len);
  tg__bytes_take(b, (0 - out->text.len) & 3);
  return !b->broken;
}
