/* losses: the question losses. */
#include "analyze/analyze.h"

/* Files that were passed over are of no rank: each that is named, and how many more there are. */
static void put_skipped_files(const struct tg__columns *t, struct tg_table *out) {
  const char *const name = tg__loss_info[TG__LOSS_skipped_file].name;
  for (uint32_t i = 0; i < t->skipped_count; i++) {
    tg__put_null(out);
    tg__put_cstr(out, t->skipped[i].path);
    tg__put_cstr(out, name);
    tg__put_cstr(out, "file");
    tg__put_int(out, 1);
    tg__put_null(out);
    const char *const why = t->skipped[i].why;
    const size_t len = strlen(t->skipped[i].path);
    tg__put_cstr(out,
                 strncmp(why, t->skipped[i].path, len) == 0 && strncmp(why + len, ": ", 2) == 0 ? why + len + 2 : why);
  }
  const int64_t more = t->ranks[0].loss[TG__LOSS_skipped_file] - t->skipped_count;
  if (more <= 0) return;
  tg__put_null(out);
  tg__put_null(out);
  tg__put_cstr(out, name);
  tg__put_cstr(out, "file");
  tg__put_int(out, more);
  tg__put_null(out);
  tg__put_cstr(out, tg__loss_info[TG__LOSS_skipped_file].meaning);
}

enum tg_err tg__answer_losses(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                              struct tg_error *e) {
  static const char *const kinds[] = {
      [TG__LOSS_SKIPPED] = "skipped", [TG__LOSS_FILE] = "file", [TG__LOSS_CUT] = "cut", [TG__LOSS_BENT] = "bent"};
  (void)e;
  for (uint32_t r = 0; r < t->rank_count; r++) {
    const struct tg__rank *rank = &t->ranks[r];
    for (int k = 0; k < TG__LOSS_COUNT; k++) {
      const int64_t count = rank->loss[k];
      if (count <= 0 || k == TG__LOSS_skipped_file || !tg__ask_has_rank(a, r)) continue;
      tg__put_rank(out, t, r);
      tg__put_trace_text(out, t, rank->path);
      tg__put_cstr(out, tg__loss_info[k].name);
      tg__put_cstr(out, kinds[tg__loss_info[k].kind]);
      tg__put_int(out, count);
      tg__put_int(out, rank->loss_offset[k] < 0 ? TG_NULL_INT : rank->loss_offset[k]);
      tg__put_cstr(out, tg__loss_info[k].meaning);
    }
  }
  if (a->rank == TG_NONE) put_skipped_files(t, out);
  return TG_OK;
}

enum tg_err tg__merged_losses(const struct tg__rank_source *ranks, struct tg_table *rows, struct tg_error *e) {
  (void)e;
  if (!ranks->is_one) put_skipped_files(ranks->t, rows);
  return TG_OK;
}
