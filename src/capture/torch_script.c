/* torch_script: which modules of TorchScript run on the calling thread, from torch itself. The result is a C++ vector
 * of strings; it is returned as C returns a structure of that size, and freed here. */
#include "capture/torch.h"

enum { STRING_BYTES = 32, AT_LENGTH = 8, AT_SHORT = 16 }; /* std::string: text, length, a short text's bytes */

size_t tg__torch_script_modules(char *text, size_t room) {
  size_t len = 0;
  const struct tg__torch_texts list = tg__torch_symbols.module_hierarchy();
  for (uint8_t *string = list.first; string < list.end; string += STRING_BYTES) {
    uint8_t *const bytes = (uint8_t *)(uintptr_t)tg__at64(string);
    const size_t count = tg__at64(string + AT_LENGTH);
    if (len + count + 1 <= room) {
      memcpy(text + len, bytes, count);
      text[len + count] = '.';
      len += count + 1;
    }
    if (bytes != string + AT_SHORT) tg__torch_symbols.delete(bytes);
  }
  if (list.first) tg__torch_symbols.delete(list.first);
  return len;
}
