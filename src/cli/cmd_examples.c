/* tachograph examples: small programs to record and to learn from. They lie in the Python package. */
#include "cli/cli.h"

#include <string.h>

int tg__cmd_examples(struct tg__cli *c) {
  if (c->operand_count > 1 && !tg__cli_needs(c, 1)) return TG__EXIT_USAGE;
  const char *words[3];
  size_t count = 0;
  if (c->operand_count) words[count++] = c->operands[0];
  if (strcmp(c->out_path, "-") != 0) words[count++] = "-o", words[count++] = c->out_path;
  return tg__cli_in_python(c, "tachograph._examples", words, count);
}
