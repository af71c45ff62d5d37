/* format: the bytes of a .tacho file. Public header of the folder; the contract between the recorder and the reader.
 *
 * A file is a greeting of 16 bytes and then chunks, each 8-byte aligned: a head of 32 bytes, the payload, zeros up
 * to the next multiple of 8. All numbers are little endian. Nothing here does I/O or keeps memory: callers pass
 * buffers in, and every decoder states how much room it needs. docs/format.md is the byte-by-byte description. */
#ifndef TG_FORMAT_H
#define TG_FORMAT_H

#include "base/base.h"

enum {
  TG_FORMAT_MAJOR = 1, /* a reader refuses a higher one */
  TG_FORMAT_MINOR = 0, /* additions that older readers may pass over */
  TG_GREETING_BYTES = 16,
  TG_CHUNK_HEAD_BYTES = 32,
  TG_PACKED_HEAD_BYTES = 16,
  TG_PACKED_MAX_ROWS = 1 << 20, /* of one packed array: bounds the memory one chunk can ask for */
  TG_PACKED_MAX_RATIO =
      1 << 15, /* unpacked bytes per byte of chunk: what zstd's cheapest block (4 bytes for 128 KiB) can reach */
};

enum tg__chunk_type {
#define CHUNK(name, number, meaning) TG_CHUNK_##name = number,
#include "format/chunks.def"
#undef CHUNK
};
const char *tg__chunk_name(uint16_t type); /* NULL when the type is not known */

/* ---- little-endian bytes --------------------------------------------------------------------- */

static inline uint16_t tg__get16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static inline uint32_t tg__get32(const uint8_t *p) { return (uint32_t)tg__get16(p) | (uint32_t)tg__get16(p + 2) << 16; }
static inline uint64_t tg__get64(const uint8_t *p) { return (uint64_t)tg__get32(p) | (uint64_t)tg__get32(p + 4) << 32; }
static inline void tg__set16(uint8_t *p, uint16_t v) {
  p[0] = (uint8_t)v;
  p[1] = (uint8_t)(v >> 8);
}
static inline void tg__set32(uint8_t *p, uint32_t v) {
  tg__set16(p, (uint16_t)v);
  tg__set16(p + 2, (uint16_t)(v >> 16));
}
static inline void tg__set64(uint8_t *p, uint64_t v) {
  tg__set32(p, (uint32_t)v);
  tg__set32(p + 4, (uint32_t)(v >> 32));
}

/* A cursor over untrusted bytes: reading past the end returns zeros and sets `broken`. */
struct tg__bytes {
  const uint8_t *p, *end;
  bool broken;
};
const uint8_t *tg__bytes_take(struct tg__bytes *b, size_t len); /* NULL and broken when fewer are left */
uint8_t tg__bytes_take8(struct tg__bytes *b);
uint16_t tg__bytes_take16(struct tg__bytes *b);
uint32_t tg__bytes_take32(struct tg__bytes *b);
uint64_t tg__bytes_take64(struct tg__bytes *b);
void tg__out_put8(struct tg__out *o, uint8_t v);
void tg__out_put16(struct tg__out *o, uint16_t v);
void tg__out_put32(struct tg__out *o, uint32_t v);
void tg__out_put64(struct tg__out *o, uint64_t v);

/* ---- codecs (codec.c): the only file that knows zstd and xxhash ------------------------------ */

uint64_t tg__checksum(const void *bytes, size_t len); /* XXH3, 64 bits */
/* Bytes written to `out`, or 0 when that would need more than `room` (or this build has no zstd). */
size_t tg__zstd_pack(const void *bytes, size_t len, void *out, size_t room);
/* Succeeds only when the frame states its size and it is exactly `out_len`. TG_UNSUPPORTED when this build has no
 * zstd. */
enum tg_err tg__zstd_unpack(const void *bytes, size_t len, void *out, size_t out_len);

/* ---- greeting and chunks (encode.c, check.c) ------------------------------------------------- */

enum {
  TG_CHUNK_IN_PLACE = 1
}; /* flag: the payload is written after the head; it has its own checksum and the head has none */

