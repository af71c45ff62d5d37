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
  if (!args) return tg__cli_no_memory(c);
  for (size_t i = 0; i < c->argument_count; i++) args[i] = c->arguments[i];
  args[c->argument_count] = (struct tg_arg){"side", device ? "device" : cpu ? "cpu" : "auto"};
  const char *const question = c->command->name; /* the question is called like the command */
  const struct tg__cli_question asked = {question, args, c->argument_count + 1, SIZE_MAX};
  struct tg_table *t = NULL;
  const enum tg_err err = tg__cli_ask(c, c->operands[0], &asked, &trace, &t, &e);
  if (!trace) return tg__cli_failed(c, &e, NULL);
  const char *next = err ? tg__cli_instead(c, err, trace, c->operands[0]) : NULL;
  args[c->argument_count].value = "cpu";
  if (err == TG_NO_DATA && device && tg_ask(trace, question, args, c->argument_count + 1, &t, NULL) == TG_OK)
    next = tg__cli_command(c, "tachograph top --cpu %s", tg__cli_word(c, c->operands[0]));
  if (t) tg__cli_explain(c, t);
  const int status = err ? tg__cli_failed(c, &e, next) : tg__cli_table(c, t, (size_t)rows);
  tg_table_free(t);
  tg_close(trace);
  return status;
}
