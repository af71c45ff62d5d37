/* short_name: the part of an operator's or kernel's name that identifies it, without arguments, template
 * arguments and return type. The rules are those by which HTA shortens names, so that its tables and ours can be
 * laid side by side. */
#include "analyze/names/short_name.h"

/* The text up to the bracket that `close` belongs to goes; without one all of it goes. */
static uint32_t drop_back_to(const char *text, uint32_t len, char bracket) {
  while (len && text[len - 1] != bracket) len--;
  return len ? len - 1 : 0;
}

struct tg__str tg__short_name(struct tg__str name, char *buf) {
  static const char *const memory[] = {"Memcpy", "Memset", "hipMemcpy", "hipMemset", "dma"};
  for (size_t k = 0; k < sizeof memory / sizeof *memory; k++)
    if (tg__str_has_prefix(name, memory[k])) return name;
  if (!name.len || (!memchr(name.ptr, '<', name.len) && !memchr(name.ptr, '(', name.len))) return name;
  uint32_t len = 0;
  for (uint32_t i = 0; i < name.len; i++) {
    const char c = name.ptr[i];
    if (c == '-' && i + 1 < name.len && name.ptr[i + 1] == '>')
      i++;
    else if (c == '>')
      len = drop_back_to(buf, len, '<');
    else if (c == ')')
      len = drop_back_to(buf, len, '(');
    else
      buf[len++] = c;
  }
  uint32_t start = len;
  while (start && buf[start - 1] != ' ') start--;
  return (struct tg__str){buf + start, len - start};
}