struct tg__chunk {
  uint16_t type;
  uint32_t flags;
  uint32_t part;     /* which of its kind: number of the row group or block, of the thread for raw chunks */
  uint64_t length;   /* bytes of payload */
  uint64_t checksum; /* of the payload */
  uint64_t offset;   /* of the head in the file; the payload is TG_CHUNK_HEAD_BYTES behind it */
  bool cut; /* the file ends inside it; only in-place chunks are given out like that, with the length there is */
};

/* chunk_valid.c: the invariants of a chunk that was written whole, or read and accepted. payload: its `length`
 * bytes. */
bool tg__chunk_is_valid(const struct tg__chunk *c, const uint8_t *payload, struct tg_error *e);

/* Where bytes come from. Not a map: a file that shrinks while it is read must be an error and not a signal. */
struct tg__reader {
  bool (*read)(void *ctx, uint64_t offset, void *to, size_t len); /* all of it, or false */
  void *ctx;
  uint64_t len; /* of the file */
};

void tg__greeting_write(uint8_t out[TG_GREETING_BYTES]);
void tg__chunk_head_write(uint8_t out[TG_CHUNK_HEAD_BYTES], uint16_t type, uint32_t part, uint32_t flags,
                          uint64_t length, uint64_t checksum);
static inline uint64_t tg__chunk_span(uint64_t length) {
  return TG_CHUNK_HEAD_BYTES + ((length + 7) & ~(uint64_t)7);
} /* with padding */

bool tg__greeting_recognise(const void *head, size_t len); /* starts with the magic */
/* len: up to TG_GREETING_BYTES of the file. */
enum tg_err tg__greeting_check(const void *head, size_t len, struct tg_error *e);
/* The head at `offset`, when it is intact and its payload lies inside the file (of an in-place chunk: begins inside
 * it). */
bool tg__chunk_at(const struct tg__reader *r, uint64_t offset, struct tg__chunk *out);
/* The same from TG_CHUNK_HEAD_BYTES already read. */
bool tg__chunk_head_read(const uint8_t *head, uint64_t offset, uint64_t file_len, struct tg__chunk *out);
/* Matches its checksum; true for in-place chunks. */
bool tg__chunk_is_intact(const struct tg__chunk *c, const uint8_t *payload);

/* Walk over the chunks in file order, without touching payloads. A damaged head is passed over up to the next intact
 * one. */
struct tg__walk {
  const struct tg__reader *reader;
  uint64_t at;
  /* stretches without an intact head, the cut end among them; not those of zeros, which is room never used */
  uint64_t gaps;
  uint64_t first_gap; /* offset of the first, when there is one */
};
void tg__walk_begin(struct tg__walk *w, const struct tg__reader *r);
bool tg__walk_next(struct tg__walk *w, struct tg__chunk *out);

/* Index and footer. An index lists the chunks since the index before it; the footer has the offset of the last one. */
enum { TG_INDEX_HEAD_BYTES = 16, TG_INDEX_ENTRY_BYTES = 24, TG_FOOTER_BYTES = 16 };
void tg__index_entry_write(uint8_t out[TG_INDEX_ENTRY_BYTES], const struct tg__chunk *c);
/* A chunk as an entry describes it: no flags, no checksum. false when it would not lie inside the file. */
bool tg__index_entry_read(const uint8_t in[TG_INDEX_ENTRY_BYTES], uint64_t file_len, struct tg__chunk *out);
/* Where the last index of a complete file is; 0 when there is no valid footer at its end. */
uint64_t tg__footer_find(const struct tg__reader *r);

/* ---- packed arrays (encode.c, decode.c) ------------------------------------------------------ */

/* The payload of most chunks is one array of integers of 1, 2, 4 or 8 bytes: a head of 16 bytes, then tokens,
 * perhaps under zstd. Tokens are made from values by these steps, in this order: */
