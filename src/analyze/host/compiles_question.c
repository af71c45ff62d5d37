/* The question compiles: one row for each time that torch.compile compiled something, or for all times of a function.
 */
#include "analyze/host/compiles.h"

#include <stdio.h>

static const char *const outcomes[] = {"compiled", "left out", "limit"};

struct sum { /* of the rows of one function */
  struct tg__compile x;
  int64_t times;
};

static void put_code_place(struct tg_table *out, struct tg__str file, int64_t line) {
  char buf[256];
  if (file.len && line >= 0)
    tg__put_cstr(out, tg__compile_place(file, line, buf, sizeof buf));
  else
    tg__put_null(out);
}

static void put_text_if(struct tg_table *out, struct tg__str s) {
  if (s.len)
    tg__put_text(out, s);
  else
    tg__put_null(out);
}

static void put_compile(struct tg_table *out, const struct tg__columns *t, uint32_t rank, const struct tg__compile *x,
                        int64_t times) {
  tg__put_rank(out, t, rank);
  put_text_if(out, x->id);
  put_text_if(out, x->function);
  put_code_place(out, x->file, x->line);
  tg__put_cstr(out, x->is_backward ? "backward" : x->is_again ? "again" : "first");
  tg__put_cstr(out, outcomes[x->outcome]);
  tg__put_int(out, times);
  tg__put_int(out, x->start_ns);
  tg__put_int(out, x->dur_ns);
  tg__put_int(out, x->dynamo_ns);
  tg__put_int(out, x->backend_ns);
  tg__put_int(out, x->inductor_ns);
  tg__put_int(out, x->codegen_ns);
  tg__put_int(out, x->operators);
  tg__put_int(out, x->hits);
  tg__put_int(out, x->misses);
  put_text_if(out, x->guard);
  put_code_place(out, x->broken_in, x->broken_at);
  put_text_if(out, x->reason);
}

static int64_t added(int64_t a, int64_t b) { return a == TG_NULL_INT ? b : b == TG_NULL_INT ? a : a + b; }

/* The last guard and the worst end are the ones to know. */
static void add_to(struct sum *s, const struct tg__compile *x) {
  s->times++;
  s->x.dur_ns += x->dur_ns;
  s->x.dynamo_ns += x->dynamo_ns;
  s->x.backend_ns += x->backend_ns;
  s->x.inductor_ns += x->inductor_ns;
  s->x.codegen_ns += x->codegen_ns;
  s->x.hits = added(s->x.hits, x->hits);
  s->x.misses = added(s->x.misses, x->misses);
  s->x.is_again |= x->is_again;
  if (x->guard.len) s->x.guard = x->guard;
  if (x->outcome >= s->x.outcome && x->reason.len) {
    s->x.reason = x->reason;
    s->x.broken_in = x->broken_in;
    s->x.broken_at = x->broken_at;
  }
  if (x->outcome > s->x.outcome) s->x.outcome = x->outcome;
}

static bool is_same_function(const struct tg__compile *a, const struct tg__compile *b) {
  return a->line == b->line && a->is_backward == b->is_backward && tg__str_eq(a->function, b->function) &&
         tg__str_eq(a->file, b->file);
}

static bool put_functions(struct tg_table *out, const struct tg__columns *t, uint32_t rank,
                          const struct tg__compiles *c) {
  struct sum *const sums = tg__alloc((c->count + 1) * sizeof *sums);
  size_t count = 0;
  for (size_t i = 0; sums && i < c->count; i++) {
    size_t k = 0;
    while (k < count && !is_same_function(&sums[k].x, &c->items[i])) k++;
    if (k < count) {
      add_to(&sums[k], &c->items[i]);
      continue;
    }
    sums[count++] = (struct sum){.x = c->items[i], .times = 1};
  }
  for (size_t k = 0; k < count; k++) {
    if (sums[k].times > 1) sums[k].x.id = TG_STR("");
    put_compile(out, t, rank, &sums[k].x, sums[k].times);
  }
  tg__free(sums);
  return sums != NULL;
}

static enum tg_err put_compiles_of_rank(const struct tg__columns *t, uint32_t rank, bool by_function,
                                        struct tg_table *out) {
  struct tg__compiles c;
  tg__compiles_open(t, rank, &c);
  bool ok = !c.failed;
  for (size_t i = 0; ok && !by_function && i < c.count; i++) put_compile(out, t, rank, &c.items[i], 1);
  if (ok && by_function) ok = put_functions(out, t, rank, &c);
  if (c.lost)
    tg__table_note(out, "%lld more compilations, %.3f s together: dynamo kept no more of them", (long long)c.lost,
                   (double)c.lost_ns / 1e9);
  tg__compiles_close(&c);
  return ok ? TG_OK : TG_MEMORY;
}

enum tg_err tg__answer_compiles(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                struct tg_error *e) {
  static const char *const choices[] = {"compile", "function"};
  size_t by;
  enum tg_err err = tg__ask_choice(a, "by", choices, 2, &by, e);
  for (uint32_t r = 0; !err && r < t->rank_count; r++) {
    if (tg__ask_has_rank(a, r)) err = put_compiles_of_rank(t, r, by == 1, out);
    if (err) return tg__no_memory(e, "reading what was compiled");
  }
  return err;
}
