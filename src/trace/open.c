/* open: from a path to a trace. One file is one rank; a directory or a glob is a trace of many. */
#include "trace/import.h"
#include "trace/snapshot.h"
#include "trace/unpickle.h"
#include "trace/store.h"
#include "trace/summary.h"
#include "trace/tacho.h"
#include "trace/torch_log.h"

struct opening {
  struct tg__columns *trace;
  struct tg__build build;
  struct tg__import import;
  struct tg__import_how how;
  const struct tg_open_options *options;
  int64_t total_bytes, done_bytes; /* of files on disk; total -1 = unknown */
  int64_t total_parts;             /* files of a folder */
  struct tg__input *input;         /* being read */
  struct tg__file *kept;           /* the bytes of a pipe that are a .tacho file: to be opened instead */
};

/* ---- an empty trace -------------------------------------------------------------------------- */

bool tg__add_known_strings(struct tg__strings *s) {
  static const char *const texts[] = {
#define KEY(name, text) text,
#include "trace/keys.def"
#undef KEY
  };
  for (uint32_t i = 0; i < TG__K_COUNT; i++)
    if (tg__strings_add(s, texts[i], strlen(texts[i])) != i) return false;
  return true;
}

struct tg__columns *tg__trace_new(void) {
  struct tg__columns *t = tg__alloc(sizeof *t);
  if (!t) return NULL;
  t->strings = tg__strings_new();
  t->store = tg__store_new(TG__STORE_MEMORY);
  t->cache = tg__cache_new();
  if (t->strings && t->store && t->cache && tg__add_known_strings(t->strings)) return t;
  tg__trace_free(t);
  return NULL;
}

void tg__trace_free(struct tg__columns *t) {
  if (!t) return;
  tg__cache_free(t->cache);
  tg__store_free(t->store);
  tg__free(t->ranks);
  tg__free(t->tracks);
  tg__free(t->cats);
  tg__free(t->schemas);
  tg__free(t->steps);
  tg__strings_free(t->strings);
  tg__arena_free(&t->arena);
  tg__free(t);
}

enum tg_err tg__trace_load(struct tg__columns *t, uint32_t columns, struct tg_error *e) {
  if ((t->loaded & columns) == columns) return TG_OK;
  if (t->has_no_events)
    return tg__fail(e, TG_NO_DATA, -1,
                    "this is a summary of %u rank%s without their events: it answers only the questions about ranks",
                    t->rank_count, t->rank_count == 1 ? "" : "s");
  return tg__tacho_load(t, columns, e);
}

uint32_t tg__slice_track(const struct tg__columns *t, uint32_t slice) {
  uint32_t from = 0, to = t->track_count;
  while (to - from > 1) {
    const uint32_t mid = from + (to - from) / 2;
    if (t->tracks[mid].first <= slice)
      from = mid;
    else
      to = mid;
  }
  while (from > 0 && t->tracks[from].count == 0) from--; /* empty tracks share their first with the next */
  return from;
}

/* ---- one file -------------------------------------------------------------------------------- */

static bool report_progress(void *ctx) {
  const struct opening *o = ctx;
  const int64_t here = o->input ? tg__input_bytes_taken(o->input) : 0;
  return o->options->progress(o->options->progress_ctx, o->done_bytes + here, o->total_bytes);
}

/* Forgets the file, keeps the pool and what files share. */
static void reset_import(struct tg__import *im) {
  for (size_t s = 0; s < im->segment_count; s++) tg__pages_drop(im->segments[s].records, im->segments[s].bytes);
  im->segment_count = im->meta_count = im->shared.track_count = 0;
  tg__map_free(&im->shared.track_index);
  im->shared.track_index = (struct tg__map){0};
  im->losses = (struct tg__losses){0};
  memset(im->phases, 0, sizeof im->phases);
  im->bare_array = im->saw_events = im->packed = false;
  im->text_bytes = im->events_read = 0;
  im->is_recording = false;
  im->rank_number = -1;
  im->process_count = 0;
  im->logical_count = 0;
}

