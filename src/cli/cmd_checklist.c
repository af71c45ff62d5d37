/* tachograph checklist: which parts of a systematic profile are there, and which are missing. */
#include "cli/cli.h"

int tg__cmd_checklist(struct tg__cli *c) {
  if (!tg__cli_needs(c, 1)) return TG__EXIT_USAGE;
  struct tg_trace *trace = NULL;
  struct tg_error e = {0};
  size_t missing;
  if (tg__cli_open(c, c->operands[0], &trace, &e)) return tg__cli_failed(c, &e, NULL);
  struct tg_table *const t = tg__checklist(trace, c->operands[0], &missing);
  const int status = t ? tg__cli_table(c, t, 0) : tg__cli_no_memory(c);
  tg_table_free(t);
  tg_close(trace);
  return status == TG__EXIT_OK && missing ? TG__EXIT_THRESHOLD : status;
}
