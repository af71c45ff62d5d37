/* The question forward_backward: operators of the forward pass beside those that compute their gradients. */
#include "analyze/host/op_tree.h"
#include "analyze/launch/call_graph.h"

enum by { BY_OP, BY_CALL };

struct pair {                       /* of names, or of two events */
  uint32_t rank, forward, backward; /* slices, those of the first for by=op */
  int64_t calls, forward_ns, backward_ns, forward_device_ns, backward_device_ns;
};
struct work {
  const struct tg__columns *t;
  const struct tg__ask *a;
  enum by by;
  const struct tg__call_graph *g;
  uint32_t *node; /* by slice: the innermost operator with a forward operator around it, or itself; TG_NONE */
  struct pair *pairs;
  size_t count, cap;
};

static struct pair *pair_at(struct work *w, struct tg__map *known, uint32_t rank, uint32_t forward, uint32_t backward) {
  const uint32_t *name = w->t->slices.name;
  const uint64_t key =
      w->by == BY_OP ? (uint64_t)name[forward] << 32 | name[backward] : (uint64_t)forward << 32 | backward;
  uint32_t *slot = tg__map_slot(known, key, TG_NONE);
  if (!slot) return NULL;
  if (*slot == TG_NONE) {
    if (!tg__grow((void **)&w->pairs, &w->cap, w->count + 1, sizeof *w->pairs)) return NULL;
    w->pairs[w->count] = (struct pair){.rank = rank, .forward = forward, .backward = backward};
    *slot = (uint32_t)w->count++;
  }
  return &w->pairs[*slot];
}

/* The engine's call around an autograd node may be linked to the same forward operator as the node: one pair. */
static bool is_repeated(struct work *w, uint32_t slice, uint32_t forward) {
  const uint32_t up = w->t->slices.parent[slice], outer = up == TG_NONE ? TG_NONE : w->node[up];
  w->node[slice] = forward == TG_NONE ? outer : slice;
  return outer != TG_NONE && tg__forward_of(w->t, outer) == forward;
}

static bool add_pair_of_track(struct work *w, uint32_t track, struct tg__map *known) {
  const struct tg__track *k = &w->t->tracks[track];
  const int64_t *dur = w->t->slices.dur_ns;
  TG__EACH (i, tg__slices_of(k)) {
    const uint32_t forward = tg__forward_of(w->t, i);
    const bool repeated = is_repeated(w, i, forward);
    if (forward == TG_NONE || repeated || !tg__ask_has_slice(w->a, w->t, track, i)) continue;
    struct pair *p = pair_at(w, known, k->rank, forward, i);
    if (!p) return false;
    p->calls++;
    p->forward_ns += dur[forward];
    p->backward_ns += dur[i];
    p->forward_device_ns += w->g->kernel_ns[forward];
    p->backward_device_ns += w->g->kernel_ns[i];
  }
  return true;
}

static int64_t weight(const struct pair *p) { return p->forward_device_ns + p->backward_device_ns; }

static bool pair_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct work *w = ctx;
  const struct pair *x = &w->pairs[a], *y = &w->pairs[b];
  const int64_t *start = w->t->slices.start_ns;
  if (x->rank != y->rank) return x->rank < y->rank;
  if (w->by == BY_OP && weight(x) != weight(y)) return weight(x) > weight(y);
  if (w->by == BY_OP && x->backward_ns != y->backward_ns) return x->backward_ns > y->backward_ns;
  return start[x->forward] < start[y->forward];
}

static void put_pair(const struct work *w, const struct pair *p, struct tg_table *out) {
  const struct tg__slices *s = &w->t->slices;
  const bool device = p->forward_device_ns > 0;
  const int64_t over = device ? p->backward_device_ns : p->backward_ns,
                under = device ? p->forward_device_ns : p->forward_ns;
  tg__put_rank(out, w->t, p->rank);
  tg__put_trace_text(out, w->t, s->name[p->forward]);
  tg__put_trace_text(out, w->t, s->name[p->backward]);
  tg__put_int(out, p->calls);
  tg__put_int(out, p->forward_ns);
  tg__put_int(out, p->backward_ns);
  tg__put_int(out, p->forward_device_ns);
  tg__put_int(out, p->backward_device_ns);
  if (under > 0)
    tg__put_real(out, (double)over / (double)under);
  else
    tg__put_null(out);
  tg__put_int(out, p->forward);
  tg__put_int(out, p->backward);
}

static bool put_pairs(const struct work *w, struct tg_table *out) {
  uint32_t *order = tg__order_new(w->count, pair_before, w);
  const bool ok = order != NULL;
  for (size_t i = 0; ok && i < w->count; i++) put_pair(w, &w->pairs[order[i]], out);
  tg__free(order);
  return ok;
}

static void add_note(const struct work *w, struct tg_table *out) {
  int64_t forward = 0, backward = 0;
  for (size_t i = 0; i < w->count; i++)
    forward += w->pairs[i].forward_device_ns, backward += w->pairs[i].backward_device_ns;
  if (forward > 0)
    tg__table_note(out, "device time of all pairs: %.3f ms forward, %.3f ms backward, %.2f times as much",
                   (double)forward / 1e6, (double)backward / 1e6, (double)backward / (double)forward);
}

enum tg_err tg__answer_forward_backward(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                        struct tg_error *e) {
  static const char *const choices[] = {[BY_OP] = "op", [BY_CALL] = "call"};
  size_t by;
  enum tg_err err = tg__ask_choice(a, "by", choices, 2, &by, e);
  if (err) return err;
  struct work w = {.t = t, .a = a, .by = (enum by)by};
  w.node = tg__alloc(((size_t)t->slices.count + 1) * sizeof *w.node);
  w.g = tg__call_graph_of(t, NULL);
  bool ok = w.node && w.g;
  for (uint32_t r = 0; ok && r < t->rank_count; r++) {
    if (!tg__ask_has_rank(a, r)) continue;
    struct tg__map known = {0};
    for (uint32_t k = t->ranks[r].first_track; ok && k < t->ranks[r].first_track + t->ranks[r].track_count; k++)
      ok = add_pair_of_track(&w, k, &known);
    tg__map_free(&known);
  }
  ok = ok && put_pairs(&w, out);
  if (ok) add_note(&w, out);
  if (!ok)
    err = tg__no_memory(e, "pairing forward and backward operators");
  else if (w.count == 0 && !a->has_steps)
    err = tg__fail(
        e, TG_NO_DATA, -1,
        "the trace holds no backward operator linked to a forward one: record a training step, with record_shapes=True "
        "or another option that keeps sequence numbers");
  tg__free(w.node);
  tg__free(w.pairs);
  return err;
}
