/* The index of rows and the tiles of a trace, timed: view_bench TRACE [threads]. Prints one JSON object: bytes a slice,
 * the time to build the index against one pass over the columns it is made from, batches of 64 tiles, a selection of
 * everything, memory of the columns. Build it like a unit test. */
#include <stdio.h>
#include <stdlib.h>

#include "view/view.h"

enum { ROUNDS = 5, VIEWS = 200, BATCH = 64 };

/* One pass over what the index is made from. */
static int64_t pass(const struct tg__columns *t) {
  int64_t sum = 0;
  for (uint32_t i = 0; i < t->slices.count; i++)
    sum += t->slices.start_ns[i] ^ t->slices.dur_ns[i] ^ t->slices.depth[i] ^ t->slices.lane[i];
  return sum;
}

static int by_value(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* The 64 rows with most slices, at a window somewhere at some zoom. */
static void time_batches(const struct tg__view *v, struct tg__slice_classes *classes) {
  int64_t ns[VIEWS], bytes = 0;
  uint64_t dice = 1;
  struct tg__out o = {0};
  for (int k = 0; k < VIEWS; k++) {
    unsigned level = 0;
    while (((int64_t)TG__TILE_COLUMNS << level) < v->end_ns >> k % 12) level++;
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    const int32_t tile = (int32_t)((dice >> 33) % (uint64_t)((v->end_ns >> (level + 10)) + 1));
    o.len = 0;
    const int64_t begin = tg__clock_ns();
    for (uint32_t i = 0; i < BATCH; i++) tg__view_tile(v, classes, i % v->row_count, level, tile, &o);
    ns[k] = tg__clock_ns() - begin;
    bytes += (int64_t)o.len;
  }
  qsort(ns, VIEWS, sizeof *ns, by_value);
  printf(",\"batch_p50_ms\":%.3f,\"batch_p95_ms\":%.3f,\"batch_bytes\":%lld", (double)ns[VIEWS / 2] / 1e6,
         (double)ns[VIEWS * 95 / 100] / 1e6, (long long)bytes / VIEWS);
  tg__out_free(&o);
}

/* The sums of a selection of everything by name, against one pass that only adds durations by name. */
static bool time_aggregate(const struct tg__view *v, struct tg__slice_classes *classes) {
  const struct tg__columns *const t = v->trace;
  const struct tg__selection all = {.start_ns = 0, .end_ns = v->end_ns + 1, .by = "name", .limit = 500};
  const size_t names = tg__strings_count(t->strings);
  int64_t *const sums = tg__alloc((names + 1) * sizeof *sums), sum_ns = INT64_MAX, aggregate_ns = INT64_MAX, check = 0;
  bool ok = sums != NULL;
  for (int k = 0; k < ROUNDS && ok; k++) {
    int64_t begin = tg__clock_ns();
    for (uint32_t i = 0; i < t->slices.count; i++) sums[t->slices.name[i]] += t->slices.dur_ns[i];
    int64_t took = tg__clock_ns() - begin;
    check += sums[k % names];
    if (took < sum_ns) sum_ns = took;
    struct tg_table *table = NULL;
    begin = tg__clock_ns();
    ok = !tg__view_aggregate(v, classes, &all, &table, NULL);
    took = tg__clock_ns() - begin;
    if (took < aggregate_ns) aggregate_ns = took;
    tg__table_free(table);
  }
  printf(",\"aggregate_ms\":%.2f,\"sum_by_name_ms\":%.2f,\"aggregate_over_sum\":%.2f,\"sums\":%lld",
         (double)aggregate_ns / 1e6, (double)sum_ns / 1e6, (double)aggregate_ns / (double)sum_ns, (long long)check);
  tg__free(sums);
  return ok;
}

/* Of this process, as the system counts it; -1: it does not say. */
static long anonymous_kib(void) {
  FILE *const f = fopen("/proc/self/status", "r");
  char line[256];
  long kib = -1;
  while (f && fgets(line, sizeof line, f)) sscanf(line, "RssAnon: %ld", &kib);
  if (f) fclose(f);
  return kib;
}

int main(int argc, char **argv) {
  struct tg__columns *t;
  struct tg_error e;
  const unsigned threads = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
  if (argc < 2 || tg__trace_open(argv[1], NULL, &t, &e) || tg__trace_load(t, TG__COL_ALL, &e))
    return fprintf(stderr, "view_bench: %s\n", argc < 2 ? "TRACE [threads]" : e.text), 1;
  const long columns_kib = anonymous_kib();
  int64_t pass_ns = INT64_MAX, build_ns = INT64_MAX, sum = 0;
  struct tg__view *v = NULL;
  for (int k = 0; k < ROUNDS; k++) {
    int64_t begin = tg__clock_ns();
    sum += pass(t);
    int64_t took = tg__clock_ns() - begin;
    if (took < pass_ns) pass_ns = took;
    tg__view_close(v);
    begin = tg__clock_ns();
    if (tg__view_open(t, threads, &v, &e)) return fprintf(stderr, "view_bench: %s\n", e.text), 1;
    took = tg__clock_ns() - begin;
    if (took < build_ns) build_ns = took;
  }
  struct tg__slice_classes classes;
  if (!tg__slice_classes_open(&classes, t)) return 1;
  printf(
      "{\"slices\":%u,\"rows\":%u,\"bytes_per_slice\":%.3f,\"build_ms\":%.2f,\"pass_ms\":%.2f,\"build_over_pass\":%.2f",
      t->slices.count, v->row_count, (double)tg__view_bytes(v) / t->slices.count, (double)build_ns / 1e6,
      (double)pass_ns / 1e6, (double)build_ns / (double)pass_ns);
  time_batches(v, &classes);
  if (!time_aggregate(v, &classes)) return 1;
  printf(",\"columns_kib\":%ld,\"index_bytes\":%zu", columns_kib, tg__view_bytes(v));
  printf(",\"checked\":%lld}\n", (long long)sum);
  tg__slice_classes_close(&classes);
  tg__view_close(v);
  tg__trace_free(t);
  return 0;
}
