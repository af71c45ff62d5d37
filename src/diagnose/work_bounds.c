/* What bounds the operators of a rank, and what the questions bottleneck and six_questions share. */
#include "diagnose/work_bounds.h"

enum { SLICES_MOST = 1 << 21, NEAR_PCT = 40, NEAR_MOST_PCT = 150 }; /* sizes of more take seconds to read */

/* By intensity an operator is bound by memory when it is short as well; where it is far from the bandwidth something
 * else takes its time. Data that is in a cache comes faster than from memory. */
void tg__bound_work(struct tg__facts *f, struct tg__work_bounds *out) {
  *out = (struct tg__work_bounds){.intensity = NAN, .ridge = NAN};
  TG_SAY(out->why_not, "operators do not say what they were given; record shapes");
  if (f->t->slices.count > SLICES_MOST)
    TG_SAY(out->why_not, "the trace is too large to read the sizes of all operators");
  struct tg_table *const t = f->t->slices.count > SLICES_MOST ? NULL : tg__facts_ask(f, TG__Q_roofline, "by", "shape");
  double flops = 0, bytes = 0, all_ns = 0, near_ns = 0, near_bytes = 0;
  for (size_t i = 0; t && i < t->rows; i++) {
    const double ns = (double)tg__fact_number(t, i, "time_ns"), near = tg__fact_real(t, i, "peak_pct");
    all_ns += ns;
    flops += (double)tg__fact_number(t, i, "flops");
    bytes += (double)tg__fact_number(t, i, "bytes");
    if (isnan(out->ridge)) out->ridge = tg__fact_real(t, i, "ridge");
    if (!tg__str_eq(tg__fact_text(t, i, "bound"), TG_STR("memory")) || !(near >= NEAR_PCT && near <= NEAR_MOST_PCT))
      continue;
    near_ns += ns;
    near_bytes += (double)tg__fact_number(t, i, "bytes");
  }
  if (bytes > 0) out->intensity = flops / bytes;
  out->is_known = bytes > 0 && !isnan(out->ridge);
  if (bytes > 0 && isnan(out->ridge)) TG_SAY(out->why_not, "the peaks of what it runs on are not known");
  if (all_ns > 0) out->memory_part = near_ns / all_ns;
  if (near_ns > 0) out->bytes_per_s = 1e9 * near_bytes / near_ns;
  out->bytes = near_bytes;
  tg__table_free(t);
}

void tg__put_question(const struct tg__facts *f, enum tg__question_id id, const char *words, struct tg_table *out) {
  char text[120];
  const char *const name = f->questions ? tg__catalog_question(f->questions, id)->name : "";
  TG_SAY(text, "%s%s%s", name, *words ? " " : "", words);
  tg__put_cstr(out, text);
}

enum tg_err tg__no_steps_to_judge(struct tg_error *e) {
  return tg__fail(e, TG_NO_DATA, -1,
                  "the trace holds neither steps nor operators nor calls that launch work, so there is nothing to "
                  "judge; record with "
                  "ProfilerActivity.CPU among the activities, and call prof.step() in the loop");
}
