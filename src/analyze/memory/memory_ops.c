/* The question memory_ops: what operators allocate and what of it they leave behind, with the operators in them and
 * without. */
#include "analyze/host/op_tree.h"

#include <stdio.h>

struct device_key { /* compared as bytes: no padding */
  int64_t rank, type, id;
};
struct sums {
  int64_t net_bytes, alloc_bytes, allocations;
};
struct row {
  uint32_t device, op; /* op: string id */
  int64_t calls;
  struct sums self, total;
};
struct work {
  const struct tg__columns *t;
  const struct tg__ask *ask;
  struct tg__op_tree tree;
  struct tg__memory_events events;
  struct tg__strings *keys; /* bytes of a device_key → device */
  struct device_key *devices;
  size_t device_count, device_cap;
  uint32_t *device_of, *order; /* by event; events by device */
  struct sums *self, *total;   /* by node, of the device at hand; zero elsewhere */
  bool *touched;
  uint32_t *nodes; /* the nodes touched */
  size_t node_count;
  struct row *rows;
  size_t count, cap;
  struct tg__map row_of, calls_of; /* (device, op) → row; (rank, op) → calls */
};

/* ---- events by device ------------------------------------------------------------------------ */

static bool by_device(uint32_t a, uint32_t b, const void *ctx) {
  const struct work *w = ctx;
  return w->device_of[a] < w->device_of[b];
}

static bool sort_events(struct work *w, size_t *wanted) {
  w->keys = tg__strings_new();
  w->device_of = tg__alloc((w->events.count + 1) * sizeof *w->device_of);
  w->order = tg__alloc((w->events.count + 1) * sizeof *w->order);
  if (!w->keys || !w->device_of || !w->order) return false;
  for (size_t i = 0; i < w->events.count; i++) {
    const struct tg__memory_event *e = &w->events.items[i];
    const struct device_key key = {w->t->tracks[e->track].rank, e->device.type, e->device.id};
    if (e->node == TG_NONE || !tg__ask_has_rank(w->ask, (uint32_t)key.rank) ||
        !tg__memory_device_is_wanted(w->ask, key.type, key.id))
      continue;
    const uint32_t id = tg__strings_add(w->keys, (const char *)&key, sizeof key);
    if (id == TG_NONE || (id == w->device_count && !tg__grow((void **)&w->devices, &w->device_cap, id + 1, sizeof key)))
      return false;
    if (id == w->device_count) w->devices[w->device_count++] = key;
    w->device_of[i] = id;
    w->order[(*wanted)++] = (uint32_t)i;
  }
  return tg__sort_index(w->order, *wanted, by_device, w);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static bool count_calls(struct work *w) {
  const struct tg__rank_range range = tg__rank_range_of(w->t, w->ask->rank);
  for (uint32_t k = range.first_track; k < range.end_track; k++) {
    for (uint32_t i = w->tree.first[k]; i < w->tree.first[k + 1]; i++) {
      const struct tg__op_node *n = &w->tree.nodes[i];
      if (!n->in_table || n->absorbed_by != TG_NONE) continue;
      uint32_t *calls =
          tg__map_slot(&w->calls_of, (uint64_t)w->t->tracks[k].rank << 32 | w->t->slices.name[n->slice], 0);
      if (!calls) return false;
      ++*calls;
    }
  }
  return true;
}

/* ---- one device ------------------------------------------------------------------------------ */

static void touch(struct work *w, uint32_t node) {
  for (; node != TG_NONE && !w->touched[node]; node = w->tree.nodes[node].parent) {
    w->touched[node] = true;
    w->nodes[w->node_count++] = node;
  }
}

static void add_memory_op(struct sums *to, const struct sums *s) {
  to->net_bytes += s->net_bytes;
  to->alloc_bytes += s->alloc_bytes;
  to->allocations += s->allocations;
}

static struct row *find_memory_op_row(struct work *w, uint32_t device, uint32_t op) {
  uint32_t *slot = tg__map_slot(&w->row_of, (uint64_t)device << 32 | op, TG_NONE);
  if (!slot) return NULL;
  if (*slot == TG_NONE) {
    if (!tg__grow((void **)&w->rows, &w->cap, w->count + 1, sizeof *w->rows)) return NULL;
    *slot = (uint32_t)w->count;
    const uint32_t calls = tg__map_get(&w->calls_of, (uint64_t)w->devices[device].rank << 32 | op);
    w->rows[w->count++] = (struct row){.device = device, .op = op, .calls = calls};
  }
  return &w->rows[*slot];
}

static bool higher(uint32_t a, uint32_t b, const void *ctx) {
  const uint32_t *nodes = ((const struct work *)ctx)->nodes;
  return nodes[a] > nodes[b];
}

/* Children have larger numbers than their parents, so from the largest down each is complete when its parent takes
 * it in. */
static bool sum_up_memory_op(struct work *w, uint32_t device) {
  uint32_t *order = tg__order_new(w->node_count, higher, w);
  bool done = order != NULL;
  for (size_t i = 0; done && i < w->node_count; i++) {
    const uint32_t node = w->nodes[order[i]];
    const struct tg__op_node *n = &w->tree.nodes[node];
    add_memory_op(&w->total[node], &w->self[node]);
    if (n->parent != TG_NONE) add_memory_op(&w->total[n->parent], &w->total[node]);
    struct row *r = n->in_table ? find_memory_op_row(w, device, w->t->slices.name[n->slice]) : NULL;
    if (r) {
      add_memory_op(&r->self, &w->self[node]);
      add_memory_op(&r->total, &w->total[node]);
    }
    done = r || !n->in_table;
  }
  for (size_t i = 0; i < w->node_count; i++) {
    const uint32_t node = w->nodes[i];
    w->self[node] = w->total[node] = (struct sums){0};
    w->touched[node] = false;
  }
  w->node_count = 0;
  tg__free(order);
  return done;
}

static bool follow_memory_op(struct work *w, size_t wanted) {
  const size_t nodes = w->tree.count + 1;
  w->self = tg__alloc(nodes * sizeof *w->self);
  w->total = tg__alloc(nodes * sizeof *w->total);
  w->touched = tg__alloc(nodes * sizeof *w->touched);
  w->nodes = tg__alloc(nodes * sizeof *w->nodes);
  bool done = w->self && w->total && w->touched && w->nodes;
  for (size_t i = 0; done && i < wanted; i++) {
    const struct tg__memory_event *e = &w->events.items[w->order[i]];
    const struct sums s = {e->bytes, e->bytes > 0 ? e->bytes : 0, e->bytes > 0};
    add_memory_op(&w->self[e->node], &s);
    touch(w, e->node);
    const uint32_t device = w->device_of[w->order[i]];
    if (i + 1 == wanted || w->device_of[w->order[i + 1]] != device) done = sum_up_memory_op(w, device);
  }
  return done;
}

/* ---- the table ------------------------------------------------------------------------------- */

static bool memory_op_row_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct work *w = ctx;
  const struct row *x = &w->rows[a], *y = &w->rows[b];
  const struct device_key *dx = &w->devices[x->device], *dy = &w->devices[y->device];
  if (dx->rank != dy->rank) return dx->rank < dy->rank;
  if (dx->type != dy->type) return dx->type < dy->type;
  if (dx->id != dy->id) return dx->id < dy->id;
  if (x->self.net_bytes != y->self.net_bytes) return x->self.net_bytes > y->self.net_bytes;
  if (x->total.alloc_bytes != y->total.alloc_bytes) return x->total.alloc_bytes > y->total.alloc_bytes;
  return x->op != y->op && tg__str_cmp(tg__name(w->t, x->op), tg__name(w->t, y->op)) < 0;
}

