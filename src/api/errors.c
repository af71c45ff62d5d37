/* tachograph/error.h: the sentences of errors, their exit status, the version. Both libraries have it. */
#include "tachograph/error.h"
#include "base/base.h"

const char *tg_version(void) { return TG_VERSION; }
const char *tg_err_text(enum tg_err code) { return tg__err_text(code); }

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
