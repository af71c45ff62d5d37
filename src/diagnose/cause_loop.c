/* A loop in Python that runs the same few operators many times a step: over samples, rows, elements, parameters or
 * tiny batches.
 *
 * Sites that are called often in every step, in the same module, are such a loop's body: layers of a model differ in
 * their modules. Beyond its work the loop costs the fixed price of a call, dispatch and allocation, and the
 * Python between the calls; one batched operation pays both once. The kind of work follows from the shapes: an element
 * takes 0.25 ns, or a floating-point operation 0.1, whichever is longer. Where there are no shapes, the price is 10
 * us at most, which is what short operators take on machines of today. */
#include "analyze/work/flops.h"
#include "diagnose/sites.h"

enum {
  TIMES = 16,
  SHORT_NS = 50000,
  LOOP_PCT = 5,
  FEW_ROWS = 8,
  LONGEST_PAUSE_NS = 50000,
  PRICE_NS = 10000,
  FLOPS_PER_NS = 10,
  ELEMENTS_PER_NS = 4,
  SHORT_ON_FEW_ROWS_NS = 1000000,
  LOOPS = 3,
  QUARTER = 4
};

struct loop {
  struct tg__sites *s;
  int64_t steps;
  bool *in, *taken; /* by site: of this loop; of a loop found before */
  int64_t *usual;   /* by site of this loop: a low quartile of its calls, times their number; with backward */
  uint64_t frame;   /* key of the frame that loops */
  uint32_t top;     /* the site that costs most */
  int64_t times, ns, saving_ns,
      feed_ns; /* times a step; the others over all steps; feed: of taking apart what it goes over */
};

/* ---- which sites repeat, and in which frame -------------------------------------------------- */

static bool module_repeats(const struct loop *l, const struct tg__site *x) {
  if (x->module == TG_NONE) return false;
  return 2 * (int64_t)tg__map_get(&l->s->modules, x->module) >= x->calls;
}

static bool has_few_rows(const struct loop *l, const struct tg__site *x) {
  struct tg__shape shapes[TG_INPUTS];
  return tg__call_shapes(l->s, x->slice, shapes) && shapes[0].rank > 1 && shapes[0].dim[0] <= FEW_ROWS;
}

/* A module's operator on a handful of rows, called again each time: it takes about as long on many rows. */
static bool is_on_few_rows(const struct loop *l, const struct tg__site *x) {
  return module_repeats(l, x) && has_few_rows(l, x);
}

static bool is_repeated(const struct loop *l, uint32_t site) {
  const struct tg__site *x = &l->s->sites[site];
  if (x->kind != TG__CALL_FORWARD || !x->path || x->reported || l->taken[site] || x->calls < TIMES * l->steps)
    return false; /* no path: calls from anywhere */
  if (tg__is_in_compiled(l->s->f->t, x->slice))
    return false; /* what a compiler has written is no loop of the program */
  return x->shortest_ns <= SHORT_NS || (x->shortest_ns <= SHORT_ON_FEW_ROWS_NS && is_on_few_rows(l, x));
}

/* Does the function do anything besides the loop: something it does more rarely? */
static bool does_more(const struct loop *l, uint64_t key, int64_t calls) {
  for (size_t i = 0; i < l->s->count; i++)
    if (l->s->sites[i].calls && 2 * l->s->sites[i].calls < calls && tg__site_in_frame(l->s, &l->s->sites[i], key))
      return true;
  return false;
}

/* The innermost function around the busiest site that does more than that; one inside it that does nothing but loop,
 * unless it is a module that is called again each time. */
static uint64_t looping_frame(const struct loop *l) {
  const struct tg__site *x = &l->s->sites[l->top];
  uint64_t inner = 0;
  for (uint32_t p = x->path; p; p = l->s->paths.up[p]) {
    const uint64_t key = tg__frame_key(l->s, p);
    if (!key) continue;
    if (does_more(l, key, x->calls)) return inner && !module_repeats(l, x) ? inner : key;
    inner = key;
  }
  return inner;
}

