/* Allocations and frees become blocks, and the program's notes on its tensors are laid over them. */
#include "analyze/memory/memory_blocks.h"

#include <stdio.h>

const char *const tg__held_names[TG__HELD_COUNT] = {
#define HELD(name, text, meaning) text,
#include "analyze/memory/memory_held.def"
#undef HELD
};
const char *const tg__basis_names[] = {NULL, "registered", "lifetime", "place"};

enum { FREED = TG_NONE - 1 };
struct space {         /* addresses of one process on one device */
  struct tg__map live; /* address → block; FREED once freed */
  uint32_t device;
};
struct work {
  struct tg__blocks *b;
  struct tg__places places;
  struct tg__strings *space_keys, *device_keys;
  struct space *spaces;
  size_t space_count, space_cap;
  uint32_t *home; /* by track: the track with the operators of its events */
};

/* ---- devices and address spaces -------------------------------------------------------------- */

void tg__put_block_text(struct tg_table *out, const struct tg__blocks *b, uint32_t text) {
  if (text == TG_NONE)
    tg__put_null(out);
  else
    tg__put_text(out, tg__strings_get(b->texts, text));
}

void tg__put_block_device(struct tg_table *out, const struct tg__blocks *b, uint32_t device) {
  char buf[TG__DEVICE_NAME];
  const struct tg__block_device *const d = &b->devices[device];
  tg__put_rank(out, b->t, (uint32_t)d->rank);
  tg__put_cstr(out, tg__memory_device_name(d->type, d->id, buf));
}

static uint32_t block_device_of(struct work *w, int64_t rank, int64_t type, int64_t id) {
  const int64_t key[] = {rank, type, id};
  struct tg__blocks *const b = w->b;
  const uint32_t at = tg__strings_add(w->device_keys, (const char *)key, sizeof key);
  if (at == TG_NONE || at < b->device_count) return at;
  if (!tg__grow((void **)&b->devices, &b->device_cap, b->device_count + 1, sizeof *b->devices)) return TG_NONE;
  b->devices[b->device_count] =
      (struct tg__block_device){.rank = rank, .type = type, .id = id, .peak_ns = TG_NULL_INT, .peak_change = SIZE_MAX};
  b->device_count++;
  return at;
}

