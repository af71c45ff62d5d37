/* A loop in Python that runs the same few operators many times a step: over samples, rows, elements, parameters or tiny batches.
 *
 * Sites that are called often in every step, in the same module, are such a loop's body: layers of a model differ in their modules.
 * What the loop costs beyond its work is the fixed price of a call, dispatch and allocation, and the Python between the calls; one
 * batched operation pays both once. A price of 10 us is what short operators take on machines of today. */
#include "diagnose/sites.h"

enum {
  TIMES = 16,
  SHORT_NS = 50000,
  LOOP_PCT = 5,
  FEW_ROWS = 8,
  LONGEST_PAUSE_NS = 50000,
  PRICE_NS = 10000,
  SHORT_ON_FEW_ROWS_NS = 1000000,
  LOOPS = 3
};

struct loop {
  struct tg__sites *s;
  int64_t steps;
  bool *in, *taken;             /* by site: of this loop; of a loop found before */
  uint64_t frame;               /* key of the frame that loops */
  uint32_t top;                 /* the site that costs most */
  int64_t times, ns, saving_ns; /* times a step; the others over all steps */
};

/* ---- which sites repeat, and in which frame ----------------------------------------------------------------------------------------- */

static bool module_repeats(const struct loop *l, const struct tg__site *x) {
  if (x->module == TG_NONE) return false;
  return 2 * (int64_t)tg__map_get(&l->s->modules, x->module) >= x->calls;
}

/* A module's operator on a handful of rows, called anew each time: it takes about as long on many rows. */
static bool is_on_few_rows(const struct loop *l, const struct tg__site *x) {
  struct tg__shape shapes[TG_INPUTS];
  return module_repeats(l, x) && tg__call_shapes(l->s, x->slice, shapes) && shapes[0].rank > 1 && shapes[0].dim[0] <= FEW_ROWS;
}

static bool is_repeated(const struct loop *l, uint32_t site) {
  const struct tg__site *x = &l->s->sites[site];
  if (x->kind != TG__CALL_FORWARD || !x->path || x->told || l->taken[site] || x->calls < TIMES * l->steps)
    return false; /* no path: calls from anywhere */
  return x->shortest_ns <= SHORT_NS || (x->shortest_ns <= SHORT_ON_FEW_ROWS_NS && is_on_few_rows(l, x));
}

/* Does the function do anything besides the loop: something it does more rarely? */
static bool does_more(const struct loop *l, uint64_t key, int64_t calls) {
  for (size_t i = 0; i < l->s->count; i++)
    if (l->s->sites[i].calls && 2 * l->s->sites[i].calls < calls && tg__site_in_frame(l->s, &l->s->sites[i], key)) return true;
  return false;
}

/* The innermost function around the busiest site that does more than that; one inside it that does nothing but loop, unless it is
 * a module that is called anew each time. */
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

/* What calls cost beyond their work, all but one a step: the whole of a call whose shortest takes PRICE_NS, less of longer ones. */
static int64_t price(int64_t ns, int64_t calls, int64_t shortest_ns, int64_t steps) {
  if (calls <= steps) return 0;
  const double fixed = shortest_ns > PRICE_NS ? (double)PRICE_NS / (double)shortest_ns : 1;
  return (int64_t)(fixed * (double)ns * (double)(calls - steps) / (double)calls);
}

static void gather(struct loop *l) {
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
    l->saving_ns += is_on_few_rows(l, x) ? price(tg__site_ns(x), x->calls, 0, l->steps)
                                         : price(x->forward_ns, x->calls, x->shortest_ns, l->steps) +
                                               price(x->backward_ns, x->backward_calls, x->shortest_backward_ns, l->steps);
  }
}

/* The time between two calls of the loop that follow each other. */
static int64_t pauses(const struct loop *l) {
  const struct tg_trace *t = l->s->f->t;
  int64_t sum = 0;
  for (size_t i = 1; i < l->s->call_count; i++) {
    const struct tg__call *a = &l->s->calls[i - 1], *b = &l->s->calls[i];
    if (!a->counted || !b->counted || a->site == TG_NONE || b->site == TG_NONE || !l->in[a->site] || !l->in[b->site]) continue;
    const int64_t pause = t->slices.start_ns[b->slice] - tg__slice_end(t, a->slice);
    if (pause > 0) sum += pause < LONGEST_PAUSE_NS ? pause : LONGEST_PAUSE_NS;
  }
  return sum;
}

