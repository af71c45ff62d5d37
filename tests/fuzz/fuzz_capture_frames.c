/* fuzz_capture_frames: any bytes as the file of a recording whose frames are listed: no byte outside of it is read, and
 * the walk comes to an end. */
#include "capture/session.h"

#include <stdlib.h>

struct file {
  const uint8_t *bytes;
  size_t len, frame_bytes;
};

static bool read_bytes(void *ctx, uint64_t offset, void *to, size_t len) {
  const struct file *const f = ctx;
  if (offset > f->len || len > f->len - offset) return false;
  memcpy(to, f->bytes + offset, len);
  return true;
}

static void take(void *ctx, const char *text, size_t len) {
  struct file *const f = ctx;
  f->frame_bytes += len;
  for (size_t i = 0; i < len; i++) f->frame_bytes += text[i] == 0; /* a sanitizer sees what cannot be read */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct file f = {.bytes = data, .len = size};
  const struct tg__reader r = {.read = read_bytes, .ctx = &f, .len = size};
  tg__frames_visit(&r, take, &f);
  if (f.frame_bytes > 2 * size) abort(); /* an entry is given out once */
  return 0;
}
