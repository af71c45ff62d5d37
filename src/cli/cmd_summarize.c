/* tachograph summarize: writes the summaries of a job's ranks to a .tsum file. */
#include "cli/cli.h"

#include <stdio.h>

int tg__cli_sum_up(struct tg__cli *c, const char *target) {
  if (!target) return tg__cli_no_memory(c);
  struct tg_error e = {0};
  struct tg_trace *ranks = NULL;
  if (tg__cli_is_elsewhere(c)) {
    const int status = tg__cli_gather(c, c->operands, c->operand_count, &ranks);
    if (status) return status;
  } else if (tg__cli_open_ranks(c, c->operands, c->operand_count, &ranks, &e)) {
    return tg__cli_failed(c, &e, NULL);
  }
  const size_t count = tg_rank_count(ranks);
  const long long unread = (long long)tg_loss_count(ranks, "skipped_file");
  const char *const question = tg__fallback_question(ranks);
  const enum tg_err err = tg_save_ranks(ranks, target, &e);
  if (unread && !err) tg__cli_note_missing(ranks, "", NULL);
  tg_close(ranks);
  if (err) return tg__cli_failed(c, &e, NULL);
  const int64_t size = tg__cli_size_of(target);
  if (!tg__cli_wants_json(c) && strcmp(target, "-") != 0) {
    char text[32];
    tg__cli_say("%s: %zu rank%s, %s\n", target, count, count == 1 ? "" : "s",
                size == TG_NULL_INT ? "written" : tg__human_bytes(size, text));
    if (unread)
      fprintf(stderr, "  %lld file%s could not be read and %s left out\n", unread, unread == 1 ? "" : "s",
              unread == 1 ? "is" : "are");
    tg__cli_say("  next: tachograph ask %s %s\n", tg__cli_word(c, target), question);
  }
  return tg__cli_result(c, target, "tsum", size);
}

int tg__cmd_summarize(struct tg__cli *c) {
  if (c->operand_count == 0)
    return tg__cli_usage(c, "tachograph help summarize", "name the files or folders of the ranks");
  const char *target = tg__cli_setting(c, "output") ? c->out_path : NULL;
  if (!target && (c->operand_count > 1 || strstr(c->operands[0], "://") || strpbrk(c->operands[0], "*?[") ||
                  strcmp(c->operands[0], "-") == 0))
    return tg__cli_usage(c, NULL, "say where to save: -o run.tsum");
  return tg__cli_sum_up(c, target ? target : tg__cli_beside(c, c->operands[0], ".tsum"));
}
