/* Fuzz target: any bytes as a .tacho file. Checksums are put right first (unless the first byte is odd), or no mutation would get
 * past them. What must hold: no crash; an error has a text; whatever loads is a valid trace, and saved and opened again it is
 * the same. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "format/format.h"
#include "unit/sample_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void repair(uint8_t *file, size_t len) {
  if (len >= TG_GREETING_BYTES) tg__greeting_write(file);
  for (size_t at = TG_GREETING_BYTES; at < len && len - at >= TG_CHUNK_HEAD_BYTES;) {
    uint8_t *const head = file + at, *const payload = head + TG_CHUNK_HEAD_BYTES;
    const uint64_t length = tg__get64(head + 8), left = len - at - TG_CHUNK_HEAD_BYTES;
    const uint64_t there = length < left ? length : left;
    if (tg__get16(head + 2) == TG_CHUNK_RAW_RECORDS && there >= TG_RAW_HEAD_BYTES && tg__get32(payload + 4)) {
      const uint64_t records = (uint64_t)(tg__get32(payload + 4) - 1) * TG_RAW_RECORD_BYTES;
      if (records <= there - TG_RAW_HEAD_BYTES) tg__set64(payload + 8, tg__checksum(payload + TG_RAW_HEAD_BYTES, (size_t)records));
    }
    tg__chunk_head_write(head, tg__get16(head + 2), tg__get32(head + 4), tg__get32(head + 24), length,
                         tg__checksum(payload, (size_t)there));
    at += (size_t)tg__chunk_span(there);
  }
}

static bool write_file(const char *path, const uint8_t *bytes, size_t len) {
  const int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
  const bool written = fd >= 0 && write(fd, bytes, len) == (ssize_t)len;
  if (fd >= 0) close(fd);
  return written;
}

static struct tg_trace *open_and_load(const char *path, uint32_t first) {
  struct tg_trace *t = NULL;
  struct tg_error e = {0};
  enum tg_err err = tg__tacho_open(path, NULL, &t, &e);
  if (err) {
    if (t || !e.text[0] || e.code != err) abort();
    return NULL;
  }
  if (tg__trace_load(t, first, &e) == TG_OK && tg__trace_load(t, TG__COL_ALL, &e) == TG_OK) return t;
  if (!e.text[0]) abort();
  tg__trace_free(t);
  return NULL;
}

static void round_trip(struct tg_trace *t, const char *path) {
  struct tg_error e;
  if (!tg__trace_is_valid(t, &e)) abort();
  if (tg__trace_save(t, path, &e)) abort();
  struct tg_trace *const back = open_and_load(path, TG__COL_CORE);
  if (!back || sample_differ(t, back)) abort();
  tg__trace_free(back);
}

static char in[64], out[64];

static void remove_files(void) {
  unlink(in);
  unlink(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!in[0]) {
    snprintf(in, sizeof in, "/tmp/fuzz_tacho.%d.in", (int)getpid());
    snprintf(out, sizeof out, "/tmp/fuzz_tacho.%d.out", (int)getpid());
    atexit(remove_files);
  }
  if (size < 2) return 0;
  uint8_t *const file = malloc(size);
  if (!file) abort();
  memcpy(file, data + 2, size - 2);
  if (data[0] % 2 == 0) repair(file, size - 2);
  if (!write_file(in, file, size - 2)) abort();
  free(file);
  struct tg_trace *const t = open_and_load(in, (uint32_t)data[1] << 3 & TG__COL_ALL);
  if (!t) return 0;
  round_trip(t, out);
  tg__trace_free(t);
  return 0;
}
