/* compat: the table made from compat.def, and the choice it makes. */
#include "analyze/compat/compat.h"

#include <stdio.h>

struct rules {
  tg__question_fn *exact; /* of the question */
  const char *argument, *value;
  tg__question_fn *answer;
  const void *policy;
};

static const struct rules all_rules[] = {
#define RULES(question, argument, value, function, policy) {tg__answer_##question, argument, value, function, policy},
#include "analyze/compat/compat.def"
};

enum tg_err tg__rules_answer(const struct tg__columns *t, struct tg__ask *a, struct tg_table *out, struct tg_error *e) {
  enum { MOST = 8 };
  const char *choices[MOST] = {"exact"}, *argument = NULL;
  const struct rules *rules[MOST] = {NULL};
  size_t count = 1, which = 0;
  for (size_t i = 0; i < sizeof all_rules / sizeof *all_rules && count < MOST; i++) {
    if (all_rules[i].exact != a->question->answer) continue;
    argument = all_rules[i].argument;
    choices[count] = all_rules[i].value;
    rules[count++] = &all_rules[i];
  }
  const enum tg_err err = argument ? tg__ask_choice(a, argument, choices, count, &which, e) : TG_OK;
  if (err) return err;
  if (which == 0) return a->question->answer(t, a, out, e);
  a->policy = rules[which]->policy;
  return rules[which]->answer(t, a, out, e);
}

enum tg_err tg__diff_rules(const char *rules, tg__diff_count **count, struct tg_error *e) {
  static const struct {
    const char *value;
    tg__diff_count *count;
  } others[] = {
#define DIFF_RULES(value, function) {value, function},
#include "analyze/compat/compat.def"
  };
  char list[64] = "exact";
  if (strcmp(rules, "exact") == 0) return TG_OK;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    snprintf(list + strlen(list), sizeof list - strlen(list), " and %s", others[i].value);
    if (strcmp(rules, others[i].value) != 0) continue;
    *count = others[i].count;
    return TG_OK;
  }
  return tg__fail(e, TG_USAGE, -1, "rules=%.60s: there are %s", rules, list);
}
