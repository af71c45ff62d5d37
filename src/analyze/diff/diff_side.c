/* One trace of a diff: its steps, rank by rank, and which of them an instant belongs to. */
#include "analyze/diff/diff.h"

static bool is_wanted(const struct tg__ask *a, const struct tg__step_cost *c, uint32_t rank) {
  if (!a->has_steps) return true;
  for (size_t i = 0; i < a->window_count; i++) {
    const struct tg__window *w = &a->windows[i];
    if (w->rank == rank && w->start_ns == c->host_start_ns && w->end_ns == c->host_end_ns) return true;
  }
  return false;
}

static bool add_unit(struct tg__diff_side *s, uint32_t rank, uint32_t step, const struct tg__step_cost *c, bool whole) {
  if (!tg__grow((void **)&s->units, &s->cap, s->unit_count + 1, sizeof *s->units) ||
      !tg__grow((void **)&s->costs, &s->cost_cap, s->unit_count + 1, sizeof *s->costs))
    return false;
  struct tg__diff_unit u = {rank, step, c->host_start_ns, c->host_end_ns, c->host_end_ns};
  if (whole) { /* what lies before the first operator is part of the recording, too */
    u.start_ns = INT64_MIN;
    u.end_ns = u.reach_ns = INT64_MAX;
  } else if (step && s->units[s->unit_count - 1].reach_ns > u.reach_ns) {
    u.reach_ns = s->units[s->unit_count - 1].reach_ns;
  }
  s->costs[s->unit_count] = *c;
  s->units[s->unit_count++] = u;
  return true;
}

static enum tg_err add_rank(struct tg__diff_side *s, uint32_t rank) {
  struct tg__breakdown b;
  enum tg_err err = tg__steps_breakdown(s->t, rank, TG__STEPS_DETECTED, &b);
  const bool whole = b.source == TG__STEPS_WHOLE;
  size_t steps = 0;
  for (size_t i = 0; !err && i < b.count; i++) {
    if (!whole && !is_wanted(&s->pick, &b.steps[i], rank)) continue;
    if (steps < TG__DRAW_MOST && !add_unit(s, rank, (uint32_t)steps, &b.steps[i], whole)) err = TG_MEMORY;
    steps++;
  }
  if (!err && steps) {
    s->left_out += b.left_out + (steps > TG__DRAW_MOST ? steps - TG__DRAW_MOST : 0);
    s->whole |= whole;
    if (steps > TG__DRAW_MOST) steps = TG__DRAW_MOST;
    s->count = s->ranks && s->count < steps ? s->count : steps;
    s->ranks++;
  }
  tg__breakdown_free(&b);
  return err;
}

/* A step counts when every rank has it. */
static void keep_common(struct tg__diff_side *s) {
  size_t kept = 0;
  for (size_t i = 0; i < s->unit_count; i++) {
    if (s->units[i].step >= s->count) continue;
    s->costs[kept] = s->costs[i];
    s->units[kept++] = s->units[i];
  }
  s->left_out += s->unit_count - kept;
  s->unit_count = kept;
}

enum tg_err tg__diff_side_open(const struct tg_trace *t, const struct tg_arg *args, size_t arg_count, int side, struct tg__diff_side *out,
                               struct tg_error *e) {
  *out = (struct tg__diff_side){.t = t, .letter = "AB"[side]};
  enum tg_err err = tg__ask_select(t, args, arg_count, &out->pick, e);
  if (err) return err;
  for (uint32_t r = 0; !err && r < t->rank_count; r++)
    if (tg__ask_has_rank(&out->pick, r)) err = add_rank(out, r);
  keep_common(out);
  if (!err && out->count >= TG__DRAW_LEAST && !tg__draws_make(&out->draws, out->count, (uint64_t)side + 1)) err = TG_MEMORY;
  if (err) return tg__fail(e, err, -1, "out of memory while dividing the steps");
  if (!out->count)
    return tg__fail(e, TG_NO_DATA, -1,
                    "%.200s has neither steps nor operators, so there is nothing to compare; record with tachograph run, or with "
                    "torch.profiler and prof.step() once an iteration",
                    t->path ? t->path : "the trace");
  return TG_OK;
}

void tg__diff_side_close(struct tg__diff_side *s) {
  tg__ask_end(&s->pick);
  tg__free(s->units);
  tg__free(s->costs);
  tg__draws_free(&s->draws);
}

uint32_t tg__diff_step_at(const struct tg__diff_side *s, uint32_t rank, int64_t ns) {
  size_t low = 0, high = s->unit_count; /* behind the last unit of this rank that starts at or before ns */
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    const struct tg__diff_unit *u = &s->units[middle];
    if (u->rank < rank || (u->rank == rank && u->start_ns <= ns))
      low = middle + 1;
    else
      high = middle;
  }
  while (low > 0 && s->units[low - 1].rank == rank && s->units[low - 1].reach_ns > ns)
    if (s->units[--low].end_ns > ns) return s->units[low].step;
  return TG_NONE;
}
