/* The report as Markdown: the step, what to change first, and the tables folded away. For a pull request or the summary
 * of a CI run. */
#include "show/report.h"

#include <math.h>

enum { FINDINGS = 3, NUMBER_BYTES = 32 };

static void put_headline(const struct tg__report *r, struct tg__out *out) {
  const struct tg_table *const rows = r->parts[TG__REPORT_STEP_ROWS];
  const struct tg__columns *const t = r->trace;
  char median[NUMBER_BYTES], low[NUMBER_BYTES], high[NUMBER_BYTES];
  const struct tg__str path =
      t->path ? (struct tg__str){t->path, (uint32_t)strlen(t->path)} : tg__name(t, t->ranks[0].path);
  const int64_t p50 = tg__report_step(r, "p50", "total_ns");
  tg__out_text(out, "### ");
  if (p50 == TG_NULL_INT) {
    tg__out_text(out, "A trace without steps or operators\n\n");
  } else {
    tg__out_format(out, "%s a step in the median, %s to %s, %zu step%s\n\n", tg__human_ns(p50, median),
                   tg__human_ns(tg__report_step(r, "min", "total_ns"), low),
                   tg__human_ns(tg__report_step(r, "max", "total_ns"), high), rows ? rows->rows : 0,
                   rows && rows->rows == 1 ? "" : "s");
  }
  tg__put_md_code(out, path, path.len + 1);
  if (t->rank_count > 1)
    tg__out_format(out, ", %u ranks; the figures are of rank %lld, which has the longest steps", t->rank_count,
                   (long long)t->ranks[r->rank].number);
  if (!r->is_valid) tg__out_text(out, ". **Invariants broken: please report**");
  const struct tg_table *const losses = r->parts[TG__REPORT_LOSSES];
  if (losses && losses->rows) tg__out_format(out, ". %zu kinds of loss: see below", losses->rows);
  if (tg__report_why(r).len) {
    tg__out_text(out, "\n\n**Why it was written:** ");
    tg__put_md(out, tg__report_why(r));
  }
  tg__out_text(out, "\n\n");
}

static void put_time(struct tg__out *out, int64_t ns) {
  char buf[NUMBER_BYTES];
  tg__out_text(out, ns == TG_NULL_INT ? "" : tg__human_ns(ns, buf));
}

/* "51.0 ms to 70.2 ms", or one figure where no range is known */
static void put_saving(const struct tg_table *t, size_t row, struct tg__out *out) {
  const int64_t low = tg__cell_int(t, row, "saving_low_ns"), high = tg__cell_int(t, row, "saving_high_ns");
  if (low == TG_NULL_INT || high == TG_NULL_INT) {
    put_time(out, tg__cell_int(t, row, "saving_ns"));
    return;
  }
  put_time(out, low);
  tg__out_text(out, " to ");
  put_time(out, high);
}

static void put_finding(const struct tg_table *t, size_t row, struct tg__out *out) {
  const struct tg__str where = tg__cell_str(t, row, "where");
  tg__out_text(out, "| ");
  tg__put_md(out, tg__cell_str(t, row, "severity"));
  tg__out_text(out, " | **");
  tg__put_md(out, tg__cell_str(t, row, "cause"));
  tg__out_text(out, "** ");
  if (where.len) tg__put_md_code(out, where, where.len + 1);
  tg__out_text(out, "<br>");
  tg__put_md(out, tg__cell_str(t, row, "evidence"));
  tg__out_text(out, "<br>");
  tg__put_md(out, tg__cell_str(t, row, "advice"));
  tg__out_format(out, " | %.1f %% | ", tg__cell_real(t, row, "share_pct"));
  put_time(out, tg__cell_int(t, row, "cost_ns"));
  tg__out_text(out, " | ");
  put_saving(t, row, out);
  tg__out_text(out, " |\n");
}

static void put_findings(const struct tg_table *t, struct tg__out *out) {
  if (!t) return;
  if (!t->rows) {
    tg__out_text(out, "No finding: ");
    const char *const note = t->note_count ? t->notes[t->note_count - 1] : "no rule fired";
    tg__put_md(out, (struct tg__str){note, (uint32_t)strlen(note)});
    tg__out_char(out, '\n');
    return;
  }
  tg__out_text(out, "| | what to change first | share | a step | saves |\n| --- | --- | ---: | ---: | ---: |\n");
  for (size_t i = 0; i < t->rows && i < FINDINGS; i++) put_finding(t, i, out);
  if (t->rows > FINDINGS) tg__out_format(out, "\n%zu more findings\n", t->rows - FINDINGS);
}

