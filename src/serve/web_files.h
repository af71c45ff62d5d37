/* web_files: the files of web/, from a folder or from inside the program. */
#ifndef TG_WEB_FILES_H
#define TG_WEB_FILES_H

#include "show/show.h"

/* The bytes of a file, appended to *out; false: there is none of this name. folder NULL: of those inside the
 * program. */
bool tg__web_read(const char *folder, struct tg__str path, struct tg__out *out);

#endif
