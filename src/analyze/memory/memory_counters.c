/* Counters of an allocator, by a replay of its history. Where a snapshot says what is there at the end, what was
 * there before the history begins is counted back from that. */
#include "analyze/memory/memory_counters.h"

/* Up to 1 MiB a block lies in a small segment, and those have 2 MiB; sizes are multiples of 512 (c10's
 * CUDACachingAllocator: kSmallSize, kSmallBuffer, kMinBlockSize). */
enum { SMALL_BLOCK = 1 << 20, SMALL_SEGMENT = 2 << 20, LEAST_BLOCK = 512 };
#define NO_EVENT SIZE_MAX

static enum tg__alloc_pool pool_of(int64_t block_bytes) {
  return block_bytes <= SMALL_BLOCK ? TG__POOL_SMALL : TG__POOL_LARGE;
}

/* ---- what is there at the end ---------------------------------------------------------------- */

struct pool_end {
  int64_t segments, reserved, split, split_bytes;
};
struct segment_end {
  int64_t total;
  enum tg__alloc_pool pool;
  bool is_expandable;
};
struct block_end {
  int64_t address, bytes, requested;
  bool is_pending; /* given back, and waiting for a stream */
};
struct end { /* of one device, as the snapshot says */
  bool is_snapshot;
  struct pool_end of[TG__ALLOC_POOLS];
  struct tg__map segment_at; /* address → index into segments */
  struct segment_end *segments;
  size_t segment_count, segment_cap;
  struct tg__map block_at; /* address of a block in use → index into blocks */
  struct block_end *blocks;
  size_t block_count, block_cap;
};
struct words {
  uint32_t cat, segment, block, type, expandable, state, requested;
};

static uint32_t word(const struct tg__columns *t, struct tg__str text) {
  return tg__strings_find(t->strings, text.ptr, text.len);
}
static bool says(const struct tg__columns *t, uint32_t mark, uint32_t key, struct tg__str wanted) {
  const uint32_t text = tg__arg_str(t, t->marks.args[mark], key);
  return text != TG_NONE && tg__str_eq(tg__name(t, text), wanted);
}

/* By device, as tg__alloc_history_read distinguishes them. */
static bool is_of(const struct tg__columns *t, uint32_t mark, const struct tg__alloc_device *d) {
  if (t->marks.track[mark] == TG_NONE || t->tracks[t->marks.track[mark]].rank != d->rank) return false;
  const uint32_t args = t->marks.args[mark];
  const struct tg__memory_device owner =
      tg__memory_device_of(tg__arg_int(t, args, TG__K_DEVICE_TYPE, 1), tg__arg_int(t, args, TG__K_DEVICE_ID, -1));
  return owner.type == d->type && owner.id == d->id;
}

static bool end_segment(const struct tg__columns *t, struct end *end, const struct words *w, uint32_t mark) {
  const uint32_t args = t->marks.args[mark];
  struct tg__val expandable;
  const struct segment_end s = {.total = tg__arg_int(t, args, TG__K_BYTES, 0),
                                .pool = says(t, mark, w->type, TG_STR("small")) ? TG__POOL_SMALL : TG__POOL_LARGE,
                                .is_expandable = tg__arg(t, args, w->expandable, false, &expandable)};
  if (!tg__grow((void **)&end->segments, &end->segment_cap, end->segment_count + 1, sizeof *end->segments))
    return false;
  end->segments[end->segment_count] = s;
  if (!s.is_expandable) end->of[s.pool].segments++; /* torch does not count what is mapped bit by bit */
  if (__builtin_add_overflow(end->of[s.pool].reserved, s.total, &end->of[s.pool].reserved))
    end->of[s.pool].reserved = INT64_MAX;
  return tg__map_put(&end->segment_at, (uint64_t)tg__arg_int(t, args, TG__K_ADDR, 0), (uint32_t)end->segment_count++);
}

