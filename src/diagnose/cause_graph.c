/* The graph of autograd grows from step to step: what one step made is still there in the next, and backward walks
 * through it again. */
#include "diagnose/sites.h"

enum { GRAPH_PCT = 5, LEAST_STEPS = 4 };

struct nodes { /* of one step */
  int64_t forward, count, ns;
};

/* Each step has more nodes than the one before by about the same number, and calls no more operators than the first. */
static bool grows(const struct nodes *steps, size_t count, int64_t *each) {
  *each = (steps[count - 1].count - steps[0].count) / (int64_t)(count - 1);
  if (count < LEAST_STEPS || *each <= 0) return false;
  for (size_t i = 1; i < count; i++) {
    const int64_t more = steps[i].count - steps[i - 1].count;
    if (2 * more < *each || more > 2 * *each || 10 * steps[i].forward > 11 * steps[0].forward) return false;
  }
  return true;
}

/* ---- what a step leaves behind ----------------------------------------------------------------- */

/* Which node it is: numbers count up on the thread that calls forward. 0: it has none. */
static uint64_t node_key(const struct tg__columns *t, uint32_t slice) {
  const uint32_t inner = slice + 1 < t->slices.count && t->slices.parent[slice + 1] == slice ? slice + 1 : slice;
  int64_t number = tg__arg_int(t, t->slices.args[slice], TG__K_SEQUENCE_NUMBER, -1);
  if (number < 0) number = tg__arg_int(t, t->slices.args[inner], TG__K_SEQUENCE_NUMBER, -1);
  const int64_t thread = tg__arg_int(t, t->slices.args[slice], TG__K_FWD_THREAD_ID, 0);
  return number < 0 ? 0 : ((uint64_t)number << 16 ^ (uint64_t)thread) + 1;
}

/* The first call that ran the node of call i. Only that is tied to the operator that made the node. */
static const struct tg__site_call *first_run(struct tg__sites *s, struct tg__map *first, size_t i) {
  const uint64_t key = node_key(s->f->t, s->calls[i].slice);
  const uint32_t *const slot = key ? tg__map_slot(first, key, (uint32_t)i) : NULL;
  s->f->failed |= key && !slot;
  return &s->calls[slot ? *slot : i];
}

struct old_nodes { /* of earlier steps */
  struct tg__tally ns;
  int64_t count, all;   /* that one of these has run already; of all that run */
  uint32_t maker, from; /* site, TG_NONE: not known; path from where backward was called */
  int64_t made_ns;      /* in step `in` */
  size_t in;
};

/* What is kept from one step to the next comes from the last operator before the backward pass of an earlier step with
 * a node that runs again, or late: a step may begin between forward and backward. In the last step with such nodes. */
static void note_maker(const struct tg__sites *s, const struct tg__site_call *first, int64_t before_ns, size_t now,
                       struct old_nodes *out) {
  const uint32_t maker = tg__forward_of(s->f->t, first->slice);
  const int64_t made_ns = maker == TG_NONE ? INT64_MAX : s->f->t->slices.start_ns[maker];
  if (first->site == TG_NONE || made_ns >= before_ns || (now == out->in && made_ns <= out->made_ns)) return;
  out->in = now, out->made_ns = made_ns, out->maker = first->site;
}

static void look_at_nodes(struct tg__sites *s, struct nodes *steps, struct old_nodes *out) {
  const int64_t *const start_ns = s->f->t->slices.start_ns;
  struct tg__map known = {0};
  int64_t node_ns = INT64_MIN, before_ns = INT64_MIN;
  size_t step = 0;
  for (size_t i = 0; i < s->call_count; i++) {
    const struct tg__site_call *const c = &s->calls[i];
    const size_t now = c->counted ? tg__steps_begun(&s->f->steps, start_ns[c->slice]) : 0;
    struct nodes *const n = &steps[now ? now - 1 : 0];
    n->forward += c->counted && c->kind == TG__CALL_FORWARD;
    if (!c->counted || c->kind != TG__CALL_BACKWARD) continue;
    const struct tg__site_call *const first = first_run(s, &known, i);
    n->count++, n->ns += tg__call_ns(s, c);
    if (now != step) { /* a thread of a device has no stack: then where the loss is made, of which the first node is */
      step = now, before_ns = node_ns;
      out->from = c->path || c->site == TG_NONE ? c->path : s->sites[c->site].path;
    }
    node_ns = start_ns[c->slice];
    note_maker(s, first, before_ns, now, out);
    out->all++;
    if (tg__steps_begun(&s->f->steps, start_ns[first->slice]) >= now) continue;
    out->count++;
    tg__tally_add(s->f, &out->ns, c->slice, tg__call_ns(s, c));
  }
  tg__map_free(&known);
}

