/* What the user sees: errors, tables; and where output goes. */
#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

/* ---- errors ---------------------------------------------------------------------------------- */

static const char *code_name(enum tg_err code) {
  switch (code) {
#define ERR(name, status, text)                                                                                        \
  case TG_##name:                                                                                                      \
    return #name;
#include "tachograph/err.def"
#undef ERR
  default:
    return "INTERNAL";
  }
}

/* The same as the sentence on standard error, for the program that reads standard output. */
static void print_error_json(const struct tg_error *e, const char *next) {
  struct tg__out out = {.write = NULL};
  struct tg__jsonw w = {.out = &out};
  tg__json_open(&w, '{');
  tg__json_key(&w, "error");
  tg__json_open(&w, '{');
  tg__json_key(&w, "code");
  tg__json_cstr(&w, code_name(e->code));
  tg__json_key(&w, "text");
  tg__json_cstr(&w, e->text);
  tg__json_key(&w, "offset");
  if (e->offset >= 0)
    tg__json_int(&w, e->offset);
  else
    tg__json_null(&w);
  tg__json_key(&w, "status");
  tg__json_int(&w, tg_err_status(e->code));
  tg__json_key(&w, "next");
  tg__json_cstr(&w, next);
  tg__json_close(&w, '}');
  tg__json_close(&w, '}');
  tg__out_char(&out, '\n');
  if (!out.err) fwrite(out.buf, 1, out.len, stdout);
  fflush(stdout);
  tg__out_free(&out);
}

/* Names of files and of a trace must not steer the terminal; line ends may stay, a sentence can have more lines. */
static void print_clean(const char *text) {
  size_t left = strlen(text);
  for (unsigned n; left; text += n, left -= n) {
    const unsigned char *const p = (const unsigned char *)text;
    n = tg__utf8_length(p, left);
    if (n && (*p == '\n' || !tg__utf8_is_unsafe(p, n))) {
      fwrite(p, 1, n, stderr);
    } else {
      fputc('?', stderr);
      n = n ? n : 1;
    }
  }
}

void tg__cli_say(const char *format, ...) {
  char text[2048];
  va_list args;
  va_start(args, format);
  tg__format_words(text, sizeof text, format, args);
  va_end(args);
  print_clean(text);
}

int tg__cli_failed(const struct tg__cli *c, const struct tg_error *e, const char *next) {
  const bool red = tg__is_terminal(STDERR_FILENO) && !tg__getenv("NO_COLOR");
  fputs(red ? "\033[31mtachograph:\033[0m " : "tachograph: ", stderr);
  print_clean(e->text);
  if (next) {
    fputs("\n  next: ", stderr);
    print_clean(next);
  }
  fputc('\n', stderr);
  if (tg__cli_wants_json(c) || tg__cli_setting(c, "json")) print_error_json(e, next);
  return tg_err_status(e->code);
}

const char *tg__cli_word(struct tg__cli *c, const char *path) {
  const struct tg__str text = {path, (uint32_t)strlen(path)};
  const size_t size = 4 * (size_t)text.len + 16;
  char *const word = tg__arena_get(&c->arena, size);
  return word ? tg__shell_word(text, word, size) : path;
}

const char *tg__cli_command(struct tg__cli *c, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  const int len = vsnprintf(NULL, 0, format, args);
  char *const command = len < 0 ? NULL : tg__arena_get(&c->arena, (size_t)len + 1);
  if (command) vsnprintf(command, (size_t)len + 1, format, again);
  va_end(again);
  va_end(args);
  return command;
}

const char *tg__cli_instead(struct tg__cli *c, enum tg_err err, const struct tg_trace *t, const char *path) {
  if (err != TG_NO_DATA || strcmp(path, "-") == 0) return NULL; /* a pipe is read once */
  return tg__cli_command(c, "tachograph ask %s %s", tg__cli_word(c, path), tg__fallback_question(t));
}

void tg__cli_note(struct tg_table *t, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  tg_table_add_note(t, text);
}

int tg__cli_no_memory(const struct tg__cli *c) {
  const struct tg_error e = {.code = TG_MEMORY, .offset = -1, .text = "out of memory"};
  return tg__cli_failed(c, &e, NULL);
}

int tg__cli_needs_events(struct tg__cli *c, struct tg_trace *t, const char *path) {
  struct tg_error e = {0};
  if (tg_has_events(t, &e)) return TG__EXIT_OK;
  return tg__cli_failed(c, &e, tg__cli_instead(c, e.code, t, path));
}

