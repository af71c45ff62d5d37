/* losses: the question losses. */
#include "analyze/analyze.h"

enum tg_err tg__answer_losses(const struct tg_trace *t, const struct tg__ask *a, struct tg_table *out, struct tg_error *e) {
  static const char *const kinds[] = {[TG__LOSS_SKIPPED] = "skipped", [TG__LOSS_CUT] = "cut", [TG__LOSS_BENT] = "bent"};
  (void)e;
  for (uint32_t r = 0; r < t->rank_count; r++) {
    const struct tg__rank *rank = &t->ranks[r];
    for (int k = 0; k < TG__LOSS_COUNT; k++) {
      if (rank->loss[k] == 0 || !tg__ask_has_rank(a, r)) continue;
      tg__put_rank(out, t, r);
      tg__put_trace_text(out, t, rank->path);
      tg__put_cstr(out, tg__loss_info[k].name);
      tg__put_cstr(out, kinds[tg__loss_info[k].kind]);
      tg__put_int(out, rank->loss[k]);
      tg__put_int(out, rank->loss_offset[k] < 0 ? TG_NULL_INT : rank->loss_offset[k]);
      tg__put_cstr(out, tg__loss_info[k].meaning);
    }
  }
  return TG_OK;
}
