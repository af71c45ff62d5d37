/* The question phases: host time of a step in loading data, forward, loss, backward and the optimizer, without labels.
 * torch marks what is needed: fetches of a DataLoader, autograd nodes, steps of optimizers; operators outside of these
 * are forward, and those with the name of a loss the loss. */
#include "analyze/overview/steps.h"

/* In the order in which an instant is given to one of them, where several threads work at once. */
enum phase { OPTIMIZER, BACKWARD, LOSS, DATA, FORWARD, OTHER, PHASE_COUNT };
enum { UNSEEN = PHASE_COUNT, NO_PHASE }; /* of a name */

struct marks {
  const struct tg__columns *t;
  uint32_t rank;
  uint8_t *kinds;                      /* enum phase a string id, or UNSEEN, NO_PHASE */
  struct tg__spans spans[PHASE_COUNT]; /* when some thread is in the phase; then what of the steps is given to it */
  struct tg__spans steps;              /* what is divided */
  size_t step_count;                   /* 0: none is marked */
  int64_t device_ns[PHASE_COUNT];      /* durations of the device work that it launched */
};

static bool is_loss_name(struct tg__str name) {
  return tg__str_contains(name, "_loss") || tg__str_contains(name, "cross_entropy") ||
         tg__str_contains(name, "::kl_div");
}

static uint8_t phase_of_name(struct tg__str name) {
  return tg__name_is_profiler_step(name, NULL)    ? NO_PHASE
         : tg__name_is_dataloader(name)           ? DATA
         : tg__str_has_prefix(name, "Optimizer.") ? OPTIMIZER
         : tg__name_is_autograd_node(name)        ? BACKWARD
         : is_loss_name(name)                     ? LOSS
                                                  : FORWARD;
}

static uint8_t phase_kind_of(struct marks *m, uint32_t slice, enum tg__class cls) {
  uint8_t *const kind = &m->kinds[m->t->slices.name[slice]];
  if (*kind == UNSEEN) *kind = phase_of_name(tg__name(m->t, m->t->slices.name[slice]));
  const bool is_work = *kind == FORWARD || *kind == LOSS;
  return is_work && cls != TG__CLASS_OP ? NO_PHASE : *kind;
}

/* ---- which threads ------------------------------------------------------------------------------ */

static bool is_host_event(enum tg__class cls) { return cls == TG__CLASS_OP || cls == TG__CLASS_ANNOTATION; }

static uint32_t count_phase_marks(struct marks *m, const struct tg__track *track, bool everything) {
  uint32_t count = 0;
  TG__EACH (i, tg__slices_of(track)) {
    const enum tg__class cls = tg__slice_class(m->t, i);
    const uint8_t kind = is_host_event(cls) ? phase_kind_of(m, i, cls) : NO_PHASE;
    count += everything ? kind != NO_PHASE : kind == DATA || kind == OPTIMIZER;
  }
  return count;
}

static bool has_step_label(const struct marks *m, const struct tg__track *track) {
  for (uint32_t i = 0; i < m->t->step_count; i++) {
    const uint32_t slice = m->t->steps[i].slice;
    if (m->t->steps[i].rank == m->rank && slice != TG_NONE && slice >= track->first &&
        slice - track->first < track->count)
      return true;
  }
  return false;
}

/* The track with the most operators: a loop that is served by no loader and no optimizer. */
static uint32_t busiest_track(struct marks *m) {
  uint32_t best = TG_NONE, most = 0;
  TG__EACH (k, tg__tracks_of(&m->t->ranks[m->rank])) {
    const uint32_t count = m->t->tracks[k].kind == TG__TRACK_DEVICE ? 0 : count_phase_marks(m, &m->t->tracks[k], true);
    if (count > most) most = count, best = k;
  }
  return best;
}

