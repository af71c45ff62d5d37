/* catalog: the table of all questions, those of analyze, of replay and of diagnose. */
#include "catalog/catalog.h"

enum {
#define QUESTION(name, ...) AT_##name,
#include "catalog/questions_all.def"
  QUESTION_COUNT
};

/* Arguments and columns of all questions lie in one array each. FIRST_x is the position of x's first one: an
 * enumerator takes the next number, and BACK_x takes it back so that the first entry of x gets the same. */
enum {
#define QUESTION(name, ...) ARGUMENT_FIRST_##name, ARGUMENT_BACK_##name = ARGUMENT_FIRST_##name - 1,
#define ARGUMENT(question, name, fallback, meaning) ARGUMENT_##question##_##name,
#include "catalog/questions_all.def"
  ARGUMENT_COUNT
};

enum {
#define QUESTION(name, ...) COLUMN_FIRST_##name, COLUMN_BACK_##name = COLUMN_FIRST_##name - 1,
#define COLUMN(question, name, ...) COLUMN_##question##_##name,
#include "catalog/questions_all.def"
  COLUMN_COUNT
};

static const struct tg__question questions[] = {
#define QUESTION_LINE(name, columns, needs, steps, merge, meaning, order, empty, ...)                                  \
  [AT_##name] = {&tg__catalog,                                                                                         \
                 TG__Q_##name,                                                                                         \
                 #name,                                                                                                \
                 meaning,                                                                                              \
                 order,                                                                                                \
                 empty,                                                                                                \
                 TG__COL_##columns,                                                                                    \
                 TG__NEED_##needs,                                                                                     \
                 TG__STEPS_BY_##steps,                                                                                 \
                 TG__MERGE_##merge,                                                                                    \
                 tg__answer_##name,                                                                                    \
                 ARGUMENT_FIRST_##name,                                                                                \
                 COLUMN_FIRST_##name},
#define QUESTION(name, columns, needs, steps, merge, ...)                                                              \
  QUESTION_LINE(name, columns, needs, steps, merge, __VA_ARGS__, "", "", )
#include "catalog/questions_all.def"
};

static const struct tg__question_alias aliases[] = {
#define ALIAS(old, question) {#old, &questions[AT_##question]},
#include "catalog/questions_all.def"
};

static const struct tg__merge_hooks hooks[QUESTION_COUNT] = {
#define FOLDED(question, note) [AT_##question] = {note, tg__folded_##question, NULL},
#define MERGED(question, note) [AT_##question] = {note, NULL, tg__merged_##question},
#include "catalog/questions_all.def"
};

static const char *const important[QUESTION_COUNT] = {
#define IMPORTANT(question, columns) [AT_##question] = columns,
#include "catalog/questions_all.def"
};

static const struct tg__merge_rule merge_rules[] = {
#define MERGE(question, argument, value, merge, order)                                                                 \
  {&questions[AT_##question], #argument, value, TG__MERGE_##merge, order},
#include "catalog/questions_all.def"
};

const struct tg__ready tg__ready[TG__READY_COUNT] = {
#define READY(question, by) {&questions[AT_##question], by},
#include "catalog/questions_all.def"
};

const struct tg__page_answer tg__page_answers[TG__PAGE_ANSWERS] = {
#define PAGE_LINE(question, argument, value, other, other_value, ...)                                                  \
  {&questions[AT_##question], {{argument, value}, {other, other_value}}},
#define PAGE(question, ...) PAGE_LINE(question, __VA_ARGS__, "", "", )
#include "catalog/questions_all.def"
};

static const struct tg__argument_info arguments[] = {
#define ARGUMENT(question, name, fallback, meaning) {#name, fallback, meaning},
#include "catalog/questions_all.def"
};

static const struct tg__column_info columns[] = {
#define COLUMN_LINE(name, type, unit, role, meaning, fold, of, by, ...)                                                \
  {#name, unit, meaning, TG_##type, TG__ROLE_##role, TG__FOLD_##fold, #of, #by},
#define COLUMN(question, name, type, unit, role, ...) COLUMN_LINE(name, type, unit, role, __VA_ARGS__, , , , )
#include "catalog/questions_all.def"
};

const struct tg__catalog tg__catalog = {
    .questions = questions,
    .count = QUESTION_COUNT,
    .aliases = aliases,
    .alias_count = sizeof aliases / sizeof *aliases,
    .arguments = arguments,
    .argument_count = ARGUMENT_COUNT,
    .columns = columns,
    .column_count = COLUMN_COUNT,
    .merge_rules = merge_rules,
    .merge_rule_count = sizeof merge_rules / sizeof *merge_rules,
    .hooks = hooks,
    .important = important,
};

const char *tg__question_name(enum tg__question_id id) { return tg__catalog_question(&tg__catalog, id)->name; }
