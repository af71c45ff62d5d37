/* cpu_peak: what this machine's CPU can do at most, measured: multiplications with additions on registers, and a sum
 * of two arrays that no cache holds. Other programs may keep the machine busy meanwhile, so each thread counts the time
 * that it is on a core, many short rounds are made, and the best one counts; how far they differ is the error. */
#include "base/base.h"

#include <stdlib.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

enum {
  ROUNDS = 400,      /* of the burners, a tenth of a millisecond each */
  LEAST_ROUNDS = 20, /* however long they take */
  SUMS = 7,          /* rounds of the sums */
  MOST_THREADS = 256,
  ARRAY = 1 << 22 /* floats each of three: 48 MiB a thread */,
  LOOPS = 1 << 16,
  CHAINS = 10
};

/* CHAINS independent chains of vectors hide the latency of each step; in variables of their own, so that they stay
 * in registers. The file is compiled with -ffp-contract=fast, which makes one instruction of a product and a sum.
 * Written once per width, for what has that width. */
#define BURN(name, type, bytes, attributes)                                                                            \
  typedef type name##_lanes __attribute__((vector_size(bytes)));                                                       \
  attributes static type name(unsigned loops) {                                                                        \
    name##_lanes factor, term;                                                                                         \
    for (unsigned l = 0; l < (bytes) / sizeof(type); l++) factor[l] = (type)0.999, term[l] = (type)0.001;              \
    name##_lanes a = term, b = a + term, c = b + term, d = c + term, e = d + term, f = e + term, g = f + term,         \
                 h = g + term, i = h + term, j = i + term;                                                             \
    for (unsigned n = 0; n < loops; n++) {                                                                             \
      a = a * factor + term, b = b * factor + term, c = c * factor + term, d = d * factor + term,                      \
      e = e * factor + term;                                                                                           \
      f = f * factor + term, g = g * factor + term, h = h * factor + term, i = i * factor + term,                      \
      j = j * factor + term;                                                                                           \
    }                                                                                                                  \
    const name##_lanes sum = a + b + c + d + e + f + g + h + i + j;                                                    \
    return sum[0];                                                                                                     \
  }
#if defined(__x86_64__)
BURN(burn_float_64, float, 64, __attribute__((target("avx512f,fma"))))
BURN(burn_double_64, double, 64, __attribute__((target("avx512f,fma"))))
BURN(burn_float_32, float, 32, __attribute__((target("avx2,fma"))))
BURN(burn_double_32, double, 32, __attribute__((target("avx2,fma"))))
#endif
BURN(burn_float_16, float, 16, )
BURN(burn_double_16, double, 16, )

#if defined(__x86_64__)
/* Of sixteen-bit numbers two products each are added to a sum of 32 bits. */
__attribute__((target("avx512f,avx512bf16"))) static float burn_pairs(unsigned loops) {
  const __m512bh x = (__m512bh)_mm512_set1_epi32(0x3f003f00); /* 0.5, twice in each lane */
  __m512 a = _mm512_setzero_ps(), b = a, c = a, d = a, e = a, f = a, g = a, h = a, i = a, j = a;
  for (unsigned n = 0; n < loops; n++) {
    a = _mm512_dpbf16_ps(a, x, x), b = _mm512_dpbf16_ps(b, x, x), c = _mm512_dpbf16_ps(c, x, x),
    d = _mm512_dpbf16_ps(d, x, x);
    e = _mm512_dpbf16_ps(e, x, x), f = _mm512_dpbf16_ps(f, x, x), g = _mm512_dpbf16_ps(g, x, x),
    h = _mm512_dpbf16_ps(h, x, x);
    i = _mm512_dpbf16_ps(i, x, x), j = _mm512_dpbf16_ps(j, x, x);
  }
  return _mm512_cvtss_f32(a + b + c + d + e + f + g + h + i + j);
}
/* A CPU with matrix units (AMX) does more than its vectors can: that peak is not measured. */
static bool has_pairs(void) {
  unsigned a, b, c, d;
  const bool has_tiles = __get_cpuid_count(7, 0, &a, &b, &c, &d) && d >> 22 & 1;
  return tg__cpu_features() & TG__CPU_AVX512F && !has_tiles && __get_cpuid_count(7, 1, &a, &b, &c, &d) && a >> 5 & 1;
}
#endif

static unsigned vector_bytes(void) {
#if defined(__x86_64__)
  const unsigned features = tg__cpu_features();
  if (features & TG__CPU_AVX512F && features & TG__CPU_FMA) return 64;
  if (features & TG__CPU_AVX2 && features & TG__CPU_FMA) return 32;
#endif
  return 16;
}

static const int64_t SPAN_NS = 40000000; /* of one burner: several turns on a core that is shared */

struct work {
  unsigned width;
  void (*body)(void *ctx, size_t i);
  double amount;                                  /* operations of a round */
  double best[MOST_THREADS], usual[MOST_THREADS]; /* operations a second of a core */
  int64_t ns[MOST_THREADS];                       /* on a core, of the last sum */
  float *arrays[MOST_THREADS];
  volatile double kept; /* so that nothing is optimised away */
};

