/* web_files: a file of the page by its path. */
#include "serve/web_files.h"

#include "serve/gate.h"

enum { FILE_MOST = 4 << 20 };

static bool read_embedded(struct tg__str path, struct tg__out *out) {
  for (const struct tg__web_file *f = tg__web_files; f->path; f++)
    if (strlen(f->path) == path.len && memcmp(f->path, path.ptr, path.len) == 0) {
      tg__out_bytes(out, f->bytes, f->len);
      return true;
    }
  return false;
}

bool tg__web_read(const char *folder, struct tg__str path, struct tg__out *out) {
  if (!tg__path_is_plain(path) || !tg__content_type(path)) return false;
  if (!folder) return read_embedded(path, out);
  struct tg__out name = {0};
  tg__out_format(&name, "%s/%.*s", folder, (int)path.len, path.ptr);
  tg__out_char(&name, 0);
  struct tg__file *f = NULL;
  struct tg_error e;
  const bool ok = !name.err && tg__path_kind(name.buf) == TG__PATH_FILE && !tg__file_open(name.buf, &f, &e);
  const int64_t size = ok ? tg__file_size(f) : -1;
  char *const to = size > 0 && size <= FILE_MOST ? tg__out_reserve(out, (size_t)size) : NULL;
  const int64_t got = to ? tg__file_read_at(f, to, (size_t)size, 0) : -1;
  if (got > 0) tg__out_commit(out, (size_t)got);
  if (f) tg__file_close(f);
  tg__out_free(&name);
  return got > 0;
}
