/* A memory snapshot becomes a trace: one track a device, an instant for each event of its history, for each segment
 * and each block. Times count from the first of them; the wall clock of that is the base of the trace.
 *
 * What a program allocated and freed are [memory] events, as in recordings of torch.profiler, so that every
 * question about memory answers for snapshots, too. Blocks that were there before the history begins stand at its
 * beginning (Derived), so the running totals are those of the allocator, not only of what was seen. */
#include "trace/snapshot.h"

#include <stdio.h>

struct live {
  int64_t bytes;
  uint32_t stack; /* of one that is free: the next free one */
};
struct importer {
  struct tg__import *im;
  struct tg__parser *parser;
  struct tg__snapshot snapshot;
  uint32_t cat, key_requested, key_state, key_type, key_pool, key_active, key_expandable, key_metadata, key_segment,
      key_free;
  uint32_t key_compiled, key_internal, key_forward, name_segment, name_block, track;
  int64_t device, device_type; /* TG__HOST_DEVICE and up; 0 = memory of the process, 1 = of a device */
  struct tg__map of_addr;      /* address → index into lives + 1; 0 = not allocated now */
  struct live *lives;
  size_t live_count, live_cap;
  uint32_t free_live; /* index + 1 */
  int64_t allocated, reserved, last_ns, base_us;
  bool no_memory;
};

static uint32_t intern_snapshot(struct importer *w, const char *text) {
  const uint32_t id = tg__strings_add(w->im->shared.trace->strings, text, strlen(text));
  if (id == TG_NONE) w->no_memory = true;
  return id;
}
static void value(struct importer *w, uint32_t key, enum tg__kind kind, int64_t i) {
  tg__row_value(w->parser, key, kind, i, false);
}
static void value_text(struct importer *w, uint32_t key, uint32_t text) {
  if (text != TG_NONE) value(w, key, TG__KIND_STR, text);
}
static void stack(struct importer *w, uint32_t number) {
  if (number) value_text(w, TG__K_CALL_STACK, w->snapshot.stack_texts[number]);
}

static void put_device(struct importer *w) {
  value(w, TG__K_DEVICE_TYPE, TG__KIND_INT, w->device_type);
  value(w, TG__K_DEVICE_ID, TG__KIND_INT, w->device_type ? w->device : -1);
}
static void put_pool(struct importer *w, const int64_t pool[2]) {
  char text[48];
  snprintf(text, sizeof text, "(%lld, %lld)", (long long)pool[0], (long long)pool[1]);
  value_text(w, w->key_pool, intern_snapshot(w, text));
}
/* is_full: with what stands in entries that take nothing, too. */
static void put_context(struct importer *w, uint32_t number, bool is_full) {
  const struct tg__snapshot_context *const c = &w->snapshot.contexts[number];
  value(w, TG__K_STREAM, TG__KIND_INT, c->stream);
  if (!is_full) return;
  value_text(w, w->key_metadata, c->said);
  value_text(w, w->key_compiled, c->compiled);
  value_text(w, w->key_internal, c->internal);
  value_text(w, w->key_forward, c->forward);
  if (c->pool[0] || c->pool[1]) put_pool(w, c->pool);
}

/* The values given since the last event become one. */
static void event(struct importer *w, uint32_t name, int64_t ts_ns) {
  tg__row_value(w->parser, TG__K_S, TG__KIND_STR, TG__K_T, true);
  const struct tg__record r = {.ts_ns = ts_ns, .dur_ns = TG_NULL_INT, .name = name, .track = w->track, .ph = 'i'};
  if (!tg__row_add(w->parser, r, w->cat)) w->no_memory = true;
  /* Blocks are committed now and then, so that records and args do not lie about twice. */
  if (w->parser->record_count >= 1 << 14 && !tg__commit_rows(w->im, w->parser)) w->no_memory = true;
}

static int64_t to_ns(const struct importer *w, int64_t us) {
  int64_t ns;
  const bool is_wild = __builtin_sub_overflow(us, w->base_us, &us) || __builtin_mul_overflow(us, 1000, &ns);
  return is_wild ? us < 0 ? INT64_MIN / 2 : INT64_MAX / 2 : ns;
}

/* ---- [memory] events ------------------------------------------------------------------------- */

