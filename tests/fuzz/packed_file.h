/* packed_file.h: what fuzz targets of packed files share: bytes with their checksums put right, in a file that goes
 * when the program ends. */
#ifndef TG_PACKED_FILE_H
#define TG_PACKED_FILE_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "format/format.h"

static void repair(uint8_t *file, size_t len) {
  if (len >= TG_GREETING_BYTES) tg__greeting_write(file);
  for (size_t at = TG_GREETING_BYTES; at < len && len - at >= TG_CHUNK_HEAD_BYTES;) {
    uint8_t *const head = file + at, *const payload = head + TG_CHUNK_HEAD_BYTES;
    const uint64_t length = tg__get64(head + 8), left = len - at - TG_CHUNK_HEAD_BYTES;
    const uint64_t there = length < left ? length : left;
    if (tg__get16(head + 2) == TG_CHUNK_RAW_RECORDS && there >= TG_RAW_HEAD_BYTES && tg__get32(payload + 4)) {
      const uint64_t records = (uint64_t)(tg__get32(payload + 4) - 1) * TG_RAW_RECORD_BYTES;
      if (records <= there - TG_RAW_HEAD_BYTES)
        tg__set64(payload + 8, tg__checksum(payload + TG_RAW_HEAD_BYTES, (size_t)records));
    }
    tg__chunk_head_write(head, tg__get16(head + 2), tg__get32(head + 4), tg__get32(head + 24), length,
                         tg__checksum(payload, (size_t)there));
    at += (size_t)tg__chunk_span(there);
  }
}

static void write_file(const char *path, const uint8_t *bytes, size_t len) {
  const int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
  if (fd < 0 || write(fd, bytes, len) != (ssize_t)len || close(fd)) abort();
}

static bool read_at(void *ctx, uint64_t offset, void *to, size_t len) {
  return pread(*(int *)ctx, to, len, (off_t)offset) == (ssize_t)len;
}

/* What we wrote: every chunk is valid, and nothing lies between them. */
static void check_chunks(const char *path) {
  int fd = open(path, O_RDONLY);
  if (fd < 0) abort();
  const struct tg__reader reader = {.read = read_at, .ctx = &fd, .len = (uint64_t)lseek(fd, 0, SEEK_END)};
  struct tg__walk walk;
  struct tg__chunk c;
  struct tg_error e;
  tg__walk_begin(&walk, &reader);
  while (tg__walk_next(&walk, &c)) {
    uint8_t *const payload = malloc((size_t)c.length + 1);
    if (!payload || !read_at(&fd, c.offset + TG_CHUNK_HEAD_BYTES, payload, (size_t)c.length)) abort();
    if (!tg__chunk_is_valid(&c, payload, &e)) abort();
    free(payload);
  }
  if (walk.gaps) abort();
  close(fd);
}

static char in[64], out[64]; /* paths of files of this process */

static void remove_files(void) {
  unlink(in);
  unlink(out);
}

static void name_files(const char *target, const char *suffix) {
  if (in[0]) return;
  snprintf(in, sizeof in, "/tmp/%s.%d.in%s", target, (int)getpid(), suffix);
  snprintf(out, sizeof out, "/tmp/%s.%d.out%s", target, (int)getpid(), suffix);
  atexit(remove_files);
}

#endif
