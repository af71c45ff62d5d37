/* The critical path by HTA's rules: what it makes of names, in which order it takes device work, and where its graph
 * differs (docs/metrics.md). Its rows are in critical_rows_hta.c. */
#include "analyze/compat/hta/critical_hta.h"
#include "analyze/compat/compat.h"
#include "analyze/table/numpy_sort.h"

static bool is_one_of(struct tg__str name, const char *const *list, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (tg__str_eq(name, (struct tg__str){list[i], (uint32_t)strlen(list[i])})) return true;
  return false;
}

/* What it counts as waiting and as launching, and no other. */
static unsigned hta_critical_name_of(struct tg__str name) {
  static const char *const blocking[] = {
      "cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventQuery", "cudaEventSynchronize", "cudaMemcpy",
      "cudaMemcpyAsync"};
  static const char *const launches[] = {
      "cudaLaunchKernel", "cudaLaunchKernelExC",      "cuLaunchKernel",
      "cuLaunchKernelEx", "cudaMemcpyAsync",          "cudaMemsetAsync",
      "hipLaunchKernel",  "hipExtModuleLaunchKernel", "hipMemcpyAsync",
      "hipMemsetAsync",   "hipMemcpyWithStream",      "runFunction - job_prep_and_submit_for_execution"};
  unsigned flags = 0;
  if (is_one_of(name, blocking, sizeof blocking / sizeof *blocking)) flags |= TG__CRIT_NAME_BLOCKING;
  if (is_one_of(name, launches, sizeof launches / sizeof *launches)) flags |= TG__CRIT_NAME_LAUNCH;
  return flags;
}

/* It looks at what is left of a name without its <…> and (…), behind the last space. 256 bytes of that are compared. */
static bool is_collective_kernel(struct tg__str kernel) {
  static const char *const prefixes[] = {"nccl", "hip", "hccl"};
  char word[256];
  uint32_t len = 0, depth = 0;
  const bool is_short = !tg__str_contains(kernel, "<") && !tg__str_contains(kernel, "(");
  for (uint32_t i = 0; i < kernel.len; i++) {
    const char ch = kernel.ptr[i];
    const bool arrow = !is_short && ch == '-' && i + 1 < kernel.len && kernel.ptr[i + 1] == '>';
    if (arrow) {
      i++;
    } else if (!is_short && (ch == '<' || ch == '(')) {
      depth++;
    } else if (!is_short && (ch == '>' || ch == ')')) {
      depth -= depth > 0;
    } else if (!is_short && depth == 0 && ch == ' ') {
      len = 0;
    } else if (depth == 0 && len < sizeof word) {
      word[len++] = ch;
    }
  }
  const struct tg__str name = {word, len};
  for (size_t k = 0; k < sizeof prefixes / sizeof *prefixes; k++)
    if (tg__str_has_prefix(name, prefixes[k])) return true;
  return tg__str_contains(name, "ncclKernel");
}

static bool sort_rows(const struct tg__crit *c, uint32_t *rows, size_t count) {
  int64_t *times = tg__alloc((count + 1) * sizeof *times);
  uint32_t *order = tg__alloc((count + 1) * sizeof *order);
  const bool ok = times && order;
  for (size_t i = 0; ok && i < count; i++) times[i] = tg__crit_device_time(&c->rows[rows[i]]);
  if (ok) tg__numpy_argsort(times, order, count);
  for (size_t i = 0; ok && i < count; i++) order[i] = rows[order[i]];
  if (ok) memcpy(rows, order, count * sizeof *rows);
  tg__free(times);
  tg__free(order);
  return ok;
}

const struct tg__crit_rules tg__crit_hta = {.tool = "HolisticTraceAnalysis",
                                            .unit_ns = 1000,
                                            .rows = tg__crit_rows_hta,
                                            .name = hta_critical_name_of,
                                            .sort = sort_rows,
                                            .is_collective = is_collective_kernel,
                                            .locks_thread = true,
                                            .ends_innermost = true,
                                            .goes_below_zero = true,
                                            .refuses_cycles = true};
