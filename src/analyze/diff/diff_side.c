/* One side of a diff: its steps, rank by rank, and which of them an instant belongs to; of a folder, put together file
 * by file. */
#include "analyze/diff/diff.h"

#include <stdio.h>

static bool is_wanted_side(const struct tg__ask *a, const struct tg__step_cost *c, uint32_t rank) {
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
    u.end_ns = u.latest_end_ns = INT64_MAX;
  } else if (step && s->units[s->unit_count - 1].latest_end_ns > u.latest_end_ns) {
    u.latest_end_ns = s->units[s->unit_count - 1].latest_end_ns;
  }
  s->costs[s->unit_count] = *c;
  s->units[s->unit_count++] = u;
  return true;
}

static enum tg_err add_side_of_rank(struct tg__diff_side *s, uint32_t rank) {
  struct tg__breakdown b;
  enum tg_err err = tg__steps_breakdown(s->t, rank, TG__STEPS_DETECTED, &b);
  const bool is_recording = b.source == TG__STEPS_RECORDING;
  size_t steps = 0;
  for (size_t i = 0; !err && i < b.count; i++) {
    if (!is_recording && !is_wanted_side(&s->selection, &b.steps[i], rank)) continue;
    if (steps < TG__DRAW_MOST && !add_unit(s, rank, (uint32_t)steps, &b.steps[i], is_recording)) err = TG_MEMORY;
    steps++;
  }
  if (!err && steps) {
    s->left_out += b.left_out + (steps > TG__DRAW_MOST ? steps - TG__DRAW_MOST : 0);
    s->is_recording |= is_recording;
    s->has_code |= b.has_code;
    const struct tg__noise noise = tg__noise_of(s->t, rank, &b);
    s->is_unclear |= noise.is_unclear;
    s->is_noisy |=
        (noise.is_busy || noise.is_unclear) && !noise.is_of_window; /* one figure says nothing of the steps */
    if (steps > TG__DRAW_MOST) steps = TG__DRAW_MOST;
    s->count = s->ranks && s->count < steps ? s->count : steps;
    s->ranks++;
  }
  tg__breakdown_free(&b);
  return err;
}

/* A file that could not be read is of no rank. */
static void take_losses(struct tg__diff_side *s) {
  for (uint32_t r = 0; r < s->t->rank_count; r++)
    for (int k = 0; k < TG__LOSS_COUNT && tg__ask_has_rank(&s->selection, r); k++)
      if (k != TG__LOSS_skipped_file || s->selection.rank == TG_NONE || s->t->rank_count == 1)
        s->loss[k] += s->t->ranks[r].loss[k];
}

void tg__diff_note_losses(struct tg_table *out, char letter, const int64_t loss[TG__LOSS_COUNT]) {
  for (int k = 0; k < TG__LOSS_COUNT; k++) {
    char times[48] = "";
    if (!loss[k] || tg__loss_info[k].kind == TG__LOSS_BENT) continue;
    if (loss[k] > 1) snprintf(times, sizeof times, " (%lld times)", (long long)loss[k]);
    tg__table_note(out, "%c is not whole: %s%s", letter, tg__loss_info[k].meaning, times);
  }
}

enum tg_err tg__diff_side_take(struct tg__columns *t, const struct tg__diff_access *access, const struct tg_arg *args,
                               size_t arg_count, int side, unsigned kinds, struct tg__diff_side *out,
                               struct tg_error *e) {
  *out = (struct tg__diff_side){.access = access, .t = t, .path = t->path, .letter = "AB"[side]};
  enum tg_err err = tg__ask_select(t, args, arg_count, &out->selection, e);
  if (err) return err;
  take_losses(out);
  for (uint32_t r = 0; !err && r < t->rank_count; r++)
    if (tg__ask_has_rank(&out->selection, r)) err = add_side_of_rank(out, r);
  if (!err) tg__diff_fusion_take(out);
  if (!err && (!tg__diff_facts_take(out) || !tg__diff_shapes_take(out))) err = TG_MEMORY;
  for (unsigned by = 0; !err && by < TG__DIFF_BYS; by++)
    if (kinds >> by & 1) err = tg__diff_collect(out, (enum tg__diff_by)by, &out->named[by]);
  return err ? tg__no_memory(e, "dividing the steps") : TG_OK;
}

bool tg__diff_side_add(struct tg__diff_side *to, const struct tg__diff_side *part) {
  if (!tg__grow((void **)&to->units, &to->cap, to->unit_count + part->unit_count, sizeof *to->units) ||
      !tg__grow((void **)&to->costs, &to->cost_cap, to->unit_count + part->unit_count, sizeof *to->costs))
    return false;
  if (part->unit_count) {
    memcpy(to->units + to->unit_count, part->units, part->unit_count * sizeof *to->units);
    memcpy(to->costs + to->unit_count, part->costs, part->unit_count * sizeof *to->costs);
    to->count = to->ranks && to->count < part->count ? to->count : part->count;
  }
  to->unit_count += part->unit_count;
  to->ranks += part->ranks;
  to->left_out += part->left_out;
  for (int k = 0; k < TG__LOSS_COUNT; k++) to->loss[k] += part->loss[k];
  to->is_recording |= part->is_recording;
  to->has_code |= part->has_code;
  tg__diff_fusion_add(&to->fusion, &part->fusion);
  to->is_noisy |= part->is_noisy;
  to->is_unclear |= part->is_unclear;
  bool ok = tg__diff_facts_add(&to->facts, &part->facts) && tg__diff_shapes_add(&to->shapes, 0, &part->shapes);
  for (unsigned by = 0; ok && by < TG__DIFF_BYS; by++)
    ok = tg__diff_named_add(&to->named[by], &part->named[by], by == TG__DIFF_MEMORY);
  return ok;
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

enum tg_err tg__diff_side_end(struct tg__diff_side *s, struct tg_error *e) {
  keep_common(s);
  const uint64_t seed = s->letter == 'A' ? 1 : 2;
  if (s->count >= TG__DRAW_LEAST && !tg__draws_make(&s->draws, s->count, seed))
    return tg__no_memory(e, "dividing the steps");
  if (s->count) return TG_OK;
  return tg__fail(
      e, TG_NO_DATA, -1,
      "%.200s has neither steps nor operators, so there is nothing to compare; record with tachograph run, or with "
      "torch.profiler and prof.step() once an iteration",
      s->path ? s->path : "the trace");
}

void tg__diff_side_close(struct tg__diff_side *s) {
  tg__ask_end(&s->selection);
  tg__free(s->units);
  tg__free(s->costs);
  tg__draws_free(&s->draws);
  tg__diff_facts_free(&s->facts);
  tg__diff_shapes_free(&s->shapes);
  for (unsigned by = 0; by < TG__DIFF_BYS; by++) tg__diff_named_free(&s->named[by]);
}

uint32_t tg__diff_step_at(const struct tg__diff_side *s, uint32_t rank, int64_t ns) {
  size_t low = 0; /* behind the last unit of this rank that starts at or before ns */
  TG__PARTITION(low, s->unit_count, i,
                s->units[i].rank < rank || (s->units[i].rank == rank && s->units[i].start_ns <= ns));
  while (low > 0 && s->units[low - 1].rank == rank && s->units[low - 1].latest_end_ns > ns)
    if (s->units[--low].end_ns > ns) return s->units[low].step;
  return TG_NONE;
}
