/* The questions memory_state and memory_stacks: which blocks are in use at a moment, and which stack took them. */
#include "analyze/host/op_group.h"
#include "analyze/memory/memory_blocks.h"
#include "analyze/memory/memory_history.h"

#include <stdlib.h>

/* ---- the blocks at a moment ------------------------------------------------------------------- */

static bool state_is_larger(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__alloc_event *const events = ctx;
  return events[a].bytes != events[b].bytes ? events[a].bytes > events[b].bytes : a < b;
}

static void put_block(const struct tg__columns *t, const struct tg__alloc_history *h, uint32_t event, int64_t now_ns,
                      struct tg_table *out) {
  const struct tg__alloc_event *const x = &h->events[event];
  char buf[TG__DEVICE_NAME];
  tg__put_rank(out, t, h->devices[x->device].rank);
  tg__put_cstr(out, tg__memory_device_name(h->devices[x->device].type, h->devices[x->device].id, buf));
  tg__put_address(out, x->addr);
  tg__put_int(out, x->bytes);
  tg__put_int(out, x->number);
  tg__put_int(out, now_ns - x->ts_ns);
  tg__put_trace_text(out, t, x->stack);
}

/* at: number of the last event that counts on this device. */
static bool put_device(const struct tg__columns *t, const struct tg__alloc_history *h, uint32_t device, int64_t at,
                       struct tg_table *out) {
  struct tg__alloc_blocks b = {0};
  int64_t now_ns = 0, bytes = 0;
  bool ok = true;
  for (size_t i = 0; i < h->count && ok; i++) {
    uint32_t gone;
    if (h->events[i].device != device || h->events[i].number > at) continue;
    now_ns = h->events[i].ts_ns;
    ok = tg__alloc_blocks_follow(&b, h, i, &gone);
  }
  uint32_t *const held = ok ? tg__alloc((b.of_addr.count + 1) * sizeof *held) : NULL;
  size_t n = 0;
  for (size_t i = 0; i < b.of_addr.cap && held; i++)
    if (b.of_addr.used[i] && b.of_addr.values[i]) held[n++] = b.of_addr.values[i] - 1;
  ok = held && tg__sort_index(held, n, state_is_larger, h->events);
  for (size_t i = 0; i < n && ok; i++) {
    bytes += h->events[held[i]].bytes;
    put_block(t, h, held[i], now_ns, out);
  }
  char buf[TG__DEVICE_NAME];
  if (ok && at >= 0)
    tg__table_note(out, "%s after event %lld: %lld bytes in %zu block%s",
                   tg__memory_device_name(h->devices[device].type, h->devices[device].id, buf), (long long)at,
                   (long long)bytes, n, n == 1 ? "" : "s");
  tg__free(held);
  tg__map_free(&b.of_addr);
  return ok;
}

static enum tg_err read_at(const struct tg__ask *a, int64_t *number, bool *peak, struct tg_error *e) {
  const char *const at = tg__ask_arg(a, "at");
  char *end;
  *peak = strcmp(at, "peak") == 0;
  *number = INT64_MAX;
  if (*peak || strcmp(at, "end") == 0) return TG_OK;
  *number = strtoll(at, &end, 10);
  if (end != at && !*end && *number >= 0) return TG_OK;
  return tg__fail(e, TG_USAGE, -1, "at=%.60s: peak, end, or the number of an event of memory_history is wanted", at);
}

enum tg_err tg__answer_memory_state(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                    struct tg_error *e) {
  struct tg__alloc_history h = {0};
  int64_t number;
  bool peak;
  enum tg_err err = read_at(a, &number, &peak, e);
  if (!err) err = tg__alloc_blocks_read(t, a, &h, e);
  for (uint32_t d = 0; d < h.device_count && !err; d++) {
    const int64_t last = h.devices[d].events - 1;
    if (!put_device(t, &h, d, peak ? h.devices[d].peak_event : number < last ? number : last, out))
      err = tg__no_memory(e, "following blocks");
  }
  tg__alloc_history_free(&h);
  return err;
}

/* ---- per stack ------------------------------------------------------------------------------- */

struct row {
  uint32_t device, stack;
  int64_t peak, end, alloc, count, largest;
};
struct stacks {
  const struct tg__alloc_history *h;
  struct tg__map row_of; /* (device, stack) → row */
  struct row *rows;
  size_t count, cap;
};

static struct row *find_state_row(struct stacks *s, const struct tg__alloc_event *x) {
  uint32_t *const slot = tg__map_slot(&s->row_of, (uint64_t)x->device << 32 | x->stack, TG_NONE);
  if (!slot) return NULL;
  if (*slot == TG_NONE) {
    if (!tg__grow((void **)&s->rows, &s->cap, s->count + 1, sizeof *s->rows)) return NULL;
    *slot = (uint32_t)s->count;
    s->rows[s->count++] = (struct row){.device = x->device, .stack = x->stack};
  }
  return &s->rows[*slot];
}

static bool add_to_stack(struct stacks *s, const struct tg__alloc_event *block, int64_t change, bool by_peak) {
  struct row *const r = find_state_row(s, block);
  if (!r) return false;
  r->end += change;
  if (by_peak) r->peak += change;
  return true;
}

