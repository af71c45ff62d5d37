/* fuzz_kernel_lines: any bytes as the member compiled.PID of a trace with a compiled kernel, and as its name. The trace
 * is valid or refused; its lines and modules of the kernel can be asked, and are the same twice, and the self times of
 * all modules add up to those of the two events. */
#include <stdlib.h>

#include "analyze/host/kernel_lines.h"
#include "ranks/ranks.h"
#include "trace/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char events[] =
    "{\"traceEvents\":["
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"Torch-Compiled Region: 0/0\",\"pid\":1,\"tid\":1,\"ts\":0,\"dur\":9},"
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"graph_0_cpp_fused_0\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":4},"
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":1,\"tid\":1,\"ts\":6,\"dur\":2}],"
    "\"compiled.1\":";

static struct tg_table *answer_of(struct tg__columns *t, const char *name) {
  struct tg_table *table = NULL;
  struct tg_error e;
  if (tg__ask_trace(&(struct tg_trace){.columns = t}, name, NULL, 0, &table, &e) != TG_OK) {
    if (e.code == TG_INTERNAL) abort();
    return NULL;
  }
  if (!tg__table_is_valid(table, &e)) abort();
  return table;
}

static void ask_modules(struct tg__columns *t) {
  enum { ALL_NS = 9000 };
  struct tg_table *const table = answer_of(t, tg__question_name(TG__Q_modules));
  if (!table) return;
  const int64_t *const self_ns = table->columns[tg__table_column_index(table, "self_cpu_ns")].ints;
  int64_t sum_ns = 0;
  for (size_t i = 0; i < table->rows; i++) sum_ns += self_ns[i];
  if (sum_ns != ALL_NS) abort();
  tg__table_free(table);
}

static void check_lines(const struct tg__columns *t) {
  for (uint32_t i = 0; i < t->slices.count; i++) {
    const struct tg__kernel_lines a = tg__kernel_lines_of(t, i, NULL), b = tg__kernel_lines_of(t, i, NULL);
    if (a.count != b.count || a.frames != b.frames) abort();
    for (size_t k = 0; k < a.count; k++)
      if (!a.frames[k].len) abort();
    const struct tg__kernel_modules modules = tg__kernel_modules_of(t, i, NULL);
    const struct tg__str common = tg__common_module(modules);
    for (size_t k = 0; k < modules.count; k++)
      if (common.len > modules.paths[k].len || memcmp(common.ptr, modules.paths[k].ptr, common.len) != 0) abort();
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
    struct tg_table *const kernels = answer_of(t, tg__question_name(TG__Q_compiled_kernels));
    if (kernels) tg__table_free(kernels);
    ask_modules(t);
    check_lines(t);
    tg__trace_free(t);
  }
  tg__out_free(&text);
  return 0;
}
