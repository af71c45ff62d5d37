/* sequence: device work put in order below what launched it, and sequences of names numbered. */
#include "analyze/launch/sequence.h"

/* ---- device work by what launched it --------------------------------------------------------- */

bool tg__launched_add(struct tg__launched_list *l, const struct tg__launched *item) {
  if (l->count == l->cap && !tg__grow((void **)&l->items, &l->cap, l->count + 1, sizeof *l->items)) return false;
  l->items[l->count++] = *item;
  return true;
}

static bool sequence_comes_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__launched *items = ctx, *x = &items[a], *y = &items[b];
  if (x->owner != y->owner) return x->owner < y->owner;
  if (x->at_ns != y->at_ns) return x->at_ns < y->at_ns;
  if (x->then_ns != y->then_ns) return x->then_ns < y->then_ns;
  return x->tie < y->tie;
}

bool tg__launched_sort(struct tg__launched_list *l) {
  tg__free(l->order);
  l->run_count = 0;
  l->order = tg__order_new(l->count, sequence_comes_before, l->items);
  if (!l->order) return false;
  for (uint32_t i = 0; i < l->count; i++) {
    const uint32_t owner = l->items[l->order[i]].owner;
    if (l->run_count && l->runs[l->run_count - 1].owner == owner) {
      l->runs[l->run_count - 1].count++;
      continue;
    }
    if (l->run_count == l->run_cap && !tg__grow((void **)&l->runs, &l->run_cap, l->run_count + 1, sizeof *l->runs))
      return false;
    l->runs[l->run_count++] = (struct tg__launched_run){owner, i, 1};
  }
  return true;
}

void tg__launched_free(struct tg__launched_list *l) {
  tg__free(l->items);
  tg__free(l->order);
  tg__free(l->runs);
  *l = (struct tg__launched_list){0};
}

/* ---- sequences of names ---------------------------------------------------------------------- */

static bool is_same(const struct tg__sequences *s, const struct tg__sequence *q, const uint32_t *names,
                    uint32_t count) {
  return q->count == count && memcmp(&s->names[q->first], names, count * sizeof *names) == 0;
}

uint32_t tg__sequences_find(struct tg__sequences *s, const struct tg__launched_list *l,
                            const struct tg__launched_run *run) {
  /* The names are written behind those kept, and stay there when they are new. */
  if (!tg__grow((void **)&s->names, &s->name_cap, s->name_count + run->count, sizeof *s->names)) return TG_NONE;
  uint32_t *names = &s->names[s->name_count];
  for (uint32_t i = 0; i < run->count; i++) names[i] = l->items[l->order[run->first + i]].name;
  uint32_t *slot = tg__map_slot(&s->by_hash, tg__hash(names, run->count * sizeof *names), TG_NONE);
  if (!slot) return TG_NONE;
  for (uint32_t k = *slot; k != TG_NONE; k = s->items[k].next)
    if (is_same(s, &s->items[k], names, run->count)) return k;
  if (!tg__grow((void **)&s->items, &s->cap, s->count + 1, sizeof *s->items)) return TG_NONE;
  s->items[s->count] = (struct tg__sequence){s->name_count, run->count, *slot};
  s->name_count += run->count;
  *slot = (uint32_t)s->count;
  return (uint32_t)s->count++;
}

void tg__sequences_free(struct tg__sequences *s) {
  tg__free(s->items);
  tg__free(s->names);
  tg__map_free(&s->by_hash);
  *s = (struct tg__sequences){0};
}

void tg__sequence_text(const struct tg__sequences *s, uint32_t sequence, const struct tg__columns *t, uint32_t head,
                       const char *joint, struct tg__out *out) {
  const struct tg__sequence *q = &s->items[sequence];
  if (head != TG_NONE) {
    const struct tg__str name = tg__name(t, head);
    tg__out_bytes(out, name.ptr, name.len);
  }
  for (uint32_t i = 0; i < q->count; i++) {
    const struct tg__str name = tg__name(t, s->names[q->first + i]);
    if (i || head != TG_NONE) tg__out_text(out, joint);
    tg__out_bytes(out, name.ptr, name.len);
  }
}
