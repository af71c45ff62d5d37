/* The question ops: calls, host and device time, memory and FLOPs of each operator. */
#include "analyze/work/op_flops.h"
#include "analyze/host/op_group.h"
#include "analyze/device/op_tensor.h"

struct row {
  uint32_t name, group;
  int64_t calls, cpu_ns, self_cpu_ns, device_ns, self_device_ns;
  int64_t bytes[2], self_bytes[2]; /* CPU, devices */
  int64_t flops;
  bool flops_known; /* known for some call */
  int64_t tensor_ns, self_tensor_ns;
  bool eligible; /* some call is */
};

struct work {
  const struct tg__columns *t;
  const struct tg__ask *ask;
  struct tg__op_tree tree;
  struct tg__op_group group;
  struct tg__memory_events memory;
  struct tg__memory_sums bytes;
  struct tg__map row_of; /* (name, group) → row */
  struct row *rows;
  size_t count, cap;
  struct tg__op_flops flops;
  struct tg__op_tensor tensor;
};

/* ---- rows ------------------------------------------------------------------------------------ */

static struct row *find_op_row(struct work *w, uint32_t name, uint32_t group) {
  uint32_t *slot = tg__map_slot(&w->row_of, (uint64_t)name << 32 | group, TG_NONE);
  if (!slot) return NULL;
  if (*slot == TG_NONE) {
    if (w->count == w->cap && !tg__grow((void **)&w->rows, &w->cap, w->count + 1, sizeof *w->rows)) return NULL;
    *slot = (uint32_t)w->count;
    w->rows[w->count++] = (struct row){.name = name, .group = group};
  }
  return &w->rows[*slot];
}

static bool count_call(struct work *w, uint32_t node) {
  const struct tg__op_node *n = &w->tree.nodes[node];
  struct row *r = find_op_row(w, w->t->slices.name[n->slice], w->group.count ? tg__op_group_of(&w->group, node) : 0);
  if (!r) return false;
  r->calls++;
  r->cpu_ns += w->t->slices.dur_ns[n->slice];
  r->self_cpu_ns += tg__op_tree_self_ns(w->t, n);
  r->device_ns += n->device_total_ns;
  r->self_device_ns += n->device_ns;
  for (int d = 0; d < 2 && w->bytes.total; d++) {
    r->bytes[d] += w->bytes.total[node][d];
    r->self_bytes[d] += w->bytes.self[node][d];
  }
  if (w->tensor.eligible) {
    r->tensor_ns += w->tensor.total_ns[node];
    r->self_tensor_ns += w->tensor.self_ns[node];
    if (!w->tensor.of_first_call || r->calls == 1) r->eligible |= w->tensor.eligible[node];
  }
  if (!tg__op_flops_any(&w->flops)) return true;
  const int64_t flops = tg__op_flops_of(&w->flops, n->slice, tg__name(w->t, w->t->slices.name[n->slice]));
  if (flops >= 0) {
    r->flops_known = true;
    if (__builtin_add_overflow(r->flops, flops, &r->flops)) r->flops = INT64_MAX;
  }
  return true;
}

static enum tg_err count_calls(struct work *w) {
  for (uint32_t k = 0; k < w->t->track_count; k++) {
    if (!tg__ask_has_track(w->ask, w->t, k)) continue;
    for (uint32_t i = w->tree.first[k]; i < w->tree.first[k + 1]; i++) {
      const struct tg__op_node *n = &w->tree.nodes[i];
      if (!n->in_table || n->absorbed_by != TG_NONE) continue;
      if (w->ask->has_steps && !tg__ask_has_slice(w->ask, w->t, k, n->slice)) continue;
      if (!count_call(w, i)) return TG_MEMORY;
    }
  }
  return w->flops.signatures.failed || tg__op_group_failed(&w->group) ? TG_MEMORY : TG_OK;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Most device time first, then most host time, then by name: what costs most is on top whatever the trace holds. */
static bool op_row_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct work *w = ctx;
  const struct row *x = &w->rows[a], *y = &w->rows[b];
  if (x->self_device_ns != y->self_device_ns) return x->self_device_ns > y->self_device_ns;
  if (x->self_cpu_ns != y->self_cpu_ns) return x->self_cpu_ns > y->self_cpu_ns;
  return x->name != y->name && tg__str_cmp(tg__name(w->t, x->name), tg__name(w->t, y->name)) < 0;
}

