/* fuzz_torch_log: any bytes as a log of TORCH_TRACE. The text that comes out is the same in whatever pieces the bytes
 * come; the trace that it makes is valid, and what was compiled can be asked. */
#include "trace/torch_log.h"

#include <stdlib.h>

#include "ranks/ranks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct pieces {
  const uint8_t *p;
  size_t left, most;
};

static int64_t read_piece(void *ctx, void *buf, size_t len, struct tg_error *e) {
  struct pieces *const b = ctx;
  (void)e;
  size_t n = len < b->left ? len : b->left;
  n = n < b->most ? n : b->most;
  memcpy(buf, b->p, n);
  b->p += n;
  b->left -= n;
  return (int64_t)n;
}

static void convert_in(const uint8_t *data, size_t size, size_t most, struct tg__out *text) {
  struct pieces source = {data, size, most};
  struct tg_error e;
  struct tg__torch_log *const log = tg__torch_log_new(read_piece, &source);
  if (!log) abort();
  for (int64_t n = 1; n > 0;) {
    char *const room = tg__out_reserve(text, 1000);
    n = room ? tg__torch_log_read(log, room, 1000, &e) : -1;
    if (n < 0) abort();
    tg__out_commit(text, (size_t)n);
  }
  tg__torch_log_free(log);
}

static void ask_compiles(struct tg__columns *t, const struct tg_arg *args, size_t count) {
  struct tg_table *table;
  struct tg_error e;
  const char *const name = tg__question_name(TG__Q_compiles);
  if (tg__ask_trace(&(struct tg_trace){.columns = t}, name, args, count, &table, &e) == TG_OK) {
    if (!tg__table_is_valid(table, &e)) abort();
    tg__table_free(table);
  } else if (e.code == TG_INTERNAL) {
    abort();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const struct tg_arg by_function = {"by", "function"};
  struct tg__out whole = {0}, pieces = {0};
  struct tg__columns *t;
  struct tg_error e;
  convert_in(data, size, SIZE_MAX, &whole);
  convert_in(data, size, 1 + size % 7, &pieces);
  if (whole.len != pieces.len || memcmp(whole.buf, pieces.buf, whole.len) != 0) abort();
  if (tg__trace_open_bytes(whole.buf, whole.len, 1, 0, true, &t, &e) == TG_OK) {
    if (!tg__trace_is_valid(t, &e)) abort();
    ask_compiles(t, NULL, 0);
    ask_compiles(t, &by_function, 1);
    tg__trace_free(t);
  }
  tg__out_free(&whole);
  tg__out_free(&pieces);
  return 0;
}