static bool end_block(const struct tg__columns *t, struct end *end, const struct words *w, uint32_t mark) {
  const uint32_t args = t->marks.args[mark],
                 at = tg__map_get(&end->segment_at, (uint64_t)tg__arg_int(t, args, w->segment, 0));
  const int64_t bytes = tg__arg_int(t, args, TG__K_BYTES, 0);
  if (!says(t, mark, w->state, TG_STR("inactive"))) {
    if (!tg__grow((void **)&end->blocks, &end->block_cap, end->block_count + 1, sizeof *end->blocks)) return false;
    end->blocks[end->block_count] =
        (struct block_end){tg__arg_int(t, args, TG__K_ADDR, 0), bytes, tg__arg_int(t, args, w->requested, bytes),
                           says(t, mark, w->state, TG_STR("active_pending_free"))};
    return tg__map_put(&end->block_at, (uint64_t)tg__arg_int(t, args, TG__K_ADDR, 0), (uint32_t)end->block_count++);
  }
  const struct segment_end *const s = at == TG_NONE ? NULL : &end->segments[at];
  if (!s || s->is_expandable || bytes >= s->total) return true;
  end->of[s->pool].split++;
  if (__builtin_add_overflow(end->of[s->pool].split_bytes, bytes, &end->of[s->pool].split_bytes))
    end->of[s->pool].split_bytes = INT64_MAX;
  return true;
}

/* Segments stand before their blocks. */
static bool read_end(const struct tg__columns *t, const struct tg__alloc_device *d, struct end *end) {
  const struct words w = {.cat = word(t, TG_STR("memory_snapshot")),
                          .segment = word(t, TG_STR("segment")),
                          .block = word(t, TG_STR("block")),
                          .type = word(t, TG_STR("segment_type")),
                          .expandable = word(t, TG_STR("is_expandable")),
                          .state = word(t, TG_STR("state")),
                          .requested = word(t, TG_STR("requested_size"))};
  bool ok = true;
  end->is_snapshot = w.cat != TG_NONE;
  for (uint32_t i = 0; i < t->marks.count && ok && end->is_snapshot; i++) {
    const uint32_t name = t->marks.name[i];
    if (t->cats[t->marks.cat[i]].name != w.cat || !is_of(t, i, d)) continue;
    if (name == w.segment) ok = end_segment(t, end, &w, i);
    if (name == w.block) ok = end_block(t, end, &w, i);
  }
  return ok;
}

static void free_end(struct end *end) {
  tg__map_free(&end->segment_at);
  tg__map_free(&end->block_at);
  tg__free(end->segments);
  tg__free(end->blocks);
}

/* ---- the replay ------------------------------------------------------------------------------ */

struct block {
  int64_t bytes, requested;
  enum tg__alloc_pool pool;
  bool is_given_back; /* and waits for a stream */
};
enum { INTERVALS = 16, FIRST_INTERVAL = 20 }; /* powers of two from 1 MiB on, each with divisions of its own */
struct rounding {
  bool rounds; /* a caching allocator's: what the CPU's took is what was asked for */
  /* into how many parts sizes between two powers of two fall: its setting roundup_power2_divisions */
  int64_t divisions[INTERVALS];
};
struct replay {
  const struct tg__columns *t;
  struct rounding rounding;
  struct tg__alloc_counters *out;
  struct end end;
  struct tg__map
      block_of; /* address → index into blocks; one that is given back stays until its place is taken again */
  struct tg__map last_taken;    /* address → the last event that takes it */
  struct tg__map small_mapping; /* addresses at which a segment of the small pool begins */
  struct block *blocks;
  size_t block_count, block_cap;
  bool completes;     /* the history says when a block can be used again; else that is when it is given back */
  bool says_reserved; /* some event does */
};

