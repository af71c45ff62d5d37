/* tachograph memory: what was alive when most was in use, in one line per device, and the largest blocks. */
#include "cli/cli.h"

enum { ROWS = 10 };

int tg__cmd_memory(struct tg__cli *c) {
  if (!tg__cli_needs(c, 1)) return TG__EXIT_USAGE;
  const long rows = tg__cli_rows(c, "top", ROWS);
  if (rows < 0)
    return tg__cli_usage(c, NULL, "--top is a number of rows from 1 on, not '%s'", tg__cli_setting(c, "top"));
  struct tg_trace *trace = NULL;
  struct tg_table *t = NULL;
  struct tg_error e = {0};
  enum tg_err err = tg__cli_open_run(c, c->operands[0], &trace, &e);
  if (!err) err = tg__memory_with_peaks(trace, c->arguments, c->argument_count, &t, &e);
  const char *const next = err && trace ? tg__cli_instead(c, err, trace, c->operands[0]) : NULL;
  if (!err) tg__cli_explain(c, t);
  const int status =
      err ? tg__cli_failed(c, &e, next) : tg__cli_table(c, t, tg__cli_argument(c, "limit") ? 0 : (size_t)rows);
  tg_table_free(t);
  tg_close(trace);
  return status;
}
