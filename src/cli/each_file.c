/* each_file: many ranks become a folder of files, one a rank: -o FOLDER/. Of a folder of ranks one is in memory at a
 * time. */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

enum { PATH_BYTES = 4096 };

static bool is_many(const char *path) {
  const enum tg__path_kind kind = tg__path_kind(path);
  return kind == TG__PATH_DIR || (kind == TG__PATH_NONE && strpbrk(path, "*?[") != NULL);
}

bool tg__cli_into_folder(const struct tg__cli *c) {
  const size_t len = strlen(c->out_path);
  return len > 0 && (c->out_path[len - 1] == '/' || tg__path_kind(c->out_path) == TG__PATH_DIR);
}

bool tg__cli_is_for_each(const struct tg__cli *c, const char *path) { return is_many(path) && tg__cli_into_folder(c); }

/* rank0003.tacho where the file says its rank; else its own name. One that was written before gets a number behind it.
 */
static void name_target(const char *folder, const char *source, const struct tg__rank *rank, const char *suffix,
                        char *out) {
  const size_t len = strlen(folder);
  const char *const slash = strrchr(source, '/'), *const name = slash ? slash + 1 : source;
  const char *const between = len && folder[len - 1] == '/' ? "" : "/";
  char stem[256];
  if (rank->number_is_given)
    snprintf(stem, sizeof stem, "rank%04lld", (long long)rank->number);
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
  struct tg_table *const out = tg__table_new(c->command->name);
  if (!out) return NULL;
  tg__table_add_column(out, "rank", TG_INT, "");
  tg__table_add_column(out, "file", TG_TEXT, "");
  tg__table_add_column(out, "size", TG_INT, "bytes");
  return out;
}

/* One file; what is no trace, or none that can be read, is passed over and named. */
static int write_one(struct tg__cli *c, const struct tg__folder *folder, size_t i, const struct tg__each *each,
                     struct tg_table *out) {
  struct tg__columns *t = NULL;
  struct tg_error e = {0};
  char target[PATH_BYTES];
  int status = TG__EXIT_OK;
  enum tg_err err = tg__cli_open_part(c, folder, i, &t, &e);
  if (!err && t) err = tg__trace_load(t, TG__COL_ALL, &e);
  if (err == TG_MEMORY || err == TG_INTERNAL)
    status = tg__cli_failed(c, &e, NULL);
  else if (err)
    tg__table_note(out, "not read: %.300s", e.text);
  if (!err && t) {
    name_target(c->out_path, tg__folder_path(folder, i), &t->ranks[0], each->suffix, target);
    status = each->write(c, each->ctx, &(struct tg_trace){.columns = t}, NULL, target);
    tg__put_rank(out, t, 0);
    tg__put_cstr(out, target);
    tg__put_int(out, tg__cli_size_of(target));
  }
  if (t) tg__trace_free(t);
  tg__memory_return();
  return status;
}

/* Is this rank among those that --rank names, which may be all? */
static bool is_chosen(const struct tg__cli *c, const struct tg__rank *rank, char number[24]) {
  const char *only = NULL;
  for (size_t i = 0; i < c->argument_count; i++)
    if (strcmp(c->arguments[i].name, "rank") == 0) only = c->arguments[i].value;
  snprintf(number, 24, "%lld", (long long)rank->number);
  return !only || strcmp(only, "all") == 0 || strcmp(only, number) == 0;
}

/* Takes the table over. */
static int say_files(const struct tg__cli *c, struct tg_table *out, int status) {
  struct tg__cli here = *c; /* the answer is about the files, and not in one of them */
  here.out_path = "-";
  if (status == TG__EXIT_OK) status = tg__cli_table(&here, out, 0);
  if (status == TG__EXIT_OK && out->note_count) status = TG__EXIT_THRESHOLD;
  tg__table_free(out);
  return status;
}

int tg__cli_each(struct tg__cli *c, const char *path, const struct tg__each *each) {
  struct tg_error e = {0};
  struct tg__folder *folder = NULL;
  struct tg_table *const out = new_table(c);
  enum tg_err err = out ? make_folder(c->out_path, &e) : tg__fail(&e, TG_MEMORY, -1, "out of memory");
  if (!err) err = tg__folder_open(path, &folder, &e);
  int status = TG__EXIT_OK;
  for (size_t i = 0; !err && status == TG__EXIT_OK && i < tg__folder_count(folder); i++)
    status = write_one(c, folder, i, each, out);
  tg__folder_close(folder);
  if (!err && status == TG__EXIT_OK && out->rows == 0) err = tg__no_traces(path, &e);
  if (err) status = tg__cli_failed(c, &e, NULL);
  return say_files(c, out, status);
}

int tg__cli_each_rank(struct tg__cli *c, const char *path, struct tg_trace *trace, const struct tg__each *each) {
  struct tg_error e = {0};
  const struct tg__columns *const t = trace->columns;
  struct tg_table *const out = new_table(c);
  const enum tg_err err = out ? make_folder(c->out_path, &e) : tg__fail(&e, TG_MEMORY, -1, "out of memory");
  int status = err ? tg__cli_failed(c, &e, NULL) : TG__EXIT_OK;
  for (uint32_t r = 0; r < t->rank_count && status == TG__EXIT_OK; r++) {
    char number[24], target[PATH_BYTES];
    if (!is_chosen(c, &t->ranks[r], number)) continue;
    name_target(c->out_path, path, &t->ranks[r], each->suffix, target);
    status = each->write(c, each->ctx, trace, t->rank_count > 1 ? number : NULL, target);
    tg__put_rank(out, t, r);
    tg__put_cstr(out, target);
    tg__put_int(out, tg__cli_size_of(target));
  }
  if (status == TG__EXIT_OK && out->rows == 0) {
    tg__fail(&e, TG_NO_DATA, -1, "%.300s has no such rank: --rank takes the number of one", path);
    status = tg__cli_failed(c, &e, NULL);
  }
  return say_files(c, out, status);
}
