/* The question memory: totals, curve and operators, per device, from the events as they stand. The blocks alive at the
 * peak: memory_peak.c. */
#include "analyze/memory/memory_blocks.h"

#include <stdio.h>

enum by { BY_DEVICE, BY_TIME, BY_PEAK, BY_OP, BY_CATEGORY };

struct device_key { /* compared as bytes: no padding */
  int64_t rank, type, id;
};
struct device {
  struct device_key key;
  bool wanted;
  int64_t events, allocations, alloc_bytes, free_bytes, net, peak_net;
  int64_t peak_allocated, peak_reserved; /* TG_NULL_INT when never reported */
  int64_t with_addr, paired, live_count, free_without_alloc;
  size_t peak_event;   /* SIZE_MAX when the curve is never above its start */
  struct tg__map live; /* address → event; TG_NONE once freed */
};
struct op_row {
  uint32_t device, op; /* op: string id, TG_NONE outside any operator */
  int64_t events, allocations, alloc_bytes, free_bytes;
};
struct work {
  const struct tg__columns *t;
  enum by by;
  struct tg__op_tree tree;
  struct tg__memory_events events;
  uint32_t *device_of;             /* by event */
  struct tg__strings *device_keys; /* bytes of a device_key → device */
  struct device *devices;
  size_t device_count, device_cap;
};

/* ---- devices --------------------------------------------------------------------------------- */

/* TG_NONE on no memory. */
static uint32_t memory_device_of(struct work *w, const struct tg__ask *a, const struct tg__memory_event *e) {
  const struct device_key key = {w->t->tracks[e->track].rank, e->device.type, e->device.id};
  const uint32_t id = tg__strings_add(w->device_keys, (const char *)&key, sizeof key);
  if (id == TG_NONE || id < w->device_count) return id;
  if (!tg__grow((void **)&w->devices, &w->device_cap, w->device_count + 1, sizeof *w->devices)) return TG_NONE;
  struct device *d = &w->devices[w->device_count++];
  *d = (struct device){.key = key, .peak_allocated = TG_NULL_INT, .peak_reserved = TG_NULL_INT, .peak_event = SIZE_MAX};
  d->wanted = tg__memory_device_is_wanted(a, d->key.type, d->key.id);
  return id;
}

/* ---- following the events -------------------------------------------------------------------- */

static bool follow_address(struct device *d, const struct tg__memory_event *e, size_t i) {
  if (!e->addr_is_known) return true;
  uint32_t *at = tg__map_slot(&d->live, e->addr, TG_NONE);
  if (!at) return false;
  if (e->bytes > 0) {
    d->live_count += *at == TG_NONE; /* an address given out twice without a release counts once */
    *at = (uint32_t)i;
  } else if (*at != TG_NONE) {
    d->paired++;
    d->live_count--;
    *at = TG_NONE;
  } else {
    d->free_without_alloc++;
  }
  return true;
}

static void sum_up_memory(struct device *d, const struct tg__memory_event *e, size_t i) {
  d->events++;
  d->with_addr += e->has_addr;
  if (e->bytes > 0) {
    d->allocations++;
    d->alloc_bytes += e->bytes;
  } else {
    d->free_bytes -= e->bytes;
  }
  d->net += e->bytes;
  if (d->net > d->peak_net) {
    d->peak_net = d->net;
    d->peak_event = i;
  }
  if (e->allocated > d->peak_allocated) d->peak_allocated = e->allocated;
  if (e->reserved > d->peak_reserved) d->peak_reserved = e->reserved;
}

static enum tg_err follow_all(struct work *w, const struct tg__ask *a) {
  w->device_of = tg__alloc((w->events.count + 1) * sizeof *w->device_of);
  w->device_keys = tg__strings_new();
  if (!w->device_of || !w->device_keys) return TG_MEMORY;
  for (size_t i = 0; i < w->events.count; i++) {
    const struct tg__memory_event *e = &w->events.items[i];
    w->device_of[i] = TG_NONE;
    if (!tg__ask_has_rank(a, w->t->tracks[e->track].rank)) continue;
    const uint32_t id = memory_device_of(w, a, e);
    if (id == TG_NONE) return TG_MEMORY;
    struct device *d = &w->devices[id];
    if (!d->wanted) continue;
    w->device_of[i] = id;
    sum_up_memory(d, e, i);
    if (!follow_address(d, e, i)) return TG_MEMORY;
  }
  return TG_OK;
}

