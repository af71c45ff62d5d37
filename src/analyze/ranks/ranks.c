/* ranks: the question ranks, one line a rank. */
#include "analyze/ranks/rank_set.h"

#include <math.h>
#include <stdio.h>

#include "analyze/ranks/rank_steps.h"

static uint32_t count_full_steps(const struct tg__rank_summary *s) {
  uint32_t n = s->step_count;
  while (n > 0 && s->steps[n - 1].is_partial) n--;
  return n;
}

static uint32_t most_steps(const struct tg__ranks *r) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < r->s->count; i++)
    if (count_full_steps(&r->s->ranks[i]) > most) most = count_full_steps(&r->s->ranks[i]);
  return most;
}

static void add_words(char *text, size_t size, const char *words) {
  const size_t len = strlen(text);
  snprintf(text + len, size - len, "%s%s", len ? "; " : "", words);
}

static void put_state(const struct tg__ranks *r, uint32_t rank, struct tg_table *out) {
  const struct tg__rank_summary *const s = &r->s->ranks[rank];
  char text[160] = "", words[64];
  if (s->is_cut) add_words(text, sizeof text, "cut");
  if (s->is_killed) add_words(text, sizeof text, "killed");
  if (s->step_count == 0)
    add_words(text, sizeof text, "no steps, no operators");
  else if (s->steps[0].number < 0)
    add_words(text, sizeof text, "no steps");
  else if (count_full_steps(s) < most_steps(r)) {
    snprintf(words, sizeof words, "%u of %u steps", (unsigned)count_full_steps(s), (unsigned)most_steps(r));
    add_words(text, sizeof text, words);
  }
  if (s->collective_count == 0) add_words(text, sizeof text, "no collectives");
  tg__put_cstr(out, text);
}

static void put_mean(struct tg_table *out, int64_t sum, int64_t steps, bool known) {
  tg__put_real(out, known && steps > 0 ? (double)sum / (double)steps : NAN);
}

static void put_rank_row(const struct tg__ranks *r, uint32_t rank, const char *step, const struct tg__rank_figures *f,
                         struct tg_table *out) {
  const int64_t n = f->steps, *const share = f->share_ns;
  const double hidden =
      100 * (double)(f->communication_ns - share[TG__SHARE_COMMUNICATION]) / (double)f->communication_ns;
  tg__put_int(out, r->s->ranks[rank].number);
  tg__put_cstr(out, step);
  tg__put_int(out, n);
  put_mean(out, f->length_ns, n, true);
  put_mean(out, share[TG__SHARE_COMPUTE], n, true);
  put_mean(out, f->communication_ns, n, true);
  put_mean(out, share[TG__SHARE_COMMUNICATION], n, true);
  tg__put_real(out, f->communication_ns > 0 ? hidden : NAN);
  put_mean(out, f->wait_ns, n, f->matched > 0);
  put_mean(out, f->transfer_ns, n, f->matched > 0);
  put_mean(out, share[TG__SHARE_COPY], n, true);
  put_mean(out, share[TG__SHARE_DATA], n, true);
  put_mean(out, share[TG__SHARE_HOST], n, true);
  put_mean(out, share[TG__SHARE_REST], n, true);
  tg__put_int(out, f->collectives);
  tg__put_int(out, f->last);
  tg__put_real(out, tg__rank_late_pct(f));
  put_state(r, rank, out);
}

static void put_by_rank(const struct tg__ranks *r, const struct tg__rank_figures *f, struct tg_table *out) {
  for (uint32_t i = 0; i < r->s->count; i++)
    if (tg__ranks_wanted(r, i)) put_rank_row(r, i, "", &f[i], out);
}

static void put_by_step(const struct tg__ranks *r, const bool *steps, const struct tg__rank_figures *f,
                        struct tg_table *out) {
  size_t at = 0;
  for (uint32_t i = 0; i < r->s->count; i++) {
    const struct tg__rank_summary *const rank = &r->s->ranks[i];
    for (uint32_t k = 0; k < rank->step_count; k++, at++) {
      char number[24] = "";
      if (rank->steps[k].number >= 0) snprintf(number, sizeof number, "%lld", (long long)rank->steps[k].number);
      if (tg__ranks_wanted(r, i) && steps[at]) put_rank_row(r, i, number, &f[at], out);
    }
  }
}

static void note_steps(const struct tg__ranks *r, const bool *common, bool has_common, struct tg_table *out) {
  size_t total = 0, kept = 0;
  uint32_t with = 0, without = 0;
  for (uint32_t i = 0; i < r->s->count; i++) {
    const struct tg__rank_summary *const rank = &r->s->ranks[i];
    const bool is_numbered = rank->step_count > 0 && rank->steps[0].number >= 0;
    with += is_numbered;
    without += !is_numbered;
    for (uint32_t k = 0; k < rank->step_count; k++, total++) kept += common[total] && is_numbered;
  }
  if (r->s->count < 2) return;
  if (with && !has_common)
    tg__table_note(
        out,
        "no step number is on all ranks: each row is about the steps of its own rank, which are not the same ones");
  else if (with && kept < (size_t)with * (size_t)most_steps(r))
    tg__table_note(out, "steps that all ranks have and that are compared here: %zu", kept / with);
  if (without && with)
    tg__table_note(out, "ranks without steps%s: %u", has_common ? ", left out of the means" : "", (unsigned)without);
  if (without && !with)
    tg__table_note(out, "no steps: each row is a whole recording (call prof.step() in the loop to get steps)");
}

enum tg_err tg__answer_ranks(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                             struct tg_error *e) {
  static const char *const groupings[] = {"rank", "step"}, *const clocks[] = {"aligned", "files"};
  struct tg__step_selection selection;
  size_t by, clock;
  enum tg_err err = tg__ask_choice(a, "by", groupings, 2, &by, e);
  if (!err) err = tg__ask_choice(a, "clock", clocks, 2, &clock, e);
  if (!err) err = tg__step_selection_read(&selection, a, e);
  if (err) return err;
  struct tg__ranks r;
  struct tg__rank_figures *f = NULL;
  bool has_common = true, *steps = NULL;
  err = tg__ranks_open(&r, t, a, clock == 0, e);
  if (!err) {
    steps = by == 1 ? tg__ranks_all_steps(&r, &selection) : tg__ranks_common_steps(&r, &selection, &has_common);
    f = steps ? tg__rank_figures(&r, steps, by == 1) : NULL;
    err = f ? tg__step_selection_check(&selection, &r, steps, e) : TG_MEMORY;
  }
  if (!err) {
    if (by == 1)
      put_by_step(&r, steps, f, out);
    else
      put_by_rank(&r, f, out);
    if (by == 0) note_steps(&r, steps, has_common, out);
    tg__ranks_note(&r, out);
  }
  tg__free(f);
  tg__free(steps);
  tg__ranks_close(&r);
  return err;
}
