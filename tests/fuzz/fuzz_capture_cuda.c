/* A buffer of CUPTI: whatever its bytes are and wherever the walk goes, the decoder reads
 * no byte outside of it, counts every record once, and comes to an end. */
#include "capture/cuda.h"

#include <stdlib.h>

static uint8_t *begin, *end;

/* As CUPTI walks: by the size that the kind has, here from the record's own second word; hostile where the input is. */
static int next(uint8_t *buffer, size_t valid, void **record) {
  uint8_t *const at = *record;
  if (!at) {
    *record = buffer;
    return valid ? 0 : 12;
  }
  uint32_t step;
  if (end - at < 8) return 12;
  memcpy(&step, at + 4, sizeof step);
  if (step % 5 == 0) { /* somewhere else altogether */
    *record = at - step % 64;
    return 0;
  }
  *record = at + (step & 1 ? step % 512 : 208);
  return (uint8_t *)*record < end ? 0 : 12;
}

static uint64_t events;

static void take(void *context, const struct tg__cuda_event *e) { events++; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  begin = malloc(size ? size : 1); /* exactly as long as the input: a byte too far is seen */
  if (!begin) return 0;
  memcpy(begin, data, size);
  end = begin + size;
  events = 0;
  const uint64_t unread = tg__cuda_decode(begin, size, next, take, NULL);
  if (events + unread != tg__cuda_count(begin, size, next)) abort();
  free(begin);
  return 0;
}
