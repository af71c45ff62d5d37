/* Tachograph: errors and the version, shared by tachograph/read.h (reading traces) and tachograph/record.h (making
 * them). */
#ifndef TACHOGRAPH_ERROR_H
#define TACHOGRAPH_ERROR_H

#include "tachograph/types.h"

#ifdef __cplusplus
extern "C" {
#endif

TG_API const char *tg_err_text(enum tg_err code); /* the general sentence of a code */
TG_API int tg_err_status(enum tg_err code);       /* the exit status the command line uses for it */
TG_API const char *tg_version(void);

#ifdef __cplusplus
}
#endif

#endif
