/* tachograph diff: two traces held against each other, for a person, a pull request or a program. */
#include "cli/cli.h"

#include <stdio.h>

enum { ROWS_AS_TEXT = 20 };

/* Where one side lacks the data, that one; where both were read, the conditions that they state. */
static const char *next_step(struct tg__cli *c, enum tg_err err, const char *text, struct tg_trace *const sides[2]) {
  if (err == TG_USAGE) return "tachograph diff --help";
  if (err != TG_NO_DATA) return NULL;
  const int side = strncmp(text, "A: ", 3) == 0 ? 0 : strncmp(text, "B: ", 3) == 0 ? 1 : -1;
  const char *const a = tg__cli_word(c, c->operands[0]), *const b = tg__cli_word(c, c->operands[1]);
  if (side < 0) return tg__cli_command(c, "tachograph diff %s %s --by conditions", a, b);
  if (!tg_has_events(sides[side], NULL)) return tg__cli_instead(c, err, sides[side], c->operands[side]);
  return tg__cli_command(c, "tachograph report %s", side ? b : a);
}

static int failed(struct tg__cli *c, enum tg_err err, const struct tg_error *e, struct tg_trace *a,
                  struct tg_trace *b) {
  return tg__cli_failed(c, e, next_step(c, err, e->text, (struct tg_trace *const[]){a, b}));
}

/* Of the answers to one question, side by side: calls_a, calls_b and calls_delta are its column calls. */
static void explain_columns(const struct tg__cli *c, struct tg_table *t) {
  const char *const question = tg__cli_argument(c, "question");
  const size_t q = question ? tg_question_find(question) : tg_question_count();
  struct tg_question_column column;
  for (size_t k = 0; tg_question_column(q, k, &column); k++) {
    char side[64];
    snprintf(side, sizeof side, "%s_a", column.name);
    for (size_t i = 0; i < tg_table_columns(t); i++)
      if (strcmp(tg_column_name(t, i), side) == 0 || strcmp(tg_column_name(t, i), column.name) == 0)
        tg__cli_explain_column(t, &column);
  }
}

/* The page of headline and sections, or the table where the diff is no such thing (--question, --by name,
 * conditions). */
static int show(const struct tg__cli *c, struct tg_table *t) {
  const bool flag = tg__cli_setting(c, "markdown") != NULL, is_md = strcmp(c->format, "md") == 0;
  const bool markdown = flag || is_md;
  if ((strcmp(c->format, "text") != 0 && !is_md) || !tg__diff_is_page(t)) {
    if (flag)
      return tg__cli_usage(c, NULL,
                           "--markdown is for the diff by step, op, …; not for --question, --by name or --json");
    if (tg__cli_setting(c, "explain")) explain_columns(c, t);
    return tg__cli_table(c, t, tg__cli_argument(c, "limit") || strcmp(c->format, "text") != 0 ? 0 : ROWS_AS_TEXT);
  }
  struct tg_error e = {0};
  struct tg__sink sink;
  if (tg__sink_open(&sink, c->out_path, &e)) return tg__cli_failed(c, &e, NULL);
  const struct tg__show_options options = {.width = tg__cli_width(c), .color = c->color};
  const enum tg_err err = tg__diff_page(t, &options, markdown, &sink.out);
  if (err) tg__fail(&e, err, -1, "%s while writing the diff", tg_err_text(err));
  if (!err && tg__cli_setting(c, "explain")) tg__diff_explain(&sink.out);
  return tg__sink_close(&sink, c, err == TG_IO ? TG_OK : err, &e);
}

/* ---- --fail-if ------------------------------------------------------------------------------- */

static bool is_assertion(const struct tg_arg *setting) { return strcmp(setting->name, "fail-if") == 0; }

/* Assertions may be about rows that --by, --where or --limit do not show: they are judged on the whole. */
static enum tg_err diff_all_rows(const struct tg__cli *c, struct tg_trace *a, struct tg_trace *b, struct tg_table **out,
                                 struct tg_error *e) {
  static const char *const narrow[] = {"by", "where", "sort", "limit"};
  struct tg_arg *args = tg__alloc((c->argument_count + 1) * sizeof *args);
  if (!args) return tg__no_memory(e, "reading the arguments");
  const bool question = tg__cli_argument(c, "question") != NULL;
  size_t count = 0;
  for (size_t i = 0; i < c->argument_count; i++) {
    bool drop = false;
    for (size_t k = question ? 3 : 0; k < sizeof narrow / sizeof *narrow; k++)
      drop |= strcmp(c->arguments[i].name, narrow[k]) == 0;
    if (!drop) args[count++] = c->arguments[i];
  }
  tg__work_begin("comparing");
  const enum tg_err err = tg_diff(a, b, args, count, out, e);
  tg__work_end();
  tg__free(args);
  return err;
}

/* One assertion: of a diff in its own words, of --question as an expression over the columns. */
static enum tg_err judge_assertions(struct tg_table *t, const char *expression, bool *fails, struct tg_error *e) {
  if (tg__diff_is_page(t)) return tg_diff_fails(t, expression, fails, e);
  const size_t all = tg_table_rows(t);
  const enum tg_err err = tg_table_filter(t, expression, e);
  const size_t rows = tg_table_rows(t);
  *fails = !err && rows > 0;
  if (*fails) snprintf(e->text, sizeof e->text, "%.200s holds for %zu of %zu rows", expression, rows, all);
  return err;
}

