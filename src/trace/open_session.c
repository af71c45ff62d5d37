/* open_session: which .tacho files of a folder belong together. Each process of a job leaves a file: those that have a
 * rank are one each; a process without, a worker or a subprocess, belongs to the rank of the nearest ancestor that
 * has one. */
#include "trace/import.h"
#include "trace/summary.h"
#include "trace/tacho.h"

enum { NO_RANK = -1, ANCESTORS_MAX = 64 /* pids may run in circles when they were used again */ };

struct member {
  struct tg__raw_process process;
  int64_t bytes;
  bool is_raw, is_packed, has_process;
  uint32_t group; /* position of the first file of its group, TG_NONE = not looked at yet */
};
struct tg__raw_session {
  struct member *members; /* by position in the list of names */
  size_t count;
};

static void read_member(const char *path, struct member *m) {
  struct tg__tacho f = {0};
  if (tg__tacho_list(&f, path, NULL) == TG_OK) {
    m->bytes = (int64_t)f.reader.len;
    m->is_raw = tg__tacho_is_raw(&f);
    m->is_packed = !m->is_raw;
    const struct tg__chunk *const c = m->is_raw ? tg__tacho_find(&f, TG_CHUNK_RAW_PROCESS, 0) : NULL;
    uint8_t payload[TG_RAW_PROCESS_BYTES];
    m->has_process = c && c->length >= sizeof payload &&
                     f.reader.read(f.reader.ctx, c->offset + TG_CHUNK_HEAD_BYTES, payload, sizeof payload) &&
                     tg__raw_process_read(payload, sizeof payload, &m->process);
  }
  tg__tacho_drop(&f);
}

static const struct member *by_pid(const struct tg__raw_session *r, const struct member *child) {
  for (size_t i = 0; i < r->count; i++) {
    const struct member *const m = &r->members[i];
    if (m != child && m->has_process && m->process.session == child->process.session &&
        m->process.process == child->process.parent)
      return m;
  }
  return NULL;
}

/* The rank a process works for: its own, that of an ancestor, else the lowest of its session. */
static int32_t rank_of(const struct tg__raw_session *r, const struct member *m) {
  const struct member *at = m;
  for (int i = 0; i < ANCESTORS_MAX && at && at->process.rank < 0; i++) at = by_pid(r, at);
  if (at && at->process.rank >= 0) return at->process.rank;
  int32_t lowest = NO_RANK;
  for (size_t i = 0; i < r->count; i++) {
    const struct member *const x = &r->members[i];
    if (!x->has_process || x->process.session != m->process.session || x->process.rank < 0) continue;
    if (lowest < 0 || x->process.rank < lowest) lowest = x->process.rank;
  }
  return lowest;
}

static bool belong_together(const struct tg__raw_session *r, const struct member *a, const struct member *b) {
  return a->has_process && b->has_process && a->process.session == b->process.session && rank_of(r, a) == rank_of(r, b);
}

struct tg__raw_session *tg__raw_session_new(const char *const *names, size_t count) {
  struct tg__raw_session *const r = tg__alloc(sizeof *r);
  if (!r) return NULL;
  r->count = count;
  r->members = tg__alloc((count + 1) * sizeof *r->members);
  if (!r->members) {
    tg__free(r);
    return NULL;
  }
  for (size_t i = 0; i < count; i++) {
    const size_t len = strlen(names[i]);
    if (len > 6 && strcmp(names[i] + len - 6, ".tacho") == 0) read_member(names[i], &r->members[i]);
  }
  for (size_t i = 0; i < count; i++) r->members[i].group = TG_NONE;
  for (size_t i = 0; i < count; i++) {
    if (r->members[i].group != TG_NONE) continue;
    for (size_t k = i; k < count; k++) {
      if (k == i || belong_together(r, &r->members[i], &r->members[k])) r->members[k].group = (uint32_t)i;
    }
  }
  return r;
}

void tg__raw_session_free(struct tg__raw_session *r) {
  if (r) tg__free(r->members);
  tg__free(r);
}