static void burn_floats(void *ctx, size_t i) {
  struct work *const w = ctx;
#if defined(__x86_64__)
  if (w->width == 64) w->kept = (double)burn_float_64(LOOPS);
  if (w->width == 32) w->kept = (double)burn_float_32(LOOPS);
#endif
  if (w->width == 16) w->kept = (double)burn_float_16(LOOPS);
}
static void burn_doubles(void *ctx, size_t i) {
  struct work *const w = ctx;
#if defined(__x86_64__)
  if (w->width == 64) w->kept = burn_double_64(LOOPS);
  if (w->width == 32) w->kept = burn_double_32(LOOPS);
#endif
  if (w->width == 16) w->kept = (double)burn_double_16(LOOPS);
}
#if defined(__x86_64__)
static void burn_bfloats(void *ctx, size_t i) {
  (void)i;
  ((struct work *)ctx)->kept = (double)burn_pairs(LOOPS);
}
#endif
static void stream(void *ctx, size_t i) {
  struct work *const w = ctx;
  float *const restrict to = w->arrays[i];
  const float *const restrict a = to + ARRAY, *const restrict b = to + 2 * (size_t)ARRAY;
  for (size_t k = 0; k < ARRAY; k++) to[k] = a[k] + 0.5F * b[k];
}

/* Pages that were never written are one and the same page of zeros, which a cache does hold. */
static void touch(void *ctx, size_t i) {
  float *const all = ((struct work *)ctx)->arrays[i];
  for (size_t k = 0; k < 3 * (size_t)ARRAY; k++) all[k] = (float)k;
}

static int time_order(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static void time_rounds(void *ctx, size_t i) {
  struct work *const w = ctx;
  int64_t ns[ROUNDS];
  size_t n = 0;
  const int64_t begin = tg__clock_ns();
  while (n < ROUNDS && (n < LEAST_ROUNDS || tg__clock_ns() - begin < SPAN_NS)) {
    const int64_t from = tg__thread_used_ns();
    w->body(w, i);
    ns[n++] = tg__thread_used_ns() - from;
  }
  qsort(ns, n, sizeof *ns, time_order);
  w->best[i] = ns[0] > 0 ? w->amount * 1e9 / (double)ns[0] : 0;
  const int64_t median = ns[n / 2];
  w->usual[i] = median > 0 ? w->amount * 1e9 / (double)median : 0;
}

static double error_pct(double best, double usual) { return best > 0 ? 100 * (best - usual) / best : 100; }

/* All threads at once, as the clock of a core depends on what the others do. */
static double burn_rate(unsigned threads, void (*body)(void *ctx, size_t i), struct work *w, size_t number_bytes,
                        double *error) {
  double best = 0, usual = 0;
  w->body = body;
  w->amount = 2.0 * LOOPS * CHAINS * w->width / (double)number_bytes;
  tg__threads_run(threads, threads, time_rounds, w);
  for (unsigned i = 0; i < threads; i++) best += w->best[i], usual += w->usual[i];
  *error = error_pct(best, usual);
  return best;
}

static void time_sum(void *ctx, size_t i) {
  const int64_t from = tg__thread_used_ns();
  stream(ctx, i);
  ((struct work *)ctx)->ns[i] = tg__thread_used_ns() - from;
}

/* Threads share the memory: while one waits for a core the others have more of it. So the time on a core is too short
 * and the time that passes too long; the truth is between them. */
static double sum_rate(unsigned threads, struct work *w, double *error) {
  double most = 0, least = 0;
  for (unsigned k = 0; k < SUMS; k++) {
    const int64_t begin = tg__clock_ns();
    tg__threads_run(threads, threads, time_sum, w);
    const int64_t wall = tg__clock_ns() - begin;
    int64_t longest = 0;
    for (unsigned i = 0; i < threads; i++) longest = w->ns[i] > longest ? w->ns[i] : longest;
    const double bytes = 3.0 * ARRAY * sizeof(float) * threads * 1e9;
    if (longest > 0 && bytes / (double)longest > most) most = bytes / (double)longest;
    if (wall > 0 && bytes / (double)wall > least) least = bytes / (double)wall;
  }
  *error = error_pct(most, least);
  return most;
}

bool tg__cpu_peak_measure(unsigned threads, struct tg__cpu_peak *out) {
  struct work w = {.width = vector_bytes()};
  double error;
  bool room = true;
  threads = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
  *out = (struct tg__cpu_peak){.threads = threads};
  out->fp64_flop_per_s = burn_rate(threads, burn_doubles, &w, sizeof(double), &error);
#if defined(__x86_64__)
  if (has_pairs()) out->bf16_flop_per_s = burn_rate(threads, burn_bfloats, &w, sizeof(uint16_t), &error);
#endif
  out->fp32_flop_per_s = burn_rate(threads, burn_floats, &w, sizeof(float), &out->flops_error_pct);
  for (unsigned i = 0; i < threads && room; i++)
    room = (w.arrays[i] = tg__alloc(3 * (size_t)ARRAY * sizeof(float))) != NULL;
  if (room) tg__threads_run(threads, threads, touch, &w);
  if (room) out->bytes_per_s = sum_rate(threads, &w, &out->bytes_error_pct);
  for (unsigned i = 0; i < threads; i++) tg__free(w.arrays[i]);
  return room && out->fp32_flop_per_s > 0 && out->bytes_per_s > 0;
}