int tg__cli_usage(const struct tg__cli *c, const char *next, const char *format, ...) {
  struct tg_error e = {.code = TG_USAGE, .offset = -1};
  va_list args;
  va_start(args, format);
  vsnprintf(e.text, sizeof e.text, format, args);
  va_end(args);
  char help[64] = "tachograph help";
  if (c->command) snprintf(help, sizeof help, "tachograph %s --help", c->command->name);
  return tg__cli_failed(c, &e, next ? next : help);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Which file it was, where the sentence does not say. */
static void name_the_file(struct tg_error *e, const char *path) {
  const char *slash = strrchr(path, '/');
  const char *name = slash && slash[1] ? slash + 1 : path;
  if (strcmp(path, "-") == 0)
    name = "standard input";
  else if (strstr(e->text, name))
    return;
  struct tg_error said = *e;
  snprintf(e->text, sizeof e->text, "%.160s: %.300s", strcmp(path, "-") == 0 ? name : path, said.text);
}

typedef enum tg_err open_fn(const char *path, const struct tg_open_options *options, struct tg_trace **out,
                            struct tg_error *e);

static enum tg_err open_with(open_fn *open, const struct tg__cli *c, const char *path, struct tg_trace **out,
                             struct tg_error *e) {
  struct tg__reading p;
  const struct tg_open_options options = tg__reading_begin(c, &p);
  const enum tg_err err = open(path, &options, out, e);
  tg__reading_end(&p);
  if (err) name_the_file(e, path);
  return err;
}

/* Before gigabytes are read: what it will take, on a terminal, or where it may be more than there is. */
static void say_memory(const struct tg__cli *c, int64_t bytes) {
  static const struct {
    const char *command, *cure;
  } cures[] = {{"export", "; with -o FOLDER/ it takes one rank at a time, and writes a file for each"},
               {"convert", "; with -o FOLDER/ it takes one rank at a time, and writes a file for each"},
               {"sql", "; a query about one rank needs no more than its file"}};
  const char *cure = "";
  for (size_t i = 0; i < sizeof cures / sizeof *cures; i++)
    if (strcmp(c->command->name, cures[i].command) == 0) cure = cures[i].cure;
  const int64_t much = INT64_C(1) << 30;
  char text[32];
  if (bytes > much || (bytes > 0 && tg__is_terminal(STDERR_FILENO)))
    fprintf(stderr, "reading all ranks into memory, which this needs: about %s%s\n", tg__human_bytes(bytes, text),
            cure);
}

enum tg_err tg__cli_open(const struct tg__cli *c, const char *path, struct tg_trace **out, struct tg_error *e) {
  say_memory(c, tg_memory_needed(path, NULL, NULL, 0));
  return open_with(tg_open_all, c, path, out, e);
}

enum tg_err tg__cli_open_run(const struct tg__cli *c, const char *path, struct tg_trace **out, struct tg_error *e) {
  const enum tg_err err = open_with(tg_open, c, path, out, e);
  if (!err) tg__watch_again(*out);
  return err;
}

enum tg_err tg__cli_ask(const struct tg__cli *c, const char *path, const struct tg__cli_question *q,
                        struct tg_trace **trace, struct tg_table **out, struct tg_error *e) {
  struct tg__reading p;
  say_memory(c, tg_memory_needed(path, q->name, q->args, q->arg_count));
  const struct tg_open_options options = tg__reading_begin(c, &p);
  const enum tg_err err = tg_open_asking(path, &options, q->name, q->args, q->arg_count, q->most_rows, trace, out, e);
  tg__reading_end(&p);
  if (err && !*trace && err != TG_USAGE) name_the_file(e, path); /* else it is about the question */
  if (*trace) tg__watch_again(*trace);
  if (err || *out) return err;
  tg__work_begin("computing the answer");
  const enum tg_err answered = tg_ask(*trace, q->name, q->args, q->arg_count, out, e);
  tg__work_end();
  return answered;
}

enum tg_err tg__cli_check(const struct tg__cli *c, const char *path, enum tg_verdict *verdict, struct tg_table **out,
                          struct tg_error *e) {
  struct tg__reading p;
  const struct tg_open_options options = tg__reading_begin(c, &p);
  const enum tg_err err = tg_check(path, &options, verdict, out, e);
  tg__reading_end(&p);
  if (err) name_the_file(e, path);
  return err;
}

enum tg_err tg__cli_open_ranks(const struct tg__cli *c, const char *const *paths, size_t count, struct tg_trace **out,
                               struct tg_error *e) {
  struct tg__reading p;
  const struct tg_open_options options = tg__reading_begin(c, &p);
  const enum tg_err err = tg_open_ranks(paths, count, &options, out, e);
  tg__reading_end(&p);
  if (err && count == 1) name_the_file(e, paths[0]);
  return err;
}

enum tg_err tg__cli_visit(const struct tg__cli *c, const char *path, tg_visit_fn *visit, void *ctx,
                          struct tg_error *e) {
  struct tg__reading p;
  const struct tg_open_options options = tg__reading_begin(c, &p);
  const enum tg_err err = tg_open_each(path, &options, visit, ctx, e);
  tg__reading_end(&p);
  return err;
}

/* ---- where output goes ----------------------------------------------------------------------- */

/* Ctrl-C while a file is being written must not leave its unfinished half behind. */
static volatile sig_atomic_t stop_asked;
static void (*stop_before)(int) = SIG_DFL; /* SIG_IGN: `nohup` stays in force */

static void ask_to_stop(int number) {
  stop_asked = 1;
  signal(number, SIG_DFL); /* the second time ends the program at once */
}

static void watch_for_stop(void) {
  stop_before = signal(SIGINT, ask_to_stop);
  if (stop_before == SIG_IGN) signal(SIGINT, SIG_IGN);
}

static bool to_writer(void *ctx, const char *bytes, size_t len) {
  struct tg__sink *s = ctx;
  if (!s->to_file) tg__work_end(); /* its line must not stand in the output */
  if (stop_asked || !tg__writer_write(s->writer, bytes, len)) return false;
  s->bytes += (int64_t)len;
  if (s->counts_aloud) tg__writing_shown(s);
  return true;
}

static enum tg__packing packing_of(const char *path) {
  const struct tg__str name = {path, (uint32_t)strlen(path)};
  return tg__str_has_suffix(name, ".gz") ? TG__GZIP : tg__str_has_suffix(name, ".zst") ? TG__ZSTD : TG__PLAIN;
}

enum tg_err tg__sink_open(struct tg__sink *s, const char *path, struct tg_error *e) {
  *s = (struct tg__sink){.begin_ns = tg__clock_ns()};
  const enum tg__packing packing = packing_of(path);
  const bool to_file = strcmp(path, "-") != 0;
  enum tg_err err = TG_OK;
  if (to_file) watch_for_stop(); /* before there is a file to leave behind */
  if (packing != TG__PLAIN) err = tg__packer_new(packing, to_writer, s, &s->packer, e);
  if (!err) err = tg__writer_open(path, &s->writer, e);
  if (err) {
    if (to_file) signal(SIGINT, stop_before);
    tg__packer_free(s->packer);
    return err;
  }
  s->to_file = to_file;
  s->counts_aloud = to_file && tg__is_terminal(STDERR_FILENO);
  s->out.write = s->packer ? tg__packer_write : to_writer;
  s->out.ctx = s->packer ? (void *)s->packer : s;
  return TG_OK;
}

/* What was written gets its name, or is dropped. */
static int sink_end(struct tg__sink *s, const struct tg__cli *c, enum tg_err err, struct tg_error *e) {
  enum tg_err written = tg__out_flush(&s->out);
  if (!written && !err && s->packer && !tg__packer_end(s->packer)) written = TG_IO;
  tg__packer_free(s->packer);
  tg__out_free(&s->out);
  tg__writing_end(s);
  if (stop_asked) {
    tg__writer_abandon(s->writer);
    return 130;
  }
  const int cause = tg__writer_error(s->writer);
  if (cause == EPIPE) {
    tg__writer_abandon(s->writer);
    return TG__EXIT_OK;
  }
  if (cause || (!err && !written)) { /* commit knows what the system said */
    const enum tg_err committed = tg__writer_commit(s->writer, e);
    if (!committed) return TG__EXIT_OK;
    return tg__cli_failed(c, e, NULL);
  }
  tg__writer_abandon(s->writer);
  if (!err) tg__fail(e, written, -1, "%s while writing", tg_err_text(written));
  return tg__cli_failed(c, e, NULL);
}

int tg__sink_close(struct tg__sink *s, const struct tg__cli *c, enum tg_err err, struct tg_error *e) {
  const int status = sink_end(s, c, err, e);
  if (s->to_file) signal(SIGINT, stop_before);
  return status;
}

char *tg__cli_beside(struct tg__cli *c, const char *path, const char *suffix) {
  static const char *const suffixes[] = {".gz", ".zst", ".json", ".pt.trace", ".tacho", ".tsum"};
  size_t len = strlen(path);
  while (len > 1 && path[len - 1] == '/') len--;
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
    const size_t n = strlen(suffixes[i]);
    if (len > n && memcmp(path + len - n, suffixes[i], n) == 0) len -= n;
  }
  char *const target = tg__arena_get(&c->arena, len + strlen(suffix) + 1);
  if (!target) return NULL;
  memcpy(target, path, len);
  memcpy(target + len, suffix, strlen(suffix) + 1);
  return target;
}

