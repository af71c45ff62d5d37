/* tachograph check: is this file sane? */
#include "cli/cli.h"

int tg__cmd_check(struct tg__cli *c) {
  if (!tg__cli_needs(c, 1)) return TG__EXIT_USAGE;
  struct tg_error e = {0};
  struct tg_table *t;
  enum tg_verdict verdict;
  if (tg__cli_check(c, c->operands[0], &verdict, &t, &e)) return tg__cli_failed(c, &e, NULL);
  int status = tg__cli_table(c, t, 0);
  if (status == TG__EXIT_OK && verdict == TG_CHECK_INVALID) status = tg_err_status(TG_INTERNAL);
  if (status == TG__EXIT_OK && verdict == TG_CHECK_DAMAGED) status = TG__EXIT_THRESHOLD;
  tg_table_free(t);
  return status;
}
