/* The question memory_history, and the reading of allocator events that its sisters share. */
#include "analyze/memory/memory_history.h"

#include <stdio.h>

/* ---- reading --------------------------------------------------------------------------------- */

static uint32_t history_device_of(struct tg__alloc_history *h, uint32_t rank, int64_t type, int64_t id) {
  for (size_t i = h->device_count; i-- > 0;)
    if (h->devices[i].rank == rank && h->devices[i].type == type && h->devices[i].id == id) return (uint32_t)i;
  if (!tg__grow((void **)&h->devices, &h->device_cap, h->device_count + 1, sizeof *h->devices)) return TG_NONE;
  h->devices[h->device_count] = (struct tg__alloc_device){.rank = rank, .type = type, .id = id, .peak_event = -1};
  return (uint32_t)h->device_count++;
}

/* Of a snapshot: everything but its segments and blocks, which are no events. */
static bool is_history(const struct tg__columns *t, uint32_t mark, uint32_t snapshot_name) {
  const uint32_t name = t->marks.name[mark];
  if (t->marks.ts_ns[mark] == TG_NULL_INT || t->marks.track[mark] == TG_NONE) return false;
  if (name == TG__K_MEMORY || name == TG__K_OUT_OF_MEMORY) return true;
  const uint32_t cat = t->cats[t->marks.cat[mark]].name;
  return cat != TG_NONE && cat == snapshot_name && !tg__str_eq(tg__name(t, name), TG_STR("segment")) &&
         !tg__str_eq(tg__name(t, name), TG_STR("block"));
}

/* Other entries of a snapshot belong to the device named by their track. */
static struct tg__memory_device device_read(const struct tg__columns *t, uint32_t mark) {
  const uint32_t args = t->marks.args[mark], name = t->marks.name[mark];
  if (name == TG__K_MEMORY || name == TG__K_OUT_OF_MEMORY) return tg__memory_device_read(t, args);
  return tg__memory_device_of(tg__arg_int(t, args, TG__K_DEVICE_TYPE, 1),
                              tg__arg_int(t, args, TG__K_DEVICE_ID, t->tracks[t->marks.track[mark]].pid));
}

/* Where the allocator does not say what is in use, its events say how that changed. */
static void note_level(struct tg__alloc_device *d, const struct tg__alloc_event *x) {
  if (!x->is_memory) return;
  if (x->bytes != TG_NULL_INT && __builtin_add_overflow(d->net_bytes, x->bytes, &d->net_bytes))
    d->net_bytes = x->bytes < 0 ? INT64_MIN : INT64_MAX;
  const int64_t level = x->allocated != TG_NULL_INT ? x->allocated : d->net_bytes;
  if (d->peak_event >= 0 && level <= d->peak_bytes) return;
  d->peak_event = x->number;
  d->peak_bytes = level;
}

enum tg_err tg__alloc_history_read(const struct tg__columns *t, const struct tg__ask *a, struct tg__alloc_history *out,
                                   struct tg_error *e) {
  *out = (struct tg__alloc_history){0};
  const uint32_t snapshot = tg__strings_find(t->strings, "memory_snapshot", 15);
  bool memory = true;
  for (uint32_t i = 0; i < t->marks.count && memory; i++) {
    if (!is_history(t, i, snapshot) || !tg__ask_has_rank(a, t->tracks[t->marks.track[i]].rank)) continue;
    const uint32_t args = t->marks.args[i];
    struct tg__alloc_event x = {.mark = i, .ts_ns = t->marks.ts_ns[i], .is_memory = t->marks.name[i] == TG__K_MEMORY};
    const struct tg__memory_device owner = device_read(t, i);
    x.device = history_device_of(out, t->tracks[t->marks.track[i]].rank, owner.type, owner.id);
    memory = x.device != TG_NONE;
    if (!memory || !tg__memory_device_is_wanted(a, out->devices[x.device].type, out->devices[x.device].id)) continue;
    struct tg__alloc_device *const d = &out->devices[x.device];
    x.number = d->events++;
    x.addr = tg__arg_int(t, args, TG__K_ADDR, TG_NULL_INT);
    x.bytes = tg__arg_int(
        t, args,
        t->marks.name[i] == TG__K_MEMORY || t->marks.name[i] == TG__K_OUT_OF_MEMORY ? TG__K_BYTES_MEMORY : TG__K_BYTES,
        TG_NULL_INT);
    x.allocated = tg__arg_int(t, args, TG__K_TOTAL_ALLOCATED, TG_NULL_INT);
    x.reserved = tg__arg_int(t, args, TG__K_TOTAL_RESERVED, TG_NULL_INT);
    x.stack = tg__arg_str(t, args, TG__K_CALL_STACK);
    memory = tg__grow((void **)&out->events, &out->cap, out->count + 1, sizeof *out->events);
    if (!memory) break;
    note_level(d, &x);
    out->with_addr |= x.is_memory && x.addr != TG_NULL_INT;
    out->events[out->count++] = x;
  }
  if (!memory) return tg__no_memory(e, "reading the history of allocations");
  if (out->count) return TG_OK;
  return tg__fail(e, TG_NO_DATA, -1,
                  "the trace holds no allocations%s: record with profile_memory=True, or open a snapshot of "
                  "torch.cuda.memory._dump_snapshot()",
                  out->device_count ? " of this device" : "");
}

