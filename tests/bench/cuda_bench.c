/* What a record of CUPTI costs the helper thread: a buffer of kernels and launches is copied, decoded, and decoded and
 * written, in turn; CPU time a record and the ratios to the copy of the same round, medians. Sixty-four buffers in
 * turn: one that CUPTI filled lies in no cache of the helper's. Needs no GPU and no library: the walk goes by the sizes
 * of records.
 *
 *   cuda_bench FOLDER      where the recording may lie
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/cuda.h"

enum {
  KERNEL_BYTES = 208,
  CALL_BYTES = 40,
  PAIRS = 4000,
  ROUNDS = 9,
  CONFIGS = 64,
  BUFFERS = 64,
  RECORDS = 2 * PAIRS * BUFFERS
};
static uint8_t buffer[PAIRS * (KERNEL_BYTES + CALL_BYTES)], copy[sizeof buffer], buffers[BUFFERS][sizeof buffer];

static int next(uint8_t *begin, size_t valid, void **record) {
  uint8_t *at = *record;
  uint32_t kind;
  if (at) memcpy(&kind, at, sizeof kind);
  at = at ? at + (kind == TG_CUPTI_RUNTIME ? CALL_BYTES : KERNEL_BYTES) : begin;
  *record = at;
  return at < begin + valid ? 0 : 12;
}

static void put(uint8_t *r, size_t at, uint64_t v, size_t bytes) { memcpy(r + at, &v, bytes); }

static void fill(uint64_t ticks) {
  static const char *const names[] = {"gemm_128x128", "softmax_warp_forward", "layer_norm", "vectorized_elementwise"};
  uint8_t *r = buffer;
  for (uint32_t i = 0; i < PAIRS; i++) {
    put(r, 0, TG_CUPTI_RUNTIME, 4);
    put(r, 4, 211, 4);
    put(r, 8, ticks, 8);
    put(r, 16, ticks + 500, 8);
    put(r, 32, i + 1, 4);
    r += CALL_BYTES;
    put(r, 0, TG_CUPTI_CONCURRENT_KERNEL, 4);
    put(r, 16, ticks + 1000, 8);
    put(r, 24, ticks + 2000, 8);
    put(r, 44, 1, 4);
    put(r, 48, 7 + i % 4, 4);
    put(r, 52, 1 + i % CONFIGS, 4);
    put(r, 64, 256, 4);
    put(r, 92, i + 1, 4);
    put(r, 104, (uint64_t)(uintptr_t)names[i % 4], 8);
    r += KERNEL_BYTES;
  }
}

static void count(void *n, const struct tg__cuda_event *e) { ++*(uint64_t *)n; }
static int no_name(uint32_t domain, uint32_t function, const char **name) { return 1; }

static int take_clock(tg__cupti_time *time) { return 0; }
static int our_time(uint64_t *time) { return *time = tg__ticks(), 0; }

/* Of this thread: work of others on its core in between does not count. */
static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double copy_all(void) {
  const double begin = now_ns();
  for (int k = 0; k < BUFFERS; k++) {
    memcpy(copy, buffers[k], sizeof copy);
    __asm__ volatile("" : : "r"(copy) : "memory"); /* or the compiler leaves it out */
  }
  return (now_ns() - begin) / RECORDS;
}

static double decode_all(tg__cuda_sink *sink, void *context) {
  const double begin = now_ns();
  for (int k = 0; k < BUFFERS; k++) {
    tg__cuda_clock_set_limits();
    tg__cuda_decode(buffers[k], sizeof buffer, next, sink, context);
  }
  return (now_ns() - begin) / RECORDS;
}

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *of) {
  qsort(of, ROUNDS, sizeof *of, compare);
  return of[ROUNDS / 2];
}

int main(int argc, char **argv) {
  char path[512];
  uint64_t n = 0;
  double copied[ROUNDS], decoded[ROUNDS], written[ROUNDS], decoded_ratio[ROUNDS], written_ratio[ROUNDS];
  struct tg_error e;
  snprintf(path, sizeof path, "%s/cuda_bench.tacho", argc > 1 ? argv[1] : "/tmp");
  const struct tg_record_options options = {.path = path, .rank = -1, .features = TG_RECORD_PROCESS};
  if (tg_record_open(&options, &e) || tg_record_resume(&e)) return puts(e.text), 1;
  fill(tg__ticks());
  for (int k = 0; k < BUFFERS; k++) memcpy(buffers[k], buffer, sizeof buffer);
  tg__cupti.cuptiGetCallbackName = no_name;
  tg__cupti.cuptiActivityRegisterTimestampCallback = take_clock;
  tg__cupti.cuptiGetTimestamp = our_time;
  tg__cuda_clock_start();
  tg__cuda_write_start();
  copy_all(); /* its pages */
  for (int i = 0; i < ROUNDS; i++) {
    copied[i] = copy_all();
    decoded[i] = decode_all(count, &n);
    written[i] = decode_all(tg__cuda_write, NULL);
    decoded_ratio[i] = decoded[i] / copied[i];
    written_ratio[i] = written[i] / copied[i];
  }
  tg_record_close(NULL, &e);
  remove(path);
  printf("{\"memcpy_ns\": %.2f, \"decoded_ns\": %.2f, \"written_ns\": %.2f, \"decoded_ratio\": %.2f, "
         "\"written_ratio\": %.2f}\n",
         median(copied), median(decoded), median(written), median(decoded_ratio), median(written_ratio));
  return n == (uint64_t)ROUNDS * RECORDS ? 0 : 1;
}
