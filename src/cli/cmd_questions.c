/* tachograph questions: the list, or all about one. */
#include "cli/cli.h"

static struct tg_table *list_questions(void) {
  struct tg_table *t = tg__table_new("questions");
  if (!t) return NULL;
  tg__table_add_column(t, "question", TG_TEXT, "");
  tg__table_add_column(t, "meaning", TG_TEXT, "");
  for (size_t i = 0; i < tg_question_count(); i++) {
    tg__put_cstr(t, tg_question_name(i));
    tg__put_cstr(t, tg_question_meaning(i));
  }
  return t;
}

static void put_question_line(struct tg_table *t, const char *kind, const char *name, const char *type,
                              const char *unit, const char *fallback, const char *meaning) {
  const char *const cells[] = {kind, name, type, unit, fallback, meaning};
  for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) tg__put_cstr(t, cells[i]);
}

static struct tg_table *describe(size_t question) {
  static const char *const columns[] = {"kind", "name", "type", "unit", "default", "meaning"};
  struct tg_table *t = tg__table_new("questions");
  if (!t) return NULL;
  for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) tg__table_add_column(t, columns[i], TG_TEXT, "");
  const char *name, *type, *unit, *fallback, *meaning;
  for (size_t k = 0; tg_question_argument(question, k, &name, &fallback, &meaning); k++) {
    put_question_line(t, "argument", name, NULL, NULL, fallback, meaning);
  }
  for (size_t k = 0; tg_question_column(question, k, &name, &type, &unit, &meaning); k++) {
    put_question_line(t, "column", name, type, unit, NULL, meaning);
  }
  tg__table_note(t, "%s: %s", tg_question_name(question), tg_question_meaning(question));
  tg__table_note(t, "an argument is given as an option: tachograph ask FILE %s --limit 5", tg_question_name(question));
  return t;
}

int tg__cmd_questions(struct tg__cli *c) {
  if (c->operand_count > 1 && !tg__cli_needs(c, 1)) return TG__EXIT_USAGE;
  struct tg_error e = {.code = TG_MEMORY, .offset = -1, .text = "out of memory"};
  struct tg_table *t;
  if (c->operand_count == 0) {
    t = list_questions();
    if (t) tg__table_note(t, "arguments and columns of one: tachograph questions steps");
  } else {
    const struct tg__question *q = tg__catalog_find(&tg__catalog, c->operands[0]);
    if (!q) {
      struct tg_table *none;
      tg_ask(NULL, c->operands[0], NULL, 0, &none, &e); /* the engine has the words for it */
      return tg__cli_failed(c, &e, "tachograph questions");
    }
    t = describe((size_t)(q - tg__catalog.questions));
  }
  const int status = t && !t->failed ? tg__cli_table(c, t, 0) : tg__cli_failed(c, &e, NULL);
  tg_table_free(t);
  return status;
}
