/* Tachograph: errors, shared by tachograph/read.h (reading traces) and tachograph/record.h (making them). */
#ifndef TACHOGRAPH_ERROR_H
#define TACHOGRAPH_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TG_API __attribute__((visibility("default")))
#else
#define TG_API
#endif

/* ---- errors ---------------------------------------------------------------------------------- */

enum tg_err {
#define ERR(name, status, text) TG_##name,
#include "tachograph/err.def"
#undef ERR
  TG_ERR_COUNT
};

struct tg_error {
  enum tg_err code;
  int64_t offset; /* byte of the (unpacked) input the error is about, -1 when there is none */
  char text[480]; /* one sentence: what, where, what to do. NUL-terminated, never empty after a failure */
};

TG_API const char *tg_err_text(enum tg_err code); /* the general sentence of a code */
TG_API int tg_err_status(enum tg_err code);       /* the exit status the command line uses for it */
TG_API const char *tg_version(void);

#ifdef __cplusplus
}
#endif

#endif
