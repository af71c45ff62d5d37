/* Errors as values: codes, their sentences, and the one way to fill a struct tg_error. */
#include "base/base.h"

#include <stdio.h>

const char *tg__err_text(enum tg_err code) {
  switch (code) {
#define ERR(name, status, text)                                                                                        \
  case TG_##name:                                                                                                      \
    return text;
#include "tachograph/err.def"
#undef ERR
  default:
    return "unknown error";
  }
}

/* Where the text of `size` bytes ends with a whole word and leaves room for the sign that it was cut. */
static size_t last_word_end(const char *text, size_t size) {
  enum { LONGEST_WORD = 80 };
  const size_t most = size - sizeof "\xe2\x80\xa6";
  size_t end = most;
  while (end > 0 && text[end] != ' ' && most - end < LONGEST_WORD) end--;
  if (end == 0 || text[end] != ' ') end = most;
  while (end > 0 && (text[end] & 0xc0) == 0x80) end--; /* within a character */
  return end;
}

void tg__format_words(char *buf, size_t size, const char *format, va_list args) {
  const int written = vsnprintf(buf, size, format, args);
  if (written < 0) buf[0] = 0;
  if (written >= (int)size) memcpy(buf + last_word_end(buf, size), "\xe2\x80\xa6", sizeof "\xe2\x80\xa6");
}

enum tg_err tg__fail(struct tg_error *e, enum tg_err code, int64_t offset, const char *format, ...) {
  if (!e) return code;
  e->code = code;
  e->offset = offset;
  va_list args;
  va_start(args, format);
  tg__format_words(e->text, sizeof e->text, format, args);
  va_end(args);
  if (!e->text[0]) snprintf(e->text, sizeof e->text, "%s", tg__err_text(code));
  return code;
}

enum tg_err tg__no_memory(struct tg_error *e, const char *format, ...) {
  char doing[sizeof e->text];
  va_list args;
  va_start(args, format);
  tg__format_words(doing, sizeof doing, format, args);
  va_end(args);
  return tg__fail(e, TG_MEMORY, -1, "out of memory while %s", doing);
}
