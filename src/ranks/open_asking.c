/* open_asking: a trace is opened for one question, so that the ranks of a large folder are read once. */
#include "ranks/ranks.h"

/* Its rows count from the first start of all ranks, which must be known before columns are left out. */
static bool counts_from_first(const struct tg__question *q) {
  const struct tg__column_info *info = NULL;
  for (size_t k = 0; (info = tg__question_column(q, k)) && info->role != TG__ROLE_SINCE_FIRST;) k++;
  return info != NULL;
}

/* About one rank, or what can only be answered after the first reading. */
static bool is_asked_later(const struct tg__call *c) {
  return tg__call_has(c, "rank") || tg__call_has(c, "track") || tg__call_has(c, "event") ||
         (tg__call_has(c, "columns") && counts_from_first(c->question));
}

bool tg__call_needs_all(const struct tg__call *c) {
  return !is_asked_later(c) && !tg__question_joins(c->question, c->args, c->count);
}

static enum tg_err open_handle(const char *path, const struct tg_open_options *options,
                               struct tg__first_question *first, struct tg_trace **out, struct tg_error *e) {
  struct tg__call *const call = &first->call;
  if (!tg__rank_folder_memory(path) || tg__call_needs_all(call)) return tg__open_in_memory(path, options, out, e);
  if (is_asked_later(call)) return tg__rank_folder_open(path, options, NULL, out, e);
  const enum tg_err err = tg__call_check(call, e);
  return err ? err : tg__rank_folder_open(path, options, first, out, e);
}

enum tg_err tg__open_asking(const char *path, const struct tg_open_options *options, struct tg__first_question *first,
                            struct tg_trace **out, struct tg_error *e) {
  *out = NULL;
  const enum tg_err err = open_handle(path, options, first, out, e);
  if (!err && first->table && !first->err) first->err = tg__ask_finish(&first->call, first->table, &first->error);
  if (err || first->err) {
    tg__table_free(first->table);
    first->table = NULL;
  }
  return err;
}
