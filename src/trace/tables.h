/* tables: layout of the small tables of a .tacho file, shared by save.c and import_tacho.c. Private to trace/.
 *
 * A blob is a run of chunks of one type, parts 0, 1, …, each a packed array of at most TACHO_BLOCK bytes; put
 * together they are the table. The summary says how many bytes each blob has, so nothing is trusted that the file
 * does not hold. */
#ifndef TG_TABLES_H
#define TG_TABLES_H

#include "format/format.h"
#include "trace/store.h"

enum {
  TACHO_GROUP_ROWS =
      128 << 10, /* most rows of a row group: a column of them is 1 MiB at most and decodes in about a millisecond */
  TACHO_GROUP_LEAST = 8 << 10, /* least: with fewer, the heads of chunks and frames begin to show in the size */
  TACHO_BLOCK = 1 << 20,       /* bytes of a blob in one chunk */
  TACHO_ARGS_BLOCK =
      1 << 19, /* bytes of args in one block by field: its streams, at most twice as long, still fit one array */
};

enum { TACHO_ARGS_ROOM = 6 << 20 }; /* no chunk of args by field is longer: a larger claim is not worth the memory */

struct tg__summary {
  uint32_t group_rows;
  uint32_t step_kind;
  uint64_t slices, marks, strings;
  uint64_t rank_count, track_count, cat_count, schema_count, step_count;
  uint64_t text_bytes, schemas_bytes, cats_bytes, ranks_bytes, tracks_bytes, steps_bytes, args_bytes; /* of the blobs */
  uint64_t args_strings; /* rows of ARGS_STRINGS, 0 = the args hold string ids */
};
enum { TACHO_SUMMARY_BYTES = 2 * 4 + 16 * 8 };
void tg__summary_put(struct tg__out *o, const struct tg__summary *s);
void tg__summary_take(struct tg__bytes *b, struct tg__summary *s);

/* tables_put.c: append a whole table. */
void tg__schemas_put(struct tg__out *o, const struct tg__columns *t);
void tg__cats_put(struct tg__out *o, const struct tg__columns *t);
void tg__ranks_put(struct tg__out *o, const struct tg__columns *t);
void tg__tracks_put(struct tg__out *o, const struct tg__columns *t);
void tg__steps_put(struct tg__out *o, const struct tg__columns *t);

/* tables_take.c: fill t->schemas and so on from a whole table, with every id checked; strings are there already (for
 * steps and tracks t->ranks, too, and t->slices.count). The table itself is heap memory, what hangs on it lies in
 * t->arena. TG_DAMAGED or TG_MEMORY. */
enum tg_err tg__schemas_take(struct tg__bytes *b, struct tg__columns *t, uint64_t count);
enum tg_err tg__cats_take(struct tg__bytes *b, struct tg__columns *t, uint64_t count);
enum tg_err tg__ranks_take(struct tg__bytes *b, struct tg__columns *t, uint64_t count);
enum tg_err tg__tracks_take(struct tg__bytes *b, struct tg__columns *t, uint64_t count);
enum tg_err tg__steps_take(struct tg__bytes *b, struct tg__columns *t, uint64_t count);

/* args_pack.c: a block of packed args with the values of each field apart, which zstd packs 3 to 25 times as well:
 * numbers that count events up become runs of equal differences. The block comes back byte for byte. */

/* Where the block that begins at byte `from` ends: behind the last entry that is whole within TACHO_ARGS_BLOCK
 * bytes. 0 when the bytes there are not entries as tg__pack_args writes them; then the args are stored as they are. */
uint64_t tg__args_block_end(const struct tg__columns *t, uint64_t from);
/* The payload of a block in memory of its own (tg__free); NULL on no memory. */
uint8_t *tg__args_pack(const struct tg__columns *t, const uint8_t *block, uint32_t bytes, size_t *len);
/* Fill `block`, which must become exactly `bytes` long. */
enum tg_err tg__args_unpack(const struct tg__columns *t, const uint8_t *payload, uint64_t len, uint8_t *block,
                            uint32_t bytes);

#endif
