/* Gradients that are never used, are filled with zeros first, or are dense where few rows changed. */
#include "diagnose/sites.h"

enum { GRADIENT_PCT = 5, ROWS_RATIO = 8, LARGE_TABLE = 1 << 20, NODES_BACK = 4 };

/* How a gradient arrived: added to the one that was there, or put in its place. */
static bool is_added(const struct tg__sites *s, uint32_t node) {
  const struct tg__slices *x = &s->f->t->slices;
  const int64_t end = tg__slice_end(s->f->t, node);
  for (uint32_t i = node + 1; i < x->count && x->start_ns[i] < end; i++)
    if (tg__str_eq(tg__name(s->f->t, x->name[i]), TG_STR("aten::add_"))) return true;
  return false;
}

struct passes {
  struct tg__sites *s;
  int64_t count, mixed;      /* backward passes; those in which some gradients are added and others put in place */
  int64_t added, placed;     /* gradients in mixed passes */
  int64_t all_added;         /* gradients that were added, in all passes */
  struct tg__tally added_ns; /* of gradients that were added, in all passes */
  struct tg__tally
      late_ns; /* of mixed passes, behind the last gradient that was put in place, and what made others before */
  int64_t *late_by_site;
  bool *needed;                    /* by site: its backward comes before that */
  int64_t turns;                   /* passes that sum up with none before: see compare_passes */
  int64_t last_added, last_placed; /* of the pass before */
  uint32_t update;                 /* the Optimizer.step seen last */
  size_t updates;                  /* since the pass before */
};

/* With one update between two passes, each adds to the gradients that the other puts in place, or both do the same:
 * what is added to was used before, and is cleared before the next update of its own, or never. */
static void compare_passes(struct passes *p, int64_t added, int64_t placed) {
  p->turns +=
      p->count && p->updates == 1 &&
      ((added == p->last_placed && placed == p->last_added) || (added == p->last_added && placed == p->last_placed));
  p->last_added = added;
  p->last_placed = placed;
  p->updates = 0;
}

static void count_update(struct passes *p, uint32_t slice) {
  while (slice != TG_NONE && !(tg__slice_meaning(p->s->f, slice) & TG__NAME_OPTIMIZER_STEP))
    slice = p->s->f->t->slices.parent[slice];
  p->updates += slice != p->update;
  p->update = slice;
}

/* The matrix product that made a gradient, known by its two sides: in the last of the few nodes before that has any. */
static uint32_t product_of(const struct tg__sites *s, size_t from, size_t gradient, size_t *node) {
  struct tg__shape to[TG_INPUTS], in[TG_INPUTS];
  const struct tg__slices *const x = &s->f->t->slices;
  if (!tg__call_shapes(s, s->calls[gradient].slice, to) || to[0].rank != 2) return TG_NONE;
  for (size_t i = gradient; i > from && gradient - i < NODES_BACK; i--) {
    uint32_t found = TG_NONE;
    const int64_t end = tg__slice_end(s->f->t, s->calls[i - 1].slice);
    bool any = false;
    for (uint32_t k = s->calls[i - 1].slice + 1; k < x->count && x->start_ns[k] < end; k++) {
      if (!tg__str_eq(tg__name(s->f->t, x->name[k]), TG_STR("aten::mm")) || tg__call_shapes(s, k, in) < 2) continue;
      const int64_t rows = in[0].dim[0], columns = in[1].dim[1], *const sides = to[0].dim;
      any = true;
      if ((rows == sides[0] && columns == sides[1]) || (rows == sides[1] && columns == sides[0])) found = k;
    }
    *node = i - 1;
    if (any) return found;
  }
  return TG_NONE;
}

/* A gradient that is added to before the last that is put in place: its addition, and the product that made it. The
 * rest of that node is for what comes after. */
