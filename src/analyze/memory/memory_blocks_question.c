/* The question memory_blocks: each block of memory, or blocks of a kind together. */
#include "analyze/memory/memory_blocks.h"

enum by { BY_BLOCK, BY_CATEGORY, BY_OP, BY_MODULE, BY_LAYER, BY_LINE };

struct group {
  uint32_t device, key; /* key: id of what they have in common, TG_NONE = nothing known */
  uint8_t held;
  int64_t blocks, bytes, now, peak, at_peak, longest_ns;
};
struct work {
  struct tg__blocks *b;
  enum by by;
  uint8_t only; /* category asked for; TG__HELD_COUNT = all */
  bool *at_peak;
  struct group *groups;
  size_t group_count, group_cap;
  uint32_t *group_of; /* by block */
  struct tg__strings *keys;
};

static bool is_asked(const struct work *w, const struct tg__block *x) {
  return tg__block_is_counted(w->b, x) && (w->only == TG__HELD_COUNT || x->held == w->only);
}

static uint32_t key_of(struct work *w, const struct tg__block *x) {
  const struct tg__columns *const t = w->b->t;
  switch (w->by) {
  case BY_OP:
    return x->made.op == TG_NONE ? TG_NONE : t->slices.name[x->made.op];
  case BY_MODULE:
    return x->module;
  case BY_LAYER: {
    if (x->module == TG_NONE) return TG_NONE;
    const struct tg__str layer = tg__layer_of(tg__strings_get(w->b->texts, x->module));
    return tg__strings_add(w->b->texts, layer.ptr, layer.len);
  }
  case BY_LINE:
    return tg__block_line(w->b, x);
  default:
    return TG_NONE;
  }
}

/* ---- groups ---------------------------------------------------------------------------------- */

static uint32_t block_group_of(struct work *w, uint32_t block) {
  const struct tg__block *const x = &w->b->items[block];
  const uint32_t key = key_of(w, x), words[] = {x->device, key, x->held};
  const uint32_t at = tg__strings_add(w->keys, (const char *)words, sizeof words);
  if (at == TG_NONE || at < w->group_count) return at;
  if (!tg__grow((void **)&w->groups, &w->group_cap, w->group_count + 1, sizeof *w->groups)) return TG_NONE;
  w->groups[w->group_count++] =
      (struct group){.device = x->device, .key = key, .held = x->held, .longest_ns = TG_NULL_INT};
  return at;
}

static void add_to_group(struct work *w, uint32_t block) {
  const struct tg__block *const x = &w->b->items[block];
  struct group *const g = &w->groups[w->group_of[block]];
  g->blocks++;
  g->bytes = tg__sum_bytes(g->bytes, x->bytes);
  if (w->at_peak[block]) g->at_peak = tg__sum_bytes(g->at_peak, x->bytes);
  if (x->made_ns == TG_NULL_INT) g->now = tg__sum_bytes(g->now, x->bytes);
  const bool both = x->made_ns != TG_NULL_INT && x->freed_ns != TG_NULL_INT;
  const int64_t held_ns = both ? tg__time_between(x->made_ns, x->freed_ns) : TG_NULL_INT;
  if (held_ns > g->longest_ns) g->longest_ns = held_ns;
}

static bool make_groups(struct work *w) {
  w->keys = tg__strings_new();
  w->group_of = tg__alloc((w->b->count + 1) * sizeof *w->group_of);
  if (!w->keys || !w->group_of) return false;
  for (size_t i = 0; i < w->b->count; i++) {
    w->group_of[i] = TG_NONE;
    if (!is_asked(w, &w->b->items[i])) continue;
    w->group_of[i] = block_group_of(w, (uint32_t)i);
    if (w->group_of[i] == TG_NONE) return false;
    add_to_group(w, (uint32_t)i);
  }
  for (size_t k = 0; k < w->group_count; k++) w->groups[k].peak = w->groups[k].now;
  for (size_t i = 0; i < w->b->change_count; i++) {
    const struct tg__block_change *const c = &w->b->changes[i];
    if (w->group_of[c->block] == TG_NONE) continue;
    struct group *const g = &w->groups[w->group_of[c->block]];
    g->now = tg__sum_bytes(g->now, c->made ? w->b->items[c->block].bytes : -w->b->items[c->block].bytes);
    if (g->now > g->peak) g->peak = g->now;
  }
  return true;
}

static bool group_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct group *const x = &((const struct work *)ctx)->groups[a], *const y =
                                                                            &((const struct work *)ctx)->groups[b];
  if (x->peak != y->peak) return x->peak > y->peak;
  return x->bytes != y->bytes ? x->bytes > y->bytes : a < b;
}