enum tg__raw_session_part tg__raw_session_part(const struct tg__raw_session *r, size_t i) {
  const struct member *const m = &r->members[i];
  if (m->is_packed) return TG__RAW_SESSION_PACKED;
  return !m->is_raw ? TG__RAW_SESSION_OTHER : m->group == i ? TG__RAW_SESSION_FIRST : TG__RAW_SESSION_MORE;
}

size_t tg__raw_session_leader(const struct tg__raw_session *r, size_t first) {
  for (size_t i = first; i < r->count; i++) {
    if (r->members[i].group == first && r->members[i].process.rank >= 0) return i;
  }
  for (size_t i = first; i < r->count; i++) {
    const struct member *const above = r->members[i].group == first ? by_pid(r, &r->members[i]) : NULL;
    if (r->members[i].group == first && (!above || above->group != first)) return i;
  }
  return first;
}

/* Files that cannot be opened by now are passed over, but for the leader's. */
enum tg_err tg__raw_session_read(const struct tg__raw_session *r, const char *const *names, size_t first,
                                 struct tg__import *im, unsigned threads, struct tg_error *e) {
  struct tg__tacho **const files = tg__alloc((r->count + 2) * sizeof *files);
  const size_t leader = tg__raw_session_leader(r, first);
  size_t count = 0;
  enum tg_err err = files ? TG_OK : tg__no_memory(e, "opening %s", names[first]);
  for (size_t k = first; !err && k <= r->count; k++) { /* the leader, then the others */
    const size_t i = k == first ? leader : k - 1;
    if (r->members[i].group != first || (count && i == leader)) continue;
    struct tg__tacho *const f = files[count] = tg__alloc(sizeof *f);
    if (!f) {
      err = tg__no_memory(e, "opening %s", names[i]);
    } else if (tg__tacho_list(f, names[i], count ? NULL : e) && count == 0) {
      err = e->code;
    }
    count++;
  }
  if (!err) err = tg__raw_read(im, files, count, threads, e);
  for (size_t i = 0; i < count; i++) {
    if (files[i]) tg__tacho_drop(files[i]);
    tg__free(files[i]);
  }
  tg__free(files);
  return err;
}

/* ---- one that goes on ------------------------------------------------------------------------ */

/* The folder in which `tachograph run` lets a program record, until it makes one file of it. */
static bool is_run_folder(const char *path) {
  const size_t len = strlen(path);
  char raw[4096];
  if (tg__path_kind(path) != TG__PATH_DIR || len + sizeof "/raw" > sizeof raw) return false;
  memcpy(raw, path, len);
  memcpy(raw + len, "/raw", sizeof "/raw");
  if (tg__path_kind(raw) == TG__PATH_DIR) return true;
  return (len == 3 || (len > 3 && path[len - 4] == '/')) && strcmp(path + len - 3, "raw") == 0;
}

/* A worker that was not closed says nothing: it may have been killed by the process that started it. */
static void add_member(const struct tg__raw_session *r, const struct member *m, struct tg__recording *out) {
  if (!m->is_raw) return;
  out->files++;
  out->bytes += m->bytes;
  if (!m->has_process) return;
  out->has_process |= tg__process_runs(m->process.process);
  out->has_parent |= tg__process_runs(m->process.parent);
  out->is_open |= !m->process.stop_ns && !by_pid(r, m);
  const uint64_t *const counts = m->process.counts;
  for (int k = 0; k < TG_RAW_COUNTS; k++) out->pulse = (out->pulse ^ counts[k]) * 0x100000001b3ull;
}

void tg__recording_read(const char *path, struct tg__recording *out) {
  struct tg__arena arena = {0};
  const char **names = &path;
  size_t count = 1;
  const bool is_one = !tg__path_is_of_many(path);
  *out = (struct tg__recording){.is_run = is_run_folder(path), .pulse = 0xcbf29ce484222325ull};
  if (is_one || tg__trace_list(path, &arena, &names, &count, NULL) == TG_OK) {
    struct tg__raw_session *const r = tg__raw_session_new(names, count);
    for (size_t i = 0; r && i < count; i++) add_member(r, &r->members[i], out);
    tg__raw_session_free(r);
  }
  tg__arena_free(&arena);
}
