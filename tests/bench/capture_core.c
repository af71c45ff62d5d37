/* What the recorder's core costs: a pair of range begin and end, inactive and recording, and closing after long
 * runs. By hand:
 *
 *     cc -O2 -I include tests/bench/capture_core.c -o capture_core -L build -ltachograph-capture && ./capture_core
 *     /tmp/x.tacho */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <tachograph/record.h>

static double now_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void pairs(long count) {
  for (long i = 0; i < count; i++) {
    tg_range_begin("aten::add");
    tg_range_end();
  }
}

/* Middle of 21 blocks, CPU time of this thread, ns a pair. */
static int by_value(const void *a, const void *b) { return *(const double *)a < *(const double *)b ? -1 : 1; }
static double pair_ns(long count) {
  double blocks[21];
  for (int i = 0; i < 21; i++) {
    const double begin = now_ns(CLOCK_THREAD_CPUTIME_ID);
    pairs(count);
    blocks[i] = (now_ns(CLOCK_THREAD_CPUTIME_ID) - begin) / (double)count;
  }
  qsort(blocks, 21, sizeof *blocks, by_value);
  return blocks[10];
}

static long resident_kib(void) {
  long size = 0, resident = 0;
  FILE *const f = fopen("/proc/self/statm", "r");
  if (f && fscanf(f, "%ld %ld", &size, &resident) != 2) resident = 0;
  if (f) fclose(f);
  return resident * 4;
}

int main(int argc, char **argv) {
  struct tg_error error;
  struct tg_record_stats stats;
  const struct tg_record_options options = {.path = argc > 1 ? argv[1] : "/tmp/capture_core.tacho", .rank = -1};
  printf("inactive pair %.1f ns\n", pair_ns(200000));
  for (long count = 100000; count <= 10000000; count *= 10) {
    if (tg_record_open(&options, &error) || tg_record_resume(&error)) return 1;
    const long before = resident_kib();
    const double wall = now_ns(CLOCK_MONOTONIC), cpu = now_ns(CLOCK_THREAD_CPUTIME_ID);
    pairs(count);
    const double wall_ns = (now_ns(CLOCK_MONOTONIC) - wall) / (double)count,
                 cpu_ns = (now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu) / (double)count;
    const long after = resident_kib();
    const double stop = now_ns(CLOCK_MONOTONIC);
    if (tg_record_close(&stats, &error)) return 1;
    printf("%9ld records: pair %.1f ns CPU, %.1f ns wall; resident %+ld KiB, budgeted at most %llu KiB; close %.2f ms; "
           "%llu kept, %llu lost\n",
           count, cpu_ns, wall_ns, after - before, (unsigned long long)stats.peak_memory_bytes / 1024,
           (now_ns(CLOCK_MONOTONIC) - stop) / 1e6, (unsigned long long)stats.records, (unsigned long long)stats.lost);
  }
  if (tg_record_open(&options, &error) || tg_record_resume(&error)) return 1;
  printf("recording pair %.1f ns\n", pair_ns(20000));
  return tg_record_close(NULL, &error);
}
