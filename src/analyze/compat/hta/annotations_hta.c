/* The question annotations by HTA's rules: its rows with their rounded durations. Device work is not known. */
#include "analyze/compat/compat.h"
#include "analyze/compat/hta/hta_rows.h"
#include "analyze/host/annotations.h"

static bool add_rank(struct tg__annotations *s, const struct tg__hta *h, uint32_t rank) {
  const struct tg__hta_rank *const of = &h->ranks[rank];
  for (size_t i = 0; i < of->count; i++) {
    const uint32_t slice = of->rows[i].slice;
    const enum tg__class cls = tg__slice_class(h->t, slice);
    if (cls != TG__CLASS_ANNOTATION && cls != TG__CLASS_GPU_ANNOTATION) continue;
    struct tg__annotation *const g =
        tg__annotation_at(s, h->t->slices.name[slice], rank, cls == TG__CLASS_GPU_ANNOTATION);
    if (!g) return false;
    tg__stats_add(&g->stats, tg__hta_dur_ns(h, of, &of->rows[i]));
  }
  return true;
}

enum tg_err tg__annotations_hta(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                struct tg_error *e) {
  (void)e;
  struct tg__annotations sums = {0};
  struct tg__hta h;
  bool ok = tg__hta_open(&h, t, a->rank, tg__hta_filter_of(a)) == TG_OK;
  for (uint32_t r = 0; ok && r < t->rank_count; r++)
    if (tg__ask_has_rank(a, r)) ok = add_rank(&sums, &h, r);
  ok = ok && tg__annotations_put(&sums, t, false, out);
  tg__annotations_free(&sums);
  tg__hta_close(&h);
  return ok ? TG_OK : TG_MEMORY;
}