static void change(struct replay *r, enum tg__alloc_metric m, enum tg__alloc_pool pool, int64_t by) {
  for (unsigned k = 0; k < 2; k++) {
    struct tg__alloc_counter *const c = &r->out->of[m][k ? pool : TG__POOL_ALL];
    int64_t *const sum = by > 0 ? &c->allocated : &c->freed;
    if (__builtin_add_overflow(c->current, by, &c->current)) c->current = by > 0 ? INT64_MAX : INT64_MIN;
    if (by == INT64_MIN || __builtin_add_overflow(*sum, by > 0 ? by : -by, sum)) *sum = INT64_MAX;
    if (c->current > c->peak) c->peak = c->current;
    if (k == 0 && pool == TG__POOL_ALL) return;
  }
}

static struct rounding rounding_of(const struct tg__columns *t, const struct tg__alloc_device *d) {
  struct rounding r = {.rounds = d->type != 0};
  const struct tg__str set =
      tg__json_member(tg__document_member(t, d->rank, "allocator_settings"), "roundup_power2_divisions");
  unsigned k = 0;
  for (struct tg__members m = tg__members_of(set); tg__members_next(&m) && k < INTERVALS;
       k++) /* 1, 2, 4, … MiB, in this order */
    if (!tg__str_to_int(m.value, &r.divisions[k])) r.divisions[k] = 0;
  return r;
}

/* As c10's round_size. */
static int64_t rounded(const struct rounding *r, int64_t asked) {
  if (!r->rounds || asked > INT64_MAX / 2) return asked;
  if (asked < LEAST_BLOCK) return LEAST_BLOCK;
  const int power = 63 - __builtin_clzll((uint64_t)asked), at = power < FIRST_INTERVAL ? 0 : power - FIRST_INTERVAL;
  const int64_t divisions = r->divisions[at < INTERVALS ? at : INTERVALS - 1];
  int64_t part = LEAST_BLOCK;
  if (divisions > 1 && divisions < asked / LEAST_BLOCK + (asked % LEAST_BLOCK > 0)) { /* more than 512 bytes each */
    part = (INT64_C(1) << power) >> (63 - __builtin_clzll((uint64_t)divisions));
    if ((asked & (asked - 1)) == 0) return asked;
  }
  return (asked + part - 1) / part * part;
}

/* torch records what was asked for. The size that a block took is known only of blocks that are there at the end; of
 * others it is rounded up. */
static struct block block_of(const struct replay *r, const struct tg__alloc_event *x, size_t event) {
  struct block b = {.bytes = r->end.is_snapshot ? rounded(&r->rounding, x->bytes) : x->bytes, .requested = x->bytes};
  b.pool = pool_of(b.bytes);
  const uint32_t at = tg__map_get(&r->last_taken, (uint64_t)x->addr) == event
                          ? tg__map_get(&r->end.block_at, (uint64_t)x->addr)
                          : TG_NONE;
  if (at != TG_NONE) b.bytes = r->end.blocks[at].bytes;
  return b;
}

static bool begin_active(struct replay *r, int64_t address, struct block b) {
  if (!tg__grow((void **)&r->blocks, &r->block_cap, r->block_count + 1, sizeof *r->blocks)) return false;
  r->blocks[r->block_count] = b;
  change(r, TG__COUNT_ACTIVE, b.pool, 1);
  change(r, TG__COUNT_ACTIVE_BYTES, b.pool, b.bytes);
  change(r, TG__COUNT_REQUESTED_BYTES, b.pool, b.requested);
  return tg__map_put(&r->block_of, (uint64_t)address, (uint32_t)r->block_count++);
}

static void no_longer_allocated(struct replay *r, const struct block *b) {
  change(r, TG__COUNT_ALLOCATION, b->pool, -1);
  change(r, TG__COUNT_ALLOCATED_BYTES, b->pool, -b->bytes);
}

static void no_longer_active(struct replay *r, const struct block *b) {
  change(r, TG__COUNT_ACTIVE, b->pool, -1);
  change(r, TG__COUNT_ACTIVE_BYTES, b->pool, -b->bytes);
  change(r, TG__COUNT_REQUESTED_BYTES, b->pool, -b->requested);
}