/* ---- what kind of loop ------------------------------------------------------------------------------------------------------------- */

static const char *const reads[] = {"aten::item", "aten::_local_scalar_dense", "aten::is_nonzero"};
static const char *const picks[] = {"aten::select",       "aten::slice",      "aten::narrow",    "aten::index",
                                    "aten::index_select", "aten::index_put_", "aten::copy_",     "aten::fill_",
                                    "aten::select_copy",  "aten::slice_copy", "aten::lift_fresh"};

struct body { /* shares of the time of the loop */
  int64_t read_ns, pick_ns, module_ns, few_rows_ns, varied_ns, no_gradient_ns;
  bool picks_rows, picks_columns; /* goes along the first dimension of a tensor; along another */
};

static void look_at_pick(const struct loop *l, const struct tg__site *x, struct body *b) {
  int64_t dim;
  const uint32_t values = tg__call_arg(l->s, x->slice, TG__K_CONCRETE_INPUTS);
  if (values == TG_NONE || !tg__int_pick(tg__name(l->s->f->t, values), 1, &dim)) return;
  if (dim == 0)
    b->picks_rows = true;
  else
    b->picks_columns = true;
}

static void look_at_site(const struct loop *l, const struct tg__site *x, struct body *b) {
  const struct tg__str name = tg__site_name(l->s, x);
  const int64_t ns = tg__site_ns(x);
  if (TG__IS_ONE_OF(name, reads)) b->read_ns += ns;
  if (TG__IS_ONE_OF(name, picks)) b->pick_ns += ns;
  if (tg__str_eq(name, TG_STR("aten::select")) || tg__str_eq(name, TG_STR("aten::slice"))) look_at_pick(l, x, b);
  if (module_repeats(l, x)) b->module_ns += ns;
  if (is_on_few_rows(l, x)) b->few_rows_ns += ns;
  if (x->other_dims != TG_NONE) b->varied_ns += ns;
  if (!x->backward_calls) b->no_gradient_ns += ns;
}

/* `for row in tensor` takes the tensor apart once: into about as many rows as the loop has turns. */
static void look_at_unbind(const struct loop *l, const struct tg__site *x, struct body *b) {
  struct tg__shape shapes[TG_INPUTS];
  if (!x->calls || !tg__str_eq(tg__site_name(l->s, x), TG_STR("aten::unbind")) || !tg__site_in_frame(l->s, x, l->frame)) return;
  if (!tg__call_shapes(l->s, x->slice, shapes) || !shapes[0].rank) return;
  int64_t dim = 0;
  const uint32_t values = tg__call_arg(l->s, x->slice, TG__K_CONCRETE_INPUTS);
  if (values != TG_NONE) tg__int_pick(tg__name(l->s->f->t, values), 1, &dim);
  if (dim == 0 && shapes[0].dim[0] * 2 > l->times && shapes[0].dim[0] < l->times * 2) b->picks_rows = true;
}

static int64_t backward_passes(const struct loop *l) {
  int64_t n = 0;
  bool was_node = false;
  for (size_t i = 0; i < l->s->call_count; i++) {
    if (!l->s->calls[i].counted) continue;
    const bool node = l->s->calls[i].kind == TG__CALL_BACKWARD || l->s->calls[i].kind == TG__CALL_ACCUMULATE;
    n += node && !was_node;
    was_node = node;
  }
  return n / l->steps;
}

/* Does the loop turn once for each gradient of a step, and work on tensors of several shapes without a gradient of their own? */
static bool goes_over_parameters(const struct loop *l, const struct body *b) {
  int64_t gradients = 0;
  for (size_t i = 0; i < l->s->call_count; i++) gradients += l->s->calls[i].counted && l->s->calls[i].kind == TG__CALL_ACCUMULATE;
  const bool once_each = gradients && gradients / l->steps == l->times && b->varied_ns > 0;
  return 2 * b->no_gradient_ns >= l->ns && (once_each || 2 * b->varied_ns >= l->ns);
}

