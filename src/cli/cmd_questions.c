/* tachograph questions: the list, all about one, or where to look for the cause of a complaint. */
#include "cli/cli.h"

#include <stdio.h>

static struct tg_table *list_questions(void) {
  static const struct tg_column_spec columns[] = {{"question", TG_TEXT, ""}, {"meaning", TG_TEXT, ""}};
  struct tg_table *const t = tg_table_new("questions", columns, sizeof columns / sizeof *columns);
  for (size_t i = 0; t && i < tg_question_count(); i++)
    tg_table_add_row(t, (struct tg_cell[]){{.text = tg_question_name(i)}, {.text = tg_question_meaning(i)}});
  if (t) tg_table_add_note(t, "arguments and columns of one: tachograph questions steps");
  return t;
}

static void put_question_line(struct tg_table *t, const char *kind, const char *fallback,
                              const struct tg_question_column *c) {
  tg_table_add_row(t, (struct tg_cell[]){{.text = kind},
                                         {.text = c->name},
                                         {.text = c->type},
                                         {.text = c->unit},
                                         {.text = fallback},
                                         {.text = c->meaning},
                                         {.text = c->role},
                                         {.text = c->fold},
                                         {.text = c->of},
                                         {.text = c->by},
                                         {.number = c->role ? c->is_important : -1}});
}

enum { READ_BY_PEOPLE = 6 }; /* columns of the text: the meaning has the width that roles and merge rules would take */
static struct tg_table *describe(const struct tg__cli *c, size_t question) {
  static const struct tg_column_spec columns[] = {
      {"kind", TG_TEXT, ""},    {"name", TG_TEXT, ""},    {"type", TG_TEXT, ""},     {"unit", TG_TEXT, ""},
      {"default", TG_TEXT, ""}, {"meaning", TG_TEXT, ""}, {"role", TG_TEXT, ""},     {"fold", TG_TEXT, ""},
      {"of", TG_TEXT, ""},      {"by", TG_TEXT, ""},      {"important", TG_BOOL, ""}};
  const bool is_text = strcmp(c->format, "text") == 0;
  struct tg_table *const t =
      tg_table_new("questions", columns, is_text ? READ_BY_PEOPLE : sizeof columns / sizeof *columns);
  if (!t) return NULL;
  const char *fallback;
  struct tg_question_column column = {0};
  for (size_t k = 0; tg_question_argument(question, k, &column.name, &fallback, &column.meaning); k++)
    put_question_line(t, "argument", fallback, &column);
  for (size_t k = 0; tg_question_column(question, k, &column); k++) put_question_line(t, "column", NULL, &column);
  tg__cli_note(t, "%s: %s", tg_question_name(question), tg_question_meaning(question));
  tg__cli_note(t, "an argument is given as an option: tachograph ask FILE %s --limit 5", tg_question_name(question));
  return t;
}

/* NULL: nothing is known of it, or no memory. */
static struct tg_table *list_symptoms(const char *words) {
  enum { MOST = 5 };
  static const struct tg_column_spec columns[] = {
      {"complaint", TG_TEXT, ""}, {"command", TG_TEXT, ""}, {"answers", TG_TEXT, ""}};
  const char *complaint, *command, *answers;
  if (!tg__symptom_match(words, 0, &complaint, &command, &answers)) return NULL;
  struct tg_table *const t = tg_table_new("questions", columns, sizeof columns / sizeof *columns);
  for (size_t i = 0; t && i < MOST && tg__symptom_match(words, i, &complaint, &command, &answers); i++)
    tg_table_add_row(t,
                     (struct tg_cell[]){{.text = complaint}, {.text = *command ? command : NULL}, {.text = answers}});
  return t;
}

/* All operands as one text. NULL on no memory. */
static const char *complaint_of(struct tg__cli *c) {
  size_t size = 1;
  for (size_t i = 0; i < c->operand_count; i++) size += strlen(c->operands[i]) + 1;
  char *const words = tg__arena_get(&c->arena, size);
  for (size_t i = 0, n = 0; words && i < c->operand_count; i++)
    n += (size_t)snprintf(words + n, size - n, "%s ", c->operands[i]);
  return words;
}

int tg__cmd_questions(struct tg__cli *c) {
  const bool is_name = c->operand_count == 1 && tg_question_find(c->operands[0]) < tg_question_count();
  const char *const complaint = c->operand_count && !is_name ? complaint_of(c) : NULL;
  struct tg_table *const symptoms = complaint ? list_symptoms(complaint) : NULL;
  if (symptoms) {
    const int status = tg__cli_table(c, symptoms, 0);
    tg_table_free(symptoms);
    return status;
  }
  if (c->operand_count > 1 && !tg__cli_needs(c, 1)) return TG__EXIT_USAGE;
  const size_t question = c->operand_count ? tg_question_find(c->operands[0]) : 0;
  if (c->operand_count && question == tg_question_count()) {
    struct tg_error e = {0};
    struct tg_table *none;
    tg_ask(NULL, c->operands[0], NULL, 0, &none, &e); /* the engine has the words for it */
    return tg__cli_failed(c, &e, "tachograph questions");
  }
  struct tg_table *const t = c->operand_count ? describe(c, question) : list_questions();
  const int status = t ? tg__cli_table(c, t, 0) : tg__cli_no_memory(c);
  tg_table_free(t);
  return status;
}
