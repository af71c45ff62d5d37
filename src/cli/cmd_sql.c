/* tachograph sql: any SELECT over the events. */
#include "cli/cli.h"

enum { ROWS_AS_TEXT = 20 };

static void put_sql_line(struct tg_table *t, const char *table, const char *column, const char *type,
                         const char *meaning) {
  tg_table_add_row(t, (struct tg_cell[]){{.text = table}, {.text = column}, {.text = type}, {.text = meaning}});
}

static int show_schema(const struct tg__cli *c) {
  static const struct tg_column_spec columns[] = {
      {"table", TG_TEXT, ""}, {"column", TG_TEXT, ""}, {"type", TG_TEXT, ""}, {"meaning", TG_TEXT, ""}};
  struct tg_table *const t = tg_table_new("schema", columns, sizeof columns / sizeof *columns);
  if (!t) return tg__cli_no_memory(c);
#define SQL_TABLE(name, meaning) put_sql_line(t, #name, "", "", meaning);
#define SQL_COLUMN(table, name, type, meaning) put_sql_line(t, #table, #name, #type, meaning);
#include "show/sql_tables.def"
  const int status = tg__cli_table(c, t, 0);
  tg_table_free(t);
  return status;
}

int tg__cmd_sql(struct tg__cli *c) {
  if (tg__cli_setting(c, "schema")) return show_schema(c);
  if (!tg__cli_needs(c, 2)) return TG__EXIT_USAGE;
  const char *const limit = tg__cli_setting(c, "limit");
  const bool all = limit && strcmp(limit, "all") == 0;
  const long most = all ? 0 : tg__cli_rows(c, "limit", strcmp(c->format, "text") == 0 ? ROWS_AS_TEXT : 0);
  if (most < 0) return tg__cli_usage(c, NULL, "--limit is a number of rows from 1 on, or all, not '%s'", limit);
  struct tg_trace *trace = NULL;
  struct tg_table *t = NULL;
  struct tg_error e = {0};
  int status = tg__cli_open(c, c->operands[0], &trace, &e) ? tg__cli_failed(c, &e, NULL)
                                                           : tg__cli_needs_events(c, trace, c->operands[0]);
  if (!status) {
    tg__work_begin("running the query");
    const enum tg_err err = tg_sql(trace, c->operands[1], &t, &e);
    tg__work_end();
    status = err ? tg__cli_failed(c, &e, "tachograph sql --schema") : tg__cli_table(c, t, (size_t)most);
  }
  tg_table_free(t);
  tg_close(trace);
  return status;
}
