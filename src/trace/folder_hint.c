/* What a folder holds: its traces, those of its folders of ranks or of a recording that was cut short, or where else
 * they may be. */
#include "trace/summary.h"

#include <ctype.h>
#include <stdio.h>

/* The files one folder below. NULL: nothing, or no memory. */
static const char **list_below(const char *path, struct tg__arena *arena, size_t *count) {
  const char **names = NULL;
  const size_t len = strlen(path);
  char *const pattern = tg__arena_get(arena, len + sizeof "/*/*");
  *count = 0;
  if (!pattern) return NULL;
  memcpy(pattern, path, len);
  memcpy(pattern + len, "/*/*", sizeof "/*/*");
  if (tg__path_list(pattern, arena, &names, count, &(struct tg_error){0})) *count = 0;
  return names;
}

static size_t count_traces(const char *const *names, size_t count) {
  size_t traces = 0;
  for (size_t i = 0; i < count; i++) traces += tg__is_trace_name(names[i]);
  return traces;
}

/* Is this …/rank_3/FILE, rank3/FILE or Rank-3/FILE? Each rank writing into a folder of its own is what many scripts
 * do. */
static bool is_in_rank_folder(const char *path) {
  const char *const end = strrchr(path, '/');
  const char *name = end;
  while (name > path && name[-1] != '/') name--;
  if (!end || end - name < 5 || strncmp(name + 1, "ank", 3) != 0 || (*name != 'r' && *name != 'R')) return false;
  name += 4;
  name += *name == '_' || *name == '-';
  if (name == end) return false;
  while (name < end && isdigit((unsigned char)*name)) name++;
  return name == end;
}

/* Is it JSON that no trace can be: a configuration, an execution trace, nothing at all? What cannot be read, or is
 * no such text, may be one. */
static bool is_other_json(const char *path) {
  enum { BLOCK = 64 << 10, BEFORE = 16 };
  static const char wanted[] = "\"traceEvents\"";
  const struct tg__str name = {path, (uint32_t)strlen(path)};
  struct tg__input *in;
  if (!tg__str_has_suffix(name, ".json") || tg__input_open(path, &in, NULL)) return false;
  char *const text = tg__alloc(BEFORE + BLOCK);
  int64_t n = text ? tg__input_read(in, text + BEFORE, BLOCK, NULL) : -1;
  size_t at = BEFORE;
  while (n > 0 && at < BEFORE + (size_t)n && isspace((unsigned char)text[at])) at++;
  bool is_other = n == 0 || (n > 0 && at < BEFORE + (size_t)n && text[at] == '{');
  while (is_other && n > 0) {
    is_other = !memmem(text, BEFORE + (size_t)n, wanted, sizeof wanted - 1);
    memmove(text, text + n, BEFORE); /* it may begin in this block and end in the next */
    n = tg__input_read(in, text + BEFORE, BLOCK, NULL);
  }
  tg__free(text);
  tg__input_close(in);
  return is_other && n == 0;
}

static bool holds_none(const char *const *names, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (tg__is_trace_name(names[i]) && !is_other_json(names[i])) return false;
  return true;
}

/* What tachograph itself writes beside a trace: a session, a baseline, a diff, a flight recorder. */
static bool is_own_json(const char *path) {
  static const char *const names[] = {"baseline.json", "conditions.json", "diff.json", "summary.json"},
                           http[] = "http-";
  const char *const slash = strrchr(path, '/'), *const name = slash ? slash + 1 : path;
  bool is_own = strncmp(name, http, sizeof http - 1) == 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) is_own |= strcmp(name, names[i]) == 0;
  return is_own && is_other_json(path);
}

/* Leaves them out, unless there is nothing else: then they are what the error is about. */
static void drop_own(const char **names, size_t *count) {
  size_t kept = 0;
  for (size_t i = 0; i < *count; i++) kept += !is_own_json(names[i]);
  if (kept == *count || count_traces(names, *count) == *count - kept) return;
  for (size_t i = kept = 0; i < *count; i++)
    if (!is_own_json(names[i])) names[kept++] = names[i];
  *count = kept;
}

/* Is this …/raw/FILE? There a recording lies until it has ended and become one file: that of a program which was killed
 * together with the one that records it stays there. */
static bool is_in_raw_folder(const char *path) {
  const char *const end = strrchr(path, '/');
  return end && end - path >= 4 && memcmp(end - 4, "/raw", 4) == 0;
}

enum tg_err tg__trace_list(const char *path, struct tg__arena *arena, const char ***names, size_t *count,
                           struct tg_error *e) {
  const enum tg_err err = tg__path_list(path, arena, names, count, e);
  if (err || tg__path_kind(path) != TG__PATH_DIR) return err;
  drop_own(*names, count);
  for (size_t i = 0; i < *count; i++)
    if (tg__is_summary_name((*names)[i])) return TG_OK;
  size_t below;
  const char **const deeper = list_below(path, arena, &below);
  for (size_t i = 0; i < below; i++)
    if (tg__is_trace_name(deeper[i]) && !is_in_rank_folder(deeper[i]) && !is_in_raw_folder(deeper[i])) return TG_OK;
  /* nothing but other files there: those of the folder itself, if any, are named */
  if (!count_traces(deeper, below) || !holds_none(*names, *count)) return TG_OK;
  *names = deeper;
  *count = below;
  return TG_OK;
}

/* Traces one folder below. */
static size_t count_below(const char *path) {
  struct tg__arena arena = {0};
  size_t count;
  const char **const names = list_below(path, &arena, &count);
  const size_t traces = count_traces(names, count);
  tg__arena_free(&arena);
  return traces;
}

enum tg_err tg__no_traces(const char *path, struct tg_error *e) {
  const size_t below = tg__path_kind(path) == TG__PATH_DIR ? count_below(path) : 0;
  const size_t len = strlen(path);
  const char *const slash = len && path[len - 1] == '/' ? "" : "/";
  if (below)
    return tg__fail(e, TG_NOT_A_TRACE, -1,
                    "%.200s holds no traces itself, and the folders in it hold %zu: name one of the folders, or all of "
                    "them as '%.200s%s*/*'",
                    path, below, path, slash);
  return tg__fail(e, TG_NOT_A_TRACE, -1,
                  "%.300s holds no traces: no file in it ends in .json, .json.gz, .json.zst or .tacho", path);
}
