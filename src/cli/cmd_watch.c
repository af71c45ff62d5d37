/* tachograph watch: the figures of a program that runs already, once a second. The program is entered as `attach` does
 * (attach_enter.c). python/tachograph/_watch draws what it reports, through a folder that both remove at the end. */
#include "cli/attach_enter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static enum tg_err make_folder(struct tg__cli_recording *r, struct tg_error *e) {
  const char *const given = tg__getenv("TMPDIR"), *const temporary = given && *given ? given : "/tmp";
  if (strlen(temporary) + 64 > sizeof r->folder) return tg__fail(e, TG_USAGE, -1, "TMPDIR is too long");
  snprintf(r->folder, sizeof r->folder, "%s/tachograph-watch-XXXXXX", temporary);
  if (!mkdtemp(r->folder))
    return tg__fail(e, TG_IO, -1, "no folder can be made in '%s': %s; TMPDIR names another", temporary,
                    strerror(errno));
  snprintf(r->raw, sizeof r->raw, "%s/raw", r->folder);
  const enum tg_err err = tg__folder_make(r->raw, e);
  if (err) tg__cli_recording_drop_folder(r);
  return err;
}

/* Seconds, or "" where there is no limit. false: it is no time. */
static bool read_seconds(const char *text) {
  char *end;
  const double seconds = strtod(text, &end);
  return !*text || (!*end && end != text && seconds > 0 && seconds <= 1e9);
}

/* One that was killed has left the terminal as it was. */
static void restore_terminal(int status) {
  static const char shown[] = "\x1b[?25h\x1b[?1049l";
  if (status > 128 && isatty(STDOUT_FILENO) && write(STDOUT_FILENO, shown, sizeof shown - 1) < 0) return;
}

int tg__cmd_watch(struct tg__cli *c) {
  struct tg__cli_recording *const r = tg__arena_get(&c->arena, sizeof *r);
  const char *const limit = tg__cli_setting(c, "for"), *const seconds = limit ? limit : "";
  struct tg_error e = {0};
  struct tg__target t;
  char pid[16], width[16];
  if (!r) return tg__cli_no_memory(c);
  *r = (struct tg__cli_recording){.c = c, .preset = "lean"};
  if (limit && (!*limit || !read_seconds(limit)))
    return tg__cli_usage(c, NULL, "--for needs a number of seconds above 0, not '%s'", limit);
  int status = tg__attach_choose(r, &t);
  if (status >= 0) return status;
  tg__attach_heed_signals();
  if (make_folder(r, &e) || tg__attach_begin(r, &t, TG__ATTACH_WATCHES, &e)) return tg__cli_failed(c, &e, NULL);
  snprintf(pid, sizeof pid, "%d", r->attached);
  snprintf(width, sizeof width, "%u", c->width);
  const char *const words[] = {
      r->folder, pid, seconds, tg__cli_setting(c, "once") ? "once" : "", tg__cli_wants_json(c) ? "json" : "text",
      width};
  status = tg__cli_in_python(c, "tachograph._watch", words, sizeof words / sizeof *words);
  restore_terminal(status);
  return status;
}