static void put_folded(const struct tg_table *t, const char *title, const char *ns, const char *pct,
                       struct tg__out *out) {
  char buf[NUMBER_BYTES];
  if (!t || !t->rows) return;
  tg__out_format(out, "\n<details><summary>%s</summary>\n\n| | calls | time | share |\n| --- | ---: | ---: | ---: |\n",
                 title);
  for (size_t i = 0; i < t->rows; i++) {
    const struct tg__str name = tg__cell_str(t, i, "name");
    const double share = tg__cell_real(t, i, pct);
    tg__out_text(out, "| ");
    tg__put_md_code(out, name, name.len + 1);
    tg__out_format(out, " | %s | ", tg__human_count(tg__cell_int(t, i, "calls"), buf));
    put_time(out, tg__cell_int(t, i, ns));
    tg__out_text(out, " | ");
    if (!isnan(share)) tg__out_format(out, "%.1f %%", share);
    tg__out_text(out, " |\n");
  }
  tg__out_text(out, "\n</details>\n");
}

static void put_kind_line(const struct tg__report *r, struct tg__out *out) {
  struct tg__out text = {0};
  tg__report_kinds(r, &text);
  if (text.err) out->err = text.err;
  if (text.len && !text.err) {
    tg__out_text(out, "\n**Kind of bottleneck:** ");
    tg__put_md(out, (struct tg__str){text.buf, (uint32_t)text.len});
    tg__out_char(out, '\n');
  }
  tg__out_free(&text);
}

static void put_six_answers(const struct tg_table *t, struct tg__out *out) {
  if (!t || !t->rows) return;
  tg__out_text(out, "\n<details><summary>Six questions</summary>\n\n| | answer | value | next |\n"
                    "| --- | --- | ---: | --- |\n");
  for (size_t i = 0; i < t->rows; i++) {
    const struct tg__str next = tg__cell_str(t, i, "next");
    tg__out_text(out, "| ");
    tg__put_md(out, tg__cell_str(t, i, "question"));
    tg__out_text(out, "<br>");
    tg__put_md(out, tg__cell_str(t, i, "evidence"));
    tg__out_text(out, " | ");
    tg__put_md(out, tg__cell_str(t, i, "answer"));
    tg__out_text(out, " | ");
    tg__report_value(t, i, out);
    tg__out_text(out, " | ");
    tg__put_md_code(out, next, next.len + 1);
    tg__out_text(out, " |\n");
  }
  tg__out_text(out, "\n</details>\n");
}

static void put_losses(const struct tg_table *t, struct tg__out *out) {
  if (!t || !t->rows) return;
  tg__out_text(out, "\n<details><summary>What was not read as written</summary>\n\n");
  tg__md_table(t, NULL, out);
  tg__out_text(out, "\n</details>\n");
}

enum tg_err tg__md_report(struct tg_trace *t, const struct tg__show_options *o, struct tg__out *out,
                          struct tg_error *e) {
  struct tg__report r;
  const enum tg_err err = tg__report_make(t, o, &r, e);
  if (!err) {
    put_headline(&r, out);
    put_findings(r.parts[TG__REPORT_FINDINGS], out);
    put_kind_line(&r, out);
    put_six_answers(r.parts[TG__REPORT_QUESTIONS], out);
    put_folded(r.parts[TG__REPORT_HOST_OPS], "Operators, own time on the host", "self_cpu_ns", "self_cpu_pct", out);
    put_folded(r.parts[TG__REPORT_DEVICE_OPS], "Operators, own time on the device", "self_device_ns", "self_device_pct",
               out);
    put_folded(r.parts[TG__REPORT_KERNELS], "Device work", "total_ns", "pct", out);
    put_losses(r.parts[TG__REPORT_LOSSES], out);
  }
  tg__report_free(&r);
  return err ? err : tg__show_end(out, e);
}
