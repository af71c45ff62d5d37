/* cpu_features: which vectors this CPU has and this system saves, by CPUID. Compilers offer __builtin_cpu_supports, but
 * the runtime of the one that builds wheels lacks its table. */
#include "base/base.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* Of XCR0, what the system saves at a switch of tasks: bits 1 and 2 for AVX, 5 to 7 also for AVX-512. */
static unsigned read_saved_state(void) {
  unsigned low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

unsigned tg__cpu_features(void) {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return 0;
  const unsigned saved = read_saved_state();
  if ((saved & 0x06) != 0x06 || !(c & bit_AVX)) return 0;
  unsigned features = c & bit_FMA ? TG__CPU_FMA : 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return features;
  if (b & bit_AVX2) features |= TG__CPU_AVX2;
  if (b & bit_BMI) features |= TG__CPU_BMI;
  if ((saved & 0xe6) != 0xe6) return features;
  if (b & bit_AVX512F) features |= TG__CPU_AVX512F;
  if (b & bit_AVX512BW && b & bit_AVX512VL) features |= TG__CPU_AVX512BW_VL;
  return features;
}
#else
unsigned tg__cpu_features(void) { return 0; }
#endif
