/* Fuzz target: any bytes as a compressed file. The first byte says in which pieces to read. Required: no
 * crash, a bounded number of reads, the same text whatever the pieces, and after the end or a break the same answer
 * again. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 1 << 18 }; /* a bomb unpacks further than that; more of it finds nothing new and takes time */

struct digest {
  uint64_t hash;
  int64_t bytes, last;
};

static struct digest read_in_pieces(const char *path, size_t piece) {
  static unsigned char buf[1 << 16];
  struct digest d = {.last = -1};
  struct tg__input *in;
  struct tg_error e;
  const enum tg_err err = tg__input_open(path, &in, &e);
  if (err == TG_UNSUPPORTED) return d; /* a build without that codec */
  if (err) abort();
  while (d.bytes < MOST) {
    const size_t left = (size_t)(MOST - d.bytes);
    d.last = tg__input_read(in, buf, left < piece ? left : piece, &e);
    if (d.last <= 0) break;
    for (int64_t i = 0; i < d.last; i++) d.hash = d.hash * 31 + buf[i];
    d.bytes += d.last;
  }
  if (d.last <= 0 && tg__input_read(in, buf, sizeof buf, &e) != d.last) abort();
  if (d.last < 0 && (e.code == TG_OK || e.offset != d.bytes || !e.text[0])) abort();
  tg__input_close(in);
  return d;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static char path[32]; /* of a file in memory, which goes with the process, however that ends */
  static int fd = -1;
  if (!size) return 0;
  if (fd < 0) {
    fd = memfd_create("fuzz_inflate", MFD_CLOEXEC);
    if (fd < 0) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  }
  if (ftruncate(fd, 0) || pwrite(fd, data + 1, size - 1, 0) != (ssize_t)(size - 1)) abort();
  const struct digest whole = read_in_pieces(path, 1 << 16), pieces = read_in_pieces(path, (size_t)data[0] + 1);
  if (whole.last >= 0 && (whole.hash != pieces.hash || whole.bytes != pieces.bytes)) abort();
  return 0;
}
