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

enum { MOST = 8 };
struct choice {
  const char *names[MOST], *argument; /* NULL: the question knows only the exact rules */
  const struct rules *rules[MOST];
  size_t count;
};

static struct choice choice_of(const struct tg__question *q) {
  struct choice c = {.names = {"exact"}, .count = 1};
  for (size_t i = 0; i < sizeof all_rules / sizeof *all_rules && c.count < MOST; i++) {
    if (all_rules[i].exact != q->answer) continue;
    c.argument = all_rules[i].argument;
    c.names[c.count] = all_rules[i].value;
    c.rules[c.count++] = &all_rules[i];
  }
  return c;
}

const void *tg__rules_policy(const struct tg__ask *a) {
  const struct choice c = choice_of(a->question);
  const char *const value = c.argument ? tg__ask_arg(a, c.argument) : "exact";
  for (size_t i = 1; i < c.count; i++)
    if (strcmp(c.names[i], value) == 0) return c.rules[i]->policy;
  return NULL;
}

enum tg_err tg__rules_answer(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                             struct tg_error *e) {
  const struct choice c = choice_of(a->question);
  size_t which = 0;
  const enum tg_err err = c.argument ? tg__ask_choice(a, c.argument, c.names, c.count, &which, e) : TG_OK;
  if (err) return err;
  return which == 0 ? a->question->answer(t, a, out, e) : c.rules[which]->answer(t, a, out, e);
}

bool tg__rules_go_by_row(const struct tg_arg *args, size_t count) {
  static const char *const prefixes[] = {
#define BY_ROW(value) value,
#include "analyze/compat/compat.def"
  };
  for (size_t i = 0; i < count; i++)
    for (size_t k = 0; k < sizeof prefixes / sizeof *prefixes && args[i].name && args[i].value; k++)
      if (strcmp(args[i].name, "rules") == 0 && strncmp(args[i].value, prefixes[k], strlen(prefixes[k])) == 0)
        return true;
  return false;
}

bool tg__summaries_answer(const struct tg__question *q, const struct tg_arg *args, size_t count) {
  return q->loads == TG__COL_RANKS && !tg__rules_go_by_row(args, count);
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
