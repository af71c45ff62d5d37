/* Memory that the process holds, for tests that look whether it grows. */
#ifndef HELD_H
#define HELD_H

#include <stdint.h>
#include <stdio.h>

/* Bytes that only this process has, counted page by page: /proc/self/statm is rounded per core, and has the pages of
 * programs, which come and go with what else the machine needs memory for. */
static inline int64_t held_bytes(void) {
  char line[256];
  long kib;
  int64_t sum = 0;
  FILE *const f = fopen("/proc/self/smaps_rollup", "r");
  if (!f) return -1;
  while (fgets(line, sizeof line, f))
    if (sscanf(line, "Anonymous: %ld", &kib) == 1 || sscanf(line, "Swap: %ld", &kib) == 1) sum += kib * 1024;
  (void)fclose(f);
  return sum;
}

#endif