enum tg_err tg__alloc_blocks_read(const struct tg__columns *t, const struct tg__ask *a, struct tg__alloc_history *out,
                                  struct tg_error *e) {
  const enum tg_err err = tg__alloc_history_read(t, a, out, e);
  if (err || out->with_addr) return err;
  return tg__fail(e, TG_NO_DATA, -1,
                  "the [memory] events of the trace have no address, so blocks cannot be followed: record with a "
                  "newer torch, or with tachograph");
}

bool tg__alloc_blocks_follow(struct tg__alloc_blocks *b, const struct tg__alloc_history *h, size_t i, uint32_t *gone) {
  const struct tg__alloc_event *const x = &h->events[i];
  *gone = TG_NONE;
  if (!x->is_memory || x->addr == TG_NULL_INT || !x->bytes || x->bytes == TG_NULL_INT) return true;
  uint32_t *const slot = tg__map_slot(&b->of_addr, (uint64_t)x->addr, 0);
  if (!slot) return false;
  if (*slot) *gone = *slot - 1;
  *slot = x->bytes < 0 ? 0 : (uint32_t)i + 1;
  return true;
}

void tg__alloc_history_free(struct tg__alloc_history *h) {
  tg__free(h->events);
  tg__free(h->devices);
  *h = (struct tg__alloc_history){0};
}

void tg__put_address(struct tg_table *out, int64_t address) {
  char text[24];
  snprintf(text, sizeof text, "0x%llx", (unsigned long long)address);
  tg__put_cstr(out, address == TG_NULL_INT ? NULL : text);
}

/* ---- the question ---------------------------------------------------------------------------- */

static void put_action(const struct tg__columns *t, const struct tg__alloc_event *x, struct tg_table *out) {
  struct tg__val derived;
  if (t->marks.name[x->mark] == TG__K_OUT_OF_MEMORY)
    tg__put_cstr(out, "oom");
  else if (!x->is_memory)
    tg__put_trace_text(out, t, t->marks.name[x->mark]);
  else if (tg__arg(t, t->marks.args[x->mark], TG__K_DERIVED, false, &derived))
    tg__put_cstr(out, "present");
  else
    tg__put_cstr(out, x->bytes < 0 ? "free" : "alloc");
}

enum tg_err tg__answer_memory_history(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                      struct tg_error *e) {
  struct tg__alloc_history h;
  const enum tg_err err = tg__alloc_history_read(t, a, &h, e);
  for (size_t i = 0; i < h.count && !err; i++) {
    const struct tg__alloc_event *const x = &h.events[i];
    char buf[TG__DEVICE_NAME];
    tg__put_int(out, x->number);
    tg__put_rank(out, t, h.devices[x->device].rank);
    tg__put_cstr(out, tg__memory_device_name(h.devices[x->device].type, h.devices[x->device].id, buf));
    tg__put_int(out, x->ts_ns);
    put_action(t, x, out);
    tg__put_address(out, x->addr);
    tg__put_int(out, x->is_memory && x->bytes < 0 && x->bytes != TG_NULL_INT ? -x->bytes : x->bytes);
    tg__put_int(out, x->allocated);
    tg__put_int(out, x->reserved);
    tg__put_trace_text(out, t, x->stack);
  }
  tg__alloc_history_free(&h);
  return err;
}