static bool find_top(struct loop *l) {
  int64_t most = 0;
  for (uint32_t i = 0; i < l->s->count; i++) {
    const int64_t ns = is_repeated(l, i) ? tg__site_ns(&l->s->sites[i]) : 0;
    if (ns > most) most = ns, l->top = i;
  }
  return most > 0;
}

static const char *const select_ops[] = {"aten::select",       "aten::slice",      "aten::narrow",    "aten::index",
                                         "aten::index_select", "aten::index_put_", "aten::copy_",     "aten::fill_",
                                         "aten::select_copy",  "aten::slice_copy", "aten::lift_fresh"};

/* The work of one call by what it is given; -1: its inputs were not recorded, or it looks only at a part of them. */
static int64_t work_of(const struct loop *l, const struct tg__site *x) {
  const struct tg__columns *const t = l->s->f->t;
  struct tg__shape shapes[TG_INPUTS];
  const unsigned n = tg__call_shapes(l->s, x->slice, shapes);
  const uint32_t values = tg__call_arg(l->s, x->slice, TG__K_CONCRETE_INPUTS),
                 dims = tg__call_arg(l->s, x->slice, TG__K_INPUT_DIMS);
  int64_t most = 0;
  for (unsigned i = 0; i < n; i++) {
    const int64_t elements = tg__shape_elements(&shapes[i]);
    if (elements > most) most = elements;
  }
  if (!n || TG__IS_ONE_OF(tg__site_name(l->s, x), select_ops)) return -1;
  if (most > INT32_MAX) return INT32_MAX;
  const int64_t flops =
      tg__flops(tg__site_name(l->s, x), tg__name(t, dims), values == TG_NONE ? TG_STR("") : tg__name(t, values));
  return flops / FLOPS_PER_NS > most / ELEMENTS_PER_NS ? flops / FLOPS_PER_NS : most / ELEMENTS_PER_NS;
}

/* What calls cost beyond their work, all but one a step. */
static int64_t price(int64_t ns, int64_t calls, int64_t shortest_ns, int64_t work_ns, int64_t steps) {
  if (calls <= steps) return 0;
  const int64_t fixed_ns = work_ns < 0 ? (shortest_ns < PRICE_NS ? shortest_ns : PRICE_NS) : shortest_ns - work_ns;
  const double fixed = fixed_ns < 0 ? 0 : shortest_ns > 0 ? (double)fixed_ns / (double)shortest_ns : 1;
  return (int64_t)(fixed * (double)ns * (double)(calls - steps) / (double)calls);
}

/* Backward does the work of a call twice: once for each of two inputs. */
static int64_t price_of(const struct loop *l, const struct tg__site *x) {
  const bool is_elsewhere = l->s->f->has_device_work; /* the host's time is what it takes to launch it */
  const int64_t work_ns = is_elsewhere || is_on_few_rows(l, x) ? 0 : work_of(l, x);
  return price(x->forward_ns, x->calls, x->shortest_ns, work_ns, l->steps) +
         price(x->backward_ns, x->backward_calls, x->shortest_backward_ns, work_ns < 0 ? -1 : 2 * work_ns, l->steps);
}

static void gather_loop_body(struct loop *l) {
  l->frame = looping_frame(l);
  l->ns = l->saving_ns = l->times = 0;
  for (uint32_t i = 0; i < l->s->count; i++) {
    const struct tg__site *x = &l->s->sites[i];
    l->in[i] = is_repeated(l, i) && (i == l->top || (l->frame && tg__site_in_frame(l->s, x, l->frame)));
    if (l->in[i]) l->ns += tg__site_ns(x);
  }
  for (uint32_t i = 0; i < l->s->count; i++) {
    const struct tg__site *x = &l->s->sites[i];
    if (!l->in[i]) continue;
    l->taken[i] = true;
    if (20 * tg__site_ns(x) >= l->ns && (!l->times || x->calls / l->steps < l->times)) l->times = x->calls / l->steps;
    l->saving_ns += price_of(l, x);
  }
}

