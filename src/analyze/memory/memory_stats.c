/* The question memory_stats: counters as torch.cuda.memory_stats() keeps them, from the history of the allocator. */
#include "analyze/memory/memory_history.h"

enum metric { ALLOCATION, ALLOCATED_BYTES, ACTIVE, ACTIVE_BYTES, SEGMENT, RESERVED_BYTES, OOMS, METRICS };
static const char *const metric_names[METRICS] = {"allocation", "allocated_bytes", "active",  "active_bytes",
                                                  "segment",    "reserved_bytes",  "num_ooms"};
enum pool { ALL, LARGE, SMALL, POOLS };
static const char *const pool_names[POOLS] = {"all", "large_pool", "small_pool"};
/* Up to 1 MiB a block lies in a small segment, and those have 2 MiB (c10's CUDACachingAllocator: kSmallSize, kSmallBuffer). */
enum { SMALL_BLOCK = 1 << 20, SMALL_SEGMENT = 2 << 20 };

struct counter {
  int64_t current, peak, allocated, freed;
};
struct stats {
  struct counter of[METRICS][POOLS];
  struct tg__map active; /* address → index into sizes + 1; 0 = no longer */
  int64_t *sizes;
  size_t size_count, size_cap;
  bool completes; /* the history says when a block can be used again; else that is when it is given back */
};

static void change(struct stats *s, enum metric m, enum pool pool, int64_t by) {
  for (unsigned k = 0; k < 2; k++) {
    struct counter *const c = &s->of[m][k ? pool : ALL];
    c->current += by;
    if (by > 0)
      c->allocated += by;
    else
      c->freed -= by;
    if (c->current > c->peak) c->peak = c->current;
  }
}

static bool begin_active(struct stats *s, const struct tg__alloc_event *x, enum pool pool) {
  if (!tg__grow((void **)&s->sizes, &s->size_cap, s->size_count + 1, sizeof *s->sizes)) return false;
  s->sizes[s->size_count++] = x->bytes;
  change(s, ACTIVE, pool, 1);
  change(s, ACTIVE_BYTES, pool, x->bytes);
  return tg__map_put(&s->active, (uint64_t)x->addr, (uint32_t)s->size_count);
}
static bool end_active(struct stats *s, int64_t addr) {
  const uint32_t at = tg__map_get(&s->active, (uint64_t)addr);
  if (at == TG_NONE || at == 0) return true;
  const int64_t bytes = s->sizes[at - 1];
  const enum pool pool = bytes <= SMALL_BLOCK ? SMALL : LARGE;
  change(s, ACTIVE, pool, -1);
  change(s, ACTIVE_BYTES, pool, -bytes);
  return tg__map_put(&s->active, (uint64_t)addr, 0);
}

static bool count(const struct tg_trace *t, struct stats *s, const struct tg__alloc_event *x) {
  const struct tg__str name = tg__name(t, t->marks.name[x->mark]);
  if (x->is_memory) {
    const int64_t bytes = x->bytes < 0 ? -x->bytes : x->bytes;
    const enum pool pool = bytes <= SMALL_BLOCK ? SMALL : LARGE;
    change(s, ALLOCATION, pool, x->bytes < 0 ? -1 : 1);
    change(s, ALLOCATED_BYTES, pool, x->bytes);
    if (x->bytes >= 0) return begin_active(s, x, pool);
    return s->completes || end_active(s, x->addr);
  }
  const enum pool pool = x->bytes <= SMALL_SEGMENT ? SMALL : LARGE;
  if (t->marks.name[x->mark] == TG__K_OUT_OF_MEMORY) change(s, OOMS, LARGE, 1);
  if (tg__str_eq(name, TG_STR("free_completed"))) return end_active(s, x->addr);
  const bool comes = tg__str_eq(name, TG_STR("segment_alloc")) || tg__str_eq(name, TG_STR("segment_map"));
  if (!comes && !tg__str_eq(name, TG_STR("segment_free")) && !tg__str_eq(name, TG_STR("segment_unmap"))) return true;
  change(s, SEGMENT, pool, comes ? 1 : -1);
  change(s, RESERVED_BYTES, pool, comes ? x->bytes : -x->bytes);
  return true;
}

/* What was reserved before the history begins: the allocator's total at the first event, but for that event itself. */
static void begin_reserved(const struct tg_trace *t, struct stats *s, const struct tg__alloc_event *x) {
  int64_t before = x->reserved == TG_NULL_INT ? 0 : x->reserved;
  if (tg__str_eq(tg__name(t, t->marks.name[x->mark]), TG_STR("segment_alloc"))) before -= x->bytes;
  for (unsigned k = 0; k < POOLS && before > 0; k++)
    if (k != SMALL) s->of[RESERVED_BYTES][k] = (struct counter){before, before, before, 0};
}

static void put_stats(const struct tg_trace *t, const struct tg__alloc_device *d, const struct stats *s, struct tg_table *out) {
  char buf[TG__DEVICE_NAME];
  for (unsigned m = 0; m < METRICS; m++)
    for (unsigned k = 0; k < (m == OOMS ? 1 : POOLS); k++) {
      const struct counter *const c = &s->of[m][k];
      tg__put_rank(out, t, d->rank);
      tg__put_cstr(out, tg__memory_device_name(d->type, d->id, buf));
      tg__put_cstr(out, metric_names[m]);
      tg__put_cstr(out, pool_names[k]);
      tg__put_int(out, c->current);
      tg__put_int(out, c->peak);
      tg__put_int(out, c->allocated);
      tg__put_int(out, c->freed);
    }
}

static bool answer_device(const struct tg_trace *t, const struct tg__alloc_history *h, uint32_t device, struct tg_table *out) {
  struct stats s = {0};
  bool ok = true, first = true;
  for (size_t i = 0; i < h->count; i++)
    s.completes |= h->events[i].device == device && tg__str_eq(tg__name(t, t->marks.name[h->events[i].mark]), TG_STR("free_completed"));
  for (size_t i = 0; i < h->count && ok; i++) {
    if (h->events[i].device != device) continue;
    if (first) begin_reserved(t, &s, &h->events[i]);
    first = false;
    ok = count(t, &s, &h->events[i]);
  }
  if (ok && !first) put_stats(t, &h->devices[device], &s, out);
  tg__map_free(&s.active);
  tg__free(s.sizes);
  return ok;
}

enum tg_err tg__answer_memory_stats(const struct tg_trace *t, const struct tg__ask *a, struct tg_table *out, struct tg_error *e) {
  struct tg__alloc_history h;
  enum tg_err err = tg__alloc_history_read(t, a, &h, e);
  for (uint32_t d = 0; d < h.device_count && !err; d++)
    if (!answer_device(t, &h, d, out)) err = tg__fail(e, TG_MEMORY, -1, "out of memory while counting allocations");
  if (!err)
    tg__table_note(out,
                   "counted over the history alone: what came before it shows as its state at the beginning, split by size into pools");
  tg__alloc_history_free(&h);
  return err;
}
