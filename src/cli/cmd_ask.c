/* tachograph ask: one question, answered as a table. */
#include "cli/cli.h"

#include <stdio.h>

enum { ROWS_AS_TEXT = 20 };

static const char *next_step(struct tg__cli *c, enum tg_err err, const struct tg_trace *trace, const char *path,
                             const char *question) {
  if (err == TG_USAGE) return tg__cli_command(c, "tachograph questions %s", question);
  return tg__cli_instead(c, err, trace, path);
}

/* --fail-if: does the expression hold for any row? Asked again without a limit, so that no row escapes it. */
static enum tg_err count_failing(const struct tg__cli *c, struct tg_trace *trace, const char *question,
                                 const char *expression, size_t *rows, struct tg_error *e) {
  struct tg_table *t = NULL;
  struct tg_arg *args = tg__alloc((c->argument_count + 1) * sizeof *args);
  if (!args) return tg__no_memory(e, "reading the arguments");
  size_t count = 0;
  for (size_t i = 0; i < c->argument_count; i++) {
    if (strcmp(c->arguments[i].name, "limit") != 0) args[count++] = c->arguments[i];
  }
  enum tg_err err = tg_ask(trace, question, args, count, &t, e);
  if (!err) err = tg_table_filter(t, expression, e);
  if (!err) *rows = tg_table_rows(t);
  tg_table_free(t);
  tg__free(args);
  return err;
}

/* Every --fail-if there is; says which of them hold. */
static int judge_assertion(struct tg__cli *c, struct tg_trace *trace, const char *path, const char *question) {
  int status = TG__EXIT_OK;
  for (size_t i = 0; i < c->setting_count; i++) {
    const char *const test = c->settings[i].value;
    struct tg_error e = {0};
    size_t failing = 0;
    if (strcmp(c->settings[i].name, "fail-if") != 0) continue;
    const enum tg_err err = count_failing(c, trace, question, test, &failing, &e);
    if (err) return tg__cli_failed(c, &e, next_step(c, err, trace, path, question));
    if (!failing) continue;
    tg__cli_say("tachograph: threshold failed: %s holds for %zu row%s of %s\n", test, failing, failing == 1 ? "" : "s",
                question);
    status = TG__EXIT_THRESHOLD;
  }
  return status;
}

/* --on: the ranks are gathered as summaries, which do not answer everything. */
static int gather_for(struct tg__cli *c, const char *path, const char *question, struct tg_trace **out) {
  if (!tg_summaries_answer(question, c->arguments, c->argument_count))
    return tg__cli_usage(c, "tachograph help ask", TG__CLI_ON_ASKS, question);
  return tg__cli_gather(c, &path, 1, out);
}

/* --to trace: the steps that what_if predicts, as a trace. */
static int write_predicted(struct tg__cli *c, const char *path, const char *question) {
  static const struct tg_arg own = {"predicted", ""};
  const char *const to = tg__cli_setting(c, "to");
  const struct tg__format *const format = tg__cli_format_of(c->out_path);
  struct tg_trace *trace = NULL;
  struct tg_error e = {0};
  if (strcmp(to, "trace") != 0) return tg__cli_usage(c, "tachograph help ask", "--to is trace, not '%s'", to);
  if (strcmp(question, "what_if") != 0)
    return tg__cli_usage(c, "tachograph help export",
                         "--to trace writes what the question what_if predicts; a trace as it is: tachograph export");
  if (tg__cli_open(c, path, &trace, &e)) return tg__cli_failed(c, &e, NULL);
  int status = tg__cli_needs_events(c, trace, path);
  c->format = tg__cli_setting(c, "json") ? "json" : "text"; /* of the answer about the file */
  if (!status) status = tg__cli_export(c, trace, format ? format : tg__format_find("chrome"), &own);
  tg_close(trace);
  return status;
}

static bool is_question(const char *word) { return tg_question_find(word) < tg_question_count(); }

int tg__cmd_ask(struct tg__cli *c) {
  if (!tg__cli_needs(c, 2)) return TG__EXIT_USAGE;
  const char *path = c->operands[0], *question = c->operands[1];
  if (is_question(path) && !is_question(question)) { /* the other way round is clear enough */
    path = c->operands[1];
    question = c->operands[0];
  }
  struct tg_trace *trace = NULL;
  struct tg_table *t = NULL;
  struct tg_error e = {0};
  if (!is_question(question)) { /* before a gigabyte is read for nothing */
    tg_ask(NULL, question, NULL, 0, &t, &e);
    return tg__cli_failed(c, &e, "tachograph questions");
  }
  if (tg__cli_setting(c, "to")) return write_predicted(c, path, question);
  const bool is_short = strcmp(c->format, "text") == 0 && !tg__cli_argument(c, "limit") &&
                        !tg__cli_argument(c, "sort") && !tg__cli_argument(c, "where");
  const struct tg__cli_question asked = {question, c->arguments, c->argument_count, is_short ? ROWS_AS_TEXT : SIZE_MAX};
  int status = tg__cli_is_elsewhere(c) ? gather_for(c, path, question, &trace) : TG__EXIT_OK;
  if (status) return status;
  const enum tg_err err = trace ? tg_ask(trace, question, c->arguments, c->argument_count, &t, &e)
                                : tg__cli_ask(c, path, &asked, &trace, &t, &e);
  if (err) {
    status = tg__cli_failed(c, &e, trace ? next_step(c, err, trace, path, question) : NULL);
  } else {
    if (tg__cli_is_elsewhere(c)) tg__cli_note_missing(trace, "", t);
    tg__cli_explain(c, t);
    status = tg__cli_table(c, t, tg__cli_argument(c, "limit") || strcmp(c->format, "text") != 0 ? 0 : ROWS_AS_TEXT);
    if (!status) status = judge_assertion(c, trace, path, question);
  }
  tg_table_free(t);
  tg_close(trace);
  return status;
}