static enum tg_err put_memory_op_rows(const struct work *w, struct tg_table *out) {
  uint32_t *order = tg__order_new(w->count, memory_op_row_before, w);
  if (!order) return TG_MEMORY;
  for (size_t i = 0; i < w->count; i++) {
    const struct row *r = &w->rows[order[i]];
    char buf[TG__DEVICE_NAME];
    tg__put_rank(out, w->t, (uint32_t)w->devices[r->device].rank);
    tg__put_cstr(out, tg__memory_device_name(w->devices[r->device].type, w->devices[r->device].id, buf));
    tg__put_trace_text(out, w->t, r->op);
    const int64_t cells[] = {r->calls,
                             r->total.net_bytes,
                             r->self.net_bytes,
                             r->total.allocations,
                             r->self.allocations,
                             r->total.alloc_bytes,
                             r->self.alloc_bytes};
    for (size_t k = 0; k < sizeof cells / sizeof *cells; k++) tg__put_int(out, cells[k]);
  }
  tg__free(order);
  return TG_OK;
}

enum tg_err tg__answer_memory_ops(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                  struct tg_error *e) {
  struct work w = {.t = t, .ask = a};
  size_t wanted = 0;
  enum tg_err err = tg__op_tree_build(t, &w.tree);
  if (!err) err = tg__memory_events_read(t, a, &w.tree, &w.events);
  if (!err && (!sort_events(&w, &wanted) || !count_calls(&w) || !follow_memory_op(&w, wanted))) err = TG_MEMORY;
  if (!err) err = put_memory_op_rows(&w, out);
  if (err == TG_MEMORY) tg__no_memory(e, "adding up what operators allocate");
  tg__op_tree_free(&w.tree);
  tg__memory_events_free(&w.events);
  if (w.keys) tg__strings_free(w.keys);
  tg__map_free(&w.row_of);
  tg__map_free(&w.calls_of);
  void *const blocks[] = {w.devices, w.device_of, w.order, w.self, w.total, w.touched, w.nodes, w.rows};
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) tg__free(blocks[i]);
  return err;
}
