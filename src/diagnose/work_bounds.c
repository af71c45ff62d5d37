/* What bounds the operators of a rank, and what the questions bottleneck and six_questions share. */
#include "analyze/work/op_inputs.h"
#include "diagnose/work_bounds.h"

enum {
  FEW_ROWS = 8,
  ROWS_PCT = 10,
  SLICES_MOST = 1 << 21,
  NEAR_PCT = 40,
  NEAR_MOST_PCT = 150
}; /* sizes of more take seconds to read */

/* Of a product of a weight and few rows; 0: no such product. */
static int64_t few_rows(struct tg__str name, struct tg__str dims) {
  const bool adds = tg__str_eq(name, TG_STR("aten::addmm"));
  struct tg__shape shapes[TG_INPUTS];
  if (!adds && !tg__str_eq(name, TG_STR("aten::linear")) && !tg__str_eq(name, TG_STR("aten::mm")) &&
      !tg__str_eq(name, TG_STR("aten::matmul")))
    return 0;
  if (tg__shapes_read(dims, shapes) < 2u + adds || shapes[1 + adds].rank != 2 || !shapes[adds].rank) return 0;
  const int64_t elements = tg__shape_elements(&shapes[adds]), inner = shapes[adds].dim[shapes[adds].rank - 1];
  return elements > 0 && inner > 0 && elements / inner <= FEW_ROWS ? elements / inner : 0;
}

void tg__say_rows(const struct tg__facts *f, const struct tg__work_bounds *w, char *text, size_t size) {
  const double a_step = w->rows_bytes / (double)f->steps.count / 1e6;
  if (100 * w->rows_part > ROWS_PCT && w->rows)
    tg__text_add(
        text, size,
        "; products of %lld row%s, as decoding has them, are %.1f %% of the operators' time and read %.1f MB %s, "
        "%.1f MB a token",
        (long long)w->rows, w->rows == 1 ? "" : "s", 100 * w->rows_part, a_step, tg__period_per(f),
        a_step / (double)w->rows);
}

/* By intensity an operator is bound by memory when it is short as well; where it is far from the bandwidth something
 * else takes its time. Data that is in a cache comes faster than from memory. */
void tg__bound_work(struct tg__facts *f, struct tg__work_bounds *out) {
  *out = (struct tg__work_bounds){.intensity = NAN, .ridge = NAN};
  TG_FORMAT(out->why_not, "operators do not say what they were given; record shapes");
  if (f->t->slices.count > SLICES_MOST)
    TG_FORMAT(out->why_not, "the trace is too large to read the sizes of all operators");
  struct tg_table *const t = f->t->slices.count > SLICES_MOST ? NULL : tg__facts_ask(f, TG__Q_roofline, "by", "shape");
  double flops = 0, bytes = 0, all_ns = 0, near_ns = 0, near_bytes = 0, rows_ns = 0, rows_most = 0;
  for (size_t i = 0; t && i < t->rows; i++) {
    const double ns = (double)tg__fact_number(t, i, "time_ns"), near = tg__fact_real(t, i, "peak_pct");
    all_ns += ns;
    flops += (double)tg__fact_number(t, i, "flops");
    bytes += (double)tg__fact_number(t, i, "bytes");
    const int64_t rows = few_rows(tg__fact_text(t, i, "name"), tg__fact_text(t, i, "group"));
    const double here = rows ? (double)tg__fact_number(t, i, "bytes") : 0;
    rows_ns += rows ? ns : 0;
    out->rows_bytes += here;
    if (here > rows_most) rows_most = here, out->rows = rows;
    if (isnan(out->ridge)) out->ridge = tg__fact_real(t, i, "ridge");
    if (!tg__str_eq(tg__fact_text(t, i, "bound"), TG_STR("memory")) || !(near >= NEAR_PCT && near <= NEAR_MOST_PCT))
      continue;
    near_ns += ns;
    near_bytes += (double)tg__fact_number(t, i, "bytes");
  }
  if (bytes > 0) out->intensity = flops / bytes;
  out->is_known = bytes > 0 && !isnan(out->ridge);
  if (bytes > 0 && isnan(out->ridge)) TG_FORMAT(out->why_not, "the peaks of what it runs on are not known");
  if (all_ns > 0) out->rows_part = rows_ns / all_ns;
  if (all_ns > 0) out->memory_part = near_ns / all_ns;
  if (near_ns > 0) out->bytes_per_s = 1e9 * near_bytes / near_ns;
  tg__table_free(t);
}

void tg__put_question(const struct tg__facts *f, enum tg__question_id id, const char *words, struct tg_table *out) {
  char text[120];
  const char *const name = f->questions ? tg__catalog_question(f->questions, id)->name : "";
  TG_FORMAT(text, "%s%s%s", name, *words ? " " : "", words);
  tg__put_cstr(out, text);
}

enum tg_err tg__no_steps_to_judge(struct tg_error *e) {
  return tg__fail(e, TG_NO_DATA, -1,
                  "the trace holds neither steps nor operators nor calls that launch work, so there is nothing to "
                  "judge; record with "
                  "ProfilerActivity.CPU among the activities, and call prof.step() in the loop");
}

enum tg_err tg__put_of_ranks(const struct tg__columns *t, const struct tg__ask *a, tg__put_facts *put,
                             const char *doing, struct tg_table *out, struct tg_error *e) {
  enum tg_err err = TG_OK;
  for (uint32_t r = 0; !err && r < t->rank_count; r++) {
    struct tg__facts f;
    if (!tg__ask_has_rank(a, r)) continue;
    err = tg__facts_open(t, r, &f);
    f.questions = a->question->catalog;
    if (!err && f.steps.count) put(&f, out);
    if (!err && f.failed) err = TG_MEMORY;
    tg__facts_close(&f);
  }
  if (err) return tg__no_memory(e, "%s", doing);
  return out->rows ? TG_OK : tg__no_steps_to_judge(e);
}
