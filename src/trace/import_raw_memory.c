/* Allocations and frees of a recording as events, with running totals. A free is recorded with the allocator's size of
 * the block; where the recording has the allocation too, its size counts. */
#include "trace/import_raw.h"

void tg__raw_take_totals(struct tg__raw_job *out, const struct tg__raw_chunk *chunk, uint32_t at) {
  struct tg__raw_memory *const m = out->memory_count ? &out->memory[out->memory_count - 1] : NULL;
  struct tg__raw_record r;
  uint64_t dur;
  bool torn;
  if (!m || m->is_tensor || !tg__raw_next(chunk, &at, &r, &dur, &torn)) return;
  if (r.scope != TG_RAW_MEMORY_TOTALS || r.depth != m->device) return;
  m->has_totals = true;
  m->allocated = r.shape | (uint64_t)r.stack << 32;
  m->reserved = r.dur_ticks | (uint64_t)r.seq << 32;
}

struct allocations {            /* of one process */
  struct tg__raw_memory *items; /* thread after thread, each in its own order */
  size_t count, cap;
  uint32_t *order; /* of items, by time */
};

static bool alloc_is_earlier(uint32_t a, uint32_t b, const void *items) {
  const struct tg__raw_memory *const all = items;
  return all[a].ts_ns < all[b].ts_ns;
}

static bool gather_alloc(struct allocations *all, const struct tg__raw_job *jobs, size_t count,
                         const struct tg__raw_file *file) {
  all->count = 0;
  for (size_t i = 0; i < count; i++) {
    if (jobs[i].file != file || !jobs[i].memory_count) continue;
    if (!tg__grow((void **)&all->items, &all->cap, all->count + jobs[i].memory_count, sizeof *all->items)) return false;
    memcpy(all->items + all->count, jobs[i].memory, jobs[i].memory_count * sizeof *all->items);
    all->count += jobs[i].memory_count;
  }
  tg__free(all->order);
  all->order = tg__order_new(all->count, alloc_is_earlier, all->items);
  return all->order != NULL;
}

/* Set the size of frees to that of their allocation. If two claim one address, the older is freed first: the times
 * of allocations are a little early (EARLY in format/events.def), so a block may seem to be given away again before it
 * was freed. */
static bool match_free_sizes(struct allocations *all) {
  struct tg__map oldest = {0}, newest = {0};                       /* address → allocation that is live there */
  uint32_t *const next = tg__alloc(all->count * sizeof *next + 1); /* the one after it at the same address, + 1 */
  bool ok = next != NULL;
  for (size_t i = 0; i < all->count && ok; i++) {
    const uint32_t at = all->order[i];
    struct tg__raw_memory *const m = &all->items[at];
    if (m->failed || m->is_tensor || m->device) continue; /* allocators of devices say how much is freed */
    const uint32_t first = tg__map_get(&oldest, m->address);
    if (m->bytes > 0) {
      if (first == TG_NONE) {
        ok = tg__map_put(&oldest, m->address, at);
      } else {
        next[tg__map_get(&newest, m->address)] = at + 1;
      }
      ok = ok && tg__map_put(&newest, m->address, at);
    } else if (first != TG_NONE) {
      m->bytes = -all->items[first].bytes;
      ok = tg__map_put(&oldest, m->address, next[first] - 1); /* TG_NONE: the address is free */
    }
  }
  tg__map_free(&oldest);
  tg__map_free(&newest);
  tg__free(next);
  return ok;
}

struct totals {
  int64_t allocated, reserved;
};

static int64_t as_signed(uint64_t n) { return n <= INT64_MAX ? (int64_t)n : INT64_MAX; }

static void follow_totals(struct totals *total, const struct tg__raw_memory *m) {
  if (m->has_totals) {
    *total = (struct totals){as_signed(m->allocated), as_signed(m->reserved)};
  } else if (!m->failed && __builtin_add_overflow(total->allocated, m->bytes, &total->allocated)) {
    total->allocated = INT64_MAX;
  }
}