/* On the thread of the loop all phases; on others of its process, which autograd has for devices, backward. */
static void gather_track(struct marks *m, const struct tg__track *track, bool is_main) {
  int64_t busy_until_ns = INT64_MIN;
  TG__EACH (i, tg__slices_of(track)) {
    const enum tg__class cls = tg__slice_class(m->t, i);
    const uint8_t kind = is_host_event(cls) ? phase_kind_of(m, i, cls) : NO_PHASE;
    if (kind == NO_PHASE || m->t->slices.start_ns[i] < busy_until_ns) continue;
    busy_until_ns = tg__slice_end(m->t, i);
    if (is_main || kind == BACKWARD) tg__spans_add(&m->spans[kind], m->t->slices.start_ns[i], busy_until_ns);
  }
}

static void gather_phases(struct marks *m) {
  const struct tg__columns *const t = m->t;
  const struct tg__rank *const r = &t->ranks[m->rank];
  bool any = false;
  const struct tg__track *loop = NULL;
  TG__EACH (k, tg__tracks_of(r)) {
    const struct tg__track *const track = &t->tracks[k];
    if (track->kind == TG__TRACK_DEVICE || (!has_step_label(m, track) && !count_phase_marks(m, track, false))) continue;
    gather_track(m, track, true);
    if (!any) loop = track;
    any = true;
  }
  const uint32_t busiest = any ? TG_NONE : busiest_track(m);
  if (busiest != TG_NONE) gather_track(m, loop = &t->tracks[busiest], true);
  TG__EACH (k, tg__tracks_of(r)) {
    const struct tg__track *const track = &t->tracks[k];
    const bool is_other = track->kind != TG__TRACK_DEVICE && !has_step_label(m, track) && track != loop;
    if (is_other && loop && track->pid == loop->pid && track->pid_is_text == loop->pid_is_text)
      gather_track(m, track, false);
  }
  for (int p = 0; p < PHASE_COUNT; p++) tg__spans_union(&m->spans[p]);
}

/* ---- dividing ----------------------------------------------------------------------------------- */

/* The steps that means are taken of, as in the question steps: none at the end without its device work, no warm-up. */
static enum tg_err gather_usual_steps(struct marks *m) {
  struct tg__breakdown b;
  const enum tg_err err = tg__steps_breakdown(m->t, m->rank, TG__STEPS_DETECTED, &b);
  if (!err && b.source == TG__STEPS_DETECTED) {
    tg__steps_leave_out_first(&b);
    for (size_t i = 0; i < b.count; i++) tg__spans_add(&m->steps, b.steps[i].host_start_ns, b.steps[i].host_end_ns);
    m->step_count = b.count;
  }
  tg__breakdown_free(&b);
  return err;
}

static enum tg_err gather_steps(struct marks *m, const struct tg__ask *a) {
  for (size_t i = 0; a->has_steps && i < a->window_count; i++) {
    if (a->windows[i].rank != m->rank) continue;
    tg__spans_add(&m->steps, a->windows[i].start_ns, a->windows[i].end_ns);
    m->step_count++;
  }
  const enum tg_err err = a->has_steps ? TG_OK : gather_usual_steps(m);
  if (!err && !m->step_count && !a->has_steps) {
    int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;
    for (int p = 0; p < OTHER; p++) {
      const struct tg__spans *const s = &m->spans[p];
      if (!s->count) continue;
      if (s->items[0].start < first_ns) first_ns = s->items[0].start;
      if (s->items[s->count - 1].end > last_ns) last_ns = s->items[s->count - 1].end;
    }
    if (first_ns < last_ns) tg__spans_add(&m->steps, first_ns, last_ns);
  }
  tg__spans_union(&m->steps);
  return err;
}

/* Each instant of the steps to one phase. */
static bool divide_steps(struct marks *m) {
  bool ok = true;
  for (int p = 0; p < OTHER; p++) {
    struct tg__spans part = {0};
    ok = tg__spans_take(&m->steps, &m->spans[p], &part) && ok && !m->spans[p].failed;
    tg__spans_free(&m->spans[p]);
    m->spans[p] = part;
  }
  m->spans[OTHER] = m->steps;
  m->steps = (struct tg__spans){0};
  return ok;
}

