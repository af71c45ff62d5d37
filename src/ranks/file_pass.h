/* file_pass: one pass over the files of a job, for observers of their ranks. A theme of ranks.h. */
#ifndef TG_FILE_PASS_H
#define TG_FILE_PASS_H

#include "analyze/analyze.h"
#include "trace/summary.h"

struct tg__file_ref {
  const struct tg__folder *folder;
  uint32_t index;
  int64_t bytes;
};
static inline struct tg__file_ref tg__file_at(const struct tg__folder *folder, uint32_t index) {
  return (struct tg__file_ref){folder, index, tg__folder_bytes(folder, index)};
}
/* Ranks [first, first + count) of columns, while they are in memory. */
struct tg__seen {
  size_t i; /* number of the file in the pass */
  struct tg__columns *columns;
  uint32_t first, count;
  struct tg__summaries *summaries; /* NULL, or all that a file of summaries holds; columns are NULL then */
};
struct tg__observer {
  void *ctx;
  /* In any thread, of several files at once. An error means that the file could not be read. */
  enum tg_err (*see)(void *ctx, const struct tg__seen *s, struct tg_error *e);
  /* File after file, in their order, from one thread at a time. why: NULL, or why it could not be read. An error ends
   * the pass. May be NULL. */
  enum tg_err (*take)(void *ctx, size_t i, const struct tg_error *why, struct tg_error *e);
};
struct tg__file_pass {
  const struct tg__file_ref *files;
  size_t count;
  unsigned at_once;                      /* files in memory */
  const struct tg_open_options *options; /* NULL: defaults */
  const struct tg_trace *job;            /* NULL, or what names the ranks and sets their clocks */
  bool reads_summaries;                  /* false: a file of summaries could not be read */
  const struct tg__observer *observers;  /* in this order for each file */
  size_t observer_count;
};
/* TG_CANCELLED when progress stopped it, or the error of an observer. */
enum tg_err tg__each_file(const struct tg__file_pass *pass, struct tg_error *e);

enum { TG__FILES_AT_ONCE = 2 }; /* more are not faster by as much as the memory they take */

#endif