void tg__import_release(struct tg__import *im) {
  reset_import(im);
  tg__free(im->segments);
  tg__free(im->meta);
  tg__free(im->logicals);
  tg__free(im->shared.tracks);
  tg__free(im->shared.guesses);
  tg__map_free(&im->shared.schema_index);
  tg__lock_free(im->shared.lock);
}

static enum tg_err no_events(const struct tg__import *im, struct tg_error *e) {
  if (im->phases['M'] > 0)
    return tg__fail(e, TG_NO_EVENTS, -1,
                    "the trace holds metadata only, no events: was the profiler stopped before a step was recorded?");
  return tg__fail(e, TG_NO_EVENTS, -1,
                  "the trace holds no events: was the profiler stopped before a step was recorded?");
}

/* A source after a look at its first bytes. */
struct peeked {
  tg__source_fn *source;
  void *ctx;
  char head[16];
  size_t len, at;
};
static int64_t read_peeked(void *ctx, void *buf, size_t len, struct tg_error *e) {
  struct peeked *const p = ctx;
  if (p->at == p->len) return p->source(p->ctx, buf, len, e);
  const size_t n = p->len - p->at < len ? p->len - p->at : len;
  memcpy(buf, p->head + p->at, n);
  p->at += n;
  return (int64_t)n;
}

/* How many bytes there were, at most len; -1 = *e says why not. */
static int64_t take_peeked(struct peeked *p, unsigned char *into, size_t len, struct tg_error *e) {
  int64_t n = 1;
  size_t at = 0;
  for (; at < len && n > 0; at += n > 0 ? (size_t)n : 0) n = read_peeked(p, into + at, len - at, e);
  return n < 0 ? -1 : (int64_t)at;
}

/* torch.save puts a pickle into a zip archive, first and unpacked: what comes behind its header is the pickle, which
 * knows where it ends. */
static enum tg_err read_zipped(struct opening *o, struct peeked *p, struct tg_error *e) {
  enum { HEADER = 30, METHOD = 8, NAME_LEN = 26, EXTRA_LEN = 28 };
  unsigned char head[HEADER] = {0}, text[1 << 10];
  int64_t got = take_peeked(p, head, HEADER, e);
  const size_t name_len = (head[NAME_LEN] | (size_t)head[NAME_LEN + 1] << 8) % sizeof text;
  if (got >= 0) got = take_peeked(p, text, name_len, e);
  if (got < 0) return e->code;
  const struct tg__str name = {(char *)text, (uint32_t)got};
  if (!tg__str_has_suffix(name, ".pkl") || head[METHOD] || head[METHOD + 1])
    return tg__fail(e, TG_NOT_A_TRACE, -1, "a zip archive, but not of torch.save(): unpack it, and open what is in it");
  for (size_t left = head[EXTRA_LEN] | (size_t)head[EXTRA_LEN + 1] << 8; left > 0 && got > 0; left -= (size_t)got) {
    got = take_peeked(p, text, left < sizeof text ? left : sizeof text, e);
    if (got < 0) return e->code;
  }
  return tg__import_snapshot(&o->import, read_peeked, p, &o->how, e);
}

/* A .tacho file is not read in order, and one on the disk was opened before it came to this: here is all of a
 * pipe's. */
static enum tg_err keep_tacho(struct opening *o, struct peeked *p, struct tg_error *e) {
  enum { PIECE = 1 << 16 };
  if (!o->input || tg__input_packing(o->input) != TG__PLAIN)
    return tg__fail(e, TG_UNSUPPORTED, -1, "this is a .tacho file that was packed once more: unpack it first");
  void *bytes = NULL;
  size_t len = 0, cap = 0;
  int64_t n = 1;
  for (; n > 0; len += n > 0 ? (size_t)n : 0) {
    const bool room = tg__grow(&bytes, &cap, len + PIECE, 1);
    if (!room) tg__no_memory(e, "reading a .tacho file from a pipe");
    n = room ? read_peeked(p, (char *)bytes + len, cap - len, e) : -1;
  }
  if (n == 0 && tg__file_keep(bytes, len, &o->kept, e) == TG_OK)
    return TG_UNSUPPORTED; /* the bytes of the pipe are kept: open those */
  if (n < 0) tg__free(bytes);
  return e->code;
}

