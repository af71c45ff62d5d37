/* What is known of a question, from its lines in a .def file, and the catalog of them all. */
#ifndef TG_QUESTION_H
#define TG_QUESTION_H

#include "analyze/table.h"

struct tg__ask;
struct tg__rank_join;
struct tg__rank_source;

typedef enum tg_err tg__question_fn(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                    struct tg_error *e);
/* What a trace has to hold for a question to have an answer (needs.c). */
enum tg__need {
  TG__NEED_NOTHING,
  TG__NEED_DEVICE,    /* device work */
  TG__NEED_BUSY,      /* device work, by the rules asked for */
  TG__NEED_LAUNCHES,  /* device work, and some with a known host call */
  TG__NEED_CALLERS,   /* device work, and operators, annotations or frames: what it can lie below */
  TG__NEED_OPERATORS, /* operators */
  TG__NEED_WORK,      /* operators, host calls or device work */
  TG__NEED_TIMED,     /* operators or device work */
  TG__NEED_SLICES,    /* whatever takes time */
  TG__NEED_NAMED,     /* user annotations */
  TG__NEED_MEMORY,    /* [memory] events */
  TG__NEED_SHAPES,    /* what calls were given */
  TG__NEED_COUNT
};
/* questions.def explains these two. */
enum tg__steps_by { TG__STEPS_BY_TIME, TG__STEPS_BY_LAUNCH, TG__STEPS_BY_EACH };
enum tg__merge { TG__MERGE_TOGETHER, TG__MERGE_EVERY, TG__MERGE_ROWS, TG__MERGE_FOLD, TG__MERGE_LATE };
enum tg__question_id { /* of the questions of this folder; those of folders above follow from TG__Q_COUNT on */
#define QUESTION(name, ...) TG__Q_##name,
#include "analyze/questions.def"
                       TG__Q_COUNT
};
struct tg__catalog;
struct tg__question {
  const struct tg__catalog *catalog; /* which it stands in */
  enum tg__question_id id;
  const char *name, *meaning, *order, *empty;
  uint32_t loads; /* TG__COL_* */
  enum tg__need need;
  enum tg__steps_by steps;
  enum tg__merge merge;
  tg__question_fn *answer;
  uint16_t first_argument, first_column; /* for the two accessors below */
};
struct tg__merge_rule {
  const struct tg__question *question;
  const char *argument, *value;
  enum tg__merge merge;
  const char *order;
};

typedef void tg__folded_fn(struct tg__rank_join *j, struct tg_table *rows);
typedef enum tg_err tg__merged_fn(const struct tg__rank_source *ranks, struct tg_table *rows, struct tg_error *e);
struct tg__merge_hooks {
  const char *note; /* notes of a rank with these words are not taken over; NULL or "": all are */
  tg__folded_fn *folded;
  tg__merged_fn *merged; /* NULL: none */
};
enum tg__fold_how { /* how a column is merged where rows of several ranks become one */
#define FOLD(id, ...) TG__FOLD_##id,
#include "analyze/roles.def"
};
struct tg__argument_info {
  const char *name, *fallback, *meaning;
};
struct tg__column_info {
  const char *name, *unit, *meaning;
  enum tg_type type;
  enum tg__role role;
  enum tg__fold_how fold;
  const char *of, *by; /* columns of the same question, "" = none */
};
/* All questions there are, as src/catalog puts them together. */
struct tg__question_alias { /* a question's name in the version before */
  const char *name;
  const struct tg__question *question;
};
struct tg__catalog {
  const struct tg__question *questions;
  size_t count;
  const struct tg__question_alias *aliases;
  size_t alias_count;
  const struct tg__argument_info *arguments; /* of all questions, as columns and merge_rules */
  size_t argument_count;
  const struct tg__column_info *columns;
  size_t column_count;
  const struct tg__merge_rule *merge_rules;
  size_t merge_rule_count;
  const struct tg__merge_hooks *hooks; /* by question */
  const char *const *important;        /* by question: its columns, joined by comma; NULL: none is listed */
};
/* questions.c. By name or alias; NULL when unknown. */
const struct tg__question *tg__catalog_find(const struct tg__catalog *c, const char *name);
/* A note with the name of q, when the question was asked by an alias. */
void tg__table_note_alias(struct tg_table *t, const struct tg__question *q, const char *asked);
const struct tg__question *tg__catalog_question(const struct tg__catalog *c, enum tg__question_id id);
/* Sort, limit, where come last; NULL past the end. */
const struct tg__argument_info *tg__question_argument(const struct tg__question *q, size_t k);
const struct tg__column_info *tg__question_column(const struct tg__question *q, size_t k);    /* NULL past the end */
const struct tg__merge_rule *tg__question_merge_rule(const struct tg__question *q, size_t k); /* NULL past the end */
const struct tg__merge_hooks *tg__question_hooks(const struct tg__question *q);
bool tg__question_is_important(const struct tg__question *q, const char *column); /* is it listed in IMPORTANT? */
#define QUESTION(name, ...) tg__question_fn tg__answer_##name;
#define FOLDED(question, note) tg__folded_fn tg__folded_##question;
#define MERGED(question, note) tg__merged_fn tg__merged_##question;
#include "analyze/questions.def"

#endif
