/* SQL over the columns: one SELECT on SQLite virtual tables (sql_tables.c), nothing copied in. Only reading is
 * allowed: the authorizer refuses everything that is not part of a SELECT, so a query from elsewhere cannot write,
 * attach or load. */
#include "show/sql.h"

#ifdef TG_WITH_SQLITE
#include <sqlite3.h>

enum {
  SQL_MOST_BYTES = 1 << 20,    /* of the statement */
  VALUE_MOST_BYTES = 64 << 20, /* of one value, so that printf('%.*c') cannot eat the memory */
  STEPS_A_CALL = 100000,       /* of SQLite's machine between two looks at the budget */
};

/* ---- connection ------------------------------------------------------------------------------ */

static int allow_reading(void *ctx, int action, const char *a, const char *b, const char *c, const char *d) {
  if (((const struct tg__sql_data *)ctx)->declaring) return SQLITE_OK;
  switch (action) {
  case SQLITE_SELECT:
  case SQLITE_READ:
  case SQLITE_RECURSIVE:
    return SQLITE_OK;
  case SQLITE_FUNCTION:
    return b && sqlite3_stricmp(b, "load_extension") == 0 ? SQLITE_DENY : SQLITE_OK;
  default:
    return SQLITE_DENY;
  }
}

/* Of a query that runs. */
struct budget {
  const struct tg__sql_limit *limit;
  uint64_t taken; /* steps */
  bool is_used_up;
};

static int take_steps(void *ctx) {
  struct budget *const b = ctx;
  b->taken += STEPS_A_CALL;
  b->is_used_up = b->limit->steps && b->taken >= b->limit->steps;
  return b->is_used_up || (b->limit->goes_on && !b->limit->goes_on(b->limit->ctx));
}

static sqlite3 *connect(struct tg__sql_data *data, struct budget *budget) {
  sqlite3 *db = NULL;
  if (sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX, NULL) !=
      SQLITE_OK)
    goto failed;
  sqlite3_limit(db, SQLITE_LIMIT_SQL_LENGTH, SQL_MOST_BYTES);
  sqlite3_limit(db, SQLITE_LIMIT_LENGTH, VALUE_MOST_BYTES);
  sqlite3_limit(db, SQLITE_LIMIT_EXPR_DEPTH, 200);
  sqlite3_limit(db, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000); /* matching takes the square of it */
  sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_limit(db, SQLITE_LIMIT_WORKER_THREADS, 0);
  if (sqlite3_exec(db, "PRAGMA temp_store=MEMORY", NULL, NULL, NULL) != SQLITE_OK || !tg__sql_add_tables(db, data))
    goto failed;
  sqlite3_set_authorizer(db, allow_reading, data);
  if (budget->limit) sqlite3_progress_handler(db, STEPS_A_CALL, take_steps, budget);
  return db;
failed:
  sqlite3_close(db);
  return NULL;
}

static int64_t error_offset(sqlite3 *db) {
#if SQLITE_VERSION_NUMBER >= 3038000
  return sqlite3_error_offset(db);
#else
  return -1;
#endif
}

