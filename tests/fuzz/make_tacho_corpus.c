/* Writes the corpus of fuzz_tacho into the folder named on the command line: packed and raw files, small, whole and
 * cut. Build it
 * like a unit test and run it when the format changes:  make_tacho_corpus tests/fuzz/corpus/fuzz_tacho */
#include <stdio.h>

#include "unit/raw_file.h"
#include "unit/sample_trace.h"

static const char *folder;

/* The two bytes in front: put the checksums right; which columns to load first. */
static void write_input(const char *name, uint8_t columns, const uint8_t *bytes, size_t len) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *const f = fopen(path, "wb");
  if (!f || fputc(0, f) == EOF || fputc(columns, f) == EOF || fwrite(bytes, 1, len, f) != len || fclose(f)) {
    perror(path);
    exit(1);
  }
}

static void write_packed(const char *name, struct tg__columns *t) {
  char path[512], cut_name[64];
  struct tg_error e;
  snprintf(path, sizeof path, "%s/saved", folder);
  if (tg__trace_save(t, path, &e)) {
    puts(e.text);
    exit(1);
  }
  static uint8_t bytes[1 << 16];
  FILE *const f = fopen(path, "rb");
  const size_t len = f ? fread(bytes, 1, sizeof bytes, f) : 0;
  if (f) fclose(f);
  remove(path);
  write_input(name, 0xff, bytes, len);
  for (int part = 1; part < 4; part++) {
    snprintf(cut_name, sizeof cut_name, "%s-cut%d", name, part);
    write_input(cut_name, (uint8_t)(1 << part), bytes, len - len * (size_t)part / 8);
  }
  tg__trace_free(t);
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  folder = argv[1];
  write_packed("packed", sample_trace());
  struct tg__columns *const empty = sample_empty();
  sample_columns(empty, 0, 0);
  sample_args(empty, "", 0);
  write_packed("empty", empty);
  struct tg__columns *const opaque = sample_trace();
  ((uint8_t *)(uintptr_t)opaque->args)[11] = 1; /* padding that is not zero: stored as it is */
  write_packed("opaque", opaque);
  static struct raw_file raw;
  const size_t open_at = raw_file_make(&raw);
  write_input("raw", 0, raw.bytes, raw.len);
  write_input("raw-cut", 0, raw.bytes, open_at + 70);
  raw_file_make_full(&raw);
  write_input("raw-full", 0, raw.bytes, raw.len);
  raw_file_make_device(&raw);
  write_input("raw-device", 0, raw.bytes, raw.len);
  raw_file_make_driver_memory(&raw);
  write_input("raw-driver-memory", 0, raw.bytes, raw.len);
  raw_file_make_contexts(&raw);
  write_input("raw-contexts", 0, raw.bytes, raw.len);
  raw_file_make_labels(&raw);
  write_input("raw-labels", 0, raw.bytes, raw.len);
  return 0;
}