static void take_gradient(struct passes *p, size_t from, size_t gradient) {
  const struct tg__site_call *const c = &p->s->calls[gradient];
  size_t node = 0;
  const uint32_t product = product_of(p->s, from, gradient, &node);
  if (product == TG_NONE || p->s->calls[node].site == TG_NONE) return;
  const int64_t ns = p->s->f->t->slices.dur_ns[product];
  tg__tally_add(p->s->f, &p->late_ns, c->slice, tg__call_ns(p->s, c));
  tg__tally_add(p->s->f, &p->late_ns, product, ns);
  p->late_by_site[p->s->calls[node].site] += ns;
}

/* Calls [from, to) are the nodes of one backward pass, in the order they ran. Gradients of parameters that an
 * optimizer clears are put in place; those of others are added to what earlier steps left. Nodes after the last
 * cleared one serve only others. */
static void look_at_pass(struct passes *p, size_t from, size_t to) {
  size_t last = SIZE_MAX;
  int64_t added = 0, placed = 0;
  for (size_t i = from; i < to; i++) {
    const struct tg__site_call *c = &p->s->calls[i];
    if (c->kind != TG__CALL_ACCUMULATE) continue;
    if (is_added(p->s, c->slice)) {
      added++;
      p->all_added++;
      tg__tally_add(p->s->f, &p->added_ns, c->slice, tg__call_ns(p->s, c));
    } else {
      placed++;
      last = i;
    }
  }
  compare_passes(p, added, placed);
  p->count++;
  if (!added || !placed) return;
  p->mixed++;
  p->added += added;
  p->placed += placed;
  for (size_t i = from; i < to; i++) {
    const struct tg__site_call *c = &p->s->calls[i];
    const int64_t dur = tg__call_ns(p->s, c);
    if (i > last) tg__tally_add(p->s->f, &p->late_ns, c->slice, dur);
    if (i < last && c->kind == TG__CALL_ACCUMULATE && is_added(p->s, c->slice)) take_gradient(p, from, i);
    if (c->site == TG_NONE) continue;
    if (i > last)
      p->late_by_site[c->site] += dur;
    else
      p->needed[c->site] = true;
  }
}

static void look_at_passes(struct passes *p) {
  size_t from = SIZE_MAX;
  for (size_t i = 0; i <= p->s->call_count; i++) {
    const struct tg__site_call *c = i < p->s->call_count ? &p->s->calls[i] : NULL;
    const bool node = c && c->counted && tg__is_node(c);
    if (node && from == SIZE_MAX) from = i;
    if (node) continue;
    if (from != SIZE_MAX) look_at_pass(p, from, i);
    from = SIZE_MAX;
    if (c && c->counted && c->kind == TG__CALL_UPDATE) count_update(p, c->slice);
  }
}

/* The function in which the unneeded part is called beside a needed one: where no_grad() has to go. 0: not known. */
static uint64_t fork_of(const struct passes *p, uint32_t site) {
  for (uint32_t path = p->s->sites[site].path; path; path = p->s->paths.up[path]) {
    const uint64_t key = tg__frame_key(p->s, path);
    for (size_t i = 0; key && i < p->s->count; i++)
      if (p->needed[i] && !p->late_by_site[i] && tg__site_in_frame(p->s, &p->s->sites[i], key)) return key;
  }
  return 0;
}

static void judge_unneeded(struct passes *p) {
  struct tg__facts *f = p->s->f;
  const int64_t late_ns = tg__tally_sum(f, &p->late_ns);
  const bool in_turns = p->turns == p->count - 1;
  /* several passes before an update add up on purpose: accumulation over small batches. Nodes of earlier steps that run
   * again are that time already. */
  if (p->mixed != p->count || (!in_turns && p->count > (int64_t)f->steps.count + 1) ||
      tg__has_found(f, TG__CAUSE_GRAPH_RETENTION))
    return;
  uint32_t top = TG_NONE;
  for (uint32_t i = 0; i < p->s->count; i++)
    if (p->late_by_site[i] && (top == TG_NONE || p->late_by_site[i] > p->late_by_site[top])) top = i;
  struct tg__finding *const x = tg__find_above(f, TG__CAUSE_UNNEEDED_GRADIENT, GRADIENT_PCT, late_ns);
  if (!x) return;
  if (top != TG_NONE) tg__say_site(p->s, top, fork_of(p, top), x);
  TG_FORMAT(
      x->evidence,
      "of %lld gradients a pass %lld are added to what is there since the last update, so no optimizer uses them; "
      "backward takes %.2f ms %s only for them (%.1f %%)",
      (long long)((p->added + p->placed) / p->mixed), (long long)(p->added / p->mixed), tg__ms(x->cost_ns),
      tg__period_per(f), x->share_pct);
  TG_FORMAT(x->advice,
            "Run the part that is not trained under torch.no_grad(), cut its output loose by detach(), or set "
            "requires_grad_(False) on its parameters.");
  tg__expect_at_sites(f, x, late_ns, 0.85, "the time of backward for gradients that no optimizer uses");
}

