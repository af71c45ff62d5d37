/* The ledger of predictions: a line for each that was tried, without paths or source, in the user's cache. Only diff
 * and run --compare write it; the package reads it for doctor. TACHOGRAPH_LEDGER=0 switches it off. */
#include "cli/cli.h"

#include <limits.h>
#include <stdio.h>

enum { LEDGER_MOST = 1 << 16 }; /* bytes; the oldest lines go */

static bool name_folder(char *path, size_t size) {
  const char *const off = tg__getenv("TACHOGRAPH_LEDGER"), *const cache = tg__getenv("XDG_CACHE_HOME"),
                    *const home = tg__getenv("HOME");
  if (off && strcmp(off, "0") == 0) return false;
  if (cache && *cache == '/') return snprintf(path, size, "%s/tachograph", cache) < (int)size;
  return home && *home == '/' && snprintf(path, size, "%s/.cache/tachograph", home) < (int)size;
}

/* What is there, its oldest lines left out where `more` bytes would not fit. */
static size_t read_ledger(const char *path, char *bytes, size_t more) {
  struct tg__file *f;
  if (tg__path_kind(path) != TG__PATH_FILE || tg__file_open(path, &f, NULL)) return 0;
  const int64_t size = tg__file_size(f), most = LEDGER_MOST - (int64_t)more;
  int64_t n = tg__file_read_at(f, bytes, (size_t)most, size > most ? size - most : 0);
  tg__file_close(f);
  if (n <= 0) return 0;
  const char *const cut = size > most ? memchr(bytes, '\n', (size_t)n) : NULL;
  if (cut) n -= cut + 1 - bytes, memmove(bytes, cut + 1, (size_t)n);
  return (size_t)n;
}

void tg__ledger_add(const struct tg__fix *fix) {
  char folder[PATH_MAX], path[PATH_MAX + 16], line[320];
  struct tg__writer *w;
  if (!fix->is_known || !name_folder(folder, sizeof folder) || tg__folder_make(folder, NULL)) return;
  snprintf(path, sizeof path, "%s/predictions", folder);
  const int n = snprintf(line, sizeof line, "%s %lld %lld %lld\n", fix->causes, (long long)fix->predicted_ns,
                         (long long)fix->gained_ns, (long long)fix->step_ns);
  char *const bytes = tg__alloc(LEDGER_MOST);
  const size_t had = bytes ? read_ledger(path, bytes, (size_t)n) : 0;
  if (bytes && tg__writer_open(path, &w, NULL) == TG_OK) {
    const bool ok = tg__writer_write(w, bytes, had) && tg__writer_write(w, line, (size_t)n);
    if (ok)
      (void)tg__writer_commit(w, NULL);
    else
      tg__writer_abandon(w);
  }
  tg__free(bytes);
}
