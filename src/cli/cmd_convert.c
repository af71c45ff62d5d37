/* tachograph convert: any trace becomes a .tacho file; a folder of ranks becomes a folder of them with -o FOLDER/. */
#include "cli/cli.h"

#include <stdio.h>
#include <unistd.h>

static int save_one(const struct tg__cli *c, void *ctx, struct tg_trace *t, const char *rank, const char *target) {
  struct tg_error e = {0};
  (void)ctx, (void)rank;
  return tg_save(t, target, &e) ? tg__cli_failed(c, &e, NULL) : TG__EXIT_OK;
}

int tg__cmd_convert(struct tg__cli *c) {
  if (!tg__cli_needs(c, 1)) return TG__EXIT_USAGE;
  const char *path = c->operands[0], *target = c->out_path;
  if (!tg__cli_setting(c, "output")) {
    if (strcmp(path, "-") == 0 || strchr(path, '*')) return tg__cli_usage(c, NULL, "say where to save: -o trace.tacho");
    target = tg__cli_beside(c, path, ".tacho");
  }
  if (target && tg__cli_format_of(target)) {
    const char *const next =
        tg__cli_command(c, "tachograph export %s -o %s", tg__cli_word(c, path), tg__cli_word(c, target));
    return tg__cli_usage(c, next, "convert writes a .tacho file, and %s is named as one for other programs", target);
  }
  if (tg__cli_writes_files(c, path))
    return tg__cli_write_files(c, path, &(struct tg__file_writer){save_one, NULL, ".tacho"});
  if (!target) return tg__cli_no_memory(c);
  struct tg_error e = {0};
  struct tg_trace *trace = NULL;
  if (tg__cli_open(c, path, &trace, &e)) return tg__cli_failed(c, &e, NULL);
  const int refused = tg__cli_needs_events(c, trace, path);
  const enum tg_err err = refused ? TG_OK : tg_save(trace, target, &e);
  tg_close(trace);
  if (refused) return refused;
  if (err) return tg__cli_failed(c, &e, NULL);
  const int64_t size = tg__cli_size_of(target);
  if (!tg__cli_wants_json(c) && strcmp(target, "-") != 0) {
    char text[32];
    tg__cli_say("%s: %s\n  next: tachograph report %s\n", target,
                size == TG_NULL_INT ? "written" : tg__human_bytes(size, text), tg__cli_word(c, target));
  }
  return tg__cli_result(c, target, "tacho", size);
}