static enum tg_err read_torch_log(struct opening *o, struct peeked *p, struct tg_error *e) {
  struct tg__torch_log *const log = tg__torch_log_new(read_peeked, p);
  if (!log) return tg__no_memory(e, "reading the log of torch.compile");
  const enum tg_err err = tg__import_text(&o->import, tg__torch_log_read, log, &o->how, e);
  tg__torch_log_free(log);
  return err;
}

static enum tg_err read_text(struct opening *o, tg__source_fn *source, void *ctx, const char *path,
                             struct tg_error *e) {
  struct tg__import *im = &o->import;
  struct peeked p = {.source = source, .ctx = ctx};
  for (int64_t n = 1; n > 0 && p.len < sizeof p.head; p.len += (size_t)n)
    if ((n = source(ctx, p.head + p.len, sizeof p.head - p.len, e)) < 0) return e->code;
  if (tg__tacho_recognise(p.head, p.len)) return keep_tacho(o, &p, e);
  enum tg_err err = tg__looks_like_pickle(p.head, p.len)      ? tg__import_snapshot(im, read_peeked, &p, &o->how, e)
                    : tg__looks_like_torch_log(p.head, p.len) ? read_torch_log(o, &p, e)
                    : p.len >= 4 && memcmp(p.head, "PK\3\4", 4) == 0 ? read_zipped(o, &p, e)
                                                                     : tg__import_text(im, read_peeked, &p, &o->how, e);
  if (err != TG_OK) return err;
  if (im->events_read == im->phases['M']) return no_events(im, e);
  const uint32_t name = tg__strings_add(o->trace->strings, path, strlen(path));
  if (name == TG_NONE) return tg__no_memory(e, "keeping the name of a file");
  return tg__build_rank(&o->build, im, name, e);
}

static int64_t read_input(void *ctx, void *buf, size_t len, struct tg_error *e) {
  return tg__input_read(ctx, buf, len, e);
}

static bool has_suffix(const char *path, const char *suffix) {
  const size_t n = strlen(path), m = strlen(suffix);
  return n >= m && memcmp(path + n - m, suffix, m) == 0;
}

static enum tg_err read_file(struct opening *o, const char *path, struct tg_error *e) {
  reset_import(&o->import);
  enum tg_err err = tg__input_open(path, &o->input, e);
  if (err != TG_OK) return err;
  const enum tg__packing packing = tg__input_packing(o->input);
  o->import.packed = packing != TG__PLAIN;
  if (has_suffix(path, ".gz") != (packing == TG__GZIP) && strcmp(path, "-") != 0 &&
      (has_suffix(path, ".gz") || packing == TG__GZIP))
    tg__count_loss(&o->import.losses, TG__LOSS_bent_packing_name, 0);
  err = read_text(o, read_input, o->input, path, e);
  const int64_t size = tg__input_file_bytes(o->input);
  o->done_bytes += size > 0 ? size : 0;
  tg__input_close(o->input);
  o->input = NULL;
  return err;
}

/* ---- .tacho files among others --------------------------------------------------------------- */

static enum tg_err build_named(struct opening *o, struct tg__str path, struct tg_error *e) {
  const uint32_t name = tg__strings_add(o->trace->strings, path.ptr, path.len);
  if (name == TG_NONE) return tg__no_memory(e, "keeping the name of a file");
  return tg__build_rank(&o->build, &o->import, name, e);
}