/* The time between two calls of the loop that follow each other. */
static int64_t pauses(const struct loop *l) {
  int64_t sum = 0;
  for (size_t i = 1; i < l->s->call_count; i++) {
    const int64_t pause = tg__pause_before(l->s, i, l->in);
    if (pause > 0) sum += pause < LONGEST_PAUSE_NS ? pause : LONGEST_PAUSE_NS;
  }
  return sum;
}

/* ---- what kind of loop ----------------------------------------------------------------------- */

static const char *const reads[] = {"aten::item", "aten::_local_scalar_dense", "aten::is_nonzero"};
struct body { /* shares of the time of the loop, as its calls usually take */
  int64_t all_ns, read_ns, select_ns, module_ns, few_rows_ns, few_ns, varied_ns,
      no_gradient_ns;                 /* few_rows: of modules; few: of anything */
  bool selects_rows, selects_columns; /* goes along the first dimension of a tensor; along another */
};

static void look_at_select(const struct loop *l, const struct tg__site *x, struct body *b) {
  int64_t dim, at;
  const uint32_t values = tg__call_arg(l->s, x->slice, TG__K_CONCRETE_INPUTS);
  if (values == TG_NONE || !tg__list_int(tg__name(l->s->f->t, values), 1, &dim)) return;
  if (tg__list_int(tg__name(l->s->f->t, values), 2, &at) && at < 0)
    return; /* counted from the end: the same place in each turn */
  if (dim == 0)
    b->selects_rows = true;
  else
    b->selects_columns = true;
}

/* Adds of each site of the loop its forward or backward calls, each as long as the call at a quarter of them from the
 * shortest: a thread that loses its core for a while does so in any of them, and one call may do less. The kind of
 * loop depends on neither. */
static void add_usual(struct loop *l, bool backward) {
  const struct tg__sites *const s = l->s;
  size_t *const end = tg__alloc_scratch(s->f, s->count, sizeof *end);
  int64_t *const ns = tg__alloc_scratch(s->f, s->call_count, sizeof *ns);
  for (int pass = 0; !s->f->failed && pass < 2; pass++) { /* how many each site has; then where its calls end */
    for (size_t i = 0; i < s->call_count; i++) {
      const struct tg__site_call *const c = &s->calls[i];
      if (!c->counted || c->site == TG_NONE || !l->in[c->site] || tg__is_node(c) != backward) continue;
      if (pass) ns[end[c->site]] = tg__call_ns(s, c);
      end[c->site]++;
    }
    for (size_t i = 0, at = 0; !pass && i < s->count; i++) at += end[i], end[i] = at - end[i];
  }
  for (size_t i = 0, from = 0; !s->f->failed && i < s->count; from = end[i++]) {
    const size_t n = end[i] - from;
    if (!n) continue;
    uint32_t *const order = tg__order_numbers(ns + from, n);
    s->f->failed |= !order;
    if (order) l->usual[i] += (int64_t)n * ns[from + order[(n - 1) / QUARTER]];
    tg__free(order);
  }
}

static void look_at_site(const struct loop *l, uint32_t site, struct body *b) {
  const struct tg__site *const x = &l->s->sites[site];
  const struct tg__str name = tg__site_name(l->s, x);
  const int64_t ns = l->usual[site];
  b->all_ns += ns;
  if (TG__IS_ONE_OF(name, reads)) b->read_ns += ns;
  if (TG__IS_ONE_OF(name, select_ops)) b->select_ns += ns;
  if (tg__str_eq(name, TG_STR("aten::select")) || tg__str_eq(name, TG_STR("aten::slice"))) look_at_select(l, x, b);
  if (module_repeats(l, x)) b->module_ns += ns;
  if (is_on_few_rows(l, x)) b->few_rows_ns += ns;
  if (has_few_rows(l, x)) b->few_ns += ns;
  if (x->other_dims != TG_NONE) b->varied_ns += ns;
  if (!x->backward_calls) b->no_gradient_ns += ns;
}

