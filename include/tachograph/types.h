/* Tachograph: the types that all its interfaces share, without a function. tachograph/error.h, read.h and record.h
 * include it; the folders of the library before them include nothing else of this folder. */
#ifndef TACHOGRAPH_TYPES_H
#define TACHOGRAPH_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TG_API __attribute__((visibility("default")))
#else
#define TG_API
#endif

/* ---- errors ---------------------------------------------------------------------------------- */

enum tg_err {
#define ERR(name, status, text) TG_##name,
#include "tachograph/err.def"
#undef ERR
  TG_ERR_COUNT
};

struct tg_error {
  enum tg_err code;
  int64_t offset; /* byte of the (unpacked) input the error is about, -1 when there is none */
  char text[480]; /* one sentence: what, where, what to do. NUL-terminated, never empty after a failure */
};

/* ---- traces ---------------------------------------------------------------------------------- */

struct tg_trace;
struct tg_table;

struct tg_open_options {
  unsigned threads; /* workers for reading; 0 = one per usable core */
  /* Called at intervals while reading, from any of the reading threads but never from two at once. done and total are
   * bytes of the files on disk; total is -1 when unknown (a pipe). Return false to stop: tg_open then fails with
   * TG_CANCELLED. NULL = no progress. */
  bool (*progress)(void *ctx, int64_t done, int64_t total);
  void *progress_ctx;
  /* For a folder that is read rank by rank, under the same conditions: number of files done. NULL = not wanted. */
  void (*part_done)(void *ctx, int64_t done, int64_t total);
};

/* ---- questions ------------------------------------------------------------------------------- */

struct tg_arg {
  const char *name;  /* "step", "rank", "track", "by", "sort", "limit", "where", … as listed by tg_question_argument */
  const char *value; /* always text, as one would type it */
};

/* ---- tables ---------------------------------------------------------------------------------- */

enum tg_type { TG_TEXT, TG_INT, TG_REAL, TG_BOOL };

/* "unknown" in a TG_INT column; TG_REAL columns use NaN, TG_TEXT columns a NULL pointer, TG_BOOL -1. */
#define TG_NULL_INT INT64_MIN

#endif
