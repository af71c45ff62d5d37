/* tachograph: the command line. The words of the call are parsed, one command runs, its exit status is ours. */
#include "cli/cli.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

/* A closed standard stream would give its number to the next file opened, and output would land there. */
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

int main(int argc, char **argv) {
  keep_streams_taken();
  signal(SIGPIPE, SIG_IGN); /* `| head` ends a write with an error, which is handled where it is written */
  struct tg__cli c;
  int status = tg__cli_parse(&c, argc, argv);
  if (status < 0) status = tg__cli_setting(&c, "help") ? print_help(&c) : c.command->run(&c);
  tg__cli_free(&c);
  return status;
}
