/* Fuzz target: any bytes as a program file whose symbols are looked up. Required: no crash, the same answer
 * twice, no symbol out of a file that is refused. */
#include <stdint.h>
#include <stdlib.h>

#include "attach/attach.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const names[] = {"Py_AddPendingCall", "mmap"};
  struct tg__elf_file once, again;
  struct tg__file *f;
  struct tg_error e;
  char *const bytes = tg__alloc(size + 1);
  if (!bytes) abort();
  if (size) memcpy(bytes, data, size);
  if (tg__file_keep(bytes, size, &f, &e)) abort();
  const bool is_one = tg__elf_file_read(f, names, 2, &once);
  if (is_one != tg__elf_file_read(f, names, 2, &again) || memcmp(&once, &again, sizeof once) != 0) abort();
  if (!is_one && (once.values[0] || once.values[1])) abort();
  tg__file_close(f);
  return 0;
}