int64_t tg__cli_size_of(const char *path) {
  struct tg__file *f;
  if (tg__file_open(path, &f, NULL)) return TG_NULL_INT;
  const int64_t size = tg__file_size(f);
  tg__file_close(f);
  return size < 0 ? TG_NULL_INT : size;
}

/* ---- tables ---------------------------------------------------------------------------------- */

unsigned tg__cli_width(const struct tg__cli *c) {
  if (tg__cli_setting(c, "width")) return c->width;
  if (strcmp(c->out_path, "-") != 0) return 0;
  unsigned width = tg__terminal_width(STDOUT_FILENO);
  if (!width && !tg__cli_read_width(tg__getenv("COLUMNS"), &width)) return 0;
  return width;
}

static bool has_column(const struct tg_table *t, const char *name) {
  size_t c = 0;
  while (c < tg_table_columns(t) && strcmp(tg_column_name(t, c), name) != 0) c++;
  return c < tg_table_columns(t);
}

void tg__cli_explain_column(struct tg_table *t, const struct tg_question_column *c) {
  tg__cli_note(t, "%s%s%s%s: %s", c->name, *c->unit ? " (" : "", c->unit, *c->unit ? ")" : "", c->meaning);
}

void tg__cli_explain(const struct tg__cli *c, struct tg_table *t) {
  const size_t q = tg_question_find(tg_table_question(t));
  struct tg_question_column column;
  if (!tg__cli_setting(c, "explain")) return;
  for (size_t k = 0; tg_question_column(q, k, &column); k++)
    if (has_column(t, column.name)) tg__cli_explain_column(t, &column);
}