/* An address that is taken while it is in use: the free of the block before is missing. */
static void end_replaced(struct replay *r, int64_t address) {
  const uint32_t at = address == TG_NULL_INT ? TG_NONE : tg__map_get(&r->block_of, (uint64_t)address);
  if (at == TG_NONE) return;
  if (!r->blocks[at].is_given_back) no_longer_allocated(r, &r->blocks[at]);
  no_longer_active(r, &r->blocks[at]);
}

static bool replay_event(struct replay *r, const struct tg__alloc_event *x, size_t event) {
  const struct block b = block_of(r, x, event);
  end_replaced(r, x->addr);
  change(r, TG__COUNT_ALLOCATION, b.pool, 1);
  change(r, TG__COUNT_ALLOCATED_BYTES, b.pool, b.bytes);
  return begin_active(r, x->addr, b) &&
         (x->addr != TG_NULL_INT || tg__map_put(&r->block_of, (uint64_t)x->addr, TG_NONE));
}

/* A second free is ignored; an event without an address is about some block of its size. */
static bool replay_free(struct replay *r, const struct tg__alloc_event *x) {
  const bool is_known = x->addr != TG_NULL_INT;
  const uint32_t at = is_known ? tg__map_get(&r->block_of, (uint64_t)x->addr) : TG_NONE;
  if (is_known && (at == TG_NONE || r->blocks[at].is_given_back)) return true;
  const int64_t bytes = x->bytes == INT64_MIN ? INT64_MAX : -x->bytes;
  struct block some = {.bytes = bytes, .requested = bytes, .pool = pool_of(bytes)};
  struct block *const b = is_known ? &r->blocks[at] : &some;
  no_longer_allocated(r, b);
  b->is_given_back = true;
  if (!r->completes) no_longer_active(r, b);
  return r->completes || !is_known || tg__map_put(&r->block_of, (uint64_t)x->addr, TG_NONE);
}

/* Does a segment come (1) or go (-1)? mapped: a part of an expandable one. */
static int segment_change(struct tg__str action, bool *mapped) {
  *mapped = tg__str_eq(action, TG_STR("segment_map")) || tg__str_eq(action, TG_STR("segment_unmap"));
  if (tg__str_eq(action, TG_STR("segment_alloc")) || tg__str_eq(action, TG_STR("segment_map"))) return 1;
  return *mapped || tg__str_eq(action, TG_STR("segment_free")) ? -1 : 0;
}

/* Of the small pool are segments of 2 MiB, and what begins where such a one came, however much of its neighbours
 * goes with it. */
static bool segment(struct replay *r, const struct tg__alloc_event *x, int by, bool mapped) {
  const bool small = x->bytes <= SMALL_SEGMENT || (by < 0 && tg__map_get(&r->small_mapping, (uint64_t)x->addr) == 1);
  const enum tg__alloc_pool pool = small ? TG__POOL_SMALL : TG__POOL_LARGE;
  if (!mapped) change(r, TG__COUNT_SEGMENT, pool, by);
  change(r, TG__COUNT_RESERVED_BYTES, pool, by * (x->bytes > 0 ? x->bytes : 0));
  change(r, by > 0 ? TG__COUNT_DEVICE_ALLOC : TG__COUNT_DEVICE_FREE, TG__POOL_ALL, 1);
  return by < 0 || tg__map_put(&r->small_mapping, (uint64_t)x->addr, small);
}

static bool count(struct replay *r, const struct tg__alloc_event *x, size_t event) {
  const struct tg__str action = tg__name(r->t, r->t->marks.name[x->mark]);
  bool mapped;
  if (x->is_memory)
    return x->bytes == TG_NULL_INT || !x->bytes ? true : x->bytes > 0 ? replay_event(r, x, event) : replay_free(r, x);
  if (r->t->marks.name[x->mark] == TG__K_OUT_OF_MEMORY) change(r, TG__COUNT_OOMS, TG__POOL_ALL, 1);
  if (tg__str_eq(action, TG_STR("free_completed"))) {
    const uint32_t at = tg__map_get(&r->block_of, (uint64_t)x->addr);
    if (at != TG_NONE) no_longer_active(r, &r->blocks[at]);
    return at == TG_NONE || tg__map_put(&r->block_of, (uint64_t)x->addr, TG_NONE);
  }
  const int by = segment_change(action, &mapped);
  return by == 0 || x->bytes == TG_NULL_INT || segment(r, x, by, mapped);
}

