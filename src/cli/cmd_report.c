/* tachograph report: the report. */
#include "cli/cli.h"

static int print(struct tg__cli *c, struct tg_trace *trace) {
  struct tg__sink sink;
  struct tg_error e = {0};
  if (tg__sink_open(&sink, c->out_path, &e)) return tg__cli_failed(c, &e, NULL);
  const enum tg_err err = tg_report(trace, c->format, tg__cli_width(c), c->color, sink.out.write, sink.out.ctx, &e);
  return tg__sink_close(&sink, c, err, &e);
}

int tg__cmd_report(struct tg__cli *c) {
  if (!tg__cli_needs(c, 1)) return TG__EXIT_USAGE;
  if (strcmp(c->format, "csv") == 0)
    return tg__cli_usage(c, NULL, "the report is text, json, html or md; csv is for the tables of 'ask'");
  struct tg_trace *trace = NULL;
  struct tg_error e = {0};
  int status = tg__cli_open_run(c, c->operands[0], &trace, &e) ? tg__cli_failed(c, &e, NULL)
                                                               : tg__cli_needs_events(c, trace, c->operands[0]);
  if (!status) status = print(c, trace);
  tg_close(trace);
  return status;
}
