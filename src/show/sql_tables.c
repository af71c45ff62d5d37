/* The tables SQL sees: SQLite virtual tables over the columns of the trace. sql_tables.def lists them.
 *
 * xBestIndex hands equality and ranges on id, track, parent, start_ns and name to sql_window.c. SQLite tests every
 * condition again itself, so a window may be too wide but never too narrow. */
#include "show/sql.h"

static const char schema_text[] =
    "One SELECT over these tables. arg(slice, 'key') and mark_arg(mark, 'key') return one value of an event's args.\n"
#define SQL_TABLE(name, meaning) "\n" #name ": " meaning "\n"
#define SQL_COLUMN(table, name, type, meaning) "  " #name " " #type "  " meaning "\n"
#include "show/sql_tables.def"
    ;

const char *tg__sql_schema(void) { return schema_text; }

#ifdef TG_WITH_SQLITE
#include <math.h>
#include <sqlite3.h>

static const char *const table_names[] = {
#define SQL_TABLE(name, meaning) #name,
#include "show/sql_tables.def"
};

static const struct {
  enum tg__sql_table table;
  const char *declaration;
} columns[] = {
#define SQL_COLUMN(table, name, type, meaning) {TG__T_##table, #name " " #type},
#include "show/sql_tables.def"
};

struct table {
  sqlite3_vtab base;
  enum tg__sql_table id;
  int first; /* number of its first column */
  struct tg__sql_data *data;
};
struct cursor {
  sqlite3_vtab_cursor base;
  struct tg__sql_window slices; /* slices and args */
  uint64_t row, end;            /* all other tables */
  struct tg__args_iter args;    /* args, mark_args */
  uint32_t key;                 /* args, mark_args: only this one; TG_NONE = any */
};
/* The facts of a table that its module needs. */
struct kind {
  enum tg__sql_table id;
  struct tg__sql_data *data;
};

static const struct table *cursor_table(const sqlite3_vtab_cursor *c) { return (const struct table *)c->pVtab; }

/* ---- moving ---------------------------------------------------------------------------------- */

static uint64_t row_count(enum tg__sql_table id, const struct tg__columns *t) {
  switch (id) {
  case TG__T_slices:
  case TG__T_args:
    return t->slices.count;
  case TG__T_marks:
  case TG__T_mark_args:
    return t->marks.count;
  case TG__T_tracks:
    return t->track_count;
  case TG__T_ranks:
    return t->rank_count;
  case TG__T_steps:
    return t->step_count;
  case TG__T_strings:
    return tg__strings_count(t->strings);
  default:
    return (uint64_t)t->rank_count * TG__LOSS_COUNT;
  }
}

static bool walks_slices(enum tg__sql_table id) { return id == TG__T_slices || id == TG__T_args; }
static bool has_args(enum tg__sql_table id) { return id == TG__T_args || id == TG__T_mark_args; }

static bool at_end(const struct cursor *c, enum tg__sql_table id) {
  return walks_slices(id) ? c->slices.row >= c->slices.end : c->row >= c->end;
}

static void next_event(struct cursor *c, enum tg__sql_table id) {
  if (walks_slices(id)) {
    tg__sql_next(&c->slices);
  } else {
    c->row++;
  }
}

static void begin_args(struct cursor *c, const struct table *table) {
  if (at_end(c, table->id)) return;
  const struct tg__columns *t = table->data->t;
  tg__args_begin(t, table->id == TG__T_args ? t->slices.args[c->slices.row] : t->marks.args[c->row], &c->args);
}

/* The next value wanted, of this event or of a later one. */
static void next_arg(struct cursor *c, const struct table *table) {
  while (!at_end(c, table->id)) {
    while (tg__args_next(&c->args)) {
      if (!c->args.field->top && (c->key == TG_NONE || c->args.field->key == c->key)) return;
    }
    next_event(c, table->id);
    begin_args(c, table);
  }
}

static void pass_over(struct cursor *c, const struct table *table) {
  const struct tg__columns *t = table->data->t;
  if (table->id != TG__T_losses) return;
  while (c->row < c->end && !t->ranks[c->row / TG__LOSS_COUNT].loss[c->row % TG__LOSS_COUNT]) c->row++;
}

static int x_next(sqlite3_vtab_cursor *base) {
  struct cursor *c = (struct cursor *)base;
  const struct table *table = cursor_table(base);
  if (has_args(table->id)) {
    next_arg(c, table);
  } else {
    next_event(c, table->id);
    pass_over(c, table);
  }
  return SQLITE_OK;
}