static void memory_event(struct importer *w, int64_t ts_ns, int64_t addr, int64_t bytes, uint32_t stack_number,
                         bool derived) {
  w->allocated = __builtin_add_overflow(w->allocated, bytes, &w->allocated) ? INT64_MAX : w->allocated;
  value(w, TG__K_TOTAL_RESERVED, TG__KIND_INT, w->reserved);
  value(w, TG__K_TOTAL_ALLOCATED, TG__KIND_INT, w->allocated);
  value(w, TG__K_BYTES_MEMORY, TG__KIND_INT, bytes);
  put_device(w);
  value(w, TG__K_ADDR, TG__KIND_INT, addr);
  stack(w, stack_number);
  if (derived) value(w, TG__K_DERIVED, TG__KIND_TRUE, 0);
  event(w, TG__K_MEMORY, ts_ns);
}

static void set_alive(struct importer *w, int64_t addr, int64_t bytes, uint32_t stack_number) {
  uint32_t *const place = tg__map_slot(&w->of_addr, (uint64_t)addr, 0);
  if (place && *place == 0) {
    *place = w->free_live ? w->free_live : (uint32_t)++w->live_count;
    if (w->free_live) w->free_live = w->lives[w->free_live - 1].stack;
  }
  if (!place || !tg__grow((void **)&w->lives, &w->live_cap, w->live_count, sizeof *w->lives))
    w->no_memory = true;
  else
    w->lives[*place - 1] = (struct live){bytes, stack_number};
}
/* What was allocated there, which it is no longer; as the entry has it when that was never seen. */
static struct live set_dead(struct importer *w, const struct tg__snapshot_entry *x) {
  uint32_t *const place = tg__map_slot(&w->of_addr, (uint64_t)x->addr, 0);
  if (!place) w->no_memory = true;
  if (!place || *place == 0) return (struct live){x->size, x->stack};
  struct live *const slot = &w->lives[*place - 1], was = *slot;
  slot->stack = w->free_live;
  w->free_live = *place;
  *place = 0;
  return was;
}

/* Does this entry free what the program had? free_completed counts where a history without free_requested has it. */
static bool is_free_entry(const struct tg__snapshot_history *h, const struct tg__snapshot_entry *x) {
  return x->action == (h->has_requests ? TG__ACTION_FREE_REQUESTED : TG__ACTION_FREE_COMPLETED);
}

/* ---- what was there before the history ------------------------------------------------------- */

static bool is_of_device(const struct importer *w, const struct tg__snapshot_block *b) {
  return b->segment != TG_NONE && w->snapshot.segments[b->segment].device == w->device;
}
static bool is_active(const struct importer *w, const struct tg__snapshot_block *b) {
  return b->state != TG_NONE &&
         tg__str_eq(tg__strings_get(w->im->shared.trace->strings, b->state), TG_STR("active_allocated"));
}

/* Freed without having been allocated, or still allocated at the end without ever having been. Emits one event for
 * each, and leaves the addresses of the history in the map. Entries have the requested bytes, so these count
 * of a block, too. */
static void emit_old_blocks(struct importer *w, struct tg__snapshot_history *h, int64_t ts_ns) {
  struct tg__history_walk walk = {.history = h};
  for (struct tg__snapshot_entry x = {0}; !w->no_memory && tg__history_next(&walk, &x);) {
    if (x.action != TG__ACTION_ALLOC && !is_free_entry(h, &x)) continue;
    const size_t before = w->of_addr.count;
    if (!tg__map_slot(&w->of_addr, (uint64_t)x.addr, 0))
      w->no_memory = true;
    else if (w->of_addr.count > before && x.action != TG__ACTION_ALLOC)
      memory_event(w, ts_ns, x.addr, x.size, 0, true);
  }
  for (size_t i = 0; i < w->snapshot.block_count && !w->no_memory; i++) {
    const struct tg__snapshot_block *const b = &w->snapshot.blocks[i];
    if (!is_of_device(w, b) || !is_active(w, b) || tg__map_get(&w->of_addr, (uint64_t)b->address) != TG_NONE) continue;
    memory_event(w, ts_ns, b->address, b->requested > 0 ? b->requested : b->size, b->stack, true);
  }
}

static int64_t reserved_at_the_end(const struct importer *w) {
  int64_t sum = 0;
  for (size_t i = 0; i < w->snapshot.segment_count; i++)
    if (w->snapshot.segments[i].device == w->device && __builtin_add_overflow(sum, w->snapshot.segments[i].total, &sum))
      return INT64_MAX;
  return sum;
}

