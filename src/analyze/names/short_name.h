/* short_name.h: names without arguments, template arguments and return type. */
#ifndef TG_SHORT_NAME_H
#define TG_SHORT_NAME_H

#include "base/base.h"

/* buf has room for name.len bytes; the result lies in it or in the name. "void at::native::f<int>(float*)" becomes
 * "at::native::f". */
struct tg__str tg__short_name(struct tg__str name, char *buf);

#endif
