/* What to say of a folder that holds no traces: where they may be instead. */
#include "trace/summary.h"

#include <stdio.h>

/* Traces one folder further down. */
static size_t count_below(const char *path) {
  struct tg__arena arena = {0};
  const char **names = NULL;
  size_t count = 0, traces = 0;
  const size_t len = strlen(path);
  char *const pattern = tg__arena_get(&arena, len + sizeof "/*/*");
  if (pattern) {
    memcpy(pattern, path, len);
    memcpy(pattern + len, "/*/*", sizeof "/*/*");
    if (tg__path_list(pattern, &arena, &names, &count, &(struct tg_error){0})) count = 0;
  }
  for (size_t i = 0; i < count; i++) traces += tg__is_trace_name(names[i]);
  tg__arena_free(&arena);
  return traces;
}

enum tg_err tg__no_traces(const char *path, struct tg_error *e) {
  const size_t below = tg__path_kind(path) == TG__PATH_DIR ? count_below(path) : 0;
  const size_t len = strlen(path);
  const char *const slash = len && path[len - 1] == '/' ? "" : "/";
  if (below)
    return tg__fail(e, TG_NOT_A_TRACE, -1,
                    "%.200s holds no traces itself, and the folders in it hold %zu: name one of the folders, or all of them as '%.200s%s*/*'", path,
                    below, path, slash);
  return tg__fail(e, TG_NOT_A_TRACE, -1, "%.300s holds no traces: no file in it ends in .json, .json.gz, .json.zst or .tacho", path);
}
