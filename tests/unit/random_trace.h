/* random_trace: JSON of a random trace, the same for the same seed: threads whose slices nest, streams whose slices
 * overlap, bursts of short slices and slices without length. */
#ifndef TG_RANDOM_TRACE_H
#define TG_RANDOM_TRACE_H

#include "trace/trace.h"

static inline uint32_t random_below(uint64_t *state, uint32_t n) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33) % n;
}

static inline void random_slice(struct tg__out *o, const char *cat, uint32_t name, uint32_t tid, int64_t start_ns,
                                int64_t dur_ns) {
  tg__out_format(o,
                 "%s{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"f%u<int>\",\"pid\":%u,\"tid\":%u,\"ts\":%lld.%03lld,"
                 "\"dur\":%lld.%03lld,\"args\":{}}",
                 o->len > 1 ? ",\n" : "", cat, name, tid < 100 ? 1 : 0, tid, (long long)(start_ns / 1000),
                 (long long)(start_ns % 1000), (long long)(dur_ns / 1000), (long long)(dur_ns % 1000));
}

/* Slices inside [start, end), nested `depth` deep at most; returns how many. */
static inline uint32_t random_nest(struct tg__out *o, uint64_t *seed, uint32_t tid, int64_t start, int64_t end,
                                   unsigned depth, uint32_t budget) {
  uint32_t made = 0;
  int64_t at = start;
  while (at < end && made < budget) {
    const int64_t room = end - at, most = random_below(seed, 3) ? room / 8 + 1 : 40;
    int64_t dur = random_below(seed, (uint32_t)(most < 1000000 ? most : 1000000));
    if (random_below(seed, 20) == 0) dur = 0;
    if (dur > room) dur = room;
    random_slice(o, random_below(seed, 4) ? "cpu_op" : "python_function", random_below(seed, 40), tid, at, dur);
    made++;
    if (depth && dur > 4 && random_below(seed, 2))
      made += random_nest(o, seed, tid, at, at + dur, depth - 1, budget - made);
    at += dur + (random_below(seed, 3) ? 0 : random_below(seed, 50));
    if (dur == 0) at++;
  }
  return made;
}

static inline void random_trace_text(struct tg__out *o, uint64_t seed, uint32_t slices, int64_t length_ns) {
  tg__out_char(o, '[');
  for (uint32_t tid = 1; tid <= 2; tid++) random_nest(o, &seed, tid, 1000, 1000 + length_ns, tid == 1 ? 6 : 0, slices);
  for (uint32_t tid = 100; tid <= 102; tid++) /* streams: 101 overlaps now and then, 102 always */
    for (uint32_t i = 0; i < slices / 4; i++) {
      const int64_t each = length_ns / (slices / 4) + 1, start = 1000 + (int64_t)i * each;
      const int64_t most = tid == 100 ? each : tid == 101 ? each + each / 3 : 300 * each;
      random_slice(o, random_below(&seed, 5) ? "kernel" : "gpu_memcpy", random_below(&seed, 30), tid,
                   start + random_below(&seed, 3) % each,
                   tid == 100 ? random_below(&seed, (uint32_t)(most > 3 ? most - 2 : 1))
                              : random_below(&seed, (uint32_t)most));
    }
  tg__out_char(o, ']');
}

static inline struct tg__columns *random_trace(uint64_t seed, uint32_t slices, int64_t length_ns) {
  struct tg__out o = {0};
  struct tg__columns *t = NULL;
  struct tg_error e;
  random_trace_text(&o, seed, slices, length_ns);
  if (tg__trace_open_bytes(o.buf, o.len, 1, 0, false, &t, &e)) t = NULL;
  tg__out_free(&o);
  return t;
}

#endif