static void put_group(const struct work *w, const struct group *g, struct tg_table *out) {
  tg__put_block_device(out, w->b, g->device);
  tg__put_cstr(out, tg__held_names[g->held]);
  tg__put_null(out);
  tg__put_null(out);
  tg__put_trace_text(out, w->b->t, w->by == BY_OP ? g->key : TG_NONE);
  tg__put_block_text(out, w->b, w->by == BY_MODULE || w->by == BY_LAYER ? g->key : TG_NONE);
  tg__put_block_text(out, w->b, w->by == BY_LINE ? g->key : TG_NONE);
  const int64_t cells[] = {g->blocks, g->bytes, g->peak, g->at_peak, TG_NULL_INT, TG_NULL_INT, g->longest_ns};
  for (size_t k = 0; k < sizeof cells / sizeof *cells; k++) tg__put_int(out, cells[k]);
  for (int k = 0; k < 4; k++) tg__put_null(out);
}

static bool put_block_groups(struct work *w, struct tg_table *out) {
  if (!make_groups(w)) return false;
  uint32_t *const order = tg__order_new(w->group_count, group_before, w);
  const bool sorted = order != NULL;
  for (size_t i = 0; sorted && i < w->group_count; i++) put_group(w, &w->groups[order[i]], out);
  tg__free(order);
  return sorted;
}

/* ---- single blocks --------------------------------------------------------------------------- */

static bool block_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__block *const x = &((const struct work *)ctx)->b->items[a], *const y = &((const struct work *)ctx)
                                                                                              ->b->items[b];
  return x->bytes != y->bytes ? x->bytes > y->bytes : a < b;
}

static uint32_t slice_name(const struct work *w, uint32_t slice) {
  return slice == TG_NONE ? TG_NONE : w->b->t->slices.name[slice];
}

static void put_block(struct work *w, uint32_t block, struct tg_table *out) {
  const struct tg__block *const x = &w->b->items[block];
  const bool both = x->made_ns != TG_NULL_INT && x->freed_ns != TG_NULL_INT;
  tg__put_block_device(out, w->b, x->device);
  tg__put_cstr(out, tg__held_names[x->held]);
  tg__put_cstr(out, tg__basis_names[x->basis]);
  tg__put_trace_text(out, w->b->t, x->tensor);
  tg__put_trace_text(out, w->b->t, slice_name(w, x->made.op));
  tg__put_block_text(out, w->b, x->module);
  tg__put_block_text(out, w->b, tg__block_line(w->b, x));
  const int64_t cells[] = {1,
                           x->bytes,
                           x->bytes,
                           w->at_peak[block] ? x->bytes : 0,
                           x->made_ns,
                           x->freed_ns,
                           both ? tg__time_between(x->made_ns, x->freed_ns) : TG_NULL_INT};
  for (size_t k = 0; k < sizeof cells / sizeof *cells; k++) tg__put_int(out, cells[k]);
  tg__put_trace_text(out, w->b->t, slice_name(w, x->freed.op));
  tg__put_trace_text(out, w->b->t, slice_name(w, tg__block_forward_op(w->b, x)));
  tg__put_int(out, x->track);
  if (x->addr >> 63)
    tg__put_null(out); /* it was given as a text */
  else
    tg__put_int(out, (int64_t)x->addr);
}

static bool put_blocks(struct work *w, struct tg_table *out) {
  uint32_t *const order = tg__alloc((w->b->count + 1) * sizeof *order);
  size_t count = 0;
  for (size_t i = 0; order && i < w->b->count; i++)
    if (is_asked(w, &w->b->items[i])) order[count++] = (uint32_t)i;
  const bool sorted = order && tg__sort_index(order, count, block_before, w);
  for (size_t i = 0; sorted && i < count; i++) put_block(w, order[i], out);
  tg__free(order);
  return sorted;
}

/* ---- answering ------------------------------------------------------------------------------- */

static enum tg_err parse(const struct tg__ask *a, struct work *w, struct tg_error *e) {
  static const char *const ways[] = {[BY_BLOCK] = "block",   [BY_CATEGORY] = "category", [BY_OP] = "op",
                                     [BY_MODULE] = "module", [BY_LAYER] = "layer",       [BY_LINE] = "line"};
  const char *categories[TG__HELD_COUNT + 1];
  size_t by, only;
  memcpy(categories, tg__held_names, sizeof tg__held_names);
  categories[TG__HELD_COUNT] = "all";
  enum tg_err err = tg__ask_choice(a, "by", ways, sizeof ways / sizeof *ways, &by, e);
  if (!err) err = tg__ask_choice(a, "category", categories, TG__HELD_COUNT + 1, &only, e);
  if (err) return err;
  w->by = (enum by)by;
  w->only = (uint8_t)only;
  return TG_OK;
}

enum tg_err tg__answer_memory_blocks(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                     struct tg_error *e) {
  struct work w = {0};
  enum tg_err err = parse(a, &w, e);
  if (!err) err = tg__blocks_read(t, a, &w.b, e);
  if (!err) {
    w.at_peak = tg__blocks_at_peak(w.b);
    const bool done = w.at_peak && (w.by == BY_BLOCK ? put_blocks(&w, out) : put_block_groups(&w, out));
    if (!done) err = tg__no_memory(e, "listing blocks");
    tg__blocks_notes(w.b, out);
  }
  tg__free(w.at_peak);
  tg__free(w.groups);
  tg__free(w.group_of);
  if (w.keys) tg__strings_free(w.keys);
  return err;
}
