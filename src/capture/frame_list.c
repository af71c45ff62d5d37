/* frame_list: the frames of Python that a recording has in its file so far, for the member of the document that keeps
 * their lines of source. It reads the file and not the tables of the threads, which their owners change. */
#include "capture/session.h"

#include <unistd.h>

enum { ENTRY_ROOM = 4096 }; /* a frame with its folder and function takes 1.6 KiB at most */

static bool read_recorded(void *ctx, uint64_t offset, void *to, size_t len) {
  const int fd = *(const int *)ctx;
  for (size_t done = 0; done < len;) {
    const ssize_t n = pread(fd, (char *)to + done, len - done, (off_t)(offset + done));
    if (n <= 0) return false;
    done += (size_t)n;
  }
  return true;
}

void tg__frames_visit(const struct tg__reader *r, tg_frame_visitor *visit, void *ctx) {
  uint8_t payload[ENTRY_ROOM];
  struct tg__walk walk;
  struct tg__chunk c;
  struct tg__raw_entry entry;
  tg__walk_begin(&walk, r);
  while (tg__walk_next(&walk, &c)) {
    if (c.type != TG_CHUNK_RAW_DICTIONARY || c.cut || c.length > sizeof payload ||
        !r->read(r->ctx, c.offset + TG_CHUNK_HEAD_BYTES, payload, (size_t)c.length) ||
        !tg__chunk_is_intact(&c, payload))
      continue;
    struct tg__bytes b = {.p = payload, .end = payload + c.length};
    const uint32_t kind = tg__bytes_take32(&b);
    tg__bytes_take32(&b);
    while (kind == TG_RAW_D_STACK && tg__raw_entry_take(&b, &entry)) visit(ctx, entry.text.ptr, entry.text.len);
  }
}

void tg__frames_of_file(int fd, tg_frame_visitor *visit, void *ctx) {
  const off_t end = lseek(fd, 0, SEEK_END); /* every read and write of the file names its place */
  const struct tg__reader r = {.read = read_recorded, .ctx = &fd, .len = end > 0 ? (uint64_t)end : 0};
  if (end > 0) tg__frames_visit(&r, visit, ctx);
}
