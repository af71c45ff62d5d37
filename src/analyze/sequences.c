/* The question sequences: which kernels follow one another below operators of a name, and how often. */
#include "analyze/sequences.h"

#include <stdlib.h>

struct order {
  const struct tg__patterns *p;
  const struct tg_table *table; /* with the patterns as rows, in their order */
  size_t text;                  /* its column pattern */
  bool hta;
};

static bool comes_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct order *o = ctx;
  const struct tg__pattern *x = &o->p->items[a], *y = &o->p->items[b];
  const int64_t *start = o->p->t->slices.start_ns;
  if (x->rank != y->rank) return x->rank < y->rank;
  if (x->count != y->count) return x->count > y->count;
  if (!o->hta && x->kernel_ns != y->kernel_ns) return x->kernel_ns > y->kernel_ns;
  if (!o->hta && start[x->first] != start[y->first]) return start[x->first] < start[y->first];
  const uint32_t *texts = o->table->columns[o->text].texts;
  return tg__str_cmp(tg__strings_get(o->table->strings, texts[a]), tg__strings_get(o->table->strings, texts[b])) < 0;
}

static void put_pattern(const struct tg__patterns *p, const struct tg__pattern *item, struct tg__out *text, struct tg_table *out) {
  text->len = 0;
  tg__pattern_text(p, item, text);
  tg__put_rank(out, p->t, item->rank);
  tg__put_trace_text(out, p->t, item->name);
  tg__put_text(out, (struct tg__str){text->buf, (uint32_t)text->len});
  tg__put_int(out, p->sequences.items[item->sequence].count);
  tg__put_int(out, item->count);
  tg__put_int(out, item->kernel_ns);
  tg__put_int(out, item->op_ns);
  tg__put_int(out, item->first);
  tg__put_int(out, p->t->slices.start_ns[item->first]);
  tg__put_null(out);
}

/* The first `most` of each rank, moved to the front; what is looked at was not written over yet, as kept <= i. */
static size_t cut(const struct tg__patterns *p, uint32_t *order, size_t most) {
  size_t kept = 0, of_rank = 0;
  for (size_t i = 0; i < p->count; i++) {
    of_rank = i && p->items[order[i]].rank == p->items[order[i - 1]].rank ? of_rank + 1 : 0;
    if (of_rank < most) order[kept++] = order[i];
  }
  return kept;
}

/* by=event: an operator or kernel and the place of its pattern; patterns that were cut have place 0. */
static bool put_members(const struct tg__patterns *p, const uint32_t *order, size_t kept, struct tg_table *out) {
  uint32_t *place = tg__alloc((p->count + 1) * sizeof *place);
  for (size_t i = 0; place && i < kept; i++) place[order[i]] = (uint32_t)i + 1;
  tg__table_keep_rows(out, NULL, 0);
  for (size_t i = 0; place && i < p->member_count && !out->failed; i++) {
    const struct tg__pattern_member *m = &p->members[i];
    if (!place[m->pattern]) continue;
    tg__put_rank(out, p->t, p->items[m->pattern].rank);
    tg__put_trace_text(out, p->t, p->t->slices.name[m->slice]);
    for (int k = 0; k < 5; k++) tg__put_null(out); /* figures of the pattern: by=pattern has them */
    tg__put_int(out, m->slice);
    tg__put_int(out, p->t->slices.start_ns[m->slice]);
    tg__put_int(out, place[m->pattern]);
  }
  tg__free(place);
  return place != NULL;
}

static bool put_patterns(const struct tg__patterns *p, bool hta, size_t most, struct tg_table *out) {
  struct tg__out text = {0};
  uint32_t *order = tg__alloc((p->count + 1) * sizeof *order);
  bool ok = order != NULL;
  for (size_t i = 0; ok && i < p->count; i++) {
    put_pattern(p, &p->items[i], &text, out);
    order[i] = (uint32_t)i;
    ok = text.err == TG_OK && !out->failed;
  }
  const struct order by = {p, out, tg__table_column_index(out, "pattern"), hta};
  ok = ok && tg__sort_index(order, p->count, comes_before, &by);
  const size_t kept = ok ? cut(p, order, most) : 0;
  if (ok && p->keeps_members) ok = put_members(p, order, kept, out);
  else if (ok) tg__table_keep_rows(out, order, kept);
  tg__out_free(&text);
  tg__free(order);
  return ok;
}

static enum tg_err read_count(const struct tg__ask *a, const char *name, size_t *out, struct tg_error *e) {
  const char *text = tg__ask_arg(a, name);
  char *end;
  const long long n = strtoll(text, &end, 10);
  if (end == text || *end || n < 0 || n > UINT32_MAX) return tg__fail(e, TG_USAGE, -1, "%s=%.60s is not a whole number", name, text);
  *out = (size_t)n;
  return TG_OK;
}

enum tg_err tg__answer_sequences(const struct tg_trace *t, const struct tg__ask *a, struct tg_table *out, struct tg_error *e) {
  static const char *const choices[] = {"exact", "hta"};
  static const char *const whats[] = {"pattern", "event"};
  size_t hta, by, min_length, top;
  enum tg_err err = tg__ask_choice(a, "rules", choices, 2, &hta, e);
  if (!err) err = tg__ask_choice(a, "by", whats, 2, &by, e);
  if (!err) err = read_count(a, "min_length", &min_length, e);
  if (!err) err = read_count(a, "top_k", &top, e);
  if (err) return err;
  struct tg__patterns p = {.keeps_members = by == 1};
  struct tg__hta h = {0};
  const char *op = tg__ask_arg(a, "op");
  if (hta) err = tg__hta_open(&h, t, a->rank, TG__HTA_WITHOUT_LAST_STEP);
  if (!err) err = tg__patterns_find(&p, t, a, op ? op : "", min_length ? min_length : 1, hta ? &h : NULL);
  if (!err && !put_patterns(&p, hta, top ? top : SIZE_MAX, out)) err = TG_MEMORY;
  if (!err && !p.any) tg__table_note(out, "no operator has '%.80s' in its name", op ? op : "");
  tg__patterns_free(&p);
  tg__hta_close(&h);
  return err ? tg__fail(e, err, -1, "out of memory while counting sequences of kernels") : TG_OK;
}
