/* --on ENGINE: the Python package has the ranks summarized where the engine runs (tachograph.cluster), and their one
 * summary is opened here. The package leaves it, the list of missing ranks or its error in a folder of ours. */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, NAMED = 10 };
static const char *const files[] = {"run.tsum", "missing", "error"};
enum { SUMMARY, MISSING, FAILURE, FILES };

struct folder {
  char path[PATH_BYTES];
  char file[FILES][PATH_BYTES + 16];
};

bool tg__cli_is_elsewhere(const struct tg__cli *c) { return tg__cli_setting(c, "on") != NULL; }

static enum tg_err folder_make(struct folder *f, struct tg_error *e) {
  const char *const given = tg__getenv("TMPDIR");
  snprintf(f->path, sizeof f->path, "%s/tachograph-XXXXXX", given && *given ? given : "/tmp");
  if (!mkdtemp(f->path))
    return tg__fail(e, TG_IO, -1, "no folder could be made as %.300s: %s", f->path, strerror(errno));
  for (int i = 0; i < FILES; i++) snprintf(f->file[i], sizeof f->file[i], "%s/%s", f->path, files[i]);
  return TG_OK;
}

static void folder_remove(const struct folder *f) {
  for (int i = 0; i < FILES; i++) unlink(f->file[i]);
  rmdir(f->path);
}

/* The lines PATH\tWHY of the file: ranks that are missing. */
static void take_missing(const char *path, struct tg_trace *ranks) {
  char *line = NULL;
  size_t room = 0;
  FILE *const file = fopen(path, "re");
  while (file && getline(&line, &room, file) > 0) {
    line[strcspn(line, "\n")] = 0;
    char *const tab = strchr(line, '\t');
    if (!tab) continue;
    *tab = 0;
    tg_add_missing(ranks, line, tab + 1);
  }
  if (file) fclose(file);
  free(line);
}

/* What the package said, in the words and the form of this program. */
static int say_failure(const struct tg__cli *c, const struct folder *f, int status) {
  struct tg_error e = {.code = status == TG__EXIT_USAGE ? TG_USAGE : TG_IO, .offset = -1};
  FILE *const file = fopen(f->file[FAILURE], "re");
  const bool said = file && fgets(e.text, sizeof e.text, file);
  if (file) fclose(file);
  e.text[strcspn(e.text, "\n")] = 0;
  return said ? tg__cli_failed(c, &e, NULL) : status;
}

int tg__cli_gather(struct tg__cli *c, const char *const *paths, size_t count, struct tg_trace **out) {
  struct folder f;
  struct tg_error e = {0};
  char threads[16];
  const char **const words = tg__arena_get(&c->arena, (count + 3) * sizeof *words);
  if (!words) return tg__cli_no_memory(c);
  if (folder_make(&f, &e)) return tg__cli_failed(c, &e, NULL);
  snprintf(threads, sizeof threads, "%u", c->threads);
  words[0] = tg__cli_setting(c, "on");
  words[1] = threads;
  words[2] = f.path;
  memcpy(words + 3, paths, count * sizeof *words);
  int status = tg__cli_in_python(c, "tachograph.cluster", words, count + 3);
  if (status) {
    status = say_failure(c, &f, status);
  } else {
    const char *const summary = f.file[SUMMARY];
    if (tg__cli_open_ranks(c, &summary, 1, out, &e))
      status = tg__cli_failed(c, &e, NULL);
    else
      take_missing(f.file[MISSING], *out);
  }
  folder_remove(&f);
  return status;
}

void tg__cli_note_missing(const struct tg_trace *ranks, const char *side, struct tg_table *t) {
  const char *path, *why;
  size_t i = 0;
  for (; i < NAMED && tg_missing(ranks, i, &path, &why); i++) {
    const size_t len = strlen(path);
    const char *const also = strncmp(why, path, len) == 0 && why[len] == ':' ? "" : ": ";
    const char *const name = *also ? path : "";
    if (t)
      tg__cli_note(t, "%smissing: %s%s%s", side, name, also, why);
    else
      tg__cli_say("  missing: %s%s%s\n", name, also, why);
  }
  const long long more = (long long)tg_loss_count(ranks, "skipped_file") - (long long)i;
  if (t && more > 0) tg__cli_note(t, "%smissing: %lld more", side, more);
  if (!t && more > 0) tg__cli_say("  missing: %lld more\n", more);
}
