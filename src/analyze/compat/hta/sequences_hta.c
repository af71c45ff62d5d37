/* Patterns by HTA's rules: of all events whose name matches only those at the smallest depth among them count, and
 * what lies below them includes the synchronisation records of streams. */
#include "analyze/compat/hta/hta_stack.h"
#include "analyze/launch/sequences.h"

/* Smallest depth of the rows of that name; INT32_MAX when there are none. Rows outside the call stacks have depth -1.
 */
static int32_t least_depth(struct tg__patterns *p, const struct tg__hta_rank *rank, const struct tg__call_graph *g) {
  int32_t least = INT32_MAX;
  for (size_t i = 0; i < rank->count; i++)
    if (tg__patterns_wants(p, p->t->slices.name[rank->rows[i].slice]) && g->depth[i] < least) least = g->depth[i];
  return least;
}

/* Per row the candidate it lies below, or is, and the same by slice; parents come before their children in the
 * reversed order. */
static void find_roots(struct tg__patterns *p, const struct tg__hta_rank *rank, const struct tg__call_graph *g,
                       int32_t depth, uint32_t *root) {
  for (uint32_t at = g->order_count; at-- > 0;) {
    const uint32_t i = g->order[at], up = g->parent[i];
    root[i] = up == TG_NONE ? TG_NONE : root[up];
    if (root[i] == TG_NONE && g->depth[i] == depth && tg__patterns_wants(p, p->t->slices.name[rank->rows[i].slice]))
      root[i] = i;
    if (root[i] != TG_NONE) p->root[rank->rows[i].slice] = rank->rows[root[i]].slice;
  }
}

static bool add_work(const struct tg__patterns *p, const struct tg__hta *h, const struct tg__hta_rank *rank,
                     const struct tg__call_graph *g, const uint32_t *root, struct tg__launched_list *work) {
  for (uint32_t i = 0; i < rank->count; i++) {
    if (g->kind[i] != TG__NODE_DEVICE || root[i] == TG_NONE) continue;
    const struct tg__hta_row *row = &rank->rows[i];
    const struct tg__launched item = {.owner = root[i],
                                      .name = p->t->slices.name[row->slice],
                                      .tie = i,
                                      .at_ns = row->ts_us,
                                      .start_ns = row->ts_us * 1000,
                                      .dur_ns = tg__hta_dur_ns(h, rank, row)};
    if (!tg__launched_add(work, &item)) return false;
  }
  return true;
}

bool tg__patterns_work_of_hta(struct tg__patterns *p, const struct tg__hta *h, uint32_t rank,
                              struct tg__launched_list *work) {
  const struct tg__hta_rank *r = &h->ranks[rank];
  struct tg__call_graph g = {0};
  uint32_t *root = tg__alloc((r->count + 1) * sizeof *root);
  bool ok = root != NULL && tg__hta_call_graph(h, rank, &g, NULL);
  const int32_t depth = ok ? least_depth(p, r, &g) : INT32_MAX;
  if (ok && depth != INT32_MAX) {
    p->any = true;
    memset(root, 0xff, r->count * sizeof *root);
    find_roots(p, r, &g, depth, root);
    ok = add_work(p, h, r, &g, root, work);
  }
  tg__free(root);
  tg__call_graph_free(&g);
  return ok;
}
