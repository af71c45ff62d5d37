/* fuzz_snapshot: any bytes through the reader of memory snapshots. The result is a valid trace that survives
 * every question about memory; what does not has a sentence. Nothing is executed, which a fuzzer cannot show:
 * test_snapshot.py has the opcodes that would. */
#include <stdlib.h>

#include "ranks/ranks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask_all(struct tg__columns *t) {
  static const char *const questions[] = {"segments",      "memory_history", "memory_state",
                                          "memory_stacks", "memory_map",     "memory_stats",
                                          "memory",        "tracks",         "losses"};
  static const struct tg_arg by_block = {"by", "block"}, by_pool = {"by", "pool"}, at_end = {"at", "end"};
  struct tg_table *table;
  struct tg_error e;
  for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
    if (tg__ask_trace(&(struct tg_trace){.columns = t}, questions[i], NULL, 0, &table, &e) == TG_OK)
      tg__table_free(table);
    else if (e.code == TG_INTERNAL || !e.text[0])
      abort();
  }
  if (tg__ask_trace(&(struct tg_trace){.columns = t}, "segments", &by_block, 1, &table, &e) == TG_OK)
    tg__table_free(table);
  if (tg__ask_trace(&(struct tg_trace){.columns = t}, "segments", &by_pool, 1, &table, &e) == TG_OK)
    tg__table_free(table);
  if (tg__ask_trace(&(struct tg_trace){.columns = t}, "memory_state", &at_end, 1, &table, &e) == TG_OK)
    tg__table_free(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct tg__columns *t;
  struct tg_error e = {0};
  if (tg__trace_open_bytes(data, size, 1, 0, true, &t, &e) != TG_OK) {
    if (e.text[0] == 0) abort(); /* a refusal without a sentence */
    return 0;
  }
  if (!tg__trace_is_valid(t, &e) || !tg__strings_is_valid(t->strings, &e)) abort();
  ask_all(t);
  tg__trace_free(t);
  return 0;
}
