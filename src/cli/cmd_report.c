/* tachograph report: the report. */
#include "cli/cli.h"

/* --explain: the words of the report, and the column that each figure is. */
static void explain(struct tg__out *out) {
  tg__out_text(out, "\nexplained: what a figure means, and the question and column that it is\n");
  struct tg__report_figure f;
  for (size_t i = 0; tg__report_figure(i, &f); i++) {
    const size_t q = tg_question_find(f.question);
    struct tg_question_column column;
    size_t k = 0;
    while (tg_question_column(q, k, &column) && strcmp(column.name, f.column) != 0) k++;
    tg__out_format(out, "- %s: %s (%s.%s)\n", f.word, column.meaning, f.question, column.name);
  }
}

static int print(struct tg__cli *c, struct tg_trace *trace) {
  struct tg__sink sink;
  struct tg_error e = {0};
  if (tg__sink_open(&sink, c->out_path, &e)) return tg__cli_failed(c, &e, NULL);
  tg__work_begin("making the report");
  const enum tg_err err = tg_report(trace, c->format, tg__cli_width(c), c->color, sink.out.write, sink.out.ctx, &e);
  tg__work_end();
  if (!err && tg__cli_setting(c, "explain")) explain(&sink.out);
  return tg__sink_close(&sink, c, err, &e);
}

int tg__cmd_report(struct tg__cli *c) {
  if (!tg__cli_needs(c, 1)) return TG__EXIT_USAGE;
  if (strcmp(c->format, "csv") == 0)
    return tg__cli_usage(c, NULL, "the report is text, json, html or md; csv is for the tables of 'ask'");
  if (tg__cli_setting(c, "explain") && (tg__cli_wants_json(c) || strcmp(c->format, "html") == 0))
    return tg__cli_usage(c, NULL, "--explain is for the report as text or md");
  struct tg_trace *trace = NULL;
  struct tg_error e = {0};
  int status = tg__cli_open_run(c, c->operands[0], &trace, &e) ? tg__cli_failed(c, &e, NULL)
                                                               : tg__cli_needs_events(c, trace, c->operands[0]);
  if (!status) status = print(c, trace);
  tg_close(trace);
  return status;
}
