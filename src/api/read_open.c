/* Ways to open a trace beside tg_open, and the facts of a trace that need no question. */
#include "ranks/ranks.h"
#include "tachograph/read.h"
#include "trace/trace.h"

/* ---- for one question ------------------------------------------------------------------------ */

/* A folder of ranks is summarized rank by rank for the questions that need no more than that. */
static bool is_about_ranks(const char *path, const struct tg__call *c) {
  return tg__summaries_answer(c->question, c->args, c->count) && tg__path_is_of_many(path);
}

enum tg_err tg_open_asking(const char *path, const struct tg_open_options *options, const char *question,
                           const struct tg_arg *args, size_t arg_count, size_t most_rows, struct tg_trace **out,
                           struct tg_table **answer, struct tg_error *error) {
  struct tg__first_question first = {
      .call = {.question = tg__catalog_find(&tg__catalog, question), .args = args, .count = arg_count},
      .most = most_rows};
  *out = NULL;
  *answer = NULL;
  if (!first.call.question) return tg__no_question(&tg__catalog, question, error);
  if (is_about_ranks(path, &first.call)) return tg_open_ranks(&path, 1, options, out, error);
  const enum tg_err err = tg__open_asking(path, options, &first, out, error);
  if (err) return err;
  *answer = first.table;
  if (first.err && error) *error = first.error;
  return first.err;
}

enum tg_err tg_open_all(const char *path, const struct tg_open_options *options, struct tg_trace **out,
                        struct tg_error *error) {
  return tg__open_in_memory(path, options, out, error);
}

int64_t tg_memory_needed(const char *path, const char *question, const struct tg_arg *args, size_t arg_count) {
  const struct tg__call c = {
      .question = question ? tg__catalog_find(&tg__catalog, question) : NULL, .args = args, .count = arg_count};
  if (question && (!c.question || is_about_ranks(path, &c) || !tg__call_needs_all(&c))) return 0;
  return tg__rank_folder_memory(path);
}

bool tg_summaries_answer(const char *question, const struct tg_arg *args, size_t arg_count) {
  const struct tg__question *const q = tg__catalog_find(&tg__catalog, question);
  return q && tg__summaries_answer(q, args, arg_count);
}

/* ---- file by file ---------------------------------------------------------------------------- */

struct visits {
  const struct tg__file_ref *files;
  tg_visit_fn *visit;
  void *ctx;
  size_t traces;
  bool has_ended;
};

static enum tg_err end_if(struct visits *v, bool goes_on) {
  v->has_ended = !goes_on;
  return goes_on ? TG_OK : TG_CANCELLED;
}

static const char *visited_path(const struct visits *v, size_t i) {
  return tg__folder_path(v->files[i].folder, v->files[i].index);
}

static enum tg_err visit_trace(void *ctx, const struct tg__seen *s, struct tg_error *e) {
  struct visits *const v = ctx;
  const enum tg_err err = tg__trace_load(s->columns, TG__COL_ALL, e);
  if (err) return err;
  v->traces++;
  return end_if(v, v->visit(v->ctx, visited_path(v, s->i), &(struct tg_trace){.columns = s->columns}, NULL));
}

/* A file that could not be read is visited with the reason, unless nothing can be read any more. */
static enum tg_err visit_reason(void *ctx, size_t i, const struct tg_error *why, struct tg_error *e) {
  struct visits *const v = ctx;
  if (!why) return TG_OK;
  if (why->code == TG_MEMORY || why->code == TG_INTERNAL || why->code == TG_CANCELLED)
    return tg__fail(e, why->code, why->offset, "%s", why->text);
  return end_if(v, v->visit(v->ctx, visited_path(v, i), NULL, why));
}

enum tg_err tg_open_each(const char *path, const struct tg_open_options *options, tg_visit_fn *visit, void *ctx,
                         struct tg_error *error) {
  struct tg__folder *folder = NULL;
  struct visits v = {.visit = visit, .ctx = ctx};
  const struct tg__observer observer = {&v, visit_trace, visit_reason};
  enum tg_err err = tg__folder_open(path, &folder, error);
  const size_t count = err ? 0 : tg__folder_count(folder);
  struct tg__file_ref *const files = tg__alloc((count + 1) * sizeof *files);
  if (!err && !files) err = tg__no_memory(error, "reading %s", path);
  for (size_t i = 0; i < count && !err; i++) files[i] = tg__file_at(folder, (uint32_t)i);
  v.files = files;
  if (!err)
    err = tg__each_file(&(struct tg__file_pass){.files = files,
                                                .count = count,
                                                .at_once = 1,
                                                .options = options,
                                                .observers = &observer,
                                                .observer_count = 1},
                        error);
  tg__folder_close(folder);
  tg__free(files);
  if (v.has_ended) return TG_OK;
  return !err && !v.traces ? tg__no_traces(path, error) : err;
}

/* ---- what a trace is made of ----------------------------------------------------------------- */

size_t tg_rank_count(const struct tg_trace *trace) { return trace->columns->rank_count; }

int64_t tg_rank_number(const struct tg_trace *trace, size_t i, bool *is_given) {
  if (is_given) *is_given = trace->columns->ranks[i].number_is_given;
  return tg__rank_number(trace->columns, (uint32_t)i);
}

int64_t tg_loss_count(const struct tg_trace *trace, const char *name) {
  const struct tg__columns *const t = trace->columns;
  int k = 0;
  while (k < TG__LOSS_COUNT && strcmp(tg__loss_info[k].name, name) != 0) k++;
  int64_t sum = k < TG__LOSS_COUNT ? 0 : -1;
  for (uint32_t r = 0; k < TG__LOSS_COUNT && r < t->rank_count; r++) sum += t->ranks[r].loss[k];
  return sum;
}

bool tg_process(const struct tg_trace *trace, size_t i, int64_t *pid, int64_t *rank, bool *was_killed) {
  const struct tg__columns *const t = trace->columns;
  for (uint32_t r = 0; r < t->rank_count; i -= t->ranks[r++].process_count) {
    if (i >= t->ranks[r].process_count) continue;
    const struct tg__process *const p = &t->ranks[r].processes[i];
    if (pid) *pid = p->pid;
    if (rank) *rank = p->rank;
    if (was_killed) *was_killed = tg__rank_was_killed(&t->ranks[r], (uint32_t)i);
    return true;
  }
  return false;
}

bool tg_has_events(struct tg_trace *trace, struct tg_error *error) {
  return !trace->summaries || trace->folder || !tg__trace_load(trace->columns, TG__COL_ALL, error);
}

static bool names_a_step(const struct tg_table *t) {
  static const char prefix[] = "ProfilerStep#";
  const size_t name = tg__table_column_index(t, "name");
  size_t len;
  const char *const text = t->rows && name != SIZE_MAX ? tg_cell_text(t, name, 0, &len) : NULL;
  return text && len >= sizeof prefix && memcmp(text, prefix, sizeof prefix - 1) == 0;
}

/* Without steps the answer is one row for the whole, which has another name. */
bool tg_has_steps(struct tg_trace *trace) {
  struct tg_table *steps = NULL;
  const bool has = tg_ask(trace, tg__question_name(TG__Q_steps), NULL, 0, &steps, NULL) == TG_OK && names_a_step(steps);
  tg__table_free(steps);
  return has;
}
