/* tachograph man: the manual page as roff, made from commands.def. */
#include "cli/cli.h"

/* Backslashes and leading dots mean something to roff, hyphens must stay hyphens for copying, and what is not ASCII
 * is named by its code point. */
static void put_roff(struct tg__out *out, const char *text) {
  const unsigned char *const start = (const unsigned char *)text;
  for (const unsigned char *p = start; *p;) {
    const unsigned n = tg__utf8_length(p, strlen((const char *)p));
    if (n > 1) {
      unsigned c = p[0] & (0x7Fu >> n);
      for (unsigned i = 1; i < n; i++) c = c << 6 | (p[i] & 0x3Fu);
      tg__out_format(out, "\\[u%04X]", c);
      p += n;
      continue;
    }
    if (*p == '\\')
      tg__out_text(out, "\\e");
    else if (*p == '-')
      tg__out_text(out, "\\-");
    else if ((*p == '.' || *p == '\'') && p == start)
      tg__out_format(out, "\\&%c", *p);
    else
      tg__out_char(out, (char)*p);
    p++;
  }
}

static void put_option(struct tg__out *out, const struct tg__option *option) {
  tg__out_text(out, ".TP\n\\fB");
  if (option->letter) tg__out_format(out, "\\-%c\\fR, \\fB", option->letter);
  tg__out_text(out, "\\-\\-");
  put_roff(out, option->name);
  tg__out_text(out, "\\fR");
  if (option->value) tg__out_format(out, " \\fI%s\\fR", option->value);
  tg__out_char(out, '\n');
  put_roff(out, option->meaning);
  tg__out_char(out, '\n');
}

static void put_command(struct tg__out *out, const struct tg__command *command) {
  tg__out_format(out, ".SS \"tachograph %s\"\n", command->name);
  if (*command->operands) {
    tg__out_text(out, "Operands: ");
    put_roff(out, command->operands);
    tg__out_text(out, "\n.PP\n");
  }
  put_roff(out, command->meaning);
  tg__out_text(out, ".\n");
  const struct tg__option *option;
  for (size_t k = 0; (option = tg__command_option(command, k)) != NULL; k++) {
    if (strcmp(option->command, "every") != 0) put_option(out, option);
  }
  tg__out_text(out, ".PP\nExample:\n.PP\n.nf\n    ");
  put_roff(out, command->example);
  tg__out_text(out, "\n.fi\n");
}

static void put_questions(struct tg__out *out) {
  tg__out_text(out, ".SH QUESTIONS\n");
  for (size_t i = 0; i < tg_question_count(); i++) {
    tg__out_format(out, ".TP\n\\fB%s\\fR\n", tg_question_name(i));
    put_roff(out, tg_question_meaning(i));
    tg__out_char(out, '\n');
  }
}

static void put_statuses(struct tg__out *out) {
  static const char *const statuses[] = {"answered",
                                         "a threshold failed, or check found losses",
                                         "wrong usage",
                                         "the trace lacks the data, or a --fail-if of diff cannot be judged",
                                         "unreadable or unwritable",
                                         "internal"};
  tg__out_text(out, ".SH EXIT STATUS\n");
  for (int i = 0; i < 6; i++) tg__out_format(out, ".TP\n%d\n%s\n", i, statuses[i]);
}

int tg__cmd_man(struct tg__cli *c) {
  if (!tg__cli_needs(c, 0)) return TG__EXIT_USAGE;
  struct tg__out text = {0};
  tg__out_format(
      &text,
      ".TH TACHOGRAPH 1 \"\" \"tachograph %s\"\n.SH NAME\ntachograph \\- where the time of a PyTorch program goes\n",
      tg_version());
  tg__out_text(
      &text,
      ".SH SYNOPSIS\n.B tachograph\n\\fICOMMAND\\fR ...\n.br\n.B tachograph\n\\fIFILE\\fR\n"
      ".SH DESCRIPTION\nReads traces of PyTorch programs and answers questions about them. \\fIFILE\\fR is a trace\n"
      "(.json, .json.gz, .json.zst or .tacho, recognised by content), a directory or a glob of one per rank, or \\- "
      "for\n"
      "standard input.\n"
      "A file without a command means \\fBreport\\fR.\n.SH OPTIONS OF EVERY COMMAND\n");
  const struct tg__option *option;
  for (size_t k = 0; (option = tg__command_option(&tg__commands[0], k)) != NULL; k++) {
    if (strcmp(option->command, "every") == 0) put_option(&text, option);
  }
  tg__out_text(&text, ".SH COMMANDS\n");
  for (size_t i = 0; i < tg__command_count(); i++) put_command(&text, &tg__commands[i]);
  put_questions(&text);
  put_statuses(&text);
  return tg__cli_text(c, "man", &text);
}
