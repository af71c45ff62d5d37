/* What surrounds a slice, and when backward passes ran. */
#include "analyze/memory/memory_blocks.h"

enum { NAME_BACKWARD = 1, NAME_COLLECTIVE = 2, NAME_SEEN = 128 };

/* ---- names ----------------------------------------------------------------------------------- */

/* "AddmmBackward0", "CompiledFunctionBackward": Backward, then digits. */
static bool ends_in_backward(struct tg__str s) {
  while (s.len && s.ptr[s.len - 1] >= '0' && s.ptr[s.len - 1] <= '9') s.len--;
  return tg__str_has_suffix(s, "Backward");
}

static bool is_backward(struct tg__str op) {
  return tg__str_has_prefix(op, "autograd::engine::evaluate_function") || tg__str_has_prefix(op, "torch::autograd::") ||
         ends_in_backward(op);
}

static bool is_collective_place(struct tg__str op) {
  return tg__name_is_collective_call(op) || tg__str_has_prefix(op, "c10d::") ||
         tg__str_has_prefix(op, "_c10d_functional::");
}

struct naming { /* each distinct name is looked at once */
  struct tg__names known;
  uint8_t *own;
};

static bool naming_open(struct naming *n, const struct tg__columns *t) {
  n->own = tg__alloc((size_t)tg__strings_count(t->strings) + 1);
  return tg__names_open(&n->known, t) && n->own;
}
static void naming_close(struct naming *n) {
  tg__names_close(&n->known);
  tg__free(n->own);
}
static uint8_t own_meaning(struct naming *n, uint32_t id) {
  if (!n->own[id]) {
    const struct tg__str s = tg__name(n->known.trace, id);
    n->own[id] =
        (uint8_t)(NAME_SEEN | (is_backward(s) ? NAME_BACKWARD : 0) | (is_collective_place(s) ? NAME_COLLECTIVE : 0));
  }
  return n->own[id];
}

/* ---- what is around -------------------------------------------------------------------------- */

static const struct tg__place nowhere = {TG_NONE, TG_NONE, TG_NONE, TG_NONE, TG_NONE, TG_NONE, 0};

static void add_op(const struct tg__columns *t, struct naming *n, uint32_t i, struct tg__place *p) {
  const uint8_t own = own_meaning(n, t->slices.name[i]);
  p->op = i;
  if (own & NAME_COLLECTIVE) p->flags |= TG__PLACE_COLLECTIVE;
  if ((own & NAME_BACKWARD) && p->backward == TG_NONE) {
    p->backward = p->top = i;
    p->module = TG_NONE; /* that of backward()'s caller is not the node's */
  }
  if ((own & NAME_BACKWARD) && t->slices.cause[i] != TG_NONE) p->link = i;
  if (p->top == TG_NONE) p->top = i;
}

static void add_slice(const struct tg__columns *t, struct naming *n, uint32_t i, struct tg__place *p) {
  const enum tg__class c = tg__slice_class(t, i);
  const unsigned meaning = tg__names_of(&n->known, t->slices.name[i]);
  if (c == TG__CLASS_PYTHON) {
    if (!(meaning & TG__NAME_MODULE)) return;
    p->module = i;
    if (p->backward != TG_NONE) p->flags |= TG__PLACE_RECOMPUTED;
  } else if (c == TG__CLASS_OP || c == TG__CLASS_ANNOTATION) {
    if (meaning & TG__NAME_OPTIMIZER_STEP)
      p->optimizer = i;
    else if (meaning & TG__NAME_DATALOADER)
      p->flags |= TG__PLACE_LOADER;
    else if (c == TG__CLASS_OP && !(meaning & TG__NAME_PROFILER_STEP))
      add_op(t, n, i, p);
  }
}

/* ---- backward passes ------------------------------------------------------------------------- */

static bool number_processes(struct tg__places *p) {
  const struct tg__columns *const t = p->t;
  struct tg__strings *const keys = tg__strings_new();
  p->process_of = tg__alloc(((size_t)t->track_count + 1) * sizeof *p->process_of);
  bool ok = keys && p->process_of;
  for (uint32_t i = 0; ok && i < t->track_count; i++) {
    const int64_t key[] = {t->tracks[i].rank, t->tracks[i].pid, t->tracks[i].pid_is_text};
    p->process_of[i] = tg__strings_add(keys, (const char *)key, sizeof key);
    ok = p->process_of[i] != TG_NONE;
  }
  p->process_count = ok ? tg__strings_count(keys) : 0;
  if (keys) tg__strings_free(keys);
  p->passes = tg__alloc((p->process_count + 1) * sizeof *p->passes);
  return ok && p->passes;
}

/* Threads that take part in passes: those that run backward nodes, and those that ran the operators these belong to. */
static bool *tracks_in_passes(const struct tg__places *p) {
  const struct tg__columns *const t = p->t;
  bool *const takes_part = tg__alloc((size_t)t->track_count + 1);
  for (uint32_t k = 0; takes_part && k < t->track_count; k++) {
    TG__EACH (i, tg__slices_of(&t->tracks[k])) {
      if (p->around[i].backward == i) takes_part[k] = true;
      if (p->around[i].link == i) takes_part[tg__slice_track(t, t->slices.cause[i])] = true;
    }
  }
  return takes_part;
}

static bool place_starts_before(uint32_t a, uint32_t b, const void *ctx) {
  const int64_t *const start = ((const struct tg__columns *)ctx)->slices.start_ns;
  return start[a] != start[b] ? start[a] < start[b] : a < b;
}