/* Each of its ranks becomes one of this trace. */
static enum tg_err read_packed(struct opening *o, const char *path, struct tg_error *e) {
  struct tg__columns *from = NULL;
  enum tg_err err = tg__tacho_open(path, NULL, &from, e);
  if (!err) err = tg__trace_load(from, TG__COL_ALL, e);
  for (uint32_t r = 0; !err && r < from->rank_count; r++) {
    reset_import(&o->import);
    err = tg__packed_read(&o->import, from, r, e);
    const bool own = from->rank_count == 1; /* it is called as the file is; one of several as it was before */
    if (!err)
      err =
          build_named(o, own ? (struct tg__str){path, (uint32_t)strlen(path)} : tg__name(from, from->ranks[r].path), e);
  }
  tg__trace_free(from);
  return err;
}

static enum tg_err read_recorded(struct opening *o, const struct tg__raw_session *run, const char *const *names,
                                 size_t first, struct tg_error *e) {
  reset_import(&o->import);
  const enum tg_err err = tg__raw_session_read(run, names, first, &o->import, o->how.threads, e);
  const char *const leader = names[tg__raw_session_leader(run, first)];
  return err ? err : build_named(o, (struct tg__str){leader, (uint32_t)strlen(leader)}, e);
}

static enum tg_err read_part(struct opening *o, const struct tg__raw_session *run, const char *const *names, size_t i,
                             struct tg_error *e) {
  switch (tg__raw_session_part(run, i)) {
  case TG__RAW_SESSION_PACKED:
    return read_packed(o, names[i], e);
  case TG__RAW_SESSION_FIRST:
    return read_recorded(o, run, names, i, e);
  case TG__RAW_SESSION_MORE:
    return TG_OK;
  default:
    return read_file(o, names[i], e);
  }
}

/* ---- the whole ------------------------------------------------------------------------------- */

static enum tg_err opening_begin(struct opening *o, const struct tg_open_options *options, struct tg_error *e) {
  static const struct tg_open_options defaults;
  o->options = options ? options : &defaults;
  o->trace = o->build.trace = tg__trace_new();
  o->import.shared.trace = o->trace;
  o->import.shared.lock = tg__lock_new();
  if (!o->trace || !o->import.shared.lock) return tg__no_memory(e, "reading the trace");
  o->how.threads = o->options->threads ? o->options->threads : tg__cpu_count();
  if (o->options->progress) o->how.progress = report_progress, o->how.progress_ctx = o;
  o->build.threads = o->how.threads;
  return TG_OK;
}

/* Ends the opening: on success *out is the trace, otherwise everything is freed. */
static enum tg_err opening_end(struct opening *o, enum tg_err err, struct tg__columns **out, struct tg_error *e) {
  struct tg__import *im = &o->import;
  if (err == TG_OK) err = tg__build_finish(&o->build, e);
  if (o->trace) {
    tg__build_hand_over(&o->build);
    o->trace->args = im->pool;
    o->trace->args_bytes = im->pool_len;
    if (im->pool && !tg__store_adopt(o->trace->store, im->pool, im->pool_cap)) {
      tg__pages_drop(im->pool, im->pool_cap);
      err = tg__no_memory(e, "reading the trace");
    }
  }
  tg__import_release(im);
  if (err == TG_OK)
    *out = o->trace;
  else
    tg__trace_free(o->trace);
  return err;
}

bool tg__is_trace_name(const char *name) {
  static const char *const suffixes[] = {".json", ".json.gz", ".json.zst", ".gz", ".zst", ".tacho", ".pickle", ".pkl"};
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
    if (has_suffix(name, suffixes[i])) return true;
  return has_suffix(name, ".log") && strstr(name, "torch_trace") != NULL; /* what TORCH_TRACE writes */
}

/* A sentence about a file names it: readers of the text do not know which of a job's files it is about. */
static enum tg_err name_file(struct tg_error *e, const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash && slash[1] ? slash + 1 : path;
  if (strstr(e->text, name) || strcmp(path, "-") == 0 || e->code == TG_CANCELLED) return e->code;
  const struct tg_error bare = *e;
  const size_t len = strlen(path), most = 200;
  return tg__fail(e, bare.code, bare.offset, "%s%s: %s", len > most ? "…" : "", len > most ? path + len - most : path,
                  bare.text);
}

