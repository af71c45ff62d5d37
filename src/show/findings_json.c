/* Findings as a list of objects, and the length of a step beside them: for scripts that decide what
 * to change. */
#include "show/report.h"

#include <math.h>

static void put_key(struct tg__out *out, const char *key) { tg__out_format(out, ",\"%s\":", key); }

static void put_finding_text(struct tg__out *out, const struct tg_table *t, size_t row, const char *column) {
  const struct tg__str s = tg__cell_str(t, row, column);
  put_key(out, column);
  if (!s.len) {
    tg__out_text(out, "null");
    return;
  }
  tg__out_char(out, '"');
  tg__json_body(out, s);
  tg__out_char(out, '"');
}

static void put_finding_int(struct tg__out *out, const struct tg_table *t, size_t row, const char *column) {
  const int64_t v = tg__cell_int(t, row, column);
  put_key(out, column);
  if (v == TG_NULL_INT)
    tg__out_text(out, "null");
  else
    tg__out_int(out, v);
}

static void put_finding_ms(struct tg__out *out, const struct tg_table *t, size_t row, const char *column,
                           const char *key, double scale) {
  const int64_t ns = tg__cell_int(t, row, column);
  put_key(out, key);
  tg__out_double(out, ns == TG_NULL_INT ? NAN : scale * (double)ns / 1e6);
}

static void put_finding(struct tg__out *out, const struct tg_table *t, size_t row, double scale) {
  static const char *const texts[] = {"severity", "file", "where", "evidence", "advice", "method"};
  tg__out_text(out, row ? ",\n{\"cause\":\"" : "\n{\"cause\":\"");
  tg__json_body(out, tg__cell_str(t, row, "cause"));
  tg__out_char(out, '"');
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) put_finding_text(out, t, row, texts[i]);
  put_finding_int(out, t, row, "line");
  put_finding_int(out, t, row, "rank");
  put_finding_int(out, t, row, "cost_ns");
  put_key(out, "share_pct");
  tg__out_double(out, tg__cell_real(t, row, "share_pct"));
  put_finding_ms(out, t, row, "saving_ns", "saving_ms_per_step", scale);
  put_finding_ms(out, t, row, "saving_low_ns", "saving_low_ms_per_step", scale);
  put_finding_ms(out, t, row, "saving_high_ns", "saving_high_ms_per_step", scale);
  put_finding_int(out, t, row, "saving_bytes");
  put_key(out, "confidence");
  tg__out_double(out, tg__cell_real(t, row, "confidence"));
  tg__out_char(out, '}');
}

void tg__put_findings_json(const struct tg_table *findings, double recorded_step_ns, double step_ns,
                           struct tg__out *out) {
  const double scale = step_ns > 0 && recorded_step_ns > 0 ? step_ns / recorded_step_ns : 1;
  tg__out_text(out, "\"step_ms\":");
  tg__out_double(out, (step_ns > 0 ? step_ns : recorded_step_ns) / 1e6);
  tg__out_text(out, ",\n\"findings\":[");
  for (size_t i = 0; findings && i < findings->rows; i++) put_finding(out, findings, i, scale);
  tg__out_text(out, "],\n\"notes\":[");
  for (size_t i = 0; findings && i < findings->note_count; i++) {
    tg__out_text(out, i ? ",\n\"" : "\n\"");
    tg__json_body(out, (struct tg__str){findings->notes[i], (uint32_t)strlen(findings->notes[i])});
    tg__out_char(out, '"');
  }
  tg__out_char(out, ']');
}

enum tg_err tg__findings_json(struct tg_trace *t, double step_ns, struct tg__out *out, struct tg_error *e) {
  static const struct tg_arg summary = {"by", "summary"};
  struct tg_table *findings = NULL, *steps = NULL;
  enum tg_err err = tg__ask_trace(t, tg__question_name(TG__Q_findings), NULL, 0, &findings, e);
  if (!err) err = tg__ask_trace(t, tg__question_name(TG__Q_steps), &summary, 1, &steps, e);
  if (!err) {
    const int64_t recorded = tg__cell_int(steps, tg__find_row(steps, "step", "mean", 0), "total_ns");
    tg__put_findings_json(findings, recorded == TG_NULL_INT ? NAN : (double)recorded, step_ns, out);
  }
  tg__table_free(findings);
  tg__table_free(steps);
  return err;
}