/* Inside the function that loops; or, as a comprehension is a function of its own, at the line that calls it. */
static bool is_before_loop(const struct loop *l, const struct tg__site *x) {
  const uint32_t loop = l->frame ? tg__site_in_frame(l->s, &l->s->sites[l->top], l->frame) : 0;
  uint32_t at;
  if (tg__site_in_frame(l->s, x, l->frame)) return true;
  return loop && tg__site_function(l->s, x, &at) && at == l->s->paths.up[loop];
}

/* `for row in tensor` takes the tensor apart once: into as many rows as the loop has turns, or about so, where it
 * leaves early; a place of the loop may be called up to four times a turn. Returns the rows, and along which dimension
 * they lie; 0: it does not feed the loop. */
static int64_t rows_fed(const struct loop *l, const struct tg__site *x, int64_t *dim) {
  struct tg__shape shapes[TG_INPUTS];
  *dim = 0;
  if (!x->calls || !tg__str_eq(tg__site_name(l->s, x), TG_STR("aten::unbind")) || !is_before_loop(l, x)) return 0;
  if (!tg__call_shapes(l->s, x->slice, shapes) || !shapes[0].rank) return 0;
  const uint32_t values = tg__call_arg(l->s, x->slice, TG__K_CONCRETE_INPUTS);
  if (values != TG_NONE) tg__list_int(tg__name(l->s->f->t, values), 1, dim);
  if (*dim < 0) *dim += shapes[0].rank;
  if (*dim < 0 || *dim >= (int64_t)shapes[0].rank) return 0;
  const int64_t rows = shapes[0].dim[*dim];
  const bool about = rows > l->times / 2 && rows / 2 < l->times,
             several = rows > 0 && l->times % rows == 0 && l->times / rows <= 4;
  return about || several ? rows : 0;
}

/* Is that number of rows a batch? The first dimension of what goes into a loss is, or a multiple of it. Where no
 * loss is known: yes. */
static bool is_batch(const struct loop *l, int64_t rows) {
  bool any = false;
  for (uint32_t i = 0; i < l->s->count; i++) {
    const struct tg__site *x = &l->s->sites[i];
    struct tg__shape shapes[TG_INPUTS];
    const struct tg__str name = tg__site_name(l->s, x);
    const bool is_loss = tg__str_has_suffix(name, "_loss") || tg__str_contains(name, "cross_entropy");
    if (l->in[i] || !x->calls || !is_loss || !tg__call_shapes(l->s, x->slice, shapes) || !shapes[0].rank) continue;
    if (shapes[0].dim[0] % rows == 0) return true;
    any = true;
  }
  return !any;
}

/* Taking a tensor apart is a part of the loop, and so is putting its gradient together. */
static void look_at_feed(struct loop *l) {
  l->feed_ns = 0;
  for (uint32_t i = 0; i < l->s->count; i++) {
    int64_t dim;
    if (!l->in[i] && rows_fed(l, &l->s->sites[i], &dim)) l->feed_ns += tg__site_ns(&l->s->sites[i]);
  }
}

static void look_at_unbind(const struct loop *l, const struct tg__site *x, struct body *b) {
  int64_t dim;
  const int64_t rows = rows_fed(l, x, &dim);
  if (rows && dim == 0 && is_batch(l, rows)) b->selects_rows = true;
}

static int64_t backward_passes(const struct loop *l) {
  int64_t n = 0;
  bool was_node = false;
  for (size_t i = 0; i < l->s->call_count; i++) {
    if (!l->s->calls[i].counted) continue;
    const bool node = tg__is_node(&l->s->calls[i]);
    n += node && !was_node;
    was_node = node;
  }
  return n / l->steps;
}

