/* tachograph help: the commands, or one of them. */
#include "cli/cli.h"

static void put_padded(struct tg__out *out, const char *text, size_t width) {
  tg__out_text(out, text);
  for (size_t i = strlen(text); i < width; i++) tg__out_char(out, ' ');
}

static void put_option(struct tg__out *out, const struct tg__option *option) {
  struct tg__out left = {0};
  if (option->letter) tg__out_format(&left, "-%c, ", option->letter);
  tg__out_format(&left, "--%s", option->name);
  if (option->value) tg__out_format(&left, " %s", option->value);
  tg__out_char(&left, 0);
  tg__out_text(out, "  ");
  if (!left.err) put_padded(out, left.buf, 22);
  tg__out_format(out, "  %s\n", option->meaning);
  tg__out_free(&left);
}

void tg__help_command(const struct tg__command *command, struct tg__out *out) {
  const char *const operands = command->operands, *const gap = *operands ? " " : "";
  tg__out_format(out, "tachograph %s: %s\n\n", command->name, command->meaning);
  if (tg__command_runs_a_program(command))
    tg__out_format(out, "usage: tachograph %s [options]%s%s\n\noptions\n", command->name, gap, operands);
  else
    tg__out_format(out, "usage: tachograph %s%s%s [options]\n\noptions\n", command->name, gap, operands);
  const struct tg__option *option;
  for (size_t k = 0; (option = tg__command_option(command, k)) != NULL; k++) put_option(out, option);
  tg__out_format(out, "\nexample\n  %s\n", command->example);
}

static void help_all(struct tg__out *out) {
  tg__out_format(out, "tachograph %s: where the time of a PyTorch program goes\n\n", tg_version());
  tg__out_text(out, "usage: tachograph COMMAND …\n       tachograph FILE            the same as tachograph report "
                    "FILE\n\ncommands\n");
  for (size_t i = 0; i < tg__command_count(); i++) {
    tg__out_text(out, "  ");
    put_padded(out, tg__commands[i].name, 12);
    tg__out_format(out, "%s\n", tg__commands[i].meaning);
  }
  tg__out_text(
      out,
      "\nFILE is a trace (.json, .json.gz, .json.zst, .tacho; recognised by content), a directory or a glob of one "
      "per\n"
      "rank, or - for standard input.\n"
      "\nexit status: 0 answered, 1 a threshold failed or check found losses, 2 usage, 3 the trace lacks the data,\n"
      "4 unreadable or unwritable, 5 internal\n"
      "\nmore: tachograph help COMMAND, or tachograph COMMAND --help\n");
}

int tg__cmd_help(struct tg__cli *c) {
  if (c->operand_count > 1 && !tg__cli_needs(c, 1)) return TG__EXIT_USAGE;
  struct tg__out text = {0};
  if (c->operand_count == 0) {
    help_all(&text);
    return tg__cli_text(c, "help", &text);
  }
  const char *word = c->operands[0];
  const struct tg__command *command = tg__command_find(word);
  if (!command) {
    const char *near = tg__command_nearest(word);
    if (near) return tg__cli_usage(c, "tachograph help", "there is no command '%s'; did you mean '%s'?", word, near);
    return tg__cli_usage(c, "tachograph help", "there is no command '%s'", word);
  }
  tg__help_command(command, &text);
  return tg__cli_text(c, "help", &text);
}
