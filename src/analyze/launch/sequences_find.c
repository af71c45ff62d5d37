/* Patterns: for each operator of a name, the names of the kernels below it in the order they began; equal ones are
 * counted together.
 *
 * Operators count at any depth, but for those inside another of the name, which are part of it. A kernel lies below
 * the operator around the host call that launched it, on the same thread, or around the operator which that call is
 * linked to. */
#include "analyze/launch/sequences.h"

bool tg__patterns_wants(struct tg__patterns *p, uint32_t string_id) {
  if (!p->is_wanted[string_id]) p->is_wanted[string_id] = tg__str_contains(tg__name(p->t, string_id), p->op) ? 2 : 1;
  return p->is_wanted[string_id] == 2;
}

void tg__pattern_text(const struct tg__patterns *p, const struct tg__pattern *item, struct tg__out *out) {
  tg__sequence_text(&p->sequences, item->sequence, p->t, item->name, "|", out);
}

/* ---- device work ----------------------------------------------------------------------------- */

static bool is_operator(const struct tg__patterns *p, uint32_t slice) {
  const enum tg__class cls = tg__slice_class(p->t, slice);
  if (cls == TG__CLASS_OP) return true;
  return p->op[0] && (cls == TG__CLASS_ANNOTATION || cls == TG__CLASS_PYTHON || cls == TG__CLASS_PYTHON_OP);
}

static void find_roots(struct tg__patterns *p, const struct tg__rank *rank) {
  const struct tg__columns *t = p->t;
  TG__EACH (k, tg__tracks_of(rank)) {
    TG__EACH (i, tg__slices_of(&t->tracks[k])) {
      const uint32_t up = t->slices.parent[i]; /* stands before its children */
      p->root[i] = up == TG_NONE ? TG_NONE : p->root[up];
      if (p->root[i] == TG_NONE && is_operator(p, i) && tg__patterns_wants(p, t->slices.name[i])) {
        p->root[i] = i;
        p->any = true;
      }
    }
  }
}

static uint32_t root_of(const struct tg__patterns *p, uint32_t device_slice) {
  const uint32_t *cause = p->t->slices.cause, call = cause[device_slice];
  if (call == TG_NONE) return TG_NONE;
  if (p->root[call] != TG_NONE || cause[call] == TG_NONE) return p->root[call];
  return p->root[cause[call]];
}

static bool work_of_rank(const void *ctx, struct tg__patterns *p, uint32_t rank, struct tg__launched_list *work) {
  const struct tg__ask *const a = ctx;
  const struct tg__columns *t = p->t;
  const struct tg__rank *r = &t->ranks[rank];
  find_roots(p, r);
  TG__EACH (k, tg__tracks_of(r)) {
    TG__EACH (i, tg__slices_of(&t->tracks[k])) {
      if (!tg__class_is_device_work(tg__slice_class(t, i))) continue;
      const uint32_t root = p->root[i] = root_of(p, i);
      if (root == TG_NONE || !tg__ask_has_time(a, rank, t->slices.start_ns[root])) continue;
      const struct tg__launched item = {.owner = root,
                                        .name = t->slices.name[i],
                                        .tie = t->slices.args[i],
                                        .at_ns = t->slices.start_ns[i],
                                        .start_ns = t->slices.start_ns[i],
                                        .dur_ns = t->slices.dur_ns[i]};
      if (!tg__launched_add(work, &item)) return false;
    }
  }
  return true;
}

static struct tg__pattern_owner owner_of(const void *ctx, const struct tg__patterns *p, uint32_t rank, uint32_t owner) {
  (void)ctx;
  (void)rank;
  return (struct tg__pattern_owner){owner, p->t->slices.dur_ns[owner]};
}

struct tg__pattern_source tg__patterns_source(const struct tg__ask *a) {
  return (struct tg__pattern_source){work_of_rank, owner_of, a};
}

/* ---- patterns of one rank -------------------------------------------------------------------- */

static struct tg__pattern *pattern_at(struct tg__patterns *p, struct tg__map *known, uint32_t name, uint32_t sequence,
                                      uint32_t rank, uint32_t *number) {
  uint32_t *slot = tg__map_slot(known, (uint64_t)name << 32 | sequence, TG_NONE);
  if (!slot) return NULL;
  if (*slot == TG_NONE) {
    if (!tg__grow((void **)&p->items, &p->cap, p->count + 1, sizeof *p->items)) return NULL;
    p->items[p->count] = (struct tg__pattern){.rank = rank, .name = name, .sequence = sequence, .first = TG_NONE};
    *slot = (uint32_t)p->count++;
  }
  *number = *slot;
  return &p->items[*slot];
}

