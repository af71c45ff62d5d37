/* show, private: the parts of the SQL interface. sql.c runs a query, sql_tables.c has the tables it can read and
 * sql_cells.c their cells, sql_window.c turns conditions into windows of rows. */
#ifndef TG_SHOW_SQL_H
#define TG_SHOW_SQL_H

#include "show/argsjson.h"

struct sqlite3;
struct sqlite3_context;

enum tg__sql_table {
#define SQL_TABLE(name, meaning) TG__T_##name,
#include "show/sql_tables.def"
  TG__SQL_TABLES
};

/* TG__C_x is the number of column x over all tables; TG__FIRST_t that of the first of table t. TG__BACK_t takes back
 * the number TG__FIRST_t used. */
enum tg__sql_column {
#define SQL_TABLE(name, meaning) FIRSTG__T_##name, TG__BACK_##name = FIRSTG__T_##name - 1,
#define SQL_COLUMN(table, name, type, meaning) TG__C_##table##_##name,
#include "show/sql_tables.def"
  TG__SQL_COLUMNS
};

/* What the tables of one connection share. */
struct tg__sql_data {
  const struct tg__columns *t;
  struct tg__forms *forms;
  int64_t *self_ns;    /* by slice; made when first asked for */
  uint32_t *by_name;   /* slices in the order of their names; made when first asked for */
  struct tg__out text; /* args as JSON, reused */
  bool declaring;      /* a table is declaring its columns to SQLite */
};
bool tg__sql_add_tables(struct sqlite3 *db, struct tg__sql_data *data);
void tg__sql_data_free(struct tg__sql_data *data);

/* ---- sql_cells.c ----------------------------------------------------------------------------- */

void tg__sql_cell(struct sqlite3_context *x, struct tg__sql_data *d, enum tg__sql_table table, uint64_t row,
                  int column);
/* A row of args: owner, key, value. */
void tg__sql_arg_cell(struct sqlite3_context *x, const struct tg__args_iter *it, int64_t owner, int nth);
void tg__sql_result_val(struct sqlite3_context *x, const struct tg__columns *t, const struct tg__val *v);

/* ---- sql_window.c ---------------------------------------------------------------------------- */

/* What a column is good for when rows are looked for. */
enum tg__sql_role {
  TG__SQL_NOTHING = ' ',
  TG__SQL_ID = 'i',
  TG__SQL_TRACK = 't',
  TG__SQL_PARENT = 'p',
  TG__SQL_START = 's',
  TG__SQL_NAME = 'n',
};
/* Rows a condition lets through: all bounds inclusive. Never too narrow. */
struct tg__sql_bounds {
  int64_t id_low, id_high, track_low, track_high, start_low, start_high;
  uint32_t name; /* string id */
  bool has_name, none;
};
struct tg__sql_bounds tg__sql_everything(void);
void tg__sql_bound_low(struct tg__sql_bounds *b, enum tg__sql_role role, int64_t v);  /* column >= v */
void tg__sql_bound_high(struct tg__sql_bounds *b, enum tg__sql_role role, int64_t v); /* column <= v */
void tg__sql_bound_parent(struct tg__sql_bounds *b, const struct tg__columns *t, int64_t parent);

/* Walks the slices inside the bounds: for (tg__sql_seek(&w, t, b); w.row < w.end; tg__sql_next(&w)). */
struct tg__sql_window {
  const struct tg__columns *t;
  struct tg__sql_bounds b;
  uint64_t row, end;         /* on the present track */
  uint32_t track, track_end; /* tracks still to come */
  const uint32_t *order;     /* not NULL: go through the slices in this order instead */
  uint32_t at;               /* place in it */
};
void tg__sql_seek(struct tg__sql_window *w, const struct tg__columns *t, struct tg__sql_bounds b);
void tg__sql_next(struct tg__sql_window *w);
/* The same slices in the order of their names. false on no memory. */
bool tg__sql_seek_by_name(struct tg__sql_window *w, struct tg__sql_data *d, struct tg__sql_bounds b);

#endif