enum tg__transform {
  TG_T_ROW = 1,   /* row number minus value, for references to a row not far back */
  TG_T_DELTA = 2, /* difference to the value before it, zigzag-coded so that small ones of both signs are small */
  TG_T_OPTIONAL =
      4, /* all-ones ("none") becomes 0 and does not disturb the difference; other tokens go up by one. Needs VARINT */
  TG_T_VARINT = 8,   /* 7 bits a byte, low first, the top bit says "more" */
  TG_T_SHUFFLE = 16, /* all first bytes, then all second bytes, … */
};
struct tg__packing_plan {
  uint8_t width;      /* bytes per value: 1, 2, 4, 8 */
  uint8_t transform;  /* enum tg__transform bits */
  uint32_t first_row; /* number of the first row: what TG_T_ROW counts from */
};
/* Room that tg__array_pack needs at `scratch` and at `out`, each; and tg__array_unpack at `scratch`. */
size_t tg__array_room(uint32_t rows, unsigned width);
/* Pack `rows` values (at most TG_PACKED_MAX_ROWS) into a payload at `out`; its length. */
size_t tg__array_pack(const void *values, uint32_t rows, struct tg__packing_plan plan, uint8_t *scratch, uint8_t *out);
/* Rows a payload says it has; false when it is no packed array of that width, or promises more than its length
 * allows. */
bool tg__array_rows(const uint8_t *payload, uint64_t len, unsigned width, uint32_t *rows);
/* Unpack into `values`, which has room for `rows` of `width`. TG_DAMAGED when the payload holds another number of
 * rows. */
enum tg_err tg__array_unpack(const uint8_t *payload, uint64_t len, void *values, uint32_t rows, unsigned width,
                             uint32_t first_row, uint8_t *scratch);

/* ---- raw chunks of the recorder (raw.c) ------------------------------------------------------ */

enum { TG_RAW_RECORD_BYTES = 32, TG_RAW_HEAD_BYTES = 32 };
struct tg__raw_record {
#define RAW_FIELD(type, name, offset, meaning) type name;
#include "format/events.def"
};
enum tg__raw_scope {
#define RAW_SCOPE(name, number, category, meaning) TG_RAW_##name = number,
#include "format/events.def"
};
enum tg__raw_flag {
#define RAW_FLAG(name, bit, meaning) TG_RAW_F_##name = bit,
#include "format/events.def"
};
enum tg__raw_dictionary {
#define RAW_DICTIONARY(name, number, meaning) TG_RAW_D_##name = number,
#include "format/events.def"
};

enum tg__launch_field {
#define LAUNCH_FIELD(name, number, meaning) TG_LAUNCH_##name = number,
#include "format/launch.def"
};
enum { TG_LAUNCH_FIELD_BYTES = 9 };

enum tg__label_field {
#define LABEL_FIELD(name, number, meaning) TG_LABEL_##name = number,
#include "format/label.def"
};
enum tg__label_payload { TG_PAYLOAD_NONE, TG_PAYLOAD_UNSIGNED, TG_PAYLOAD_SIGNED, TG_PAYLOAD_REAL };
enum { TG_LABEL_FIELD_BYTES = 9, TG_LABEL_FIRST_TEXT = 128 };

#define TG_RAW_CONTEXT_ENTRY                                                                                           \
  (UINT32_C(1) << 31) /* in the stack of a record of the framework: the rest is an id in the CONTEXT dictionary */

/* Head of a record chunk's payload; then `capacity` records. Sealing stores the checksum first and `sealed` last. */
struct tg__raw_head {
  uint32_t capacity;        /* records there is room for */
  uint32_t sealed;          /* records in it + 1; 0 = still open */
  uint64_t checksum;        /* of those records, once sealed */
  uint32_t process, thread; /* ids of the operating system; the chunk's part is the number of the thread in this file */
  uint32_t lost;            /* records that had no room before this chunk began */
  uint32_t logical;         /* number of the thread in the framework, as in forward thread ids; 0 = not known */
};
struct tg__raw_chunk {
  struct tg__raw_head head;
  const uint8_t *records;
  uint32_t count; /* valid ones, extension records among them */
  bool is_open;
};
void tg__raw_head_write(uint8_t out[TG_RAW_HEAD_BYTES], const struct tg__raw_head *head);
struct tg__raw_head tg__raw_head_read(const uint8_t in[TG_RAW_HEAD_BYTES]);
void tg__raw_record_write(uint8_t out[TG_RAW_RECORD_BYTES], const struct tg__raw_record *r);
/* chunk_valid.c: of the records of such a chunk, in `room` bytes. */
bool tg__raw_records_are_valid(const struct tg__raw_head *head, const uint8_t *records, uint64_t room,
                               struct tg_error *e);
