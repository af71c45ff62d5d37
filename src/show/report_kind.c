/* The report's part about what bounds the program: the kinds of bottleneck, and six questions with yes or no. */
#include "show/report.h"

#include <math.h>

enum { WHOLE = 20 }; /* lines, more than any paragraph has */

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

static bool put_paragraph(const char *label, const struct tg__show_options *o, unsigned indent, unsigned width,
                          struct tg__out *text, struct tg__out *out) {
  if (text->err) out->err = text->err;
  const bool any = text->len && !text->err;
  if (any) {
    tg__out_format(out, "%s%s%s", o->color ? "\033[1m" : "", label, o->color ? "\033[0m" : "");
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
  const bool has_kinds = put_paragraph("kind", o, indent, width, &kinds, out);
  if (put_paragraph("asked", o, indent, width, &asked, out) || has_kinds) tg__out_char(out, '\n');
}