/* Does the loop turn once for each gradient of a step, and work on tensors of several shapes without a gradient of
 * their own? */
static bool goes_over_parameters(const struct loop *l, const struct body *b) {
  int64_t gradients = 0;
  for (size_t i = 0; i < l->s->call_count; i++)
    gradients += l->s->calls[i].counted && l->s->calls[i].kind == TG__CALL_ACCUMULATE;
  const bool once_each = gradients && gradients / l->steps == l->times && b->varied_ns > 0;
  return 2 * b->no_gradient_ns >= b->all_ns && (once_each || 2 * b->varied_ns >= b->all_ns);
}

/* Is a module around the loop, called more rarely than it turns? Then a cell goes along a sequence. Batches are taken
 * apart outside of the model. */
static bool is_in_module(const struct loop *l) {
  const struct tg__columns *const t = l->s->f->t;
  const struct tg__site *const top = &l->s->sites[l->top];
  for (uint32_t i = t->slices.parent[top->slice]; i != TG_NONE; i = t->slices.parent[i]) {
    if (tg__slice_class(t, i) != TG__CLASS_PYTHON || !(tg__slice_meaning(l->s->f, i) & TG__NAME_MODULE)) continue;
    if (2 * (int64_t)tg__map_get(&l->s->modules, t->slices.name[i]) < top->calls) return true;
  }
  return false;
}

static enum tg__cause classify_loop(struct loop *l) {
  struct body b = {0};
  memset(l->usual, 0, (l->s->count + 1) * sizeof *l->usual);
  add_usual(l, false);
  add_usual(l, true);
  for (uint32_t i = 0; i < l->s->count; i++) {
    if (l->in[i])
      look_at_site(l, i, &b);
    else
      look_at_unbind(l, &l->s->sites[i], &b);
  }
  if (4 * b.read_ns >= b.all_ns) return TG__CAUSE_PER_ELEMENT_ITEM;
  const bool is_outside = !is_in_module(l);
  if (2 * b.module_ns >= b.all_ns &&
      (2 * backward_passes(l) >= l->times || (is_outside && 2 * b.few_rows_ns >= b.module_ns)))
    return TG__CAUSE_TINY_BATCHES;
  const bool is_cell = 4 * b.few_rows_ns >= b.all_ns && 2 * b.few_ns >= b.all_ns; /* with what is done with results */
  if (is_outside && is_cell) return TG__CAUSE_TINY_BATCHES;
  if (is_cell || 2 * b.module_ns >= b.all_ns) return TG__CAUSE_MANY_SMALL_OPS; /* one that goes along a sequence */
  if (5 * b.select_ns >= 2 * b.all_ns || (b.selects_columns && 5 * b.select_ns >= b.all_ns))
    return TG__CAUSE_TENSOR_INDEX_LOOP;
  if (b.selects_rows) return TG__CAUSE_PER_SAMPLE_LOOP;
  if (goes_over_parameters(l, &b)) return TG__CAUSE_PER_PARAMETER_LOOP;
  return TG__CAUSE_MANY_SMALL_OPS;
}

/* ---- saying it ------------------------------------------------------------------------------- */

