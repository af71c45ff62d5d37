/* tachograph questions: the list, or all about one. */
#include "cli/cli.h"

static struct tg_table *list_questions(void) {
  static const struct tg_column_spec columns[] = {{"question", TG_TEXT, ""}, {"meaning", TG_TEXT, ""}};
  struct tg_table *const t = tg_table_new("questions", columns, sizeof columns / sizeof *columns);
  for (size_t i = 0; t && i < tg_question_count(); i++)
    tg_table_add_row(t, (struct tg_cell[]){{.text = tg_question_name(i)}, {.text = tg_question_meaning(i)}});
  if (t) tg_table_add_note(t, "arguments and columns of one: tachograph questions steps");
  return t;
}

static void put_question_line(struct tg_table *t, const char *kind, const char *name, const char *type,
                              const char *unit, const char *fallback, const char *meaning) {
  tg_table_add_row(
      t, (struct tg_cell[]){
             {.text = kind}, {.text = name}, {.text = type}, {.text = unit}, {.text = fallback}, {.text = meaning}});
}

static struct tg_table *describe(size_t question) {
  static const struct tg_column_spec columns[] = {{"kind", TG_TEXT, ""},    {"name", TG_TEXT, ""},
                                                  {"type", TG_TEXT, ""},    {"unit", TG_TEXT, ""},
                                                  {"default", TG_TEXT, ""}, {"meaning", TG_TEXT, ""}};
  struct tg_table *const t = tg_table_new("questions", columns, sizeof columns / sizeof *columns);
  if (!t) return NULL;
  const char *name, *type, *unit, *fallback, *meaning;
  for (size_t k = 0; tg_question_argument(question, k, &name, &fallback, &meaning); k++) {
    put_question_line(t, "argument", name, NULL, NULL, fallback, meaning);
  }
  for (size_t k = 0; tg_question_column(question, k, &name, &type, &unit, &meaning); k++) {
    put_question_line(t, "column", name, type, unit, NULL, meaning);
  }
  tg__cli_note(t, "%s: %s", tg_question_name(question), tg_question_meaning(question));
  tg__cli_note(t, "an argument is given as an option: tachograph ask FILE %s --limit 5", tg_question_name(question));
  return t;
}

int tg__cmd_questions(struct tg__cli *c) {
  if (c->operand_count > 1 && !tg__cli_needs(c, 1)) return TG__EXIT_USAGE;
  const size_t question = c->operand_count ? tg_question_find(c->operands[0]) : 0;
  if (c->operand_count && question == tg_question_count()) {
    struct tg_error e = {0};
    struct tg_table *none;
    tg_ask(NULL, c->operands[0], NULL, 0, &none, &e); /* the engine has the words for it */
    return tg__cli_failed(c, &e, "tachograph questions");
  }
  struct tg_table *const t = c->operand_count ? describe(question) : list_questions();
  const int status = t ? tg__cli_table(c, t, 0) : tg__cli_no_memory(c);
  tg_table_free(t);
  return status;
}
