/* critical_infer: what a blocking host call waited for where the trace has no record of it.
 *
 * Without the profiler's cuda_sync events a call that waits does not say for what. A copy that blocks waits for
 * itself; any other blocking call waited for the device work that ended last while it was on. A call during which
 * nothing ended waited for nothing. */
#include "analyze/critical/critical.h"

static bool inferred_ends_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__crit_row *rows = ctx;
  return rows[a].end < rows[b].end;
}

/* Device work by end; NULL on no memory. own: by host call the work it launched that ends last. */
static uint32_t *work_by_end(const struct tg__crit *c, size_t *count) {
  size_t n = 0;
  for (uint32_t i = 0; i < c->count; i++)
    n += (c->rows[i].flags & (TG__CRIT_DEVICE | TG__CRIT_WAIT)) == TG__CRIT_DEVICE;
  uint32_t *work = tg__alloc((n + 1) * sizeof *work);
  *count = 0;
  for (uint32_t i = 0; work && i < c->count; i++)
    if ((c->rows[i].flags & (TG__CRIT_DEVICE | TG__CRIT_WAIT)) == TG__CRIT_DEVICE) work[(*count)++] = i;
  if (work && tg__sort_index(work, *count, inferred_ends_before, c->rows)) return work;
  tg__free(work);
  return NULL;
}

static uint32_t ended_last(const struct tg__crit *c, const uint32_t *work, size_t count,
                           const struct tg__crit_row *call) {
  size_t low = 0;
  TG__PARTITION(low, count, i, c->rows[work[i]].end <= call->end);
  return low && c->rows[work[low - 1]].end > call->start ? work[low - 1] : TG_NONE;
}

/* Copies by the call that made them, as far as they ended under it. */
static void infer_copies(struct tg__crit *c) {
  for (uint32_t i = 0; i < c->count && !c->failed; i++) {
    const struct tg__crit_row *r = &c->rows[i];
    if ((r->flags & (TG__CRIT_DEVICE | TG__CRIT_WAIT)) != TG__CRIT_DEVICE || r->link == TG_NONE) continue;
    const struct tg__crit_row *call = &c->rows[r->link];
    if (!(call->flags & TG__CRIT_BLOCKING) || r->end > call->end || tg__slice_class(c->t, r->slice) != TG__CLASS_MEMCPY)
      continue;
    if (!tg__map_put(&c->inferred, r->link, i)) c->failed = true;
  }
}

static void infer_waits(struct tg__crit *c, const uint32_t *work, size_t count) {
  for (uint32_t i = 0; i < c->count && !c->failed; i++) {
    struct tg__crit_row *r = &c->rows[i];
    if (!(r->flags & TG__CRIT_BLOCKING) || r->flags & TG__CRIT_CLOSED || tg__map_get(&c->inferred, i) != TG_NONE)
      continue;
    const bool copies = tg__str_contains(tg__name(c->t, c->t->slices.name[r->slice]), "Memcpy");
    const uint32_t source = copies ? TG_NONE : ended_last(c, work, count, r);
    if (source == TG_NONE)
      r->flags &= (uint8_t)~TG__CRIT_BLOCKING;
    else if (!tg__map_put(&c->inferred, i, source))
      c->failed = true;
  }
}

void tg__crit_infer_waits(struct tg__crit *c) {
  size_t count;
  uint32_t *work = work_by_end(c, &count);
  if (!work) {
    c->failed = true;
    return;
  }
  for (size_t i = 0; i < c->wait_count; i++) { /* these say themselves what they waited for */
    const uint32_t call = c->rows[c->waits[i].row].link;
    if (call != TG_NONE && c->waits[i].kind != TG__CRIT_NO_WAIT) c->rows[call].flags |= TG__CRIT_CLOSED;
  }
  infer_copies(c);
  infer_waits(c, work, count);
  for (uint32_t i = 0; i < c->count; i++) c->rows[i].flags &= (uint8_t)~TG__CRIT_CLOSED;
  tg__free(work);
}
