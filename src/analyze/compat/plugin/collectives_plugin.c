/* collectives_plugin: the distributed view of the TensorBoard plugin. The n-th collective of one rank is the n-th of
 * all others, and so are their ranges; the shortest duration of a range over the ranks is its transfer and lies at
 * its end, the rest is waiting. */
#include <math.h>

#include "analyze/compat/compat.h"
#include "analyze/ranks/collectives.h"

struct plugin {
  const struct tg__ranks *r;
  struct tg_table *out;
  bool failed;
};

static const struct tg__rank_summary *plugin_rank_of(const struct plugin *p, uint32_t rank) {
  return &p->r->s->ranks[rank];
}

/* Range k of a node: the host's, and those of its kernels, by start. The host's comes before a kernel that starts
 * with it and is shorter. */
static struct tg__sum_range range_of(const struct tg__rank_summary *rank, const struct tg__sum_node *n, uint32_t k) {
  const struct tg__sum_range *const kernels = rank->node_kernels + n->first_kernel;
  uint32_t before = 0;
  while (before < n->kernel_count && (kernels[before].start_ns < n->start_ns ||
                                      (kernels[before].start_ns == n->start_ns && kernels[before].end_ns > n->end_ns)))
    before++;
  if (k == before) return (struct tg__sum_range){n->start_ns, n->end_ns};
  return kernels[k < before ? k : k - 1];
}

static bool line_up(const struct plugin *p) {
  const struct tg__rank_summary *const first = plugin_rank_of(p, 0);
  for (uint32_t i = 0; i < p->r->s->count; i++) {
    const struct tg__rank_summary *const rank = plugin_rank_of(p, i);
    if (rank->node_count == 0 || rank->node_count != first->node_count) return false;
    for (uint32_t k = 0; k < rank->node_count; k++)
      if (rank->nodes[k].kernel_count != first->nodes[k].kernel_count) return false;
  }
  return p->r->s->count > 0;
}

static int64_t shortest(const struct plugin *p, uint32_t node, uint32_t k) {
  int64_t least = INT64_MAX;
  for (uint32_t i = 0; i < p->r->s->count; i++) {
    const struct tg__sum_range range = range_of(plugin_rank_of(p, i), &plugin_rank_of(p, i)->nodes[node], k);
    if (range.end_ns - range.start_ns < least) least = range.end_ns - range.start_ns;
  }
  return least;
}

/* ---- sums over some of a rank's nodes -------------------------------------------------------- */

struct sums {
  struct tg__spans all, transfer;
  int64_t calls, bytes;
};

static void add_plugin_node(const struct plugin *p, uint32_t rank, uint32_t node, struct sums *s) {
  const struct tg__sum_node *const n = &plugin_rank_of(p, rank)->nodes[node];
  for (uint32_t k = 0; k <= n->kernel_count; k++) {
    const struct tg__sum_range range = range_of(plugin_rank_of(p, rank), n, k);
    tg__spans_add(&s->all, range.start_ns, range.end_ns);
    tg__spans_add(&s->transfer, range.end_ns - shortest(p, node, k), range.end_ns);
  }
  s->calls++;
  s->bytes += n->bytes;
}

static void put_plugin_sums(struct plugin *p, uint32_t rank, struct tg__str name, const char *step, struct sums *s) {
  struct tg_table *const out = p->out;
  tg__spans_union(&s->all);
  tg__spans_union(&s->transfer);
  p->failed |= s->all.failed || s->transfer.failed;
  const int64_t total = tg__spans_length(&s->all), transfer = tg__spans_length(&s->transfer);
  tg__put_int(out, plugin_rank_of(p, rank)->number);
  tg__put_text(out, name);
  tg__put_cstr(out, "");
  tg__put_null(out);
  tg__put_cstr(out, step);
  tg__put_int(out, s->calls);
  tg__put_int(out, (int64_t)p->r->s->count);
  tg__put_null(out);
  tg__put_int(out, s->bytes);
  for (int i = 0; i < 4; i++) tg__put_null(out);
  tg__put_int(out, total);
  tg__put_int(out, total - transfer);
  tg__put_int(out, transfer);
  tg__put_real(out, NAN);
  tg__spans_free(&s->all);
  tg__spans_free(&s->transfer);
}

