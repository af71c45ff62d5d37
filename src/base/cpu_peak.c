/* cpu_peak: what this machine's CPU can do at most, measured: multiplications with additions on registers, and a sum
 * of two arrays that no cache holds. Each is repeated for a few hundredths of a second on all threads; the best
 * round counts. */
#include "base/base.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

enum {
  ROUNDS = 5,
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
/* A CPU with matrix units (AMX) does more than its vectors can: of that nothing is said. */
static bool has_pairs(void) {
  unsigned a, b, c, d;
  const bool has_tiles = __get_cpuid_count(7, 0, &a, &b, &c, &d) && d >> 22 & 1;
  return __builtin_cpu_supports("avx512f") && !has_tiles && __get_cpuid_count(7, 1, &a, &b, &c, &d) && a >> 5 & 1;
}
#endif

static unsigned vector_bytes(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("fma")) return 64;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 32;
#endif
  return 16;
}

struct work {
  unsigned width;
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

static double best_rate(unsigned threads, void (*body)(void *ctx, size_t i), struct work *w, double amount) {
  double best = 0;
  for (unsigned i = 0; i < ROUNDS; i++) {
    const int64_t begin = tg__clock_ns();
    tg__parallel(threads, threads, body, w);
    const int64_t ns = tg__clock_ns() - begin;
    if (ns > 0 && amount * threads * 1e9 / (double)ns > best) best = amount * threads * 1e9 / (double)ns;
  }
  return best;
}

bool tg__cpu_peak_measure(unsigned threads, struct tg__cpu_peak *out) {
  struct work w = {.width = vector_bytes()};
  bool room = true;
  threads = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
  *out = (struct tg__cpu_peak){.threads = threads};
  out->fp32_flop_per_s = best_rate(threads, burn_floats, &w, 2.0 * LOOPS * CHAINS * w.width / sizeof(float));
  out->fp64_flop_per_s = best_rate(threads, burn_doubles, &w, 2.0 * LOOPS * CHAINS * w.width / sizeof(double));
#if defined(__x86_64__)
  if (has_pairs())
    out->bf16_flop_per_s = best_rate(threads, burn_bfloats, &w, 2.0 * LOOPS * CHAINS * 64 / sizeof(uint16_t));
#endif
  for (unsigned i = 0; i < threads && room; i++)
    room = (w.arrays[i] = tg__alloc(3 * (size_t)ARRAY * sizeof(float))) != NULL;
  if (room) tg__parallel(threads, threads, touch, &w);
  if (room) out->bytes_per_s = best_rate(threads, stream, &w, 3.0 * ARRAY * sizeof(float));
  for (unsigned i = 0; i < threads; i++) tg__free(w.arrays[i]);
  return room && out->fp32_flop_per_s > 0 && out->bytes_per_s > 0;
}
