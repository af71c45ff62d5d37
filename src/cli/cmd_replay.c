/* tachograph replay: requests that a server once got are sent again, and timed. */
#include "cli/cli.h"

int tg__cmd_replay(struct tg__cli *c) {
  static const char *const options[] = {"concurrency", "repeat"};
  const char *words[3 + sizeof options / sizeof *options];
  if (!tg__cli_needs(c, 2)) return TG__EXIT_USAGE;
  size_t n = 0;
  for (size_t i = 0; i < 2; i++) words[n++] = c->operands[i];
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    const char *const given = tg__cli_setting(c, options[i]);
    words[n++] = given ? given : "1";
  }
  words[n++] = tg__cli_wants_json(c) ? "json" : "text";
  return tg__cli_in_python(c, "tachograph._serving", words, n);
}
