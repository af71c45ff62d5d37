/* gate: which requests are answered. Pure functions of the text of a request. */
#ifndef TG_GATE_H
#define TG_GATE_H

#include "base/base.h"

enum { TG__TOKEN_BYTES = 16, TG__TOKEN_TEXT = 2 * TG__TOKEN_BYTES + 1 };

/* Does this name mean only this machine, with any port? */
bool tg__host_is_local(struct tg__str host);
/* No Origin, or the one of a page that came from here. */
bool tg__origin_is_ours(struct tg__str origin, struct tg__str host);
/* The text behind /TOKEN/ in a path: ptr NULL when the token is another one. Takes the same time wherever they
 * differ. */
struct tg__str tg__behind_token(struct tg__str path, const char *token);
/* A path below the folder of pages: letters, digits, - _ . and /, no part that begins with a dot. */
bool tg__path_is_plain(struct tg__str path);
const char *tg__content_type(struct tg__str path); /* by its suffix; NULL: no file of a page */

#endif