/* ---- what was there before ------------------------------------------------------------------- */

static void begin_with(struct replay *r, enum tg__alloc_metric m, enum tg__alloc_pool pool, int64_t n) {
  if (n > 0) change(r, m, pool, n);
}

/* From the end: what it has less what came and went in the history. */
static bool begin_from_end(struct replay *r, const struct tg__alloc_history *h, uint32_t device) {
  struct tg__alloc_counters all = {0};
  struct replay walk = {.t = r->t, .out = &all};
  bool ok = true, mapped;
  for (size_t i = 0; i < h->count && ok; i++) {
    const struct tg__alloc_event *const x = &h->events[i];
    const int by =
        x->device == device && !x->is_memory ? segment_change(tg__name(r->t, r->t->marks.name[x->mark]), &mapped) : 0;
    if (by && x->bytes != TG_NULL_INT) ok = segment(&walk, x, by, mapped);
  }
  for (enum tg__alloc_pool k = TG__POOL_LARGE; k <= TG__POOL_SMALL; k++) {
    begin_with(r, TG__COUNT_SEGMENT, k, r->end.of[k].segments - all.of[TG__COUNT_SEGMENT][k].current);
    begin_with(r, TG__COUNT_RESERVED_BYTES, k, r->end.of[k].reserved - all.of[TG__COUNT_RESERVED_BYTES][k].current);
  }
  tg__map_free(&walk.small_mapping);
  return ok;
}

static bool begin_unseen(struct replay *r, const struct tg__alloc_event *x, bool is_pending) {
  struct tg__alloc_event taken = *x;
  taken.bytes = x->bytes >= 0 ? x->bytes : x->bytes == INT64_MIN ? INT64_MAX : -x->bytes;
  const struct block b = block_of(r, &taken, NO_EVENT);
  if (!is_pending) change(r, TG__COUNT_ALLOCATION, b.pool, 1);
  if (!is_pending) change(r, TG__COUNT_ALLOCATED_BYTES, b.pool, b.bytes);
  return begin_active(r, x->addr, b);
}

/* Blocks that are given back, or completed, without ever having been seen; or that wait for a stream from before
 * until the end. */
static bool begin_blocks(struct replay *r, const struct tg__alloc_history *h, uint32_t device) {
  struct tg__map seen = {0};
  bool ok = true;
  for (size_t i = 0; i < h->count && ok; i++) {
    const struct tg__alloc_event *const x = &h->events[i];
    if (x->device != device || x->bytes == TG_NULL_INT || !x->bytes || x->addr == TG_NULL_INT) continue;
    const bool completes = tg__str_eq(tg__name(r->t, r->t->marks.name[x->mark]), TG_STR("free_completed"));
    const bool is_new = tg__map_get(&seen, (uint64_t)x->addr) == TG_NONE,
               goes = completes || (x->is_memory && x->bytes < 0);
    if (is_new && goes) ok = begin_unseen(r, x, completes);
    if (ok && (x->is_memory || completes)) ok = tg__map_put(&seen, (uint64_t)x->addr, 1);
  }
  for (size_t i = 0; i < r->end.block_count && ok; i++) {
    const struct block_end *const b = &r->end.blocks[i];
    const struct block waits = {
        .bytes = b->bytes, .requested = b->requested, .pool = pool_of(b->bytes), .is_given_back = true};
    if (b->is_pending && tg__map_get(&seen, (uint64_t)b->address) == TG_NONE) ok = begin_active(r, b->address, waits);
  }
  tg__map_free(&seen);
  return ok;
}