static void add_memory(struct tg__raw *w, const struct tg__raw_memory *m, const struct totals *total) {
  struct tg__parser *const p = w->parser;
  const int type = m->device >> 8, index = m->device & 0xff;
  tg__row_value(p, TG__K_S, TG__KIND_STR, TG__K_T, true);
  tg__row_value(p, TG__K_TOTAL_RESERVED, TG__KIND_INT, total->reserved, false);
  tg__row_value(p, TG__K_TOTAL_ALLOCATED, TG__KIND_INT, total->allocated, false);
  tg__row_value(p, TG__K_BYTES_MEMORY, TG__KIND_INT, m->bytes, false);
  tg__row_value(p, TG__K_DEVICE_ID, TG__KIND_INT, type == 0 ? -1 : index, false); /* processors have no number */
  tg__row_value(p, TG__K_DEVICE_TYPE, TG__KIND_INT, type, false);
  if (!m->failed) tg__row_value(p, TG__K_ADDR, TG__KIND_INT, (int64_t)m->address, false);
  const uint32_t name = m->failed ? TG__K_OUT_OF_MEMORY : TG__K_MEMORY;
  tg__raw_add_event(
      w, (struct tg__record){.ts_ns = m->ts_ns, .dur_ns = TG_NULL_INT, .name = name, .track = m->track, .ph = 'i'},
      "cpu_instant_event");
}

static void add_tensor(struct tg__raw *w, const struct tg__raw_memory *m) {
  struct tg__parser *const p = w->parser;
  const int type = m->device >> 8, index = m->device & 0xff;
  tg__row_value(p, TG__K_S, TG__KIND_STR, TG__K_T, true);
  if (m->tensor_name != TG_NONE) tg__row_value(p, TG__K_TENSOR_NAME, TG__KIND_STR, m->tensor_name, false);
  tg__row_value(p, TG__K_TENSOR_KIND, TG__KIND_STR, m->kind, false);
  tg__row_value(p, TG__K_BYTES_MEMORY, TG__KIND_INT, m->bytes, false);
  tg__row_value(p, TG__K_DEVICE_ID, TG__KIND_INT, type == 0 ? -1 : index, false);
  tg__row_value(p, TG__K_DEVICE_TYPE, TG__KIND_INT, type, false);
  tg__row_value(p, TG__K_ADDR, TG__KIND_INT, (int64_t)m->address, false);
  tg__raw_add_event(
      w,
      (struct tg__record){.ts_ns = m->ts_ns, .dur_ns = TG_NULL_INT, .name = TG__K_TENSOR, .track = m->track, .ph = 'i'},
      "cpu_instant_event");
}

/* Running sums per device, from zero where the recording begins (below zero when more of what was there before was
 * freed than taken); what the allocator of a device says itself takes their place. */
void tg__raw_memory_rows(struct tg__raw *w, const struct tg__raw_job *jobs, size_t count) {
  struct totals *const totals =
      tg__alloc(((size_t)UINT16_MAX + 1) * sizeof *totals); /* by device; zeroed pages, few of which are touched */
  struct allocations all = {0};
  w->no_memory |= !totals;
  for (size_t f = 0; f < w->file_count && !w->no_memory; f++) {
    if (!gather_alloc(&all, jobs, count, &w->files[f]) || !match_free_sizes(&all)) w->no_memory = true;
    if (f && all.count) memset(totals, 0, ((size_t)UINT16_MAX + 1) * sizeof *totals);
    for (size_t i = 0; i < all.count && !w->no_memory; i++) {
      const struct tg__raw_memory *const m = &all.items[all.order[i]];
      struct totals *const total = &totals[m->device];
      if (m->is_tensor) {
        add_tensor(w, m);
        continue;
      }
      follow_totals(total, m);
      add_memory(w, m, total);
    }
  }
  tg__free(all.items);
  tg__free(all.order);
  tg__free(totals);
}
