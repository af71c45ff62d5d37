/* fuzz_sql: any bytes as a query over a small trace. Nothing may crash or write; an answer must be a table that
 * every format can write, a refusal must be a sentence. */
#include <stdlib.h>

#include "show/sql.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_STEPS = 300000, MOST_BYTES = 4096 };

static const char text[] =
    "[{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"tid\":0,\"args\":{\"name\":\"python\"}},"
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":9,\"args\":{\"Input "
    "Dims\":[[2,3]],\"x\":0.5}},"
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1,\"ts\":2,\"dur\":3,"
    "\"args\":{\"correlation\":5}},"
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",\"pid\":0,\"tid\":7,\"ts\":4,\"dur\":7,\"args\":{\"device\":0,"
    "\"stream\":7,\"correlation\":5}},"
    "{\"ph\":\"i\",\"name\":\"[memory]\",\"pid\":1,\"tid\":1,\"ts\":3,\"s\":\"t\",\"args\":{\"Bytes\":-512,\"n\":null,"
    "\"b\":true}},"
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"cut";

static struct tg__columns *trace(void) {
  static struct tg__columns *t; /* opened once, reachable to the end */
  struct tg_error e;
  if (!t && tg__trace_open_bytes((const uint8_t *)text, sizeof text - 1, 1, 0, true, &t, &e)) abort();
  return t;
}

static void write_everywhere(const struct tg_table *table) {
  for (size_t f = 0; f < tg__format_count(); f++) {
    if (!tg__formats[f].table) continue;
    struct tg__out out = {0};
    const struct tg__show_options options = {.width = 80};
    if (tg__formats[f].table(table, &options, &out)) abort();
    if (strcmp(tg__formats[f].name, "json") == 0 && !tg__json_is_valid((struct tg__str){out.buf, (uint32_t)out.len}))
      abort();
    tg__out_free(&out);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char sql[MOST_BYTES + 1];
  if (size > MOST_BYTES) return 0;
  memcpy(sql, data, size);
  sql[size] = 0;
  /* printf('%.*c', 2000000000, 'x') turns a loop inside SQLite that no budget ends: seconds wasted, nothing found */
  if (strcasestr(sql, "printf") || strcasestr(sql, "format")) return 0;
  struct tg_table *table;
  struct tg_error e = {0};
  const enum tg_err err = tg__sql_run_limited(trace(), sql, &(struct tg__sql_limit){.steps = MOST_STEPS}, &table, &e);
  if (err == TG_INTERNAL || (err && (table || !e.text[0]))) abort();
  if (!err && !tg__table_is_valid(table, &e)) abort();
  if (!err) write_everywhere(table);
  tg__table_free(table);
  return 0;
}
