/* answer_source: lines of the program's source: from the file where it is on this machine, else as they were recorded.
 * The members source_folders and source_lines of the document are text of the trace: any bytes may stand in them. */
#include <stdlib.h>

#include "serve/host.h"

enum { SOURCE_MOST = 4 << 20, AROUND_MOST = 50, PATH_MOST = 4096 };

/* ---- which files --------------------------------------------------------------------------------------- */

/* Is there a frame "file(12): …" in the trace? No other file is read. */
static bool is_named(const struct tg__columns *c, const char *file) {
  const size_t len = strlen(file);
  const uint32_t count = tg__strings_count(c->strings);
  if (len < 4 || strcmp(file + len - 3, ".py") != 0) return false;
  for (uint32_t i = 0; i < count; i++) {
    const struct tg__str s = tg__name(c, i);
    for (const char *p = s.ptr, *const end = s.ptr + s.len; (size_t)(end - p) > len; p++) { /* in a stack, too */
      p = memmem(p, (size_t)(end - p), file, len);
      if (!p) break;
      if ((p == s.ptr || p[-1] == ';') && p + len < end && (p[len] == '(' || p[len] == ':')) return true;
    }
  }
  return false;
}

/* ---- lines of a file ---------------------------------------------------------------------------------- */

struct lines {
  int64_t first;
  size_t count;
  char *text[2 * AROUND_MOST + 1]; /* NULL: not known; from tg__alloc */
};

static void lines_free(struct lines *l) {
  for (size_t i = 0; i < l->count; i++) tg__free(l->text[i]);
}

static char *copy_line(const char *from, size_t len) {
  if (len && from[len - 1] == '\r') len--;
  char *const text = tg__alloc(len + 1);
  if (text) memcpy(text, from, len);
  return text;
}

static void cut_lines(const char *text, size_t len, struct lines *l) {
  int64_t number = 1;
  for (const char *p = text, *const end = text + len; p < end && number < l->first + (int64_t)l->count; number++) {
    const char *const newline = memchr(p, '\n', (size_t)(end - p)), *const stop = newline ? newline : end;
    if (number >= l->first) l->text[number - l->first] = copy_line(p, (size_t)(stop - p));
    p = stop + 1;
  }
}

/* false: there is no such file, or it cannot be read. */
static bool read_lines(const char *path, struct lines *l) {
  struct tg_error e;
  struct tg__file *f = NULL;
  if (tg__path_kind(path) != TG__PATH_FILE || tg__file_open(path, &f, &e)) return false;
  const int64_t size = tg__file_size(f);
  char *const text = size >= 0 && size <= SOURCE_MOST ? tg__alloc((size_t)size + 1) : NULL;
  const int64_t got = text ? tg__file_read_at(f, text, (size_t)size, 0) : -1;
  if (got >= 0) cut_lines(text, (size_t)got, l);
  tg__free(text);
  tg__file_close(f);
  return got >= 0;
}

/* ---- where the file is -------------------------------------------------------------------------------- */

static bool join(struct tg__str folder, const char *file, char *path) {
  const size_t len = strlen(file);
  if (folder.len + len >= PATH_MOST) return false;
  memcpy(path, folder.ptr, folder.len);
  memcpy(path + folder.len, file, len + 1);
  return true;
}

/* In the folders that the recorder cut off the names of files. */
static bool read_in_folders(const struct tg__columns *c, const char *file, char *path, struct lines *l) {
  for (uint32_t rank = 0; rank < c->rank_count; rank++) {
    struct tg__members all = tg__members_of(tg__document_member(c, rank, "source_folders"));
    while (tg__members_next(&all)) {
      size_t len;
      char *const folder = tg__json_text(all.value, &len);
      const bool found = folder && join((struct tg__str){folder, (uint32_t)len}, file, path) && read_lines(path, l);
      tg__free(folder);
      if (found) return true;
    }
  }
  return false;
}

/* Where it was, else as it is named from where the server runs, else beside the trace. */
static bool read_source(const struct tg__loaded *t, const char *file, char *path, struct lines *l) {
  if (read_in_folders(t->columns, file, path, l)) return true;
  if (join(TG_STR(""), file, path) && read_lines(path, l)) return true;
  return join((struct tg__str){t->path, (uint32_t)(t->name - t->path)}, file, path) && read_lines(path, l);
}

/* ---- what was recorded -------------------------------------------------------------------------------- */