static uint32_t top_site(const struct tg__sites *s) {
  uint32_t top = TG_NONE;
  for (uint32_t i = 0; i < s->count; i++)
    if (s->sites[i].backward_calls && (top == TG_NONE || s->sites[i].backward_ns > s->sites[top].backward_ns)) top = i;
  return top;
}

/* Its line in the function that calls backward, too: not a layer inside the model keeps its output, but the caller of
 * the model. Where the operator is not known: the one with most backward, which what is kept counts for. */
static void say_kept(const struct tg__sites *s, const struct old_nodes *old, struct tg__finding *x) {
  const uint32_t site = old->maker == TG_NONE ? top_site(s) : old->maker;
  if (site != TG_NONE) tg__say_site(s, site, tg__common_frame(s, old->from, site), x);
}

static void report_graph_growth(struct tg__sites *s, const struct nodes *steps, int64_t each,
                                const struct old_nodes *kept) {
  struct tg__facts *f = s->f;
  const size_t n = f->steps.count;
  struct tg__tally of_earlier = {0}; /* of a step's own nodes there are `each` */
  for (size_t i = 0; i < n; i++)
    if (steps[i].count > each)
      tg__tally_in(&of_earlier, i + 1,
                   (int64_t)((double)steps[i].ns * (double)(steps[i].count - each) / (double)steps[i].count));
  const int64_t old = tg__tally_sum(f, &of_earlier);
  struct tg__finding *const x = tg__find_above(f, TG__CAUSE_GRAPH_RETENTION, GRAPH_PCT, old);
  if (!x) return;
  say_kept(s, kept, x);
  TG_FORMAT(x->evidence,
            "backward walks %lld nodes in the first of %zu steps and %lld in the last, %lld more in each, although "
            "forward stays the same: "
            "%.2f ms a step for those of earlier steps (%.1f %%)",
            (long long)steps[0].count, n, (long long)steps[n - 1].count, (long long)each, tg__ms(x->cost_ns),
            x->share_pct);
  TG_FORMAT(x->advice,
            "Cut what is kept from one step to the next loose from its graph: hidden = hidden.detach(), losses "
            "as .item(), no retain_graph=True.");
  tg__expect_at_sites(f, x, old, 0.9, "the part of backward for nodes of earlier steps; it grows with every step");
}

/* As many in each step, so that nothing grows: of what was computed once, or a fixed number of steps ago. */
static void judge_again(struct tg__sites *s, const struct old_nodes *old) {
  struct tg__facts *const f = s->f;
  const int64_t ns = tg__tally_sum(f, &old->ns);
  struct tg__finding *const x = tg__find_above(f, TG__CAUSE_GRAPH_RETENTION, GRAPH_PCT, ns);
  if (!x) return;
  say_kept(s, old, x);
  TG_FORMAT(x->evidence,
            "of %lld nodes of backward a step %lld have run in an earlier step already, as many each time: %.2f ms a "
            "step (%.1f %%)",
            (long long)tg__per_step(f, old->all), (long long)tg__per_step(f, old->count), tg__ms(x->cost_ns),
            x->share_pct);
  TG_FORMAT(x->advice,
            "Cut what comes from earlier steps loose from its graph, features.detach() or torch.no_grad() where "
            "it is computed; without retain_graph=True torch says where it is needed.");
  tg__expect_at_sites(f, x, ns, 0.8, "the time of these nodes");
}

void tg__judge_graph(struct tg__facts *f) {
  struct tg__sites *s = !tg__has_steps(f) || f->steps.count < LEAST_STEPS ? NULL : tg__facts_sites(f);
  if (!s) return;
  struct nodes *const steps = tg__alloc_scratch(f, f->steps.count, sizeof *steps);
  struct old_nodes old = {.maker = TG_NONE};
  int64_t each;
  if (steps) look_at_nodes(s, steps, &old);
  if (old.all && grows(steps, f->steps.count, &each)) report_graph_growth(s, steps, each, &old);
  if (!f->failed && !tg__has_found(f, TG__CAUSE_GRAPH_RETENTION)) judge_again(s, &old);
}
