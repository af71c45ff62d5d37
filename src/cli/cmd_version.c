/* tachograph version. */
#include "cli/cli.h"

int tg__cmd_version(struct tg__cli *c) {
  if (!tg__cli_needs(c, 0)) return TG__EXIT_USAGE;
  struct tg__out text = {0};
  tg__out_format(&text, "tachograph %s\n", tg_version());
  return tg__cli_text(c, "version", &text);
}