static void put_share(struct tg_table *out, int64_t part, int64_t whole) {
  if (whole > 0)
    tg__put_real(out, 100.0 * (double)part / (double)whole);
  else
    tg__put_null(out);
}

static void put_op_row(const struct work *w, const struct row *r, const char *group, size_t group_len,
                       const int64_t whole[2], struct tg_table *out) {
  tg__put_trace_text(out, w->t, r->name);
  tg__put_text(out, (struct tg__str){group ? group : "", (uint32_t)group_len});
  tg__put_int(out, r->calls);
  tg__put_int(out, r->cpu_ns);
  tg__put_int(out, r->self_cpu_ns);
  tg__put_real(out, (double)r->cpu_ns / (double)r->calls);
  tg__put_int(out, r->device_ns);
  tg__put_int(out, r->self_device_ns);
  tg__put_real(out, (double)r->device_ns / (double)r->calls);
  for (int d = 0; d < 2; d++) {
    tg__put_int(out, w->bytes.total ? r->bytes[d] : TG_NULL_INT);
    tg__put_int(out, w->bytes.total ? r->self_bytes[d] : TG_NULL_INT);
  }
  const bool none =
      tg__op_flops_none(&w->flops, r->name); /* an operator without a formula: zero, as in torch's own table */
  tg__put_int(out, r->flops_known || none ? r->flops : TG_NULL_INT);
  put_share(out, r->self_cpu_ns, whole[0]);
  put_share(out, r->self_device_ns, whole[1]);
  if (w->tensor.eligible)
    tg__put_bool(out, r->eligible);
  else
    tg__put_null(out);
  put_share(out, r->tensor_ns, r->device_ns);
  put_share(out, r->self_tensor_ns, r->self_device_ns);
}

static enum tg_err put_op_rows(const struct work *w, struct tg_table *out) {
  enum tg_err err = TG_MEMORY;
  struct tg__out text = {0};
  int64_t whole[2] = {0};
  uint32_t *order = tg__order_new(w->count, op_row_before, w);
  if (!order) return TG_MEMORY;
  for (uint32_t i = 0; i < w->count; i++) {
    whole[0] += w->rows[i].self_cpu_ns;
    whole[1] += w->rows[i].self_device_ns;
  }
  for (size_t i = 0; i < w->count; i++) {
    const struct row *r = &w->rows[order[i]];
    text.len = 0;
    tg__op_group_write(&w->group, r->group, &text);
    if (text.err) goto done;
    put_op_row(w, r, text.buf, text.len, whole, out);
  }
  tg__op_group_notes(&w->group, out);
  err = TG_OK;
done:
  tg__out_free(&text);
  tg__free(order);
  return err;
}

static enum tg_err prepare_op(struct work *w, struct tg_error *e) {
  enum tg_err err = tg__op_tree_build(w->t, &w->tree);
  if (!err) err = tg__op_tensor_sum(w->t, w->ask, &w->tree, &w->tensor);
  if (!err) err = tg__memory_events_read(w->t, w->ask, &w->tree, &w->memory);
  if (!err) err = tg__memory_sum(&w->tree, tg__rank_range_of(w->t, w->ask->rank), &w->memory, &w->bytes);
  if (err) return tg__no_memory(e, "building the operator tree");
  if (!tg__op_flops_open(&w->flops, w->t)) return tg__no_memory(e, "building the operator table");
  return tg__op_group_open(&w->group, w->t, tg__rank_range_of(w->t, w->ask->rank), &w->tree, tg__ask_arg(w->ask, "by"),
                           e);
}

enum tg_err tg__answer_ops(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                           struct tg_error *e) {
  struct work w = {.t = t, .ask = a};
  enum tg_err err = prepare_op(&w, e);
  if (!err) {
    err = count_calls(&w);
    if (!err) err = put_op_rows(&w, out);
    if (err) tg__no_memory(e, "summing up operators");
  }
  tg__op_group_close(&w.group);
  tg__op_tree_free(&w.tree);
  tg__memory_events_free(&w.memory);
  tg__memory_sums_free(&w.bytes);
  tg__op_flops_close(&w.flops);
  tg__op_tensor_free(&w.tensor);
  tg__map_free(&w.row_of);
  tg__free(w.rows);
  return err;
}
