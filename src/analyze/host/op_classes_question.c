/* The question op_classes: where the time goes, by kind of work. */
#include "analyze/host/op_class.h"

struct row {
  int64_t calls, self_cpu_ns, device_events, device_ns;
};
struct work {
  const struct tg__columns *t;
  const struct tg__ask *ask;
  struct tg__op_tree tree;
  struct tg__op_classes classes;
  struct row rows[TG__OPS_COUNT], whole;
};

static void count_op(struct work *w, uint32_t node) {
  const struct tg__op_node *n = &w->tree.nodes[node];
  struct row *r = &w->rows[w->classes.of_node[node]];
  const int64_t self = w->t->slices.dur_ns[n->slice] - n->kids_ns;
  r->calls++;
  r->self_cpu_ns += self;
  w->whole.self_cpu_ns += self;
}

static void count_device_work(struct work *w, uint32_t slice) {
  struct row *r = &w->rows[tg__op_class_of_device_work(&w->classes, slice)];
  r->device_events++;
  r->device_ns += w->t->slices.dur_ns[slice];
  w->whole.device_ns += w->t->slices.dur_ns[slice];
}

static void count_track(struct work *w, uint32_t track) {
  const struct tg__track *tr = &w->t->tracks[track];
  for (uint32_t i = w->tree.first[track]; i < w->tree.first[track + 1]; i++) {
    const struct tg__op_node *n = &w->tree.nodes[i];
    if (n->in_table && n->absorbed_by == TG_NONE && tg__ask_has_slice(w->ask, w->t, track, n->slice)) count_op(w, i);
  }
  TG__EACH (i, tg__slices_of(tr))
    if (tg__class_is_device_work(tg__slice_class(w->t, i)) && tg__ask_has_slice(w->ask, w->t, track, i))
      count_device_work(w, i);
}

static double share(int64_t part, int64_t whole) { return (double)part / (double)whole; }

static void put_share(struct tg_table *out, int64_t part, int64_t whole, double scale) {
  if (whole > 0)
    tg__put_real(out, scale * share(part, whole));
  else
    tg__put_null(out);
}

static bool more_time(uint32_t a, uint32_t b, const void *ctx) {
  const struct work *w = ctx;
  const struct row *x = &w->rows[a], *y = &w->rows[b];
  return x->device_ns != y->device_ns ? x->device_ns > y->device_ns : x->self_cpu_ns > y->self_cpu_ns;
}

static enum tg_err put_op_class_rows(const struct work *w, struct tg_table *out) {
  uint32_t order[TG__OPS_COUNT];
  if (!tg__sort_order(order, TG__OPS_COUNT, more_time, w)) return TG_MEMORY;
  const bool device = w->whole.device_ns > 0;
  for (size_t k = 0; k < TG__OPS_COUNT; k++) {
    const struct row *r = &w->rows[order[k]];
    tg__put_cstr(out, tg__op_class_name((enum tg__op_class)order[k]));
    put_share(out, device ? r->device_ns : r->self_cpu_ns, device ? w->whole.device_ns : w->whole.self_cpu_ns, 1);
    tg__put_int(out, r->calls);
    tg__put_int(out, r->self_cpu_ns);
    put_share(out, r->self_cpu_ns, w->whole.self_cpu_ns, 100);
    tg__put_int(out, r->device_events);
    tg__put_int(out, r->device_ns);
    put_share(out, r->device_ns, w->whole.device_ns, 100);
  }
  return TG_OK;
}

enum tg_err tg__answer_op_classes(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                  struct tg_error *e) {
  struct work w = {.t = t, .ask = a};
  const struct tg__rank_range range = tg__rank_range_of(t, a->rank);
  enum tg_err err = tg__op_tree_build(t, &w.tree);
  if (!err) err = tg__op_classes_open(&w.classes, t, range, &w.tree);
  for (uint32_t k = range.first_track; !err && k < range.end_track; k++) count_track(&w, k);
  if (!err) err = put_op_class_rows(&w, out);
  if (err) tg__no_memory(e, "sorting operators into classes");
  tg__op_classes_close(&w.classes);
  tg__op_tree_free(&w.tree);
  return err;
}