/* Files that are no traces (a memory timeline beside the ranks) are passed over and counted, unless none is one. */
static enum tg_err read_many(struct opening *o, const char *path, const struct tg__raw_session *run, const char **names,
                             size_t count, struct tg_error *e) {
  int64_t passed_over = 0;
  size_t tried = 0;
  o->how.no_timeline = true;
  struct tg_error first = {0};
  for (size_t i = 0; i < count; i++) {
    if (!tg__is_trace_name(names[i])) continue;
    struct tg_error why = {0};
    if (o->options->part_done) o->options->part_done(o->options->progress_ctx, (int64_t)tried, o->total_parts);
    tried++;
    const uint32_t ranks = o->trace->rank_count;
    const enum tg_err err = read_part(o, run, names, i, &why);
    if (err == TG_OK) continue;
    if (err == TG_CANCELLED || err == TG_MEMORY || err == TG_INTERNAL || o->trace->rank_count != ranks) {
      if (e) *e = why;
      return err;
    }
    name_file(&why, names[i]);
    if (passed_over++ == 0) first = why;
    tg__trace_add_skipped(o->trace, names[i], why.text);
  }
  if (tried == 0) return tg__no_traces(path, e);
  if (o->trace->rank_count == 0)
    return tried == 1
               ? tg__fail(e, first.code, first.offset, "the only file that may be a trace cannot be read: %s",
                          first.text)
               : tg__fail(e, first.code, first.offset, "none of the %zu files of %s could be read; the first says: %s",
                          tried, path, first.text);
  o->trace->ranks[0].loss[TG__LOSS_skipped_file] = passed_over;
  o->trace->ranks[0].loss_offset[TG__LOSS_skipped_file] = -1; /* of no place in any file */
  return TG_OK;
}

static enum tg_err read_path(struct opening *o, const char *path, struct tg_error *e) {
  if (!tg__path_is_of_many(path)) return read_file(o, path, e);
  struct tg__arena arena = {0};
  const char **names;
  size_t count;
  enum tg_err err = tg__trace_list(path, &arena, &names, &count, e);
  for (size_t i = 0; err == TG_OK && i < count; i++) {
    struct tg__file *f;
    if (!tg__is_trace_name(names[i]) || tg__file_open(names[i], &f, NULL) != TG_OK) continue;
    o->total_bytes += tg__file_size(f);
    o->total_parts++;
    tg__file_close(f);
  }
  struct tg__raw_session *const run = err == TG_OK ? tg__raw_session_new(names, count) : NULL;
  if (err == TG_OK && !run) err = tg__no_memory(e, "looking at the files of %s", path);
  if (err == TG_OK) err = read_many(o, path, run, names, count, e);
  tg__raw_session_free(run);
  tg__arena_free(&arena);
  return err;
}

/* 1 = a .tacho file, 0 = something else, -1 = *e says why it cannot be opened. Pipes are not looked at: they cannot
 * be read twice. */
static int is_tacho(const char *path, int64_t *size, struct tg_error *e) {
  *size = -1;
  if (strcmp(path, "-") != 0 && tg__path_kind(path) != TG__PATH_FILE) return 0;
  struct tg__file *f;
  if (tg__file_open(path, &f, e) != TG_OK) return -1;
  char head[16] = {0};
  *size = tg__file_size(f);
  if (*size < 0) { /* a pipe */
    tg__file_close(f);
    return 0;
  }
  const int64_t n = tg__file_read_at(f, head, sizeof head, 0);
  tg__file_close(f);
  return n > 0 && tg__tacho_recognise(head, (size_t)n);
}

