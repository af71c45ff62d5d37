/* tachograph summarize: the ranks of a run become a .tsum file. */
#include "cli/cli.h"

#include <stdio.h>

/* run/rank0.json.gz → run/rank0.tsum, run/ → run.tsum. */
static char *default_target(struct tg__cli *c, const char *path) {
  static const char *const suffixes[] = {".gz", ".zst", ".json", ".pt.trace", ".tacho", ".tsum"};
  size_t len = strlen(path);
  while (len > 1 && path[len - 1] == '/') len--;
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
    const size_t n = strlen(suffixes[i]);
    if (len > n && memcmp(path + len - n, suffixes[i], n) == 0) len -= n;
  }
  char *const target = tg__arena_get(&c->arena, len + sizeof ".tsum");
  if (!target) return NULL;
  memcpy(target, path, len);
  memcpy(target + len, ".tsum", sizeof ".tsum");
  return target;
}

static int64_t size_of(const char *path) {
  struct tg__file *f;
  if (tg__file_open(path, &f, NULL)) return TG_NULL_INT;
  const int64_t size = tg__file_size(f);
  tg__file_close(f);
  return size < 0 ? TG_NULL_INT : size;
}

int tg__cli_sum_up(struct tg__cli *c, const char *target) {
  struct tg_error e = {.code = TG_MEMORY, .offset = -1, .text = "out of memory"};
  struct tg_trace *ranks = NULL;
  if (!target || tg__cli_open_ranks(c, c->operands, c->operand_count, &ranks, &e)) return tg__cli_failed(c, &e, NULL);
  const uint32_t count = ranks->rank_count;
  const long long unread = (long long)ranks->ranks[0].loss[TG__LOSS_skipped_file];
  const enum tg_err err = tg_save_ranks(ranks, target, &e);
  tg_close(ranks);
  if (err) return tg__cli_failed(c, &e, NULL);
  const int64_t size = size_of(target);
  if (!tg__cli_wants_json(c) && strcmp(target, "-") != 0) {
    char text[32];
    fprintf(stderr, "%s: %u rank%s, %s\n", target, (unsigned)count, count == 1 ? "" : "s",
            size == TG_NULL_INT ? "written" : tg__human_bytes(size, text));
    if (unread)
      fprintf(stderr, "  %lld file%s could not be read and %s left out\n", unread, unread == 1 ? "" : "s", unread == 1 ? "is" : "are");
    fprintf(stderr, "  next: tachograph ask %s ranks\n", target);
  }
  return tg__cli_result(c, target, "tsum", size);
}

int tg__cmd_summarize(struct tg__cli *c) {
  if (c->operand_count == 0) return tg__cli_usage(c, "tachograph help summarize", "name the files or folders of the ranks");
  const char *target = tg__cli_setting(c, "output") ? c->out_path : NULL;
  if (!target && (c->operand_count > 1 || strpbrk(c->operands[0], "*?[") || strcmp(c->operands[0], "-") == 0))
    return tg__cli_usage(c, NULL, "say where to save: -o run.tsum");
  return tg__cli_sum_up(c, target ? target : default_target(c, c->operands[0]));
}