static enum tg_err sql_error(sqlite3 *db, struct tg_error *e) {
  switch (sqlite3_errcode(db)) {
  case SQLITE_NOMEM:
    return tg__no_memory(e, "answering the query");
  case SQLITE_INTERRUPT:
    return tg__fail(e, TG_CANCELLED, -1, "the query was stopped: narrow it by track, id or time");
  case SQLITE_AUTH:
    return tg__fail(e, TG_USAGE, -1, "only a SELECT can be run on a trace (%s)", sqlite3_errmsg(db));
  default:
    return tg__fail(e, TG_USAGE, error_offset(db), "SQL error: %s. Tables and columns: tachograph sql --schema",
                    sqlite3_errmsg(db));
  }
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* SQLite has a type per value, a table one per column: rows are held until all are known. */
struct cell {
  uint8_t type; /* SQLITE_INTEGER, … */
  union {
    int64_t i;
    double d;
    uint32_t text; /* id in the table's strings */
  };
};
struct rows {
  struct cell *cells;
  size_t count, cap; /* of cells */
};

static bool take_cell(sqlite3_stmt *st, int i, struct tg_table *t, struct cell *cell) {
  cell->type = (uint8_t)sqlite3_column_type(st, i);
  switch (cell->type) {
  case SQLITE_INTEGER:
    cell->i = sqlite3_column_int64(st, i);
    return true;
  case SQLITE_FLOAT:
    cell->d = sqlite3_column_double(st, i);
    return true;
  case SQLITE_NULL:
    return true;
  default: {
    const char *text = (const char *)sqlite3_column_text(st, i); /* a blob's bytes are taken as text */
    cell->type = SQLITE_TEXT;
    cell->text = tg__strings_add(t->strings, text ? text : "", (size_t)sqlite3_column_bytes(st, i));
    return cell->text != TG_NONE;
  }
  }
}

static enum tg_err take_rows(sqlite3 *db, sqlite3_stmt *st, struct tg_table *t, struct rows *rows, struct tg_error *e) {
  const int width = sqlite3_column_count(st);
  int rc;
  while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
    void *cells = rows->cells;
    if (!tg__grow(&cells, &rows->cap, rows->count + (size_t)width, sizeof *rows->cells))
      return tg__fail(e, TG_MEMORY, -1, "the answer does not fit in memory");
    rows->cells = cells;
    for (int i = 0; i < width; i++) {
      if (!take_cell(st, i, t, &rows->cells[rows->count++]))
        return tg__fail(e, TG_MEMORY, -1, "the answer does not fit in memory");
    }
  }
  return rc == SQLITE_DONE ? TG_OK : sql_error(db, e);
}

/* ---- the table ------------------------------------------------------------------------------- */

static enum tg_type type_of_column(sqlite3_stmt *st, int i, const struct rows *rows) {
  const size_t width = (size_t)sqlite3_column_count(st);
  bool ints = false, reals = false;
  for (size_t k = (size_t)i; k < rows->count; k += width) {
    switch (rows->cells[k].type) {
    case SQLITE_INTEGER:
      ints = true;
      break;
    case SQLITE_FLOAT:
      reals = true;
      break;
    case SQLITE_NULL:
      break;
    default:
      return TG_TEXT;
    }
  }
  if (reals) return TG_REAL;
  if (ints) return TG_INT;
  const char *declared = sqlite3_column_decltype(st, i);
  return declared && strcmp(declared, "INTEGER") == 0 ? TG_INT : TG_TEXT;
}

/* A column named as the tables' own are has their unit. */
static const char *unit_of_name(const char *name) {
  const struct tg__str s = {name, (uint32_t)strlen(name)};
  return tg__str_has_suffix(s, "_ns")      ? "ns"
         : tg__str_has_suffix(s, "_bytes") ? "bytes"
         : tg__str_has_suffix(s, "_pct")   ? "%"
                                           : "";
}

/* A column of a SELECT has a name and no role: called as a point in time of these tables or of an answer, it is one. */
static enum tg__role role_of_name(const char *name) {
  static const char *const instants[] = {
#define SQL_INSTANT(table, name, meaning) #name,
#include "show/sql_tables.def"
  };
  for (size_t i = 0; i < sizeof instants / sizeof *instants; i++)
    if (strcmp(instants[i], name) == 0) return TG__ROLE_INSTANT;
  for (size_t i = 0; i < tg__catalog.column_count; i++)
    if (tg__catalog.columns[i].role == TG__ROLE_INSTANT && strcmp(tg__catalog.columns[i].name, name) == 0)
      return TG__ROLE_INSTANT;
  return TG__ROLE_VALUE;
}

static void put_query_cell(struct tg_table *t, enum tg_type type, const struct cell *cell) {
  if (cell->type == SQLITE_NULL) {
    tg__put_null(t);
  } else if (type == TG_INT) {
    tg__put_int(t, cell->i);
  } else if (type == TG_REAL) {
    tg__put_real(t, cell->type == SQLITE_INTEGER ? (double)cell->i : cell->d);
  } else if (cell->type == SQLITE_TEXT) {
    tg__put_text(t, tg__strings_get(t->strings, cell->text));
  } else { /* a number among texts */
    struct tg__out text = {0};
    if (cell->type == SQLITE_INTEGER) {
      tg__out_int(&text, cell->i);
    } else {
      tg__out_double(&text, cell->d);
    }
    if (text.err) t->failed = true;
    tg__put_text(t, (struct tg__str){text.buf ? text.buf : "", (uint32_t)text.len});
    tg__out_free(&text);
  }
}