static enum tg_err open_summary(const char *path, struct tg__file *file, struct tg__columns **out,
                                struct tg__summaries **summaries, struct tg_error *e) {
  int64_t damaged;
  struct tg__summaries *const s = tg__summaries_new();
  if (!s) {
    tg__file_close(file);
    return tg__no_memory(e, "opening %s", path);
  }
  enum tg_err err = tg__summaries_read(s, path, file, &damaged, e);
  if (!err) err = tg__trace_of_summaries(s, path, out, e);
  if (err) {
    tg__summaries_free(s);
    return err;
  }
  (*out)->ranks[0].loss[TG__LOSS_skipped_file] = damaged;
  *summaries = s;
  return TG_OK;
}

/* file: its bytes, taken over; NULL: those at the path. */
static enum tg_err open_tacho(const char *path, struct tg__file *file, struct tg__columns **out,
                              struct tg__summaries **summaries, struct tg_error *e) {
  if (tg__summaries_recognise(path, file)) return open_summary(path, file, out, summaries, e);
  const enum tg_err err = tg__tacho_open(path, file, out, e);
  if (err != TG_OK || (*out)->slices.count > 0 || (*out)->marks.count > 0) return err;
  tg__trace_free(*out); /* none is saved without events */
  *out = NULL;
  return tg__fail(
      e, TG_DAMAGED, -1,
      "the file is cut or damaged before its events, none is left: convert it again from the trace it was made of");
}

static enum tg_err open_any(const char *path, const struct tg_open_options *options, struct tg__columns **out,
                            struct tg__summaries **summaries, struct tg_error *e) {
  int64_t size;
  const int tacho = is_tacho(path, &size, e);
  if (tacho < 0) return e->code;
  if (tacho) return open_tacho(path, NULL, out, summaries, e);
  struct opening *o = tg__alloc(sizeof *o);
  if (!o) return tg__no_memory(e, "reading the trace");
  o->total_bytes = tg__path_kind(path) == TG__PATH_DIR || tg__path_kind(path) == TG__PATH_NONE ? 0 : size;
  enum tg_err err = opening_begin(o, options, e);
  if (err == TG_OK) err = read_path(o, path, e);
  err = opening_end(o, err, out, e);
  struct tg__file *const kept = o->kept;
  tg__free(o);
  return kept ? open_tacho(path, kept, out, summaries, e) : err;
}

static enum tg_err drop(struct tg__columns **out, struct tg__summaries **summaries, enum tg_err err) {
  tg__trace_free(*out);
  tg__summaries_free(*summaries);
  *out = NULL;
  *summaries = NULL;
  return err;
}

enum tg_err tg__trace_or_summary_open(const char *path, const struct tg_open_options *options, struct tg__columns **out,
                                      struct tg__summaries **summaries, struct tg_error *e) {
  struct tg_error ignored;
  if (!e) e = &ignored;
  *out = NULL;
  *summaries = NULL;
  if (open_any(path, options, out, summaries, e) != TG_OK) return name_file(e, path);
  (*out)->path = tg__arena_copy(&(*out)->arena, path, strlen(path));
  return (*out)->path ? TG_OK : drop(out, summaries, tg__no_memory(e, "opening %s", path));
}

enum tg_err tg__trace_open(const char *path, const struct tg_open_options *options, struct tg__columns **out,
                           struct tg_error *e) {
  struct tg__summaries *summaries;
  const enum tg_err err = tg__trace_or_summary_open(path, options, out, &summaries, e);
  return err || !summaries ? err : drop(out, &summaries, tg__trace_load(*out, TG__COL_ALL, e));
}

/* ---- one rank after the other ---------------------------------------------------------------- */

struct tg__folder {
  struct tg__arena arena;
  const char **names;
  size_t count;
  struct tg__raw_session *session; /* NULL: one file, whatever it is called */
};

