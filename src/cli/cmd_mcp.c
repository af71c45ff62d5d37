/* tachograph mcp: the questions as tools for agents, on standard input and output. */
#include "cli/cli.h"

int tg__cmd_mcp(struct tg__cli *c) { return tg__cli_in_python(c, "tachograph._mcp", c->operands, c->operand_count); }
