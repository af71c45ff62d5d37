/* store: remembers the pages behind the columns of a trace, and which columns there are. */
#include "trace/store.h"

#include "format/format.h"

const struct tg__stored_column tg__stored_columns[TG__COLUMN_COUNT] = {
#define COLUMN(column, table, field, type, bytes, how)                                                                 \
  {.bit = TG__COL_##column,                                                                                            \
   .of_marks = TG__COL_##column == TG__COL_MARKS,                                                                      \
   .width = (bytes),                                                                                                   \
   .transform = (how),                                                                                                 \
   .chunk = TG_CHUNK_##type,                                                                                           \
   .place = offsetof(struct tg__columns, table.field)},
#include "trace/columns.def"
};

#define COLUMN(column, table, field, type, bytes, how)                                                                 \
  _Static_assert(sizeof(*((struct tg__columns *)0)->table.field) == (bytes), "width of " #table "." #field);
#include "trace/columns.def"

struct tg__store *tg__store_new(enum tg__store_kind kind) {
  struct tg__store *const s = tg__alloc(sizeof *s);
  if (s) s->kind = kind;
  return s;
}

bool tg__store_adopt(struct tg__store *s, void *ptr, size_t bytes) {
  if (!tg__grow((void **)&s->pages, &s->page_cap, s->page_count + 1, sizeof *s->pages)) return false;
  s->pages[s->page_count++] = (struct tg__pages){ptr, bytes};
  return true;
}

void *tg__store_pages(struct tg__store *s, size_t bytes) {
  if (bytes == 0) bytes = 1; /* an empty column is still a column: its pointer says that it is loaded */
  void *const p = tg__pages_get(bytes);
  if (!p) return NULL;
  if (tg__store_adopt(s, p, bytes)) return p;
  tg__pages_drop(p, bytes);
  return NULL;
}

void tg__store_drop(struct tg__store *s, void *ptr) {
  for (size_t i = 0; ptr && i < s->page_count; i++) {
    if (s->pages[i].ptr != ptr) continue;
    tg__pages_drop(ptr, s->pages[i].bytes);
    s->pages[i] = s->pages[--s->page_count];
    return;
  }
}

void tg__store_free(struct tg__store *s) {
  if (!s) return;
  for (size_t i = 0; i < s->page_count; i++) tg__pages_drop(s->pages[i].ptr, s->pages[i].bytes);
  if (s->kind == TG__STORE_TACHO) tg__tacho_close(s);
  tg__free(s->pages);
  tg__free(s);
  tg__pages_return();
}
