/* questions: the tables behind questions.def. */
#include "analyze/analyze.h"

/* Arguments and columns of all questions lie in one array each. FIRST_x is the position of x's first one: an
 * enumerator takes the next number, and BACK_x takes it back so that the first entry of x gets the same. */
enum {
#define QUESTION(name, ...) ARGUMENT_FIRST_##name, ARGUMENT_BACK_##name = ARGUMENT_FIRST_##name - 1,
#define ARGUMENT(question, name, fallback, meaning) ARGUMENT_##question##_##name,
#include "analyze/questions.def"
  ARGUMENT_COUNT
};

enum {
#define QUESTION(name, ...) COLUMN_FIRST_##name, COLUMN_BACK_##name = COLUMN_FIRST_##name - 1,
#define COLUMN(question, name, ...) COLUMN_##question##_##name,
#include "analyze/questions.def"
  COLUMN_COUNT
};

const struct tg__question tg__questions[] = {
#define QUESTION_LINE(name, columns, needs, steps, merge, meaning, order, empty, ...)                                  \
  [TG__Q_##name] = {#name,                                                                                             \
                    meaning,                                                                                           \
                    order,                                                                                             \
                    empty,                                                                                             \
                    TG__COL_##columns,                                                                                 \
                    TG__NEED_##needs,                                                                                  \
                    TG__STEPS_BY_##steps,                                                                              \
                    TG__MERGE_##merge,                                                                                 \
                    tg__answer_##name,                                                                                 \
                    ARGUMENT_FIRST_##name,                                                                             \
                    COLUMN_FIRST_##name},
#define QUESTION(name, columns, needs, steps, merge, ...)                                                              \
  QUESTION_LINE(name, columns, needs, steps, merge, __VA_ARGS__, "", "", )
#include "analyze/questions.def"
};

static const struct tg__merge_hooks hooks[TG__Q_COUNT] = {
#define FOLDED(question, note) [TG__Q_##question] = {note, tg__folded_##question, NULL},
#define MERGED(question, note) [TG__Q_##question] = {note, NULL, tg__merged_##question},
#include "analyze/questions.def"
};

static const struct tg__merge_rule merge_rules[] = {
#define MERGE(question, argument, value, merge, order) {TG__Q_##question, #argument, value, TG__MERGE_##merge, order},
#include "analyze/questions.def"
};

const struct tg__ready tg__ready[TG__READY_COUNT] = {
#define READY(question, by) {TG__Q_##question, by},
#include "analyze/questions.def"
};

static const struct tg__argument_info arguments[] = {
#define ARGUMENT(question, name, fallback, meaning) {#name, fallback, meaning},
#include "analyze/questions.def"
};

static const struct tg__column_info columns[] = {
#define COLUMN_LINE(name, type, unit, role, meaning, fold, of, by, ...)                                                \
  {#name, unit, meaning, TG_##type, TG__ROLE_##role, TG__FOLD_##fold, #of, #by},
#define COLUMN(question, name, type, unit, role, ...) COLUMN_LINE(name, type, unit, role, __VA_ARGS__, , , , )
#include "analyze/questions.def"
};

/* Every question takes these after its own. */
static const struct tg__argument_info common[] = {
    {"where", "", "only rows for which this holds, such as  dur_ns > 1ms and name ~ \"conv\""},
    {"sort", "",
     "column to sort by: name, name asc, name desc or -name; several joined by comma; numbers come largest first"},
    {"limit", "all", "at most this many rows"},
};

size_t tg__question_count(void) { return TG__Q_COUNT; }

const char *tg__question_name(enum tg__question_id id) { return tg__questions[id].name; }

const struct tg__question *tg__question_find(const char *name) {
  for (size_t i = 0; i < TG__Q_COUNT; i++)
    if (strcmp(tg__questions[i].name, name) == 0) return &tg__questions[i];
  return NULL;
}

const struct tg__argument_info *tg__question_argument(const struct tg__question *q, size_t k) {
  const bool is_last = q + 1 == tg__questions + TG__Q_COUNT;
  const size_t own = (is_last ? (size_t)ARGUMENT_COUNT : q[1].first_argument) - q->first_argument;
  if (k < own) return &arguments[q->first_argument + k];
  return k - own < sizeof common / sizeof *common ? &common[k - own] : NULL;
}

const struct tg__column_info *tg__question_column(const struct tg__question *q, size_t k) {
  const bool is_last = q + 1 == tg__questions + TG__Q_COUNT;
  const size_t own = (is_last ? (size_t)COLUMN_COUNT : q[1].first_column) - q->first_column;
  return k < own ? &columns[q->first_column + k] : NULL;
}

enum tg__role tg__role_of_name(const char *name, enum tg_type type) {
  for (size_t i = 0; i < COLUMN_COUNT; i++)
    if (columns[i].type == type && strcmp(columns[i].name, name) == 0) return columns[i].role;
  return type == TG_INT || type == TG_REAL ? TG__ROLE_VALUE : TG__ROLE_KEY;
}

const struct tg__merge_rule *tg__question_merge_rule(const struct tg__question *q, size_t k) {
  for (size_t i = 0; i < sizeof merge_rules / sizeof *merge_rules; i++)
    if (&tg__questions[merge_rules[i].question] == q && k-- == 0) return &merge_rules[i];
  return NULL;
}

const struct tg__merge_hooks *tg__question_hooks(const struct tg__question *q) { return &hooks[q - tg__questions]; }

/* Letters to insert, drop, replace or swap with the neighbour to turn one word into the other, without regard to
 * case. Words are cut at 31 letters: this only feeds "did you mean". */
static unsigned edit_distance(const char *a, const char *b) {
  enum { MOST = 31 };
  unsigned rows[3][MOST + 1];
  const size_t a_len = strnlen(a, MOST), b_len = strnlen(b, MOST);
  for (size_t j = 0; j <= b_len; j++) rows[0][j] = (unsigned)j;
  for (size_t i = 1; i <= a_len; i++) {
    unsigned *row = rows[i % 3];
    const unsigned *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
    row[0] = (unsigned)i;
    for (size_t j = 1; j <= b_len; j++) {
      unsigned best = above[j - 1] + ((a[i - 1] | 32) != (b[j - 1] | 32));
      if (above[j] + 1 < best) best = above[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && two_above[j - 2] + 1 < best)
        best = two_above[j - 2] + 1;
      row[j] = best;
    }
  }
  return rows[a_len % 3][b_len];
}

const char *tg__nearest_text(const char *wanted, const char *(*candidate)(const void *ctx, size_t k), const void *ctx) {
  const char *nearest = NULL;
  unsigned best = (unsigned)strnlen(wanted, 31) / 3 + 2; /* further away than this is another word */
  const char *text;
  for (size_t k = 0; (text = candidate(ctx, k)) != NULL; k++) {
    const bool extends = *wanted && strncmp(text, wanted, strlen(wanted)) == 0; /* typed only the beginning */
    const unsigned distance = extends ? 1 : edit_distance(wanted, text);
    if (distance < best) {
      best = distance;
      nearest = text;
    }
  }
  return nearest;
}
