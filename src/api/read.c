/* include/tachograph/read.h in terms of trace, analyze and show. tg_err_* are in base. */
#include "tachograph/read.h"

#include "catalog/catalog.h"
#include "ranks/ranks.h"
#include "show/show.h"
#include "trace/trace.h"

/* ---- traces ---------------------------------------------------------------------------------- */

enum tg_err tg_open(const char *path, const struct tg_open_options *options, struct tg_trace **out,
                    struct tg_error *error) {
  if (!tg__rank_folder_memory(path)) return tg__open_in_memory(path, options, out, error);
  return tg__rank_folder_open(path, options, NULL, out, error);
}

enum tg_err tg_open_ranks(const char *const *paths, size_t count, const struct tg_open_options *options,
                          struct tg_trace **out, struct tg_error *error) {
  struct tg_error ignored;
  return tg__read_summaries(paths, count, options, out, error ? error : &ignored);
}

enum tg_err tg_save_ranks(struct tg_trace *trace, const char *path, struct tg_error *error) {
  return tg__save_summaries(trace, path, error);
}

void tg_set_progress(struct tg_trace *trace, const struct tg_open_options *options) {
  struct tg_open_options *const kept = trace->folder ? &trace->folder->options : NULL;
  if (!kept) return;
  kept->progress = options ? options->progress : NULL;
  kept->part_done = options ? options->part_done : NULL;
  kept->progress_ctx = options ? options->progress_ctx : NULL;
}

void tg_close(struct tg_trace *trace) { tg__handle_free(trace); }

bool tg_trace_is_valid(struct tg_trace *trace, struct tg_error *error) {
  if (trace->summaries) return true; /* checked as it was read */
  return !tg__trace_load(trace->columns, TG__COL_ALL, error) && tg__trace_is_valid(trace->columns, error);
}

enum tg_err tg_save(struct tg_trace *trace, const char *path, struct tg_error *error) {
  struct tg__columns *columns;
  enum tg_err err = tg__load_all_ranks(trace, &columns, error);
  if (!err) err = tg__trace_load(columns, TG__COL_ALL, error);
  return err ? err : tg__trace_save(columns, path, error);
}

/* ---- questions ------------------------------------------------------------------------------- */

size_t tg_question_count(void) { return tg__catalog.count; }
const char *tg_question_name(size_t i) { return i < tg__catalog.count ? tg__catalog.questions[i].name : NULL; }
const char *tg_question_meaning(size_t i) { return i < tg__catalog.count ? tg__catalog.questions[i].meaning : NULL; }

size_t tg_question_find(const char *name) {
  const struct tg__question *const q = tg__catalog_find(&tg__catalog, name);
  return q ? (size_t)(q - tg__catalog.questions) : tg__catalog.count;
}

static void set_if_wanted(const char **out, const char *value) {
  if (out) *out = value;
}

bool tg_question_argument(size_t i, size_t k, const char **name, const char **fallback, const char **meaning) {
  const struct tg__argument_info *a =
      i < tg__catalog.count ? tg__question_argument(&tg__catalog.questions[i], k) : NULL;
  if (!a) return false;
  set_if_wanted(name, a->name);
  set_if_wanted(fallback, a->fallback);
  set_if_wanted(meaning, a->meaning);
  return true;
}

static const char *type_name(enum tg_type type) {
  static const char *const names[] = {[TG_TEXT] = "text", [TG_INT] = "int", [TG_REAL] = "real", [TG_BOOL] = "bool"};
  return names[type];
}

bool tg_question_column(size_t i, size_t k, struct tg_question_column *out) {
  static const char *const roles[] = {
#define ROLE(id, name, ...) [TG__ROLE_##id] = name,
#include "analyze/roles.def"
  };
  static const char *const folds[] = {
#define FOLD(id, name, ...) [TG__FOLD_##id] = name,
#include "analyze/roles.def"
  };
  const struct tg__question *const q = i < tg__catalog.count ? &tg__catalog.questions[i] : NULL;
  const struct tg__column_info *const c = q ? tg__question_column(q, k) : NULL;
  if (!c) return false;
  *out = (struct tg_question_column){.name = c->name,
                                     .type = type_name(c->type),
                                     .unit = c->unit,
                                     .meaning = c->meaning,
                                     .role = roles[c->role],
                                     .fold = folds[c->fold],
                                     .of = c->of,
                                     .by = c->by,
                                     .is_important = tg__question_is_important(q, c->name)};
  return true;
}