/* A block counts at the peak when it was taken by then and not given back until after. */
static bool count_stacks(struct stacks *s) {
  const struct tg__alloc_history *const h = s->h;
  struct tg__alloc_blocks *const blocks = tg__alloc((h->device_count + 1) * sizeof *blocks);
  bool ok = blocks != NULL;
  for (size_t i = 0; i < h->count && ok; i++) {
    const struct tg__alloc_event *const x = &h->events[i];
    const int64_t peak = h->devices[x->device].peak_event;
    uint32_t gone;
    ok = tg__alloc_blocks_follow(&blocks[x->device], h, i, &gone);
    if (ok && gone != TG_NONE) ok = add_to_stack(s, &h->events[gone], -h->events[gone].bytes, x->number <= peak);
    if (!ok || !x->is_memory || x->bytes <= 0) continue;
    struct row *const r = find_state_row(s, x);
    ok = r && add_to_stack(s, x, x->bytes, x->number <= peak);
    if (!ok) break;
    r->count++, r->alloc += x->bytes;
    if (x->bytes > r->largest) r->largest = x->bytes;
  }
  for (size_t d = 0; blocks && d < h->device_count; d++) tg__map_free(&blocks[d].of_addr);
  tg__free(blocks);
  return ok;
}

/* Allocations of a trace have no stack of their own: theirs is that of the operator they were made in. */
struct op_stacks {
  uint32_t own; /* smaller numbers are strings of the trace, larger ones groups */
  struct tg__op_tree tree;
  struct tg__op_group group;
  struct tg__places places;
};

static bool lacks_stack(const struct tg__alloc_event *x) { return x->is_memory && x->bytes > 0 && x->stack == TG_NONE; }

static enum tg_err add_op_stacks(const struct tg__columns *t, const struct tg__ask *a, struct op_stacks *s,
                                 struct tg__alloc_history *h, struct tg_table *out, struct tg_error *e) {
  s->own = tg__strings_count(t->strings);
  size_t lacking = 0, having = 0;
  for (size_t i = 0; i < h->count; i++) {
    lacking += lacks_stack(&h->events[i]);
    having += h->events[i].is_memory && h->events[i].bytes > 0 && h->events[i].stack != TG_NONE;
  }
  if (!lacking) return TG_OK;
  if (tg__op_tree_build(t, &s->tree)) return tg__no_memory(e, "building the operator tree");
  const enum tg_err err = tg__op_group_open(&s->group, t, tg__rank_range_of(t, a->rank), &s->tree, "stack:64", e);
  if (err) return err;
  if (!tg__places_open(&s->places, t)) return tg__no_memory(e, "finding operators around allocations");
  for (size_t i = 0; i < h->count; i++) {
    struct tg__alloc_event *const x = &h->events[i];
    if (!lacks_stack(x)) continue;
    const uint32_t op = tg__place_at(&s->places, t->marks.track[x->mark], x->ts_ns).op;
    const uint32_t node = op == TG_NONE ? TG_NONE : s->tree.node_of[op];
    if (node != TG_NONE) x->stack = s->own + tg__op_group_of(&s->group, node);
  }
  if (tg__op_group_failed(&s->group)) return tg__no_memory(e, "summing up call stacks");
  if (having && !s->group.found[TG__GROUP_STACK])
    tg__table_note(out, "%zu of %zu allocations have no call stack", lacking, lacking + having);
  else if (!s->group.found[TG__GROUP_STACK])
    tg__table_note(out, "the allocations of this trace have no call stacks: record with with_stack=True");
  return TG_OK;
}

static void op_stacks_free(struct op_stacks *s) {
  tg__places_close(&s->places);
  tg__op_group_close(&s->group);
  tg__op_tree_free(&s->tree);
}

static bool put_stack_of(const struct tg__columns *t, const struct op_stacks *s, uint32_t stack, struct tg_table *out) {
  if (stack == TG_NONE || stack < s->own) {
    tg__put_trace_text(out, t, stack);
    return true;
  }
  struct tg__out text = {0};
  tg__op_group_write(&s->group, stack - s->own, &text);
  return tg__put_out(out, &text);
}

static bool state_row_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct row *const x = &((const struct row *)ctx)[a], *const y = &((const struct row *)ctx)[b];
  return x->peak != y->peak ? x->peak > y->peak : x->alloc > y->alloc;
}

enum tg_err tg__answer_memory_stacks(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                     struct tg_error *e) {
  struct tg__alloc_history h = {0};
  struct op_stacks ops = {0};
  enum tg_err err = tg__alloc_blocks_read(t, a, &h, e);
  if (!err) err = add_op_stacks(t, a, &ops, &h, out, e);
  struct stacks s = {.h = &h};
  bool ok = err || count_stacks(&s);
  uint32_t *const order = !err && ok ? tg__order_new(s.count, state_row_before, s.rows) : NULL;
  ok = err || order;
  for (size_t i = 0; order && ok && i < s.count; i++) {
    const struct row *const r = &s.rows[order[i]];
    char buf[TG__DEVICE_NAME];
    tg__put_rank(out, t, h.devices[r->device].rank);
    tg__put_cstr(out, tg__memory_device_name(h.devices[r->device].type, h.devices[r->device].id, buf));
    tg__put_int(out, r->peak);
    tg__put_int(out, r->end);
    tg__put_int(out, r->alloc);
    tg__put_int(out, r->count);
    tg__put_int(out, r->largest);
    ok = put_stack_of(t, &ops, r->stack, out);
  }
  if (!ok) err = tg__no_memory(e, "summing up call stacks");
  tg__free(order);
  tg__map_free(&s.row_of);
  tg__free(s.rows);
  op_stacks_free(&ops);
  tg__alloc_history_free(&h);
  return err;
}
