/* Errors as values: codes, their sentences, and the one way to fill a struct tg_error. And what version this is. */
#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>

const char *tg_version(void) { return TG_VERSION; }

const char *tg_err_text(enum tg_err code) {
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

int tg_err_status(enum tg_err code) {
  switch (code) {
#define ERR(name, status, text)                                                                                        \
  case TG_##name:                                                                                                      \
    return status;
#include "tachograph/err.def"
#undef ERR
  default:
    return 5;
  }
}

enum tg_err tg__fail(struct tg_error *e, enum tg_err code, int64_t offset, const char *format, ...) {
  if (!e) return code;
  e->code = code;
  e->offset = offset;
  va_list args;
  va_start(args, format);
  const int written = vsnprintf(e->text, sizeof e->text, format, args);
  va_end(args);
  if (written <= 0) snprintf(e->text, sizeof e->text, "%s", tg_err_text(code));
  return code;
}

enum tg_err tg__no_memory(struct tg_error *e, const char *format, ...) {
  char doing[sizeof e->text];
  va_list args;
  va_start(args, format);
  vsnprintf(doing, sizeof doing, format, args);
  va_end(args);
  return tg__fail(e, TG_MEMORY, -1, "out of memory while %s", doing);
}
