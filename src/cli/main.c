/* tachograph: the command line. The words of the call are parsed, one command runs, its exit status is ours. */
#include "cli/cli.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

/* The next file opened would take the number of a closed standard stream, and output would land there. */
static void keep_streams_taken(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
    if (fcntl(fd, F_GETFD) < 0) (void)open("/dev/null", O_RDONLY);
  }
}

static int print_help(const struct tg__cli *c) {
  struct tg__out text = {0};
  tg__help_command(c->command, &text);
  return tg__cli_text(c, c->command->name, &text);
}

/* The file that the answer would be written over; NULL = none. convert and merge may: they write the same trace
 * again. */
static const char *input_replaced(const struct tg__cli *c) {
  static const char *const may[] = {"convert", "merge", "summarize", "run"};
  for (size_t i = 0; i < sizeof may / sizeof *may; i++)
    if (strcmp(c->command->name, may[i]) == 0) return NULL;
  struct stat out, in;
  if (!c->out_path || stat(c->out_path, &out) || !S_ISREG(out.st_mode)) return NULL;
  for (size_t i = 0; i < c->operand_count; i++)
    if (stat(c->operands[i], &in) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino) return c->operands[i];
  return NULL;
}

static int run(struct tg__cli *c) {
  const char *const input = input_replaced(c);
  return input ? tg__cli_usage(c, NULL, "-o %.400s would replace the trace that is read: choose another name", input)
               : c->command->run(c);
}

int main(int argc, char **argv) {
  keep_streams_taken();
  signal(SIGPIPE, SIG_IGN); /* `| head` ends a write with an error, which is handled where it is written */
  struct tg__cli c;
  int status = tg__cli_parse(&c, argc, argv);
  if (status < 0) status = tg__cli_setting(&c, "help") ? print_help(&c) : run(&c);
  tg__cli_free(&c);
  return status;
}