/* Device work belongs to the phase in which its launch began. */
static void add_device_time(struct marks *m) {
  const struct tg__columns *const t = m->t;
  TG__EACH (k, tg__tracks_of(&t->ranks[m->rank])) {
    if (t->tracks[k].kind != TG__TRACK_DEVICE) continue;
    TG__EACH (i, tg__slices_of(&t->tracks[k])) {
      const uint32_t call = t->slices.cause[i];
      if (call == TG_NONE || !tg__class_is_device_work(tg__slice_class(t, i))) continue;
      const int64_t at_ns = t->slices.start_ns[call];
      for (int p = 0; p < PHASE_COUNT; p++)
        if (tg__spans_inside(&m->spans[p], at_ns, at_ns + 1)) m->device_ns[p] += t->slices.dur_ns[i];
    }
  }
}

/* ---- the table ---------------------------------------------------------------------------------- */

static const struct {
  const char *name, *missing;
} shown[PHASE_COUNT] = {
    [DATA] = {"data", "no fetch from a DataLoader was recorded: data that comes another way is in forward or other"},
    [FORWARD] = {"forward", NULL},
    [LOSS] = {"loss", "no operator of a loss was recorded: a loss that is written out is in forward"},
    [BACKWARD] = {"backward", "no autograd node was recorded: nothing ran backward"},
    [OPTIMIZER] = {"optimizer",
                   "no step of a torch.optim optimizer was recorded: an update that is written out is in forward"},
    [OTHER] = {"other", NULL},
};

static void put_phases(const struct marks *m, bool *seen, struct tg_table *out) {
  static const enum phase order[PHASE_COUNT] = {DATA, FORWARD, LOSS, BACKWARD, OPTIMIZER, OTHER};
  const double steps = m->step_count ? (double)m->step_count : 1;
  int64_t all_ns = 0;
  for (int p = 0; p < PHASE_COUNT; p++) all_ns += tg__spans_length(&m->spans[p]);
  for (int i = 0; i < PHASE_COUNT; i++) {
    const int64_t host_ns = tg__spans_length(&m->spans[order[i]]);
    seen[order[i]] |= host_ns > 0;
    tg__put_rank(out, m->t, m->rank);
    tg__put_cstr(out, shown[order[i]].name);
    tg__put_real(out, (double)host_ns / steps);
    tg__put_real_if(out, all_ns > 0, 100 * (double)host_ns / (double)(all_ns ? all_ns : 1));
    tg__put_real(out, (double)m->device_ns[order[i]] / steps);
    tg__put_int(out, (int64_t)m->step_count);
  }
}

static enum tg_err answer_phases_of(const struct tg__columns *t, const struct tg__ask *a, uint32_t rank, bool *seen,
                                    bool *has_steps, struct tg_table *out) {
  struct marks m = {.t = t, .rank = rank, .kinds = tg__alloc((size_t)tg__strings_count(t->strings) + 1)};
  bool ok = m.kinds != NULL;
  if (ok) {
    memset(m.kinds, UNSEEN, (size_t)tg__strings_count(t->strings) + 1);
    gather_phases(&m);
    ok = gather_steps(&m, a) == TG_OK && !m.steps.failed && divide_steps(&m);
  }
  if (ok) {
    add_device_time(&m);
    put_phases(&m, seen, out);
    *has_steps |= m.step_count > 0;
  }
  for (int p = 0; p < PHASE_COUNT; p++) tg__spans_free(&m.spans[p]);
  tg__spans_free(&m.steps);
  tg__free(m.kinds);
  return ok ? TG_OK : TG_MEMORY;
}

enum tg_err tg__answer_phases(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                              struct tg_error *e) {
  bool seen[PHASE_COUNT] = {false}, has_steps = false;
  for (uint32_t r = 0; r < t->rank_count; r++) {
    if (tg__ask_has_rank(a, r) && answer_phases_of(t, a, r, seen, &has_steps, out) != TG_OK)
      return tg__no_memory(e, "dividing steps into phases");
  }
  if (!has_steps)
    tg__table_note(out, "no steps are marked: the times are of the whole recording; prof.step() marks them");
  for (int p = 0; p < PHASE_COUNT; p++)
    if (!seen[p] && shown[p].missing) tg__table_note(out, "%s", shown[p].missing);
  return TG_OK;
}
