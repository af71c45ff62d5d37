/* summary: lists of rank summaries in memory, and the trace that stands for one. */
#include "trace/summary.h"

#include "trace/store.h"

struct tg__summaries *tg__summaries_new(void) {
  struct tg__summaries *const s = tg__alloc(sizeof *s);
  if (!s) return NULL;
  s->strings = tg__strings_new();
  if (s->strings) return s;
  tg__free(s);
  return NULL;
}

void tg__rank_summary_free(struct tg__rank_summary *r) {
  tg__free(r->steps);
  tg__free(r->collectives);
  tg__free(r->totals);
  tg__free(r->nodes);
  tg__free(r->node_kernels);
}

void tg__summaries_free(struct tg__summaries *s) {
  if (!s) return;
  for (uint32_t i = 0; i < s->count; i++) tg__rank_summary_free(&s->ranks[i]);
  tg__free(s->ranks);
  tg__strings_free(s->strings);
  tg__free(s);
}

static bool rank_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__summaries *const s = ctx;
  const struct tg__rank_summary *const x = &s->ranks[a], *const y = &s->ranks[b];
  if (x->number != y->number) return x->number < y->number;
  return tg__str_cmp(tg__strings_get(s->strings, x->path), tg__strings_get(s->strings, y->path)) < 0;
}

bool tg__summaries_sort(struct tg__summaries *s) {
  uint32_t *const order = tg__alloc(((size_t)s->count + 1) * sizeof *order);
  struct tg__rank_summary *const sorted = tg__alloc(((size_t)s->count + 1) * sizeof *sorted);
  for (uint32_t i = 0; order && i < s->count; i++) order[i] = i;
  const bool done = order && sorted && tg__sort_index(order, s->count, rank_before, s);
  for (uint32_t i = 0; done && i < s->count; i++) sorted[i] = s->ranks[order[i]];
  tg__free(order);
  tg__free(done ? s->ranks : sorted);
  if (done) s->ranks = sorted;
  return done;
}