/* ---- rows of a device ------------------------------------------------------------------------ */

static void emit_other(struct importer *w, const struct tg__snapshot_entry *x) {
  if (x->action == TG__ACTION_OOM) {
    put_device(w);
    value(w, TG__K_BYTES_MEMORY, TG__KIND_INT, x->size);
    value(w, w->key_free, TG__KIND_INT, x->addr);
  } else if (x->action != TG__ACTION_SNAPSHOT) {
    value(w, TG__K_ADDR, TG__KIND_INT, x->addr);
    value(w, TG__K_BYTES, TG__KIND_INT, x->size);
    value(w, TG__K_TOTAL_RESERVED, TG__KIND_INT, w->reserved);
  }
  if (x->action != TG__ACTION_OOM && !w->device_type)
    put_device(w); /* what says none is of the device its track is called after */
  put_context(w, x->context, true);
  stack(w, x->stack);
  const uint32_t name = x->action == TG__ACTION_OTHER ? x->action_text : w->snapshot.action_texts[x->action];
  event(w,
        x->action == TG__ACTION_OOM ? TG__K_OUT_OF_MEMORY
        : name == TG_NONE           ? TG__K_EMPTY
                                    : name,
        to_ns(w, x->time_us));
}

static void emit_entry(struct importer *w, const struct tg__snapshot_history *h, const struct tg__snapshot_entry *x) {
  if (__builtin_add_overflow(w->reserved, tg__snapshot_reserved(x), &w->reserved)) w->reserved = INT64_MAX;
  const bool taken = x->action == TG__ACTION_ALLOC;
  if (!taken && !is_free_entry(h, x)) {
    emit_other(w, x);
    return;
  }
  struct live block = {x->size, x->stack};
  if (taken)
    set_alive(w, x->addr, x->size, x->stack);
  else
    block = set_dead(w, x);
  put_context(w, x->context, taken);
  memory_event(w, to_ns(w, x->time_us), x->addr, taken || block.bytes == INT64_MIN ? block.bytes : -block.bytes,
               x->stack, false);
}

static void emit_history(struct importer *w, struct tg__snapshot_history *h) {
  const int64_t first_ns = h->count ? to_ns(w, h->first_us) - 1000 : 0; /* a microsecond before all that was seen */
  w->allocated = 0;
  w->last_ns = h->count ? to_ns(w, h->last.time_us) : 0;
  w->reserved =
      __builtin_sub_overflow(reserved_at_the_end(w), h->reserved, &w->reserved) || w->reserved < 0 ? 0 : w->reserved;
  emit_old_blocks(w, h, first_ns);
  struct tg__history_walk walk = {.history = h, .release_blocks = true};
  for (struct tg__snapshot_entry x = {0}; !w->no_memory && tg__history_next(&walk, &x);) emit_entry(w, h, &x);
  tg__map_free(&w->of_addr);
  w->of_addr = (struct tg__map){0};
  w->live_count = w->free_live = 0;
  tg__history_free(h);
}

static void emit_segment(struct importer *w, const struct tg__snapshot_segment *g) {
  put_device(w);
  value(w, TG__K_ADDR, TG__KIND_INT, g->address);
  value(w, TG__K_BYTES, TG__KIND_INT, g->total);
  value(w, TG__K_TOTAL_ALLOCATED, TG__KIND_INT, g->allocated);
  value(w, w->key_active, TG__KIND_INT, g->active);
  value(w, w->key_requested, TG__KIND_INT, g->requested);
  value(w, TG__K_STREAM, TG__KIND_INT, g->stream);
  value_text(w, w->key_type, g->type);
  put_pool(w, g->pool);
  if (g->is_expandable) value(w, w->key_expandable, TG__KIND_TRUE, 0);
  stack(w, g->stack);
  event(w, w->name_segment, w->last_ns);
}

static void emit_block(struct importer *w, const struct tg__snapshot_block *b) {
  put_device(w);
  value(w, TG__K_ADDR, TG__KIND_INT, b->address);
  value(w, TG__K_BYTES, TG__KIND_INT, b->size);
  value(w, w->key_requested, TG__KIND_INT, b->requested);
  if (b->segment != TG_NONE) value(w, w->key_segment, TG__KIND_INT, w->snapshot.segments[b->segment].address);
  value_text(w, w->key_state, b->state);
  stack(w, b->stack);
  event(w, w->name_block, w->last_ns);
}

