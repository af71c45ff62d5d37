/* The question loader_overlap: a step with its data loaded meanwhile takes the longer of the two, loading divided among
 * the workers, and all the rest. The trace has the cost of the loader where the training process loads for itself; with
 * workers it has only the waiting. */
#include <math.h>
#include <stdlib.h>

#include "analyze/overview/steps.h"

enum { MOST_WORKERS = 32 };

struct loader {
  const struct tg__columns *t;
  struct tg__names names;
  struct tg__spans spans; /* when some thread of the rank at hand is inside the loader */
  int64_t calls;
  bool has_workers;
};
struct means { /* a step */
  double step_ns, data_ns, compute_ns;
};

static bool see_rank(struct loader *l, uint32_t rank) {
  const struct tg__rank *r = &l->t->ranks[rank];
  l->spans.count = 0;
  l->calls = 0;
  l->has_workers = false;
  TG__EACH (k, tg__tracks_of(r)) {
    const struct tg__track *track = &l->t->tracks[k];
    TG__EACH (i, tg__slices_of(track)) {
      const enum tg__class c = tg__slice_class(l->t, i);
      if ((c != TG__CLASS_OP && c != TG__CLASS_ANNOTATION) ||
          !(tg__names_of(&l->names, l->t->slices.name[i]) & TG__NAME_DATALOADER))
        continue;
      tg__spans_add(&l->spans, l->t->slices.start_ns[i], tg__slice_end(l->t, i));
      l->calls++;
      l->has_workers |= tg__str_contains(tg__name(l->t, l->t->slices.name[i]), "MultiProcess");
    }
  }
  tg__spans_union(&l->spans);
  return !l->spans.failed;
}

static bool is_wanted_workers(const struct tg__ask *a, uint32_t rank, const struct tg__step_cost *s) {
  if (!a->has_steps) return true;
  for (size_t i = 0; i < a->window_count; i++)
    if (a->windows[i].rank == rank && a->windows[i].start_ns == s->host_start_ns &&
        a->windows[i].end_ns == s->host_end_ns)
      return true;
  return false;
}

/* false: no step is asked for. */
static bool take_means(const struct loader *l, const struct tg__ask *a, uint32_t rank, const struct tg__breakdown *b,
                       struct means *out) {
  struct tg__stats step = {0}, data = {0}, waiting = {0};
  for (size_t i = 0; i < b->count; i++) {
    const struct tg__step_cost *s = &b->steps[i];
    if (b->source != TG__STEPS_RECORDING && !is_wanted_workers(a, rank, s)) continue;
    tg__stats_add(&step, s->end_ns - s->start_ns);
    tg__stats_add(&data, tg__spans_inside(&l->spans, s->host_start_ns, s->host_end_ns));
    tg__stats_add(&waiting, s->part_ns[TG__PART_DATALOADER]);
  }
  *out = (struct means){tg__stats_mean(&step), tg__stats_mean(&data), tg__stats_mean(&step) - tg__stats_mean(&waiting)};
  return step.count > 0;
}

/* ---- the table ------------------------------------------------------------------------------- */

static void put_workers_row(const struct loader *l, uint32_t rank, const struct means *m, int64_t workers,
                            struct tg_table *out) {
  const double share = workers == TG_NULL_INT ? 0 : m->data_ns / (double)workers;
  const double best = fmin(m->step_ns, share > m->compute_ns ? share : m->compute_ns);
  tg__put_rank(out, l->t, rank);
  tg__put_int(out, workers);
  tg__put_real(out, m->step_ns);
  tg__put_real(out, m->data_ns);
  tg__put_real(out, m->compute_ns);
  tg__put_real(out, best);
  tg__put_real(out, m->step_ns - best);
  tg__put_real(out, m->step_ns > 0 ? 100 * (m->step_ns - best) / m->step_ns : NAN);
  tg__put_cstr(out, share > m->compute_ns ? "data" : "compute");
}

static void put_workers_of_rank(const struct loader *l, uint32_t rank, struct means m, int64_t workers_now,
                                const int64_t *workers, size_t count, struct tg_table *out) {
  const long long number = (long long)l->t->ranks[rank].number;
  const bool waits = m.step_ns - m.compute_ns > 0.01 * m.step_ns;
  if (l->has_workers)
    m.data_ns =
        workers_now && waits ? m.step_ns * (double)workers_now : NAN; /* they work without a pause when waited for */
  for (size_t i = 0; i < count && !isnan(m.data_ns); i++) put_workers_row(l, rank, &m, workers[i], out);
  put_workers_row(l, rank, &m, TG_NULL_INT, out);
  if (isnan(m.data_ns) && waits)
    tg__table_note(out,
                   "rank %lld: its loader has workers, so what loading costs is not in the trace: pass workers_now to "
                   "see what more of them would do",
                   number);
  else if (isnan(m.data_ns))
    tg__table_note(out, "rank %lld: its loader has workers and is hardly waited for: nothing to gain", number);
  else if (m.compute_ns > 0)
    tg__table_note(out,
                   "rank %lld: data is hidden from %lld worker%s on, if as many cores are free: %.2f → %.2f ms a step",
                   number, (long long)fmax(1, ceil(m.data_ns / m.compute_ns)), m.data_ns > m.compute_ns ? "s" : "",
                   m.step_ns / 1e6, fmin(m.step_ns, m.compute_ns) / 1e6);
}

/* Whole numbers above zero, joined by comma. */
static enum tg_err parse_workers(const char *name, const char *text, int64_t *out, size_t *count, struct tg_error *e) {
  *count = 0;
  for (const char *p = text; *p;) {
    char *end;
    const long long v = strtoll(p, &end, 10);
    if (end == p || (*end && *end != ',') || v < 1 || v > 1000000 || *count == MOST_WORKERS)
      return tg__fail(e, TG_USAGE, -1, "%s=%.60s: whole numbers from 1 on, joined by comma, at most %d of them", name,
                      text, MOST_WORKERS);
    out[(*count)++] = v;
    p = *end ? end + 1 : end;
  }
  return TG_OK;
}

enum tg_err tg__answer_loader_overlap(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                      struct tg_error *e) {
  int64_t workers[MOST_WORKERS], now[MOST_WORKERS] = {0};
  size_t count, now_count;
  enum tg_err err = parse_workers("workers", tg__ask_arg(a, "workers"), workers, &count, e);
  if (!err) err = parse_workers("workers_now", tg__ask_arg(a, "workers_now"), now, &now_count, e);
  if (err) return err;
  struct loader l = {.t = t};
  int64_t calls = 0;
  err = tg__names_open(&l.names, t) ? TG_OK : TG_MEMORY;
  for (uint32_t r = 0; !err && r < t->rank_count; r++) {
    if (!tg__ask_has_rank(a, r)) continue;
    struct tg__breakdown b = {0};
    struct means m;
    if (!see_rank(&l, r)) err = TG_MEMORY;
    if (!err && l.calls) err = tg__steps_breakdown(t, r, TG__STEPS_DETECTED, &b);
    if (!err && l.calls && take_means(&l, a, r, &b, &m)) put_workers_of_rank(&l, r, m, now[0], workers, count, out);
    calls += l.calls;
    tg__breakdown_free(&b);
  }
  tg__names_close(&l.names);
  tg__spans_free(&l.spans);
  if (err) return tg__no_memory(e, "looking at the data loader");
  if (calls) return TG_OK;
  return tg__fail(
      e, TG_NO_DATA, -1,
      "the trace shows no data loader (enumerate(DataLoader)#…): loader_overlap needs a recording of a loop "
      "over a torch DataLoader");
}
