/* The questions memory_stats and memory_summary: an allocator's counters as numbers, and as
 * torch.cuda.memory_summary() shows them. */
#include "analyze/memory/memory_counters.h"

#include <stdio.h>

static const char *const metric_names[TG__ALLOC_METRICS] = {
    [TG__COUNT_ALLOCATION] = "allocation",
    [TG__COUNT_ALLOCATED_BYTES] = "allocated_bytes",
    [TG__COUNT_ACTIVE] = "active",
    [TG__COUNT_ACTIVE_BYTES] = "active_bytes",
    [TG__COUNT_REQUESTED_BYTES] = "requested_bytes",
    [TG__COUNT_SEGMENT] = "segment",
    [TG__COUNT_RESERVED_BYTES] = "reserved_bytes",
    [TG__COUNT_INACTIVE_SPLIT] = "inactive_split",
    [TG__COUNT_INACTIVE_SPLIT_BYTES] = "inactive_split_bytes",
    [TG__COUNT_OOMS] = "num_ooms",
    [TG__COUNT_DEVICE_ALLOC] = "num_device_alloc",
    [TG__COUNT_DEVICE_FREE] = "num_device_free",
};
static const char *const pool_names[TG__ALLOC_POOLS] = {"all", "large_pool", "small_pool"};

typedef void put_fn(const struct tg__columns *t, const struct tg__ask *a, const struct tg__alloc_device *d,
                    const struct tg__alloc_counters *c, struct tg_table *out);

static void put_stats(const struct tg__columns *t, const struct tg__ask *a, const struct tg__alloc_device *d,
                      const struct tg__alloc_counters *counters, struct tg_table *out) {
  char buf[TG__DEVICE_NAME];
  (void)a;
  for (unsigned m = 0; m < TG__ALLOC_METRICS; m++)
    for (unsigned k = 0; k < (m < TG__COUNT_POOLED ? TG__ALLOC_POOLS : 1); k++) {
      const struct tg__alloc_counter *const c = &counters->of[m][k];
      tg__put_rank(out, t, d->rank);
      tg__put_cstr(out, tg__memory_device_name(d->type, d->id, buf));
      tg__put_cstr(out, metric_names[m]);
      tg__put_cstr(out, pool_names[k]);
      tg__put_int(out, c->current);
      tg__put_int(out, c->peak);
      tg__put_int(out, c->allocated);
      tg__put_int(out, c->freed);
    }
}

/* ---- as torch shows them --------------------------------------------------------------------- */

static const struct line {
  const char *name;
  enum tg__alloc_metric metric;
  bool is_bytes;
} lines[] = {
    {"Allocated memory", TG__COUNT_ALLOCATED_BYTES, true},
    {"Active memory", TG__COUNT_ACTIVE_BYTES, true},
    {"Requested memory", TG__COUNT_REQUESTED_BYTES, true},
    {"GPU reserved memory", TG__COUNT_RESERVED_BYTES, true},
    {"Non-releasable memory", TG__COUNT_INACTIVE_SPLIT_BYTES, true},
    {"Allocations", TG__COUNT_ALLOCATION, false},
    {"Active allocs", TG__COUNT_ACTIVE, false},
    {"GPU reserved segments", TG__COUNT_SEGMENT, false},
    {"Non-releasable allocs", TG__COUNT_INACTIVE_SPLIT, false},
};

/* The unit is that of the figure of all pools, so that those of a column compare. */
static void put_figure(struct tg_table *out, int64_t value, int64_t all, bool is_bytes) {
  static const char *const sizes[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"}, *const counts[] = {"", "K", "M"};
  const double most = is_bytes ? 768 * 1024 : 750 * 1000;
  const int64_t step = is_bytes ? 1024 : 1000;
  unsigned unit = 0;
  char text[40];
  for (double left = (double)all; left >= most && unit + 1 < (is_bytes ? 6 : 3); left /= (double)step) {
    unit++;
    value /= step;
  }
  const char *const name = is_bytes ? sizes[unit] : counts[unit];
  snprintf(text, sizeof text, "%lld%s%s", (long long)value, *name ? " " : "", name);
  tg__put_cstr(out, text);
}

static void put_stats_summary(const struct tg__columns *t, const struct tg__ask *a, const struct tg__alloc_device *d,
                              const struct tg__alloc_counters *counters, struct tg_table *out) {
  char buf[TG__DEVICE_NAME];
  const unsigned pools = strcmp(tg__ask_arg(a, "pools"), "1") == 0 ? TG__ALLOC_POOLS : 1;
  const char *const device = tg__memory_device_name(d->type, d->id, buf);
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    for (unsigned k = 0; k < pools; k++) {
      const struct tg__alloc_counter *const c = &counters->of[lines[i].metric][k],
                                            *const all = &counters->of[lines[i].metric][TG__POOL_ALL];
      const int64_t values[] = {c->current, c->peak, c->allocated, c->freed},
                    of_all[] = {all->current, all->peak, all->allocated, all->freed};
      tg__put_rank(out, t, d->rank);
      tg__put_cstr(out, device);
      tg__put_cstr(out, k == TG__POOL_ALL     ? lines[i].name
                        : k == TG__POOL_LARGE ? "  from large pool"
                                              : "  from small pool");
      for (size_t v = 0; v < 4; v++)
        if (values[v] == TG_NULL_INT || of_all[v] == TG_NULL_INT)
          tg__put_null(out);
        else
          put_figure(out, values[v], of_all[v], lines[i].is_bytes);
    }
  tg__table_note(out, "%s: out of memory %lld times", device,
                 (long long)counters->of[TG__COUNT_OOMS][TG__POOL_ALL].current);
}

/* ---- the questions --------------------------------------------------------------------------- */

static enum tg_err answer_stats(const struct tg__columns *t, const struct tg__ask *a, put_fn *put, struct tg_table *out,
                                struct tg_error *e) {
  struct tg__alloc_history h;
  struct tg__alloc_counters counters;
  enum tg_err err = tg__alloc_history_read(t, a, &h, e);
  for (uint32_t d = 0; d < h.device_count && !err; d++) {
    if (!h.devices[d].events) continue; /* not the one that was asked for */
    if (!tg__alloc_counters_of(t, &h, d, &counters))
      err = tg__no_memory(e, "counting allocations");
    else
      put(t, a, &h.devices[d], &counters, out);
  }
  if (!err) tg__table_note(out, "counted only over the history: memory from before counts as taken at its beginning");
  if (!err && tg__strings_find(t->strings, "memory_snapshot", 15) != TG_NONE)
    tg__table_note(
        out,
        "torch records what was asked for: blocks that are no longer there count rounded up as its allocator does");
  tg__alloc_history_free(&h);
  return err;
}

enum tg_err tg__answer_memory_stats(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                    struct tg_error *e) {
  return answer_stats(t, a, put_stats, out, e);
}

enum tg_err tg__answer_memory_summary(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                      struct tg_error *e) {
  static const char *const choices[] = {"0", "1"};
  size_t pools;
  const enum tg_err err = tg__ask_choice(a, "pools", choices, 2, &pools, e);
  return err ? err : answer_stats(t, a, put_stats_summary, out, e);
}