/* ---- zeros ----------------------------------------------------------------------------------- */

static const char *const fills[] = {"aten::zero_", "aten::_foreach_zero_", "aten::fill_"};

/* From torch.optim or nn.Module: a function of that name is in the path. Or the program's own: a line that fills as
 * many tensors as gradients are added to, but for those of a step at either end. */
static bool clears_gradients(const struct passes *of, const struct tg__site *x) {
  const struct tg__sites *s = of->s;
  const int64_t each = of->all_added / (int64_t)s->f->steps.count;
  if (!TG__IS_ONE_OF(tg__site_name(s, x), fills)) return false;
  if (x->kind == TG__CALL_CLEAR) return true;
  for (uint32_t p = x->path; p; p = s->paths.up[p])
    if (tg__str_has_suffix(tg__paths_text(&s->paths, s->paths.label[p]), ": zero_grad")) return true;
  return x->kind == TG__CALL_FORWARD && x->module == TG_NONE && of->count <= (int64_t)s->f->steps.count + 1 &&
         each > 0 && x->calls >= of->all_added - each && x->calls <= of->all_added + each;
}

static void judge_zero_fill(struct passes *p) {
  struct tg__facts *f = p->s->f;
  int64_t fill_ns = 0, calls = 0, most = -1, added_ns = tg__tally_sum(f, &p->added_ns);
  uint32_t top = TG_NONE;
  for (uint32_t i = 0; i < p->s->count; i++) {
    const struct tg__site *x = &p->s->sites[i];
    if (!x->calls || !clears_gradients(p, x)) continue;
    fill_ns += x->forward_ns;
    calls += x->calls;
    if (x->forward_ns > most) most = x->forward_ns, top = i;
  }
  struct tg__finding *const x = tg__find_at(p->s, TG__CAUSE_GRADIENT_ZERO_FILL, GRADIENT_PCT, fill_ns + added_ns, top);
  if (!x) return;
  TG_FORMAT(x->evidence,
            "%lld calls %s fill gradients with zeros, %.2f ms, and backward adds to them, %.2f ms (together %.1f %%)",
            (long long)tg__per_step(f, calls), tg__period_per(f), tg__step_ms(f, fill_ns), tg__step_ms(f, added_ns),
            x->share_pct);
  TG_FORMAT(x->advice, "Release gradients instead: optimizer.zero_grad(set_to_none=True), which is the default.");
  tg__expect_at_sites(f, x, fill_ns + added_ns, 0.85, "the fills, and the additions that become assignments");
}

/* ---- large tables ---------------------------------------------------------------------------- */

static int64_t gradient_elements(const struct tg__sites *s) {
  int64_t sum = 0;
  for (size_t i = 0; i < s->call_count; i++) {
    struct tg__shape shapes[TG_INPUTS];
    if (s->calls[i].kind != TG__CALL_ACCUMULATE || !s->calls[i].counted) continue;
    const uint32_t slice = s->calls[i].slice;
    const unsigned n = tg__call_shapes(s, slice, shapes);
    const int64_t elements = n ? tg__shape_elements(&shapes[0]) : -1;
    if (elements > 0 && sum < INT64_MAX / 2 - elements) sum += elements;
  }
  return sum;
}