enum tg_err tg__folder_open(const char *path, struct tg__folder **out, struct tg_error *e) {
  struct tg__folder *const f = tg__alloc(sizeof *f);
  enum tg_err err = TG_MEMORY;
  *out = NULL;
  if (!f) return tg__no_memory(e, "looking at %s", path);
  if (tg__path_is_of_many(path)) {
    err = tg__trace_list(path, &f->arena, &f->names, &f->count, e);
    f->session = err ? NULL : tg__raw_session_new(f->names, f->count);
    if (!err && !f->session) err = tg__no_memory(e, "looking at the files of %s", path);
  } else if ((f->names = tg__arena_get(&f->arena, sizeof *f->names)) &&
             (f->names[0] = tg__arena_copy(&f->arena, path, strlen(path)))) {
    f->count = 1;
    err = TG_OK;
  }
  if (err)
    tg__folder_close(f);
  else
    *out = f;
  return err;
}

void tg__folder_close(struct tg__folder *f) {
  if (!f) return;
  if (f->session) tg__raw_session_free(f->session);
  tg__arena_free(&f->arena);
  tg__free(f);
}

size_t tg__folder_count(const struct tg__folder *f) { return f->count; }

const char *tg__folder_path(const struct tg__folder *f, size_t i) { return f->names[i]; }

bool tg__is_summary_name(const char *name) { return has_suffix(name, ".tsum"); }

int64_t tg__folder_bytes(const struct tg__folder *f, size_t i) {
  struct tg__file *file;
  if (f->session && !tg__is_trace_name(f->names[i]) && !tg__is_summary_name(f->names[i])) return 0;
  if (tg__file_open(f->names[i], &file, NULL) != TG_OK) return 0;
  const int64_t size = tg__file_size(file);
  tg__file_close(file);
  return size < 0 ? 0 : size;
}

enum tg_err tg__folder_read(const struct tg__folder *f, size_t i, const struct tg_open_options *options,
                            struct tg__columns **out, struct tg__summaries **summaries, struct tg_error *e) {
  struct tg__summaries *own = NULL;
  *out = NULL;
  if (summaries) *summaries = NULL;
  const enum tg__raw_session_part part = f->session ? tg__raw_session_part(f->session, i) : TG__RAW_SESSION_OTHER;
  if (f->session &&
      ((!tg__is_trace_name(f->names[i]) && !tg__is_summary_name(f->names[i])) || part == TG__RAW_SESSION_MORE))
    return TG_OK;
  if (part != TG__RAW_SESSION_FIRST) {
    const enum tg_err err = tg__trace_or_summary_open(f->names[i], options, out, summaries ? summaries : &own, e);
    return own ? drop(out, &own, err) : err;
  }
  struct opening *const o = tg__alloc(sizeof *o);
  if (!o) return tg__no_memory(e, "reading %s", f->names[i]);
  enum tg_err err = opening_begin(o, options, e);
  if (err == TG_OK) err = read_recorded(o, f->session, f->names, i, e);
  err = opening_end(o, err, out, e);
  tg__free(o);
  return err;
}

/* ---- bytes in memory: for tests and fuzzing -------------------------------------------------- */

struct bytes {
  const char *p;
  size_t left;
};
static int64_t read_bytes(void *ctx, void *buf, size_t len, struct tg_error *e) {
  (void)e;
  struct bytes *b = ctx;
  const size_t n = len < b->left ? len : b->left;
  memcpy(buf, b->p, n);
  b->p += n;
  b->left -= n;
  return (int64_t)n;
}

enum tg_err tg__trace_open_bytes(const void *bytes, size_t len, unsigned threads, size_t block_bytes, bool portable,
                                 struct tg__columns **out, struct tg_error *e) {
  *out = NULL;
  struct opening *o = tg__alloc(sizeof *o);
  struct bytes source = {bytes, len};
  struct tg_open_options options = {.threads = threads};
  if (!o) return tg__no_memory(e, "reading the trace");
  enum tg_err err = opening_begin(o, &options, e);
  o->how.block_bytes = block_bytes;
  o->how.scan = portable ? tg__scan_events_portable : NULL;
  if (err == TG_OK) err = read_text(o, read_bytes, &source, "(memory)", e);
  err = opening_end(o, err, out, e);
  tg__free(o);
  return err;
}