/* ---- tables ---------------------------------------------------------------------------------- */

enum {
  PAIRED = 4,
  BLOCKS = 4
}; /* columns that only by=device has, and those at the end that only by=peak and by=category have */

static void put_memory_nulls(struct tg_table *out, int count) {
  while (count-- > 0) tg__put_null(out);
}

static void put_head(const struct work *w, const struct device *d, uint32_t op, int64_t ts_ns, struct tg_table *out) {
  char buf[TG__DEVICE_NAME];
  tg__put_rank(out, w->t, (uint32_t)d->key.rank);
  tg__put_cstr(out, tg__memory_device_name(d->key.type, d->key.id, buf));
  tg__put_trace_text(out, w->t, op);
  tg__put_int(out, ts_ns);
}

static bool device_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct device *x = &((const struct work *)ctx)->devices[a], *y = &((const struct work *)ctx)->devices[b];
  if (x->key.rank != y->key.rank) return x->key.rank < y->key.rank;
  return x->key.type != y->key.type ? x->key.type < y->key.type : x->key.id < y->key.id;
}

static enum tg_err put_devices(const struct work *w, struct tg_table *out) {
  uint32_t *order = tg__order_new(w->device_count, device_before, w);
  if (!order) return TG_MEMORY;
  for (size_t i = 0; i < w->device_count; i++) {
    const struct device *d = &w->devices[order[i]];
    if (!d->wanted) continue;
    put_head(w, d, TG_NONE, d->peak_event == SIZE_MAX ? TG_NULL_INT : w->events.items[d->peak_event].ts_ns, out);
    const int64_t cells[] = {d->events,    d->allocations, d->alloc_bytes,    d->free_bytes,
                             d->net,       d->peak_net,    d->peak_allocated, d->peak_reserved,
                             d->with_addr, d->paired,      d->live_count,     d->free_without_alloc};
    for (size_t k = 0; k < sizeof cells / sizeof *cells; k++) tg__put_int(out, cells[k]);
    put_memory_nulls(out, BLOCKS);
  }
  tg__free(order);
  return TG_OK;
}

static void put_curve(struct work *w, struct tg_table *out) {
  for (size_t i = 0; i < w->device_count; i++)
    w->devices[i].net = w->devices[i].peak_net = 0; /* run through once more */
  for (size_t i = 0; i < w->events.count; i++) {
    if (w->device_of[i] == TG_NONE) continue;
    const struct tg__memory_event *e = &w->events.items[i];
    struct device *d = &w->devices[w->device_of[i]];
    d->net += e->bytes;
    if (d->net > d->peak_net) d->peak_net = d->net;
    put_head(w, d, TG_NONE, e->ts_ns, out);
    const int64_t cells[] = {1,
                             e->bytes > 0,
                             e->bytes > 0 ? e->bytes : 0,
                             e->bytes > 0 ? 0 : -e->bytes,
                             d->net,
                             d->peak_net,
                             e->allocated,
                             e->reserved};
    for (size_t k = 0; k < sizeof cells / sizeof *cells; k++) tg__put_int(out, cells[k]);
    put_memory_nulls(out, PAIRED + BLOCKS);
  }
}

static uint32_t op_name(const struct work *w, const struct tg__memory_event *e) {
  return e->node == TG_NONE ? TG_NONE : w->t->slices.name[w->tree.nodes[e->node].slice];
}

/* ---- per operator ---------------------------------------------------------------------------- */

struct op_table {
  const struct work *work;
  struct op_row *rows;
  size_t count, cap;
  struct tg__map row_of;
};

