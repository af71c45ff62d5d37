/* The question segments: the allocator's segments, blocks and pools in a memory snapshot, at the moment it was
 * taken. */
#include "analyze/memory/memory_history.h"

enum by { BY_SEGMENT, BY_BLOCK, BY_POOL };

struct segment {
  uint32_t mark, rank, pool, kind; /* string ids */
  int64_t device_type, device, address, total, allocated, active, requested, free, largest_free, blocks, segments;
};
struct work {
  const struct tg__columns *t;
  const struct tg__ask *ask;
  enum by by;
  uint32_t cat, name_segment, name_block, key_requested, key_active, key_pool, key_type, key_state, key_segment;
  struct segment *rows;
  size_t count, cap;
  struct tg__map of_address; /* address of a segment → row + 1 */
};

static uint32_t word(const struct tg__columns *t, const char *text) {
  return tg__strings_find(t->strings, text, strlen(text));
}
static int64_t number(const struct work *w, uint32_t mark, uint32_t key) {
  return tg__arg_int(w->t, w->t->marks.args[mark], key, 0);
}
static int64_t device_type(const struct work *w, uint32_t mark) {
  return tg__arg_int(w->t, w->t->marks.args[mark], TG__K_DEVICE_TYPE, 1);
}
static uint32_t text(const struct work *w, uint32_t mark, uint32_t key) {
  return tg__arg_str(w->t, w->t->marks.args[mark], key);
}

static bool is_ours(const struct work *w, uint32_t mark, uint32_t name) {
  const struct tg__columns *t = w->t;
  return t->marks.name[mark] == name && t->marks.track[mark] != TG_NONE && t->cats[t->marks.cat[mark]].name == w->cat &&
         tg__ask_has_rank(w->ask, t->tracks[t->marks.track[mark]].rank);
}

static bool add_segment(struct work *w, struct segment g) {
  if (!tg__grow((void **)&w->rows, &w->cap, w->count + 1, sizeof *w->rows)) return false;
  w->rows[w->count++] = g;
  return true;
}

static bool read_segments(struct work *w) {
  for (uint32_t i = 0; i < w->t->marks.count; i++) {
    if (!is_ours(w, i, w->name_segment)) continue;
    const struct segment g = {.mark = i,
                              .rank = w->t->tracks[w->t->marks.track[i]].rank,
                              .pool = text(w, i, w->key_pool),
                              .kind = text(w, i, w->key_type),
                              .device_type = device_type(w, i),
                              .device = number(w, i, TG__K_DEVICE_ID),
                              .address = number(w, i, TG__K_ADDR),
                              .total = number(w, i, TG__K_BYTES),
                              .allocated = number(w, i, TG__K_TOTAL_ALLOCATED),
                              .active = number(w, i, w->key_active),
                              .requested = number(w, i, w->key_requested),
                              .segments = 1};
    if (!add_segment(w, g) ||
        !tg__map_put(&w->of_address, (uint64_t)g.address ^ (uint64_t)g.rank << 56, (uint32_t)w->count))
      return false;
  }
  return true;
}

static bool is_in_state(const struct work *w, uint32_t mark, struct tg__str wanted) {
  const uint32_t state = text(w, mark, w->key_state);
  return state != TG_NONE && tg__str_eq(tg__name(w->t, state), wanted);
}
static bool is_free(const struct work *w, uint32_t mark) { return is_in_state(w, mark, TG_STR("inactive")); }

/* Free bytes of the segments; or, by=block, a row for each block instead. */
static bool read_blocks(struct work *w) {
  const size_t segments = w->count;
  for (uint32_t i = 0; i < w->t->marks.count; i++) {
    if (!is_ours(w, i, w->name_block)) continue;
    const uint32_t rank = w->t->tracks[w->t->marks.track[i]].rank;
    const uint32_t at = tg__map_get(&w->of_address, (uint64_t)number(w, i, w->key_segment) ^ (uint64_t)rank << 56);
    const int64_t bytes = number(w, i, TG__K_BYTES);
    if (w->by == BY_BLOCK) {
      const bool is_used = !is_free(w, i);
      const struct segment b = {.mark = i,
                                .rank = rank,
                                .pool = at != TG_NONE ? w->rows[at - 1].pool : TG_NONE,
                                .kind = text(w, i, w->key_state),
                                .device_type = device_type(w, i),
                                .device = number(w, i, TG__K_DEVICE_ID),
                                .address = number(w, i, TG__K_ADDR),
                                .total = bytes,
                                .allocated = is_in_state(w, i, TG_STR("active_allocated")) ? bytes : 0,
                                .active = is_used ? bytes : 0,
                                .requested = is_used ? number(w, i, w->key_requested) : 0,
                                .free = is_used ? 0 : bytes,
                                .largest_free = is_used ? 0 : bytes,
                                .blocks = 1};
      if (!add_segment(w, b)) return false;
    } else if (at != TG_NONE) {
      struct segment *const g = &w->rows[at - 1];
      g->blocks++;
      if (is_free(w, i)) {
        g->free += bytes;
        if (bytes > g->largest_free) g->largest_free = bytes;
      }
    }
  }
  if (w->by == BY_BLOCK) {
    if (w->count > segments) memmove(w->rows, w->rows + segments, (w->count - segments) * sizeof *w->rows);
    w->count -= segments;
  }
  return true;
}