int tg__cli_table(const struct tg__cli *c, struct tg_table *t, size_t most) {
  struct tg_error e = {0};
  struct tg__sink sink;
  if (tg_table_failed(t)) return tg__cli_no_memory(c);
  if (tg__sink_open(&sink, c->out_path, &e)) return tg__cli_failed(c, &e, NULL);
  const size_t all = tg_table_rows_in_all(t);
  const bool cut = most && all > most;
  const struct tg__show_options options = {.width = tg__cli_width(c), .color = c->color};
  enum tg_err err =
      cut && !tg_table_truncate(t, most) ? TG_MEMORY : tg__format_find(c->format)->table(t, &options, &sink.out);
  if (err) tg__fail(&e, err, -1, "%s while writing the answer", tg_err_text(err));
  if (cut && strcmp(c->format, "text") == 0)
    tg__out_format(&sink.out, "%zu of %zu rows; all of them: --limit all\n", most, all);
  return tg__sink_close(&sink, c, err == TG_IO ? TG_OK : err, &e);
}

int tg__cli_text(const struct tg__cli *c, const char *question, struct tg__out *text) {
  int status;
  tg__out_char(text, 0);
  if (text->err) return tg__cli_no_memory(c);
  if (tg__cli_wants_json(c)) {
    struct tg_table *const t = tg_table_new(question, &(struct tg_column_spec){"text", TG_TEXT, ""}, 1);
    if (t) tg_table_add_row(t, &(struct tg_cell){.text = text->buf});
    status = t ? tg__cli_table(c, t, 0) : tg__cli_no_memory(c);
    tg_table_free(t);
  } else {
    struct tg__sink sink;
    struct tg_error e = {0};
    if (tg__sink_open(&sink, c->out_path, &e)) return tg__cli_failed(c, &e, NULL);
    tg__out_bytes(&sink.out, text->buf, text->len - 1);
    status = tg__sink_close(&sink, c, TG_OK, &e);
  }
  tg__out_free(text);
  return status;
}

int tg__cli_result(const struct tg__cli *c, const char *path, const char *format, int64_t bytes) {
  if (!tg__cli_wants_json(c)) return TG__EXIT_OK;
  static const struct tg_column_spec columns[] = {
      {"file", TG_TEXT, ""}, {"format", TG_TEXT, ""}, {"size", TG_INT, "bytes"}};
  struct tg_table *const t = tg_table_new(c->command->name, columns, sizeof columns / sizeof *columns);
  if (!t) return tg__cli_no_memory(c);
  tg_table_add_row(t, (struct tg_cell[]){{.text = path}, {.text = format}, {.number = bytes}});
  struct tg__cli here = *c; /* the answer about the file goes to standard output, not into the file */
  here.out_path = "-";
  const int status = tg__cli_table(&here, t, 0);
  tg_table_free(t);
  return status;
}