static int x_eof(sqlite3_vtab_cursor *base) { return at_end((struct cursor *)base, cursor_table(base)->id); }

static int x_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out) {
  const struct cursor *c = (const struct cursor *)base;
  const enum tg__sql_table id = cursor_table(base)->id;
  *out = (int64_t)(walks_slices(id) ? c->slices.row : c->row);
  if (has_args(id)) *out = *out << 16 | c->args.i; /* a schema has fewer than 65 536 fields */
  return SQLITE_OK;
}

static int x_column(sqlite3_vtab_cursor *base, sqlite3_context *x, int n) {
  const struct cursor *c = (const struct cursor *)base;
  const struct table *table = cursor_table(base);
  const uint64_t row = walks_slices(table->id) ? c->slices.row : c->row;
  if (has_args(table->id)) {
    tg__sql_arg_cell(x, &c->args, (int64_t)row, n);
  } else {
    tg__sql_cell(x, table->data, table->id, row, table->first + n);
  }
  return SQLITE_OK;
}

/* ---- planning -------------------------------------------------------------------------------- */

static enum tg__sql_role column_role_of(const struct table *table, int n) {
  switch (table->first + n) {
  case TG__C_slices_id:
  case TG__C_marks_id:
  case TG__C_strings_id:
  case TG__C_args_slice:
  case TG__C_mark_args_mark:
  case TG__C_tracks_track:
    return TG__SQL_ID;
  case TG__C_slices_track:
    return TG__SQL_TRACK;
  case TG__C_slices_parent:
    return TG__SQL_PARENT;
  case TG__C_slices_start_ns:
    return TG__SQL_START;
  case TG__C_slices_name:
  case TG__C_args_key:
  case TG__C_mark_args_key:
    return TG__SQL_NAME;
  default:
    return TG__SQL_NOTHING;
  }
}

static char operator_of(unsigned char op) {
  switch (op) {
  case SQLITE_INDEX_CONSTRAINT_EQ:
    return '=';
  case SQLITE_INDEX_CONSTRAINT_GT:
  case SQLITE_INDEX_CONSTRAINT_GE:
    return '>'; /* one row too many is no harm: SQLite tests it again */
  case SQLITE_INDEX_CONSTRAINT_LT:
  case SQLITE_INDEX_CONSTRAINT_LE:
    return '<';
  default:
    return 0;
  }
}

/* How much of the table is left after this condition. Rough, but it puts the cheaper side of a join outside. */
static double share_left(enum tg__sql_role role, char op, const struct tg__columns *t, double rows) {
  if (op != '=') return 0.25;
  switch (role) {
  case TG__SQL_ID:
    return 1 / rows;
  case TG__SQL_PARENT:
    return 8 / rows;
  case TG__SQL_TRACK:
    return 1.0 / (t->track_count + 1);
  case TG__SQL_START:
    return 2 / rows;
  default:
    return 0.02;
  }
}

/* ORDER BY, GROUP BY or DISTINCT on only the name: then SQLite need not sort. Not worth it for a few rows. */
static bool wants_order_of_names(const struct table *table, const sqlite3_index_info *info, double rows, double all) {
  return table->id == TG__T_slices && info->nOrderBy == 1 && !info->aOrderBy[0].desc &&
         info->aOrderBy[0].iColumn == TG__C_slices_name - table->first && rows > all / 32;
}

enum { BY_NAME = 1 }; /* idxNum: slices in the order of their names */

