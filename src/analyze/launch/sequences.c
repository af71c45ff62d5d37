/* The question sequences: which kernels follow one another below operators of a name, and how often. */
#include "analyze/launch/sequences.h"

#include <stdlib.h>

struct how {
  tg__pattern_order *order;
  bool events;
  size_t top, min_length;
};

/* text NULL: the pattern is named only by its place. */
static void put_pattern(const struct tg__patterns *p, const struct tg__pattern *item, size_t place, uint32_t event,
                        struct tg__out *text, struct tg_table *out) {
  tg__put_rank(out, p->t, item->rank);
  tg__put_int(out, (int64_t)place);
  tg__put_trace_text(out, p->t, item->name);
  if (text) {
    text->len = 0;
    tg__pattern_text(p, item, text);
    tg__put_text(out, (struct tg__str){text->buf, (uint32_t)text->len});
  } else {
    tg__put_null(out);
  }
  tg__put_int(out, p->sequences.items[item->sequence].count);
  tg__put_int(out, item->count);
  tg__put_int(out, item->kernel_ns);
  tg__put_int(out, item->op_ns);
  tg__put_int(out, event);
  tg__put_int(out, p->t->slices.start_ns[event]);
}

/* One row an event inside of one of the patterns; places by pattern, 0 = not wanted. */
static void put_events(const struct tg__patterns *p, const uint32_t *places, struct tg_table *out) {
  for (uint32_t i = 0; i < p->t->slices.count && !out->failed; i++) {
    const uint32_t k = tg__pattern_around(p, i);
    if (k != TG_NONE && places[k]) put_pattern(p, &p->items[k], places[k], i, NULL, out);
  }
}

/* The patterns in their order, or the events inside them. */
static bool put_patterns(const struct tg__patterns *p, const struct how *how, struct tg_table *out) {
  struct tg__out text = {0};
  uint32_t *order = tg__alloc((p->count + 1) * sizeof *order), *places = tg__alloc((p->count + 1) * sizeof *places);
  bool ok = order && places;
  const size_t kept = ok ? how->order(p, how->top, order) : SIZE_MAX;
  ok = kept != SIZE_MAX;
  uint32_t place = 0;
  for (size_t i = 0; ok && i < kept; i++) {
    const struct tg__pattern *item = &p->items[order[i]];
    place = i && item->rank == p->items[order[i - 1]].rank ? place + 1 : 1;
    places[order[i]] = place;
    if (!how->events) put_pattern(p, item, place, item->first, &text, out);
    ok = !text.err;
  }
  if (ok && how->events) put_events(p, places, out);
  tg__out_free(&text);
  tg__free(order);
  tg__free(places);
  return ok;
}

static enum tg_err read_count(const struct tg__ask *a, const char *name, size_t *out, struct tg_error *e) {
  const char *text = tg__ask_arg(a, name);
  char *end;
  const long long n = strtoll(text, &end, 10);
  if (end == text || *end || n < 0 || n > UINT32_MAX)
    return tg__fail(e, TG_USAGE, -1, "%s=%.60s is not a whole number", name, text);
  *out = (size_t)n;
  return TG_OK;
}

static enum tg_err read_how(const struct tg__ask *a, struct how *how, struct tg_error *e) {
  static const char *const bys[] = {"pattern", "event"};
  size_t events = 0;
  enum tg_err err = tg__ask_choice(a, "by", bys, 2, &events, e);
  if (!err) err = read_count(a, "min_length", &how->min_length, e);
  if (!err) err = read_count(a, "top_k", &how->top, e);
  how->events = events;
  if (!how->min_length) how->min_length = 1;
  if (!how->top) how->top = SIZE_MAX;
  return err;
}

enum tg_err tg__sequences(const struct tg__columns *t, const struct tg__ask *a, const struct tg__pattern_source *source,
                          tg__pattern_order *order, struct tg_table *out, struct tg_error *e) {
  struct how how = {.order = order};
  enum tg_err err = read_how(a, &how, e);
  if (err) return err;
  struct tg__patterns p = {0};
  const char *op = tg__ask_arg(a, "op");
  if (!op) op = "";
  err = tg__patterns_find(&p, t, a, op, how.min_length, source);
  if (!err && !put_patterns(&p, &how, out)) err = TG_MEMORY;
  if (!err && !p.any)
    tg__table_note(out, "no operator has '%.80s' in its name", op);
  else if (!err && !p.count)
    tg__table_note(out,
                   "none of these operators launched as many kernels, copies and memsets as min_length=%zu asks for",
                   how.min_length);
  tg__patterns_free(&p);
  return err ? tg__no_memory(e, "counting sequences of kernels") : TG_OK;
}

enum tg_err tg__answer_sequences(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                 struct tg_error *e) {
  const struct tg__pattern_source exact = tg__patterns_source(a);
  return tg__sequences(t, a, &exact, tg__patterns_top, out, e);
}
