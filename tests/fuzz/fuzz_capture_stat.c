/* Fuzz target: any text as the line of the system about a process. Required: no byte behind its end is read, and what
 * is taken for a process has a number. */
#include <stdint.h>
#include <stdlib.h>

#include "capture/process_family.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct tg__relative x = {0};
  int64_t parent;
  char *const text = malloc(size + 1);
  if (!text) abort();
  if (size) memcpy(text, data, size);
  text[size] = 0;
  if (tg__relative_parse(text, 100, &x, &parent) && x.pid <= 0) abort();
  free(text);
  return 0;
}