static void take_recorded(struct tg__str file_lines, struct lines *l) {
  int64_t number;
  for (struct tg__members all = tg__members_of(file_lines); tg__members_next(&all);) {
    if (!tg__str_to_int(all.key, &number) || number < l->first || number >= l->first + (int64_t)l->count) continue;
    char **const text = &l->text[number - l->first];
    if (!*text) *text = tg__json_text(all.value, NULL);
  }
}

static bool is_file(const struct tg__members *m, const char *file) {
  if (!m->has_keys) return false;
  char *const key = tg__json_text((struct tg__str){m->key.ptr - 1, m->key.len + 2}, NULL);
  const bool is = key && strcmp(key, file) == 0;
  tg__free(key);
  return is;
}

static void read_recorded(const struct tg__columns *c, const char *file, struct lines *l) {
  for (uint32_t rank = 0; rank < c->rank_count; rank++)
    for (size_t i = 0; i < c->ranks[rank].meta_count; i++) {
      if (!tg__str_has_prefix(tg__name(c, c->ranks[rank].meta[i].key), "source_lines.")) continue;
      struct tg__members all = tg__members_of(tg__name(c, c->ranks[rank].meta[i].raw));
      while (tg__members_next(&all))
        if (is_file(&all, file)) take_recorded(all.value, l);
    }
}

/* The recorder keeps the first 400 characters of a line. */
static bool is_same_line(const char *recorded, const char *now) {
  const size_t len = strlen(recorded);
  return now && strncmp(recorded, now, len) == 0 && (len >= 400 || !now[len]);
}

/* ---- the call ----------------------------------------------------------------------------------------- */

static void put_source(struct tg__jsonw *w, const struct lines *l, const char *path, bool has_changed) {
  tg__json_open(w, '{');
  tg__json_key(w, "first");
  tg__json_int(w, l->first);
  tg__json_key(w, "from");
  tg__json_cstr(w, path ? "file" : "recording");
  tg__json_key(w, "path");
  tg__json_cstr(w, path);
  tg__json_key(w, "changed");
  tg__json_bool(w, has_changed);
  tg__json_key(w, "lines");
  tg__json_open(w, '[');
  size_t count = l->count;
  while (count && !l->text[count - 1]) count--;
  for (size_t i = 0; i < count; i++) tg__json_cstr(w, l->text[i]);
  tg__json_close(w, ']');
  tg__json_close(w, '}');
}

static void reply_source(struct tg__loaded *t, const struct tg__message *m, const char *file, int64_t line,
                         int64_t around, struct tg__reply *r) {
  char path[PATH_MOST];
  struct lines now = {.first = line - around > 1 ? line - around : 1}, recorded;
  now.count = (size_t)(line + around - now.first + 1);
  recorded = now;
  const bool has_file = read_source(t, file, path, &now);
  read_recorded(t->columns, file, &recorded);
  const char *const was = recorded.text[line - now.first], *const is = now.text[line - now.first];
  const bool has_changed = has_file && was && !is_same_line(was, is);
  struct tg_error e;
  if (!has_file && !was) {
    tg__fail(&e, TG_NOT_FOUND, -1, "%.200s is not on this machine, and the trace does not hold its line %lld", file,
             (long long)line);
    tg__reply_failed(r, m, &e);
  } else {
    struct tg__jsonw w = tg__reply_begin(r, m);
    const bool by_file = has_file && !has_changed;
    put_source(&w, by_file ? &now : &recorded, by_file ? path : NULL, has_changed);
    tg__reply_end(r, &w);
  }
  lines_free(&now);
  lines_free(&recorded);
}

void tg__reply_source(struct tg__host *h, const struct tg__message *m, struct tg__reply *r) {
  struct tg__loaded *const t = tg__reply_trace(h, m, r);
  if (!t) return;
  char *const file = tg__message_text(m, "file");
  int64_t line, around;
  struct tg_error e = {0};
  enum tg_err err =
      file && tg__message_int(m, "line", 1, &line) && line > 0 && line < INT32_MAX &&
              tg__message_int(m, "around", 5, &around) && around >= 0 && around <= AROUND_MOST
          ? TG_OK
          : tg__fail(&e, TG_USAGE, -1, "file is a Python file, line a number of 1 and above, around at most %d",
                     AROUND_MOST);
  if (!err && !is_named(t->columns, file))
    err = tg__fail(&e, TG_NOT_FOUND, -1, "no frame of the trace names the Python file %.200s", file);
  if (err)
    tg__reply_failed(r, m, &e);
  else
    reply_source(t, m, file, line, around, r);
  tg__free(file);
}