enum tg_err tg_ask(struct tg_trace *trace, const char *question, const struct tg_arg *args, size_t arg_count,
                   struct tg_table **out, struct tg_error *error) {
  const enum tg_err err = tg__ask_trace(trace, question, args, arg_count, out, error);
  if (!err) tg__table_note_alias(*out, tg__catalog_find(&tg__catalog, question), question);
  return err;
}

enum tg_err tg_sql(struct tg_trace *trace, const char *sql, struct tg_table **out, struct tg_error *error) {
  struct tg__columns *columns;
  const enum tg_err err = tg__load_all_ranks(trace, &columns, error);
  return err ? err : tg__sql_run(columns, sql, out, error);
}

/* ---- two traces ------------------------------------------------------------------------------ */

/* In place of a folder, the one rank that is compared, if one is named. A question finds it itself. */
static enum tg_err open_side(struct tg_trace *t, const struct tg_arg *args, size_t arg_count, const char *own,
                             struct tg__diff_input *out, struct tg_error *e) {
  const struct tg__call c = {.args = args, .count = arg_count};
  const char *const number = tg__call_has(&c, own)      ? tg__call_value(&c, own)
                             : tg__call_has(&c, "rank") ? tg__call_value(&c, "rank")
                                                        : NULL;
  const struct tg__job_rank *const r = t->folder && number ? tg__job_rank_of(&t->folder->ranks, number) : NULL;
  *out = (struct tg__diff_input){t->columns, t, t->folder != NULL};
  if (!r || tg__call_has(&c, "question")) return TG_OK;
  out->is_folder = false;
  return tg__rank_folder_file(t, r->file_index, &out->columns, e);
}

enum tg_err tg_diff(struct tg_trace *a, struct tg_trace *b, const struct tg_arg *args, size_t arg_count,
                    struct tg_table **out, struct tg_error *error) {
  static const struct tg__diff_access access = {&tg__catalog, tg__visit_rank_files, tg__ask_trace};
  struct tg__diff_input one, other;
  enum tg_err err = open_side(a, args, arg_count, "rank_a", &one, error);
  if (!err) err = open_side(b, args, arg_count, "rank_b", &other, error);
  return err ? err : tg__diff_run(&one, &other, &access, args, arg_count, out, error);
}

bool tg_diff_argument(size_t k, const char **name, const char **fallback, const char **meaning) {
  const struct tg__argument_info *a = tg__diff_argument(k);
  if (!a) return false;
  set_if_wanted(name, a->name);
  set_if_wanted(fallback, a->fallback);
  set_if_wanted(meaning, a->meaning);
  return true;
}

enum tg_err tg_diff_fails(const struct tg_table *diff, const char *expression, bool *fails, struct tg_error *error) {
  return tg__diff_fails(diff, expression, fails, error);
}

/* ---- tables ---------------------------------------------------------------------------------- */

void tg_table_free(struct tg_table *t) { tg__table_free(t); }
const char *tg_table_question(const struct tg_table *t) { return t->question; }
size_t tg_table_rows(const struct tg_table *t) { return t->rows; }
size_t tg_table_columns(const struct tg_table *t) { return t->column_count; }
const char *tg_column_name(const struct tg_table *t, size_t c) { return t->columns[c].name; }
const char *tg_column_unit(const struct tg_table *t, size_t c) { return t->columns[c].unit; }
enum tg_type tg_column_type(const struct tg_table *t, size_t c) { return t->columns[c].type; }

const int64_t *tg_column_ints(const struct tg_table *t, size_t c) {
  return t->columns[c].type == TG_INT ? t->columns[c].ints : NULL;
}
const double *tg_column_reals(const struct tg_table *t, size_t c) {
  return t->columns[c].type == TG_REAL ? t->columns[c].reals : NULL;
}
const int8_t *tg_column_bools(const struct tg_table *t, size_t c) {
  return t->columns[c].type == TG_BOOL ? t->columns[c].bools : NULL;
}
const uint32_t *tg_column_codes(const struct tg_table *t, size_t c) {
  return t->columns[c].type == TG_TEXT ? t->columns[c].texts : NULL;
}