static int x_best_index(sqlite3_vtab *base, sqlite3_index_info *info) {
  const struct table *table = (const struct table *)base;
  const struct tg__columns *t = table->data->t;
  const double all = (double)row_count(table->id, t) * (has_args(table->id) ? 8 : 1) + 1;
  double rows = all, visited = all;
  char *plan = sqlite3_malloc64(2 * (sqlite3_uint64)info->nConstraint + 1);
  if (!plan) return SQLITE_NOMEM;
  int used = 0;
  for (int i = 0; i < info->nConstraint; i++) {
    const struct sqlite3_index_constraint *con = &info->aConstraint[i];
    const enum tg__sql_role role = con->iColumn < 0 ? TG__SQL_NOTHING : column_role_of(table, con->iColumn);
    const char op = operator_of(con->op);
    if (!con->usable || role == TG__SQL_NOTHING || !op ||
        (op != '=' && (role == TG__SQL_PARENT || role == TG__SQL_NAME)))
      continue;
    if (role == TG__SQL_NAME && strcmp(sqlite3_vtab_collation(info, i), "BINARY") != 0) continue;
    rows *= share_left(role, op, t, all);
    visited *= role == TG__SQL_NAME
                   ? 0.25
                   : share_left(role, op, t, all); /* looking at a name is cheap, but all are looked at */
    plan[2 * used] = (char)role;
    plan[2 * used + 1] = op;
    info->aConstraintUsage[i].argvIndex = ++used;
  }
  plan[2 * used] = 0;
  if (wants_order_of_names(table, info, rows, all)) {
    info->orderByConsumed = 1;
    info->idxNum = BY_NAME;
  }
  info->idxStr = plan;
  info->needToFreeIdxStr = 1;
  info->estimatedRows = (sqlite3_int64)(rows < 1 ? 1 : rows);
  info->estimatedCost = visited < 1 ? 1 : visited;
  return SQLITE_OK;
}

/* A bound that is no number says nothing here: SQLite compares it by its own rules. */
static void apply_number(struct tg__sql_bounds *b, enum tg__sql_role role, char op, sqlite3_value *value,
                         const struct tg__columns *t) {
  int64_t low, high;
  if (sqlite3_value_type(value) == SQLITE_INTEGER) {
    low = high = sqlite3_value_int64(value);
  } else if (sqlite3_value_type(value) == SQLITE_FLOAT) {
    const double v = sqlite3_value_double(value);
    if (!(fabs(v) < 9e18)) return;
    low = (int64_t)floor(v);
    high = (int64_t)ceil(v);
  } else {
    return;
  }
  if (role == TG__SQL_PARENT) {
    if (low == high) tg__sql_bound_parent(b, t, low);
    return;
  }
  if (op != '<') tg__sql_bound_low(b, role, low);
  if (op != '>') tg__sql_bound_high(b, role, high);
}

static struct tg__sql_bounds bounds_of(const char *plan, sqlite3_value **values, const struct tg__columns *t) {
  struct tg__sql_bounds b = tg__sql_everything();
  for (int i = 0; plan[2 * i]; i++) {
    const enum tg__sql_role role = (enum tg__sql_role)plan[2 * i];
    if (sqlite3_value_type(values[i]) == SQLITE_NULL) b.none = true; /* nothing compares with NULL */
    if (role != TG__SQL_NAME) {
      apply_number(&b, role, plan[2 * i + 1], values[i], t);
    } else if (sqlite3_value_type(values[i]) == SQLITE_TEXT) {
      const char *text = (const char *)sqlite3_value_text(values[i]);
      const uint32_t name = tg__strings_find(t->strings, text, (size_t)sqlite3_value_bytes(values[i]));
      if (name == TG_NONE || (b.has_name && b.name != name)) b.none = true;
      b.name = name;
      b.has_name = true;
    }
  }
  return b;
}

static int x_filter(sqlite3_vtab_cursor *base, int number, const char *plan, int count, sqlite3_value **values) {
  struct cursor *c = (struct cursor *)base;
  const struct table *table = cursor_table(base);
  const struct tg__columns *t = table->data->t;
  struct tg__sql_bounds b = bounds_of(plan, values, t);
  c->key = TG_NONE;
  if (has_args(table->id)) {
    if (b.has_name) c->key = b.name;
    b.has_name = false;
  }
  if (number == BY_NAME) {
    if (!tg__sql_seek_by_name(&c->slices, table->data, b)) return SQLITE_NOMEM;
  } else if (walks_slices(table->id)) {
    tg__sql_seek(&c->slices, t, b);
  } else {
    const int64_t rows = (int64_t)row_count(table->id, t);
    const bool none = b.none || b.id_low > b.id_high || b.id_high < 0 || b.id_low >= rows;
    c->row = none ? 0 : (uint64_t)b.id_low;
    c->end = none ? 0 : b.id_high < rows ? (uint64_t)b.id_high + 1 : (uint64_t)rows;
    pass_over(c, table);
  }
  if (has_args(table->id)) {
    begin_args(c, table);
    next_arg(c, table);
  }
  return SQLITE_OK;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int x_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **out, char **message) {
  const struct kind *kind = aux;
  struct tg__out ddl = {0};
  tg__out_text(&ddl, "CREATE TABLE x(");
  int first = -1;
  for (int i = 0; i < TG__SQL_COLUMNS; i++) {
    if (columns[i].table != kind->id) continue;
    if (first >= 0) tg__out_char(&ddl, ',');
    if (first < 0) first = i;
    tg__out_text(&ddl, columns[i].declaration);
  }
  tg__out_bytes(&ddl, ")", 2);
  struct table *table = tg__alloc(sizeof *table);
  kind->data->declaring = true; /* SQLite asks the authorizer about our own declaration too */
  const int rc = ddl.err || !table ? SQLITE_NOMEM : sqlite3_declare_vtab(db, ddl.buf);
  kind->data->declaring = false;
  tg__out_free(&ddl);
  if (rc != SQLITE_OK) {
    *message = sqlite3_mprintf("%s", sqlite3_errmsg(db));
    tg__free(table);
    return rc;
  }
  table->id = kind->id;
  table->first = first;
  table->data = kind->data;
  *out = &table->base;
  return SQLITE_OK;
}