/* TG_DAMAGED when sealed and not as sealed. `out` points into `payload`. */
enum tg_err tg__raw_chunk_read(const struct tg__chunk *c, const uint8_t *payload, struct tg__raw_chunk *out);
void tg__raw_record_read(const uint8_t in[TG_RAW_RECORD_BYTES], struct tg__raw_record *out);
/* Record at *i and its whole duration; *i moves behind it and its extension. false past the end. *torn: the
 * extension is missing. */
bool tg__raw_next(const struct tg__raw_chunk *c, uint32_t *i, struct tg__raw_record *r, uint64_t *dur_ticks,
                  bool *torn);
/* Number that the framework has for the call of the record at i; 0 = none. */
uint64_t tg__raw_call_number(const struct tg__raw_chunk *c, uint32_t i);

/* A dictionary chunk: its part says which thread the ids belong to, its payload begins with which dictionary (32 bits)
 * and 32 bits of zero, then come entries up to the end. */
enum { TG_RAW_DICTIONARY_HEAD_BYTES = 8 };
#define TG_RAW_EVERY_THREAD UINT32_MAX /* part of a dictionary that all threads of the file share */
struct tg__raw_entry {
  uint32_t id, parent;
  struct tg__str text;
};
void tg__raw_entry_put(struct tg__out *o, const struct tg__raw_entry *entry);
bool tg__raw_entry_take(struct tg__bytes *b, struct tg__raw_entry *out); /* false at the end or when broken */

/* The values of a SHAPE entry, one after the other (inputs.c). An element of a list is read with tg__input_next as
 * well, for tensor lists, or from `bytes` by the caller: count elements of the width its kind says. */
enum tg__input_kind {
#define INPUT(name, number, layout, meaning) TG_INPUT_##name = number,
#include "format/inputs.def"
#undef INPUT
};
struct tg__input_value {
  uint8_t kind; /* enum tg__input_kind */
  uint8_t dtype, dims, strided;
  uint16_t count;       /* elements of a list, bytes of a text, bytes of a keyword's name */
  const uint8_t *bytes; /* sizes then strides; elements; text */
  int64_t i;            /* INT, BOOL */
  double d;             /* DOUBLE */
};
/* The value at b; false at the end or when broken. For a TENSOR_LIST only its head is taken: `count` values follow.
 * For a KEYWORD likewise: its value follows. */
bool tg__input_next(struct tg__bytes *b, struct tg__input_value *out);
/* As C++ calls it: "float", "long int", "c10::BFloat16"; "" when not known. */
const char *tg__scalar_type_name(uint8_t dtype);

/* The RAW_PROCESS chunk: the first of a recorder's file, written in place, TG_RAW_PROCESS_BYTES long. */
enum { TG_RAW_COUNTS = 16, TG_RAW_PROCESS_BYTES = 64 + 8 * TG_RAW_COUNTS };
enum tg__raw_count {
#define RAW_COUNT(name, index, loss, meaning) TG_RAW_C_##name = index,
#include "format/events.def"
};
struct tg__raw_process {
  uint64_t session;          /* the same in all processes of one run */
  uint32_t process, parent;  /* ids of the operating system */
  int32_t rank;              /* -1 = none of its own: it belongs to its parent's */
  uint32_t features;         /* what was recorded, TG_RECORD_* bits */
  int64_t start_ns, stop_ns; /* wall clock; stop 0 = it never stopped: killed, or still running */
  uint32_t ticks;            /* 1 = ticks are of the processor's counter, 0 = ns of the monotonic clock */
  uint32_t reserved[5];
  uint64_t counts[TG_RAW_COUNTS];
};
enum {
  TG_RAW_HAS_CALLS = 32,
  TG_RAW_HAS_MODULE_SPANS = 256
}; /* of its features, those that change what its records mean */
bool tg__raw_process_read(const uint8_t *payload, uint64_t len, struct tg__raw_process *out); /* false when too short */

/* A clock chunk: pairs of 64 bits, tick counter and wall clock in ns since 1970, read at the same moment; any
 * number, ascending. */
enum { TG_RAW_CLOCK_BYTES = 16 };

#endif
