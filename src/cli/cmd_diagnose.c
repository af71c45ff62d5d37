/* tachograph diagnose: the method as one page, of a recording or of a script, which is recorded first. */
#include "cli/run_recording.h"

#include <stdio.h>
#include <stdlib.h>

/* A cell of text by the name of its column; "" where it is unknown. */
static const char *cell(const struct tg_table *t, size_t row, const char *column) {
  const char *text = NULL;
  size_t len;
  for (size_t c = 0; c < tg_table_columns(t); c++)
    if (strcmp(tg_column_name(t, c), column) == 0) text = tg_cell_text(t, c, row, &len);
  return text ? text : "";
}

/* ---- --explain --------------------------------------------------------------------------------- */

/* Change N of the page, from the findings of the rank that it shows. */
static int explain(const struct tg__cli *c, struct tg_trace *trace, int64_t rank, struct tg__out *out) {
  const char *const word = tg__cli_setting(c, "explain");
  char number[24], *end = NULL;
  const struct tg_arg args[] = {{"rank", number}};
  const unsigned long n = strtoul(word, &end, 10);
  struct tg_table *t = NULL;
  struct tg_error e = {0};
  snprintf(number, sizeof number, "%lld", (long long)rank);
  if (*end || end == word || !n) return tg__cli_usage(c, NULL, "--explain takes the number of a change, from 1 on");
  if (tg_ask(trace, "findings", args, rank != TG_NULL_INT, &t, &e)) return tg__cli_failed(c, &e, NULL);
  const int status = n > tg_table_rows(t)
                         ? tg__cli_usage(c, NULL, "there is no change %lu: the trace has %zu", n, tg_table_rows(t))
                         : TG__EXIT_OK;
  if (!status) tg__diagnosis_explain(t, n - 1, out);
  tg_table_free(t);
  return status;
}

/* ---- --fail-on --------------------------------------------------------------------------------- */

static int level_of(const char *word) {
  static const char *const levels[] = {"low", "medium", "high"};
  for (int i = 0; i < 3; i++)
    if (strcmp(word, levels[i]) == 0) return i;
  return -1;
}

static int judge(const struct tg__cli *c, const struct tg_table *t) {
  int status = TG__EXIT_OK;
  for (size_t i = 0; i < c->setting_count; i++) {
    const char *const what = c->settings[i].value;
    if (strcmp(c->settings[i].name, "fail-on") != 0) continue;
    for (size_t row = 0; row < tg_table_rows(t); row++) {
      const char *const level = cell(t, row, "level"), *const cause = cell(t, row, "item");
      if (strcmp(cell(t, row, "part"), "change") != 0 || level_of(level) < 0) continue;
      if (level_of(what) >= 0 ? level_of(level) < level_of(what) : strcmp(cause, what) != 0) continue;
      tg__cli_say("tachograph: --fail-on %s: %s is %s\n", what, cause, level);
      status = TG__EXIT_THRESHOLD;
    }
  }
  return status;
}

/* ---- the command ------------------------------------------------------------------------------- */

static int show_page(struct tg__cli *c, struct tg_trace *trace, const struct tg_table *t, bool markdown) {
  struct tg_error e = {0};
  struct tg__sink sink;
  if (tg__sink_open(&sink, c->out_path, &e)) return tg__cli_failed(c, &e, NULL);
  const struct tg__show_options options = {.width = tg__cli_width(c), .color = c->color};
  const enum tg_err err = tg__diagnosis_page(t, tg__cli_word(c, c->operands[0]), &options, markdown, &sink.out);
  int status = TG__EXIT_OK;
  if (err) tg__fail(&e, err, -1, "%s while writing the diagnosis", tg_err_text(err));
  if (!err && tg__cli_setting(c, "explain")) status = explain(c, trace, tg__diagnosis_rank(t), &sink.out);
  const int closed = tg__sink_close(&sink, c, err == TG_IO ? TG_OK : err, &e);
  return status ? status : closed;
}

/* --html: the page of `report`, beside the answer. */
static int write_html(struct tg__cli *c, struct tg_trace *trace) {
  struct tg_error e = {0};
  struct tg__sink sink;
  if (tg__sink_open(&sink, tg__cli_setting(c, "html"), &e)) return tg__cli_failed(c, &e, NULL);
  tg__work_begin("making the report");
  const enum tg_err err = tg_report(trace, "html", 0, false, sink.out.write, sink.out.ctx, &e);
  tg__work_end();
  return tg__sink_close(&sink, c, err, &e);
}

/* A script is recorded as `run` does it, into a folder of its own; the words behind -- are the script's. */
static int record(struct tg__cli *c) {
  struct tg__cli_recorded recorded;
  const size_t settings = c->setting_count;
  c->setting_count = 0; /* they are about the page */
  const int status = tg__cli_record_first(c, &recorded);
  c->setting_count = settings;
  if (recorded.file) c->operands[0] = recorded.file;
  return status;
}

int tg__cmd_diagnose(struct tg__cli *c) {
  const bool is_script =
      c->operand_count && tg__str_has_suffix((struct tg__str){c->operands[0], (uint32_t)strlen(c->operands[0])}, ".py");
  if (!is_script && !tg__cli_needs(c, 1)) return TG__EXIT_USAGE;
  const bool markdown = tg__cli_setting(c, "markdown") || strcmp(c->format, "md") == 0;
  const bool is_page = markdown || strcmp(c->format, "text") == 0;
  if (tg__cli_setting(c, "explain") && !is_page)
    return tg__cli_usage(c, NULL, "--explain is for the diagnosis as text or md");
  const int recorded = is_script ? record(c) : TG__EXIT_OK;
  if (recorded) return recorded;
  if (tg__cli_setting(c, "checklist")) return tg__cmd_checklist(c);
  struct tg_trace *trace = NULL;
  struct tg_table *t = NULL;
  struct tg_error e = {0};
  const struct tg__cli_question asked = {"diagnosis", c->arguments, c->argument_count, SIZE_MAX};
  const enum tg_err err = tg__cli_ask(c, c->operands[0], &asked, &trace, &t, &e);
  int status;
  if (err)
    status = tg__cli_failed(c, &e, trace ? tg__cli_instead(c, err, trace, c->operands[0]) : NULL);
  else
    status = is_page ? show_page(c, trace, t, markdown) : tg__cli_table(c, t, 0);
  if (!status && tg__cli_setting(c, "html")) status = write_html(c, trace);
  if (!status) status = judge(c, t);
  tg_table_free(t);
  tg_close(trace);
  return status;
}
