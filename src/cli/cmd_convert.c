/* tachograph convert: any trace becomes a .tacho file. */
#include "cli/cli.h"

#include <stdio.h>
#include <unistd.h>

/* trace.json.gz → trace.tacho, beside it; dir/ → dir.tacho. */
static char *default_target(struct tg__cli *c, const char *path) {
  static const char *const suffixes[] = {".gz", ".zst", ".json", ".pt.trace", ".tacho"};
  size_t len = strlen(path);
  while (len > 1 && path[len - 1] == '/') len--;
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
    const size_t n = strlen(suffixes[i]);
    if (len > n && memcmp(path + len - n, suffixes[i], n) == 0) len -= n;
  }
  char *target = tg__arena_get(&c->arena, len + sizeof ".tacho");
  if (!target) return NULL;
  memcpy(target, path, len);
  memcpy(target + len, ".tacho", sizeof ".tacho");
  return target;
}

static int64_t size_of(const char *path) {
  struct tg__file *f;
  if (tg__file_open(path, &f, NULL)) return TG_NULL_INT;
  const int64_t size = tg__file_size(f);
  tg__file_close(f);
  return size < 0 ? TG_NULL_INT : size;
}

int tg__cmd_convert(struct tg__cli *c) {
  if (!tg__cli_needs(c, 1)) return TG__EXIT_USAGE;
  const char *path = c->operands[0], *target = c->out_path;
  if (!tg__cli_setting(c, "output")) {
    if (strcmp(path, "-") == 0 || strchr(path, '*')) return tg__cli_usage(c, NULL, "say where to save: -o trace.tacho");
    target = default_target(c, path);
  }
  struct tg_error e = {.code = TG_MEMORY, .offset = -1, .text = "out of memory"};
  struct tg_trace *trace = NULL;
  if (!target || tg__cli_open(c, path, &trace, &e)) return tg__cli_failed(c, &e, NULL);
  const enum tg_err err = tg_save(trace, target, &e);
  tg_close(trace);
  if (err) return tg__cli_failed(c, &e, NULL);
  const int64_t size = size_of(target);
  if (!tg__cli_wants_json(c) && strcmp(target, "-") != 0) {
    char text[32];
    fprintf(stderr, "%s: %s\n  next: tachograph report %s\n", target, size == TG_NULL_INT ? "written" : tg__human_bytes(size, text), target);
  }
  return tg__cli_result(c, target, "tacho", size);
}
