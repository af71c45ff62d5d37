/* Ways to open a trace beside tg_open, and what a trace says of itself without a question. */
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
  const struct tg_open_options *options;
  int64_t before, total; /* bytes of the files before the one at hand, and of all */
};

static bool pass_progress(void *ctx, int64_t done, int64_t total) {
  const struct visits *const v = ctx;
  (void)total;
  return v->options->progress(v->options->progress_ctx, v->before + done, v->total);
}

static enum tg_err read_file(const struct tg__folder *folder, size_t i, const struct visits *v,
                             struct tg__columns **out, struct tg_error *e) {
  struct tg_open_options options = {.threads = v->options ? v->options->threads : 0};
  if (v->options && v->options->progress) options.progress = pass_progress;
  if (v->options && v->options->part_done)
    v->options->part_done(v->options->progress_ctx, (int64_t)i, (int64_t)tg__folder_count(folder));
  options.progress_ctx = (void *)v;
  enum tg_err err = tg__folder_read(folder, i, &options, out, NULL, e);
  if (!err && *out) err = tg__trace_load(*out, TG__COL_ALL, e);
  return err;
}

static bool ends_all(enum tg_err err) { return err == TG_MEMORY || err == TG_INTERNAL || err == TG_CANCELLED; }

enum tg_err tg_open_each(const char *path, const struct tg_open_options *options, tg_visit_fn *visit, void *ctx,
                         struct tg_error *error) {
  struct tg__folder *folder = NULL;
  struct visits v = {.options = options};
  size_t traces = 0;
  bool goes_on = true;
  enum tg_err err = tg__folder_open(path, &folder, error);
  const size_t count = err ? 0 : tg__folder_count(folder);
  for (size_t i = 0; i < count; i++) v.total += tg__folder_bytes(folder, i);
  for (size_t i = 0; i < count && !err && goes_on; i++) {
    struct tg__columns *columns = NULL;
    struct tg_error why = {0};
    const enum tg_err unread = read_file(folder, i, &v, &columns, &why);
    if (ends_all(unread)) {
      err = unread;
      if (error) *error = why;
    } else if (unread) {
      goes_on = visit(ctx, tg__folder_path(folder, i), NULL, &why);
    } else if (columns) {
      goes_on = visit(ctx, tg__folder_path(folder, i), &(struct tg_trace){.columns = columns}, NULL);
      traces++;
    }
    tg__trace_free(columns);
    tg__memory_return();
    v.before += tg__folder_bytes(folder, i);
  }
  tg__folder_close(folder);
  return !err && goes_on && !traces ? tg__no_traces(path, error) : err;
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
  return !trace->summaries || trace->run || !tg__trace_load(trace->columns, TG__COL_ALL, error);
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

const char *tg_fallback_question(const struct tg_trace *trace) {
  return tg__question_name(trace->summaries ? TG__Q_ranks : TG__Q_overview);
}