static void emit_notes(struct importer *w) {
  const struct tg__snapshot *const s = &w->snapshot;
  const uint32_t cat = intern_snapshot(w, "user_annotation");
  for (size_t i = 0; i < s->note_count && !w->no_memory; i++) {
    const struct tg__record r = {.ts_ns = to_ns(w, s->notes[i].time_us),
                                 .dur_ns = TG_NULL_INT,
                                 .name = s->notes[i].name == TG_NONE ? TG__K_EMPTY : s->notes[i].name,
                                 .track = w->track,
                                 .ph = s->notes[i].begins ? 'B' : 'E'};
    if (s->notes[i].device == w->device && !tg__row_add(w->parser, r, cat)) w->no_memory = true;
  }
}

static void name_device(struct importer *w) {
  char name[48] = "memory of the CPU";
  if (w->device == TG__HOST_DEVICE)
    snprintf(name, sizeof name, "pinned memory of the host");
  else if (w->device_type)
    snprintf(name, sizeof name, "memory of GPU%lld", (long long)w->device);
  w->track = tg__intern_track(w->parser, &(struct tg__track_key){.pid = w->device, .tid = 0});
  value(w, TG__K_NAME, TG__KIND_STR, intern_snapshot(w, name));
  const struct tg__record r = {
      .ts_ns = TG_NULL_INT, .dur_ns = TG_NULL_INT, .name = TG__K_PROCESS_NAME, .track = w->track, .ph = 'M'};
  if (!tg__row_add(w->parser, r, TG_NONE)) w->no_memory = true;
}

static struct tg__snapshot_history *history_of(struct tg__snapshot *s, int64_t device) {
  const size_t at = device == TG__HOST_DEVICE ? s->host : (size_t)device;
  return at < s->device_count && (device == TG__HOST_DEVICE || at != s->host) ? &s->devices[at] : NULL;
}

static bool is_used(struct tg__snapshot *s, int64_t device) {
  const struct tg__snapshot_history *const h = history_of(s, device);
  bool used = h && h->count;
  for (size_t i = 0; i < s->segment_count && !used; i++) used = s->segments[i].device == device;
  return used;
}

