/* tachograph report: the one screen. */
#include "cli/cli.h"

int tg__cmd_report(struct tg__cli *c) {
  if (!tg__cli_needs(c, 1)) return TG__EXIT_USAGE;
  if (strcmp(c->format, "csv") == 0) return tg__cli_usage(c, NULL, "the report is text or json; csv is for the tables of 'ask'");
  struct tg_trace *trace = NULL;
  struct tg__sink sink;
  struct tg_error e = {0};
  enum tg_err err = tg__cli_open_run(c, c->operands[0], &trace, &e);
  if (!err) err = tg__sink_open(&sink, c->out_path, &e);
  int status;
  if (err) {
    status = tg__cli_failed(c, &e, NULL);
  } else {
    err = tg_report(trace, c->format, tg__cli_width(c), c->color, sink.out.write, sink.out.ctx, &e);
    status = tg__sink_close(&sink, c, err, &e);
  }
  tg_close(trace);
  return status;
}
