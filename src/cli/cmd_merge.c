/* tachograph merge: summaries of ranks into one. */
#include "cli/cli.h"

int tg__cmd_merge(struct tg__cli *c) {
  if (c->operand_count == 0) return tg__cli_usage(c, "tachograph help merge", "name the .tsum files to put together");
  if (!tg__cli_setting(c, "output")) return tg__cli_usage(c, NULL, "say where to save: -o run.tsum");
  return tg__cli_sum_up(c, c->out_path);
}