/* Recordings have no segments, but the reserved bytes after each event. */
static void follow_total(struct replay *r, const struct tg__alloc_event *x) {
  r->says_reserved |= x->reserved != TG_NULL_INT;
  const int64_t now = r->out->of[TG__COUNT_RESERVED_BYTES][TG__POOL_ALL].current;
  if (x->reserved >= 0 && x->reserved != now) change(r, TG__COUNT_RESERVED_BYTES, TG__POOL_ALL, x->reserved - now);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static const struct tg__alloc_counter not_known = {TG_NULL_INT, TG_NULL_INT, TG_NULL_INT, TG_NULL_INT};

static void finish_replay(struct replay *r) {
  for (enum tg__alloc_pool k = TG__POOL_ALL; k < TG__ALLOC_POOLS; k++) {
    struct tg__alloc_counter *const split = &r->out->of[TG__COUNT_INACTIVE_SPLIT][k],
                                    *const bytes = &r->out->of[TG__COUNT_INACTIVE_SPLIT_BYTES][k];
    *split = *bytes = not_known;
    if (!r->end.is_snapshot) { /* recordings have blocks, and no segments */
      r->out->of[TG__COUNT_REQUESTED_BYTES][k] = r->out->of[TG__COUNT_SEGMENT][k] = not_known;
      r->out->of[TG__COUNT_DEVICE_ALLOC][k] = r->out->of[TG__COUNT_DEVICE_FREE][k] = not_known;
      if (k != TG__POOL_ALL || !r->says_reserved) r->out->of[TG__COUNT_RESERVED_BYTES][k] = not_known;
    }
    const struct pool_end *const large = &r->end.of[TG__POOL_LARGE], *const small = &r->end.of[TG__POOL_SMALL];
    if (!r->end.segment_count) continue;
    split->current = (k != TG__POOL_SMALL ? large->split : 0) + (k != TG__POOL_LARGE ? small->split : 0);
    bytes->current = (int64_t)((uint64_t)(k != TG__POOL_SMALL ? large->split_bytes : 0) +
                               (uint64_t)(k != TG__POOL_LARGE ? small->split_bytes : 0));
  }
}

/* Which events take each address last, and whether the history has completions. */
static bool look_ahead(struct replay *r, const struct tg__alloc_history *h, uint32_t device) {
  bool ok = true;
  for (size_t i = 0; i < h->count && ok; i++) {
    const struct tg__alloc_event *const x = &h->events[i];
    if (x->device != device) continue;
    if (x->is_memory && x->bytes > 0) ok = tg__map_put(&r->last_taken, (uint64_t)x->addr, (uint32_t)i);
    if (!x->is_memory) r->completes |= tg__str_eq(tg__name(r->t, r->t->marks.name[x->mark]), TG_STR("free_completed"));
  }
  return ok;
}

bool tg__alloc_counters_of(const struct tg__columns *t, const struct tg__alloc_history *h, uint32_t device,
                           struct tg__alloc_counters *out) {
  *out = (struct tg__alloc_counters){0};
  struct replay r = {.t = t, .rounding = rounding_of(t, &h->devices[device]), .out = out};
  bool ok = read_end(t, &h->devices[device], &r.end) && look_ahead(&r, h, device);
  if (ok && r.end.segment_count) ok = begin_from_end(&r, h, device);
  ok = ok && begin_blocks(&r, h, device);
  for (size_t i = 0; i < h->count && ok; i++) {
    if (h->events[i].device != device) continue;
    ok = count(&r, &h->events[i], i);
    if (!r.end.is_snapshot) follow_total(&r, &h->events[i]);
  }
  if (ok) finish_replay(&r);
  free_end(&r.end);
  tg__map_free(&r.block_of);
  tg__map_free(&r.last_taken);
  tg__map_free(&r.small_mapping);
  tg__free(r.blocks);
  return ok;
}
