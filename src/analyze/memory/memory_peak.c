/* The question memory with by=peak and by=category: what was alive when a device had most in use. */
#include "analyze/memory/memory_blocks.h"

struct sums { /* of one category on one device */
  int64_t events, allocations, alloc_bytes, free_bytes, at_peak, now, peak;
};

static void put_peak_ints(struct tg_table *out, const int64_t *cells, size_t count) {
  for (size_t i = 0; i < count; i++) tg__put_int(out, cells[i]);
}
static void put_peak_nulls(struct tg_table *out, int count) {
  while (count-- > 0) tg__put_null(out);
}

/* ---- by=peak --------------------------------------------------------------------------------- */

static bool peak_is_larger(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__block *const x = &((const struct tg__blocks *)ctx)->items[a], *const y =
                                                                                     &((const struct tg__blocks *)ctx)
                                                                                          ->items[b];
  if (x->device != y->device) return x->device < y->device;
  return x->bytes != y->bytes ? x->bytes > y->bytes : a < b;
}

static void put_peak_text(struct tg_table *out, const struct tg__blocks *b, uint32_t text) {
  if (text == TG_NONE)
    tg__put_null(out);
  else
    tg__put_text(out, tg__strings_get(b->texts, text));
}

static void put_block(struct tg__blocks *b, const struct tg__block *x, struct tg_table *out) {
  const bool made = x->made_ns != TG_NULL_INT;
  tg__put_block_device(out, b, x->device);
  tg__put_trace_text(out, b->t, x->made.op == TG_NONE ? TG_NONE : b->t->slices.name[x->made.op]);
  const int64_t cells[] = {x->made_ns, made, made, made ? x->bytes : 0, 0, x->bytes};
  put_peak_ints(out, cells, sizeof cells / sizeof *cells);
  put_peak_nulls(out, 7);
  tg__put_cstr(out, tg__held_names[x->held]);
  tg__put_trace_text(out, b->t, x->tensor);
  put_peak_text(out, b, x->module);
  put_peak_text(out, b, tg__block_line(b, x));
}

static bool put_alive(struct tg__blocks *b, struct tg_table *out) {
  bool *const alive = tg__blocks_at_peak(b);
  uint32_t *const order = tg__alloc((b->count + 1) * sizeof *order);
  size_t count = 0;
  for (size_t i = 0; alive && order && i < b->count; i++)
    if (alive[i] && tg__block_is_counted(b, &b->items[i])) order[count++] = (uint32_t)i;
  const bool ok = alive && order && tg__sort_index(order, count, peak_is_larger, b);
  for (size_t i = 0; ok && i < count; i++) put_block(b, &b->items[order[i]], out);
  tg__free(alive);
  tg__free(order);
  return ok;
}

/* ---- by=category ----------------------------------------------------------------------------- */

static void sum_up_peak(const struct tg__blocks *b, const bool *alive, struct sums *sums) {
  for (size_t i = 0; i < b->count; i++) {
    const struct tg__block *const x = &b->items[i];
    struct sums *const s = &sums[x->device * TG__HELD_COUNT + x->held];
    if (alive[i]) s->at_peak = tg__sum_bytes(s->at_peak, x->bytes);
    if (x->made_ns == TG_NULL_INT) s->now = tg__sum_bytes(s->now, x->bytes);
  }
  for (size_t i = 0; i < b->device_count * TG__HELD_COUNT; i++) sums[i].peak = sums[i].now;
  for (size_t i = 0; i < b->change_count; i++) {
    const struct tg__block *const x = &b->items[b->changes[i].block];
    struct sums *const s = &sums[x->device * TG__HELD_COUNT + x->held];
    s->events++;
    s->allocations += b->changes[i].made;
    int64_t *const sum = b->changes[i].made ? &s->alloc_bytes : &s->free_bytes;
    *sum = tg__sum_bytes(*sum, x->bytes);
    s->now = tg__sum_bytes(s->now, b->changes[i].made ? x->bytes : -x->bytes);
    if (s->now > s->peak) s->peak = s->now;
  }
}

static bool put_categories(const struct tg__blocks *b, struct tg_table *out) {
  bool *const alive = tg__blocks_at_peak(b);
  struct sums *const sums = tg__alloc((b->device_count * TG__HELD_COUNT + 1) * sizeof *sums);
  const bool ok = alive && sums;
  if (ok) sum_up_peak(b, alive, sums);
  for (uint32_t d = 0; ok && d < b->device_count; d++) {
    for (uint32_t h = 0; h < TG__HELD_COUNT && b->devices[d].wanted; h++) {
      const struct sums *const s = &sums[d * TG__HELD_COUNT + h];
      if (!s->events && !s->peak) continue;
      tg__put_block_device(out, b, d);
      tg__put_null(out);
      const int64_t cells[] = {b->devices[d].peak_ns, s->events,  s->allocations, s->alloc_bytes,
                               s->free_bytes,         s->at_peak, s->peak};
      put_peak_ints(out, cells, sizeof cells / sizeof *cells);
      put_peak_nulls(out, 6);
      tg__put_cstr(out, tg__held_names[h]);
      put_peak_nulls(out, 3);
    }
  }
  tg__free(alive);
  tg__free(sums);
  return ok;
}

enum tg_err tg__memory_put_peak(const struct tg__columns *t, const struct tg__ask *a, bool by_category,
                                struct tg_table *out, struct tg_error *e) {
  struct tg__blocks *b = NULL;
  enum tg_err err = tg__blocks_read(t, a, &b, e);
  if (!err) {
    if (!(by_category ? put_categories(b, out) : put_alive(b, out))) err = tg__no_memory(e, "looking for the peak");
    tg__blocks_notes(b, out);
  }
  return err;
}
