/* Notes that are added to a trace: the peak of the CPU, members of the document, files that another reader could not
 * read. */
#include "ranks/ranks.h"
#include "tachograph/read.h"

#include <stdio.h>

void tg_add_cpu_peak(struct tg_trace *handle) {
  struct tg__columns *const trace = handle->columns;
  struct tg__cpu_peak peak;
  char text[256];
  for (uint32_t i = 0; i < trace->rank_count; i++)
    if (trace->ranks[i].device_count) return; /* the list of devices has theirs */
  if (!tg__cpu_peak_measure(tg__core_count(), &peak)) return;
  const int n = snprintf(text, sizeof text, "{\"fp32_flop_per_s\": %.4g, \"fp64_flop_per_s\": %.4g, ",
                         peak.fp32_flop_per_s, peak.fp64_flop_per_s);
  const int more = peak.bf16_flop_per_s > 0 ? snprintf(text + n, sizeof text - (size_t)n, "\"bf16_flop_per_s\": %.4g, ",
                                                       peak.bf16_flop_per_s)
                                            : 0;
  snprintf(text + n + more, sizeof text - (size_t)(n + more), "\"bytes_per_s\": %.4g, \"threads\": %u}",
           peak.bytes_per_s, peak.threads);
  (void)tg__trace_add_meta(trace, "cpuPeak", text);
}

bool tg_add_member(struct tg_trace *handle, const char *key, const char *json) {
  return tg__trace_add_meta(handle->columns, key, json);
}

void tg_add_missing(struct tg_trace *handle, const char *path, const char *why) {
  struct tg__rank *const first = &handle->columns->ranks[0];
  tg__trace_add_skipped(handle->columns, path, why);
  if (first->loss[TG__LOSS_skipped_file]++ == 0) first->loss_offset[TG__LOSS_skipped_file] = -1;
}

bool tg_missing(const struct tg_trace *handle, size_t i, const char **path, const char **why) {
  const struct tg__columns *const trace = handle->columns;
  if (i >= trace->skipped_count) return false;
  *path = trace->skipped[i].path;
  *why = trace->skipped[i].why;
  return true;
}
