/* fuzz_kernel_lines: any bytes as the member compiled.PID of a trace with a compiled kernel, and as its name. The trace
 * is valid or refused; its lines of the kernel can be asked, and are the same twice. */
#include <stdlib.h>

#include "analyze/host/kernel_lines.h"
#include "ranks/ranks.h"
#include "trace/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char events[] =
    "{\"traceEvents\":["
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"Torch-Compiled Region: 0/0\",\"pid\":1,\"tid\":1,\"ts\":0,\"dur\":9},"
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"graph_0_cpp_fused_0\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":4}],"
    "\"compiled.1\":";

static void ask_kernels(struct tg__columns *t) {
  struct tg_table *table;
  struct tg_error e;
  const char *const name = tg__question_name(TG__Q_compiled_kernels);
  if (tg__ask_trace(&(struct tg_trace){.columns = t}, name, NULL, 0, &table, &e) != TG_OK) {
    if (e.code == TG_INTERNAL) abort();
    return;
  }
  if (!tg__table_is_valid(table, &e)) abort();
  tg__table_free(table);
}

static void check_lines(const struct tg__columns *t) {
  for (uint32_t i = 0; i < t->slices.count; i++) {
    const struct tg__kernel_lines a = tg__kernel_lines_of(t, i, NULL), b = tg__kernel_lines_of(t, i, NULL);
    if (a.count != b.count || a.frames != b.frames) abort();
    for (size_t k = 0; k < a.count; k++)
      if (!a.frames[k].len) abort();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct tg__out text = {0};
  struct tg__columns *t;
  struct tg_error e;
  tg__out_text(&text, events);
  tg__out_bytes(&text, (const char *)data, size);
  tg__out_char(&text, '}');
  if (!text.err && tg__trace_open_bytes(text.buf, text.len, 1, 0, true, &t, &e) == TG_OK) {
    if (!tg__trace_is_valid(t, &e)) abort();
    ask_kernels(t);
    check_lines(t);
    tg__trace_free(t);
  }
  tg__out_free(&text);
  return 0;
}
