/* parse_avx2: the event parser with 32-byte scanning. Chosen at run time (tg__scan_events_best); empty on other
 * machines. */
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,bmi"))), apply_to = function)
#else
#pragma GCC target("avx2,bmi")
#endif
#include <immintrin.h>

#include "trace/import.h"

static inline uint32_t mask_of(__m256i bytes) { return (uint32_t)_mm256_movemask_epi8(bytes); }

static inline const char *scan_string(const char *p, bool *ascii) {
  const __m256i quote = _mm256_set1_epi8('"'), escape = _mm256_set1_epi8('\\'), control = _mm256_set1_epi8(0x1f);
  for (;; p += 32) {
    const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)p);
    const uint32_t stop =
        mask_of(_mm256_or_si256(_mm256_or_si256(_mm256_cmpeq_epi8(v, quote), _mm256_cmpeq_epi8(v, escape)),
                                _mm256_cmpeq_epi8(_mm256_min_epu8(v, control), v)));
    const uint32_t high = mask_of(v);
    if (stop) {
      if (high & (stop - 1) & ~stop) *ascii = false;
      return p + __builtin_ctz(stop);
    }
    if (high) *ascii = false;
  }
}

/* Bit i of the result: parity of the bits of x below or at i (so: inside a string, when x marks quotes). */
static inline uint32_t prefix_parity(uint32_t x) {
  x ^= x << 1;
  x ^= x << 2;
  x ^= x << 4;
  x ^= x << 8;
  return x ^ x << 16;
}

static const char *skip_nested_bytes(const char *p, const char *end, size_t depth, bool in_string) {
  for (; p < end; p++) {
    if (in_string) {
      if (*p == '\\')
        p++;
      else if (*p == '"')
        in_string = false;
    } else if (*p == '"')
      in_string = true;
    else if (*p == '[' || *p == '{')
      depth++;
    else if ((*p == ']' || *p == '}') && --depth == 0)
      return p + 1 < end ? p + 1 : NULL;
  }
  return NULL;
}

/* '[' and '{' become 0x7b, ']' and '}' 0x7d when bit 0x20 is set. A backslash anywhere sends us to the byte loop. */
static const char *scan_nested(const char *p, const char *end) {
  const __m256i quote = _mm256_set1_epi8('"'), escape = _mm256_set1_epi8('\\'), fold = _mm256_set1_epi8(0x20);
  const __m256i open = _mm256_set1_epi8(0x7b), close = _mm256_set1_epi8(0x7d);
  size_t depth = 0;
  uint32_t in_string = 0; /* all ones when the block begins inside a string */
  for (; p < end; p += 32) {
    const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)p);
    if (TG_UNLIKELY(mask_of(_mm256_cmpeq_epi8(v, escape)))) return skip_nested_bytes(p, end, depth, in_string != 0);
    const uint32_t inside = prefix_parity(mask_of(_mm256_cmpeq_epi8(v, quote))) ^ in_string;
    const __m256i folded = _mm256_or_si256(v, fold);
    const uint32_t opens = mask_of(_mm256_cmpeq_epi8(folded, open)) & ~inside;
    const uint32_t closes = mask_of(_mm256_cmpeq_epi8(folded, close)) & ~inside;
    for (uint32_t left = opens | closes; left; left &= left - 1) {
      const uint32_t bit = left & (0u - left);
      if (opens & bit)
        depth++;
      else if (--depth == 0) {
        p += __builtin_ctz(bit) + 1;
        return p < end ? p : NULL;
      }
    }
    in_string = (uint32_t)((int32_t)inside >> 31);
  }
  return NULL;
}

#define SCAN tg__scan_events_avx2
#include "trace/parse_event.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
typedef int tg__no_avx2_here;
#endif
