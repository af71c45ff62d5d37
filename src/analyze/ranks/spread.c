/* spread: the question spread. The n-th longest kernel of one rank need not be that of another, so totals are joined
 * by name. */
#include "analyze/ranks/rank_set.h"

struct name {
  uint32_t name, ranks, least_rank, most_rank;
  int64_t calls, total_ns, least_ns, most_ns;
};
struct names {
  struct name *items;
  size_t count, cap;
  struct tg__map index;
};

static bool add_total(struct names *n, uint32_t rank, const struct tg__sum_total *total) {
  uint32_t *const at = tg__map_slot(&n->index, total->name, TG_NONE);
  if (!at) return false;
  if (*at == TG_NONE) {
    if (!tg__grow((void **)&n->items, &n->cap, n->count + 1, sizeof *n->items)) return false;
    *at = (uint32_t)n->count;
    n->items[n->count++] = (struct name){.name = total->name, .least_ns = INT64_MAX, .most_ns = INT64_MIN};
  }
  struct name *const x = &n->items[*at];
  x->ranks++;
  x->calls += total->calls;
  x->total_ns += total->total_ns;
  if (total->total_ns < x->least_ns) {
    x->least_ns = total->total_ns;
    x->least_rank = rank;
  }
  if (total->total_ns > x->most_ns) {
    x->most_ns = total->total_ns;
    x->most_rank = rank;
  }
  return true;
}

struct order {
  const struct names *n;
  const struct tg__summaries *s;
};

static bool wider(uint32_t a, uint32_t b, const void *ctx) {
  const struct order *const o = ctx;
  const struct name *const x = &o->n->items[a], *const y = &o->n->items[b];
  const int64_t wide = x->most_ns - x->least_ns, other = y->most_ns - y->least_ns;
  if (wide != other) return wide > other;
  if (x->total_ns != y->total_ns) return x->total_ns > y->total_ns;
  if (x->name == TG_NONE || y->name == TG_NONE) return x->name != TG_NONE && y->name == TG_NONE;
  return tg__str_cmp(tg__strings_get(o->s->strings, x->name), tg__strings_get(o->s->strings, y->name)) < 0;
}

static void put_spread_name(const struct tg__ranks *r, const struct name *x, struct tg_table *out) {
  tg__put_text(out, x->name == TG_NONE ? TG_STR("(others)") : tg__strings_get(r->s->strings, x->name));
  tg__put_int(out, x->ranks);
  tg__put_int(out, x->calls);
  tg__put_int(out, x->total_ns);
  tg__put_real(out, (double)x->total_ns / x->ranks);
  tg__put_int(out, x->least_ns);
  tg__put_int(out, r->s->ranks[x->least_rank].number);
  tg__put_int(out, x->most_ns);
  tg__put_int(out, r->s->ranks[x->most_rank].number);
  tg__put_int(out, x->most_ns - x->least_ns);
}

static bool put_names(const struct tg__ranks *r, enum tg__sum_what what, struct tg_table *out) {
  struct names n = {0};
  bool done = true;
  for (uint32_t i = 0; i < r->s->count; i++)
    for (uint32_t k = 0; k < r->s->ranks[i].total_count && done; k++)
      if (r->s->ranks[i].totals[k].what == what) done = add_total(&n, i, &r->s->ranks[i].totals[k]);
  const struct order by = {&n, r->s};
  uint32_t *const order = tg__order_new(n.count, wider, &by);
  done = done && order;
  for (size_t i = 0; done && i < n.count; i++) put_spread_name(r, &n.items[order[i]], out);
  tg__free(order);
  tg__free(n.items);
  tg__map_free(&n.index);
  return done;
}

enum tg_err tg__answer_spread(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                              struct tg_error *e) {
  static const char *const groupings[] = {"kernel", "op"};
  size_t by;
  enum tg_err err = tg__ask_choice(a, "by", groupings, 2, &by, e);
  if (err) return err;
  struct tg__ranks r;
  err = tg__ranks_open(&r, t, a, false, e);
  if (!err && !put_names(&r, by == 0 ? TG__SUM_KERNEL : TG__SUM_OP, out)) err = TG_MEMORY;
  if (!err && out->rows == 0)
    err = tg__fail(
        e, TG_NO_DATA, -1, "no rank has %s",
        by == 0
            ? "device work: record with ProfilerActivity.CUDA, or .XPU, among the activities; by=op compares operators"
            : "operators: record with ProfilerActivity.CPU among the activities");
  tg__ranks_close(&r);
  return err;
}
