/* summary: lists of rank summaries in memory, and the trace that stands for one. */
#include "trace/summary.h"

#include "trace/import.h"

struct tg__summaries *tg__summaries_new(void) {
  struct tg__summaries *const s = tg__alloc(sizeof *s);
  if (!s) return NULL;
  s->strings = tg__strings_new();
  if (s->strings) return s;
  tg__free(s);
  return NULL;
}

void tg__rank_summary_free(struct tg__rank_summary *r) {
  tg__free(r->steps);
  tg__free(r->collectives);
  tg__free(r->totals);
  tg__free(r->nodes);
  tg__free(r->node_kernels);
}

void tg__summaries_free(struct tg__summaries *s) {
  if (!s) return;
  for (uint32_t i = 0; i < s->count; i++) tg__rank_summary_free(&s->ranks[i]);
  tg__free(s->ranks);
  tg__strings_free(s->strings);
  tg__free(s);
}

static bool rank_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__summaries *const s = ctx;
  const struct tg__rank_summary *const x = &s->ranks[a], *const y = &s->ranks[b];
  if (x->number != y->number) return x->number < y->number;
  return tg__str_cmp(tg__strings_get(s->strings, x->path), tg__strings_get(s->strings, y->path)) < 0;
}

bool tg__summaries_sort(struct tg__summaries *s) {
  return tg__sort_items((void **)&s->ranks, s->count, sizeof *s->ranks, rank_before, s);
}

/* ---- a trace that stands for them ------------------------------------------------------------ */

/* Ranks that do not say their number get the smallest free ones, in order of their files. */
static bool number_ranks(struct tg__summaries *s) {
  struct tg__map taken = {0};
  bool done = true;
  int64_t next = 0;
  for (uint32_t i = 0; i < s->count && done; i++)
    if (s->ranks[i].number_is_given) done = tg__map_put(&taken, (uint64_t)s->ranks[i].number, 1);
  for (uint32_t i = 0; i < s->count && done; i++) {
    if (s->ranks[i].number_is_given) continue;
    while (tg__map_get(&taken, (uint64_t)next) != TG_NONE) next++;
    s->ranks[i].number = next++;
  }
  tg__map_free(&taken);
  return done;
}

/* The same rank twice, as when a summary is merged with one it went into: once is enough. */
static bool is_again(const struct tg__rank_summary *a, const struct tg__rank_summary *b) {
  return a->path == b->path && a->number == b->number && a->base_ns == b->base_ns && a->first_ns == b->first_ns &&
         a->last_ns == b->last_ns && a->events == b->events && a->collective_count == b->collective_count;
}

static void drop_copies(struct tg__summaries *s) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < s->count; i++) {
    if (kept && is_again(&s->ranks[kept - 1], &s->ranks[i]))
      tg__rank_summary_free(&s->ranks[i]);
    else
      s->ranks[kept++] = s->ranks[i];
  }
  s->count = kept;
}

static bool fill_ranks(struct tg__columns *t, const struct tg__summaries *s) {
  int64_t least = INT64_MAX;
  t->ranks = tg__alloc(((size_t)s->count + 1) * sizeof *t->ranks);
  if (!t->ranks) return false;
  for (uint32_t i = s->count; i-- > 0;) {
    if (s->ranks[i].base_ns < least) least = s->ranks[i].base_ns;
    if (s->ranks[i].step_count) t->step_kind = s->ranks[i].step_kind;
  }
  for (uint32_t i = 0; i < s->count; i++) {
    const struct tg__rank_summary *const from = &s->ranks[i];
    const struct tg__str path = tg__strings_get(s->strings, from->path);
    t->ranks[i] = (struct tg__rank){.path = tg__strings_add(t->strings, path.ptr, path.len),
                                    .number = from->number,
                                    .number_is_given = from->number_is_given,
                                    .world_size = from->world_size,
                                    .base_ns = from->base_ns,
                                    .clock_offset_ns = from->base_ns - least,
                                    .json_bytes = from->json_bytes,
                                    .step_kind = from->step_kind};
    if (t->ranks[i].path == TG_NONE) return false;
    t->rank_count++;
  }
  return true;
}

enum tg_err tg__trace_of_summaries(struct tg__summaries *s, const char *path, struct tg__columns **out,
                                   struct tg_error *e) {
  struct tg__columns *const t = tg__trace_new();
  *out = NULL;
  if (t) t->has_no_events = true;
  bool done = t && number_ranks(s) && tg__summaries_sort(s);
  if (done) drop_copies(s);
  if (done && fill_ranks(t, s) && (t->path = tg__arena_copy(&t->arena, path, strlen(path))) != NULL) {
    *out = t;
    return TG_OK;
  }
  if (t) tg__trace_free(t);
  return tg__no_memory(e, "putting ranks together");
}
