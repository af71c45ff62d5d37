/* modules_merge: rows of the question modules that came rank by rank become those of all ranks. Rows of no rank in
 * particular (by class, and outside of modules) are added up, and shares are of the time of all ranks. */
#include "analyze/analyze.h"

#include <math.h>

struct columns {
  struct tg__column *rank, *name, *pct, *self_pct, *cpu, *self_cpu, *device, *self_device, *back_cpu, *self_back_cpu,
      *back_device, *self_back_device, *self_flops, *self_flop_pct;
};

static struct columns columns_of(struct tg_table *t) {
#define AT(name) &t->columns[tg__table_column_index(t, name)]
  return (struct columns){.rank = AT("rank"),
                          .name = AT("name"),
                          .pct = AT("pct"),
                          .self_pct = AT("self_pct"),
                          .cpu = AT("cpu_ns"),
                          .self_cpu = AT("self_cpu_ns"),
                          .device = AT("device_ns"),
                          .self_device = AT("self_device_ns"),
                          .back_cpu = AT("backward_cpu_ns"),
                          .self_back_cpu = AT("backward_self_cpu_ns"),
                          .back_device = AT("backward_device_ns"),
                          .self_back_device = AT("backward_self_device_ns"),
                          .self_flops = AT("self_flops"),
                          .self_flop_pct = AT("self_flop_pct")};
#undef AT
}

/* Every figure but the shares, which are worked out again; unknown counts as nothing when another knows. */
static void add_row(struct tg_table *t, size_t into, size_t from) {
  for (size_t c = 0; c < t->column_count; c++) {
    struct tg__column *const column = &t->columns[c];
    if (column->type != TG_INT || strcmp(column->name, "rank") == 0 || strcmp(column->name, "depth") == 0) continue;
    int64_t *const v = column->ints;
    if (v[from] != TG_NULL_INT) v[into] = v[into] == TG_NULL_INT ? v[from] : v[into] + v[from];
  }
}

static void work_out_flop_shares(struct tg_table *t, const struct columns *c) {
  double all = 0;
  for (size_t i = 0; i < t->rows; i++)
    all += c->self_flops->ints[i] == TG_NULL_INT ? 0 : (double)c->self_flops->ints[i];
  for (size_t i = 0; i < t->rows && all > 0; i++)
    c->self_flop_pct->reals[i] =
        c->self_flops->ints[i] == TG_NULL_INT ? NAN : 100.0 * (double)c->self_flops->ints[i] / all;
}

static void work_out_shares(struct tg_table *t, const struct columns *c) {
  int64_t host = 0, device = 0;
  for (size_t i = 0; i < t->rows; i++) {
    host += c->self_cpu->ints[i] + c->self_back_cpu->ints[i];
    device += c->self_device->ints[i] + c->self_back_device->ints[i];
  }
  const bool of_device = device > 0;
  const double whole = (double)(of_device ? device : host);
  for (size_t i = 0; i < t->rows && whole > 0; i++) {
    const int64_t all =
        of_device ? c->device->ints[i] + c->back_device->ints[i] : c->cpu->ints[i] + c->back_cpu->ints[i];
    const int64_t self = of_device ? c->self_device->ints[i] + c->self_back_device->ints[i]
                                   : c->self_cpu->ints[i] + c->self_back_cpu->ints[i];
    c->pct->reals[i] = 100.0 * (double)all / whole;
    c->self_pct->reals[i] = 100.0 * (double)self / whole;
  }
  tg__table_note(t, "pct and self_pct are shares of %s, forward and backward", of_device ? "device time" : "host time");
}

struct order {
  const struct columns *c;
  uint32_t outside;
  bool by_class;
};

/* As they came; by class the largest share of its own first; last what is outside of all. */
static bool is_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct order *const o = ctx;
  const bool out_a = o->c->name->texts[a] == o->outside, out_b = o->c->name->texts[b] == o->outside;
  if (out_a || out_b) return !out_a && out_b;
  return o->by_class && o->c->self_pct->reals[a] > o->c->self_pct->reals[b];
}

enum tg_err tg__merged_modules(const struct tg__rank_source *ranks, struct tg_table *t, struct tg_error *e) {
  if (ranks->is_one) return TG_OK;
  const struct columns c = columns_of(t);
  uint32_t *const rows = tg__alloc((t->rows + 1) * sizeof *rows);
  uint32_t *const first =
      tg__alloc(((size_t)tg__strings_count(t->strings) + 1) * sizeof *first); /* by name: its row and 1 */
  size_t kept = 0;
  bool done = rows && first;
  for (size_t i = 0; done && i < t->rows; i++) {
    uint32_t *const seen = &first[c.name->texts[i]];
    const bool again = c.rank->ints[i] == TG_NULL_INT && *seen;
    if (again)
      add_row(t, *seen - 1, i);
    else
      rows[kept++] = (uint32_t)i;
    if (!again && c.rank->ints[i] == TG_NULL_INT) *seen = (uint32_t)i + 1;
  }
  if (done) tg__table_keep_rows(t, rows, kept);
  if (done) work_out_shares(t, &c);
  if (done) work_out_flop_shares(t, &c);
  struct order order = {&c, tg__strings_find(t->strings, "(outside of modules)", strlen("(outside of modules)")),
                        false};
  order.by_class = t->rows > 0 && c.rank->ints[0] == TG_NULL_INT;
  done = done && tg__sort_order(rows, t->rows, is_before, &order);
  if (done) tg__table_keep_rows(t, rows, t->rows);
  tg__free(rows);
  tg__free(first);
  if (done && !t->failed) return TG_OK;
  return tg__no_memory(e, "putting the ranks together");
}