static int x_disconnect(sqlite3_vtab *base) {
  tg__free(base);
  return SQLITE_OK;
}

static int x_open(sqlite3_vtab *base, sqlite3_vtab_cursor **out) {
  struct cursor *c = tg__alloc(sizeof *c);
  if (!c) return SQLITE_NOMEM;
  *out = &c->base;
  return SQLITE_OK;
}

static int x_close(sqlite3_vtab_cursor *base) {
  tg__free(base);
  return SQLITE_OK;
}

/* No xCreate: a table is there under its name from the start and needs no CREATE VIRTUAL TABLE. */
static const sqlite3_module module = {
    .xConnect = x_connect,
    .xBestIndex = x_best_index,
    .xDisconnect = x_disconnect,
    .xOpen = x_open,
    .xClose = x_close,
    .xFilter = x_filter,
    .xNext = x_next,
    .xEof = x_eof,
    .xColumn = x_column,
    .xRowid = x_rowid,
};

static void arg_function(sqlite3_context *x, sqlite3_value **values, const uint32_t *args, uint32_t count) {
  const struct tg__sql_data *d = sqlite3_user_data(x);
  if (sqlite3_value_type(values[0]) != SQLITE_INTEGER || sqlite3_value_type(values[1]) != SQLITE_TEXT) return;
  const int64_t id = sqlite3_value_int64(values[0]);
  const char *key = (const char *)sqlite3_value_text(values[1]);
  const uint32_t string = tg__strings_find(d->t->strings, key, (size_t)sqlite3_value_bytes(values[1]));
  struct tg__val v;
  if (id >= 0 && id < count && string != TG_NONE && tg__arg(d->t, args[id], string, false, &v))
    tg__sql_result_val(x, d->t, &v);
}

static void f_arg(sqlite3_context *x, int argc, sqlite3_value **values) {
  const struct tg__columns *t = ((const struct tg__sql_data *)sqlite3_user_data(x))->t;
  arg_function(x, values, t->slices.args, t->slices.count);
}

static void f_mark_arg(sqlite3_context *x, int argc, sqlite3_value **values) {
  const struct tg__columns *t = ((const struct tg__sql_data *)sqlite3_user_data(x))->t;
  arg_function(x, values, t->marks.args, t->marks.count);
}

bool tg__sql_add_tables(sqlite3 *db, struct tg__sql_data *data) {
  const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC;
  for (int id = 0; id < TG__SQL_TABLES; id++) {
    struct kind *kind = tg__alloc(sizeof *kind);
    if (!kind) return false;
    *kind = (struct kind){(enum tg__sql_table)id, data};
    if (sqlite3_create_module_v2(db, table_names[id], &module, kind, tg__free) != SQLITE_OK) return false;
  }
  return sqlite3_create_function_v2(db, "arg", 2, flags, data, f_arg, NULL, NULL, NULL) == SQLITE_OK &&
         sqlite3_create_function_v2(db, "mark_arg", 2, flags, data, f_mark_arg, NULL, NULL, NULL) == SQLITE_OK;
}

void tg__sql_data_free(struct tg__sql_data *data) {
  tg__forms_free(data->forms);
  tg__free(data->self_ns);
  tg__free(data->by_name);
  tg__out_free(&data->text);
}

#endif
