/* The question totals: times of a whole run that count nothing twice, beside the sums that do. */
#include "analyze/host/op_tree.h"

struct sums {
  int64_t first_ns, last_ns; /* of everything with a duration */
  bool any;
  int64_t ops, thread_cpu_ns, self_cpu_ns, runtime_ns, nested_cpu_ns;
  int64_t device_events, device_sum_ns;
  struct tg__spans cpu, device;
};
struct work {
  const struct tg__columns *t;
  struct tg__op_tree tree;
  struct tg_table *out;
};

/* What is the recording's own or has no place on a clock of work does not make the run longer. */
static void stretch(struct sums *s, int64_t start, int64_t end) {
  if (!s->any || start < s->first_ns) s->first_ns = start;
  if (!s->any || end > s->last_ns) s->last_ns = end;
  s->any = true;
}

static void add_slices(const struct tg__columns *t, uint32_t track, struct sums *s) {
  const struct tg__track *tr = &t->tracks[track];
  TG__EACH (i, tg__slices_of(tr)) {
    const enum tg__class cls = tg__slice_class(t, i);
    const int64_t start = t->slices.start_ns[i], end = tg__slice_end(t, i);
    if (cls != TG__CLASS_SPAN && cls != TG__CLASS_OVERHEAD) stretch(s, start, end);
    if (!tg__class_is_device_work(cls)) continue;
    tg__spans_add(&s->device, start, end);
    s->device_events++;
    s->device_sum_ns += end - start;
  }
}

static void add_nodes(const struct work *w, uint32_t track, struct sums *s, struct tg__spans *cpu) {
  for (uint32_t i = w->tree.first[track]; i < w->tree.first[track + 1]; i++) {
    const struct tg__op_node *n = &w->tree.nodes[i];
    if (!n->in_table || n->absorbed_by != TG_NONE) continue;
    tg__spans_add(cpu, w->t->slices.start_ns[n->slice], tg__slice_end(w->t, n->slice));
    s->ops++;
    s->nested_cpu_ns += w->t->slices.dur_ns[n->slice];
    s->self_cpu_ns += tg__op_tree_self_ns(w->t, n);
    s->runtime_ns += n->calls_ns;
  }
}

static bool add_total_of_track(const struct work *w, uint32_t track, struct sums *s) {
  struct tg__spans cpu = {0};
  add_slices(w->t, track, s);
  add_nodes(w, track, s, &cpu);
  tg__spans_union(&cpu);
  s->thread_cpu_ns += tg__spans_length(&cpu);
  tg__spans_add_all(&s->cpu, &cpu);
  const bool done = !cpu.failed;
  tg__spans_free(&cpu);
  return done;
}

/* Puts the row and empties the sums. */
static bool put_total_sums(const struct work *w, uint32_t rank, uint32_t track, struct sums *s) {
  tg__spans_union(&s->cpu);
  tg__spans_union(&s->device);
  tg__put_rank(w->out, w->t, rank);
  tg__put_int(w->out, track == TG_NONE ? TG_NULL_INT : (int64_t)track);
  if (track == TG_NONE)
    tg__put_null(w->out);
  else
    tg__put_trace_text(w->out, w->t, w->t->tracks[track].name);
  const int64_t cells[] = {s->last_ns - s->first_ns,
                           tg__spans_length(&s->cpu),
                           s->thread_cpu_ns,
                           s->self_cpu_ns,
                           s->runtime_ns,
                           s->nested_cpu_ns,
                           s->ops,
                           tg__spans_length(&s->device),
                           s->device_sum_ns,
                           s->device_events};
  for (size_t k = 0; k < sizeof cells / sizeof *cells; k++) tg__put_int(w->out, cells[k]);
  const bool done = !s->cpu.failed && !s->device.failed;
  tg__spans_free(&s->cpu);
  tg__spans_free(&s->device);
  *s = (struct sums){0};
  return done;
}

static bool sum_rank(const struct work *w, uint32_t rank, bool by_thread) {
  const struct tg__rank *r = &w->t->ranks[rank];
  struct sums s = {0};
  bool done = true;
  for (uint32_t k = r->first_track; done && k < r->first_track + r->track_count; k++) {
    if (w->t->tracks[k].count == 0) continue;
    done = add_total_of_track(w, k, &s);
    if (by_thread && !put_total_sums(w, rank, k, &s)) done = false;
  }
  if (!by_thread && !put_total_sums(w, rank, TG_NONE, &s)) done = false;
  return done;
}

enum tg_err tg__answer_totals(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                              struct tg_error *e) {
  static const char *const choices[] = {"rank", "track"};
  size_t by;
  enum tg_err err = tg__ask_choice(a, "by", choices, sizeof choices / sizeof *choices, &by, e);
  if (err) return err;
  struct work w = {.t = t, .out = out};
  err = tg__op_tree_build(t, &w.tree);
  for (uint32_t r = 0; !err && r < t->rank_count; r++)
    if (tg__ask_has_rank(a, r) && !sum_rank(&w, r, by == 1)) err = TG_MEMORY;
  if (err) tg__no_memory(e, "adding up the run");
  tg__op_tree_free(&w.tree);
  return err;
}