static enum tg__cause kind_of(const struct loop *l) {
  struct body b = {0};
  for (uint32_t i = 0; i < l->s->count; i++) {
    if (l->in[i])
      look_at_site(l, &l->s->sites[i], &b);
    else
      look_at_unbind(l, &l->s->sites[i], &b);
  }
  if (4 * b.read_ns >= l->ns) return TG__CAUSE_PER_ELEMENT_ITEM;
  if (2 * b.module_ns >= l->ns && (2 * backward_passes(l) >= l->times || 2 * b.few_rows_ns >= b.module_ns)) return TG__CAUSE_TINY_BATCHES;
  if (2 * b.module_ns >= l->ns) return TG__CAUSE_MANY_SMALL_OPS; /* a cell that is called for each element of a sequence */
  if (5 * b.pick_ns >= 2 * l->ns || (b.picks_columns && 5 * b.pick_ns >= l->ns)) return TG__CAUSE_TENSOR_INDEX_LOOP;
  if (b.picks_rows) return TG__CAUSE_PER_SAMPLE_LOOP;
  if (goes_over_parameters(l, &b)) return TG__CAUSE_PER_PARAMETER_LOOP;
  return TG__CAUSE_MANY_SMALL_OPS;
}

/* ---- saying it --------------------------------------------------------------------------------------------------------------------- */

static const char *advice_for(enum tg__cause cause) {
  switch (cause) {
  case TG__CAUSE_PER_ELEMENT_ITEM:
    return "Reduce on the tensor and read once: one .tolist() or .item() after the loop instead of one for each element.";
  case TG__CAUSE_TINY_BATCHES:
    return "Run the model once on all rows: a larger batch, and no loop over pieces of it.";
  case TG__CAUSE_TENSOR_INDEX_LOOP:
    return "Replace the loop over indexes by one operation on the whole tensor: slices, gather, unfold, cumsum or a mask.";
  case TG__CAUSE_PER_SAMPLE_LOOP:
    return "Do it for the whole batch at once: keep the batch dimension and use bmm, einsum or broadcasting; torch.func.vmap writes it for "
           "you.";
  case TG__CAUSE_PER_PARAMETER_LOOP:
    return "Treat all tensors in one call: torch._foreach_ functions, or clip_grad_norm_(..., foreach=True) and the like.";
  default:
    return "Do the same with fewer operations: a fused layer (nn.LSTM, nn.GRU, …), operations on the whole sequence, or torch.compile.";
  }
}

static void report_loop(struct loop *l) {
  struct tg__facts *f = l->s->f;
  if (!l->times) return;
  const int64_t pause_ns = pauses(l), saving = l->saving_ns + pause_ns - pause_ns / l->times;
  const double share = tg__pct(saving, f->total_ns);
  if (share <= LOOP_PCT) return;
  int64_t sites = 0, calls = 0;
  for (uint32_t i = 0; i < l->s->count; i++)
    if (l->in[i]) sites++, calls += l->s->sites[i].calls;
  const enum tg__cause cause = kind_of(l);
  struct tg__finding *x = tg__find(f, cause, tg__pct(l->ns + pause_ns, f->total_ns), LOOP_PCT, tg__per_step(f, l->ns + pause_ns));
  tg__say_site(l->s, l->top, l->frame, x);
  TG_SAY(x->evidence,
         "a loop of %lld turns %s makes %lld short calls at %lld places of the program: %.2f ms%s, and %.2f ms of Python "
         "between them",
         (long long)l->times, tg__per(f), (long long)tg__per_step(f, calls), (long long)sites, tg__ms(tg__per_step(f, l->ns)),
         tg__if_backward(l->s, l->in, " with their backward"), tg__ms(tg__per_step(f, pause_ns)));
  TG_SAY(x->advice, "%s", advice_for(cause));
  tg__expect_at_sites(f, x, saving, 0.7, "all calls but one of each place, up to 10 us of what they take at least, and the Python between them");
}

void tg__judge_loops(struct tg__facts *f) {
  if (f->device_bound || f->steps.source == TG__STEPS_WHOLE) return; /* a device that is busy does not mind how it is fed */
  struct tg__sites *s = tg__facts_sites(f);
  if (!s) return;
  struct loop l = {.s = s, .steps = (int64_t)f->steps.count};
  l.in = tg__alloc(s->count + 1);
  l.taken = tg__alloc(s->count + 1);
  if (!l.in || !l.taken) f->failed = true;
  for (int i = 0; !f->failed && i < LOOPS && find_top(&l); i++) {
    gather(&l);
    report_loop(&l);
  }
  tg__free(l.in);
  tg__free(l.taken);
}