static bool count_patterns(struct tg__patterns *p, const struct tg__launched_list *work, uint32_t rank,
                           const struct tg__pattern_source *source) {
  const struct tg__slices *s = &p->t->slices;
  struct tg__map known = {0};
  bool ok = true;
  for (size_t i = 0; i < work->run_count && ok; i++) {
    const struct tg__launched_run *run = &work->runs[i];
    if (run->count < p->min_length) continue;
    const struct tg__pattern_owner owner = source->owner(source->ctx, p, rank, run->owner);
    const uint32_t slice = owner.slice, sequence = tg__sequences_find(&p->sequences, work, run);
    uint32_t number;
    struct tg__pattern *item =
        sequence == TG_NONE ? NULL : pattern_at(p, &known, s->name[slice], sequence, rank, &number);
    ok = item != NULL;
    if (!ok) break;
    if (item->first == TG_NONE || s->start_ns[slice] < s->start_ns[item->first]) item->first = slice;
    item->count++;
    item->op_ns += owner.dur_ns;
    for (uint32_t k = 0; k < run->count; k++) item->kernel_ns += work->items[work->order[run->first + k]].dur_ns;
    p->pattern[slice] = number;
  }
  tg__map_free(&known);
  return ok;
}

enum tg_err tg__patterns_find(struct tg__patterns *p, const struct tg__columns *t, const struct tg__ask *a,
                              const char *op, size_t min_length, const struct tg__pattern_source *source) {
  const size_t slices = (size_t)t->slices.count + 1;
  *p = (struct tg__patterns){.t = t, .op = op, .min_length = min_length};
  p->is_wanted = tg__alloc((size_t)tg__strings_count(t->strings) + 1);
  p->root = tg__alloc(slices * sizeof *p->root);
  p->pattern = tg__alloc(slices * sizeof *p->pattern);
  bool ok = p->is_wanted && p->root && p->pattern;
  if (ok) {
    memset(p->pattern, 0xff, slices * sizeof *p->pattern);
    memset(p->root, 0xff, slices * sizeof *p->root);
  }
  for (uint32_t r = 0; r < t->rank_count && ok; r++) {
    if (!tg__ask_has_rank(a, r)) continue;
    struct tg__launched_list work = {0};
    ok = source->work(source->ctx, p, r, &work) && tg__launched_sort(&work) && count_patterns(p, &work, r, source);
    tg__launched_free(&work);
  }
  return ok ? TG_OK : TG_MEMORY;
}

void tg__patterns_free(struct tg__patterns *p) {
  tg__free(p->is_wanted);
  tg__free(p->root);
  tg__free(p->pattern);
  tg__free(p->items);
  tg__sequences_free(&p->sequences);
  *p = (struct tg__patterns){0};
}

/* ---- order ----------------------------------------------------------------------------------- */

static bool occurrence_comes_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__patterns *p = ctx;
  const struct tg__pattern *x = &p->items[a], *y = &p->items[b];
  if (x->rank != y->rank) return x->rank < y->rank;
  if (x->count != y->count) return x->count > y->count;
  if (x->kernel_ns != y->kernel_ns) return x->kernel_ns > y->kernel_ns;
  const struct tg__slices *s = &p->t->slices;
  return s->start_ns[x->first] != s->start_ns[y->first] ? s->start_ns[x->first] < s->start_ns[y->first]
                                                        : s->args[x->first] < s->args[y->first];
}

size_t tg__patterns_cut(const struct tg__patterns *p, size_t most, uint32_t *order) {
  size_t kept = 0, of_rank = 0;
  for (size_t i = 0; i < p->count; i++) { /* kept <= i: what is looked at was not written over yet */
    of_rank = i && p->items[order[i]].rank == p->items[order[i - 1]].rank ? of_rank + 1 : 0;
    if (of_rank < most) order[kept++] = order[i];
  }
  return kept;
}

size_t tg__patterns_top(const struct tg__patterns *p, size_t most, uint32_t *order) {
  return tg__sort_order(order, p->count, occurrence_comes_before, p) ? tg__patterns_cut(p, most, order) : SIZE_MAX;
}
