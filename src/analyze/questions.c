/* questions: what the descriptions of questions say. */
#include "analyze/analyze.h"

/* Every question takes these after its own. */
static const struct tg__argument_info common[] = {
    {"where", "", "only rows for which this holds, such as  dur_ns > 1ms and name ~ \"conv\""},
    {"sort", "",
     "column to sort by: name, name asc, name desc or -name; several joined by comma; numbers come largest first"},
    {"limit", "all", "at most this many rows"},
};

const struct tg__question *tg__catalog_find(const struct tg__catalog *c, const char *name) {
  for (size_t i = 0; i < c->count; i++)
    if (strcmp(c->questions[i].name, name) == 0) return &c->questions[i];
  for (size_t i = 0; i < c->alias_count; i++)
    if (strcmp(c->aliases[i].name, name) == 0) return c->aliases[i].question;
  return NULL;
}

void tg__table_note_alias(struct tg_table *t, const struct tg__question *q, const char *asked) {
  if (strcmp(q->name, asked) != 0)
    tg__table_note(t, "%s is now called %s; the next version does not know the old name", asked, q->name);
}

const struct tg__question *tg__catalog_question(const struct tg__catalog *c, enum tg__question_id id) {
  size_t i = 0;
  while (c->questions[i].id != id) i++;
  return &c->questions[i];
}

static bool is_last(const struct tg__question *q) { return q + 1 == q->catalog->questions + q->catalog->count; }

const struct tg__argument_info *tg__question_argument(const struct tg__question *q, size_t k) {
  const size_t own = (is_last(q) ? q->catalog->argument_count : q[1].first_argument) - q->first_argument;
  if (k < own) return &q->catalog->arguments[q->first_argument + k];
  return k - own < sizeof common / sizeof *common ? &common[k - own] : NULL;
}

const struct tg__column_info *tg__question_column(const struct tg__question *q, size_t k) {
  const size_t own = (is_last(q) ? q->catalog->column_count : q[1].first_column) - q->first_column;
  return k < own ? &q->catalog->columns[q->first_column + k] : NULL;
}

const struct tg__merge_rule *tg__question_merge_rule(const struct tg__question *q, size_t k) {
  const struct tg__merge_rule *const rules = q->catalog->merge_rules;
  for (size_t i = 0; i < q->catalog->merge_rule_count; i++)
    if (rules[i].question == q && k-- == 0) return &rules[i];
  return NULL;
}

const struct tg__merge_hooks *tg__question_hooks(const struct tg__question *q) {
  return &q->catalog->hooks[q - q->catalog->questions];
}

static bool is_listed(const char *list, const char *name) {
  const size_t len = strlen(name);
  for (; *list; list += *list == ',') {
    const size_t n = strcspn(list, ",");
    if (n == len && memcmp(list, name, n) == 0) return true;
    list += n;
  }
  return false;
}

bool tg__question_is_important(const struct tg__question *q, const char *column) {
  const char *const list = q->catalog->important[q - q->catalog->questions];
  return list && is_listed(list, column);
}
