/* What recording adds to a step: by steps after the window that were recorded and not in turn, else by its records. */
#include "cli/run_log.h"

#include <math.h>

struct tg__price tg__run_log_price(struct tg__run_log *log) {
  const size_t steps = log->with.count + (log->slow_first_step_ns >= 0), pairs = log->pair_bare.count;
  const int64_t without_ns = tg__overhead_median(log->cpu_without.ns, log->cpu_without.count).median;
  struct tg__price p = {.cost = tg__overhead_of_pairs(log->pair_extra.ns, log->pair_bare.ns, pairs)};
  if (!isnan(p.cost.percent)) {
    p.bare_ns = tg__overhead_median(log->pair_bare.ns, pairs).median;
    return p;
  }
  p.bare_ns = without_ns;
  if (!(log->record_least_ns > 0) || !steps || without_ns <= 0) {
    p.cost = tg__overhead_of(log->cpu_with.ns, log->cpu_with.count, log->cpu_without.ns, log->cpu_without.count);
    return p;
  }
  p.by_records = true;
  p.records = (double)log->window_records / (double)steps;
  p.cost.low = 100 * p.records * log->record_least_ns / (double)without_ns;
  p.cost.high = 100 * p.records * log->record_most_ns / (double)without_ns;
  p.cost.percent = sqrt(p.cost.low * p.cost.high);
  return p;
}
