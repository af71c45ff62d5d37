/* The question leaks: what steps allocate and never free.
 *
 * Of n steps the first may set things up, and what the last took may still be in use. A place leaks when each step
 * between them took something there that is still alive when the last step has ended. */
#include "analyze/memory/memory_blocks.h"

enum { STEPS_LEAST = 4 };

struct site {
  uint32_t device, op, line, module; /* string id, texts */
  int64_t blocks, bytes;             /* taken by the steps that count, alive at the end */
  int64_t activation_bytes;          /* of these bytes, activations by category that are alive at the peak */
  uint32_t last_step, steps;         /* how many of these steps took some of it */
};
struct rank_steps {
  uint32_t first, count; /* in trace->steps */
};
struct work {
  struct tg__blocks *b;
  struct tg__strings *keys;
  struct site *sites;
  size_t site_count, site_cap;
  bool *at_peak;            /* by block */
  struct rank_steps *steps; /* by rank */
};

static struct rank_steps *list_steps(const struct tg__columns *t) {
  struct rank_steps *const steps = tg__alloc(((size_t)t->rank_count + 1) * sizeof *steps);
  for (uint32_t i = 0; steps && i < t->step_count; i++) {
    struct rank_steps *const r = &steps[t->steps[i].rank];
    if (!r->count) r->first = i;
    r->count++;
  }
  return steps;
}

/* The step that was the last to begin at ns or before; TG_NONE before the first. */
static uint32_t step_at(const struct tg__columns *t, const struct rank_steps *r, int64_t ns) {
  uint32_t low = 0;
  TG__PARTITION(low, r->count, i, t->steps[r->first + i].start_ns <= ns);
  return low ? low - 1 : TG_NONE;
}

/* TG_NONE on no memory. */
static uint32_t site_of(struct work *w, const struct tg__block *x) {
  const struct tg__columns *const t = w->b->t;
  const struct site s = {.device = x->device,
                         .op = x->made.op == TG_NONE ? TG_NONE : t->slices.name[x->made.op],
                         .line = tg__block_line(w->b, x),
                         .module = x->module,
                         .last_step = TG_NONE};
  const uint32_t key[] = {s.device, s.op, s.line, s.module};
  const uint32_t at = tg__strings_add(w->keys, (const char *)key, sizeof key);
  if (at == TG_NONE || at < w->site_count) return at;
  if (!tg__grow((void **)&w->sites, &w->site_cap, w->site_count + 1, sizeof *w->sites)) return TG_NONE;
  w->sites[w->site_count++] = s;
  return at;
}

/* In the order in which blocks were taken, so that the steps of a place come one after the other. */
static bool take_block(struct work *w, uint32_t block) {
  const struct tg__columns *const t = w->b->t;
  const struct tg__block *const x = &w->b->items[block];
  const struct rank_steps *const r = &w->steps[w->b->devices[x->device].rank];
  if (!tg__block_is_counted(w->b, x) || r->count < STEPS_LEAST || x->made_ns == TG_NULL_INT) return true;
  const uint32_t step = step_at(t, r, x->made_ns);
  if (step == TG_NONE || step == 0 || step == r->count - 1) return true;
  if (x->freed_ns != TG_NULL_INT && x->freed_ns <= t->steps[r->first + r->count - 1].end_ns) return true;
  const uint32_t at = site_of(w, x);
  if (at == TG_NONE) return false;
  struct site *const s = &w->sites[at];
  s->steps += s->last_step != step;
  s->last_step = step;
  s->blocks++;
  s->bytes = tg__sum_bytes(s->bytes, x->bytes);
  if (x->held == TG__HELD_ACTIVATION && w->at_peak[block])
    s->activation_bytes = tg__sum_bytes(s->activation_bytes, x->bytes);
  return true;
}

static bool leak_is_larger(uint32_t a, uint32_t b, const void *ctx) {
  const struct site *const x = &((const struct work *)ctx)->sites[a], *const y = &((const struct work *)ctx)->sites[b];
  return x->bytes != y->bytes ? x->bytes > y->bytes : a < b;
}

static void put_site(const struct work *w, const struct site *s, struct tg_table *out) {
  tg__put_block_device(out, w->b, s->device);
  tg__put_trace_text(out, w->b->t, s->op);
  tg__put_block_text(out, w->b, s->module);
  tg__put_block_text(out, w->b, s->line);
  tg__put_int(out, s->steps);
  tg__put_int(out, s->blocks);
  tg__put_int(out, s->bytes);
  tg__put_int(out, s->bytes / s->steps);
  tg__put_int(out, s->activation_bytes);
}

static bool put_sites(struct work *w, struct tg_table *out) {
  uint32_t *const order = tg__alloc((w->site_count + 1) * sizeof *order);
  size_t count = 0;
  for (uint32_t i = 0; order && i < w->site_count; i++) {
    const struct rank_steps *const r = &w->steps[w->b->devices[w->sites[i].device].rank];
    if (w->sites[i].steps == r->count - 2) order[count++] = i;
  }
  const bool sorted = order && tg__sort_index(order, count, leak_is_larger, w);
  for (size_t i = 0; sorted && i < count; i++) put_site(w, &w->sites[order[i]], out);
  if (sorted && !count)
    tg__table_note(out, "nothing grows: what the steps between the first and the last took was given back, or was not "
                        "taken in each of them");
  tg__free(order);
  return sorted;
}

/* Of the ranks with known blocks. */
static enum tg_err check_steps(const struct work *w, const struct tg__ask *a, struct tg_error *e) {
  uint32_t most = 0;
  for (size_t i = 0; i < w->b->device_count; i++) {
    const uint32_t rank = w->b->devices[i].rank, count = tg__ask_has_rank(a, rank) ? w->steps[rank].count : 0;
    most = count > most ? count : most;
  }
  if (most >= STEPS_LEAST) return TG_OK;
  return tg__fail(e, TG_NO_DATA, -1,
                  "the trace has %u step%s, and what grows from step to step shows in %d at least: record more of them "
                  "(call prof.step() in the loop)",
                  most, most == 1 ? "" : "s", STEPS_LEAST);
}

enum tg_err tg__answer_leaks(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                             struct tg_error *e) {
  struct work w = {0};
  enum tg_err err = tg__blocks_read(t, a, &w.b, e);
  if (!err) {
    w.steps = list_steps(t);
    w.keys = tg__strings_new();
    w.at_peak = tg__blocks_at_peak(w.b);
    bool ok = w.steps && w.keys && w.at_peak;
    if (ok) err = check_steps(&w, a, e);
    for (size_t i = 0; ok && !err && i < w.b->change_count; i++)
      ok = !w.b->changes[i].made || take_block(&w, w.b->changes[i].block);
    if (!err && !(ok && put_sites(&w, out))) err = tg__no_memory(e, "looking for leaks");
  }
  tg__free(w.steps);
  tg__free(w.at_peak);
  tg__free(w.sites);
  if (w.keys) tg__strings_free(w.keys);
  return err;
}
