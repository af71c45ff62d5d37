/* Fuzz target: any bytes as a .tacho file. Checksums are put right first (unless the first byte is odd), or no
 * mutation would get past them. Required: no crash; an error has a text; whatever loads is a valid trace, and
 * saved and opened again it is the same. */
#include "fuzz/packed_file.h"
#include "unit/sample_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct tg__columns *open_and_load(const char *path, uint32_t first) {
  struct tg__columns *t = NULL;
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

static void round_trip(struct tg__columns *t, const char *path) {
  struct tg_error e;
  if (!tg__trace_is_valid(t, &e) || !tg__strings_is_valid(t->strings, &e)) abort();
  if (tg__trace_save(t, path, &e)) abort();
  check_chunks(path);
  struct tg__columns *const back = open_and_load(path, TG__COL_CORE);
  if (!back || sample_differ(t, back)) abort();
  tg__trace_free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  name_files("fuzz_tacho", "");
  if (size < 2) return 0;
  uint8_t *const file = malloc(size);
  if (!file) abort();
  memcpy(file, data + 2, size - 2);
  if (data[0] % 2 == 0) repair(file, size - 2);
  write_file(in, file, size - 2);
  free(file);
  struct tg__columns *const t = open_and_load(in, (uint32_t)data[1] << 3 & TG__COL_ALL);
  if (!t) return 0;
  round_trip(t, out);
  tg__trace_free(t);
  return 0;
}