static void emit_device(struct importer *w, int64_t device) {
  struct tg__snapshot *const s = &w->snapshot;
  struct tg__snapshot_history none = {0}, *const h = history_of(s, device);
  w->device = device;
  w->device_type = device != TG__HOST_DEVICE && !s->is_cpu;
  name_device(w);
  emit_history(w, h ? h : &none);
  for (size_t i = 0; i < s->segment_count && !w->no_memory; i++)
    if (s->segments[i].device == device) emit_segment(w, &s->segments[i]);
  for (size_t i = 0; i < s->block_count && !w->no_memory; i++)
    if (is_of_device(w, &s->blocks[i])) emit_block(w, &s->blocks[i]);
  emit_notes(w);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void know_words(struct importer *w) {
  w->cat = intern_snapshot(w, "memory_snapshot");
  w->key_requested = intern_snapshot(w, "requested_size");
  w->key_state = intern_snapshot(w, "state");
  w->key_type = intern_snapshot(w, "segment_type");
  w->key_pool = intern_snapshot(w, "pool");
  w->key_active = intern_snapshot(w, "active_size");
  w->key_expandable = intern_snapshot(w, "is_expandable");
  w->key_metadata = intern_snapshot(w, "user_metadata");
  w->key_segment = intern_snapshot(w, "segment");
  w->key_free = intern_snapshot(w, "device_free");
  w->key_compiled = intern_snapshot(w, "compile_context");
  w->key_internal = intern_snapshot(w, "internal_metadata");
  w->key_forward = intern_snapshot(w, "forward_frames");
  w->name_segment = intern_snapshot(w, "segment");
  w->name_block = intern_snapshot(w, "block");
}

static bool add_member(struct importer *w, uint32_t key, uint32_t raw) {
  struct tg__import *const im = w->im;
  if (!tg__grow((void **)&im->meta, &im->meta_cap, im->meta_count + 1, sizeof *im->meta)) return false;
  im->meta[im->meta_count++] = (struct tg__meta){.key = key, .raw = raw};
  return true;
}

/* A little before all that has a time: a microsecond before is when the blocks stand that were there already. */
static void find_base(struct importer *w) {
  enum { GRAIN_US = 64 }; /* in ns a multiple of what a double resolves there: readers of JSON lose nothing of it */
  const struct tg__snapshot *const s = &w->snapshot;
  int64_t first = INT64_MAX;
  for (size_t i = 0; i < s->device_count; i++)
    if (s->devices[i].count && s->devices[i].first_us < first) first = s->devices[i].first_us;
  for (size_t i = 0; i < s->note_count; i++)
    if (s->notes[i].time_us < first) first = s->notes[i].time_us;
  if (first <= GRAIN_US || first > INT64_MAX / 1000) return;
  w->base_us = (first - 1) / GRAIN_US * GRAIN_US;
  char text[32];
  snprintf(text, sizeof text, "%lld", (long long)w->base_us * 1000);
  if (!add_member(w, TG__K_BASE_TIME, intern_snapshot(w, text))) w->no_memory = true;
}

static void lose(struct importer *w, enum tg__loss what, int64_t count) {
  if (count <= 0 || count >= INT64_C(1) << 53) return; /* more is no count */
  tg__count_loss(&w->im->losses, what, 0);
  w->im->losses.count[what] += count - 1;
}

/* Room for the args of the rows: what grows bit by bit is moved, and has small pages. Unused room is never touched. */
static void expect_rows(struct importer *w) {
  enum { ROW_BYTES = 32 };
  size_t rows = w->snapshot.block_count;
  for (size_t i = 0; i < w->snapshot.device_count; i++) rows += w->snapshot.devices[i].count;
  if (!tg__pages_grow((void **)&w->im->pool, &w->im->pool_cap, w->im->pool_len + rows * ROW_BYTES)) w->no_memory = true;
}

static bool emit_all(struct importer *w, struct tg_error *e) {
  struct tg__snapshot *const s = &w->snapshot;
  int64_t devices = (int64_t)s->host;
  bool found = false;
  for (size_t i = 0; i < s->segment_count; i++)
    if (s->segments[i].device >= devices && s->segments[i].device < 4096) devices = s->segments[i].device + 1;
  know_words(w);
  find_base(w);
  expect_rows(w);
  for (int64_t d = 0; d <= devices && !w->no_memory; d++) {
    const int64_t device = d < devices ? d : TG__HOST_DEVICE;
    if (!is_used(s, device)) continue;
    emit_device(w, device);
    found = true;
  }
  if (s->settings != TG_NONE && !add_member(w, intern_snapshot(w, "allocator_settings"), s->settings))
    w->no_memory = true;
  if (s->cut) tg__count_loss(&w->im->losses, TG__LOSS_cut_end, s->cut_offset);
  lose(w, TG__LOSS_cut_history, s->overflowed);
  lose(w, TG__LOSS_skipped_overwritten, s->dropped);
  lose(w, TG__LOSS_bent_no_details, s->cut_stacks);
  if (!w->no_memory && !found)
    tg__fail(e, TG_NO_EVENTS, s->cut ? s->cut_offset : -1, "%s",
             s->cut ? "the memory snapshot is cut off before its first segment or event: copy it again"
                    : "the memory snapshot is empty: was torch.cuda.memory._record_memory_history() called, and "
                      "anything allocated on a device?");
  return found || w->no_memory;
}

enum tg_err tg__import_snapshot(struct tg__import *im, tg__source_fn *source, void *ctx,
                                const struct tg__import_how *how, struct tg_error *e) {
  struct importer w = {.im = im, .parser = tg__alloc(sizeof *w.parser)};
  enum tg_err err = w.parser && tg__parser_init(w.parser, &im->shared) ? TG_OK : TG_MEMORY;
  if (err) tg__no_memory(e, "reading the snapshot");
  if (!err) err = tg__snapshot_read(&w.snapshot, im->shared.trace->strings, source, ctx, how, e);
  if (!err && !emit_all(&w, e)) err = e->code;
  if (!err && (w.no_memory || !tg__commit_rows(im, w.parser))) err = tg__no_memory(e, "reading the snapshot");
  tg__snapshot_free(&w.snapshot);
  tg__map_free(&w.of_addr);
  tg__free(w.lives);
  if (w.parser) tg__parser_free(w.parser);
  tg__free(w.parser);
  return err;
}
