/* tachograph prove: record a program, and have our package predict what delays cost and run it with them. */
#include "cli/run_recording.h"

enum { LEAST_SHARE_PCT = 10, MOST_SHARE_PCT = 30 };

int tg__cmd_prove(struct tg__cli *c) {
  const char *const given = tg__cli_setting(c, "share"), *const share = given ? given : "20";
  const long pct = tg__cli_rows(c, "share", 0);
  if (given && (pct < LEAST_SHARE_PCT || pct > MOST_SHARE_PCT))
    return tg__cli_usage(c, NULL, "--share is a percentage of the step, from %d to %d, not '%s'", LEAST_SHARE_PCT,
                         MOST_SHARE_PCT, share);
  struct tg__cli_recorded recorded;
  const int status = tg__cli_record_first(c, &recorded);
  if (status) return status;
  size_t count = 0;
  while (recorded.argv[count]) count++;
  const char **const words = tg__arena_get(&c->arena, (count + 3) * sizeof *words);
  if (!words) return tg__cli_no_memory(c);
  size_t n = 0;
  words[n++] = tg__cli_wants_json(c) ? "json" : "text";
  words[n++] = share;
  words[n++] = recorded.file;
  for (size_t i = 0; i < count; i++) words[n++] = recorded.argv[i];
  return tg__cli_in_python(c, "tachograph._prove", words, n);
}
