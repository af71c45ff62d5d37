/* The questions call_graph and call_stack by HTA's rules: a graph a rank, its nodes are rows. */
#include "analyze/compat/compat.h"
#include "analyze/compat/hta/hta_stack.h"
#include "analyze/launch/call_graph_view.h"

static bool put_rank(struct tg__hta *h, uint32_t rank, uint8_t *roles, const struct tg__ask *a, struct tg_table *out,
                     tg__put_graph *put) {
  const struct tg__hta_rank *const of = &h->ranks[rank];
  struct tg__call_graph g = {0};
  uint32_t *const slices = tg__realloc(NULL, (of->count + 1) * sizeof *slices);
  for (size_t i = 0; slices && i < of->count; i++) slices[i] = of->rows[i].slice;
  const bool ok = slices && tg__hta_call_graph(h, rank, &g, roles) &&
                  put(&(struct tg__graph_view){.t = h->t, .g = &g, .slices = slices, .roles = roles}, a, out);
  tg__call_graph_free(&g);
  tg__free(slices);
  return ok;
}

static enum tg_err answer(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                          struct tg_error *e, tg__put_graph *put) {
  struct tg__hta h;
  uint8_t *const roles = tg__alloc((size_t)t->track_count + 1);
  bool ok = tg__hta_open(&h, t, a->rank, tg__hta_filter_of(a)) == TG_OK && roles;
  for (uint32_t r = 0; ok && r < t->rank_count; r++)
    if (tg__ask_has_rank(a, r)) ok = put_rank(&h, r, roles, a, out, put);
  tg__hta_close(&h);
  tg__free(roles);
  return ok ? TG_OK : tg__no_memory(e, "building the call graph");
}

enum tg_err tg__call_graph_hta(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                               struct tg_error *e) {
  return answer(t, a, out, e, tg__put_call_graph);
}

enum tg_err tg__call_stack_hta(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                               struct tg_error *e) {
  return tg__call_stack(t, a, answer, out, e);
}