/* A gate that fails outweighs one that cannot be judged; each of both has its sentence. */
static int judge_all(struct tg__cli *c, struct tg_trace *a, struct tg_trace *b) {
  int status = TG__EXIT_OK;
  for (size_t i = 0; i < c->setting_count; i++) {
    if (!is_assertion(&c->settings[i])) continue;
    struct tg_table *t = NULL;
    struct tg_error e = {0};
    bool fails = false;
    enum tg_err err = diff_all_rows(c, a, b, &t, &e);
    if (!err) err = judge_assertions(t, c->settings[i].value, &fails, &e);
    tg_table_free(t);
    if (err && err != TG_NO_DATA) return failed(c, err, &e, a, b);
    if (err) {
      const int unjudged = failed(c, err, &e, a, b);
      if (status != TG__EXIT_THRESHOLD) status = unjudged;
    }
    if (fails) tg__cli_say("tachograph: threshold failed: %s\n", e.text);
    if (fails) status = TG__EXIT_THRESHOLD;
  }
  return status;
}

/* ---- did the change keep its promise --------------------------------------------------------- */

/* Of two runs as a whole: a part of the steps, of the ranks or of the rows is not what findings speak of. */
static bool is_of_all(const struct tg__cli *c, const struct tg_table *t) {
  static const char *const harmless[] = {"least", "accept"};
  bool is_unlimited = tg__diff_is_page(t) && !tg__cli_is_elsewhere(c);
  for (size_t i = 0; i < c->argument_count; i++)
    is_unlimited &= strcmp(c->arguments[i].name, harmless[0]) == 0 || strcmp(c->arguments[i].name, harmless[1]) == 0;
  return is_unlimited;
}

static enum tg_err verify(const struct tg__cli *c, struct tg_trace *a, struct tg_trace *b, struct tg_table *t,
                          struct tg_error *e) {
  struct tg__fix fix;
  if (!is_of_all(c, t)) return TG_OK;
  tg__work_begin("matching findings");
  const enum tg_err err = tg__verify_fix(a, b, t, &fix, e);
  tg__work_end();
  if (!err) tg__ledger_add(&fix);
  return err;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int compare_traces(struct tg__cli *c, struct tg_trace *a, struct tg_trace *b) {
  struct tg_error e = {0};
  struct tg_table *t = NULL;
  tg__work_begin("comparing");
  enum tg_err err = tg_diff(a, b, c->arguments, c->argument_count, &t, &e);
  tg__work_end();
  if (!err) err = verify(c, a, b, t, &e);
  if (err) {
    tg_table_free(t);
    return failed(c, err, &e, a, b);
  }
  for (int side = 0; tg__cli_is_elsewhere(c) && side < 2; side++)
    tg__cli_note_missing(side ? b : a, side ? "B: " : "A: ", t);
  const int status = show(c, t);
  tg_table_free(t);
  return status ? status : judge_all(c, a, b);
}

/* --on: summaries of the ranks, which are compared by the questions that they answer. */
static int compare_gathered(struct tg__cli *c, struct tg_trace **a, struct tg_trace **b) {
  const char *const question = tg__cli_argument(c, "question");
  if (!question)
    return tg__cli_usage(
        c, "tachograph help diff",
        "diff --on compares answers about ranks: say --question ranks, collectives, stragglers, clocks or spread");
  if (!tg_summaries_answer(question, c->arguments, c->argument_count))
    return tg__cli_usage(c, "tachograph help diff", TG__CLI_ON_ASKS, question);
  int status = tg__cli_gather(c, &c->operands[0], 1, a);
  if (!status) status = tg__cli_gather(c, &c->operands[1], 1, b);
  return status ? status : compare_traces(c, *a, *b);
}

int tg__cmd_diff(struct tg__cli *c) {
  if (!tg__cli_needs(c, 2)) return TG__EXIT_USAGE;
  if (tg__cli_setting(c, "markdown") && tg__cli_wants_json(c))
    return tg__cli_usage(c, NULL, "--markdown and --json contradict each other");
  if (tg__cli_setting(c, "explain") && tg__cli_wants_json(c))
    return tg__cli_usage(c, NULL, "--explain is for text and md");
  struct tg_trace *a = NULL, *b = NULL;
  struct tg_error e = {0};
  int status;
  if (tg__cli_is_elsewhere(c))
    status = compare_gathered(c, &a, &b);
  else if (tg__cli_open_run(c, c->operands[0], &a, &e) || tg__cli_open_run(c, c->operands[1], &b, &e))
    status = tg__cli_failed(c, &e, NULL);
  else
    status = compare_traces(c, a, b);
  tg_close(a);
  tg_close(b);
  return status;
}

int tg__cli_compare(const struct tg__cli *c, const char *a, const char *b) {
  const char *operands[] = {a, b};
  struct tg__cli diff = *c;
  diff.command = tg__command_find("diff");
  diff.operands = operands;
  diff.operand_count = 2;
  diff.setting_count = diff.argument_count = 0;
  diff.out_path = "-";
  return tg__cmd_diff(&diff);
}