const char *tg_cell_text(const struct tg_table *t, size_t c, size_t row, size_t *len) {
  *len = 0;
  if (t->columns[c].type != TG_TEXT || t->columns[c].texts[row] == TG_NONE) return NULL;
  const struct tg__str s = tg__strings_get(t->strings, t->columns[c].texts[row]);
  *len = s.len;
  return s.ptr;
}

size_t tg_table_notes(const struct tg_table *t) { return t->note_count; }
const char *tg_table_note(const struct tg_table *t, size_t i) { return i < t->note_count ? t->notes[i] : NULL; }
size_t tg_table_losses(const struct tg_table *t) { return t->loss_count; }

bool tg_table_loss(const struct tg_table *t, size_t i, const char **name, int64_t *count, int64_t *offset,
                   const char **meaning) {
  if (i >= t->loss_count) return false;
  const struct tg__loss_row *l = &t->losses[i];
  set_if_wanted(name, l->name);
  set_if_wanted(meaning, l->meaning);
  if (count) *count = l->count;
  if (offset) *offset = l->offset;
  return true;
}

size_t tg_table_rows_in_all(const struct tg_table *t) { return t->rows > t->uncut ? t->rows : t->uncut; }

enum tg_err tg_table_filter(struct tg_table *t, const char *expression, struct tg_error *error) {
  return tg__where_filter(t, expression, error);
}

bool tg_table_truncate(struct tg_table *t, size_t most) {
  if (t->rows <= most) return true;
  uint32_t *const rows = tg__alloc((most + 1) * sizeof *rows);
  if (!rows) return false;
  for (size_t i = 0; i < most; i++) rows[i] = (uint32_t)i;
  tg__table_keep_rows(t, rows, most);
  tg__free(rows);
  return !t->failed;
}

struct tg_table *tg_table_new(const char *name, const struct tg_column_spec *columns, size_t count) {
  struct tg_table *const t = tg__table_new(name);
  for (size_t i = 0; t && i < count; i++) tg__table_add_column(t, columns[i].name, columns[i].type, columns[i].unit);
  return t;
}

static void put_cell(struct tg_table *t, enum tg_type type, const struct tg_cell *cell) {
  if (type == TG_TEXT)
    tg__put_cstr(t, cell->text);
  else if (type == TG_REAL)
    tg__put_real(t, cell->real);
  else if (type == TG_INT)
    tg__put_int(t, cell->number);
  else if (cell->number < 0)
    tg__put_null(t);
  else
    tg__put_bool(t, cell->number != 0);
}

void tg_table_add_row(struct tg_table *t, const struct tg_cell *cells) {
  for (size_t c = 0; c < t->column_count && !t->failed; c++) put_cell(t, t->columns[c].type, &cells[c]);
}

void tg_table_add_note(struct tg_table *t, const char *text) { tg__table_note(t, "%s", text); }
bool tg_table_failed(const struct tg_table *t) { return t->failed; }

enum tg_err tg_table_arrow(struct tg_table *t, struct ArrowSchema *schema, struct ArrowArray *array) {
  return tg__table_arrow(t, schema, array);
}

/* ---- output ---------------------------------------------------------------------------------- */

size_t tg_format_count(void) { return tg__format_count(); }
const char *tg_format_name(size_t i) { return i < tg__format_count() ? tg__formats[i].name : NULL; }

const char *tg_format_of_file(const char *path) {
  const struct tg__format *const f = tg__format_of_file((struct tg__str){path, (uint32_t)strlen(path)});
  return f ? f->name : NULL;
}

static bool writes_table(const struct tg__format *f) { return f->table != NULL; }
static bool writes_trace(const struct tg__format *f) { return f->trace != NULL; }
static bool writes_report(const struct tg__format *f) { return f->report != NULL; }