/* ---- by name --------------------------------------------------------------------------------- */

static void put_names(struct plugin *p, uint32_t rank) {
  const struct tg__rank_summary *const r = plugin_rank_of(p, rank);
  for (uint32_t first = 0; first < r->node_count; first++) {
    bool is_new = true;
    for (uint32_t k = 0; k < first && is_new; k++) is_new = r->nodes[k].name != r->nodes[first].name;
    if (!is_new) continue;
    struct sums s = {0};
    for (uint32_t k = first; k < r->node_count; k++)
      if (r->nodes[k].name == r->nodes[first].name) add_plugin_node(p, rank, k, &s);
    put_plugin_sums(p, rank, tg__strings_get(p->r->s->strings, r->nodes[first].name), "", &s);
  }
}

/* ---- by step --------------------------------------------------------------------------------- */

static bool is_inside(const struct tg__sum_node *n, const struct tg__sum_step *s) {
  return !s->is_partial && n->start_ns >= s->start_ns && n->end_ns <= s->end_ns;
}

/* A collective belongs to the step that contains it entirely; of those in none it makes a step of their own. */
static void put_plugin_steps(struct plugin *p, uint32_t rank) {
  const struct tg__rank_summary *const r = plugin_rank_of(p, rank);
  struct sums outside = {0};
  for (uint32_t i = 0; i < r->step_count && !r->steps[i].is_partial; i++) {
    struct sums s = {0};
    char number[24];
    for (uint32_t k = 0; k < r->node_count; k++)
      if (is_inside(&r->nodes[k], &r->steps[i])) add_plugin_node(p, rank, k, &s);
    snprintf(number, sizeof number, "%lld", (long long)(r->steps[i].number < 0 ? 0 : r->steps[i].number));
    put_plugin_sums(p, rank, TG_STR(""), number, &s);
  }
  for (uint32_t k = 0; k < r->node_count; k++) {
    bool inside = false;
    for (uint32_t i = 0; i < r->step_count && !inside; i++) inside = is_inside(&r->nodes[k], &r->steps[i]);
    if (!inside) add_plugin_node(p, rank, k, &outside);
  }
  if (outside.calls) put_plugin_sums(p, rank, TG_STR(""), "", &outside);
}

static enum tg_err put_plugin_ranks(const struct tg__ranks *r, bool by_step, struct tg_table *out, struct tg_error *e) {
  struct plugin p = {.r = r, .out = out};
  if (!line_up(&p))
    return tg__fail(
        e, TG_NO_DATA, -1,
        "the plugin shows nothing here: its collectives (nccl: or gloo: broadcast, reduce, all_reduce, all_gather, "
        "reduce_scatter) are not equally many on all ranks; rules=exact does not need that");
  for (uint32_t i = 0; i < r->s->count; i++) {
    if (!tg__ranks_wanted(r, i)) continue;
    if (by_step)
      put_plugin_steps(&p, i);
    else
      put_names(&p, i);
  }
  return p.failed ? TG_MEMORY : TG_OK;
}

enum tg_err tg__collectives_plugin(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                   struct tg_error *e) {
  static const char *const groupings[] = {"kind", "group", "collective", "part", "rank", "step"};
  enum { RANK = 4, STEP = 5 };
  struct tg__ranks r;
  size_t by;
  enum tg_err err = tg__ask_choice(a, "by", groupings, STEP + 1, &by, e);
  if (err) return err;
  if (by != RANK && by != STEP) return tg__fail(e, TG_USAGE, -1, "rules=plugin answers by=rank and by=step");
  err = tg__collectives_open(&r, t, a, e);
  if (!err) err = put_plugin_ranks(&r, by == STEP, out, e);
  tg__ranks_close(&r);
  return err;
}