static bool end_pass(struct tg__process_passes *list, struct tg__pass *open) {
  if (open->start_ns == TG_NULL_INT) return true;
  if (!tg__grow((void **)&list->items, &list->cap, list->count + 1, sizeof *list->items)) return false;
  list->items[list->count++] = *open;
  open->start_ns = TG_NULL_INT;
  return true;
}

/* order: outermost operators of the threads that take part, by start. An operator that begins after all nodes so far
 * have ended ends the pass. */
static bool find_passes(struct tg__places *p, const uint32_t *order, size_t count, const uint32_t *track_of) {
  struct tg__pass *const open = tg__alloc((p->process_count + 1) * sizeof *open);
  bool ok = open != NULL;
  for (size_t k = 0; ok && k < p->process_count; k++) open[k].start_ns = TG_NULL_INT;
  for (size_t i = 0; ok && i < count; i++) {
    const uint32_t slice = order[i], process = p->process_of[track_of[slice]];
    const int64_t start = p->t->slices.start_ns[slice], end = tg__slice_end(p->t, slice);
    struct tg__pass *const now = &open[process];
    if (p->around[slice].backward == TG_NONE) {
      if (now->start_ns != TG_NULL_INT && start >= now->end_ns) ok = end_pass(&p->passes[process], now);
    } else if (now->start_ns == TG_NULL_INT) {
      *now = (struct tg__pass){start, end};
    } else if (end > now->end_ns) {
      now->end_ns = end;
    }
  }
  for (size_t k = 0; ok && k < p->process_count; k++) ok = end_pass(&p->passes[k], &open[k]);
  tg__free(open);
  return ok;
}

static bool list_passes(struct tg__places *p) {
  const struct tg__columns *const t = p->t;
  bool *const takes_part = tracks_in_passes(p);
  uint32_t *const order = tg__alloc(((size_t)t->slices.count + 1) * sizeof *order);
  uint32_t *const track_of = tg__alloc(((size_t)t->slices.count + 1) * sizeof *track_of);
  size_t count = 0;
  bool ok = takes_part && order && track_of;
  for (uint32_t k = 0; ok && k < t->track_count; k++) {
    if (!takes_part[k]) continue;
    TG__EACH (i, tg__slices_of(&t->tracks[k])) {
      if (p->around[i].top != i) continue;
      track_of[i] = k;
      order[count++] = i;
    }
  }
  ok = ok && tg__sort_index(order, count, place_starts_before, t) && find_passes(p, order, count, track_of);
  tg__free(takes_part);
  tg__free(order);
  tg__free(track_of);
  return ok;
}

/* ---- the whole ------------------------------------------------------------------------------- */

bool tg__places_open(struct tg__places *p, const struct tg__columns *t) {
  *p = (struct tg__places){.t = t};
  struct naming n = {0};
  p->around = tg__alloc(((size_t)t->slices.count + 1) * sizeof *p->around);
  p->next = tg__alloc(((size_t)t->track_count + 1) * sizeof *p->next);
  bool ok = naming_open(&n, t) && p->around && p->next && number_processes(p);
  for (uint32_t i = 0; ok && i < t->slices.count; i++) { /* a parent has the smaller number */
    const uint32_t parent = t->slices.parent[i];
    p->around[i] = parent == TG_NONE ? nowhere : p->around[parent];
    add_slice(t, &n, i, &p->around[i]);
  }
  for (uint32_t k = 0; ok && k < t->track_count; k++) p->next[k] = t->tracks[k].first;
  ok = ok && list_passes(p);
  naming_close(&n);
  return ok;
}

void tg__places_close(struct tg__places *p) {
  for (size_t i = 0; p->passes && i < p->process_count; i++) tg__free(p->passes[i].items);
  tg__free(p->passes);
  tg__free(p->around);
  tg__free(p->process_of);
  tg__free(p->next);
  *p = (struct tg__places){0};
}

struct tg__place tg__place_at(struct tg__places *p, uint32_t track, int64_t ns) {
  const struct tg__columns *const t = p->t;
  const uint32_t first = t->tracks[track].first, end = first + t->tracks[track].count;
  uint32_t *const next = &p->next[track];
  while (*next < end && t->slices.start_ns[*next] <= ns) ++*next;
  uint32_t s = *next > first ? *next - 1 : TG_NONE;
  while (s != TG_NONE && tg__slice_end(t, s) <= ns) s = t->slices.parent[s];
  return s == TG_NONE ? nowhere : p->around[s];
}

/* How many passes begin at ns or before. */
static size_t begun(const struct tg__process_passes *list, int64_t ns) {
  size_t low = 0;
  TG__PARTITION(low, list->count, i, list->items[i].start_ns <= ns);
  return low;
}

const struct tg__pass *tg__pass_after(const struct tg__places *p, uint32_t track, int64_t ns) {
  const struct tg__process_passes *const list = &p->passes[p->process_of[track]];
  const size_t at = begun(list, ns);
  return at < list->count ? &list->items[at] : NULL;
}

const struct tg__pass *tg__pass_during(const struct tg__places *p, uint32_t track, int64_t ns) {
  const struct tg__process_passes *const list = &p->passes[p->process_of[track]];
  const size_t at = begun(list, ns);
  return at && ns < list->items[at - 1].end_ns ? &list->items[at - 1] : NULL;
}
