/* tacho: an open .tacho file, as import_tacho.c leaves it for tacho_load.c. Private to trace/. */
#ifndef TG_TACHO_H
#define TG_TACHO_H

#include "trace/tables.h"

struct tg__tacho {
  const char *path; /* in the trace's arena; for messages */
  struct tg__file *file;
  struct tg__reader reader;
  struct tg__chunk *chunks; /* by type, then part; at most one of each */
  size_t chunk_count, chunk_cap;
  struct tg__summary summary;
  /* id of each string of the file in the trace, in its arena; NULL when they are the same */
  const uint32_t *renumbered;
  uint32_t *args_blocks; /* bytes of each block of args by field; NULL when they are stored as they are */
  uint32_t args_block_count;
  uint64_t args_bytes;   /* of them in the file: fewer than the summary says when it was cut */
  int64_t lost, lost_at; /* chunks passed over, and the byte of the first */
};

/* import_tacho.c: open a file and list its chunks. f is zero before, but that its file may be open already;
 * tg__tacho_drop frees what it holds, also after a failure. The path stays the caller's. */
enum tg_err tg__tacho_list(struct tg__tacho *f, const char *path, struct tg_error *e);
void tg__tacho_drop(struct tg__tacho *f);
bool tg__tacho_is_raw(const struct tg__tacho *f); /* as the recorder left it */
/* NULL when it is not there. */
const struct tg__chunk *tg__tacho_find(const struct tg__tacho *f, uint16_t type, uint32_t part);

/* Make a string id of the file one of the trace; false when the file has no such string. */
static inline bool tg__tacho_string(const struct tg__tacho *f, uint32_t *id) {
  if (*id >= f->summary.strings) return false;
  if (f->renumbered) *id = f->renumbered[*id];
  return true;
}

/* One packed array of the file on its way into memory. Unpacked in parallel with the others of a list. */
struct tg__unpack {
  const struct tg__chunk *chunk;
  void *to;
  uint32_t rows, first_row;
  uint8_t width;
  bool by_field;                          /* a block of args, `rows` bytes of it: for tg__args_unpack */
  const struct tg__stored_column *column; /* its values are checked afterwards; NULL = no check */
  enum tg_err err;
};
struct tg__unpack_list {
  struct tg__unpack *items;
  size_t count, cap;
};
/* Expect a chunk. TG_DAMAGED when it is not in the file. */
enum tg_err tg__unpack_add(struct tg__unpack_list *l, const struct tg__tacho *f, uint16_t type, uint32_t part,
                           struct tg__unpack how);
/* Unpack all; the first that failed in *e. Frees the list. */
enum tg_err tg__unpack_run(struct tg__unpack_list *l, struct tg__columns *t, struct tg_error *e);
/* Expect a list of 32-bit numbers in parts of TACHO_GROUP_ROWS. */
enum tg_err tg__unpack_add_rows(struct tg__unpack_list *l, const struct tg__tacho *f, uint16_t type, uint32_t *to,
                                uint64_t rows);
/* Expect all parts of a blob of `bytes` at `to`. */
enum tg_err tg__unpack_add_blob(struct tg__unpack_list *l, const struct tg__tacho *f, uint16_t type, void *to,
                                uint64_t bytes);

/* import_raw.c: a file as the recorder left it, as a trace. */
enum tg_err tg__raw_import(struct tg__columns *t, struct tg__tacho *f, struct tg_error *e);
/* The files of the processes of one rank, for tg__build_rank. The import is empty but for shared.trace, its lock and
 * its pool. */
struct tg__import;
enum tg_err tg__raw_read(struct tg__import *im, struct tg__tacho *const *files, size_t count, unsigned threads,
                         struct tg_error *e);

/* import_packed.c: rank number `rank` of a packed trace with all columns loaded, likewise. */
enum tg_err tg__packed_read(struct tg__import *im, const struct tg__columns *from, uint32_t rank, struct tg_error *e);

/* open_session.c: the .tacho files among those of a folder, put together by rank. NULL on no memory. */
struct tg__raw_session;
enum tg__raw_session_part {
  TG__RAW_SESSION_OTHER,  /* no .tacho file, or one that cannot be opened */
  TG__RAW_SESSION_PACKED, /* a trace of its own */
  TG__RAW_SESSION_FIRST,  /* the first file of a rank as it was recorded */
  TG__RAW_SESSION_MORE,   /* belongs to one before it */
};
struct tg__raw_session *tg__raw_session_new(const char *const *names, size_t count);
void tg__raw_session_free(struct tg__raw_session *r);
enum tg__raw_session_part tg__raw_session_part(const struct tg__raw_session *r, size_t i);
/* The file of the process that the others come from. */
size_t tg__raw_session_leader(const struct tg__raw_session *r, size_t first);
enum tg_err tg__raw_session_read(const struct tg__raw_session *r, const char *const *names, size_t first,
                                 struct tg__import *im, unsigned threads, struct tg_error *e);

#endif
