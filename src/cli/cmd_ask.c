/* tachograph ask: one question, answered as a table. */
#include "cli/cli.h"

#include <stdio.h>

enum { ROWS_AS_TEXT = 20 };

static const char *next_step(struct tg__cli *c, enum tg_err err, const struct tg_trace *trace, const char *path,
                             const char *question) {
  if (err == TG_USAGE) return tg__cli_command(c, "tachograph questions %s", question);
  return tg__cli_instead(c, err, trace, path);
}

/* --explain: the meaning of every column that the answer has, as notes. */
static void explain(struct tg_table *t, const char *question) {
  const size_t q = (size_t)(tg__catalog_find(&tg__catalog, question) - tg__catalog.questions);
  const char *name, *unit, *meaning;
  for (size_t k = 0; tg_question_column(q, k, &name, NULL, &unit, &meaning); k++)
    if (tg__table_column_index(t, name) != SIZE_MAX)
      tg__table_note(t, "%s%s%s%s: %s", name, *unit ? " (" : "", unit, *unit ? ")" : "", meaning);
}

/* --fail-if: does the expression hold for any row? Asked again without a limit, so that no row escapes it. */
static enum tg_err count_failing(const struct tg__cli *c, struct tg_trace *trace, const char *question,
                                 const char *expression, size_t *rows, struct tg_error *e) {
  struct tg_table *t = NULL;
  struct tg_arg *args = tg__alloc((c->argument_count + 1) * sizeof *args);
  if (!args) return tg__fail(e, TG_MEMORY, -1, "out of memory");
  size_t count = 0;
  for (size_t i = 0; i < c->argument_count; i++) {
    if (strcmp(c->arguments[i].name, "limit") != 0) args[count++] = c->arguments[i];
  }
  enum tg_err err = tg_ask(trace, question, args, count, &t, e);
  if (!err) err = tg__where_filter(t, expression, e);
  if (!err) *rows = t->rows;
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

/* first: the answer, or why there is none, where the ranks were read for it. */
static int print_answer(struct tg__cli *c, struct tg_trace *trace, const char *path, const char *question,
                        struct tg__first_question *first) {
  struct tg_error e = first->error;
  struct tg_table *t = first->table;
  const enum tg_err err =
      t || first->err ? first->err : tg_ask(trace, question, c->arguments, c->argument_count, &t, &e);
  if (!err && tg__cli_setting(c, "explain")) explain(t, question);
  int status;
  if (err)
    status = tg__cli_failed(c, &e, next_step(c, err, trace, path, question));
  else
    status = tg__cli_table(c, t, tg__cli_argument(c, "limit") || strcmp(c->format, "text") != 0 ? 0 : ROWS_AS_TEXT);
  tg_table_free(t);
  return status ? status : judge_assertion(c, trace, path, question);
}

/* A folder of ranks is read rank by rank for the questions that need no more than that; rules=hta looks at single
 * kernels. */
static bool is_about_ranks(const struct tg__cli *c, const char *path, const struct tg__question *question) {
  const char *const rules = tg__cli_argument(c, "rules");
  const enum tg__path_kind kind = tg__path_kind(path);
  return question->loads == TG__COL_RANKS && !(rules && strncmp(rules, "hta", 3) == 0) &&
         (kind == TG__PATH_DIR || (kind == TG__PATH_NONE && strpbrk(path, "*?[")));
}

static enum tg_err open_for(const struct tg__cli *c, const char *path, struct tg__first_question *first,
                            struct tg_trace **out, struct tg_error *e) {
  if (is_about_ranks(c, path, first->call.question)) return tg__cli_open_ranks(c, &path, 1, out, e);
  return tg__cli_open_asking(c, path, first, out, e);
}

int tg__cmd_ask(struct tg__cli *c) {
  if (!tg__cli_needs(c, 2)) return TG__EXIT_USAGE;
  const char *path = c->operands[0], *question = c->operands[1];
  if (tg__catalog_find(&tg__catalog, path) &&
      !tg__catalog_find(&tg__catalog, question)) { /* the other way round is clear enough */
    path = c->operands[1];
    question = c->operands[0];
  }
  if (!tg__catalog_find(&tg__catalog, question)) { /* before a gigabyte is read for nothing */
    struct tg_table *none = NULL;
    struct tg_error e = {0};
    tg_ask(NULL, question, NULL, 0, &none, &e);
    return tg__cli_failed(c, &e, "tachograph questions");
  }
  struct tg_trace *trace = NULL;
  struct tg_error e = {0};
  const bool is_short = strcmp(c->format, "text") == 0 && !tg__cli_argument(c, "limit") &&
                        !tg__cli_argument(c, "sort") && !tg__cli_argument(c, "where");
  struct tg__first_question first = {
      .call = {tg__catalog_find(&tg__catalog, question), c->arguments, c->argument_count},
      .most = is_short ? ROWS_AS_TEXT : SIZE_MAX};
  const enum tg_err err = open_for(c, path, &first, &trace, &e);
  if (err) return tg__cli_failed(c, &e, NULL);
  if (first.table) tg__table_note_alias(first.table, first.call.question, question);
  const int status = print_answer(c, trace, path, question, &first);
  tg_close(trace);
  return status;
}
