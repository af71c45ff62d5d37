/* [memory] events: read once, and placed in the operator tree. */
#include "analyze/host/op_tree.h"

#include <stdio.h>

/* The kinds of devices with memory that torch tracks (c10::DeviceType). */
static const char *const kinds[] = {[1] = "GPU", [9] = "XLA", [12] = "XPU", [13] = "MPS", [15] = "HPU", [19] = "MTIA"};

const char *tg__memory_device_name(int64_t type, int64_t id, char buf[TG__DEVICE_NAME]) {
  if (type == 0) return "CPU";
  const char *kind = type > 0 && type < (int64_t)(sizeof kinds / sizeof *kinds) ? kinds[type] : NULL;
  if (kind)
    snprintf(buf, TG__DEVICE_NAME, "%s%lld", kind, (long long)id);
  else
    snprintf(buf, TG__DEVICE_NAME, "type%lld:%lld", (long long)type, (long long)id);
  return buf;
}

struct tg__memory_device tg__memory_device_read(const struct tg__columns *t, uint32_t args) {
  return tg__memory_device_of(tg__arg_int(t, args, TG__K_DEVICE_TYPE, -1), tg__arg_int(t, args, TG__K_DEVICE_ID, -1));
}

bool tg__memory_device_is_wanted(const struct tg__ask *a, int64_t type, int64_t id) {
  const char *const want = tg__ask_arg(a, "device");
  char buf[TG__DEVICE_NAME];
  return !want || strcmp(want, "all") == 0 || strcmp(want, tg__memory_device_name(type, id, buf)) == 0;
}

static int64_t number(const struct tg__columns *t, uint32_t args, const struct tg__args_iter *it, int64_t fallback) {
  return it->val.kind == TG__KIND_INT ? it->val.i : tg__arg_int(t, args, it->field->key, fallback);
}

/* An address is only ever compared. One that is no 64-bit integer is known by its text; the top bit keeps the two
 * apart, which no address of a user process has. */
static void read_addr(const struct tg__args_iter *it, struct tg__memory_event *e) {
  e->has_addr = true;
  e->addr_is_known = it->val.kind != TG__KIND_NULL;
  if (it->val.kind == TG__KIND_STR || it->val.kind == TG__KIND_RAW)
    e->addr = UINT64_C(1) << 63 | it->val.str;
  else
    e->addr = (uint64_t)it->val.i;
}

struct tg__memory_event tg__memory_event_read(const struct tg__columns *t, uint32_t mark) {
  const uint32_t args = t->marks.args[mark];
  struct tg__memory_event e = {.ts_ns = t->marks.ts_ns[mark],
                               .allocated = TG_NULL_INT,
                               .reserved = TG_NULL_INT,
                               .track = t->marks.track[mark],
                               .node = TG_NONE};
  int64_t type = -1, id = -1;
  struct tg__args_iter it;
  for (tg__args_begin(t, args, &it); tg__args_next(&it);) {
    if (it.field->top) continue;
    switch (it.field->key) {
    case TG__K_BYTES_MEMORY:
      e.bytes = number(t, args, &it, 0);
      break;
    case TG__K_DEVICE_TYPE:
      type = number(t, args, &it, -1);
      break;
    case TG__K_DEVICE_ID:
      id = number(t, args, &it, -1);
      break;
    case TG__K_TOTAL_ALLOCATED:
      e.allocated = number(t, args, &it, 0);
      break;
    case TG__K_TOTAL_RESERVED:
      e.reserved = number(t, args, &it, 0);
      break;
    case TG__K_ADDR:
      read_addr(&it, &e);
      break;
    default:
      break;
    }
  }
  e.device = tg__memory_device_of(type, id);
  return e;
}

/* Deepest node with start ≤ ts < end. It is the last one of the nodes that began by then, or one
 * around it. */
static uint32_t node_at(const struct tg__columns *t, const struct tg__op_tree *tree, uint32_t *next, uint32_t track,
                        int64_t ts) {
  const uint32_t first = tree->first[track], end = tree->first[track + 1];
  while (*next < end && t->slices.start_ns[tree->nodes[*next].slice] <= ts) ++*next;
  uint32_t n = *next > first ? *next - 1 : TG_NONE;
  while (n != TG_NONE && tg__slice_end(t, tree->nodes[n].slice) <= ts) n = tree->nodes[n].parent;
  return n;
}

/* ---- reading --------------------------------------------------------------------------------- */

enum tg_err tg__memory_events_read(const struct tg__columns *t, const struct tg__ask *a, const struct tg__op_tree *tree,
                                   struct tg__memory_events *out) {
  *out = (struct tg__memory_events){0};
  uint32_t *next = NULL; /* by track: first node that has not begun at the time of the event before */
  if (tree && t->track_count) {
    next = tg__alloc((size_t)t->track_count * sizeof *next);
    if (!next) return TG_MEMORY;
    memcpy(next, tree->first, (size_t)t->track_count * sizeof *next);
  }
  const struct tg__rank_range range = tg__rank_range_of(t, a->rank);
  const uint32_t first = range.first_track;
  uint32_t *const home = tg__tracks_with_same_ids(t, first, range.end_track - first);
  enum tg_err err = home ? TG_OK : TG_MEMORY;
  for (uint32_t i = range.first_mark; !err && i < range.end_mark; i++) {
    if (t->marks.name[i] != TG__K_MEMORY || t->marks.ts_ns[i] == TG_NULL_INT || t->marks.track[i] == TG_NONE) continue;
    if (!tg__ask_has_rank(a, t->tracks[t->marks.track[i]].rank)) continue;
    if (out->count == out->cap && !tg__grow((void **)&out->items, &out->cap, out->count + 1, sizeof *out->items)) {
      err = TG_MEMORY;
      break;
    }
    struct tg__memory_event *e = &out->items[out->count++];
    *e = tg__memory_event_read(t, i);
    e->track = home[e->track - first];
    if (next) e->node = tg__op_tree_operator(tree, node_at(t, tree, &next[e->track], e->track, e->ts_ns));
  }
  tg__free(home);
  tg__free(next);
  return err;
}

void tg__memory_events_free(struct tg__memory_events *m) {
  tg__free(m->items);
  *m = (struct tg__memory_events){0};
}

enum tg_err tg__memory_sum(const struct tg__op_tree *tree, struct tg__rank_range range,
                           const struct tg__memory_events *m, struct tg__memory_sums *out) {
  *out = (struct tg__memory_sums){0};
  if (!m->count) return TG_OK;
  out->total = tg__alloc((tree->count + 1) * sizeof *out->total);
  out->self = tg__alloc((tree->count + 1) * sizeof *out->self);
  if (!out->total || !out->self) return TG_MEMORY;
  for (size_t i = 0; i < m->count; i++) {
    const struct tg__memory_event *e = &m->items[i];
    if (e->node != TG_NONE) out->self[e->node][!tg__memory_is_cpu(e)] += e->bytes;
  }
  for (uint32_t i = tree->first[range.end_track]; i-- > tree->first[range.first_track];) { /* children before parents */
    const struct tg__op_node *n = &tree->nodes[i];
    if (n->absorbed_by != TG_NONE) continue;
    for (int d = 0; d < 2; d++) {
      out->total[i][d] += out->self[i][d];
      if (n->parent != TG_NONE) out->total[n->parent][d] += out->total[i][d];
    }
  }
  return TG_OK;
}

void tg__memory_sums_free(struct tg__memory_sums *s) {
  tg__free(s->total);
  tg__free(s->self);
  *s = (struct tg__memory_sums){0};
}