static bool count_for_op(struct op_table *ops, size_t i) {
  const struct work *w = ops->work;
  const struct tg__memory_event *e = &w->events.items[i];
  const uint32_t op = op_name(w, e);
  uint32_t *slot = tg__map_slot(&ops->row_of, (uint64_t)w->device_of[i] << 32 | op, TG_NONE);
  if (!slot) return false;
  if (*slot == TG_NONE) {
    if (!tg__grow((void **)&ops->rows, &ops->cap, ops->count + 1, sizeof *ops->rows)) return false;
    *slot = (uint32_t)ops->count;
    ops->rows[ops->count++] = (struct op_row){.device = w->device_of[i], .op = op};
  }
  struct op_row *r = &ops->rows[*slot];
  r->events++;
  r->allocations += e->bytes > 0;
  if (e->bytes > 0)
    r->alloc_bytes += e->bytes;
  else
    r->free_bytes -= e->bytes;
  return true;
}

static bool op_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct op_table *ops = ctx;
  const struct op_row *x = &ops->rows[a], *y = &ops->rows[b];
  if (x->device != y->device) return device_before(x->device, y->device, ops->work);
  return x->alloc_bytes != y->alloc_bytes ? x->alloc_bytes > y->alloc_bytes : x->free_bytes > y->free_bytes;
}

static enum tg_err put_ops(const struct work *w, struct tg_table *out) {
  struct op_table ops = {.work = w};
  enum tg_err err = TG_MEMORY;
  uint32_t *order = NULL;
  for (size_t i = 0; i < w->events.count; i++)
    if (w->device_of[i] != TG_NONE && !count_for_op(&ops, i)) goto done;
  order = tg__order_new(ops.count, op_before, &ops);
  if (!order) goto done;
  for (size_t i = 0; i < ops.count; i++) {
    const struct op_row *r = &ops.rows[order[i]];
    put_head(w, &w->devices[r->device], r->op, TG_NULL_INT, out);
    const int64_t cells[] = {r->events,   r->allocations, r->alloc_bytes, r->free_bytes, r->alloc_bytes - r->free_bytes,
                             TG_NULL_INT, TG_NULL_INT,    TG_NULL_INT};
    for (size_t k = 0; k < sizeof cells / sizeof *cells; k++) tg__put_int(out, cells[k]);
    put_memory_nulls(out, PAIRED + BLOCKS);
  }
  err = TG_OK;
done:
  tg__free(order);
  tg__free(ops.rows);
  tg__map_free(&ops.row_of);
  return err;
}

/* ---- answering ------------------------------------------------------------------------------- */

static enum tg_err put_table(struct work *w, struct tg_table *out) {
  switch (w->by) {
  case BY_TIME:
    put_curve(w, out);
    return TG_OK;
  case BY_OP:
    return put_ops(w, out);
  default:
    return put_devices(w, out);
  }
}

enum tg_err tg__answer_memory(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                              struct tg_error *e) {
  static const char *const choices[] = {
      [BY_DEVICE] = "device", [BY_TIME] = "time", [BY_PEAK] = "peak", [BY_OP] = "op", [BY_CATEGORY] = "category"};
  size_t by;
  enum tg_err err = tg__ask_choice(a, "by", choices, sizeof choices / sizeof *choices, &by, e);
  if (err) return err;
  if (by == BY_PEAK || by == BY_CATEGORY) return tg__memory_put_peak(t, a, by == BY_CATEGORY, out, e);
  struct work w = {.t = t, .by = (enum by)by};
  const bool ops = w.by == BY_OP;
  if (ops) err = tg__op_tree_build(t, &w.tree);
  if (!err) err = tg__memory_events_read(t, a, ops ? &w.tree : NULL, &w.events);
  if (!err) err = follow_all(&w, a);
  if (!err) err = put_table(&w, out);
  if (err) tg__no_memory(e, "following memory events");
  for (size_t i = 0; i < w.device_count; i++) tg__map_free(&w.devices[i].live);
  tg__op_tree_free(&w.tree);
  tg__memory_events_free(&w.events);
  if (w.device_keys) tg__strings_free(w.device_keys);
  tg__free(w.device_of);
  tg__free(w.devices);
  return err;
}
