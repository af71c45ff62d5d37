/* The question top: what takes most of the device's time, or of the host's, with its share. */
#include "analyze/host/op_tree.h"

struct row {
  uint32_t name, cls;
  int64_t calls, total_ns, max_ns;
};
struct work {
  const struct tg__columns *t;
  const struct tg__ask *ask;
  struct tg__map row_of; /* (name, class) → row */
  struct row *rows;
  size_t count, cap;
  int64_t all_ns;
};

static bool count_one(struct work *w, uint32_t slice, int64_t ns) {
  const uint32_t name = w->t->slices.name[slice], cls = (uint32_t)tg__slice_class(w->t, slice);
  uint32_t *slot = tg__map_slot(&w->row_of, (uint64_t)name << 32 | cls, TG_NONE);
  if (!slot) return false;
  if (*slot == TG_NONE) {
    if (!tg__grow((void **)&w->rows, &w->cap, w->count + 1, sizeof *w->rows)) return false;
    *slot = (uint32_t)w->count;
    w->rows[w->count++] = (struct row){.name = name, .cls = cls};
  }
  struct row *r = &w->rows[*slot];
  r->calls++;
  r->total_ns += ns;
  if (ns > r->max_ns) r->max_ns = ns;
  w->all_ns += ns;
  return true;
}

static enum tg_err count_device(struct work *w) {
  for (uint32_t k = 0; k < w->t->track_count; k++) {
    const struct tg__track *track = &w->t->tracks[k];
    if (!tg__ask_has_rank(w->ask, track->rank)) continue;
    TG__EACH (i, tg__slices_of(track)) {
      if (!tg__class_is_device_work(tg__slice_class(w->t, i)) || !tg__ask_has_slice(w->ask, w->t, k, i)) continue;
      if (!count_one(w, i, w->t->slices.dur_ns[i])) return TG_MEMORY;
    }
  }
  return TG_OK;
}

static enum tg_err count_host(struct work *w) {
  struct tg__op_tree tree;
  enum tg_err err = tg__op_tree_build(w->t, &tree);
  for (uint32_t k = 0; !err && k < w->t->track_count; k++) {
    if (!tg__ask_has_rank(w->ask, w->t->tracks[k].rank)) continue;
    for (uint32_t i = tree.first[k]; !err && i < tree.first[k + 1]; i++) {
      const struct tg__op_node *n = &tree.nodes[i];
      if (!n->in_table || n->absorbed_by != TG_NONE || !tg__ask_has_slice(w->ask, w->t, k, n->slice)) continue;
      if (!count_one(w, n->slice, tg__op_tree_self_ns(w->t, n))) err = TG_MEMORY;
    }
  }
  tg__op_tree_free(&tree);
  return err;
}

static bool top_row_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct work *w = ctx;
  const struct row *x = &w->rows[a], *y = &w->rows[b];
  if (x->total_ns != y->total_ns) return x->total_ns > y->total_ns;
  return x->name != y->name && tg__str_cmp(tg__name(w->t, x->name), tg__name(w->t, y->name)) < 0;
}

static const char *top_kind_of(const struct row *r) {
  switch ((enum tg__class)r->cls) {
  case TG__CLASS_KERNEL:
    return "kernel";
  case TG__CLASS_MEMCPY:
    return "copy";
  case TG__CLASS_MEMSET:
    return "memset";
  case TG__CLASS_OP:
    return "operator";
  default:
    return "device work";
  }
}

static enum tg_err put_top_rows(const struct work *w, struct tg_table *out) {
  uint32_t *order = tg__order_new(w->count, top_row_before, w);
  if (!order) return TG_MEMORY;
  int64_t so_far = 0;
  for (size_t i = 0; i < w->count; i++) {
    const struct row *r = &w->rows[order[i]];
    so_far += r->total_ns;
    tg__put_trace_text(out, w->t, r->name);
    tg__put_cstr(out, top_kind_of(r));
    tg__put_int(out, r->calls);
    tg__put_int(out, r->total_ns);
    tg__put_real(out, (double)r->total_ns / 1e6);
    tg__put_real(out, w->all_ns > 0 ? 100.0 * (double)r->total_ns / (double)w->all_ns : 0);
    tg__put_real(out, w->all_ns > 0 ? 100.0 * (double)so_far / (double)w->all_ns : 0);
    tg__put_real(out, (double)r->total_ns / (double)r->calls);
    tg__put_int(out, r->max_ns);
  }
  tg__free(order);
  return TG_OK;
}

enum tg_err tg__answer_top(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                           struct tg_error *e) {
  enum { AUTO, DEVICE, CPU };
  static const char *const choices[] = {[AUTO] = "auto", [DEVICE] = "device", [CPU] = "cpu"};
  size_t side;
  enum tg_err err = tg__ask_choice(a, "side", choices, sizeof choices / sizeof *choices, &side, e);
  if (err) return err;
  const bool device = side != CPU && tg__ask_has_class(t, a, tg__class_is_device_work, false);
  if (side == DEVICE && !device)
    return tg__fail(
        e, TG_NO_DATA, -1,
        "the trace holds no device work (kernels, copies, memsets); record with activities=[ProfilerActivity.CPU, "
        "ProfilerActivity.CUDA] on a machine with a device, or ask for side=cpu");
  struct work w = {.t = t, .ask = a};
  err = device ? count_device(&w) : count_host(&w);
  if (!err) err = put_top_rows(&w, out);
  if (err)
    tg__no_memory(e, "adding up %s", device ? "device work" : "operators");
  else if (w.count)
    tg__table_note(out, "%s is %.3f ms in all", device ? "device work" : "self time of operators",
                   (double)w.all_ns / 1e6);
  tg__map_free(&w.row_of);
  tg__free(w.rows);
  return err;
}

/* Device work decides what `top` is about: where some rank has any, operators of one that has none are not beside
 * it. */
void tg__folded_top(struct tg__rank_join *j, struct tg_table *t) {
  (void)j;
  const size_t kind = tg__table_column_index(t, "kind"), total = tg__table_column_index(t, "total_ns");
  const uint32_t op = tg__strings_find(t->strings, "operator", strlen("operator"));
  uint32_t *const rows = tg__alloc((t->rows + 1) * sizeof *rows);
  size_t kept = 0;
  int64_t all_ns = 0;
  for (size_t i = 0; rows && i < t->rows; i++)
    if (t->columns[kind].texts[i] != op) rows[kept++] = (uint32_t)i;
  const bool device = kept > 0;
  if (rows && kept > 0 && kept < t->rows) tg__table_keep_rows(t, rows, kept);
  t->failed |= !rows;
  for (size_t i = 0; i < t->rows; i++) all_ns += t->columns[total].ints[i];
  if (t->rows)
    tg__table_note(t, "%s is %.3f ms in all", device ? "device work" : "self time of operators", (double)all_ns / 1e6);
  tg__free(rows);
}