static void fill_table(sqlite3_stmt *st, const struct rows *rows, struct tg_table *t) {
  const int width = sqlite3_column_count(st);
  for (int i = 0; i < width; i++) {
    const char *name = sqlite3_column_name(st, i);
    if (!name) name = "";
    tg__table_add_column_as(t, name, type_of_column(st, i, rows), unit_of_name(name), role_of_name(name));
  }
  for (size_t k = 0; k < rows->count && !t->failed; k++)
    put_query_cell(t, t->columns[k % (size_t)width].type, &rows->cells[k]);
}

/* ---- the interface --------------------------------------------------------------------------- */

static enum tg_err prepare_query(sqlite3 *db, const char *sql, sqlite3_stmt **st, struct tg_error *e) {
  const char *rest = NULL;
  if (sqlite3_prepare_v2(db, sql, -1, st, &rest) != SQLITE_OK) return sql_error(db, e);
  if (!*st) return tg__fail(e, TG_USAGE, -1, "the query is empty: try SELECT name, count(*) FROM slices GROUP BY name");
  if (!sqlite3_stmt_readonly(*st) || sqlite3_column_count(*st) == 0)
    return tg__fail(e, TG_USAGE, -1, "only a SELECT can be run on a trace");
  sqlite3_stmt *second = NULL;
  const int rc = sqlite3_prepare_v2(db, rest, -1, &second, NULL);
  sqlite3_finalize(second);
  if (rc != SQLITE_OK || second)
    return tg__fail(e, TG_USAGE, rest - sql, "one SELECT at a time: there is more behind it");
  return TG_OK;
}

enum tg_err tg__sql_run_limited(struct tg__columns *t, const char *sql, const struct tg__sql_limit *limit,
                                struct tg_table **out, struct tg_error *e) {
  *out = NULL;
  const enum tg_err loaded = tg__trace_load(t, TG__COL_ALL, e);
  if (loaded) return loaded;
  struct tg__sql_data data = {.t = t};
  struct rows rows = {0};
  sqlite3_stmt *st = NULL;
  struct budget budget = {.limit = limit};
  sqlite3 *const db = connect(&data, &budget);
  struct tg_table *const table = tg__table_new("sql");
  enum tg_err err = TG_OK;
  if (!db || !table) {
    err = tg__no_memory(e, "opening SQLite");
  } else {
    err = prepare_query(db, sql, &st, e);
  }
  if (!err) err = take_rows(db, st, table, &rows, e);
  if (!err) {
    fill_table(st, &rows, table);
    tg__table_add_losses(table, t, &(struct tg__ask){.rank = TG_NONE});
  }
  if (!err && table->failed) err = tg__fail(e, TG_MEMORY, -1, "the answer does not fit in memory");
  sqlite3_finalize(st);
  sqlite3_close(db);
  tg__sql_data_free(&data);
  tg__free(rows.cells);
  if (err == TG_CANCELLED && budget.is_used_up)
    err =
        tg__fail(e, TG_CANCELLED, -1, "the query took too many steps and was stopped: narrow it by track, id or time");
  if (err) {
    tg__table_free(table);
  } else {
    *out = table;
  }
  return err;
}

#else

enum tg_err tg__sql_run_limited(struct tg__columns *t, const char *sql, const struct tg__sql_limit *limit,
                                struct tg_table **out, struct tg_error *e) {
  (void)t, (void)sql, (void)limit;
  *out = NULL;
  return tg__fail(e, TG_UNSUPPORTED, -1, "this build has no SQL: build with TG_WITH_SQLITE=ON");
}

#endif

enum tg_err tg__sql_run(struct tg__columns *t, const char *sql, struct tg_table **out, struct tg_error *e) {
  return tg__sql_run_limited(t, sql, NULL, out, e);
}