/* NULL on no memory. */
static struct space *space_of(struct work *w, const struct tg__memory_event *e) {
  const struct tg__memory_device owner = tg__memory_is_cpu(e) ? tg__memory_device_of(0, -1) : e->device;
  const int64_t key[] = {w->places.process_of[e->track], owner.type, owner.id};
  const uint32_t at = tg__strings_add(w->space_keys, (const char *)key, sizeof key);
  if (at == TG_NONE || at < w->space_count) return at == TG_NONE ? NULL : &w->spaces[at];
  if (!tg__grow((void **)&w->spaces, &w->space_cap, w->space_count + 1, sizeof *w->spaces)) return NULL;
  const uint32_t device = block_device_of(w, w->b->t->tracks[e->track].rank, owner.type, owner.id);
  if (device == TG_NONE) return NULL;
  w->spaces[w->space_count] = (struct space){.device = device};
  return &w->spaces[w->space_count++];
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static const struct tg__place unknown_place = {TG_NONE, TG_NONE, TG_NONE, TG_NONE, TG_NONE, TG_NONE, 0};

static uint32_t add_block_block(struct work *w, const struct tg__memory_event *e, uint32_t device, int64_t made_ns,
                                int64_t bytes) {
  struct tg__blocks *const b = w->b;
  if (!tg__grow((void **)&b->items, &b->cap, b->count + 1, sizeof *b->items)) return TG_NONE;
  b->items[b->count] = (struct tg__block){.bytes = bytes,
                                          .made_ns = made_ns,
                                          .freed_ns = TG_NULL_INT,
                                          .addr = e->addr,
                                          .device = device,
                                          .track = e->track,
                                          .mark = TG_NONE,
                                          .made = unknown_place,
                                          .freed = unknown_place,
                                          .tensor = TG_NONE,
                                          .module = TG_NONE,
                                          .held = TG__HELD_UNKNOWN};
  b->of_rank[b->devices[device].rank].blocks++;
  if (made_ns == TG_NULL_INT) b->devices[device].before = tg__sum_bytes(b->devices[device].before, bytes);
  return (uint32_t)b->count++;
}

static bool add_change(struct tg__blocks *b, int64_t ts_ns, uint32_t block, bool made) {
  if (!tg__grow((void **)&b->changes, &b->change_cap, b->change_count + 1, sizeof *b->changes)) return false;
  b->changes[b->change_count++] = (struct tg__block_change){ts_ns, block, made};
  return true;
}

/* `known`: the place where it was freed is in the trace; else its free is missing and another block took its place. */
static bool end_block(struct work *w, uint32_t block, const struct tg__memory_event *e, bool known) {
  struct tg__block *const x = &w->b->items[block];
  x->freed_ns = e->ts_ns;
  if (known) x->freed = tg__place_at(&w->places, e->track, e->ts_ns);
  return add_change(w->b, e->ts_ns, block, false);
}

static bool take_allocation(struct work *w, struct space *s, const struct tg__memory_event *e, uint32_t mark) {
  uint32_t *const at = tg__map_slot(&s->live, e->addr, TG_NONE);
  if (!at || (*at < FREED && !end_block(w, *at, e, false))) return false;
  *at = add_block_block(w, e, s->device, e->ts_ns, e->bytes);
  if (*at == TG_NONE) return false;
  w->b->items[*at].mark = mark;
  w->b->items[*at].made = tg__place_at(&w->places, e->track, e->ts_ns);
  return add_change(w->b, e->ts_ns, *at, true);
}

/* A block at an address that was not seen yet was there before; at one that was freed already it is one with an
 * allocation is missing. */
static bool take_free(struct work *w, struct space *s, const struct tg__memory_event *e) {
  uint32_t *const at = tg__map_slot(&s->live, e->addr, TG_NONE);
  if (!at || *at == FREED) return at != NULL;
  const uint32_t block = *at != TG_NONE ? *at : add_block_block(w, e, s->device, TG_NULL_INT, -e->bytes);
  *at = FREED;
  return block != TG_NONE && end_block(w, block, e, true);
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* The category a word stands for; TG__HELD_UNKNOWN for others. */
static enum tg__held held_of(struct tg__str word) {
  for (int i = 0; i < TG__HELD_UNKNOWN; i++)
    if (tg__str_eq(word, (struct tg__str){tg__held_names[i], (uint32_t)strlen(tg__held_names[i])}))
      return (enum tg__held)i;
  return TG__HELD_UNKNOWN;
}

/* Of several statements about one block the more specific one stays: that a tensor is there says less than that it is a
 * parameter. */
static int specificity(enum tg__held held) {
  switch (held) {
  case TG__HELD_GRADIENT:
    return 5;
  case TG__HELD_PARAMETER:
    return 4;
  case TG__HELD_OPTIMIZER_STATE:
    return 3;
  case TG__HELD_BUFFER:
    return 2;
  default:
    return 1;
  }
}

/* A tensor lies in the block that is alive at its address; where the trace knows of none, in one from before. */
static bool take_tensor(struct work *w, struct space *s, const struct tg__memory_event *e, uint32_t mark) {
  struct tg__blocks *const b = w->b;
  const uint32_t args = b->t->marks.args[mark], kind = tg__arg_str(b->t, args, TG__K_TENSOR_KIND);
  const enum tg__held held = kind == TG_NONE ? TG__HELD_UNKNOWN : held_of(tg__name(b->t, kind));
  uint32_t *const at = tg__map_slot(&s->live, e->addr, TG_NONE);
  if (!at) return false;
  if (held == TG__HELD_UNKNOWN || e->bytes <= 0) return true;
  const bool unseen = *at == TG_NONE,
             missed = *at == FREED; /* missed: what it lies in was taken without a trace since */
  if (unseen || missed) *at = add_block_block(w, e, s->device, missed ? e->ts_ns : TG_NULL_INT, e->bytes);
  if (*at == TG_NONE || (missed && !add_change(b, e->ts_ns, *at, true))) return false;
  struct tg__block *const x = &b->items[*at];
  if (e->bytes > x->bytes) return true; /* it cannot lie in there */
  b->of_rank[b->t->tracks[e->track].rank].registered++;
  if (x->basis == TG__BASIS_REGISTERED && specificity(held) <= specificity((enum tg__held)x->held)) return true;
  x->held = (uint8_t)held;
  x->basis = TG__BASIS_REGISTERED;
  x->tensor = tg__arg_str(b->t, args, TG__K_TENSOR_NAME);
  return true;
}

/* ---- following ------------------------------------------------------------------------------- */

static bool take_mark(struct work *w, uint32_t mark) {
  const struct tg__columns *const t = w->b->t;
  const bool is_tensor = t->marks.name[mark] == TG__K_TENSOR;
  if (!is_tensor && t->marks.name[mark] != TG__K_MEMORY) return true;
  if (t->marks.ts_ns[mark] == TG_NULL_INT || t->marks.track[mark] == TG_NONE) return true;
  struct tg__memory_event e = tg__memory_event_read(t, mark);
  e.track = w->home[e.track];
  if (!e.addr_is_known) w->b->of_rank[t->tracks[e.track].rank].without_addr += !is_tensor;
  if (!e.addr_is_known) return true;
  struct space *const s = space_of(w, &e);
  if (!s) return false;
  if (is_tensor) return take_tensor(w, s, &e, mark);
  return e.bytes > 0                          ? take_allocation(w, s, &e, mark)
         : e.bytes < 0 && e.bytes > INT64_MIN ? take_free(w, s, &e)
                                              : true;
}

static bool is_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__block_device *const x = &((const struct tg__blocks *)ctx)->devices[a],
                                       *const y = &((const struct tg__blocks *)ctx)->devices[b];
  if (x->rank != y->rank) return x->rank < y->rank;
  return x->type != y->type ? x->type < y->type : x->id < y->id;
}

/* Devices in order, for tables. */
static bool sort_devices(struct tg__blocks *b) {
  uint32_t *const order = tg__order_new(b->device_count, is_before, b);
  uint32_t *const place = tg__alloc((b->device_count + 1) * sizeof *place);
  struct tg__block_device *const sorted = tg__alloc((b->device_count + 1) * sizeof *sorted);
  const bool ok = order && place && sorted;
  for (size_t i = 0; ok && i < b->device_count; i++) {
    sorted[i] = b->devices[order[i]];
    place[order[i]] = (uint32_t)i;
  }
  for (size_t i = 0; ok && i < b->count; i++) b->items[i].device = place[b->items[i].device];
  if (ok && b->device_count) memcpy(b->devices, sorted, b->device_count * sizeof *sorted);
  tg__free(order);
  tg__free(place);
  tg__free(sorted);
  return ok;
}

static bool find_peaks(struct tg__blocks *b) {
  int64_t *const now = tg__alloc((b->device_count + 1) * sizeof *now);
  if (!now) return false;
  for (size_t i = 0; i < b->device_count; i++) now[i] = b->devices[i].peak = b->devices[i].before;
  for (size_t i = 0; i < b->change_count; i++) {
    const struct tg__block_change *const c = &b->changes[i];
    const struct tg__block *const x = &b->items[c->block];
    struct tg__block_device *const d = &b->devices[x->device];
    now[x->device] = tg__sum_bytes(now[x->device], c->made ? x->bytes : -x->bytes);
    if (now[x->device] <= d->peak) continue;
    d->peak = now[x->device];
    d->peak_ns = c->ts_ns;
    d->peak_change = i;
  }
  tg__free(now);
  return true;
}

/* NULL on no memory. */
static struct tg__blocks *count_events(const struct tg__columns *t) {
  struct tg__blocks *const b = tg__alloc(sizeof *b);
  if (!b) return NULL;
  b->t = t;
  b->of_rank = tg__alloc(((size_t)t->rank_count + 1) * sizeof *b->of_rank);
  for (uint32_t i = 0; b->of_rank && i < t->marks.count; i++) {
    if (t->marks.name[i] != TG__K_MEMORY || t->marks.track[i] == TG_NONE) continue;
    b->of_rank[t->tracks[t->marks.track[i]].rank].events++;
    b->seen.events++;
  }
  if (b->of_rank) return b;
  tg__free(b);
  return NULL;
}

static bool follow_block(struct work *w) {
  struct tg__blocks *const b = w->b;
  w->space_keys = tg__strings_new();
  w->device_keys = tg__strings_new();
  b->texts = tg__strings_new();
  w->home = tg__tracks_with_same_ids(b->t, 0, b->t->track_count);
  bool ok = w->space_keys && w->device_keys && b->texts && w->home && tg__places_open(&w->places, b->t);
  for (uint32_t i = 0; ok && i < b->t->marks.count; i++) ok = take_mark(w, i);
  return ok && sort_devices(b) && find_peaks(b) && tg__blocks_judge(b, &w->places);
}

static void free_blocks(void *item) {
  struct tg__blocks *const b = item;
  if (!b) return;
  tg__free(b->items);
  tg__free(b->changes);
  tg__free(b->devices);
  tg__free(b->of_rank);
  tg__map_free(&b->path_of);
  tg__map_free(&b->line_of);
  if (b->texts) tg__strings_free(b->texts);
  tg__free(b);
}
static const struct tg__cached cached = {free_blocks};

/* NULL on no memory. */
static struct tg__blocks *make_blocks(const struct tg__columns *t) {
  struct work w = {.b = count_events(t)};
  const bool ok = w.b && (!w.b->seen.events || follow_block(&w)) && tg__cache_put(t, &cached, w.b);
  for (size_t i = 0; i < w.space_count; i++) tg__map_free(&w.spaces[i].live);
  tg__free(w.spaces);
  tg__free(w.home);
  tg__places_close(&w.places);
  if (w.space_keys) tg__strings_free(w.space_keys);
  if (w.device_keys) tg__strings_free(w.device_keys);
  if (ok) return w.b;
  free_blocks(w.b);
  return NULL;
}

/* What is counted and shown of the blocks is by the question. */
static void choose(struct tg__blocks *b, const struct tg__ask *a) {
  b->seen = (struct tg__blocks_seen){0};
  for (uint32_t r = 0; r < b->t->rank_count; r++) {
    if (!tg__ask_has_rank(a, r)) continue;
    b->seen.events += b->of_rank[r].events;
    b->seen.without_addr += b->of_rank[r].without_addr;
    b->seen.registered += b->of_rank[r].registered;
    b->seen.blocks += b->of_rank[r].blocks;
  }
  for (size_t i = 0; i < b->device_count; i++) {
    struct tg__block_device *const d = &b->devices[i];
    d->wanted = tg__ask_has_rank(a, (uint32_t)d->rank) && tg__memory_device_is_wanted(a, d->type, d->id);
  }
}

enum tg_err tg__blocks_read(const struct tg__columns *t, const struct tg__ask *a, struct tg__blocks **out,
                            struct tg_error *e) {
  struct tg__blocks *b = tg__cache_find(t, &cached);
  if (!b) b = make_blocks(t);
  if (!b) return tg__no_memory(e, "following blocks of memory");
  choose(b, a);
  if (!b->seen.events)
    return tg__fail(e, TG_NO_DATA, -1,
                    "the trace holds no [memory] events, which %s is about; record with profile_memory=True, or "
                    "tachograph run --preset deep",
                    a->question->name);
  if (!b->seen.blocks && b->seen.without_addr)
    return tg__fail(e, TG_NO_DATA, -1,
                    "the %lld [memory] events of the trace have no address, so blocks cannot be followed: record with "
                    "a newer torch, or "
                    "with tachograph",
                    (long long)b->seen.without_addr);
  *out = b;
  return TG_OK;
}

bool *tg__blocks_at_peak(const struct tg__blocks *b) {
  bool *const alive = tg__alloc(b->count + 1);
  for (size_t i = 0; alive && i < b->count; i++) alive[i] = b->items[i].made_ns == TG_NULL_INT;
  for (size_t i = 0; alive && i < b->change_count; i++) {
    const struct tg__block_change *const c = &b->changes[i];
    const size_t peak = b->devices[b->items[c->block].device].peak_change;
    if (peak != SIZE_MAX && i <= peak) alive[c->block] = c->made;
  }
  return alive;
}

/* Operators called from one place have one line: they are known by the frame around them, or by the stack that was
 * recorded with them. The events of a memory snapshot have stacks of their own, and no operators. */
uint32_t tg__block_line(struct tg__blocks *b, const struct tg__block *x) {
  const uint32_t op = x->made.op;
  if (op == TG_NONE && x->mark == TG_NONE) return TG_NONE;
  const uint32_t args = op != TG_NONE ? b->t->slices.args[op] : b->t->marks.args[x->mark];
  const uint32_t from = tg__arg_str(b->t, args, TG__K_CALL_FROM), stack = tg__arg_str(b->t, args, TG__K_CALL_STACK);
  const uint32_t own = from != TG_NONE ? from : stack;
  uint32_t *const known =
      tg__map_slot(&b->line_of, (uint64_t)own << 32 | (op != TG_NONE ? b->t->slices.parent[op] : TG_NONE), TG_NONE);
  if (!known) return TG_NONE;
  if (*known == TG_NONE) {
    struct tg__out text = {0};
    const struct tg__str frame =
        op != TG_NONE || stack == TG_NONE ? (struct tg__str){"", 0} : tg__user_frame_of_stack(tg__name(b->t, stack));
    if (op != TG_NONE)
      tg__user_line(b->t, op, &text);
    else
      tg__out_bytes(&text, frame.ptr, frame.len);
    *known = text.err ? TG_NONE : tg__strings_add(b->texts, text.len ? text.buf : "", text.len);
    tg__out_free(&text);
  }
  return *known != TG_NONE && tg__strings_get(b->texts, *known).len ? *known : TG_NONE;
}

/* Of blocks that have no operator around them, as in a memory snapshot: only a stack says what they were for. */
static size_t count_without_stack(const struct tg__blocks *b, size_t *of) {
  size_t lacking = 0;
  *of = 0;
  for (size_t i = 0; i < b->count; i++) {
    const struct tg__block *const x = &b->items[i];
    if (x->made_ns == TG_NULL_INT || x->mark == TG_NONE || x->made.op != TG_NONE || !tg__block_is_counted(b, x))
      continue;
    lacking += tg__arg_str(b->t, b->t->marks.args[x->mark], TG__K_CALL_STACK) == TG_NONE;
    (*of)++;
  }
  return lacking;
}

void tg__blocks_notes(const struct tg__blocks *b, struct tg_table *out) {
  size_t of = 0;
  const size_t lacking =
      tg__strings_find(b->t->strings, "memory_snapshot", 15) != TG_NONE ? count_without_stack(b, &of) : 0;
  if (lacking)
    tg__table_note(out,
                   "%zu of %zu allocations of the snapshot have no stack, so their category is unknown: "
                   "torch.cuda.memory._record_memory_history(context='all', stacks='all') records them, those of the "
                   "autograd engine too",
                   lacking, of);
  if (!b->seen.registered)
    tg__table_note(out, "the trace does not say what its tensors are (tachograph's recordings do): categories are "
                        "inferred from where and when blocks were "
                        "taken and freed, and what was there before is unknown");
  if (b->seen.without_addr)
    tg__table_note(out, "%lld memory events have no address: their blocks cannot be followed and are left out",
                   (long long)b->seen.without_addr);
}
