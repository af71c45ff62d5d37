/* The question document: what a file says beside its events. */
#include "analyze/analyze.h"

enum tg_err tg__answer_document(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                struct tg_error *e) {
  (void)e;
  for (uint32_t rank = 0; rank < t->rank_count; rank++) {
    if (!tg__ask_has_rank(a, rank)) continue;
    for (size_t i = 0; i < t->ranks[rank].meta_count; i++) {
      tg__put_rank(out, t, rank);
      tg__put_trace_text(out, t, t->ranks[rank].meta[i].key);
      tg__put_trace_text(out, t, t->ranks[rank].meta[i].raw);
    }
  }
  return TG_OK;
}
