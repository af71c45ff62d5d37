/* Tables: what a question answers. Rows are written cell by cell, joined, copied and checked. */
#ifndef TG_TABLE_H
#define TG_TABLE_H

#include "trace/trace.h"

enum tg__role { /* what the cells of a column mean */
#define ROLE(id, ...) TG__ROLE_##id,
#include "analyze/roles.def"
};
struct tg__column {
  const char *name, *unit;
  enum tg_type type;
  enum tg__role role;
  bool is_left_out; /* not requested: its cells are discarded, and none of the pointers may be used */
  union {           /* `rows` values each */
    int64_t *ints;
    double *reals;
    int8_t *bools;
    uint32_t *texts; /* ids in tg_table.strings, TG_NONE = unknown */
  };
};
struct tg__loss_row {
  const char *name, *meaning;
  int64_t count, offset;
};
struct tg_table {
  const char *question;
  struct tg__column *columns;
  size_t column_count, rows, capacity;
  struct tg__strings *strings;
  const char **notes;
  size_t note_count;
  struct tg__loss_row *losses;
  size_t loss_count;
  bool failed;  /* out of memory somewhere; the runner turns it into TG_MEMORY */
  bool is_tree; /* rows stand below the one they belong to: text indents the column `name` by the column `depth` */
  size_t cell;  /* next column of the row being written */
  size_t uncut; /* rows there would be, where only the first ones were asked for; else 0 */
  unsigned references; /* 1, plus one per exported Arrow array */
  struct tg__arena arena;
  uint32_t recent[64];              /* texts put last, by a cheap hash of their bytes */
  const struct tg__columns *source; /* trace with the string ids that of_source maps to this table's */
  uint32_t *of_source;
  uint32_t of_source_count;
};
/* No columns yet; NULL on no memory; question must outlive the table. */
struct tg_table *tg__table_new(const char *question);
void tg__table_free(struct tg_table *t); /* drops one reference, the last one frees; NULL is fine */
/* Before the first row; texts are copied. Without a role: KEY for texts and flags, VALUE for numbers. */
void tg__table_add_column_as(struct tg_table *t, const char *name, enum tg_type type, const char *unit,
                             enum tg__role role);
void tg__table_add_column(struct tg_table *t, const char *name, enum tg_type type, const char *unit);
/* One call per column, in order; the row is complete after the last. */
void tg__put_int(struct tg_table *t, int64_t v);
void tg__put_real(struct tg_table *t, double v);
void tg__put_bool(struct tg_table *t, bool v);
void tg__put_text(struct tg_table *t, struct tg__str s);
void tg__put_cstr(struct tg_table *t, const char *s);       /* NULL = unknown */
void tg__put_text_id(struct tg_table *t, uint32_t id);      /* of t->strings; TG_NONE = unknown */
bool tg__put_out(struct tg_table *t, struct tg__out *text); /* unknown where it is empty; frees it; false: no memory */
/* A text of the trace by its string id (TG_NONE = unknown): a table look-up from the second time on. */
void tg__put_trace_text(struct tg_table *t, const struct tg__columns *trace, uint32_t string_id);
/* Its number in the job, else unknown. */
void tg__put_rank(struct tg_table *t, const struct tg__columns *trace, uint32_t rank);
static inline int64_t tg__rank_number(const struct tg__columns *trace, uint32_t rank) {
  return trace->ranks[rank].number < 0 ? TG_NULL_INT : trace->ranks[rank].number;
}
void tg__put_null(struct tg_table *t);
void tg__put_real_if(struct tg_table *t, bool known, double v); /* else null */
/* For long tables: room for `rows` rows in all; then the first `cells` cells of row t->rows are the caller's to
 * write into t->columns, followed by tg__table_wrote. The text ids to write come from tg__table_text. Or column by
 * column, cells of many rows at a time, followed by tg__table_wrote_rows: quicker, as a dozen columns that begin at
 * the same place of a page fall into one set of the caches. */
bool tg__table_reserve(struct tg_table *t, size_t rows); /* false on no memory, and t->failed is set */
void tg__column_null(struct tg__column *c, size_t row);  /* an unknown cell; nothing in a column that is left out */
void tg__table_wrote(struct tg_table *t, size_t cells);
void tg__table_wrote_rows(struct tg_table *t, size_t rows);
/* TG_NONE stays TG_NONE. */
uint32_t tg__table_text(struct tg_table *t, const struct tg__columns *trace, uint32_t string_id);
void tg__table_note(struct tg_table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tg__table_keep_rows(struct tg_table *t, const uint32_t *rows, size_t count); /* reorder and drop */
bool tg__table_is_valid(const struct tg_table *t, struct tg_error *e); /* table_valid.c: the invariants, as code */
/* table_join.c: the rows of `from`, a table with the same columns, behind those of `to`, its notes and losses with
 * them; false on no memory, or when the columns differ, and then `to` is of no use. */
bool tg__table_append(struct tg_table *to, const struct tg_table *from);
struct tg_table *tg__table_copy(const struct tg_table *t);     /* NULL on no memory */
struct tg_table *tg__table_new_like(const struct tg_table *t); /* its columns without rows; NULL on no memory */
size_t tg__table_column_index(const struct tg_table *t, const char *name); /* SIZE_MAX when absent */
size_t tg__table_role_index(const struct tg_table *t, enum tg__role role); /* the first; SIZE_MAX when absent */

#endif
