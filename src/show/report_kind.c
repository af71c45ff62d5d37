/* Paragraphs of the report: the kinds of bottleneck, six questions with yes or no, and a step's time in parts. */
#include "show/report.h"

#include <math.h>
#include <stdlib.h>

enum { WHOLE = 20, NUMBER_BYTES = 32 }; /* WHOLE: lines, more than any paragraph has */

void tg__report_kinds(const struct tg__report *r, struct tg__out *text) {
  const struct tg_table *const t = r->parts[TG__REPORT_KINDS];
  for (size_t i = 0; t && i < t->rows; i++) {
    const struct tg__str kind = tg__cell_str(t, i, "kind");
    const double share = tg__cell_real(t, i, "share_pct");
    if (!i || share > 0) tg__out_format(text, "%s%.*s %.1f %%", i ? ", " : "", (int)kind.len, kind.ptr, share);
  }
  const struct tg__str evidence = t && t->rows ? tg__cell_str(t, 0, "evidence") : TG_STR("");
  if (evidence.len) tg__out_format(text, ": %.*s", (int)evidence.len, evidence.ptr);
}

void tg__report_value(const struct tg_table *t, size_t row, struct tg__out *text) {
  const double value = tg__cell_real(t, row, "value");
  const struct tg__str unit = tg__cell_str(t, row, "unit");
  if (!isnan(value)) tg__out_format(text, "%.1f %.*s", value, (int)unit.len, unit.ptr);
}

static void put_questions(const struct tg_table *t, struct tg__out *text) {
  for (size_t i = 0; t && i < t->rows; i++) {
    const struct tg__str question = tg__cell_str(t, i, "question"), answer = tg__cell_str(t, i, "answer");
    tg__out_format(text, "%s%.*s %.*s", i ? " \u00b7 " : "", (int)question.len, question.ptr, (int)answer.len,
                   answer.ptr);
    if (!isnan(tg__cell_real(t, i, "value"))) tg__out_text(text, ", ");
    tg__report_value(t, i, text);
  }
}

/* The label, and beside it the text in lines of this width; frees the text. false: it is empty, or without memory. */
static bool put_paragraph(const char *label, bool color, unsigned indent, unsigned width, struct tg__out *text,
                          struct tg__out *out) {
  if (text->err) out->err = text->err;
  const bool any = text->len && !text->err;
  if (any) {
    tg__out_format(out, "%s%s%s", color ? "\033[1m" : "", label, color ? "\033[0m" : "");
    tg__put_blanks(out, indent - (unsigned)strlen(label));
    tg__put_wrapped(out, (struct tg__str){text->buf, (uint32_t)text->len}, indent, width - indent, WHOLE);
  }
  tg__out_free(text);
  return any;
}

void tg__report_kind_print(const struct tg__report *r, const struct tg__show_options *o, unsigned indent,
                           unsigned width, struct tg__out *out) {
  struct tg__out kinds = {0}, asked = {0};
  tg__report_kinds(r, &kinds);
  put_questions(r->parts[TG__REPORT_QUESTIONS], &asked);
  const bool has_kinds = put_paragraph("kind", o->color, indent, width, &kinds, out);
  if (put_paragraph("asked", o->color, indent, width, &asked, out) || has_kinds) tg__out_char(out, '\n');
}

/* ---- a step's time in parts ------------------------------------------------------------------ */

/* One of several in a line: "forward 3.1 ms (20.0 %)". */
static void add_time(struct tg__out *text, struct tg__str name, int64_t ns, double pct) {
  char buf[NUMBER_BYTES];
  tg__out_format(text, "%s%.*s\u00a0%s\u00a0(%.1f\u00a0%%)", text->len ? ", " : "", (int)name.len, name.ptr,
                 tg__human_ns(ns, buf), pct);
}

static void list_codes(const struct tg__report *r, struct tg__out *text) {
  static const struct {
    const char *column;
    struct tg__str name;
  } codes[] = {{"compiled_ns", {"compiled", 8}}, {"replayed_ns", {"replayed", 8}}, {"eager_ns", {"eager", 5}}};
  const double total = (double)tg__report_step(r, "mean", "total_ns");
  for (size_t i = 0; i < sizeof codes / sizeof *codes && total > 0; i++) {
    const int64_t ns = tg__report_step(r, "mean", codes[i].column);
    if (ns != TG_NULL_INT) add_time(text, codes[i].name, ns, 100 * (double)ns / total);
  }
}

/* Host time by phase, of a program that trains: else nearly all is forward. They divide the step of the host, which the
 * line says where that is another time than the step's, as devices are late. */
static void list_phases(const struct tg__report *r, struct tg__out *text) {
  const struct tg_table *const t = r->parts[TG__REPORT_PHASES];
  const int64_t step_ns = tg__report_step(r, "mean", "total_ns");
  int64_t host_ns = 0;
  bool trains = false;
  for (size_t i = 0; t && i < t->rows; i++) {
    const struct tg__str name = tg__cell_str(t, i, "phase");
    const bool is_other = tg__str_eq(name, TG_STR("other")); /* not the same as the bar of that name */
    const int64_t ns = tg__cell_int(t, i, "host_ns");
    if (ns <= 0) continue;
    host_ns += ns;
    trains |= tg__str_eq(name, TG_STR("backward")) || tg__str_eq(name, TG_STR("optimizer"));
    add_time(text, is_other ? TG_STR("the rest") : name, ns, tg__cell_real(t, i, "share_pct"));
  }
  char buf[NUMBER_BYTES];
  if (step_ns > 0 && llabs(host_ns - step_ns) > step_ns / 100)
    tg__out_format(text, "; of %s a step on the host", tg__human_ns(host_ns, buf));
  if (!trains) text->len = 0;
}

void tg__report_times_print(const struct tg__report *r, const struct tg__show_options *o, unsigned indent,
                            unsigned width, struct tg__out *out) {
  struct tg__out codes = {0}, phases = {0};
  list_codes(r, &codes);
  list_phases(r, &phases);
  if (put_paragraph("code", o->color, indent, width, &codes, out)) tg__out_char(out, '\n');
  if (put_paragraph("phases", o->color, indent, width, &phases, out)) tg__out_char(out, '\n');
}