/* *out: the format of that name, if it can write what the noun says; else TG_USAGE with those that can. */
static enum tg_err find_format(const char *name, bool (*fits)(const struct tg__format *f), const char *noun,
                               const struct tg__format **out, struct tg_error *error) {
  *out = tg__format_find(name);
  if (*out && fits(*out)) return TG_OK;
  struct tg__out names = {0};
  for (size_t i = 0; i < tg__format_count(); i++)
    if (fits(&tg__formats[i])) tg__out_format(&names, "%s%s", names.len ? ", " : "", tg__formats[i].name);
  const enum tg_err err = tg__fail(error, TG_USAGE, -1, "'%.60s' is not a format %s can be written in: %.*s", name,
                                   noun, (int)names.len, names.len ? names.buf : "");
  tg__out_free(&names);
  return err;
}

/* Flush, free, and see to it that a failure has its sentence. */
static enum tg_err finish_output(struct tg__out *out, enum tg_err err, struct tg_error *error) {
  if (!err && tg__out_flush(out)) {
    err = out->err == TG_MEMORY ? tg__no_memory(error, "writing")
                                : tg__fail(error, out->err, -1, "the output could not be written");
  }
  tg__out_free(out);
  return err;
}

enum tg_err tg_table_write(const struct tg_table *t, const char *format, unsigned width, tg_write_fn *write, void *ctx,
                           struct tg_error *error) {
  const struct tg__format *f;
  if (find_format(format, writes_table, "a table", &f, error)) return TG_USAGE;
  const struct tg__show_options options = {.width = width};
  struct tg__out out = {.write = write, .ctx = ctx};
  const enum tg_err err = f->table(t, &options, &out);
  if (err) tg__fail(error, err, -1, "%s while writing a table", tg_err_text(err));
  return finish_output(&out, err, error);
}

enum tg_err tg_diff_write(const struct tg_table *diff, const char *format, unsigned width, bool color,
                          tg_write_fn *write, void *ctx, struct tg_error *error) {
  const bool markdown = strcmp(format, "markdown") == 0;
  if (!tg__diff_is_page(diff))
    return tg__fail(error, TG_USAGE, -1,
                    "this diff is a table, not a page for a person: write it as one, with tg_table_write");
  if (!markdown && strcmp(format, "text") != 0)
    return tg__fail(error, TG_USAGE, -1, "'%.60s' is not a format a diff can be written in: text, markdown", format);
  const struct tg__show_options options = {.width = width, .color = color};
  struct tg__out out = {.write = write, .ctx = ctx};
  const enum tg_err err = tg__diff_page(diff, &options, markdown, &out);
  if (err) tg__fail(error, err, -1, "%s while writing a diff", tg_err_text(err));
  return finish_output(&out, err, error);
}

enum tg_err tg_export(struct tg_trace *trace, const char *format, const struct tg_arg *args, size_t arg_count,
                      tg_write_fn *write, void *ctx, struct tg_error *error) {
  const struct tg__format *f;
  if (find_format(format, writes_trace, "a trace", &f, error)) return TG_USAGE;
  for (size_t i = 0; i < arg_count; i++)
    if (strcmp(args[i].name, "predicted") == 0 && strcmp(f->name, "chrome") != 0)
      return tg__fail(error, TG_USAGE, -1,
                      "predicted steps are written as a trace in JSON: a name in .json, or to=chrome");
  struct tg__columns *columns;
  enum tg_err err = tg__load_all_ranks(trace, &columns, error);
  if (!err) err = tg__trace_load(columns, TG__COL_ALL, error);
  if (err) return err;
  const struct tg__show_options options = {.args = args, .arg_count = arg_count};
  struct tg__out out = {.write = write, .ctx = ctx};
  err = f->trace(columns, &options, &out, error);
  return finish_output(&out, err, error);
}

enum tg_err tg_report(struct tg_trace *trace, const char *format, unsigned width, bool color, tg_write_fn *write,
                      void *ctx, struct tg_error *error) {
  const struct tg__format *f;
  if (find_format(format, writes_report, "the report", &f, error)) return TG_USAGE;
  enum tg_err err = trace->folder ? TG_OK : tg__trace_load(trace->columns, TG__COL_ALL, error);
  if (err) return err;
  const struct tg__show_options options = {.width = width, .color = color};
  struct tg__out out = {.write = write, .ctx = ctx};
  err = f->report(trace, &options, &out, error);
  return finish_output(&out, err, error);
}
