/* Which part of the program holds the gaps of a device: a function, module, annotation, compiled region or operator of
 * the host. */
#include "diagnose/findings.h"

enum { LEAST_PCT = 20, DEPTH = 64 };

struct part {
  uint32_t slice; /* its longest gap is in this */
  int64_t ns, longest_ns;
  int depth;
  bool is_innermost; /* of some gap */
};
struct parts {
  struct tg__facts *f;
  struct tg__map by_name;
  struct part *items;
  size_t count, cap;
  int64_t all_ns;
};

static bool is_part(struct tg__facts *f, uint32_t slice) {
  const enum tg__class cls = tg__slice_class(f->t, slice);
  const struct tg__str name = tg__slice_name(f->t, slice);
  if (cls == TG__CLASS_PYTHON) return tg__is_user_frame(name) || tg__slice_meaning(f, slice) & TG__NAME_MODULE;
  return tg__class_is_range(cls) && !tg__is_step_slice(f, slice) && !tg__str_has_prefix(name, "autograd::engine::");
}

/* The parts around a slice, innermost first; of compiled code none below its outermost range. Without any the slice
 * itself. */
static size_t parts_around(struct tg__facts *f, uint32_t slice, uint32_t *out) {
  size_t n = 0;
  for (uint32_t s = slice; s != TG_NONE; s = f->t->slices.parent[s]) {
    if (!is_part(f, s)) continue;
    if (tg__is_compiled_range(tg__slice_name(f->t, s))) n = 0;
    if (n < DEPTH) out[n++] = s;
  }
  if (!n && !tg__is_step_slice(f, slice)) out[n++] = slice;
  return n;
}

static void add_part(struct parts *p, const struct tg__gap *g, uint32_t slice, bool is_innermost, int depth) {
  const int64_t ns = g->end_ns - g->start_ns;
  uint32_t *const at = tg__map_slot(&p->by_name, p->f->t->slices.name[slice], (uint32_t)p->count);
  if (!at || (*at == p->count && !tg__grow((void **)&p->items, &p->cap, p->count + 1, sizeof *p->items))) {
    p->f->failed = true;
    return;
  }
  if (*at == p->count) p->items[p->count++] = (struct part){.slice = slice, .depth = depth};
  struct part *const part = &p->items[*at];
  part->ns += ns;
  part->is_innermost |= is_innermost;
  if (ns > part->longest_ns) part->longest_ns = ns, part->slice = slice;
}

/* What covers half of a gap; else what launches the work behind it. */
static void add_gap(struct parts *p, const struct tg__gap *g) {
  uint32_t chain[DEPTH];
  const uint32_t *const names = p->f->t->slices.name;
  const uint32_t call = p->f->t->slices.cause[g->after];
  size_t n = g->during == TG_NONE ? 0 : parts_around(p->f, g->during, chain);
  if (!n && call != TG_NONE) n = parts_around(p->f, call, chain);
  for (size_t i = 0; i < n; i++) {
    size_t k = 0;
    while (k < i && names[chain[k]] != names[chain[i]]) k++;
    if (k == i) add_part(p, g, chain[i], !i, (int)(n - i)); /* once for a function that calls itself */
  }
}

/* The tightest with half of all; else the innermost with most, if that is a fifth. */
static const struct part *choose(const struct parts *p) {
  const struct part *half = NULL, *most = NULL;
  for (size_t i = 0; i < p->count; i++) {
    const struct part *const x = &p->items[i];
    const bool is_tighter = !half || x->ns < half->ns || (x->ns == half->ns && x->depth > half->depth);
    if (2 * x->ns >= p->all_ns && is_tighter) half = x;
    if (x->is_innermost && (!most || x->ns > most->ns)) most = x;
  }
  return half ? half : most && 100 * most->ns >= LEAST_PCT * p->all_ns ? most : NULL;
}

struct tg__holder tg__find_holder(struct tg__facts *f, int64_t device, unsigned causes) {
  struct parts p = {.f = f};
  struct tg__holder out = {.slice = TG_NONE};
  const struct tg__window *const w = &f->steps.window;
  for (size_t i = 0; !f->failed && i < f->gaps.count; i++) {
    const struct tg__gap *const g = &f->gaps.items[i];
    if (!(causes >> g->cause & 1) || g->end_ns <= w->start_ns || g->start_ns >= w->end_ns) continue;
    if (device != TG__ANY_DEVICE && g->device != device) continue;
    p.all_ns += g->end_ns - g->start_ns;
    add_gap(&p, g);
  }
  const struct part *const best = choose(&p);
  if (best)
    out = (struct tg__holder){best->slice, best->longest_ns, tg__pct(best->ns, p.all_ns), 2 * best->ns >= p.all_ns};
  tg__map_free(&p.by_name);
  tg__free(p.items);
  return out;
}
