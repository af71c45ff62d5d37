/* tachograph top: the question top with a short list of rows, the one that is asked first. */
#include "cli/cli.h"

enum { ROWS = 10 };

int tg__cmd_top(struct tg__cli *c) {
  if (!tg__cli_needs(c, 1)) return TG__EXIT_USAGE;
  const bool device = tg__cli_setting(c, "device") != NULL, cpu = tg__cli_setting(c, "cpu") != NULL;
  if (device && cpu) return tg__cli_usage(c, NULL, "--device and --cpu exclude each other");
  const long rows = tg__cli_rows(c, "rows", ROWS);
  if (rows < 0) return tg__cli_usage(c, NULL, "-n is a number of rows from 1 on, not '%s'", tg__cli_setting(c, "rows"));
  struct tg_trace *trace = NULL;
  struct tg_error e = {0};
  struct tg_arg *const args = tg__arena_get(&c->arena, (c->argument_count + 1) * sizeof *args);
  if (!args) {
    tg__fail(&e, TG_MEMORY, -1, "out of memory");
    return tg__cli_failed(c, &e, NULL);
  }
  for (size_t i = 0; i < c->argument_count; i++) args[i] = c->arguments[i];
  args[c->argument_count] = (struct tg_arg){"side", device ? "device" : cpu ? "cpu" : "auto"};
  const struct tg__question *const question = tg__catalog_question(&tg__catalog, TG__Q_top);
  struct tg__first_question first = {.call = {question, args, c->argument_count + 1}, .most = SIZE_MAX};
  if (tg__cli_open_asking(c, c->operands[0], &first, &trace, &e)) return tg__cli_failed(c, &e, NULL);
  struct tg_table *t = first.table;
  enum tg_err err = first.err;
  e = first.error;
  if (!t && !err) err = tg_ask(trace, question->name, args, c->argument_count + 1, &t, &e);
  const char *next = err ? tg__cli_instead(c, err, trace, c->operands[0]) : NULL;
  args[c->argument_count].value = "cpu";
  if (err == TG_NO_DATA && device && tg_ask(trace, question->name, args, c->argument_count + 1, &t, NULL) == TG_OK)
    next = tg__cli_command(c, "tachograph top --cpu %s", tg__cli_word(c, c->operands[0]));
  const int status = err ? tg__cli_failed(c, &e, next) : tg__cli_table(c, t, (size_t)rows);
  tg_table_free(t);
  tg_close(trace);
  return status;
}