static void sum_up_segment(struct segment *into, const struct segment *g) {
  into->total += g->total, into->allocated += g->allocated, into->active += g->active, into->requested += g->requested;
  into->free += g->free, into->blocks += g->blocks, into->segments += g->segments;
  if (g->largest_free > into->largest_free) into->largest_free = g->largest_free;
}

static void join_pools(struct work *w) {
  size_t pools = 0;
  for (size_t i = 0; i < w->count; i++) {
    const struct segment g = w->rows[i];
    size_t k = 0;
    while (k < pools && (w->rows[k].rank != g.rank || w->rows[k].device != g.device || w->rows[k].pool != g.pool ||
                         w->rows[k].kind != g.kind))
      k++;
    if (k < pools)
      sum_up_segment(&w->rows[k], &g);
    else
      w->rows[pools++] = g;
  }
  w->count = pools;
}

static bool segment_row_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct segment *const x = &((const struct segment *)ctx)[a], *const y = &((const struct segment *)ctx)[b];
  if (x->rank != y->rank) return x->rank < y->rank;
  if (x->device != y->device) return x->device < y->device;
  return x->total > y->total;
}

static void put_segment_row(const struct work *w, const struct segment *g, struct tg_table *out) {
  char buf[TG__DEVICE_NAME];
  tg__put_rank(out, w->t, g->rank);
  tg__put_cstr(out, tg__memory_device_name(g->device_type, g->device, buf));
  tg__put_address(out, w->by == BY_POOL ? TG_NULL_INT : g->address);
  tg__put_int(out, w->by == BY_POOL ? g->segments : TG_NULL_INT);
  tg__put_trace_text(out, w->t, g->pool);
  tg__put_trace_text(out, w->t, g->kind);
  tg__put_int(out, g->total);
  tg__put_int(out, g->allocated);
  tg__put_int(out, g->active);
  tg__put_int(out, g->requested);
  tg__put_int(out, g->free);
  tg__put_int(out, g->largest_free);
  tg__put_int(out, g->blocks);
  if (g->free > 0 && w->by != BY_BLOCK)
    tg__put_real(out, 100.0 * (double)(g->free - g->largest_free) / (double)g->free);
  else
    tg__put_null(out);
  tg__put_trace_text(out, w->t, w->by == BY_POOL ? TG_NONE : text(w, g->mark, TG__K_CALL_STACK));
}

/* A note for each device; its rows are adjacent. */
static void note_device(const struct segment *all, struct tg_table *out) {
  char buf[TG__DEVICE_NAME];
  if (all->total > 0)
    tg__table_note(out, "%s: %.1f of %.1f reserved MB are free, the largest piece of them has %.1f MB",
                   tg__memory_device_name(all->device_type, all->device, buf), (double)all->free / 1e6,
                   (double)all->total / 1e6, (double)all->largest_free / 1e6);
}

static bool put_segment_rows(struct work *w, struct tg_table *out) {
  struct segment all = {0};
  uint32_t *const order = tg__order_new(w->count, segment_row_before, w->rows);
  const bool ok = order != NULL;
  for (size_t i = 0; ok && i < w->count; i++) {
    const struct segment *const g = &w->rows[order[i]];
    if (i && (g->rank != all.rank || g->device != all.device)) note_device(&all, out);
    if (!i || g->rank != all.rank || g->device != all.device)
      all = (struct segment){.rank = g->rank, .device = g->device, .device_type = g->device_type};
    put_segment_row(w, g, out);
    sum_up_segment(&all, g);
  }
  if (ok) note_device(&all, out);
  tg__free(order);
  return ok;
}

enum tg_err tg__answer_segments(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                struct tg_error *e) {
  static const char *const choices[] = {[BY_SEGMENT] = "segment", [BY_BLOCK] = "block", [BY_POOL] = "pool"};
  size_t by;
  enum tg_err err = tg__ask_choice(a, "by", choices, 3, &by, e);
  if (err) return err;
  struct work w = {.t = t,
                   .ask = a,
                   .by = (enum by)by,
                   .cat = word(t, "memory_snapshot"),
                   .name_segment = word(t, "segment"),
                   .name_block = word(t, "block"),
                   .key_requested = word(t, "requested_size"),
                   .key_active = word(t, "active_size"),
                   .key_pool = word(t, "pool"),
                   .key_type = word(t, "segment_type"),
                   .key_state = word(t, "state"),
                   .key_segment = word(t, "segment")};
  bool ok = w.cat == TG_NONE || (read_segments(&w) && read_blocks(&w));
  if (ok && !w.count)
    err =
        tg__fail(e, TG_NO_DATA, -1,
                 "the trace holds no segments of an allocator: open a snapshot of torch.cuda.memory._dump_snapshot()");
  if (ok && w.by == BY_POOL) join_pools(&w);
  if (!err) ok = ok && put_segment_rows(&w, out);
  if (!ok) err = tg__no_memory(e, "reading segments");
  tg__map_free(&w.of_address);
  tg__free(w.rows);
  return err;
}
