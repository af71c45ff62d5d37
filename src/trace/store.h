/* store: what backs the columns of a trace. Private to trace/.
 *
 * Columns, and the args, are page memory; the store remembers each piece and releases all of them
 * back at the end. A trace read from JSON owns nothing else. A trace opened from a .tacho file also owns the mapped
 * file, and its columns come into being one by one in tg__tacho_load. */
#ifndef TG_STORE_H
#define TG_STORE_H

#include "trace/trace.h"

enum tg__store_kind { TG__STORE_MEMORY, TG__STORE_TACHO };

struct tg__pages {
  void *ptr;
  size_t bytes;
};
struct tg__tacho; /* import_tacho.c */
struct tg__store {
  enum tg__store_kind kind;
  struct tg__pages *pages;
  size_t page_count, page_cap;
  struct tg__tacho *tacho; /* NULL when kind is MEMORY */
};

/* store.c. A store is made with tg__store_new and belongs to its trace. */
struct tg__store *tg__store_new(enum tg__store_kind kind); /* NULL on no memory */
/* tg__pages_get, remembered; NULL on no memory. bytes may be 0. */
void *tg__store_pages(struct tg__store *s, size_t bytes);
/* Remember pages the caller got; on false they stay the caller's. */
bool tg__store_adopt(struct tg__store *s, void *ptr, size_t bytes);
void tg__store_drop(struct tg__store *s, void *ptr); /* release one piece early; NULL is fine */
void tg__store_free(struct tg__store *s);            /* everything, the file too; NULL is fine */

/* One row per column of columns.def. */
struct tg__stored_column {
  uint32_t bit; /* TG__COL_* */
  bool of_marks;
  uint8_t width;     /* bytes per value */
  uint8_t transform; /* how save.c packs it */
  uint16_t chunk;    /* enum tg__chunk_type */
  size_t place;      /* of the pointer in struct tg__columns */
};
enum { TG__COLUMN_COUNT = 16 };
extern const struct tg__stored_column tg__stored_columns[TG__COLUMN_COUNT];
static inline void **tg__column_place(struct tg__columns *t, const struct tg__stored_column *c) {
  return (void **)(void *)((char *)t + c->place);
}

/* import_tacho.c */
bool tg__tacho_recognise(const void *head, size_t len);
/* file: its bytes, taken over; NULL: those at the path. */
enum tg_err tg__tacho_open(const char *path, struct tg__file *file, struct tg__columns **out, struct tg_error *e);
enum tg_err tg__tacho_load(struct tg__columns *t, uint32_t columns, struct tg_error *e);
void tg__tacho_close(struct tg__store *s); /* unmaps the file; tg__store_free calls it */

#endif
