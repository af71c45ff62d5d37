/* Patterns by HTA's rules: of all events with a matching name only those at the smallest depth among them count, and
 * what lies below them includes the synchronisation records of streams. */
#include "analyze/compat/compat.h"
#include "analyze/compat/hta/hta_stack.h"
#include "analyze/launch/sequences.h"

/* Smallest depth of the rows of that name; INT32_MAX when there are none. Rows outside the call stacks have depth
 * -1. */
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

/* The device work of one rank; owners are rows. */
static bool work_of_rank(const void *ctx, struct tg__patterns *p, uint32_t rank, struct tg__launched_list *work) {
  const struct tg__hta *const h = ctx;
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

static struct tg__pattern_owner owner_of(const void *ctx, const struct tg__patterns *p, uint32_t rank, uint32_t owner) {
  const struct tg__hta *const h = ctx;
  const struct tg__hta_row *const row = &h->ranks[rank].rows[owner];
  (void)p;
  return (struct tg__pattern_owner){row->slice, tg__hta_dur_ns(h, &h->ranks[rank], row)};
}

/* ---- order: by count, then by text ---------------------------------------------------------- */

struct by_text {
  const struct tg__patterns *p;
  struct tg__str *texts; /* by pattern */
};

static bool hta_comes_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct by_text *o = ctx;
  const struct tg__pattern *x = &o->p->items[a], *y = &o->p->items[b];
  if (x->rank != y->rank) return x->rank < y->rank;
  if (x->count != y->count) return x->count > y->count;
  return tg__str_cmp(o->texts[a], o->texts[b]) < 0;
}

static size_t order_by_text(const struct tg__patterns *p, size_t most, uint32_t *order) {
  struct tg__out all = {0};
  struct by_text by = {p, tg__alloc((p->count + 1) * sizeof *by.texts)};
  size_t *ends = tg__alloc((p->count + 1) * sizeof *ends);
  bool ok = by.texts && ends;
  for (size_t i = 0; ok && i < p->count; i++) {
    tg__pattern_text(p, &p->items[i], &all);
    ends[i] = all.len;
  }
  ok = ok && !all.err;
  for (size_t i = 0; ok && i < p->count; i++) { /* only now does the buffer stay where it is */
    const size_t from = i ? ends[i - 1] : 0;
    by.texts[i] = (struct tg__str){all.buf + from, (uint32_t)(ends[i] - from)};
  }
  ok = ok && tg__sort_order(order, p->count, hta_comes_before, &by);
  tg__out_free(&all);
  tg__free(by.texts);
  tg__free(ends);
  return ok ? tg__patterns_cut(p, most, order) : SIZE_MAX;
}

enum tg_err tg__sequences_hta(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                              struct tg_error *e) {
  struct tg__hta h;
  enum tg_err err = tg__hta_open(&h, t, a->rank, tg__hta_filter_of(a));
  if (err)
    tg__no_memory(e, "counting sequences of kernels");
  else
    err = tg__sequences(t, a, &(struct tg__pattern_source){work_of_rank, owner_of, &h}, order_by_text, out, e);
  tg__hta_close(&h);
  return err;
}