/* The switch `sparse` of a look-up, the argument behind five or four others. */
static bool is_sparse(const struct tg__sites *s, const struct tg__site *x) {
  const uint32_t values = tg__call_arg(s, x->slice, TG__K_CONCRETE_INPUTS);
  const unsigned at = tg__str_eq(tg__site_name(s, x), TG_STR("aten::embedding_bag")) ? 5 : 4;
  struct tg__str text;
  return values != TG_NONE && tg__list_text(tg__name(s->f->t, values), at, &text) && tg__str_eq(text, TG_STR("True"));
}

/* Update and zero_grad of a step: both go over all gradients, and releasing a large one takes the host long, too. The
 * host's time in zero_grad counts where the host is what takes long. */
static int64_t upkeep_ns(const struct tg__sites *s) {
  const struct tg__columns *const t = s->f->t;
  struct tg__tally clear = {0};
  int64_t update_ns = 0;
  for (size_t i = 0; i < s->count; i++)
    if (s->sites[i].kind == TG__CALL_UPDATE) update_ns += s->sites[i].forward_ns;
  if (s->f->device_bound) return update_ns;
  TG__EACH_IN_STEPS (w, s->f)
    if (w.cls == TG__CLASS_ANNOTATION && tg__is_zero_grad(tg__slice_name(t, w.slice)))
      tg__tally_add(s->f, &clear, w.slice, t->slices.dur_ns[w.slice]);
  return update_ns + tg__tally_sum(s->f, &clear);
}

static void judge_table(struct tg__sites *s, uint32_t site, int64_t upkeep, int64_t all) {
  struct tg__facts *f = s->f;
  struct tg__shape shapes[TG_INPUTS];
  const struct tg__site *x = &s->sites[site];
  static const char *const lookups[] = {"aten::embedding", "aten::embedding_bag"};
  if (!x->backward_calls || !TG__IS_ONE_OF(tg__site_name(s, x), lookups) || is_sparse(s, x) ||
      tg__call_shapes(s, x->slice, shapes) < 2)
    return;
  const int64_t table = tg__shape_elements(&shapes[0]), used = tg__shape_elements(&shapes[1]);
  if (table < LARGE_TABLE || used < 0 || shapes[0].rank != 2 || shapes[0].dim[0] < ROWS_RATIO * used) return;
  const double part = all > 0 ? (double)table * (double)x->backward_calls / (double)all : 0;
  const int64_t update = (int64_t)((part < 1 ? part : 1) * (double)upkeep), cost = x->backward_ns + update;
  struct tg__finding *const out = tg__find_at(s, TG__CAUSE_DENSE_EMBEDDING_GRADIENT, GRADIENT_PCT, cost, site);
  if (!out) return;
  TG_FORMAT(
      out->evidence,
      "%lld of %lld rows of a table are looked up, and all of them get a gradient, %.2f ms %s, and an update and a "
      "release, about %.2f ms",
      (long long)used, (long long)shapes[0].dim[0], tg__step_ms(f, x->backward_ns), tg__period_per(f),
      tg__step_ms(f, update));
  TG_FORMAT(out->advice, "Make its gradient sparse: sparse=True of nn.Embedding or nn.EmbeddingBag, with "
                         "torch.optim.SparseAdam, or SGD without momentum.");
  tg__expect_at_sites(f, out, cost - cost / 10, 0.75,
                      "its backward, and its share of update and zero_grad by number of elements, but for a tenth");
}

static void judge_tables(struct tg__sites *s) {
  const int64_t all = gradient_elements(s), upkeep = upkeep_ns(s);
  for (uint32_t i = 0; i < s->count; i++) judge_table(s, i, upkeep, all);
}

void tg__judge_gradients(struct tg__facts *f) {
  struct tg__sites *s = !tg__has_steps(f) ? NULL : tg__facts_sites(f);
  if (!s) return;
  struct passes p = {.s = s,
                     .update = TG_NONE,
                     .late_by_site = tg__alloc_scratch(f, s->count, sizeof *p.late_by_site),
                     .needed = tg__alloc_scratch(f, s->count, sizeof *p.needed)};
  if (f->failed) return;
  look_at_passes(&p);
  if (p.count) judge_unneeded(&p);
  judge_zero_fill(&p);
  judge_tables(s);
}
