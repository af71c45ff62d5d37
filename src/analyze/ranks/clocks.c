/* clocks: the question clocks. */
#include <math.h>

#include "analyze/ranks/rank_set.h"

static void put_clock(const struct tg__ranks *r, uint32_t i, int64_t least_base, struct tg_table *out) {
  const struct tg__clock *const c = &r->clocks[i];
  const bool is_reference = c->reference == i && c->is_aligned;
  const bool has_bounds = c->is_aligned && !is_reference && c->low_ns <= c->high_ns;
  const int64_t below = c->offset_ns - c->low_ns, above = c->high_ns - c->offset_ns;
  tg__put_int(out, r->s->ranks[i].number);
  tg__put_int(out, c->is_aligned ? r->s->ranks[c->reference].number : TG_NULL_INT);
  tg__put_int(out, r->s->ranks[i].base_ns - least_base);
  tg__put_int(out, c->is_aligned ? c->offset_ns : TG_NULL_INT);
  tg__put_real(out, c->is_aligned ? c->drift * 1e6 : NAN);
  tg__put_int(out, c->is_aligned ? c->spread_ns : TG_NULL_INT);
  tg__put_int(out, c->is_aligned && !is_reference ? c->low_ns : TG_NULL_INT);
  tg__put_int(out, c->is_aligned && !is_reference ? c->high_ns : TG_NULL_INT);
  tg__put_int(out, has_bounds ? (below > above ? below : above) : is_reference ? 0 : TG_NULL_INT);
  tg__put_int(out, c->collectives);
}

static enum tg_err check(const struct tg__ranks *r, struct tg_error *e) {
  for (uint32_t i = 0; i < r->s->count; i++)
    if (r->clocks[i].collectives) return TG_OK;
  return tg__fail(e, TG_NO_DATA, -1,
                  "no two ranks share a collective that ends everywhere at once (all_reduce, all_gather, "
                  "reduce_scatter, all_to_all, "
                  "barrier), so the offset of their clocks is unknown");
}

enum tg_err tg__answer_clocks(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                              struct tg_error *e) {
  if (t->rank_count < 2)
    return tg__fail(e, TG_NO_DATA, -1, "one rank has one clock: open the folder that holds the files of all ranks");
  struct tg__ranks r;
  enum tg_err err = tg__ranks_open(&r, t, a, true, e);
  if (!err) err = check(&r, e);
  int64_t least = INT64_MAX;
  for (uint32_t i = 0; !err && i < r.s->count; i++)
    if (r.s->ranks[i].base_ns < least) least = r.s->ranks[i].base_ns;
  for (uint32_t i = 0; !err && i < r.s->count; i++)
    if (tg__ranks_wanted(&r, i)) put_clock(&r, i, least, out);
  if (!err) tg__ranks_note(&r, out);
  tg__ranks_close(&r);
  return err;
}