static const char *const advice[TG__CAUSE_COUNT] = {
    [TG__CAUSE_PER_ELEMENT_ITEM] =
        "Reduce on the tensor and read once: one .tolist() or .item() after the loop instead "
        "of one for each element.",
    [TG__CAUSE_TINY_BATCHES] = "Run the model once on all rows: a larger batch, and no loop over pieces of it.",
    [TG__CAUSE_TENSOR_INDEX_LOOP] =
        "Replace the loop over indexes by one operation on the whole tensor: slices, gather, "
        "unfold, cumsum or a mask.",
    [TG__CAUSE_PER_SAMPLE_LOOP] = "Do it for the whole batch at once: keep the batch dimension and use bmm, einsum or "
                                  "broadcasting; torch.func.vmap writes it for you.",
    [TG__CAUSE_PER_PARAMETER_LOOP] =
        "Treat all tensors in one call: torch._foreach_ functions, or clip_grad_norm_(..., "
        "foreach=True) and the like.",
    [TG__CAUSE_MANY_SMALL_OPS] = "Do the same with fewer operations: a fused layer (nn.LSTM, nn.GRU, …), operations on "
                                 "the whole sequence, or torch.compile.",
};

/* A loop with turns that depend on each other can run in a fused layer: the Python goes, and about half of what the
 * calls cost. */
static void expect_of_loop(struct loop *l, struct tg__finding *x, int64_t pause_ns) {
  struct tg__facts *f = l->s->f;
  const int64_t pauses_saved = pause_ns - pause_ns / l->times;
  if (x->cause == TG__CAUSE_MANY_SMALL_OPS)
    tg__expect_at_sites(
        f, x, (l->saving_ns + l->feed_ns) / 2 + pauses_saved, 0.6,
        "the Python between the calls, and half of what they take beyond their work: fewer of them stay");
  else
    tg__expect_at_sites(f, x, l->saving_ns + l->feed_ns + pauses_saved, 0.7,
                        "all calls but one of each place, but for their work, and the Python between them");
}

static void report_loop(struct loop *l) {
  struct tg__facts *f = l->s->f;
  if (!l->times) return;
  look_at_feed(l);
  const int64_t pause_ns = pauses(l), saving = l->saving_ns + l->feed_ns + pause_ns - pause_ns / l->times;
  if (tg__pct(saving, f->total_ns) <= LOOP_PCT) return;
  int64_t sites = 0, ns, calls;
  for (uint32_t i = 0; i < l->s->count; i++) sites += l->in[i];
  tg__sum_sites(l->s, l->in, &ns, &calls);
  const int64_t cost = l->ns + l->feed_ns + pause_ns;
  struct tg__finding *x =
      tg__finding_add(f, classify_loop(l), tg__pct(cost, f->total_ns), LOOP_PCT, tg__per_step(f, cost));
  tg__say_site(l->s, l->top, l->frame, x);
  TG_FORMAT(
      x->evidence,
      "a loop of %lld turns %s makes %lld short calls at %lld places of the program: %.2f ms%s, and %.2f ms of Python "
      "between them",
      (long long)l->times, tg__period_per(f), (long long)tg__per_step(f, calls), (long long)sites,
      tg__step_ms(f, l->ns), tg__if_backward(l->s, l->in, " with their backward"), tg__step_ms(f, pause_ns));
  if (l->feed_ns) TG_ADD(x->evidence, "; taking apart what it goes over takes %.2f ms", tg__step_ms(f, l->feed_ns));
  TG_FORMAT(x->advice, "%s", advice[x->cause]);
  expect_of_loop(l, x, pause_ns);
  tg__claim_sites(l->s, l->in, x);
  tg__count_waiting(f, x);
}

void tg__judge_loops(struct tg__facts *f) {
  if (f->device_bound || !tg__has_steps(f)) return; /* a device that is busy does not mind how it is fed */
  struct tg__sites *s = tg__facts_sites(f);
  if (!s) return;
  struct loop l = {.s = s,
                   .steps = (int64_t)f->steps.count,
                   .in = tg__alloc_scratch(f, s->count, sizeof *l.in),
                   .taken = tg__alloc_scratch(f, s->count, sizeof *l.taken),
                   .usual = tg__alloc_scratch(f, s->count, sizeof *l.usual)};
  for (int i = 0; !f->failed && i < LOOPS && find_top(&l); i++) {
    gather_loop_body(&l);
    report_loop(&l);
  }
}
