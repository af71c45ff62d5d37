/* Names of a trace as HTA's TraceDiff counts them: every one of its rows, with its length, step and side. */
#include "analyze/compat/compat.h"
#include "analyze/compat/hta/hta_rows.h"
#include "analyze/diff/diff_totals.h"

static bool is_selected_step(const struct tg__diff_totals *w, int64_t number) {
  if (!w->selection.has_steps) return true;
  for (size_t i = 0; i < w->selection.window_count; i++)
    if (w->t->steps[w->selection.windows[i].step].number == number) return true;
  return false;
}

enum tg_err tg__diff_count_hta(struct tg__diff_totals *w) {
  struct tg__hta h;
  enum tg_err err = tg__hta_open(&h, w->t, w->selection.rank, TG__HTA_EVERY_ROW);
  for (uint32_t r = 0; !err && r < w->t->rank_count; r++) {
    if (!tg__ask_has_rank(&w->selection, r)) continue;
    for (size_t i = 0; !err && i < h.ranks[r].count; i++) {
      const struct tg__hta_row *row = &h.ranks[r].rows[i];
      if (!is_selected_step(w, row->iteration)) continue;
      if (!tg__diff_count_one(w, row->slice, tg__hta_is_device(row), tg__hta_dur_ns(&h, &h.ranks[r], row)))
        err = TG_MEMORY;
    }
  }
  tg__hta_close(&h);
  return err;
}
