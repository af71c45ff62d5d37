/* each_file: many ranks become a folder of files, one a rank: -o FOLDER/. One rank of a folder is in memory at a
 * time. */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

enum { PATH_BYTES = 4096 };

bool tg__cli_into_folder(const struct tg__cli *c) {
  const size_t len = strlen(c->out_path);
  return len > 0 && (c->out_path[len - 1] == '/' || tg__path_kind(c->out_path) == TG__PATH_DIR);
}

bool tg__cli_writes_files(const struct tg__cli *c, const char *path) {
  return tg__path_is_of_many(path) && tg__cli_into_folder(c);
}

/* rank0003.tacho where the file says its rank; else its own name. One that was written before gets a number behind
 * it. */
static void name_target(const char *folder, const char *source, const struct tg_trace *trace, size_t i,
                        const char *suffix, char *out) {
  bool is_given;
  const int64_t number = tg_rank_number(trace, i, &is_given);
  const size_t len = strlen(folder);
  const char *const slash = strrchr(source, '/'), *const name = slash ? slash + 1 : source;
  const char *const between = len && folder[len - 1] == '/' ? "" : "/";
  char stem[256];
  if (is_given)
    snprintf(stem, sizeof stem, "rank%04lld", (long long)number);
  else
    snprintf(stem, sizeof stem, "%.*s", (int)strcspn(name, "."), name);
  snprintf(out, PATH_BYTES, "%s%s%s%s", folder, between, stem, suffix);
  for (unsigned n = 2; tg__path_kind(out) != TG__PATH_NONE && n < 10000; n++)
    snprintf(out, PATH_BYTES, "%s%s%s-%u%s", folder, between, stem, n, suffix);
}

static enum tg_err make_folder(const char *path, struct tg_error *e) {
  if (mkdir(path, 0777) == 0 || errno == EEXIST) return TG_OK;
  return tg__fail(e, TG_IO, -1, "the folder %.300s could not be made: %s", path, strerror(errno));
}

static struct tg_table *new_table(const struct tg__cli *c) {
  static const struct tg_column_spec columns[] = {
      {"rank", TG_INT, ""}, {"file", TG_TEXT, ""}, {"size", TG_INT, "bytes"}};
  return tg_table_new(c->command->name, columns, sizeof columns / sizeof *columns);
}

static void put_file(struct tg_table *out, const struct tg_trace *trace, size_t rank, const char *target) {
  const struct tg_cell cells[] = {
      {.number = tg_rank_number(trace, rank, NULL)}, {.text = target}, {.number = tg__cli_size_of(target)}};
  tg_table_add_row(out, cells);
}

/* One file; what cannot be read is passed over and named. */
struct files {
  struct tg__cli *c;
  const struct tg__file_writer *each;
  struct tg_table *out;
  int status;
};
static bool write_one(void *ctx, const char *path, struct tg_trace *trace, const struct tg_error *why) {
  struct files *const f = ctx;
  char target[PATH_BYTES];
  if (trace) {
    name_target(f->c->out_path, path, trace, 0, f->each->suffix, target);
    f->status = f->each->write(f->c, f->each->ctx, trace, NULL, target);
    put_file(f->out, trace, 0, target);
  } else {
    tg__cli_note(f->out, "not read: %.300s", why->text);
  }
  return f->status == TG__EXIT_OK;
}

/* Is this rank among those that --rank names, which may be all? */
static bool is_chosen(const struct tg__cli *c, const char *number) {
  const char *only = NULL;
  for (size_t i = 0; i < c->argument_count; i++)
    if (strcmp(c->arguments[i].name, "rank") == 0) only = c->arguments[i].value;
  return !only || strcmp(only, "all") == 0 || strcmp(only, number) == 0;
}

/* Takes the table over. */
static int say_files(const struct tg__cli *c, struct tg_table *out, int status) {
  struct tg__cli here = *c; /* the answer is about the files, and not in one of them */
  here.out_path = "-";
  if (status == TG__EXIT_OK) status = tg__cli_table(&here, out, 0);
  if (status == TG__EXIT_OK && tg_table_notes(out)) status = TG__EXIT_THRESHOLD;
  tg_table_free(out);
  return status;
}

int tg__cli_write_files(struct tg__cli *c, const char *path, const struct tg__file_writer *each) {
  struct tg_error e = {0};
  struct files f = {c, each, new_table(c), TG__EXIT_OK};
  enum tg_err err = f.out ? make_folder(c->out_path, &e) : tg__no_memory(&e, "writing a file for each rank");
  if (!err) err = tg__cli_visit(c, path, write_one, &f, &e);
  return say_files(c, f.out, err ? tg__cli_failed(c, &e, NULL) : f.status);
}

int tg__cli_write_ranks(struct tg__cli *c, const char *path, struct tg_trace *trace,
                        const struct tg__file_writer *each) {
  struct tg_error e = {0};
  const size_t count = tg_rank_count(trace);
  struct tg_table *const out = new_table(c);
  const enum tg_err err = out ? make_folder(c->out_path, &e) : tg__no_memory(&e, "writing a file for each rank");
  int status = err ? tg__cli_failed(c, &e, NULL) : TG__EXIT_OK;
  for (size_t r = 0; r < count && status == TG__EXIT_OK; r++) {
    char number[24], target[PATH_BYTES];
    snprintf(number, sizeof number, "%lld", (long long)tg_rank_number(trace, r, NULL));
    if (!is_chosen(c, number)) continue;
    name_target(c->out_path, path, trace, r, each->suffix, target);
    status = each->write(c, each->ctx, trace, count > 1 ? number : NULL, target);
    put_file(out, trace, r, target);
  }
  if (status == TG__EXIT_OK && tg_table_rows(out) == 0) {
    tg__fail(&e, TG_NO_DATA, -1, "%.300s has no such rank: --rank takes the number of one", path);
    status = tg__cli_failed(c, &e, NULL);
  }
  return say_files(c, out, status);
}
